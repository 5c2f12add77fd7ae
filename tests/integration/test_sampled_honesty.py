"""Sampled recordings of real programs against exact ones, and what is said about how far estimates may
be believed: errors, few samples, ages, growth, differences, limits, and the same numbers in other
tools' formats.

Numbers are held to four standard errors. A sound estimate misses that in one of 16,000 cases: then, and
only then, the program is recorded once more. A biased one misses it again."""

import csv
import io
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import BUILD, HEFT, run
from test_export_tools import pprof

STANDARD_ERRORS = 4 / 1.959964


def record(path, command, rate=None, status=0, env=None):
    sample = [f"--sample={rate}"] if rate else []
    done = subprocess.run([HEFT, "run", "-q", "--force", *sample, "-o", path, "--", *map(str, command)],
                          capture_output=True, timeout=120, env={**os.environ, **(env or {})}, check=False)
    assert done.returncode == status, done.stderr
    return path


def report(path, *options):
    done = subprocess.run([HEFT, "report", "--json", *options, path], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def text(*command):
    done = subprocess.run([HEFT, *map(str, command)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LC_ALL": "C"}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def named(rep, function):
    sites = [s for s in rep["sites"] if function in [f["function"] for f in s["stack"]]]
    assert len(sites) == 1, (function, len(sites))
    return sites[0]


def misses(numbers, truth):
    """What is further than four standard errors from the truth: name, estimate, truth, error. A truth is
    a number, or the least and the most that it can be."""
    found = []
    for name, true in truth.items():
        least, most = true if isinstance(true, tuple) else (true, true)
        allowed = STANDARD_ERRORS * numbers[f"{name}_error95"] + 1
        if not least - allowed <= numbers[name] <= most + allowed:
            found.append((name, numbers[name], true, numbers[f"{name}_error95"]))
    return found


def hold(sample, truth):
    """sample() makes another estimate."""
    numbers = sample()
    missed = misses(numbers, truth)
    if missed:
        missed = misses(sample(), truth)
    assert not missed
    return numbers


# ---- real programs

def program(name, tmp_path):
    if name == "csv_rows":
        table = tmp_path / "table.csv"
        table.write_bytes(run([BUILD / "examples" / "csv_make"]).stdout)
        return [BUILD / "examples" / "csv_rows", table]
    if name == "connections":
        # 600 blocks of 40 bytes among larger ones: at 1 KiB about 24 samples of them. A number of blocks
        # hangs on the smallest, and is certain only if those have samples enough.
        return [BUILD / "examples" / "connections", "A", "600"]
    commands = {
        "sqlite3": ["sqlite3", ":memory:", "create table t(a, b); with recursive n(i) as (select 1 union all "
                    "select i + 1 from n limit 20000) insert into t select i, hex(randomblob(20)) from n; "
                    "create index i on t(b); select count(*) from t;"],
        "perl": ["perl", "-e", "my %h; $h{$_} = [1..5] for 1..20000; print scalar(keys %h)"],
        "python3": ["/usr/bin/python3", "-c", "d = [str(i) * 3 for i in range(40000)]; import os; os._exit(0)"],
        "jq": ["jq", "-n", "[range(20000) | tostring] | length"],
    }
    command = commands[name]
    if not shutil.which(command[0]):
        pytest.skip(f"no {command[0]}")
    return command


@pytest.mark.parametrize("name, rate", [("sqlite3", "4k"), ("perl", "4k"), ("python3", "4k"), ("jq", "4k"),
                                        ("csv_rows", "4k"), ("connections", "1k")])
def test_totals_of_real_programs(tmp_path, name, rate):
    command = program(name, tmp_path)
    env = {"PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc", "PERL_HASH_SEED": "0"}
    exact = report(record(tmp_path / "exact.heft", command, env=env))
    totals = exact["totals"]
    # Samples count a reallocation as an allocation of the new size. Of a call that both makes and resizes
    # blocks, the exact recording tells the sum of the growth only.
    truth = {
        "allocations": totals["allocations"] + totals["reallocations"],
        "allocated_bytes": (sum(max(s["allocated_bytes"], s["reallocated_bytes"]) for s in exact["sites"]),
                            sum(s["allocated_bytes"] + s["reallocated_bytes"] for s in exact["sites"])),
        "live_bytes": totals["live_bytes"],
        "live_blocks": totals["live_blocks"],
    }

    def sample():
        return report(record(tmp_path / "sampled.heft", command, rate=rate, env=env))["totals"]
    numbers = hold(sample, truth)
    assert 0 < numbers["allocated_bytes_error95"] < 0.2 * numbers["allocated_bytes"]


def test_two_sizes_at_one_site(compiled, tmp_path):
    """One block of 8 MiB and a million of 8 bytes: adding up before weighing would make 27 objects of it."""
    command = [compiled("aged_heap.c"), "two_sizes"]

    def sample():
        rep = report(record(tmp_path / "two.heft", command, rate="4k", status=137))
        return named(rep, "make_one")
    site = hold(sample, {"allocations": 1000001, "allocated_bytes": 16388608,
                         "live_blocks": 1000001, "live_bytes": 16388608})
    # 2,200 samples: 4 % of the objects, and of the bytes less, since the large block is certain.
    assert 0.03 < site["live_blocks_error95"] / 1000001 < 0.06
    assert site["live_bytes_error95"] < 0.55 * site["live_blocks_error95"] * 16.4
    assert not site["few_samples"]


# ---- few samples, none

def test_few_samples_are_marked(compiled, tmp_path):
    # 12 MB of start-up, 8.6 MB of sessions, one sample for each 2 MiB: about 6 and 4.
    # One of them has some and fewer than ten at the peak, but for one run in some hundred.
    for i in range(4):
        path = record(tmp_path / f"few{i}.heft", [compiled("aged_heap.c"), "start_up", 50], rate="2M",
                      status=137)
        rep = report(path)
        few = [s for s in rep["sites"] if s["peak_few_samples"] and s["peak_bytes"]]
        if few:
            break
    assert few
    assert rep["unseen_bytes"] == round(2.995732 * (2 << 20))
    for site in rep["sites"]:
        # Blocks far below the rate: fewer than ten samples are few.
        assert site["few_samples"] == (site["samples"] < 10), site
        assert site["live_few_samples"] == (site["live_samples"] < 10)
        if not site["live_samples"]:
            assert site["live_bytes_error95"] == rep["unseen_bytes"]
    shown = text("report", path)
    assert "a site of less than 6.0 MiB may be missing" in shown
    assert "few: under 10 samples, so the number is very uncertain" in shown
    assert re.search(r"few: \d", shown)


def test_every_estimate_has_its_error(compiled, tmp_path):
    path = record(tmp_path / "x.heft", [compiled("sampled_heap.c"), "threads", 2000], rate="4k")
    rep = report(path, "--threads")
    for numbers in [rep["totals"], rep["processes"][0]["totals"], *rep["sites"]]:
        for name in ("allocations", "allocated_bytes", "peak_bytes", "peak_blocks", "live_bytes",
                     "live_blocks"):
            assert name in numbers and f"{name}_error95" in numbers
    assert rep["threads"]
    for thread in rep["threads"]:
        assert thread["live_bytes_error95"] >= 0 and "allocations" not in thread
    assert abs(sum(t["live_bytes"] for t in rep["threads"]) - rep["totals"]["live_bytes"]) <= 8
    for options in [], ["--tree"], ["--tree", "--invert"], ["--threads"], ["--sort", "live"]:
        assert "+-95 %" in text("report", *options, path)
    shown = text("report", "--lifetimes", path)  # and no false 0
    assert "does not record lifetimes. The report shows the ages" in shown and "0 ns" not in shown
    rows = list(csv.DictReader(io.StringIO(run([HEFT, "export", "-f", "csv", "-o", "-", path]).stdout
                                           .decode())))
    by_id = {s["id"]: s for s in rep["sites"]}
    assert len(rows) == len(by_id)
    for row in rows:
        site = by_id[int(row["id"])]
        for name in "live_bytes_error95", "allocations_error95", "peak_bytes_error95", "samples":
            assert int(row[name]) == site[name]


def test_a_part_has_its_own_errors(compiled, tmp_path):
    path = record(tmp_path / "x.heft", [compiled("sampled_heap.c"), "mixed", 2000], rate="4k")
    small = report(path, "--focus", "^keep_small$")
    assert len(small["sites"]) == 1
    for name in "live_bytes", "allocations", "peak_blocks":
        assert small["totals"][f"{name}_error95"] == small["sites"][0][f"{name}_error95"]


# ---- ages and growth

def growing(rep):
    return [f for f in rep["findings"] if f["kind"] == "growing-site"]


@pytest.mark.parametrize("end, status", [("kill", 137), ("exit", 0)])
def test_a_leak_is_found(compiled, tmp_path, end, status):
    path = record(tmp_path / "leak.heft", [compiled("aged_heap.c"), "leak", 2400, end], rate="16k",
                  status=status)
    rep = report(path)
    found = growing(rep)
    assert len(found) == 1, rep["findings"]
    site = named(rep, "leak_one")
    assert found[0]["site"] == site["id"] and found[0]["severity"] == ("high" if status else "medium")
    evidence = found[0]["evidence"]
    # 12 MB in 2.4 s or, on a slow machine, a little more.
    rate = evidence["bytes_per_second"] * rep["duration_ns"] / 1e9
    assert abs(rate - 12e6) < 12e6 * 0.15 + 3 * evidence["bytes_per_second_error95"] * 2.4
    assert evidence["freed_share"] == 0 and evidence["samples"] == site["peak_samples"]
    # Survivors were made all over the run; sessions live for 300 of 4000 steps.
    assert 0.35 < site["old_share"] < 0.65
    assert site["age_ns"]["max"] > 0.9 * rep["duration_ns"] - 1e8
    session = named(rep, "serve")
    assert session["old_share"] == 0
    assert session["age_ns"]["p50"] < site["age_ns"]["p50"] / 2
    how = "grows without end" if status else "grew until the program was done"
    assert how in " ".join(text("report", path).split())


# The program waits most of the time: its growth is judged by what it allocated, not by the clock.
@pytest.mark.parametrize("shape, end, status, severity, words", [
    ("bursts", "kill", 137, "high", "grows without end"),
    ("bursts", "interrupt", 130, "high", "grows without end"),
    ("lone_bursts", "interrupt", 130, "medium", "kept growing until the program was stopped with Ctrl-C")])
def test_a_leak_of_a_server_that_waits(compiled, tmp_path, shape, end, status, severity, words):
    path = record(tmp_path / "leak.heft", [compiled("aged_heap.c"), shape, 1500, end], rate="16k",
                  status=status)
    rep = report(path)
    found = growing(rep)
    assert len(found) == 1, rep["findings"]
    assert (found[0]["severity"], found[0]["evidence"]["function"]) == (severity, "leak_one")
    assert words in found[0]["summary"]
    # 12 MB, by samples of 16 KiB
    assert abs(found[0]["bytes"] - 12e6) < 12e6 * 0.15
    assert 0.35 < found[0]["evidence"]["made_in_first_half_share"] < 0.65


@pytest.mark.parametrize("shape", ["plateau", "start_up", "stops", "loads"])
def test_what_does_not_grow_is_no_leak(compiled, tmp_path, shape):
    path = record(tmp_path / "quiet.heft", [compiled("aged_heap.c"), shape, 1500], rate="8k", status=137)
    rep = report(path)
    assert not growing(rep), rep["findings"]
    if shape == "start_up":
        assert named(rep, "start_one")["old_share"] > 0.99
    if shape == "stops":
        assert named(rep, "leak_one")["old_share"] > 0.9
    if shape in ("start_up", "stops"):
        shown = text("report", path)
        old = shown.index("Live memory by age")
        assert re.search(r"100\.0 %  \S|9\d\.\d %  \S", shown[old:])


# ---- differences

def test_equal_programs_do_not_differ(compiled, tmp_path):
    command = [compiled("sampled_heap.c"), "mixed", 5000]
    a, b = (record(tmp_path / f"{n}.heft", command, rate="16k") for n in "ab")
    changes = json.loads(text("diff", "--json", "--threshold", "0", a, b))
    assert changes["measures"]["peak_bytes"]["change_error95"] > 0
    for change in changes["changes"]:
        error = change["change_error95"]["peak_bytes"]
        assert change["significant"] == (abs(change["change"]["peak_bytes"]) > error)
        if abs(change["change"]["peak_bytes"]) > 0 and not change["significant"]:
            assert change["kind"] == "insignificant"
    # Large blocks are certain, so that they do not differ at all is certain too.
    assert any(c["kind"] == "same" for c in changes["changes"])


def test_a_real_difference_is_significant(compiled, tmp_path):
    program_path = compiled("sampled_heap.c")
    old = record(tmp_path / "old.heft", [program_path, "mixed", 5000], rate="4k")
    new = record(tmp_path / "new.heft", [program_path, "mixed", 10000], rate="4k")
    changes = json.loads(text("diff", "--json", "--sort", "live", old, new))
    small = [c for c in changes["changes"] if "keep_small" in [f["function"] for f in c["stack"]]][0]
    # 500,000 against 1,000,000 bytes, certain to 12 %: ten standard errors.
    assert small["significant"] and small["kind"] == "grown"
    assert changes["measures"]["live_bytes"]["significant"]
    shown = text("diff", "--sort", "live", old, new)
    assert "+-95 %" in shown
    # And against an exact recording of the same: no difference but by chance.
    exact = record(tmp_path / "exact.heft", [program_path, "mixed", 5000])
    changes = json.loads(text("diff", "--json", "--sort", "live", old, exact))
    measure = changes["measures"]["live_bytes"]
    assert abs(measure["change"]) <= 2.5 * measure["change_error95"]


def test_budgets_leave_room_for_errors(compiled, tmp_path):
    path = record(tmp_path / "x.heft", [compiled("sampled_heap.c"), "mixed", 5000], rate="16k")
    total = report(path)["totals"]
    live, error = total["live_bytes"], total["live_bytes_error95"]
    budget = tmp_path / "b.budget"

    def check(rule):
        budget.write_text(rule + "\n")
        done = subprocess.run([HEFT, "check", "--json", "--budget", budget, path], capture_output=True,
                              text=True, check=False)
        result = json.loads(done.stdout)["rules"][0]
        assert result["measured"] == live and result["measured_error95"] == error
        assert done.returncode == (0 if result["holds"] else 1)
        return result["holds"]
    assert check(f"live_bytes <= {live - error}")
    assert not check(f"live_bytes <= {live - error - 1}")
    assert check(f"live_bytes >= {live + error}")
    assert not check("live_bytes == 0")


# ---- other tools

def test_pprof_has_the_same_totals(compiled, tmp_path):
    path = record(tmp_path / "x.heft", [compiled("sampled_heap.c"), "mixed", 5000], rate="16k")
    out = tmp_path / "x.pb.gz"
    text("export", "-q", "-f", "pprof", "-o", out, path)
    mine, theirs = report(path), report(out)
    assert theirs["rate_bytes"] == 16384 and theirs["mode"] == "sample"
    for name in ("allocations", "allocated_bytes", "peak_bytes", "peak_blocks", "live_bytes",
                 "live_blocks"):
        assert mine["totals"][name] == theirs["totals"][name], name

    def table(rep):
        return sorted((s["peak_bytes"], s["live_bytes"], s["allocations"],
                       [f["function"] for f in s["stack"]]) for s in rep["sites"])
    assert table(mine) == table(theirs)
    assert re.search(r"PeriodType: space bytes\nPeriod: 16384\n", pprof("-raw", out))
    for kind, name in ("inuse_space", "live_bytes"), ("alloc_space", "allocated_bytes"):
        shown = pprof("-top", "-unit=B", f"-sample_index={kind}", out)
        assert f"of {mine['totals'][name]}B total" in shown


def test_graphs_have_the_same_totals(compiled, tmp_path):
    path = record(tmp_path / "x.heft", [compiled("sampled_heap.c"), "mixed", 5000], rate="16k")
    totals = report(path)["totals"]
    folded = text("export", "-f", "folded", "--measure", "live", "-o", "-", path)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == totals["live_bytes"]
    scope = json.loads(text("export", "-f", "speedscope", "--measure", "live", "-o", "-", path))
    live = [p for p in scope["profiles"] if sum(p["weights"]) == totals["live_bytes"]]
    assert live
