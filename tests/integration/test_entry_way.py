"""Programs that nothing can be preloaded into: heft holds them at their start and hooks the entries of their malloc. Each
prints what it has allocated itself, and the recording says the same."""

import os
import shutil
import signal
import subprocess
import time

import pytest

from harness import HEFT, TIME_LIMIT, report, run, total
from old_glibc import LIBRARIES, old_build

PROGRAMS = os.path.join(os.path.dirname(__file__), "..", "programs")

FIELDS = ("allocations", "reallocations", "frees", "allocated_bytes", "peak_bytes", "peak_blocks", "live_bytes",
          "live_blocks", "unknown_frees", "dropped", "temporary")


def needs_musl(kind):
    if kind.startswith("musl") and not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed")


MUSL_LOADER = "/lib/ld-musl-x86_64.so.1"
KINDS = {
    "static": ("gcc", ["-static"], "is statically linked"),
    "static-pie": ("gcc", ["-static-pie"], "is statically linked"),
    "musl static": ("musl-gcc", ["-static"], "is statically linked"),
    "musl": ("musl-gcc", [], "is linked with musl"),
    "old glibc": ("gcc", [], "has a glibc older than 2.35"),
    # Loaders of other names: heft's library must not be preloaded, or the program would not even start.
    "old glibc, its loader's own name": ("gcc", [f"-Wl,--dynamic-linker={LIBRARIES}/ld-2.31.so"],
                                         "has a glibc older than 2.35"),
    "musl, another loader": ("musl-gcc", [], "is linked with musl"),
}


def build_kind(kind, source, program):
    needs_musl(kind)
    compiler, flags, _ = KINDS[kind]
    if kind.startswith("old glibc"):
        return old_build(source, program, "-g", "-O1", *flags)
    if kind == "musl, another loader":
        loader = os.path.join(os.path.dirname(program), "loader.so")
        shutil.copy(MUSL_LOADER, loader)
        flags = [f"-Wl,--dynamic-linker={loader}"]
    subprocess.run([compiler, "-g", "-O1", "-pthread", *flags, os.path.join(PROGRAMS, source), "-o", program],
                   check=True, stderr=subprocess.DEVNULL)
    return program


@pytest.fixture
def built(tmp_path):
    def build(kind, source="entry_tally.c", name="tally"):
        return build_kind(kind, source, tmp_path / name)
    return build


def own_sites(rep):
    return [s for s in rep["sites"] if s["stack"][0]["function"].startswith("tally_")]


def compare_with_own_tally(rep, out):
    allocations, reallocations, bytes_in_all, kept = map(int, out.split())
    sites = own_sites(rep)
    assert total(sites, "allocations") == allocations
    assert total(sites, "reallocations") == reallocations
    assert total(sites, "allocated_bytes") == bytes_in_all
    assert total(sites, "live_blocks") == kept
    assert rep["totals"]["unknown_frees"] == rep["totals"]["dropped"] == 0
    assert rep["way"] == "entry"


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_the_programs_own(built, tmp_path, kind):
    path = tmp_path / "x.heft"
    program = built(kind)
    done = run([HEFT, "run", "-v", "-o", path, "--", program])
    assert done.returncode == 7, done.stderr
    assert KINDS[kind][2] in done.stderr.decode()
    rep = report(path)
    compare_with_own_tally(rep, done.stdout)
    assert not any("not recorded" in n["text"] or "linked in" in n["text"] for n in rep["notes"]), rep["notes"]
    # The first block comes from a constructor. In threads the stack goes on to where they begin.
    (early,) = [s for s in own_sites(rep) if s["allocations"] == 1]
    assert [f["function"] for f in early["stack"][:2]] == ["tally_malloc", "begin"]
    for site in own_sites(rep):
        if site is not early:
            assert site["stack"][1]["function"] == "work", site["stack"]
    assert rep["totals"]["threads"] == 5


@pytest.mark.parametrize("flag", ["-static", "-static-pie"])
def test_exceptions(tmp_path, flag):
    program, path = tmp_path / "throws", tmp_path / "x.heft"
    subprocess.run(["g++", "-g", "-O1", "-pthread", flag, os.path.join(PROGRAMS, "entry_throws.cc"), "-o", program],
                   check=True)
    done = run([HEFT, "run", "-q", "-o", path, "--", program])
    assert done.returncode == 7, done
    rep = report(path)
    sites = [s for s in rep["sites"] if any(f["function"].startswith("tally_") for f in s["stack"][:3])]
    made, _, bytes_in_all, kept = map(int, done.stdout.split())
    assert [total(sites, f) for f in ("allocations", "allocated_bytes", "live_blocks")] == [made, bytes_in_all, kept]
    assert rep["totals"]["unknown_frees"] == rep["totals"]["dropped"] == 0


@pytest.mark.parametrize("command", [
    ["jq", "-n", "[range(300)]|map({a:.})"], ["sort", "/etc/passwd"], ["/usr/bin/python3", "-S", "-c", "import json"],
], ids=lambda c: os.path.basename(c[0]))
def test_both_ways_agree_to_the_unit(tmp_path, command):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    totals = {}
    env = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "LC_ALL": "C"}
    for via in ("preload", "entry"):
        path = tmp_path / f"{via}.heft"
        done = run([HEFT, "run", "-q", f"--via={via}", "-o", path, "--", *command], env=env)
        assert done.returncode == 0, done.stderr
        rep = report(path)
        assert rep["way"] == via
        totals[via] = {f: rep["totals"][f] for f in FIELDS}
    assert totals["preload"] == totals["entry"]


ARCHIVE = "/usr/lib/x86_64-linux-gnu/lib%s.a"


@pytest.mark.parametrize("name,flags", [
    ("jemalloc", []), ("jemalloc", ["-static"]), ("tcmalloc_minimal", ["-static"])],
    ids=["jemalloc", "static jemalloc", "static tcmalloc"])
def test_an_allocator_linked_in(tmp_path, name, flags):
    if not os.path.exists(ARCHIVE % name):
        pytest.skip(f"lib{name}.a is not installed")
    program, path = tmp_path / "own", tmp_path / "x.heft"
    subprocess.run(["gcc", "-g", "-O1", "-pthread", *flags, os.path.join(PROGRAMS, "entry_tally.c"),
                    "-Wl,--whole-archive", ARCHIVE % name, "-Wl,--no-whole-archive", "-lstdc++", "-lm", "-o", program],
                   check=True, stderr=subprocess.DEVNULL)
    done = run([HEFT, "run", "-q", "-o", path, "--", program])
    assert done.returncode == 7, done.stderr
    compare_with_own_tally(report(path), done.stdout)


def test_status_signal_and_input(built, tmp_path):
    (tmp_path / "x.c").write_text("""
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char *line = malloc(64);
    ssize_t n = read(0, line, 64);
    if (write(1, line, (size_t)n) != n || getenv("LD_PRELOAD") || getenv("HEFT_SESSION") || getpgrp() != atoi(argv[1]))
        return 1;
    if (argc > 2)
        raise(SIGTERM);
    return 42;
}
""")
    subprocess.run(["gcc", "-static", tmp_path / "x.c", "-o", tmp_path / "x"], check=True)
    group = str(os.getpgrp())
    path = tmp_path / "x.heft"
    done = subprocess.run([HEFT, "run", "-q", "--follow=none", "-o", path, "--", tmp_path / "x", group],
                          input=b"in and out", capture_output=True)
    assert (done.returncode, done.stdout) == (42, b"in and out"), done.stderr
    assert report(path)["exit_status"] == 42
    done = subprocess.run([HEFT, "run", "-q", "--follow=none", "--force", "-o", path, "--", tmp_path / "x", group,
                           "now"], input=b"x", capture_output=True)
    assert done.returncode == 128 + signal.SIGTERM
    assert report(path)["signal"] == signal.SIGTERM


def test_forked_and_executed(built, tmp_path):
    """A forked child has the hooks. What a static program executes gets heft's library."""
    path = tmp_path / "x.heft"
    program = built("static-pie")
    done = run([HEFT, "run", "-q", "-o", path, "--", program, "fork"])
    assert done.returncode == 7, done.stderr
    rep = report(path)
    assert len(rep["processes"]) == 2
    child = [s for s in own_sites(rep) if s["allocations"] == 123]
    assert len(child) == 1
    dynamic = tmp_path / "dynamic"
    subprocess.run(["gcc", "-g", "-O1", "-pthread", os.path.join(PROGRAMS, "entry_tally.c"), "-o", dynamic], check=True)
    done = run([HEFT, "run", "-q", "--force", "-o", path, "--", program, "exec", dynamic])
    assert done.returncode == 7, done.stderr
    allocations = int(done.stdout.split()[0])
    assert total(own_sites(report(path)), "allocations") == allocations + 1  # and the first program's constructor


def test_what_env_starts(built, tmp_path):
    program = built("static", name="interpreter")
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env interpreter\n")
    script.chmod(0o755)
    path = tmp_path / "x.heft"
    done = run([HEFT, "run", "-q", "-o", path, "--", script],
               env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 7, done.stderr
    compare_with_own_tally(report(path), done.stdout)
    assert program.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may trace a program with other privileges")
def test_setuid(built, tmp_path):
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if not os.stat(folder).st_mode & 1:
            os.chmod(folder, 0o755)
    program = tmp_path / "tally"
    subprocess.run(["gcc", "-g", "-O1", "-pthread", os.path.join(PROGRAMS, "entry_tally.c"), "-o", program], check=True)
    os.chown(program, 65534, -1)
    program.chmod(0o4755)
    path = tmp_path / "x.heft"
    done = run([HEFT, "run", "-v", "-o", path, "--", program])
    assert done.returncode == 7, done.stderr
    assert "is a setuid program" in done.stderr.decode()
    compare_with_own_tally(report(path), done.stdout)


def test_sampled(built, tmp_path):
    path = tmp_path / "x.heft"
    done = run([HEFT, "run", "-q", "--sample=1k", "-o", path, "--", built("static-pie")])
    assert done.returncode == 7, done.stderr
    rep = report(path)
    assert rep["mode"] == "sample" and rep["way"] == "entry"
    # A sampled realloc counts with its new size, so what blocks had before counts twice.
    bytes_in_all = int(done.stdout.split()[2]) + 5 * sum(16 + i for i in range(2000))
    assert abs(rep["totals"]["allocated_bytes"] - bytes_in_all) < bytes_in_all / 4


def test_what_cannot_be_hooked_is_not_run(tmp_path):
    """Without names nobody knows where its malloc is: it does not run unseen."""
    (tmp_path / "x.c").write_text('#include <unistd.h>\nint main(void) { return write(1, "ran", 3) != 3; }\n')
    subprocess.run(["gcc", "-static", "-s", tmp_path / "x.c", "-o", tmp_path / "x"], check=True)
    done = run([HEFT, "run", "-o", tmp_path / "x.heft", "--", tmp_path / "x"])
    assert (done.returncode, done.stdout) == (125, b""), done
    assert b"linked statically" in done.stderr
    assert not (tmp_path / "x.heft").exists()


def test_a_program_that_cannot_be_executed(tmp_path):
    program = tmp_path / "x"
    subprocess.run(["gcc", "-static", "-xc", "-", "-o", program], input=b"int main(void) { return 0; }", check=True)
    with open(program, "r+b"):  # ETXTBSY
        done = run([HEFT, "run", "-o", tmp_path / "x.heft", "--", program])
    assert done.returncode == 126, done
    assert b"Text file busy" in done.stderr


# ---- what preloaded programs execute

PYTHON_RUNS = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
PYTHON_SPAWNS = "import os, sys; p = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ); " \
                "sys.exit(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))"
STARTERS = {
    "sh": lambda program, script: ["sh", "-c", f"{program}; exit $?"],
    "sh in place": lambda program, script: ["sh", "-c", f"exec {program}"],
    "python vfork": lambda program, script: ["/usr/bin/python3", "-S", "-c", PYTHON_RUNS, str(program)],
    "python spawn": lambda program, script: ["/usr/bin/python3", "-S", "-c", PYTHON_SPAWNS, str(program)],
    "python in place": lambda program, script: ["/usr/bin/python3", "-S", "-c", "import os, sys; os.execv(sys.argv[1], sys.argv[1:])",
                                        str(program)],
    "script": lambda program, script: ["sh", "-c", f"{script}; exit $?"],
}


def tally_of_child(rep, out):
    """The child's sites are as many as it has counted itself, and nothing was left out."""
    allocations, reallocations, bytes_in_all, kept = map(int, out.split())
    sites = own_sites(rep)
    assert [total(sites, f) for f in ("allocations", "reallocations", "allocated_bytes", "left_blocks")] == [
        allocations, reallocations, bytes_in_all, kept]
    assert rep["totals"]["unknown_frees"] == rep["totals"]["dropped"] == 0
    assert not any("not recorded" in n["text"] for n in rep["notes"]), rep["notes"]


def guardians(path):
    """Those of a heft that has this recording on its command line"""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline", "rb") as line:
                if comm.read() == "heft-guardian\n" and os.fsencode(path) in line.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def no_guardian_stays(path):
    until = time.monotonic() + TIME_LIMIT
    while guardians(path) and time.monotonic() < until:
        time.sleep(0.05)
    return not guardians(path)


@pytest.fixture(scope="module")
def tallies(tmp_path_factory):
    """A program of each kind, built once"""
    made = {}

    def program(kind):
        if kind not in made:
            made[kind] = build_kind(kind, "entry_tally.c", tmp_path_factory.mktemp("tallies") / "tally")
        return made[kind]
    return program


@pytest.mark.parametrize("kind,starter", [*(("static", s) for s in STARTERS), ("musl", "sh"), ("musl", "python vfork"), ("old glibc", "sh"),
                                          ("old glibc, its loader's own name", "python spawn"), ("musl, another loader", "sh")])
def test_executed_programs_are_held(tallies, tmp_path, kind, starter):
    path = tmp_path / "x.heft"
    program = tallies(kind)
    script = tmp_path / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    done = run([HEFT, "run", "-q", "-o", path, "--", *STARTERS[starter](program, script)])
    assert (done.returncode, done.stderr) == (7, b""), done
    rep = report(path)
    tally_of_child(rep, done.stdout)
    assert rep["processes"][-1]["command"][0] == str(program)
    assert len(rep["processes"]) == (1 if starter.endswith("in place") else 2)  # the last image names a process


def test_what_a_held_program_forks_and_executes(tallies, tmp_path):
    """Its forked child has the hooks; what it executes has heft's library; and that executes a static program again."""
    path = tmp_path / "x.heft"
    program, other = tallies("static-pie"), tallies("static")
    done = run([HEFT, "run", "-q", "-o", path, "--", "sh", "-c", f"{program} fork; exit $?"])
    assert done.returncode == 7, done
    rep = report(path)
    assert len(rep["processes"]) == 3
    assert [s["allocations"] for s in own_sites(rep) if s["allocations"] == 123] == [123]
    done = run([HEFT, "run", "-q", "--force", "-o", path, "--", "sh", "-c", f"exec {program} exec /bin/sh -c 'exec {other}'"])
    assert done.returncode == 7, done
    rep = report(path)
    assert [(p["pid"], p["command"]) for p in rep["processes"]] == [(rep["pid"], [str(other)])]
    assert total(own_sites(rep), "allocations") == int(done.stdout.split()[0]) + 1  # and the first one's constructor


def test_many_at_once(tallies, tmp_path):
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    path = tmp_path / "x.heft"
    program = tallies("static")
    (tmp_path / "Makefile").write_text("all: 1 2 3 4 5 6\n1 2 3 4 5 6:\n\t@%s; test $$? = 7\n" % program)
    done = run([HEFT, "run", "-q", "-o", path, "--", "make", "-s", "-j3", "-C", tmp_path])
    assert (done.returncode, done.stderr) == (0, b""), done
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    rep = report(path)
    assert total(own_sites(rep), "allocations") == sum(int(line.split()[0]) for line in lines)
    assert no_guardian_stays(path)


# ---- every way to start another program, from and into every kind

FLAGS = {"plain": ("gcc", []), "static": KINDS["static"][:2], "musl": KINDS["musl"][:2],
         "own": ("gcc", ["-Wl,--whole-archive", ARCHIVE % "jemalloc", "-Wl,--no-whole-archive", "-lstdc++", "-lm"])}
HOWS = ["exec", "bare", "forks", "vforks", "spawns", "spawns bare", "spawns sh", "thread spawns", "system", "popen"]
# All ways where heft has to do something itself; of the others those that differ
STARTS = [*(("own", how, "plain") for how in HOWS), *(("own", how, "own") for how in ("exec", "vforks", "spawns")),
          *(("plain", how, "own") for how in ("exec", "vforks", "spawns", "thread spawns", "spawns bare", "system")),
          ("plain", "spawns", "static"), ("plain", "spawns", "musl"), ("plain", "thread spawns", "static"),
          ("own", "spawns", "musl"), ("own", "popen", "static"),
          ("musl", "spawns", "plain"), ("musl", "system", "own"), ("musl", "vforks", "musl"),
          ("static", "spawns bare", "plain"), ("static", "forks", "own")]


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """The same program of each kind, built once"""
    made = {}

    def program(kind):
        needs_musl(kind)
        if kind == "own" and not os.path.exists(ARCHIVE % "jemalloc"):
            pytest.skip("libjemalloc.a is not installed")
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp("kinds") / kind
            compiler, flags = FLAGS[kind]
            subprocess.run([compiler, "-g", "-O1", "-pthread", os.path.join(PROGRAMS, "entry_tally.c"), *flags,
                            "-o", made[kind]], check=True, stderr=subprocess.DEVNULL)
        return made[kind]
    return program


@pytest.mark.parametrize("parent,how,child", STARTS)
def test_what_programs_start(kinds, tmp_path, parent, how, child):
    """The child is recorded in whatever way it needs. It counts itself; its parent has allocated one block before."""
    path = tmp_path / "x.heft"
    done = run([HEFT, "run", "-q", "-o", path, "--", kinds(parent), how, kinds(child)])
    assert (done.returncode, done.stderr) == (7, b""), done
    allocations, reallocations, bytes_in_all, kept = map(int, done.stdout.split())
    rep = report(path)
    sites = own_sites(rep)
    assert [total(sites, f) for f in ("allocations", "reallocations", "allocated_bytes", "left_blocks")] == [
        allocations + 1, reallocations, bytes_in_all + 77, kept + 1]
    assert rep["totals"]["unknown_frees"] == rep["totals"]["dropped"] == 0
    assert not any("not recorded" in n["text"] for n in rep["notes"]), rep["notes"]
    assert rep["processes"][-1]["command"][0] == str(kinds(child))
    assert no_guardian_stays(path)


def test_the_environment_of_what_is_started(kinds, tmp_path):
    """A held program gets nothing of heft's. Others find in their environment what they would under --via=preload, and
    the program itself has none of it."""
    path = tmp_path / "x.heft"
    shows = tmp_path / "shows"
    shows.write_text("#!/bin/sh\nenv | cut -d= -f1 | grep -E '^(LD_PRELOAD|HEFT_S)' | sort | tr '\\n' ' '\n")
    shows.chmod(0o755)
    done = run([HEFT, "run", "-q", "-o", path, "--", kinds("own"), "spawns", shows])
    assert done.stdout == b"HEFT_SESSION LD_PRELOAD ", done
    (tmp_path / "x.c").write_text("""
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    free(malloc(1));
    return getenv("LD_PRELOAD") || getenv("HEFT_SESSION") || access("/proc/self/maps", R_OK) ? 1 : 42;
}
""")
    subprocess.run(["gcc", tmp_path / "x.c", *FLAGS["own"][1], "-o", tmp_path / "x"], check=True)
    done = run([HEFT, "run", "-q", "--force", "-o", path, "--", "sh", "-c", f"{tmp_path}/x; exit $?"])
    assert done.returncode == 42, done


def test_a_large_environment(kinds, tmp_path):
    """libc has made a small stack for the child that executes."""
    path = tmp_path / "x.heft"
    env = {**os.environ, **{f"VARIABLE_{i}": "x" * 20 for i in range(6000)}}
    done = run([HEFT, "run", "-q", "-o", path, "--", kinds("own"), "spawns", kinds("plain")], env=env)
    assert done.returncode == 7, done
    assert total(own_sites(report(path)), "allocations") == int(done.stdout.split()[0]) + 1


@pytest.mark.parametrize("parent", ["plain", "own"])
def test_a_spawn_that_fails(kinds, tmp_path, parent):
    """The parent is not traced any more, and has its error. Its next child is recorded."""
    busy, path = tmp_path / "busy", tmp_path / "x.heft"
    shutil.copy(kinds("static"), busy)
    (tmp_path / "x.c").write_text("""
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
int main(int argc, char **argv)
{
    char *none[] = {NULL}, line[256];
    pid_t child;
    int status, fd = open(argv[1], O_RDWR | O_CLOEXEC);
    free(malloc(10));
    for (int i = 0; i < 2; i++) {
        printf("%s ", strerror(posix_spawn(&child, argv[1], NULL, NULL, argv + 1, none)));
        FILE *f = fopen("/proc/thread-self/status", "r");
        while (f && fgets(line, sizeof line, f))
            if (!strncmp(line, "TracerPid:", 10))
                printf("%d\\n", atoi(line + 10));
        fclose(f);
    }
    fflush(stdout);
    if (fd < 0 || posix_spawn(&child, argv[2], NULL, NULL, argv + 2, none) || waitpid(child, &status, 0) != child)
        return 1;
    return argc == 3 ? WEXITSTATUS(status) : 1;
}
""")
    subprocess.run(["gcc", tmp_path / "x.c", *FLAGS[parent][1], "-o", tmp_path / "x"], check=True)
    done = run([HEFT, "run", "-q", "-o", path, "--", tmp_path / "x", busy, kinds("static")])
    first, second, tally = done.stdout.splitlines()
    assert (done.returncode, first, second) == (7, b"Text file busy 0", b"Text file busy 0"), done
    assert total(own_sites(report(path)), "allocations") == int(tally.split()[0])
    assert no_guardian_stays(path)


def test_many_threads_spawn(kinds, tmp_path):
    path = tmp_path / "x.heft"
    (tmp_path / "x.c").write_text("""
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
static char **command;
static void *work(void *arg)
{
    char *none[] = {NULL};
    for (int i = 0; i < 3; i++) {
        pid_t child;
        int status;
        if (posix_spawn(&child, command[0], NULL, NULL, command, none) || waitpid(child, &status, 0) != child ||
            WEXITSTATUS(status) != 7)
            exit(1);
    }
    return arg;
}
int main(int argc, char **argv)
{
    pthread_t threads[6];
    command = argv + 1;
    for (int i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    return argc == 2 ? 7 : 1;
}
""")
    for parent, child in (("plain", "static"), ("own", "plain"), ("own", "own")):
        subprocess.run(["gcc", "-pthread", tmp_path / "x.c", *FLAGS[parent][1], "-o", tmp_path / "x"], check=True)
        done = run([HEFT, "run", "-q", "--force", "-o", path, "--", tmp_path / "x", kinds(child)])
        assert (done.returncode, done.stderr) == (7, b""), done
        tallies = [int(line.split()[0]) for line in done.stdout.splitlines()]
        assert len(tallies) == 18
        assert total(own_sites(report(path)), "allocations") == sum(tallies)
    assert no_guardian_stays(path)


@pytest.mark.parametrize("sampled", [False, True], ids=["exact", "sampled"])
def test_an_exec_that_fails(tallies, tmp_path, sampled):
    """heft lets go of the process, which goes on: it is not traced, executes another one, and both are as they were."""
    path = tmp_path / "x.heft"
    program, busy = tallies("static"), tmp_path / "busy"
    shutil.copy(program, busy)
    code = """
import os, sys
def tracer():
    return [l for l in open("/proc/self/status") if l.startswith("TracerPid")][0].split()[1]
with open(sys.argv[1], "r+b"):
    for i in range(2):
        try:
            os.execv(sys.argv[1], sys.argv[1:2])
        except OSError as e:
            print(e.strerror, tracer(), flush=True)
os.execv(sys.argv[2], sys.argv[2:])
"""
    done = run([HEFT, "run", "-q", *(["--sample=1k"] if sampled else []), "-o", path, "--",
                "/usr/bin/python3", "-S", "-c", code, busy, program])
    assert (done.returncode, done.stderr) == (7, b""), done
    first, second, tally = done.stdout.splitlines()
    assert first == second == b"Text file busy 0"
    rep = report(path)
    if not sampled:
        tally_of_child(rep, tally)
    assert [p["command"] for p in rep["processes"]] == [[str(program)]]
    assert total(own_sites(rep), "allocated_bytes") > 10_000_000


def test_privileges_stay(tmp_path):
    """Who is traced gets no privileges by exec: such programs are not held."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root can make such a program, and setpriv runs it as another user")
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        os.chmod(folder, 0o755)
    program = tmp_path / "who"
    subprocess.run(["gcc", "-static", "-xc", "-", "-o", program],
                   input=b"#include <unistd.h>\nint main(void) { return geteuid() ? 1 : 42; }", check=True)
    program.chmod(0o4755)
    done = run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", HEFT, "run", "-q", "-o",
                "/dev/null", "--force", "--", "sh", "-c", f"{program}; exit $?"], cwd="/")
    if b"cannot" in done.stderr:
        pytest.skip(done.stderr.decode())
    assert done.returncode == 42, done


def test_a_program_that_cannot_be_hooked_runs(tmp_path):
    """It was not started by the user as the program to record: it goes on, and the recording says so."""
    program, path = tmp_path / "x", tmp_path / "x.heft"
    subprocess.run(["gcc", "-static", "-s", "-xc", "-", "-o", program],
                   input=b'#include <unistd.h>\nint main(void) { return write(1, "ran", 3) != 3; }', check=True)
    done = run([HEFT, "run", "-q", "-o", path, "--", "sh", "-c", f"{program}; exit $?"])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ran", b""), done
    assert any(f"executed {program} and was not recorded: it is statically linked, and got no hooks: "
               f"'heft doctor {program}' says why" in n["text"] for n in report(path)["notes"]), report(path)["notes"]


def test_heft_is_killed(tmp_path):
    """The held program goes on, and heft's code goes out of it."""
    source = tmp_path / "x.c"
    source.write_text("""
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 300; i++) {
        do {
            free(malloc(100));
            usleep(2000);
        } while (i == 20 && access(argv[argc - 1], F_OK));
        if (write(1, ".", 1) != 1)
            return 1;
    }
    return 0;
}
""")
    subprocess.run(["gcc", "-static", source, "-o", tmp_path / "x"], check=True)
    path, go_on = tmp_path / "x.heft", tmp_path / "go_on"
    with subprocess.Popen([HEFT, "run", "-q", "-o", path, "--", "sh", "-c", f"{tmp_path}/x {go_on}; echo $?"],
                          stdout=subprocess.PIPE) as heft:
        assert heft.stdout.read(20) == b"." * 20
        assert len(guardians(path)) == 1
        heft.kill()
        go_on.touch()
        assert heft.stdout.read() == b"." * 280 + b"0\n"
    assert no_guardian_stays(path)
