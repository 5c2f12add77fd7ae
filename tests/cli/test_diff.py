"""heft diff on recordings of one small program in two versions. What each version allocates is
known from its source; between them lines move, the file and the program change their names, a
copy is removed, a leak is added and a recursion goes deeper."""

import json
import re
import subprocess

import pytest

import harness

COMMON = r"""
#include <stdlib.h>
#include <string.h>
#define KEPT __attribute__((noinline, noipa))
struct message { char *text, *copy; };
KEPT static char *clone(const char *s, size_t n) { char *p = malloc(n); memcpy(p, s, n); return p; }
KEPT static void *deep(int n, void *last)
{
	void **p = malloc(64);
	*p = last;
	return n ? deep(n - 1, p) : p;
}
"""
SEND = r"""
KEPT static void send_message(struct message *m, const char *s, int copy)
{
	m->text = malloc(1000);
	memset(m->text, 1, 1000);
	m->copy = copy ? clone(s, 500) : NULL;
	char *t = malloc(24);
	memset(t, 1, 24);
	free(t);
}
"""
MAIN = r"""
KEPT static void *leak(void) { return memset(malloc(5000), 1, 5000); }
int main(void)
{
	static struct message m[100];
	char s[500] = {0};
	void **p = NULL;
	for (int i = 0; i < 100; i++)
		send_message(&m[i], s, COPY);
	for (void **q = deep(DEPTH, p); q; q = p) {
		p = *q;
		free(q);
	}
	if (LEAK)
		leak();
	for (int i = 0; i < 100; i++) {
		free(m[i].text);
		free(m[i].copy);
	}
}
"""


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    """name -> recording: before, again (the same once more), after, peakless."""
    folder = tmp_path_factory.mktemp("versions")
    recordings = {}

    def version(name, source, *flags, folder_name="src"):
        place = folder / name / folder_name
        place.mkdir(parents=True)
        (place / f"{name}.c").write_text(source)
        program = place / f"program-{name}"
        subprocess.run(["gcc", "-g", "-O1", "-fno-builtin", "-o", program, place / f"{name}.c",
                        *flags], check=True, timeout=60)
        recordings[name] = folder / f"{name}.heft"
        for path in (recordings[name], folder / f"{name}-again.heft"):
            done = harness.run([harness.HEFT, "run", "-q", "-o", path, program])
            assert (done.returncode, done.stderr) == (0, b""), done
        recordings[name + "-again"] = folder / f"{name}-again.heft"

    version("before", COMMON + SEND + MAIN, "-DCOPY=1", "-DDEPTH=20", "-DLEAK=0")
    version("after", "/* moved */\n\n\n" + COMMON + "\n\n" + SEND.replace("\tm->", "\n\tm->") + MAIN,
            "-DCOPY=0", "-DDEPTH=30", "-DLEAK=1", folder_name="other")
    return recordings


def diff(heft, *arguments):
    done = heft("diff", "--json", *arguments)
    assert (done.status, done.err) == (0, ""), done
    return json.loads(done.out)


def functions(change):
    return [f["function"] for f in change["stack"] if f["function"] not in
            ("__libc_start_call_main", "__libc_start_main", "_start", "__libc_start_main_impl")]


def by_functions(result):
    found = {}
    for change in result["changes"]:
        found.setdefault(tuple(functions(change)), []).append(change)
    return found


def test_what_changed(heft, versions):
    result = diff(heft, versions["before"], versions["after"])
    assert result["changed"] is True
    changes = by_functions(result)
    clone, = changes["clone", "send_message", "main"]
    assert (clone["kind"], clone["change"]["peak_bytes"]) == ("vanished", -50000)
    assert clone["new"]["sites"] == 0 and "matched" not in clone
    leak, = changes["leak", "main"]
    assert (leak["kind"], leak["change"]["live_bytes"]) == ("new", 5000)
    # two mallocs of one function, told apart although both moved
    text, scratch = sorted(changes["send_message", "main"],
                           key=lambda c: -c["old"]["allocated_bytes"])
    assert (text["kind"], text["old"]["peak_bytes"], text["new"]["peak_bytes"]) == \
        ("same", 100000, 100000)
    assert text["old_stack"][0]["line"] < text["stack"][0]["line"]
    assert text["old_stack"][0]["file"] != text["stack"][0]["file"]
    assert (scratch["old"]["allocations"], scratch["new"]["allocations"]) == (100, 100)
    assert scratch["new"]["temporary"] == 100
    # 21 and 31 frames deep: one stack, not 52
    recursion = [c for c in result["changes"] if functions(c)[0] == "deep"]
    assert len(recursion) == 1
    assert recursion[0]["change"]["allocations"] == 10
    assert (recursion[0]["old"]["sites"], recursion[0]["new"]["sites"]) == (21, 31)
    # nothing lost: the changes add up
    for measure in ("peak_bytes", "live_bytes", "allocated_bytes", "allocations", "temporary"):
        assert sum(c["change"][measure] for c in result["changes"]) == \
            result["measures"][measure]["change"] == \
            result["new"]["totals"][measure] - result["old"]["totals"][measure]
    assert result["measures"]["live_bytes"]["stacks"]["new"] == 1


def test_text(heft, versions):
    done = heft("diff", versions["before"], versions["after"])
    assert (done.status, done.err) == (0, "")
    assert "\033" not in done.out
    lines = done.out.splitlines()
    assert lines[0].startswith("old  ") and lines[0].endswith(str(versions["before"]))
    assert lines[1].startswith("new  ") and lines[1].endswith(str(versions["after"]))
    assert "By bytes at the peak: 1 new, 1 vanished" in lines
    top = next(line for line in lines if "vanished  " in line)
    assert top.split("  ")[-1].startswith("clone at ") and "-48.8 KiB" in top
    assert lines[-1] == f"Next: heft report --focus '^clone$' {versions['before']}"  # too long for its "(why)"
    short = heft("diff", "before.heft", "after.heft", cwd=versions["before"].parent).out.splitlines()[-1]
    assert short == "Next: heft report --focus '^clone$' before.heft    (the largest change, in full)"
    command = lines[-1][len("Next: heft "):].split("    (")[0].replace("'", "").split()
    assert "clone at " in heft(*command).out
    assert "\033[" in heft("diff", "--color=always", versions["before"], versions["after"]).out


def test_nothing_changed(heft, versions):
    done = heft("diff", versions["before"], versions["before-again"])
    assert done.status == 0
    assert "\nNothing changed.\n  peak: 147.8 KiB before, 147.8 KiB now\n  no call stack differs at all\n" \
        in done.out
    assert "(1 % of the larger total) count as noise" in done.out
    result = diff(heft, versions["before"], versions["before-again"])
    assert result["changed"] is False
    assert {c["kind"] for c in result["changes"]} == {"same"}


def test_the_measure_that_changed_is_named(heft, versions):
    """Looking at the end of the run alone, the removed copy does not show."""
    done = heft("diff", "--sort", "live", "--ignore", "leak", versions["before"], versions["after"])
    assert "By bytes live at the end nothing changed.\n  live at end: 0 B before, 0 B now\n" in done.out
    assert "By bytes at the peak it did: 1 vanished; " in done.out
    assert f"Next: heft diff --sort peak --ignore leak {versions['before']}" in done.out


def test_divided(heft, versions):
    result = diff(heft, "--per", "100", versions["before"], versions["after"])
    assert result["per"] == "operation"
    clone, = by_functions(result)["clone", "send_message", "main"]
    assert clone["change"]["allocations"] == -1
    assert clone["old"]["allocations"] == 100
    result = diff(heft, "--per", "100,50", versions["before"], versions["before-again"])
    assert result["measures"]["allocations"]["old"] == 3.21
    assert result["measures"]["allocations"]["new"] == 6.42
    result = diff(heft, "--per", "s", versions["before"], versions["after"])
    assert (result["per"], result["sort"]) == ("second", "allocated")
    new = result["new"]
    assert result["measures"]["allocations"]["new"] == pytest.approx(
        new["totals"]["allocations"] / (new["duration_ns"] / 1e9), rel=1e-6)
    assert result["measures"]["peak_bytes"]["new"] == new["totals"]["peak_bytes"]
    text = heft("diff", "--per=second", versions["before"], versions["after"]).out
    assert "By allocated bytes per second: " in text
    # What is divided has its unit beside its name: a peak has no rate.
    names = [line[2:18].rstrip() for line in text.split("change\n", 1)[1].split("\n\n", 1)[0].splitlines()]
    assert {"peak", "allocated/s", "allocations/s"} <= set(names) and "peak/s" not in names, names
    text = heft("diff", "--per", "100,50", versions["before"], versions["before-again"]).out
    assert re.search(r"^  peak/op   +\S", text, re.M), text
    assert re.search(r"^  allocations/op +3.21 +6.42 +\+3.21 +\+100.0 %$", text, re.M), text


def test_selected(heft, versions):
    result = diff(heft, "--focus", "^deep$", versions["before"], versions["after"])
    assert len(result["changes"]) == 1
    assert len(diff(heft, "-n", "1", versions["before"], versions["after"])["changes"]) == 1
    shown = heft("diff", "-n", "1", versions["before"], versions["after"]).out
    assert "... 1 more change\n" in shown
    # The leak makes another peak, when the 21 blocks of 64 B of the recursion are freed.
    every = heft("diff", "--threshold", "0", versions["before"], versions["after"]).out
    assert "By bytes at the peak: 1 shrunk, 1 new, 1 vanished\n" in every
    assert "    -1.3 KiB     1.3 KiB         0 B  shrunk    deep at " in every
    all_noise = heft("diff", "--threshold", "100%", versions["before"], versions["after"]).out
    assert "Nothing changed" in all_noise and "largest difference: -48.8 KiB (clone at " \
        in all_noise
    by_count = heft("diff", "--sort=count", "--threshold=50", versions["before"], versions["after"])
    assert "By number of allocations: 1 vanished\n" in by_count.out


INLINED = r"""
#include <stdlib.h>
#include <string.h>
static char *make_cell(int n) { return memset(malloc(10 + n), 1, 10 + n); }
static void fill_row(char **row) { for (int i = 0; i < 8; i++) row[i] = make_cell(i); }
__attribute__((noinline, noipa)) void parse(char **row) { fill_row(row); }
int main(void)
{
	char *row[8];
	for (int n = 0; n < 50; n++) {
		parse(row);
		for (int i = 0; i < 8; i++)
			free(row[i]);
	}
}
"""


@pytest.mark.parametrize("flags, matched", [(["-O2", "-g"], "stack"), (["-O2"], "inlined")])
def test_inlining(heft, tmp_path, flags, matched):
    """parse calls fill_row calls make_cell: three frames in a plain build; one, with or without
    debug information about the others, in an optimised one. Still nothing changed."""
    (tmp_path / "i.c").write_text(INLINED)
    for name, options in (("plain", ["-O0", "-g"]), ("optimised", flags)):
        subprocess.run(["gcc", "-fno-builtin", *options, "-o", tmp_path / name, tmp_path / "i.c"],
                       check=True, timeout=60)
        assert heft("run", "-q", "-o", f"{name}.heft", f"./{name}").status == 0
    for pair in (["plain.heft", "optimised.heft"], ["optimised.heft", "plain.heft"]):
        result = diff(heft, *pair)
        assert result["changed"] is False, result
        assert [(c["kind"], c["matched"], c["new"]["allocations"]) for c in result["changes"]] == \
            [("same", matched, 400)]
        assert "Nothing changed.\n  peak: " in heft("diff", *pair).out


@pytest.mark.parametrize("arguments, words", [
    ([], "two recordings are needed, OLD and NEW"),
    (["a"], "two recordings are needed, OLD and NEW"),
    (["a", "b", "c"], "'c' is one too many"),
    (["--per", "0", "a", "b"], "--per needs"),
    (["--per", "1,", "a", "b"], "--per needs"),
    (["--per", "minute", "a", "b"], "--per needs"),
    (["--threshold", "much", "a", "b"], "--threshold needs"),
    (["--sort", "count", "--threshold", "4k", "a", "b"], "--threshold needs"),
])
def test_wrong_usage(heft, arguments, words):
    done = heft("diff", *arguments)
    assert (done.status, done.out) == (2, ""), done
    assert words in done.err


def test_bad_recordings(heft, versions, tmp_path):
    (tmp_path / "text").write_text("not a recording\n")
    for pair, words in ((["text", versions["before"]], "heft: text: at offset 0: not a profile"),
                        ([versions["before"], "text"], "heft: text: at offset 0: not a profile"),
                        (["missing", versions["before"]], "heft: cannot open missing: No such file")):
        done = heft("diff", *pair)
        assert (done.status, done.out) == (1, ""), done
        assert done.err.startswith(words), done


REPEATED = r"""
#include <stdlib.h>
#include <string.h>
#define KEPT __attribute__((noinline, noipa))
KEPT static void *node_new(size_t n) { return memset(malloc(n), 1, n); }
KEPT static void *parse(size_t n) { void *p = node_new(n); return p; }
KEPT static void *load(size_t n) { void *p = node_new(n); return p; }
KEPT static void *old_cache(size_t n) { void *p = node_new(n); return p; }
KEPT static void *new_cache(size_t n) { void *p = node_new(n); return p; }
KEPT static void *alone(size_t n) { return memset(malloc(n), 1, n); }
int main(void)
{
	static void *kept[4];
	kept[0] = parse(100000 * NUMBER);
	kept[1] = load(300000 * NUMBER);
	kept[2] = NUMBER > 1 ? new_cache(500000) : old_cache(400000);
	kept[3] = alone(70000 * NUMBER);
	return kept[0] == 0;
}
"""


def test_headings_that_repeat_name_their_callers(heft, tmp_path):
    """Four stacks end in node_new; one of them vanished and one is new. The builds are in two folders."""
    paths = []
    for number in 1, 2:
        folder = tmp_path / f"v{number}"
        folder.mkdir()
        (folder / "tree.c").write_text(REPEATED)
        subprocess.run(["gcc", *harness.C_FLAGS, f"-DNUMBER={number}", "-o", "tree", "tree.c"], cwd=folder, check=True)
        done = harness.run([harness.HEFT, "run", "-q", "-o", folder / "t.heft", "--", folder / "tree"])
        assert done.returncode == 0, done.stderr
        paths.append(folder / "t.heft")
    lines = heft("diff", *paths).out.splitlines()
    headings = [line.split("  ")[-1].strip() for line in lines if " at " in line and "[malloc]" in line]
    told = {found[1] for h in headings if (found := re.match(r"node_new at \S*tree\.c:\d+ < (.*)", h))}
    assert told == {"new_cache [malloc]", "old_cache [malloc]", "load [malloc]", "parse [malloc]"}, lines
    (single,) = [h for h in headings if h.startswith("alone at ")]
    assert " < " not in single
