"""Files that never answer, where root's heft agent looks: a file system of the stranger's own program is mounted over a
session file, a saved recording, a module, a debug file, a perf map."""

import os
import shutil
import threading
import time

import pytest

from harness import PROGRAMS, TIME_LIMIT, run
from hung_mount import NEED_MOUNT, OPEN, hung_mount
from live_harness import wait_until
from strangers import (BLOCK, HONEST, NEED_ROOT, STRANGER, SharedAgent, end_all,  # noqa: F401
                       of_same_length, replace_in_log, service_program, shared_agent)

pytestmark = [NEED_ROOT, NEED_MOUNT]


def is_served(agent, service, count, seconds=30):
    """Right, and in time: a second is meant, on a machine that does nothing else."""
    begun = time.monotonic()
    assert agent.holds(service, count)
    took = time.monotonic() - begun
    assert took < seconds, f"it took {took:.1f} s"


def come_and_go(agent):
    late = agent.service_of(HONEST)
    late.do(f"keep 7 {BLOCK}")
    is_served(agent, late, 7)
    end_all(late)


def asked_by(mount, pids):
    return [(number, pid) for number, pid in mount.requests() if pid in pids]


@pytest.mark.parametrize("size", [0, 52998144], ids=["no-stat", "no-open"])
def test_a_session_file_that_never_answers(shared_agent, size):
    """The stranger may make files in the session directory, so it may mount on them."""
    agent = shared_agent
    honest = agent.service_of(HONEST)
    honest.do(f"keep 40 {BLOCK}")
    assert agent.holds(honest, 40)
    path = agent.dir / "3d0900.1"
    spare = agent.dir / "spare.0"
    path.touch()
    os.chown(path, STRANGER, STRANGER)
    spare.unlink(missing_ok=True)
    spare.touch()
    os.chown(spare, STRANGER, STRANGER)
    with hung_mount(path, size) as mount, hung_mount(spare, size) as mounted_spare:
        for _ in range(3):
            come_and_go(agent)
            is_served(agent, honest, 40)
        agent.stop()
        agent.begin()  # another one looks at all files
        is_served(agent, honest, 40)
        come_and_go(agent)
        assert not asked_by(mount, agent.pids()) and not asked_by(mounted_spare, agent.pids())
        assert len(mount.requests()) == 1  # its beginning
    end_all(honest)


def test_a_recording_that_never_answers(tmp_path, public_heft, service_program):
    """A saved recording belongs to its user. The agent looks at its size now and then, and removes it for the quota."""
    agent = SharedAgent(tmp_path, public_heft, service_program, ["--quota", "100k"])
    tmp_path.chmod(0o755)
    saved = {}
    for uid in (HONEST, STRANGER):
        service = agent.service_of(uid)
        service.do(f"keep 40 {BLOCK}")
        assert agent.holds(service, 40)
        service.end("exit 0")
        saved[uid] = agent.wait_for_log(rf"process {service.pid} \(.*\): .*; its last profile: (\S+)").group(1)
    with hung_mount(saved[STRANGER], size=0) as mount:
        end = time.monotonic() + 11  # it looks every ten seconds
        while time.monotonic() < end:
            come_and_go(agent)
        agent.stop()
        agent.begin(["--quota", "1k"])
        come_and_go(agent)
        assert not asked_by(mount, agent.pids())
        assert os.path.basename(saved[STRANGER]) in os.listdir(agent.output)  # a mount cannot be removed
    agent.close()


def test_a_perf_map_of_somebody_else_that_never_answers(shared_agent):
    """Names of a runtime's own code are in /tmp/perf-PID.map, where everybody can make a file for a process of others."""
    agent = shared_agent
    honest = agent.service_of(HONEST)
    honest.do(f"jit 40 {BLOCK}")
    path = f"/tmp/perf-{honest.pid}.map"
    with open(path, "x"):
        os.chown(path, STRANGER, STRANGER)
    try:
        with hung_mount(path) as mount:
            for _ in range(3):
                is_served(agent, honest, 40)
            assert len(mount.requests()) == 1  # its beginning
    finally:
        os.unlink(path)
    end_all(honest)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def ask(agent, pid, is_enough):
    """Again and again: a worker that has only just begun refuses."""
    try:
        while not is_enough():
            agent.get(f"{pid}/heap")
            time.sleep(0.1)
    except OSError:  # refused, or the agent has ended
        pass


def module_itself(folder, service_file):
    return service_file


def debug_link(folder, service_file):
    """A program without symbols that names the file which has them."""
    made, apart = folder / "linked", folder / "linked.debug"
    for command in (["gcc", "-O1", "-g", "-o", made, PROGRAMS / "service.c"],
                    ["objcopy", "--only-keep-debug", made, apart], ["strip", made],
                    ["objcopy", f"--add-gnu-debuglink={apart}", made]):
        assert run(command, cwd=folder).returncode == 0, command
    return apart


def split(folder, service_file):
    """A program whose debug information is in a .dwo file beside it."""
    for command in (["gcc", "-O1", "-g", "-gsplit-dwarf", "-c", "-o", "linked.o", PROGRAMS / "service.c"],
                    ["gcc", "-o", "linked", "linked.o"]):
        assert run(command, cwd=folder).returncode == 0, command
    return folder / "linked.dwo"


def package(folder, service_file):
    """The same, packed: NAME.dwp is looked for before the .dwo files."""
    split(folder, service_file)
    made = folder / "linked.dwp"
    os.rename(folder / "linked.dwo", made)
    return made


def alternate(folder, service_file):
    """A program that names a file which has a part of its debug information (dwz)."""
    made = debug_link(folder, service_file)
    os.rename(made, folder / "other")
    shutil.copy(folder / "other", made)
    (folder / "section").write_bytes(os.fsencode(folder / "shared.debug") + b"\0" + bytes(range(20)))
    assert run(["objcopy", "--add-section", f".gnu_debugaltlink={folder}/section", made]).returncode == 0
    shutil.copy(folder / "other", folder / "shared.debug")
    return folder / "shared.debug"


@pytest.mark.parametrize("kind, program", [(module_itself, None), (debug_link, "linked"), (split, "linked"),
                                           (package, "linked"), (alternate, "linked")],
                         ids=["module", "debuglink", "dwo", "dwp", "debugaltlink"])
def test_a_file_of_a_program_that_never_answers(shared_agent, tmp_path, kind, program):
    """Only the stranger's worker waits; others are served, and the agent ends when it is told to."""
    agent = shared_agent
    folder = agent.cache / "files"
    folder.mkdir(mode=0o755)
    own = folder / "own"
    shutil.copy(agent.program, own)
    victim = kind(folder, own)
    honest = agent.service_of(HONEST)
    stranger = agent.service_of(STRANGER, program=folder / program if program else None)
    honest.do(f"keep 40 {BLOCK}")
    stranger.do(f"keep 40 {BLOCK}")
    assert agent.holds(honest, 40)
    if not program:
        real = os.readlink(f"/proc/{stranger.pid}/exe")
        other = of_same_length(real)
        os.rename(own, other)
        victim = other
        replace_in_log(agent.session_file(stranger), real.encode(), other.encode())
    try:
        with hung_mount(victim) as mount:
            end = time.monotonic() + TIME_LIMIT
            asking = [threading.Thread(target=ask, args=(
                agent, stranger.pid, lambda: mount.was_asked(OPEN) or time.monotonic() > end)) for _ in range(8)]
            for thread in asking:
                thread.start()
            wait_until(lambda: mount.was_asked(OPEN), what="somebody who opens it")
            for _ in range(3):
                is_served(agent, honest, 40)
                come_and_go(agent)
            worker = agent.worker_of(STRANGER)
            assert {str(pid) for pid in mount.was_asked(OPEN)} <= set(os.listdir(f"/proc/{worker}/task"))
            assert state_of(worker) in "SDR" and agent.process.poll() is None
            begun = time.monotonic()
            assert agent.stop() == 0  # it does not wait for who cannot be ended
            assert time.monotonic() - begun < 20  # a broken agent only: five seconds are meant
            for thread in asking:
                thread.join()
    finally:
        os.unlink(victim)
    end_all(honest, stranger)
