"""Running one row under each variant and keeping every sample.

A variant is a way to run the same command:

  plain         the command itself; measured twice a round, the two halves apart give the noise
  heft          heft run, whole: until the recording is complete and every process is gone
  heft-program  the program's own wall time inside heft run (the launcher sits inside)
  heaptrack     heaptrack, whole: its script, interpreter and compressor included
  heaptrack-raw heaptrack --raw, whole: no interpreter
  library       heaptrack's preloaded library alone, its output thrown away

Variants are interleaved round robin, and each round starts with another one, so that a machine that
slows down or speeds up does so for all of them. Nothing is averaged here.
"""
import json
import os
import statistics
import subprocess

VARIANTS = ["plain", "plain-again", "heft", "heft-program", "heaptrack", "heaptrack-raw", "library"]
SCALE_VARIANTS = ["plain", "heft", "heaptrack"]
LIBRARY_PATHS = [
    "/usr/lib/heaptrack/libheaptrack_preload.so",
    "/usr/lib/x86_64-linux-gnu/heaptrack/libheaptrack_preload.so",
    "/usr/lib64/heaptrack/libheaptrack_preload.so",
]
SHORT_SECONDS = 0.1


def key_values(text):
    return dict(word.split("=", 1) for word in text.split())


class Bench:
    """Where things are and what limits hold; sample() runs one variant once."""

    def __init__(self, work, launcher, heft, heaptrack, limit_seconds, limit_bytes):
        self.work = work
        self.launcher = str(launcher)
        self.heft = heft
        self.heaptrack = heaptrack
        # Newer versions open a graphical front end, where one is installed, unless told not to.
        self.record_only = []
        if heaptrack and "--record-only" in subprocess.run(
                [heaptrack, "--help"], capture_output=True, text=True, check=False).stdout:
            self.record_only = ["--record-only"]
        self.library = next((path for path in LIBRARY_PATHS if os.path.exists(path)), None)
        self.limit_seconds = limit_seconds
        self.limit_bytes = limit_bytes
        self.recording = work / "recording.heft"

    def available(self, variant):
        if variant.startswith("heft"):
            return self.heft is not None
        if variant.startswith("heaptrack"):
            return self.heaptrack is not None
        if variant == "library":
            return self.library is not None
        return True

    def environment(self, row):
        environment = {key: value for key, value in os.environ.items()
                       if key not in ("LD_PRELOAD", "DEBUGINFOD_URLS", "PYTHONPATH")}
        # The launcher does not care for row.env (PYTHONMALLOC, GIT_*), so all get it alike.
        # No cache of symbols: no run is quicker because of one before it, and none is left behind.
        environment.update(LC_ALL="C", XDG_CACHE_HOME="/dev/null", **row.env)
        return environment

    def timed(self, result, argv, limited=False, variables=()):
        words = [self.launcher, "-o", str(result)]
        if limited:
            words += ["-t", str(self.limit_seconds), "-m", str(self.limit_bytes)]
        for variable in variables:
            words += ["-e", variable]
        return [*words, "--", *argv]

    def heft_run(self, argv):
        return [self.heft, "run", "-q", "--force", "-o", str(self.recording), "--", *argv]

    def command(self, variant, row, outer, inner):
        if variant in ("plain", "plain-again"):
            return self.timed(outer, row.argv, True)
        if variant == "heft":
            return self.timed(outer, self.heft_run(row.argv), True)
        if variant == "heft-program":
            return self.timed(outer, self.heft_run(self.timed(inner, row.argv)), True)
        if variant in ("heaptrack", "heaptrack-raw"):
            raw = ["--raw"] if variant == "heaptrack-raw" else []
            output = str(self.work / "heaptrack-output")
            return self.timed(
                outer, [self.heaptrack, *self.record_only, *raw, "-o", output, *row.argv], True)
        return self.timed(outer, row.argv, True,
                          [f"LD_PRELOAD={self.library}", "DUMP_HEAPTRACK_OUTPUT=/dev/null"])

    def sample(self, variant, row):
        outer, inner = self.work / "outer.result", self.work / "inner.result"
        for path in (outer, inner, row.result):
            if path:
                path.unlink(missing_ok=True)
        errors = self.work / "stderr.txt"
        with open(errors, "wb") as stderr:
            subprocess.run(self.command(variant, row, outer, inner), stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=stderr, env=self.environment(row),
                           check=False)
        values = {key: int(value) for key, value in key_values(outer.read_text()).items()}
        sample = {
            "wall_s": values["wall_ns"] / 1e9,
            "cpu_s": (values["user_us"] + values["sys_us"]) / 1e6,
            "user_s": values["user_us"] / 1e6,
            "sys_s": values["sys_us"] / 1e6,
            "maxrss_kb": values["maxrss_kb"],
            "status": values["status"],
            "timed_out": bool(values["timed_out"]),
        }
        if variant == "heft-program":
            sample["whole_s"] = sample["wall_s"]
            if inner.exists():
                values = {key: int(value) for key, value in key_values(inner.read_text()).items()}
                sample["wall_s"] = values["wall_ns"] / 1e9
            else:
                sample["status"] = sample["status"] or 125
        if row.result and row.result.exists():
            result = key_values(row.result.read_text())
            sample["ns_per_op"] = float(result["ns_per_op"])
            sample["operations"] = int(result["operations"])
            sample["steady_s"] = int(result["steady_ns"]) / 1e9
        if sample["status"] and not sample["timed_out"]:
            sample["stderr"] = errors.read_text(errors="replace")[-400:]
        return sample

    def recording_facts(self):
        """Totals and size of the last recording, as heft report gives them."""
        done = subprocess.run([self.heft, "report", "--json", "-n", "1", str(self.recording)],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            return {"error": done.stderr[-400:]}
        totals = json.loads(done.stdout)["totals"]
        events = totals["allocations"] + totals["reallocations"] + totals["frees"]
        size = self.recording.stat().st_size
        return {"events": events, "bytes": size, "dropped": totals.get("dropped", 0),
                "bytes_per_event": size / events if events else None, "totals": totals}

    def measure(self, row, repeat, cell_seconds, only=None, say=lambda text: None):
        variants = SCALE_VARIANTS if row.group == "scale" else VARIANTS
        variants = [name for name in variants
                    if self.available(name) and (not only or name.startswith(tuple(only)))]
        samples = {name: [] for name in variants}
        facts = None
        rounds, turn = repeat, 0
        # One run of each that is not kept: page cache, branch predictors, clock frequency.
        status = self.sample("plain", row)["status"]
        while turn < rounds:
            start = turn % len(variants)
            for name in variants[start:] + variants[:start]:
                spent = sum(sample["wall_s"] for sample in samples[name])
                broken = samples[name] and (samples[name][0]["timed_out"] or
                                            samples[name][0]["status"] != status)
                if spent > cell_seconds or broken:
                    continue
                sample = self.sample(name, row)
                samples[name].append(sample)
                say(f"{row.name} {name} {turn + 1}/{rounds}: {sample['wall_s']:.3f} s")
                if name == "heft" and facts is None:
                    facts = self.recording_facts()
                for path in self.work.glob("heaptrack-output*"):
                    path.unlink()
            turn += 1
            if turn == 1 and samples[variants[0]][0]["wall_s"] < SHORT_SECONDS:
                rounds = repeat * 4
        return {"row": row.name, "group": row.group, "goal": row.goal, "argv": row.argv,
                "env": row.env, "samples": samples, "recording": facts}

    def measure_report(self, row, repeat, say=lambda text: None):
        """heft report on one long recording: wall time and greatest resident size."""
        sample = self.sample("heft", row)
        out = {"row": row.name, "group": row.group, "argv": row.argv, "record": sample,
               "recording": self.recording_facts(), "samples": {"text": [], "json": []}}
        result = self.work / "outer.result"
        for _ in range(repeat):
            for name, option in (("text", []), ("json", ["--json"])):
                argv = [self.heft, "report", *option, str(self.recording)]
                subprocess.run(self.timed(result, argv, True), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=self.environment(row), check=False)
                values = {key: int(value) for key, value in key_values(result.read_text()).items()}
                out["samples"][name].append({
                    "wall_s": values["wall_ns"] / 1e9, "maxrss_kb": values["maxrss_kb"],
                    "status": values["status"]})
                say(f"{row.name} {name}: {values['wall_ns'] / 1e9:.3f} s")
        self.recording.unlink(missing_ok=True)
        return out


def median(samples, key="wall_s"):
    values = [sample[key] for sample in samples if key in sample]
    return statistics.median(values) if values else None


def callgrind_flags(bench):
    return ["--tool=callgrind", f"--log-file={bench.work / 'callgrind.log'}",
            "--callgrind-out-file=/dev/null"]


def instructions_of(bench, micro, kind, steps, wrap, say, valgrind=("valgrind",)):
    """Instructions a pair, by callgrind: the difference of two runs, so start-up cancels out. None if
    it did not work. For json a step is one document; its allocations are counted by the program."""
    log, result = bench.work / "callgrind.log", bench.work / "micro.result"
    counts = []
    for iterations in steps:
        log.unlink(missing_ok=True)
        argv = wrap([*valgrind, *callgrind_flags(bench), str(micro), kind, "1", str(iterations),
                     str(result)])
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False)
        lines = log.read_text().splitlines() if log.exists() else []
        found = [line for line in lines if "Collected :" in line]
        if done.returncode or not found:
            say(f"bench: callgrind {kind}: exit status {done.returncode}: {' '.join(argv[:2])} ...")
            return None
        operations = int(key_values(result.read_text())["operations"])
        counts.append((int(found[-1].split(":")[1]), operations))
    pairs = counts[1][1] - counts[0][1]
    if kind != "json":
        pairs *= 1.01  # the warm-up runs the same code for 1 % more
    return (counts[1][0] - counts[0][0]) / pairs


def instructions(bench, micro, kinds, say):
    """{kind: {way: instructions a pair}}. heaptrack's library takes itself out of the environment of
    the first process that loads it, which would be valgrind's launcher: there the tool, which is
    static, is started without the launcher.
    """
    out = {}
    tool = "/usr/libexec/valgrind/callgrind-amd64-linux"
    ways = {"plain": (lambda argv: argv, ["valgrind"])}
    if bench.heft:
        ways["heft"] = (bench.heft_run, ["valgrind"])
    if bench.library and os.path.exists(tool):
        variables = [f"LD_PRELOAD={bench.library}", "DUMP_HEAPTRACK_OUTPUT=/dev/null",
                     "VALGRIND_LAUNCHER=/usr/bin/valgrind"]
        ways["library"] = (lambda argv: bench.timed(bench.work / "outer.result", argv, False,
                                                    variables), [tool])
    for kind in kinds:
        low, high = (2, 6) if kind == "json" else (20_000, 60_000)
        for way, (wrap, valgrind) in ways.items():
            count = instructions_of(bench, micro, kind, (low, high), wrap, say, valgrind)
            if count is not None:
                out.setdefault(kind, {})[way] = count
    return out
