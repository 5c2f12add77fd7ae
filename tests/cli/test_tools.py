"""The scripts around the build: what they say where a tool is missing, and what they do when it comes."""

import importlib.util
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import REPOSITORY, TIME_LIMIT

CONFIGURE = REPOSITORY / "tools" / "configure.sh"


def sh(*command, **env):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=TIME_LIMIT,
                          check=False, env={**os.environ, **{k: str(v) for k, v in env.items()}})


class FakeBuild:
    """A build directory as far as configure.sh looks at it, and a meson that notes its arguments."""

    def __init__(self, folder, page=False, web="auto"):
        self.folder = folder / "build"
        (self.folder / "meson-info").mkdir(parents=True)
        (self.folder / "web").mkdir()
        (self.folder / "build.ninja").write_text("build web/heft.html: CUSTOM\n" if page else "\n")
        (self.folder / "meson-info" / "intro-buildoptions.json").write_text(
            json.dumps([{"name": "tests", "value": True}, {"name": "web", "value": web}]))
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.calls = folder / "calls"
        self.calls.write_text("")
        self.add("meson", f'#!/bin/sh\necho "$*" >>{self.calls}\n')
        for tool in ("cat", "dirname", "grep", "tr", "pkg-config"):
            (self.bin / tool).symlink_to(shutil.which(tool))

    def add(self, tool, text="#!/bin/sh\n"):
        (self.bin / tool).write_text(text)
        (self.bin / tool).chmod(0o755)

    def configure(self, *arguments):
        done = sh("/bin/sh", CONFIGURE, self.folder, *arguments, PATH=self.bin, MESON=self.bin / "meson")
        assert done.returncode == 0, done.stderr
        return done.stdout


def test_a_page_that_is_there_needs_no_words(tmp_path):
    assert FakeBuild(tmp_path, page=True).configure("say") == ""


@pytest.mark.parametrize("there,lacking", [([], "node and npm"), (["node"], "npm"), (["npm"], "node")])
def test_no_page_without_node_or_npm(tmp_path, there, lacking):
    build = FakeBuild(tmp_path)
    for tool in there:
        build.add(tool)
    said = build.configure("say")
    assert f"heft is built WITHOUT ITS PAGE: no {lacking} here.\n" in said
    assert "apt-get install nodejs npm" in said


def test_no_page_because_the_user_said_so(tmp_path):
    said = FakeBuild(tmp_path, web="disabled").configure("say")
    assert "WITHOUT ITS PAGE" in said and "-Dweb=disabled" in said and "-Dweb=auto" in said


def test_no_page_because_of_npm(tmp_path):
    """The reason that build_page.mjs left is shown, and what to do."""
    build = FakeBuild(tmp_path)
    build.add("node")
    build.add("npm")
    (build.folder / "web" / "why_no_page.txt").write_text("npm cannot install: no way\n")
    said = build.configure("say")
    assert "WITHOUT ITS PAGE: npm cannot install: no way\n" in said and "make page" in said


def test_tools_that_come_set_the_build_up_again(tmp_path):
    build = FakeBuild(tmp_path)
    build.configure()
    assert build.calls.read_text() == f"setup --reconfigure {build.folder}\n"  # nothing was known of it
    build.configure()
    assert build.calls.read_text().count("\n") == 1
    build.add("npm")
    build.configure()
    assert build.calls.read_text().count(f"setup --reconfigure {build.folder}\n") == 2
    build.configure()
    assert build.calls.read_text().count("\n") == 2


def test_asking_again_for_a_page(tmp_path):
    """Only where there is none: the registry may be back."""
    without, there = FakeBuild(tmp_path / "a"), FakeBuild(tmp_path / "b", page=True)
    for build in (without, there):
        build.configure()
        build.configure("again")
    assert [b.calls.read_text().count("\n") for b in (without, there)] == [2, 1]


def test_npm_without_a_registry(tmp_path):
    """The page's packages cannot come: the reason is kept for whoever built it."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node or npm is not installed")
    done = sh("node", REPOSITORY / "web" / "build_page.mjs", "install", tmp_path / "web",
              npm_config_registry="http://127.0.0.1:9/", npm_config_cache=tmp_path / "cache")
    assert done.returncode == 1
    why = (tmp_path / "web" / "why_no_page.txt").read_text()
    assert why.startswith("npm cannot install the packages of web/package-lock.json: ")
    assert "ECONNREFUSED" in why and done.stderr == why


def test_setup_names_what_is_lacking(tmp_path):
    """Nothing is installed, as dpkg has it; a program from elsewhere will do, a library will not."""
    for tool in ("dirname", "grep"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    for tool in ("dpkg-query", "node"):
        (tmp_path / tool).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / tool).chmod(0o755)
    done = sh("/bin/sh", REPOSITORY / "tools" / "setup.sh", "lacking", PATH=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for package in ("gcc", "libmimalloc-dev", "npm", "chromium", "valgrind", "heaptrack"):
        assert f"the Debian package {package} is not installed (make setup installs it)" in lines
    assert not any(" nodejs " in line for line in lines)


@pytest.fixture
def results():
    spec = importlib.util.spec_from_file_location("run_tests", REPOSITORY / "tools" / "run_tests.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Results()


@pytest.mark.parametrize("reason", ["no chromium", "valgrind is not installed", "libjemalloc.so.2 is not installed",
                                    "the page is not built (no npm)", "no reason given", "no tmux",
                                    "/root/heft/build cannot be read by every user"])
def test_a_skip_for_want_of_what_is_required_is_a_failure(results, reason):
    results.skip("stage: a test", reason)
    assert results.line() == "0 passed, 1 failed"
    assert results.failures == [f"stage: a test: skipped, though what it needs is required: {reason}"]


@pytest.mark.parametrize("reason", ["rustc is not installed", "not installed: cargo", "mounting is not allowed here",
                                    "only root can become someone else", "promtool is not installed"])
def test_a_skip_for_want_of_what_is_optional_is_counted(results, reason):
    results.skip("stage: a test", reason)
    assert (results.line(), results.reasons) == ("0 passed, 0 failed, 1 skipped", {reason: ["stage: a test"]})


def test_fuzz_targets_are_listed_and_have_a_corpus():
    """make fuzz begins with the corpus that the tests run; docs/fuzzing.md says what each target reads."""
    described = (REPOSITORY / "tests" / "fuzz" / "meson.build").read_text()
    targets = re.findall(r"^  \['(\w+)',\s*\[[^]]*\],\s*'(\w+)'", described, re.M)
    assert len(targets) == len(list((REPOSITORY / "tests" / "fuzz").glob("fuzz_*.c"))) > 20
    table = (REPOSITORY / "docs" / "fuzzing.md").read_text().split("## The targets")[1].split("## Hours")[0]
    script = (REPOSITORY / "tools" / "fuzz.sh").read_text()
    for target, corpus in targets:
        assert f"`{target}`" in table, target
        assert any((REPOSITORY / "tests" / "fuzz" / "corpus" / corpus).iterdir()), corpus
        assert target == corpus or f"{target}) seeds=tests/fuzz/corpus/{corpus} ;;" in script, target
