"""How many processes and threads there were: one number, wherever heft says it. A process is a pid from
fork to end; an exec makes another program of it, not another process."""

import csv
import io
import re

import pytest

from harness import HEFT, check_sums, report, run
from view_server import Viewer

# Three processes: the shell, echo, and a subshell. The shell becomes env, env and true; echo is only
# echo; the subshell becomes env, sh, env and true.
SCRIPT = "/bin/echo a >/dev/null; (exec env A=1 sh -c 'exec env B=1 /bin/true'); exec env C=1 env D=1 /bin/true"
LAST = [["/bin/true"], ["/bin/echo", "a"], ["/bin/true"]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("counts") / "exec.heft"
    done = run([HEFT, "run", "-o", path, "--", "sh", "-c", SCRIPT])
    assert done.returncode == 0, done.stderr
    return path, done.stderr.decode()


def text(*arguments):
    done = run([HEFT, *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_text(recorded):
    path, summary = recorded
    assert ", 3 threads in 3 processes\n" in summary
    said = text("report", path)
    assert "  threads       3 in 3 processes\n" in said
    assert re.search(r"^\d+ programs in 3 processes by peak$", said, re.M)
    assert ": 3 threads in 3 processes\n" in text("report", "--threads", path)
    rows = re.findall(r"^  \S+ \d+ +[\d,]+ +[\d.]+ \w+ +[\d,]+$", text("report", "--threads", path), re.M)
    assert len(rows) == 3


def test_json(recorded):
    rep = report(recorded[0])
    check_sums(rep)
    assert [p["command"] for p in rep["processes"]] == LAST
    assert len({p["pid"] for p in rep["processes"]}) == 3
    assert [p["end"] for p in rep["processes"]] == ["exit"] * 3
    assert rep["totals"]["threads"] == len(rep["threads"]) == 3
    assert [p["totals"]["threads"] for p in rep["processes"]] == [1, 1, 1]
    assert {(t["pid"], t["tid"]) for t in rep["threads"]} == {(p["pid"], p["pid"]) for p in rep["processes"]}
    shell, subshell = rep["processes"][0], rep["processes"][2]
    programs = [[i["name"] for i in p["images"]] for p in (shell, subshell)]
    assert programs == [["sh", "env", "env", "true"], ["sh", "env", "sh", "env", "true"]]
    assert [i["end"] for i in shell["images"]] == ["exec"] * 3 + ["exit"]
    for p in shell, subshell:
        assert p["totals"]["peak_bytes"] == max(i["totals"]["peak_bytes"] for i in p["images"])
        assert p["totals"]["left_bytes"] == sum(i["totals"]["left_bytes"] for i in p["images"])
        assert (p["start_ns"], p["end_ns"]) == (p["images"][0]["start_ns"], p["images"][-1]["end_ns"])
    assert "images" not in rep["processes"][1]


def test_one_of_them(recorded):
    for p in report(recorded[0])["processes"]:
        alone = report(recorded[0], "--pid", str(p["pid"]))
        assert len(alone["processes"]) == alone["totals"]["threads"] == 1
        assert "  threads       1 in 1 process\n" in text("report", "--pid", str(p["pid"]), recorded[0])


def test_check(recorded, tmp_path):
    budget = tmp_path / "budget"
    budget.write_text("threads == 3\n")
    text("check", "--budget", budget, recorded[0])
    budget.write_text("live_bytes <= 1G\n")
    refused = run([HEFT, "check", "--budget", budget, recorded[0]])
    assert refused.returncode == 1 and b" 3 processes were recorded" in refused.stderr


def test_top_and_view(recorded):
    frame = text("top", "--once", recorded[0])
    assert re.search(r"  3 processes\b", frame) and re.search(r"  threads 3\b", frame)
    with Viewer(recorded[0]) as v:
        summary = v.document("summary")
    assert summary["processCount"] == summary["totals"]["threads"] == len(summary["threads"]) == 3
    assert summary["threadWords"] == "3 threads in 3 processes"


def test_csv(recorded):
    rows = list(csv.DictReader(io.StringIO(text("export", "-f", "csv", "-o", "-", recorded[0]))))
    rep = report(recorded[0])
    assert sum(int(r["allocations"]) for r in rows) == \
        sum(p["totals"]["allocations"] for p in rep["processes"]) == \
        sum(t["allocations"] for t in rep["threads"]) == rep["totals"]["allocations"]
