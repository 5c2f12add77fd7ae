"""Programs that are not who they were: numbers of processes that are given away again, and programs that gain root's rights
(setuid), whose user is a stranger."""

import os
import re
import shutil
import time

import pytest

from harness import start, wait_until
from live_harness import Service, fetch, report, session_env
from strangers import (BLOCK, HONEST, NEED_ROOT, STRANGER, become, end_all, of_same_length,  # noqa: F401
                       replace_in_log, service_program, shared_agent, status_of)

pytestmark = NEED_ROOT

TRIES = 400  # others start processes too


def service_with_pid(agent, uid, pid):
    """A program with the number of one that is gone."""
    for _ in range(TRIES):
        try:
            with open("/proc/sys/kernel/ns_last_pid", "w") as last:
                last.write(str(pid - 1))
        except OSError:
            pytest.skip("this machine does not let root choose the next pid (pid namespaces)")
        service = agent.service_of(uid)
        if service.pid == pid:
            return service
        end_all(service)
    pytest.skip("this machine starts too many processes to get the same one (pid namespaces)")


# Keeps a file open and mapped. argv: the file.
KEEPER = """
import mmap, os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
kept = mmap.mmap(fd, os.fstat(fd).st_size)
print("ready", flush=True)
time.sleep(600)
"""


def keep(path):
    keeper = start(["/usr/bin/python3", "-c", KEEPER, path], preexec_fn=become(STRANGER))
    assert keeper.stdout.readline() == b"ready\n"
    return keeper


def live_bytes(agent, pid):
    text = fetch(agent.url.replace("/debug/pprof/", "/metrics"))[1].decode()
    return re.findall(rf'^heft_live_bytes{{pid="{pid}",.*}} (\S+)$', text, re.M)


@pytest.mark.parametrize("case", ["seen", "unseen", "kept"])
def test_a_pid_that_is_used_again(shared_agent, case):
    """An honest program gets the number of a stranger's that has ended: while the agent looks, before it has looked, and while
    another process of the stranger still has the old session file. Each has its own profile."""
    agent = shared_agent
    first = agent.service_of(STRANGER)
    first.do(f"keep 40 {BLOCK}")
    pid, keeper = first.pid, None
    path = agent.session_file(first)
    if case == "kept":
        keeper = keep(path)
    if case != "seen":
        agent.stop()
    else:
        assert agent.holds(first, 40)
    end_all(first)
    second = service_with_pid(agent, HONEST, pid)
    second.do(f"keep 7 {BLOCK}")
    if case != "seen":
        agent.begin()
    wait_until(lambda: live_bytes(agent, pid)[:1] == [str(7 * BLOCK)] and agent.holds(second, 7),
               what=f"the second\n{agent.log()}")
    if keeper:
        keeper.kill()
        keeper.communicate()
    found = agent.wait_for_log(rf"process {pid} \(.*\): (.*); its last profile: (\S+)")
    assert found.group(1) in ("ended, status unknown", "killed by signal 9 (SIGKILL)"), found.group(1)
    assert os.stat(found.group(2)).st_uid == STRANGER
    assert report(found.group(2))["totals"]["live_bytes"] >= 40 * BLOCK
    assert agent.holds(second, 7) and live_bytes(agent, pid)[:1] == [str(7 * BLOCK)]
    second.end("exit 3")
    agent.wait_for_log(rf"process {pid} \(.*\): exit status 3|(process {pid} .*: ended.*\n(.*\n)*){{2}}")
    saved = {os.stat(p).st_uid: report(p)["totals"]["live_bytes"] for p in agent.output.glob(f"heft.*.{pid}*.heft")}
    assert set(saved) == {STRANGER, HONEST} and saved[HONEST] < 40 * BLOCK <= saved[STRANGER]


def setuid_copy(program, path, mode):
    shutil.copy(program, path)
    os.chown(path, 0, 0)
    os.chmod(path, mode)
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        pytest.skip("this machine has /tmp mounted without setuid programs")


def test_a_program_that_becomes_root_by_exec(shared_agent, compiled):
    """Its session file stays and says what the stranger likes, another process keeps it mapped, and the process that it is about
    is root now. That gives no right to read what only root may read."""
    agent = shared_agent
    stranger, honest = agent.service_of(STRANGER), agent.service_of(HONEST)
    for service in (stranger, honest):
        service.do(f"keep 40 {BLOCK}")
    assert agent.holds(honest, 40)
    real = os.readlink(f"/proc/{stranger.pid}/exe")
    secret = of_same_length(real)
    becomes_root = compiled("becomes_root.c")
    setuid_copy(becomes_root, agent.cache / "root", 0o4755)
    try:
        shutil.copy(agent.program, secret)  # the same program, so that its names would be the right ones
        os.chmod(secret, 0o700)
        path = agent.session_file(stranger)
        keeper = keep(path)
        replace_in_log(path, real.encode(), secret.encode())
        stranger.tell(f"exec {agent.cache}/root")
        wait_until(lambda: status_of(stranger.pid)["Uid"].split() == ["0"] * 4, what="a program of root")
        end = time.monotonic() + 4
        while time.monotonic() < end:
            status, body = agent.get(f"{stranger.pid}/heap?debug=1")
            assert b"keep_block" not in body, body
            assert not agent.roots_readers()
        assert agent.holds(honest, 40)
        keeper.kill()
        keeper.communicate()
        end_all(stranger)
        found = agent.wait_for_log(rf"process {stranger.pid} \(.*\): .*; its last profile: (\S+)")
        assert os.stat(found.group(1)).st_uid == STRANGER
        assert report(found.group(1))["totals"]["live_bytes"] >= 40 * BLOCK
    finally:
        os.unlink(secret)
    end_all(honest)


@pytest.mark.parametrize("setuid", [False, True], ids=["plain", "setuid"])
def test_a_setuid_program_and_the_variables_of_a_stranger(shared_agent, compiled, setuid):
    """The loader ignores LD_PRELOAD then; but heft's library may be in the program in another way (/etc/ld.so.preload, or it
    was linked). A stranger must not choose where root's program makes its file."""
    agent = shared_agent
    library = agent.library
    program = compiled("service.c", library, flags=[f"-Wl,-rpath,{library.parent}", "-Wl,--no-as-needed"],
                       output="linked_service")
    copy = agent.cache / "linked"
    setuid_copy(program, copy, 0o4755 if setuid else 0o755)
    folders = {}
    for variable, mode in (("HEFT_SESSION", 0o700), ("HEFT_DIR", 0o700)):
        folders[variable] = agent.cache / variable
        folders[variable].mkdir(mode=mode)
        if not setuid:
            os.chown(folders[variable], STRANGER, STRANGER)
    for variable, folder in folders.items():
        env = {**session_env(agent.dir, library=library), variable: str(folder)}
        service = Service([copy], env=env, preexec_fn=become(STRANGER))
        service.do(f"keep 5 {BLOCK}")
        if setuid:
            assert status_of(service.pid)["Uid"].split()[1] == "0"
        made = list(folder.iterdir()) + [f for f in agent.files() if f.startswith(f"{service.pid:x}.")]
        assert len(made) == (0 if setuid else 1), made
        end_all(service)
