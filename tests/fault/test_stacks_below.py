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
