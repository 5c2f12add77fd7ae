#!/usr/bin/python3
"""Attaches heft to every program of tests/programs/attach_rounds.py many times, on an idle machine and on a loaded
one, kills heft at random moments, and attaches again and again without a pause. Prints for how long the programs
stood still, and what failed. Takes hours; the tests have a few rounds of each.

    attach_campaign.py [--rounds N] [--kills N] [--again N] [--load N,...] [--only KIND,...] [--seed N]

A program that fails is started anew and the campaign goes on. The exit status is 0 only if nothing failed."""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))

from attach_rounds import (KINDS, MISSING, Wrong, attach_again, check_after_kill, kill_guardian_round,  # noqa: E402
                           kill_round, make_life, play_round, time_of_round)
from harness import Compiler, children_of, end_group  # noqa: E402

BURNER = "while :; do :; done"
KILLED = ["throws", "family", "threads", "blocked", "python"]
FAULTS = (Wrong, OSError, subprocess.SubprocessError, AssertionError)
HOPELESS = 5  # failures in a row
AGAIN = ["blocked", "throws", "late-family"]


def reap_guardians():
    """We are who inherits heft's guardians; thousands of their zombies would fill the table of processes."""
    for pid in children_of(os.getpid()):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == "heft-guardian\n":
                os.waitpid(pid, os.WNOHANG)
        except OSError:
            pass


class Campaign:
    def __init__(self, folder, chance):
        self.folder, self.chance = folder, chance
        self.compiled = Compiler(folder)
        self.failures = []

    def failed(self, what, error):
        self.failures.append((what, error))
        print(f"FAILED {what}: {error}", flush=True)

    def repeat(self, what, kind, times, work):
        """Calls work(life, i) so many times; a failure costs the program its life. Returns what work returned."""
        results, life, in_a_row = [], None, 0
        try:
            for i in range(times):
                if in_a_row == HOPELESS:
                    print(f"{kind}: {in_a_row} failures in a row, no more of it")
                    break
                in_a_row += 1
                reap_guardians()
                try:
                    life = life or make_life(kind, self.compiled, self.folder)
                    results.append(work(life, i))
                    in_a_row = 0
                except FAULTS as error:
                    self.failed(f"{what}, {kind}, {i}", error)
                    if life:
                        life.stop()
                    life = None
            try:
                if life:
                    life.end()
            except FAULTS as error:
                self.failed(f"{what}, {kind}, at its end", error)
        finally:
            if life:
                life.stop()
        return results


def pauses_in_words(pauses):
    """Median, 99 % and maximum, in ms."""
    if not pauses:
        return f"{'-':>8} {'-':>8} {'-':>8}"
    pauses = sorted(pauses)
    return " ".join(f"{pauses[min(len(pauses) - 1, int(len(pauses) * part))]:8.2f}" for part in (0.5, 0.99, 1))


HEAD = f"{'program':<15} {'done':>5} {'refused':>8} {'left':>5}  {'attach: median, 99 %, max':>26}  " \
       f"{'detach: median, 99 %, max':>26}  {'seconds':>8}"


def play_rounds(campaign, load, kinds, rounds):
    print(f"\n{rounds} rounds of each, {load} busy processes beside it; pauses in ms\n{HEAD}", flush=True)
    for kind in kinds:
        if MISSING.get(kind):
            print(f"{kind:<15} skipped: {MISSING[kind]}")
            continue
        begun = time.monotonic()
        try:
            done = campaign.repeat(f"rounds at load {load}", kind, rounds, play_round)
        except pytest.skip.Exception as why:  # it cannot be built here
            print(f"{kind:<15} skipped: {why}")
            continue
        attached = [r for r in done if not r.refused and r.attach_ms is not None]
        print(f"{kind:<15} {len(done):5} {sum(r.refused for r in done):8} {sum(bool(r.left) for r in done):5}  "
              f"{pauses_in_words([r.attach_ms for r in attached])}  "
              f"{pauses_in_words([r.detach_ms for r in attached])}  {time.monotonic() - begun:8.0f}", flush=True)


def play_kills(campaign, kinds, kills):
    """Half of the kills while it attaches, half while it leaves."""
    spans = {}

    def work(life, i):
        if life not in spans:
            spans[life] = time_of_round(life)
        leaving = i % 2 == 1
        was_under_way = kill_round(life, campaign.chance.random() * spans[life][leaving] * 1.3, leaving)
        check_after_kill(life)
        if i % 10 == 9:
            play_round(life, i)
        return was_under_way is not None

    print(f"\nheft killed, {kills} times in all", flush=True)
    for kind in kinds:
        done = campaign.repeat("kills", kind, kills // len(kinds), work)
        print(f"{kind:<15} {len(done):5} survived; {sum(done)} while heft was under way", flush=True)


def play_guardian_kills(campaign, kinds, kills):
    """The guardian, which nothing but somebody's SIGKILL ends. Most of the moments are while it attaches."""

    def work(life, i):
        return kill_guardian_round(life, campaign.chance.random() * 0.01)

    print(f"\nthe guardian killed, {kills} times in all", flush=True)
    for kind in kinds:
        done = campaign.repeat("guardian killed", kind, kills // len(kinds), work)
        print(f"{kind:<15} {len(done):5} survived; {sum(done)} while the guardian was there", flush=True)


def play_again(campaign, kinds, times):
    print(f"\n{times} recordings one after the other; pauses in ms: median, 99 %, max", flush=True)
    for kind in kinds:
        pauses = []
        campaign.repeat("again", kind, 1, lambda life, i: pauses.extend(attach_again(life, times)))
        print(f"{kind:<15} {len(pauses) // 2:5}  {pauses_in_words(pauses)}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--again", type=int, default=1000)
    parser.add_argument("--load", default="0,40")
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given = parser.parse_args()
    kinds = given.only.split(",")
    unknown = set(kinds) - set(KINDS)
    if unknown:
        parser.error(f"no such programs: {', '.join(sorted(unknown))}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="heft-campaign-"))
    folder.chmod(0o755)
    print(f"seed {given.seed}")
    campaign = Campaign(folder, random.Random(given.seed))
    try:
        for load in map(int, given.load.split(",")) if given.rounds else ():
            burners = [subprocess.Popen(["/bin/sh", "-c", BURNER], start_new_session=True) for _ in range(load)]
            try:
                play_rounds(campaign, load, kinds, given.rounds)
            finally:
                for burner in burners:
                    end_group(burner)
                    burner.wait()
        if given.kills:
            play_kills(campaign, [k for k in KILLED if k in kinds], given.kills)
            # Without its guardian, calls that wait may say EINTR (docs/attach.md): that is what "blocked" looks for.
            play_guardian_kills(campaign, [k for k in KILLED if k in kinds and k != "blocked"], given.kills // 5)
        if given.again:
            play_again(campaign, [k for k in AGAIN if k in kinds], given.again)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{len(campaign.failures)} failures")
    for what, error in campaign.failures:
        print(f"  {what}: {error}")
    return bool(campaign.failures)


if __name__ == "__main__":
    sys.exit(main())
