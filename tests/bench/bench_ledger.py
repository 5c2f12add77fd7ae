#!/usr/bin/python3
"""How long a program with 1 GiB in memory stands still while heft map reads its pages, and when it exits; what the ledgers that heft run
takes by default add to a run (with and without them in turn, the median of pairs); and what it costs to look at a heap of
1 GiB in blocks that take 128 bytes each (heft run --leaks): reachability, equal blocks and fragmentation together. "took" is the
look itself, by the clock; "CPU" is all that --leaks adds to the run.

    bench_ledger.py [--heft build/heft] [--rounds 7]
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WAYS = {"small": "small pages", "sparse": "every second page", "huge": "huge pages, where the kernel gives them",
        "blocks": "at exit, 8.4 million recorded blocks"}
GOAL_MS = 50
# Some seconds with many blocks, a peak and an exit; and some milliseconds, where only what is fixed counts
RUNS = {
    "python, seconds": ["python3", "-c", "for i in range(60): x = [str(k) for k in range(400000)]"],
    "python, short": ["python3", "-S", "-c", "pass"],
    "true": ["true"],
}
GOAL_SHARE = 0.01
HEAPS = {"apart": "blocks that lead nowhere", "linked": "blocks with two random pointers"}
LOOK_ROUNDS = 3
GOAL_LOOK_S = 2


def pauses(heft, program, rounds):
    """Milliseconds, and how many bytes were resident."""
    process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        if process.stdout.readline() != b"ready\n":
            raise SystemExit("bench: 1 GiB cannot be had")
        taken = [json.loads(subprocess.run([heft, "map", "--json", str(process.pid)], check=True,
                                           capture_output=True).stdout)["ledgers"][0] for _ in range(rounds)]
    finally:
        process.kill()
        process.communicate()
    return [ledger["pause_ns"] / 1e6 for ledger in taken], taken[-1]["rss_bytes"]


def exits(heft, rounds, work):
    """Milliseconds for which a program with 8.4 million recorded blocks stands still when it exits, and how many bytes were resident."""
    program, recording = work / "gib_of_blocks", work / "exit.heft"
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", HERE / "gib_of_blocks.c", "-o", program], check=True)
    ms = []
    for _ in range(rounds):
        subprocess.run([heft, "run", "-q", "--force", "-o", recording, "--", program, "apart"], check=True)
        last = json.loads(subprocess.run([heft, "map", "--json", recording], check=True, capture_output=True).stdout)["ledgers"][-1]
        if last["moment"] != "exit":
            raise SystemExit("bench: no ledger at exit")
        ms.append(last["pause_ns"] / 1e6)
    return ms, last["rss_bytes"]


def measure(heft, rounds, work):
    program = work / "gib_of_pages"
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", HERE / "gib_of_pages.c", "-o", program], check=True)
    found = {}
    for way in WAYS:
        ms, resident = exits(heft, rounds, work) if way == "blocks" else pauses(heft, [program, way], rounds)
        found[way] = {"median_ms": statistics.median(ms), "max_ms": max(ms), "resident_bytes": resident}
    return found


def run_ms(heft, work, options, command):
    began = time.perf_counter()
    subprocess.run([heft, "run", "-q", *options, "--force", "-o", work / "run.heft", "--", *command], check=True,
                   stdout=subprocess.DEVNULL)
    return (time.perf_counter() - began) * 1e3


def runs(heft, rounds, work):
    found = {}
    for name, command in RUNS.items():
        pairs = [(run_ms(heft, work, ["--no-ledger"], command), run_ms(heft, work, [], command)) for _ in range(rounds)]
        found[name] = {"without_ms": statistics.median(a for a, _ in pairs), "with_ms": statistics.median(b for _, b in pairs),
                       "ratio": statistics.median(b / a for a, b in pairs)}
    return found


def text_of_runs(found):
    lines = [f"{'heft run':42} {'--no-ledger':>12} {'by default':>12} {'ratio':>8}"]
    for name, f in found.items():
        lines.append(f"{name:42} {f['without_ms']:9.1f} ms {f['with_ms']:9.1f} ms {f['ratio']:8.3f}")
    return "\n".join(lines)


def goals_of_runs(found):
    ratio = found["python, seconds"]["ratio"]
    return [(f"ledgers near the peak and at exit cost less than {GOAL_SHARE:.0%} of seconds", f"{ratio - 1:.1%}",
             ratio < 1 + GOAL_SHARE)]


def cpu_seconds(command):
    """Of heft and of the program."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"bench: {command} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def measure_looks(heft, work):
    """What --leaks adds to a run, and how long the look itself takes. The program is the same in both runs."""
    program, recording = work / "gib_of_blocks", work / "blocks.heft"
    subprocess.run([os.environ.get("CC", "gcc"), "-O2", HERE / "gib_of_blocks.c", "-o", program], check=True)
    found = {}
    for how in HEAPS:
        added, took = [], []
        for _ in range(LOOK_ROUNDS):
            run = [heft, "run", "--no-ledger", "-q", "--force", "-o", recording]
            plain = cpu_seconds([*run, "--", program, how])
            added.append(cpu_seconds([*run, "--leaks", "--", program, how]) - plain)
            rep = json.loads(subprocess.run([heft, "report", "--json", "-n", "1", recording], check=True,
                                            capture_output=True).stdout)
            took.append(rep["heap"]["took_ns"] / 1e9)
        found[how] = {"cpu_s": statistics.median(added), "took_s": statistics.median(took)}
    return found


def looks_text(found):
    lines = [f"{'look at a heap of 1 GiB, 8.4 million blocks':42} {'CPU':>9} {'took':>8}  s"]
    lines += [f"{words:42} {found[how]['cpu_s']:9.2f} {found[how]['took_s']:8.2f}" for how, words in HEAPS.items()]
    return "\n".join(lines)


def look_goals(found):
    took = found["apart"]["took_s"]
    return [(f"a look at 1 GiB in blocks of 128 bytes takes less than {GOAL_LOOK_S} s", f"{took:.2f} s",
             took < GOAL_LOOK_S)]


def text(found):
    lines = [f"{'pause of a ledger, 1 GiB mapped':42} {'resident':>9} {'median':>8} {'longest':>8}  ms"]
    for way, words in WAYS.items():
        f = found[way]
        lines.append(f"{words:42} {f['resident_bytes'] / 2**30:5.2f} GiB {f['median_ms']:8.1f} {f['max_ms']:8.1f}")
    return "\n".join(lines)


def goals(found):
    worst = max(f["median_ms"] for f in found.values())
    return [(f"a ledger of 1 GiB stops the program for less than {GOAL_MS} ms", f"{worst:.1f} ms", worst < GOAL_MS)]


def result(heft, rounds, work):
    """A row of make bench."""
    return {"row": "ledger", "group": "ledger", "pauses": measure(heft, rounds, work), "runs": runs(heft, rounds, work),
            "looks": measure_looks(heft, work)}


def of(results):
    return next((found for found in results if found["row"] == "ledger"), None)


def table(results):
    found = of(results)
    return "\n\n".join((text(found["pauses"]), text_of_runs(found["runs"]), looks_text(found["looks"]))) if found else ""


def judged(results):
    found = of(results)
    return goals(found["pauses"]) + goals_of_runs(found["runs"]) + look_goals(found["looks"]) if found else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heft", type=Path, default=ROOT / "build" / "heft")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        found = result(options.heft, options.rounds, Path(work))
    print(table([found]))
    return 0 if all(goal[2] for goal in judged([found])) else 1


if __name__ == "__main__":
    sys.exit(main())
