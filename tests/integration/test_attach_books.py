"""What heft attach counts: a program that calls the allocator in 14 ways keeps its own books (attach_kinds.c), and
the recording must have the same. What heft run records of the same program is the same to the unit."""

import json
import math
import subprocess

import pytest

from attach_harness import Attached, Lines, may_trace
from harness import HEFT, TIME_LIMIT, bare, check_sums, end_group, names, report, start, total

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
KINDS = ["by_malloc", "by_calloc", "by_pointer", "by_dlsym", "by_deepbind", "by_aligned_alloc", "by_memalign",
         "by_valloc", "by_pvalloc", "by_reallocarray", "by_realloc", "by_strdup", "by_strndup", "by_posix_memalign"]
COLUMNS = ("allocations", "reallocations", "allocated_bytes", "reallocated_bytes", "peak_bytes", "own_peak_bytes",
           "live_bytes", "live_blocks", "temporary", "cross_thread_frees")


class Kinds:
    """attach_kinds.c, told what to do line by line; also as heft's child."""

    def __init__(self, program, library, folder, threads, before=()):
        self.folder = folder
        self.process = start([*before, program, threads, library], stdin=subprocess.PIPE, cwd=folder)
        self.pid = self.process.pid
        self.lines = Lines(self.process.stdout)
        assert self.lines.next() == "ready"

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.lines.next()
        assert answer, "the program has gone, or does not answer"
        return json.loads(answer) if answer.startswith("{") else answer

    def finish(self):
        self.process.stdin.close()
        self.process.stdin = None
        out, err = self.process.communicate(timeout=TIME_LIMIT)
        assert (self.process.returncode, self.lines.rest + out) == (0, b"right\n"), err

    def end(self):
        end_group(self.process)
        self.process.wait()


@pytest.fixture
def kinds(compiled, tmp_path):
    made = []

    def make(threads, before=()):
        made.append(Kinds(compiled("attach_kinds.c", flags=["-fno-plt", "-ldl"]),
                          compiled("attach_part.c", flags=["-shared", "-fPIC"], output="part_kinds.so"), tmp_path,
                          threads, before))
        return made[-1]

    yield make
    for one in made:
        one.end()


def change(before, after):
    """What was called between two books: {kind: (calls, bytes)}, frees, (reallocations, growth)."""
    per_kind = {k: (after[k][0] - before[k][0], after[k][1] - before[k][1]) for k in KINDS}
    return per_kind, after["frees"] - before["frees"], tuple(b - a for a, b in zip(before["resize"], after["resize"]))


def recorded(rep):
    """The same, of a recording."""
    return {k: (total(rep.sites_calling(k), "allocations"), total(rep.sites_calling(k), "allocated_bytes"))
            for k in KINDS}


def check_equal(rep, before, after):
    per_kind, frees, resized = change(before, after)
    t = rep["totals"]
    check_sums(rep)
    assert recorded(rep) == per_kind
    assert t["allocations"] == sum(calls for calls, _ in per_kind.values())
    assert t["frees"] + t["older_frees"] == frees
    assert t["reallocations"] == resized[0]
    assert t["allocated_bytes"] == sum(size for _, size in per_kind.values()) + resized[1]
    assert (t["unknown_frees"], t["dropped"]) == (0, 0)


def check_stacks(rep):
    """Every site leads through its own function of the program to the thread's or the program's begin."""
    for site in rep["sites"]:
        stack = names(site)
        assert [n for n in stack if n in KINDS or n == "resize"], stack
        assert "all_kinds" in stack and "worker" in stack, stack
        assert stack.index("all_kinds") < stack.index("worker")
        assert stack[-1] in ("clone3", "__clone3", "clone", "__clone", "start_thread"), stack


@pytest.mark.parametrize("threads", [1, 4])
def test_books(kinds, threads):
    """Between attach and detach nobody is in a call: the books are equal."""
    program = kinds(threads)
    program.tell("round 100")
    before = program.tell("keep 5")
    heft = Attached(program, heft=HEFT)
    program.tell("round 200")
    program.tell("drop")  # 5 x 14 blocks a thread that are older
    after = program.tell("keep 3")
    heft.signal()
    heft.end()
    program.tell("round 100")
    program.tell("drop")
    program.finish()
    rep = heft.report()
    check_equal(rep, before, after)
    check_stacks(rep)
    t = rep["totals"]
    assert t["older_frees"] == 5 * 14 * threads
    assert t["live_blocks"] == 3 * 14 * threads
    assert f"freed {5 * 14 * threads} and resized 0 blocks that it had allocated before heft was attached" in json.dumps(rep["notes"])


def test_books_again_and_again(kinds):
    """Each recording has its own part, whatever was before; what one heft saw is older for the next."""
    program = kinds(2)
    for i in range(5):
        before = program.tell("keep 2")
        heft = Attached(program, "--force", heft=HEFT)
        program.tell(f"round {20 + i}")
        program.tell("drop")
        after = program.tell("keep 1")
        heft.signal()
        heft.end()
        rep = heft.report()
        check_equal(rep, before, after)
        # From the last time it kept one round, now two more.
        assert rep["totals"]["older_frees"] == 14 * 2 * (2 + (i > 0))
    program.finish()


@pytest.mark.parametrize("threads", [1, 8])
def test_books_while_it_runs(kinds, threads):
    """heft comes and goes while all threads are at work: each kind is counted up to the calls in flight."""
    program = kinds(threads)
    first = program.tell("books")
    program.tell("run")
    heft = Attached(program, heft=HEFT)
    halted = program.tell("halt")
    before = program.tell("round 50")
    after = program.tell("round 100")
    program.tell("run")
    heft.signal()
    heft.end()
    last = program.tell("halt")
    program.finish()
    rep = heft.report()
    check_sums(rep)
    whole, certain = change(first, last)[0], change(halted, after)[0]
    counted = recorded(rep)
    t = rep["totals"]
    for kind in KINDS:
        assert certain[kind][0] <= counted[kind][0] <= whole[kind][0]
        assert certain[kind][1] <= counted[kind][1] <= whole[kind][1]
    # Every thread makes its calls in one order: no kind can be ahead of another by more than a call a thread at
    # each end.
    calls = [counted[k][0] for k in KINDS]
    assert max(calls) - min(calls) <= 2 * threads
    # A block that was there before heft and is resized is an allocation.
    resized = total(rep.sites_calling("resize"), "allocations")
    assert resized <= threads and sum(calls) + resized == t["allocations"]
    assert (t["unknown_frees"], t["dropped"]) == (0, 0)
    # Older frees: at most what a round holds, of each thread.
    assert t["older_frees"] <= 14 * threads
    check_stacks(rep)
    assert before["frees"] <= after["frees"]


def site_numbers(rep):
    """Per call stack, as functions and lines, all that a site counts; and how it was called."""
    found = {}
    for site in rep["sites"]:
        # In glibc up to 2.37 memalign and aligned_alloc are one function with two names.
        via = "memalign" if site["via"] == "aligned_alloc" else site["via"]
        key = tuple((bare(f.get("function")), f.get("line")) for f in site["stack"]), via
        assert key not in found
        found[key] = {c: site[c] for c in COLUMNS}
    return found


@pytest.mark.parametrize("threads", [1, 4])
def test_the_same_as_run(kinds, threads, tmp_path):
    """heft attach before the work begins, and heft run of the same: to the unit, site by site. What the program
    calls before it is ready is only seen by heft run, and is none of the sites of the work."""
    program = kinds(threads)
    heft = Attached(program, heft=HEFT)
    work = ["round 150", "keep 4", "round 20", "drop", "keep 2"]
    for line in work:
        program.tell(line)
    heft.signal()
    heft.end()
    program.finish()
    attached = heft.report()

    path = tmp_path / "run.heft"
    program = kinds(threads, [HEFT, "run", "-q", "-o", path, "--"])
    for line in work:
        program.tell(line)
    program.finish()
    ran = report(path)

    numbers, other = site_numbers(attached), site_numbers(ran)
    assert set(numbers) <= set(other)
    early = [key for key in other if key not in numbers]
    assert all("all_kinds" not in [f for f, _ in key[0]] for key in early), early
    # With several threads the interleaving is another one each time, and with it what is live at the peak.
    exact = [c for c in COLUMNS if threads == 1 or c not in ("peak_bytes", "own_peak_bytes", "temporary")]
    for key, columns in numbers.items():
        assert {c: columns[c] for c in exact} == {c: other[key][c] for c in exact}, key
    early_blocks = sum(other[key]["live_blocks"] for key in early)
    a, r = attached["totals"], ran["totals"]
    assert a["allocations"] == r["allocations"] - sum(other[key]["allocations"] for key in early)
    assert a["allocated_bytes"] == r["allocated_bytes"] - sum(other[key]["allocated_bytes"] for key in early)
    assert a["live_blocks"] == r["live_blocks"] - early_blocks
    # What was freed of the early blocks was freed before the work.
    assert a["frees"] == r["frees"] - sum(other[key]["allocations"] - other[key]["live_blocks"] for key in early)
    if threads == 1:
        early_live = sum(other[key]["live_bytes"] for key in early)
        assert a["peak_bytes"] == r["peak_bytes"] - early_live


def spread(size):
    """The standard error of an estimate of so many bytes, blocks of up to 1,000 bytes, a sample in 4 KiB."""
    return 1.3 * math.sqrt(size * 4096)


@pytest.mark.parametrize("threads", [1, 4])
def test_sampled(kinds, threads):
    """Of 14 x 3,000 x threads blocks and about 500 bytes each, one sample in 4 KiB: within 5 standard errors."""
    program = kinds(threads)
    program.tell("round 50")
    heft = Attached(program, "--sample=4k", heft=HEFT)
    before = program.tell("books")
    between = program.tell("round 3000")
    after = program.tell("keep 500")
    heft.signal()
    heft.end()
    program.tell("drop")
    program.finish()
    rep = heft.report()
    per_kind = change(before, after)[0]
    size = sum(b for _, b in per_kind.values())
    t = rep["totals"]
    assert rep["mode"] == "sample" and rep["end"] == "detached"
    # A sample stands for 4 KiB and a little more: the error is that of a count of so many. A resized block is drawn
    # anew with all of its size, as with heft run, and stands apart.
    found = sum(total(rep.sites_calling(k), "allocated_bytes") for k in KINDS)
    assert abs(found - size) < 5 * spread(size), (found, size)
    kept = 500 * 14 * threads
    # A sample of one byte stands for 4,096 blocks, and there are some: one of them may be drawn.
    assert -0.35 * kept < t["live_blocks"] - kept < 0.35 * kept + 4096
    size = sum(b for _, b in change(between, after)[0].values())
    assert abs(t["live_bytes"] - size) < 5 * spread(size), (t["live_bytes"], size)
    for kind in KINDS:
        amount = per_kind[kind][1]
        found = total(rep.sites_calling(kind), "allocated_bytes")
        assert abs(found - amount) < 6 * spread(amount), (kind, found, amount)
