#!/usr/bin/python3
"""What a pair of malloc and free costs under heft run --count, beside a bare passthrough hook and the program plain, and
what a call of heft.h costs without heft. Rounds are interleaved; the table has medians.

    bench_count.py [--heft build/heft] [--rounds 7]

The programs (attach_pairs.c, heft_calls.c) measure themselves, in processor time of their own thread.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import bench_attach
import bench_sampled

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PAIR_GOAL_NS, CALL_GOAL_NS = 8, 2


def build_calls(work):
    target = work / "heft_calls"
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", f"-I{ROOT}/include", HERE / "heft_calls.c", "-o", target],
                   check=True)
    return target


def measure(heft, rounds, work):
    pairs, calls, passthrough = bench_attach.build(work), build_calls(work), bench_sampled.build_passthrough(work)
    ways = {"plain": [pairs], "passthrough": ["/usr/bin/env", f"LD_PRELOAD={passthrough}", pairs],
            "count": [heft, "run", "-q", "--count", "--", pairs]}
    found = {way: [] for way in [*ways, "call"]}
    for _ in range(rounds):
        for way, argv in ways.items():
            program = bench_attach.Program(argv)
            found[way].append(program.measure())
            program.end()
        found["call"].append(float(subprocess.run([calls], check=True, capture_output=True).stdout))
    ns = {way: statistics.median(values) for way, values in found.items()}
    ns["dearer"] = statistics.median(c - p for c, p in zip(found["count"], found["passthrough"]))
    return ns


def text(ns):
    return (f"{'ns a pair':20} {'plain':>8} {'passthrough':>12} {'--count':>8}\n"
            f"{'malloc and free':20} {ns['plain']:8.1f} {ns['passthrough']:12.1f} {ns['count']:8.1f}\n"
            f"{'ns a call of heft.h without heft':40} {ns['call']:.2f}")


def goals(ns):
    return [(f"--count at most {PAIR_GOAL_NS} ns a pair over a passthrough hook", f"{ns['dearer']:.1f} ns",
             ns["dearer"] <= PAIR_GOAL_NS),
            (f"a call of heft.h without heft under {CALL_GOAL_NS} ns", f"{ns['call']:.2f} ns",
             ns["call"] < CALL_GOAL_NS)]


def result(heft, rounds, work):
    """A row of make bench."""
    return {"row": "count", "group": "count", "ns": measure(heft, rounds, work)}


def of(results):
    return next((found["ns"] for found in results if found["row"] == "count"), None)


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
