#!/usr/bin/python3
"""Reading other tools' files, side by side in one run: a heaptrack file against heaptrack_print, and a
jemalloc dump of many stacks.

    bench_import.py [--allocations N] [--stacks N] [--repeat N] [--work DIR]

Prints a table of seconds (best of the repeats; wall and processor) and the ratio; makes its own files:
heaptrack's with the lines that a program of N allocations at 512 places leaves, zstd-packed."""

import argparse
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEFT = ROOT / "build" / "heft"


def write_heaptrack(path, allocations):
    """Random sizes and places; 4096 blocks live at a time, the oldest of a slot freed for the new."""
    packer = subprocess.Popen(["zstd", "-q", "-3", "-f", "-o", path], stdin=subprocess.PIPE)
    out = packer.stdin
    rng = random.Random(1)
    out.write(b"v 10400 3\nX ./prog\nI 1000 100000\ns 5 /prog\ns 4 main\ns 3 a.c\n")
    for i in range(512):
        name = f"place_{i}"
        out.write(f"s {len(name):x} {name}\n".encode())
    out.write(b"i 1000 1 2 3 a\nt 1 0\n")
    for i in range(512):
        out.write(f"i {0x2000 + i:x} 1 {4 + i:x} 3 {i + 1:x}\nt {2 + i:x} 1\n".encode())
    infos = [(size, place) for place in range(512) for size in (16, 32, 48, 64, 128, 256, 1024)]
    for size, place in infos:
        out.write(f"a {size:x} {2 + place:x}\n".encode())
    made = [b"+ %x\n" % i for i in range(len(infos))]
    gone = [b"- %x\n" % i for i in range(len(infos))]
    slots = [None] * 4096
    done = 0
    while done < allocations:
        lines = []
        for _ in range(min(200000, allocations - done)):
            r = rng.getrandbits(32)
            slot, info = r & 4095, (r >> 12) % len(infos)
            if slots[slot] is not None:
                lines.append(gone[slots[slot]])
            lines.append(made[info])
            slots[slot] = info
            done += 1
        lines.append(b"c %x\n" % (done // 2000))
        out.write(b"".join(lines))
    out.close()
    packer.wait()


def write_jemalloc(path, stacks):
    """20 frames each of 20,000 places in a library that is not there."""
    rng = random.Random(1)
    places = [0x7f1234560000 + rng.randrange(0x400000) for _ in range(20000)]
    with open(path, "w") as out:
        out.write("heap_v2/524288\n  t*: 1: 1 [0: 0]\n")
        for i in range(stacks):
            stack = rng.choices(places, k=4)
            for k in range(16):
                stack.append(places[i % 7 * 100 + k])
                i //= 7
            out.write("@ " + " ".join(f"{a:#x}" for a in stack))
            out.write("\n  t*: 3: 9000 [0: 0]\n  t0: 3: 9000 [0: 0]\n")
        out.write("\nMAPPED_LIBRARIES:\n7f1234560000-7f1234a60000 r-xp 00000000 fe:00 1 /no/such/file\n")


def timed(command):
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.monotonic() - start,
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allocations", type=int, default=30_000_000)
    parser.add_argument("--stacks", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build" / "bench")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    heaptrack, jemalloc = options.work / "import.heaptrack.zst", options.work / "import.heap"
    write_heaptrack(heaptrack, options.allocations)
    write_jemalloc(jemalloc, options.stacks)
    rows = [(f"heaptrack file, {options.allocations:,} allocations", [HEFT, "report", heaptrack],
             ["heaptrack_print", heaptrack] if shutil.which("heaptrack_print") else None),
            (f"jemalloc dump, {options.stacks:,} stacks, to pprof",
             [HEFT, "export", "--force", "-f", "pprof", "-o", options.work / "import.pb.gz", jemalloc],
             None)]
    for name, ours, theirs in rows:
        best = [[], []]
        for _ in range(options.repeat):
            for i, command in enumerate((ours, theirs)):
                if command:
                    best[i].append(timed(command))
        wall, cpu = (min(t[k] for t in best[0]) for k in (0, 1))
        line = f"{name}: heft {wall:.2f} s ({cpu:.2f} s of processor)"
        if best[1]:
            wall2, cpu2 = (min(t[k] for t in best[1]) for k in (0, 1))
            line += (f", heaptrack_print {wall2:.2f} s ({cpu2:.2f} s): "
                     f"{wall2 / wall:.1f} times faster, {cpu2 / cpu:.1f} by processor time")
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
