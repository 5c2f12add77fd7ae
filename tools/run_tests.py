#!/usr/bin/python3
"""Runs every test there is and adds up the counts. The last line is "N passed, N failed" (and
", N skipped" if any); the exit status is 0 only if none failed.

    run_tests.py [--only NAME,...] [--build DIR] [--smoke]

Stages, each of which may be named with --only:
    tools    what setup.sh installs is there
    build    heft itself, as users get it
    unit     cmocka binaries, and the fuzz targets over their corpora
    memory   unit tests of hosted code under AddressSanitizer and UBSan
    race     unit tests of lock-free code under ThreadSanitizer
    layout   tools/check_layout.py: includes, file names, symbols, dead functions, manual pages, format
    web      the page's types, size and unit tests (node)
    cli, integration, fault, hostile    pytest on the built heft
    browser  pytest with Chromium: what heft shows in a browser

The stages of pytest mostly wait, so integration runs beside the others.

--smoke runs a part of each stage: what depends most on the machine's own tools.

A stage that cannot be built or that ends without results is one failure: silence is not success. A
skipped test is a failure as well, unless its reason is one of OPTIONAL; the reasons are printed.
A stage that writes nothing for a long time is ended, so that a hanging test fails instead of hanging
the caller. There is no limit to a stage as a whole: a busy machine is only slow."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = "/usr/bin/python3"
MESON = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"
SILENT_SECONDS = 1800
BEGAN = time.monotonic()

# A test may be skipped if one of these is missing. Everything else is required; tools/setup.sh installs it.
OPTIONAL = [re.compile(pattern) for pattern in (
    r"\b(rustc|cargo|Rust)\b",  # and crates, which come from a registry
    r"\bCMake\b",  # only a recipe needs it
    r"\bnginx\b",  # its package starts a server
    r"\bpromtool\b", r"\bJava\b",
    r"\b(only|needs) root\b",  # more than one user
    r"\bmount(ed|ing)\b", r"open mapped files", r"memory cgroup", r"pid namespaces",  # what a container may forbid
    r"does not (allow ptrace|permit to trace)", r"does not run 32-bit programs",
    r"malloc of 7 GiB fails", r"may lock only little memory", r"slices came with Linux", r"cannot open a thousand connections",  # limits of the machine
    r"single steps are written for x86-64",
    r"itself does not do what this case expects",  # an allocator's own fault
    r"heaptrack_print does not read raw files",  # older than 1.5
    r"cut at the end of a line",
)]
# cmocka gives no reasons: these tests need root, another user's file, or many descriptors.
OPTIONAL_UNIT = {"knows_when_privileges_hide_the_preload": "only root can give files away",
                 "test_thousand_idle": "fewer than 2,500 files may be open",
                 "test_vdso": "the kernel gives no vdso",
                 "a_deleted_library_and_root": "only root may open mapped files",
                 "an_object_that_is_loaded_twice_is_two_modules": "a sanitizer does not allow dlmopen",
                 "functions_of_other_allocators": "no other allocator is installed",
                 "every_kind_of_block": "this machine does not allow ptrace",
                 "more_than_one_heap": "this machine does not allow ptrace",
                 "while_all_allocate": "this machine does not allow ptrace"}

# --smoke runs this part: names of meson tests, or what pytest gets after the folder's name.
SMOKE = {
    "memory": ["trace", "symbol", "import_dhat", "findings", "fuzz_trace_reader", "fuzz_import_dhat"],
    "race": ["nodes", "stream", "http"],
    "cli": ["test_usage.py", "test_refusals.py", "test_bad_files.py"],
    "integration": ["test_counts.py", "test_symbols.py", "test_import.py", "test_export_tools.py",
                    "test_processes.py", "test_http.py"],
    "fault": ["test_damaged_recording.py", "test_hostile_program.py"],
    "browser": ["test_page_report.py", "test_flamegraph.py", "test_speedscope.py"],
}


class Results:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []
        self.reasons = {}  # of skips: the names of the tests
        self.words = []  # what to show of a stage when it has ended

    def merge(self, other):
        self.add(other.passed, other.failed, other.skipped)
        self.failures += other.failures
        for reason, names in other.reasons.items():
            self.reasons.setdefault(reason, []).extend(names)

    def show(self, lines):
        self.words += ["    " + line for line in lines]

    def show_tail(self, log, lines=40):
        self.show(log.read_text(errors="replace").splitlines()[-lines:])

    def add(self, passed=0, failed=0, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def skip(self, name, reason, optional=None):
        """A test that says it cannot run here: a failure unless what it lacks is optional."""
        if optional is None:
            optional = any(pattern.search(reason) for pattern in OPTIONAL)
        if not optional:
            self.fail(name, f"skipped, though what it needs is required: {reason}")
            return
        self.skipped += 1
        self.reasons.setdefault(reason, []).append(name)

    def fail(self, name, why=""):
        self.failed += 1
        self.failures.append(name + (": " + why if why else ""))

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def say(text):
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


def run(command, log, env=None):
    """Runs in a process group of its own, output to the log; returns the status, None if it had
    to be ended because nothing came for too long."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as out:
        process = subprocess.Popen([str(c) for c in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})})
        size, since = 0, time.monotonic()
        while time.monotonic() - since < SILENT_SECONDS:
            try:
                return process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                if log.stat().st_size != size:
                    size, since = log.stat().st_size, time.monotonic()
        process.send_signal(signal.SIGINT)  # pytest and meson then clean up and report
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        out.write(f"\nended: it wrote nothing for {SILENT_SECONDS} s\n".encode())
        return None


def configure(directory, options, log):
    """Sets up the build directory, or brings one that is there up to date."""
    arguments = ["setup", directory, *options]
    if (directory / "build.ninja").exists():
        arguments.insert(1, "--reconfigure")
    elif directory.exists():
        shutil.rmtree(directory)
    return run([MESON, *arguments], log)


def tools(results):
    done = subprocess.run([ROOT / "tools" / "setup.sh", "lacking"], stdout=subprocess.PIPE, text=True,
                          check=False)
    lacking = done.stdout.splitlines()
    for line in lacking:
        results.fail("tools", line)
    results.show(lacking)
    if done.returncode != 0:
        results.fail("tools", "setup.sh does not run")
    elif not lacking:
        results.add(passed=1)


def build(results, directory):
    log = ROOT / directory / "test-logs" / "build.txt"
    keep = ROOT / "build-setup.log"
    status = configure(directory, ["-Dtests=true"], keep)
    log.parent.mkdir(parents=True, exist_ok=True)
    keep.replace(log)
    if status == 0:
        status = run(["ninja", "-C", directory], log)
    if status != 0:
        results.fail("build")
        results.show_tail(log)
        return False
    results.add(passed=1)
    return True


CMOCKA = {"passed": re.compile(r"\[  PASSED  \] (\d+) test"),
          "failed": re.compile(r"\[  FAILED  \] (\d+) test"),
          "skipped": re.compile(r"\[  SKIPPED \] (\d+) test")}
CMOCKA_NAME = re.compile(r"^\[  FAILED  \] (\w+)$", re.M)
CMOCKA_SKIPPED = re.compile(r"^\[  SKIPPED \] (\w+)$", re.M)


def count_cmocka(results, stage, test):
    """One entry of meson's testlog.json: a cmocka binary counts as many as it has tests."""
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    name = f"{stage}: {test['name'].split(' / ')[-1]}"
    counts = {k: sum(int(n) for n in r.findall(text)) for k, r in CMOCKA.items()}
    ok = test["result"] in ("OK", "EXPECTEDFAIL")
    if test["result"] == "SKIP":
        results.skip(name, "meson gives no reason")
    elif not any(counts.values()):
        if ok:
            results.add(passed=1)
        else:
            results.fail(name, test["result"])
    else:
        results.add(passed=counts["passed"])
        names = sorted(set(CMOCKA_SKIPPED.findall(text)))
        for i in range(counts["skipped"]):
            skipped = names[i] if i < len(names) else "a test"
            results.skip(f"{name}: {skipped}", OPTIONAL_UNIT.get(skipped, "no reason given"),
                         skipped in OPTIONAL_UNIT)
        names = sorted(set(CMOCKA_NAME.findall(text)))
        for i in range(counts["failed"]):
            results.fail(name, names[i] if i < len(names) else "")
        if not ok and not counts["failed"]:  # a sanitizer's finding at exit, a crash, a timeout
            results.fail(name, test["result"])
    if not ok and test["result"] != "SKIP":
        results.show(text.splitlines()[-30:])


def meson_tests(results, stage, directory, suite=None, names=()):
    log = directory / "test-logs" / f"{stage}.txt"
    testlog = directory / "meson-logs" / "testlog.json"
    testlog.unlink(missing_ok=True)
    # A test's own limit is for one that hangs: it has five times as long on a busy machine.
    command = [MESON, "test", "-C", directory, "--print-errorlogs", "--timeout-multiplier", "5"]
    if suite:
        command += ["--suite", suite]
    command += names
    status = run(command, log, env={"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
                                    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
                                    "TSAN_OPTIONS": "halt_on_error=1"})
    if not testlog.exists():
        if status == 0:  # meson says nothing where a suite is empty
            say(f"{stage}: no tests")
            return
        results.fail(stage, "did not run")
        results.show_tail(log)
        return
    for line in testlog.read_text().splitlines():
        count_cmocka(results, stage, json.loads(line))


def sanitized(results, stage, directory, sanitizers, names=()):
    log = ROOT / f"{directory}-setup.log"
    status = configure(directory, ["-Dtests=true", f"-Db_sanitize={sanitizers}",
                                   "-Db_lundef=false", "-Dbuildtype=debugoptimized",
                                   "-Dweb=disabled"], log)
    (directory / "test-logs").mkdir(parents=True, exist_ok=True)
    kept = log.replace(directory / "test-logs" / "setup.txt")
    if status != 0:
        results.fail(stage, "cannot be set up")
        results.show_tail(kept)
        return
    meson_tests(results, stage, directory, stage, names)


def layout(results, directory):
    log = directory / "test-logs" / "layout.txt"
    status = run([PYTHON, "tools/check_layout.py", "--build", directory], log)
    ran = 0
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("ok "):
            results.add(passed=1)
        elif line.startswith("skipped "):
            results.skip("layout", line[8:])
        elif line.startswith("FAILED "):
            results.fail("layout", line[7:])
            results.show([line])
        else:
            continue
        ran += 1
    if ran == 0 or status not in (0, 1):
        results.fail("layout", "did not run")
        results.show_tail(log)


def web(results, directory):
    said = subprocess.run([ROOT / "tools" / "configure.sh", directory, "say"], stdout=subprocess.PIPE,
                          text=True, check=False)
    if said.stdout or said.returncode != 0:
        results.fail("web", " ".join(said.stdout.split()) or "configure.sh does not run")
        return
    log = directory / "test-logs" / "web.txt"
    status = run(["node", "web/build_page.mjs", "check", directory / "web"], log)
    lines = re.findall(r"^(not ok|ok)\b(?: \d+)? - (.*)$", log.read_text(errors="replace"), re.M)
    for outcome, name in lines:
        if outcome == "ok":
            results.add(passed=1)
        else:
            results.fail("web", name)
    if not lines or (status != 0 and all(outcome == "ok" for outcome, _ in lines)):
        results.fail("web", "did not run to its end")
    if status != 0:
        results.show_tail(log)


def pytest(results, stage, directory, names=()):
    folder = ROOT / "tests" / stage
    if not list(folder.glob("test_*.py")):
        say(f"{stage}: no tests")
        return
    log = directory / "test-logs" / f"{stage}.txt"
    report = directory / "test-logs" / f"{stage}.xml"
    report.unlink(missing_ok=True)
    # A folder apart: a pytest that starts closes the usual one to other users, whose programs another stage may test.
    with tempfile.TemporaryDirectory(prefix="pytest-", ignore_cleanup_errors=True) as kept:
        os.chmod(kept, 0o755)
        status = run([PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
                      f"--basetemp={kept}/{stage}", *([folder / name for name in names] or [folder])],
                     log, env={"HEFT_BUILD": str(directory), "PYTHONDONTWRITEBYTECODE": "1"})
    if not report.exists():
        results.fail(stage, "ended without results")
        results.show_tail(log)
        return
    cases = 0
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        cases += 1
        name = f"{stage}: {case.get('classname', '').split('.')[-1]}::{case.get('name')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        if bad is not None:
            results.fail(name, (bad.get("message") or "").splitlines()[0][:200]
                         if bad.get("message") else "")
        elif case.find("skipped") is not None:
            results.skip(name, case.find("skipped").get("message") or "no reason given")
        else:
            results.add(passed=1)
    if cases == 0:
        results.fail(stage, "ended without results")
    if status is None:
        results.fail(stage, f"hung for {SILENT_SECONDS} s and was ended; {cases} tests had run")
    if any(f.startswith(stage + ":") for f in results.failures):
        results.show_tail(log, 60)


PYTEST = ("cli", "integration", "fault", "hostile", "browser")
LONGEST = "integration"
STAGES = ("tools", "build", "unit", "memory", "race", "layout", "web", *PYTEST)
SAYING = threading.RLock()


def main():
    parser = argparse.ArgumentParser(description="run every test of heft")
    parser.add_argument("--only", default=",".join(STAGES))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--smoke", action="store_true", help="a part of each stage")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    unknown = set(wanted) - set(STAGES)
    if unknown:
        parser.error(f"no stage {', '.join(sorted(unknown))}")
    directory = arguments.build.resolve()
    results = Results()
    smoke = SMOKE if arguments.smoke else {}
    steps = {
        "tools": tools,
        "build": lambda own: build(own, directory),
        "unit": lambda own: meson_tests(own, "unit", directory),
        "memory": lambda own: sanitized(own, "memory", directory.with_name(directory.name + "-asan"),
                                        "address,undefined", smoke.get("memory", ())),
        "race": lambda own: sanitized(own, "race", directory.with_name(directory.name + "-tsan"), "thread",
                                      smoke.get("race", ())),
        "layout": lambda own: layout(own, directory),
        "web": lambda own: web(own, directory),
        **{stage: lambda own, stage=stage: pytest(own, stage, directory, smoke.get(stage, ()))
           for stage in PYTEST},
    }

    def perform(stages):
        for stage in stages:
            own = Results()
            say(f"{stage} ...")
            steps[stage](own)
            with SAYING:
                for line in own.words:
                    print(line, flush=True)
                say(f"{stage}: {own.line()}")
                results.merge(own)
            if stage == "build" and own.failed:
                return False
        return True

    if perform([stage for stage in STAGES if stage in wanted and stage not in PYTEST]):
        lanes = [[stage for stage in PYTEST if stage in wanted and (stage == LONGEST) == longest]
                 for longest in (True, False)]
        with concurrent.futures.ThreadPoolExecutor() as threads:
            for lane in [threads.submit(perform, stages) for stages in lanes]:
                lane.result()
    if results.reasons:
        print("\nskipped:")
        for reason, names in sorted(results.reasons.items()):
            print(f"  {reason}")
            for name in names:
                print(f"    {name}")
    if results.failures:
        print("\nfailed:")
        for failure in results.failures:
            print("  " + failure)
    print(results.line(), flush=True)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
