"""Statistics, regions and expectations of heft.h against numbers worked out by hand (tests/programs/asks_regions.c)."""

import json
import os
import re
import signal

import pytest

from harness import BUILD, HEFT, PROGRAMS, REPOSITORY, allocator_library, report, run

LIBRARY = BUILD / "libheft-preload.so"
MODES = ["preloaded", "counted", "recorded"]
FIELDS = ("allocations", "reallocations", "frees", "allocated_bytes", "freed_bytes", "live_bytes", "live_blocks",
          "peak_bytes")


@pytest.fixture(scope="module")
def program(compiled):
    return compiled("asks_regions.c", flags=[f"-I{REPOSITORY}/include"])


def ask(program, mode, folder, *words, allocator=None):
    env = {"LD_PRELOAD": allocator} if allocator else {}
    if mode == "preloaded":
        env = {"LD_PRELOAD": f"{LIBRARY}:{allocator or ''}", "HEFT_MODE": "count"}
        return run([program, *words], env=env, cwd=folder)
    how = ["--count"] if mode == "counted" else ["-o", folder / "r.heft", "--force"]
    return run([HEFT, "run", "-q", *how, "--", program, *words], env=env, cwd=folder)


def said(done):
    """What the program printed: by name, the return value and the numbers."""
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    return {w[0]: (int(w[1]), *map(int, w[2:])) for w in lines if len(w) in (2, 10)}


# return value, allocations, reallocations, frees, allocated, freed, live bytes, live blocks, peak
NESTED = {"inner": (0, 2, 1, 1, 300, 350, -50, 1, 300),
          "outer": (0, 4, 1, 5, 8177, 9177, -1000, -1, 7827),
          "ended": (0, 4, 1, 5, 8177, 9177, -1000, -1, 7827)}
CASES = {
    "nested": NESTED,
    "process": NESTED,
    "overlapping": {"first": (0, 2, 0, 0, 210, 0, 210, 2, 210), "second": (0, 2, 0, 3, 3200, 3210, -10, -1, 2990)},
    "functions": {"made": (0, 12, 0, 0, 5448282, 0, 5448282, 12, 5448282),
                  "freed": (0, 12, 3, 12, 6448281, 6448281, 0, 0, 6448281)},
    "threads": {f"thread{i}": (0, 20001, 0, 20000, 10 + 20000 * 100 * (i + 1), 20000 * 100 * (i + 1), 10, 1,
                               10 + 100 * (i + 1)) for i in range(8)},
    "generations": {"last": (0, 1, 0, 1, 1000, 1000, 0, 0, 1000)},
    "forks": {"child": (0, 2, 0, 1, 1100, 100, 1000, 1, 1100), "parent": (0, 1, 0, 0, 100, 0, 100, 1, 100)},
    "handed": {"mine": (0, 1, 0, 0, 500, 0, 500, 1, 500)},
    "all": {"process": (0,) * 9, "thread": (0,) * 9},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_regions(program, tmp_path, case, mode):
    done = ask(program, mode, tmp_path, case)
    assert done.returncode == 0, done.stderr
    got = said(done)
    assert got.pop("running") == (1 if mode == "recorded" else 3,)
    got.pop("main", None)
    if case == "handed":
        numbers = dict(zip(FIELDS, got.pop("all")[1:]))
        assert numbers["freed_bytes"] >= 500 and numbers["live_bytes"] < 500
    assert got == CASES[case]


@pytest.mark.parametrize("allocator", ["libjemalloc.", "libmimalloc.", "libtcmalloc_minimal."])
@pytest.mark.parametrize("mode", ["preloaded", "recorded"])
@pytest.mark.parametrize("case", ["nested", "process", "overlapping", "threads"])
def test_other_allocators(program, tmp_path, case, mode, allocator):
    done = ask(program, mode, tmp_path, case, allocator=allocator_library(allocator))
    assert done.returncode == 0, done.stderr
    got = said(done)
    got.pop("running"), got.pop("main", None)
    assert got == CASES[case]


@pytest.mark.parametrize("mode", MODES)
def test_misuse_is_refused(program, tmp_path, mode):
    done = ask(program, mode, tmp_path, "misuse")
    assert done.returncode == 0, done.stderr
    assert {name: values[0] for name, values in said(done).items() if name != "running"} == {
        "never_begun": -1, "bad_scope": -1, "twice": -1, "old_copy": -1, "many": 32, "again": 0, "same": 0, "end": 0}


def test_without_heft(program, tmp_path):
    for case in (*CASES, "misuse", "unchecked", "odd", "callback", "abort", "stops"):
        done = run([program, case], cwd=tmp_path)
        assert done.returncode == 0, (case, done.stderr)
        assert b"running 0\n" in done.stdout
        assert all(values[0] <= 0 for values in said(done).values())


def line_with(text):
    lines = (PROGRAMS / "asks_regions.c").read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("mode", MODES)
def test_expectations(program, tmp_path, mode):
    fails, fails_too = line_with("HEFT_EXPECT_LE(&r, live_blocks, 3)"), line_with("HEFT_EXPECT_EQ(&r, frees, 1)")
    done = ask(program, mode, tmp_path, "callback")
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    assert f"asks_regions.c:{fails}: region rows: live_blocks is 10, expected at most 3\n" in text
    assert f"asks_regions.c:{fails_too}: region rows: frees is 0, expected 1\n" in text
    assert text.count("expected") == 2
    site = rf"10  parse_row at .*asks_regions.c:{line_with('keep(malloc(64))')}\n"
    assert len(re.findall(site, text)) == (2 if mode == "recorded" else 0), text
    assert ("records call sites and names them here" in text) == (mode != "recorded")
    assert "expectations at" not in text  # the block from before the region

    done = ask(program, mode, tmp_path, "abort")
    assert done.returncode in (-signal.SIGABRT, 128 + signal.SIGABRT)
    assert f"asks_regions.c:{fails}: region rows: live_blocks is 10" in done.stderr.decode()
    assert "frees is" not in done.stderr.decode()


@pytest.mark.parametrize("mode", MODES)
def test_expectations_that_cannot_be_checked(program, tmp_path, mode):
    """They fail, too: a test must not pass because its region is none."""
    done = ask(program, mode, tmp_path, "unchecked")
    assert done.returncode == 0, done.stderr
    why = "cannot be checked: this is no region that was begun, or another thread began it"
    assert [line.split("asks_regions.c:", 1)[1] for line in done.stdout.decode().splitlines() if "heft:" in line] == [
        f"{line_with('1000); /* never begun */')}: allocations {why}",
        f"{line_with('1000); /* by another thread */')}: allocations {why}",
        f"{line_with('1000); /* too many */')}: frees {why}"]


def test_odd_names_and_places(program, tmp_path):
    text = ask(program, "counted", tmp_path, "odd").stdout.decode()
    assert "heft: far.c:12345: region \\x1b[31mred\\x0a\\x9b2J ä: allocations is 1, expected at most 0\n" in text


def test_sites_of_a_peak_and_of_nothing(program, tmp_path):
    text = ask(program, "recorded", tmp_path, "peaks").stdout.decode()
    assert re.search(r"peak_bytes is 64, expected at most 63\n +64 B  parse_row at [^\n]*\nheft: ", text), text
    assert re.search(r"allocations is 0, expected 1\n +\(no call site has any in this region\)\n$", text), text


def test_stopped(program, tmp_path):
    done = ask(program, "recorded", tmp_path, "stops")
    assert done.returncode == 0, done.stderr
    recording = report(tmp_path / "r.heft")
    totals = recording["totals"]
    assert (totals["allocations"], totals["frees"], totals["allocated_bytes"]) == (2, 2, 33)
    assert (totals["unknown_frees"], totals["live_blocks"]) == (0, 0)
    assert re.search(r"process \d+ freed 1000 and resized 0 blocks that it had allocated while it had stopped",
                     run([HEFT, "report", tmp_path / "r.heft"]).stdout.decode())


def test_dump(program, tmp_path):
    copy = tmp_path / "copy.heft"
    done = ask(program, "recorded", tmp_path, "dump", copy)
    assert done.returncode == 0, done.stderr
    assert b"sound up to byte" in run([HEFT, "verify", copy]).stdout
    before = copy.read_bytes()
    done = ask(program, "recorded", tmp_path, "dump", copy)  # it exists
    assert done.returncode == 7 and copy.read_bytes() == before
    assert ask(program, "counted", tmp_path, "dump", tmp_path / "other").returncode == 7
    assert not (tmp_path / "other").exists()


# ---- heft run --count


def test_count_of_several_processes(program, tmp_path):
    out = tmp_path / "counts.json"
    done = run([HEFT, "run", "--count", "-o", out, "--", "/bin/sh", "-c", f"{program} forks; {program} nested; exit 3"])
    assert done.returncode == 3, done.stderr
    document = json.loads(out.read_text())
    mine = [p for p in document["processes"] if p["program"].endswith("/asks_regions")]
    # The forking one, its child, which counts from the fork on, and the other one
    assert sorted((p["totals"]["allocations"], p["totals"]["frees"], p["totals"]["live_bytes"]) for p in mine) == [
        (1, 1, 0), (1, 2, -100), (5, 5, 0)]
    assert document["totals"]["allocations"] == sum(p["totals"]["allocations"] for p in document["processes"])
    assert "counted, not recorded" in done.stderr.decode()
    assert re.search(r"\n  largest peak  .*\n  left at exit  .* in .* blocks?\n", done.stderr.decode())
    assert run([HEFT, "run", "--count", "-o", out, "--", "true"]).returncode == 125  # it exists


def test_count_of_many_generations(program, tmp_path):
    """Each child is forked by the one before. The first has 5000 bytes for a moment, the last one 1000."""
    out = tmp_path / "counts.json"
    done = run([HEFT, "run", "-q", "--count", "-o", out, "--", program, "generations"])
    assert done.returncode == 0, done.stderr
    processes = [p["totals"] for p in json.loads(out.read_text())["processes"]]
    assert len(processes) == 101
    assert sorted(p["peak_bytes"] for p in processes) == [0] * 99 + [1000, 5000]


def test_name_of_the_numbers(tmp_path):
    names = "c.%e.%p.%%.json"
    done = run([HEFT, "run", "-q", "--count", "-o", names, "--", "/bin/sh", "-c", "echo $$"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [p.name for p in tmp_path.iterdir()] == [f"c.{os.path.basename('/bin/sh')}.{int(done.stdout)}.%.json"]
    assert run([HEFT, "run", "--count", "-o", tmp_path, "--", "touch", tmp_path / "ran"]).returncode == 125
    assert not (tmp_path / "ran").exists()  # where the numbers cannot go, nothing is run


def test_count_and_exec(tmp_path):
    out = tmp_path / "counts.json"
    done = run([HEFT, "run", "-q", "--count", "-o", out, "--", "/usr/bin/env", "-i", "/usr/bin/python3", "-c",
                "import os; x = bytearray(1 << 20); os.execv('/bin/ls', ['ls', '/'])"])
    assert done.returncode == 0, done.stderr
    programs = [(p["program"].rsplit("/", 1)[1], p["cut"]) for p in json.loads(out.read_text())["processes"]]
    assert [name[:6] for name, _ in programs] == ["python", "env", "ls"] or \
        sorted(name[:6] for name, _ in programs) == ["env", "ls", "python"]
    assert not any(cut for _, cut in programs)


@pytest.mark.parametrize("words, text", [(["--sample"], "--sample"), (["--via=entry"], "--via=entry"),
                                         (["--listen", ":0"], "records nothing"), (["--leaks"], "records nothing")])
def test_count_goes_with_few_options(words, text):
    done = run([HEFT, "run", "--count", *words, "--", "true"])
    assert done.returncode == 125 and text in done.stderr.decode()
