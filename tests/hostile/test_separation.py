"""Who reads what: the processes of root's heft agent, and what happens if one of them hangs or dies."""

import os
import re
import signal
import time

import pytest

from harness import wait_until
from live_harness import LIBRARY, Service, fetch, session_env
from strangers import (BLOCK, HONEST, NEED_ROOT, STRANGER, SharedAgent, become, descriptors, end_all, is_gone, name,  # noqa: F401
                       owner, service_program, shared_agent, status_of)

pytestmark = NEED_ROOT


def metric(agent, wanted):
    text = fetch(agent.url.replace("/debug/pprof/", "/metrics"))[1].decode()
    return float(re.search(rf"^{wanted} (\S+)$", text, re.M).group(1))


def test_nobody_reads_as_root(shared_agent):
    honest, stranger = (shared_agent.service_of(uid) for uid in (HONEST, STRANGER))
    roots = shared_agent.service_of(0)
    for i, service in enumerate((honest, stranger, roots), 1):
        service.do(f"keep {10 * i} {BLOCK}")
        assert shared_agent.holds(service, 10 * i)
    supervisor, *others = shared_agent.pids()
    assert owner(supervisor) == 0
    assert sorted(name(pid) for pid in others) == ["heft-looker", "heft-server"] + ["heft-worker"] * 3
    for pid in others:
        status = status_of(pid)
        assert "0" not in status["Uid"].split() + status["Gid"].split() + status["Groups"].split(), status
        looks = 1 << 19 if name(pid) == "heft-looker" else 0  # CAP_SYS_PTRACE
        assert int(status["CapEff"], 16) in (0, looks) and int(status["CapPrm"], 16) in (0, looks)
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
        # Not dumpable: its user cannot look into it.
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0
    for uid, own in ((HONEST, honest), (STRANGER, stranger)):
        files = [f for f in descriptors(shared_agent.worker_of(uid)) if str(shared_agent.dir) in f]
        assert files == [str(shared_agent.session_file(own))], files
    assert not any(str(shared_agent.dir) in f for pid in others if name(pid) == "heft-server"
                   for f in descriptors(pid))
    end_all(honest, stranger, roots)


def test_a_private_program_of_root_has_names(shared_agent, compiled, tmp_path):
    """Its worker cannot open the file, and gets it from the mappings of the process."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    program = private / "service"
    program.write_bytes(compiled("service.c").read_bytes())
    program.chmod(0o700)
    service = Service([program], env=session_env(shared_agent.dir))
    service.do(f"keep 30 {BLOCK}")
    try:
        os.listdir(f"/proc/{service.pid}/map_files")
        os.stat(next(os.scandir(f"/proc/{service.pid}/map_files")).path)
    except PermissionError:
        pytest.skip("this machine does not let root open mapped files")
    assert shared_agent.holds(service, 30)
    end_all(service)


def test_a_daemon_that_gave_up_its_privileges(shared_agent):
    """The session file is root's, the process is not: neither is trusted with the other's rights."""
    code = ("import ctypes, os, sys; kept = [bytearray(300000) for i in range(50)]\n"
            f"os.setgroups([]); os.setgid({HONEST}); os.setuid({HONEST})\n"
            "print('ready', flush=True); sys.stdin.readline()")
    daemon = Service(["/usr/bin/python3", "-c", code], env=session_env(shared_agent.dir, library=LIBRARY))
    assert daemon.process.stdout.readline() == b"ready\n"
    heap = shared_agent.heap(daemon.pid)
    assert heap["totals"]["live_bytes"] >= 50 * BLOCK
    # The file is looked at as it is found: before or after the change of user, never as root.
    assert not shared_agent.roots_readers()
    end_all(daemon)


def contains(pid, secret):
    """Whether the memory of a process that it can write has these bytes."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            where, rights, *_ = line.split()
            first, last = (int(n, 16) for n in where.split("-"))
            if "rw" not in rights or "s" in rights or last - first > 256 << 20 or "[v" in line:
                continue
            try:
                memory.seek(first)
                if secret in memory.read(last - first):
                    return True
            except OSError:  # it was given back meanwhile, or cannot be read by anybody
                continue
    return False


def test_only_the_server_has_the_token(tmp_path, public_heft, service_program):
    token = "0123456789" + os.urandom(12).hex()
    file = tmp_path / "token"
    file.write_text(token + "\n")
    file.chmod(0o600)
    agent = SharedAgent(tmp_path, public_heft, service_program, ["--token-file", file])
    service = agent.service_of(HONEST)
    service.do(f"keep 5 {BLOCK}")
    agent.worker_of(HONEST)
    having = [name(pid) for pid in agent.pids() if contains(pid, token.encode())]
    assert having == ["heft-server"]
    assert agent.get(f"{service.pid}/heap")[0] == 401
    assert wait_until(lambda: agent.get(f"{service.pid}/heap", token=token)[0] == 200, what="its profile")
    end_all(service)
    agent.close()


def state_of(task):
    with open(f"{task}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def test_a_worker_that_hangs(shared_agent):
    """Its user's profiles are refused after a moment, others' are answered at once."""
    honest, stranger = (shared_agent.service_of(uid) for uid in (HONEST, STRANGER))
    for service in (honest, stranger):
        service.do(f"keep 40 {BLOCK}")
        assert shared_agent.holds(service, 40)
    worker = shared_agent.worker_of(STRANGER)
    os.kill(worker, signal.SIGSTOP)
    wait_until(lambda: all(state_of(task.path) == "T" for task in os.scandir(f"/proc/{worker}/task")),
               what="all its threads to stand still")
    try:
        slowest = 0
        for _ in range(8):
            status, body = shared_agent.get(f"{stranger.pid}/heap")
            assert status == 503 and b"does not answer" in body, (status, body)
            begun = time.monotonic()
            # A worker that does not come to its turn for two seconds is refused as well, so once is not enough to say.
            assert 200 in (shared_agent.get(f"{honest.pid}/heap")[0] for _ in range(3))
            assert fetch(shared_agent.url.replace("/debug/pprof/", "/metrics"))[0] == 200
            slowest = max(slowest, time.monotonic() - begun)
        assert shared_agent.holds(honest, 40)
        assert slowest < 20  # a broken program only: a second is meant
    finally:
        os.kill(worker, signal.SIGCONT)
    assert shared_agent.holds(stranger, 40)
    assert metric(shared_agent, "heft_agent_worker_failures_total") == 0
    end_all(honest, stranger)


def test_a_worker_that_dies(shared_agent):
    honest, stranger = (shared_agent.service_of(uid) for uid in (HONEST, STRANGER))
    for service in (honest, stranger):
        service.do(f"keep 40 {BLOCK}")
        assert shared_agent.holds(service, 40)
    kept = shared_agent.worker_of(HONEST)
    for round_ in range(3):
        os.kill(shared_agent.worker_of(STRANGER), signal.SIGKILL)
        shared_agent.wait_for_log(rf"the worker for programs of user {STRANGER} was ended by a signal.*"
                                  rf"\({round_ + 1} in a row\)")
        assert shared_agent.holds(honest, 40)
        assert shared_agent.holds(stranger, 40)
    wait_until(lambda: metric(shared_agent, "heft_agent_worker_failures_total") == 3, what="the failures")
    assert shared_agent.worker_of(HONEST) == kept
    # A program that ends meanwhile is saved by the next worker.
    os.kill(shared_agent.worker_of(STRANGER), signal.SIGKILL)
    stranger.end("exit 0")
    assert shared_agent.ended(stranger.pid)[0] in ("exit status 0", "ended, status unknown")
    end_all(honest)


def test_nobody_outlives_the_supervisor(shared_agent):
    service = shared_agent.service_of(HONEST)
    service.do(f"keep 5 {BLOCK}")
    assert shared_agent.holds(service, 5)
    pids = shared_agent.pids()
    shared_agent.stop(signal.SIGKILL)
    wait_until(lambda: all(is_gone(pid) for pid in pids), what="all to be gone")
    shared_agent.begin()
    assert shared_agent.holds(service, 5)
    end_all(service)


def test_become_is_for_good():
    pid = os.fork()
    if pid == 0:
        become(HONEST)()
        os._exit(os.getuid() != HONEST)
    assert os.waitpid(pid, 0)[1] == 0
