"""heft.h and heft run --count where much happens at once, or at a bad moment (tests/programs/asks_in_crowds.c)."""

import json

import pytest

from harness import HEFT, REPOSITORY, run


@pytest.fixture(scope="module")
def program(compiled):
    return compiled("asks_in_crowds.c", flags=[f"-I{REPOSITORY}/include", "-pthread"])


def counted(folder, *command):
    out = folder / "counts.json"
    done = run([HEFT, "run", "--count", "-o", out, "--force", "--", *command])
    return done, json.loads(out.read_text())["processes"]


def test_each_thread_has_numbers_of_its_own(program):
    """A thousand threads begin at once; two of them must not count in one place."""
    for _ in range(5):
        done = run([HEFT, "run", "-q", "--count", "--", program, "crowd"])
        assert done.stdout == b"wrong 0\n", done


def test_counting_begins_for_all_threads(program, tmp_path):
    """A library that is loaded later has no note that heft could see at the start."""
    run(["objcopy", "--remove-section=.note.heft", program, tmp_path / "late_caller"])
    for _ in range(30):
        done = run([HEFT, "run", "-q", "--force", "--no-ledger", "-o", tmp_path / "r.heft", "--",
                    tmp_path / "late_caller", "first"])
        assert done.stdout == b"wrong 0\n", done


@pytest.mark.parametrize("how, status", [("killed", 137), ("leaves", 5)])
def test_sums_of_a_killed_process(program, tmp_path, how, status):
    """It says nothing when it ends: what it wrote before is nearly all."""
    done, (process,) = counted(tmp_path, program, how)
    assert done.returncode == status
    assert process["cut"] and 50000 < process["totals"]["allocations"] <= 100000
    assert b"its last calls are missing" in done.stderr


LATE = """
import os, re, time
folder = os.environ["HEFT_SESSION"]
maps = open("/proc/self/maps").read()
with open(re.search(re.escape(folder) + r"/[0-9a-f]+[.][0-9a-f]+", maps)[0], "rb") as own:
    head, size = own.read(1 << 20), os.fstat(own.fileno()).st_size
with open(folder + "/3fffff.1", "wb") as late:
    time.sleep(0.3)
    os.truncate(late.name, size)
    late.write(head)
"""


def test_a_file_that_is_long_about_being_made(tmp_path):
    """When it is ready, nothing has changed in its folder for a while."""
    done, processes = counted(tmp_path, "/usr/bin/python3", "-c", LATE)
    assert done.returncode == 0, done.stderr
    assert 0x3fffff in [p["pid"] for p in processes]


def test_an_answer_goes_to_its_own_question(program, tmp_path):
    """The program no longer waits for the call sites when they are there: they are not the copy that it wants now."""
    for _ in range(5):  # heft may answer before it can be stopped
        copy = tmp_path / "copy.heft"
        done = run([HEFT, "run", "-q", "--force", "--no-ledger", "-o", tmp_path / "r.heft", "--", program, "gives_up",
                    copy])
        assert done.returncode == 0, done
        if copy.exists():
            assert copy.read_bytes()[:5] == b"\x89HEFT"
            copy.unlink()
        if b"given up" in done.stdout and b"dump 0" in done.stdout:
            break
