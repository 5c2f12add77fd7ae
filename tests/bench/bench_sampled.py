"""The rows of sampled mode: what heft run --sample costs a malloc+free pair, switched on and off, and
whole programs; beside it a bare passthrough hook, and jemalloc's own sampling over jemalloc.

  plain, plain-again   the command itself: A and A of the noise
  sampled              heft run --sample (512 KiB), figures taken inside the program
  off                  the same, switched off (HEFT_SAMPLE=off)
  passthrough          passthrough.c preloaded: the least a hook can do
  jemalloc             libjemalloc preloaded, prof:false
  jemalloc-sampled     the same with prof:true,lg_prof_sample:19, which is 512 KiB

Every round runs each variant once, in turning order. A ratio is the median over the rounds of
variant / plain of the same round (plain: the mean of its two runs), so that a machine that changes
its speed between rounds changes nothing; its error is that of a median, from the spread of the
rounds. plain-again / plain, treated alike, is shown beside it: the noise. All of it is processor time
(user + system; the threads' own for a pair), which others on the machine disturb least.
"""
import json
import os
import shutil
import statistics
import subprocess

import bench_redis
import bench_scrapes
import bench_served
from bench_measure import instructions_of, key_values
from bench_programs import CFLAGS, HERE, MICRO_WORK, SMALLER, Row, real_rows
from bench_tables import show, table

RATE = "512k"
HELD = 9252  # blocks of 1 MiB, of which 1 - exp(-2) are sampled at 512 KiB: 8,000
JEMALLOC = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
PAIR_VARIANTS = ["plain", "plain-again", "sampled", "off", "passthrough", "jemalloc",
                 "jemalloc-sampled"]
PROGRAM_VARIANTS = ["plain", "plain-again", "sampled"]
GOALS = {"same": 1.25, "json": 1.10}
PROGRAM_GOAL, PROGRAM_LIMIT = 0.01, 0.03
PROGRAMS = ["sqlite3", "perl", "jq", "cc1plus-O0"]
# What a program does before it does anything: its start-up, to be taken off.
IDLE = {"sqlite3": ["sqlite3", ":memory:", ""], "perl": ["perl", "-e", "1"], "jq": ["jq", "-n", "1"]}
BRANCHES = 4.5  # instructions: a test and a jump in each call of a pair, and some rounding
CALLGRIND_STEPS = {"same": (400_000, 2_000_000), "json": (20, 100)}


class SampledRow(Row):
    def __init__(self, name, kind, argv, idle=None, **others):
        super().__init__(f"sampled-{name}", "sampled", argv, **others)
        self.kind = kind  # pair, program, server, served, scrapes, instructions
        self.idle = idle


def idle_argv(row):
    if row.name in IDLE:
        return [shutil.which(IDLE[row.name][0]), *IDLE[row.name][1:]]
    return [*row.argv[:-3], "/dev/null", "-o", "/dev/null"]  # cc1plus: nothing to compile


def rows(work, micro, quick):
    divide = SMALLER if quick else 1
    result = work / "micro.result"
    for held in (0, HELD):
        for kind in ("same", "json"):
            for threads, iterations in zip((1, 2), MICRO_WORK[kind]):
                name = f"{kind}-{threads}" + ("-live" if held else "")
                yield SampledRow(name, "pair", [micro, kind, threads, iterations // divide, result,
                                                held], result=result)
    for row, _ in real_rows(work, quick):
        if row and row.name in PROGRAMS:
            yield SampledRow(row.name, "program", row.argv, idle=idle_argv(row), env=row.env)
    if bench_redis.available():
        yield SampledRow("redis", "server", ["redis-server"])
    yield SampledRow("served", "served", [HERE / "served.c"], env={"QUICK": "1"} if quick else {})
    yield SampledRow("scrapes", "scrapes", [HERE / "scraped.c"], env={"QUICK": "1"} if quick else {})
    if shutil.which("valgrind"):
        yield SampledRow("instructions", "instructions", [micro])


def build_passthrough(work):
    library = work / "passthrough.so"
    subprocess.run([os.environ.get("CC", "gcc"), *CFLAGS, "-shared", "-fPIC", HERE / "passthrough.c",
                    "-o", library], check=True)
    return library


class Sampler:
    """Runs one variant of a row once."""

    def __init__(self, bench):
        self.bench = bench
        self.passthrough = build_passthrough(bench.work)
        self.inner = bench.work / "inner.result"
        self.seen = None  # totals of the first sampled recording: that there is anything in it

    def available(self, variant):
        if variant in ("sampled", "off"):
            return self.bench.heft is not None
        return not variant.startswith("jemalloc") or os.path.exists(JEMALLOC)

    def sampled(self, argv):
        return [self.bench.heft, "run", "-q", "--force", f"--sample={RATE}", "-o",
                str(self.bench.recording), "--", *argv]

    def command(self, variant, argv):
        """The launcher is inside heft run, so that it sees the program alone."""
        variables = {
            "off": ["HEFT_SAMPLE=off"],
            "passthrough": [f"LD_PRELOAD={self.passthrough}"],
            "jemalloc": [f"LD_PRELOAD={JEMALLOC}", "MALLOC_CONF=prof:false"],
            "jemalloc-sampled": [f"LD_PRELOAD={JEMALLOC}",
                                 "MALLOC_CONF=prof:true,lg_prof_sample:19"],
        }.get(variant, [])
        timed = self.bench.timed(self.inner, argv, False, variables)
        return self.sampled(timed) if variant in ("sampled", "off") else timed

    def sample(self, variant, row, argv):
        for path in (self.inner, row.result):
            if path:
                path.unlink(missing_ok=True)
        done = subprocess.run(self.command(variant, argv), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              env=self.bench.environment(row), timeout=self.bench.limit_seconds,
                              check=False)
        sample = {"status": done.returncode, "stderr": done.stderr.decode(errors="replace")[-400:]}
        if self.inner.exists():
            values = {key: int(value) for key, value in key_values(self.inner.read_text()).items()}
            sample.update(wall_s=values["wall_ns"] / 1e9,
                          cpu_s=(values["user_us"] + values["sys_us"]) / 1e6)
        if row.result and row.result.exists():
            result = key_values(row.result.read_text())
            sample.update(ns=float(result["ns_per_op"]), cpu_ns=float(result["cpu_ns_per_op"]))
        return sample


def rounds_of(sampler, row, argv, variants, count, say):
    """{variant: [a sample a round]}; a variant that fails is left after its first."""
    samples = {name: [] for name in variants if sampler.available(name)}
    names = list(samples)
    sampler.sample("plain", row, argv)  # not kept: page cache, clock frequency
    for turn in range(count):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            if samples[name] and samples[name][-1]["status"]:
                continue
            samples[name].append(sampler.sample(name, row, argv))
            if name == "sampled" and argv is row.argv and not sampler.seen:
                sampler.seen = recorded(sampler.bench)
            say(f"{row.name} {name} {turn + 1}/{count}: "
                f"{samples[name][-1].get('cpu_ns') or samples[name][-1].get('cpu_s')}")
    return samples


def measure_pair(sampler, row, repeat, say):
    samples = rounds_of(sampler, row, row.argv, PAIR_VARIANTS, 3 * repeat, say)
    return {"samples": samples}


def measure_program(sampler, row, repeat, say):
    """Start-up is short: four runs for one of the work."""
    return {"idle": rounds_of(sampler, row, row.idle, PROGRAM_VARIANTS, 4 * repeat, say),
            "samples": rounds_of(sampler, row, row.argv, PROGRAM_VARIANTS, 2 * repeat, say)}


def measure_instructions(sampler, row, say):
    bench = sampler.bench
    out = {}
    for kind, steps in CALLGRIND_STEPS.items():
        for variant in PAIR_VARIANTS:
            if variant == "plain-again" or not sampler.available(variant):
                continue
            count = instructions_of(bench, row.argv[0], kind, steps,
                                    lambda argv, name=variant: sampler.command(name, argv), say)
            if count is not None:
                out.setdefault(kind, {})[variant] = count
                say(f"{row.name} {kind} {variant}: {count:.1f}")
    return {"counts": out}


def measure(bench, row, repeat, say):
    sampler = Sampler(bench)
    out = {"row": row.name, "group": "sampled", "kind": row.kind, "argv": row.argv, "env": row.env}
    if row.kind == "pair":
        out.update(measure_pair(sampler, row, repeat, say))
    elif row.kind == "program":
        out.update(measure_program(sampler, row, repeat, say))
    elif row.kind == "server":
        out.update(bench_redis.measure(bench, sampler.sampled, 3 * repeat, say))
    elif row.kind == "served":
        out.update(bench_served.run(bench, bool(row.env)))
    elif row.kind == "scrapes":
        out.update(bench_scrapes.run(bench, bool(row.env)))
    else:
        out.update(measure_instructions(sampler, row, say))
    if row.kind not in ("instructions", "served", "scrapes"):
        out["seen"] = sampler.seen or recorded(bench)
    bench.recording.unlink(missing_ok=True)
    return out


def recorded(bench):
    """Totals of the last recording."""
    done = subprocess.run([bench.heft, "report", "--json", "-n", "1", str(bench.recording)],
                          capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["totals"] if not done.returncode else {"error": done.stderr[-400:]}


# ---- from samples to numbers


def round_ratios(samples, variant, key, less=None, base=("plain", "plain-again")):
    """Variant over plain, round by round. `less` gives what to take off each variant's figures first:
    {variant: start-up}."""
    less = less or {}
    found = []
    for turn in zip(samples.get(variant) or [], *(samples.get(name) or [] for name in base)):
        if any(key not in sample for sample in turn):
            continue
        over = turn[0][key] - less.get(variant, 0)
        under = statistics.mean(s[key] - less.get(n, 0) for s, n in zip(turn[1:], base))
        found.append(over / under)
    return found


def ratio(samples, variant, key, less=None, base=("plain", "plain-again")):
    """(median of the rounds' ratios, its standard error), or None."""
    found = round_ratios(samples, variant, key, less, base)
    if not found:
        return None
    middle = statistics.median(found)
    spread = 1.4826 * statistics.median(abs(value - middle) for value in found)
    return middle, 1.2533 * spread / len(found) ** 0.5


def noise(samples, key, less=None):
    return ratio(samples, "plain-again", key, less, base=("plain",))


def middle_of(samples, variant, key):
    values = [s[key] for s in samples.get(variant) or [] if key in s]
    return statistics.median(values) if values else None


def pair_of(value, pattern="{:.3f} +-{:.3f}"):
    return pattern.format(*value) if value else "-"


def percent_of(value):
    return f"{100 * (value[0] - 1):+.2f} +-{100 * value[1]:.2f}" if value else "-"


def pair_table(results):
    lines = []
    for result in results:
        if result["kind"] != "pair":
            continue
        s = result["samples"]
        lines.append([result["row"], show(middle_of(s, "plain", "cpu_ns"), "{:.2f}"),
                      pair_of(noise(s, "cpu_ns")), pair_of(ratio(s, "sampled", "cpu_ns")),
                      show(max(round_ratios(s, "sampled", "cpu_ns"), default=None)),
                      pair_of(ratio(s, "off", "cpu_ns")), pair_of(ratio(s, "passthrough", "cpu_ns")),
                      pair_of(ratio(s, "jemalloc-sampled", "cpu_ns", base=("jemalloc",)))])
    return lines and table(["pair, processor time", "plain ns", "plain/plain", "sampled", "slowest",
                            "off", "passthrough", "jemalloc's own"], lines)


def start_up(result, key="cpu_s"):
    """{variant: seconds} of the program that does nothing."""
    return {name: middle_of(result["idle"], name, key) or 0 for name in PROGRAM_VARIANTS}


def program_ratios(result, key="cpu_s"):
    """Steady state: (sampled, noise), each (ratio, error) or None."""
    less = start_up(result, key)
    return (ratio(result["samples"], "sampled", key, less), noise(result["samples"], key, less))


def program_table(results):
    lines = []
    for result in results:
        if result["kind"] == "program":
            sampled, aa = program_ratios(result)
            wall, wall_aa = program_ratios(result, "wall_s")
            idle, idle_wall = start_up(result), start_up(result, "wall_s")
            lines.append([result["row"], show(middle_of(result["samples"], "plain", "cpu_s"), "{:.3f}"),
                          percent_of(sampled), percent_of(aa), percent_of(wall), percent_of(wall_aa),
                          f"{1e3 * (idle['sampled'] - idle['plain']):+.2f}",
                          f"{1e3 * (idle_wall['sampled'] - idle_wall['plain']):+.2f}"])
    return lines and table(["program, steady state", "plain s", "cpu, sampled %", "cpu, plain/plain %",
                            "wall, sampled %", "wall, plain/plain %", "start cpu ms", "start wall ms"],
                           lines)


def server_table(results):
    lines = []
    for result in results:
        if result["kind"] != "server":
            continue
        for load in bench_redis.LOADS:
            s = result["samples"][load]
            lines.append([f"{result['row']}, {load}", show(middle_of(s, "plain", "cpu_us"), "{:.2f}"),
                          percent_of(ratio(s, "sampled", "cpu_us")), percent_of(noise(s, "cpu_us")),
                          percent_of(ratio(s, "sampled", "rps")), percent_of(noise(s, "rps")),
                          *(show(middle_of(s, name, "p99_ms"), "{:.3f}")
                            for name in PROGRAM_VARIANTS),
                          f"{1e3 * (statistics.median(result['start']['sampled']) - statistics.median(result['start']['plain'])):+.1f}"])
    return lines and table(["server, each request", "cpu us", "cpu, sampled %", "cpu, plain/plain %",
                            "rate, sampled %", "rate, plain/plain %", "p99 ms plain", "again",
                            "sampled", "start ms"], lines)


def instructions_table(results):
    lines = []
    ways = [name for name in PAIR_VARIANTS if name != "plain-again"]
    for result in results:
        if result["kind"] == "instructions":
            for kind, counts in result["counts"].items():
                lines.append([kind, *(show(counts.get(way), "{:.1f}") for way in ways)])
    return lines and table(["instructions per pair", *ways], lines)


def text(results):
    """All tables of sampled mode; empty without such rows."""
    own = [result for result in results if result["group"] == "sampled"]
    parts = [make(own) for make in (pair_table, program_table, server_table, instructions_table)]
    parts += [bench_served.line(result) for result in own if result["kind"] == "served"]
    parts += [table(bench_scrapes.HEAD, bench_scrapes.rows(result)) for result in own
              if result["kind"] == "scrapes"]
    return "\n\n".join(part for part in parts if part)


# ---- goals


def judged(value, limit):
    """Met or missed where the error leaves no doubt at two standard errors, else met by the figure
    itself; None where the error is as large as what is to be shown."""
    measured, error = value
    if measured - 2 * error > limit or measured + 2 * error <= limit:
        return measured <= limit
    return None if error > abs(limit - 1) / 2 else measured <= limit


def pair_goals(result):
    kind = result["row"].split("-")[1]
    sampled = ratio(result["samples"], "sampled", "cpu_ns")
    if sampled:
        yield (f"{result['row']}: at most {GOALS[kind]} times plain", pair_of(sampled),
               judged(sampled, GOALS[kind]))
    off = ratio(result["samples"], "off", "cpu_ns", base=("passthrough",))
    if off:
        yield (f"{result['row']}: switched off no worse than a passthrough hook", pair_of(off),
               off[0] - 2 * off[1] <= 1)


def added_goals(name, value, aa):
    measured = f"{percent_of(value)} % (plain/plain {percent_of(aa)} %)"
    # Where A against A differs by more than the rounds show, that is the error to reckon with.
    value = value[0], max(value[1], aa[1], abs(aa[0] - 1))
    yield f"{name}: at most 1 % of processor time", measured, judged(value, 1 + PROGRAM_GOAL)
    yield "  and not over 3 %", measured, judged(value, 1 + PROGRAM_LIMIT)


def instruction_goals(result):
    for kind, counts in result["counts"].items():
        if "sampled" in counts and "plain" in counts:
            found = counts["sampled"] / counts["plain"]
            yield (f"instructions, {kind}: at most {GOALS[kind]} times plain", f"{found:.3f}",
                   found <= GOALS[kind])
        if "off" in counts and "passthrough" in counts:
            over = counts["off"] - counts["passthrough"]
            yield (f"instructions, {kind}: switched off, a passthrough hook and a branch a call (+4)",
                   f"{over:+.1f} a pair", over <= BRANCHES)


def goals(results):
    out = []
    for result in results:
        if result["group"] != "sampled":
            continue
        if result["kind"] == "pair":
            out += pair_goals(result)
        elif result["kind"] == "program" and program_ratios(result)[0]:
            out += added_goals(result["row"], *program_ratios(result))
        elif result["kind"] == "server":
            for load in bench_redis.LOADS:
                s = result["samples"][load]
                out += added_goals(f"{result['row']}, {load}", ratio(s, "sampled", "cpu_us"),
                                   noise(s, "cpu_us"))
        elif result["kind"] == "served":
            out += bench_served.goals(result)
        elif result["kind"] == "scrapes":
            out += bench_scrapes.goals(result)
        elif result["kind"] == "instructions":
            out += instruction_goals(result)
    return out


def problems(results):
    for result in results:
        if result["group"] != "sampled":
            continue
        seen = result.get("seen", {})
        if "error" in seen or result["row"].endswith("-live") and seen["live_blocks"] < HELD * 0.9:
            yield f"{result['row']}: the recording does not have what the row is about: {seen}"
        for part in ("samples", "idle"):
            for variant, samples in result.get(part, {}).items():
                bad = [s for s in samples if isinstance(s, dict) and s.get("status")]
                if bad:
                    words = " ".join(bad[0].get("stderr", "").split())[-200:]
                    yield f"{result['row']} {variant}: exit status {bad[0]['status']} {words}"
