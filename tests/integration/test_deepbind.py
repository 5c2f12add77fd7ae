"""Libraries loaded with RTLD_DEEPBIND take malloc from their own dependencies, not from whoever was
preloaded. heft redirects their calls, without standing between the program and dlopen: the loader
looks at who calls it."""

import shutil
import subprocess

import pytest

from harness import HEFT, allocator_library, line_of, names, report, run, total

BUILDS = {
    "lazy": ["-Wl,-z,lazy", "-Wl,-z,norelro"],
    "now": ["-Wl,-z,now", "-Wl,-z,relro"],
    "partial": ["-Wl,-z,lazy", "-Wl,-z,relro"],
    "no_plt": ["-fno-plt"],
    "sysv": ["-Wl,-z,lazy", "-Wl,--hash-style=sysv"],
    "gaps": ["-Wl,-z,lazy", "-Wl,-z,separate-code", "-Wl,-z,max-page-size=0x200000"],
    "ibt": ["-Wl,-z,lazy", "-fcf-protection=full", "-Wl,-z,ibtplt"],
}


@pytest.fixture
def plugin(compiled):
    return lambda kind: compiled("deepbind_plugin.c", output=f"plugin_{kind}.so", flags=[
        "-shared", "-fPIC", *BUILDS[kind]])


@pytest.fixture
def host(compiled):
    return compiled("deepbind_host.c")


def at(rep, source, marker):
    """calls, bytes and blocks still live of the sites of one line"""
    line = line_of(source, marker)
    sites = [s for s in rep["sites"] for f in s["stack"][:1]
             if f.get("line") == line and (f.get("file") or "").endswith(source)]
    return tuple(total(sites, c) for c in ("allocations", "allocated_bytes", "live_blocks"))


def check_exchange(rep, rounds):
    """All of it is seen, and what the other side freed is gone."""
    n = rounds
    source = "deepbind_plugin.c"
    assert at(rep, source, "plugin.begin") == (n, n * 5555, 0)
    assert at(rep, source, "plugin.alloc") == (11 * n, n * (10 * 1111 + 1112), n)
    assert at(rep, source, "plugin.fixed") == (7 * n, n * 7 * 2222, 0)
    assert at(rep, source, "plugin.variable") == (7 * n, n * 7 * 2222, 0)
    assert at(rep, "deepbind_host.c", "host.given") == (5 * n, n * 5 * 3333, 0)
    line = line_of(source, "plugin.resize")
    resized = [s for s in rep["sites"] if s["stack"][0].get("line") == line and
               names(s)[0] == "plugin_resize"]
    assert (total(resized, "reallocations"), total(resized, "live_blocks")) == (n, 0)
    assert rep["totals"]["unknown_frees"] == 0


@pytest.mark.parametrize("rounds", [1, 20])
@pytest.mark.parametrize("kind", BUILDS)
def test_everything_is_seen(record, plugin, host, kind, rounds):
    done, rep = record([host, plugin(kind), rounds, "exchange"])
    assert (done.returncode, done.stdout) == (0, f"plugin_{kind}.so".encode())
    check_exchange(rep, rounds)


def test_a_host_that_is_not_position_independent(record, compiled, plugin):
    program = compiled("deepbind_host.c", output="deepbind_fixed", flags=["-fno-pie", "-no-pie"])
    done, rep = record([program, plugin("now"), 3, "exchange"])
    assert done.returncode == 0
    check_exchange(rep, 3)


def test_while_others_allocate(record, plugin, host):
    done, rep = record([host, plugin("partial"), 200, "race"])
    assert done.returncode == 0
    check_exchange(rep, 200)
    calls, size, live = at(rep, "deepbind_host.c", "host.busy")
    assert calls > 0 and size == calls * 777 and live == 0


def test_cxx_from_a_c_program(record, compiled, host):
    library = compiled("deepbind_cxx.cc", output="plugin_cxx.so", flags=["-shared", "-fPIC"])
    done, rep = record([host, library, 1, "exchange"])
    assert done.returncode == 0, done.stderr
    calls = [s for s in rep["sites"] if "plugin_alloc" in names(s)]
    assert (total(calls, "allocations"), total(calls, "allocated_bytes")) == (11, 10 * 1111 + 1112)
    assert total(calls, "live_blocks") == 1
    # Its constructor: a vector (24 bytes) of three strings (96), and four buffers of 101, of which
    # one is a temporary; plugin_free deleted the rest.
    made = [s for s in rep["sites"] if any("deepbind_cxx" in (f.get("file") or "") for f in s["stack"])
            and "plugin_alloc" not in names(s)]
    assert (total(made, "allocations"), total(made, "allocated_bytes")) == (6, 24 + 96 + 4 * 101)
    assert total(made, "live_blocks") == 0
    assert rep["totals"]["unknown_frees"] == 0


def test_sampled(tmp_path, plugin, host):
    path = tmp_path / "s.heft"
    done = run([HEFT, "run", "-q", "--sample=1k", "-o", path, "--", host, plugin("partial"), 1, "many"])
    assert done.returncode == 0
    rep = report(path)
    plug = [s for s in rep["sites"] if names(s)[0] == "plugin_alloc"]
    assert total(plug, "allocated_bytes") == pytest.approx(10e6, rel=0.1)
    assert total(plug, "live_bytes") == pytest.approx(5e6, rel=0.1)
    given = [s for s in rep["sites"] if s["stack"][0].get("line") == line_of("deepbind_host.c", "host.many")]
    assert total(given, "allocated_bytes") == pytest.approx(10e6, rel=0.1)
    assert total(given, "live_bytes") == 0  # all freed, by the plugin


@pytest.mark.parametrize("seen_late", ["library without start-up code", "program built for gprof"])
def test_seen_late(record, compiled, tmp_path, seen_late):
    """Without the call that its start-up code makes, a library is seen when it first stands on a stack:
    here when strdup allocates for it. What it had before is not known, and its free is no error."""
    (tmp_path / "late.c").write_text("""
#include <stdlib.h>
#include <string.h>
static void *first;
__attribute__((constructor)) static void begin(void) { first = malloc(5555); }
void *plugin_block(void) { void *p = first; free(strdup("seen")); return p; }
void *plugin_alloc(size_t n) { void *p = malloc(n); memset(p, 1, n); return p; }
void plugin_free(void *p) { free(p); memset(&first, 0, sizeof first); }
""")
    (tmp_path / "host.c").write_text("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    void *l = dlopen(argv[argc - 1], RTLD_LAZY | RTLD_DEEPBIND);
    if (!l) return 1;
    void *(*block)(void) = (void *(*)(void))dlsym(l, "plugin_block");
    void *(*alloc)(size_t) = (void *(*)(size_t))dlsym(l, "plugin_alloc");
    void (*release)(void *) = (void (*)(void *))dlsym(l, "plugin_free");
    void *first = block();
    for (int i = 0; i < 9; i++) release(alloc(1111));
    release(malloc(3333));
    release(first);
    return 0;
}
""")
    bare = ["-nostartfiles"] if "library" in seen_late else []
    gprof = ["-pg", "-rdynamic"] if "gprof" in seen_late else []
    subprocess.run(["gcc", "-g", "-O1", "-fno-builtin", "-shared", "-fPIC", *bare, "late.c", "-o", "late.so"],
                   check=True, cwd=tmp_path)
    subprocess.run(["gcc", "-g", "-O1", "-fno-builtin", *gprof, "host.c", "-o", "host"], check=True,
                   cwd=tmp_path)
    done, rep = record([tmp_path / "host", tmp_path / "late.so"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    calls = [s for s in rep["sites"] if names(s)[0] == "plugin_alloc"]
    assert (total(calls, "allocations"), total(calls, "live_blocks")) == (9, 0)
    assert not [s for s in rep["sites"] if s["allocated_bytes"] == 5555]
    given = [s for s in rep["sites"] if s["allocated_bytes"] == 3333]
    assert (total(given, "allocations"), total(given, "live_blocks")) == (1, 0)
    assert rep["totals"]["unknown_frees"] == 0
    (note,) = [n["text"] for n in rep["notes"] if "RTLD_DEEPBIND" in n["text"]]
    assert "freed 1 blocks that libraries loaded with RTLD_DEEPBIND had allocated" in note


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_an_allocator_that_the_library_brings_is_left_alone(record, compiled, host, binding):
    """Whoever redirected its calls would free blocks of one allocator with the other."""
    allocator = compiled("deepbind_allocator.c", output=f"libbrought_{binding}.so",
                         flags=["-shared", "-fPIC"])
    library = compiled("deepbind_plugin.c", allocator, output=f"plugin_brings_{binding}.so", flags=[
        "-shared", "-fPIC", f"-Wl,-z,{binding}", f"-Wl,-rpath,{allocator.parent}"])
    done, rep = record([host, library, 5, "apart"])
    assert done.returncode == 0, done.stderr
    assert at(rep, "deepbind_host.c", "host.apart") == (50, 50 * 3333, 0)
    assert at(rep, "deepbind_plugin.c", "plugin.alloc") == (0, 0, 0)
    assert rep["totals"]["unknown_frees"] == 0


def test_others_beside_one_that_brings_an_allocator(record, compiled, plugin, tmp_path):
    """A second allocator in the process does not hide the calls of libraries that do not use it."""
    allocator = compiled("deepbind_allocator.c", output="libbrought_beside.so", flags=["-shared", "-fPIC"])
    brings = compiled("deepbind_plugin.c", allocator, output="plugin_brings_beside.so", flags=[
        "-shared", "-fPIC", "-Wl,-z,lazy", f"-Wl,-rpath,{allocator.parent}"])
    (tmp_path / "first.c").write_text("""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
__attribute__((constructor)) static void begin(void)
{
    if (!dlopen(getenv("BRINGS"), RTLD_LAZY | RTLD_DEEPBIND))
        abort();
}
""")
    subprocess.run(["gcc", "-shared", "-fPIC", "first.c", "-o", "first.so"], check=True, cwd=tmp_path)
    host = compiled("deepbind_host.c", "-Wl,--no-as-needed", tmp_path / "first.so",
                    output="deepbind_beside", flags=[f"-Wl,-rpath,{tmp_path}"])
    done, rep = record([host, plugin("lazy"), 3, "exchange"], env={"BRINGS": str(brings)})
    assert done.returncode == 0, done.stderr
    # The constructor of the one that brings its allocator is no call of malloc that heft sees.
    check_exchange(rep, 3)


@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_operators_of_an_allocator(record, compiled, binding):
    """Program and library share an allocator that has operators of its own: those are the hooks."""
    jemalloc = allocator_library("libjemalloc.so.2")
    program = compiled("deepbind_host.c", jemalloc, output=f"deepbind_jemalloc_{binding}",
                       flags=["-Wl,--no-as-needed", jemalloc])
    library = compiled("deepbind_cxx.cc", jemalloc, output=f"plugin_jemalloc_{binding}.so", flags=[
        "-shared", "-fPIC", f"-Wl,-z,{binding}"])
    done, rep = record([program, library, 1, "exchange"])
    assert done.returncode == 0, done.stderr
    calls = [s for s in rep["sites"] if "plugin_alloc" in names(s)]
    assert (total(calls, "allocations"), total(calls, "live_blocks")) == (11, 1)
    assert {s["via"] for s in calls} == {"operator new[]"}
    assert at(rep, "deepbind_host.c", "host.given") == (5, 5 * 3333, 0)


def test_preloaded_allocator(record, plugin, host):
    """The library's malloc is libc's then, the program's the preloaded one: nothing is mixed up."""
    jemalloc = allocator_library("libjemalloc.so.2")
    for kind in ("lazy", "now"):
        done, rep = record([host, plugin(kind), 5, "apart"], env={"LD_PRELOAD": jemalloc})
        assert done.returncode == 0, done.stderr
        assert at(rep, "deepbind_host.c", "host.apart") == (50, 50 * 3333, 0)
        assert rep["totals"]["unknown_frees"] == 0


def test_program_with_its_own_malloc(compiled, tmp_path, plugin):
    allocator = compiled("deepbind_allocator.c", output="own_allocator.o", flags=["-c"])
    program = compiled("deepbind_host.c", allocator, output="deepbind_own", flags=["-rdynamic"])
    plain = run([program, plugin("lazy"), 2, "apart"])
    assert plain.returncode == 0, plain.stderr
    done = run([HEFT, "run", "-q", "-o", tmp_path / "x.heft", "--", program, plugin("lazy"), 2, "apart"])
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr


@pytest.mark.parametrize("name", ["plugin_found.so", "$ORIGIN/below/plugin_found.so"])
@pytest.mark.parametrize("tag", ["--enable-new-dtags", "--disable-new-dtags"])
def test_the_loader_sees_the_program_as_its_caller(record, compiled, plugin, tmp_path, name, tag):
    """RUNPATH, RPATH and $ORIGIN are those of the object that calls dlopen."""
    program = compiled("deepbind_host.c", output=f"deepbind_host{tag.replace('-', '_')}",
                       flags=[f"-Wl,{tag}", "-Wl,-rpath,$ORIGIN/below"])
    (tmp_path / "below").mkdir()
    shutil.copy(program, tmp_path / "host")
    shutil.copy(plugin("partial"), tmp_path / "below" / "plugin_found.so")
    done, rep = record([tmp_path / "host", name, 2, "exchange"], cwd="/")
    assert (done.returncode, done.stdout) == (0, b"plugin_found.so")
    check_exchange(rep, 2)
