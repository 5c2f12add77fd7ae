"""Findings from real recordings, both ways: programs that have the problem, and programs that only
look like it. The rules are in docs/findings.md; the figures follow from the programs' sources."""

import os
import re
import shutil
import signal

import pytest

from harness import BUILD, HEFT, PROGRAMS, bare, line_of, report, run, start

KINDS = {"unbounded-queue", "per-instance-cost", "copied-records", "growth-slack", "allocator-rounding",
         "growing-site", "temporary-churn", "leak-unreachable", "untouched-memory", "fragmentation",
         "duplicate-content", "books-do-not-close", "pool-leak", "profile-quality"}
SEVERITIES = ["high", "medium", "low"]


def check_findings(rep):
    """What the contract says of all findings."""
    order = [(SEVERITIES.index(f["severity"]), -f["bytes"]) for f in rep["findings"]]
    assert order == sorted(order)
    ids = {s["id"] for s in rep["sites"]}
    for f in rep["findings"]:
        assert f["kind"] in KINDS
        assert f["summary"] and f["advice"] and f["evidence"]
        assert not f.get("site") or f["site"] in ids  # profile-quality is about no site
    return rep["findings"]


def findings(record, command, status=0, **others):
    done, rep = record([str(c) for c in command], **others)
    assert done.returncode == status, done.stderr
    return check_findings(rep), rep


def kinds(found):
    """Names are not everywhere: that the libraries here have none is no matter."""
    return [f["kind"] for f in found if f["kind"] != "profile-quality"]


def only(found, kind):
    assert kinds(found) == [kind], [f["summary"] for f in found]
    return [f for f in found if f["kind"] == kind][0]


def function(text):
    return bare(text).split("::")[-1]


# ---- the examples: the four scenarios, in C and in Rust

def example(name):
    path = BUILD / "examples" / name
    if not path.exists() and name.endswith(("_rs", "_mixed")):
        pytest.skip("no Rust or C++ compiler when this was built")
    return path


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "example.csv"
    path.write_bytes(run([example("csv_make")]).stdout)
    return path


@pytest.mark.parametrize("name", ["queue", "queue_rs"])
def test_queue_example(record, name):
    done, rep = record([example(name)])
    f = only(check_findings(rep), "unbounded-queue")
    e = f["evidence"]
    assert f["severity"] == "high" and f["bytes"] == e["backlog_bytes"]
    assert function(e["producer_function"]) == "send_message"
    assert function(e["consumer_function"]) == "deliver_messages"
    assert len(e["producer_threads"]) == 1 and e["consumer_threads"] == ["worker"]
    # Nearly all of them, unless the producer lost its processor for long. The program in C says how many.
    assert 2500 <= e["backlog_items"] <= 5000 and e["items"] == 5000
    said = re.search(rb"at most (\d+) waiting", done.stdout)
    assert abs(e["backlog_items"] - int(said[1])) <= 50 if said else name != "queue", done.stdout
    assert e["backlog_blocks"] >= e["backlog_items"]
    assert e["backlog_items"] * 1024 <= e["backlog_bytes"] <= rep["totals"]["peak_bytes"]
    assert e["arrival_ns"] < 100000 < e["service_ns"]  # it sleeps 100 us for each
    assert abs(e["wait_growth_ns"] - (e["service_ns"] - e["arrival_ns"])) <= 1
    assert "unbounded queue" in f["summary"]


@pytest.mark.parametrize("name", ["queue", "queue_rs", "queue_mixed"])
def test_bounded_queue_example(record, name):
    found, _ = findings(record, [example(name), "--bound", "64"])
    assert kinds(found) == []


@pytest.mark.parametrize("variant", ["A", "B"])
@pytest.mark.parametrize("name, own", [("connections", 40), ("connections_rs", 120)])
def test_connections_example(record, name, own, variant):
    found, rep = findings(record, [example(name), variant])
    # If heft could look near the peak, it knows that nobody writes to the tables of A.
    untouched = [f for f in found if f["kind"] == "untouched-memory"]
    f = only([f for f in found if f not in untouched], "per-instance-cost")
    e = f["evidence"]
    assert not untouched or variant == "A"
    if untouched:
        seen = untouched[0]["evidence"]
        assert seen["requested_bytes_each"] == 262144 and seen["touched_bytes_each"] == 4096 - 16
        assert function(seen["function"]) == "make_id_table" and untouched[0]["severity"] == "medium"
    each = 144 * 101 + 4 * 101 + 4 * 65536 + 144 * 100 + 10240 + own
    assert f["severity"] == "high" and f["bytes"] == 300 * each
    assert function(e["function"]) == "conn_new"
    assert (e["instances"], e["bytes_each"]) == (300, each)
    assert [p["bytes"] for p in e["parts"]] == [262144, 14544, 14400, 10240, 404, own]
    assert function(e["parts"][0]["function"]) == "make_id_table"
    assert abs(sum(p["share"] for p in e["parts"]) - 1) < 1e-3
    assert f"300 objects of {each:,} bytes each" in f["summary"]


@pytest.mark.parametrize("name, fields, sheet", [("csv_rows", "make_field", "add_row"),
                                                 ("csv_rows_rs", "split_row", "read_sheet")])
def test_csv_example(record, csv_file, name, fields, sheet):
    found, _ = findings(record, [example(name), csv_file])
    assert kinds(found) == ["allocator-rounding", "growth-slack"]
    rounding, slack = [f for f in found if f["kind"] != "profile-quality"]
    text = csv_file.read_text().splitlines()
    strings = [field for line in text for field in line.split(",")]
    e = rounding["evidence"]
    assert function(e["function"]) == fields
    # 32 bytes for each; a few longer strings and Rust's header row make the difference
    expected = sum(32 - len(s) for s in strings)
    assert abs(rounding["bytes"] - expected) < 0.02 * expected
    assert abs(e["blocks"] - len(strings)) <= 7
    # The array of rows, of which all is examined; and rows with 7 of 8 fields, of which some are. What another
    # block left in the unused place of a row counts as used.
    e = slack["evidence"]
    assert function(e["function"]) == "split_row"
    rows, one = e["places"]
    assert (function(rows["function"]), function(one["function"])) == ("split_row", sheet)
    assert one["bytes"] == (16384 - 12426) * 24
    assert 0.9 * 12426 * 24 < rows["bytes"] <= 12427 * 24
    assert e["slack_bytes"] == slack["bytes"] == rows["bytes"] + one["bytes"]
    assert e["steps"] >= 12 + 12426 and 12427 <= e["arrays"] <= 12428 and 16 < e["blocks"] < 700


@pytest.mark.parametrize("name, freed", [("leaky_server", "never"),
                                         ("leaky_server_rs", "at-end")])
def test_leaky_server_example(record, name, freed):
    """So many requests that the cache of 512 is full early, even if the program was slow to begin."""
    found, _ = findings(record, [example(name), "--requests", "6000", "--pause-us", "100"])
    f = only(found, "growing-site")
    assert function(f["evidence"]["function"]) == "remember_request"
    assert f["evidence"]["freed"] == freed
    assert f["severity"] == "medium"  # it ends by itself


@pytest.mark.parametrize("name", ["csv_rows", "csv_rows_rs"])
def test_csv_example_mended(record, csv_file, name):
    found, _ = findings(record, [example(name), "--packed", csv_file])
    assert kinds(found) == []


@pytest.mark.parametrize("name", ["leaky_server", "leaky_server_rs"])
def test_leaky_server_example_mended(record, name):
    found, _ = findings(record, [example(name), "--requests", "4000", "--pause-us", "50",
                                 "--keep", "1000"])
    assert kinds(found) == []


# ---- queues

@pytest.mark.parametrize("mode, producers, items", [
    ("unbounded", ["producer"], 2000), ("batches", ["producer"], 2000),
    ("producers", ["producer (3 threads)"], 2100)])
def test_queues(compiled, record, mode, producers, items):
    found, rep = findings(record, [compiled("queue_shapes.c"), mode])
    f = only(found, "unbounded-queue")
    e = f["evidence"]
    assert e["producer_function"] == "put_item" and e["consumer_function"] == "drop_item"
    assert e["producer_threads"] == producers and e["consumer_threads"] == ["consumer"]
    assert e["items"] == items and e["backlog_items"] > items * 3 // 4
    (site,) = [s for s in rep["sites"] if s["id"] == f["site"]]
    assert site["stack"][0]["line"] == line_of("queue_shapes.c", "queue.payload")


def test_queue_of_a_program_that_ended_too_early(compiled, record):
    found, _ = findings(record, [compiled("queue_shapes.c"), "overload"])
    f = only(found, "unbounded-queue")
    assert f["evidence"]["items"] == 1500
    assert f["evidence"]["service_ns"] > 1.3 * f["evidence"]["arrival_ns"]


@pytest.mark.parametrize("mode", ["bounded", "pool", "teardown"])
def test_no_queue(compiled, record, mode):
    found, rep = findings(record, [compiled("queue_shapes.c"), mode])
    assert kinds(found) == []
    assert sum(s["cross_thread_frees"] for s in rep["sites"]) >= 2000  # it did hand over


# ---- objects

def test_objects(compiled, record):
    found, _ = findings(record, [compiled("object_shapes.c"), "sessions"])
    f = only(found, "per-instance-cost")
    e = f["evidence"]
    assert (e["function"], e["instances"]) == ("session_new", 200)
    assert e["bytes_each"] == 64 + 4096 + 8192 + 4 * 1500
    assert [p["bytes"] for p in e["parts"]] == [8192, 6000, 4096, 64]
    assert e["parts"][1]["function"] == "make_pages"


def test_objects_without_names(compiled, record, tmp_path):
    """Of a stripped program nobody knows where a part is made: nothing is said of it, not half a sentence."""
    stripped = tmp_path / "stripped"
    assert run(["strip", "-s", "-o", stripped, compiled("object_shapes.c")]).returncode == 0
    found, rep = findings(record, [stripped, "workers"])
    parts = only(found, "per-instance-cost")["evidence"]["parts"]
    assert [p["bytes"] for p in parts] == [32000, 256] and not any("where" in p for p in parts)
    text = run([HEFT, "report", rep.path]).stdout.decode()
    assert re.search(r"parts +32,000 B .* stripped\+0x", text) and not re.search(r" (at|in) *$", text, re.M)


# Several blocks of one site in each object, and few objects. The same in files that keep neither
# the order nor the course over time.
SEVERAL = [("peers", "peer_new", 50, [6000, 4000, 80], 5),
           ("rings", "ring_new", 40, [21000, 3000], 8),
           ("workers", "worker_new", 12, [32000, 256], 17),
           ("logs", "log_new", 60, [6000, 3000, 64], 4)]


@pytest.mark.parametrize("mode, name, instances, parts, blocks", SEVERAL)
def test_several_blocks_of_a_site(compiled, record, tmp_path, mode, name, instances, parts, blocks):
    found, rep = findings(record, [compiled("object_shapes.c"), mode])
    for form in ("heft", "pprof", "heaptrack"):
        if form != "heft":
            out = tmp_path / f"out.{form}"
            assert run([HEFT, "export", "-f", form, "-o", out, rep.path]).returncode == 0
            found = check_findings(report(out))
        f = only(found, "per-instance-cost")
        e = f["evidence"]
        assert (e["function"], e["instances"], e["blocks_each"]) == (name, instances, blocks), form
        assert f["bytes"] == instances * sum(parts) and e["bytes_each"] == sum(parts)
        assert [p["bytes"] for p in e["parts"]] == parts
        assert e["fit_assumes"].startswith("usable" if form == "heft" else "requested")
        assert e["fit_in_1gib"] == 2 ** 30 // e["usable_bytes_each"]
        assert "if all of their memory is touched" in f["summary"]


@pytest.mark.parametrize("mode", ["rows", "tables", "lists", "loops", "regular", "pool"])
def test_no_objects(compiled, record, mode):
    found, _ = findings(record, [compiled("object_shapes.c"), mode])
    assert kinds(found) == []


def test_list_beside_objects(compiled, record, tmp_path):
    found, rep = findings(record, [compiled("object_shapes.c"), "beside"])
    for form in ("heft", "pprof", "heaptrack"):
        if form != "heft":
            out = tmp_path / f"out.{form}"
            assert run([HEFT, "export", "-f", form, "-o", out, rep.path]).returncode == 0
            found = check_findings(report(out))
        f = only(found, "per-instance-cost")
        assert (f["evidence"]["function"], f["bytes"]) == ("peer_new", 60 * 10080), form


# ---- growth

@pytest.mark.parametrize("mode, freed, severity, status", [
    ("leak", "never", "medium", 0), ("leak-large", "never", "medium", 0), ("leak-killed 9", "never", "high", 137), ("leak-freed-at-end", "at-end", "medium", 0),
    ("killed 9", "never", "medium", 137), ("killed 15", "never", "medium", 143),
    ("killed 2", "never", "medium", 130), ("killed 11", "never", "medium", 139),
    ("bursts-then-killed 2", "never", "medium", 130),
    ("freed-then-killed 2", "at-end", "medium", 130), ("loader 143", "never", "medium", 143)])
def test_growth(compiled, record, mode, freed, severity, status):
    found, _ = findings(record, [compiled("growth_shapes.c"), *mode.split()], status=status)
    f = only(found, "growing-site")
    e = f["evidence"]
    # Without sessions, only the end shows that it was not done: it may be a store that is being filled.
    how = "grows without end" if severity == "high" else \
        "grew until the program was done" if mode.startswith("leak") and freed == "never" else \
        "grows as long as the program runs" if freed == "at-end" else \
        "kept growing until the program was stopped with Ctrl-C" if status == 130 else \
        f"kept growing until the program was {'told to end' if 'loader' in mode else 'killed'} " \
        f"(signal {status - 128})"
    # It waits most of the time: on a busy machine a few points of its course have all that it did.
    if mode.startswith("bursts") and "late_growth_share" in e:
        how = "still grows, but more and more slowly"
    assert how in f["summary"]
    assert ("a store that is being filled" in f["summary"]) == ("kept growing" in how or "slowly" in how)
    assert ("a table that the program fills" in f["summary"]) == ("was done" in how)
    assert (e["function"], e["freed"], f["severity"]) == ("keep_one", freed, severity)
    size = 8000 if mode == "leak-large" else 1000
    assert 1500 * size < e["level_bytes"] <= 2000 * size
    assert e["bytes_per_second"] > 0
    assert e["freed_share"] == (1 if freed == "at-end" else 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_growth_until_told_to_end(compiled, tmp_path, number):
    """A server that catches the signal and exits with 0 has not ended by itself."""
    path = tmp_path / "r.heft"
    process = start([HEFT, "run", "-q", "-o", path, "--", compiled("growth_shapes.c"), "told"])
    assert process.stdout.readline() == b"grown\n"
    process.send_signal(number)
    assert process.wait(timeout=30) == 0
    process.communicate()
    rep = report(path)
    f = only(check_findings(rep), "growing-site")
    assert (rep["end"], rep["exit_status"], rep["signal"], f["severity"]) == ("exit", 0, number, "medium")
    assert ("told to end (signal 15)" if number == signal.SIGTERM else "stopped with Ctrl-C") in f["summary"]
    assert f"exit status 0 after {number.name}" in run([HEFT, "report", path]).stdout.decode()


def test_one_cause_is_one_finding(compiled, record):
    found, rep = findings(record, [compiled("growth_shapes.c"), "together"])
    f = only(found, "growing-site")
    e = f["evidence"]
    assert (e["function"], f["severity"], e["allocations"]) == ("remember", "medium", 3 * 2000)
    assert [p["function"] for p in e["parts"]] == ["make_value", "make_key", "remember"]
    assert f["bytes"] == e["level_bytes"] == sum(p["bytes"] for p in e["parts"])
    assert 0.9 * 2000 * 1264 < f["bytes"] <= 2000 * 1264
    # The rates are added: 1264 bytes for each request, which takes 200 us at least. The rate is that of the time in which
    # the program worked: on a busy machine it is higher than the mean.
    assert 0.8 * 2000 * 1264 / (rep["duration_ns"] / 1e9) < e["bytes_per_second"] < 1.02 * 1264 / 200e-6
    assert f["summary"].count("is used up in") <= 1
    assert "in 3 functions that grow together" in f["summary"]


def test_two_causes_are_two_findings(compiled, record):
    found, _ = findings(record, [compiled("growth_shapes.c"), "two-causes"])
    assert kinds(found) == ["growing-site"] * 2
    assert [f["evidence"]["function"] for f in found] == ["remember", "log_error"]


def test_cache_that_warms_up(compiled, record):
    found, _ = findings(record, [compiled("growth_shapes.c"), "warms-up"])
    f = only(found, "growing-site")
    # 2,000 places asked 2,000 times: the later half stores 0.79 of its share.
    assert f["severity"] == "medium" and 0.7 < f["evidence"]["late_growth_share"] < 0.9
    assert "a cache that warms up" in f["summary"]


@pytest.mark.parametrize("mode, status", [("arena", 0), ("lru", 0), ("tables", 0), ("loader", 0),
                                          ("loader 1", 1), ("waits-then-killed 15", 143),
                                          ("waits-then-killed 9", 137)])
def test_no_growth(compiled, record, mode, status):
    found, _ = findings(record, [compiled("growth_shapes.c"), *mode.split()], status=status)
    assert kinds(found) == []


# ---- copies

def copies(found):
    return [f for f in found if f["kind"] == "copied-records"]


@pytest.mark.parametrize("mode, by, of", [("strdup", "index_rows", "load"), ("memcpy", "remember", "load"),
                                          ("twice", "load_twice", "load_twice")])
def test_copied_rows(compiled, record, tmp_path, mode, by, of):
    found, rep = findings(record, [compiled("copied_rows.c"), mode])
    size = sum(21 + i * 7919 % 57 for i in range(6000))
    (f,) = copies(found)
    e = f["evidence"]
    assert (e["function"], e["original_function"], e["sizes"]) == (by, of, "same-order")
    assert (e["blocks"], e["copied_bytes"], f["bytes"]) == (6000, size, size)
    # Without a name, only lengths agree: that is a hint.
    assert ("may be copies" in f["summary"]) == (f["severity"] == "low")
    assert abs(e["share"] - size / rep["totals"]["peak_bytes"]) < 1e-4
    if mode == "strdup":  # the name and the exact sum are enough
        out = tmp_path / "out.pprof"
        assert run([HEFT, "export", "-f", "pprof", "-o", out, rep.path]).returncode == 0
        (f,) = copies(check_findings(report(out)))
        assert f["bytes"] == size and f["evidence"]["sizes"] == "same-sum"


@pytest.mark.parametrize("mode", ["arrays", "points", "keys", "pairs", "buffers", "passed", "replaced"])
def test_no_copied_rows(compiled, record, mode):
    found, rep = findings(record, [compiled("copied_rows.c"), mode])
    assert copies(found) == []
    assert rep["totals"]["peak_bytes"] > 150000


WORDS = sum(18 + (i * 7 + 13) % 40 for i in range(5000))
MARKS = sum(4 * (1 + i % 9) for i in range(5000))


# What push_back made as its array grew is at another place: 13 records of 5,000.
@pytest.mark.parametrize("mode, by, of, blocks, sizes", [
    ("pushed", "keep_pushed", "load_and_push", 3 * 5000, "nearly-same"),
    ("joined", "keep_joined", "join_words", 5000, "without-room"),
    ("assigned", "keep_assigned", "word", 3 * 5000, "with-room")])
@pytest.mark.parametrize("opt", ["-O0", "-O2"])
def test_unequal_copies(compiled, record, mode, by, of, blocks, sizes, opt):
    found, _ = findings(record, [compiled("copied_records.cc", flags=[opt], output=f"copied_records{opt}"), mode])
    (f,) = copies(found)
    e = f["evidence"]
    assert (function(e["function"]), function(e["original_function"])) == (by, of)
    assert (e["blocks"], e["sizes"]) == (blocks, sizes)


@pytest.mark.parametrize("mode, by, blocks, size", [
    ("vector", "keep_words", 5000, WORDS),
    # 4097 records are copied when the array grows for the last time, which is the peak.
    ("records", "keep_records", 3 * 4097, None),
    ("map", "keep_map", 2 * 5000, sum(18 + (i * 7 + 39) % 40 for i in range(5000)) + 5000 * 72)])
@pytest.mark.parametrize("opt", ["-O0", "-O2"])
def test_copied_records(compiled, record, mode, by, blocks, size, opt):
    found, rep = findings(record, [compiled("copied_records.cc", flags=[opt], output=f"copied_records{opt}"), mode])
    (f,) = copies(found)
    e = f["evidence"]
    assert function(e["function"]) == by and e["blocks"] == blocks
    assert f["bytes"] == e["copied_bytes"] == sum(p["bytes"] for p in e["parts"])
    assert size is None or f["bytes"] == size
    assert "look like copies" in f["summary"]


def test_moved_records(compiled, record):
    found, _ = findings(record, [compiled("copied_records.cc"), "moved"])
    assert copies(found) == []


@pytest.mark.parametrize("mode, by", [("each", "keep_each"), ("all", "keep_all"), ("formatted", "keep_each"),
                                      ("shared", None)])
def test_cloned_records(record, tmp_path, mode, by):
    if not shutil.which("rustc"):
        pytest.skip("no rustc here")
    program = tmp_path / "records"
    assert run(["rustc", "-O", "-g", "-o", program, PROGRAMS / "copied_records.rs"]).returncode == 0
    found, _ = findings(record, [program, mode])
    if not by:
        assert copies(found) == []
        return
    (f,) = copies(found)
    e = f["evidence"]
    strings = sum(17 + (i * 7 + k * 13) % 40 for i in range(5000) for k in (1, 2))
    assert (function(e["function"]), e["blocks"]) == (by, 15000)
    if mode == "formatted":
        assert e["sizes"] == "without-room" and "load_formatted" in e["original_function"]
    else:
        assert f["bytes"] == strings + MARKS


# ---- slack, rounding, temporaries

def test_spare_room(compiled, record):
    found, _ = findings(record, [compiled("slack_shapes.c"), "spare"])
    f = only(found, "growth-slack")
    e = f["evidence"]
    assert e["function"] == "push_all"
    assert e["slack_bytes"] == f["bytes"] == (131072 - 80000) * 8
    assert e["steps"] == 13  # 16 to 131,072


def test_spare_room_of_small_arrays(compiled, record):
    """20,000 rows of 192 bytes, 24 of them unused: one in 64 is examined and stands for the others."""
    found, _ = findings(record, [compiled("slack_shapes.c"), "rows"])
    f = only(found, "growth-slack")
    e = f["evidence"]
    assert (e["function"], e["arrays"], e["largest_bytes"]) == ("rows", 20000, 192)
    assert 16 <= e["blocks"] <= 256
    assert 0.9 * 20000 * 24 < f["bytes"] <= 20000 * 24
    assert f["severity"] == "medium"  # 12.5 % of the peak heap
    assert f"measured on {e['blocks']} of them" in f["summary"]


def test_neighbours_are_one_finding(compiled, record):
    found, _ = findings(record, [compiled("slack_shapes.c"), "both"])
    f = only(found, "allocator-rounding")
    assert f["bytes"] == 20000 * (32 - 9) + 20000 * (32 - 10)
    assert [(p["function"], p["bytes"]) for p in f["evidence"]["places"]] == \
        [("names", 20000 * 23), ("many", 20000 * 22)]
    for place in "names", "many":
        assert f"{place} (slack_shapes.c:{line_of('slack_shapes.c', 'slack.' + place)})" in f["summary"]


def test_small_blocks(compiled, record):
    found, _ = findings(record, [compiled("slack_shapes.c"), "small"])
    f = only(found, "allocator-rounding")
    e = f["evidence"]
    assert (e["function"], e["blocks"], e["requested_bytes"]) == ("many", 20000, 180000)
    assert (e["rounding_bytes"], e["header_bytes"]) == (20000 * (24 - 9), 20000 * 8)


def test_temporaries(compiled, record):
    found, _ = findings(record, [compiled("slack_shapes.c"), "scratch"])
    f = only(found, "temporary-churn")
    assert f["evidence"]["function"] == "scratch"
    assert f["evidence"]["temporary"] == 300000


@pytest.mark.parametrize("mode", ["full", "full-rows", "fitting", "relay"])
def test_no_cost(compiled, record, mode):
    found, _ = findings(record, [compiled("slack_shapes.c"), mode])
    assert kinds(found) == []


# ---- quality

def test_quality_without_symbols(compiled, record, tmp_path):
    stripped = tmp_path / "stripped"
    assert run(["strip", "-o", stripped, compiled("object_shapes.c")]).returncode == 0
    found, rep = findings(record, [stripped, "tables"])
    assert found == []  # nothing is wrong with the program
    (note,) = [n for n in rep["notes"] if n.get("about") == "profile-quality"]
    assert note["kind"] == "info" and note["text"].endswith("without names, most of it in stripped")
    assert note["evidence"]["nameless_share"] > 0.9
    assert note["evidence"]["nameless_modules"] == ["stripped"]
    assert note["advice"] == "Build stripped with -g, or keep its symbols."


def test_quality_with_symbols(compiled, record):
    found, rep = findings(record, [compiled("object_shapes.c"), "tables"])
    assert found == [] and not [n for n in rep["notes"] if "about" in n]


# ---- programs that nobody here wrote: nothing but what docs/findings.md calls right there

@pytest.mark.parametrize("name, command, allowed", [
    ("sqlite3", ["sqlite3", ":memory:",
                 "create table t(a integer primary key, b text);"
                 "with recursive n(i) as (select 1 union all select i+1 from n where i<20000) "
                 "insert into t select i, 'name '||i from n; select count(*) from t"], set()),
    ("perl", ["perl", "-e", 'my %h; $h{"key$_"} = {id => $_} for 1..20000; print scalar keys %h'],
     {"allocator-rounding"}),
    ("python3", ["/usr/bin/python3", "-c",
                 "d = {i: str(i) for i in range(50000)}; print(len(d))"], set()),
    ("git", ["git", "--version"], set()),
])
def test_real_programs(record, name, command, allowed):
    if not any(os.access(os.path.join(d, name), os.X_OK) for d in os.environ["PATH"].split(":")):
        pytest.skip(f"no {name} here")
    found, _ = findings(record, command)
    assert set(kinds(found)) <= allowed, [f["summary"] for f in found]


def test_compiler(record, tmp_path):
    cc1 = run(["gcc", "-print-prog-name=cc1"]).stdout.decode().strip()
    if not os.path.isabs(cc1):
        pytest.skip("no cc1 here")
    source = tmp_path / "input.i"
    source.write_bytes(run(["gcc", "-E", PROGRAMS / "stack_shapes.c"]).stdout)
    found, _ = findings(record, [cc1, "-quiet", "-fpreprocessed", "-O2", "-g", source,
                                 "-o", tmp_path / "output.s"])
    assert kinds(found) == []
