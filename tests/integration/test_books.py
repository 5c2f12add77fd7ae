"""What reports make of ledgers: books that do not close are a finding, and notes say who holds memory that malloc did not give
out. Programs whose books close, and programs whose memory is malloc's, have neither."""

import shutil

import pytest

from attach_harness import may_trace
from harness import BUILD, HEFT, allocator_library, plain_environment, report, run

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
MIB = 1 << 20
PYTHON = "/usr/bin/python3"
OBJECTS = "import time; kept = [{'number': i} for i in range(300_000)]; time.sleep(1)"


@pytest.fixture
def whose(compiled):
    return compiled("whose_memory.c")


@pytest.fixture
def recorded(tmp_path, whose):
    def go(*command, options=("--ledger",), env=None, status=0):
        path = tmp_path / "books.heft"
        for _ in range(10):  # a program does not wait for its last ledger if heft hardly gets a processor
            done = run([HEFT, "run", *options, "-q", "--force", "-o", path, "--", *command], env=env)
            assert done.returncode == status, done.stderr
            rep = report(path)
            if command[0] != whose or any(one["moment"] == "exit" for one in rep["ledgers"]):
                break
        return rep
    return go


def open_books(rep):
    return [f for f in rep["findings"] if f["kind"] == "books-do-not-close"]


def holders(rep, about="resident-memory"):
    return [n for n in rep["notes"] if n.get("about") == about]


# ---- books that do not close

def test_blocks_that_no_hook_sees(recorded, whose):
    rep = recorded(whose, "handle", "3000")
    (f,) = open_books(rep)
    e = f["evidence"]
    # A block of 1,000 bytes can use 1,000: its chunk has 1,008.
    assert e["missed_blocks"] == 3000 and e["missed_bytes"] == f["bytes"] == 3000 * 1000
    # Beside them: the table of pointers, and a block of 1 MiB with a mapping of its own.
    assert 3000 * 1000 + MIB < e["heap_in_use_bytes"] < 3000 * 1000 + MIB + 100_000
    assert e["moment"] == "exit" and e["unexplained_bytes"] == 0
    assert abs(e["share"] - 3000000 / e["heap_in_use_bytes"]) < 1e-3
    assert f["severity"] == "high" and "--via=entry" in f["advice"]
    assert "3,000 blocks that heft did not see being allocated" in f["summary"]


def test_hooks_at_entries_see_them(recorded, whose):
    """What the advice says helps."""
    rep = recorded(whose, "handle", "3000", options=("--ledger", "--via=entry"))
    assert open_books(rep) == [] and rep["totals"]["allocated_bytes"] > 3000 * 1000


def test_few_of_them_are_no_finding(recorded, whose):
    assert open_books(recorded(whose, "handle", "200")) == []


def test_books_close(recorded, whose):
    assert open_books(recorded(whose, "malloc")) == []
    assert open_books(recorded(whose, "part")) == []
    assert open_books(recorded(whose, "freed", options=("--ledger-every=100ms",))) == []


@pytest.mark.parametrize("name", ["libjemalloc.so.2", "libmimalloc.so"])
def test_books_of_other_allocators_close(recorded, whose, name):
    env = plain_environment({"LD_PRELOAD": allocator_library(name)})
    for way in ("malloc", "map"):
        rep = recorded(whose, way, env=env)
        assert open_books(rep) == [] and holders(rep) == [], way


def test_children_have_their_parents_blocks(recorded, compiled):
    """A forked child has blocks that its parent made: they are no gap."""
    rep = recorded(compiled("exit_ways.c", flags=["-pthread"]), "fork", status=3)
    assert len({p["pid"] for p in rep["processes"]}) >= 4 and open_books(rep) == []


ORDINARY = {
    "python3": [PYTHON, "-c", OBJECTS],
    "perl": ["perl", "-e", "my @a = (1 .. 100000); my %h = map { $_ => 1 } @a;"],
    "bash": ["bash", "-c", "for i in {1..20000}; do a[$i]=$i; done; echo ${#a[@]}"],
    "git": ["git", "-C", BUILD.parent, "status"],
    "gcc": ["gcc", "-O2", "-xc", "-c", "-o", "/dev/null", BUILD.parent / "tests" / "programs" / "memory_kinds.c"],
    "sqlite3": ["sqlite3", ":memory:", "create table t(a, b); with recursive c(i) as (select 1 union all select i + 1 from c "
                "where i < 30000) insert into t select i, hex(i) from c; create index x on t(b); select count(*) from t;"],
    "node": ["node", "-e", "const a = []; for (let i = 0; i < 100000; i++) a.push({x: i})"],
    "java": ["java", "-version"],
    "threads": [BUILD / "examples" / "queue"],
    "connections": [BUILD / "examples" / "connections", "A"],
}


@pytest.mark.parametrize("name", ORDINARY)
def test_books_of_ordinary_programs_close(recorded, name):
    if not shutil.which(ORDINARY[name][0]):
        pytest.skip(f"{name.capitalize()} is not installed")
    rep = recorded(*ORDINARY[name], status=128 if name == "git" and not (BUILD.parent / ".git").exists() else 0)
    assert open_books(rep) == [], open_books(rep)


# ---- who holds it

def test_memory_that_the_program_has_mapped(recorded, whose):
    (note,) = holders(recorded(whose, "map"))
    e = note["evidence"]
    assert 24 * MIB <= e["other_bytes"] < 26 * MIB and MIB <= e["heap_bytes"] < 2 * MIB
    assert e["other_bytes"] / e["rss_bytes"] > 0.5 and len(e["holders"]) == 1
    assert note["text"].startswith("most of the resident memory is not malloc's: ") and e["holders"][0] in note["text"]
    assert "--sort mapped" in note["advice"]


def test_memory_of_malloc(recorded, whose, compiled):
    """24 of 64 MiB are mapped, and 40 malloc's."""
    assert holders(recorded(whose, "part")) == []
    assert holders(recorded(BUILD / "examples" / "connections", "B")) == []
    assert holders(recorded("perl", "-e", "my @a = (1 .. 300000); my %h = map { $_ => 1 } @a;")) == []


def test_objects_of_python(recorded):
    """The note about the runtime has the figures, from a ledger while the objects are made, or after that."""
    for _ in range(4):
        rep = recorded(PYTHON, "-c", OBJECTS, options=("--ledger-every=200ms",))
        (note,) = holders(rep, "runtime")
        e = note["evidence"]
        if "holders" in e:  # else the machine was too busy for a ledger
            break
    assert e["runtime"] == "Python" and "PYTHONMALLOC=malloc" in note["advice"]
    assert e["holders"][0].endswith("Python's objects (pymalloc's arenas)") and e["holders"][0] in note["text"]
    assert e["other_bytes"] > 8 * MIB and e["other_bytes"] > 2 * e["heap_bytes"]
    assert holders(rep) == []  # it is said once
