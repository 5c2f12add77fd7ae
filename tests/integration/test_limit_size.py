"""heft run --limit-size: the recording ends when it has its size, the program does not."""

import pytest

from harness import HEFT, report, run
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
    assert LIMIT <= path.stat().st_size < 4 * LIMIT
    rep = report(path)
    assert rep["end"] == "detached"
    assert any("reached its limit of 64.0 KiB" in n["text"] for n in rep["notes"]), rep["notes"]
    assert b"reached its limit of 64.0 KiB" in run([HEFT, "report", path]).stdout
    seen = sum(s["allocations"] for s in rep.sites_calling("keep_block"))
    assert 0 < seen < passed + 1000 + 20 * 100000


@pytest.mark.parametrize("value", ["0", "much", "-1"])
def test_wrong_sizes(value):
    done = run([HEFT, "run", f"--limit-size={value}", "--", "true"])
    assert done.returncode == 125 and b"--limit-size needs a size" in done.stderr


def test_a_program_that_stays_below(record, compiled):
    done, rep = record([compiled("sampled_heap.c"), "mixed", 100], opts=["--limit-size=1G"])
    assert done.returncode == 0 and rep["end"] == "exit"
