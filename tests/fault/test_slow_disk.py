"""A disk that takes nothing: the program goes on, and the recording ends with a note. The disk is a FIFO that
nobody reads for a while."""

import os
import select
import threading
import time

import pytest

from harness import HEFT, TIME_LIMIT, end_group, report, start


def read_all(fd, out):
    while True:
        piece = os.read(fd, 1 << 20)
        if not piece:
            return
        out.append(piece)


@pytest.fixture
def stalled(compiled, tmp_path):
    """Records into a FIFO; gives the process and a function that reads everything from then on."""
    fifo, pieces = tmp_path / "fifo", []
    os.mkfifo(fifo)
    # Who opens a FIFO to read and to write does not wait for the other end.
    fd = os.open(fifo, os.O_RDWR)
    reader = os.open(fifo, os.O_RDONLY)
    started = []

    def begin(*command):
        started.append(start([HEFT, "run", "--force", "-o", fifo, "--", *command]))
        assert select.select([reader], [], [], TIME_LIMIT)[0], "heft does not begin"
        return started[0]

    def read(process):
        thread = threading.Thread(target=read_all, args=(reader, pieces))
        # heft has it open, so it is the only writer: its end is the end of the file.
        os.close(fd)
        thread.start()
        out, err = process.communicate(timeout=120)
        thread.join(timeout=60)
        assert not thread.is_alive()
        path = tmp_path / "read.heft"
        path.write_bytes(b"".join(pieces))
        return out.decode(), err.decode(), path
    yield begin, read
    os.close(reader)
    for process in started:
        if process.poll() is None:
            end_group(process)
            process.communicate()


def test_a_disk_that_stands_still(compiled, stalled):
    begin, read = stalled
    process = begin(compiled("longest_wait.c", flags=["-O2"]), "120")  # it ends soon after it has waited
    # It has ended by itself while nothing was read.
    assert select.select([process.stdout], [], [], 180)[0], "the program stands still"
    longest_ms, calls = map(int, process.stdout.readline().split())
    assert calls > 1000000
    assert longest_ms < 10000  # a broken heft only: a second is meant
    _, err, path = read(process)
    assert process.returncode == 0
    assert "the disk was too slow for the recording, which ended" in " ".join(err.split())
    rep = report(path)
    assert rep["complete"]
    assert any("the disk was too slow" in n["text"] for n in rep["notes"])
    assert 1000000 < rep["totals"]["allocations"] < calls


def test_a_disk_that_is_slow_for_a_moment(compiled, stalled):
    """Nothing is lost, and nothing is said of it."""
    begin, read = stalled
    process = begin(compiled("longest_wait.c", flags=["-O2"]), "1")
    time.sleep(0.5)
    out, err, path = read(process)
    assert process.returncode == 0 and "too slow" not in err
    rep = report(path)
    assert rep["complete"] and rep["totals"]["allocations"] >= int(out.split()[1])
