"""Findings of recordings of several processes: each process is judged by itself, a finding says which
one it is of, and what only their sum shows is no finding (tests/programs/process_shapes.c)."""

import re

import pytest

from harness import HEFT, run
from test_findings import check_findings, kinds, only


def found_in(record, command, status=0):
    done, rep = record([str(c) for c in command])
    assert done.returncode == status, done.stderr
    return check_findings(rep), rep, done


def command_of(finding, rep):
    """Of the last program that the process became."""
    return [p for p in rep["processes"] if p["pid"] == finding["evidence"]["pid"]][-1]["command"]


@pytest.fixture(scope="session")
def shapes(compiled):
    return compiled("process_shapes.c")


@pytest.mark.parametrize("mode", ["turn", "objects", "rounding", "churn"])
def test_a_sum_over_processes_is_no_finding(record, shapes, mode):
    found, rep, _ = found_in(record, [shapes, mode])
    assert len(rep["processes"]) > 2
    assert kinds(found) == [], [f["summary"] for f in found]


def test_one_leaking_worker_is_named(record, shapes):
    found, rep, done = found_in(record, [shapes, "prefork"])
    leaking = int(re.search(rb"leaking (\d+)", done.stdout)[1])
    f = only(found, "growing-site")
    e = f["evidence"]
    assert (e["pid"], e["processes"], e["function"], e["freed"]) == (leaking, 1, "hold", "never")
    assert f["severity"] == "medium"  # the workers end by themselves
    # 2,000 blocks of 1,000 bytes, and of no other process.
    assert e["allocations"] == 2000 and 1500000 < e["level_bytes"] <= 2000000
    assert f["summary"].startswith(f"in process_shapes prefork (pid {leaking}), one of 5 processes of this "
                                   "program: memory from hold ")
    (site,) = [s for s in rep["sites"] if s["id"] == f["site"]]
    assert f"pid        {leaking}" in run([HEFT, "report", record.directory / "recording1.heft"]).stdout.decode()
    assert any(frame["function"] == "hold" for frame in site["stack"])


def test_workers_that_all_leak_are_one_finding(record, shapes):
    found, rep, _ = found_in(record, [shapes, "all"])
    f = only(found, "growing-site")
    e = f["evidence"]
    assert (e["processes"], e["function"], e["allocations"]) == (4, "hold", 2000)
    assert e["level_bytes"] <= 2000000 and rep["totals"]["left_bytes"] >= 8000000
    assert e["pid"] in {p["pid"] for p in rep["processes"]}
    assert "one of 4 processes that show this: memory from hold" in f["summary"]


def test_two_programs_beside_each_other(record, compiled):
    """A loader fills a table and is done. That another program serves requests meanwhile does not make
    it a leak: alone, both are silent (test_findings.py)."""
    growth = compiled("growth_shapes.c")
    found, rep, _ = found_in(record, ["/bin/sh", "-c", f"{growth} loader & {growth} lru; wait"])
    assert len(rep["processes"]) >= 3
    assert kinds(found) == [], [f["summary"] for f in found]


def test_a_pipe_that_nobody_reads_is_an_ordinary_end(record, compiled):
    """SIGPIPE ends the loader when it prints: its reader has left before."""
    growth = compiled("growth_shapes.c")
    found, rep, _ = found_in(record, ["/bin/sh", "-c", f"{growth} loader | true; true"])
    (loader,) = [p for p in rep["processes"] if p["command"] == [str(growth), "loader"]]
    assert (loader["end"], loader["signal"]) == ("signal", 13)
    assert kinds(found) == [], [f["summary"] for f in found]


def test_a_leak_beside_another_program(record, compiled):
    growth = compiled("growth_shapes.c")
    found, rep, _ = found_in(record, ["/bin/sh", "-c", f"{growth} leak & {growth} lru; wait"])
    f = only(found, "growing-site")
    assert command_of(f, rep) == [str(growth), "leak"]
    assert f["summary"].startswith("in growth_shapes leak (pid ")


@pytest.mark.parametrize("program, mode, kind", [
    ("object_shapes.c", "sessions", "per-instance-cost"), ("queue_shapes.c", "unbounded", "unbounded-queue"),
    ("slack_shapes.c", "spare", "growth-slack")])
def test_every_rule_names_the_process(record, compiled, program, mode, kind):
    """The same as of the program alone, under a shell that has done little."""
    path = compiled(program)
    found, rep, _ = found_in(record, ["/bin/sh", "-c", f"{path} {mode}; true"])
    alone, _, _ = found_in(record, [path, mode])
    assert kind in kinds(found), [f["summary"] for f in found]
    assert kinds(found) == kinds(alone)
    for f in found:
        if f["kind"] != "profile-quality":
            assert command_of(f, rep) == [str(path), mode]
            assert f["summary"].startswith(f"in {path.name} {mode} (pid ")
    (one,), (two,) = ([f for f in x if f["kind"] == kind] for x in (found, alone))
    assert one["evidence"]["function"] == two["evidence"]["function"] if "function" in two["evidence"] else \
        one["evidence"]["producer_function"] == two["evidence"]["producer_function"]


def test_a_build(record, tmp_path):
    """make -j2 of programs that have no leak: what compilers hold is theirs, each for itself."""
    for name in "abcd":
        (tmp_path / f"{name}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\nint {name};\n")
    (tmp_path / "Makefile").write_text("all: a.o b.o c.o d.o\n%.o: %.c\n\tgcc -O2 -c $< -o $@\n")
    found, rep, _ = found_in(record, ["make", "-j2", "-C", tmp_path])
    assert len(rep["processes"]) >= 9
    for f in found:
        assert f["kind"] in ("profile-quality", "growth-slack", "allocator-rounding", "temporary-churn")
        assert f["kind"] == "profile-quality" or f["evidence"]["pid"] in {p["pid"] for p in rep["processes"]}
