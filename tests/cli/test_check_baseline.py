"""heft check with a baseline, and as the wrapper of programs in test suites: what it writes for them, what it leaves behind,
and many of them at a time. The program makes 100 messages of N bytes (200 without an argument) and as many copies of half the
size, 30,000 B in all; from 400 on also one block of 40,000 B. It frees them all."""

import concurrent.futures
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import xml.etree.ElementTree

import pytest

import harness

PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define KEPT __attribute__((noinline, noipa))
KEPT static char *clone_text(size_t n) { return memset(malloc(n), 1, n); }
KEPT static char *send_message(size_t n, char **copy)
{
	*copy = clone_text(n / 2);
	return memset(malloc(n), 1, n);
}
KEPT static char *extra(void) { return memset(malloc(40000), 1, 40000); }
int main(int argc, char **argv)
{
	static char *m[100], *c[100];
	int n = argc > 1 ? atoi(argv[1]) : 200;
	if (n < 100) {
		if (n == 9)
			pause();
		return n; /* 3: fails, 77: is skipped */
	}
	char *e = n >= 400 ? extra() : NULL;
	for (int i = 0; i < 100; i++)
		m[i] = send_message((size_t)n, &c[i]);
	for (int i = 0; i < 100; i++) {
		free(m[i]);
		free(c[i]);
	}
	free(e);
	return write(1, "out\n", 4) != 4;
}
"""

RULES = "peak_bytes <= baseline + 5 %\nallocations in clone_* <= baseline\nleft_bytes == 0\n"

BASELINE = """\
# heft baseline 1
# What the last accepted run measured. heft check --update-baseline renews this file.
peak_bytes == 30000
peak_blocks == 200
left_bytes == 0
left_blocks == 0
allocated_bytes == 30000
allocations == 200
reallocations == 0
temporary == 1
threads == 1
allocations in clone_* == 100

site peak_bytes=10000 peak_blocks=100 allocated_bytes=10000 allocations=100
	clone_text
	send_message
	main
"""


def build(folder, text=PROGRAM, name="queue_test"):
    folder.mkdir(exist_ok=True)
    (folder / "queue.c").write_text(text)
    subprocess.run(["gcc", "-g", "-O1", "-fno-builtin", "-o", folder / name, folder / "queue.c"],
                   check=True, timeout=60)
    return folder / name


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("suite") / "src")


@pytest.fixture
def check(heft, tmp_path):
    """Runs heft check with RULES, the baseline that a run of 200 B has left, and further options."""
    (tmp_path / "q.budget").write_text(RULES)
    (tmp_path / "tmp").mkdir()

    def call(*arguments, env=None, **options):
        return heft("check", "--budget", "q.budget", "--baseline", "q.baseline", *arguments,
                    env={"TMPDIR": str(tmp_path / "tmp"), **(env or {})}, **options)
    yield call
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.fixture
def accepted(check, program, tmp_path):
    done = check("--update-baseline", "--", program)
    assert (done.status, done.out, done.err) == (0, "out\n", "q.baseline: a first baseline\n"), done
    return (tmp_path / "q.baseline").read_text()


# ---- the baseline

def test_a_baseline_is_small_and_exact(accepted):
    assert accepted.startswith(BASELINE)
    assert accepted.endswith("\nend 0\n") and accepted.count("\nsite ") == 2
    assert not re.search(r"0x|\.c\b|:\d", accepted)


def test_nothing_changed(check, accepted, program):
    done = check("--", program)
    assert (done.status, done.out) == (0, "out\n")
    assert re.fullmatch(r"within budget: all 3 rules of q\.budget hold; nearest: allocations in clone_.*\n", done.err)
    done = check("-v", "--", program)
    assert "\nno number differs from the baseline q.baseline\n" in done.err


def test_what_changed_is_a_table(check, accepted, program, tmp_path):
    done = check("--", program, "202")  # 1 % more, within 5 %
    assert done.status == 0, done
    lines = done.err.splitlines()
    assert lines[1:3] == ["2 of 10 numbers differ from the baseline q.baseline", ""]
    assert [line.split() for line in lines[3:]] == [
        "measure baseline now change limit".split(),
        "peak_bytes 29.3 KiB 29.6 KiB +300 B (+1.0 %) <= 30.8 KiB".split(),
        "allocated_bytes 29.3 KiB 29.6 KiB +300 B (+1.0 %)".split()]
    starts = {line.index("29.3 KiB") for line in lines[4:]}
    assert len(starts) == 1 and all(len(line) <= 100 for line in lines)
    done = check("--", program, "400")
    assert done.status == 1
    assert (tmp_path / "q.baseline").read_text() == accepted
    lines = done.err.splitlines()
    assert lines[0] == "over budget: 1 of 3 rules of q.budget does not hold"
    assert lines[3].split() == "1 peak_bytes <= baseline + 5 % 30.8 KiB 97.7 KiB +66.9 KiB (+217.5 %)".split()
    assert [re.split(r"  +", line.strip())[0] for line in lines[4:7]] == ["+39.1 KiB", "+19.5 KiB", "+9.8 KiB"]
    assert "new  extra at " in lines[4] and "send_message at " in lines[5] and "clone_text at " in lines[6]
    assert "new" not in lines[5] + lines[6]
    row = next(line for line in lines if line.startswith("  peak_bytes "))
    assert row.endswith(" <= 30.8 KiB, broken")
    assert "If this is intended, --update-baseline accepts what was measured." in lines


def test_json(check, accepted, program):
    done = check("--json", "--", program, "400")
    result = json.loads(done.out.removeprefix("out\n"))
    assert (result["within"], result["baseline"]) == (False, "q.baseline")
    numbers = {n["measure"]: (n["baseline"], n["now"]) for n in result["numbers"]}
    assert numbers["peak_bytes"] == (30000, 100000) and numbers["allocations in clone_*"] == (100, 100)
    rule = result["rules"][0]
    assert (rule["limit"], rule["baseline"], rule["measured"]) == (31500, 30000, 100000)
    assert [(part["function"], part["value"], part.get("new", False)) for part in rule["grown"]] == [
        ("extra", 40000, True), ("send_message", 20000, False), ("clone_text", 10000, False)]
    assert "grown" not in result["rules"][1]


def test_a_rebuild_changes_nothing(check, accepted, tmp_path):
    """Another folder, other lines, another name of the file, another size of the code."""
    moved = PROGRAM.replace("int main", "\n\n\nvoid unused(void) { write(2, 0, 0); }\nint main")
    other = build(tmp_path / "elsewhere", moved, "renamed")
    done = check("--update-baseline", "--", other)
    assert (done.status, done.err) == (0, "q.baseline: this run measured the same, nothing was written\n")


def test_a_change_is_accepted(check, accepted, program, tmp_path):
    path = tmp_path / "q.baseline"
    path.chmod(0o640)
    before = path.stat().st_ino
    done = check("--update-baseline", "--", program, "400")
    assert done.status == 0
    assert done.err.startswith("q.baseline: renewed\n4 of 10 numbers differ from the baseline q.baseline\n")
    assert "peak_bytes == 100000\n" in path.read_text() and path.stat().st_ino != before
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert check("--", program, "400").status == 0
    done = check("--", program, "200")  # less is within the budget
    assert done.status == 0 and "-68.4 KiB (-70.0 %)" in done.err


def test_the_environment_asks_for_it(check, accepted, program, tmp_path):
    done = check("--", program, "400", env={"HEFT_UPDATE_BASELINE": "0"})
    assert done.status == 1
    done = check("--", program, "400", env={"HEFT_UPDATE_BASELINE": "1"})
    assert (done.status, done.err.splitlines()[0]) == (0, "q.baseline: renewed")


def test_what_is_not_accepted(check, heft, accepted, program, tmp_path):
    """Limits that are numbers stay limits, and half a run is none."""
    path = tmp_path / "q.baseline"
    (tmp_path / "q.budget").write_text(RULES + "peak_bytes <= 64k\n")
    done = check("--update-baseline", "--", program, "400")
    assert done.status == 1
    assert "over budget: 1 of 4 rules of q.budget does not hold" in done.err
    assert done.err.endswith("heft: q.baseline was not written: rules with limits of their own do not hold\n")
    done = check("--update-baseline", "--", program, "3")
    assert done.status == 1 and "failed with exit status 3; the budget was not checked" in done.err
    heft("run", "-q", "-o", "whole.heft", program, "400")
    (tmp_path / "cut.heft").write_bytes((tmp_path / "whole.heft").read_bytes()[:-100])
    (tmp_path / "q.budget").write_text(RULES)
    done = check("--update-baseline", "cut.heft")
    assert done.status == 1 and "cut.heft is incomplete" in done.err
    heft("run", "-q", "--sample=1k", "-o", "sampled.heft", program, "400")
    done = check("--update-baseline", "sampled.heft")
    assert done.status == 1 and "sampled.heft is sampled: a baseline needs an exact recording" in done.err
    assert path.read_text() == accepted
    # With --update the limit is renewed, and then the baseline is, too.
    (tmp_path / "q.budget").write_text(RULES + "peak_bytes <= 64k\n")
    done = check("--update", "--update-baseline", "--headroom=0", "--", program, "400")
    assert done.status == 0, done
    assert (tmp_path / "q.budget").read_text() == RULES + "peak_bytes <= 97.7k\n"
    assert "peak_bytes == 100000\n" in path.read_text()


def test_update_alone_keeps_relative_rules(check, accepted, program, tmp_path):
    done = check("--update", "--", program, "400")
    assert done.status == 1
    assert "does not hold, measured 97.7 KiB; --update-baseline accepts it" in done.err
    assert (tmp_path / "q.budget").read_text() == RULES


def test_first_budget_with_a_baseline(heft, program, tmp_path):
    done = heft("check", "--update", "--update-baseline", "--headroom=7", "--budget", "new", "--baseline", "base",
                "--", program)
    assert done.status == 0, done
    rules = [line for line in (tmp_path / "new").read_text().splitlines() if not line.startswith("#")]
    assert rules == ["peak_bytes <= baseline + 7 %", "left_bytes <= baseline", "allocations <= baseline + 7 %",
                     "allocated_bytes <= baseline + 7 %", "dropped == 0"]
    assert heft("check", "--budget", "new", "--baseline", "base", "--", program).status == 0
    assert heft("check", "--budget", "new", "--baseline", "base", "--", program, "220").status == 1


def test_a_rule_that_the_baseline_does_not_know(check, accepted, program, tmp_path):
    (tmp_path / "q.budget").write_text(RULES + "frees <= baseline\n")
    done = check("--", program)
    assert done.status == 1
    assert re.search(r" 4  frees <= baseline +0 +-  not in the baseline: --update-baseline adds it\n", done.err), done
    assert check("--update-baseline", "--", program).status == 0
    assert check("--", program).status == 0


def test_nothing_is_run_without_a_sound_baseline(check, heft, accepted, tmp_path):
    path = tmp_path / "q.baseline"

    def refused(message, *options):
        before = path.read_bytes() if path.exists() else None
        done = check(*options, "--", "touch", "ran")
        assert (done.status, done.out) == (1, ""), done
        assert done.err == f"heft: {message}\n"
        assert (path.read_bytes() if path.exists() else None) == before
        assert not (tmp_path / "ran").exists()

    for options in [], ["--update-baseline"]:
        path.write_text(accepted[:-20])
        line = accepted[:-20].count("\n") + 1
        column = len(accepted[:-20].splitlines()[-1]) + 1
        refused(f'q.baseline:{line}:{column}: expected "end": the rest of the file is missing', *options)
        path.write_text(accepted.replace("peak_bytes == 30000", "peak_bytes == lots"))
        refused("q.baseline:3:15: expected a size such as 4096, 64k, 1.5M or 2G, found 'lots'", *options)
        path.write_bytes(b"\x7fELF\0\0\1\2")
        refused('q.baseline:1:1: expected "# heft baseline 1", the first line of a baseline', *options)
        path.write_text("<<<<<<< ours\n" + accepted)
        refused('q.baseline:1:1: expected "# heft baseline 1", the first line of a baseline', *options)
    path.unlink()
    refused("q.baseline: there is no such baseline\n      --update-baseline makes one from what is measured")
    done = heft("check", "--budget", "q.budget", "--", "touch", "ran")
    assert done.status == 1
    assert done.err == "heft: q.budget:1: this rule needs a baseline\n      --baseline FILE names it\n"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("arguments, words", [
    (["--update-baseline", "x"], "--update-baseline needs --baseline FILE"),
    (["--baseline", "b", "--at", "peak", "x"], "--at and --baseline exclude each other"),
    (["--failed-only", "--", "true"], "--failed-only needs -o FILE"),
    (["--annotations", "gitlab", "x"], "auto|github|never"),
])
def test_wrong_usage(heft, arguments, words):
    done = heft("check", "--budget", "b", *arguments)
    assert (done.status, done.out) == (2, ""), done
    assert words in done.err


# ---- the wrapper

def test_skipped_is_skipped(check, accepted, program, tmp_path):
    done = check("--junit", "out.xml", "-o", "kept.heft", "--failed-only", "--", program, "77")
    assert (done.status, done.out) == (77, "")
    assert done.err == f"heft: {program} was skipped (exit status 77); the budget was not checked\n"
    suite = xml.etree.ElementTree.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("skipped"), suite.get("errors")) == ("1", "1", "0")
    assert suite.find("testcase/skipped") is not None
    assert not (tmp_path / "kept.heft").exists()


def test_recordings_of_failures_are_kept(check, accepted, program, tmp_path):
    for size, kept in ("200", False), ("400", True), ("3", True):
        check("-o", "kept.%e.heft", "--force", "--failed-only", "--", program, size)
        assert [p.name for p in tmp_path.glob("kept*")] == (["kept.queue_test.heft"] if kept else [])
        for path in tmp_path.glob("kept*"):
            path.unlink()


def test_names_depend_on_the_command(heft, program, tmp_path):
    """One command line for all programs of a suite; cargo puts a hash behind their names."""
    (tmp_path / "queue_test.budget").write_text("peak_bytes <= baseline\n")
    (tmp_path / "other.budget").write_text("peak_bytes <= baseline\n")
    shutil.copy(program, tmp_path / "other-0123456789abcdef")
    for command, name in (program, "queue_test"), ("./other-0123456789abcdef", "other"):
        done = heft("check", "--budget", "%e.budget", "--baseline", "%e.baseline", "--junit", "%e.xml",
                    "--update-baseline", "--", command)
        assert done.status == 0, done
        assert (tmp_path / f"{name}.baseline").exists() and (tmp_path / f"{name}.xml").exists()
    shutil.copy(tmp_path / "other.budget", tmp_path / "100%e.budget")
    heft("run", "-q", "-o", "a.heft", program)  # a recording has no command: the name is as it is written
    assert heft("check", "--budget", "100%e.budget", "--baseline", "other.baseline", "a.heft").status == 0


def test_junit(check, accepted, program, tmp_path):
    done = check("-q", "--junit", "out.xml", "--", program, "400")
    assert done.status == 1
    root = xml.etree.ElementTree.parse(tmp_path / "out.xml").getroot()
    suite = root.find("testsuite")
    assert {k: suite.get(k) for k in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "q.budget", "tests": "3", "failures": "1", "errors": "0", "skipped": "0"}
    assert suite.find("properties/property").get("value") == f"{program} 400"
    cases = suite.findall("testcase")
    assert [(c.get("classname"), c.get("name"), c.get("line"), len(c)) for c in cases] == [
        ("queue_test", "peak_bytes <= baseline + 5 %", "1", 1),
        ("queue_test", "allocations in clone_* <= baseline", "2", 0), ("queue_test", "left_bytes == 0", "3", 0)]
    failure = cases[0].find("failure")
    assert failure.get("message") == "peak_bytes <= baseline + 5 %: measured 97.7 KiB, limit 30.8 KiB, " \
                                     "off by +66.9 KiB (+217.5 %)"
    assert failure.text.splitlines()[1].split()[:5] == ["+39.1", "KiB", "new", "extra", "at"]
    assert check("--junit", "out.xml", "--", program).status == 0
    suite = xml.etree.ElementTree.parse(tmp_path / "out.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "0")


def test_junit_of_what_was_not_measured(heft, check, accepted, program, tmp_path):
    for command, words in ([program, "3"], "failed with exit status 3"), (["./none"], "none"):
        assert check("--junit", "out.xml", "--", *command).status == 1
        suite = xml.etree.ElementTree.parse(tmp_path / "out.xml").getroot()[0]
        assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
        assert words in suite.find("testcase/error").get("message")
    (tmp_path / "q.budget").write_text("peak_byte <= 1\n")
    assert check("--junit", "out.xml", "--", program).status == 1
    suite = xml.etree.ElementTree.parse(tmp_path / "out.xml").getroot()[0]
    assert suite.find("testcase/error").get("message").startswith("q.budget:1:1: expected a measure")
    (tmp_path / "q.budget").write_text(RULES)
    done = check("--junit", "no/such/folder.xml", "--", program)
    assert done.status == 1 and "within budget" in done.err and "cannot write beside no/such/folder.xml" in done.err


def test_annotations(check, accepted, program, tmp_path):
    source = program.parent / "queue.c"
    line = 1 + PROGRAM.splitlines().index('KEPT static char *extra(void) { return memset(malloc(40000), 1, 40000); }')
    for options, env in (["--annotations=github"], {}), (["--annotations", "auto"], {"GITHUB_ACTIONS": "true"}):
        done = check(*options, "--", program, "400", env={"GITHUB_WORKSPACE": str(source.parents[1]), **env})
        notes = [text for text in done.err.splitlines() if text.startswith("::")]
        assert len(notes) == 1
        assert notes[0].startswith(f"::error file=src/queue.c,line={line},title=heft%3A over budget::peak_bytes <= "
                                   "baseline + 5 %25: measured 97.7 KiB, limit 30.8 KiB, off by +66.9 KiB (+217.5 %25)"
                                   "%0A")
    # A source file of another folder: the rule's line of the budget.
    done = check("--annotations=github", "--", program, "400")
    assert "\n::error file=q.budget,line=1,title=" in "\n" + done.err
    for options in [], ["--annotations=auto"], ["--annotations=never"]:
        assert "::" not in check(*options, "--", program, "400").err.replace("::...", "")


def test_many_at_a_time(heft, program, tmp_path):
    """They share budget and baseline, and some renew it meanwhile."""
    (tmp_path / "b").write_text("peak_bytes <= baseline\nallocations == 200\n")
    assert heft("check", "--update-baseline", "--budget", "b", "--baseline", "base", "--", program).status == 0
    before = (tmp_path / "base").read_text()

    def one(number):
        options = ["--update-baseline"] if number % 4 == 0 else []
        return heft("check", *options, "--junit", f"{number}.xml", "--budget", "b", "--baseline", "base", "--",
                    program, "200")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        done = list(pool.map(one, range(24)))
    assert [d.status for d in done] == [0] * 24, next(d for d in done if d.status)
    assert all(d.out == "out\n" for d in done)
    assert (tmp_path / "base").read_text() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["b", "base", *(f"{n}.xml" for n in range(24))])


def test_several_processes_and_folders(heft, program, tmp_path):
    """A test may be a script; its programs are measured together, in the folder that they were started in."""
    (tmp_path / "b").write_text("allocations in send_message == 600\nleft_bytes in main == 0\n")
    (tmp_path / "inside").mkdir()
    done = heft("check", "--budget", "../b", "--", "sh", "-c", f"{program} && {program} & {program}; wait; pwd",
                cwd=tmp_path / "inside")
    assert done.status == 0, done
    assert done.out.splitlines()[-1] == str(tmp_path / "inside") and done.out.count("out\n") == 3
    assert list((tmp_path / "inside").iterdir()) == []


def runs(pid, program):
    try:
        return os.path.samefile(f"/proc/{pid}/exe", program)
    except OSError:
        return False


def test_a_runner_may_end_it(tmp_path, program):
    """Runners end tests that take too long: heft passes the signal on and leaves nothing behind."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "b").write_text("left_bytes == 0\n")
    process = harness.start([harness.HEFT, "check", "--budget", "b", "--", program, "9"], cwd=tmp_path,
                            env={"TMPDIR": str(tmp_path / "tmp")})
    harness.wait_until(lambda: any(runs(pid, program) for pid in harness.children_of(process.pid)), what="the program")
    assert list((tmp_path / "tmp").glob("*/recording.heft"))
    os.kill(process.pid, signal.SIGTERM)
    _, err = process.communicate(timeout=harness.TIME_LIMIT)
    assert process.returncode == 1 and b"was killed by signal 15 (SIGTERM)" in err
    assert list((tmp_path / "tmp").iterdir()) == []
