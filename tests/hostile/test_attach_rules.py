"""Root's heft agent attaches to programs of several users by rule: with whose rights, and what a hostile one can do
about it."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from harness import start, wait_until
from live_harness import Service, fetch
from strangers import (BLOCK, HONEST, NEED_ROOT, STRANGER, SharedAgent, become, descriptors, end_all, is_gone, name,  # noqa: F401
                       owner, service_program, status_of)

pytestmark = NEED_ROOT


@pytest.fixture
def program(service_program):
    copy = service_program.rename(service_program.parent / f"ruled-{os.getpid()}")
    return copy


@pytest.fixture
def ruled(tmp_path, public_heft, program):
    if pathlib.Path("/proc/sys/kernel/yama/ptrace_scope").exists() and \
            pathlib.Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip() != "0":
        pytest.skip("this system lets only root trace")
    # By its name: an agent in a chroot sees other paths of programs in other mount namespaces.
    made = SharedAgent(tmp_path, public_heft, program, ["--sample=4k", f"--attach-exe={program.name}*"])
    yield made
    made.close()


def plain(program, uid, **others):
    """Without heft's library."""
    return Service([program], preexec_fn=become(uid), **others)


def attached(agent, pid):
    return agent.wait_for_log(rf"attached to process {pid} ")


def guardians(agent):
    """{pid: whose rights it has}; those that are just ending are left out."""
    found = {}
    for pid in agent.pids()[1:]:
        try:
            if not is_gone(pid) and name(pid) == "heft-guardian":
                found[pid] = owner(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def metric(agent, wanted):
    text = fetch(agent.url.replace("/debug/pprof/", "/metrics"))[1].decode()
    return float(re.search(rf"^{wanted} (\S+)$", text, re.M).group(1))


def test_a_guardian_has_the_rights_of_its_program(ruled, program, public_heft):
    services = {uid: plain(program, uid) for uid in (HONEST, STRANGER)}
    services[0] = Service([program])
    for uid, service in services.items():
        attached(ruled, service.pid)
        service.do(f"keep 8 {BLOCK}")
        assert ruled.holds(service, 8)
        assert ruled.session_file(service).stat().st_uid == uid
    found = {uid: pid for pid, uid in guardians(ruled).items()}
    assert found.keys() == services.keys()
    for uid, pid in found.items():
        its, whose = status_of(pid), status_of(services[uid].pid)
        assert [its[k] for k in ("Uid", "Gid", "Groups", "CapPrm")] == \
            [whose[k] for k in ("Uid", "Gid", "Groups", "CapPrm")]
        assert its["CapInh"] == "0000000000000000" and its["NoNewPrivs"] == "1"
        assert os.stat(f"/proc/{pid}/environ").st_uid == 0  # not dumpable: its user cannot look into it
        # No file of anybody's, and of the supervisor nothing but its link
        files = descriptors(pid)
        assert not [f for f in files if not re.match(r"/dev/null|socket:|anon_inode:|.*/heft-blob\.so", f)], files
    # heft detach: the program's user may, a stranger may not
    detach = [public_heft, "detach", str(services[HONEST].pid)]
    assert start(detach, preexec_fn=become(STRANGER)).wait(60) == 1
    assert start(detach, preexec_fn=become(HONEST)).wait(60) == 0
    ruled.wait_for_log(rf"detached from process {services[HONEST].pid} because heft detach asked")
    wait_until(lambda: metric(ruled, "heft_agent_attached_processes") == 2, what="the metric")
    end_all(*services.values())


def test_roots_programs(ruled, program, tmp_path):
    """Only what nobody but root can have written, and only if the program could do what root can."""
    shutil.chown(program, HONEST)
    foreign = Service([program])
    ruled.wait_for_log(rf"cannot attach to process {foreign.pid} .*others than root can write its executable")
    shutil.chown(program, 0)
    program.chmod(0o775)
    writable = Service([program])
    ruled.wait_for_log(rf"cannot attach to process {writable.pid} .*others than root can write")
    program.chmod(0o755)
    contained = Service(["unshare", "-m", "setpriv", "--bounding-set=-sys_admin,-sys_ptrace", program])
    ruled.wait_for_log(rf"cannot attach to process {contained.pid} .*it is root in a container")
    setuid = shutil.copy(program, f"{program}-setuid")
    shutil.chown(setuid, HONEST)
    os.chmod(setuid, 0o4755)
    mixed = plain(setuid, STRANGER)
    ruled.wait_for_log(rf"cannot attach to process {mixed.pid} .*rights of more than one user")
    wait_until(lambda: metric(ruled, "heft_agent_attach_refusals_total") >= 1, what="the metric")
    assert not guardians(ruled) and "attached to process" not in ruled.log()
    end_all(foreign, writable, contained, mixed)


def test_a_path_does_not_forge_lines_of_the_log(tmp_path, public_heft, program):
    """Whoever makes a program chooses its path, and so the folders that it is in."""
    forged = "heft agent: process 1 (init): killed"
    folder = program.parent / f"a\n{forged}\n\x1b[2J"
    folder.mkdir(mode=0o755)
    copy = pathlib.Path(shutil.copy(program, folder))
    closed = pathlib.Path(shutil.copy(program, f"{copy}-setuid"))
    shutil.chown(closed, HONEST)
    closed.chmod(0o4755)
    agent = SharedAgent(tmp_path, public_heft, program, ["--sample=4k", f"--attach-exe={program.name}*"])
    services = [plain(path, STRANGER) for path in (copy, closed)]
    attached(agent, services[0].pid)
    agent.wait_for_log(rf"cannot attach to process {services[1].pid} .*rights of more than one user")
    for path in (copy, closed):
        shown = str(path).replace("\n", "?").replace("\x1b", "\\x1b")
        assert f"({shown}) by rule --attach-exe=" in agent.log(), agent.log()
    assert not [line for line in agent.log().splitlines() if line.startswith(forged)]
    end_all(*services)
    agent.close()


def test_a_stranger_kills_guardians(ruled, program):
    """It may: they have its rights. Its program is tried a few times; an honest one does not notice."""
    hostile, honest = plain(program, STRANGER), plain(program, HONEST)
    attached(ruled, honest.pid)
    for n in range(1, 3):
        wait_until(lambda n=n: ruled.log().count(f"attached to process {hostile.pid}") == n, what=f"guardian {n}")
        guardian, = [pid for pid, uid in guardians(ruled).items() if uid == STRANGER]
        assert start(["/bin/kill", "-KILL", str(guardian)], preexec_fn=become(STRANGER)).wait(60) == 0
        wait_until(lambda g=guardian: is_gone(g), what="its end")
    # A guardian of another user is not its to kill
    guardian, = [pid for pid, uid in guardians(ruled).items() if uid == HONEST]
    assert start(["/bin/kill", "-KILL", str(guardian)], preexec_fn=become(STRANGER)).wait(60) != 0
    assert hostile.kept() == (0, 0)  # it lives
    honest.do(f"keep 5 {BLOCK}")
    assert ruled.holds(honest, 5)
    end_all(hostile, honest)


def test_a_crowd(ruled, program):
    """A stranger starts more programs that match than it gets attempts for: an honest one is attached to all the same."""
    crowd = [start([program], stdin=subprocess.PIPE, preexec_fn=become(STRANGER)) for _ in range(60)]
    time.sleep(1.5)
    honest = plain(program, HONEST)
    attached(ruled, honest.pid)
    honest.do(f"keep 5 {BLOCK}")
    assert ruled.holds(honest, 5)
    wait_until(lambda: STRANGER in guardians(ruled).values(), what="an attempt with one of the crowd")
    for process in crowd:
        process.kill()
    for process in crowd:
        process.communicate()
    wait_until(lambda: len(guardians(ruled)) == 1, what="guardians to end")
    end_all(honest)


def test_a_program_that_stops_all_the_time(ruled, program):
    """Its guardian gets nowhere, or does; the agent goes on, and so does the program."""
    hostile = plain(program, STRANGER)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        os.kill(hostile.pid, signal.SIGSTOP)
        time.sleep(0.002)
        os.kill(hostile.pid, signal.SIGCONT)
        time.sleep(0.002)
    honest = plain(program, HONEST)
    attached(ruled, honest.pid)
    assert hostile.do("pass 10 100") == ["passed", "10"]
    assert ruled.get("")[0] == 200
    end_all(hostile, honest)
