"""Programs that write over what they share with heft, and programs that heft cannot see
into. The recorder outlives the former and names the latter."""

import os
import re

import pytest

from harness import HEFT, TIME_LIMIT, report, run, start

KINDS = ["zeros", "ones", "random", "small", "flips", "racing"]


def good(blocks):
    """good_work(n): n blocks of 40 bytes, each fourth freed at once."""
    return {"allocations": blocks, "frees": blocks // 4, "allocated_bytes": 40 * blocks,
            "live_blocks": blocks - blocks // 4}


def numbers(process):
    return {k: process["totals"][k] for k in good(4)}


@pytest.mark.parametrize("seed", ["1", "2", "3"])
@pytest.mark.parametrize("kind", KINDS)
def test_wild_stores_of_a_child(compiled, record, kind, seed):
    """The writer loses its own recording at worst; parent and sibling are exact."""
    done, rep = record([compiled("wild_store.c"), "child", kind, seed])
    assert done.returncode == 5, done.stderr
    assert done.stdout == b"writer exit 7\nsibling exit 4\n"
    processes = {p["pid"]: p for p in rep["processes"]}
    parent = processes[rep["pid"]]
    assert numbers(parent) == good(600)
    assert good(1000) in [numbers(p) for p in rep["processes"] if p["ppid"] == rep["pid"]]
    verify = run([HEFT, "verify", rep.path])
    assert verify.returncode == 0, verify.stderr


@pytest.mark.parametrize("seed", ["4", "5"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [[], ["--sample=1k"]], ids=["exact", "sampled"])
def test_wild_stores_of_the_command(compiled, record, rate, kind, seed):
    done, rep = record([compiled("wild_store.c"), "self", kind, seed], opts=rate)
    assert done.returncode == 7, (done.returncode, done.stderr)
    assert rep["exit_status"] == 7
    assert run([HEFT, "verify", rep.path]).returncode == 0


def test_program_with_its_own_malloc(compiled, tmp_path):
    program, path = compiled("own_malloc.c"), tmp_path / "own.heft"
    plain = run([program])
    assert (plain.returncode, plain.stdout) == (12, b"used 52800\n")
    done = run([HEFT, "run", "-o", path, "--", program])
    assert (done.returncode, done.stdout) == (12, plain.stdout)
    assert b"own_malloc defines malloc itself" in done.stderr, done.stderr
    text = run([HEFT, "report", path])
    assert text.returncode == 0
    assert b"own_malloc defines malloc itself" in text.stdout, text.stdout
    assert any("own_malloc defines malloc itself" in n["text"] for n in report(path)["notes"])


def test_own_malloc_is_named_in_a_child_too(compiled, tmp_path):
    program, path = compiled("own_malloc.c"), tmp_path / "own.heft"
    done = run([HEFT, "run", "-o", path, "--", "bash", "-c", f"{program}; exit 3"])
    assert done.returncode == 3
    assert b"own_malloc" in done.stderr and b"malloc" in done.stderr.replace(b"own_malloc", b"")


def test_session_leaves_nothing_behind(compiled, tmp_path):
    """No session directory and no shared file is left after a run. Other tests may run at the same time: what they
    have made carries a word after heft-, and the pid of their heft if it is a session."""
    def is_others(name, own):
        made = re.match(r"heft-(?:run-(\d+)|([a-z]+))-", name)
        return name.endswith(".heft") or "pytest" in name or made and made.group(1) not in own

    def places(own=()):
        roots = ["/run/heft", "/dev/shm", "/run", "/tmp", os.environ.get("XDG_RUNTIME_DIR") or ""]
        found = set()
        for root in roots:
            if os.path.isdir(root):
                found |= {os.path.join(root, n) for n in os.listdir(root) if "heft" in n}
        if os.path.isdir("/run/heft"):
            found |= {os.path.join("/run/heft", n) for n in os.listdir("/run/heft")}
        return {p for p in found if not is_others(os.path.basename(p), own)}
    before, pids = places(), []
    for i, command in enumerate(([compiled("each_function.c"), "malloc"], ["bash", "-c", "/bin/true; /bin/true"])):
        heft = start([HEFT, "run", "-q", "-o", tmp_path / f"{i}.heft", "--", *command])
        pids.append(str(heft.pid))
        heft.communicate(timeout=TIME_LIMIT)
        assert heft.returncode == 0
    assert places(pids) - before - {"/run/heft"} == set()
