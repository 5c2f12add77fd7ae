"""heft check: budgets against recordings and commands. The program allocates 100 x 1000 B in
send_message and 50 x 200 B in copy, frees all, or with an argument leaks 5000 B or fails."""

import json
import os
import re
import stat
import subprocess

import pytest

import harness

PROGRAM = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define KEPT __attribute__((noinline, noipa))
KEPT static char *copy(void) { return memset(malloc(200), 1, 200); }
KEPT static char *send_message(int i, char **copied)
{
	*copied = i % 2 ? copy() : NULL;
	return memset(malloc(1000), 1, 1000);
}
int main(int argc, char **argv)
{
	static char *m[100], *c[100];
	for (int i = 0; i < 100; i++)
		m[i] = send_message(i, &c[i]);
	for (int i = 0; i < 100; i++) {
		free(m[i]);
		free(c[i]);
	}
	char line[64] = "out "; /* stdio would allocate */
	if (read(0, line + 4, sizeof line - 5) < 0 || write(1, line, strlen(line)) < 0 ||
	    write(2, "err\n", 4) < 0)
		return 9;
	if (argc > 1 && !strcmp(argv[1], "leak"))
		memset(malloc(5000), 1, 5000);
	if (argc > 1 && !strcmp(argv[1], "fail"))
		return 3;
	if (argc > 1 && !strcmp(argv[1], "die"))
		abort();
	return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked")
    (folder / "checked.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-O1", "-fno-builtin", "-o", folder / "checked",
                    folder / "checked.c"], check=True, timeout=60)
    return folder / "checked"


@pytest.fixture(scope="module")
def recorded(program):
    path = program.parent / "checked.heft"
    assert harness.run([harness.HEFT, "run", "-q", "-o", path, program]).returncode == 0
    return path


@pytest.fixture
def budget(tmp_path):
    def write(*lines):
        path = tmp_path / "b.budget"
        path.write_text("".join(line + "\n" for line in lines))
        return path
    return write


@pytest.fixture
def temporary(tmp_path):
    """Where commands' recordings go; nothing may stay there."""
    folder = tmp_path / "with % sign %p"
    folder.mkdir()
    yield folder
    assert list(folder.iterdir()) == []


EVERY = ["peak_bytes == 110000", "allocations == 150", "allocated_bytes <= 110000", "frees == 150",
         "live_bytes == 0", "allocations in copy <= 50", "peak_bytes in send_* == 110000",
         "peak_bytes in file:checked.c == 110000", "allocations in module:checked == 150",
         "allocations in thread:checked == 150", "threads == 1", "dropped == 0",
         "duration_ns < 60s"]


def test_within_says_one_line(heft, recorded, budget):
    done = heft("check", "--budget", budget(*EVERY), recorded)
    assert (done.status, done.err) == (0, ""), done
    assert done.out.startswith(f"within budget: all {len(EVERY)} rules of ")
    assert done.out.count("\n") == 1
    assert heft("check", "-q", "--budget", budget(*EVERY), recorded).out == ""
    assert heft("check", recorded, "--budget", budget(*EVERY)).status == 0
    every = heft("check", "-v", "--budget", budget(*EVERY), recorded).out
    assert every.count(" holds\n") == len(EVERY)


def test_over_names_rules_and_sites(heft, recorded, budget):
    done = heft("check", "--budget", budget("# three", "peak_bytes <= 100k", "live_bytes == 0",
                                            "allocations in cop? < 50"), recorded)
    assert (done.status, done.err) == (1, ""), done
    lines = done.out.splitlines()
    assert lines[0].startswith("over budget: 2 of 3 rules of ")
    assert lines[3].split() == ["2", "peak_bytes", "<=", "100k", "100.0", "KiB", "107.4", "KiB",
                                "+7.4", "KiB", "(+7.4", "%)"]
    assert lines[4].split()[:5] == ["97.7", "KiB", "90.9", "%", "send_message"]
    assert lines[5].split()[:5] == ["9.8", "KiB", "9.1", "%", "copy"]
    assert lines[6].split() == ["4", "allocations", "in", "cop?", "<", "50", "50", "50", "+0",
                                "(+0.0", "%)"]
    assert lines[-1] == f"Next: heft report {recorded}"
    assert "\033" not in done.out


def test_json(heft, recorded, budget):
    path = budget("peak_bytes <= 100k", "allocations in copy == 50", "frees in thread:c* == 150")
    done = heft("check", "--json", "--budget", path, recorded)
    assert (done.status, done.err) == (1, "")
    result = json.loads(done.out)
    assert (result["schema"], result["within"], result["budget"]) == (1, False, str(path))
    assert result["recording"] == str(recorded)
    first, second, third = result["rules"]
    assert (first["limit"], first["measured"], first["holds"]) == (102400, 110000, False)
    assert first["parts"][0]["function"] == "send_message"
    assert first["parts"][0]["value"] == 100000
    assert (second["scope"], second["pattern"], second["holds"]) == ("function", "copy", True)
    assert third["parts"][0]["thread"] == "checked"


def test_command(heft, program, budget, temporary, tmp_path):
    env = {"TMPDIR": str(temporary)}
    (tmp_path / "in").write_text("put\n")
    with open(tmp_path / "in") as given:
        done = heft("check", "--budget", budget("live_bytes == 0"), "--", program, env=env,
                    stdin=given)
    assert (done.status, done.out) == (0, "out put\n")
    assert done.err.startswith("err\nwithin budget: the rule of ")
    done = heft("check", "-q", "--budget", budget("live_bytes == 0"), "--", program, env=env)
    assert (done.status, done.err) == (0, "err\n")
    done = heft("check", "--budget", budget("live_bytes == 0"), "--", program, "leak", env=env)
    assert done.status == 1
    assert "over budget: 1 of 1 rule of" in done.err
    assert re.search(r"live_bytes == 0 +0 B +4\.9 KiB +\+4\.9 KiB\n", done.err), done.err
    assert done.err.rstrip().endswith("Next: run this again with -o FILE to keep the recording "
                                      "for heft report")


def test_command_that_fails(heft, program, budget, temporary):
    env = {"TMPDIR": str(temporary)}
    rules = budget("allocations <= 1")
    before = rules.read_text()
    for argument, words in (("fail", "failed with exit status 3"),
                            ("die", "was killed by signal 6 (SIGABRT)")):
        for options in ([], ["--update"]):
            done = heft("check", *options, "--budget", rules, "--", program, argument, env=env)
            assert done.status == 1
            assert f"{words}; the budget was not checked" in done.err
    done = heft("check", "--budget", rules, "--", "./nothing", env=env)
    assert (done.status, done.out) == (1, "") and "nothing" in done.err
    assert rules.read_text() == before


def test_recording_is_kept_on_demand(heft, program, budget, temporary, tmp_path):
    env = {"TMPDIR": str(temporary)}
    rules = budget("allocations <= 1")
    done = heft("check", "-o", "kept.heft", "--budget", rules, "--", program, env=env)
    assert done.status == 1
    assert done.err.splitlines()[-1] == "Next: heft report --sort count kept.heft"
    assert heft("verify", "kept.heft").status == 0
    done = heft("check", "-o", "kept.heft", "--budget", rules, "--", program, env=env)
    assert done.status == 1 and "kept.heft" in done.err and "out" not in done.out
    done = heft("check", "-o", "kept.heft", "--force", "--budget", rules, "--", program, env=env)
    assert "over budget" in done.err


def test_nothing_is_run_for_a_bad_budget(heft, budget, tmp_path):
    path = budget("peak_bytes <= 1", "", "  peak_bytes <= lots")
    done = heft("check", "--budget", path, "--", "touch", "ran")
    assert (done.status, done.out) == (1, "")
    assert done.err == f"heft: {path}:3:17: expected a size such as 4096, 64k, 1.5M or 2G, " \
                       "found 'lots'\n"
    done = heft("check", "--budget", "missing", "--", "touch", "ran")
    assert done.status == 1 and "missing: there is no such budget" in done.err
    assert heft("check", "--update", "--budget", path, "--", "touch", "ran").status == 1
    assert "lots" in path.read_text()
    assert not (tmp_path / "ran").exists()


def test_unmatched_pattern_is_warned_of(heft, recorded, budget):
    done = heft("check", "--budget", budget("allocations in renamed_* <= 7"), recorded)
    assert done.status == 0
    assert "  ! line 1: no function that allocates matches renamed_*: this rule measures nothing" \
        in done.out


def test_update(heft, recorded, budget):
    path = budget("# head", "peak_bytes   <= 1M  # the peak", "allocations in copy < 3",
                  "live_bytes == 0", "allocations == 7", "allocations in gone <= 5",
                  "frees >= 1", "# tail")
    os.chmod(path, 0o640)
    done = heft("check", "--update", "--budget", path, recorded)
    assert (done.status, done.err) == (0, ""), done
    assert ": 4 limits renewed with 10 % headroom, 2 kept\n" in done.out
    # 121,000 B are 118.2 KiB: less than 1M, so in k, rounded up
    assert path.read_text() == ("# head\npeak_bytes   <= 119k  # the peak\nallocations in copy < 56\n"
                                "live_bytes == 0\nallocations == 150\nallocations in gone <= 5\n"
                                "frees >= 135\n# tail\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert heft("check", "--budget", path, recorded).status == 0
    before = path.stat().st_ino
    done = heft("check", "--update", "--budget", path, recorded)
    assert ": 0 limits renewed" in done.out and path.stat().st_ino == before
    heft("check", "--update", "--headroom", "50%", "--budget", path, recorded)
    assert "peak_bytes   <= 162k  #" in path.read_text()


def test_update_does_not_loosen_zero(heft, program, budget):
    path = budget("live_bytes == 0", "allocations <= 1")
    done = heft("check", "--update", "--headroom=0", "--budget", path, "--", program, "leak")
    assert done.status == 1
    assert "does not hold, measured 4.9 KiB; heft does not loosen such a rule" in done.err
    assert path.read_text() == "live_bytes == 0\nallocations <= 151\n"


def test_first_budget(heft, program, tmp_path):
    done = heft("check", "--update", "--budget", "new.budget", "--", program)
    assert done.status == 0, done
    assert "new.budget: a first budget, with 10 % headroom" in done.err
    text = (tmp_path / "new.budget").read_text()
    assert "peak_bytes <= 119k\n" in text and "allocations <= 165\n" in text
    assert "left_bytes <= 0\n" in text
    assert heft("check", "--budget", "new.budget", "--", program).status == 0
    assert heft("check", "--budget", "new.budget", "--", program, "leak").status == 1


def test_part_of_a_run(heft, recorded, program, budget, tmp_path):
    """What is over stays over; what holds of a part need not hold of the whole."""
    data = recorded.read_bytes()
    (tmp_path / "cut.heft").write_bytes(data[:-100])
    assert json.loads(heft("report", "--json", "cut.heft").out)["complete"] is False
    done = heft("check", "--budget", budget("frees >= 0"), "cut.heft")
    assert (done.status, done.out) == (1, "")
    assert "cut.heft is incomplete" in done.err and "every rule holds so far" in done.err
    assert "over budget" in heft("check", "--budget", budget("threads == 7"), "cut.heft").out
    rules = budget("frees >= 0")
    done = heft("check", "--update", "--budget", rules, "cut.heft")
    assert done.status == 1 and "needs the whole run" in done.err
    assert rules.read_text() == "frees >= 0\n"
    heft("run", "-q", "-o", "failed.heft", program, "fail")
    done = heft("check", "--budget", rules, "failed.heft")
    assert done.status == 0
    assert "  ! the recorded program failed: exit status 3\n" in done.out


def test_bad_recordings(heft, budget, tmp_path):
    (tmp_path / "text").write_text("no recording\n")
    for name in ("text", "missing"):
        done = heft("check", "--budget", budget("frees > 0"), name)
        assert (done.status, done.out) == (1, "") and name in done.err


def test_findings_are_counted(heft, budget):
    """300 connections of 301,772 B each: that finding does not depend on timing."""
    example = harness.BUILD / "examples" / "connections"
    done = heft("check", "--budget", budget("finding unbounded-queue == 0",
                                            "finding per-instance-cost <= 0"), "--", example)
    assert done.status == 1, done
    assert "over budget: 1 of 2 rules of " in done.err
    lines = done.err.splitlines()
    row = next(i for i, line in enumerate(lines) if "finding per-instance-cost <= 0" in line)
    assert lines[row].split()[-3:] == ["0", "1", "+1"]
    assert "conn_new" in lines[row + 1]  # the finding's own words
    done = heft("check", "--budget", budget("finding per-instance-cost == 1"), "--", example)
    assert done.status == 0, done
    done = heft("check", "--budget", budget("finding unbounded == 0"), "--", "touch", "ran")
    assert done.status == 1 and ":1:9: expected a kind of finding, found 'unbounded'; did you mean " \
        "unbounded-queue?" in done.err


@pytest.mark.parametrize("arguments, words", [
    (["a"], "no budget given"),
    (["--budget", "b"], "nothing to check"),
    (["--budget", "b", "x", "y"], "one recording at a time"),
    (["--budget", "b", "x", "--", "true"], "give a recording or a command, not both"),
    (["--budget", "b", "--"], "no command after --"),
    (["--budget", "b", "-o", "o", "x"], "need a command to record"),
    (["--budget", "b", "--headroom", "much", "x"], "--headroom needs a percentage"),
])
def test_wrong_usage(heft, arguments, words):
    done = heft("check", *arguments)
    assert (done.status, done.out) == (2, ""), done
    assert words in done.err
