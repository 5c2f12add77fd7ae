"""The recorder is killed, stopped, or has no room: the program ends as it would have, and
what was recorded until then can be read."""

import os
import re
import resource
import signal
import struct
import subprocess
import time

import pytest

from harness import (HEFT, TIME_LIMIT, check_sums, children_of, end_group, report, run, start,
                     wait_until)


def numbers_of(output):
    return {k.decode(): int(v) for k, v in re.findall(rb"^(\w+) (\d+)$", output, re.M)}


def progress(path):
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return 0
    return struct.unpack("=Q", data)[0] if len(data) == 8 else 0


FINISHED = 2**64 - 1
LEISURELY = ["300"]  # microseconds of rest after every 1,000 rounds: a busy machine may look late


def recorder_pids(heft, program):
    """heft and those of its children that are not the program."""
    own = os.path.realpath(HEFT)
    pids = [heft.pid]
    for pid in children_of(heft.pid):
        try:
            if os.path.realpath(f"/proc/{pid}/exe") == own:
                pids.append(pid)
        except OSError:
            pass
    return pids


def begin(program, path, progress_file, output, rounds, *more):
    return start([HEFT, "run", "-q", "-o", path, "--", program, str(rounds), progress_file, *more],
                 stdout=open(output, "wb"))


@pytest.fixture(scope="session")
def churn(compiled):
    return compiled("churn.c")


@pytest.fixture(scope="session")
def expected(churn, tmp_path_factory):
    """What the program prints when left alone."""
    cache = {}

    def numbers(rounds):
        if rounds not in cache:
            done = run([churn, str(rounds), tmp_path_factory.mktemp("plain") / "progress"])
            assert done.returncode == 21
            cache[rounds] = done.stdout
        return cache[rounds]
    return numbers


@pytest.mark.parametrize("moment", [1, 200_000, 1_000_000])
def test_recorder_killed(churn, expected, tmp_path, moment):
    path, where, output = tmp_path / "r.heft", tmp_path / "progress", tmp_path / "output"
    rounds = 6_000_000
    heft = begin(churn, path, where, output, rounds, *LEISURELY)
    try:
        wait_until(lambda: progress(where) >= moment, what="progress of the program")
        assert progress(where) != FINISHED, "too late: the program has ended"
        pids = recorder_pids(heft, churn)
        (program,) = [p for p in children_of(heft.pid) if p not in pids]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        heft.communicate(timeout=TIME_LIMIT)
        assert heft.returncode == -signal.SIGKILL
        # The program is our child now (the tests are a subreaper): its status is ours to see.
        status = wait_until(lambda: os.waitpid(program, os.WNOHANG)[1] or None,
                            what="end of the program")
    finally:
        end_group(heft)
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 21
    assert output.read_bytes() == expected(rounds)
    rep = report(path)
    assert rep["end"] == "running"
    check_sums(rep)
    made = numbers_of(expected(rounds))
    assert rep["totals"]["allocations"] <= made["allocations"]


def test_recorder_stopped(churn, expected, tmp_path):
    """The program waits, then goes on unprofiled; the recording says how much is missing."""
    path, where, output = tmp_path / "r.heft", tmp_path / "progress", tmp_path / "output"
    rounds = 16_000_000
    heft = begin(churn, path, where, output, rounds)
    stopped = []
    try:
        wait_until(lambda: progress(where) >= 1, what="start of the program")
        stopped = recorder_pids(heft, churn)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        assert progress(where) != FINISHED, "too late: the program has ended"
        # bounded: it waits for 1 s or so when the pool is full, not for us
        wait_until(lambda: progress(where) == FINISHED, 4 * TIME_LIMIT, "end of the program, unprofiled")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    try:
        _, err = heft.communicate(timeout=TIME_LIMIT)
    finally:
        end_group(heft)
    assert heft.returncode == 21, err
    assert output.read_bytes() == expected(rounds)
    rep = report(path)
    check_sums(rep)
    made = numbers_of(expected(rounds))
    totals = rep["totals"]
    assert totals["dropped"] > 0
    assert 0 < totals["allocations"] < made["allocations"]
    seen = totals["allocations"] + totals["reallocations"] + totals["frees"]
    assert seen + totals["dropped"] == made["allocations"] + made["frees"]
    text = run([HEFT, "report", path])
    assert text.returncode == 0
    assert re.search(rb"pid \d+: %d events are missing, from \d" % totals["dropped"], text.stdout), text.stdout


FILLING = b"x" * 512  # a pipe takes all of it at once, or nothing


def test_nobody_reads_what_heft_says(churn, expected, tmp_path):
    """Standard error is a pipe to somebody who does not read for now, as a pager: nothing is lost, neither of the
    recording nor of the words. -v says a line for each process."""
    path, where = tmp_path / "r.heft", tmp_path / "progress"
    rounds = 3_000_000
    mine, theirs = os.pipe()
    script = "while [ ! -e go ]; do sleep 0.05; done; /bin/true; /bin/true; exec \"$@\""
    heft = start([HEFT, "run", "-v", "-o", path, "--", "sh", "-c", script, "sh", churn, rounds, where],
                 stderr=theirs, cwd=tmp_path)
    try:
        words = os.read(mine, 1 << 16)
        while b"recording process" not in words:
            words += os.read(mine, 1 << 16)
        # Opened once more: heft's own end goes on to wait.
        filling = os.open(f"/proc/self/fd/{theirs}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(filling, FILLING)
        except BlockingIOError:
            os.close(filling)
        os.close(theirs)
        (tmp_path / "go").touch()
        out = heft.stdout.read(len(expected(rounds)))  # the program ends by itself; heft waits to be read
        rest = b""
        while piece := os.read(mine, 1 << 16):
            rest += piece
        heft.communicate(timeout=TIME_LIMIT)
    finally:
        end_group(heft)
        os.close(mine)
    assert heft.returncode == 21 and out == expected(rounds)
    words += rest.replace(FILLING, b"")  # heft's words on "sleep" may stand between two of them
    assert len(re.findall(rb"^heft: recording process \d+ \((/bin/|/usr/bin/)?true\)", words, re.M)) == 2, words
    totals, made = report(path)["totals"], numbers_of(expected(rounds))
    assert totals["dropped"] == 0 and totals["allocations"] > made["allocations"]


def test_recorder_stopped_for_a_moment(churn, expected, tmp_path):
    """Shorter than the second that is granted: nothing is lost."""
    path, where, output = tmp_path / "r.heft", tmp_path / "progress", tmp_path / "output"
    rounds = 3_000_000
    heft = begin(churn, path, where, output, rounds)
    try:
        wait_until(lambda: progress(where) >= 1, what="start of the program")
        for _ in range(5):
            pids = recorder_pids(heft, churn)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            time.sleep(0.05)
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)
        heft.communicate(timeout=TIME_LIMIT)
    finally:
        end_group(heft)
    assert heft.returncode == 21
    assert output.read_bytes() == expected(rounds)
    rep, made = report(path), numbers_of(expected(rounds))
    assert rep["totals"]["dropped"] == 0
    assert rep["totals"]["allocations"] == made["allocations"]
    assert rep["totals"]["frees"] == made["frees"]


def state_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def test_all_stand_still(churn, expected, tmp_path):
    """The program waits for the recorder, and both stand still for longer than the second that is granted, as by Ctrl-Z or
    on a machine that sleeps: nothing is lost."""
    path, where, output = tmp_path / "r.heft", tmp_path / "progress", tmp_path / "output"
    rounds = 6_000_000
    heft = begin(churn, path, where, output, rounds)
    try:
        wait_until(lambda: progress(where) >= 1, what="start of the program")
        recorder = recorder_pids(heft, churn)
        (program,) = [p for p in children_of(heft.pid) if p not in recorder]
        for pid in recorder:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state_of(program) == "S", what="the program waits")
        os.kill(program, signal.SIGSTOP)
        assert progress(where) != FINISHED, "too late: the program has ended"
        time.sleep(2)
        for pid in (*recorder, program):
            os.kill(pid, signal.SIGCONT)
        heft.communicate(timeout=TIME_LIMIT)
    finally:
        end_group(heft)
    assert heft.returncode == 21
    assert output.read_bytes() == expected(rounds)
    totals, made = report(path)["totals"], numbers_of(expected(rounds))
    assert totals["dropped"] == 0 and totals["allocations"] == made["allocations"]


def test_nothing_is_dropped_when_the_recorder_is_slow(churn, expected, tmp_path, record):
    """More than the pool holds, as fast as the program can, on two busy cores."""
    rounds = 6_000_000
    done, rep = record([churn, str(rounds), tmp_path / "progress"])
    assert (done.returncode, done.stdout) == (21, expected(rounds))
    made = numbers_of(done.stdout)
    assert rep["totals"]["dropped"] == 0
    assert rep["totals"]["allocations"] == made["allocations"]
    assert rep["totals"]["frees"] == made["frees"]
    assert rep["totals"]["live_blocks"] == made["allocations"] - made["frees"]
    check_sums(rep)


def small_file_system(directory, size):
    """Mounts one there until the test ends; only root can."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    directory.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "heft-test", directory],
                      timeout=TIME_LIMIT, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield directory
    subprocess.run(["umount", "-l", directory], timeout=TIME_LIMIT, check=True)


@pytest.fixture
def small_disk(tmp_path):
    """10 MiB, for a recording of 24 in blocks of 4."""
    yield from small_file_system(tmp_path / "small", "10m")


def test_full_disk(churn, expected, tmp_path, small_disk):
    path, rounds = small_disk / "r.heft", 6_000_000
    done = run([HEFT, "run", "-o", path, "--", churn, str(rounds), tmp_path / "progress"])
    assert done.stdout == expected(rounds)
    assert done.returncode == 21
    assert b"r.heft: No space left on device" in done.stderr, done.stderr
    rep = report(path)
    check_sums(rep)
    assert 0 < rep["totals"]["allocations"] < numbers_of(done.stdout)["allocations"]
    # A whole recording up to where the disk was full.
    assert rep["end"] == "running"
    verify = run([HEFT, "verify", path])
    assert verify.returncode == 0, verify.stderr
    assert b"then cut off (no end block)" in verify.stdout, verify.stdout


def test_disk_full_from_the_start(compiled, small_disk):
    (small_disk / "filler").write_bytes(b"x" * (4095 * 1024))
    with open(small_disk / "filler", "ab", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 512)
        except OSError:
            pass
    done = run([HEFT, "run", "-o", small_disk / "r.heft", "--", compiled("each_function.c"),
                "malloc"])
    # Refused before the start: the program did not run.
    assert (done.returncode, done.stdout) == (125, b"")
    assert b"r.heft: No space left on device" in done.stderr, done.stderr


def test_file_size_limit_of_the_recorder(churn, expected, tmp_path):
    """RLIMIT_FSIZE for the recorder alone: a write that fails otherwise than by ENOSPC."""
    path, where, output = tmp_path / "r.heft", tmp_path / "progress", tmp_path / "output"
    rounds = 6_000_000
    heft = begin(churn, path, where, output, rounds, *LEISURELY)
    try:
        # The first events are there, most are still to come.
        wait_until(lambda: path.exists() and path.stat().st_size > 20_000, what="blocks of events")
        limit = path.stat().st_size + 100_000
        for pid in recorder_pids(heft, churn):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, limit))
        sizes = []  # a write that had begun by then goes on to its end, however large it is

        def settled():
            sizes.append(path.stat().st_size)
            return len(sizes) > 200 and sizes[-1] == sizes[-200]  # for a second

        wait_until(settled, what="no write is under way")
        before = sizes[-1]
        _, err = heft.communicate(timeout=TIME_LIMIT)
    finally:
        end_group(heft)
    assert heft.returncode == 21, err
    assert output.read_bytes() == expected(rounds)
    assert 20_000 < path.stat().st_size <= max(limit, before)
    assert b"File too large" in err, err
    rep = report(path)
    check_sums(rep)
    assert rep["end"] == "running"
    assert 0 < rep["totals"]["allocations"] < numbers_of(expected(rounds))["allocations"]


@pytest.fixture
def session_disk(tmp_path):
    """Memory for the session alone, just enough to be accepted."""
    yield from small_file_system(tmp_path / "session", "288m")


def test_shared_memory_runs_out(churn, expected, tmp_path, session_disk):
    """Others fill the file system of the session while the program needs more of it: a page
    that the kernel cannot give is a SIGBUS for whoever touches it, and must not be the program."""
    path, where, output = tmp_path / "r.heft", tmp_path / "progress", tmp_path / "output"
    rounds, stopped = 4_000_000, []
    heft = start([HEFT, "run", "-q", "-o", path, "--", churn, str(rounds), where],
                 env={"HEFT_DIR": str(session_disk)}, stdout=open(output, "wb"))
    try:
        wait_until(lambda: progress(where) >= 1, what="start of the program")
        stopped = recorder_pids(heft, churn)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        with open(session_disk / "filler", "wb", buffering=0) as filler:
            try:
                while True:
                    filler.write(bytes(1 << 20))
            except OSError:
                pass
        # ends by itself, or dies: then there is nobody left to wait for
        wait_until(lambda: progress(where) == FINISHED or any(
            state_of(p) == "Z" for p in children_of(heft.pid) if p not in stopped), 4 * TIME_LIMIT, "end of the program")
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    try:
        _, err = heft.communicate(timeout=TIME_LIMIT)
    finally:
        end_group(heft)
    assert heft.returncode == 21, err
    assert output.read_bytes() == expected(rounds)
    check_sums(report(path))


@pytest.mark.parametrize("options", [[], ["--sample=64k"]])
def test_child_without_shared_memory(compiled, tmp_path, session_disk, options):
    """A forked child finds the file system of the session full. It goes on unprofiled; the pages of a
    file without memory would be a SIGBUS for it."""
    program, ready, go = compiled("forks_late.c"), tmp_path / "ready", tmp_path / "go"
    heft = start([HEFT, "run", "-q", *options, "-o", tmp_path / "r.heft", "--", program, ready, go],
                 env={"HEFT_DIR": str(session_disk)}, stdout=subprocess.PIPE)
    try:
        wait_until(ready.exists, what="start of the program")
        with open(session_disk / "filler", "wb", buffering=0) as filler:
            for size in 1 << 20, 1 << 12, 1:
                try:
                    while filler.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass
            go.touch()
            out, err = heft.communicate(timeout=TIME_LIMIT)
    finally:
        end_group(heft)
    assert out == b"child 7\n", err
    assert heft.returncode in (5, 21), err


@pytest.mark.parametrize("limit", ["ulimit -f 8", "ulimit -v 60000", "ulimit -n 4",
                                   "ulimit -l 0"])
def test_limits_of_the_program_are_its_own_matter(compiled, record, limit):
    """A program under limits that leave no room for heft runs as it would without."""
    program = compiled("each_function.c")
    script = f"{limit}; exec {program} malloc"
    plain = run(["bash", "-c", script])
    assert (plain.returncode, plain.stdout) == (0, b"done\n"), plain.stderr
    done, rep = record(["bash", "-c", script])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"done\n", plain.stderr)
    names = [os.path.basename(p["command"][0]) for p in rep.images()]
    if "each_function" in names and rep.sites_of(program):
        assert rep.process("each_function")["totals"]["allocations"] == 3
    else:  # then it must be said
        assert re.search("each_function", rep.everything().replace(" ".join(rep["command"]), ""))
