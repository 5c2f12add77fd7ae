"""Coroutines on memory right below a thread's stack, which goes away in between (tests/programs/stacks_below.c):
call stacks are never read where nothing is mapped."""

import pytest

from harness import names, run

MADE = {"reused": 30, "closed": 30, "many": 1730, "handler": 34}


@pytest.mark.parametrize("rate", [[], ["--sample=1k"]], ids=["exact", "sampled"])
@pytest.mark.parametrize("pointers", ["-fomit-frame-pointer", "-fno-omit-frame-pointer"])
@pytest.mark.parametrize("mode", MADE)
def test_no_read_where_nothing_is_mapped(compiled, record, mode, pointers, rate):
    program = compiled("stacks_below.c", flags=[pointers], output="stacks_below" + pointers)
    plain = run([program, mode])
    assert (plain.returncode, plain.stdout) == (6, b"made %d\n" % MADE[mode])
    done, rep = record([program, mode], opts=rate)
    assert (done.returncode, done.stdout) == (6, plain.stdout), done.stderr
    sites = [s for s in rep["sites"] if "keep_block" in names(s)]
    if rate:
        return  # a few blocks are sampled, at random
    assert sum(s["allocations"] for s in sites) == MADE[mode]
    # Who resumed a coroutine is not its caller.
    assert not [s for s in sites if "coroutine" in names(s) and "thread" in names(s)]
    assert [s for s in sites if "coroutine" not in names(s) and "thread" in names(s)]


@pytest.mark.parametrize("whose", ["program", "library"])
def test_a_closed_elf_header(compiled, record, whose):
    """The page with the program headers cannot be read any more. Call stacks are found all the same."""
    program = compiled("closed_header.c", flags=["-Wl,-z,now"])
    plugin = compiled("stack_plugin.c", output="closed_header.so", flags=["-shared", "-fPIC", "-Wl,-z,now", "-DNAME=closed"])
    command = [program] if whose == "program" else [program, plugin]
    assert run(command).returncode == 7
    done, rep = record(command)
    assert done.returncode == 7, done.stderr
    if whose == "program":  # its build id is in that page too, so nobody can be sure of names
        assert rep["totals"]["allocations"] == 200
        assert sorted(len(s["stack"]) for s in rep["sites"]) == [5, 6]  # first, (second,) main, 2 of libc, _start
        return
    for function, allocations in (("first", 200), ("second", 100)):
        found = rep.sites_calling(function)
        assert sum(s["allocations"] for s in found) == allocations
        assert all("main" in names(s) for s in found)
