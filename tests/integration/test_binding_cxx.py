"""include/heft.hpp: without heft, with a library in heft's place that writes down each call, and with heft."""

import re
import subprocess

import pytest

from harness import COUNTING, HEFT, REPOSITORY, bare, example, line_of, run


@pytest.fixture
def program(compiled):
    return compiled("binding_calls.cc", flags=["-I", REPOSITORY / "include"])


def lines(words):
    return words.decode().splitlines()


def test_without_heft(program):
    done = run([program])
    assert done.returncode == 0 and done.stderr == b""
    assert lines(done.stdout) == ["running 0", "stats -", "stats -", "change -", "end -", "end -", *["expected -1"] * 4,
                                  "equal 1 0", "upstream 1"]


def test_each_call(program, heft_stand_in):
    done = run([program], env={"LD_PRELOAD": str(heft_stand_in)})
    numbers = "1 2 3 4 5 -6 -7 8"
    le, eq = (line_of("binding_calls.cc", marker) for marker in ("le", "eq"))
    assert lines(done.stdout) == [
        "running 3", f"stats {numbers}", f"stats {numbers}", f"change {numbers}", f"end {numbers}", "end -",
        "expected 1", f"binding_calls.cc:{le}: peak_bytes of region 2 is 8, expected at most 7", "expected 0",
        "expected 1", f"binding_calls.cc:{eq}: live_blocks of region 2 is -7, expected 0", "expected 0",
        "equal 1 0", "upstream 1"]
    assert lines(done.stderr) == [
        "stats_get 0", "stats_get 1", "begin 0 0 -", "begin 1 1 part", "change 1", "end 1", "end 0", "begin 2 0 judged",
        "end 2", "mark here", "mark_block block sent", "event retry 5",
        "pool 0 create words", "pool 1 create others", "pool 0 alloc 1 30", "pool 0 free 1",
        # a string of 39 characters and its end
        "pool 0 alloc 1 40", "pool 1 alloc 1 40", "pool 1 free 1", "pool 0 free 1",
        "pool 0 destroy", "pool 0 create words", "pool 1 destroy", "pool 0 destroy"]


def test_a_region_that_cannot_begin(program, heft_stand_in):
    """ENOMEM: it is not ended, and has no numbers."""
    done = run([program], env={"LD_PRELOAD": str(heft_stand_in), "STAND_IN_ERRNO": "12"})
    assert done.returncode == 0
    assert lines(done.stdout)[1:6] == ["stats -", "stats -", "change -", "end -", "end -"]
    assert not re.search(rb"^end ", done.stderr, re.M)


def test_pools(program, record):
    """Objects by their pools, and the program's own lines: 30 bytes that are given back, then a string of 40. release() makes
    a second pool of one."""
    _, rep = record([program])
    pools = {pool["name"]: pool for pool in rep["pools"]}
    columns = "pools", "destroyed", "objects", "bytes", "given_back", "left_objects", "peak_objects", "peak_bytes"
    assert [pools["words"][column] for column in columns] == [2, 2, 2, 70, 2, 0, 1, 40]
    assert [pools["others"][column] for column in columns] == [1, 1, 1, 40, 1, 0, 1, 40]
    assert len(pools) == 2
    assert {bare(site["function"]) for pool in rep["pools"] for site in pool["sites"]} == {"use_pools"}
    assert [mark["name"] for mark in rep["marks"]] == ["here"]


def test_the_example_of_the_page(tmp_path):
    """1,000 ints in one block. A limit of 0 allocations ends it, and says so."""
    source = example("bindings.md", "cpp", "main()")
    for name, text in (("holds", source), ("fails", source.replace("allocations, 1)", "allocations, 0)"))):
        (tmp_path / f"{name}.cc").write_text(text)
        subprocess.run(["g++", "-std=c++17", "-g", "-I", REPOSITORY / "include", "-o", tmp_path / name,
                        tmp_path / f"{name}.cc"], check=True)
    assert run([tmp_path / "holds"]).stdout == b""
    done = run([tmp_path / "holds"], env=COUNTING)
    assert (done.returncode, done.stdout) == (0, b"4000 bytes are live\n"), done.stderr
    done = run([tmp_path / "fails"], env=COUNTING)
    line = source[:source.index("HEFT_EXPECT_LE")].count("\n") + 1
    assert done.returncode == -6  # SIGABRT
    assert re.search(rf"fails\.cc:{line}: region filling: allocations is 1, expected at most 0$", done.stderr.decode(), re.M), \
        done.stderr
    done = run([HEFT, "run", "-q", "-o", tmp_path / "x.heft", "--", tmp_path / "fails"])
    line = source[:source.index("list.reserve")].count("\n") + 1
    assert done.returncode == 128 + 6
    assert re.search(rf"^ +1  main at \S*fails\.cc:{line}\b", done.stderr.decode(), re.M), done.stderr
