"""The peak of several sampled processes: the greatest sum at one instant. Blocks are thousands of times
the rate, so every one is sampled and the sums are exact; when each is there is settled by pipes and
wait (tests/programs/sampled_children.c). What libc and the loader have of their own is small."""

import json
import re
import subprocess

import pytest

from harness import HEFT, report

MIB = 1 << 20
PARENT, CHILD = 3 * MIB, 8 * MIB
RATE = ["--sample=1k"]


@pytest.fixture(scope="session")
def children(compiled):
    return compiled("sampled_children.c")


def peak_of(record, command):
    done, rep = record(command, opts=RATE)
    assert done.returncode == 0, done.stderr
    assert rep["mode"] == "sample"
    for name in "peak_bytes", "peak_blocks":
        assert sum(s[name] for s in rep["sites"]) == rep["totals"][name]
    assert subprocess.run([HEFT, "verify", rep.path], capture_output=True, check=False).returncode == 0
    return rep


def held(rep, function):
    return sum(s["peak_bytes"] for s in rep.sites_calling(function))


def check(rep, parent, child, images, other=0):
    """Exactly these blocks are at the peak, and next to nothing else."""
    assert len(rep.images()) == images
    assert (held(rep, "hold_parent"), held(rep, "hold_child")) == (parent, child)
    assert 0 <= rep["totals"]["peak_bytes"] - parent - child - other < 0.25 * MIB


@pytest.mark.parametrize("end", ["exit", "_exit", "kill"])
def test_children_in_turn(record, children, end):
    """Twenty children have 160 MiB in all, but never more than 8 at a time."""
    rep = peak_of(record, [children, "turns", "20", end])
    check(rep, PARENT, CHILD, 21)
    own = [p["totals"]["peak_bytes"] for p in rep["processes"]]
    assert own[0] >= PARENT and all(CHILD <= n < CHILD + 0.25 * MIB for n in own[1:])


@pytest.mark.parametrize("end", ["exit", "_exit", "kill"])
def test_children_that_overlap(record, children, end):
    """Each begins before the one before it has let go: two at a time, of ten."""
    check(peak_of(record, [children, "pairs", "10", end]), PARENT, 2 * CHILD, 11)


def test_many_short_children(record, children):
    """More than the recorder keeps in mind: what the first ones had together is not forgotten."""
    rep = peak_of(record, ["sh", "-c", f"{children} groups 1 4; {children} turns 60 exit; "
                                       f"{children} turns 60 exit; {children} pairs 20 exit"])
    assert (held(rep, "hold_parent"), held(rep, "hold_child")) == (PARENT, 4 * CHILD)


def test_groups(record, children):
    """Four at a time, five times over."""
    check(peak_of(record, [children, "groups", "5", "4"]), PARENT, 4 * CHILD, 21)


def test_programs_in_turn(record, children):
    """One process that executes itself again and again has what one image has."""
    rep = peak_of(record, [children, "chain", "10"])
    check(rep, 0, CHILD, 10)
    process, = rep["processes"]
    assert process["totals"]["peak_bytes"] == rep["totals"]["peak_bytes"]
    # Selected by its pid it is the same ten images.
    alone = report(rep.path, "--pid", str(rep["pid"]))
    assert alone["totals"]["peak_bytes"] == rep["totals"]["peak_bytes"]


def test_one_child_by_itself(record, children):
    rep = peak_of(record, [children, "groups", "1", "4"])
    for p in rep["processes"][1:]:
        alone = report(rep.path, "--pid", str(p["pid"]))
        assert (held(alone, "hold_parent"), held(alone, "hold_child")) == (0, CHILD)
        assert sum(s["peak_bytes"] for s in alone["sites"]) == alone["totals"]["peak_bytes"]


@pytest.mark.parametrize("at, row, order", [("peak", "peak", "peak"), ("exit", "left at exit", "left")])
def test_a_moment_has_its_errors(record, children, at, row, order):
    """What the whole report says of a moment, with +-, the report of that moment says too."""
    rep = peak_of(record, [children, "turns", "2", "kill"])

    def text(*options):
        done = subprocess.run([HEFT, "report", *options, rep.path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def row_of(out):
        """bytes, +-, share and samples"""
        (line,) = [line for line in out.splitlines() if re.search(r" hold_child at ", line)]
        return line.split(" hold_child at ")[0].split()

    whole, then = text("--sort", order), text("--at", at)
    said = re.search(rf"^  {row} +(\S+ MiB \+- \S+ [KM]?i?B in [\d,]+ \+- [\d,]+ blocks?)", whole, re.M)
    assert said, whole
    assert re.search(r"^  live +(.*)$", then, re.M)[1] == said[1]
    assert re.search(r"^ +live +\+-95 % +share +count +samples +site$", then, re.M), then
    assert row_of(then)[:6] == row_of(whole)[:6] and row_of(then)[-1] == row_of(whole)[6]
    named = json.loads(text("--json", "--at", at))["totals"]
    moment = {"peak": "peak", "exit": "left"}[at]
    for what in ("bytes", "blocks"):
        assert named[f"live_{what}"] == rep["totals"][f"{moment}_{what}"]
        assert named[f"live_{what}_error95"] == rep["totals"][f"{moment}_{what}_error95"]


def test_exports_have_the_same_peak(record, children):
    rep = peak_of(record, [children, "pairs", "4", "exit"])
    folded = subprocess.run([HEFT, "export", "-f", "folded", "-o", "-", rep.path], capture_output=True,
                            text=True, timeout=60, check=True).stdout
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == rep["totals"]["peak_bytes"]


def test_a_cut_recording(record, children, tmp_path):
    """Without the block that holds the peak of all, what each process tells is still enough here: all
    kept what they had up to their end."""
    rep = peak_of(record, [children, "groups", "2", "4"])
    whole = open(rep.path, "rb").read()
    # The last blocks are the peak's, the tally's, the index and the end: the file is cut before them.
    starts = [i for i in range(len(whole)) if whole.startswith(b"HBLK", i)]
    peak = max(i for i in starts if whole[i + 4] == 11)
    cut = tmp_path / "cut.heft"
    cut.write_bytes(whole[:peak])
    shown = report(cut)
    assert (held(shown, "hold_parent"), held(shown, "hold_child")) == (PARENT, 4 * CHILD)
    assert sum(s["peak_bytes"] for s in shown["sites"]) == shown["totals"]["peak_bytes"]


def test_processes_in_turn_are_no_growth(record, children):
    """Each fills a table at an even pace and ends. That eight of them did so one after the other is no leak of
    anyone, though the parent was killed, which lets even growth count as growth without end."""
    done, rep = record([children, "tasks", "8"], opts=RATE)
    assert done.returncode == 137, done.stderr
    assert len(rep["processes"]) == 9
    assert [f["summary"] for f in rep["findings"] if f["kind"] == "growing-site"] == []
    # One at a time, each a hundred blocks: the parent's and one child's.
    check(rep, PARENT, 0, 9, other=100 * 50000)
    assert held(rep, "fill_table") == 100 * 50000


def test_one_of_several_that_grows(record, children):
    """A child that lives nearly as long as the recording, in the same way, is reported."""
    done, rep = record([children, "tasks", "1"], opts=RATE)
    assert done.returncode == 137, done.stderr
    found = [f for f in rep["findings"] if f["kind"] == "growing-site"]
    assert [f["evidence"]["function"] for f in found] == ["fill_table"]
    assert found[0]["evidence"]["pid"] == rep["processes"][1]["pid"]
    assert found[0]["evidence"]["processes"] == 1
