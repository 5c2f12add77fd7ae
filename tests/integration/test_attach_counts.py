"""What heft attach records of a real program, to the unit: attach_target.c calls nothing that the test did not tell
it to. heft's own way in is used here; test_attach.py has the same with a stand-in, and how recordings end."""

import os

import pytest

from attach_harness import Attached, Target, may_trace
from harness import HEFT, check_sums, run


pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")


@pytest.fixture
def target(compiled, tmp_path):
    made = Target(compiled("attach_target.c", flags=["-ldl"]), tmp_path)
    yield made
    made.end()


def test_older_blocks(target):
    """As in test_attach.py: 10 older blocks, of which 4 are resized and 6 freed; 5 new ones."""
    target.do("alloc 10 100")
    heft = Attached(target, heft=HEFT)
    target.do("realloc 4 500", "free 6", "alloc 5 1000", "free 2", "realloc 1 700")
    heft.signal()
    heft.end()
    target.do("alloc 3 7", "free 2")
    rep = heft.report()
    check_sums(rep)
    t = rep["totals"]
    assert (t["allocations"], t["frees"], t["reallocations"]) == (4 + 5, 2, 1)
    assert t["allocated_bytes"] == 4 * 500 + 5 * 1000 + 200
    assert (t["live_bytes"], t["live_blocks"]) == (500 + 700 + 5000, 7)
    assert (t["older_frees"], t["unknown_frees"], t["dropped"]) == (6, 0, 0)
    assert rep["end"] == "detached"


def test_again_and_again(target):
    """Each recording has what was called while it lasted, and the blocks of the one before are older ones."""
    for i in range(1, 6):
        target.do("alloc 2 10")
        heft = Attached(target, heft=HEFT, path=target.folder / f"{i}.heft")
        target.do(f"alloc {i} 10", "free 1")
        assert run([HEFT, "detach", target.pid]).returncode == 0
        heft.end()
        t = heft.report()["totals"]
        assert (t["allocations"], t["frees"], t["older_frees"]) == (i, 0, 1)


def test_the_program_executes_another(target):
    """What heft had put into it is gone: there is nothing to leave, and that is no failure."""
    heft = Attached(target, heft=HEFT)
    target.do("alloc 3 10")
    target.tell("exec /bin/cat")
    assert "executed another program" in heft.end()
    assert heft.report()["totals"]["allocations"] == 3
    target.tell("hello")
    assert target.line() == "hello"


def test_the_program_exits(target):
    heft = Attached(target, heft=HEFT)
    target.do("alloc 3 10")
    target.tell("exit 3")
    heft.end()
    rep = heft.report()
    assert (rep["end"], rep["exit_status"], rep["totals"]["left_blocks"]) == ("exit", 3, 3)


def test_forked_children(target):
    """A child of its own heap, and what it frees of its parent's is not counted."""
    target.do("alloc 8 10")
    heft = Attached(target, heft=HEFT)
    target.do("alloc 4 10")
    target.tell("fork")
    assert target.line() == "child"
    target.do("free 5", "alloc 2 100")
    target.tell("exit 0")
    assert target.line() == "ok"
    heft.signal()
    heft.end()
    rep = heft.report()
    assert [p["totals"]["allocations"] for p in rep["processes"]] == [4, 2]
    assert (rep["totals"]["frees"], rep["totals"]["unknown_frees"]) == (0, 0)
    assert os.path.exists(f"/proc/{target.pid}")


def test_threads_that_end(target):
    """libc frees what it had kept for a thread when that ends: blocks that the program has freed before."""
    target.do("threads 1 1")  # what libc makes once for threads is older
    heft = Attached(target, heft=HEFT)
    for _ in range(3):
        target.do("threads 10 40")
    heft.signal()
    heft.end()
    t = heft.report()["totals"]
    assert (t["frees"], t["older_frees"], t["unknown_frees"]) == (t["allocations"] - t["live_blocks"], 0, 0)
    assert t["frees"] >= 30
