"""Sampled recordings of programs that fork, execute, drop privileges, change their root, start
thousands of threads, unload libraries, allocate in signal handlers and end in unusual ways.

The blocks that are counted are 40 times the rate, so none is missed (tests/programs/
sampled_processes.c) and every number is exact; the statistics are in test_sampled.py."""

import os
import platform
import shutil
import subprocess

import pytest

from harness import Report, allocator_library, names, report, run

BLOCK, PARENT, CHILD = 40000, 60, 25
RATE = ["--sample=1k"]
ALLOCATORS = ["libjemalloc.so", "libmimalloc.so", "libtcmalloc_minimal.so"]


@pytest.fixture(scope="session")
def program(compiled):
    return compiled("sampled_processes.c")


def live(rep, function):
    """(blocks, bytes) that are live at the function."""
    sites = rep.sites_calling(function)
    return sum(s["live_blocks"] for s in sites), sum(s["live_bytes"] for s in sites)


def made(rep, function):
    return sum(s["allocations"] for s in rep.sites_calling(function))


def go(record, command, status=6, **others):
    done, rep = record(command, opts=RATE, **others)
    assert done.returncode == status, done.stderr
    assert rep["mode"] == "sample"
    return done, rep


def of_process(rep, which):
    return report(rep.path, "--pid", str(rep["processes"][which]["pid"]))


# ---- processes


def test_prefork(record, program):
    """Each worker has a profile of its own; what it inherited is not in it, nor is freeing that."""
    _, rep = go(record, [program, "prefork"])
    assert len(rep["processes"]) == 5
    parent = of_process(rep, 0)
    assert live(parent, "keep_parent") == (PARENT, PARENT * BLOCK)
    assert live(parent, "keep_child") == (0, 0)
    resized = []
    for i in range(1, 5):
        child = of_process(rep, i)
        assert live(child, "keep_child") == (CHILD, CHILD * BLOCK)
        assert child.sites_calling("keep_parent") == []
        resized.append(live(child, "keep_resized"))
    # What one of them has made of inherited blocks with realloc is its own.
    assert sorted(resized) == [(0, 0)] * 3 + [(PARENT // 3, PARENT // 3 * 2 * BLOCK)]


def test_early_block(compiled, record, program):
    """A block that was asked for while the allocator was being looked for, freed after a fork."""
    early = compiled("early_dlsym.c", flags=["-shared", "-fPIC"], output="early_dlsym.so")
    _, rep = go(record, [program, "free_early"], env={"LD_PRELOAD": early})
    assert live(rep, "keep_parent") == (PARENT, PARENT * BLOCK)


@pytest.mark.parametrize("environment", ["kept", "empty"])
def test_exec(record, program, environment):
    """The new program is sampled like the one before it, whatever environment it is given."""
    _, rep = go(record, [program, "exec", environment])
    assert [p["command"][1] for p in rep.images()] == ["exec", "executed"]
    assert live(rep, "keep_executed") == (CHILD, CHILD * BLOCK)
    assert made(rep, "keep_parent") == PARENT


def test_dropped_privileges(record, program, public_heft):
    if os.geteuid() != 0:
        pytest.skip("only root can become someone else")
    record.heft = public_heft
    _, rep = go(record, [program, "setuid"])
    assert len(rep["processes"]) == 2 and len(rep.images()) == 3
    assert live(of_process(rep, 0), "keep_parent") == (2 * PARENT, 2 * PARENT * BLOCK)
    # The child, and the program it has become: one process, two images.
    last = of_process(rep, 1)
    assert live(last, "keep_executed") == (CHILD, CHILD * BLOCK)
    assert made(last, "keep_child") == CHILD


def test_changed_root(record, program, tmp_path):
    """Its own profile goes on; a child has nowhere to write one, works all the same, and is
    reported."""
    if os.geteuid() != 0:
        pytest.skip("only root can change the root directory")
    empty = tmp_path / "root"
    empty.mkdir()
    done, rep = go(record, [program, "chroot", empty], quiet=False)
    assert live(rep, "keep_parent") == (2 * PARENT, 2 * PARENT * BLOCK)
    assert len(rep["processes"]) == 1
    assert made(rep, "keep_child") == 0
    assert any("child" in n["text"] for n in rep["notes"]), rep["notes"]


# ---- threads and libraries


def test_thousands_of_threads(record, program):
    """What a thread has left stays when it has ended; another thread frees half of it."""
    _, rep = go(record, [program, "threads"])
    assert live(rep, "keep_thread") == (1500, 1500 * BLOCK)
    assert made(rep, "keep_thread") == 3000
    assert (made(rep, "keep_parent"), live(rep, "keep_parent")) == (3000, (0, 0))


def test_unloaded_libraries(compiled, record, program):
    """Live blocks keep the names of the library that made them, also when another one has come to
    lie at its address."""
    libraries = [compiled("stack_plugin.c", flags=["-shared", "-fPIC", f"-DNAME={name}"],
                          output=f"sampled_{name}.so") for name in ("left", "right")]
    done, rep = go(record, [program, "unload", *libraries])
    assert int(done.stdout.split()[-1]) > 0, "never at the same address: nothing was tested"
    for name in ("left", "right"):
        sites = rep.sites_calling(f"{name}_inner")
        assert live(rep, f"{name}_inner") == (10, 10 * BLOCK)
        assert {names(s)[1] for s in sites} == {"plugin_entry"}
        assert {os.path.basename(s["stack"][1]["module"]) for s in sites} == {f"sampled_{name}.so"}


# ---- signals and ends


@pytest.mark.parametrize("rate", [RATE, []], ids=["sampled", "exact"])
@pytest.mark.parametrize("stack", ["own", "alternate"])
@pytest.mark.parametrize("which", ["returns", "some"])
def test_a_handler_that_allocates(compiled, record, program, which, stack, rate):
    """It comes after one instruction of a malloc and a free, in two threads. The blocks of the
    interrupted code are all there; those of the handler may be missed where it has interrupted a
    hook, and none of them is left. Their stacks are whole: a return is where the frame is gone and
    its register not yet back."""
    if platform.machine() != "x86_64":
        pytest.skip("single steps are written for x86-64")
    below = compiled("async_malloc.c", flags=["-shared", "-fPIC"], output="async_malloc.so")
    done, rep = record([program, "stepped", which, stack], opts=rate, env={"LD_PRELOAD": below})
    assert done.returncode == 6, done.stderr
    rounds, taken = (int(n) for n in done.stdout.split()[1::2])
    assert taken == rounds - 2 > 4, "the hooks were not stepped through"
    own = Report(sites=[s for s in rep["sites"] if names(s)[0] == "keep_parent"])
    assert made(own, "keep_parent") == rounds
    assert live(own, "keep_parent") == (2, 2 * BLOCK)
    assert made(rep, "keep_handler") > 0 and live(rep, "keep_handler") == (0, 0)
    for site in rep.sites_calling("keep_handler"):
        assert "stepped_rounds" in names(site), names(site)


@pytest.mark.parametrize("rate", [RATE, []], ids=["sampled", "exact"])
def test_a_handler_that_jumps(compiled, record, program, rate):
    """What it has interrupted is gone for good; the very next block is counted again."""
    if platform.machine() != "x86_64":
        pytest.skip("single steps are written for x86-64")
    below = compiled("async_malloc.c", flags=["-shared", "-fPIC"], output="async_malloc.so")
    done, rep = record([program, "jumped"], opts=rate, env={"LD_PRELOAD": below})
    assert done.returncode == 6, done.stderr
    assert int(done.stdout.split()[1]) > 10, "the hooks were not stepped through"
    assert made(rep, "keep_first") == 101
    assert live(rep, "keep_first") == (101, 101 * BLOCK)


def test_a_handler_that_jumps_from_a_new_page(compiled, record, program):
    """The hook that it leaves may be the first that reached this page of the stack. Where the stack's pages
    end depends on the size of the environment."""
    if platform.machine() != "x86_64":
        pytest.skip("single steps are written for x86-64")
    below = compiled("async_malloc.c", flags=["-shared", "-fPIC"], output="async_malloc.so")
    for size in range(0, 4096, 128):
        _, rep = record([program, "jumped"], opts=RATE, env={"LD_PRELOAD": below, "FILLS_THE_STACK": "x" * size})
        assert made(rep, "keep_first") == 101, size


@pytest.mark.parametrize("end, status, how", [
    ("abort", 134, ("signal", 0, 6)), ("_exit", 5, ("exit", 5, 0))])
def test_ends(record, program, end, status, how):
    _, rep = go(record, [program, end], status=status)
    assert (rep["end"], rep["exit_status"], rep["signal"]) == how
    assert live(rep, "keep_parent") == (PARENT, PARENT * BLOCK)


# ---- realloc, C++, Rust


def test_resized(record, program):
    _, rep = go(record, [program, "resize"])
    assert live(rep, "keep_resized") == (10, 10 * 3 * BLOCK)
    assert made(rep, "keep_resized") == 3000
    # A realloc that fails leaves the block, and the sample, where they are.
    assert (made(rep, "keep_first"), live(rep, "keep_first")) == (20, (10, 10 * BLOCK))


def test_cxx(compiled, record):
    _, rep = go(record, [compiled("sampled_cxx.cc")], status=7)
    assert live(rep, "keep_array") == (30, 30 * 50000)
    assert live(rep, "keep_object") == (20, 20 * 40000)
    assert live(rep, "keep_aligned") == (10, 10 * 40192)
    assert live(rep, "grow") == (1, 1000000)
    assert [made(rep, f) for f in ("keep_array", "keep_object", "keep_aligned", "grow")] == [60, 60, 60, 20]


RUST = """
#[inline(never)]
fn keep_vector() -> Vec<u8> { Vec::with_capacity(40000) }
#[inline(never)]
fn keep_grown(v: &mut Vec<u8>) { v.reserve_exact(90000) }
fn main() {
    let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(|| {
        for _ in 0..10 { std::mem::forget(keep_vector()); drop(keep_vector()); }
    })).collect();
    for t in threads { t.join().unwrap(); }
    let mut v = keep_vector();
    keep_grown(&mut v);
    std::mem::forget(v);
    std::process::exit(6);
}
"""


def test_rust(record, tmp_path):
    rustc = shutil.which("rustc")
    if not rustc or subprocess.run([rustc, "--version"], capture_output=True, timeout=60,
                                   check=False).returncode:
        pytest.skip("rustc is not installed")
    (tmp_path / "sampled.rs").write_text(RUST)
    if subprocess.run([rustc, "-g", "-o", tmp_path / "sampled", tmp_path / "sampled.rs"], timeout=120,
                      capture_output=True, check=False).returncode:
        pytest.skip("rustc does not link here")
    _, rep = go(record, [tmp_path / "sampled"])
    vectors = [s for s in rep["sites"] if any("keep_vector" in n for n in names(s))]
    grown = [s for s in rep["sites"] if any("keep_grown" in n for n in names(s))]
    assert sum(s["allocations"] for s in vectors) == 81
    assert sum(s["live_bytes"] for s in vectors) == 40 * 40000
    assert (sum(s["live_blocks"] for s in grown), sum(s["live_bytes"] for s in grown)) == (1, 90000)


# ---- what lies below


@pytest.mark.parametrize("library", [None, *ALLOCATORS])
def test_size_classes(compiled, record, library):
    """A sampled block is the one that the allocator would have given anyway."""
    env = {}
    if library:
        env["LD_PRELOAD"] = allocator_library(library)
    command = [compiled("size_classes.c"), "16" if library == "libmimalloc.so" else "4096"]
    plain = run(command, env=env)
    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.count(b"packed") == 20  # all sizes below 1 KiB
    done, rep = go(record, command, status=0, env=env)
    assert done.stdout == plain.stdout
    assert rep["totals"]["allocations"] > 1000
