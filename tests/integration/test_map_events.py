"""Calls that map memory: which are recorded, with which sizes and call stacks, what is mapped by whom, and that the program
notices nothing. The sizes are those that tests/programs/maps_memory.c asks for, in whole pages."""

import json
import re

import jsonschema
import pytest

from harness import HEFT, REPOSITORY, allocator_library, check_sums, report, run

SCHEMA = json.loads((REPOSITORY / "docs" / "map.schema.json").read_text())
KIB, MIB = 1 << 10, 1 << 20


class Calls:
    """`heft map --json` of a recording."""

    def __init__(self, path, *options):
        done = run([HEFT, "map", "--json", *options, path])
        assert done.returncode == 0, done.stderr.decode()
        made = json.loads(done.stdout)
        jsonschema.validate(made, SCHEMA, cls=jsonschema.Draft202012Validator)
        self.all = made["mappings"]
        self.sites = {s["site"]: s for s in made.get("sites", [])}
        times = [c["time_ns"] for c in self.all]
        assert times == sorted(times)

    def function(self, call):
        return self.sites[call["site"]]["function"] if call.get("site") in self.sites else "?"

    def seen(self):
        return [(c["call"], c["change_bytes"], self.function(c)) for c in self.all if c["origin"] == "seen"]

    def derived(self, but="brk"):
        return [(c["call"], c["change_bytes"]) for c in self.all if c["origin"] == "derived" and c["call"] != but]

    def mapped(self, function, column="mapped_bytes"):
        return sum(s[column] for s in self.sites.values() if s["function"] == function)


def record_part(record, program, part, **others):
    """Records a part of the program. What it prints is what it prints alone."""
    done, rep = record([program, part], **others)
    alone = run([program, part], env=others.get("env"))
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout) and done.returncode == 0
    check_sums(rep)
    verified = run([HEFT, "verify", rep.path])
    assert verified.returncode == 0, verified.stderr.decode()
    return done, rep, Calls(rep.path)


@pytest.fixture
def program(compiled):
    return compiled("maps_memory.c")


def test_each_call(record, program):
    done, rep, calls = record_part(record, program, "plain")
    assert b"errno 77" in done.stdout and b"sbrk 1 1 brk 0 1 1" in done.stdout
    assert calls.seen() == [
        ("mmap", 4 * MIB, "make_large"),
        ("mmap", 8 * KIB, "make_odd"),
        ("mmap", 64 * KIB, "make_by_number"),
        ("munmap", -8 * KIB, "unmap_middle"),
        ("mremap", 2 * MIB - 8 * KIB, "grow"),
        ("madvise", 0, "advise"),
        ("mremap", 0, "move_to"),
        ("brk", 256 * KIB, "move_break"),
        ("brk", -192 * KIB, "move_break"),
        ("brk", -64 * KIB, "move_break"),
        ("shmat", 100 * KIB, "attach_shared"),
        ("shmdt", 0, "attach_shared"),
        ("mmap", 4 * KIB, "fail_all"),
        ("munmap", -4 * KIB, "fail_all"),
    ]
    first = {c["call"]: c for c in reversed(calls.all)}
    moved = [c for c in calls.all if c["call"] == "mremap"][1]
    assert moved["address"] == first["mmap"]["address"] + 2 * MIB
    assert first["madvise"]["bytes"] == 16 * KIB and "DONTNEED" in first["madvise"]["what"]
    # malloc(1 MiB): the block, 16 bytes before it, and the rest of the page
    assert calls.derived() == [("mmap", MIB + 4 * KIB), ("munmap", -MIB - 4 * KIB)]

    # Most is mapped while that block lives. 8 KiB of the first mapping are gone, 64 KiB of it were mapped over.
    assert calls.mapped("make_large") == calls.mapped("make_large", "mapped_left_bytes") == 4 * MIB - 72 * KIB
    assert calls.mapped("grow") == 2 * MIB and calls.mapped("move_to") == 64 * KIB
    assert calls.mapped("plain") == MIB + 4 * KIB and calls.mapped("plain", "mapped_left_bytes") == 0
    for gone in ("make_odd", "make_by_number", "move_break", "attach_shared", "fail_all"):
        assert calls.mapped(gone) == calls.mapped(gone, "mapped_left_bytes") == 0


def test_other_numbers_stay(record, program):
    """Mappings are no allocations: only --sort mapped and its kin show them."""
    _, rep, calls = record_part(record, program, "plain")
    assert not rep.sites_calling("make_large") and "mapped_bytes" not in rep["totals"]
    with_mapped = report(rep.path, "--sort", "mapped")
    for name, value in rep["totals"].items():
        assert with_mapped["totals"][name] == value, name
    total = sum(s["mapped_bytes"] for s in with_mapped["sites"])
    assert total == with_mapped["totals"]["mapped_bytes"] == sum(s["mapped_bytes"] for s in calls.sites.values())
    assert with_mapped.sites_calling("make_large")[0]["via"] == "mmap"
    folded = run([HEFT, "export", "-f", "folded", "--measure", "mapped", "-o", "-", rep.path])
    assert folded.returncode == 0, folded.stderr.decode()
    assert sum(int(line.split()[-1]) for line in folded.stdout.decode().splitlines()) == total
    window = run([HEFT, "report", "--sort", "mapped", "--from", "0", "--to", "50%", rep.path])
    assert window.returncode == 1 and b"whole run" in window.stderr


def test_text(record, program, tmp_path):
    _, rep, _ = record_part(record, program, "plain")
    text = run([HEFT, "map", "--events", "-n", "5", rep.path]).stdout.decode()
    lines = text.splitlines()
    assert lines[0].split() == ["time", "call", "bytes", "what", "who"]
    assert re.search(r" mmap +\+4\.0 MiB +anonymous +make_large \(maps_memory\.c:\d+\)$", text, re.M)
    assert re.search(r"^\.\.\. \d+ more calls: -n \d+ shows all$", text, re.M) and len(lines) == 8
    assert "mapped        " in run([HEFT, "report", "--sort", "mapped", rep.path]).stdout.decode()
    without = tmp_path / "without.heft"
    run([HEFT, "run", "-q", "--no-ledger", "-o", without, program, "plain"])
    no_ledger = run([HEFT, "map", without])
    assert no_ledger.returncode == 1 and b"--events" in no_ledger.stderr
    assert run([HEFT, "map", "--events", "1"]).returncode == 2


def test_threads(record, program):
    _, _, calls = record_part(record, program, "threads")
    made = [c for c in calls.all if calls.function(c) == "in_thread"]
    assert sorted(c["bytes"] for c in made) == [MIB, 2 * MIB, 3 * MIB, 4 * MIB]
    assert len({c["tid"] for c in made}) == 4
    assert calls.mapped("in_thread", "mapped_left_bytes") == 9 * MIB
    assert 9 * MIB <= calls.mapped("in_thread") <= 10 * MIB


def test_forked_child(record, program):
    """A child gives back what it has from its parent: that stays the parent's."""
    _, rep, calls = record_part(record, program, "child")
    parent, child = (p["pid"] for p in rep["processes"])
    assert calls.mapped("make_large") == calls.mapped("make_large", "mapped_left_bytes") == 4 * MIB
    assert calls.mapped("map_in_child") == calls.mapped("map_in_child", "mapped_left_bytes") == 3 * MIB
    of_child = Calls(rep.path, "--pid", str(child))
    assert of_child.seen() == [("munmap", -4 * MIB, "child"), ("mmap", 3 * MIB, "map_in_child")]
    assert {c["pid"] for c in calls.all} == {parent, child}


def test_signal_handler(record, program):
    """A handler that interrupts malloc, its hook or anything else."""
    _, rep, calls = record_part(record, program, "signals")
    made = [c for c in calls.all if c["call"] == "mmap" and c["bytes"] == 8 * KIB and c["origin"] == "seen"]
    gone = [c for c in calls.all if c["call"] == "munmap" and c["bytes"] == 8 * KIB]
    assert len(made) >= 290 and len(gone) >= 290
    assert rep["totals"]["dropped"] == 0


def test_churn(record, program):
    """200,000 pairs: a few bytes each in the file, and sums that are right."""
    _, rep, _ = record_part_without_calls(record, program)
    text = run([HEFT, "map", "--events", "-n", "1", rep.path]).stdout.decode()
    more = int(re.search(r"\.\.\. ([\d,]+) more calls", text)[1].replace(",", ""))
    assert 400000 <= more <= 400010
    assert rep.path.stat().st_size < 6 * 400000
    mapped = report(rep.path, "--sort", "mapped")
    by_function = {s["stack"][0]["function"]: s for s in mapped["sites"] if s["stack"]}
    assert by_function["make_large"]["mapped_bytes"] == 4 * MIB
    assert by_function["churn_once"]["mapped_bytes"] == 16 * KIB
    assert by_function["churn_once"]["mapped_left_bytes"] == 0


def record_part_without_calls(record, program):
    done, rep = record([program, "churn"])
    assert done.returncode == 0 and done.stdout == b"1\n"
    check_sums(rep)
    assert rep["totals"]["dropped"] == 0
    return done, rep, None


@pytest.mark.parametrize("library", ["libjemalloc.so", "libmimalloc.so"])
def test_inside_malloc(record, program, library):
    """An allocator maps memory inside of malloc: who called malloc made it."""
    env = {"LD_PRELOAD": allocator_library(library)}
    _, rep, calls = record_part(record, program, "allocator", env=env)
    made = [c for c in calls.all if c["call"] == "mmap" and calls.function(c) == "allocate"]
    assert made and all(c["origin"] == "seen" for c in made)
    assert calls.mapped("allocate") >= 40 * MIB
    assert calls.derived() == []
    site = next(s for s in calls.sites.values() if s["function"] == "allocate" and s["mapped_bytes"])
    assert [f["function"] for f in site["stack"]][:3] == ["allocate", "allocator", "main"]
    assert rep["totals"]["dropped"] == 0


def test_an_allocator_with_an_mmap_of_its_own(record, program):
    """The mmap of tcmalloc makes the call by number. It is one call, and not two. Its own heap is at the break."""
    _, _, alone = record_part(record, program, "plain")
    _, _, calls = record_part(record, program, "plain", env={"LD_PRELOAD": allocator_library("libtcmalloc.so")})

    def of_program(made):
        return [(c["call"], c["change_bytes"]) for c in made.all if c["origin"] == "seen" and c["call"] != "brk" and
                "maps_memory" in made.sites.get(c.get("site"), {}).get("module", "")]

    assert len(of_program(alone)) > 10 and of_program(calls) == of_program(alone)


def test_python_arenas(record):
    """pymalloc's arenas are 1 MiB (256 KiB before 3.10) each, mapped by python's own code."""
    done, rep = record(["/usr/bin/python3", "-S", "-c", "x = [(i, str(i)) for i in range(100000)]"])
    assert done.returncode == 0
    calls = Calls(rep.path)
    arenas = [c for c in calls.all if c["call"] == "mmap" and c["origin"] == "seen" and c["bytes"] in (MIB, 256 * KIB)]
    assert sum(c["bytes"] for c in arenas) >= 8 * MIB
    for c in arenas:
        site = calls.sites[c["site"]]
        assert "python3" in site["module"] and len(site["stack"]) > 5


def test_sampled_process_has_none(record, program):
    done, rep = record([program, "plain"], opts=["--sample"])
    assert done.returncode == 0
    none = run([HEFT, "map", "--events", rep.path])
    assert none.returncode == 1 and b"not sampled" in none.stderr
    refused = run([HEFT, "report", "--sort", "mapped", rep.path])
    assert refused.returncode == 1
