"""A recording cut at every block boundary and at random bytes opens up to its last complete
block; one with flipped bits opens or is refused in words. Never a crash.

Boundaries are found from the format alone (docs/trace-format.md): a file header of 32 bytes,
then blocks of 48 bytes of header ("HBLK", the stored length at 12) and their payload."""

import json
import random
import struct

import pytest

from harness import HEFT, check_sums, end_group, report, run, start

EVENTS, META = 3, 1


def blocks_of(data):
    """[(offset, end, type)] of all blocks, checked to fill the file."""
    found, at = [], 32
    while at < len(data):
        magic, kind = struct.unpack_from("<4sB", data, at)
        assert magic == b"HBLK", f"no block at {at}"
        (stored,) = struct.unpack_from("<I", data, at + 12)
        found.append((at, at + 48 + stored, kind))
        at += 48 + stored
    assert at == len(data)
    return found


@pytest.fixture(scope="session")
def recording(compiled, tmp_path_factory):
    """Long enough for several rounds of writing: about a second and a half."""
    directory = tmp_path_factory.mktemp("damaged")
    path = directory / "whole.heft"
    done = run([HEFT, "run", "-q", "-o", path, "--", compiled("churn.c"), "600000",
                directory / "progress", "2000", "4"])
    assert done.returncode == 21
    return path, path.read_bytes(), report(path)


def open_damaged(data, tmp_path, what):
    """The report of these bytes, or None if they were refused properly."""
    path = tmp_path / "damaged.heft"
    path.write_bytes(data)
    done = run([HEFT, "report", "--json", path])
    assert done.returncode in (0, 1), f"{what}: status {done.returncode}\n{done.stderr[-500:]}"
    if done.returncode == 1:
        assert str(path).encode() in done.stderr, f"{what}: the file is not named: {done.stderr}"
        assert done.stdout == b""
        return None
    rep = json.loads(done.stdout)
    check_sums(rep)
    return rep


def test_the_whole_recording_has_what_it_takes(recording):
    """This file's other tests mean something: several blocks of events, with a checkpoint."""
    _, data, rep = recording
    kinds = [kind for _, _, kind in blocks_of(data)]
    assert kinds[0] == META and kinds.count(EVENTS) >= 2
    assert rep["totals"]["allocations"] > 250_000
    assert rep["totals"]["dropped"] == 0


def test_cut_at_every_block_boundary(recording, tmp_path):
    _, data, whole = recording
    before = 0
    for offset, end, kind in blocks_of(data):
        for cut in (offset + 20, end - 1, end):
            rep = open_damaged(data[:cut], tmp_path, f"cut at {cut}")
            if kind == META and cut < end:
                assert rep is None
                continue
            assert rep is not None, f"cut at {cut} of {len(data)}: refused"
            now = rep["totals"]["allocations"]
            if cut < end:
                assert now == before, f"cut at {cut}: an incomplete block changed the numbers"
            assert before <= now <= whole["totals"]["allocations"]
            if cut == end:
                if kind == EVENTS:
                    assert now + rep["totals"]["frees"] > before, f"block at {offset} adds nothing"
                before = now
            assert rep["command"] == whole["command"]
    assert before == whole["totals"]["allocations"]


def test_cut_at_200_random_bytes(recording, tmp_path):
    _, data, whole = recording
    chance = random.Random(7)
    first_end = blocks_of(data)[0][1]
    last = 0
    for cut in sorted(chance.randrange(len(data)) for _ in range(200)):
        rep = open_damaged(data[:cut], tmp_path, f"cut at {cut}")
        if cut < first_end:
            assert rep is None
        else:
            assert rep is not None, f"cut at {cut} of {len(data)}: refused"
            assert last <= rep["totals"]["allocations"] <= whole["totals"]["allocations"]
            last = rep["totals"]["allocations"]


@pytest.mark.parametrize("length", [0, 1, 7, 8, 31, 32, 33, 79])
def test_hardly_anything_left(recording, tmp_path, length):
    _, data, _ = recording
    assert open_damaged(data[:length], tmp_path, f"{length} bytes") is None


def test_flipped_bits(recording, tmp_path):
    """Anywhere in the file, and more often in headers, where lengths and counts are."""
    _, data, whole = recording
    chance = random.Random(8)
    blocks = blocks_of(data)
    for i in range(120):
        if i % 2:
            at = chance.randrange(len(data))
        else:
            at = chance.choice(blocks)[0] + chance.randrange(48)
        damaged = bytearray(data)
        damaged[at] ^= 1 << chance.randrange(8)
        path = tmp_path / "flipped.heft"
        path.write_bytes(damaged)
        rep = open_damaged(bytes(damaged), tmp_path, f"bit flipped at {at}")
        if rep is not None:
            assert rep["totals"]["allocations"] <= whole["totals"]["allocations"]
        verify = run([HEFT, "verify", path])
        # A length that leads behind the end of the file looks like that of a block that is still being written.
        is_cut = b"then cut off" in verify.stdout and any(offset <= at < offset + 48 for offset, _, _ in blocks)
        assert verify.returncode == 1 or is_cut, f"verify does not notice the flipped bit at {at}"


@pytest.mark.parametrize("what", ["text", "zeros", "random", "elf", "directory", "missing"])
def test_something_else_altogether(tmp_path, what):
    path = tmp_path / "other.heft"
    if what == "directory":
        path.mkdir()
    elif what != "missing":
        path.write_bytes({"text": b"hello\n" * 100, "zeros": bytes(5000),
                          "random": random.Random(1).randbytes(5000),
                          "elf": open("/bin/true", "rb").read()}[what])
    for verb in ("report", "verify"):
        done = run([HEFT, verb, path])
        assert done.returncode == 1, (verb, done.returncode, done.stderr)
        assert b"other.heft" in done.stderr and done.stdout == b""


def test_while_it_is_being_written(compiled, tmp_path):
    """A recording is readable at any moment: read it again and again during the run, for six seconds at least."""
    path = tmp_path / "growing.heft"
    heft = start([HEFT, "run", "-q", "-o", path, "--", compiled("churn.c"), "600000",
                  tmp_path / "progress", "10000", "4"])
    seen = []
    try:
        while heft.poll() is None:
            if path.exists() and path.stat().st_size > 0:
                done = run([HEFT, "report", "--json", path])
                if not seen and done.returncode == 1:  # not even its first block is there
                    assert b"expected a complete" in done.stderr, done.stderr
                    continue
                assert done.returncode == 0, done.stderr
                rep = json.loads(done.stdout)
                check_sums(rep)
                seen.append((rep["end"], rep["totals"]["allocations"]))
    finally:
        heft.communicate(timeout=60)
        end_group(heft)
    assert heft.returncode == 21
    counts = [n for end, n in seen if end == "running"]
    assert len(counts) >= 2 and counts == sorted(counts)
    assert len(set(counts)) >= 2, f"nothing appeared while it was running: {seen}"
