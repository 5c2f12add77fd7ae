"""Stacks through cgo: C that Go calls, Go that C calls, on the stacks of goroutines and of threads. The program
is tests/programs/cgo_calls.go, where every way has a size of its own."""

import collections
import itertools
import json
import os
import subprocess

import pytest

from attach_harness import Lines, may_trace
from harness import GO, HEFT, PROGRAMS, end_group, go_build, report, run, start

pytestmark = pytest.mark.skipif(not os.path.exists(GO), reason="no Go")
EVERYTHING = 7  # times: six goroutines, and main

# What cgo and the runtime have between the functions below.
GLUE = ("runtime.", "crosscall2", "_cgo", "main._Cfunc_", "main._cgo_", "main.malloced.func1", "goBack", "goFromThread")
TO_C = ["get"]
ENDS = {("main.everything", "main.round.func1"): 6, ("main.everything", "main.main"): 1}
NESTED = ["main.goBack", "there"]


def expected():
    """{(size, the functions that the program wrote, innermost first, deep() with its depth): calls in everything()}"""
    calls = {
        (1000, *TO_C, "main.direct"): 100,
        (1100, "main.malloced"): 100,
        (2000, *TO_C, ("main.deep", 501)): 1,
    }
    for size, n, levels in ((3000, 1, 0), (4000, 700, 0), (5000, 2, 3)):
        for level in range(levels + 1):
            below = ["there", *NESTED * level, "main.callback"]
            at = size + 11 * level
            calls[(at, *TO_C, *below)] = 1
            calls[(at + 1, *TO_C, ("main.deep", n + 1 if level == 0 else 1), "main.goBack", *below)] = 1
            calls[(at + 2, *TO_C, *below)] = 1
    return calls


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Built once, and linked again without symbols."""
    folder = tmp_path_factory.mktemp("cgo")
    source = PROGRAMS / "cgo_calls.go"
    go_build(source, folder / "whole")
    go_build(source, folder / "stripped", "-ldflags=-s -w")
    return folder


def own(site):
    """The program's own functions on a stack, innermost first."""
    names = [f["function"] for f in site["stack"]]
    for turns in reversed(site.get("stack_recursion", [])):
        at, end = turns["at"], turns["at"] + turns["frames"]
        names[at:end] = names[at:end] * turns["times"]
    names = [n for n in names if not n.startswith(GLUE)]
    if "thread" in names:
        names = names[:names.index("thread") + 1]  # libc's are further out
    return tuple((n, len(list(turns))) if n == "main.deep" else n for n, turns in itertools.groupby(names))


def stacks(rep):
    """{(size, own functions): count} of all sites that have one of the program's sizes"""
    found = collections.Counter()
    for site in rep["sites"]:
        size, rest = divmod(site["allocated_bytes"], site["allocations"] or 1)
        if not rest and 1000 <= size < 6100 and "_IO_file_doallocate" not in own(site):
            found[(size, *own(site))] += site["allocations"]
    return found


def record_it(program, name, tmp_path, *opts):
    path = tmp_path / "go.heft"
    done = run([HEFT, "run", "-q", "-o", path, *opts, "--", program / name])
    assert (done.returncode, done.stdout) == (0, b"whole\n"), done.stderr
    return report(path), path


def check_whole(rep):
    for site in rep["sites"]:
        assert not any(f.get("truncated") or f.get("guessed") for f in site["stack"]), site


def check_stacks(rep):
    wanted = {}
    for (size, *functions), calls in expected().items():
        for end, times in ENDS.items():
            wanted[(size, *functions, *end)] = calls * times
    # A thread that Go did not make: its stack ends in C.
    wanted[(6000, "get", ("main.deep", 4), "main.goFromThread", "thread")] = EVERYTHING
    found = stacks(rep)
    assert found == wanted
    check_whole(rep)


def test_every_way(program, tmp_path):
    rep, path = record_it(program, "whole", tmp_path)
    check_stacks(rep)
    heads = {site["stack"][site["first_user"]]["function"] for site in rep["sites"]
             if site["allocated_bytes"] == 1100 * site["allocations"] > 0}
    assert heads == {"main.malloced.func1"} or heads == {"main.malloced"}
    text = run([HEFT, "report", path]).stdout.decode()
    assert "outer frames are missing" not in text


def test_stripped(program, tmp_path):
    """Without symbols Go's own tables name its functions, with files and lines; C's static functions have no names."""
    rep, _ = record_it(program, "stripped", tmp_path)
    # Two calls in one function without lines are one site: so the sums are compared.
    count, sizes = collections.Counter(), collections.Counter()
    for (size, *functions), calls in expected().items():
        functions = tuple(f for f in functions if f not in ("get", "there"))
        for end, times in ENDS.items():
            count[functions + end] += calls * times
            sizes[functions + end] += calls * times * size
    thread = (("main.deep", 4), "main.goFromThread")
    count[thread], sizes[thread] = EVERYTHING, EVERYTHING * 6000
    found, found_sizes = collections.Counter(), collections.Counter()
    for (size, *functions), calls in stacks(rep).items():
        named = tuple(f for f in functions if f[0] == "main.deep" or f.startswith("main."))
        if named:
            found[named] += calls
            found_sizes[named] += calls * size
    assert found == count
    assert found_sizes == sizes
    check_whole(rep)
    lines = {(os.path.basename(f["file"]), f["line"]) for site in rep["sites"] for f in site["stack"]
             if f["function"] == "main.direct"}
    source = (PROGRAMS / "cgo_calls.go").read_text().splitlines()
    assert lines == {("cgo_calls.go", source.index("func direct() { C.get(1000) }") + 1)}


@pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
def test_attached(program, tmp_path):
    """Attach and detach while goroutines are in C: the stacks are the same ones, and the program goes on."""
    target = start([program / "whole", "loop"], stdin=subprocess.PIPE)
    try:
        lines = Lines(target.stdout)
        assert lines.next() == "ready"
        path = tmp_path / "attached.heft"
        done = run([HEFT, "attach", "-q", "--duration", "1s", "-o", path, target.pid])
        assert done.returncode == 0, done.stderr
        out, err = target.communicate(b"\n", timeout=60)
        assert (target.returncode, out, err) == (0, b"whole\n", b"")
    finally:
        end_group(target)
    rep = report(path)
    known = {(size, *functions, "main.everything", "main.round.func1") for size, *functions in expected()}
    known.add((6000, "get", ("main.deep", 4), "main.goFromThread", "thread"))
    found = set(stacks(rep))
    assert found and found <= known, found - known
    assert found & {k for k in known if k[0] == 5001}  # through a callback
    check_whole(rep)


@pytest.mark.parametrize("flags", [[], ["-ldflags=-s -w"], ["-buildmode=pie"]], ids=["whole", "stripped", "pie"])
def test_without_cgo(tmp_path, flags):
    """Its heap is not malloc's, and its own profiles show it. One that can be moved (pie) has a loader, and no libc."""
    (tmp_path / "plain.go").write_text(
        'package main\n\nimport "os"\n\nfunc main() { println("ran"); os.Stdin.Read(make([]byte, 1)) }\n')
    program = go_build(tmp_path / "plain.go", tmp_path / "plain", *flags)
    done = run([HEFT, "run", "-o", tmp_path / "x.heft", "--", program])
    assert (done.returncode, done.stdout) == (125, b""), done
    assert b"Go program without cgo" in done.stderr and b"/debug/pprof/heap" in done.stderr
    # heft doctor foretells it.
    done = run([HEFT, "doctor", "--json", program])
    checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    assert (done.returncode, checks["way in"]["verdict"]) == (1, "no")
    assert "Go program without cgo" in checks["way in"]["text"] and "pprof" in checks["way in"]["way_out"]
    process = start([program], stdin=subprocess.PIPE)
    try:
        assert process.stderr.readline() == b"ran\n"
        done = run([HEFT, "attach", "-o", tmp_path / "x.heft", "--duration", "1s", process.pid])
        assert done.returncode == 1 and b"Go program without cgo" in done.stderr, done
        process.stdin.write(b"x")
        process.stdin.close()
        assert process.wait(60) == 0
    finally:
        end_group(process)
