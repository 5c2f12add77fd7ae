"""Which function heads a site: wrappers around malloc are folded by what they do, functions that make
something of their own stay (tests/programs/wrapper_shapes.cc has every shape, and its comment says
which is which); callers tell sites apart whose headings would read the same."""

import collections
import csv
import io
import json
import os
import re
import subprocess

import pytest

import harness
from harness import compiled  # noqa: F401

# 10 users, 12 orders, 6 prices. Each makes a block by grab, grab_zeroed, get_row and shared_take, and
# asks the arena once. A chunk serves 7 of them, so calls 1, 8, 15 and 22 of 28 take a new one: two by
# the users (1 to 10), two by the orders (11 to 22).
EXPECTED = {"read_users": 10 * 4 + 2, "read_orders": 12 * 4 + 2, "read_prices": 6 * 4,
            "node_new": 28, "wheel": 28, "record_of": 28, "reclaim": 1}
WRAPPERS = {"grab", "grab_zeroed", "get_row", "Arena::alloc", "Arena::refill", "shared_take"}
OURS = set(EXPECTED) | WRAPPERS


@pytest.fixture(scope="session")
def program(compiled):
    return compiled("wrapper_shapes.cc"), compiled("wrapper_library.c", flags=["-shared", "-fPIC"],
                                                   output="libwrapped.so")


def record(program, path, *options):
    done = harness.run([harness.HEFT, "run", "-q", *options, "-o", path, "--", *program])
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="session")
def recording(program, tmp_path_factory):
    return record(program, tmp_path_factory.mktemp("wrappers") / "shapes.heft")


def rows(heft, path, **env):
    done = heft("export", "-f", "csv", "-o", "-", path, env=env)
    assert done.status == 0, done
    return list(csv.DictReader(io.StringIO(done.out)))


def by_function(heft, path, measure="allocations"):
    """Allocations by first user frame, of what the program itself asked for."""
    found = collections.Counter()
    for row in rows(heft, path):
        name = harness.bare(row["user_function"])
        if name in OURS:
            found[name] += int(row[measure])
    return dict(found)


def test_wrappers_are_folded_and_the_rest_stays(heft, recording):
    assert by_function(heft, recording) == EXPECTED


def test_sampled(heft, program, tmp_path):
    """Numbers are estimates and small blocks are often not seen: what is seen has the same names."""
    path = record((*program, "300"), tmp_path / "sampled.heft", "--sample=1k")
    found = by_function(heft, path)
    assert set(EXPECTED) - {"reclaim"} <= set(found) <= set(EXPECTED), found


def test_imported(heft, recording, tmp_path):
    """Another tool's file has the same stacks and numbers, so the same decision."""
    pprof = tmp_path / "shapes.pb.gz"
    assert heft("export", "-f", "pprof", "-o", pprof, recording).status == 0
    assert set(by_function(heft, pprof)) == set(EXPECTED)


def test_a_rule_keeps_a_wrapper(heft, recording, tmp_path):
    (tmp_path / "heft").mkdir()
    (tmp_path / "heft" / "frames").write_text("!function grab\n!module libwrapped.so\n")
    found = {harness.bare(row["user_function"])
             for row in rows(heft, recording, XDG_CONFIG_HOME=str(tmp_path))}
    assert "grab" in found and "shared_take" in found
    assert not {"grab_zeroed", "get_row", "Arena::alloc", "Arena::refill"} & found  # nobody keeps these


def test_findings_and_top_name_the_same(heft, recording):
    text = heft("top", "--once", "-n", "100", recording).out
    assert "read_orders" in text
    assert not re.search(r"(grab|grab_zeroed|get_row|Arena::alloc|shared_take)\S* (<-|\u2190)", text)


def test_json_says_which_frame_it_is(heft, recording):
    found = collections.Counter()
    for site in json.loads(heft("report", "--json", recording).out)["sites"]:
        found[harness.bare(site["stack"][site["first_user"]]["function"])] += site["allocations"]
    assert {name: n for name, n in found.items() if name in OURS} == EXPECTED


def starts_of(path):
    """{address: name} of the program's functions."""
    lines = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    return {int(parts[0], 16): harness.bare(parts[2]) for parts in
            (line.split(None, 2) for line in lines.splitlines()) if len(parts) == 3 and parts[1] in "tTwW"}


def test_without_symbols_functions_are_known_by_their_start(heft, program, tmp_path):
    stripped = tmp_path / "shapes"
    subprocess.run(["strip", "-o", stripped, program[0]], check=True)
    path = record((stripped, program[1]), tmp_path / "stripped.heft")
    starts = starts_of(program[0])
    found = collections.Counter()
    for row in rows(heft, path):
        name, plus, offset = row["user_function"].partition("+0x")
        if name == "shapes":
            assert int(offset, 16) in starts, row["user_function"]
            found[starts[int(offset, 16)]] += int(row["allocations"])
            addresses = re.findall(r"shapes\+0x([0-9a-f]+)", row["stack"])
            assert addresses and all(int(a, 16) in starts for a in addresses), row["stack"]
    # Two callers of one function meet: 28 blocks of one line, whoever called.
    assert found["node_new"] == 28 and found["wheel"] == 28
    assert not {"grab", "grab_zeroed"} & set(found), found


def headings(text):
    """(function, callers) of the first line of every site."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Top "))
    at = lines[start + 1].index("site")  # the column
    return [line[at:].rsplit(" [", 1)[0] for line in lines[start + 2:]
            if line[:at].strip() and not line.startswith(("...", "Next"))]


def test_headings_that_repeat_have_callers(heft, recording):
    shown = headings(heft("report", "-n", "100", recording, env={"COLUMNS": "200"}).out)
    nodes = [line for line in shown if line.startswith("node_new")]
    # By the users, by the orders, and by the prices at six depths of a recursion.
    assert len(nodes) == 8
    assert sum("< read_users" in line for line in nodes) == 1
    assert sum("< read_orders" in line for line in nodes) == 1
    assert sum("< read_prices" in line for line in nodes) == 6
    assert sorted(re.findall(r"read_prices x(\d)", " ".join(nodes))) == ["2", "3", "4", "5"]
    # main has no caller; what dlopen allocates for it stands on one line of it.
    repeated = [line for line, n in collections.Counter(shown).items() if n > 1]
    assert all(line.startswith("main ") for line in repeated), repeated
    # A heading that does not repeat has no caller.
    assert [line for line in shown if line.startswith("reclaim")][0].count("<") == 0


def test_python_functions_are_the_users(heft, compiled, tmp_path):
    """A perf map as Python writes it (-X perf): the function, and where it is."""
    program = compiled("jit_frame.c")
    path = tmp_path / "jit.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", program,
                        "py::Model.make:/home/me/model.py"])
    assert done.returncode == 0, done.stderr
    try:
        row = next(r for r in rows(heft, path) if r["allocated_bytes"] == "6363")
        assert (row["user_function"], row["user_file"]) == ("py::Model.make", "/home/me/model.py")
    finally:
        os.unlink(f"/tmp/perf-{int(done.stdout)}.map")


def test_short_callers_are_shown_too(heft, tmp_path):
    """" < a" takes four columns, and is all that tells the two apart."""
    (tmp_path / "x.c").write_text(
        "#include <stdlib.h>\nvoid *p;\n#define N __attribute__((noipa))\n"
        "N void mk(int n) { p = malloc(n); }\nN void a(void) { mk(10); mk(20); }\n"
        "N void b(void) { mk(3000); }\nint main(void) { a(); b(); return 0; }\n")
    harness.subprocess.run(["gcc", "-g", "-O1", "-o", tmp_path / "x", tmp_path / "x.c"], check=True)
    path = tmp_path / "x.heft"
    harness.run([harness.HEFT, "run", "-q", "-o", path, "--", tmp_path / "x"])
    shown = headings(heft("report", path, env={"COLUMNS": "140"}).out)
    assert sorted(line.split(" < ")[1] for line in shown) == ["a", "b"]
