"""Counts worked out by hand, exact in every column, for each interposed function.

The C programs allocate nothing but what their source shows, so the whole recording is
compared: every site (function, line, via, all columns) and every total."""

import pytest

from harness import COLUMNS, allocator_library, bare, check_sums, in_module, line_of, names, run


class S:
    """What one site must show; columns not named are 0. own defaults to peak."""

    short = {"a": "allocations", "r": "reallocations", "bytes": "allocated_bytes",
             "rbytes": "reallocated_bytes", "peak": "peak_bytes", "own": "own_peak_bytes",
             "live": "live_bytes", "blocks": "live_blocks", "temp": "temporary",
             "cross": "cross_thread_frees"}

    def __init__(self, marker, via, function=None, **columns):
        self.marker, self.via, self.function = marker, via, function
        columns.setdefault("own", columns.get("peak", 0))
        self.columns = {c: 0 for c in COLUMNS}
        self.columns.update({self.short[k]: v for k, v in columns.items()})


# case: ([sites], frees, peak_blocks)
C_CASES = {
    "nothing": ([], 0, 0),
    # 100 + 200 + 300 live together is the peak; c stays
    "malloc": ([S("malloc.a", "malloc", a=1, bytes=100, peak=100),
                S("malloc.b", "malloc", a=1, bytes=200, peak=200),
                S("malloc.c", "malloc", a=1, bytes=300, peak=300, live=300, blocks=1)], 2, 3),
    # the peak, 150, is there before the block of 0 bytes comes; the overflow does not count.
    # a is not temporary: b came before its free
    "calloc": ([S("calloc.a", "calloc", a=1, bytes=150, peak=150),
                S("calloc.b", "calloc", a=1, blocks=1)], 1, 1),
    # 100, grown by 200 to 300 (the peak, owned by b), shrunk to 50 (no bytes allocated)
    "realloc": ([S("realloc.a", "malloc", a=1, bytes=100, own=100),
                 S("realloc.b", "realloc", r=1, bytes=200, rbytes=300, peak=300),
                 S("realloc.c", "realloc", r=1, rbytes=50, own=50, live=50, blocks=1)], 0, 1),
    "realloc_null": ([S("realloc_null.a", "realloc", a=1, bytes=123, peak=123, temp=1)], 1, 1),
    # glibc: realloc(p, 0) frees; so the block is a temporary one and 64 is the peak
    "realloc_zero": ([S("realloc_zero.a", "malloc", a=1, bytes=64, peak=64, temp=1),
                      S("realloc_zero.b", "malloc", a=1, bytes=10, own=10, live=10, blocks=1)],
                     1, 1),
    "realloc_fails": ([S("realloc_fails.a", "malloc", a=1, bytes=40, peak=40, temp=1)], 1, 1),
    "posix_memalign": ([S("posix_memalign.a", "posix_memalign", a=1, bytes=1000, peak=1000,
                          temp=1)], 1, 1),
    "aligned_alloc": ([S("aligned_alloc.a", "aligned_alloc", a=1, bytes=640, peak=640),
                       S("aligned_alloc.b", "aligned_alloc", a=1, blocks=1)], 1, 1),
    "memalign": ([S("memalign.a", "memalign", a=1, bytes=77, peak=77, temp=1)], 1, 1),
    "valloc": ([S("valloc.a", "valloc", a=1, bytes=5000, peak=5000, temp=1)], 1, 1),
    "pvalloc": ([S("pvalloc.a", "pvalloc", a=1, bytes=5000, peak=5000, temp=1)], 1, 1),
    # 200 new, grown by 200 to 400 by the same block: still temporary when freed
    "reallocarray": ([S("reallocarray.a", "reallocarray", a=1, bytes=200, own=200),
                      S("reallocarray.b", "reallocarray", r=1, bytes=200, rbytes=400, peak=400,
                        temp=1)], 1, 1),
    # q came between p and its free; nothing came between q and its free
    "free_sized": ([S("free_sized.a", "malloc", a=1, bytes=48, peak=48),
                    S("free_sized.b", "aligned_alloc", a=1, bytes=256, peak=256, temp=1)], 2, 2),
    # the first instant of the greatest sum, 10, is before the two empty blocks come
    "malloc_zero": ([S("malloc_zero.a", "malloc", a=1, bytes=10, peak=10, live=10, blocks=1),
                     S("malloc_zero.b", "malloc", a=1, blocks=1),
                     S("malloc_zero.c", "malloc", a=1, temp=1)], 1, 1),
    "free_null": ([], 0, 0),
    # odd: the new block of 16, then 48, 80 ... 304 (9), then 304 ... 176 downwards (5).
    #   growth 16 each on the way up: 16 + 9 * 16; new sizes: (48 + ... + 304) = 9 * 176,
    #   (304 + 272 + 240 + 208 + 176) = 1200
    # even: 32 ... 320 (10), then 288 ... 192 (4): new sizes 10 * 176 and 960
    # the peak, 320, is even's; the last size, 176, is odd's: one block all the way, temporary
    "chain": ([S("chain.odd", "realloc", "chain_odd", a=1, r=14, bytes=16 + 144,
                 rbytes=1584 + 1200, own=304, temp=1),
               S("chain.even", "realloc", "chain_even", r=14, bytes=160, rbytes=1760 + 960,
                 peak=320)], 1, 1),
    # own peaks 304 and 320 of two calls: no more than the heap had at once
    "same_line": ([S("same_line.first", "malloc", a=1, bytes=16, own=16),
                   S("same_line.both", "realloc", r=2, bytes=288 + 16, rbytes=304 + 320, peak=320,
                     temp=1)], 1, 1),
    # the greatest sum is the last block alone, 256: more than 1+2, 4+8, 32, 64+128, 65+128
    "temporary": ([S("temporary.inner_outer", "malloc", a=1, bytes=1, own=1),
                   S("temporary.inner", "malloc", a=1, bytes=2, own=2, temp=1),
                   S("temporary.crossed", "malloc", a=1, bytes=4, own=4),
                   S("temporary.after_free", "malloc", a=1, bytes=8, own=8, temp=1),
                   S("temporary.grown", "malloc", a=1, bytes=16, own=16),
                   S("temporary.grower", "realloc", r=1, bytes=16, rbytes=32, own=32, temp=1),
                   S("temporary.old", "malloc", a=1, bytes=64, own=64),
                   S("temporary.victim", "malloc", a=1, bytes=128, own=128),
                   S("temporary.late", "realloc", r=1, bytes=1, rbytes=65, own=65),
                   S("temporary.failed_between", "malloc", a=1, bytes=256, peak=256, temp=1)],
                  8, 1),
    # 1000 twice: the first time counts
    "peak": ([S("peak.first", "malloc", a=1, bytes=1000, peak=1000, temp=1),
              S("peak.second_a", "malloc", a=1, bytes=400, own=400),
              S("peak.second_b", "malloc", a=1, bytes=600, own=600, temp=1)], 3, 1),
    # the greatest of the borders is 2^28; each block is freed at once
    "sizes": ([S("sizes.border", "malloc", a=13,
                 bytes=127 + 128 + 16383 + 16384 + 65535 + 65536 + (2**20 - 1) + 2**20
                 + (2**24 - 1) + 2**24 + (2**24 + 1) + 2**28, peak=2**28, temp=13),
               S("sizes.each", "malloc", a=3001, bytes=3000 * 3001 // 2, own=3000, temp=3001)],
              3014, 1),
    # both together are the peak, 7 GiB and 12 bytes; q then grows by 16379 to stay
    "huge": ([S("huge.a", "malloc", a=1, bytes=3 * 2**30 + 7, peak=3 * 2**30 + 7),
              S("huge.b", "malloc", a=1, bytes=2**32 + 5, peak=2**32 + 5),
              S("huge.c", "realloc", r=1, bytes=16379, rbytes=2**32 + 16384, own=2**32 + 16384,
                live=2**32 + 16384, blocks=1)], 1, 2),
    # nine failures do not count and do not disturb: 500, grown by 100
    "limited": ([S("limited.a", "malloc", a=1, bytes=500, own=500),
                 S("limited.b", "realloc", r=1, bytes=100, rbytes=600, peak=600, temp=1)], 1, 1),
}


def check_site(site, expected, source, function):
    shown = f"{expected.marker}: {site}"
    frame = site["stack"][0]
    assert names(site)[0] == (expected.function or function), shown
    assert frame["line"] == line_of(source, expected.marker), shown
    assert frame["file"].endswith(source), shown
    assert site["via"] == expected.via, shown
    assert {c: site[c] for c in COLUMNS} == expected.columns, shown


def check_whole(rep, sites, frees, peak_blocks):
    """Totals of a program in which these are all the sites there are."""
    totals = rep["totals"]
    for column in ("allocations", "reallocations", "allocated_bytes", "peak_bytes", "live_bytes",
                   "live_blocks", "temporary"):
        assert totals[column] == sum(s.columns[column] for s in sites), column
    assert totals["frees"] == frees
    assert totals["peak_blocks"] == peak_blocks
    assert totals["dropped"] == 0 and totals["unknown_frees"] == 0
    check_sums(rep)


def by_line(rep):
    found = {}
    for site in rep["sites"]:
        frame = site["stack"][0]
        assert frame["line"] not in found, f"two sites on one line: {site} {found[frame['line']]}"
        found[frame["line"]] = site
    return found


@pytest.mark.parametrize("case", C_CASES)
def test_c_function(compiled, record, case):
    sites, frees, peak_blocks = C_CASES[case]
    program = compiled("each_function.c")
    done, rep = record([program, case])
    if case == "huge" and done.returncode == 77:
        pytest.skip("malloc of 7 GiB fails on this machine")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", b"")
    found = by_line(rep)
    assert set(found) == {line_of("each_function.c", s.marker) for s in sites}
    for expected in sites:
        check_site(found[line_of("each_function.c", expected.marker)], expected,
                   "each_function.c", f"case_{case}")
        stack = names(found[line_of("each_function.c", expected.marker)])
        assert stack[stack.index(f"case_{case}") + 1] == "main"
    check_whole(rep, sites, frees, peak_blocks)
    assert rep["totals"]["threads"] == 1  # also if it allocated nothing
    assert (rep["mode"], rep["end"], rep["exit_status"], rep["signal"]) == ("exact", "exit", 0, 0)
    assert rep["command"] == [str(program), case]
    if rep["threads"]:
        thread = rep["threads"][0]
        assert thread["tid"] == thread["pid"] == rep["pid"]
        assert thread["name"] == "each_function"


def test_peak_time_and_lifetimes_are_within_the_run(compiled, record):
    _, rep = record([compiled("each_function.c"), "malloc"])
    assert 0 < rep["duration_ns"] < 60e9
    assert 0 <= rep["totals"]["peak_time_ns"] <= rep["duration_ns"]
    assert rep["sites"]
    for site in rep["sites"]:
        life = site["lifetime_ns"]
        assert 0 <= life["p50"] <= life["p99"] <= life["max"] <= rep["duration_ns"]


@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libmimalloc.so",
                                     "libtcmalloc_minimal.so.4"])
@pytest.mark.parametrize("case", ["malloc", "calloc", "realloc", "realloc_null", "realloc_fails",
                                  "posix_memalign", "aligned_alloc", "memalign", "reallocarray",
                                  "chain", "temporary", "free_sized", "malloc_zero"])
def test_c_function_on_another_allocator(compiled, record, case, library):
    """The same numbers whatever is behind: the next allocator is called, and only seen once."""
    path = allocator_library(library)
    program = compiled("each_function.c")
    alone = run([program, case], env={"LD_PRELOAD": path})
    done, rep = record([program, case], env={"LD_PRELOAD": path})
    if case != "free_sized":
        assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    if done.returncode != 0:
        pytest.skip(f"{library} itself does not do what this case expects: {alone.stderr}")
    sites, _, _ = C_CASES[case]
    found = {s["stack"][0]["line"]: s for s in rep.sites_of(program)}
    assert set(found) == {line_of("each_function.c", s.marker) for s in sites}
    for expected in sites:
        check_site(found[line_of("each_function.c", expected.marker)], expected,
                   "each_function.c", f"case_{case}")


@pytest.mark.parametrize("allocator", [None, "own_strdup.so", "libmimalloc.so", "libjemalloc.so"])
@pytest.mark.parametrize("opts", [[], ["--sample=1k"]], ids=["exact", "sampled"])
def test_strdup(compiled, record, allocator, opts):
    """Copies of 100,001 and 60,001 bytes, one of them kept, whether or not the allocator brings its own strdup."""
    below = allocator and (compiled("own_strdup.c", flags=["-shared", "-fPIC"], output=allocator)
                           if allocator.startswith("own") else allocator_library(allocator))
    program = compiled("each_function.c")
    done, rep = record([program, "strdup"], env={"LD_PRELOAD": below}, opts=opts)
    assert (done.returncode, done.stdout) == (0, b"done\n"), done.stderr
    assert rep["totals"].get("unknown_frees", 0) == 0
    lines = {line_of("each_function.c", f"strdup.{x}"): x for x in "ab"}
    found = {lines[f["line"]]: (s["allocations"], s["allocated_bytes"], s["live_bytes"], s["via"])
             for s in rep["sites"] for f in s["stack"]
             if bare(f.get("function")) == "case_strdup"}
    assert found == {"a": (1, 100001, 0, "malloc"), "b": (1, 60001, 60001, "malloc")}


def test_allocator_linked_as_a_library(compiled, record):
    """An allocator that comes with the program's own libraries is behind heft, too."""
    path = allocator_library("libjemalloc.so.2")
    program = compiled("each_function.c", flags=[path], output="each_function_jemalloc")
    done, rep = record([program, "chain"])
    assert done.returncode == 0
    sites, _, _ = C_CASES["chain"]
    found = {s["stack"][0]["line"]: s for s in rep.sites_of(program)}
    for expected in sites:
        check_site(found[line_of("each_function.c", expected.marker)], expected,
                   "each_function.c", "case_chain")


def test_ulimit_of_the_shell(compiled, record):
    program = compiled("each_function.c")
    done, rep = record(["bash", "-c", f"ulimit -v 2000000; exec {program} under_ulimit"])
    assert (done.returncode, done.stdout) == (0, b"done\n")
    (site,) = rep.sites_of(program)
    check_site(site, S("under_ulimit.a", "malloc", a=1, bytes=500, peak=site["peak_bytes"],
                       own=500, temp=1), "each_function.c", "case_under_ulimit")
    assert rep.process("each_function")["totals"]["allocations"] == 1


# ---- C++

# case: [sites]; a block of 0 bytes is never asked for here: new turns 0 into 1
NEW_CASES = {
    "new": [S("new.a", "", a=1, bytes=1, peak=1),
            S("new.b", "", a=1, bytes=8, peak=8, live=8, blocks=1)],
    # 10 elements of 24 bytes and their number, 8 bytes
    "new_array": [S("new_array.a", "", a=1, bytes=1000, peak=1000),
                  S("new_array.b", "", a=1, bytes=248, peak=248, temp=1)],
    "nothrow": [S("nothrow.a", "", a=1, bytes=7000, peak=7000),
                S("nothrow.b", "", a=1, bytes=8, peak=8, temp=1)],
    "sized": [S("sized.a", "", a=1, bytes=300, peak=300),
              S("sized.b", "", a=1, bytes=400, peak=400, temp=1)],
    "aligned": [S("aligned.a", "", a=1, bytes=128, peak=128),
                S("aligned.b", "", a=1, bytes=384, peak=384),
                S("aligned.c", "", a=1, bytes=256, peak=256, temp=1)],
    "aligned_nothrow": [S("aligned_nothrow.a", "", a=1, bytes=512, peak=512),
                        S("aligned_nothrow.b", "", a=1, bytes=640, peak=640, temp=1)],
    # the exception takes a block meanwhile (libstdc++'s), so a is no temporary; whether a is
    # part of the peak with it is not: 33 and the exception's are the most there ever is
    "throwing": [S("throwing.a", "", a=1, bytes=33, peak=33)],
    # operator new was left by an exception ten times, and each time a block came and went after it
    "throwing_deep": [S("throwing_deep.a", "", "deeper", a=10, bytes=20000, peak=2000, temp=10)],
}


@pytest.mark.parametrize("library", [None, "libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
@pytest.mark.parametrize("case", NEW_CASES)
def test_cxx_new(compiled, record, case, library):
    """jemalloc and tcmalloc bring their own operator new, which does not call malloc."""
    env = {}
    if library:
        env["LD_PRELOAD"] = allocator_library(library)
    program = compiled("each_new.cc")
    done, rep = record([program, case], env=env)
    assert (done.returncode, done.stdout) == (0, b"done\n"), done.stderr
    found = {}
    for site in rep["sites"]:
        # operator new of libstdc++ may or may not be a frame; the caller is what counts
        own = [f for f in site["stack"] if in_module(f, program)]
        if not own or bare_is_runtime(site, program):
            continue
        assert own[0]["line"] not in found
        found[own[0]["line"]] = (site, own[0])
    for expected in NEW_CASES[case]:
        site, frame = found.pop(line_of("each_new.cc", expected.marker))
        assert bare(frame["function"]) == (expected.function or f"case_{case}")
        assert {c: site[c] for c in COLUMNS} == expected.columns, (expected.marker, site)
    assert not found, f"not in the source: {found}"
    assert rep["totals"]["unknown_frees"] == 0
    check_sums(rep)


def bare_is_runtime(site, program):
    """What libstdc++ itself takes (an exception): more than operator new before our frame."""
    above = []
    for frame, name in zip(site["stack"], names(site)):
        if in_module(frame, program):
            break
        above.append(name)
    return any("cxa" in name for name in above)


# ---- before and after main


def test_before_and_after_main(compiled, record):
    library = compiled("early_library.c", flags=["-shared", "-fPIC"], output="libearly.so")
    program = compiled("early_late.c", library)
    done, rep = record([program])
    assert done.returncode == 5
    assert done.stdout == b"main\natexit\ndestructor\nlibrary destructor\n"
    expected = [
        # all sizes below are live together when atexit's own block comes: the peak, except 1003
        # and 2002, which come after frees
        ("early_late.c", "in_preinit", S("preinit", "malloc", a=1, bytes=1001, peak=1001)),
        ("early_library.c", "library_constructor",
         S("library_constructor", "malloc", a=1, bytes=2001, peak=2001)),
        ("early_late.c", "in_constructor", S("constructor", "malloc", a=1, bytes=1002, peak=1002)),
        ("early_late.c", "main", S("main", "malloc", a=1, bytes=1005, peak=1005)),
        ("early_late.c", "in_atexit", S("atexit", "malloc", a=1, bytes=1004, peak=1004, temp=1)),
        ("early_late.c", "in_destructor",
         S("destructor", "malloc", a=1, bytes=1003, own=1003, live=1003, blocks=1)),
        ("early_library.c", "library_destructor",
         S("library_destructor", "malloc", a=1, bytes=2002, own=2002, live=2002, blocks=1)),
    ]
    found = {(s["stack"][0]["file"].rsplit("/", 1)[-1], s["stack"][0]["line"]): s
             for s in rep["sites"] if s["stack"] and s["stack"][0].get("file")}
    for source, function, site in expected:
        check_site(found[(source, line_of(source, site.marker))], site, source, function)
    check_whole(rep, [site for _, _, site in expected], 5, 5)


@pytest.mark.parametrize("allocator", [None, "libjemalloc.so", "libmimalloc.so"])
def test_blocks_that_lie_close_together(compiled, record, allocator):
    env = None
    if allocator:
        env = {"LD_PRELOAD": allocator_library(allocator)}
    done, rep = record([compiled("tiny_blocks.c")], env=env)
    assert done.returncode == 0, done.stderr
    assert rep["totals"]["unknown_frees"] == 0 and rep["totals"]["dropped"] == 0
    (site,) = [s for s in rep["sites"] if s["stack"][0]["function"] == "main"]
    sizes = [1 + i % 24 for i in range(30000)]
    assert site["allocations"] == 90000 and site["allocated_bytes"] == 3 * sum(sizes)
    assert site["own_peak_bytes"] == sum(sizes)
    assert site["live_blocks"] == 15000 and site["live_bytes"] == sum(sizes[::2])
