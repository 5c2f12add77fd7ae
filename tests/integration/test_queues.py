"""Queues without a bound, and everything that looks like one: within one thread, in C++, and of real Rust
crates, with and without a bound. The programs' sources say what each mode does and how many items there are."""

import pytest

from harness import PROGRAMS, bare, cargo_build


def queues(rep):
    return [f for f in rep["findings"] if f["kind"] == "unbounded-queue"]


def only_queue(rep):
    found = queues(rep)
    assert len(found) == 1, [f["summary"] for f in found]
    assert found[0]["severity"] == "high" and "unbounded queue" in found[0]["summary"]
    return found[0]["evidence"]


def name(function):
    return bare(function).split("::", 1)[-1]


def evidence_of(record, command, calm_ns, consumer):
    """Of the only queue. A program whose threads are off their processors for most of their time has waits that no line of
    it explains. So it runs again until the queue is found where it is; what a calm run shows counts at once."""
    for _ in range(20):
        _, rep = record(command)
        found = [name(f["evidence"]["consumer_function"]) for f in queues(rep)]
        if rep["duration_ns"] < calm_ns or found == [consumer]:
            break
    return only_queue(rep)


# ---- one thread does everything

MS = 1_000_000


@pytest.mark.parametrize("mode, producer, consumer", [
    ("loop", "make_message", "on_writable"), ("inline", "run_inline", "run_inline")])
def test_event_loop(compiled, record, mode, producer, consumer):
    e = evidence_of(record, [compiled("event_loop.c"), mode], 300 * MS, consumer)  # idle: 100 ms
    assert (e["producer_function"], e["consumer_function"]) == (producer, consumer)
    assert e["freed_by_others"] == 0
    # 5,000 come, three for each that leaves: a third has left when the last one comes.
    assert e["items"] == 5000 and 3300 <= e["backlog_items"] <= 3340
    assert e["service_ns"] > 1.5 * e["arrival_ns"]


@pytest.mark.parametrize("mode", ["bound64", "bound1000", "greedy1000", "keeps-up", "cache", "large-cache",
                                  "slowing-cache", "arenas", "load-then-work", "tables", "expiry"])
def test_one_thread_without_a_queue(compiled, record, mode):
    _, rep = record([compiled("event_loop.c"), mode])
    assert queues(rep) == []
    assert rep["totals"]["frees"] >= 10000  # it did make and free them all


# ---- C++

def test_destructors_are_not_the_consumer(compiled, record):
    e = evidence_of(record, [compiled("queue_cxx.cc"), "batch"], 600 * MS, "consume_batch")  # idle: 450 ms
    assert name(e["consumer_function"]) == "consume_batch" and e["consumer_threads"] == ["last"]
    assert e["items"] == 3000 and e["backlog_items"] > 2500


def test_the_stage_where_items_wait(compiled, record):
    """The last stage frees, but the items wait for the one before it."""
    e = evidence_of(record, [compiled("queue_cxx.cc"), "stages"], 650 * MS, "encode_all")  # idle: 500 ms
    assert name(e["consumer_function"]) == "encode_all" and e["consumer_threads"] == ["encoder"]
    assert e["items"] == 3000 and e["backlog_items"] > 2500


# ---- real crates

CRATES = """[dependencies]
async-channel = "2"
crossbeam-channel = "0.5"
flume = "0.11"
serde_json = "1"
tokio = { version = "1", features = ["macros", "rt", "rt-multi-thread", "sync", "time"] }
[profile.release]
debug = 1
"""


@pytest.fixture(scope="module")
def crates(tmp_path_factory):
    return cargo_build(tmp_path_factory.mktemp("queue_crates"), "queue_crates", CRATES,
                       (PROGRAMS / "queue_crates.rs").read_text(), "--release", seconds=400)


# case: who makes an item, who takes it, and the consuming thread if it has a name of its own
CASES = {
    "std": ("make_job", "consume", "consumer"),
    "crossbeam": ("make_job", "consume", "consumer"),
    "flume": ("make_job", "consume", "consumer"),
    "async-channel": ("make_job", "consume", "consumer"),
    "current-busy": ("make_job", "busy_actor", None),
    "current-timer": ("make_job", "awaiting_actor", None),
    "current-eager": ("make_job", "awaiting_actor", None),
    "multi-busy": ("make_job", "busy_actor", None),
    "multi-timer": ("make_job", "awaiting_actor", None),
    "multi-eager": ("make_job", "awaiting_actor", None),
    "ffi": ("make_job", "ffi_stage", None),  # 48 chunks do not always show which of its threads takes them
    "two-stages": ("make_job", "two_stages", "encoder"),
    "second-stage": ("make_job", "consume", "writer"),
    "json": ("make_json", "json", "consumer"),
}


@pytest.mark.parametrize("case", CASES)
def test_crates_without_a_bound(crates, record, case):
    maker, consumer, thread = CASES[case]
    _, rep = record([crates, case, "0"])
    e = only_queue(rep)
    assert name(e["maker_function"]).split("::")[0] == maker
    assert name(e["consumer_function"]).split("::")[0] == consumer
    assert thread is None or e["consumer_threads"] == [thread]
    items = 1500 if case == "ffi" else 5000
    assert e["items"] == items and e["backlog_items"] > items // 2
    if case == "second-stage":  # the encoder puts them into the queue in which they wait
        assert name(e["producer_function"]).startswith("second_stage") and e["producer_threads"] == ["encoder"]


# Not 1,000 of ffi's 1,500 messages: that queue fills for most of the run.
@pytest.mark.parametrize("case, bound", [(c, b) for c in CASES for b in ("64", "1000") if (c, b) != ("ffi", "1000")])
def test_crates_with_a_bound(crates, record, case, bound):
    _, rep = record([crates, case, bound])
    assert queues(rep) == []


def test_items_with_optional_parts(compiled, record):
    """An item is counted once, whatever parts it has."""
    done, rep = record([compiled("optional_parts.c", flags=["-pthread"]), "3000"])
    assert done.returncode == 0
    (f,) = [f for f in rep["findings"] if f["kind"] == "unbounded-queue"]
    e = f["evidence"]
    assert (e["items"], e["producer_function"]) == (3000, "make_item")
    assert 1000 < e["backlog_items"] <= 3000 and e["service_ns"] > 100000
