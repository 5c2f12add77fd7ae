"""--at of every verb, counts and calls, lifetimes that are not known, formats and verbs that are guessed.
tests/programs/moments.c holds 3 blocks of 1,000 bytes at its peak, made by one malloc and two reallocs
of what another function allocated, and 1 of 1,000 at its end."""

import json
import re
import subprocess

import pytest

import harness


def record_program(folder, name):
    program = folder / name
    subprocess.run(["gcc", *harness.C_FLAGS, "-o", program, harness.PROGRAMS / f"{name}.c"], check=True)
    path = folder / f"{name}.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", program])
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="session")
def moments(tmp_path_factory):
    return record_program(tmp_path_factory.mktemp("moments"), "moments")


def row_of(text, function):
    (line,) = [line for line in text.splitlines() if re.search(rf" {function} at ", line)]
    return line.split(f" {function} at ")[0].split()


def test_count_is_blocks_and_calls_are_calls(moments, heft):
    """grow() resized two blocks, which it has at the peak, and allocated none."""
    out = heft("report", moments).out
    assert re.search(r"^ +peak +share +count +calls +site$", out, re.M)
    assert row_of(out, "grow") == ["2.0", "KiB", "66.7", "%", "2", "2"]
    assert row_of(out, "keep_one") == ["1000", "B", "33.3", "%", "1", "1"]
    live = heft("report", "--sort", "live", moments).out
    assert row_of(live, "keep_one") == ["1000", "B", "100.0", "%", "1", "1"]


@pytest.mark.parametrize("at, live", [("peak", 3000), ("end", 1000), ("exit", 1000), ("100%", 1000)])
def test_at(moments, heft, at, live):
    report = json.loads(heft("report", "--json", "--at", at, moments).out)
    assert report["totals"]["live_bytes"] == live
    assert sum(s["live_bytes"] for s in report["sites"]) == live
    text = heft("report", "--at", at, moments).out
    assert re.search(r"^ +live +share +count +site$", text, re.M)
    assert re.search(rf"^  live +{'2.9 KiB' if live == 3000 else '1000 B'} in {live // 1000} block", text, re.M)
    folded = heft("export", "-q", "-f", "folded", "-o", "-", "--at", at, moments).out
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == live
    svg = heft("export", "-q", "-f", "svg", "-o", "-", "--at", at, moments)
    assert svg.status == 0 and svg.out.startswith("<?xml") and "<svg" in svg.out
    diff = json.loads(heft("diff", "--json", "--at", at, moments, moments).out)
    assert diff["new"]["totals"]["live_bytes"] == live if "totals" in diff["new"] else True
    assert sum(c["new"]["live_bytes"] for c in diff["changes"]) == live


@pytest.mark.parametrize("at", ["peak", "end", "exit", "50%"])
def test_json_of_a_moment_is_the_reports(moments, heft, at):
    assert heft("export", "-q", "-f", "json", "-o", "-", "--at", at, moments).out == \
        heft("report", "--json", "--at", at, moments).out


@pytest.mark.parametrize("at, hash", [(None, ""), ("peak", ""), ("end", "#at=end"), ("100%", "#at=end"),
                                      ("0", "#at=0"), ("2ms", "#at=2000000")])
def test_view_opens_at_the_moment(moments, at, hash):
    options = ["--at", at] if at else []
    server = harness.start([harness.HEFT, "view", "--no-open", "--port", "0", *options, moments],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        url = server.stdout.readline().decode().strip()
    finally:
        server.terminate()
        server.wait()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{32}" + re.escape(hash), url)


def test_view_at_a_share_of_the_run(moments, heft):
    duration = json.loads(heft("report", "--json", moments).out)["duration_ns"]
    server = harness.start([harness.HEFT, "view", "--no-open", "--port", "0", "--at", "50%", moments],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        url = server.stdout.readline().decode().strip()
    finally:
        server.terminate()
        server.wait()
    assert abs(int(url.split("#at=")[1]) - duration // 2) <= 1


@pytest.mark.parametrize("arguments, words", [
    (["top", "--once", "--at", "peak"], "heft report --at peak shows another moment"),
    (["view", "--at", "exit"], "exit is not one moment"),
    (["export", "-f", "massif", "--at", "end"], "massif shows a run over time, not a moment"),
    (["export", "-f", "html", "--at", "end"], "html holds the whole recording: select parts of it on the page")])
def test_at_where_it_makes_no_sense(moments, heft, arguments, words):
    done = heft(*arguments, moments)
    assert (done.status, done.out) == (2, "")
    assert words in done.err.splitlines()[0]


def test_view_at_of_a_file_without_times(heft, tmp_path):
    (tmp_path / "dump.heap").write_text("heap_v2/524288\n  t*: 1: 4096 [0: 0]\n  t0: 1: 4096 [0: 0]\n"
                                        "@ 0x10\n  t*: 1: 4096 [0: 0]\n\nMAPPED_LIBRARIES:\n")
    done = heft("view", "--no-open", "--port", "0", "--at", "1s", "dump.heap")
    assert done.status == 1 and "has no times" in done.err


def test_at_in_check(moments, heft, tmp_path):
    (tmp_path / "budget").write_text("live_bytes <= 2000\n")
    assert heft("check", "--budget", "budget", moments).status == 0
    assert heft("check", "--budget", "budget", "--at", "peak", moments).status == 1
    assert heft("check", "--budget", "budget", "--at", "end", moments).status == 0


@pytest.mark.parametrize("at, live, words", [
    ("0", 0, "at 0"), ("50%", 3000, "at 50%"), ("100%", 1000, "at 100%"), ("peak", 3000, "at the peak"),
    ("exit", 1000, "when it ended")])
def test_only_what_is_live_is_of_the_moment(moments, heft, tmp_path, at, live, words):
    """3 allocations of 1,020 bytes and 1,980 of growth, 2 frees, a peak of 3,000, whatever the moment."""
    rules = {"live_bytes": live, "live_blocks": live // 1000, "peak_bytes": 3000, "peak_blocks": 3,
             "allocations": 3, "reallocations": 2, "allocated_bytes": 3000, "frees": 2, "left_bytes": 1000,
             "live_bytes in keep_one": min(live, 1000), "peak_bytes in grow": 2000}
    (tmp_path / "budget").write_text("".join(f"{r} > 1000000000\n" for r in [*rules, "peak_rss_bytes"]))
    done = heft("check", "--json", "--budget", "budget", "--at", at, moments)
    out = json.loads(done.out)
    assert done.status == 1 and out["at"] == at
    measured = {r["rule"].split(" >")[0]: r["measured"] for r in out["rules"]}
    whole = json.loads(heft("report", "--json", moments).out)["totals"]
    assert measured == {**rules, "peak_rss_bytes": whole["peak_rss_bytes"]}
    (tmp_path / "budget").write_text("peak_bytes > 1000000000\nlive_bytes > 1000000000\n")
    text = heft("check", "--budget", "budget", "--at", at, moments).out
    assert re.search(rf"^  - rules for live memory count what .*{words}; all others count the\s+whole\s+run$", text, re.M)
    assert text.endswith(f"\nNext: heft report --at {at} {moments}\n")
    (tmp_path / "budget").write_text("peak_bytes > 1000000000\n")
    assert heft("check", "--budget", "budget", "--at", at, moments).out.endswith(
        f"\nNext: heft report {moments}\n")


@pytest.mark.parametrize("at, live, words, row", [
    ("50%", "2.9 KiB", r"what was live at 50%: [0-9.]+ m?s into the old run, [0-9.]+ m?s into the new one",
     "live"),
    ("100%", "1000 B", r"what was live at 100%: [0-9.]+ m?s into the old run, [0-9.]+ m?s into the new one",
     "live"),
    ("peak", "2.9 KiB", r"what was live at the peak: \S+ [mu]?s into the old run, \S+ [mu]?s into the new one",
     "live"),
    ("end", "1000 B", "what was live at the end", "live"),
    ("exit", "1000 B", "what each process had not freed when it ended", "left at exit")])
def test_diff_says_its_moment(moments, heft, at, live, words, row):
    text = heft("diff", "--at", at, moments, moments).out
    assert re.search(f"^moment: {words}$", text, re.M)
    rows = re.findall(r"^  ([a-z]\S*(?: \S+)*?)  +(\S+ \S*B) +(\S+ \S*B) +0$", text, re.M)
    assert rows == [(row, live, live)]  # nothing of another moment
    assert text.endswith(f"\nNext: heft report --at {at} {moments}\n")
    assert json.loads(heft("diff", "--json", "--at", at, moments, moments).out)["at"] == at


def test_diff_at_a_moment_names_the_next_command(moments, heft):
    """Half-way three blocks are live, at the start none: they are all new."""
    text = heft("diff", "--at", "0", moments, moments).out
    assert "Nothing changed.\n  live: 0 B before, 0 B now\n" in text
    program = moments.parent / "moments"
    longer = moments.parent / "longer.heft"
    assert harness.run([harness.HEFT, "run", "-q", "--force", "-o", longer, "--", "sh", "-c",
                        f"{program}; sleep 4"]).returncode == 0
    text = heft("diff", "--at", "50%", longer, moments).out
    assert re.search(r"^By live bytes: ", text, re.M)
    assert re.search(r"^Next: heft report --at 50% --focus '\^grow\$' ", text, re.M)


@pytest.mark.parametrize("verb, more", [("report", []), ("export", ["-f", "csv"]), ("diff", ["x"]),
                                        ("check", ["--budget", "b"])])
def test_at_is_refused_alike(heft, verb, more):
    done = heft(verb, *more, "--at", "noon", "x")
    assert done.status == 2
    assert done.err.splitlines()[0] == (f"heft {verb}: --at needs peak, end, exit, a time "
                                        "(1.5s, 20ms, 50%) or mark:NAME, not 'noon'")


def test_at_and_other_orders(moments, heft):
    assert heft("report", "--at", "peak", "--sort", "allocated", moments).status == 2
    assert heft("diff", "--at", "peak", "--sort", "count", moments, moments).status == 2


def test_window_without_frees(moments, heft):
    """Nothing of keep_one() is freed: in a window it has no lifetimes, and not 0 ns."""
    out = heft("report", "--lifetimes", "--sort", "live", "--from", "20%", "--to", "50%", moments).out
    (row,) = [line for line in out.splitlines() if "keep_one" in line]
    assert row.split()[1:4] == ["-", "-", "-"]
    (row,) = [line for line in heft("report", "--lifetimes", "--sort", "live", moments).out.splitlines()
              if "keep_one" in line]
    assert re.search(r"\d m?s ", row)  # of the whole run it is known


def test_mean_lifetimes(moments, heft, tmp_path):
    """DHAT's format has sums of lifetimes: a mean, and no more."""
    assert heft("export", "-q", "-f", "dhat", "-o", tmp_path / "x.json", moments).status == 0
    out = heft("report", "--lifetimes", tmp_path / "x.json").out
    assert re.search(r"^ +blocks +mean +site$", out, re.M)
    assert not re.search(r"p50|p99|\b0 ns", out)


def test_snapshot_is_live_then(heft, tmp_path):
    (tmp_path / "dump.heap").write_text("heap_v2/524288\n  t*: 1: 4096 [0: 0]\n  t0: 1: 4096 [0: 0]\n"
                                        "@ 0x10\n  t*: 1: 4096 [0: 0]\n\nMAPPED_LIBRARIES:\n")
    out = heft("report", "dump.heap").out
    assert re.search(r"^  live  ", out, re.M) and "live bytes" in out
    assert "at end" not in out and "at the end" not in out


@pytest.mark.parametrize("name, begins", [
    ("x.svg", b"<?xml"), ("x.pb.gz", b"\x1f\x8b"), ("x.folded", b"_start;"), ("x.csv", b"id,via,"),
    ("x.speedscope.json", b'{"$schema"'), ("x.zst", b"\x28\xb5\x2f\xfd"), ("massif.out.12", b"desc: "),
    ("dhat.out.12", b'{"dhatFileVersion"'), ("x.dhat.json", b'{"dhatFileVersion"')])
def test_format_of_the_name(moments, heft, tmp_path, name, begins):
    done = heft("export", "-o", name, moments)
    assert done.status == 0, done
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize("name, words", [
    ("x.json", "x.json could be json, speedscope or dhat: choose the format with -f"),
    ("x.txt", "the name x.txt does not say which format to write"), ("-", "no format given: choose it with -f, or by the end")])
def test_names_that_say_no_format(moments, heft, name, words):
    done = heft("export", "-o", name, moments)
    assert (done.status, done.out) == (2, "")
    assert words in done.err.splitlines()[0]


@pytest.mark.parametrize("said, meant", [
    ("start", "run"), ("record", "run"), ("show", "report"), ("print", "report"), ("stats", "report"),
    ("compare", "diff"), ("web", "view"), ("serve", "view"), ("convert", "export"), ("watch", "top"),
    ("validate", "verify"), ("daemon", "agent"), ("repotr", "report")])
def test_verbs_by_meaning(heft, said, meant):
    done = heft(said, "x")
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines()[0] == f"heft: no verb '{said}'; did you mean '{meant}'?"


@pytest.mark.parametrize("verb, said, meant", [
    ("report", "limit", "number"), ("report", "exclude", "ignore"), ("report", "since", "from"),
    ("export", "metric", "measure"), ("diff", "filter", "focus"), ("run", "rate", "sample")])
def test_options_by_meaning(heft, verb, said, meant):
    assert f"unknown option --{said}; did you mean --{meant}?" in heft(verb, f"--{said}", "x").err


@pytest.mark.parametrize("options, words", [
    (["--focus", "nosuchfn"], "no call stack matches --focus 'nosuchfn'"),
    (["--ignore", "."], "--ignore '.' leaves no call stack"),
    (["--focus", "grow", "--ignore", "main"], "with --focus 'grow' --ignore 'main' leaves no call stack")])
@pytest.mark.parametrize("verb", ["report", "report --json", "report --tree", "report --at peak",
                                  "export -f folded -o -", "diff"])
def test_a_selection_of_nothing_is_said(moments, heft, verb, options, words):
    verb, *more = verb.split()
    done = heft(verb, *more, *options, moments, *([moments] if verb == "diff" else []))
    said = done.err if verb == "export" else done.out
    assert done.status == 0 and words in " ".join(said.split()), done


def test_a_function_that_only_one_side_has_is_compared(moments, heft, tmp_path):
    empty = tmp_path / "true.heft"
    assert harness.run([harness.HEFT, "run", "-q", "-o", empty, "--", "/bin/true"]).returncode == 0
    done = heft("diff", "--focus", "grow", empty, moments)
    assert done.status == 0 and "1 new" in done.out
    assert "no call stack matches" not in done.out
    done = heft("report", "--focus", "grow", moments)
    assert "grow at " in done.out and "no call stack matches" not in done.out


def test_growth_of_a_window(tmp_path, heft):
    """seed() loses 4,096 bytes to resize(), which has 100 of them; hold() loses 10,000; grow() has 300,000."""
    window = ["--from", "20%", "--to", "80%", record_program(tmp_path, "window_growth")]
    rep = json.loads(heft("report", "--json", *window).out)
    assert {s["stack"][0]["function"]: s["grew_bytes"] for s in rep["sites"]} == {
        "seed": -4096, "resize": 100, "hold": -10000, "grow": 300000}
    t = rep["totals"]
    assert (t["start_bytes"], t["live_bytes"]) == (14096, 300100)
    tree = heft("report", "--tree", *window).out
    assert ": 293.1 KiB grown in the window" in tree
    assert "  left out      2 sites that shrank, by 13.8 KiB; all sites together grew +279.3 KiB\n" in tree
    assert "left out" not in heft("report", "--tree", "--sort", "live", *window).out
