"""The kernel kills a program for lack of memory, in a memory cgroup that is made for this test and
removed after it. What it had then is in the recording and is served, with the reason and the limit,
and heft, outside the cgroup, lives."""

import os
import pathlib
import re
import signal
import struct
import uuid

import pytest

from harness import HEFT, report, run, wait_until
from live_harness import Agent, Service, session_env

LIMIT = 96 << 20


class Group:
    """A memory cgroup of its own, version 1 or 2."""

    def __init__(self):
        one, two = pathlib.Path("/sys/fs/cgroup/memory"), pathlib.Path("/sys/fs/cgroup")
        if (one / "memory.limit_in_bytes").exists():
            self.path, limit = one, "memory.limit_in_bytes"
        elif "memory" in (two / "cgroup.controllers").read_text().split():
            self.path, limit = two, "memory.max"
            try:
                (two / "cgroup.subtree_control").write_text("+memory")
            except OSError:
                pass  # then it is there already, or the next line says so
        else:
            raise OSError("no memory controller")
        self.path = self.path / f"heft-test-{uuid.uuid4().hex[:8]}"
        self.path.mkdir()
        (self.path / limit).write_text(str(LIMIT))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        def gone():
            for pid in (self.path / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            try:
                self.path.rmdir()
            except OSError:
                return False
            return True
        wait_until(gone, 20, "the cgroup is empty")


@pytest.fixture
def group():
    try:
        made = Group()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")
    yield made
    made.remove()


def tally_of(path):
    return struct.unpack("<QQ", path.read_bytes()[:16])


def check(rep, tally):
    """The reason, the limit, and numbers that agree with the program's own."""
    live, _ = tally
    assert (rep["end"], rep["signal"]) == ("signal", 9)
    assert rep["oom_killed"] is True
    sites = rep.sites_calling("grow_block")
    error = sum(s["live_bytes_error95"] ** 2 for s in sites) ** 0.5
    assert abs(sum(s["live_bytes"] for s in sites) - live) <= 6 / 1.96 * error + 100000
    assert 0.6 * LIMIT < live < 1.2 * LIMIT
    text = run([HEFT, "report", rep.path]).stdout.decode()
    assert "killed by the kernel: out of memory (limit of its cgroup: 96.0 MiB)" in " ".join(text.split())


def test_under_run(group, compiled, tmp_path):
    path, tally = tmp_path / "oom.heft", tmp_path / "tally"
    enter = f'echo $$ > {group.path}/cgroup.procs; exec "$0"'
    service = Service([HEFT, "run", "--sample=64k", "-o", path, "--", "/bin/sh", "-c", enter,
                       compiled("service.c")])
    service.tell(f"grow {tally}")
    out, err = service.process.communicate(timeout=120)
    assert service.process.returncode == 137, err.decode()
    assert "killed by the kernel: out of memory" in err.decode()
    check(report(path), tally_of(tally))


def test_under_the_agent(group, compiled, tmp_path):
    agent, tally = Agent(tmp_path), tmp_path / "tally"
    service = Service([compiled("service.c")], env=session_env(agent.dir, "64k"),
                      preexec_fn=group.enter)
    service.do("keep 1 1000")
    agent.heap(service.pid)
    service.tell(f"grow {tally}")
    assert service.process.wait(timeout=120) == -9
    how, saved = agent.ended(service.pid)
    assert how == "killed by the kernel: out of memory (limit of its cgroup: 96.0 MiB)"
    check(saved, tally_of(tally))
    assert agent.process.poll() is None
    served = agent.heap(service.pid)
    assert served["totals"]["live_bytes"] == saved["totals"]["live_bytes"]
    assert re.search(r"killed by the kernel: out of memory", agent.get("")[1].decode())
    service.process.communicate()
    agent.close()


def test_an_ordinary_kill_is_not_taken_for_one(group, compiled, tmp_path):
    agent = Agent(tmp_path)
    service = Service([compiled("service.c")], env=session_env(agent.dir, "64k"),
                      preexec_fn=group.enter)
    service.do("keep 10 100000")
    agent.heap(service.pid)
    service.end(sig=signal.SIGKILL)
    assert agent.ended(service.pid)[0] == "killed by signal 9 (SIGKILL)"
    agent.close()
