"""Chromium for tests: Debian's chromium, driven by playwright-core (npm) through page_driver.js.
What is missing (no chromium, no node, no registry to install from) is a reason to skip."""

import atexit
import json
import os
import pathlib
import shutil
import subprocess

import pytest

import harness

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = harness.BUILD / "node-packages"
failures = {}  # by package: asked once a session
# The newest that run on Debian 12's Node 18: playwright-core asks for 20 from 1.62 on.
VERSIONS = {"playwright-core": "1.61.1", "speedscope": "1.25.0", "axe-core": "4.14.0"}


def installed_version(folder):
    try:
        return json.loads((folder / "package.json").read_text())["version"]
    except (OSError, ValueError):
        return None


def node_package(name):
    """The folder that holds node_modules with the package in it, installed once a build."""
    for tool in ("node", "npm"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool}")
    folder = PACKAGES / name
    if name in failures:
        pytest.skip(failures[name])
    if installed_version(folder / "node_modules" / name) != VERSIONS[name]:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-save",
                                   "--ignore-scripts", "--fetch-retries=1", "--fetch-timeout=20000",
                                   "--prefix", folder,
                                   f"{name}@{VERSIONS[name]}"],
                                  cwd=folder, capture_output=True, text=True, timeout=120)
            lines = [line for line in done.stderr.splitlines() if "npm warn" not in line]
            failed = done.returncode != 0 and " ".join(lines[:2])
        except subprocess.TimeoutExpired:
            failed = "no answer"
        if failed:
            failures[name] = f"npm cannot install {name}: {failed}"
            pytest.skip(failures[name])
    return folder / "node_modules"


open_pages = []


def leave(address):
    """Takes every page away from a server that is about to end: what a page still asks for then is
    no fault of the page."""
    for page in open_pages:
        if page.evaluate("location.href").startswith(address):
            page.goto("about:blank")


class Driver:
    """The process of page_driver.js: one for all tests, because Chromium takes seconds to start."""
    running = None

    def __init__(self):
        self.process = subprocess.Popen(
            ["node", HERE / "page_driver.js"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True,
            preexec_fn=harness.keep_orphans,  # Chromium's helpers for crashes are nobody's children
            env={**os.environ, "HEFT_NODE_MODULES": str(node_package("playwright-core"))})
        harness.kept_children.add(self.process.pid)
        self.last = 0  # number of a page

    @classmethod
    def get(cls):
        if cls.running is None:
            cls.running = Driver()
        return cls.running

    def ask(self, number, name, *values):
        try:
            self.process.stdin.write(json.dumps([number, name, *values]) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.end()
            pytest.fail(f"{name}: Chromium's driver is gone")
        answer = json.loads(line)
        assert "error" not in answer, f"{name}{values}: {answer['error']}"
        return answer.get("value")

    def end(self):
        if Driver.running is self:
            Driver.running = None
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        harness.kept_children.discard(self.process.pid)


@atexit.register
def end_driver():
    if Driver.running:
        Driver.running.end()


class Page:
    def __init__(self, width=1440, height=900, scheme="light", flags=()):
        chromium = shutil.which("chromium") or shutil.which("chromium-browser")
        if not chromium:
            pytest.skip("no chromium")
        self.driver = Driver.get()
        self.driver.last += 1
        self.number = self.driver.last
        self.driver.ask(self.number, "open", {"chromium": chromium, "width": width, "height": height,
                                              "scheme": scheme, "flags": list(flags)})
        open_pages.append(self)

    def __getattr__(self, name):
        """page.press("Enter"): the commands of page_driver.js."""
        def call(*values):
            return self.driver.ask(self.number, name, *map(self.plain, values))
        return call

    @staticmethod
    def plain(value):
        return str(value) if isinstance(value, pathlib.Path) else value

    def close(self):
        if self in open_pages:
            open_pages.remove(self)
        if self.driver is Driver.running:
            self.driver.ask(self.number, "close")
