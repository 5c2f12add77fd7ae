"""heft is attached to programs that are at work, and leaves them, again and again. What must hold after each round
is in tests/programs/attach_rounds.py; tests/campaign does the same for longer."""

import pytest

from attach_rounds import KINDS, MISSING, make_life, play_round
from harness import check_sums, report, run, HEFT

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
