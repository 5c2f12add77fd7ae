"""A process that waits in a system call is stopped many times (src/attach, by stop_driver): borrowed for
system calls, and with all its threads. The call must not notice. HEFT_STOPS says how often (30)."""

import os
import subprocess

import pytest

from harness import BUILD, end_group, run, start, wait_until

DRIVER = BUILD / "tests" / "integration" / "stop_driver"
STOPS = int(os.environ.get("HEFT_STOPS", 30))

# What each call returns when its wait ends, and the errno; and how often handlers ran.
WAITS = {
    "epoll_wait": "1 - 0",
    "epoll_wait_timed": "1 - 0",
    "epoll_pwait": "1 - 0",
    "poll": "1 - 0",
    "ppoll": "1 - 0",
    "select": "1 - 0",
    "select_constant": "1 - 0",
    "pselect": "1 - 0",
    "sigtimedwait": "12 - 0",  # SIGUSR2
    "sigwaitinfo": "12 - 0",
    "pause": "-1 EINTR 1",
    "sigsuspend": "-1 EINTR 1",
    "signalfd": "128 - 0",
    "semop": "0 - 0",
    "semtimedop": "0 - 0",
    "msgrcv": "8 - 0",
    "msgsnd": "0 - 0",
    "mq_timedreceive": "5 - 0",
    "flock": "0 - 0",
    "fcntl_lock": "0 - 0",
    "nanosleep": "0 - 0",
    "clock_nanosleep": "0 - 0",
    "clock_nanosleep_absolute": "0 - 0",
    "timerfd": "8 - 0",
    "poll_expiring": "0 - 0",
    "futex": "0 - 0",
    "futex_timed": "0 - 0",
    "futex_expiring": "-1 ETIMEDOUT 0",
    "recv": "3 - 0",
    "recv_timed": "3 - 0",
    "read_timed": "3 - 0",
    "send_timed": "3 - 0",
    "write_timed": "3 - 0",
    "accept": "1 - 0",
    "accept_timed": "1 - 0",
    "read_pipe": "1 - 0",
    "write_pipe": "3 - 0",
    "eventfd": "8 - 0",
    "inotify": "1 - 0",
    "open_fifo": "1 - 0",
    "io_getevents": "1 - 0",
    "wait4": "1 - 0",
    "waitid": "0 - 0",
}
# They end by themselves, so they must last longer than the stops take.
TIMED = ["nanosleep", "clock_nanosleep", "clock_nanosleep_absolute", "timerfd", "poll_expiring", "futex_expiring"]
SECONDS = {"STOP_SECONDS": str(4 + STOPS // 20)}
# signal(7): these are made again after a handler that was installed with SA_RESTART.
RESTARTED = ["read_pipe", "recv", "accept", "wait4", "waitid", "futex", "flock", "fcntl_lock", "mq_timedreceive",
             "eventfd", "open_fifo", "write_pipe"]


@pytest.fixture
def waiting(compiled):
    """Starts stop_waits, and gives it when it is in its system call."""
    program = compiled("stop_waits.c", flags=["-D_GNU_SOURCE", "-lrt"])
    started = []

    def begin(*arguments, env=SECONDS):
        process = start([program, *arguments], stdin=subprocess.PIPE, env=env)
        started.append(process)
        assert process.stdout.readline() == b"waits\n", process.stderr.read()
        wait_until(lambda: is_waiting(process.pid), what="it waits")
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            end_group(process)
        process.communicate()


def state(pid, task=None):
    with open(f"/proc/{pid}/task/{task or pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def is_waiting(pid):
    try:
        with open(f"/proc/{pid}/syscall") as file:
            return state(pid) == "S" and file.read().split()[0] != "running"
    except PermissionError:
        pytest.skip("this machine does not permit to trace a process")


def drive(pid, *arguments, timeout=600):
    """On a busy machine a stop may be given up, which a caller tries again: "patient" does."""
    done = run([DRIVER, pid, *arguments, "patient", "limit=1000"], timeout=timeout)
    if has_ended(pid):
        return  # its time was over: what it says decides
    assert done.returncode == 0, done.stderr.decode()
    print(arguments, done.stdout.decode())


def has_ended(pid):
    return state(pid) == "Z"


def ask(process, letters):
    process.stdin.write(letters)
    process.stdin.flush()


@pytest.mark.parametrize("name", WAITS)
def test_returns_as_ever(waiting, name):
    process = waiting(name)
    drive(process.pid, "calls", STOPS)
    drive(process.pid, "all", STOPS)
    drive(process.pid, "both", STOPS)
    if name not in TIMED:
        ask(process, b"r")
    out, err = process.communicate(timeout=120)
    assert (out.decode().strip(), err, process.returncode) == (WAITS[name], b"", 0)


@pytest.mark.parametrize("name", [n for n in WAITS if n not in ("pause", "sigsuspend")])
def test_a_handler_interrupts(waiting, name):
    """A handler of the program's own, without SA_RESTART: EINTR, with or without stops before it."""
    process = waiting(name, "handled", env={"STOP_SECONDS": "600"})  # the handler ends the wait
    drive(process.pid, "both", STOPS)
    ask(process, b"s")
    out = process.stdout.readline()  # and stdin stays open, whose end would end the helper and the wait
    # A 1 is what stop_waits makes of accept's and open's descriptor: no more than 2 is none.
    failed = "0 - 1" if name in ("accept", "accept_timed", "open_fifo", "inotify", "wait4") else "-1 EINTR 1"
    assert out.decode().strip() == failed


@pytest.mark.parametrize("name", RESTARTED)
def test_a_restarting_handler_does_not(waiting, name):
    process = waiting(name, "restarted")
    drive(process.pid, "both", STOPS)
    ask(process, b"s")
    drive(process.pid, "both", STOPS)
    ask(process, b"r")
    out, err = process.communicate(timeout=60)
    value, error, _ = WAITS[name].split()
    assert (out.decode().strip(), err) == (f"{value} {error} 1", b"")
