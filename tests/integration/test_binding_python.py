"""The Python module and its pytest plugin: without heft, with a library in heft's place that writes down each call, and with
heft."""

import re
import sys

import pytest

from harness import COUNTING, HEFT, PROGRAMS, REPOSITORY, example, line_of, run

MODULE = REPOSITORY / "bindings/python"
PYTHON = {"PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONIOENCODING": "utf-8", "LC_ALL": "C.UTF-8"}


def python(*words, **env):
    return run([sys.executable, *words], env={**PYTHON, **{name: str(value) for name, value in env.items()}})


def lines(words):
    return words.decode().splitlines()


def test_without_heft():
    done = python("-W", "error::UserWarning:nowhere", PROGRAMS / "binding_calls.py")
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == ["<Mode.NOT_RUNNING: 0> None None", "None", "True", "False False", "False", "False",
                                  "A limited Its words", "38 38 38", "False 38", "38"]  # ENOSYS
    assert b"NotCounting: heft does not count in this process" in done.stderr and done.stderr.count(b"NotCounting") == 1


def test_each_call(heft_stand_in):
    done = python(PROGRAMS / "binding_calls.py", LD_PRELOAD=heft_stand_in)
    assert done.returncode == 0, done.stderr
    numbers = "Stats(allocations=1, reallocations=2, frees=3, allocated_bytes=4, freed_bytes=5, live_bytes=-6, " \
              "live_blocks=-7, peak_bytes=8)"
    le, eq = (line_of("binding_calls.py", marker) for marker in ("le", "eq"))
    assert lines(done.stdout) == [
        f"<Mode.COUNTING: 3> {numbers} {numbers}", numbers, "True", "True True",
        f"binding_calls.py:{le}: peak_bytes of region 1 is 8, expected at most 7",
        f"binding_calls.py:{eq}: live_blocks of region 1 is -7, expected 0",
        "A limited Its words", "None None None", "True b'profile'", "profileNone"]
    assert lines(done.stderr) == [
        "stats_get 0", "stats_get 1", "begin 0 0 -", "begin 1 1 part", "change 1", "end 1", "end 0", "begin 2 1 limited",
        "end 2", "mark hier: äöü", "event retry 5", "event retry 1", "start", "stop", "dump /x/y"]


def test_a_library_keeps_its_own_function(compiled, tmp_path):
    """A library in C expects something, too: what happens then does not depend on whether Python has expected before."""
    source = tmp_path / "own.c"
    source.write_text(r"""
#include <heft.h>
#include <unistd.h>
static void say(const char *message)
{
	if (write(1, message, 5) != 5)
		_exit(3);
}
void install(void) { heft_on_failure(say); }
int expects(void)
{
	struct heft_region r;
	heft_region_begin(&r, HEFT_THREAD);
	return HEFT_EXPECT_LE(&r, allocations, -1);
}
""")
    library = compiled(source, output="own.so", flags=["-shared", "-fPIC", "-I", REPOSITORY / "include"])
    script = tmp_path / "own.py"
    script.write_text(f"import ctypes, sys, heft\nown = ctypes.CDLL('{library}')\nif sys.argv[1:]: own.install()\n"
                      "with heft.region() as r: pass\n"
                      "try: r.expect_le(allocations=-1)\n"
                      "except AssertionError as e: print(str(e).split(': ')[2], flush=True)\n"
                      "print(own.expects(), flush=True)\n")
    words = "allocations is 0, expected at most -1\n  (heft run records call sites and names them here)"
    done = run([HEFT, "run", "-q", "--count", "--", sys.executable, script, "own"], env=PYTHON)
    assert (done.returncode, done.stdout.decode()) == (0, f"{words}\nheft:0\n"), done.stderr
    done = run([HEFT, "run", "-q", "--count", "--", sys.executable, script], env=PYTHON)
    assert (done.returncode, done.stdout.decode()) == (134, f"{words}\n"), done.stderr
    assert b"own.c:14: allocations is 0, expected at most -1" in done.stderr


def test_names_that_are_no_utf_8(heft_stand_in):
    """As os.fsdecode makes them of files' names."""
    done = python("-c", "import heft\nheft.mark('a\\udcff')\nheft.event('b\\udcff')\nwith heft.region(name='c\\udcff'): pass",
                  LD_PRELOAD=heft_stand_in)
    assert done.returncode == 0, done.stderr
    assert lines(done.stderr) == ["mark a?", "event b? 1", "begin 0 0 c?", "end 0"]


def test_a_region_that_cannot_begin(heft_stand_in):
    """12: ENOMEM. Others than that nobody counts are errors."""
    done = python("-c", "import heft\nwith heft.region() as r: pass", LD_PRELOAD=heft_stand_in, STAND_IN_ERRNO=12)
    assert done.returncode == 1 and b"OSError: [Errno 12] Cannot allocate memory" in done.stderr, done.stderr
    assert b"end" not in done.stderr


SIZES = [("0", 0), ("17", 17), (20_000_000, 20_000_000), ("20 MB", 20 << 20), ("20M", 20 << 20), ("512k", 512 << 10),
         ("512 KiB", 512 << 10), ("1.5 G", 3 << 29), ("2gb", 2 << 30), ("1T", 1 << 40), ("10 B", 10), ("a lot", None),
         ("", None), ("-1", None), ("20 MM", None)]


@pytest.mark.parametrize("words,size", SIZES)
def test_sizes(monkeypatch, words, size):
    monkeypatch.syspath_prepend(str(MODULE))
    from heft import parse_size
    if size is None:
        with pytest.raises(ValueError, match="is not a size"):
            parse_size(words)
    else:
        assert parse_size(words) == size


def test_wrong_words():
    for code in ("heft.limit()", "heft.limit(peak='a lot')", "heft.limit(bytes=3)"):
        assert re.search(rb"(Type|Value)Error: ", python("-c", "import heft; " + code).stderr), code


TESTS = '''
import unittest
import asyncio
import pytest
import heft

kept = []

@pytest.fixture
def table():
    return bytes(40_000_000)

@pytest.mark.heft_limit("20 MB")
def test_fits(table):
    assert len(bytes(20_000_000)) == 20_000_000      # less than 20 MB = 20,971,520

@pytest.mark.heft_limit("20 MB")
@pytest.mark.parametrize("size", [30_000_000])
def test_is_over(table, size):
    bytes(size)                                      # @over

@heft.limit("20 MB")
def test_is_over_by_the_decorator(table):
    bytes(30_000_000)

@heft.limit(live_bytes="1 MB")
def test_keeps():
    kept.append(bytes(2_000_000))

@heft.limit("20 MB")
@pytest.mark.skip
def test_is_skipped(): pass

@heft.limit("20 MB")
def test_fails_by_itself():
    bytes(30_000_000)
    assert 1 == 2

@pytest.mark.heft_limit("20 MB")
class TestClass:
    def test_method(self):
        bytes(30_000_000)

    @pytest.mark.heft_limit("40 MB")
    def test_other_limit(self):
        bytes(30_000_000)

class TestOfUnittest(unittest.TestCase):
    @pytest.mark.heft_limit("20 MB")
    def test_case(self):
        bytes(30_000_000)

@heft.limit("20 MB")
async def grow():
    block = bytes(30_000_000)
    await asyncio.sleep(0)

def test_async():
    asyncio.run(grow())

def test_without_limit():
    bytes(30_000_000)
'''
OVER = {"test_is_over", "test_is_over_by_the_decorator", "test_keeps", "test_method", "test_case", "test_async"}


def run_tests(folder, *options, before=(), **env):
    (folder / "test_limits.py").write_text(TESTS)
    done = run([*before, sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "-p", "heft.pytest_plugin",
                "--strict-markers", "--rootdir", folder, *options, folder / "test_limits.py"],
               env={**PYTHON, **{name: str(value) for name, value in env.items()}})
    text = done.stdout.decode()
    outcomes = {outcome: {re.sub(r"\[.*", "", test) for test in re.findall(rf"^{outcome} \S*::(\S+)", text, re.M)}
                for outcome in ("PASSED", "FAILED")}
    return outcomes, text


def test_limits_without_heft(tmp_path):
    """Tests with limits run as others do, and pytest's list of warnings names them."""
    outcomes, text = run_tests(tmp_path)
    assert outcomes["FAILED"] == {"test_fails_by_itself"}
    assert outcomes["PASSED"] == OVER | {"test_fits", "test_other_limit", "test_without_limit"}
    assert "NotCounting: heft does not count in this process, so this limit was not checked" in text
    assert set(re.findall(r"^test_limits\.py::(?:\w+::)?(\w+)", text, re.M)) >= OVER | {"test_fits", "test_other_limit"}
    assert "test_without_limit" not in text[text.index("warnings summary"):text.index("Docs:")]


def test_limits_that_must_be_checked(tmp_path):
    outcomes, _ = run_tests(tmp_path, "-W", "error::heft.NotCounting")
    assert outcomes["FAILED"] == OVER | {"test_fits", "test_other_limit", "test_fails_by_itself"}


def test_limits_with_a_stand_in(tmp_path, heft_stand_in):
    """A peak of 8 bytes is below each limit, and so are live bytes of -6."""
    outcomes, text = run_tests(tmp_path, LD_PRELOAD=heft_stand_in)
    assert outcomes["FAILED"] == {"test_fails_by_itself"} and "NotCounting" not in text


def under_heft(how, folder):
    return [HEFT, "run", "-q", *(["--count"] if how == "count" else ["-o", folder / "x.heft"]), "--"]


@pytest.mark.parametrize("how", ["count", "exact"])
def test_limits(tmp_path, how):
    """The header says what counts, and a test over its limit says how much it took: 30,000,000 bytes, and 33 of the object."""
    outcomes, text = run_tests(tmp_path, before=under_heft(how, tmp_path))
    assert outcomes["FAILED"] == OVER | {"test_fails_by_itself"}, text
    assert outcomes["PASSED"] == {"test_fits", "test_other_limit", "test_without_limit"}
    assert "heft: counts objects over 512 bytes (PYTHONMALLOC=malloc: all)" in text and "NotCounting" not in text
    message = re.search(r"^heft: \S*/test_limits\.py:(\d+): region test_is_over: peak_bytes is ([\d,]+), "
                        r"expected at most 20,971,520$", text, re.M)
    line = TESTS[:TESTS.index("@pytest.mark.heft_limit(\"20 MB\")\n@pytest.mark.parametrize")].count("\n") + 1
    assert int(message[1]) == line
    assert 30_000_033 <= int(message[2].replace(",", "")) < 30_200_000
    if how == "exact":  # and where: 30,000,033 bytes are 28.6 MiB
        assert re.match(r"(\n +[\d.]+ \w+  \S.*)*\n +28\.6 MiB  \S", text[message.end():]), text


COUNTS = """
import threading
import heft

with heft.region(heft.THREAD, "warm") as r:  # the interpreter's own work for the first time
    r.change()
with heft.region(heft.THREAD, "nothing") as r:
    pass
nothing = r.change()
with heft.region(heft.THREAD, "block") as r:
    kept = bytes(5_000_000)
block = r.change()
other = threading.Thread(target=lambda: bytes(7_000_000))
with heft.region(heft.THREAD) as mine, heft.region() as all:
    other.start()
    other.join()
print(int(heft.running()), block.allocations - nothing.allocations, block.allocated_bytes - nothing.allocated_bytes,
      mine.change().peak_bytes < 1_000_000 < all.change().peak_bytes)
del kept
print(heft.stats().allocations > block.allocations)
"""


@pytest.mark.parametrize("malloc", ["pymalloc", "malloc"])
@pytest.mark.parametrize("how", ["count", "exact"])
def test_counts(tmp_path, how, malloc):
    """A bytes object of 5,000,000 is one block with 33 more: its header and a zero."""
    done = run([*under_heft(how, tmp_path), sys.executable, "-c", COUNTS], env={**PYTHON, "PYTHONMALLOC": malloc})
    mode = 1 if how == "exact" else 3
    assert lines(done.stdout) == [f"{mode} 1 5000033 True", "True"], done


def test_the_example_of_the_page():
    """5,000,001 bytes of the bytearray, and what the interpreter takes meanwhile."""
    text = example("bindings.md", "python", "with heft.region()")
    assert lines(python("-c", text).stdout) == []
    peak, = lines(python("-c", text, **COUNTING).stdout)
    assert 5_000_001 <= int(peak) < 5_100_000
    done = python("-c", text.replace("6 << 20", "3 << 20"), **COUNTING)
    assert re.search(rb"AssertionError: heft: <string>:7: peak_bytes is 5,0\d\d,\d\d\d, expected at most 3,145,728",
                     done.stderr)
