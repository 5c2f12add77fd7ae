"""heft attach is killed at random moments, while it attaches and while it leaves: the program goes on, its guardian
takes out what was put in and ends, and the next attach works. tests/campaign does it 500 times."""

import random

import pytest

from attach_harness import may_trace
from attach_rounds import check_after_kill, kill_guardian_round, kill_round, make_life, play_round, time_of_round

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
KILLS, GUARDIAN_KILLS = 10, 8


@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("kind", ["throws", "family"])
def test_killed(kind, leaving, compiled, tmp_path):
    """10 kills of each program, spread over the time that attaching or leaving takes."""
    life = make_life(kind, compiled, tmp_path)
    chance = random.Random(f"{kind} {leaving}")
    try:
        # The shortest of three: after a span that a busy machine made long, every kill would come too late.
        span = min(time_of_round(life)[leaving] for _ in range(3))
        under_way = 0
        for i in range(KILLS):
            under_way += kill_round(life, chance.random() * span * (1.2 if leaving else 1.5), leaving) is not None
            check_after_kill(life)
        assert under_way > 0
        play_round(life, 0)
        life.end()
    finally:
        life.stop()


def test_killed_and_attached_at_once(compiled, tmp_path):
    """Nobody waits for the guardian of the one that was killed: the next heft attaches, or says who is there."""
    life = make_life("throws", compiled, tmp_path)
    life.may_refuse = r"is attached to process \d+ already|is being recorded already|is already traced"
    chance = random.Random(7)
    try:
        span = time_of_round(life)[0]
        for i in range(5):
            kill_round(life, chance.random() * span * 1.5, False)
            play_round(life, i)
        life.end()
    finally:
        life.stop()


@pytest.mark.parametrize("kind", ["vectors", "threads"])
def test_guardian_killed(kind, compiled, tmp_path):
    """The guardian is killed within 10 ms after it has stopped the first thread: that thread makes heft's calls and
    runs heft's function then, and goes on where it was. The next heft removes what is left."""
    life = make_life(kind, compiled, tmp_path)
    chance = random.Random(kind)
    try:
        killed = 0
        for _ in range(GUARDIAN_KILLS):
            killed += kill_guardian_round(life, chance.random() * 0.01)
        assert killed > 0
        life.end()
    finally:
        life.stop()
