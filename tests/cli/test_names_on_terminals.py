"""Names that a user or a program chose may hold what commands a terminal: heft shows it as \\xNN,
wherever it prints a name."""

import os
import shutil
import subprocess

import pytest

import harness

# Clears the screen, sets the title, a C1 control as UTF-8, a direction mark, no UTF-8 at all.
EVIL = b"e\x1b[2J\x1b]0;t\x07\xc2\x9b1m\xe2\x80\xae\xff\x7f"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recording under a name like that, of a program and a thread with names like that."""
    folder = tmp_path_factory.mktemp("evil")
    source = folder / "p.c"
    source.write_text("""
#include <stdlib.h>
#include <sys/prctl.h>
int main(void)
{
	prctl(PR_SET_NAME, "n\\033[31m\\007");
	return malloc(100) == 0;
}
""")
    program = bytes(folder) + b"/" + EVIL
    subprocess.run(["gcc", *harness.C_FLAGS, b"-o", program, source], check=True)
    done = subprocess.run([harness.HEFT, "run", "-o", bytes(folder) + b"/" + EVIL + b".heft", "--", program, EVIL],
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    check(done)
    shutil.copy(bytes(folder) + b"/" + EVIL + b".heft", folder / "plain.heft")
    return folder


def check(done):
    for stream in (done.stdout, done.stderr):
        assert not set(stream) & (set(range(32)) - {10} | {127}), stream
        text = stream.decode()  # and it is UTF-8
        assert not any(0x80 <= ord(c) < 0xa0 or c == "\u202e" for c in text), stream


@pytest.mark.parametrize("words", [
    ["run", EVIL],
    ["run", "--", b"./" + EVIL],
    ["run", "-o", EVIL + b"/x.heft", "--", "true"],
    ["run", "--limit-size", EVIL, "true"],
    ["run", "--" + EVIL.decode("latin-1"), "true"],
    ["--", EVIL],
    [EVIL],
    ["report", EVIL],
    ["report", EVIL + b".heft"],
    ["report", "--threads", EVIL + b".heft"],
    ["report", "--tree", EVIL + b".heft"],
    ["report", "--focus", EVIL, "plain.heft"],
    ["report", "--focus", EVIL + b"[", "plain.heft"],
    ["report", "--thread", EVIL, "plain.heft"],
    ["report", "--frames", EVIL, "plain.heft"],
    ["report", "--sort", EVIL, "plain.heft"],
    ["report", "--at", EVIL, "plain.heft"],
    ["diff", EVIL + b".heft", "plain.heft"],
    ["diff", EVIL, "plain.heft"],
    ["check", "--budget", EVIL, "plain.heft"],
    ["check", "--budget", "budget", EVIL + b".heft"],
    ["check", "--budget", "bad budget", "plain.heft"],
    ["export", "-f", "folded", "--force", "-o", EVIL + b".txt", "plain.heft"],
    ["export", "-f", EVIL, "plain.heft"],
    ["export", "-f", "folded", "-o", EVIL + b"/x", "plain.heft"],
    ["verify", EVIL + b".heft"],
    ["verify", EVIL],
    ["top", "--once", EVIL + b".heft"],
    ["top", "--once", EVIL],
    ["top", "--once", "--", EVIL],
    ["view", "--no-open", EVIL],
    ["view", EVIL + b"x.heft"],
    ["help", EVIL],
    ["ctl", EVIL, "rate=1M"],
    ["ctl", "1", EVIL],
    ["attach", EVIL],
    ["attach", "-o", EVIL + b"/x", str(os.getpid())],
    ["detach", EVIL],
    ["map", EVIL],
    ["map", "-n", EVIL, "1"],
    ["agent", "--listen", EVIL],
], ids=lambda words: " ".join(w if isinstance(w, str) else "EVIL" for w in words)[:50])
def test_names_are_harmless(folder, words):
    (folder / "budget").write_text("peak_bytes <= 10\n")
    (folder / "bad budget").write_bytes(b"peak_bytes <= " + EVIL + b"\n")
    done = subprocess.run([harness.HEFT, *words], cwd=folder, capture_output=True, timeout=60, check=False)
    assert done.stdout or done.stderr
    check(done)


LINES = b"two\nlines\x1b[2J"  # a newline in a name must not make a line that looks like heft's own


@pytest.fixture
def running(folder):
    """A sampled program of such a name, in a folder of such a name, that waits for its input to end."""
    place = bytes(folder) + b"/" + LINES
    os.makedirs(place, exist_ok=True)
    source = folder / "wait.c"
    source.write_text("""
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	char byte, *block = malloc(1000000);
	block[0] = 1;
	return write(1, "x", 1) != 1 || read(0, &byte, 1) < 0 || !block[0];
}
""")
    program = place + b"/" + LINES
    subprocess.run(["gcc", *harness.C_FLAGS, b"-o", program, source], check=True)
    env = dict(os.environ, HEFT_SAMPLE="4k", HEFT_DIR=os.fsdecode(place),
               LD_PRELOAD=str(harness.BUILD / "libheft-preload.so"))
    with subprocess.Popen([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"x"
        yield process
        process.stdin.close()


def test_ctl_shows_a_name_in_one_line(running):
    done = subprocess.run([harness.HEFT, "ctl", str(running.pid)], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    check(done)
    assert [line[:9] for line in done.stdout.decode().splitlines()] == [
        "process " + str(running.pid)[:1], "  samplin", "  rate   ", "  samples", "  live   ", "  allocat", "  cost   ",
        "  session", "  held by"]


def test_run_v_shows_a_name_in_one_line(folder):
    place = bytes(folder) + b"/" + LINES
    os.makedirs(place, exist_ok=True)
    program = place + b"/quick" + LINES
    subprocess.run(["gcc", *harness.C_FLAGS, b"-o", program, folder / "p.c"], check=True)
    done = subprocess.run([harness.HEFT, "run", "-v", "-o", folder / "v.heft", "--force", "--", program],
                          capture_output=True, timeout=60, check=False)
    check(done)
    assert b"recording process" in done.stderr
    assert not any(line.strip().startswith(b"lines") for line in done.stderr.split(b"\n")), done.stderr


@pytest.mark.parametrize("what", ["command", "pid"])
def test_doctor_shows_a_name_in_one_line(running, what):
    name = running.args[0] if what == "command" else str(running.pid)
    done = subprocess.run([harness.HEFT, "doctor", name], capture_output=True, timeout=60, check=False)
    check(done)
    assert b"\\x0alines" in done.stdout, done.stdout
    assert not any(line.strip().startswith(b"lines") for line in done.stdout.split(b"\n")), done.stdout
