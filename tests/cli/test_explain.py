"""`heft report --explain N`: why a finding is reported, what was measured, and what would have made it silent.
The second half takes it at its word: a program that is changed as it says is not reported."""

import json
import re

import pytest

import harness
from harness import compiled  # noqa: F401


@pytest.fixture(scope="module")
def small(compiled, tmp_path_factory):
    """20,000 blocks of 9 bytes: glibc takes 32 for each, 23 of them for itself."""
    path = tmp_path_factory.mktemp("explain") / "small.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", compiled("slack_shapes.c"), "small"])
    assert done.returncode == 0, done.stderr
    return path


def test_text(heft, small):
    done = heft("report", "--explain", "1", small)
    assert done.status == 0, done
    text = done.out
    assert "Rule of allocator-rounding" in text and "Top " not in text
    table = text[text.index("Conditions"):text.index("Any one of these")]
    for measured, limit, beyond, what in (
            ("9 bytes", "at most 512 bytes", "56.9 x", "bytes in a block on average"),
            ("71.9 %", "at least 25.0 %", "2.88 x", "share of rounding and headers in what the blocks take"),
            ("20,000", "at least 1,000", "20 x", "blocks at the peak"),
            ("449.2 KiB", "at least 64.0 KiB", "7.02 x", "bytes of rounding and headers")):
        assert re.search(rf"{re.escape(measured)} +{re.escape(limit)} +{re.escape(beyond)} +{re.escape(what)}",
                         " ".join(table.split())), table
    reversed_ = [line.strip("- ") for line in text[text.index("Any one of these"):].splitlines()
                 if line.startswith("  - ")]
    assert reversed_[0].startswith("share of rounding and headers")  # the nearest
    assert "bytes of rounding and headers: less than 64.0 KiB instead of 449.2 KiB" in reversed_
    assert "blocks at the peak: fewer than 1,000 instead of 20,000" in reversed_
    assert "Why it is medium\n  449.2 KiB is 2" in text  # of a heap of some 180 KB
    assert max(len(line) for line in text.splitlines()) <= 100


def test_json(heft, small):
    report = json.loads(heft("report", "--json", small).out)
    (finding,) = report["findings"]
    assert finding["rule"].startswith("The allocator takes")
    conditions = {c["what"]: c for c in finding["conditions"]}
    lost = conditions["bytes of rounding and headers"]
    assert (lost["measured"], lost["limit"], lost["unit"], lost["comparison"]) == (460000, 65536, "bytes", "at-least")
    assert abs(lost["margin"] - 460000 / 65536) < 1e-6
    assert lost["silent_if"] == "bytes of rounding and headers: less than 64.0 KiB instead of 449.2 KiB"
    mean = conditions["bytes in a block on average"]
    assert (mean["measured"], mean["limit"], mean["comparison"]) == (9, 512, "at-most")
    assert json.loads(heft("report", "--json", "--explain", "1", small).out)["findings"] == [finding]
    for c in finding["conditions"]:
        assert c["measured"] >= c["limit"] if c["comparison"] == "at-least" else c["measured"] <= c["limit"]


def test_refusals(heft, small):
    none = heft("report", "--explain", "2", small)
    assert none.status == 1 and not none.out and "there is no finding 2" in none.err and "1 finding" in none.err
    for value in "0", "x", "-1", "":
        assert heft("report", "--explain", value, small).status == 2
    for part in ["--from", "10%"], ["--focus", "main"], ["--pid", "1"], ["--at", "peak"], ["--tree"]:
        done = heft("report", "--explain", "1", *part, small)
        assert done.status == 2 and not done.out, part


@pytest.mark.parametrize("count, size, kinds", [
    (20000, 9, ["allocator-rounding"]),
    (2850, 9, ["allocator-rounding"]),  # 2,850 x 23 = 65,550 bytes: just enough
    (2849, 9, []),                      # 65,527: the condition reversed
    (20000, 120, [])])                  # 12.3 % instead of a quarter
def test_taken_at_its_word(compiled, heft, tmp_path, count, size, kinds):
    path = tmp_path / "again.heft"
    done = heft("run", "-q", "-o", path, "--", compiled("slack_shapes.c"), "blocks", str(count), str(size))
    assert done.status == 0, done
    assert [f["kind"] for f in json.loads(heft("report", "--json", path).out)["findings"]] == kinds
