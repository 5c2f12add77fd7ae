"""The views of `heft report` on a recorded program whose allocations are known
(tests/programs/report_views.cc): which line stands first, recursion, threads, sizes, lifetimes,
windows and moments; rules for frames; widths and colours."""

import json
import os
import pty

import pytest

import harness
from harness import compiled  # noqa: F401

# All of the run: what a smaller part holds depends on how fast the program started.
WINDOW = ["--from", "0", "--to", "100%"]
VIEWS = [[], ["--full"], ["--tree"], ["--invert"], ["--invert", "--full"], ["--threads"], ["--sizes"],
         ["--lifetimes"], ["--at", "0"], ["--at", "100%"], WINDOW]


@pytest.fixture(scope="session")
def views(compiled, tmp_path_factory):
    """(recording, source) of the program."""
    program = compiled("report_views.cc")
    path = tmp_path_factory.mktemp("views") / "views.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", program])
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def report(heft, views, tmp_path):
    def call(*options, status=0, **env):
        env.setdefault("XDG_CONFIG_HOME", str(tmp_path / "config"))
        done = heft("report", *options, views, env=env)
        assert done.status == status, done
        return done
    return call


def site_lines(text):
    """The first line of every site."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Top "))
    return [line for line in lines[start + 2:] if line[:34].strip() and not line.startswith("...")
            and not line.startswith("Next")]


def line(marker):
    return f"report_views.cc:{harness.line_of('report_views.cc', marker)}"


def test_first_user_frame_stands_first(report):
    lines = site_lines(report().out)
    assert any(line("reserve") in text for text in lines), lines
    assert not any("operator new" in text or "std::" in text for text in lines), lines
    inside = report().out
    assert "> std::vector<..>::reserve(..)" in inside


def test_full_has_every_frame(report):
    text = report("--full").out
    assert "operator new(unsigned long)" in text
    assert "__libc_start" in text
    assert "more frame" not in text and "+1 inside" not in text


def test_recursion_is_merged(report):
    def calls(*options):
        return [t.split("%", 1)[1].rstrip() for t in report(*options).out.splitlines()
                if "64.0 KiB" in t and " % " in t]
    # main -> even -> odd -> even -> odd ... -> bottom: each once, twenty-five times merged.
    down = calls("--tree")
    assert [t.split("(")[0].split()[0] for t in down] == ["main", "even", "odd", "bottom"], down
    assert [t.endswith("[recursive]") for t in down] == [False, True, False, False]
    up = calls("--invert")
    assert [t.split("(")[0].split()[0] for t in up] == ["bottom", "odd", "even", "main"], up
    assert "[recursion x25 of 2 frames]" in report().out


def test_threads(report):
    text = report("--threads").out
    row = next(t for t in text.splitlines() if t.startswith("  taker"))
    # name, tid, allocations, bytes and unit, frees, given away, taken over, live
    assert row.split()[-3:] == ["0", "40", "0"], row
    assert "Frees: who allocated (down), who freed (across)" in text
    handovers = json.loads(report("--threads", "--json").out)["handovers"]
    assert sum(h["frees"] for h in handovers) == 40
    assert handovers[0]["from_tid"] != handovers[0]["to_tid"]


def test_sizes(report):
    sizes = json.loads(report("--sizes", "--json").out)["sizes"]
    of_777 = next(s for s in sizes if s["low_bytes"] == 777)
    assert (of_777["allocations"], of_777["live_blocks"], of_777["peak_blocks"]) == (100, 60, 100)
    # glibc takes 8 bytes of its own and rounds up to 16: 800, of which 792 can be used.
    assert of_777["slack_bytes"] == 100 * (792 - 777)
    text = report("--sizes").out
    assert "777 B" in text and "rounding" in text
    assert "sizes" not in json.loads(report("--json").out)


def test_large_sizes_fit_their_column(heft, tmp_path):
    """Classes are eighths of a power of two: 1,200,000 bytes are in [9, 10) eighths of a MiB, 1,500 MiB
    in [11, 12) eighths of a GiB."""
    (tmp_path / "big.c").write_text("#include <stdlib.h>\nint main(void) { for (int i = 0; i < 3; i++) "
                                    "free(malloc(1200000)); free(malloc(1500u << 20)); free(malloc(120000)); "
                                    "return 0; }\n")
    harness.run(["gcc", "-fno-builtin", "-o", tmp_path / "big", tmp_path / "big.c"])
    assert harness.run([harness.HEFT, "run", "-q", "-o", tmp_path / "big.heft", "--", tmp_path / "big"]).returncode == 0
    text = heft("report", "--sizes", "big.heft").out
    lines = text[text.index("    most frequent"):].splitlines()[1:4]
    assert [line[:29].split("  ")[-1].strip() for line in lines] == ["3", "1", "1"]
    assert [line[:17].strip() for line in lines] == ["1,152-1,280 KiB", "114,688-122,879 B", "1,408-1,536 MiB"]


def test_lifetimes(report):
    rep = json.loads(report("--lifetimes", "--json").out)
    assert sum(s["frees"] + s["live_blocks"] for s in rep["sites"]) > 0
    for site in rep["sites"]:
        assert sum(site["lifetime_log2"]) == site["frees"] + site["live_blocks"]
    text = report("--lifetimes").out
    assert "p50" in text and "1us  1ms" in text
    assert text.splitlines()[0].endswith(": lifetimes by site, ordered by number of allocations")


def test_a_moment_and_a_window(report):
    end = json.loads(report("--at", "100%", "--json").out)
    assert end["from_ns"] == end["to_ns"] == end["duration_ns"]
    assert end["totals"]["live_bytes"] == json.loads(report("--json").out)["totals"]["live_bytes"]
    whole = json.loads(report("--from", "0", "--to", "100%", "--json").out)
    pool = [s for s in whole["sites"] if s["stack"][0]["function"].startswith("pool_get")]
    assert len(pool) == 1
    assert (pool[0]["live_blocks"], pool[0]["grew_bytes"]) == (60, 60 * 777)
    assert "live at end" in report("--from", "0", "--to", "100%").out
    assert "what was live at" in report("--at", "50%").out
    early = json.loads(report("--at", "0", "--json").out)
    assert early["totals"]["live_bytes"] == 0


def test_findings_are_left_out_of_a_selection(report):
    words = "heft looks for findings in whole recordings only"
    assert words not in report().out
    for options in (["--at", "50%"], ["--focus", "main"], ["--thread", "taker"]):
        assert words in report(*options).out


@pytest.mark.parametrize("options", VIEWS, ids=" ".join)
def test_every_view_ends_with_the_next_command(report, options):
    last = report(*options).out.splitlines()[-1]
    assert last.startswith("Next: heft report ")
    if options == ["--at", "100%"] or options == WINDOW:
        assert f" {' '.join(options)} " in last


@pytest.mark.parametrize("options", VIEWS, ids=" ".join)
@pytest.mark.parametrize("columns", [72, 80, 100, 132])
def test_lines_fit(report, options, columns):
    # The next command stays whole, to be copied.
    lines = report(*options, COLUMNS=str(columns)).out.splitlines()[:-1]
    assert max(len(text) for text in lines) <= columns


def test_colour_and_bars_only_where_they_can_be_seen(report):
    assert "\033" not in report().out
    assert "\033[1m" in report("--color=always").out
    assert report("--lifetimes").out.isascii()
    assert not report("--lifetimes", LC_ALL="C.UTF-8").out.isascii()


def test_terminal_width(views):
    import fcntl
    import struct
    import termios
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 77, 0, 0))
    child = harness.start([harness.HEFT, "report", "--color=never", views], stdout=follower,
                          env={"TERM": "xterm"})
    os.close(follower)
    text = b""
    try:
        while part := os.read(leader, 65536):
            text += part
    except OSError:  # the other end is closed
        pass
    assert child.wait(timeout=30) == 0
    os.close(leader)
    child.stderr.close()
    lines = text.decode().splitlines()[:-1]
    assert 72 < max(len(t) for t in lines) <= 77


@pytest.mark.parametrize("options, words", [
    (["--tree", "--sizes"], "--tree and --sizes are two views"),
    (["--threads", "--lifetimes"], "--threads and --lifetimes are two views"),
    (["--at", "1s", "--from", "0"], "choose a moment (--at) or a window"),
    (["--sort", "grew"], "--sort grew needs a window"),
    (["--at", "noon"], "--at needs peak, end, exit, a time (1.5s, 20ms, 50%) or mark:NAME"),
    (["--at", "100h"], "--at is after the end of the recording"),
    (["--invert", "--sort", "lifetime"], "--sort lifetime does not work with a tree: lifetimes do not add up"),
])
def test_what_does_not_go_together(report, options, words):
    done = report(*options, status=2)
    assert done.out == ""
    assert words in done.err


# ---- rules for frames

def heads(text):
    return "\n".join(site_lines(text))


def test_a_pool_of_ones_own_is_folded(report, tmp_path):
    assert line("pool") in heads(report().out)
    rules = tmp_path / "rules"
    rules.write_text("# ours\nwrapper pool_get\n")
    text = report("--frames", rules).out
    assert line("pool") not in heads(text)
    assert line("fill") in heads(text)
    assert "Next: heft report --frames " in text
    assert "pool_get" not in report("--frames", rules, "--tree").out
    assert "pool_get" in report("--frames", rules, "--tree", "--full").out


def test_users_file_comes_before_the_named_one(report, tmp_path):
    config = tmp_path / "config" / "heft"
    config.mkdir(parents=True)
    (config / "frames").write_text("wrapper pool_get\n!function std::vector*\n")
    text = heads(report().out)
    assert line("fill") in text
    assert "std::vector" in text
    rules = tmp_path / "rules"
    rules.write_text("!file report_views.cc\n")
    assert line("pool") in heads(report("--frames", rules).out)


def test_users_file_in_home(heft, views, tmp_path):
    config = tmp_path / ".config" / "heft"
    config.mkdir(parents=True)
    (config / "frames").write_text("wrapper pool_get\n")
    for env in ({"HOME": str(tmp_path)}, {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "relative"}):
        assert line("fill") in heads(heft("report", views, env=env).out)


def test_bad_rules(report, tmp_path):
    rules = tmp_path / "rules"
    rules.write_text("wrapper a\n\nfunctions b\n")
    done = report("--frames", rules, status=1)
    assert done.out == ""
    assert done.err == (f"heft: {rules}:3: expected 'module', 'function', 'file' or 'wrapper', "
                        "not 'functions b'\n")
    done = report("--frames", tmp_path / "missing", status=1)
    assert "missing: No such file or directory" in done.err
    assert report("--frames", tmp_path, status=1).err.startswith(f"heft: {tmp_path}: expected")
    config = tmp_path / "config" / "heft"
    config.mkdir(parents=True)
    (config / "frames").write_text("\033[31m\n")
    done = report(status=1)
    assert f"{config}/frames:1: expected" in done.err
    assert "\033" not in done.err


def test_bad_rules_do_not_change_the_programs_status(heft, tmp_path):
    config = tmp_path / "config" / "heft"
    config.mkdir(parents=True)
    (config / "frames").write_text("nonsense\n")
    done = heft("run", "sh", "-c", "exit 3", env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    assert done.status == 3
    assert "frames:1: expected" in done.err
    assert "Next: heft report" in done.err


# ---- what `heft run` ends with

def test_run_ends_with_the_first_finding(heft):
    done = heft("run", harness.BUILD / "examples" / "queue")
    lines = done.err.splitlines()
    assert len(lines) <= 16  # lines break where the path of the build is long
    assert lines[-1].startswith("Next: heft report ")
    (at,) = [i for i, line in enumerate(lines) if line.startswith("  finding       ")]
    claim = " ".join(line.strip() for line in lines[at:-1]).split(None, 1)[1]
    report = heft("report", "--json", "--", next(iter(lines[-1].split()[-1:])))
    assert json.loads(report.out)["findings"][0]["summary"] == claim


THREADS = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *name)
{
	pthread_setname_np(pthread_self(), name);
	for (int i = 0; i < 10; i++)
		free(malloc(100));
	return NULL;
}
int main(void)
{
	static char names[25][16];
	pthread_t threads[25];
	for (int i = 0; i < 25; i++) {
		snprintf(names[i], sizeof names[i], i < 24 ? "worker-%d" : "pool[%d]", i + 1);
		pthread_create(&threads[i], NULL, work, names[i]);
	}
	for (int i = 0; i < 25; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
"""


def test_threads_by_the_name_of_their_group(heft, tmp_path):
    """24 workers and one of a pool make 10 blocks of 100 bytes each. Only * and ? are patterns: names
    of threads have brackets."""
    (tmp_path / "t.c").write_text(THREADS)
    harness.run(["gcc", "-O1", "-fno-builtin", "-pthread", "-o", tmp_path / "t", tmp_path / "t.c"])
    assert harness.run([harness.HEFT, "run", "-q", "-o", tmp_path / "t.heft", "--", tmp_path / "t"]).returncode == 0
    assert "worker-* (24)" in heft("report", "--threads", "t.heft").out
    for name, threads in [("worker-*", 24), ("worker-?", 9), ("worker-1*", 11), ("*", 26), ("w*r-*4", 3),
                          ("pool[*]", 1), ("pool[25]", 1), ("worker-7", 1), ("*-?4*", 2)]:
        rep = json.loads(heft("report", "--json", "--thread", name, "t.heft").out)
        assert len(rep["threads"]) == threads, name
        sites = [s for s in rep["sites"] if s["stack"][0]["function"] == "work"]
        assert sum(s["allocations"] for s in sites) == 10 * min(threads, 25), name
    for name in "worker", "worker-[1-4]", "*x":
        done = heft("report", "--thread", name, "t.heft")
        assert done.status == 1 and f"no thread '{name}' in this recording" in done.err


def test_thousands_of_sites_stand_apart(heft, tmp_path):
    """1,100 calls of malloc, each a site of its own."""
    calls = "".join("\tkeep = malloc(10);\n" for _ in range(1100))
    (tmp_path / "s.c").write_text(f"#include <stdlib.h>\nvoid *volatile keep;\nint main(void)\n{{\n{calls}\treturn 0;\n}}\n")
    harness.run(["gcc", "-g", "-O0", "-o", tmp_path / "s", tmp_path / "s.c"])
    assert harness.run([harness.HEFT, "run", "-q", "-o", tmp_path / "s.heft", "--", tmp_path / "s"]).returncode == 0
    assert "... 1,098 more (-n 1100)\n" in heft("top", "--once", "-n", "2", "s.heft").out
