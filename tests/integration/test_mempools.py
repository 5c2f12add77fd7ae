"""Valgrind's client requests as pools: heft run --mempools. tests/programs/valgrind_pools.c says what its modes do."""

import pytest

from harness import HEFT, REPOSITORY, report, run

OPTS = ["--mempools"]
BLOCKS = "malloc-like blocks"


@pytest.fixture(scope="module")
def program(compiled):
    return compiled("valgrind_pools.c")


@pytest.fixture
def pools(program, record):
    """pools(mode...) -> {name: pool} of its recording."""
    def make(*mode, opts=OPTS, **others):
        done, rep = record([program, *mode], opts=opts, **others)
        assert done.returncode == 0, (done.returncode, done.stderr)
        return {p["name"]: p for p in rep.get("pools", [])}
    return make


def numbers(pool):
    return {k: pool[k] for k in ("pools", "destroyed", "objects", "bytes", "given_back", "unknown_frees", "left_objects",
                                 "left_bytes")}


ARENA = {"pools": 2, "destroyed": 1, "objects": 147, "bytes": 100 * 48 + 40 * 16 + 7 * 100, "given_back": 40, "unknown_frees": 0,
         "left_objects": 100, "left_bytes": 4800}


def lines_of_requests(*functions):
    """The line of the only request in each of these functions."""
    lines = (REPOSITORY / "tests" / "programs" / "valgrind_pools.c").read_text().splitlines()
    found = []
    for name in functions:
        start = next(i for i, line in enumerate(lines) if line.startswith("__attribute__") and f"{name}(" in line)
        found.append(next(i for i in range(start, len(lines)) if "REQUEST(" in lines[i]) + 1)
    return found


def test_objects_by_call_stack(pools):
    found = pools("arena")
    assert list(found) == ["mempool"] and numbers(found["mempool"]) == ARENA
    kept, returned, destroyed = lines_of_requests("take_kept", "take_returned", "take_destroyed")
    assert {s["function"]: (s["caller"], s["line"], s["objects"], s["left_objects"], s["given_back"])
            for s in found["mempool"]["sites"]} == {
        "take_kept": ("arena", kept, 100, 100, 0), "take_returned": ("arena", returned, 40, 0, 40),
        "take_destroyed": ("arena", destroyed, 7, 0, 0)}


def test_whole_call_stacks(program, record):
    _, rep = record([program, "arena"], opts=OPTS)
    text = run([HEFT, "report", rep.path]).stdout.decode()
    assert [line.split(" < ")[1:] for line in text.splitlines() if " take_" in line] == [["arena", "main"]] * 3


def test_nothing_without_the_option(pools, program):
    assert pools("arena", opts=[]) == {}
    done = run([HEFT, "run", "-q", "-o", "/dev/null", "--force", "--", program, "bytes"])
    assert done.stdout == b"code native, data native\n"


def test_changed_objects_and_blocks_without_a_pool(pools):
    found = pools("changed")
    assert numbers(found["mempool"]) == {"pools": 1, "destroyed": 0, "objects": 10, "bytes": 5 * 10 + 5 * 25, "given_back": 5,
                                         "unknown_frees": 0, "left_objects": 5, "left_bytes": 125}
    assert numbers(found[BLOCKS]) == {"pools": 1, "destroyed": 0, "objects": 4, "bytes": 3 * 32 + 64, "given_back": 2,
                                      "unknown_frees": 0, "left_objects": 2, "left_bytes": 32 + 64}


def test_registers_flags_and_the_red_zone_survive(pools):
    """The program checks them after each of 12,000 requests in four threads."""
    pool = pools("registers")["mempool"]
    assert (pool["objects"], pool["bytes"], pool["left_objects"]) == (12000, 12000 * 24, 12000)
    objects = {s["function"]: (s["objects"], s["caller"]) for s in pool["sites"]}
    assert objects == {"leaf": (4000, "make_requests"), "vectors_through": (4000, "check_vectors"),
                       "check_general": (4000, "make_requests")}


def test_signals_that_interrupt_requests(pools):
    assert pools("storm")["mempool"]["objects"] == 120000


def test_nothing_is_changed_while_there_are_threads(compiled, tmp_path):
    """A library that the program needs has started one before heft looks."""
    library = compiled("early_thread.c", output="libearly_thread.so", flags=["-shared", "-fPIC"])
    program = compiled("valgrind_pools.c", output="with_early_thread",
                       flags=["-Wl,--no-as-needed", library, f"-Wl,-rpath,{library.parent}"])
    done = run([HEFT, "run", "-q", "--mempools", "-o", tmp_path / "r.heft", "--", program, "bytes"])
    assert (done.returncode, done.stdout) == (0, b"code native, data native\n")


def test_a_library_that_is_loaded_later(pools, compiled):
    library = compiled("valgrind_pools.c", output="mempools.so", flags=["-shared", "-fPIC"])
    pool = pools("library", library)["mempool"]
    assert (pool["pools"], pool["destroyed"], pool["objects"], pool["given_back"], pool["left_objects"]) == (2, 2, 22, 22, 0)
    assert [(s["function"], s["caller"]) for s in pool["sites"]] == [("library_takes", "use_library")]


def test_a_forked_child(pools):
    assert numbers(pools("forked")["mempool"]) == ARENA


def test_an_executed_program_without_the_environment(pools):
    assert numbers(pools("again", "arena")["mempool"]) == ARENA


def test_only_code_is_changed(program, tmp_path):
    done = run([HEFT, "run", "-q", "--mempools", "-o", tmp_path / "r.heft", "--", program, "bytes"])
    assert done.stdout == b"code changed, data native\n"


def test_where_nothing_may_become_executable(program, tmp_path):
    if run([program, "refused"]).returncode:
        pytest.skip("this kernel has no PR_SET_MDWE")
    done = run([HEFT, "run", "-q", "--mempools", "-o", tmp_path / "r.heft", "--", program, "refused"])
    assert (done.returncode, done.stdout) == (0, b"code native, data native\n")


def test_a_program_without_requests(record):
    done, rep = record(["/bin/echo", "said"], opts=OPTS)
    assert (done.returncode, done.stdout) == (0, b"said\n") and "pools" not in rep


@pytest.mark.parametrize("options, words", [
    (["--sample"], "--mempools does not go with --sample"),
    (["--count"], "--mempools does not go with --sample or --count"),
    (["--via=entry"], "--mempools needs heft's library"),
    (["--alloc-fn=take:malloc"], "--mempools needs heft's library"),
])
def test_refused_together(options, words, tmp_path):
    done = run([HEFT, "run", "--mempools", *options, "-o", tmp_path / "r.heft", "--", "/bin/true"])
    assert done.returncode == 125 and words in done.stderr.decode()
