"""What the tests of heft agent, heft ctl and heft run --listen share: an agent of their own, programs
that are sampled without a parent, and what is served, read back."""

import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request

import pytest

from harness import BUILD, HEFT, TIME_LIMIT, report, start, wait_until

LIBRARY = BUILD / "libheft-preload.so"
RATE = "4k"  # blocks of 100,000 bytes and more are then always sampled: the estimates are exact


def fetch(url, token=None, data=None):
    """(status, body) of a request."""
    request = urllib.request.Request(url, data=data)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=TIME_LIMIT) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def session_env(directory, rate=RATE, library=LIBRARY):
    return {"LD_PRELOAD": str(library), "HEFT_SAMPLE": str(rate), "HEFT_DIR": str(directory)}


class Service:
    """tests/programs/service.c, or a wrapper around it, told what to do line by line."""

    def __init__(self, command, env=None, **others):
        self.process = start(command, env=env, stdin=subprocess.PIPE, **others)
        self.pid = self.process.pid

    def tell(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def do(self, line):
        self.tell(line)
        ready, _, _ = select.select([self.process.stdout], [], [], TIME_LIMIT)
        answer = self.process.stdout.readline().decode().split() if ready else None
        assert answer, "the program has gone, or does not answer"
        return answer

    def kept(self):
        """Bytes and blocks that it keeps."""
        answer = self.do("keep 0 0")
        return int(answer[1]), int(answer[2])

    def end(self, line=None, sig=None):
        """Its status, as subprocess has it."""
        if line:
            self.tell(line)
        if sig:
            os.kill(self.pid, sig)
        if not line and not sig:
            self.process.stdin.close()
        status = self.process.wait(timeout=TIME_LIMIT)
        for stream in self.process.stdin, self.process.stdout, self.process.stderr:
            stream.close()
        return status


class Agent:
    """heft agent with a directory, an output directory and a port of its own."""

    def __init__(self, where, options=(), env=None, heft_command=HEFT):
        self.heft_command = heft_command
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="heft-agent-", dir="/dev/shm"))
        self.dir.chmod(0o1733)
        self.output = where / "ended"
        self.where = where
        self.runs = 0
        self.process = None
        self.begin(options, env)

    def begin(self, options=(), env=None):
        self.runs += 1
        self.log_path = self.where / f"agent{self.runs}.log"
        with open(self.log_path, "wb") as log:
            self.process = start([self.heft_command, "agent", "--dir", self.dir, "--listen", "127.0.0.1:0",
                                  "--output-dir", self.output, *options], stderr=log,
                                 stdout=subprocess.DEVNULL, env=env)
        self.url = wait_until(self.served, what="the agent's address")

    def served(self):
        assert self.process.poll() is None, self.log()
        found = re.search(r"serving (http://\S+)", self.log())
        return found and found.group(1)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def get(self, path, **others):
        return fetch(self.url + path, **others)

    def start(self, command, rate=RATE, library=LIBRARY, **others):
        return start(command, env=session_env(self.dir, rate, library), **others)

    def service(self, program, rate=RATE):
        return Service([program], env=session_env(self.dir, rate))

    def wait_for_log(self, pattern):
        """The match, as soon as the agent has said so."""
        return wait_until(lambda: re.search(pattern, self.log()), what=f"{pattern} in\n{self.log()}")

    def heap(self, pid, form="heap"):
        """What is served of a process, as a report; waits until it is."""
        def ready():
            status, body = self.get(f"{pid}/{form}")
            return body if status == 200 else None
        path = self.where / f"{form}.{pid}.pb.gz"
        path.write_bytes(wait_until(ready, what=f"{form} of {pid}\n{self.log()}"))
        return report(path)

    def ended(self, pid):
        """Waits until it is saved: (how, the recording's report)."""
        found = self.wait_for_log(rf"process {pid} \(.*\): (.*); its last profile: (\S+)")
        return found.group(1), report(found.group(2))

    def files(self):
        return sorted(p.name for p in self.dir.iterdir() if not p.name.startswith("spare."))

    def no_files(self):
        """What was saved is removed a moment after the agent has said so."""
        wait_until(lambda: not self.files(), what=f"no session file\n{self.log()}")

    def pids(self):
        """The supervisor, its server and its workers."""
        found = [self.process.pid]
        with open(f"/proc/{found[0]}/task/{found[0]}/children") as children:
            return found + [int(pid) for pid in children.read().split()]

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        return self.process.wait(timeout=TIME_LIMIT)

    def close(self):
        if self.process.poll() is None:
            assert self.stop() == 0, self.log()
        shutil.rmtree(self.dir, ignore_errors=True)


@pytest.fixture
def agent(tmp_path):
    made = Agent(tmp_path)
    yield made
    made.close()


def live_in(rep, function):
    """Bytes and blocks that are live below a function."""
    sites = rep.sites_calling(function)
    return sum(s["live_bytes"] for s in sites), sum(s["live_blocks"] for s in sites)
