"""Stacks that are written with addresses are stacks that were recorded: every frame's address lies in a
call instruction that calls the function of the frame beneath it. Checked with objdump's disassembly, of
a program with lines, of one with symbols only and of one with none."""

import json
import re
import shutil
import subprocess

import pytest

from harness import HEFT, TIME_LIMIT, line_of, report, run
from pprof_maker import read_pprof

# What call_places allocates: (way through main, size of the block), each once.
SIZES = {"left": [100, 101, 300, 301, 500, 501], "right": [200, 201, 400, 401, 600, 601, 700, 701]}
KINDS = ("lines", "symbols", "stripped")


def tool(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True,
                          timeout=TIME_LIMIT).stdout


class Code:
    """The calls and functions of a program, as binutils see them."""

    def __init__(self, path, with_symbols):
        self.calls = {}      # address: (end, target or None, words)
        self.starts = {}     # of functions: name
        for line in tool("nm", with_symbols).splitlines():
            m = re.fullmatch(r"([0-9a-f]+) [tT] (\S+)", line)
            if m:
                self.starts[int(m[1], 16)] = m[2]
        for line in tool("objdump", "-d", "-w", path).splitlines():
            m = re.match(r"\s+([0-9a-f]+):\t((?:[0-9a-f]{2} )+)\s*call\S*\s+(.*)", line)
            if m:
                start = int(m[1], 16)
                target = re.match(r"([0-9a-f]+) <", m[3])
                self.calls[start] = (start + len(m[2].split()),
                                     int(target[1], 16) if target else None, m[3])

    def call_at(self, address):
        for start, call in self.calls.items():
            if start <= address < call[0]:
                return call
        return None

    def function_of(self, address):
        return max((s for s in self.starts if s <= address), default=None)

    def check(self, addresses):
        """One stack, innermost first: (address, is in the program)."""
        for i, (address, ours) in enumerate(addresses):
            if not ours:
                continue
            call = self.call_at(address)
            assert call, f"{address:#x} is in no call"
            _, target, words = call
            if i == 0:
                assert "malloc@plt" in words, words
            elif target is not None and addresses[i - 1][1]:
                assert target == self.function_of(addresses[i - 1][0]), \
                    f"{address:#x} calls {words}, below it is {addresses[i - 1][0]:#x}"


@pytest.fixture(scope="module", params=KINDS)
def places(request, compiled, tmp_path_factory):
    """(kind, program, its code, recording)"""
    kind = request.param
    folder = tmp_path_factory.mktemp(kind)
    flags = {"lines": [], "symbols": ["-g0"], "stripped": ["-g0"]}[kind]
    whole = compiled("call_places.c", flags=flags, output=f"call_places_{kind}")
    program = whole
    if kind == "stripped":
        program = folder / "call_places_bare"
        shutil.copy(whole, program)
        tool("strip", program)
    path = folder / "places.heft"
    done = run([HEFT, "run", "-q", "-o", path, "--", program])
    assert path.exists(), done.stderr
    return kind, program, Code(program, whole), path


def ways(code, stacks):
    """{way: sizes} of stacks of addresses with the size of their blocks; each is checked."""
    found = {}
    for addresses, size in stacks:
        code.check(addresses)
        way = code.starts[code.function_of(addresses[1][0])]
        found.setdefault(way, []).append(size)
    return {way: sorted(sizes) for way, sizes in found.items()}


def own_samples(profile, program):
    """Of pprof: the stacks that begin in the program."""
    return [([(a, m == str(program)) for a, m, _ in stack], values["alloc_space"])
            for stack, values, _ in profile["samples"] if stack[0][1] == str(program)]


@pytest.mark.parametrize("options", [(), ("--raw",)])
def test_pprof(places, tmp_path, options):
    """Every recorded stack is a sample of its own."""
    _, program, code, path = places
    out = tmp_path / "x.pb.gz"
    assert run([HEFT, "export", "-q", "-f", "pprof", *options, "-o", out, path]).returncode == 0
    assert ways(code, own_samples(read_pprof(out), program)) == SIZES


def json_stacks(rep, program):
    for site in rep["sites"]:
        stack = [f for f in site["stack"] if not f["inlined"]]
        if stack[0]["module"] == str(program):
            yield site, ([(int(f["address"], 16), f["module"] == str(program)) for f in stack],
                         site["allocated_bytes"])


def test_json(places):
    """Sites are merged as they read; the stack of each is one of those that were recorded."""
    kind, program, code, path = places
    rep = report(path)
    stacks = list(json_stacks(rep, program))
    found = ways(code, [s for _, s in stacks])
    if kind == "lines":
        # By lines: two calls of leaf in each way, of main four lines; that of right(600) and
        # right(700) is one.
        assert found == {"left": SIZES["left"], "right": [200, 201, 400, 401, 600 + 700, 601 + 701]}
        merged = [site for site, (_, size) in stacks if size in (1300, 1302)]
        assert [site["merged_stacks"] for site in merged] == [2, 2]
        assert {site["stack"][0]["line"] for site in merged} == \
            {line_of("call_places.c", "even"), line_of("call_places.c", "even") - 3}
    elif kind == "symbols":
        assert found == {way: [sum(sizes)] for way, sizes in SIZES.items()}
        assert sorted(site["merged_stacks"] for site, _ in stacks) == [6, 8]
    else:
        assert {way: sum(sizes) for way, sizes in found.items()} == \
            {way: sum(sizes) for way, sizes in SIZES.items()}


def test_json_raw(places, tmp_path):
    """`export -f json --raw`: a site for each recorded stack."""
    _, program, code, path = places
    done = run([HEFT, "export", "-q", "-f", "json", "--raw", "-o", "-", path])
    assert done.returncode == 0, done.stderr
    rep = json.loads(done.stdout)
    assert ways(code, [s for _, s in json_stacks(rep, program)]) == SIZES
    assert all(site["merged_stacks"] == 1 for site in rep["sites"])


def test_from_pprof(places, tmp_path):
    """The same once more of a pprof file: read back, written again."""
    _, program, code, path = places
    first, again = tmp_path / "x.pb.gz", tmp_path / "y.pb.gz"
    assert run([HEFT, "export", "-q", "-f", "pprof", "-o", first, path]).returncode == 0
    rep = report(first)
    found = ways(code, [s for _, s in json_stacks(rep, program)])
    assert {way: sum(sizes) for way, sizes in found.items()} == \
        {way: sum(sizes) for way, sizes in SIZES.items()}
    assert run([HEFT, "export", "-q", "-f", "pprof", "-o", again, first]).returncode == 0
    assert ways(code, own_samples(read_pprof(again), program)) == SIZES


def test_dhat(places, tmp_path):
    _, program, code, path = places
    out = tmp_path / "x.json"
    assert run([HEFT, "export", "-q", "-f", "dhat", "-o", out, path]).returncode == 0
    dhat = json.loads(out.read_text())
    stacks = []
    for point in dhat["pps"]:
        texts = [dhat["ftbl"][i] for i in point["fs"]]
        assert not texts[0].startswith("0x")  # the allocation function
        frames = [(int(t.split(":")[0], 16), "call_places" in t) for t in texts[1:]]
        if frames[0][1]:
            stacks.append((frames, point["tb"]))
    found = ways(code, stacks)
    assert {way: sum(sizes) for way, sizes in found.items()} == \
        {way: sum(sizes) for way, sizes in SIZES.items()}
    # and read back
    rep = report(out)
    for site in rep["sites"]:
        stack = [(int(f["address"], 16), "call_places" in f"{f['file']}{f['module']}")
                 for f in site["stack"] if not f["inlined"]]
        if stack[0][1]:
            code.check(stack)


def test_heaptrack(places, tmp_path):
    _, program, code, path = places
    out = tmp_path / "plain"
    assert run([HEFT, "export", "-q", "-f", "heaptrack", "-o", out, path]).returncode == 0
    strings, ips, traces, sizes = [None], [None], [None], []
    for line in out.read_text().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "s":
            strings.append(rest.split(" ", 1)[1])
        numbers = [int(n, 16) for n in rest.split()] if kind in "ita" else None
        if kind == "i":
            ips.append((numbers[0], strings[numbers[1]] == str(program)))
        elif kind == "t":
            traces.append(numbers)
        elif kind == "a":
            sizes.append(numbers)
    found = {way: 0 for way in SIZES}
    for trace in {trace for _, trace in sizes}:  # sizes are means, and some are only in the table
        stack = []
        while trace:
            stack.append(ips[traces[trace][0]])
            trace = traces[trace][1]
        if stack and stack[0][1]:
            code.check(stack)
            found[code.starts[code.function_of(stack[1][0])]] += 1
    assert found == {way: len(sizes) for way, sizes in SIZES.items()}
    rep = report(out)
    for _, (stack, _) in json_stacks(rep, program):
        code.check(stack)
