#!/usr/bin/python3
"""What a pair of malloc and free costs in a program that heft is attached to, beside the same program plain, under
heft run, and after heft has left it. Rounds are interleaved; the table has medians.

    bench_attach.py [--heft build/heft] [--rounds 7]

The program (attach_pairs.c) measures itself on request, in processor time of its own thread.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WAYS = ("plain", "run", "attached", "after", "run, sampled", "attached, sampled")
GOAL_NS = 8


def build(work):
    target = work / "attach_pairs"
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-g", HERE / "attach_pairs.c", "-o", target], check=True)
    return target


class Program:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL)
        self.measure()  # the first time warms up

    def measure(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Attached:
    """heft attach, from the moment it records until it has left."""

    def __init__(self, heft, pid, work, *options):
        self.process = subprocess.Popen([heft, "attach", *options, "--force", "-o", work / "attached.heft", str(pid)],
                                        stderr=subprocess.PIPE, text=True)
        self.said = ""
        while "recording" not in self.said:
            line = self.process.stderr.readline()
            if not line:
                raise SystemExit(f"bench: heft attach failed: {self.said}")
            self.said += line

    def end(self):
        self.process.terminate()
        self.process.communicate(timeout=60)
        if self.process.returncode:
            raise SystemExit(f"bench: heft attach ended with {self.process.returncode}")


def one_round(heft, program, work, found):
    plain = Program([program])
    found["plain"].append(plain.measure())
    for way, options in (("attached", ()), ("attached, sampled", ("--sample",))):
        attached = Attached(heft, plain.process.pid, work, *options)
        plain.measure()
        found[way].append(plain.measure())
        attached.end()
    found["after"].append(plain.measure())
    plain.end()
    for way, options in (("run", ()), ("run, sampled", ("--sample",))):
        run = Program([heft, "run", "-q", *options, "--force", "-o", work / "run.heft", "--", program])
        found[way].append(run.measure())
        run.end()


def measure(heft, rounds, work):
    found = {way: [] for way in WAYS}
    program = build(work)
    for _ in range(rounds):
        one_round(heft, program, work, found)
        time.sleep(0.05)
    return {way: statistics.median(values) for way, values in found.items()}


def text(ns):
    lines = [f"{'ns a pair':20} {'plain':>8} {'heft run':>9} {'attached':>9} {'after':>8}"]
    lines.append(f"{'every allocation':20} {ns['plain']:8.1f} {ns['run']:9.1f} {ns['attached']:9.1f} {ns['after']:8.1f}")
    lines.append(f"{'sampled':20} {ns['plain']:8.1f} {ns['run, sampled']:9.1f} {ns['attached, sampled']:9.1f}")
    return "\n".join(lines)


def goals(ns):
    dearer = max(ns["attached"] - ns["run"], ns["attached, sampled"] - ns["run, sampled"])
    return [(f"attached at most {GOAL_NS} ns a pair dearer than heft run", f"{dearer:.1f} ns", dearer <= GOAL_NS),
            ("after heft has left, no dearer than plain (5 % are noise)", f"{ns['after'] / ns['plain']:.3f}",
             ns["after"] <= ns["plain"] * 1.05)]


def result(heft, rounds, work):
    """A row of make bench."""
    return {"row": "attach", "group": "attach", "ns": measure(heft, rounds, work)}


def of(results):
    return next((found["ns"] for found in results if found["row"] == "attach"), None)


def table(results):
    return text(of(results)) if of(results) else ""


def judged(results):
    return goals(of(results)) if of(results) else []


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--heft", type=Path, default=ROOT / "build/heft")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        ns = measure(options.heft.resolve(), options.rounds, Path(work))
    print(text(ns))
    for words, value, met in goals(ns):
        print(f"{'met' if met else 'MISSED':>10}  {words}: {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
