"""How much stack heft takes inside the allocator's functions (tests/programs/stack_use.c): coroutines may have
little. docs/capture-safety.md states these numbers."""

import pytest

from harness import run

MOST = 1536  # bytes, everywhere: a compiler may take a little more than the 1.3 KiB of gcc 12
USUAL = 1152  # a stack that was not seen before
UNCHANGED = 320  # the stack of the call before


def uses(text):
    return {name: int(number) for name, number in (line.split() for line in text.decode().splitlines())}


@pytest.mark.parametrize("rate, size", [([], 100), (["--sample=1k"], 40000)], ids=["exact", "sampled"])
def test_a_call_takes_little_stack(compiled, record, rate, size):
    plugin = compiled("stack_plugin.c", output="stack_use.so", flags=["-shared", "-fPIC", "-DNAME=stack_use"])
    command, env = [compiled("stack_use.c"), plugin, str(size)], {"LD_BIND_NOW": "1"}
    plain = run(command, env=env)
    assert plain.returncode == 0, plain.stderr
    without = uses(plain.stdout)
    assert max(without.values()) < 1000, without  # the allocator itself
    done, rep = record(command, env=env, opts=rate)
    assert done.returncode == 0, done.stderr
    used = uses(done.stdout)
    assert used.keys() == without.keys()
    assert max(used.values()) <= MOST, used
    assert used["new_site"] <= USUAL and used["coroutine_first"] <= USUAL + 200, used
    if not rate:
        assert used["unchanged"] <= UNCHANGED, used
    assert used["new_site"] > without["new_site"] + 200  # it measures what heft does
