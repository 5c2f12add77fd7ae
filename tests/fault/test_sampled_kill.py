"""SIGKILL of a sampled program at random moments: the recording opens every time, and its estimates
agree with the books that the program keeps in a shared file (tests/programs/sampled_tally.c).

The live blocks of a place all have one size, so how many of them are samples is binomial, and from
an estimate that number can be had back (blocks x p). Each check asks how likely a deviation like the
one seen is, from the exact distribution and in place of a number of standard errors: a kill in the
first millisecond finds few samples, where a bell curve would promise too much.

How often a sound sampler fails here: 100 kills with 4 places are 400 checks. One beyond 6 standard
errors (2e-9 each) in one run of 1,250,000; more than 3 beyond 4 standard errors (6.3e-5 each, 0.025
expected) in one of 60 million; all of them together beyond 5 standard errors in one of 1,700,000,
which is why that one is not held to 4. The place whose blocks are 36 times the rate has no chance in
it: it is exact."""

import math
import random
import signal
import struct

import pytest

from harness import HEFT, children_of, kill_program, report, run, start, wait_until

RATE = 16 << 10
THREADS = 2
PLACES = [("keep_small", 200), ("keep_medium", 3000), ("keep_seed", 1000), ("keep_grown", 5000),
          ("keep_huge", 600000)]
FOUR, SIX = math.erfc(4 / 2 ** 0.5), math.erfc(6 / 2 ** 0.5)
BATCHES, KILLS = 10, 10


def read_books(path):
    data = path.read_bytes()
    pid, threads, ready, _ = struct.unpack_from("=4Q", data)
    live = []
    for place in range(len(PLACES)):
        low = high = 0
        for thread in range(threads):
            begun, done, gone_begun, gone_done = struct.unpack_from(
                "=4Q", data, 32 + (thread * len(PLACES) + place) * 32)
            low += done - gone_begun
            high += begun - gone_done
        live.append((low, high))
    return pid, ready, live


def chance_of(n, p, low, high):
    """The probability of low to high successes among n, by its sum."""
    total = 0.0
    for k in range(max(low, 0), min(high, n) + 1):
        total += math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
                          + k * math.log(p) + (n - k) * math.log1p(-p))
    return total


def likelihood(k, n, p):
    """Of a deviation from n p at least as far as k's, on its side; twice that, for both sides."""
    return min(1.0, 2 * (chance_of(n, p, k, n) if k > n * p else chance_of(n, p, 0, k)))


def check_against_books(rep, live):
    """Returns the checks made: (samples, live blocks, p, how likely)."""
    checks = []
    for (function, size), (low, high) in zip(PLACES, live):
        found = sum(s["live_blocks"] for s in rep.sites_calling(function))
        p = -math.expm1(-(size + 1) / RATE)
        samples = round(found * p)
        if p > 1 - 1e-9:
            # Also what is between the two tables when the kill comes: a block of each thread.
            assert low - THREADS <= found <= high + THREADS, (function, found, low, high)
            continue
        # The truth within its bounds that suits best, and a sample more or less for each thread
        # that was killed on its way into or out of the table.
        n = min(max(round(samples / p), low), high)
        gap = samples - n * p
        nearer = samples - round(math.copysign(min(abs(gap), THREADS), gap))
        checks.append((samples, n, p, likelihood(nearer, n, p)))
    return checks


def report_of(path, status=signal.SIGKILL):
    rep = report(path)
    assert rep["mode"] == "sample" and rep["rate_bytes"] == RATE
    assert (rep["end"], rep["signal"]) == ("signal", status)
    assert sum(s["live_bytes"] for s in rep["sites"]) == rep["totals"]["live_bytes"]
    return rep


def killed(program, path, books_file, seconds):
    heft = start([HEFT, "run", "-q", f"--sample={RATE}", "-o", path, "--", program, books_file,
                  str(THREADS), "0"])

    def pid_from_books():
        wait_until(lambda: books_file.exists() and books_file.stat().st_size > 0
                   and read_books(books_file)[1], what="start of the program")
        return read_books(books_file)[0]

    kill_program(heft, pid_from_books, seconds)
    return report_of(path)


class Kills:
    """Batches of kills, each done when somebody first asks for it."""

    def __init__(self, program, directory):
        self.program, self.directory, self.done = program, directory, {}

    def batch(self, number):
        """(samples, live blocks, p, likelihood) of every check, and the last recording."""
        if number not in self.done:
            self.done[number] = self.kill(number)
        return self.done[number]

    def kill(self, number):
        moments, checks = random.Random(number), []
        for i in range(KILLS):
            books_file = self.directory / f"books{number}.{i}"
            path = self.directory / f"killed{number}.{i}.heft"
            # From the first call on, and evenly on a logarithmic scale: a heap that has just begun to
            # grow is as likely as one that is full.
            rep = killed(self.program, path, books_file, 10 ** moments.uniform(-4, -1.1))
            checks.append(check_against_books(rep, read_books(books_file)[2]))
        return checks, path


@pytest.fixture(scope="module")
def kills(compiled, tmp_path_factory):
    return Kills(compiled("sampled_tally.c"), tmp_path_factory.mktemp("kills"))


@pytest.mark.parametrize("batch", range(BATCHES))
def test_program_killed_at_a_random_moment(kills, batch):
    checks, path = kills.batch(batch)
    assert len(checks) == KILLS
    for of_one in checks:
        assert len(of_one) == 4
        assert all(c[3] > SIX for c in of_one), of_one
    assert run([HEFT, "verify", path]).returncode == 0


def test_all_kills_together(kills):
    seen = [c for batch in range(BATCHES) for of_one in kills.batch(batch)[0] for c in of_one]
    assert len(seen) == BATCHES * KILLS * 4
    outside = [c for c in seen if c[3] < FOUR]
    assert len(outside) <= 3, outside
    deviation = sum(k - n * p for k, n, p, _ in seen)
    variance = sum(n * p * (1 - p) for _, n, p, _ in seen)
    assert variance > 10_000, "too few samples to say anything"
    assert abs(deviation) <= 5 * variance ** 0.5 + len(seen) * 0.05, (deviation, variance ** 0.5)


def test_a_whole_run(compiled, tmp_path):
    """The same check when nobody is killed, on four threads: begun equals done."""
    books_file, path = tmp_path / "books", tmp_path / "whole.heft"
    done = run([HEFT, "run", "-q", f"--sample={RATE}", "-o", path, "--", compiled("sampled_tally.c"),
                books_file, "4", "300000"])
    assert done.returncode == 0, done.stderr
    live = read_books(books_file)[2]
    assert all(low == high > 0 for low, high in live)
    rep = report(path)
    huge = rep.sites_calling("keep_huge")
    assert sum(s["live_blocks"] for s in huge) == live[4][0]
    assert all(c[3] > SIX for c in check_against_books(rep, live))


def test_killed_before_and_during_start(compiled, tmp_path):
    """There may be nothing in the recording, but it opens and heft ends."""
    moments = random.Random(99)
    for i in range(10):
        books_file, path = tmp_path / f"books{i}", tmp_path / f"early{i}.heft"
        heft = start([HEFT, "run", "-q", f"--sample={RATE}", "-o", path, "--",
                      compiled("sampled_tally.c"), books_file, str(THREADS), "0"])
        kill_program(heft, lambda: wait_until(lambda: children_of(heft.pid), what="the program's process")[0],
                     moments.uniform(0, 0.01))
        rep = report(path)
        assert rep["end"] == "signal"
        if books_file.exists() and books_file.stat().st_size > 0:
            assert all(c[3] > SIX for c in check_against_books(rep, read_books(books_file)[2]))
