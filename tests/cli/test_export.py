"""heft export: each format of a recording whose bytes are known (tests/programs/export_phases.c),
agreement with the report, the refusals, and that no file is ever left half."""

import csv
import io
import json
import os
import re
import shutil
import subprocess

import pytest

import harness

FORMATS = ("flamegraph", "folded", "speedscope", "csv", "json")


@pytest.fixture(scope="session")
def phases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phases")
    program = folder / "export_phases"
    subprocess.run(["gcc", *harness.C_FLAGS, "-o", program,
                    harness.PROGRAMS / "export_phases.c"], check=True)
    path = folder / "phases.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", program])
    assert done.returncode == 0, done.stderr
    return path


def folded_of(heft, *arguments):
    done = heft("export", "-f", "folded", "-o", "-", *arguments)
    assert (done.status, done.err) == (0, ""), done
    stacks = {}
    for line in done.out.splitlines():
        stack, value = line.rsplit(" ", 1)
        assert stack not in stacks
        stacks[stack] = int(value)
    return stacks


def own(stacks):
    """Those of the program itself, by their last function."""
    return {s.split(";")[-1]: v for s, v in stacks.items()
            if s.split(";")[-1] in ("keep", "burst", "briefly")}


@pytest.mark.parametrize("options, expected", [
    ([], {"keep": 3000, "burst": 100000}),
    (["--at", "peak"], {"keep": 3000, "burst": 100000}),
    (["-m", "peak"], {"keep": 3000, "burst": 100000}),
    (["--at", "end"], {"keep": 3000}),
    (["--measure", "live"], {"keep": 3000}),
    (["--at", "100%"], {"keep": 3000}),
    (["--at", "0"], {}),
    (["-m", "allocated"], {"keep": 3000, "burst": 100000, "briefly": 6400}),
    (["-m", "count"], {"keep": 3, "burst": 10, "briefly": 100}),
    # The last block of the burst is freed before another one is allocated.
    (["-m", "temporary"], {"briefly": 100, "burst": 1}),
    (["--focus", "^burst$"], {"burst": 100000}),
    (["--ignore", "^burst$"], {"keep": 3000}),
])
def test_folded(heft, phases, options, expected):
    assert own(folded_of(heft, *options, phases)) == expected


def test_folded_adds_up_to_the_report(heft, phases):
    report = harness.report(phases)
    totals = report["totals"]
    assert sum(folded_of(heft, phases).values()) == totals["peak_bytes"]
    assert sum(folded_of(heft, "-m", "count", phases).values()) == totals["allocations"]
    assert sum(folded_of(heft, "-m", "allocated", phases).values()) == totals["allocated_bytes"]
    mean = sum(s["lifetime_ns"]["mean"] * (s["frees"] + s["live_blocks"]) for s in report["sites"])
    assert sum(folded_of(heft, "-m", "lifetime", phases).values()) == mean


def test_a_part_of_the_run_is_as_in_the_report(heft, phases):
    for options in (["--from", "0", "--to", "100%"], ["--pid", str(harness.report(phases)["pid"])]):
        report = harness.report(phases, *options)
        assert sum(folded_of(heft, *options, phases).values()) == report["totals"]["peak_bytes"]


@pytest.mark.parametrize("when", ["10%", "50%", "90%"])
def test_an_instant_is_as_in_the_report(heft, phases, when):
    report = harness.report(phases, "--from", when, "--to", when)
    assert sum(folded_of(heft, "--at", when, phases).values()) == report["totals"]["live_bytes"]


def test_inverted(heft, phases):
    stacks = folded_of(heft, "--invert", phases)
    assert any(s.startswith("burst;main") and v == 100000 for s, v in stacks.items()), stacks


def test_json_is_the_report(heft, phases):
    assert heft("export", "-f", "json", "-o", "-", phases).out == \
        heft("report", "--json", phases).out
    assert heft("export", "-f", "json", "-o", "-", "--focus", "^burst$", phases).out == \
        heft("report", "--json", "--focus", "^burst$", phases).out


def test_csv_has_every_site_with_every_measure(heft, phases):
    done = heft("export", "-f", "csv", "-o", "-", phases)
    assert done.out.count("\r\n") == done.out.count("\n")
    rows = list(csv.DictReader(io.StringIO(done.out, newline="")))
    sites = harness.report(phases)["sites"]
    assert [int(r["id"]) for r in rows] == [s["id"] for s in sites]
    for row, site in zip(rows, sites):
        for column in (*harness.COLUMNS, "frees", "peak_blocks", "live_slack_bytes"):
            assert int(row[column]) == site[column], column
        for name, value in site["lifetime_ns"].items():
            assert int(row[f"lifetime_{name}_ns"]) == value
        assert row["via"] == site["via"]
        assert row["function"] == site["stack"][0]["function"]
        assert row["file"] == site["stack"][0]["file"]
        assert row["module"] == site["stack"][0]["module"]
        assert row["stack"].split(";") == [f["function"] for f in reversed(site["stack"])]
    by_count = heft("export", "-f", "csv", "-m", "count", "-o", "-", phases).out
    counts = [int(r["allocations"]) for r in csv.DictReader(io.StringIO(by_count, newline=""))]
    assert counts == sorted(counts, reverse=True)


def test_speedscope_weights(heft, phases):
    data = json.loads(heft("export", "-f", "speedscope", "-m", "allocated", "-o", "-", phases).out)
    totals = harness.report(phases)["totals"]
    sums = {p["name"]: sum(p["weights"]) for p in data["profiles"]}
    assert sums == {"live at the peak": totals["peak_bytes"],
                    "live at the end": totals["live_bytes"],
                    "allocated in all": totals["allocated_bytes"],
                    "allocations": totals["allocations"],
                    "temporary allocations": totals["temporary"]}
    assert data["profiles"][data["activeProfileIndex"]]["name"] == "allocated in all"
    frames = data["shared"]["frames"]
    for profile in data["profiles"]:
        assert len(profile["samples"]) == len(profile["weights"])
        assert all(0 <= i < len(frames) for s in profile["samples"] for i in s)
        assert profile["endValue"] == sum(profile["weights"])


def test_flamegraph_has_the_pages_palette():
    """flamegraph.css and web/src/colours.ts say the same: eight hues, grey, and the root's."""
    root = harness.PROGRAMS.parents[1]
    style = (root / "src/export/flamegraph.css").read_text()
    page = (root / "web/src/colours.ts").read_text()
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for ours, name in ((light, "LIGHT"), (dark.split("}")[0], "DARK")):
        theirs = page.split(f"const {name}: Palette = {{")[1].split("};")[0]
        expected = re.findall(r"#\w+", theirs.split("]")[0])
        expected += [re.search(rf"\b{k}: \"(#\w+)\"", theirs).group(1) for k in ("system", "root")]
        assert len(expected) == 10
        assert [re.search(rf"--{k}: (#\w+);", ours).group(1)
                for k in [*(f"k{i}" for i in range(9)), "root"]] == expected


def test_flamegraph_is_valid_xml(heft, phases, tmp_path):
    if not shutil.which("xmllint"):
        pytest.skip("no xmllint")
    for options in ([], ["--invert"], ["-m", "count"], ["--at", "50%"], ["-m", "lifetime"]):
        assert heft("export", "-f", "flamegraph", "--force", "-o", "a.svg", *options,
                    phases).status == 0
        done = subprocess.run(["xmllint", "--noout", tmp_path / "a.svg"], capture_output=True)
        assert (done.returncode, done.stderr) == (0, b""), options


@pytest.mark.parametrize("option", FORMATS)
def test_default_names(heft, phases, tmp_path, option):
    extension = {"flamegraph": "svg", "speedscope": "speedscope.json"}.get(option, option)
    done = heft("export", "-f", option, phases)
    assert (done.status, done.out) == (0, ""), done
    assert os.listdir(tmp_path) == [f"phases.{extension}"]
    assert done.err == f"heft: wrote phases.{extension}\n"
    size = (tmp_path / f"phases.{extension}").stat().st_size
    again = heft("export", "-f", option, phases)
    assert again.status == 1 and "--force" in again.err, again
    assert (tmp_path / f"phases.{extension}").stat().st_size == size
    assert heft("export", "-q", "--force", "-f", option, phases).err == ""
    assert heft("export", "-f", option, "-o", "-", phases).out.encode() == \
        (tmp_path / f"phases.{extension}").read_bytes()


@pytest.mark.parametrize("name, expected", [
    ("heft.program.1234.heft", "heft.program.1234.csv"),
    ("program.1234", "program.1234.csv"),
    ("plain", "plain.csv"),
    (".hidden", ".hidden.csv"),
    ("profile.pb.gz", "profile.csv"),
    ("heaptrack.program.77.zst", "heaptrack.program.77.csv"),
])
def test_default_name_of_others(heft, phases, tmp_path, name, expected):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shutil.copy(phases, folder / name)
    assert heft("export", "-f", "csv", folder / name).status == 0
    assert (tmp_path / expected).exists(), os.listdir(tmp_path)


def test_every_format_is_offered(heft, phases):
    """The list in help and completions, and nothing in it that does not work."""
    text = heft("export", "--help").out
    offered = re.search(r"--format (\S+)", text).group(1).split("|")
    assert set(FORMATS) <= set(offered)
    for name in offered:
        done = harness.run([harness.HEFT, "export", "-f", name, "-o", "-", phases])
        assert done.returncode == 0 and done.stdout, name
    wrong = heft("export", "-f", "nonsense", phases)
    assert wrong.status == 2 and "flamegraph" in wrong.err, wrong


@pytest.mark.parametrize("arguments, words", [
    (["x.heft"], "no format given"),
    (["-f", "csv"], "which recording"),
    (["-f", "csv", "a", "b"], "one too many"),
    (["-f", "csv", "--raw", "a"], "--raw works with pprof"),
    (["-f", "csv", "--invert", "a"], "--invert works with"),
    (["-f", "csv", "--at", "noon", "a"], "--at needs"),
    (["-f", "csv", "--at", "1s", "--from", "1s", "a"], "not both"),
    (["-f", "csv", "--at", "end", "-m", "count", "a"], "--measure count"),
    (["-f", "csv", "--at", "end", "-m", "peak", "a"], "--measure peak"),
    (["-f", "csv", "-m", "bytes", "a"], "peak|live|left|allocated|count|temporary|lifetime"),
])
def test_wrong_usage(heft, tmp_path, arguments, words):
    done = heft("export", *arguments)
    assert (done.status, done.out) == (2, ""), done
    assert words in done.err, done
    assert os.listdir(tmp_path) == []


def test_time_after_the_end(heft, phases, tmp_path):
    for options in (["--at", "9h"], ["--from", "9h"]):
        done = heft("export", "-f", "csv", *options, phases)
        assert (done.status, done.out) == (2, ""), done
        assert "end of the recording" in done.err
    assert os.listdir(tmp_path) == []


def test_what_cannot_be_read_or_written(heft, phases, tmp_path):
    done = heft("export", "-f", "csv", "nothing.heft")
    assert done.status == 1 and "nothing.heft" in done.err, done
    (tmp_path / "wrong.heft").write_bytes(b"not a recording at all")
    done = heft("export", "-f", "csv", "wrong.heft")
    assert done.status == 1 and "wrong.heft" in done.err, done
    done = heft("export", "-f", "csv", "-o", "no/such/folder.csv", phases)
    assert done.status == 1 and "no/such/folder.csv" in done.err, done
    done = heft("export", "-f", "csv", "-o", tmp_path, "--force", phases)
    assert done.status == 1 and "directory" in done.err, done
    assert os.listdir(tmp_path) == ["wrong.heft"]


def test_never_over_its_input(heft, phases, tmp_path):
    shutil.copy(phases, tmp_path / "in.heft")
    before = (tmp_path / "in.heft").read_bytes()
    os.link(tmp_path / "in.heft", tmp_path / "same")
    for name in ("in.heft", "same", "./in.heft"):
        done = heft("export", "-f", "csv", "--force", "-o", name, "in.heft")
        assert done.status == 1 and "is the input file itself" in done.err, done
    assert (tmp_path / "in.heft").read_bytes() == before


def test_full_disk(heft, phases, tmp_path):
    """A file size limit stands in for the disk: nothing is left, the old file stays."""
    (tmp_path / "a.csv").write_text("old")
    done = subprocess.run(["bash", "-c", "trap '' XFSZ; ulimit -f 1; exec \"$@\"", "bash",
                           harness.HEFT, "export", "-f", "flamegraph", "--force", "-o",
                           tmp_path / "a.csv", phases], capture_output=True, timeout=60)
    assert done.returncode == 1 and b"a.csv" in done.stderr, done
    assert os.listdir(tmp_path) == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "old"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([harness.HEFT, "export", "-f", "csv", "-o", "-", phases],
                              stdout=full, stderr=subprocess.PIPE, timeout=60)
    assert done.returncode == 1 and b"standard output" in done.stderr, done


def test_pipes(heft, phases, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE)
    done = heft("export", "-f", "csv", "-o", fifo, phases)
    text = reader.communicate(timeout=60)[0]
    assert done.status == 0, done
    assert text.startswith(b"id,via,") and text.endswith(b"\r\n")
    assert heft("export", "-f", "csv", "-o", "/dev/stdout", phases).out.encode() == text


def test_hostile_names(phases, tmp_path):
    """Function names of a program that wants to break its reader."""
    if not shutil.which("objcopy"):
        pytest.skip("no objcopy")
    evil = "<script>alert(1)</script>\"'&;\n\x1b[31m\x80" + "A" * 10000
    plain = tmp_path / "plain"
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-o", plain,
                    harness.PROGRAMS / "export_phases.c"], check=True)
    program = tmp_path / "hostile"
    subprocess.run([b"objcopy", b"--redefine-sym",
                    b"burst=" + evil.encode("latin-1"), bytes(plain), bytes(program)], check=True)
    recording = tmp_path / "hostile.heft"
    harness.run([harness.HEFT, "run", "-q", "-o", recording, "--", program, evil[:30]])
    for name in FORMATS:
        done = harness.run([harness.HEFT, "export", "-f", name, "-o", "-", recording])
        assert done.returncode == 0, done.stderr
        text = done.stdout.decode()  # valid UTF-8
        assert "\x1b" not in text
        if name == "flamegraph":
            assert text.count("<script") == 1
            assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
            assert len(text) < 1000000
        if name == "folded":
            lines = [line for line in text.splitlines() if "alert(1)" in line]
            assert len(lines) == 1 and lines[0].endswith(" 100000"), lines
            assert ";<script>alert(1)</script>\"'&:\\x0a\\x1b[31m\\x80AAA" in lines[0]
        if name == "csv":
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
            assert sum("alert(1)" in r["function"] for r in rows) == 1
        if name in ("json", "speedscope"):
            json.loads(text)


def test_a_cut_recording_says_so(heft, phases, tmp_path):
    cut = tmp_path / "cut.heft"
    cut.write_bytes(phases.read_bytes()[:-100])
    done = heft("export", "-f", "folded", "-o", "-", cut)
    assert done.status == 0 and done.out
    assert f"{cut} is incomplete (cut off, or still being written)" in done.err
    assert heft("export", "-q", "-f", "folded", "-o", "-", cut).err == ""
