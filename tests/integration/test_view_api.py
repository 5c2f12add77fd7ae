"""heft view and heft export -f html without a browser: the documents that the page gets, held to what
heft report --json says of the same recordings; who is let in; recordings that grow; one file."""

import base64
import gzip
import hashlib
import html
import json
import os
import random
import re
import signal
import socket
import subprocess
import urllib.request

import pytest

from attach_harness import Target, may_trace
from harness import BUILD, HEFT, report, run, start, wait_until
from live_harness import Service, live_in
from pprof_maker import write_pprof
from view_server import Viewer

MODES = [{}, {"at": "end"}, {"mode": "allocated"}, {"mode": "grew"}]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory):
    directory = tmp_path_factory.mktemp("view")
    # A run of 0.1 s may stand still for half of its time on a busy machine: the server waits a little.
    for name, options in (("leaky_server", ["--pause-us", "20"]), ("queue", [])):
        for _ in range(20):
            done = run([HEFT, "run", "-q", "--force", "-o", directory / f"{name}.heft", BUILD / "examples" / name, *options])
            assert done.returncode == 0, done.stderr
            found = report(directory / f"{name}.heft")["findings"]
            if found:
                break
        assert found
    return directory


@pytest.fixture(scope="session")
def leaky(recordings):
    return recordings / "leaky_server.heft"


@pytest.fixture
def viewer(recordings):
    with Viewer(recordings / "leaky_server.heft", recordings / "queue.heft") as v:
        yield v


def heft(*arguments, **more):
    return run([HEFT, *arguments], **more)


def check_tree(tree):
    """A node's total is its own and its children's; parents and greater siblings stand first."""
    below = [0] * len(tree["parent"])
    last = {}
    for node, parent in enumerate(tree["parent"]):
        assert parent < node
        if node:
            below[parent] += tree["total"][node]
            if tree["frame"][node] >= 0:
                assert tree["total"][node] <= last.get(parent, tree["total"][node])
                last[parent] = tree["total"][node]
    assert [s + b for s, b in zip(tree["self"], below)] == tree["total"]
    assert tree["sum"] == tree["total"][0]
    assert all(tree["frame"][s["node"]] == -1 for s in tree["smaller"])


# ---- the flame graph of heft export

def colours_of(frames):
    """{module: colour} as web/src/colours.ts has it: by name, the one that it asks for or the next free one."""
    taken, made = {}, 9
    for module in sorted({f["module"] for f in frames if "process" not in f}):
        h = 7
        for letter in module:
            h = (h * 31 + ord(letter)) % 2**32
        free = next((c for c in ((h + i) % 8 for i in range(8)) if c not in taken.values()), None)
        taken[module], made = (free, made) if free is not None else (made, made + 1)
    return taken


def colour_of(frame, colours):
    """Its number, and whether it is paler."""
    return (8, False) if "process" in frame else (colours[frame["module"]], not frame["user"])


def check_flame_graph(viewer, path, invert):
    """The SVG shows the page's tree: the same calls, in the same order, in the same colours."""
    tree = viewer.document("tree", limit=20000, **({"invert": 1} if invert else {}))
    depth, page, colours = {0: 0}, [], colours_of(tree["frames"])
    for node in range(1, len(tree["parent"])):
        depth[node] = depth[tree["parent"][node]] + 1
        frame = tree["frames"][tree["frame"][node]]
        if tree["total"][node] >= tree["sum"] // 10000:
            page.append((depth[node], frame["function"], tree["total"][node], *colour_of(frame, colours)))
    svg = heft("export", "-q", "-f", "svg", "-o", "-", *(["--invert"] if invert else []), path).stdout.decode()
    drawn = [(int(d), html.unescape(name), int(total), int(colour), bool(pale)) for colour, pale, d, total, name in
             re.findall(r'<g class="f k(\d)( pale)?" data-f="(\d+) \d+ (\d+)"><title>(.*)\n', svg)]
    assert len(page) > 5
    assert drawn == page
    assert len({(c, pale) for *_, c, pale in drawn}) > 1
    assert len(set(colours.values())) == len(colours)  # no two modules have one


@pytest.mark.parametrize("invert", [False, True])
def test_flame_graph_is_the_pages(recordings, viewer, leaky, invert):
    check_flame_graph(viewer, leaky, invert)


def test_flame_graph_of_processes_is_the_pages(tmp_path):
    path = tmp_path / "shell.heft"
    done = run([HEFT, "run", "-q", "-o", path, "sh", "-c", "sort /etc/passwd >/dev/null; ls / >/dev/null; ls / >/dev/null"])
    assert done.returncode == 0, done.stderr
    with Viewer(path) as v:
        check_flame_graph(v, path, False)


# ---- numbers

def test_a_window_keeps_the_peak_of_the_run(tmp_path):
    """What a site held at the peak is of the whole run, whatever part of it is selected. The recording is
    large enough for a ladder, from which a window is made as a difference that has no peak."""
    rows, path = tmp_path / "rows.csv", tmp_path / "rows.heft"
    rows.write_bytes(run([BUILD / "examples" / "csv_make", "20000"]).stdout)
    assert run([HEFT, "run", "-q", "-o", path, BUILD / "examples" / "csv_rows", rows]).returncode == 0
    rep = report(path)
    peaks, half = {s["id"]: s["peak_bytes"] for s in rep["sites"]}, rep["duration_ns"] // 2
    with Viewer(path) as v:
        for selection in {"mode": "grew", "from": 1000}, {"mode": "allocated", "from": 1000, "to": half}, {"at": half}:
            found = {row["id"]: row["peak_bytes"] for row in v.document("sites", **selection)["rows"]}
            assert found and found == {site: peaks[site] for site in found}, selection


def test_who_writes_to_a_recording_does_not_end_the_view(recordings):
    """To see whether somebody writes to it, heft takes a lease for an instant. Who opens it just then makes the kernel
    send this signal, which ends a program as a rule: 1 of 40 views had ended while a program opened the file all the time."""
    with Viewer(recordings / "queue.heft") as viewer:
        os.kill(viewer.process.pid, signal.SIGIO)
        assert viewer.json("/api/r/1/summary")
        assert viewer.process.poll() is None


def test_totals_are_the_reports(viewer, leaky):
    rep, summary = report(leaky), viewer.document("summary")
    assert summary["totals"] == rep["totals"]
    assert summary["command"] == rep["command"]
    assert (summary["mode"], summary["live"], summary["complete"]) == ("exact", False, True)
    assert [(f["kind"], f["severity"], f["bytes"], f["site"]) for f in summary["findings"]] == \
        [(f["kind"], f["severity"], f["bytes"], f["site"]) for f in rep["findings"]]
    assert summary["findings"], "the leaky server leaks"
    assert summary["findings"][0]["where"]["function"] == "remember_request"


def value_of(site, selection):
    mode = selection.get("mode", "live")
    if mode == "live":
        return site["live_bytes" if selection.get("at") == "end" else "peak_bytes"]
    if mode == "grew":
        return max(site["live_bytes"] - site.get("start_bytes", 0), 0)
    return site["allocated_bytes"]


@pytest.mark.parametrize("recording", [1, 2])
@pytest.mark.parametrize("selection", MODES, ids=str)
def test_sites_and_trees_add_up(viewer, recordings, recording, selection):
    rep = report(recordings / ("leaky_server.heft", "queue.heft")[recording - 1])
    wanted = {s["id"]: value_of(s, selection) for s in rep["sites"]}
    sites = viewer.document("sites", recording, n=10000, **selection)
    assert {r["id"]: r["value"] for r in sites["rows"]} == wanted
    assert sites["sum"] == sum(wanted.values())
    values = [r["value"] for r in sites["rows"]]
    assert values == sorted(values, reverse=True)
    for invert in 0, 1:
        tree = viewer.document("tree", recording, invert=invert, **selection)
        check_tree(tree)
        assert tree["sum"] == sites["sum"]
    functions = viewer.document("functions", recording, n=10000, **selection)
    assert sum(r["self"] for r in functions["rows"]) <= functions["sum"] == sites["sum"]


def test_windows_are_the_reports(viewer, leaky):
    duration = viewer.document("summary")["duration_ns"]
    draw = random.Random(1)
    for _ in range(8):
        a, b = sorted(draw.randrange(duration) for _ in range(2))
        rep = report(leaky, "--from", f"{a}ns", "--to", f"{b}ns")
        sites = {s["id"]: s for s in viewer.document("sites", mode="allocated", n=10000,
                                                     **{"from": a, "to": b})["rows"]}
        assert sum(s["value"] for s in sites.values()) == rep["totals"]["allocated_bytes"]
        assert sum(s["allocations"] for s in sites.values()) == rep["totals"]["allocations"]
        grew = viewer.document("tree", mode="grew", **{"from": a, "to": b})
        assert grew["sum"] == sum(max(s["grew_bytes"], 0) for s in rep["sites"])
        check_tree(grew)
        at = report(leaky, "--at", f"{a}ns")
        tree = viewer.document("tree", at=a)
        assert tree["sum"] == at["totals"]["live_bytes"]
        assert viewer.document("tree", at=a, metric="count")["sum"] == at["totals"]["live_blocks"]


def test_focus_is_the_reports(viewer, leaky):
    for option in "focus", "ignore":
        rep = report(leaky, f"--{option}", "remember_request")
        tree = viewer.document("tree", at="end", **{option: "remember_request"})
        assert tree["sum"] == rep["totals"]["live_bytes"]


def test_pruned_trees_keep_their_sums(viewer):
    whole = viewer.document("tree", mode="allocated")
    for limit in 0, 1, 3, 7:
        tree = viewer.document("tree", mode="allocated", limit=limit)
        check_tree(tree)
        assert tree["sum"] == whole["sum"]
        kept = sum(f >= 0 for f in tree["frame"])
        assert kept <= limit
        assert kept + tree["pruned_nodes"] == len(whole["parent"]) - 1
    child = viewer.document("tree", mode="allocated", root="0")
    check_tree(child)
    assert child["sum"] == whole["total"][1]


def test_lifetimes_sizes_threads(viewer, recordings):
    rep = report(recordings / "queue.heft", "--lifetimes", "--sizes", "--threads")
    lifetimes = viewer.document("lifetimes", 2)
    ended = rep["totals"]["frees"] + rep["totals"]["live_blocks"]
    assert sum(lifetimes["counts"]) == ended
    heat = lifetimes["heat"]
    assert sum(map(sum, heat["cells"])) == rep["totals"]["frees"]
    assert sum(map(sum, heat["live"])) == rep["totals"]["live_blocks"]
    assert len(heat["cells"]) == len(heat["birth_ns"])
    assert [(s["low_bytes"], s["peak_bytes"]) for s in viewer.document("sizes", 2)["rows"]] == \
        [(s["low_bytes"], s["peak_bytes"]) for s in rep["sizes"]]
    threads = viewer.document("threads", 2)
    assert {(t["tid"], t["frees"]) for t in threads["threads"]} == \
        {(t["tid"], t["frees"]) for t in rep["threads"]}
    assert sum(c["frees"] for c in threads["cells"]) == sum(h["frees"] for h in rep["handovers"])


def test_timeline(viewer):
    summary, timeline = viewer.document("summary"), viewer.document("timeline", slots=50)
    times, heap = timeline["times_ns"], timeline["bytes"]
    assert times == sorted(times) and times[0] == 0 and times[-1] == summary["duration_ns"]
    assert len(times) <= 53 and len(heap) == len(times) == len(timeline["events"])
    calls = sum(summary["totals"][n] for n in ("allocations", "reallocations", "frees"))
    rates = zip(timeline["events"][1:], times, times[1:])
    assert abs(sum(a_second * (to - since) for a_second, since, to in rates) / 1e9 - calls) < calls / 10
    assert max(heap) == summary["totals"]["peak_bytes"]
    assert times[heap.index(max(heap))] == summary["totals"]["peak_time_ns"]
    assert heap[-1] == summary["totals"]["live_bytes"]
    for row in timeline["rows"]:
        assert all(part <= whole for part, whole in zip(row["bytes"], heap))
    highest = max(r["bytes"] for r in timeline["rss"])  # seen now and then: the kernel saw all
    assert 0 < highest <= summary["totals"]["peak_rss_bytes"] < 2 * highest


def test_site_and_sandwich(viewer, leaky):
    site = report(leaky)["sites"][0]
    detail = viewer.document("site", site=site["id"])
    assert [f["function"] for f in detail["stack"]] == [f["function"] for f in site["stack"]]
    assert detail["row"]["peak_bytes"] == site["peak_bytes"]
    assert detail["stack"][detail["first_user"]]["user"]
    both = viewer.document("sandwich", function="remember_request")
    check_tree(both["callers"])
    check_tree(both["callees"])
    assert both["callers"]["sum"] == both["callees"]["sum"] > 0
    root = both["callers"]["frames"][both["callers"]["frame"][0]]
    assert root["function"] == "remember_request"


def test_source_lines(viewer):
    files = viewer.document("files", at="end")["files"]
    assert files[0]["file"].endswith("leaky_server.c") and files[0]["readable"]
    source = viewer.document("source", at="end", file=files[0]["file"])
    best = max(source["lines"], key=lambda line: line["self"])
    assert "malloc" in best["text"]
    assert best["self"] == sum(r["value"] for r in viewer.document("sites", at="end", n=10000)["rows"]
                               if r["place"]["line"] == best["line"])
    assert best["total"] <= max(line["total"] for line in source["lines"]) <= files[0]["total"]


def test_diff_of_two_recordings(viewer, recordings):
    diff = viewer.json("/api/diff", a=2, b=1)
    old, new = report(recordings / "queue.heft"), report(recordings / "leaky_server.heft")
    assert diff["a"]["sum"] == old["totals"]["peak_bytes"]
    assert diff["b"]["sum"] == new["totals"]["peak_bytes"]
    check_tree(diff["tree"])
    assert diff["before"][0] == diff["a"]["sum"]
    assert diff["tree"]["other"] == [b - a for a, b in zip(diff["before"], diff["tree"]["total"])]
    changes = [abs(r["change"]) for r in diff["rows"]]
    assert changes == sorted(changes, reverse=True)
    assert sum(r["change"] for r in diff["rows"]) == diff["b"]["sum"] - diff["a"]["sum"]
    same = viewer.json("/api/diff", a=1, b=1)
    assert all(r["change"] == 0 and r["kind"] == "same" for r in same["rows"])


def test_export_is_heft_export(viewer, leaky):
    ours = viewer.ask("/api/r/1/export?format=folded")
    theirs = heft("export", "-f", "folded", "-o", "-", leaky)
    assert ours.status == 200 and ours.body == theirs.stdout
    assert ours.headers["Content-Disposition"] == 'attachment; filename="leaky_server.heft.folded"'
    assert viewer.ask("/api/r/1/export?format=exe").status == 400


# ---- who is let in, and where to

def test_tokens(viewer):
    assert viewer.ask("/api/recordings", token=False).status == 401
    assert viewer.ask("/", token=False).status == 401
    assert viewer.ask("/api/recordings", token="0" * 32).status == 403
    assert viewer.ask(f"/api/recordings?token={viewer.token}", token=False).status == 200
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}", viewer.url)


def test_other_hosts_and_origins(viewer):
    for headers in {"Host": "evil.example"}, {"Host": f"evil.example:{viewer.port}"}:
        answer = viewer.ask("/api/recordings", headers=headers, token=False)
        assert answer.status == 403 and "does not answer to the name" in answer.text
        # A page that only pretends to be heft's does not know the token.
        assert viewer.ask("/api/recordings", headers=headers).status == 200
    for headers in {"Origin": "http://evil.example"}, {"Origin": f"http://127.0.0.1:{viewer.port ^ 1}"}, \
            {"Origin": "null"}:
        assert viewer.ask("/api/recordings", headers=headers).status == 403, headers
    own = {"Host": f"127.0.0.1:{viewer.port}", "Origin": f"http://127.0.0.1:{viewer.port}"}
    assert viewer.ask("/api/recordings", headers=own).status == 200


@pytest.mark.parametrize("path", [
    "/../../etc/passwd", "/etc/passwd", "/api/r/../../etc/passwd", "/api/r/1/../../../etc/passwd",
    "/api/r/1/%2e%2e/%2e%2e/etc/passwd", "/api/r/3/summary", "/api/r/0/summary", "/api/r/1x/summary",
    "/api/r//summary", "/api/r/1", "/api/r/1/", "/api/r/1/summary/", "/api/r/1/source?file=/etc/passwd",
    "/api/r/1/source?file=../../../../etc/passwd", "/api/r/1/source?file=/proc/self/environ",
    "/api/r/1/source?file=leaky_server.c", "/api/diff?a=1&b=9", "/api/diff?a=1/x&b=2"])
def test_no_way_out(viewer, path):
    answer = viewer.ask(path)
    assert answer.status == 404, answer.body[:200]
    assert b"root:" not in answer.body


@pytest.mark.parametrize("query", ["mode=x", "at=-1", "from=2&to=1", "limit=9999999", "focus=(",
                                   "metric=kg", "n=1e9", "pid=abc", "invert=yes"])
def test_wrong_queries_are_refused(viewer, query):
    answer = viewer.ask("/api/r/1/sites?" + query)
    assert answer.status == 400 and answer.text.count("\n") == 1


def test_headers_of_the_page(viewer):
    page = viewer.ask("/")
    policy = page.headers["Content-Security-Policy"]
    assert page.status == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
    assert policy.startswith("default-src 'none'; script-src ")
    assert "unsafe" not in policy and "*" not in policy and "http" not in policy
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    for script in re.findall(r"<script>(.*?)</script>", page.text, re.S):
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    packed = viewer.ask("/", headers={"Accept-Encoding": "gzip"})
    assert gzip.decompress(packed.body) == page.body
    assert viewer.ask("/api/recordings", method="POST", data=b"x").status == 405


# ---- the verb

def test_ends_cleanly(leaky):
    for how in signal.SIGTERM, signal.SIGINT:
        with Viewer(leaky) as v:
            assert v.document("summary")["complete"]
            assert v.end(how) == 0


def test_ports(leaky):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        v = Viewer(leaky, options=("--port", str(port)))
        assert (v.url, v.status) == ("", 1)
        assert str(port) in v.error
    with Viewer(leaky, options=()) as first, Viewer(leaky, options=()) as second:
        assert first.port != second.port
        assert second.document("summary")["id"] == "1"


def test_usage(tmp_path, leaky):
    for arguments, status, words in [
            (["--port", "x", leaky], 2, "--port needs a number"),
            ([tmp_path / "nothing.heft"], 1, "nothing.heft"),
            (["999999999"], 1, "no process 999999999"),
            ([], 2, "no recording given")]:
        done = heft("view", "--no-open", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (status, b""), done.stderr
        assert words in done.stderr.decode()
    (tmp_path / "not.heft").write_text("hello")
    done = heft("view", "--no-open", tmp_path / "not.heft")
    assert done.returncode == 1 and b"not a profile" in done.stderr


def test_newest_recording_is_the_default(tmp_path, recordings):
    for i, name in enumerate(("queue", "leaky_server")):
        copy = tmp_path / f"{name}.heft"
        copy.write_bytes((recordings / f"{name}.heft").read_bytes())
        os.utime(copy, (1000000 + i, 1000000 + i))
    with Viewer(cwd=tmp_path) as v:
        assert v.document("summary")["name"] == "leaky_server.heft"


# ---- recordings that grow

class Steps:
    """A program that does a step when told to, under heft run."""

    def __init__(self, program, recording):
        self.recording = recording
        self.process = start([HEFT, "run", "-q", "-o", recording, program], stdin=subprocess.PIPE)
        self.step("drop")

    def step(self, what):
        self.process.stdin.write(what.encode() + b"\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"done\n"

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(60) == 0
        self.process.stdout.close()
        self.process.stderr.close()


def live_bytes(viewer):
    return viewer.document("summary")["totals"]["live_bytes"]


def test_live(compiled, tmp_path):
    steps = Steps(compiled("view_steps.c"), tmp_path / "steps.heft")
    wait_until(lambda: steps.recording.exists() and heft("report", steps.recording).returncode == 0)
    with Viewer(steps.recording) as v:
        summary = v.document("summary")
        assert summary["live"] and summary["end"] == "running" and not summary["complete"]
        assert v.json("/api/recordings")["recordings"][0]["live"]
        base = live_bytes(v)
        for n in 1, 2:
            steps.step("keep")
            wait_until(lambda: live_bytes(v) >= base + n * 1000000, what="a step that shows")
        check_tree(v.document("tree", at="end"))
        # The token as a page gives it here, where no header can be set; the end is the server's. It tells what is new after it
        # has begun to answer.
        with urllib.request.urlopen(f"{v.base}/api/r/1/events?token={v.token}", timeout=60) as events:
            steps.step("keep")
            steps.end()
            said = events.read().decode()
        assert "event: change\ndata: {\"duration_ns\":" in said
        assert said.rstrip().splitlines()[-2] == "event: end"
        summary = v.document("summary")
        assert not summary["live"] and summary["complete"] and summary["end"] == "exit"
        assert summary["totals"]["live_bytes"] >= 3000000


def test_view_of_a_process(compiled, tmp_path):
    steps = Steps(compiled("view_steps.c"), tmp_path / "steps.heft")
    wait_until(lambda: heft("report", steps.recording).returncode == 0)
    child = int((wait_until(lambda: open(f"/proc/{steps.process.pid}/task/{steps.process.pid}/children")
                            .read().split()))[0])
    for pid in child, steps.process.pid:
        with Viewer(str(pid)) as v:
            # The first blocks of a recording are there before its processes are.
            wait_until(lambda: v.document("summary")["pid"] == child)
            assert v.document("summary")["live"]
    steps.end()


def test_a_process_that_nobody_records(tmp_path):
    sleeper = start(["sleep", "60"])
    done = heft("view", "--no-open", str(sleeper.pid), cwd=tmp_path)
    sleeper.kill()
    sleeper.wait()
    sleeper.stdout.close()
    sleeper.stderr.close()
    assert done.returncode == 1
    assert f"process {sleeper.pid} is not being recorded" in done.stderr.decode()


def test_a_process_that_is_attached_for_the_page(compiled, tmp_path):
    if not may_trace():
        pytest.skip("this machine does not allow ptrace")
    target = Target(compiled("attach_target.c", flags=["-ldl"]), tmp_path)
    try:
        with Viewer("--attach", str(target.pid), cwd=tmp_path) as v:
            target.do("alloc 10 1000")
            wait_until(lambda: v.document("summary")["totals"]["live_bytes"] == 10000)
        recording = tmp_path / f"heft.attach_target.{target.pid}.heft"
        assert report(recording)["end"] == "detached"
        assert "/heft-run-" not in open(f"/proc/{target.pid}/maps").read()
        target.do("free 10")
    finally:
        target.end()


def test_named_functions(compiled, tmp_path):
    """--alloc-fn of a process that heft view attaches to: the site is where keep_block was called."""
    if not may_trace():
        pytest.skip("this machine does not allow ptrace")
    assert heft("view", "--no-open", "--alloc-fn=keep_block:malloc", "1", cwd=tmp_path).returncode == 2
    service = Service([compiled("service.c")])
    with Viewer("--attach", "--alloc-fn=keep_block:malloc", str(service.pid), cwd=tmp_path) as v:
        service.do("keep 10 1000")
        wait_until(lambda: v.document("summary")["totals"]["live_bytes"] == 10000)
    rep = report(tmp_path / f"heft.service.{service.pid}.heft")
    assert live_in(rep, "keep_many") == (10000, 10) and "keep_block" not in str(rep["sites"])
    assert service.end("exit 0") == 0


def test_sampled_process_that_nobody_records(tmp_path):
    """Sampled, with its session file and nothing else: what it has now."""
    env = {"LD_PRELOAD": str(BUILD / "libheft-preload.so"), "HEFT_SAMPLE": "16k", "HEFT_DIR": str(tmp_path)}
    server = start([BUILD / "examples/pprof_server", "0"], env=env)
    try:
        assert run(["curl", "-s", server.stdout.readline().decode().strip() + "work?n=500000"]).stdout \
            == b"500 kept\n"
        with Viewer(str(server.pid)) as v:
            summary = v.document("summary")
            assert (summary["name"], summary["pid"]) == (f"pid {server.pid}", server.pid)
            assert (summary["mode"], summary["end"]) == ("sample", "running")
            # 500 entries of 2,000 bytes: 57 samples are expected, 0.13 is their relative error.
            assert 0.3 < summary["totals"]["live_bytes"] / 1e6 < 1.9
    finally:
        server.kill()
        server.communicate()


# ---- other tools' files, hostile names

HOSTILE = [b"<script>alert(1)</script>", b"</script><img src=x onerror=alert(2)>", b"-->\"'&<!--",
           b"\x1b[31mred\x07", b"bad \xff\xfe utf-8", b"x" * 10000, b"]]>\xe2\x80\xa8\x00end"[:9]]


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    stacks = [([i, len(HOSTILE)], 1, 1000 + i) for i in range(len(HOSTILE))]
    return write_pprof(tmp_path_factory.mktemp("hostile") / "hostile.pb.gz", [*HOSTILE, b"main"], stacks)


def test_foreign_files(hostile):
    with Viewer(hostile) as v:
        summary = v.document("summary")
        assert (summary["format"], summary["has"]["windows"]) == ("pprof", False)
        tree = v.document("tree", at="end")
        check_tree(tree)
        assert tree["sum"] == sum(1000 + i for i in range(len(HOSTILE)))
        functions = {f["function"] for f in tree["frames"]}
        assert HOSTILE[0].decode() in functions
        assert max(map(len, functions)) <= 1000, "long names are cut"
        longest = max(functions, key=len)
        # A cut name can be asked for again.
        assert v.document("sandwich", at="end", function=longest)["callers"]["sum"] == 1005
        for name, query in ("tree", "at=5"), ("tree", "mode=grew&from=1"), ("sites", "pid=1"), \
                ("sizes", ""), ("lifetimes", ""), ("tree", "mode=churn"):
            answer = v.ask(f"/api/r/1/{name}?{query}")
            assert answer.status == 422 and answer.text.count("\n") == 1, answer.body
        assert v.document("timeline")["times_ns"] == []
        focused = v.document("tree", at="end", focus="^main$", search="")
        assert focused["sum"] == tree["sum"]


# ---- one file

def documents_of(path):
    html = path.read_text()
    data = re.search(r'<script type="application/json" id="heft-data">([A-Za-z0-9+/=]*)</script>', html)
    return html, json.loads(gzip.decompress(base64.b64decode(data.group(1))))


def test_html(viewer, leaky, tmp_path):
    out = tmp_path / "out.html"
    done = heft("export", "-f", "html", "-o", out, leaky)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size < 1000000
    html, documents = documents_of(out)
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", html), "a request would leave the page"
    for name in "timeline", "tree", "tree?at=end", "tree?mode=allocated", "tree?mode=churn", "sites", \
            "sites?mode=allocated&metric=count", "functions", "sizes", "lifetimes", "threads", "ledger":
        served = viewer.json(f"/api/r/1/{name}")
        if name == "threads":
            served["threads"].sort(key=str), documents[f"/api/r/1/{name}"]["threads"].sort(key=str)
        assert documents[f"/api/r/1/{name}"] == served, name
    first = documents["/api/r/1/sites"]["rows"][0]["id"]
    assert documents[f"/api/r/1/site?site={first}"]["stack"]
    assert documents["/api/r/1/summary"]["totals"] == viewer.document("summary")["totals"]
    assert any("--source" in words for words in documents["/api/r/1/summary"]["pruned"])
    assert not any("/source?" in name for name in documents)
    assert "remember_request(" not in json.dumps(documents), "source lines only when asked for"


def test_html_with_source(leaky, tmp_path):
    out = tmp_path / "out.html"
    assert heft("export", "-f", "html", "--source", "-o", out, leaky).returncode == 0
    _, documents = documents_of(out)
    name = next(n for n in documents if "/source?file=" in n and n.endswith("leaky_server.c"))
    assert "%2F" in name
    assert any("malloc" in line["text"] for line in documents[name]["lines"])


def test_html_usage(leaky, tmp_path):
    out = tmp_path / "out.html"
    for arguments in ["-f", "html", "--at", "end"], ["-f", "html", "--focus", "x"], \
            ["-f", "csv", "--source"], ["-f", "html", "--pid", "1"]:
        assert heft("export", *arguments, "-o", out, leaky).returncode == 2, arguments
    assert not out.exists()
    out.write_text("mine")
    done = heft("export", "-f", "html", "-o", out, leaky)
    assert done.returncode == 1 and out.read_text() == "mine"


def test_html_of_hostile_names(hostile, tmp_path):
    out = tmp_path / "out.html"
    assert heft("export", "-f", "html", "-o", out, hostile).returncode == 0
    html, documents = documents_of(out)
    for name in b"alert(1)", b"onerror", b"\x1b":
        assert name.decode() not in html.replace("heft-data", "")
    assert documents["/api/r/1/tree?at=end"]["sum"] == sum(1000 + i for i in range(len(HOSTILE)))


def test_html_is_never_large(tmp_path):
    """200,000 stacks of names that are 10,000 characters long and do not pack well."""
    names = [b"".join(hashlib.sha256(b"%d %d" % (i, k)).hexdigest().encode() for k in range(157))[:10000]
             for i in range(1000)]
    draw = random.Random(3)
    stacks = [([draw.randrange(1000) for _ in range(draw.randrange(2, 14))], 1, draw.randrange(1, 1 << 20))
              for _ in range(200000)]
    recording = write_pprof(tmp_path / "large.pb.gz", names, stacks)
    out = tmp_path / "large.html"
    done = heft("export", "-f", "html", "-o", out, recording, timeout=300)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size < 1000000
    _, documents = documents_of(out)
    tree, sites = documents["/api/r/1/tree?at=end"], documents["/api/r/1/sites?at=end"]
    check_tree(tree)
    assert tree["sum"] == sites["sum"] == sum(s[2] for s in stacks)
    assert tree["pruned_nodes"] > 0 and tree["smaller"]
    assert any("tree nodes beyond" in words for words in documents["/api/r/1/summary"]["pruned"])


def test_the_token_is_in_no_command_line(recordings, tmp_path):
    """The browser's opener gets a file that only the user may read, and that is gone in the end."""
    opener, asked = tmp_path / "bin" / "xdg-open", tmp_path / "asked"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$@" > {asked}.new\nmv {asked}.new {asked}\n')
    opener.chmod(0o755)
    process = start([HEFT, "view", "--port", "0", recordings / "queue.heft"],
                    env={"DISPLAY": ":99", "XDG_RUNTIME_DIR": str(tmp_path),
                         "PATH": f"{opener.parent}:{os.environ['PATH']}"})
    url = process.stdout.readline().decode().strip()
    token = re.search(r"token=(\w+)", url)[1]
    wait_until(asked.exists)
    (path,) = asked.read_text().split()
    assert token not in path and path.startswith(str(tmp_path))
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert f'location.replace("{url}")' in open(path).read()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0 and not os.path.exists(path)
