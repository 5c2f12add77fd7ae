"""Programs that limit their addresses, or lock all their memory: heft takes little of both, and they get what they get
without heft (tests/programs/little_memory.c). docs/capture-safety.md states the numbers."""

import os
import re
import resource

import pytest

from harness import run

ALL = 1000 + 2 * 30000 + 4 * 500  # blocks; every fourth is freed
MOST_KIB = 16 << 10  # of heft: tables, and 0.6 MiB for each thread
ENV = {"MALLOC_ARENA_MAX": "1"}  # another arena takes 128 MiB of addresses for a moment, and then 64
RATES = [[], ["--sample=1k"]]


def numbers(text):
    return {name: int(number) for name, number in (line.split() for line in text.decode().splitlines())}


@pytest.mark.parametrize("by", ["caller", "itself"])
@pytest.mark.parametrize("rate", RATES, ids=["exact", "sampled"])
def test_limited_addresses(compiled, record, rate, by):
    """The limit leaves 30 MiB to heft beside what the program needs: half of heft's session file."""
    program = compiled("little_memory.c")
    plain = numbers(run([program, "limited"], env=ENV).stdout)
    limit = plain["size"] + (30 << 10)
    limited = [program, "limits", limit] if by == "itself" else \
        ["bash", "-c", f"ulimit -v {limit}; exec {program} limited"]
    assert run(limited, env=ENV).returncode == 6
    done, rep = record(limited, env=ENV, opts=rate)
    assert done.returncode == 6, done.stderr
    assert numbers(done.stdout)["size"] - plain["size"] < MOST_KIB
    sites = rep.sites_calling("keep_block")
    if rate:
        assert sites and len(rep["processes"]) == 5
        return
    assert sum(s["allocations"] for s in sites) == ALL
    assert sum(p["totals"]["left_blocks"] for p in rep["processes"]) >= ALL * 3 // 4
    assert rep["complete"] and len(rep["processes"]) == 5


@pytest.mark.parametrize("rate", RATES, ids=["exact", "sampled"])
def test_locked_memory(compiled, record, rate):
    """What is mapped of heft becomes memory. Most of it is not mapped any more by then."""
    command = [compiled("little_memory.c"), "locked"]
    plain = run(command, env=ENV)
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if plain.returncode == 77 or (os.geteuid() and 0 <= limit < 64 << 20):
        pytest.skip("this user may lock only little memory")
    without = numbers(plain.stdout)
    done, rep = record(command, env=ENV, opts=rate)
    assert done.returncode == 6, done.stderr
    used = numbers(done.stdout)
    assert used["size"] - without["size"] < MOST_KIB and used["resident"] - without["resident"] < MOST_KIB, used
    assert len(rep["processes"]) == 5
    if not rate:
        assert sum(s["allocations"] for s in rep.sites_calling("keep_block")) == ALL


def test_more_stacks_than_fit(compiled, record):
    """200,000 KiB of addresses: 1/128 of that is 100,000 stack nodes, which hold about 100 of the 1,200 paths of
    1,000 frames. The other allocations are under an ancestor, and counted."""
    command = ["bash", "-c", f"ulimit -v 200000; exec {compiled('full_table.c')}"]
    done, rep = record(command)
    assert done.returncode == 0, done.stderr
    found = [re.search(r"(\d+) allocations have an incomplete stack", n["text"]) for n in rep["notes"]]
    count, = [int(m[1]) for m in found if m]
    assert 1085 <= count <= 1115
    assert rep["totals"]["allocations"] >= 1200
