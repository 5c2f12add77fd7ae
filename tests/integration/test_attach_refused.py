"""What heft attach refuses: exit status 1, a line that says why, no file left behind, and a program that is as it
was."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from attach_harness import Attached, Lines, Target, may_trace
from harness import HEFT, TIME_LIMIT, children_of, end_group, run, start, wait_until

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
NOBODY = 65534


def refused(pid, folder, **others):
    """What heft says of a process that it does not attach to."""
    done = run([HEFT, "attach", "-o", folder / "refused.heft", pid], cwd=folder, **others)
    said = done.stderr.decode()
    assert done.returncode == 1 and done.stdout == b"", said
    assert not (folder / "refused.heft").exists()
    assert said.startswith("heft: ") and all(len(line) <= 100 for line in said.splitlines())
    return said


@pytest.fixture
def started():
    """Starts programs that are ended after the test."""
    processes = []

    def begin(command, **others):
        processes.append(start(command, **others))
        return processes[-1]

    yield begin
    for process in processes:
        end_group(process)
        process.communicate()


@pytest.fixture
def target(compiled, tmp_path):
    made = Target(compiled("attach_target.c", flags=["-ldl"]), tmp_path)
    yield made
    made.end()


def test_place_is_taken_meanwhile(compiled, started, tmp_path):
    """What the program has mapped where heft was about to put its code stays mapped, and heft goes elsewhere."""
    program = started([compiled("attach_gaps.c", flags=["-ldl"])], stdout=subprocess.PIPE)
    assert program.stdout.readline() == b"ready\n"

    def is_taken():
        done = run([HEFT, "attach", "-v", "--duration", "10ms", "--force", "-o", tmp_path / "gaps.heft", program.pid])
        assert done.returncode == 0 or b"maps memory all the time" in done.stderr or b"no space within" in done.stderr
        return b"the program had taken the place" in done.stderr

    wait_until(is_taken, 10 * TIME_LIMIT, "a place that was free and is taken")
    program.send_signal(signal.SIGTERM)
    assert (program.stdout.read(), program.wait()) == (b"0 holes\n", 0)


def test_zombie(tmp_path):
    process = subprocess.Popen(["/bin/true"])
    wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z")
    try:
        assert "has ended" in refused(process.pid, tmp_path)
    finally:
        process.wait()


def kernel_thread():
    for path in pathlib.Path("/proc").iterdir():
        try:
            if path.name.isdigit() and int((path / "stat").read_text().rsplit(")", 1)[1].split()[6]) & 0x200000:
                return int(path.name)
        except OSError:
            pass
    return None


def test_kernel_thread(tmp_path):
    pid = kernel_thread()
    if not pid:
        pytest.skip("no threads of the kernel are to be seen here (pid namespaces)")
    assert "is a thread of the kernel" in refused(pid, tmp_path)


def test_a_thread_is_no_process(tmp_path, started, compiled):
    """The number of a thread names no process."""
    process = started(["/usr/bin/python3", "-c", "import threading, time\n"
                       "threading.Thread(target=time.sleep, args=(600,)).start(); print('x', flush=True)"])
    assert process.stdout.readline() == b"x\n"
    [tid] = [int(t) for t in os.listdir(f"/proc/{process.pid}/task") if int(t) != process.pid]
    assert f"{tid} is a thread of process {process.pid}" in refused(tid, tmp_path)


def test_process_of_another_user(target, public_heft, tmp_path):
    """nobody may not attach to root's process."""
    if os.geteuid():
        pytest.skip("only root can be another user")
    tmp_path.chmod(0o777)
    said = run([public_heft, "attach", "-o", "/dev/shm/refused.heft", target.pid], preexec_fn=lambda: (
        os.setgroups([]), os.setgid(NOBODY), os.setuid(NOBODY)))
    assert said.returncode == 1, said.stderr
    words = said.stderr.decode()
    assert "belongs to another user (uid 0)" in words and "as root" in words, words
    target.do("alloc 1 10")


def test_traced_by_another(target, tmp_path):
    """As gdb and strace do. They are named."""
    tracer = start([sys.executable, "-c", "import ctypes, sys, time\n"
                    f"assert ctypes.CDLL(None).ptrace(0x4206, {target.pid}, None, None) == 0\n"
                    "print('traces', flush=True); time.sleep(600)"])
    try:
        if Lines(tracer.stdout).next() != "traces":
            pytest.skip("this machine does not permit to trace a process")
        said = refused(target.pid, tmp_path)
        assert "is already traced" in said and f"process {tracer.pid} (" in said
        target.do("alloc 1 10")
    finally:
        end_group(tracer)
        tracer.communicate()
    heft = Attached(target, heft=HEFT)
    heft.signal()
    heft.end()


def test_attached_already(target, tmp_path):
    heft = Attached(target, heft=HEFT)
    said = refused(target.pid, tmp_path)
    assert "is being recorded already" in said and f"process {heft.process.pid} is attached" in said
    target.do("alloc 3 10")
    heft.signal()
    heft.end()
    assert heft.report()["totals"]["allocations"] == 3


@pytest.mark.parametrize("options", [[], ["--sample"]])
def test_started_with_heft_run(compiled, tmp_path, started, options):
    heft = started([HEFT, "run", "-q", *options, "-o", tmp_path / "run.heft", "--",
                    compiled("attach_target.c", flags=["-ldl"]), tmp_path], stdin=subprocess.PIPE)
    assert Lines(heft.stdout).next() == "ready"
    [pid] = children_of(heft.pid)
    assert "profiled by heft already" in refused(pid, tmp_path)
    heft.stdin.close()
    heft.stdin = None
    heft.communicate(timeout=60)
    assert heft.returncode == 0


def test_the_inside_of_a_heft_that_is_gone(compiled, tmp_path, started):
    """heft run was killed: its library is still in the program."""
    heft = started([HEFT, "run", "-q", "-o", tmp_path / "run.heft", "--",
                    compiled("attach_target.c", flags=["-ldl"]), tmp_path], stdin=subprocess.PIPE)
    assert Lines(heft.stdout).next() == "ready"
    [pid] = children_of(heft.pid)
    os.kill(heft.pid, signal.SIGKILL)
    try:
        said = refused(pid, tmp_path)
        assert "was started with heft" in said or "profiled by heft already" in said
    finally:
        os.kill(pid, signal.SIGKILL)


def test_static_without_names(compiled, tmp_path, started):
    """A program without a loader, whether it can be moved in memory or not."""
    for flags in (["-static"], ["-static-pie"]):
        program = compiled("attach_target.c", flags=[*flags, "-s"], output="target" + flags[0])
        process = started([program, tmp_path], stdin=subprocess.PIPE)
        assert Lines(process.stdout).next() == "ready"
        assert "is linked statically" in refused(process.pid, tmp_path)


def test_thirty_two_bits(tmp_path, started):
    """By hand: a program that only waits, as small as one can be."""
    #  mov $29 (pause), %eax; int $0x80; jmp back
    code = bytes.fromhex("b81d000000cd80ebf7")
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + bytes.fromhex(
        "0200 0300 01000000 54800408 34000000 00000000 00000000 3400 2000 0100 0000 0000 0000".replace(" ", ""))
    size = (52 + 32 + len(code)).to_bytes(4, "little")
    segment = bytes.fromhex("01000000 00000000 00800408 00800408".replace(" ", "")) + size + size + bytes.fromhex(
        "05000000 00100000".replace(" ", ""))
    program = tmp_path / "small"
    program.write_bytes(header + segment + code)
    program.chmod(0o755)
    try:
        process = started([program])
    except OSError:
        pytest.skip("this machine does not run 32-bit programs (mounted or built without)")
    assert "is a 32-bit program" in refused(process.pid, tmp_path)
    assert process.poll() is None


def test_seccomp_strict(compiled, tmp_path, started):
    """Where read, write and exit are all that is allowed, any call of heft's would be its death."""
    process = started(["/usr/bin/python3", "-c", "import ctypes, os\n"
                       "os.write(1, b'x\\n'); ctypes.CDLL(None).prctl(22, 1, 0, 0, 0); os.read(0, 1)"],
                      stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"x\n"
    wait_until(lambda: "Seccomp:\t1" in pathlib.Path(f"/proc/{process.pid}/status").read_text())
    assert "seccomp" in refused(process.pid, tmp_path)
    assert process.poll() is None


def test_itself(tmp_path):
    """Its own number it knows only when it has begun: a shell's exec keeps it."""
    done = run(["/bin/sh", "-c", f'exec "{HEFT}" attach $$'], cwd=tmp_path)
    assert done.returncode == 2 and b"is heft itself" in done.stderr


SCOPES = [(None, "does not let its user look inside", "Run heft as root"),
          ("1", "lets only root attach to a running process: kernel.yama.ptrace_scope is 1", "ptrace_scope=0"),
          ("2", "kernel.yama.ptrace_scope is 2", "Run heft as root"),
          ("3", "lets nobody trace a process: kernel.yama.ptrace_scope is 3", "until the next boot")]


@pytest.mark.parametrize("scope, why, way_out", SCOPES)
def test_not_permitted(started, public_heft, tmp_path, scope, why, way_out):
    """The kernel says no, because the process is not dumpable. The reason that heft finds is what the system's setting
    says, which a file over /proc fakes here."""
    if os.geteuid():
        pytest.skip("only root can be another user")

    def as_nobody():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    process = started(["/usr/bin/python3", "-c", "import ctypes, time\n"
                       "ctypes.CDLL(None).prctl(4, 0); print('x', flush=True); time.sleep(600)"], preexec_fn=as_nobody)
    assert process.stdout.readline() == b"x\n"
    fake = "" if scope is None else \
        f"mkdir /proc/sys/kernel/yama && echo {scope} > /proc/sys/kernel/yama/ptrace_scope || exit 77; "
    done = run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /proc/sys/kernel || exit 77; {fake}"
                f"exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups "
                f"'{public_heft}' attach -o /dev/shm/refused.heft {process.pid}"], cwd=tmp_path)
    if done.returncode == 77:
        pytest.skip("mounting is not permitted here")
    said = done.stderr.decode()
    assert done.returncode == 1 and why in " ".join(said.split()) and way_out in " ".join(said.split()), said
    assert process.poll() is None


def test_stopped(target):
    """A program that a signal has stopped can be attached to. It stays stopped."""
    def state():
        return pathlib.Path(f"/proc/{target.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]

    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: state() == "T")
    heft = Attached(target, heft=HEFT)
    wait_until(lambda: state() == "T")
    os.kill(target.pid, signal.SIGCONT)
    target.do("alloc 3 10")
    os.kill(target.pid, signal.SIGSTOP)
    wait_until(lambda: state() == "T")
    heft.signal()
    heft.end()
    wait_until(lambda: state() == "T")
    assert heft.report()["totals"]["allocations"] == 3
    os.kill(target.pid, signal.SIGCONT)
    target.do("alloc 1 10")


def test_from_inside_a_container(target, tmp_path):
    """root of a user namespace is nobody outside of it."""
    done = run(["unshare", "-Ur", HEFT, "attach", "--duration", "10ms", "-o", tmp_path / "refused.heft", target.pid], cwd=tmp_path)
    said = " ".join(done.stderr.decode().split())
    if "unshare" in said:
        pytest.skip("user and pid namespaces are not permitted here")
    assert done.returncode == 1 and "outside of this container or user namespace" in said, said
    target.do("alloc 1 10")
