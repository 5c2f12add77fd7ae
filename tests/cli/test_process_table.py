"""Processes in text, JSON and exported stacks, of a program whose processes are known
(tests/programs/family.c)."""

import json
import re

import pytest

import harness
from harness import compiled  # noqa: F401

CHILDREN = [1, 2, 3]
PEAK = {k: 2_001_000 * k for k in CHILDREN}  # what a child holds, and what it leaves


@pytest.fixture(scope="module")
def families(compiled, tmp_path_factory):
    """{name: recording} of few, many and sampled."""
    program = compiled("family.c")
    folder = tmp_path_factory.mktemp("families")
    calls = {"few": ["few"], "many": ["many", "30"], "sampled": ["many", "30"]}
    for name, arguments in calls.items():
        mode = ["--sample"] if name == "sampled" else []
        done = harness.run([harness.HEFT, "run", "-o", folder / f"{name}.heft", *mode, "--", program, *arguments])
        assert done.returncode == 0, done.stderr
        (folder / f"{name}.txt").write_bytes(done.stderr)
    return folder


@pytest.fixture
def report(heft, families):
    def call(name, *options):
        done = heft("report", *options, families / f"{name}.heft")
        assert done.status == 0, done
        return done.out
    return call


def table(text):
    """(title, rows) of the table of processes."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.endswith(" by peak"))
    end = next(i for i in range(start, len(lines)) if "--pid" in lines[i])
    return lines[start], lines[start + 2:end]


def test_few_processes_stand_one_by_one(report):
    data = json.loads(report("few", "--json"))
    pids = [p["pid"] for p in data["processes"]]
    title, rows = table(report("few"))
    assert title == "4 processes by peak"
    peaks = [re.split("  +", row.strip()) for row in rows]
    assert [row[0] for row in peaks] == ["5.7 MiB", "3.8 MiB", "1.9 MiB", "976.6 KiB"]
    assert [row[2] for row in peaks] == ["2.9 KiB", "2.0 KiB", "1000 B", "0 B"]
    assert [int(row[4]) for row in peaks] == [pids[3], pids[2], pids[1], pids[0]]
    assert all(row.endswith("family few") for row in rows)
    assert "  threads       4 in 4 processes\n" in report("few")


def test_left_at_exit_is_what_each_left(report, families):
    text = report("few")
    assert re.search(r"^  left at exit  5\.9 KiB in 3 blocks$", text, re.M), text
    assert "live at end" not in text
    summary = (families / "few.txt").read_text()
    assert "left at exit  5.9 KiB in 3 blocks" in summary and "live at end" not in summary
    data = json.loads(report("few", "--json"))
    assert data["totals"]["left_bytes"] == 6000 and data["totals"]["left_blocks"] == 3
    totals = [p["totals"] for p in data["processes"]]
    assert [t["left_bytes"] for t in totals] == [0, 1000, 2000, 3000]
    assert [t["peak_bytes"] for t in totals] == [1_000_000] + [PEAK[k] for k in CHILDREN]


def test_many_of_one_program_are_one_line(report):
    title, rows = table(report("many"))
    assert title == "2 programs in 31 processes by peak"
    assert rows[0].endswith("family many 30")
    assert rows[1].endswith("tiny x (30 processes)")
    assert re.sub(" +", " ", " ".join(rows[2:])).strip() == \
        "the largest of 30; together they allocated 2.9 KiB and left 2.9 KiB in 30 blocks"
    assert len(table(report("many", "-n", "1"))[1]) == 2  # one, and "... 1 more"
    assert " by peak\n" not in report("many", "-n", "0")
    assert len(json.loads(report("many", "--json"))["processes"]) == 31


def test_one_process_has_no_table(report):
    data = json.loads(report("few", "--json"))
    child = data["processes"][3]["pid"]
    text = report("few", "--pid", str(child))
    assert " by peak\n" not in text
    assert "  live at end   2.9 KiB in 1 block\n" in text
    assert "  threads       1 in 1 process\n" in text


def test_a_process_is_headed_by_its_own_command(report):
    data = json.loads(report("many", "--json"))
    first, child = data["processes"][0], data["processes"][-1]
    assert child["command"][1:] == ["x"] and child["pid"] != data["pid"]
    of_child = json.loads(report("many", "--json", "--pid", str(child["pid"])))
    assert of_child["command"] == child["command"] and of_child["pid"] == child["pid"]
    for view in [], ["--tree"], ["--threads"], ["--sizes"], ["--lifetimes"]:
        title = report("many", "--pid", str(child["pid"]), *view).splitlines()[0]
        assert re.match(r"(\S*/)?tiny x(:|$)", title), title
    of_first = report("many", "--pid", str(first["pid"])).splitlines()[0]
    assert of_first.endswith("family many 30")


def test_no_thread_is_counted_that_is_not_known(report, families):
    assert "  processes     31\n" in report("sampled")
    for text in report("sampled"), (families / "sampled.txt").read_text():
        assert "0 threads" not in text and "threads       0" not in text
    assert ", 31 processes\n" in (families / "sampled.txt").read_text()


def test_left_at_exit_is_no_instant(report, heft, families):
    """The children left 1,000, 2,000 and 3,000 bytes at ends of their own; when the last one ended,
    nothing was live but what it left."""
    text = report("few", "--at", "exit")
    assert re.search(r"^  moment +what each process had not freed when it ended$", text, re.M)
    assert "Top 1 of 1 site by bytes left at exit\n" in text and re.search(r"^\.\.\. \d+ more sites? with none$", text, re.M)
    tree = report("few", "--tree", "--at", "exit")
    assert re.search(r"^ +2\.9 KiB +50\.0 % +family few \(pid \d+\)$", tree, re.M), tree
    sites = json.loads(report("few", "--json"))["sites"]
    assert len([s for s in sites if s["left_bytes"]]) == 1 < len(sites)
    done = heft("export", "-q", "-f", "speedscope", "-o", "-", "--at", "exit", families / "few.heft")
    graph = json.loads(done.out)
    names = {p["name"]: p["endValue"] for p in graph["profiles"]}
    assert names["left at exit"] == 6000 and "live at the end" not in names
    assert graph["profiles"][graph["activeProfileIndex"]]["name"] == "left at exit"
    for at, left in ("exit", 6000), ("end", json.loads(report("few", "--json"))["totals"]["live_bytes"]):
        dhat = heft("export", "-q", "-f", "dhat", "-o", "-", "--at", at, families / "few.heft").out
        assert sum(p["eb"] for p in json.loads(dhat)["pps"]) == left
    assert left < 6000


@pytest.mark.parametrize("view", ["--threads", "--sizes", "--lifetimes"])
@pytest.mark.parametrize("at", ["exit", "peak", "50%"])
def test_views_of_all_that_happened_take_no_moment(heft, families, view, at):
    done = heft("report", view, "--at", at, families / "few.heft")
    assert done.status == 2 and done.out == ""
    assert f"{view} shows what happened over time, not a moment (--at)" in done.err


def roots(text):
    """{root: bytes} of folded stacks."""
    sums = {}
    for line in text.splitlines():
        stack, value = line.rsplit(" ", 1)
        root = stack.split(";")[0]
        sums[root] = sums.get(root, 0) + int(value)
    return sums


def test_processes_are_roots_of_stacks(heft, families, report):
    def folded(name, *options):
        done = heft("export", "-f", "folded", "-o", "-", *options, families / f"{name}.heft")
        assert done.status == 0, done
        return roots(done.out)
    pids = [p["pid"] for p in json.loads(report("few", "--json"))["processes"]]
    # The peak of all together: the third child beside the parent (the others have ended).
    assert folded("few") == {f"family few (pid {pids[0]})": 1_000_000, f"family few (pid {pids[3]})": PEAK[3]}
    made = folded("few", "-m", "allocated")
    assert made == {f"family few (pid {pids[0]})": 1_000_000,
                    **{f"family few (pid {pids[k]})": PEAK[k] for k in CHILDREN}}
    assert set(folded("few", "--processes", "none")) == {"_start"}
    assert set(folded("few", "--pid", str(pids[3]))) == {"_start"}
    made = folded("many", "-m", "allocated")
    assert made["tiny x (30 processes)"] == 3000 and len(made) == 2
    assert len([r for r in folded("many", "-m", "allocated", "--processes", "each") if r.startswith("tiny x (pid")]) == 30
    tree = report("few", "--tree")
    assert f"family few (pid {pids[3]})" in tree
    assert "(pid" not in report("few", "--tree", "--processes", "none")


def test_processes_is_for_trees(heft, families):
    done = heft("report", "--processes", "each", families / "few.heft")
    assert done.status == 2 and "--processes needs --tree or --invert" in done.err
    done = heft("export", "-f", "pprof", "-o", "x", "--processes", "each", families / "few.heft")
    assert done.status == 2 and "flamegraph, folded and speedscope" in done.err


def test_top_counts_processes(heft, families):
    assert "  4 processes" in heft("top", "--once", families / "few.heft").out.splitlines()[0]
