"""What a program had allocated before heft was attached to it: attach_target.c allocates what the test tells it and
nothing else, so the numbers are known to the unit. tests/unit/test_older_blocks.c has every kind of block."""

import glob
import os
import pathlib
import re
import time

import pytest

from attach_harness import Attached, Target, may_trace
from harness import HEFT, check_sums, children_of, run, wait_until

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")


@pytest.fixture(autouse=True)
def guardians_end():
    """What looks after the program ends a moment after heft."""
    yield

    def attached(pid):
        try:
            return b"\0attach\0" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    wait_until(lambda: not any(attached(pid) for pid in children_of(os.getpid())))


@pytest.fixture
def target(compiled, tmp_path):
    made = Target(compiled("attach_target.c", flags=["-ldl"]), tmp_path)
    yield made
    made.end()


def before(heft):
    """What heft said: "about ", "at least " or "", blocks, arenas, mappings."""
    line = next(line for line in heft.said if line.startswith("heft: before: "))
    said = re.match(r"heft: before: (about |at least |).+ in ([\d,]+) blocks? in (\d+) arenas?(?: and (\d+) mappings?)? "
                    r"\(\d+ % of the heap is free\)$", line)
    assert said, line
    # Where the first read took long, on a busy machine, it is not read again in the freeze: "about".
    return said[1].replace("about ", ""), int(said[2].replace(",", "")), int(said[3]), int(said[4] or 0)


def attach_once(target, name):
    heft = Attached(target, heft=HEFT, path=target.folder / name)
    heft.signal()
    heft.end()
    return heft


def test_totals(target):
    """1,000 blocks of 100 and 5 of 300,000 bytes come, which glibc maps; 400 of the first go again. The program
    waits, so the number is exact."""
    # It has not called malloc yet; what is there is libc's.
    exact, blocks, arenas, mappings = before(attach_once(target, "0.heft"))
    assert (exact, arenas) == ("", 1) and blocks < 10
    target.do("alloc 1000 100", "alloc 5 300000")
    assert before(attach_once(target, "1.heft")) == ("", blocks + 1005, arenas, mappings + 5)
    target.do("free 400")
    heft = attach_once(target, "2.heft")
    assert before(heft) == ("", blocks + 605, arenas, mappings + 5)
    # The recording says it too, with the sizes: 600 of 104 usable bytes, 5 that fill their pages.
    said = next(n["text"] for n in heft.report()["notes"] if n["text"].startswith("before: "))
    assert re.search(r"up to 128 B: [\d.]+ KiB in 6\d\d\b", said), said
    assert re.search(r"up to 512.0 KiB: 1.4 MiB in 5\b", said), said


def free_slowly(target, count):
    for _ in range(count // 5):
        target.do("free 5")
        time.sleep(0.005)


def test_list(target):
    """1,000 blocks of 100 bytes are older and listed, beside what libc has. 400 of them are freed, 100 resized to
    500; 50 new ones come; 200 more older ones are freed. They go slowly, and in the order in which they came: that is
    no queue."""
    target.do("alloc 1000 100", "alloc 5 300000")
    heft = Attached(target, "--older", heft=HEFT)
    free_slowly(target, 400)
    target.do("realloc 100 500", "alloc 50 1000")
    free_slowly(target, 200)
    heft.signal()
    said = heft.end()
    listed = int(re.search(r"listed ([\d,]+) blocks", said)[1].replace(",", ""))
    assert listed == before(heft)[1] and listed >= 1005
    rep = heft.report()
    check_sums(rep)
    t = rep["totals"]
    assert (t["allocations"], t["frees"], t["reallocations"]) == (listed + 50, 600, 100)
    assert (t["older_frees"], t["unknown_frees"], t["dropped"]) == (0, 0, 0)
    older, = [s for s in rep["sites"] if s["stack"][0]["function"] == "before heft was attached"]
    assert (older["allocations"], older["live_blocks"]) == (listed, listed - 700)
    # 104 bytes of a block of 100 are usable; a mapping of 300,000 bytes has 74 pages, less its header.
    libc = older["allocated_bytes"] - 1000 * 104 - 5 * (74 * 4096 - 16)
    assert libc >= 0 and (listed > 1005) == (libc > 0)
    assert older["live_bytes"] == older["allocated_bytes"] - 700 * 104
    assert t["live_bytes"] == older["live_bytes"] + 100 * 500 + 50 * 1000
    assert rep["findings"] == []
    assert run([HEFT, "verify", heft.path]).returncode == 0
    text = run([HEFT, "report", heft.path]).stdout.decode()
    assert "blocks from before are a site of their own" in text and "before heft was attached" in text


def test_list_with_threads(target):
    """Threads have arenas of their own, and blocks go from one to the other."""
    target.do("threads 100 10", "alloc 200 10")
    heft = Attached(target, "--older", heft=HEFT)
    target.do("threads 200 10", "threads 200 10", "free 100")
    heft.signal()
    heft.end()
    t = heft.report()["totals"]
    assert (t["older_frees"], t["unknown_frees"]) == (0, 0)
    assert t["live_blocks"] == t["allocations"] - t["frees"]


def test_list_needs_every_allocation(target):
    done = run([HEFT, "attach", "--older", "--sample", target.pid], cwd=target.folder)
    assert done.returncode == 2 and b"--older needs every allocation" in done.stderr
    assert not glob.glob(str(target.folder / "*.heft"))


def test_another_allocator(compiled, tmp_path):
    libraries = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if not libraries:
        pytest.skip("libjemalloc is not installed")
    target = Target(compiled("attach_target.c", flags=["-ldl", "-Wl,--no-as-needed", libraries[0]],
                             output="jemalloc_target"), tmp_path)
    try:
        heft = attach_once(target, "0.heft")
        assert "heft: before: not known: its allocator is not glibc's" in heft.said
    finally:
        target.end()
    assert os.path.exists(tmp_path / "0.heft")
