"""The stop module (src/attach/stop.h) and programs that are hard to stop, driven by stop_driver: storms of
threads, processes and signals, code that changes under running threads, programs that are stopped, traced,
sandboxed or about to end. Programs check themselves; pauses are printed, never asserted. HEFT_STOPS says how
often a program is stopped (30; at most 1,000 make sense)."""

import ctypes
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

from attach_harness import may_trace
from attach_rounds import make_life
from harness import BUILD, end_group, run, start, wait_until

DRIVER = BUILD / "tests" / "integration" / "stop_driver"
STOPS = int(os.environ.get("HEFT_STOPS", 30))
NOBODY = 65534
CODES = {"refused": "-5", "not found": "-6", "busy": "-8"}


@pytest.fixture(scope="module", autouse=True)
def can_trace():
    if not may_trace():
        pytest.skip("this machine does not permit to trace a process")


@pytest.fixture
def started(compiled):
    """started(SOURCE, ARGUMENT...) -> a program with pipes; it is ended after the test."""
    processes = []

    def begin(source, *arguments, preexec_fn=None):
        program = compiled(source, flags=["-D_GNU_SOURCE"])
        process = start([program, *arguments], stdin=subprocess.PIPE, preexec_fn=preexec_fn)
        processes.append(process)
        return process

    yield begin
    for process in processes:
        end(process)


def end(process):
    """Storms use numbers up: one whose process has been waited for may be somebody else's already."""
    if process.poll() is None:
        end_group(process)
    process.communicate()


def drive(pid, what, *arguments, patient=True, timeout=300, **options):
    done = run([DRIVER, pid, what, *arguments, *(["patient"] if patient else [])], timeout=timeout, **options)
    print(pid, what, done.stdout.decode(), done.stderr.decode())
    return done


def drive_well(pid, what, *arguments):
    done = drive(pid, what, *arguments)
    assert done.returncode == 0, done.stderr.decode()
    numbers = done.stdout.decode().split()
    return dict(zip(numbers[::2], map(int, numbers[1::2])))


def fails(done, code):
    """The driver's message, after its code was checked."""
    assert done.returncode == 1, done.stdout
    number, message = done.stderr.decode().split(" ", 1)
    assert number == CODES[code], message
    return message.strip()


def status(pid, field, task=None):
    text = pathlib.Path(f"/proc/{pid}/task/{task or pid}/status").read_text()
    return re.search(rf"^{field}:\s*(\S+)", text, re.M).group(1)


def wait_for_state(process, letter, what):
    wait_until(lambda: status(process.pid, "State") == letter, what=what)


def is_untraced(pid):
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            if status(pid, "TracerPid", task) != "0":
                return False
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended
    return True


def ends_well(process, timeout=120):
    """Closes its stdin and returns how often it did what it does."""
    out, err = process.communicate(timeout=timeout)
    assert (process.returncode, err) == (0, b"")
    return int(re.search(rb"ok (\d+)", out).group(1))


@pytest.mark.parametrize("kind", ["loops", "threads", "forks", "spawns", "stops"])
def test_storm(started, kind):
    process = started("stop_storms.c", kind)
    wait_until(lambda: status(process.pid, "State"), what="it runs")
    drive_well(process.pid, "both", 3 * STOPS)
    drive_well(process.pid, "all", 3 * STOPS)
    assert kind in ("threads", "stops") or is_untraced(process.pid)
    assert ends_well(process) > 0


@pytest.mark.parametrize("kind", ["stops", "loops", "threads"])
def test_a_borrowed_thread_rests(started, kind):
    """20 calls with 2 ms before each: whoever makes them lets the thread go on whenever it has stood still for 5 ms, so
    after three calls at most. And that the thread stood still counts, although nothing froze."""
    process = started("stop_storms.c", kind)
    numbers = drive_well(process.pid, "rests", 3)
    assert numbers["rests"] >= 3 * 6
    assert numbers["longest_us"] >= 5000
    assert numbers["pause_max_us"] == 0
    assert is_untraced(process.pid) and ends_well(process) > 0


def test_no_signal_is_lost(started):
    """20,000 queued signals at up to 10 kHz, while the process is stopped all the time."""
    process = started("stop_storms.c", "signals")
    drive_well(process.pid, "both", 10 * STOPS, "every=500")
    assert process.stdout.readline() == b"signalled\n", process.stderr.read()
    assert ends_well(process) > 0


def test_many_threads(started):
    process = started("stop_storms.c", "many")
    assert process.stdout.readline() == b"sleep\n"
    assert drive_well(process.pid, "all", STOPS)["threads"] == 301
    assert is_untraced(process.pid)
    assert ends_well(process) == 300


def test_first_thread_has_ended(started):
    process = started("stop_storms.c", "first_ends")
    assert process.stdout.readline() == b"first thread ends\n"
    wait_for_state(process, "Z", "the first thread has ended")
    drive_well(process.pid, "both", STOPS)
    assert ends_well(process) > 0


def test_vfork_is_waited_for(started):
    """The only thread is in vfork: nothing can be stopped, and nothing is held afterwards."""
    process = started("stop_storms.c", "vfork")
    assert process.stdout.readline() == b"vforks\n"
    wait_for_state(process, "D", "vfork")
    assert "nothing interrupts (vfork" in fails(drive(process.pid, "calls", 1, patient=False), "busy")
    assert "shares its memory with process" in fails(drive(process.pid, "all", 1, patient=False), "busy")
    assert is_untraced(process.pid)
    process.stdin.write(b"v")
    process.stdin.flush()
    assert process.stdout.readline() == b"vforked\n"
    drive_well(process.pid, "both", STOPS)
    assert ends_well(process) == 1


def test_another_thread_is_borrowed_beside_vfork(started):
    process = started("stop_storms.c", "vfork_beside")
    assert process.stdout.readline() == b"vforks\n"
    wait_for_state(process, "D", "vfork")
    drive_well(process.pid, "calls", STOPS)
    assert "vfork" in fails(drive(process.pid, "all", 1, patient=False), "busy")
    assert is_untraced(process.pid)
    process.stdin.write(b"v")
    process.stdin.flush()
    assert process.stdout.readline() == b"vforked\n"
    drive_well(process.pid, "all", STOPS)
    assert ends_well(process) > 0


def change_words(process):
    return process.stdout.readline().decode().split()


# How little a freeze waits for: threads have left their processors; they were told to.
HURRIES = [[], ["still=0"]]


@pytest.mark.parametrize("hurry", HURRIES)
@pytest.mark.parametrize("kind", ["threads", "across"])
def test_code_changes_under_threads(started, kind, hurry):
    process = started("stop_changed.c", kind)
    drive_well(process.pid, "change", max(200, 2 * STOPS), *change_words(process), *hurry)
    assert is_untraced(process.pid)
    assert ends_well(process) > 0


def test_threads_run_into_traps(started):
    """Nobody tells the threads to stop before the code has changed, so they meet the traps."""
    process = started("stop_changed.c", "whole")
    drive_well(process.pid, "change", max(200, 2 * STOPS), *change_words(process), "still=0", "unasked=2")
    assert is_untraced(process.pid)
    assert ends_well(process) > 0


def test_code_changes_under_forks(started):
    process = started("stop_changed.c", "forks")
    drive_well(process.pid, "change", max(200, 2 * STOPS), *change_words(process))
    assert ends_well(process) > 0


def test_a_thread_inside_is_moved(started):
    """It loops inside what changes, and must go on in the copy: the changed bytes are traps."""
    process = started("stop_changed.c", "inside")
    words = change_words(process)
    wait_until(lambda: busy_threads(process.pid), what="a thread in the loop")
    assert drive_well(process.pid, "change", 1, *words)["repaired"] == 1
    process.stdin.write(b"h")
    process.stdin.flush()
    assert ends_well(process) == 1


def busy_threads(pid):
    """Threads that have had 50 ms of a processor."""
    times = [pathlib.Path(f"/proc/{pid}/task/{t}/stat").read_text().rsplit(")", 1)[1].split()[11]
             for t in os.listdir(f"/proc/{pid}/task")]
    return [t for t in times if int(t) >= 5]


def test_a_thread_that_cannot_be_moved(started):
    process = started("stop_changed.c", "inside")
    words = change_words(process)
    wait_until(lambda: busy_threads(process.pid), what="a thread in the loop")
    # No thread is late: the clock would have to stand still for longer than the limit.
    wait = ["still=100000000000", "limit=60000"]
    message = fails(drive(process.pid, "change", 1, *words[:3], *wait, patient=False), "busy")
    assert "in the middle of what would change" in message
    process.stdin.write(b"h")
    process.stdin.flush()
    assert ends_well(process) == 1


def test_a_handler_that_returns_inside(started):
    process = started("stop_changed.c", "frame")
    words = change_words(process)
    wait = ["still=100000000000", "limit=60000"]
    message = fails(drive(process.pid, "change", 1, *words, *wait, patient=False), "busy")
    assert "in a signal handler that will return to" in message
    process.stdin.write(b"h")
    process.stdin.flush()
    assert process.stdout.readline() == b"handled\n"
    drive_well(process.pid, "change", 1, *words)
    process.stdin.write(b"h")
    process.stdin.flush()
    assert ends_well(process) == 1


def test_other_code_is_refused(started):
    process = started("stop_changed.c", "threads")
    words = change_words(process)
    other = f"{int(words[1][:2], 16) ^ 1:02x}" + words[1][2:]
    message = fails(drive(process.pid, "change", 1, words[0], other, *words[2:]), "refused")
    assert "is not what it was" in message
    assert ends_well(process) > 0


def test_already_traced(started):
    process = started("stop_storms.c", "loops")
    holder = start([DRIVER, process.pid, "hold"], stdin=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"holds\n"
        message = fails(drive(process.pid, "calls", 1), "refused")
        # The tracer may be the holder's thread: then the kernel names that.
        assert re.search(r"is already traced, by process \d+ \(stop_driver\)", message), message
    finally:
        holder.communicate()
    assert holder.returncode == 0
    drive_well(process.pid, "calls", STOPS)
    assert ends_well(process) > 0


def policies(pid):
    """How its threads are scheduled."""
    return {os.sched_getscheduler(int(tid)) for tid in os.listdir(f"/proc/{pid}/task")}


def may_hurry():
    """Whether we may give a real-time priority."""
    return run(["chrt", "-f", "1", "true"]).returncode == 0


@pytest.mark.parametrize("policy", [os.SCHED_OTHER, os.SCHED_BATCH])
def test_killed_while_it_holds(started, policy):
    """The kernel lets go of a thread whose tracer is killed. Nothing was called in it, so it is as it was. While it is held
    it has a real-time priority, which it gives back itself."""
    process = started("stop_storms.c", "loops",
                      preexec_fn=lambda: os.sched_setscheduler(0, policy, os.sched_param(0)))
    wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) > 1, what="its threads")
    for _ in range(10):
        holder = start([DRIVER, process.pid, "hold"], stdin=subprocess.PIPE)
        try:
            assert holder.stdout.readline() == b"holds\n"
            if may_hurry():
                assert policies(process.pid) == {policy, os.SCHED_FIFO}
        finally:
            end(holder)  # whoever waits for a process that is held waits for ever
        wait_until(lambda: is_untraced(process.pid), what="let go")
        wait_until(lambda: policies(process.pid) == {policy}, what="its own priority")
    drive_well(process.pid, "both", STOPS)
    assert ends_well(process) > 0


def scheduling(pid, change=None):
    """sched_getattr, or sched_setattr: the slice of an ordinary process, in ns."""
    libc = ctypes.CDLL(None, use_errno=True)
    room = ctypes.create_string_buffer(struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, 0, 0, change or 0, 0, 0), 48)
    if change:
        return libc.syscall(314, pid, room, 0)
    assert libc.syscall(315, pid, room, 48, 0) == 0
    return struct.unpack("=IIQiIQQQ", room.raw)[5]


def test_a_slice_of_its_own_stays(started):
    process = started("stop_storms.c", "stops")
    if scheduling(process.pid, 700_000) or scheduling(process.pid) != 700_000:
        pytest.skip("slices came with Linux 6.12")
    drive_well(process.pid, "calls", STOPS)
    assert scheduling(process.pid) == 700_000
    assert ends_well(process) > 0


@pytest.mark.parametrize("kind", ["loops", "signals"])
def test_killed_while_it_calls(started, kind):
    """The frame of a signal handler brings a borrowed thread's registers back if heft is killed."""
    process = started("stop_storms.c", kind, "killed")
    for i in range(STOPS):
        driver = start([DRIVER, process.pid, "calls", 1000000, "patient"])
        time.sleep(0.005 + 0.0007 * (i % 30))
        end(driver)
        assert process.poll() is None, process.stderr.read()
    wait_until(lambda: is_untraced(process.pid), what="let go")
    wait_until(lambda: policies(process.pid) == {os.SCHED_OTHER}, what="its own priority")
    assert kind == "loops" or process.stdout.readline() == b"signalled\n", process.stderr.read()
    assert ends_well(process) > 0


def test_a_stopped_program_stays_stopped(started):
    process = started("stop_storms.c", "loops")
    wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) == 9, what="its threads")
    os.kill(process.pid, signal.SIGSTOP)
    found, how = os.waitpid(process.pid, os.WUNTRACED)
    assert found == process.pid and os.WIFSTOPPED(how)
    drive_well(process.pid, "both", STOPS)
    assert is_untraced(process.pid)
    tasks = os.listdir(f"/proc/{process.pid}/task")
    wait_until(lambda: all(status(process.pid, "State", t) == "T" for t in tasks), what="stopped again")
    # The parent hears of it once, not again.
    assert os.waitpid(process.pid, os.WUNTRACED | os.WCONTINUED | os.WNOHANG) == (0, 0)
    os.kill(process.pid, signal.SIGCONT)
    drive_well(process.pid, "both", STOPS)
    assert ends_well(process) > 0


def longest_read(pid, times):
    """For how long somebody waits who reads the program's memory, in ms."""
    address = int(pathlib.Path(f"/proc/{pid}/maps").read_text().split("-")[0], 16)
    longest = 0
    with open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for _ in range(times):
            time.sleep(0.01)
            memory.seek(address)
            begun = time.monotonic()
            memory.read(1)
            longest = max(longest, time.monotonic() - begun)
    return longest * 1000


def test_a_late_thread_locks_the_memory(started):
    """A thread has the kernel's lock on the memory and no processor: who reads the memory waits until it has one. While the
    program stands still nobody waits for that: the stop is given up."""
    processor = min(os.sched_getaffinity(0))
    burner = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    burners = [start(burner, preexec_fn=lambda: os.sched_setaffinity(0, {processor})) for _ in range(12)]
    try:
        process = started("stop_storms.c", "locks", str(processor))
        assert process.stdout.readline() == b"protects\n"
        assert all(one.stdout.readline() == b"\n" for one in burners)  # they burn
        waited, pauses = longest_read(process.pid, 40), []
        for _ in range(4):
            waited = waited if waited >= 30 else longest_read(process.pid, 40)
        if waited < 30:
            pytest.skip("the thread with the lock gets its processor at once here")
        for _ in range(20):
            done = drive(process.pid, "all", 1, "limit=5", patient=False)
            if done.returncode:
                fails(done, "busy")
            numbers = done.stdout.decode().split()
            pauses.append(int(numbers[numbers.index("given_up_us" if done.returncode else "pause_max_us") + 1]) / 1000)
        # The machine itself may have been late once.
        assert sorted(pauses)[-2] < waited / 4, (pauses, waited)
    finally:
        for one in burners:
            end(one)
    assert ends_well(process) > 0


@pytest.mark.parametrize("what", ["calls", "all"])
def test_ends_meanwhile(started, what):
    for i in range(max(10, STOPS // 2)):
        process = started("stop_storms.c", "ends", str(50 + 400 * i))
        done = drive(process.pid, what, 1000000)
        # In between its threads end one after the other: the first has no memory any more, and others still do.
        assert done.returncode == 1 and re.match(rb"-6 .*ended|-8 .* or ends", done.stderr), done.stderr
        assert process.wait(timeout=60) == 5


@pytest.mark.parametrize("what", ["calls", "all"])
def test_killed_meanwhile(started, what):
    for i in range(max(10, STOPS // 2)):
        process = started("stop_storms.c", "loops")
        driver = start([DRIVER, process.pid, what, 1000000, "patient"])
        time.sleep(0.001 * i)
        process.kill()
        _, err = driver.communicate(timeout=60)
        assert re.match(rb"-6|-8 .* or ends", err), err
        assert process.wait(timeout=60) == -signal.SIGKILL


@pytest.mark.parametrize("what", ["calls", "all"])
def test_becomes_another_program(started, what):
    """A program that calls exec is another one: the stop ends, and the program goes on."""
    process = started("stop_storms.c", "execs")
    for _ in range(STOPS):
        done = drive(process.pid, what, 20, timeout=60)
        assert not done.returncode or done.stderr[:2] in (b"-6", b"-8"), done.stderr
    assert is_untraced(process.pid)
    assert ends_well(process) > 0


# ---- sandboxes


def enter_sandbox(*allowed):
    """For a child: a filter that kills for any call but these; without any it allows all."""
    code = [(0x20, 0, 0, 0)]  # the number of the call
    code += [(0x15, len(allowed) - i, 0, number) for i, number in enumerate(allowed)]
    code += [(0x06, 0, 0, 0x80000000)] if allowed else []
    code += [(0x06, 0, 0, 0x7FFF0000)]
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    kept = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(kept)), 16)
    libc = ctypes.CDLL(None, use_errno=True)
    assert not libc.prctl(38, 1, 0, 0, 0) and not libc.prctl(22, 2, header, 0, 0)


SANDBOXED = """
import ctypes, os, struct, sys, time
sys.path[:0] = [{here!r}, {programs!r}]
import test_stop
libc = ctypes.CDLL(None)
def sleep():
    class Time(ctypes.Structure):
        _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
    return libc.clock_nanosleep(1, 0, ctypes.byref(Time(4, 0)), None)  # on a slow machine it may be over before the stops are
os.write(1, b"ready\\n")
{enter}
{wait}
"""
# read write mmap munmap brk exit futex clock_nanosleep exit_group; not getppid, which stop_driver calls.
FILTERED = "test_stop.enter_sandbox(0, 1, 9, 11, 12, 60, 202, 230, 231)"
SLEEPS = "r = sleep(); os.write(1, b'slept %d\\n' % r); os._exit(0)"
STRICT = "assert not libc.prctl(22, 1, 0, 0, 0)"


@pytest.mark.parametrize("enter, wait, expected", [
    # 219, restart_syscall, is not allowed: the kernel's own way to go on would kill it.
    (FILTERED, SLEEPS, b"slept 0\n"),
    (FILTERED, "os.write(1, b'read %s\\n' % os.read(0, 1)); os._exit(0)", b"read x\n"),
    (STRICT, "t = os.read(0, 1); os.write(1, b'read %s\\n' % t); libc.syscall(60, 0)", b"read x\n"),
])
def test_sandbox(enter, wait, expected):
    if os.geteuid():
        pytest.skip("only root can suspend a sandbox")
    here = pathlib.Path(__file__).parent
    script = SANDBOXED.format(here=str(here), programs=str(here.parent / "programs"), enter=enter, wait=wait)
    process = start(["/usr/bin/python3", "-B", "-c", script], stdin=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"ready\n", process.stderr.read()
        wait_until(lambda: status(process.pid, "Seccomp") != "0", what="sandbox")
        wait_for_state(process, "S", "it waits")
        for what in ("calls", "all"):
            done = drive(process.pid, what, STOPS)
            assert done.returncode == 0 or wait == SLEEPS and status(process.pid, "State") == "Z", done.stderr.decode()
        out, err = process.communicate(b"x", timeout=60)
        assert (out, err, process.returncode) == (expected, b"", 0)
    finally:
        end(process)


def test_a_users_sandbox_is_refused(tmp_path):
    """A user cannot suspend a sandbox, and a call that it forbids would be the program's end."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    driver = tmp_path / "stop_driver"
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    driver.write_bytes(DRIVER.read_bytes())
    driver.chmod(0o755)

    def become_nobody():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE

    def become_sandboxed():
        become_nobody()
        ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)  # PR_SET_PTRACER
        enter_sandbox()

    process = start(["/bin/sleep", "600"], preexec_fn=become_sandboxed)
    try:
        wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", what="sleep")
        done = run([driver, process.pid, "calls", 1], preexec_fn=become_nobody)
        message = fails(done, "refused")
        assert "sandbox (seccomp)" in message and "root" in message
        assert is_untraced(process.pid) and process.poll() is None
        # Stopping alone needs no call.
        done = run([driver, process.pid, "all", 1, "patient"], preexec_fn=become_nobody)
        assert done.returncode == 0, done.stderr
        # And root's process is none of theirs.
        other = start(["/bin/sleep", "600"])
        done = run([driver, other.pid, "calls", 1], preexec_fn=become_nobody)
        end(other)
        message = fails(done, "refused")
        assert "belongs to another user (uid 0)" in message and "as root" in message
    finally:
        end(process)


# ---- what is refused


def test_no_such_process():
    child = subprocess.Popen(["true"])
    child.wait()
    assert fails(drive(child.pid, "calls", 1), "not found") == f"there is no process {child.pid}"
    assert "there is no process 0" in fails(drive(0, "calls", 1), "not found")


def test_a_process_that_has_ended():
    child = subprocess.Popen(["true"])
    wait_for_state(child, "Z", "its end")
    assert "(true) has ended" in fails(drive(child.pid, "calls", 1), "not found")
    child.wait()


def test_itself():
    assert "itself" in fails(drive("self", "calls", 1), "refused")


def test_a_thread_of_the_kernel():
    try:
        kernel = pathlib.Path("/proc/2/comm").read_text() == "kthreadd\n"
    except OSError:
        kernel = False
    if not kernel:
        pytest.skip("pid namespaces hide the kernel's threads")
    assert "is a thread of the kernel" in fails(drive(2, "calls", 1), "refused")


def test_a_thread_is_no_process(started):
    process = started("stop_storms.c", "loops")
    tasks = wait_until(lambda: [t for t in os.listdir(f"/proc/{process.pid}/task") if int(t) != process.pid],
                       what="threads")
    message = fails(drive(tasks[0], "calls", 1), "refused")
    assert f"is a thread of process {process.pid}" in message
    assert ends_well(process) > 0


def test_32_bit_program(tmp_path):
    """A whole program: pause, over and over."""
    code = b"\x6a\x1d\x58\xcd\x80\xeb\xf9"  # push 29; pop eax; int 0x80; jmp -7
    header = b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack(
        "<HHIIIIIHHHHHH", 2, 3, 1, 0x8048054, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    header += struct.pack("<IIIIIIII", 1, 0, 0x8048000, 0x8048000, 84 + len(code), 84 + len(code), 5, 4096)
    program = tmp_path / "small"
    program.write_bytes(header + code)
    program.chmod(0o755)
    try:
        process = start([program])
    except OSError:
        pytest.skip("this kernel does not run 32-bit programs")
    try:
        assert "is a 32-bit program" in fails(drive(process.pid, "calls", 1), "refused")
        assert process.poll() is None
    finally:
        end(process)


def test_a_busy_thread_is_always_had():
    """The only thread may stop between two looks at it: that is no reason to give up."""
    process = start(["/usr/bin/python3", "-c", "while True: pass"])
    try:
        wait_for_state(process, "R", "it runs")
        done = drive(process.pid, "calls", 500, patient=False)
        assert done.returncode == 0, done.stderr.decode()
    finally:
        end(process)


def test_threads_that_end_while_they_are_asked(compiled, tmp_path):
    """All that were there when heft looked may have ended when it asks them to stop: there are others."""
    life = make_life("threads", compiled, tmp_path)
    try:
        done = drive(life.pid, "calls", 400, patient=False)
        assert done.returncode == 0, done.stderr.decode()
        life.end()
    finally:
        life.stop()
