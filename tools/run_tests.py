#!/usr/bin/python3
"""Runs every test there is and adds up the counts. The last line is "N passed, N failed" (and
", N skipped" if any); the exit status is 0 only if none failed.

    run_tests.py [--only NAME,...] [--build DIR]

Stages, each of which may be named with --only:
    build    heft itself, as users get it
    unit     cmocka binaries, and the fuzz targets over their corpora
    memory   unit tests of hosted code under AddressSanitizer and UBSan
    race     unit tests of lock-free code under ThreadSanitizer
    layout   tools/check_layout.py: includes, file names, symbols, manual pages
    web      the page's types, size and unit tests (node)
    cli, integration, fault    pytest on the built heft
    browser  pytest with Chromium: what heft shows in a browser

A stage that cannot be built or that ends without results is one failure: silence is not success.
Every stage has a time limit, so that a hanging test fails instead of hanging the caller."""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]
PYTHON = "/usr/bin/python3"
MESON = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"
STAGE_SECONDS = 600
BEGAN = time.monotonic()


class Results:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def add(self, passed=0, failed=0, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def fail(self, name, why=""):
        self.failed += 1
        self.failures.append(name + (": " + why if why else ""))

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def say(text):
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


def run(command, log, env=None, limit=STAGE_SECONDS):
    """Runs in a process group of its own, output to the log; returns the status, None if it had
    to be ended."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as out:
        process = subprocess.Popen([str(c) for c in command], cwd=ROOT, stdin=subprocess.DEVNULL,
                                   stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, **(env or {})})
        try:
            return process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
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
            out.write(f"\nended after {limit} s\n".encode())
            return None


def show_tail(log, lines=40):
    for line in log.read_text(errors="replace").splitlines()[-lines:]:
        print("    " + line, flush=True)


def configure(directory, options, log):
    """Sets up the build directory, or brings one that is there up to date."""
    arguments = ["setup", directory, *options]
    if (directory / "build.ninja").exists():
        arguments.insert(1, "--reconfigure")
    elif directory.exists():
        shutil.rmtree(directory)
    return run([MESON, *arguments], log)


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
        show_tail(log)
        return False
    results.add(passed=1)
    return True


CMOCKA = {"passed": re.compile(r"\[  PASSED  \] (\d+) test"),
          "failed": re.compile(r"\[  FAILED  \] (\d+) test"),
          "skipped": re.compile(r"\[  SKIPPED \] (\d+) test")}
CMOCKA_NAME = re.compile(r"^\[  FAILED  \] (\w+)$", re.M)


def count_cmocka(results, stage, test):
    """One entry of meson's testlog.json: a cmocka binary counts as many as it has tests."""
    text = test.get("stdout", "") + "\n" + test.get("stderr", "")
    name = f"{stage}: {test['name'].split(' / ')[-1]}"
    counts = {k: sum(int(n) for n in r.findall(text)) for k, r in CMOCKA.items()}
    ok = test["result"] in ("OK", "EXPECTEDFAIL")
    if test["result"] == "SKIP":
        results.add(skipped=1)
    elif not any(counts.values()):
        if ok:
            results.add(passed=1)
        else:
            results.fail(name, test["result"])
    else:
        results.add(passed=counts["passed"], skipped=counts["skipped"])
        names = sorted(set(CMOCKA_NAME.findall(text)))
        for i in range(counts["failed"]):
            results.fail(name, names[i] if i < len(names) else "")
        if not ok and not counts["failed"]:  # a sanitizer's finding at exit, a crash, a timeout
            results.fail(name, test["result"])
    if not ok and test["result"] != "SKIP":
        for line in text.splitlines()[-30:]:
            print("    " + line, flush=True)


def meson_tests(results, stage, directory, suite=None):
    log = directory / "test-logs" / f"{stage}.txt"
    testlog = directory / "meson-logs" / "testlog.json"
    testlog.unlink(missing_ok=True)
    command = [MESON, "test", "-C", directory, "--print-errorlogs"]
    if suite:
        command += ["--suite", suite]
    status = run(command, log, env={"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0",
                                    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
                                    "TSAN_OPTIONS": "halt_on_error=1"})
    if not testlog.exists():
        if status == 0:  # meson says nothing where a suite is empty
            say(f"{stage}: no tests")
            return
        results.fail(stage, "did not run")
        show_tail(log)
        return
    for line in testlog.read_text().splitlines():
        count_cmocka(results, stage, json.loads(line))


def sanitized(results, stage, directory, sanitizers):
    log = ROOT / f"{directory}-setup.log"
    status = configure(directory, ["-Dtests=true", f"-Db_sanitize={sanitizers}",
                                   "-Db_lundef=false", "-Dbuildtype=debugoptimized",
                                   "-Dweb=disabled"], log)
    (directory / "test-logs").mkdir(parents=True, exist_ok=True)
    kept = log.replace(directory / "test-logs" / "setup.txt")
    if status != 0:
        results.fail(stage, "cannot be set up")
        show_tail(kept)
        return
    meson_tests(results, stage, directory, stage)


def layout(results, directory):
    log = directory / "test-logs" / "layout.txt"
    status = run([PYTHON, "tools/check_layout.py", "--build", directory], log)
    ran = 0
    for line in log.read_text(errors="replace").splitlines():
        if line.startswith("ok "):
            results.add(passed=1)
        elif line.startswith("skipped "):
            results.add(skipped=1)
        elif line.startswith("FAILED "):
            results.fail("layout", line[7:])
            print("    " + line, flush=True)
        else:
            continue
        ran += 1
    if ran == 0 or status not in (0, 1):
        results.fail("layout", "did not run")
        show_tail(log)


def web(results, directory):
    if not (directory / "web" / "heft.html").exists():
        say("web: the page is not built (no node, npm or registry)")
        results.add(skipped=1)
        return
    log = directory / "test-logs" / "web.txt"
    status = run(["node", "web/build_page.mjs", "check", directory / "web"], log, limit=300)
    lines = re.findall(r"^(not ok|ok)\b(?: \d+)? - (.*)$", log.read_text(errors="replace"), re.M)
    for outcome, name in lines:
        if outcome == "ok":
            results.add(passed=1)
        else:
            results.fail("web", name)
    if not lines or (status != 0 and all(outcome == "ok" for outcome, _ in lines)):
        results.fail("web", "did not run to its end")
    if status != 0:
        show_tail(log)


def pytest(results, stage, directory, limit):
    folder = ROOT / "tests" / stage
    if not list(folder.glob("test_*.py")):
        say(f"{stage}: no tests")
        return
    log = directory / "test-logs" / f"{stage}.txt"
    report = directory / "test-logs" / f"{stage}.xml"
    report.unlink(missing_ok=True)
    status = run([PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
                  folder],
                 log, limit=limit, env={"HEFT_BUILD": str(directory), "PYTHONDONTWRITEBYTECODE": "1"})
    if not report.exists():
        results.fail(stage, "ended without results")
        show_tail(log)
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
            results.add(skipped=1)
        else:
            results.add(passed=1)
    if cases == 0:
        results.fail(stage, "ended without results")
    if status is None:
        results.fail(stage, f"had to be ended after {limit} s; {cases} tests had run")
    if any(f.startswith(stage + ":") for f in results.failures):
        show_tail(log, 60)


STAGES = ("build", "unit", "memory", "race", "layout", "web", "cli", "integration", "fault", "browser")


def main():
    parser = argparse.ArgumentParser(description="run every test of heft")
    parser.add_argument("--only", default=",".join(STAGES))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    unknown = set(wanted) - set(STAGES)
    if unknown:
        parser.error(f"no stage {', '.join(sorted(unknown))}")
    directory = arguments.build.resolve()
    beside = directory.parent
    results = Results()
    steps = {
        "build": lambda: build(results, directory),
        "unit": lambda: meson_tests(results, "unit", directory),
        "memory": lambda: sanitized(results, "memory", beside / (directory.name + "-asan"),
                                    "address,undefined"),
        "race": lambda: sanitized(results, "race", beside / (directory.name + "-tsan"), "thread"),
        "layout": lambda: layout(results, directory),
        "web": lambda: web(results, directory),
        "cli": lambda: pytest(results, "cli", directory, 300),
        "integration": lambda: pytest(results, "integration", directory, 600),
        "fault": lambda: pytest(results, "fault", directory, 600),
        "browser": lambda: pytest(results, "browser", directory, 900),
    }
    for stage in STAGES:
        if stage not in wanted:
            continue
        before = Results()
        before.add(results.passed, results.failed, results.skipped)
        say(f"{stage} ...")
        steps[stage]()
        if stage == "build" and results.failed:
            break
        delta = Results()
        delta.add(results.passed - before.passed, results.failed - before.failed,
                  results.skipped - before.skipped)
        say(f"{stage}: {delta.line()}")
    if results.failures:
        print("\nfailed:")
        for failure in results.failures:
            print("  " + failure)
    print(results.line(), flush=True)
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
