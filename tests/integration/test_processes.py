"""fork, exec and their relatives, followed into one recording with a table of processes.

tests/programs/processes.c takes 3 x 1000 bytes, frees one, does what its mode says, takes
2000 bytes and exits with 6; a forked child takes 7 x 30 bytes and frees 3; leaf.c takes
5 x 100 bytes, frees 2 and exits with 9."""

import os
import re
import shutil
import subprocess
import time

import pytest

from harness import HEFT, PROGRAMS, check_sums, line_of, report, run

PARENT = {"allocations": 4, "frees": 1, "allocated_bytes": 5000, "live_bytes": 4000,
          "live_blocks": 3}
REPLACED = {"allocations": 3, "frees": 1, "allocated_bytes": 3000, "live_bytes": 2000,
            "live_blocks": 2}  # a parent that is itself replaced by exec
CHILD = {"allocations": 7, "frees": 3, "allocated_bytes": 210, "live_bytes": 120, "live_blocks": 4}
LEAF = {"allocations": 5, "frees": 2, "allocated_bytes": 500, "live_bytes": 300, "live_blocks": 3}
BOTH = {k: CHILD[k] + PARENT[k] for k in PARENT}


@pytest.fixture(scope="session")
def leaf(compiled):
    return compiled("leaf.c")


@pytest.fixture(scope="session")
def processes(compiled):
    return compiled("processes.c")


def go(record, processes, leaf, mode, *more, status=6, opts=()):
    plain = run([processes, mode, leaf, *more])
    assert plain.returncode == status, plain.stderr
    for path in more:
        if os.path.exists(path):
            os.unlink(path)
    done, rep = record([processes, mode, leaf, *more], opts=opts)
    assert (done.returncode, done.stdout, done.stderr) == (status, plain.stdout, plain.stderr)
    assert rep["totals"]["dropped"] == 0 and rep["totals"]["unknown_frees"] == 0
    check_sums(rep)
    return rep


def numbers(process):
    return {k: process["totals"][k] for k in PARENT}


def table(rep):
    """[(name of the program, its numbers)] in the order of the table."""
    return [(os.path.basename(p["command"][0]), numbers(p)) for p in rep.images()]


# ---- fork: the child is the same program


@pytest.mark.parametrize("mode", ["fork", "fork-return", "clone", "_Fork"])
def test_fork(record, processes, leaf, mode):
    """A child's free of an inherited block ("fork", "clone") is recognised and not counted."""
    rep = go(record, processes, leaf, mode)
    assert table(rep) == [("processes", PARENT), ("processes", CHILD)]
    parent, child = rep.images()
    assert parent["pid"] == rep["pid"] and child["ppid"] == parent["pid"]
    assert child["pid"] != parent["pid"]
    assert child["command"] == parent["command"] == [str(processes), mode, str(leaf)]
    assert {t["pid"] for t in rep["threads"]} == {parent["pid"], child["pid"]}
    (site,) = rep.sites_calling("child_work")
    assert (site["allocations"], site["left_blocks"], site["live_blocks"]) == (7, 4, 0)
    assert site["stack"][0]["line"] == line_of("processes.c", "processes.child")
    # The child's blocks are gone when the parent has waited for it: 2 x 1000 + 2000 is the most.
    assert rep["totals"]["peak_bytes"] == rep["totals"]["live_bytes"] == 4000
    assert rep["totals"]["left_bytes"] == 4120


def test_pid_selects_a_process(record, processes, leaf):
    rep = go(record, processes, leaf, "fork")
    child = report(rep.path, "--pid", str(rep.images()[1]["pid"]))
    assert {k: child["totals"][k] for k in CHILD} == CHILD
    parent = report(rep.path, "--pid", str(rep.images()[0]["pid"]))
    assert {k: parent["totals"][k] for k in PARENT} == PARENT


def test_child_grows_an_inherited_block(record, processes, leaf):
    """What the parent has does not change by what the child does to its copy."""
    rep = go(record, processes, leaf, "fork-realloc")
    assert numbers(rep.images()[0]) == PARENT
    child = rep.images()[1]["totals"]
    assert child["allocations"] - child["frees"] == child["live_blocks"] == 4
    assert child["live_bytes"] == 120


def test_five_generations(record, processes, leaf):
    rep = go(record, processes, leaf, "fork-deep")
    assert table(rep) == [("processes", PARENT)] + [("processes", CHILD)] * 5
    for parent, child in zip(rep.images(), rep.images()[1:]):
        assert child["ppid"] == parent["pid"]


def test_fifty_children(record, processes, leaf):
    rep = go(record, processes, leaf, "fork-many")
    assert table(rep) == [("processes", PARENT)] + [("processes", CHILD)] * 50
    assert {p["ppid"] for p in rep.images()[1:]} == {rep["pid"]}


# ---- exec in place: the same pid, another image


@pytest.mark.parametrize("mode", ["execv", "execve", "execve-empty", "execve-null",
                                  "execve-little", "execl", "execle", "execlp", "execvp",
                                  "execvpe", "fexecve", "execveat"])
def test_exec(record, processes, leaf, mode):
    rep = go(record, processes, leaf, mode, status=9)
    last = rep.images()[-1]
    assert numbers(last) == LEAF
    assert os.path.basename(last["command"][0]) == "leaf"
    assert last["command"][1:] == ["one", "two"]
    assert last["pid"] == rep.images()[0]["pid"] == rep["pid"]
    assert len(rep.images()) == 2
    process, = rep["processes"]  # it is one, and called what it was last
    assert process["command"] == last["command"] and process["totals"]["threads"] == 1
    assert process["end"] == "exit" and process["exit_status"] == 9
    first = rep.sites_calling("before")
    assert sum(s["allocations"] for s in first) == 3
    if mode not in ("execlp", "execvp", "execvpe"):  # there, setenv allocates
        assert numbers(rep.images()[0]) == REPLACED


@pytest.mark.parametrize("variables", [[], ["ONLY=this"], ["B=2", "A=1", "LD_BIND_NOW=1"]])
def test_the_new_programs_environment(record, leaf, variables):
    """Nothing but heft's own variables comes on top of what a program passes on."""
    done, rep = record(["env", "-i", *variables, leaf, "environ"])
    assert done.returncode == 9
    lines = [line for line in done.stdout.decode().splitlines() if "=" in line]
    assert [x for x in lines if not x.startswith(("LD_PRELOAD=", "HEFT"))] == variables
    assert numbers(rep.process("leaf")) == LEAF


# ---- another process with another program


@pytest.mark.parametrize("mode", ["fork-exec", "vfork", "posix_spawn", "posix_spawn-empty",
                                  "posix_spawnp"])
def test_spawn(record, processes, leaf, mode):
    rep = go(record, processes, leaf, mode)
    assert numbers(rep.images()[0]) == PARENT
    last = rep.images()[-1]
    assert os.path.basename(last["command"][0]) == "leaf" and numbers(last) == LEAF
    assert last["ppid"] == rep["pid"]
    if mode == "fork-exec":
        assert numbers(rep.images()[1]) == CHILD
        assert rep.images()[1]["pid"] == last["pid"]
        assert len(rep.images()) == 3 and len(rep["processes"]) == 2
    else:
        assert len(rep.images()) == 2


def test_vfork_child_that_allocates(record, processes, leaf):
    """Its block is on the parent's heap, which frees it: the parent's books close."""
    rep = go(record, processes, leaf, "vfork-malloc")
    parent = numbers(rep.images()[0])
    assert parent == {**PARENT, "allocations": 5, "frees": 2, "allocated_bytes": 8000}
    assert numbers(rep.images()[-1]) == LEAF


@pytest.mark.parametrize("mode", ["system", "popen"])
def test_through_the_shell(record, processes, leaf, mode):
    rep = go(record, processes, leaf, mode)
    assert numbers(rep.process("leaf")) == LEAF
    assert sum(s["allocations"] for s in rep.sites_calling("before")) == 3
    assert sum(s["allocations"] for s in rep.sites_calling("after")) == 1
    if mode == "system":
        assert numbers(rep.images()[0]) == PARENT


def test_exec_of_a_missing_file(record, processes, leaf):
    rep = go(record, processes, leaf, "missing")
    assert table(rep) == [("processes", PARENT)]


# ---- hostile surroundings


def test_daemon_outlives_the_command(processes, leaf, record, tmp_path):
    """heft stays until the daemon has ended, says so, and has its allocations."""
    marker = tmp_path / "marker"
    path = tmp_path / "daemon.heft"
    begin = time.monotonic()
    done = run([HEFT, "run", "-o", path, "--", processes, "daemon", leaf, marker])
    assert done.returncode == 6
    assert marker.exists(), "heft left before the daemon had ended"
    assert time.monotonic() - begin >= 0.7
    assert re.search(rb"has ended; recording goes on for 1 process it left behind \(pid \d+\)\. "
                     rb"Ctrl-C ends the recording", b" ".join(done.stderr.split())), done.stderr
    rep = report(path)
    check_sums(rep)
    assert numbers(rep.images()[0]) == PARENT
    assert numbers(rep.images()[-1]) == CHILD
    assert sum(s["allocations"] for s in rep.sites_calling("grandchild_of_daemon")) == 7


def test_all_descriptors_closed(record, processes, leaf):
    rep = go(record, processes, leaf, "close")
    assert table(rep) == [("processes", BOTH), ("processes", CHILD), ("leaf", LEAF)]


def test_another_directory(record, processes, leaf):
    rep = go(record, processes, leaf, "chdir")
    assert table(rep) == [("processes", BOTH), ("processes", CHILD), ("leaf", LEAF)]


def test_dropped_privileges(record, processes, leaf, public_heft):
    if os.geteuid() != 0:
        pytest.skip("only root can become someone else")
    record.heft = public_heft
    rep = go(record, processes, leaf, "setuid")
    assert table(rep) == [("processes", BOTH), ("processes", CHILD), ("leaf", LEAF)]


# ---- options and environment


@pytest.mark.parametrize("mode", ["fork", "fork-exec", "vfork", "posix_spawn", "system"])
def test_follow_none(record, processes, leaf, mode):
    rep = go(record, processes, leaf, mode, opts=["--follow=none"])
    assert table(rep) == [("processes", PARENT)]


def test_follow_none_ends_with_exec(record, processes, leaf):
    """The first program is what was asked for: after its exec there is nothing to record."""
    done, rep = record([processes, "execv", leaf], opts=["--follow=none"])
    assert done.returncode == 9 and done.stdout == b"one\ntwo\n"
    assert numbers(rep.images()[0]) == REPLACED


@pytest.fixture(scope="session")
def musl_leaf(compiled):
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed")
    target = compiled.directory / "with-musl" / "leaf"
    target.parent.mkdir(exist_ok=True)
    subprocess.run(["musl-gcc", "-o", target, PROGRAMS / "leaf.c"], check=True)
    return target


@pytest.mark.parametrize("mode, status", [
    ("execv", 9), ("execve", 9), ("execl", 9), ("execlp", 9), ("execvp", 9), ("fexecve", 9), ("execveat", 9),
    ("posix_spawn", 6), ("posix_spawnp", 6)])
def test_a_loader_that_would_refuse_our_library(record, processes, musl_leaf, mode, status):
    """musl's loader does not start a program if a preloaded library needs glibc. It is held at its start."""
    rep = go(record, processes, musl_leaf, mode, status=status)
    assert "not recorded" not in str(rep["notes"])


def test_a_script_of_such_a_loader(record, musl_leaf, tmp_path):
    script = tmp_path / "script"
    script.write_text(f"#! {musl_leaf} word\n")
    script.chmod(0o755)
    done, _ = record(["sh", "-c", f"{script}; LD_PRELOAD= {musl_leaf}; exit 4"])
    assert done.returncode == 4 and done.stderr == b"", done.stderr


def test_ld_preload_of_the_user_is_kept(record, compiled, leaf):
    """In order, and nothing but one entry of heft's added."""
    first = compiled("stack_plugin.c", flags=["-shared", "-fPIC", "-DNAME=first"],
                     output="libfirst.so")
    second = compiled("stack_plugin.c", flags=["-shared", "-fPIC", "-DNAME=second"],
                      output="libsecond.so")
    preload = f"{first}:{second}"

    def preload_of(text):
        (line,) = [x for x in text.decode().splitlines() if x.startswith("LD_PRELOAD=")]
        return line.split("=", 1)[1].replace(" ", ":").split(":")
    for command in ([leaf, "environ"], ["bash", "-c", f"{leaf} environ; exit 9"],
                    ["bash", "-c", f"bash -c '{leaf} environ'; exit 9"]):
        done, rep = record(command, env={"LD_PRELOAD": preload})
        assert done.returncode == 9, done.stderr
        entries = preload_of(done.stdout)
        ours = [e for e in entries if "libheft-preload.so" in e]
        assert len(ours) == 1
        assert [e for e in entries if e not in ours] == [str(first), str(second)]
        assert numbers(rep.process("leaf")) == LEAF


def test_child_that_unsets_or_replaces_ld_preload(record, leaf):
    """A program that cleans its environment before it starts another one."""
    for script in ("unset LD_PRELOAD", "export LD_PRELOAD=", "export -n LD_PRELOAD"):
        done, rep = record(["bash", "-c", f"{script}; {leaf}; exit 3"])
        assert done.returncode == 3
        assert numbers(rep.process("leaf")) == LEAF, script
