"""Programs that go into a sandbox: a filter that kills for every system call that the program does not make itself,
strict seccomp, no time stamp counter. None dies because of heft, and what needs no system call is recorded still
(tests/programs/locked_in.c)."""

import ctypes.util
import re

import pytest

from harness import names, run

FIRST = [(10, 7), (10, 7)]  # allocations and live blocks before the sandbox, of the two calls of work(10)
RATES = [[], ["--sample=1k"]]


@pytest.fixture
def program(compiled):
    return compiled("locked_in.c")


def kept(rep):
    return sorted((s["allocations"], s["live_blocks"]) for s in rep["sites"] if "keep_block" in names(s))


def texts(rep):
    return "\n".join(n["text"] for n in rep["notes"])


def check_plain(command, env=None):
    plain = run(command, env=env)
    if plain.returncode in (90, 91) and b"no new privileges" in plain.stderr:
        pytest.skip("this machine has no seccomp")
    assert plain.returncode == 5, plain


@pytest.mark.parametrize("mask", ["1", None], ids=["without_mask", "with_mask"])
@pytest.mark.parametrize("way", ["prctl", "seccomp", "libseccomp"])
def test_everything_is_recorded_in_a_filter(record, program, way, mask):
    """100,000 blocks are more than any memory that heft has asked for before."""
    if way == "libseccomp" and not ctypes.util.find_library("seccomp"):
        pytest.skip("libseccomp is not installed")
    command, env = [program, way, "work", "100000"], {"WITHOUT_MASK": mask}
    check_plain(command, env)
    done, rep = record(command, env=env)
    assert done.returncode == 5, done.stderr
    assert kept(rep) == [*FIRST, (100000, 75000)]
    assert rep["complete"] and not texts(rep).count("missing")
    sampled, _ = record(command, env=env, opts=["--sample=1k"])
    assert sampled.returncode == 5, sampled.stderr


@pytest.mark.parametrize("way", ["prctl", "libseccomp"])
@pytest.mark.parametrize("rate", RATES, ids=["exact", "sampled"])
@pytest.mark.parametrize("then", [["recurse"], ["thread", "fork"], ["exec"], ["fork", "exec", "thread", "work", "50"]])
def test_a_program_in_a_filter_lives_on(record, program, then, rate, way):
    if way == "libseccomp" and not ctypes.util.find_library("seccomp"):
        pytest.skip("libseccomp is not installed")
    command = [program, way, *then]
    check_plain(command)
    done, rep = record(command, opts=rate)
    assert done.returncode == 5, done.stderr
    if rate:
        return
    assert kept(rep)[:2] == FIRST
    if "recurse" in then:
        deep = [s for s in rep["sites"] if "recurse" in names(s)]
        assert [(s["allocations"], s["live_blocks"]) for s in deep] == [(10, 7)]
    if "thread" in then:
        assert re.search(r"process \d+ went into a sandbox that does not allow what heft needs for new threads", texts(rep))
    if "fork" in then:
        assert "1 forked children" in texts(rep)
    if "work" in then:
        assert kept(rep) == [*FIRST, (50, 37)]


@pytest.mark.parametrize("rate", RATES, ids=["exact", "sampled"])
@pytest.mark.parametrize("command", [["strict", "work", "100"], ["tsc", "work", "100", "thread", "fork"]])
def test_without_time_stamps_heft_steps_aside(record, program, command, rate):
    check_plain([program, *command])
    done, rep = record([program, *command], opts=rate)
    assert done.returncode == 5, done.stderr
    assert "sandbox without time stamps" in texts(rep)
    if not rate:
        assert kept(rep) == FIRST


def test_a_sandbox_of_a_vfork_child_is_its_own(record, program):
    """It shares its parent's memory, but not its filter."""
    command = [program, "prctl", "vfork", "thread", "work", "100"]
    check_plain(command)
    done, rep = record(command)
    assert done.returncode == 5, done.stderr
    assert kept(rep) == [*FIRST, (10, 7), (100, 75)]
    assert not texts(rep).count("missing")



@pytest.mark.parametrize("rate", RATES, ids=["exact", "sampled"])
@pytest.mark.parametrize("then", [["work", "100000"], ["recurse"], ["thread", "fork", "exec"]])
def test_a_filter_in_which_calls_fail(record, program, then, rate):
    command, env = [program, "seccomp", *then], {"MAY_FAIL": "1"}
    check_plain(command, env)
    done, rep = record(command, env=env, opts=rate)
    assert done.returncode == 5, done.stderr
    if not rate:
        assert kept(rep)[:2] == FIRST
        if then[0] == "work":
            assert kept(rep) == [*FIRST, (100000, 75000)]
