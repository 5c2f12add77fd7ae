"""Rounds of heft attach and heft detach over programs that are at work, and what must hold after each: the program
lives and works on, its memory map and its code are as before, nobody traces it. tests/integration has a few rounds of
each program, tests/campaign many."""

import contextlib
import mmap
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import pytest

from attach_harness import Lines
from harness import (C_FLAGS, GO, HEFT, PROGRAMS, TIME_LIMIT, cargo_build, children_of, end_group, go_build,
                     plain_environment, run, start, wait_until)
from old_glibc import old_build


class Wrong(Exception):
    """A program is not as it should be."""


def must(condition, *what):
    if not condition:
        raise Wrong(" ".join(map(str, what)))


# ---- what can be seen of a process from outside


class Mapping:
    def __init__(self, line):
        words = line.split(None, 5)
        self.low, self.high = (int(x, 16) for x in words[0].split("-"))
        self.rights, self.offset, self.inode = words[1], int(words[2], 16), int(words[4])
        self.name = words[5].strip() if len(words) > 5 else ""

    def key(self):
        return self.low, self.high, self.rights, self.offset, self.name


def maps_of(pid):
    return [Mapping(line) for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()]


ARENA = 64 << 20  # glibc's heaps of other threads are that large, and that aligned; a part of one is in use


def whole_map(pid):
    """Every mapping, but that heaps may have grown."""
    found = []
    for m in maps_of(pid):
        below = found[-1] if found else None
        if below and m.rights == "---p" and not m.name and below[2:] == ("rw-p", 0, "") and below[1] == m.low and \
           below[0] % ARENA == 0 and m.high == below[0] + ARENA:
            found[-1] = (below[0], m.high, "heap", 0, "")
        elif m.name != "[heap]":
            found.append(m.key())
    return found


def files_mapped(pid):
    return [m.key() for m in maps_of(pid) if m.inode]


def code_at(memory, pid, mapping):
    """The bytes of a mapping; None: it was unloaded meanwhile. A library may come back to the same place between two
    looks, so one failure says little."""
    for _ in range(100):
        memory.seek(mapping.low)
        try:
            return memory.read(mapping.high - mapping.low)
        except OSError:
            if mapping.key() not in [n.key() for n in maps_of(pid)]:
                return None
            time.sleep(0.01)
    raise Wrong(f"cannot read {mapping.key()}")


def check_code(pid):
    """The code of every library, and of the program, is what its file has."""
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for m in maps_of(pid):
            if "x" not in m.rights or not m.inode or not os.path.exists(m.name):
                continue
            must("w" not in m.rights, "writable code", m.key())
            with open(m.name, "rb") as file:
                file.seek(m.offset)
                meant = file.read(m.high - m.low)
            # Behind the end of the file there are zeros. Another library may be there for a moment.
            for _ in range(20):
                there = code_at(memory, pid, m)
                if there is None or there[:len(meant)] == meant:
                    break
                time.sleep(0.01)
            else:
                at = next(i for i, (a, b) in enumerate(zip(there, meant)) if a != b)
                raise Wrong(f"process {pid}: code differs at {m.low + at:#x}: {m.name}+{m.offset + at:#x}: "
                            f"{there[at:at + 16].hex()} instead of {meant[at:at + 16].hex()}")


def is_ordinary(tid):
    """Or it has ended."""
    try:
        return os.sched_getscheduler(tid) not in (os.SCHED_FIFO, os.SCHED_RR)
    except OSError:
        return True


def check_left(pid):
    """Nothing of heft is in the process, and nobody holds a thread of it."""
    for m in maps_of(pid):
        must("heft" not in m.name.replace("heft-programs", "").rsplit("/", 1)[-1] and ".session" not in m.name,
             f"process {pid}: still mapped:", m.key())
        must("x" not in m.rights or m.name, f"process {pid}: code without a file:", m.key())
    check_code(pid)
    for path in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            status = (path / "status").read_text()
        except OSError:
            continue
        must(re.search(r"^TracerPid:\t0$", status, re.M), f"thread {path.name} is traced")
        must(not re.search(r"^State:\t[tT]", status, re.M), f"thread {path.name} stands still")
        must(is_ordinary(int(path.name)), f"thread {path.name} has a real-time priority")


def family_of(pid):
    """It and its descendants."""
    return [pid] + [p for child in children_of(pid) for p in family_of(child)]


def group_of(pid):
    """The processes of its process group: its children too that have another parent by now."""
    found = []
    for path in pathlib.Path("/proc").iterdir():
        try:
            if path.name.isdigit() and os.getpgid(int(path.name)) == pid:
                found.append(int(path.name))
        except OSError:
            pass
    return found


def check_family(pid):
    """It, and all that has forked from it; those may end meanwhile."""
    check_left(pid)
    for child in {*family_of(pid), *group_of(pid)} - {pid}:
        try:
            check_left(child)
        except (OSError, StopIteration):
            pass  # it has ended


def descriptors(pid):
    """What its files are."""
    found = []
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append((int(entry.name), os.readlink(entry)))
        except OSError:
            pass
    return sorted(found)


# ---- programs


class Life:
    """A program that counts its work in a file which both sides have mapped (attach_life.h)."""

    steady_map = False  # its own mappings come and go
    steady_files = True
    steps = 20  # so much work must go on while heft is there, and after it
    may_refuse = None
    options = ()

    def __init__(self, command, folder, after=(), env=None, **facts):
        self.folder = folder
        file, path = tempfile.mkstemp(prefix="life", dir=folder)
        os.ftruncate(file, 4096)
        self.shared = mmap.mmap(file, 4096)
        os.close(file)
        for name, value in facts.items():
            setattr(self, name, value)
        self.process = start([*command, path, *after], env=env)
        self.pid = self.process.pid
        wait_until(lambda: self.number(2) or self.process.poll() is not None, what="the program is ready")
        self.check_alive()

    def number(self, which):
        return struct.unpack_from("Q", self.shared, 8 * which)[0]

    def progress(self):
        return self.number(0)

    def check_alive(self):
        if self.process.poll() is not None:
            end_group(self.process)  # its children
            out, err = self.process.communicate()
            raise Wrong(f"the program has ended: {self.process.returncode} {out} {err}")

    def work_on(self, seconds=TIME_LIMIT):
        """Waits until it has done some more."""
        begun, end = self.progress(), time.monotonic() + seconds
        while self.progress() < begun + self.steps:
            self.check_alive()
            must(time.monotonic() < end, "the program does no more work:", stacks_of(self.pid))
            time.sleep(0.001)

    def end(self):
        """It ends by itself, and says that all was right."""
        struct.pack_into("Q", self.shared, 8, 1)
        try:
            out, err = self.process.communicate(timeout=TIME_LIMIT)
        except subprocess.TimeoutExpired:
            raise Wrong(f"the program does not end: {stacks_of(self.pid)}") from None
        finally:
            self.stop()
        must((self.process.returncode, out) == (0, b"right\n"), "the program ended with", self.process.returncode,
             out, err)

    def stop(self):
        end_group(self.process)
        self.process.wait()
        self.shared.close()


def stacks_of(pid):
    """Where its threads wait, for messages."""
    words = []
    for path in sorted(pathlib.Path(f"/proc/{pid}/task").glob("*")):
        try:
            status = (path / "stat").read_text().rsplit(")", 1)[1].split()[0]
            words.append(f"{path.name}:{status}:{(path / 'wchan').read_text()}")
        except OSError:
            pass
    return " ".join(words)


PYTHON = """
import mmap, sys, threading
file = open(sys.argv[1], "r+b")
shared = mmap.mmap(file.fileno(), 4096)
view = memoryview(shared).cast("Q")
lock = threading.Lock()
def work(seed):
    i = seed
    while not view[1]:
        words = {str(n): [n] * (n % 50) for n in range(i % 300)}
        text = "".join(words)
        assert len(words) == i % 300 and text == "".join(str(n) for n in range(i % 300))
        with lock:
            view[0] += 1
        i += 1
threads = [threading.Thread(target=work, args=(k * 1000,)) for k in range(4)]
for t in threads:
    t.start()
view[2] = 1
for t in threads:
    t.join()
print("right")
"""


def make_life(kind, compiled, folder):
    """The program of that kind, at work."""
    if kind == "throws":
        return Life([compiled("attach_throws.cc")], folder, steps=1000)
    if kind == "mimalloc":  # its operator new aborts instead of throwing
        return Life([compiled("attach_lives.c", flags=["-ldl", "-lmimalloc"], output=kind), "threads"], folder)
    if kind in OWN:
        return Life([compiled("attach_throws.cc", flags=OWN[kind], output=kind.replace(" ", "-"))], folder, steps=1000)
    if kind in ELSEWHERE:
        return Life([ELSEWHERE[kind](compiled.directory / kind.replace(" ", "-"))], folder)
    if kind == "python":
        return Life(["/usr/bin/python3", "-c", PYTHON], folder)
    if kind == "redis":
        return Redis(folder)
    if kind == "nginx":
        return Nginx(folder)
    program = compiled("attach_lives.c", flags=["-ldl"])
    libraries = []
    facts = {"forks": {"steps": 5}, "late-family": {"steps": 1}, "vfork": {"steps": 2}, "blocked": {"steps": 2}}.get(
        kind, {})
    if kind == "loading":
        libraries = [compiled("attach_part.c", flags=["-shared", "-fPIC"], output=f"part{i}.so") for i in range(3)]
        facts = {"steady_files": False}
    if kind == "vfork":
        facts["may_refuse"] = r"shares its memory|did not stop|vfork"
    if kind == "blocked":
        facts["steady_map"] = True
    return Life([program, kind], folder, after=libraries, **facts)


# The same program with an allocator linked in, and linked statically
OWN = {"jemalloc": ["-l:libjemalloc.a", "-ldl"], "tcmalloc": ["-l:libtcmalloc_minimal.a"],
       "static-pie": ["-static-pie"], "static jemalloc": ["-static", "-l:libjemalloc.a"],
       "static tcmalloc": ["-static", "-l:libtcmalloc_minimal.a"]}


# ---- programs that another compiler makes


def build_musl(out):
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed")
    subprocess.run(["musl-gcc", *C_FLAGS, f"-I{PROGRAMS}", PROGRAMS / "attach_threads.c", "-o", out], check=True)
    return out


def build_cgo(out):
    if not os.path.exists(GO):
        pytest.skip("Go is not installed")
    return go_build(PROGRAMS / "attach_cgo.go", out)


def build_rust(crate, allocator):
    def build(out):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="crate", dir=out.parent))
        try:
            source = (PROGRAMS / "attach_rust.rs").read_text().replace("ALLOCATOR", allocator)
            return cargo_build(folder / "crate", f"attach_{crate.split()[0].replace('-', '_')}",
                               f"[dependencies]\n{crate}\n", source, seconds=600)
        finally:
            shutil.rmtree(folder)
    return build


ELSEWHERE = {
    "musl": build_musl,
    "old glibc": lambda out: old_build("attach_threads.c", out, "-Wno-attributes"),
    "cgo": build_cgo,
    "rust mimalloc": build_rust('mimalloc = "=0.1.52"', "mimalloc::MiMalloc"),
    "rust jemalloc": build_rust('tikv-jemallocator = { version = "=0.6.1", features = ["profiling"] }',
                                "tikv_jemallocator::Jemalloc"),
}
KINDS = ["throws", *OWN, *ELSEWHERE, "mimalloc", "python", "forks", "family", "late-family", "daemons", "threads", "vfork", "signals", "coroutines",
         "vectors",
         "blocked",
         "loading", "redis", "nginx"]


# ---- servers under load: every answer is checked


def free_port():
    """Below the ports that the kernel gives out by itself: no other program gets it before the server has it."""
    low = int(pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for _ in range(100):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", random.randrange(2000, low) if low > 4000 else 0))
            return s.getsockname()[1]
    raise Wrong("no port is free")


def answers(port):
    try:
        with socket.create_connection(("127.0.0.1", port), 5):
            return True
    except OSError:
        return False


class Server:
    """A server and who asks it, which must never see an error. The asker starts over when it has done its part."""

    steady_map = steady_files = False
    may_refuse, options, steps = None, (), 20
    asker = None

    def __init__(self, command, folder):
        self.folder = folder
        self.process = start(command, cwd=folder)
        self.pid = self.process.pid
        wait_until(lambda: answers(self.port) or self.process.poll() is not None, what="the server answers")
        self.asked = 0
        self.check_alive()

    def ask(self):
        """Starts who asks."""
        self.asker = subprocess.Popen([str(c) for c in self.asking()], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, env=plain_environment(), start_new_session=True)

    def check_alive(self):
        must(self.process.poll() is None, "the server has ended:", self.process.returncode)

    def progress(self):
        """How often it was woken: that is by requests."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return sum(map(int, re.findall(r"ctxt_switches:\s*(\d+)", status)))

    def work_on(self, seconds=TIME_LIMIT):
        """Waits until it has answered some more; somebody asks all the time."""
        begun, end = self.progress(), time.monotonic() + seconds
        while True:
            self.check_alive()
            if self.asker and self.asker.poll() is not None:
                self.finish_asking()
            if not self.asker:
                self.ask()
            if self.progress() >= begun + self.steps:
                return
            must(time.monotonic() < end, "the server answers no more:", stacks_of(self.pid))
            time.sleep(0.005)

    def finish_asking(self):
        out, _ = self.asker.communicate(timeout=5 * TIME_LIMIT)
        must(self.asker.returncode == 0, "who asks ended with", self.asker.returncode, out[-1000:])
        self.asked += self.count(out.decode())
        self.asker = None

    def end(self):
        try:
            if self.asker:
                self.finish_asking()
            self.check_alive()
            must(self.asked > 0, "nobody asked")
        finally:
            self.stop()

    def stop(self):
        if self.asker:
            end_group(self.asker)
            self.asker.communicate()
        end_group(self.process)
        self.process.communicate()


class Redis(Server):
    # redis-tools has the server as well, under another name; the package redis-server starts one.
    program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    missing = None if program and shutil.which("redis-benchmark") else "redis-server is not installed (make setup)"
    REQUESTS = 20000

    def __init__(self, folder):
        self.port = free_port()
        link = folder / "redis-server"
        if not link.exists():
            link.symlink_to(self.program)
        super().__init__([link, "--port", self.port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
                          "no", "--daemonize", "no"], folder)

    def asking(self):
        return ["redis-benchmark", "-p", self.port, "-q", "-c", 20, "-n", self.REQUESTS, "-d", 500, "-r", 1000, "-t",
                "set,get,lpush,lpop"]

    def count(self, out):
        must("rror" not in out, "redis-benchmark says", out)
        found = re.findall(r"(SET|GET|LPUSH|LPOP): [\d.]+ requests per second", out)
        must(sorted(set(found)) == ["GET", "LPOP", "LPUSH", "SET"], "redis-benchmark says", out)
        return 4 * self.REQUESTS


NGINX_CONF = """daemon off; worker_processes 1; pid {0}/nginx.pid; error_log stderr crit; user {2};
events {{ worker_connections 256; }}
http {{ access_log off; client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;
uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;
server {{ listen 127.0.0.1:{1}; location / {{ return 200 "hello {0}\\n"; }} }} }}
"""
ASKER = """
import http.client, sys, threading
port, wanted, each = int(sys.argv[1]), sys.argv[2].encode() + b"\\n", int(sys.argv[3])
failed = []
def ask():
    for _ in range(each // 20):
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for _ in range(20):
            c.request("GET", "/")
            answer = c.getresponse()
            if (answer.status, answer.read()) != (200, wanted):
                failed.append(answer.status)
        c.close()
threads = [threading.Thread(target=ask) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(4 * (each // 20) * 20, "answers,", len(failed), "wrong")
sys.exit(bool(failed))
"""


class Nginx(Server):
    program = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    missing = None if program else "nginx is not installed"

    def __init__(self, folder):
        self.port = free_port()
        (folder / "nginx.conf").write_text(NGINX_CONF.format(folder, self.port, os.environ.get("USER") or "root"))
        super().__init__([self.program, "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf"], folder)
        self.master = self.process
        wait_until(lambda: children_of(self.master.pid), what="nginx has a worker")
        [self.pid] = children_of(self.master.pid)

    def asking(self):
        return ["/usr/bin/python3", "-c", ASKER, self.port, f"hello {self.folder}", 500]

    def check_alive(self):
        super().check_alive()
        if self.pid != self.process.pid:
            must(children_of(self.process.pid) == [self.pid], "nginx has another worker")

    def count(self, out):
        must(", 0 wrong" in out, out)
        return int(out.split()[0])


MISSING = {"redis": Redis.missing, "nginx": Nginx.missing}


# ---- a round


class Round:
    """What heft said, and for how long the program stood still."""

    def __init__(self, said, refused):
        self.said, self.refused = said, refused
        found = re.findall(r"stood still for ([\d.]+) ms", said)
        self.attach_ms, self.detach_ms = (float(f) for f in found) if len(found) == 2 else (None, None)
        self.left = re.findall(r"heft: .*stays.*", said)


def hear(process, words, said):
    """Reads what heft says up to these words; False: it has ended before."""
    lines = Lines(process.stderr)
    while (line := lines.next()) is not None:
        said.append(line + "\n")
        if words in line:
            process.rest = lines.rest
            return True
    if process.poll() is None:
        ready, _, _ = select.select([process.stderr], [], [], 0)
        must(ready, "heft says nothing more:", said, stacks_of(process.pid))
    return False


def play_round(life, number, keep=False):
    """One round; raises Wrong if something does not hold. keep: the recording's path is in the result."""
    path = life.folder / f"round{number}.heft"
    life.work_on()
    before = whole_map(life.pid), files_mapped(life.pid), descriptors(life.pid)
    heft = start([HEFT, "attach", "--force", "-o", path, *life.options, life.pid])
    lines, refused = [], False
    try:
        if hear(heft, "heft: recording; ", lines):
            life.work_on()
            if number % 2:
                done = run([HEFT, "detach", life.pid])
                must(done.returncode == 0, "heft detach:", done.stderr)
            else:
                os.kill(heft.pid, signal.SIGINT)
        else:
            refused = True
        _, rest = heft.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise Wrong(f"heft does not end: {lines}") from None
    finally:
        end_group(heft)
    said = "".join(lines) + rest.decode(errors="replace")
    life.check_alive()
    if refused:
        must(life.may_refuse and re.search(life.may_refuse, said) and heft.returncode == 1, "heft attach failed:",
             heft.returncode, said)
    else:
        must(heft.returncode == 0, "heft ended with", heft.returncode, said)
    try:
        check_family(life.pid)
    except Wrong as wrong:
        raise Wrong(f"{wrong}; heft said: {said}") from None
    after = whole_map(life.pid), files_mapped(life.pid), descriptors(life.pid)
    if life.steady_map:
        must(before[0] == after[0], "the map has changed:", sorted(set(before[0]) ^ set(after[0])))
        must(before[2] == after[2], "its files have changed:", before[2], after[2])
    if life.steady_files:
        must(before[1] == after[1], "mapped files have changed:", sorted(set(before[1]) ^ set(after[1])))
    life.work_on()
    result = Round(said, refused)
    result.path = path
    if not keep:
        path.unlink(missing_ok=True)
    return result


def attach_again(life, times):
    """heft comes and goes, one after the other without a pause. Returns the pauses in ms."""
    pauses = []
    life.work_on()
    before = whole_map(life.pid), descriptors(life.pid)
    for i in range(times):
        done = run([HEFT, "attach", "--force", "--duration", "1ms", "-o", life.folder / "again.heft", life.pid])
        said = done.stderr.decode(errors="replace")
        life.check_alive()
        must(done.returncode == 0, f"time {i}: heft ended with", done.returncode, said)
        check_family(life.pid)
        pauses += [float(f) for f in re.findall(r"stood still for ([\d.]+) ms", said)]
    must(not life.steady_map or before == (whole_map(life.pid), descriptors(life.pid)), "the map has changed:",
         sorted(set(before[0]) ^ set(whole_map(life.pid))))
    life.work_on()
    return pauses


# ---- heft is killed


def helpers_of(pid):
    """heft's processes that see to that process and still run: heft itself, and its guardian."""
    found = []
    for path in pathlib.Path("/proc").iterdir():
        try:
            words = (path / "cmdline").read_bytes().split(b"\0") if path.name.isdigit() else []
            if b"attach" in words and str(pid).encode() in words and \
               (path / "stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX":
                found.append(int(path.name))
        except OSError:
            pass
    return found


def kill_round(life, moment, leaving):
    """heft attach is killed so many seconds after its start or, leaving, after it was told to leave. Returns how far
    it was: None, if it had ended before."""
    path = life.folder / "killed.heft"
    heft = start([HEFT, "attach", "--force", "-o", path, life.pid])
    said = []
    try:
        if leaving:
            must(hear(heft, "heft: recording; ", said), "heft attach failed:", said)
            os.kill(heft.pid, signal.SIGINT)
        time.sleep(moment)
        ended = heft.poll() is not None
        heft.kill()
        # heft's own process has gone, and its guardian holds none of its files.
        _, rest = heft.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise Wrong("something of heft holds its files") from None
    finally:
        end_group(heft)
    said = "".join(said) + rest.decode(errors="replace")
    end = time.monotonic() + TIME_LIMIT
    while helpers_of(life.pid):
        must(time.monotonic() < end, "the guardian does not end:", helpers_of(life.pid), stacks_of(life.pid))
        life.check_alive()
        time.sleep(0.005)
    life.check_alive()
    return None if ended else said


def guardian_of(pid):
    """The process of heft that traces it; None: there is none."""
    for helper in helpers_of(pid):
        try:
            if pathlib.Path(f"/proc/{helper}/comm").read_text() == "heft-guardian\n":
                return helper
        except OSError:
            pass
    return None


def is_traced(pid):
    """Whether somebody traces one of its threads just now."""
    for path in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            if "\nTracerPid:\t0\n" not in (path / "status").read_text():
                return True
        except OSError:
            pass
    return False


def kill_guardian_round(life, moment):
    """The guardian itself is killed, so many seconds after it has first stopped a thread. What it has put into the
    program stays there and works; the next heft finds and removes it. Returns whether it was killed."""
    before = files_mapped(life.pid)
    heft = start([HEFT, "attach", "--force", "-o", life.folder / "killed.heft", life.pid])
    killed = False
    try:
        end = time.monotonic() + TIME_LIMIT
        while not (guardian := guardian_of(life.pid)) and heft.poll() is None:
            must(time.monotonic() < end, "there is no guardian")
        end = time.monotonic() + 2  # on a busy machine we may look too late
        while heft.poll() is None and not is_traced(life.pid) and time.monotonic() < end:
            pass
        time.sleep(moment)
        if guardian and heft.poll() is None:
            os.kill(guardian, signal.SIGKILL)
            killed = True
        heft.communicate(timeout=TIME_LIMIT)
    except subprocess.TimeoutExpired:
        raise Wrong("heft does not end without its guardian") from None
    finally:
        end_group(heft)
    life.check_alive()
    life.work_on()
    done = run([HEFT, "attach", "--force", "--duration", "1ms", "-o", life.folder / "next.heft", life.pid])
    must(done.returncode == 0, "the next heft ended with", done.returncode, done.stderr)
    check_after_kill(life)
    must(not life.steady_files or before == files_mapped(life.pid), "mapped files have changed")
    return killed


def check_after_kill(life):
    """The program is whole, and the next heft finds it so."""
    check_family(life.pid)
    life.work_on()


def time_of_round(life):
    """How long attaching and leaving take here and now, in seconds."""
    begun = time.monotonic()
    heft = start([HEFT, "attach", "--force", "-o", life.folder / "timed.heft", life.pid])
    said = []
    must(hear(heft, "heft: recording; ", said), "heft attach failed:", said)
    attached = time.monotonic()
    os.kill(heft.pid, signal.SIGINT)
    heft.communicate(timeout=TIME_LIMIT)
    return attached - begun, time.monotonic() - attached
