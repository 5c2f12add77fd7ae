"""Scraping a profile from a server with 100,000 live samples (served.c): how long an answer takes,
alone and 20 at a time, and whether the server's own loop notices.

run() starts it under heft run --listen; scrape() takes a program that is already running and the
address of its profile. The scrapers are processes of their own with the lowest priority:
what they take of the machine is not what is measured, and on few cores the program must come first.
"""
import os
import signal
import statistics
import subprocess
import sys
import time

from bench_measure import key_values
from bench_programs import CFLAGS, HERE

BLOCKS = 115_700  # of 2 KiB, of which 1 - exp(-2) are sampled at 1 KiB: 100,000
PARALLEL = 20
SCRAPER = """
import sys, time, urllib.request
url, count, wait_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
for _ in range(count):
    began = time.monotonic()
    with urllib.request.urlopen(url, timeout=60) as answer:
        data = answer.read()
    print((time.monotonic() - began) * 1e3, answer.status, len(data), flush=True)
    time.sleep(wait_s)
"""


def build(work):
    target = work / "served"
    subprocess.run([os.environ.get("CC", "gcc"), *CFLAGS, "-fno-optimize-sibling-calls",
                    HERE / "served.c", "-o", target], check=True)
    return target


def scrapers(url, processes, count, wait_s):
    return [subprocess.Popen(["nice", "-n", "19", sys.executable, "-c", SCRAPER, url, str(count),
                              str(wait_s)], stdout=subprocess.PIPE, text=True)
            for _ in range(processes)]


def answers(running):
    """[{ms, status, bytes}] of all scrapers, when they have ended."""
    found = []
    for process in running:
        out, _ = process.communicate(timeout=300)
        for line in out.splitlines():
            ms, status, size = line.split()
            found.append({"ms": float(ms), "status": int(status), "bytes": int(size)})
    return found


def figures(program, pid):
    """What the program's loop has to say about the time since it was last asked."""
    os.kill(pid, signal.SIGUSR1)
    return {key: int(value) for key, value in key_values(program.stdout.readline()).items()}


def run(bench, quick):
    """The row: served under heft run --sample=1k --listen."""
    program = build(bench.work)
    quiet_s = 2 if quick else 5
    process = subprocess.Popen(
        [bench.heft, "run", "--force", "--sample=1k", "--listen=127.0.0.1:0", "-o",
         str(bench.recording), "--", str(program), str(BLOCKS), "120"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = next(line for line in process.stderr if "serving" in line).split()[-1]
        out = scrape(url + "heap", process, quiet_s)
        os.kill(out["pid"], signal.SIGTERM)
        process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return out


def scrape(url, program, quiet_s=5, count=5, wait_s=0.8):
    """program: a Popen of served (or of what runs it) with text stdout, not yet read from."""
    ready = key_values(program.stdout.readline().removeprefix("ready "))
    pid = int(ready["pid"])
    out = {"blocks": int(ready["blocks"]), "pid": pid}
    alone = answers(scrapers(url, 1, count, 0))
    figures(program, pid)
    time.sleep(quiet_s)
    out["quiet"] = figures(program, pid)
    together = answers(scrapers(url, PARALLEL, count, wait_s))
    out["scraped"] = figures(program, pid)
    time.sleep(quiet_s)
    out["quiet_again"] = figures(program, pid)  # quiet against quiet: the noise
    out["alone"], out["together"] = alone, together
    return out


def line(result):
    def times(found):
        ms = sorted(a["ms"] for a in found)
        return f"{statistics.median(ms):.0f} ms, slowest {ms[-1]:.0f} ms"

    loop = ", ".join(f"{name.replace('_', ' ')} {result[name]['p50_ns'] / 1e3:.1f} / "
                     f"{result[name]['p99_ns'] / 1e3:.1f} / {result[name]['max_ns'] / 1e3:.0f}"
                     for name in ("quiet", "scraped", "quiet_again"))
    return (f"{result['row']}: {result['blocks']} blocks, profile of {result['alone'][0]['bytes']} bytes\n"
            f"  an answer alone {times(result['alone'])}; {PARALLEL} at a time {times(result['together'])}\n"
            f"  the program's loop, us (median / p99 / most): {loop}")


def goals(result):
    """(text, measured, met) of the row."""
    failed = [a for a in result["alone"] + result["together"] if a["status"] != 200]
    alone = statistics.median(a["ms"] for a in result["alone"])
    most = max(a["ms"] for a in result["together"])
    quiet = max(result["quiet"]["p99_ns"], result["quiet_again"]["p99_ns"])
    scraped = result["scraped"]["p99_ns"]
    return [("profile of 100,000 live samples: an answer in under 100 ms", f"{alone:.0f} ms",
             not failed and alone < 100),
            (f"  {PARALLEL} at a time: all answered", f"{len(failed)} failed, slowest {most:.0f} ms",
             not failed),
            ("  p99 of the program's own loop unchanged (+10 %, the noise of quiet against quiet)",
             f"{scraped / 1e3:.1f} us, quiet {result['quiet']['p99_ns'] / 1e3:.1f} and "
             f"{result['quiet_again']['p99_ns'] / 1e3:.1f} us", scraped <= 1.1 * quiet)]
