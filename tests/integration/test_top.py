"""heft top: one frame as text, and the live view in a terminal that tmux plays. The program under it
does what the test tells it to (tests/programs/top_steps.c), and the test waits for what the screen
must show, so no test depends on how fast anything is."""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess

import pytest

from attach_harness import may_trace
from harness import (HEFT, TIME_LIMIT, children_of, end_group, plain_environment, report, run, start,
                     wait_until)

needs_tmux = pytest.mark.skipif(not shutil.which("tmux"), reason="no tmux")
HAS_SCREEN = b"ncurses" in subprocess.run(["ldd", str(HEFT)], capture_output=True).stdout
needs_screen = pytest.mark.skipif(not HAS_SCREEN, reason="heft was built without ncurses")
live = [needs_tmux, needs_screen]


class Terminal:
    """A terminal with one command line in it, seen through tmux."""

    def __init__(self, directory, command, width=80, height=24, **environment):
        self.directory = directory
        self.socket = directory / "tmux"
        (directory / "tmux.conf").write_text("set -g default-terminal screen-256color\n"
                                             "set -s escape-time 0\n")
        settings = {"LC_ALL": "C.UTF-8", "TMPDIR": str(directory)} | environment
        words = " ".join(f"{k}={shlex.quote(v)}" for k, v in settings.items())
        script = directory / "terminal.sh"
        script.write_text(f"trap : INT\nexport {words}\ncd {shlex.quote(str(directory))}\n{command}\n"
                          "echo status=$?\nexec sleep 1000\n")  # what is on the screen stays
        self.tmux("new-session", "-d", "-x", width, "-y", height, f"sh {shlex.quote(str(script))}")
        ids = self.tmux("display-message", "-p", "#{pid} #{pane_pid}").split()
        self.server, self.shell = (int(i) for i in ids)

    def tmux(self, *words):
        done = run(["tmux", "-S", self.socket, "-f", self.directory / "tmux.conf", *words],
                   env={"TERM": "xterm"})
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options)

    def lines(self):
        return self.screen().splitlines()

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def typed(self, text):
        self.tmux("send-keys", "-l", text)

    def resize(self, width, height):
        self.tmux("resize-window", "-x", width, "-y", height)

    def until(self, words):
        """Waits until the screen shows the words (a string, or a compiled expression)."""
        def shown():
            text = self.screen()
            found = words.search(text) if hasattr(words, "search") else words in text
            return text if found else None
        try:
            return wait_until(shown, what=f"'{words}'")
        except BaseException:
            print(self.screen())
            raise

    def until_gone(self, words):
        return wait_until(lambda: words not in self.screen(), what=f"no '{words}'")

    def close(self):
        subprocess.run(["tmux", "-S", str(self.socket), "kill-server"], capture_output=True,
                       check=False)
        for pid in (self.server, self.shell):
            wait_until(lambda pid=pid: has_gone(pid), what=f"the end of {pid}")


def has_gone(pid):
    """Of a child, or of one that becomes ours when tmux has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return not pathlib.Path(f"/proc/{pid}").exists()


@pytest.fixture
def terminal(tmp_path):
    opened = []

    def open_terminal(command, **options):
        opened.append(Terminal(tmp_path, command, **options))
        return opened[-1]
    yield open_terminal
    for one in opened:
        one.close()


class Steps:
    """The program that does what it is told, through a named pipe that becomes its input."""

    def __init__(self, directory, program):
        self.program = program
        self.pipe = directory / "steps"
        os.mkfifo(self.pipe)
        self.out = None

    def command(self, *options, redirect=""):
        words = " ".join(shlex.quote(str(w)) for w in (HEFT, "top", *options, "--", self.program))
        return f"{words} < {shlex.quote(str(self.pipe))} {redirect}"

    def tell(self, *steps):
        if not self.out:
            self.out = open(self.pipe, "w", buffering=1)
        for step in steps:
            self.out.write(step + "\n")

    def close(self):
        if self.out:
            try:
                self.out.close()
            except BrokenPipeError:
                pass


@pytest.fixture
def steps(tmp_path, compiled):
    one = Steps(tmp_path, compiled("top_steps.c"))
    yield one
    one.close()



def row(screen, function):
    found = [line for line in screen.splitlines() if function in line and " LIVE" not in line]
    assert found, screen
    return found[0]


# ---- once


def test_once_prints_what_the_report_says(tmp_path, steps):
    recording = tmp_path / "a.heft"
    (tmp_path / "input").write_text("grow 2048\nchurn 50\nsay hello\nexit 3\n")
    with open(tmp_path / "input") as stdin:
        done = run([HEFT, "top", "--once", "-o", recording, "--", steps.program], stdin=stdin,
                   cwd=tmp_path, env={"LC_ALL": "C"})
    # The command's output is its own, its status too; the frame goes to stderr.
    assert (done.returncode, done.stdout) == (3, b"hello\n")
    text = done.stderr.decode()
    lines = text.splitlines()
    pid = report(recording)["pid"]
    assert re.match(rf"heft top  top_steps {pid}  00:\d\d  ended: exit status 3  exact$", lines[0])
    assert lines[1].startswith("live 2.0M ")
    assert re.search(r"^   2\.0M .* 2\.0k .*top_steps\.c:\d+ grow <- main$", text, re.M)
    assert re.search(r"^     0B .* 0 .*top_steps\.c:\d+ churn <- main$", text, re.M)
    assert lines[-1] == f"Next: heft report {recording.name}    (all findings, with stacks and advice)"

    again = run([HEFT, "top", recording], cwd=tmp_path, env={"LC_ALL": "C"})  # no terminal: once
    assert (again.returncode, again.stderr) == (0, b"")
    assert again.stdout.decode().splitlines()[:-1] == lines[:-1]


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_once_fits_the_width(tmp_path, record, steps, columns):
    (tmp_path / "input").write_text("grow 2048\nchurn 50\nexit 0\n")
    with open(tmp_path / "input") as stdin:
        _, rep = record([steps.program], stdin=stdin)
    for sort in ("live", "grew", "blocks", "age", "peak", "allocated"):
        done = run([HEFT, "top", "--once", "--sort", sort, rep.path],
                   env={"LC_ALL": "C.UTF-8", "COLUMNS": str(columns)})
        assert done.returncode == 0, done.stderr
        lines = done.stdout.decode().splitlines()
        assert all(len(line) <= columns for line in lines[:-1]), lines


def test_once_takes_rows_and_other_formats(tmp_path, record, steps):
    (tmp_path / "input").write_text("grow 2048\nchurn 50\nexit 0\n")
    with open(tmp_path / "input") as stdin:
        _, rep = record([steps.program], stdin=stdin)
    few = run([HEFT, "top", "--once", "-n", "1", rep.path]).stdout.decode()
    assert "grow" in few and "churn" not in few and "1 more (-n 2)" in few
    folded = tmp_path / "x.pb.gz"
    assert run([HEFT, "export", "-f", "pprof", "-o", folded, rep.path]).returncode == 0
    other = run([HEFT, "top", "--once", folded])
    assert other.returncode == 0, other.stderr
    assert re.search(r"^   2\.0M .*grow", other.stdout.decode(), re.M)


def test_refusals(tmp_path):
    def err(*words):
        done = run([HEFT, "top", *words], cwd=tmp_path)
        assert done.stdout == b""
        return done.returncode, done.stderr.decode()

    assert err()[0] == 2
    assert err("--")[0] == 2
    assert err("a", "b")[0] == 2
    assert err("a", "--", "true")[0] == 2
    assert err("-o", "x", "a.heft")[0] == 2
    assert err("--alloc-fn=grow:malloc", "a.heft")[0] == 2
    status, text = err("--alloc-fn=grow", "--", "true")
    assert status == 2 and "'grow' is no function and its kind" in " ".join(text.split())
    assert err("--attach", "a.heft")[0] == 2
    assert err("--attach", "--", "true")[0] == 2
    status, text = err("--attach", str(os.getpid()))
    assert status == 2 and "on a terminal" in text
    status, text = err("--once", "nothing.heft")
    assert status == 1 and "nothing.heft" in text
    status, text = err("--once", str(os.getpid()))
    assert status == 1 and f"process {os.getpid()} is not being recorded" in text
    status, text = err("--once", "--", "/does/not/exist")
    assert status == 127 and text == "heft: /does/not/exist: No such file or directory\n"
    assert list(tmp_path.iterdir()) == []


def test_once_of_a_running_process(tmp_path, compiled, record):
    program = compiled("top_steps.c")
    recording = tmp_path / "running.heft"
    read, write = os.pipe()
    process = start([HEFT, "run", "-q", "-o", recording, "--", program], stdin=read)
    os.close(read)
    try:
        os.write(write, b"grow 3072\n")
        pid = wait_until(lambda: children_of(process.pid), what="the program")[0]

        def shown():
            done = run([HEFT, "top", "--once", str(pid)], cwd=tmp_path)
            return done.stdout.decode() if b"3.0M" in done.stdout else None
        text = wait_until(shown, what="3.0M")
        assert f"top_steps {pid}" in text.splitlines()[0] and "running" in text.splitlines()[0]
        assert "heft report running.heft" in text
        # the recorder's own pid leads there too
        assert run([HEFT, "top", "--once", str(process.pid)], cwd=tmp_path).returncode == 0
    finally:
        os.close(write)
        try:
            process.wait(timeout=TIME_LIMIT)
        finally:
            end_group(process)


# ---- live


@pytest.mark.usefixtures("no_leftovers")
class TestLive:
    pytestmark = live

    def test_a_program_that_prints_and_ends(self, terminal, steps, tmp_path):
        t = terminal(steps.command("-o", "a.heft"))
        steps.tell("grow 1024", "say one", "complain two", "say three")
        text = t.until(re.compile(r"1\.0M .*grow"))
        assert "heft top  top_steps " in text and "running" in text
        assert "one" not in text  # the program's output does not get into the screen
        t.keys("o")
        text = t.until("three")
        assert re.search(r"^one\ntwo\nthree$", text, re.M)
        t.keys("Escape")
        t.until_gone("three")
        steps.tell("grow 1024", "say four", "exit 3")
        text = t.until("ended: exit status 3")
        text = t.until(re.compile(r"2\.0M .*grow"))
        t.keys("q")
        text = t.until("status=3")
        # All of it, in order, after the view; then where the recording is.
        assert re.search(r"^one\ntwo\nthree\nfour\nheft: recorded in a\.heft\n", text, re.M), text
        assert report(tmp_path / "a.heft")["totals"]["live_bytes"] == 2 << 20
        assert not list(tmp_path.glob("heft-top-*"))

    def test_keys(self, terminal, steps, tmp_path):
        t = terminal(steps.command())
        steps.tell("grow 1024", "churn 1000")
        t.until(re.compile(r"1\.0M .*grow"))
        t.keys("s")
        t.until("sites by grew")
        t.keys("g")
        t.until("functions by grew")
        assert " FUNCTION" in t.screen()
        t.keys("g")
        t.until(" FILE")
        t.keys("g")
        t.until(" MODULE")
        t.keys("g")
        t.until(" SITE")
        t.keys("/")
        t.typed("churn")
        t.until("/churn_")
        t.until_gone(" grow ")
        t.keys("Escape")
        t.until(re.compile(r"1\.0M .*grow"))
        t.keys("Enter")
        text = t.until("malloc  allocated 1.0M in 1.0k")
        assert re.search(r"^    top_steps\.c:\d+ main$", text, re.M)
        t.keys("Escape")
        t.until_gone("malloc  allocated")
        t.keys("Space")
        t.until("paused")
        t.keys("Space")
        t.until_gone("paused")
        t.keys("m")
        t.until("+MARK")
        steps.tell("grow 2048")
        t.until(re.compile(r"3\.0M  \+2\.0M .*grow"))
        if may_trace():
            t.keys("l")
            t.until("It stood still for")
            t.until(re.compile(r"^heap +\d", re.M))
            t.keys("Escape")
            t.until_gone("It stood still for")
        t.keys("?")
        t.until("AGE p50: half of the freed blocks")
        t.keys("Escape")
        t.keys("t")
        t.until("thread (empty: all)")
        t.typed("nobody")
        t.keys("Enter")
        t.until("no thread 'nobody'")
        t.keys("t")
        t.until("thread (empty: all)")
        t.typed("top_steps")
        t.keys("Enter")
        t.until("running  thread top_steps")
        t.until(re.compile(r"3\.0M .*grow"))
        t.keys("x")
        t.until(re.compile(r"written: heft\.top_steps\.\d+\.snapshot-1\.heft"))
        t.keys("x")
        t.until("snapshot-2.heft")
        snapshots = sorted(tmp_path.glob("heft.top_steps.*.snapshot-*.heft"))
        assert len(snapshots) == 2
        assert report(snapshots[0])["totals"]["live_bytes"] == 3 << 20
        t.keys("w")
        t.until(re.compile(r"web page: heft view \d+"))
        steps.tell("exit 0")
        t.until("ended: exit status 0")
        t.keys("q")
        t.until("status=0")

    def test_resize(self, terminal, steps):
        t = terminal(steps.command())
        steps.tell("grow 1024", "churn 10")
        t.until(re.compile(r"1\.0M .*grow"))
        for width, height in ((40, 10), (20, 5), (120, 30), (80, 24), (200, 6), (60, 60)):
            t.resize(width, height)

            def fits():
                lines = t.lines()
                if len(lines) < height or not lines[height - 1].startswith("[?]"):
                    return False
                title = "heft top" if width >= 60 else "top_steps"
                return lines[0].startswith(title) and any("1.0M  " in line for line in lines) and \
                    (width < 80 or any("TREND" in line for line in lines))
            try:
                wait_until(fits, what=f"{width}x{height}")
            except BaseException:
                print(t.screen())
                raise
            assert all(len(line) <= width for line in t.lines())
        steps.tell("exit 0")
        t.until("ended: exit status 0")
        t.keys("q")
        t.until("status=0")

    def test_small_screen_reads_well(self, terminal, steps):
        t = terminal(steps.command(), width=40, height=10)
        steps.tell("grow 1024", "churn 10")
        t.until(re.compile(r"1\.0M .*grow"))
        lines = t.lines()
        assert re.match(r"top_steps \d+  00:\d\d  (running|data)", lines[0])
        assert lines[1].startswith("live 1.0M ")
        assert lines[2] == "no findings so far"
        assert re.match(r"   LIVE    Δ/s  SITE$", lines[3].rstrip())
        assert re.match(r"   1\.0M  +(-|\+?[0-9.]+[KMB]?)  top_steps\.c:\d+ grow", lines[4])
        assert lines[9] == "[?] [q]uit [s]ort [g]roup [/]filter"
        steps.tell("exit 0")
        t.until(re.compile(r"^top_steps \d+  00:\d\d  ended", re.M))
        t.until(re.compile(r"^     0B .* churn", re.M))  # what was recorded last is read after that
        t.keys("q")
        t.until("status=0")

    def test_kill_after_a_question(self, terminal, steps):
        t = terminal(steps.command())
        steps.tell("grow 1024")
        t.until(re.compile(r"1\.0M .*grow"))
        t.keys("q")
        t.until("[k]ill it")
        t.keys("n")
        t.until_gone("[k]ill it")
        t.keys("C-c")
        t.until("[k]ill it")
        t.keys("k")
        t.until("ended: killed by signal 15 (SIGTERM)")
        t.keys("q")
        t.until("status=143")

    def test_detach_and_come_back(self, terminal, steps, tmp_path):
        t = terminal(steps.command("-o", "d.heft"))
        steps.tell("grow 1024", "say before")
        t.until(re.compile(r"1\.0M .*grow"))
        t.keys("q")
        t.until("[k]ill it")
        t.keys("d")
        text = t.until("status=0")
        pid = re.search(r"process (\d+) goes on and is recorded in d\.heft", text).group(1)
        assert "before\n" in text and f"heft top {pid} shows it again" in text
        kept = list(tmp_path.glob("heft-top-*"))
        assert len(kept) == 1 and kept[0].name in text
        steps.tell("grow 1024", "say after")

        def shown():
            done = run([HEFT, "top", "--once", pid], cwd=tmp_path)
            return b"2.0M" in done.stdout
        wait_until(shown, what="2.0M")
        wait_until(lambda: kept[0].read_text() == "before\nafter\n", what="what it has said since")
        steps.tell("exit 0")
        wait_until(lambda: report(tmp_path / "d.heft", check=False).returncode == 0 and
                   report(tmp_path / "d.heft")["end"] == "exit", what="the end")

    def test_the_terminal_goes_away(self, terminal, steps, tmp_path):
        t = terminal(steps.command("-o", "d.heft"))
        steps.tell("grow 1024")
        t.until(re.compile(r"1\.0M .*grow"))
        t.close()
        steps.tell("grow 1024", "exit 5")  # nobody ended it
        wait_until(lambda: report(tmp_path / "d.heft")["end"] == "exit", what="the end")
        rep = report(tmp_path / "d.heft")
        assert (rep["exit_status"], rep["totals"]["live_bytes"]) == (5, 2 << 20)

    def test_told_to_end_it_ends_the_program(self, terminal, steps):
        t = terminal("sh -c 'echo $$ > pid; exec \"$@\"' - " + steps.command("-o", "e.heft"))
        steps.tell("grow 1024", "say last words")
        t.until(re.compile(r"1\.0M .*grow"))
        os.kill(int((t.directory / "pid").read_text()), signal.SIGTERM)
        text = t.until("status=143")
        assert "last words\n" in text and "heft: recorded in e.heft" in text

    def test_redirected_output_is_not_touched(self, terminal, steps, tmp_path):
        t = terminal(steps.command(redirect="> out.txt"))
        steps.tell("grow 1024", "say for the file", "complain for the terminal")
        t.until(re.compile(r"1\.0M .*grow"))
        wait_until(lambda: (tmp_path / "out.txt").read_text() == "for the file\n", what="out.txt")
        assert "for the" not in t.screen()
        steps.tell("exit 4")
        t.until("ended: exit status 4")
        t.keys("q")
        text = t.until("status=4")
        assert "for the terminal\n" in text and "for the file" not in text
        assert (tmp_path / "out.txt").read_text() == "for the file\n"

    def test_a_recording_and_a_process(self, terminal, compiled, tmp_path):
        recording = tmp_path / "other.heft"
        read, write = os.pipe()
        process = start([HEFT, "run", "-q", "-o", recording, "--", compiled("top_steps.c")],
                        stdin=read)
        os.close(read)
        try:
            os.write(write, b"grow 1024\n")
            pid = wait_until(lambda: children_of(process.pid), what="the program")[0]
            t = terminal(f"{HEFT} top {pid}; {HEFT} top {recording}")
            t.until(re.compile(r"1\.0M .*grow"))
            os.write(write, b"grow 1024\n")
            t.until(re.compile(r"2\.0M .*grow"))
            os.close(write)
            write = None
            t.until("ended: exit status 0")
            t.keys("o")
            t.until("heft top keeps the output only of heft top -- CMD")
            t.keys("q")
            t.keys("w")
            t.until("web page: heft view ")
            t.keys("q")
            t.until("status=0")
        finally:
            if write:
                os.close(write)
            try:
                process.wait(timeout=TIME_LIMIT)
            finally:
                end_group(process)

    def test_a_process_that_nobody_records(self, terminal, compiled, tmp_path):
        """heft top asks, attaches, and leaves the process when the view ends."""
        if not may_trace():
            pytest.skip("this machine does not allow ptrace")
        process = start([compiled("top_steps.c")], stdin=subprocess.PIPE)
        maps = pathlib.Path(f"/proc/{process.pid}/maps")
        try:
            t = terminal(f"{HEFT} top {process.pid}; echo first=$?; {HEFT} top {process.pid}")
            t.until(f"process {process.pid} (top_steps) is not being recorded")
            t.until("[Y/n]")
            t.keys("n", "Enter")
            t.until("first=1")
            wait_until(lambda: t.screen().count("[Y/n]") == 2, what="the second question")
            t.keys("Enter")
            t.until("running")
            process.stdin.write(b"grow 1024\n")
            process.stdin.flush()
            t.until(re.compile(r"1\.0M .*grow"))
            t.keys("q")
            text = t.until("status=0")
            recording = tmp_path / f"heft.top_steps.{process.pid}.heft"
            assert f"recorded in {recording.name}" in text
            assert "/heft-run-" not in maps.read_text()
            assert process.poll() is None
            assert report(recording)["end"] == "detached"
        finally:
            process.stdin.close()
            try:
                assert process.wait(timeout=TIME_LIMIT) == 0
            finally:
                end_group(process)

    def test_named_functions(self, terminal, compiled, tmp_path):
        """--alloc-fn of a process that heft top attaches to: the site is where keep_block was called."""
        if not may_trace():
            pytest.skip("this machine does not allow ptrace")
        process = start([compiled("service.c")], stdin=subprocess.PIPE)
        try:
            t = terminal(f"{HEFT} top --attach --alloc-fn=keep_block:malloc {process.pid}")
            t.until("running")
            process.stdin.write(b"keep 4 262144\n")
            process.stdin.flush()
            text = t.until(re.compile(r"1\.0M .*keep_many"))
            assert "keep_block" not in text
            t.keys("q")
            t.until("status=0")
        finally:
            end_group(process)
            process.communicate()

    def test_a_view_that_is_killed_leaves_the_process(self, terminal, compiled, tmp_path):
        if not may_trace():
            pytest.skip("this machine does not allow ptrace")
        process = start([compiled("top_steps.c")], stdin=subprocess.PIPE)
        maps = pathlib.Path(f"/proc/{process.pid}/maps")
        try:
            t = terminal(f"{HEFT} top --attach --sample=1k {process.pid}")
            t.until("running")
            assert "/heft-run-" in maps.read_text()
            view = [p for p in children_of(t.shell)
                    if b"top" in pathlib.Path(f"/proc/{p}/cmdline").read_bytes()]
            os.kill(view[0], signal.SIGKILL)
            wait_until(lambda: "/heft-run-" not in maps.read_text(), what="heft out of the process")
        finally:
            process.stdin.close()
            try:
                assert process.wait(timeout=TIME_LIMIT) == 0
            finally:
                end_group(process)

    def test_a_command_that_does_not_exist(self, terminal, tmp_path):
        t = terminal(f"{HEFT} top -- /does/not/exist")
        text = t.until("status=127")
        assert "heft: /does/not/exist: No such file or directory" in text
        assert not list(tmp_path.glob("heft*"))

    @pytest.mark.parametrize("term", ["dumb", "no-such-terminal"])
    def test_terminals_that_cannot(self, terminal, term):
        t = terminal(f"TERM={term} {HEFT} top -- /bin/true")
        text = t.until("status=125")
        assert f"TERM={term}) cannot show a live view" in text and "heft top --once" in text

    @pytest.mark.parametrize("settings, plain", [
        ({"TERM": "vt100", "LC_ALL": "C"}, True), ({"TERM": "screen"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True), ({"TERM": "xterm-256color"}, False)])
    def test_colour_and_letters(self, terminal, steps, settings, plain):
        t = terminal(steps.command("--sample=1k"), **settings)
        steps.tell("grow 4096")
        t.until(re.compile(r"ended|[34]\.\dM .*grow"))
        steps.tell("grow 4096", "exit 0")
        t.until("ended: exit status 0")
        text = t.until("1 sample/1.0K")
        assert re.search(r"^heap .* RSS ", text, re.M)
        coloured = re.search(r"\x1b\[[0-9;]*3[1-7]m", t.screen("-e"))
        assert bool(coloured) != plain, t.screen("-e")
        if settings.get("LC_ALL") == "C":
            assert t.screen().isascii()
        t.keys("q")
        t.until("status=0")

    def test_hostile_names(self, terminal, compiled, tmp_path):
        program = hostile_program(tmp_path)
        done = run([HEFT, "run", "-q", "-o", tmp_path / "h.heft", "--", program])
        assert done.returncode == 0, done.stderr
        t = terminal(f"printf '\\033]2;untouched\\033\\\\'; {HEFT} top h.heft", width=100)
        text = t.until("ended: exit status 0")
        assert r"evil\x1b[31m\x1b]2;pwned\x07" in text
        assert r"a\xe2\x80\xaereversed\xff\xfebad" in text
        assert "漢字関数漢字関数_wide" in text
        assert re.search(r"hostile L+\.\.\.L+$", text, re.M)
        # Columns stand where they stand, and nothing reached the terminal itself.
        starts = {line.index("hostile ") for line in text.splitlines()[5:] if " 1 " in line}
        assert len(starts) == 1, text
        assert t.tmux("display-message", "-p", "#{pane_title}").strip() == "untouched"
        assert len(text.splitlines()) == 24
        t.keys("Enter")
        t.until("malloc  allocated")
        t.keys("q")
        t.until("status=0")


def hostile_program(directory):
    """A program whose functions have names that no compiler takes: they are written over others of
    the same length in its symbol table."""
    wanted = [b"evil\x1b[31m\x1b]2;pwned\x07", "漢字関数漢字関数_wide".encode(),
              b"a\xe2\x80\xaereversed\xff\xfebad", b"L" * 10000]
    stand_ins = [(f"stand_in_{i}_" + "x" * 10000)[:len(name)] for i, name in enumerate(wanted)]
    functions = "".join(
        f"__attribute__((noinline)) void {name}(void) "
        f"{{ kept[{i}] = malloc({100000 * (i + 1)}); __asm__ volatile(\"\"); }}\n"
        for i, name in enumerate(stand_ins))
    source = directory / "hostile.c"
    source.write_text("#include <stdlib.h>\nstatic void *volatile kept[4];\n" + functions +
                      "int main(void) { " + "".join(f"{name}(); " for name in stand_ins) +
                      "return 0; }\n")
    program = directory / "hostile"
    subprocess.run(["gcc", "-O1", "-o", str(program), str(source)], check=True)
    data = program.read_bytes()
    for name, stand_in in zip(wanted, stand_ins):
        assert stand_in.encode() in data
        data = data.replace(stand_in.encode(), name)
    program.write_bytes(data)
    return program
