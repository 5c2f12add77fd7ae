"""heft is attached to programs that are at work, and leaves them, again and again. What must hold after each round
is in tests/programs/attach_rounds.py; tests/campaign does the same for longer."""

import os
import sys

import pytest

from attach_harness import may_trace
from attach_rounds import KINDS, MISSING, attach_again, make_life, play_round
from harness import HEFT, check_sums, end_group, report, run, start

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
ROUNDS = 10


@pytest.mark.parametrize("kind", KINDS)
def test_rounds(kind, compiled, tmp_path):
    if MISSING.get(kind):
        pytest.skip(MISSING[kind])
    life = make_life(kind, compiled, tmp_path)
    try:
        rounds = [play_round(life, i, keep=i == ROUNDS - 1) for i in range(ROUNDS)]
        life.end()
    finally:
        life.stop()
    assert [r.left for r in rounds if r.left] == []
    attached = [r for r in rounds if not r.refused]
    if attached and attached[-1] is rounds[-1]:
        rep = report(rounds[-1].path)
        check_sums(rep)
        t = rep["totals"]
        assert t["allocations"] > 0 and (t["unknown_frees"], t["dropped"]) == (0, 0)
        assert rep["end"] == "detached" and run([HEFT, "verify", rounds[-1].path]).returncode == 0
    if kind != "vfork":
        assert len(attached) == ROUNDS


@pytest.mark.parametrize("kind", ["blocked", "throws"])
def test_again_at_once(kind, compiled, tmp_path):
    """30 recordings, one right after the other: nothing is left of any, in the program nor in its children."""
    life = make_life(kind, compiled, tmp_path)
    try:
        attach_again(life, 30)
        life.end()
    finally:
        life.stop()


def test_starved(compiled, tmp_path):
    """The program gets a hundredth of one processor: its only thread is hardly ever where it can be stopped."""
    burner = [sys.executable, "-c", "while True: pass"]
    processor = min(os.sched_getaffinity(0))
    burners = [start(burner, preexec_fn=lambda: os.sched_setaffinity(0, {processor})) for _ in range(3)]
    life = make_life("vectors", compiled, tmp_path)
    try:
        os.sched_setaffinity(life.pid, {processor})
        if os.getpriority(os.PRIO_PROCESS, 0) > 10:  # the burners are nice themselves
            os.sched_setscheduler(life.pid, os.SCHED_IDLE, os.sched_param(0))
        os.setpriority(os.PRIO_PROCESS, life.pid, 19)
        life.steps = 1
        for i in range(4):
            play_round(life, i)
        for process in burners:
            end_group(process)
        life.end()
    finally:
        life.stop()
        for process in burners:
            end_group(process)
            process.communicate()
