#!/usr/bin/python3
"""make bench: heft and heaptrack side by side, as ratios measured in one run.

    bench.py [--quick] [--repeat K] [--rows REGEX] [--list] [--show FILE] [--instructions]

Prints the tables that docs/benchmarks.md explains and writes every sample, with what is known about
the machine, to build/bench.json (no host name, no user). The exit status says whether the
measurement worked, not whether a goal was met: a slow machine is not an error.
"""
import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import bench_attach
import bench_count
import bench_ledger
import bench_measure
import bench_programs
import bench_sampled
import bench_symbols
import bench_tables

ROOT = Path(__file__).resolve().parents[2]


def memory_bytes():
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def machine():
    facts = {"cores": os.cpu_count(), "usable_cores": len(os.sched_getaffinity(0)),
             "kernel": platform.release(), "architecture": platform.machine(),
             "libc": " ".join(platform.libc_ver())}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            facts["cpu"] = line.split(":", 1)[1].strip()
            break
    facts["memory_bytes"] = memory_bytes()
    governor = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor.exists():
        facts["governor"] = governor.read_text().strip()
    facts["load_before"] = os.getloadavg()[0]
    return facts


def first_line(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return (done.stdout or done.stderr).split("\n")[0].strip()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeat", type=int, metavar="K", help="rounds of each row (default 5)")
    parser.add_argument("--quick", action="store_true", help="3 rounds of a quarter of the work")
    parser.add_argument("--rows", metavar="REGEX", help="only rows whose name matches")
    parser.add_argument("--variants", metavar="NAME,...",
                        help="only variants whose name starts with one of these (plain always)")
    parser.add_argument("--list", action="store_true", help="list the rows and their commands")
    parser.add_argument("--instructions", action="store_true",
                        help="instructions a pair by callgrind instead of times")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print the tables of a saved run")
    parser.add_argument("--heft", type=Path, default=ROOT / "build/heft")
    parser.add_argument("--without-heft", action="store_true", help="measure the peers alone")
    parser.add_argument("--work", type=Path, default=ROOT / "build/bench",
                        help="where inputs and recordings go (default build/bench)")
    parser.add_argument("--output", type=Path, default=ROOT / "build/bench.json")
    parser.add_argument("--cell-seconds", type=float, default=30,
                        help="stop repeating a variant of a row after this long (default 30)")
    parser.add_argument("--limit-seconds", type=int, default=180, help="kill one run after this")
    parser.add_argument("--limit-bytes", type=int, default=min(8 << 30, memory_bytes()),
                        help="address space of one process (default 8 GiB)")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every sample")
    return parser.parse_args()


def say_to_stderr(text):
    print(text, file=sys.stderr, flush=True)


def find_tools(options):
    heft = None if options.without_heft else str(options.heft.resolve())
    if heft and not os.access(heft, os.X_OK):
        say_to_stderr(f"bench: {options.heft} is not there; run make first (or --without-heft)")
        sys.exit(1)
    heaptrack = shutil.which("heaptrack")
    if not heaptrack:
        say_to_stderr("bench: heaptrack is not installed, its columns stay empty: "
                      "apt-get install heaptrack")
    return heft, heaptrack


def print_tables(results):
    for text in (bench_tables.main_table(results), bench_tables.micro_table(results),
                 bench_tables.scale_table(results), bench_tables.report_lines(results),
                 bench_symbols.lines(results), bench_sampled.text(results), bench_attach.table(results),
                 bench_ledger.table(results), bench_count.table(results)):
        if text:
            print(text, end="\n\n")
    goals = (bench_tables.goals(results) + bench_symbols.goals(results)
             + bench_sampled.goals(results) + bench_attach.judged(results) + bench_ledger.judged(results)
             + bench_count.judged(results))
    for text, value, met in goals:
        word = {True: "met", False: "MISSED", None: "not judged"}[met]
        print(f"{word:>10}  {text}: {value}")
    return goals


def main():
    options = arguments()
    if options.show:
        results = json.loads(options.show.read_text())["results"]
        print_tables([result for result in results
                      if not options.rows or re.search(options.rows, result["row"])])
        return 0
    options.work.mkdir(parents=True, exist_ok=True)
    launcher, micro = bench_programs.build_tools(options.work)
    rows, missing = bench_programs.all_rows(options.work, micro, options.quick)
    rows += bench_sampled.rows(options.work, micro, options.quick)
    if options.rows:
        rows = [row for row in rows if re.search(options.rows, row.name)]
    if options.list:
        for row in rows:
            print(f"{row.name:14} {row.group:7} {row.note and row.note + ' '}{' '.join(row.argv)}")
        return 0
    for name in missing:
        say_to_stderr(f"bench: {name} left out: its program is not installed")
    heft, heaptrack = find_tools(options)
    bench = bench_measure.Bench(options.work, launcher, heft, heaptrack, options.limit_seconds,
                                options.limit_bytes)
    repeat = options.repeat or (3 if options.quick else 5)
    say = say_to_stderr if options.verbose else lambda text: None
    only = ["plain", *options.variants.split(",")] if options.variants else None
    document = {"schema": 1, "machine": machine(), "repeat": repeat, "quick": options.quick,
                "versions": {"heft": first_line([heft, "--version"]) if heft else None,
                             "heaptrack": first_line(["heaptrack", "--version"])},
                "results": []}

    if options.instructions:
        kinds = [kind for kind in bench_programs.MICRO_WORK
                 if not options.rows or re.search(options.rows, kind)]
        counts = bench_measure.instructions(bench, micro, kinds, say_to_stderr)
        ways = ["plain", "heft", "library"]
        print(bench_tables.table(
            ["instructions per pair", *ways],
            [[kind, *(bench_tables.show(found.get(way), "{:.0f}") for way in ways)]
             for kind, found in counts.items()]))
        return 0

    load = document["machine"]["load_before"]
    if load > 0.3 * document["machine"]["usable_cores"]:
        say_to_stderr(f"bench: the load average is {load:.1f}: something else is running, "
                      "and the figures will show it")
    results = document["results"]
    if heft and re.search(options.rows or "", "attach"):
        results.append(bench_attach.result(Path(heft), 3 if options.quick else 7, options.work))
        say_to_stderr("bench: attach done")
    if heft and re.search(options.rows or "", "count"):
        results.append(bench_count.result(Path(heft), 3 if options.quick else 7, options.work))
        say_to_stderr("bench: count done")
    if heft and re.search(options.rows or "", "ledger"):
        results.append(bench_ledger.result(Path(heft), 3 if options.quick else 7, options.work))
        say_to_stderr("bench: ledger done")
    for row in rows:
        if row.group in ("report", "symbols"):
            if not heft:
                continue
            if row.group == "symbols" and not os.access(row.argv[0], os.X_OK):
                bench_symbols.build_large(options.work, int(row.env["UNITS"]))
            results.append(bench.measure_report(row, repeat, say) if row.group == "report" else
                           bench_symbols.measure_symbols(bench, row, repeat, say))
        elif row.group == "sampled":
            if not heft:
                continue
            results.append(bench_sampled.measure(bench, row, repeat, say))
        else:
            results.append(bench.measure(row, repeat, options.cell_seconds, only, say))
        say_to_stderr(f"bench: {row.name} done")
        # After every row, so that an interrupted run keeps what it measured.
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(document, indent=1) + "\n")
    goals = print_tables(results)
    document["machine"]["load_after"] = os.getloadavg()[0]
    document["goals"] = [{"goal": text.strip(), "measured": value, "met": met}
                         for text, value, met in goals]
    options.output.write_text(json.dumps(document, indent=1) + "\n")
    wrong = [*bench_tables.problems(results), *bench_sampled.problems(results)]
    for line in wrong:
        say_to_stderr(f"bench: {line}")
    # A peer that fails or runs out of time is a result; heft failing, or the plain command, is not.
    return 1 if any(re.match(r"\S+ (heft|plain|sampled|off)|\S+: ", line) for line in wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
