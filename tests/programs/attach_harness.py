"""What the tests of heft attach share: the program that is attached to (attach_target.c), told what to do line by
line, and a heft whose way into the program is a stand-in (tests/integration/fake_attach.c)."""

import ctypes
import os
import pathlib
import select
import signal
import subprocess

from harness import BUILD, TIME_LIMIT, end_group, report, start

FAKE = BUILD / "tests" / "integration" / "heft_fake_attach"


def may_trace():
    """Whether heft may trace a process of ours that is not its child, which attaching needs."""
    scope = pathlib.Path("/proc/sys/kernel/yama/ptrace_scope")
    if os.geteuid() != 0 and scope.exists() and scope.read_text().strip() != "0":
        return False
    process = subprocess.Popen(["/bin/sleep", "60"])
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        seized = libc.ptrace(0x4206, process.pid, None, None) == 0  # PTRACE_SEIZE
    finally:
        process.kill()
        process.wait()
    return seized


class Lines:
    """The lines of a pipe, each with a time limit."""

    def __init__(self, pipe):
        self.pipe, self.rest = pipe, b""

    def next(self):
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.pipe], [], [], TIME_LIMIT)
            more = os.read(self.pipe.fileno(), 4096) if ready else b""
            if not more:
                return None
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()


class Target:
    """attach_target.c"""

    def __init__(self, program, folder, title=None):
        self.folder = folder
        self.process = start([program, *([title] if title else []), folder], stdin=subprocess.PIPE)
        self.pid = self.process.pid
        self.lines = Lines(self.process.stdout)
        assert self.line() == "ready"

    def line(self):
        line = self.lines.next()
        assert line is not None, "the program has gone, or does not answer"
        return line

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def do(self, *lines):
        for line in lines:
            self.tell(line)
            assert self.line() == "ok", line

    def end(self):
        end_group(self.process)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()


class Attached:
    """heft attach, from the moment that the program is recorded on."""

    def __init__(self, target, *options, heft=FAKE, path=None, wait=True, cwd=None):
        self.target = target
        self.path = path or target.folder / "attached.heft"
        self.env = {"HEFT_FAKE_DIR": str(target.folder),
                    "HEFT_FAKE_LIBRARY": str(BUILD / "libheft-preload.so")}
        out = ["-o", self.path] if path != "" else []
        self.process = start([heft, "attach", *out, *options, target.pid], env=self.env, cwd=cwd)
        self.said = []
        self.lines = Lines(self.process.stderr)
        if wait:
            self.hear("heft: recording; ")

    def hear(self, words):
        """Reads what heft says up to a line that begins with these words."""
        while not (self.said and self.said[-1].startswith(words)):
            line = self.lines.next()
            assert line is not None, f"heft did not say '{words}': {self.said}"
            self.said.append(line)
        return self.said[-1]

    def signal(self, number=signal.SIGINT):
        os.kill(self.process.pid, number)

    def end(self, status=0):
        """Waits for its end. Returns all that it said."""
        try:
            _, err = self.process.communicate(timeout=TIME_LIMIT)
        finally:
            end_group(self.process)
        self.said += (self.lines.rest + err).decode().splitlines()
        assert self.process.returncode == status, self.said
        return "\n".join(self.said)

    def report(self, *options):
        return report(self.path, *options)
