"""heft attach to programs in a sandbox (seccomp): heft reads the filter, and makes no call in the program that the filter
does not allow. A program that is killed for a call of heft's would be the worst that could happen."""

import os
import pathlib
import subprocess

import pytest

from attach_harness import Attached, Lines, Target, may_trace
from harness import HEFT, line_of, run, start

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")


class Locked(Target):
    """attach_locked.c"""

    def __init__(self, program, how, folder, **others):
        self.folder = folder
        self.process = start([program, how], stdin=subprocess.PIPE, **others)
        self.pid = self.process.pid
        self.lines = Lines(self.process.stdout)
        assert self.line() == "ready"

    def maps(self):
        return pathlib.Path(f"/proc/{self.pid}/maps").read_text()


@pytest.fixture
def locked(compiled, tmp_path):
    made = []

    def begin(how, **others):
        made.append(Locked(compiled("attach_locked.c", flags=["-pthread"]), how, tmp_path, **others))
        return made[-1]

    yield begin
    for target in made:
        target.end()


def sites(rep, mark):
    return [s for s in rep["sites"] if s["stack"][0].get("line") == line_of("attach_locked.c", mark)]


@pytest.mark.parametrize("how", ["kill", "errno", "none"])
def test_a_filter(locked, how):
    """3,000 stacks of its own, and a thread that has no filter: all of it is recorded, and the program lives."""
    if os.geteuid():
        pytest.skip("only root can read a filter")
    target = locked(how)
    target.do("alloc 10 100", "deep 3000", "thread 5")  # its heaps and stacks are there
    before = target.maps()
    heft = Attached(target, heft=HEFT)
    target.do("alloc 1000 100", "deep 3000", "thread 500")
    heft.signal()
    heft.end()
    rep = heft.report()
    assert sum(s["allocations"] for s in sites(rep, "make")) == 1500
    assert sum(s["allocations"] for s in sites(rep, "deep")) == 3000
    assert rep["totals"]["dropped"] == 0
    code = [line for line in before.splitlines() if " r-xp " in line]
    assert [line for line in target.maps().splitlines() if " r-xp " in line] == code  # nothing of heft's stays
    target.do("alloc 10 100", "deep 100")


def test_a_filter_sampled(locked):
    if os.geteuid():
        pytest.skip("only root can read a filter")
    target = locked("kill")
    heft = Attached(target, "--sample=1k", heft=HEFT)
    target.do("alloc 1000 1000", "deep 3000", "thread 500")
    heft.signal()
    heft.end()
    assert sites(heft.report(), "make")
    target.do("alloc 10 100")


def refused(target, **others):
    done = run([HEFT, "attach", "-o", target.folder / "refused.heft", target.pid], cwd=target.folder, **others)
    assert done.returncode == 1, done.stderr
    target.do("alloc 10 100")
    return done.stderr.decode()


def test_no_time_stamps(locked):
    """Before anything is hooked, heft sees that its first record would be the program's end."""
    target = locked("tsc")
    assert "time stamp counter" in refused(target)


def test_a_filter_that_allows_too_little(locked):
    """Without mmap no thread could be recorded. Nothing is put into the program."""
    if os.geteuid():
        pytest.skip("only root can read a filter")
    said = refused(locked("unmapped"))
    assert "does not allow mmap" in said and "heft run" in said


def test_a_user_cannot_look(locked, public_heft, compiled, tmp_path):
    """Only root may read a filter. Without that, nothing is tried."""
    if os.geteuid():
        assert "Run heft as root" in refused(locked("kill"))
        return

    def as_nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

    target = locked("kill", preexec_fn=as_nobody)
    done = run([public_heft, "attach", "-o", "/dev/shm/refused.heft", target.pid], preexec_fn=as_nobody)
    words = done.stderr.decode()
    assert done.returncode == 1 and "sandbox (seccomp)" in words and "Run heft as root" in words, words
    target.do("alloc 10 100")
