"""SIGKILL of the program at random moments: the recording opens, and what it says lies
between the two books that the program keeps in a shared file (tests/programs/own_tally.c),
which differ by the call in flight on each thread."""

import random
import signal
import struct

import pytest

from harness import HEFT, check_sums, children_of, kill_program, report, start, wait_until

BOOK = struct.Struct("=Q2Q2Q2Q2Q7Q")
THREADS = 2


def read_books(path):
    data = path.read_bytes()
    pid, threads, ready, _ = struct.unpack_from("=4Q", data)
    books = []
    for i in range(threads):
        n = BOOK.unpack_from(data, 32 + i * BOOK.size)
        books.append({"tid": n[0], "allocations": (n[2], n[1]), "frees": (n[4], n[3]),
                      "reallocations": (n[6], n[5]), "allocated_bytes": (n[8], n[7])})
    return pid, ready, books


def pid_from_books(path):
    wait_until(lambda: path.exists() and path.stat().st_size > 0 and read_books(path)[1],
               what="start of the program")
    return read_books(path)[0]


def between(value, low_high, what):
    low, high = low_high
    assert low <= value <= high, f"{what}: recorded {value}, done {low}, begun {high}"


def check_against_books(rep, books):
    """pthread_create and pthread_join allocate and free on the first thread, too (libc's blocks
    for a thread): those calls are not in the books."""
    others = [s for s in rep["sites"] if not any(
        f.get("function") in ("tally_malloc", "tally_realloc") for f in s["stack"])]
    extra = sum(s["allocations"] for s in others)
    extra_bytes = sum(s["allocated_bytes"] for s in others)
    extra_frees = sum(s["allocations"] - s["live_blocks"] for s in others)
    threads = {t["tid"]: t for t in rep["threads"]}
    for i, book in enumerate(books):
        if book["tid"] == 0:  # had not begun
            continue
        first = {"allocations": 0, "allocated_bytes": 0, "frees": 0}
        if i == 0:
            first = {"allocations": extra, "allocated_bytes": extra_bytes, "frees": extra_frees}
        thread = threads.get(book["tid"])
        if thread is None:
            assert book["allocations"][0] == 0
            continue
        for column in ("allocations", "frees", "allocated_bytes"):
            between(thread[column] - first[column], book[column], f"thread {i}, {column}")
    sums = {c: (sum(b[c][0] for b in books), sum(b[c][1] for b in books))
            for c in ("allocations", "frees", "reallocations")}
    totals = rep["totals"]
    between(totals["reallocations"], sums["reallocations"], "reallocations")
    between(totals["live_blocks"] - extra + extra_frees,
            (sums["allocations"][0] - sums["frees"][1],
             sums["allocations"][1] - sums["frees"][0]), "live blocks")
    assert totals["dropped"] == 0 and totals["unknown_frees"] == 0


@pytest.mark.parametrize("batch", range(10))
def test_program_killed_at_a_random_moment(compiled, tmp_path, batch):
    """Ten moments in each of ten batches."""
    program = compiled("own_tally.c")
    moments = random.Random(batch)
    for i in range(10):
        books_file, path = tmp_path / f"books{i}", tmp_path / f"killed{i}.heft"
        heft = start([HEFT, "run", "-q", "-o", path, "--", program, books_file, str(THREADS), "0"])
        kill_program(heft, lambda: pid_from_books(books_file), moments.uniform(0, 0.06))
        rep = report(path)
        assert (rep["end"], rep["signal"]) == ("signal", signal.SIGKILL)
        check_sums(rep)
        check_against_books(rep, read_books(books_file)[2])


@pytest.mark.parametrize("threads", [1, 8])
def test_books_of_a_whole_run_agree_exactly(compiled, record, tmp_path, threads):
    """The same check when nobody is killed: begun equals done, so nothing may differ."""
    books_file = tmp_path / "books"
    done, rep = record([compiled("own_tally.c"), books_file, str(threads), "30000"])
    assert done.returncode == 0
    _, _, books = read_books(books_file)
    assert all(low == high for b in books for low, high in [b["allocations"], b["frees"]])
    assert sum(b["allocations"][0] for b in books) > 8000 * threads
    check_against_books(rep, books)
    check_sums(rep)


def test_killed_before_and_during_start(compiled, tmp_path):
    """Very early: there may be nothing in the recording, but it opens and heft ends."""
    program = compiled("own_tally.c")
    moments = random.Random(99)
    for i in range(10):
        books_file, path = tmp_path / f"books{i}", tmp_path / f"early{i}.heft"
        heft = start([HEFT, "run", "-q", "-o", path, "--", program, books_file, "2", "0"])
        kill_program(heft, lambda: wait_until(lambda: children_of(heft.pid), what="the program's process")[0],
                     moments.uniform(0, 0.01))
        rep = report(path)
        check_sums(rep)
        if books_file.exists() and books_file.stat().st_size > 0:
            check_against_books(rep, read_books(books_file)[2])
