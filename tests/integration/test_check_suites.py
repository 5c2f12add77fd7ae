"""heft check as docs/budgets.md puts it into test suites: the recipes are taken from there and run, with a baseline that is made,
kept, and broken. Each suite passes, then fails with the site that has grown, and its program's own failure stays one."""

import os
import pathlib
import re
import shutil
import xml.etree.ElementTree

import pytest

from harness import BUILD, GO, GO_CACHE, REPOSITORY, run

DOCUMENT = (REPOSITORY / "docs" / "budgets.md").read_text()
CARGO = shutil.which("cargo") or str(pathlib.Path.home() / ".cargo" / "bin" / "cargo")
needs_cargo = pytest.mark.skipif(not os.path.exists(CARGO), reason="cargo is not installed")
needs_go = pytest.mark.skipif(not os.path.exists(GO), reason="go is not installed")
needs_cmake = pytest.mark.skipif(not shutil.which("ctest"), reason="CMake is not installed")

# N bytes in 100 blocks; a number below 100 is the exit status.
QUEUE = r"""
#include <stdlib.h>
#include <string.h>
__attribute__((noinline, noipa)) static char *send_message(size_t n) { return memset(malloc(n), 1, n); }
int main(int argc, char **argv)
{
	static char *m[100];
	int n = argc > 1 ? atoi(argv[1]) : SIZE;
	if (n < 100)
		return n;
	for (int i = 0; i < 100; i++)
		m[i] = send_message((size_t)n);
	for (int i = 0; i < 100; i++)
		free(m[i]);
	return 0;
}
"""


def recipe(title, language):
    """The first code block of this language below "### title"."""
    section = DOCUMENT[DOCUMENT.index(f"\n### {title}\n"):]
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", section, re.S | re.M)
    return next(text for name, text in blocks if name == language)


@pytest.fixture
def suite(tmp_path):
    """Runs a command in the suite's folder, with heft in the PATH and baselines renewed or not."""
    (tmp_path / "baselines").mkdir()
    (tmp_path / "heft.budget").write_text("peak_bytes <= baseline + 5 %\nallocations in send_* <= baseline\n")

    def call(*command, renew=False, **variables):
        env = {"PATH": f"{BUILD}:{os.path.dirname(CARGO)}:{os.path.dirname(GO)}:{os.environ['PATH']}",
               "HEFT_UPDATE_BASELINE": "1" if renew else None, "GITHUB_ACTIONS": "true",
               "GITHUB_WORKSPACE": str(tmp_path), **variables}
        for name in "RUSTUP_HOME", "CARGO_HOME", "GOPATH":
            env.setdefault(name, os.environ.get(name))
        env.update(GOCACHE=GO_CACHE, CGO_ENABLED="1", GOFLAGS="-mod=mod")
        done = run(command, cwd=tmp_path, env=env, timeout=300)
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")
    return call


def baselines(folder):
    return sorted(p.name for p in (folder / "baselines").iterdir())


def cases(path):
    root = xml.etree.ElementTree.parse(path).getroot()
    return [(case.get("name"), [child.tag for child in case]) for case in root.iter("testcase")]


RULE = "peak_bytes <= baseline + 5 %"
BROKEN = [(RULE, ["failure"]), ("allocations in send_* <= baseline", [])]


@needs_cmake
def test_ctest(suite, tmp_path):
    (tmp_path / "queue.c").write_text(QUEUE)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(queue C)\nset(CMAKE_BUILD_TYPE Debug)\nenable_testing()\n"
        "add_executable(queue_test queue.c)\ntarget_compile_definitions(queue_test PRIVATE SIZE=200)\n"
        + recipe("CTest", "cmake") + "add_memory_test(skips $<TARGET_FILE:queue_test> 77)\n"
        "add_memory_test(fails $<TARGET_FILE:queue_test> 3)\n")
    assert suite("cmake", "-B", "build")[0] == 0
    status, words = suite("cmake", "--build", "build")
    assert status == 0, words
    test = ["cmake", "-E", "chdir", "build", "ctest", "-j3", "--output-on-failure"]
    status, words = suite(*test, renew=True)
    assert status != 0 and baselines(tmp_path) == ["queue.baseline"], words
    assert re.search(r"queue\.memory \.+ +Passed", words) and re.search(r"skips\.memory \.+\*+Skipped", words), words
    assert "queue_test failed with exit status 3; the budget was not checked" in words
    status, words = suite(*test, "-E", "fails|skips")
    assert status == 0 and "100% tests passed" in words, words
    (tmp_path / "queue.c").write_text(QUEUE.replace("? atoi(argv[1])", "? 2 * atoi(argv[1])"))
    assert suite("cmake", "--build", "build")[0] == 0
    status, words = suite(*test, "-R", "queue")
    assert status != 0
    assert f"\n::error file=queue.c,line=4,title=heft%3A over budget::{RULE}25: measured 39.1 KiB, " in words, words
    assert cases(tmp_path / "build" / "memory-queue.xml") == BROKEN


def test_meson(suite, tmp_path):
    (tmp_path / "queue.c").write_text(QUEUE)
    (tmp_path / "meson.build").write_text(
        "project('queue', 'c', default_options: ['buildtype=debug'])\n"
        "foreach size : ['200', '300']\n"
        "  test('queue_' + size, executable('queue_' + size, 'queue.c', c_args: '-DSIZE=' + size))\n"
        "endforeach\n" + recipe("Meson", "meson"))
    assert suite("meson", "setup", "build")[0] == 0
    test = ["meson", "test", "-C", "build", "--setup", "memory", "--print-errorlogs"]
    status, words = suite(*test, renew=True)
    assert status == 0, words
    assert baselines(tmp_path) == ["queue_200.baseline", "queue_300.baseline"]
    status, words = suite(*test)
    assert status == 0 and re.search(r"Ok: +2 *\n", words), words
    (tmp_path / "queue.c").write_text(QUEUE.replace(": SIZE", ": SIZE == 200 ? 400 : SIZE"))
    status, words = suite(*test)
    assert status != 0 and re.search(r"Ok: +1 *\n", words), words
    assert f"::error file=queue.c,line=4,title=heft%3A over budget::{RULE}25: measured 39.1 KiB, " in words, words
    assert cases(tmp_path / "build" / "memory-queue_200.xml") == BROKEN
    assert [tags for _, tags in cases(tmp_path / "build" / "memory-queue_300.xml")] == [[], []]
    (tmp_path / "plain.budget").write_text("peak_bytes <= 35k\n")
    status, words = suite("meson", "test", "-C", "build", f"--wrap=heft check --budget {tmp_path}/plain.budget --")
    assert status != 0 and re.search(r"Ok: +1 *\n", words), words


@needs_cargo
def test_cargo(suite, tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / ".cargo").mkdir()
    (tmp_path / "Cargo.toml").write_text('[package]\nname = "mycrate"\nversion = "0.1.0"\nedition = "2021"\n')
    (tmp_path / ".cargo" / "config.toml").write_text(recipe("cargo test", "toml"))
    (tmp_path / "heft.budget").write_text(recipe("cargo test", ""))
    library = "pub mod table {\n    pub fn rows(n: usize) -> Vec<String> {\n" \
              "        (0..n).map(|i| \"x\".repeat(100 + i % 2)).collect()\n    }\n}\n" \
              "#[cfg(test)]\nmod tests {\n    #[test]\n    fn unit() { assert_eq!(super::table::rows(10).len(), 10); }\n}\n"
    (tmp_path / "src" / "lib.rs").write_text(library)
    (tmp_path / "tests" / "table.rs").write_text(
        "#[test]\nfn thousand() { assert_eq!(mycrate::table::rows(1000).len(), 1000); }\n"
        "#[test]\nfn bad() { assert!(std::env::var(\"BAD\").is_err()); }\n")
    status, words = suite(CARGO, "test", "--offline", renew=True)
    assert status == 0, words
    assert {"mycrate.baseline", "table.baseline"} <= set(baselines(tmp_path))
    status, words = suite(CARGO, "test", "--offline")
    assert status == 0 and words.count("within budget") >= 2, words
    status, words = suite(CARGO, "test", "--offline", BAD="1")
    assert status != 0 and "the budget was not checked" in words, words
    (tmp_path / "src" / "lib.rs").write_text(library.replace("100 + i % 2", "200 + i % 2"))  # another hash
    status, words = suite(CARGO, "test", "--offline", "--test", "table")
    assert status != 0, words
    assert "::error file=src/lib.rs,line=3,title=heft%3A over budget::allocated_bytes in mycrate::table::* <= " \
           "baseline" in words


def test_pytest(suite, tmp_path):
    command = recipe("pytest", "sh").replace("python3", "/usr/bin/python3")
    (tmp_path / "heft.budget").write_text("allocations <= baseline + 10 %\n")
    test = "def test_rows():\n    rows = [{'row': i} for i in range(%d)]\n    assert len(rows) == %s\n"
    (tmp_path / "test_rows.py").write_text(test % (20000, 20000))
    for _ in range(2):
        status, words = suite("sh", "-c", command, renew=True)
        assert status == 0, words
    status, words = suite("sh", "-c", command)
    assert status == 0 and "1 passed" in words and "within budget" in words, words
    (tmp_path / "test_rows.py").write_text(test % (90000, 90000))
    status, words = suite("sh", "-c", command)
    assert status == 1 and "1 passed" in words and "over budget: 1 of 1 rule" in words, words
    (tmp_path / "test_rows.py").write_text(test % (1, 2))
    status, words = suite("sh", "-c", command)
    assert status == 1 and "1 failed" in words and "the budget was not checked" in words, words


@needs_go
def test_go(suite, tmp_path):
    (tmp_path / "go.mod").write_text("module example.com/rows\n\ngo 1.19\n")
    source = 'package rows\n\n// #include <stdlib.h>\nimport "C"\n\nfunc Copy() { C.free(C.malloc(1000)) }\n'
    (tmp_path / "rows.go").write_text(source)
    test = 'package rows\n\nimport "testing"\n\nfunc TestCopy(t *testing.T) {\n\tfor i := 0; i < %d; i++ {\n\t\tCopy()\n\t}\n}\n'
    (tmp_path / "rows_test.go").write_text(test % 100)
    (tmp_path / "heft.budget").write_text(recipe("go test with cgo", ""))
    command = ["sh", "-c", recipe("go test with cgo", "sh").replace("./...", "-v -count=1 ./...")]
    status, words = suite(*command, renew=True)
    assert status == 0 and "rows.test.baseline: a first baseline" in words, words
    assert "allocations in example.com/rows.* == 100\n" in (tmp_path / "rows.test.baseline").read_text()
    status, words = suite(*command)
    assert status == 0 and "within budget: all 2 rules" in words, words
    (tmp_path / "rows_test.go").write_text(test % 103)
    status, words = suite(*command)
    assert status != 0 and re.search(r"allocations in example\.com/rows\.\* <= baseline +100 +103 +\+3 \(\+3\.0 %\)", words), words
    (tmp_path / "rows_test.go").write_text((test % 1).replace("Copy()\n", 't.Fatal("no")\n'))
    status, words = suite(*command)
    assert status != 0 and "the budget was not checked" in words, words
