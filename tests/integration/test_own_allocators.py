"""Programs that bring their own allocator, as heft attach sees them: own_allocators.cc counts by itself what it calls,
and heft's numbers are the same. A stripped program is seen by its debug file, or refused."""

import os
import subprocess

import pytest

from attach_harness import Attached, Lines, may_trace
from harness import HEFT, cargo_build, check_sums, end_group, report, run, start, total


pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")

BUILT = {
    "jemalloc": ["-DJEMALLOC", "-l:libjemalloc.a", "-lpthread", "-ldl"],
    "tcmalloc": ["-DTCMALLOC", "-l:libtcmalloc_minimal.a", "-lpthread"],
    "mimalloc": ["-DMIMALLOC", "-lmimalloc"],
}
UNSEEN = ("linked in", "defines malloc itself", "does not come from malloc", "inside an allocation function")


class Counting:
    """A program that does N rounds when it reads N, and says what it has called so far."""

    def __init__(self, command, folder):
        self.folder = folder
        self.process = start([*command], stdin=subprocess.PIPE)
        self.pid = self.process.pid
        self.lines = Lines(self.process.stdout)
        self.before = [0, 0, 0, 0]
        assert self.lines.next() == "ready"

    def rounds(self, count):
        """allocations, reallocations, frees, bytes of these rounds"""
        self.process.stdin.write(f"{count}\n".encode())
        self.process.stdin.flush()
        now = [int(n) for n in self.lines.next().split()]
        change = [a - b for a, b in zip(now, self.before)]
        self.before = now
        return change

    def end(self):
        self.process.stdin.close()
        status = self.process.wait(timeout=60)
        end_group(self.process)
        self.process.stdout.close()
        self.process.stderr.close()
        assert status == 0


def build(compiled, name, *more, output=None):
    flags = ["-std=c++17", "-fno-builtin", "-Wno-unused-result", "-Wno-unused-function", "-Wno-alloc-size-larger-than", *BUILT[name], *more]
    return compiled("own_allocators.cc", flags=flags, output=output or f"own_{name}")


@pytest.fixture
def counting(tmp_path):
    made = []

    def begin(*command):
        made.append(Counting(command, tmp_path))
        return made[-1]
    yield begin
    for program in made:
        program.end()


def own_sites(rep):
    """Those that the program's own code called: not the runtime for its exceptions, not mi_heap_new."""
    return [s for s in rep["sites"] if s["stack"][0].get("file", "").endswith("own_allocators.cc")]


def check(rep, expected):
    allocations, reallocations, frees, size = expected
    check_sums(rep)
    sites = own_sites(rep)
    assert (total(sites, "allocations"), total(sites, "reallocations")) == (allocations, reallocations)
    assert total(sites, "allocated_bytes") == size
    t = rep["totals"]
    # What others allocate here they free, too.
    assert t["frees"] - frees == t["allocations"] - allocations
    assert (t["live_blocks"], t["unknown_frees"], t["older_frees"], t["dropped"]) == (0, 0, 0, 0)
    notes = " ".join(n["text"] for n in rep["notes"])
    assert not any(words in notes for words in UNSEEN), notes


VIAS = {
    "jemalloc": {"malloc", "calloc", "realloc", "aligned_alloc", "memalign", "posix_memalign", "operator new",
                 "operator new[]", "mallocx", "rallocx", "xallocx"},
    # aligned_alloc is another name of memalign there, tc_malloc of malloc, and new[] and tc_new of new.
    "tcmalloc": {"malloc", "calloc", "realloc", "memalign", "posix_memalign", "operator new"},
    "mimalloc": {"mi_zalloc", "mi_rezalloc", "mi_malloc_aligned", "mi_realloc_aligned", "mi_zalloc_aligned", "mi_mallocn",
                 "mi_reallocn", "mi_new_n", "mi_new_realloc", "mi_strdup", "mi_expand", "mi_heap_realloc", "mi_heap_calloc",
                 "mi_heap_malloc_aligned"},
}


@pytest.mark.parametrize("name", BUILT)
def test_every_function_counts_once(compiled, counting, name):
    """Ten recordings of one process, each to the unit. new that finds no memory throws through the hook, and is
    caught."""
    program = counting(build(compiled, name))
    for i in range(10):
        program.rounds(1)
        heft = Attached(program, heft=HEFT, path=program.folder / f"{i}.heft")
        expected = program.rounds(3)
        assert run([HEFT, "detach", program.pid]).returncode == 0
        said = heft.end()
        if i not in (0, 9):
            continue
        assert not any(words in said for words in UNSEEN), said
        rep = heft.report()
        if "cannot hook" in said and "mi_expand (" in said:  # mimalloc 3: one call a round, from 100 bytes to 110
            expected[1] -= 3
            expected[3] -= 30
        check(rep, expected)
        assert VIAS[name] - {"mi_expand"} <= {s["via"] for s in own_sites(rep)}


@pytest.mark.parametrize("name", BUILT)
def test_sampled(compiled, counting, name):
    """Bytes are estimated from samples, and no call counts twice: 2,000 blocks of 640 or 1,000 bytes give about 1,000
    samples, so 95 % of all estimates are within 7 %."""
    program = counting(build(compiled, name))
    heft = Attached(program, "--sample=1k", heft=HEFT)
    *_, size = program.rounds(2000)
    assert run([HEFT, "detach", program.pid]).returncode == 0
    heft.end()
    rep = heft.report()
    # A sampled realloc counts its new size: between what was added and all of it.
    bytes_seen = total(own_sites(rep), "allocated_bytes")
    assert 0.9 * size < bytes_seen < 2.1 * size
    news = [s for s in own_sites(rep) if s["via"] in ("posix_memalign", "mi_posix_memalign")]
    exact = 2000 * (640 if name == "mimalloc" else 1000)
    assert abs(total(news, "allocated_bytes") - exact) < 0.15 * exact
    assert total(rep["sites"], "live_blocks") < 0.02 * 2000


def test_only_symbols_apart(compiled, counting, tmp_path):
    """Stripped, with its symbols in a file beside it: everything counts. Without that file, what only symbols show is
    not seen, and the recording says so."""
    program = build(compiled, "jemalloc", output="own_to_strip")
    stripped, debug = tmp_path / "stripped", tmp_path / "stripped.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program, stripped], check=True)
    running = counting(stripped)
    for there in (True, False):
        if not there:
            debug.unlink()
        heft = Attached(running, "-v", heft=HEFT, path=tmp_path / f"{there}.heft")
        allocations, reallocations, frees, size = running.rounds(2)
        assert run([HEFT, "detach", running.pid]).returncode == 0
        said = heft.end()
        rep = heft.report()
        vias = {s["via"] for s in rep["sites"]}
        assert ("mallocx" in vias) == there
        assert ("stripped" in " ".join(n["text"] for n in rep["notes"])) != there, (said, rep["notes"])
        if there:
            # 2 exceptions of 136 bytes, and nothing else
            t = rep["totals"]
            assert (t["allocations"], t["reallocations"], t["allocated_bytes"]) == (
                allocations + 2, reallocations, size + 2 * 136)


STRIPPED = r"""
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static char heap[1 << 20], *at = heap;
__attribute__((noinline)) void *mi_malloc(size_t n)
{
    if (n > 1 << 16)
        return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    at += n;
    return at - n;
}
__attribute__((noinline)) void mi_free(void *p)
{
    if (p < (void *)heap || p > (void *)at)
        abort();
}
__attribute__((noinline)) void *mine(size_t n) { char *p = mi_malloc(n + 8); return p + 8; }
__attribute__((noinline)) void *more(size_t each, size_t n) { char *p = mi_malloc(each * n + 8); return p + 8; }
__attribute__((noinline)) void gone(char *p) { mi_free(p - 8); }
/* It calls nobody. */
__attribute__((noinline)) void *tiny(size_t n) { __asm__ volatile("" : "+r"(n)); return heap + n; }
const char *volatile words = "mimalloc: error: no memory";
int main(void)
{
    char line[64];
    write(1, "ready\n", 6);
    while (read(0, line, sizeof line) > 0) {
        for (int i = 0; i < 10; i++) {
            mi_free(mi_malloc(100));
            gone(mine(50));
            gone(more(3, 7));
            if (tiny(5) != heap + 5)
                return 1;
        }
        write(1, "0 0 0 0\n", 8);
    }
}
"""


@pytest.fixture
def small(tmp_path):
    (tmp_path / "small.c").write_text(STRIPPED)
    subprocess.run(["gcc", "-O1", "-g", "small.c", "-o", "small"], cwd=tmp_path, check=True)
    return tmp_path / "small"


def test_stripped_is_refused(small, counting, tmp_path):
    """Its allocator is known by its words alone. A recording would have next to nothing in it."""
    subprocess.run(["strip", small], check=True)
    program = counting(small)
    done = run([HEFT, "attach", "-o", tmp_path / "x.heft", program.pid])
    assert done.returncode == 1 and not (tmp_path / "x.heft").exists()
    said = done.stderr.decode()
    assert "carries the messages of mimalloc" in said and "/usr/lib/debug/.build-id" in said
    program.rounds(1)


def run_small(program, tmp_path, *options):
    path = tmp_path / "run.heft"
    read, write = os.pipe()
    os.write(write, b"1\n")
    os.close(write)
    done = run([HEFT, "run", *options, "--force", "-o", path, "--", program], stdin=read)
    os.close(read)
    assert (done.returncode, done.stdout) == (0, b"ready\n0 0 0 0\n"), done.stderr
    return done.stderr.decode(), report(path)


def test_run_stripped(small, tmp_path):
    """heft run finds the symbols where heft attach does. Where there are none, it says what would help, runs the
    program with its library, and the recording says that it has not seen everything."""
    debug, stripped = tmp_path / "small.debug", tmp_path / "stripped"
    subprocess.run(["objcopy", "--only-keep-debug", small, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", small, stripped], check=True)
    said, rep = run_small(stripped, tmp_path)
    assert "carries the messages of" not in said
    # 100, 50 + 8 and 3 * 7 + 8 bytes, ten times each
    assert sorted((s["via"], s["allocations"], s["allocated_bytes"]) for s in rep["sites"]) == [
        ("mi_malloc", 10, 290), ("mi_malloc", 10, 580), ("mi_malloc", 10, 1000)]
    assert not any(words in n["text"] for n in rep["notes"] for words in (*UNSEEN, "stripped")), rep["notes"]
    debug.unlink()
    said, rep = run_small(stripped, tmp_path)
    text = " ".join(said.split())
    assert "carries the messages of mimalloc" in text and "heft preloads its library instead" in text
    assert text.count("carries the messages of mimalloc: if that allocator is linked in, what it allocates there") == 1
    assert "/usr/lib/debug/.build-id or beside it (.gnu_debuglink)" in text
    assert rep["totals"]["allocations"] == 0 and "carries the messages of mimalloc" in str(rep["notes"])
    said, _ = run_small(stripped, tmp_path, "-q")
    assert said == ""


def test_named_functions(small, counting, tmp_path):
    """--alloc-fn: the outermost call counts, with what its own arguments say. A function that calls nobody is not
    hooked: the compiler may keep its caller's values in registers that a hook changes."""
    program = counting(small)
    heft = Attached(program, "--alloc-fn=mine:malloc", "--alloc-fn=more:calloc", "--alloc-fn=gone:free",
                    "--alloc-fn=tiny:malloc", heft=HEFT)
    program.rounds(1)
    assert run([HEFT, "detach", program.pid]).returncode == 0
    heft.end()
    rep = heft.report()
    t = rep["totals"]
    assert (t["allocations"], t["frees"], t["live_blocks"]) == (30, 30, 0)
    assert {s["via"]: (s["allocations"], s["allocated_bytes"]) for s in rep["sites"]} == {
        "mi_malloc": (10, 1000), "malloc": (10, 500), "calloc": (10, 210)}
    assert ["tiny (it calls nothing" in n["text"] for n in rep["notes"]].count(True) == 1
    # The same from its start
    said, rep = run_small(small, tmp_path, "--alloc-fn=mine:malloc", "--alloc-fn=more:calloc", "--alloc-fn=gone:free",
                          "--alloc-fn=tiny:malloc")
    assert ["tiny (it calls nothing" in n["text"] for n in rep["notes"]].count(True) == 1, rep["notes"]
    assert {s["via"]: (s["allocations"], s["allocated_bytes"]) for s in rep["sites"]} == {
        "mi_malloc": (10, 1000), "malloc": (10, 500), "calloc": (10, 210)}, said
    for options in (["--alloc-fn=mine:malloc", "--via=preload"], ["--alloc-fn=mine"]):
        assert run([HEFT, "run", "-o", tmp_path / "y.heft", *options, "--", small]).returncode == 125
    done = run([HEFT, "run", "-o", tmp_path / "y.heft", "--alloc-fn=nothing:malloc", "--", small])
    assert done.returncode == 125 and b"no function nothing" in done.stderr and done.stdout == b""
    for wrong, words in (("mine", "is no function and its kind"), ("mine:new", "say NAME:malloc"),
                         ("nothing:malloc", "no function nothing")):
        done = run([HEFT, "attach", "-o", tmp_path / "y.heft", f"--alloc-fn={wrong}", program.pid])
        assert done.returncode in (1, 2) and words in " ".join(done.stderr.decode().split()), done.stderr


# ---- a jemalloc under a prefix of somebody's own, and allocators that heft knows by name only

PREFIXED = r"""
#include <stdlib.h>
#include <unistd.h>
#include <stdio.h>
void *zz_malloc(size_t), *zz_calloc(size_t, size_t), *zz_realloc(void *, size_t), *zz_mallocx(size_t, int),
     *zz_aligned_alloc(size_t, size_t);
int zz_posix_memalign(void **, size_t, size_t);
void zz_free(void *), zz_sdallocx(void *, size_t, int), zz_free(void *);
static unsigned long done;
__attribute__((noinline)) void one_round(void)
{
    void *volatile p = zz_malloc(100), *r = NULL;
    p = zz_realloc(p, 300);
    zz_free(p);
    zz_free(p = zz_calloc(7, 11));
    zz_sdallocx(p = zz_mallocx(1000, 0), 1000, 0);
    zz_free(p = zz_aligned_alloc(64, 640));
    if (zz_posix_memalign(&r, 64, 500))
        abort();
    zz_free(r);
    done++;
}
int main(void)
{
    char line[64];
    ssize_t n;
    if (write(1, "ready\n", 6) != 6)
        return 1;
    while ((n = read(0, line, sizeof line - 1)) > 0) {
        line[n] = 0;
        for (int i = atoi(line); i > 0; i--)
            one_round();
        n = snprintf(line, sizeof line, "%lu %lu %lu %lu\n", 5 * done, done, 5 * done, (100 + 200 + 77 + 1000 + 640 + 500) * done);
        if (write(1, line, (size_t)n) != n)
            return 1;
    }
    return 0;
}
"""
EXPORTED = ("malloc free calloc realloc posix_memalign aligned_alloc memalign valloc malloc_usable_size mallocx rallocx xallocx "
            "sallocx dallocx sdallocx nallocx mallctl mallctlnametomib mallctlbymib malloc_stats_print malloc_conf malloc_message")


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_a_prefix_of_its_own(tmp_path, counting, static):
    """--with-jemalloc-prefix=zz_: libc's malloc is there as well, and nobody calls it."""
    archive = "/usr/lib/x86_64-linux-gnu/libjemalloc.a"
    if not os.path.exists(archive):
        pytest.skip("libjemalloc.a is not installed")
    (tmp_path / "names").write_text("".join(f"{name} zz_{name}\n" for name in EXPORTED.split()))
    (tmp_path / "x.c").write_text(PREFIXED)
    subprocess.run(["objcopy", "--redefine-syms=names", archive, "zz.a"], cwd=tmp_path, check=True)
    subprocess.run(["gcc", "-O1", "-g", *(["-static"] if static else []), "x.c", "zz.a", "-o", "x", "-lstdc++", "-lm", "-pthread"],
                   cwd=tmp_path, check=True, stderr=subprocess.DEVNULL)
    program = counting(tmp_path / "x")
    text = run([HEFT, "doctor", program.pid]).stdout.decode()
    assert "jemalloc of" in text and "zz_mallocx" in text, text
    program.rounds(1)
    heft = Attached(program, "-v", heft=HEFT)
    allocations, reallocations, frees, size = program.rounds(20)
    assert run([HEFT, "detach", program.pid]).returncode == 0
    said = heft.end()
    if not static:  # what was before is read of libc's heap alone
        assert "; what is jemalloc's in x is not known" in " ".join(said.split()), said
    rep = heft.report()
    sites = [s for s in rep["sites"] if s["stack"][0]["function"] == "one_round"]
    assert (total(sites, "allocations"), total(sites, "reallocations"), total(sites, "allocated_bytes")) == (
        allocations, reallocations, size)
    assert {s["via"] for s in sites} == {"malloc", "realloc", "calloc", "mallocx", "aligned_alloc", "posix_memalign"}
    assert (rep["totals"]["live_blocks"], rep["totals"]["unknown_frees"], rep["totals"]["older_frees"]) == (0, 0, 0)
    assert not any(words in n["text"] for n in rep["notes"] for words in UNSEEN), rep["notes"]


@pytest.fixture
def unknown(tmp_path):
    """Its allocator is known by its name, and its functions are not."""
    (tmp_path / "unknown.c").write_text(STRIPPED.replace("mi_malloc", "scudo_malloc").replace("mi_free", "scudo_free")
                                        .replace("mimalloc: error: no memory", ""))
    subprocess.run(["gcc", "-O1", "-g", "unknown.c", "-o", "unknown"], cwd=tmp_path, check=True)
    return tmp_path / "unknown"


def test_what_is_not_hooked_is_said(unknown, counting, tmp_path):
    """By heft doctor in advance, by heft run, attach and top, and in their recordings. It never looks like a program that
    does not allocate."""
    words = "has scudo linked in (scudo_malloc)"
    foretold = run([HEFT, "doctor", unknown])
    assert words in " ".join(foretold.stdout.decode().split()) and "warning" in foretold.stdout.decode()
    said, rep = run_small(unknown, tmp_path)
    assert f"! {unknown}"[:60] in said and words in str(rep["notes"]) and rep["totals"]["allocations"] == 0
    line = f"! {unknown}"[:60]  # it is cut where the terminal ends
    assert line in run([HEFT, "top", "--once", rep.path]).stdout.decode()
    shown = run([HEFT, "top", "--once", "-o", tmp_path / "top.heft", "--", unknown]).stderr.decode()
    assert line in shown, shown
    program = counting(unknown)
    foretold = run([HEFT, "doctor", program.pid])
    assert words in " ".join(foretold.stdout.decode().split())
    heft = Attached(program, heft=HEFT, path=tmp_path / "attached.heft")
    program.rounds(1)
    assert run([HEFT, "detach", program.pid]).returncode == 0
    assert line in heft.end() and words in str(heft.report()["notes"])


# ---- real crates

CRATES = {
    "mimalloc": ('mimalloc = "=0.1.52"', "mimalloc::MiMalloc",
                 {"mi_malloc_aligned", "mi_zalloc_aligned", "mi_realloc_aligned"}),
    "tikv": ('tikv-jemallocator = { version = "=0.6.1", features = ["profiling"] }', "tikv_jemallocator::Jemalloc",
             {"_rjem_malloc", "_rjem_calloc", "_rjem_realloc", "_rjem_mallocx"}),
}
RUST = r"""
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
#[global_allocator]
static A: ALLOCATOR = ALLOCATOR;
#[repr(align(64))]
struct Aligned([u8; 640]);
#[inline(never)]
fn one_round(n: u8) -> u64 {
    let mut grown: Vec<u8> = Vec::with_capacity(500);
    grown.extend(std::iter::repeat(n).take(500));
    grown.reserve_exact(700);
    let zeroed = vec![0u8; 1000];
    let aligned = Box::new(Aligned([n; 640]));
    grown[7] as u64 + std::hint::black_box(&zeroed)[3] as u64 + std::hint::black_box(&aligned).0[5] as u64
}
fn main() {
    let (mut input, mut output) = unsafe { (std::fs::File::from_raw_fd(0), std::fs::File::from_raw_fd(1)) };
    let (mut done, mut line) = (0u64, [0u8; 64]);
    output.write_all(b"ready\n").unwrap();
    loop {
        let n = input.read(&mut line).unwrap();
        if n == 0 { break; }
        let rounds: u64 = std::str::from_utf8(&line[..n]).unwrap().trim().parse().unwrap();
        for i in 0..rounds { std::hint::black_box(one_round(i as u8)); }
        done += rounds;
        let _ = write!(output, "{} {} {} {}\n", 3 * done, done, 3 * done, (500 + 700 + 1000 + 640) * done);
    }
}
"""


@pytest.mark.parametrize("crate", CRATES)
def test_crates(tmp_path, counting, crate):
    """500 bytes grow to 1,200; 1,000 and 640 come and go."""
    dependency, allocator, vias = CRATES[crate]
    file = cargo_build(tmp_path / "crate", f"own_{crate}", f"[dependencies]\n{dependency}\n",
                       RUST.replace("ALLOCATOR", allocator))
    program = counting(file)
    program.rounds(1)
    heft = Attached(program, heft=HEFT)
    allocations, reallocations, frees, size = program.rounds(100)
    assert run([HEFT, "detach", program.pid]).returncode == 0
    heft.end()
    rep = heft.report()
    t = rep["totals"]
    assert (t["allocations"], t["reallocations"], t["frees"], t["allocated_bytes"]) == (
        allocations, reallocations, frees, size)
    assert vias == {s["via"] for s in rep["sites"]}
    assert not any(words in n["text"] for n in rep["notes"] for words in UNSEEN), rep["notes"]
    first = {s["stack"][s["first_user"]]["function"] for s in rep["sites"]}
    assert all("one_round" in f for f in first), first
    # The same from its start, where Rust's own start-up allocates, too.
    read, write = os.pipe()
    os.write(write, b"100\n")
    os.close(write)
    assert run([HEFT, "run", "-q", "--force", "-o", tmp_path / "run.heft", "--", file], stdin=read).returncode == 0
    os.close(read)
    whole = report(tmp_path / "run.heft")
    ours = [s for s in whole["sites"] if "one_round" in s["stack"][s["first_user"]]["function"]]
    assert (total(ours, "allocations"), total(ours, "reallocations"), total(ours, "allocated_bytes")) == (
        allocations, reallocations, size)
    assert vias == {s["via"] for s in ours} and total(ours, "live_blocks") == 0
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, file], check=True)
    other = counting(stripped)
    done = run([HEFT, "attach", "-o", tmp_path / "x.heft", other.pid])
    assert done.returncode == 1 and "carries the messages of" in done.stderr.decode()


CALLS_MALLOCX = r"""
#include <jemalloc/jemalloc.h>
int main(void) { void *p = mallocx(1000, 0); dallocx(p, 0); return 0; }
"""


def test_a_short_program_that_calls_mallocx(tmp_path):
    """Its jemalloc is a library. It ends before heft looks at what it has mapped, but its one block was seen, so
    no note may say that it was not."""
    program, path = tmp_path / "calls_mallocx", tmp_path / "out.heft"
    subprocess.run(["gcc", "-x", "c", "-", "-o", program, "-ljemalloc"], input=CALLS_MALLOCX.encode(), check=True, timeout=60)
    for _ in range(5):
        assert run([HEFT, "run", "-q", "--force", "-o", path, "--", program]).returncode == 0
        rep = report(path)
        assert [(s["via"], s["allocations"], s["allocated_bytes"]) for s in rep["sites"] if s["via"] == "mallocx"] == [("mallocx", 1, 1000)]
        assert not [n for n in rep["notes"] if "does not pass through malloc" in n["text"]], rep["notes"]
