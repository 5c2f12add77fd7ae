"""Counts over threads. pthread_create allocates too (libc's own blocks for a thread), so
sums are taken over the sites in the program's own file."""

import pytest

from harness import check_sums, line_of, total, totals_of


def size_of(i):
    return 16 + i % 64


def site_on(rep, program, marker):
    line = line_of("threads.c", marker)
    (site,) = [s for s in rep.sites_of(program) if s["stack"][0]["line"] == line]
    return site


def go(record, program, *arguments):
    done, rep = record([program, *arguments])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"")
    assert rep["totals"]["dropped"] == 0 and rep["totals"]["unknown_frees"] == 0
    check_sums(rep)
    return rep


@pytest.mark.parametrize("threads", [1, 8])
def test_every_column(compiled, record, threads):
    program = compiled("threads.c")
    rep = go(record, program, "same", str(threads))
    all_of_one = sum(size_of(i) for i in range(1000))
    at_peak = sum(size_of(i) for i in range(0, 1000, 2))
    kept = [i for i in range(0, 1000, 2) if i % 10 == 0]
    block, top = site_on(rep, program, "same.block"), site_on(rep, program, "same.top")
    own_peak = block.pop("own_peak_bytes")  # how far the threads overlap is not decided
    assert all_of_one <= own_peak <= threads * all_of_one
    assert totals_of([{**block, "own_peak_bytes": 0}]) == {
        "allocations": 1000 * threads, "reallocations": 0,
        "allocated_bytes": all_of_one * threads, "reallocated_bytes": 0,
        "peak_bytes": at_peak * threads, "own_peak_bytes": 0,
        "live_bytes": sum(size_of(i) for i in kept) * threads, "live_blocks": 100 * threads,
        # of a thread's blocks only the last, 999, has none after it
        "temporary": threads, "cross_thread_frees": 0}
    assert totals_of([top]) == {
        "allocations": 1, "reallocations": 0, "allocated_bytes": 16 << 20, "reallocated_bytes": 0,
        "peak_bytes": 16 << 20, "own_peak_bytes": 16 << 20, "live_bytes": 0, "live_blocks": 0,
        "temporary": 1, "cross_thread_frees": 0}
    libc = [s for s in rep["sites"] if s not in (block, top) and s["id"] != block["id"]]
    assert len(libc) == len(rep["sites"]) - 2
    assert rep["totals"]["peak_bytes"] == at_peak * threads + (16 << 20) + total(libc, "peak_bytes")
    least = 500 * threads + 1
    assert least <= rep["totals"]["peak_blocks"] <= least + total(libc, "allocations")
    workers = [t for t in rep["threads"] if t["tid"] != rep["pid"]]
    assert len(workers) == threads
    for worker in workers:
        assert worker["allocations"] == 1000
        assert worker["allocated_bytes"] == all_of_one
        assert worker["frees"] == 900
    assert rep["totals"]["threads"] == threads + 1


@pytest.mark.parametrize("pairs", [1, 4])
def test_every_block_is_freed_by_the_other_thread(compiled, record, pairs):
    program = compiled("threads.c")
    rep = go(record, program, "pairs", str(pairs))
    n = 5000 * pairs
    sizes = [32 + i % 32 for i in range(5000)]
    block, grow = site_on(rep, program, "pairs.block"), site_on(rep, program, "pairs.grow")
    assert (block["allocations"], block["reallocations"]) == (n, 0)
    assert block["allocated_bytes"] == sum(sizes) * pairs
    assert block["cross_thread_frees"] == n * 4 // 5
    assert block["live_blocks"] == block["live_bytes"] == block["temporary"] == 0
    # grown by the thread that frees them, but born in the other one: still cross-thread frees
    assert (grow["allocations"], grow["reallocations"]) == (0, n // 5)
    assert grow["reallocated_bytes"] == 100 * n // 5
    assert grow["allocated_bytes"] == sum(100 - s for s in sizes[::5]) * pairs
    assert grow["cross_thread_frees"] == n // 5
    assert grow["live_blocks"] == grow["live_bytes"] == grow["temporary"] == 0
    assert block["own_peak_bytes"] <= 18 * 63 * pairs  # 16 slots and one in each hand
    made = {t["tid"]: t for t in rep["threads"]}
    producers = [t for t in made.values() if t["allocations"] == 5000]
    consumers = [t for t in made.values() if t["frees"] == 5000]
    assert len(producers) == len(consumers) == pairs
    assert all(t["frees"] == 0 for t in producers)
    assert all(t["allocations"] == 0 for t in consumers)


def test_temporary_is_a_matter_of_one_thread(compiled, record):
    program = compiled("threads.c")
    rep = go(record, program, "temporary", "2")
    mine, other = site_on(rep, program, "temporary.mine"), site_on(rep, program, "temporary.other")
    handed = site_on(rep, program, "temporary.handed")
    assert mine["temporary"] == 1  # the other thread's two allocations are none of its business
    assert other["temporary"] == 0  # `handed` came after it on the same thread
    assert handed["temporary"] == 0  # freed at once, but by the other thread
    assert (mine["cross_thread_frees"], other["cross_thread_frees"],
            handed["cross_thread_frees"]) == (0, 0, 1)


def test_thread_names(compiled, record):
    rep = go(record, compiled("threads.c"), "names", "2")
    by_name = {t["name"]: t for t in rep["threads"]}
    assert by_name["named-before"]["allocations"] == 1
    assert by_name["named-after"]["allocations"] == 3
    assert [t["name"] for t in rep["threads"] if t["tid"] == rep["pid"]] == ["threads"]


def test_thousands_of_short_threads(compiled, record):
    program = compiled("threads.c")
    rep = go(record, program, "short", "2000")
    kept, freed = site_on(rep, program, "short.kept"), site_on(rep, program, "short.freed")
    assert (kept["allocations"], kept["allocated_bytes"]) == (2000, 222000)
    assert (kept["live_blocks"], kept["live_bytes"], kept["temporary"]) == (2000, 222000, 0)
    assert (freed["allocations"], freed["allocated_bytes"]) == (2000, 444000)
    assert (freed["live_blocks"], freed["live_bytes"], freed["temporary"]) == (0, 0, 2000)
    workers = [t for t in rep["threads"] if t["tid"] != rep["pid"]]
    assert len(workers) == 2000
    assert all((t["allocations"], t["frees"], t["allocated_bytes"]) == (2, 1, 333) for t in workers)


def test_two_hundred_threads_at_once(compiled, record):
    program = compiled("threads.c")
    rep = go(record, program, "alive", "200")
    block = site_on(rep, program, "alive.block")
    assert (block["allocations"], block["allocated_bytes"]) == (200, 200 * 4096)
    assert (block["live_blocks"], block["temporary"], block["cross_thread_frees"]) == (0, 200, 0)
    assert block["own_peak_bytes"] == 200 * 4096
    assert len([t for t in rep["threads"] if t["allocations"] == 1
                and t["allocated_bytes"] == 4096 and t["frees"] == 1]) == 200


def test_threads_that_free_at_their_very_end(compiled, record):
    """More threads than there are streams: each is given back although it was written to after the
    thread's last destructor."""
    count = 9000
    done, rep = record([compiled("late_frees.c"), str(count)], timeout=120)
    assert done.returncode == 0, done.stderr
    totals = rep["totals"]
    assert (totals["threads"], totals["dropped"], totals["unknown_frees"]) == (count + 1, 0, 0)
    blocks = [s for s in rep["sites"] if any(f["function"] == "thread" for f in s["stack"])]
    assert sum(s["allocations"] for s in blocks) >= count
    assert sum(s["live_blocks"] for s in blocks) == 0
    assert sum(s["cross_thread_frees"] for s in blocks) == 0


@pytest.mark.parametrize("count,resized", [(2, 0), (2, 1), (2, 8), (4, 0), (4, 8)])
def test_blocks_passed_on_as_fast_as_can_be(compiled, record, count, resized):
    rounds = 100_000
    tunables = "glibc.malloc.arena_max=1:glibc.malloc.tcache_count=0"
    done, rep = record([compiled("passed_on.c"), str(count), str(rounds), str(resized)],
                       env={"GLIBC_TUNABLES": tunables})
    assert done.returncode == 0, done.stderr
    assert rep["totals"]["dropped"] == 0 and rep["totals"]["unknown_frees"] == 0
    sites = [s for s in rep["sites"] if s["stack"][0]["function"] == "pass_on"]
    assert total(sites, "allocations") == count * rounds
    assert total(sites, "reallocations") == (count * -(-rounds // resized) if resized else 0)
    assert total(sites, "live_blocks") == 0


def test_times_do_not_run_ahead(compiled, record):
    """The peak is one block, made after eight threads have ended, and the program lives on for as long as
    it says. The end is seen later than it is, never earlier: so a slow machine does not fail here."""
    done, rep = record([compiled("times_kept.c")])
    assert done.returncode == 0
    after = rep["duration_ns"] - rep["totals"]["peak_time_ns"]
    assert after > int(done.stdout) - 200_000, (after, done.stdout)
