"""Two users of one machine, without accounts and without rights: what the tests of this folder share. Honest programs
belong to one, attacks to the other. heft agent is root's."""

import os
import pathlib
import shutil
import signal
import tempfile

import pytest

from harness import HEFT
from live_harness import Agent, Service, live_in, session_env, wait_until

HONEST, STRANGER = 4201, 4202
BLOCK = 300000

NEED_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


def become(uid):
    """For preexec_fn."""
    def drop():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    return drop


class SharedAgent(Agent):
    """Root's agent, and programs of several users."""

    def __init__(self, where, heft, program, options=(), heft_command=HEFT):
        self.library = heft.parent / "libheft-preload.so"
        self.program = program
        self.cache = pathlib.Path(tempfile.mkdtemp(prefix="heft-hostile-cache-"))
        self.cache.chmod(0o755)
        super().__init__(where, options, heft_command=heft_command)

    def begin(self, options=(), env=None):
        super().begin(options, {"XDG_CACHE_HOME": str(self.cache), "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS")})

    def close(self):
        super().close()
        shutil.rmtree(self.cache, ignore_errors=True)

    def service_of(self, uid, program=None):
        return Service([program or self.program], env=session_env(self.dir, library=self.library),
                       preexec_fn=become(uid))

    def children(self, wanted):
        """The pids of its processes with that name. It begins and ends some at any time."""
        found = []
        for pid in self.pids()[1:]:
            try:
                if not is_gone(pid) and name(pid) == wanted:
                    found.append(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def roots_readers(self):
        """Its processes that read what programs left, and are root: none may be. They have their names from the moment
        that they are not root any more; one that has only just been forked has none, and reads nothing."""
        found = {}
        for pid in self.pids()[1:]:
            try:
                found[pid] = name(pid), owner(pid)
            except (FileNotFoundError, ProcessLookupError):
                pass
        assert "heft-server" in [whose for whose, _ in found.values()], self.log()
        return [pid for pid, (whose, uid) in found.items() if whose.startswith("heft-") and uid == 0]

    def worker_of(self, uid):
        """The pid of a user's worker, as soon as there is one."""
        def find():
            found = [pid for pid in self.children("heft-worker") if owner(pid) == uid]
            return found and found[0]
        return wait_until(find, what=f"a worker for user {uid}\n{self.log()}")

    def session_file(self, service):
        return self.dir / wait_until(
            lambda: [n for n in self.files() if n.startswith(f"{service.pid:x}.")], what="a session file")[0]

    def holds(self, service, count):
        """Whether the profile of this program is right, to the byte."""
        return live_in(self.heap(service.pid), "keep_block") == (count * BLOCK, count)


def status_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return {k: v.strip() for k, v in (line.split(":", 1) for line in status)}


def owner(pid):
    return int(status_of(pid)["Uid"].split()[0])


def name(pid):
    return status_of(pid)["Name"]


def descriptors(pid):
    """What its files are. It may open and close some meanwhile."""
    found = []
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{entry}"))
        except FileNotFoundError:
            pass
    return found


def is_gone(pid):
    try:
        return status_of(pid)["State"].startswith("Z")  # whoever adopted it may never ask for its status
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def service_program(compiled):
    """A program that every user can run and read."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="heft-hostile-"))
    directory.chmod(0o755)
    copy = pathlib.Path(shutil.copy(compiled("service.c"), directory))
    copy.chmod(0o755)
    yield copy
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def shared_agent(tmp_path, public_heft, service_program):
    made = SharedAgent(tmp_path, public_heft, service_program)
    yield made
    made.close()


def end_all(*services):
    for service in services:
        service.end(sig=signal.SIGKILL)


def replace_in_log(path, old, new):
    """What a program can do to its own session file: its modules get another path of the same length."""
    assert len(old) == len(new)
    with open(path, "r+b") as f:
        start = (28 << 10) + 8192 * 64
        f.seek(start)
        log = f.read(2 << 20)
        assert old in log
        f.seek(start)
        f.write(log.replace(old, new))


def of_same_length(path):
    """A name in /tmp that can take the place of this path in a session file."""
    return f"/tmp/h{os.getpid()}".ljust(len(str(path)), "x")


def forge(agent, session, uid, count, first=1000000):
    """Copies of a session file under other names: programs that never were."""
    data = {}
    with open(session, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        at = 0
        while True:
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA)
            except OSError:
                break
            end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            data[at] = os.pread(f.fileno(), end - at, at)
            at = end
    for i in range(count):
        path = agent.dir / f"{first + i:x}.{i + 1:x}"
        new = agent.dir / "forged"
        with open(new, "wb") as f:
            for at, piece in data.items():
                f.seek(at)
                f.write(piece)
            f.truncate(size)
        os.chown(new, uid, uid)
        new.rename(path)


__all__ = ["BLOCK", "HONEST", "NEED_ROOT", "STRANGER", "SharedAgent", "become", "descriptors", "end_all", "forge", "is_gone",
           "name", "of_same_length", "owner", "replace_in_log", "service_program", "shared_agent", "status_of"]
