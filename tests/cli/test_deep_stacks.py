"""What is written of deep recursion (tests/programs/deep_recursion.c) is bounded, says what it left out,
and adds up. The program allocates 100 bytes at each 10th of 6,000 levels: 600 sites, 60,000 bytes."""

import csv
import gzip
import io
import json
import re
import subprocess

import pytest

import harness

DEPTH, STEP = 6000, 10
SITES = DEPTH // STEP
MODES = ("self", "mutual", "mixed")


@pytest.fixture(scope="session")
def deep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deep")
    program = folder / "deep_recursion"
    subprocess.run(["gcc", *harness.C_FLAGS, "-o", program, harness.PROGRAMS / "deep_recursion.c"],
                   check=True)
    made = {}

    def of(mode):
        if mode not in made:
            made[mode] = folder / f"{mode}.heft"
            done = harness.run([harness.HEFT, "run", "-q", "-o", made[mode], "--", program, mode,
                                str(DEPTH), str(STEP)])
            assert done.stdout == f"blocks {SITES}\n".encode(), done.stderr
        return made[mode]
    return of


def frames_of(site):
    return [(f["function"], f["line"]) for f in site["stack"]]


def unfolded(site):
    """The parts of the stack on both sides of the cut, every repetition written out."""
    frames = frames_of(site)
    counted = {r["at"]: r for r in site["stack_recursion"]}

    def expand(first, end, inside=None):
        out, at = [], first
        while at < end:
            r = counted.get(at)
            if r and at != inside:
                out += expand(at, at + r["frames"], at) * r["times"]
                at += r["frames"]
            else:
                inside = None
                out.append(frames[at])
                at += 1
        return out
    cut = site.get("stack_cut", {"at": len(frames), "frames": 0})
    return expand(0, cut["at"]), expand(cut["at"], len(frames)), cut["frames"]


@pytest.mark.parametrize("mode", MODES)
def test_json_says_how_the_whole_stack_was(deep, heft, mode):
    short = json.loads(heft("report", "--json", deep(mode)).out)
    whole = json.loads(heft("report", "--json", "--full", deep(mode)).out)
    stacks = {s["id"]: frames_of(s) for s in whole["sites"]}
    own = [s for s in short["sites"] if s["stack"][0]["function"] == "take"]
    assert len(own) == SITES and len(short["sites"]) == len(whole["sites"])
    folded = 0
    for site in own:
        frames = stacks[site["id"]]
        assert len(site["stack"]) <= 256
        if len(frames) <= 256:
            assert frames_of(site) == frames and "stack_depth" not in site
            continue
        folded += 1
        assert site["stack_depth"] == len(frames)
        assert site["stack_omitted"] == len(frames) - len(site["stack"])
        inner, outer, cut = unfolded(site)
        assert inner == frames[:len(inner)] and outer == frames[len(frames) - len(outer):]
        assert len(inner) + cut + len(outer) == len(frames)
        assert (cut > 0) == ("stack_cut" in site)
    assert folded >= SITES - 256 / STEP
    for key in ("peak_bytes", "live_bytes", "allocations"):
        assert sum(s[key] for s in short["sites"]) == short["totals"][key]


def test_recursion_is_one_entry(deep, heft):
    report = json.loads(heft("report", "--json", deep("self")).out)
    (deepest,) = [s for s in report["sites"] if s.get("stack_depth", 0) > DEPTH]
    (call,) = [n for n, f in enumerate(frames_of(deepest))
               if f == ("self", harness.line_of("deep_recursion.c", "deep.self"))]
    # The innermost self() is at the line that allocates, all others at the line of the call.
    assert deepest["stack_recursion"] == [{"at": call, "frames": 1, "times": DEPTH - 1}]
    report = json.loads(heft("report", "--json", deep("mutual")).out)
    (deepest,) = [s for s in report["sites"] if s.get("stack_depth", 0) > DEPTH]
    (cycle,) = deepest["stack_recursion"]
    assert (cycle["frames"], cycle["times"]) == (3, (DEPTH - 1) // 3)


@pytest.mark.parametrize("form", ["pprof", "dhat", "massif", "heaptrack", "folded", "flamegraph",
                                  "speedscope", "csv", "json"])
@pytest.mark.parametrize("mode", MODES)
def test_every_format_is_bounded(deep, heft, tmp_path, mode, form):
    """600 stacks of 3,000 frames on average are 1.8 million frames; at most 256 * 600 are written."""
    out = tmp_path / "out"
    done = heft("export", "-f", form, "-q", "-o", out, deep(mode))
    assert done.status == 0, done
    written = out.read_bytes()
    if form == "pprof":
        written = gzip.decompress(written)
    # Massif indents: a line of its tree is up to 200 columns longer than a frame. And it has several
    # trees, how many depends on when the blocks were made.
    most = 256 * SITES * {"json": 300, "massif": 1200}.get(form, 20)
    assert len(written) < (most if mode == "mixed" else most / 10), len(written)
    mark = {"heaptrack": None, "json": b'"stack_depth"', "massif": b"[frames cut]",
            "csv": b"frames cut]" if mode == "mixed" else b"[recursion x"}.get(
        form, b"[frames cut]" if mode == "mixed" else b"[recursion]")
    if mark and not (form == "flamegraph" and mode == "mixed"):  # too narrow to be drawn there
        assert mark in written


@pytest.mark.parametrize("options", [[], ["--invert"], ["--full"]])
@pytest.mark.parametrize("mode", MODES)
def test_folded_adds_up(deep, heft, mode, options):
    lines = heft("export", "-q", "-f", "folded", "-o", "-", *options, deep(mode)).out.splitlines()
    own = [line.rsplit(" ", 1) for line in lines if ";take " in line or line.startswith("take;")]
    assert sum(int(value) for _, value in own) == SITES * 100
    longest = max(stack.count(";") + 1 for stack, _ in own)
    if options == ["--full"]:
        assert longest > DEPTH and len(own) == SITES
    else:
        assert longest <= 2 * 256  # marks stand between
    if mode == "self" and not options:
        ((stack, value),) = own
        assert stack.endswith("main;[recursion];self;self;take") and int(value) == 60000


def test_csv_of_every_site(deep, heft):
    rows = list(csv.DictReader(io.StringIO(
        heft("export", "-q", "-f", "csv", "-o", "-", deep("mutual")).out)))
    own = [r for r in rows if r["function"] == "take"]
    assert len(own) == SITES and sum(int(r["peak_bytes"]) for r in own) == SITES * 100
    marks = {m for r in own for m in re.findall(r"\[recursion x(\d+) of 3\];first;second;third", r["stack"])}
    assert str((DEPTH - 1) // 3) in marks


def test_compact(deep, heft):
    """Frames once, stacks as their numbers: the same stacks."""
    plain = json.loads(heft("report", "--json", deep("mixed")).out)
    compact = json.loads(heft("report", "--json", "--compact", deep("mixed")).out)
    assert len(compact["sites"]) == len(plain["sites"])
    for a, b in zip(plain["sites"], compact["sites"]):
        assert "stack" not in b
        assert frames_of(a) == frames_of({"stack": [compact["frames"][n] for n in b["stack_frames"]]})
        assert a.get("stack_cut") == b.get("stack_cut")
    assert heft("report", "--compact", deep("mixed")).status == 2


def test_diff_is_bounded(deep, heft):
    done = heft("diff", "--json", deep("self"), deep("mixed"))
    assert done.status == 0 and len(done.out) < 256 * SITES * 250
    assert all(len(c["stack"]) <= 256 for c in json.loads(done.out)["changes"])
    assert heft("diff", "--json", "--full", deep("self"), deep("mixed")).status == 0
