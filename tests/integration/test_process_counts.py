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
        for column in ("peak_bytes", "peak_blocks", "peak_slack_bytes", "live_bytes", "live_blocks",
                       "live_slack_bytes", "left_bytes", "left_blocks", "allocations"):
            assert p["totals"][column] == alone["totals"][column], column
        assert len(alone["processes"]) == alone["totals"]["threads"] == 1
        assert "  threads       1 in 1 process\n" in text("report", "--pid", str(p["pid"]), recorded[0])


def test_sampled(tmp_path):
    """Small programs leave no sample that names a thread: they have one all the same."""
    path = tmp_path / "sampled.heft"
    large = "import os; held = [bytearray(300000) for _ in range(60)]; os._exit(0)"
    done = run([HEFT, "run", "--sample=1M", "-o", path, "--", "sh", "-c",
                f"/usr/bin/python3 -Ic '{large}'; /bin/echo a >/dev/null"])
    assert done.returncode == 0 and b", 3 threads in 3 processes\n" in done.stderr, done.stderr


@pytest.fixture(scope="module")
def sleeps(tmp_path_factory):
    """It sleeps for so long that a busy machine, on which programs start late, moves no end across the shares below."""
    path = tmp_path_factory.mktemp("windows") / "sleeps.heft"
    assert run([HEFT, "run", "-q", "-o", path, "--", "sh", "-c",
                "sleep 2; /bin/echo a >/dev/null; exec sleep 2"]).returncode == 0
    return path


@pytest.mark.parametrize("options, commands", [
    ([], ["sleep", "sleep", "/bin/echo"]),
    (["--to", "30%"], ["sh", "sleep"]), (["--from", "10%", "--to", "30%"], ["sh", "sleep"]),
    (["--from", "70%"], ["sleep"]), (["--at", "30%"], ["sh", "sleep"]),
    # what had ended by then has allocated up to then
    (["--at", "70%"], ["sleep", "sleep", "/bin/echo"])])
def test_processes_of_a_window(sleeps, options, commands):
    rep = report(sleeps, *options)
    assert [p["command"][0] for p in rep["processes"]] == commands
    assert rep["totals"]["threads"] == len(rep["threads"]) == len(commands)
    assert sum(p["totals"]["allocations"] for p in rep["processes"]) == rep["totals"]["allocations"]
    if "--at" not in options:
        several = "1 process" if len(commands) == 1 else f"{len(commands)} processes"
        assert f"  threads       {len(commands)} in {several}\n" in text("report", *options, sleeps)


def test_check(recorded, tmp_path):
    budget = tmp_path / "budget"
    budget.write_text("threads == 3\n")
    text("check", "--budget", budget, recorded[0])
    budget.write_text("live_bytes <= 1G\n")
    refused = run([HEFT, "check", "--budget", budget, recorded[0]])
    assert refused.returncode == 1 and b" 3 processes had ended" in refused.stderr


def test_top_and_view(recorded):
    frame = text("top", "--once", recorded[0])
    assert re.search(r"  3 processes\b", frame) and re.search(r"  threads 3\b", frame)
    with Viewer(recorded[0]) as v:
        summary = v.document("summary")
    assert summary["process_count"] == summary["totals"]["threads"] == len(summary["threads"]) == 3
    assert summary["thread_words"] == "3 threads in 3 processes"


def test_csv(recorded):
    rows = list(csv.DictReader(io.StringIO(text("export", "-f", "csv", "-o", "-", recorded[0]))))
    rep = report(recorded[0])
    assert sum(int(r["allocations"]) for r in rows) == \
        sum(p["totals"]["allocations"] for p in rep["processes"]) == \
        sum(t["allocations"] for t in rep["threads"]) == rep["totals"]["allocations"]


# ---- one process by itself

@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """A process that sleeps for 2 s of a recording of more than 2.4 s: its start takes much less, also on a busy machine."""
    path = tmp_path_factory.mktemp("late") / "late.heft"
    child = "import time; x = [bytes(5000) for i in range(1000)]; time.sleep(2); y = bytes(9000000)"
    done = run([HEFT, "run", "-q", "-o", path, "--", "sh", "-c",
                f"sleep 0.4; /usr/bin/python3 -c '{child}'; true"])
    assert done.returncode == 0, done.stderr
    rep = report(path)
    return rep, next(p for p in rep["processes"] if p["name"] == "python3")


def test_its_times_are_of_its_life(late):
    rep, p = late
    alone = report(rep.path, "--pid", str(p["pid"]))
    life = p["end_ns"] - p["start_ns"]
    assert p["start_ns"] > 400e6 and rep["duration_ns"] > life + 400e6
    assert alone["duration_ns"] == life
    assert (alone["pid"], alone["end"], alone["exit_status"]) == (p["pid"], p["end"], p["exit_status"])
    # The second block of 9 MB came after 2 s, at its peak.
    assert alone["totals"]["peak_time_ns"] == p["totals"]["peak_time_ns"] - p["start_ns"]
    assert 2e9 < alone["totals"]["peak_time_ns"] < life
    mine, = alone["processes"]
    assert (mine["start_ns"], mine["end_ns"]) == (0, life)


def test_its_rates_and_shares_are_of_its_life(late):
    rep, p = late
    life = (p["end_ns"] - p["start_ns"]) / 1e9
    said = text("report", "--pid", str(p["pid"]), rep.path)
    ran, unit = re.search(r"^  ran +([\d.]+) (m?s), ", said, re.M).groups()
    assert float(ran) * {"s": 1, "ms": 1e-3}[unit] == pytest.approx(life, rel=0.01)
    rate, scale = re.search(r"^  allocations +[\d,]+ \(([\d.,]+) ?(k|M|)/s\)", said, re.M).groups()
    expected = p["totals"]["allocations"] / life
    assert float(rate.replace(",", "")) * {"": 1, "k": 1e3, "M": 1e6}[scale] == pytest.approx(expected, rel=0.06)
    share = int(re.search(r"^  peak .* at .* \((\d+) % of the run\)$", said, re.M)[1])
    assert share == pytest.approx(100 * (p["totals"]["peak_time_ns"] - p["start_ns"]) / 1e9 / life, abs=1)


def test_its_moments_are_of_its_life(late):
    rep, p = late
    life = p["end_ns"] - p["start_ns"]
    pid = ["--pid", str(p["pid"])]
    half = report(rep.path, *pid, "--at", "50%")
    assert half["from_ns"] == half["to_ns"] == pytest.approx(life / 2, abs=2)
    # Asleep then, with its thousand blocks and without the last one.
    assert 5_000_000 < half["totals"]["live_bytes"] < 9_000_000
    window = report(rep.path, *pid, "--from", "50%")
    assert (window["from_ns"], window["to_ns"]) == (half["to_ns"], life)
    assert 9_000_000 < window["totals"]["allocated_bytes"] < 12_000_000
    late_for_it = run([HEFT, "report", *pid, "--at", "600s", rep.path])
    assert late_for_it.returncode == 2 and b"--at is after the end of the process" in late_for_it.stderr
    times = [float(x) for x in re.findall(r"^time=([\d.]+)$",
                                          text("export", "-f", "massif", "-o", "-", *pid, rep.path), re.M)]
    assert times[0] == 0 and times[-1] == pytest.approx(life / 1e6, abs=1)


@pytest.mark.parametrize("limit", [100, 1000])
def test_the_limit_of_open_files(compiled, tmp_path, limit):
    """More processes at once than heft may follow: what they did is all there, and heft says that the peak is not. Each has
    two descriptors."""
    path = tmp_path / "many.heft"
    done = run(["sh", "-c", f"ulimit -n {limit} && exec \"$@\"", "sh", HEFT, "run", "-o", path, "--",
                compiled("many_at_once.c"), "120", "2"])
    assert done.returncode == 0, done.stderr
    rep = report(path)
    check_sums(rep)
    assert len(rep["processes"]) == 121
    assert sum(p["totals"]["allocations"] for p in rep["processes"]) == rep["totals"]["allocations"] == 120
    said = " ".join(done.stderr.decode().split())
    words = f"heft may not open more files (limit of open files: {limit}), and follows "
    noted = [n["text"] for n in rep["notes"] if n["text"].startswith(words)]
    if limit == 100:
        assert words in said and len(noted) == 1
        assert rep["totals"]["peak_blocks"] <= 120
    else:
        assert "limit of open files" not in said and not noted
        assert rep["totals"]["peak_blocks"] == 120
