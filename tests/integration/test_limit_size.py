"""heft run --limit-size: the recording ends when it has its size, the program does not."""

import pytest

from harness import HEFT, check_sums, report, run
from live_harness import Service

LIMIT = 64 << 10


def test_the_program_goes_on(compiled, tmp_path):
    path = tmp_path / "limited.heft"
    service = Service([HEFT, "run", f"--limit-size={LIMIT}", "-o", path, "--", compiled("service.c")])
    passed = 0
    while not path.exists() or path.stat().st_size < LIMIT:
        # Sizes that differ: what repeats takes next to no room.
        for size in range(1, 2000, 7):
            service.do(f"pass 100 {size}")
            passed += 100
    service.do("pass 1000 5555")  # some of it before the recorder looks again, most of it after
    for _ in range(20):
        assert service.do("pass 100000 100") == ["passed", "100000"]
    service.tell("exit 3")
    out, err = service.process.communicate(timeout=60)
    assert service.process.returncode == 3
    assert b"reached its limit of 64.0 KiB (--limit-size)" in err
    assert run([HEFT, "verify", path]).returncode == 0
    assert LIMIT <= path.stat().st_size < 1.5 * LIMIT
    rep = report(path)
    assert rep["end"] == "detached"
    assert any("reached its limit of 64.0 KiB" in n["text"] for n in rep["notes"]), rep["notes"]
    assert b"reached its limit of 64.0 KiB" in run([HEFT, "report", path]).stdout
    seen = sum(s["allocations"] for s in rep.sites_calling("keep_block"))
    assert 0 < seen < passed + 1000 + 20 * 100000


# Stacks and sizes that differ: what repeats takes next to no room.
CHURN = """
import json
kept = []
for i in range(200000):
    kept.append(json.loads('{"a": [' + str(i) + ', "' + "x" * (i % 600) + '"]}'))
    if i % 3 == 0:
        kept.pop(i % len(kept))
"""


@pytest.mark.parametrize("limit", [20 << 10, 100 << 10, 250 << 10])
def test_the_size_is_near_the_limit(record, limit):
    """Not only what is written at once a second counts, and what the end adds does. Every moment of what is
    there can be asked for, and has what was allocated up to then."""
    done, rep = record(["/usr/bin/python3", "-c", CHURN], opts=[f"--limit-size={limit}"])
    assert done.returncode == 0
    assert run([HEFT, "verify", rep.path]).returncode == 0
    assert 0.95 * limit <= rep.path.stat().st_size <= limit + (32 << 10)
    assert rep["end"] == "detached" and rep["complete"]
    check_sums(rep)
    # A moment shortly before the peak (times have steps of 2,048 ns), which may have come by a realloc; not a share
    # of the time: where the program waits for a processor, all events may lie in the first part of it.
    moment = f'{rep["totals"]["peak_time_ns"] - 3 * 2048}ns'
    part = report(rep.path, "--at", moment)["totals"]
    window = report(rep.path, "--to", moment)["totals"]
    assert part == window and 0 < part["allocations"] <= rep["totals"]["allocations"]
    assert part["allocations"] - part["frees"] == part["live_blocks"] > 0
    assert 0 < part["live_bytes"] <= part["peak_bytes"] < rep["totals"]["peak_bytes"]


def test_less_than_a_recording_needs(tmp_path):
    path = tmp_path / "small.heft"
    done = run([HEFT, "run", "--limit-size=1", "-o", path, "--", "/usr/bin/python3", "-c", CHURN])
    assert done.returncode == 0
    assert b"--limit-size is too small for a useful recording: heft uses 16 KiB" in done.stderr
    assert b"reached its limit of 16.0 KiB" in done.stderr
    assert 15 << 10 <= path.stat().st_size <= 40 << 10


@pytest.mark.parametrize("value", ["0", "much", "-1"])
def test_wrong_sizes(value):
    done = run([HEFT, "run", f"--limit-size={value}", "--", "true"])
    assert done.returncode == 125 and b"--limit-size needs a size" in done.stderr


def test_a_program_that_stays_below(record, compiled):
    done, rep = record([compiled("sampled_heap.c"), "mixed", 100], opts=["--limit-size=1G"])
    assert done.returncode == 0 and rep["end"] == "exit"
