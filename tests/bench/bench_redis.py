"""redis-server under redis-benchmark, plain, plain again and sampled, all three at once.

The servers live side by side, idle but for the one whose turn it is: a slice of load goes to each in
turning order, so start-up is outside and what the machine does to one it does to all. Processor time
is the server's own (/proc/PID/task/*/schedstat, all threads) over the requests of its slice: the load
generator and everything else on the machine are not in it. Requests a second and the 99th percentile
are redis-benchmark's words; on a machine of few cores they say as much about the generator.

Servers listen on a free port of 127.0.0.1, with a configuration, a directory and a name of their own,
keep nothing on disk, and are ended by the SHUTDOWN command, or by their process id.
"""
import csv
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ["plain", "plain-again", "sampled"]
# One request at a time for each of 20 clients; and 16 in flight, where the server is all that counts.
LOADS = {"single": ["-P", "1", "-n", "20000"], "pipelined": ["-P", "16", "-n", "100000"]}
COMMON = ["-t", "set,get,lpush,lpop", "-c", "20", "-r", "100000", "-d", "100", "--csv"]
LIMIT_SECONDS = 120
GENERATIONS = 3  # each with servers of its own: two of the same kind differ by where their heaps lie


def available():
    return shutil.which("redis-benchmark") and (shutil.which("redis-server") or
                                                shutil.which("redis-check-rdb"))


def program(directory):
    """redis-server; or its other name from Debian's redis-tools, which is the same program and comes
    without a service that is started on installing it."""
    link = Path(directory) / "redis-server"
    if not link.exists():
        link.symlink_to(shutil.which("redis-server") or shutil.which("redis-check-rdb"))
    return str(link)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server:
    """One redis-server; start_s is the time from its start to its first answer."""

    def __init__(self, directory, wrap=lambda argv: argv):
        self.port = free_port()
        config = Path(directory) / f"redis-{self.port}.conf"
        config.write_text(f"port {self.port}\nbind 127.0.0.1\nsave \"\"\nappendonly no\n"
                          f"daemonize no\ndir {directory}\nlogfile /dev/null\n")
        began = time.monotonic()
        self.process = subprocess.Popen(wrap([program(directory), str(config)]),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        while self.ask("PING") != "+PONG":
            if self.process.poll() is not None or time.monotonic() - began > 20:
                self.process.kill()
                self.process.wait()
                raise RuntimeError("redis-server does not answer")
            time.sleep(0.0005)
        self.start_s = time.monotonic() - began
        info = self.ask("INFO server")
        self.pid = int(next(line for line in info.splitlines()
                            if line.startswith("process_id:")).split(":")[1])

    def ask(self, command):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                connection.sendall(command.encode() + b"\r\n")
                return connection.recv(65536).decode(errors="replace").strip()
        except OSError:
            return ""

    def cpu_ns(self):
        return sum(int(Path(f"/proc/{self.pid}/task/{task}/schedstat").read_text().split()[0])
                   for task in os.listdir(f"/proc/{self.pid}/task"))

    def load(self, words):
        """A slice of load: {cpu_us a request, rps, p99_ms} over all commands of it."""
        self.ask("FLUSHALL")
        before = self.cpu_ns()
        done = subprocess.run(["redis-benchmark", "-p", str(self.port), *COMMON, *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT_SECONDS, check=True)
        spent = self.cpu_ns() - before
        lines = list(csv.DictReader(done.stdout.splitlines()))
        requests = len(lines) * int(words[words.index("-n") + 1])
        seconds = sum(requests / len(lines) / float(line["rps"]) for line in lines)
        return {"cpu_us": spent / requests / 1e3, "rps": requests / seconds,
                "p99_ms": max(float(line["p99_latency_ms"]) for line in lines)}

    def close(self):
        self.ask("SHUTDOWN NOSAVE")
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.kill(self.pid, 9)
            self.process.wait()


def wrap_of(name, sampled):
    return sampled if name == "sampled" else lambda argv: argv


def one_generation(directory, names, sampled, rounds, samples, say):
    """A server of each kind, and rounds of load on them."""
    servers = {}
    try:
        for name in names:
            servers[name] = Server(directory, wrap_of(name, sampled))
        for load, words in LOADS.items():
            for turn in range(-1, rounds):  # the first is not kept: it fills the heap
                start = turn % len(names)
                for name in names[start:] + names[:start]:
                    sample = servers[name].load(words)
                    say(f"{load} {name} {turn + 1}/{rounds}: {sample['cpu_us']:.2f} us")
                    if turn >= 0:
                        samples[load][name].append(sample)
    finally:
        for server in servers.values():
            server.close()


def measure(bench, sampled, rounds, say):
    names = [name for name in NAMES if name != "sampled" or bench.heft]
    out = {"samples": {load: {name: [] for name in names} for load in LOADS},
           "start": {name: [] for name in names}}
    with tempfile.TemporaryDirectory(prefix="heft-redis-") as directory:
        for _ in range(5):
            for name in names:
                server = Server(directory, wrap_of(name, sampled))
                out["start"][name].append(server.start_s)
                server.close()
        for generation in range(GENERATIONS):
            one_generation(directory, names, sampled, -(-rounds // GENERATIONS), out["samples"],
                           lambda text, number=generation: say(f"redis {number + 1} {text}"))
    return out
