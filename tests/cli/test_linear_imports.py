"""Files of other tools that ask for work beyond their size: deep stacks with a site on each frame, thousands of modules,
one long name that everything has. Twice the file may cost at most about twice the instructions, which valgrind counts:
time on a busy machine says nothing."""

import json
import os
import re
import shutil

import pytest

from harness import HEFT, run
from protobuf_bytes import field, varint

MOST = 2.3  # times the instructions for twice the file: what is linear has 2.0, what is quadratic up to 4
N = 1000

needs_valgrind = pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed")


def heaptrack(lines):
    return "v 10400 3\nX prog\n" + "\n".join(lines) + "\n"


def text(string):
    return f"s {len(string):x} {string}"


def deep(name, n):
    """A stack of n frames with a site on each of them."""
    lines = [text("/a/b"), text(name), "i 1 1 2"]
    for i in range(n):
        lines += [f"t 1 {i:x}", f"a 10 {i + 1:x}", f"+ {i:x}"]
    return heaptrack(lines)


def deep_allocator(n):
    return deep("malloc", n)


def deep_runtime(n):
    return deep("std::allocator<int>::allocate", n)


def chain(n):
    """Each of n functions calls the next one, and allocates: from the allocations up nothing is in common."""
    lines = [text("/a/b")] + [text(f"f{i}") for i in range(n)] + [f"i {i + 1:x} 1 {i + 2:x}" for i in range(n)]
    for i in range(n):
        lines += [f"t {i + 1:x} {i:x}", f"a 10 {i + 1:x}", f"+ {i:x}"]
    return heaptrack(lines)


def long_name(n):
    """A name as long as the rest of the file, and n instructions in the function of that name."""
    lines = [text("/a/b"), text("x" * 30 * n)]
    for i in range(n):
        lines += [f"i {i + 1:x} 1 2", f"t {i + 1:x} 0", f"a 10 {i + 1:x}", f"+ {i:x}"]
    return heaptrack(lines)


def many_modules(n):
    lines = [text("f")]
    for i in range(n):
        lines += [text(f"/m{i}"), f"i {i + 1:x} {i + 2:x} 1", f"t {i + 1:x} 0", f"a 10 {i + 1:x}", f"+ {i:x}"]
    return heaptrack(lines)


def many_mappings(n):
    """A raw file: every address is in another module."""
    lines = ["v 10400 3", "x 2 /p"]
    lines += [f"m {len(f'/m{i}'):x} /m{i} {(i + 1) << 16:x} 0 1000" for i in range(n)]
    for i in range(n):
        lines += [f"t {((i + 1) << 16) + 5:x} 0", f"+ 10 {i + 1:x} {64 * i + 64:x}"]
    return "\n".join(lines) + "\n"


def dhat(frames, points):
    numbers = dict(tb=10, tbk=1, tl=5, mb=10, mbk=1, gb=10, gbk=1, eb=0, ebk=0)
    return json.dumps({"dhatFileVersion": 2, "mode": "heap", "verb": "Allocated", "bklt": True, "bkacc": False,
                       "tu": "instrs", "Mtu": "Minstr", "tuth": 500, "cmd": "a", "pid": 1, "te": 100, "tg": 50,
                       "pps": [dict(numbers, fs=fs) for fs in points], "ftbl": ["[root]", *frames]})


def dhat_modules(n):
    return dhat([f"0x{i + 1:x}: f (in /m{i})" for i in range(n)], [[i + 1] for i in range(n)])


def jemalloc_modules(n):
    lines = ["heap_v2/524288", "  t*: 1: 1 [0: 0]"]
    for i in range(n):
        lines += [f"@ 0x{((i + 1) << 16) + 5:x}", "  t*: 1: 10 [0: 0]"]
    lines += ["", "MAPPED_LIBRARIES:"]
    lines += [f"{(i + 1) << 16:x}-{((i + 1) << 16) + 4096:x} r-xp 00000000 fe:00 {i + 1} /m{i}" for i in range(n)]
    return "\n".join(lines) + "\n"


def jemalloc_threads(n):
    lines = ["heap_v2/524288", "  t*: 1: 1 [0: 0]"]
    lines += [f"  t{i}: 1: 10 [0: 0] name{i}" for i in range(n)]
    return "\n".join([*lines, "@ 0x5", "  t*: 1: 10 [0: 0]", "", "MAPPED_LIBRARIES:"]) + "\n"


def pprof(messages, strings):
    names = [b"", b"inuse_objects", b"count", b"inuse_space", b"bytes", *strings]
    types = [field(1, field(1, 1) + field(2, 2)), field(1, field(1, 3) + field(2, 4))]
    return b"".join([*types, *messages, *(field(6, name) for name in names)])


def pprof_long_name(n):
    """One function with a name as long as the rest of the file, and n lines of it."""
    messages = [field(5, field(1, 1) + field(2, 5))]
    for i in range(1, n + 1):
        messages.append(field(4, field(1, i) + field(4, field(1, 1) + field(2, i))))
        messages.append(field(2, field(1, varint(i)) + field(2, varint(1) + varint(10))))
    return pprof(messages, [b"x" * 30 * n])


def pprof_modules(n):
    """n builds of one library."""
    messages, names = [], [b"/m"]
    for i in range(1, n + 1):
        names.append(b"%040x" % i)
        mapping = field(1, i) + field(2, i << 16) + field(3, (i << 16) + 4096) + field(5, 5) + field(6, 5 + i)
        messages.append(field(3, mapping))
        messages.append(field(4, field(1, i) + field(2, i) + field(3, (i << 16) + 5)))
        messages.append(field(2, field(1, varint(i)) + field(2, varint(1) + varint(10))))
    return pprof(messages, names)


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def instructions(tmp_path, content, command=("report",)):
    path = tmp_path / "file"
    write(path, content)
    done = run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp_path / 'callgrind'}", HEFT, *command, path],
               timeout=300, env=dict(os.environ, HOME=str(tmp_path)))
    assert done.returncode == 0, done.stderr
    return int(re.search(rb"Collected : (\d+)", done.stderr)[1])


SMALL = {many_mappings: 4, jemalloc_modules: 4, pprof_modules: 4}  # what is quadratic there has a small part in small files


@needs_valgrind
@pytest.mark.parametrize("shape", [deep_allocator, deep_runtime, long_name, many_modules, many_mappings, dhat_modules,
                                   jemalloc_modules, jemalloc_threads, pprof_long_name, pprof_modules], ids=lambda f: f.__name__)
def test_twice_the_file_costs_twice(tmp_path, shape):
    start = instructions(tmp_path, shape(1))
    n = SMALL.get(shape, 1) * N
    once, twice = (instructions(tmp_path, shape(size)) - start for size in (n, 2 * n))
    assert twice < MOST * once, (start, once, twice)


@needs_valgrind
@pytest.mark.parametrize("shape", [chain, deep_allocator, deep_runtime], ids=lambda f: f.__name__)
def test_from_the_allocations_up_twice_the_file_costs_twice(tmp_path, shape):
    """A chain of 10,000 calls took 15 s and 2 GB: 50 million nodes, of which none is large enough to be shown."""
    start, once, twice = (instructions(tmp_path, shape(size), ("report", "--invert")) for size in (1, N, 2 * N))
    assert twice - start < MOST * (once - start), (start, once, twice)


def test_from_the_allocations_up_what_is_small_is_counted(tmp_path):
    """Of 300 functions in a chain each has a third of 1 %; the one that all of them call has everything."""
    n = 300
    path = tmp_path / "file"
    write(path, chain(n))
    done = run([HEFT, "report", "--invert", path])
    assert done.returncode == 0 and f"... {n} more, each under 1 %" in done.stdout.decode()
    lines = [text("/a/b"), text("all")] + [text(f"f{i}") for i in range(n)] + ["i 1 1 2"]
    lines += [f"i {i + 2:x} 1 {i + 3:x}" for i in range(n)]
    for i in range(n):  # trace 2 * i + 1 is in f{i}, the next one in what it calls
        lines += [f"t {i + 2:x} {max(2 * i - 1, 0):x}", f"t 1 {2 * i + 1:x}", f"a 10 {2 * i + 2:x}", f"+ {i:x}"]
    write(path, heaptrack(lines))
    rows = run([HEFT, "report", "--invert", path]).stdout.decode().splitlines()
    at, = (i for i, row in enumerate(rows) if re.search(r" 100.0 %  all", row))
    assert re.search(rf" 100.0 %    \.\.\. {n} more, each under 1 %$", rows[at + 1]), rows


@needs_valgrind
@pytest.mark.parametrize("form", ["csv", "json", "massif", "pprof"])
def test_a_long_name_is_not_written_letter_by_letter(tmp_path, form):
    """A name of 12,000 characters, and 400 lines of its function: 4.8 MB in a form that shows it each time, and CSV shows it
    three times (function, first user function, stack). Letter by letter took 90 to 550 instructions a byte."""
    n = 400
    command = ("export", "-f", form, "--force", "-o", tmp_path / "out")
    once, all_of_them = (instructions(tmp_path, pprof_long_name(size), command) for size in (1, n))
    assert all_of_them - once < 60 * n * 30 * n, (once, all_of_them)


def refused(tmp_path, content):
    path = tmp_path / "file"
    write(path, content)
    done = run([HEFT, "report", path], timeout=300)
    assert done.returncode == 1
    return done.stderr.decode()


def test_an_instruction_of_many_frames_under_many_traces(tmp_path):
    """3,000 frames inlined into one instruction, called by 3,000 traces: 9 million frames of a file of 100 kB."""
    n = 3000
    lines = [text("/a/b"), text("f"), text("g"), "i 1 1 " + " ".join(f"{2 + k % 2} 0 0" for k in range(n)), "i 2 1 2"]
    lines += [f"t 2 {i:x}" for i in range(n)]
    for i in range(n):
        lines += [f"t 1 {i + 1:x}", f"a 10 {n + i + 1:x}", f"+ {i:x}"]
    assert "expected fewer frames for a file of this size" in refused(tmp_path, heaptrack(lines))


def test_long_labels_of_many_samples(tmp_path):
    """A label of 1 MB that 10,000 samples have: each would be shown with 10 GB of them."""
    messages = [field(5, field(1, 1) + field(2, 5)), field(4, field(1, 1) + field(4, field(1, 1) + field(2, 1)))]
    sample = field(1, varint(1)) + field(2, varint(1) + varint(10)) + field(3, field(1, 6) + field(2, 7))
    messages += [field(2, sample)] * 10000
    assert "expected shorter labels" in refused(tmp_path, pprof(messages, [b"f", b"key", b"y" * 1000000]))


def test_modules_one_after_each_trace(tmp_path):
    lines = ["v 10400 3", "x 2 /p"]
    for i in range(20000):
        lines += [f"m 2 /m {(i * 7919 % 65537 + 1) << 16:x} 0 1000", f"t {((i + 1) << 16) + 5:x} 0"]
    assert "expected modules ('m') together" in refused(tmp_path, "\n".join(lines) + "\n")


def test_modules_again_after_each_dlopen(tmp_path):
    """heaptrack writes all of them again: that stays fine."""
    lines = ["v 10400 3", "x 2 /p"]
    for load in range(300):
        lines.append("m 1 -")
        lines += [f"m 2 /m {(i + 1) << 16:x} 0 1000" for i in range(load + 1)]
        lines += [f"t {((load + 1) << 16) + 5:x} 0", f"+ 10 {load + 1:x} {64 * load + 64:x}"]
    path = tmp_path / "file"
    path.write_text("\n".join(lines) + "\n")
    done = run([HEFT, "report", "--json", path])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["totals"]["allocations"] == 300
