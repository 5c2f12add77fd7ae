"""All attacks at once on root's heft agent, while honest programs come and go: none may be missed, none may be shown wrong.

    sudo HEFT_BUILD=build /usr/bin/python3 tests/hostile/siege.py --seconds 600 [--heft build-asan/heft]

Not a part of make test. Prints what it saw, and ends with 1 if something was wrong."""

import argparse
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "programs")]

from harness import BUILD, HEFT, Compiler, start  # noqa: E402
from live_harness import fetch, session_env  # noqa: E402
from strangers import BLOCK, HONEST, STRANGER, SharedAgent, become, status_of  # noqa: E402

# What runs as the stranger. argv: the session directory, seconds, a seed.
MANGLER = """
import os, random, sys, time
folder, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
rng, end = random.Random(seed), time.monotonic() + float(sys.argv[2])
kept = [bytearray(300000) for i in range(40)]
path = next(line.split()[-1] for line in open("/proc/self/maps") if folder in line)
fd = os.open(path, os.O_RDWR)
size = os.fstat(fd).st_size
print(os.getpid(), flush=True)
while time.monotonic() < end:
    way = rng.randrange(6)
    if way == 0:
        os.ftruncate(fd, rng.choice((0, 4096, 100000, size // 2)))
        os.ftruncate(fd, size)
    elif way == 1:
        os.pwrite(fd, rng.randbytes(rng.randrange(1, 4096)), rng.randrange(size - 4096))
    elif way == 2:
        os.pwrite(fd, rng.randbytes(64), rng.randrange(28 << 10))
    elif way == 3:
        at = (28 << 10) + 8192 * 64 + rng.randrange(4096)
        os.pwrite(fd, rng.choice((b"/dev/tty", b"/tmp/heft-siege-fifo", b"/etc/shadow", b"\\0" * 8)), at)
    elif way == 4:
        os.pwrite(fd, (rng.getrandbits(64)).to_bytes(8, "little") * 512, 552960 + (2 << 20) + rng.randrange(1 << 20))
    else:
        kept.append(bytearray(rng.randrange(1, 900000)))
        del kept[0]
    time.sleep(rng.random() / 50)
"""
FLOOD = """
import fcntl, os, random, sys, time
folder, end, rng = sys.argv[1], time.monotonic() + float(sys.argv[2]), random.Random(int(sys.argv[3]))
names = []
held = []
while time.monotonic() < end:
    name = "%s/%x.%x" % (folder, rng.randrange(1, 1 << 22), rng.getrandbits(40))
    try:
        way = rng.randrange(5)
        if way == 0:
            os.mkfifo(name)
        elif way == 1:
            os.symlink("/etc/shadow", name)
        elif way == 2:
            os.mkdir(name)
        else:
            fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
            if way == 3:
                os.ftruncate(fd, 52998144)
                os.pwrite(fd, b"HEFTSSES" + rng.randbytes(200), 0)
            held.append(fd)
            try:
                fcntl.fcntl(fd, 1024, 1)
            except OSError:
                pass
        names.append(name)
    except OSError:
        pass
    if len(held) > 200:
        os.close(held.pop(0))
    if len(names) > 3000:
        old = names.pop(0)
        try:
            os.rmdir(old) if os.path.isdir(old) and not os.path.islink(old) else os.unlink(old)
        except OSError:
            pass
    time.sleep(0.0005)
for name in names:
    try:
        os.rmdir(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(name)
    except OSError:
        pass
"""

# Asks for its own profile on many connections, for differences over an hour and for whole ones, and reads nothing.
GREEDY = """
import os, random, socket, sys, time
rng, end, port = random.Random(int(sys.argv[3])), time.monotonic() + float(sys.argv[2]), int(sys.argv[4])
kept = [bytearray(300000 + i) for i in range(40)]
held = []
while time.monotonic() < end:
    try:
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.bind(("127.0.0.%d" % rng.randrange(1, 250), 0))
        s.connect(("127.0.0.1", port))
        s.sendall(b"GET /debug/pprof/%d/%s HTTP/1.1\\r\\nHost: 127.0.0.1:%d\\r\\n\\r\\n" % (
            os.getpid(), rng.choice((b"heap?seconds=3600", b"heap?debug=1", b"allocs?seconds=1", b"symbol?0x1")), port))
        held.append(s)
    except OSError:
        pass
    if len(held) > 300:
        held.pop(0).close()
    time.sleep(0.005)
"""


class Siege:
    def __init__(self, agent, seconds):
        self.agent = agent
        self.end = time.monotonic() + seconds
        self.seconds = seconds
        self.problems, self.latencies = [], []
        self.honest = self.again = self.attacks = 0
        self.lock = threading.Lock()
        self.strangers = set()

    def over(self):
        return time.monotonic() > self.end

    def problem(self, text):
        with self.lock:
            self.problems.append(text)

    def honest_life(self, seed):
        """Programs of the honest user, one after another."""
        rng = random.Random(seed)
        while not self.over():
            service = self.agent.service_of(HONEST)
            try:
                n = rng.randrange(1, 60)
                service.do(f"keep {n} {BLOCK}")
                self.watch(service, n, rng)
                service.end("exit 0")
            except Exception as error:  # noqa: BLE001
                self.problem(f"process {service.pid}: {error!r}")
                service.process.kill()
            with self.lock:
                self.honest += 1

    def watch(self, service, n, rng):
        limit = time.monotonic() + 30
        want = f"heap profile: {n}: {n * BLOCK} ".encode()
        before = False  # who had this number
        while True:  # it is found within a moment
            begun = time.monotonic()
            status, body = self.agent.get(f"{service.pid}/heap?debug=1")
            took = time.monotonic() - begun
            if body.startswith(want) or time.monotonic() > limit:
                break
            if status == 200 and not before:  # until then its number is that of one that has ended, or nobody's
                before = f"process {service.pid} (" in self.agent.log()
                if not before:
                    break
            time.sleep(0.05)
        with self.lock:
            self.again += before
        if status != 200 or not body.startswith(want):
            self.problem(f"process {service.pid}: {status} {body[:120]!r}, not {want!r}")
        with self.lock:
            self.latencies.append(took)
        time.sleep(rng.random() * 10)

    def attack(self, code, seed):
        rng = random.Random(seed)
        while not self.over():
            program = start(["/usr/bin/python3", "-c", code, self.agent.dir, rng.random() * 8, rng.randrange(1 << 30),
                             self.agent.url.split("/")[2].split(":")[1]],
                            env=session_env(self.agent.dir, library=self.agent.library), preexec_fn=become(STRANGER))
            if code is MANGLER:
                line = program.stdout.readline().split()
                if line:
                    with self.lock:
                        self.strangers.add(int(line[0]))
            if rng.random() < 0.3:
                time.sleep(rng.random() * 3)
                program.send_signal(rng.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM)))
                time.sleep(rng.random())
                program.kill()
            program.communicate()
            with self.lock:
                self.attacks += 1

    def ask_about_strangers(self, seed):
        rng = random.Random(seed)
        while not self.over():
            with self.lock:
                pids = list(self.strangers)[-8:]
            for pid in pids:
                try:
                    fetch(self.agent.url + f"{pid}/" + rng.choice(
                        ("heap", "allocs", "heap?debug=1", "symbol?0x1+0x2", "cmdline", "heap?seconds=1")))
                except OSError:
                    pass
            fetch(self.agent.url.replace("/debug/pprof/", "/metrics"))
            time.sleep(0.02)

    def half_requests(self):
        """Connections of another address that never end their requests."""
        host, port = self.agent.url.split("/")[2].split(":")
        held = []
        while not self.over():
            s = socket.socket()
            try:
                s.bind(("127.0.0.2", 0))
                s.connect((host, int(port)))
                s.sendall(random.choice((b"GET /debug/pprof/ HTTP/1.1\r\nHost: x", b"\x16\x03\x01", b"POST / HTTP/1.1\r\n",
                                         b"GET " + b"a" * 3000)))
                held.append(s)
            except OSError:
                s.close()
            if len(held) > 300:
                held.pop(0).close()
            time.sleep(0.01)
        for s in held:
            s.close()

    def run(self):
        threads = [threading.Thread(target=self.honest_life, args=(i,)) for i in range(50)]
        threads += [threading.Thread(target=self.attack, args=(MANGLER, 100 + i)) for i in range(6)]
        threads += [threading.Thread(target=self.attack, args=(FLOOD, 200 + i)) for i in range(2)]
        threads += [threading.Thread(target=self.attack, args=(GREEDY, 250))]
        threads += [threading.Thread(target=self.ask_about_strangers, args=(300 + i,)) for i in range(2)]
        threads += [threading.Thread(target=self.half_requests)]
        for t in threads:
            t.start()
        most = 0
        while not self.over():
            if self.agent.process.poll() is not None:
                self.problem(f"the agent has ended: {self.agent.log()[-3000:]}")
                break
            most = max(most, int(status_of(self.agent.process.pid)["RssAnon"].split()[0]))
            time.sleep(0.5)
        for t in threads:
            t.join()
        return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--heft", type=pathlib.Path, default=HEFT)
    parser.add_argument("--log", type=pathlib.Path, help="keep the agent's log there")
    arguments = parser.parse_args()
    # What was freed is kept for AddressSanitizer alone: 256 MiB of it would hide what the supervisor has.
    os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=8:thread_local_quarantine_size_kb=64")
    where = pathlib.Path(tempfile.mkdtemp(prefix="heft-siege-"))
    where.chmod(0o755)
    public = where / "public"
    public.mkdir(mode=0o755)
    for file in (HEFT, BUILD / "libheft-preload.so"):
        pathlib.Path(shutil.copy(file, public)).chmod(0o755)
    program = Compiler(public)("service.c")
    agent = SharedAgent(where, public / "heft", program, ["--quota", "20M"], heft_command=arguments.heft)
    siege = Siege(agent, arguments.seconds)
    most = siege.run()
    log = agent.log()
    failures = log.count("the worker for programs of user")
    for_honest = log.count(f"the worker for programs of user {HONEST} ")
    for line in log.splitlines():
        if "ERROR: AddressSanitizer" in line or "runtime error" in line:
            siege.problem(line)
    latencies = sorted(siege.latencies)
    print(f"{siege.again} had the number of a program that had ended, which was shown until they were found")
    print(f"{siege.honest} honest programs, {siege.attacks} attacks, {failures} workers failed ({for_honest} honest)")
    if latencies:
        print(f"answers: median {statistics.median(latencies):.3f} s, 99 % {latencies[int(len(latencies) * .99)]:.3f} s, "
              f"slowest {latencies[-1]:.3f} s")
    print(f"supervisor: {most} KiB of its own memory at most")
    if for_honest:
        siege.problem("a worker of the honest user failed")
    if arguments.log:
        shutil.copy(agent.log_path, arguments.log)
    agent.close()
    shutil.rmtree(where, ignore_errors=True)
    for text in siege.problems[:20]:
        print("PROBLEM", text)
    print(f"{len(siege.problems)} problems")
    return 1 if siege.problems else 0


if __name__ == "__main__":
    sys.exit(main())
