"""Scraping one of many: what a profile of one process costs an agent that has 1, 10 or 100 sampled
idle processes (scraped.c), and what /metrics, which is about all of them, costs for each.

The figure is the agent's own processor time, of all its threads, less what it needs in the same time
when nobody asks: other work on the machine does not count, and neither does the scraper.
"""
import os
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from bench_programs import CFLAGS, HERE

PROCESSES = [1, 10, 100]
BLOCKS = 2000  # of 4 KiB, sampled at 4 KiB: 1 - 1/e of them, 1,264
RATE = "4k"
ROUNDS, SCRAPES = 5, 20


def build(work):
    target = work / "scraped"
    subprocess.run([os.environ.get("CC", "gcc"), *CFLAGS, HERE / "scraped.c", "-o", target], check=True)
    return target


def get(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def cpu_ns(agent):
    """Of the supervisor, its server and its workers."""
    pids = [agent, *Path(f"/proc/{agent}/task/{agent}/children").read_text().split()]
    return sum(int(task.read_text().split()[0]) for pid in pids
               for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def cost_ms(agent, urls):
    """Processor time of the agent for one answer, less what it takes anyhow."""
    began, cpu = time.monotonic(), cpu_ns(agent)
    for url in urls:
        get(url)
    seconds, busy = time.monotonic() - began, cpu_ns(agent) - cpu
    cpu = cpu_ns(agent)
    time.sleep(seconds)
    return (busy - (cpu_ns(agent) - cpu)) / len(urls) / 1e6


def wait_until_found(url, count):
    for _ in range(600):
        if get(url + "metrics").count(b"heft_process_running{") == count:
            return
        time.sleep(0.1)
    raise RuntimeError(f"the agent has not found {count} processes")


def start_programs(bench, program, directory, count):
    library = Path(bench.heft).parent / "libheft-preload.so"
    started = [subprocess.Popen([program, str(BLOCKS)], stdout=subprocess.PIPE,
                                env={"LD_PRELOAD": str(library), "HEFT_DIR": directory,
                                     "HEFT_SAMPLE": RATE}) for _ in range(count)]
    for process in started:
        process.stdout.readline()
    return started


def measure_agent(bench, url, agent, programs):
    wait_until_found(url, len(programs))
    one = f"{url}debug/pprof/{programs[-1].pid}/heap"
    get(one)  # symbols are read once
    samples = [(cost_ms(agent.pid, [one] * SCRAPES), cost_ms(agent.pid, [url + "metrics"] * SCRAPES))
               for _ in range(ROUNDS)]
    return {"one_ms": [s[0] for s in samples], "all_ms": [s[1] for s in samples]}


def run(bench, quick):
    program = build(bench.work)
    out = {}
    for count in PROCESSES[:2] if quick else PROCESSES:
        directory = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        started = []
        agent = subprocess.Popen([bench.heft, "agent", "--dir", directory, "--output-dir", directory,
                                  "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        try:
            url = next(word for line in agent.stderr if "serving" in line
                       for word in line.split() if word.startswith("http"))
            url = url.split("/debug")[0].rstrip("/") + "/"
            started = start_programs(bench, program, directory, count)
            out[str(count)] = measure_agent(bench, url, agent, started)
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait()
            for process in started:
                process.kill()
                process.communicate()
            shutil.rmtree(directory, ignore_errors=True)
    return {"scrapes": out}


def medians(result):
    """{processes: (ms a scrape of one, ms of /metrics)}"""
    return {int(count): (statistics.median(found["one_ms"]), statistics.median(found["all_ms"]))
            for count, found in result["scrapes"].items()}


def rows(result):
    found = medians(result)
    first = found[min(found)]
    return [[f"{count}", f"{one:.2f}", f"{one / first[0]:.2f}", f"{every:.2f}", f"{every / count:.3f}"]
            for count, (one, every) in sorted(found.items())]


HEAD = ["agent, processes", "heap of one, ms cpu", "times that of 1", "/metrics, ms cpu", "for each"]


def goals(result):
    found = medians(result)
    ratio = found[max(found)][0] / found[min(found)][0]
    return [(f"{result['row']}: a profile of one of {max(found)} processes costs what it costs alone (+25 %)",
             f"{ratio:.2f}", ratio <= 1.25)]
