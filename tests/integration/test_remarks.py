"""What programs say with heft.h, in reports: marks, regions, followed blocks, events and pools. The programs' sources say what
they do; docs/marks.md says what is shown."""

import re
import time

import pytest

from harness import HEFT, REPOSITORY, report, run

NS = 1_000_000


@pytest.fixture
def said(compiled, record):
    """said(source, mode...) -> (its output, its report)."""
    def make(source, *mode):
        program = compiled(source, flags=["-I", REPOSITORY / "include"])
        done, rep = record([program, *mode])
        assert done.returncode == 0, done.stderr
        return done.stdout.decode(), rep
    return make


def text_of(path, *options):
    done = run([HEFT, "report", *options, path])
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def kinds(rep):
    return [f["kind"] for f in rep["findings"]]


# ---- marks and regions

def kept_between(rep, *options):
    """Bytes and blocks that functions of the program allocated in the window."""
    part = report(rep.path, *options)
    return {s["stack"][0]["function"]: (s["allocations"], s["allocated_bytes"])
            for s in part["sites"] if s["allocations"]}


def test_what_grew_between_two_marks(said):
    _, rep = said("marked.c")
    assert [m["name"] for m in rep["marks"]] == ["start", "middle", "end", "end"]
    times = [m["time_ns"] for m in rep["marks"]]
    assert times == sorted(times) and times[1] - times[0] >= NS
    assert all(m["pid"] == m["tid"] == rep["pid"] for m in rep["marks"])
    a, b, c = {"keep_a": (1000, 100000)}, {"keep_b": (50, 50000)}, {"keep_c": (5, 50000)}
    assert kept_between(rep, "--from", "mark:start", "--to", "mark:middle") == a
    assert kept_between(rep, "--from", "mark:middle", "--to", "mark:end") == b
    assert kept_between(rep, "--from", "mark:end", "--to", "mark:end#2") == c
    assert kept_between(rep, "--from", "mark:middle") == {**b, **c}
    assert kept_between(rep, "--to", "mark:end") == {**a, **b}
    assert report(rep.path, "--at", "mark:middle")["totals"]["live_bytes"] == 100000
    folded = run([HEFT, "export", "-f", "folded", "-m", "allocated", "-o", "-", "--from", "mark:middle", "--to", "mark:end",
                  rep.path])
    assert [line.split(";")[-1] for line in folded.stdout.decode().splitlines()] == ["keep_b 50000"]


def test_regions(said):
    _, rep = said("marked.c")
    regions = {r["name"]: r for r in rep["regions"]}
    assert list(regions) == ["all", "b", "open"]  # as they began
    whole, b, left = regions.values()
    times = [m["time_ns"] for m in rep["marks"]]
    assert whole["begin_ns"] <= times[0] and times[3] <= whole["end_ns"] and not whole["open"]
    assert times[1] <= b["begin_ns"] <= b["end_ns"] <= times[2]
    assert (whole["scope"], b["scope"]) == ("process", "thread")
    assert left["open"] and left["end_ns"] == rep["processes"][0].get("end_ns", rep["duration_ns"])
    text = text_of(rep.path)
    assert "\nMarks and regions\n" in text
    assert "--from mark:start --to mark:middle reports on" in text


def test_a_child_ends_its_copy_of_a_region(said):
    _, rep = said("marked.c", "fork")
    mine, copy = [r for r in rep["regions"] if r["name"] == "all"]
    child = next(p for p in rep["processes"] if p["pid"] != rep["pid"])
    assert mine["pid"] == rep["pid"] and not mine["inherited"]
    assert copy["pid"] == child["pid"] and copy["inherited"] and not copy["open"]
    assert mine["begin_ns"] < copy["begin_ns"] <= copy["end_ns"] <= mine["end_ns"]


@pytest.mark.parametrize("options, words", [
    (["--from", "mark:nope"], ["there is no mark 'nope' in this recording", "start, middle, end (2 times)"]),
    (["--to", "mark:end#3"], ["there is no mark 'end#3' in this recording"]),
    (["--from", "mark:end", "--to", "mark:start"], ["--from is after --to"]),
    (["--from", "mark:"], ["--from needs a time (1.5s, 20ms, 50%) or mark:NAME, not 'mark:'"]),
])
def test_marks_that_are_not_there(said, options, words):
    _, rep = said("marked.c")
    done = run([HEFT, "report", *options, rep.path])
    assert done.returncode != 0 and done.stdout == b""
    said_words = " ".join(done.stderr.decode().split())
    assert all(w in said_words for w in words), said_words


def test_odd_names_reach_no_terminal(said):
    _, rep = said("marked.c", "odd")
    assert rep["marks"][0]["name"] == "red \033[31m\tmark"  # JSON escapes it
    assert "red \\x1b[31m\\x09mark" in text_of(rep.path)
    nope = run([HEFT, "report", "--from", "mark:x", rep.path]).stderr.decode()
    assert nope.endswith("\n      its marks are: red \\x1b[31m\\x09mark, (no name), two lines\n")
    for done in (run([HEFT, "report", rep.path]), run([HEFT, "report", "--from", "mark:x", rep.path]),
                 run([HEFT, "report", "--from", "mark:red \033[31m\tmark", rep.path])):
        assert b"\033" not in done.stdout + done.stderr
    assert report(rep.path, "--from", "mark:red \033[31m\tmark")["totals"]["allocations"] == 0


def test_the_hint_can_be_typed(said, tmp_path):
    _, rep = said("marked.c", "shell")
    hint, = re.findall(r"^  - (--from .*) reports on what happened between the two$", text_of(rep.path), re.M)
    done = run(["sh", "-c", f'"$0" report {hint} "$1"', HEFT, rep.path], cwd=tmp_path)
    assert done.returncode == 0 and b"  allocations   1,000 (" in done.stdout, done.stderr
    assert not (tmp_path / "written").exists()


def test_as_many_long_names_as_promised(said):
    _, rep = said("marked.c", "names")
    assert [m["name"] for m in rep["marks"]] == [f"{i:04}" + "0" * 251 for i in range(4000)] + [""] * 100


# ---- followed blocks

def test_time_at_each_stage(said):
    """The program measures the same by itself, and the finding agrees."""
    for _ in range(20):
        out, rep = said("followed_queue.c", "keep")
        if "unbounded-queue" in kinds(rep):
            break
    waited_ns, worked_ns = map(int, out.split())
    stages = {(s["from"], s["to"], s["still_there"]): s for s in rep["stages"]}
    assert list(stages) == [(None, "queued", False), ("queued", "worked on", False), ("worked on", None, False),
                            ("worked on", None, True)]
    made, queued, worked, left = stages.values()
    assert [s["blocks"] for s in (made, queued, worked, left)] == [2000, 2000, 1990, 10]
    for s in stages.values():
        assert 0 < s["p50_ns"] <= s["p99_ns"] <= s["max_ns"] and s["mean_ns"] == s["total_ns"] // s["blocks"]
    assert queued["mean_ns"] == pytest.approx(waited_ns, rel=0.02)
    # From one end of the sleep to the free; the last ten are still there.
    assert worked["mean_ns"] == pytest.approx(worked_ns, rel=0.2)
    assert queued["p50_ns"] == pytest.approx(queued["max_ns"] / 2, rel=0.5)  # each waits longer than the one before
    finding = next(f for f in rep["findings"] if f["kind"] == "unbounded-queue")
    e = finding["evidence"]
    assert (e["stage"], e["stage_blocks"]) == ("queued", 2000)
    assert e["stage_mean_ns"] == pytest.approx(queued["mean_ns"], abs=1)
    assert e["stage_mean_ns"] == pytest.approx(e["wait_mean_ns"], rel=0.05)
    assert 'at "queued".' in finding["summary"]
    text = text_of(rep.path)
    assert "\nTime at each stage\n" in text and "queued -> worked on\n" in text and "worked on -> still there\n" in text


def stages_of(rep):
    return {(s["from"], s["to"], s["still_there"]): s["blocks"] for s in rep["stages"]}


def test_followed_blocks_that_are_resized(said):
    """Only those that were moved or freed by realloc have ended."""
    _, rep = said("followed_resized.c")
    assert stages_of(rep) == {(None, "one", False): 20, ("one", "two", False): 15, ("one", None, False): 5,
                              (None, "two", False): 3, ("two", None, False): 18}


def test_places_of_followed_blocks_that_others_take(said):
    _, rep = said("followed_resized.c", "threads")
    assert stages_of(rep) == {(None, "yours", False): 20000, ("yours", None, False): 20000,
                              (None, "mine", False): 20000, ("mine", None, False): 20000}


# ---- pools and events

def pool_of(rep):
    assert [p["name"] for p in rep["pools"]] == ["rows"]
    return rep["pools"][0], {s["caller"]: s for s in rep["pools"][0]["sites"]}


def test_a_million_objects(said):
    _, rep = said("arena.c", "million")
    pool, sites = pool_of(rep)
    # 750,000 of 32 bytes and 250,000 of 16
    assert (pool["objects"], pool["bytes"]) == (1_000_000, 28_000_000)
    assert (pool["peak_objects"], pool["peak_bytes"]) == (1_000_000, 28_000_000)
    assert (pool["left_objects"], pool["left_bytes"], pool["given_back"]) == (1_000_000, 28_000_000, 0)
    assert (sites["take_row"]["objects"], sites["take_row"]["left_bytes"]) == (750_000, 24_000_000)
    assert (sites["take_cell"]["objects"], sites["take_cell"]["left_bytes"]) == (250_000, 4_000_000)
    assert {s["function"] for s in sites.values()} == {"arena_take"}
    # malloc has chunks of 256 KiB: they are counted apart.
    assert rep["totals"]["allocations"] == -(-28_000_000 // (256 << 10))
    assert kinds(rep) == []  # an arena keeps everything: no leak
    assert run([HEFT, "verify", rep.path]).returncode == 0
    began = time.process_time()
    text = text_of(rep.path)
    assert time.process_time() - began < 5
    assert "1,000,000" in text and "< take_row" in text and "\nPools: " in text


def test_a_pool_that_is_destroyed(said):
    _, rep = said("arena.c", "destroyed")
    pool, sites = pool_of(rep)
    assert (pool["pools"], pool["destroyed"], pool["left_objects"]) == (1, 1, 0)
    assert pool["peak_bytes"] == 28_000_000 and sites["take_row"]["peak_objects"] == 750_000
    assert rep["totals"]["left_blocks"] == 0


def test_a_million_pools(said):
    _, rep = said("arena.c", "pools")
    pool = rep["pools"][0]
    # Each has one object of 10 bytes and two that it had no memory for; it is destroyed, and destroyed again.
    assert [pool[k] for k in ("name", "pools", "destroyed", "objects", "bytes", "given_back", "unknown_frees", "left_objects")] \
        == ["each", 1_000_000, 1_000_000, 1_000_000, 10_000_000, 0, 0, 0]
    assert "  each  (1,000,000 pools, 1,000,000 destroyed)\n" in text_of(rep.path)


def test_a_leak_inside_a_pool(said):
    for _ in range(20):  # a machine that stands still makes the rounds uneven
        _, rep = said("arena.c", "leak")
        if kinds(rep) == ["pool-leak"]:
            break
    pool, sites = pool_of(rep)
    assert (sites["take_session"]["left_objects"], sites["take_session"]["left_bytes"]) == (400, 19_200)
    assert (sites["take_request"]["left_objects"], sites["take_request"]["given_back"]) == (0, 400)
    assert pool["unknown_frees"] == 0
    assert kinds(rep) == ["pool-leak"]
    finding = rep["findings"][0]
    assert finding["bytes"] == 19_200 and finding["site"] == 0
    assert finding["evidence"] == {
        "pool": "rows", "function": "arena_take", "caller_function": "take_session", "objects": 400, "given_back": 0,
        "left_objects": 400, "left_bytes": 19_200, "others_given_back_share": 1}
    assert "take_session" in finding["summary"]
    # 0 + 1 + ... + 399
    events = rep["program_events"]
    assert [(e["name"], e["count"], e["weight"]) for e in events] == [("round", 400, 79_800)]
    assert [(s["function"], s["caller"], s["count"]) for s in events[0]["sites"]] == [("serve", "main", 400)]


@pytest.mark.parametrize("mode", [["leak", "destroyed"], ["returned"], ["table"]])
def test_pools_without_a_leak(said, mode):
    _, rep = said("arena.c", *mode)
    pool, sites = pool_of(rep)
    assert sites["take_session"]["objects"] == 400
    assert pool["left_objects"] == (400 if mode == ["table"] else 0)
    assert kinds(rep) == []


def test_children_have_their_parents_pools(said):
    _, rep = said("arena.c", "workers")
    pool, sites = pool_of(rep)
    # The first child is gone when the second one takes its rows.
    assert (pool["pools"], pool["objects"], pool["left_objects"]) == (1, 20, 20)
    assert (pool["peak_objects"], pool["peak_bytes"]) == (10, 320)
    child = next(p["pid"] for p in rep["processes"] if p["pid"] != rep["pid"])
    assert report(rep.path, "--pid", str(child))["pools"][0]["left_objects"] == 10
