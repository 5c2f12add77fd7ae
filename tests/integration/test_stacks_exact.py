"""Every call stack captured in real programs equals libunwind's, frame by frame. The library's own
sources are built together with stack_check.c into a stand-in for libheft-preload.so beside a copy
of heft, so what is compared is the code that users run."""

import glob
import os
import pathlib
import shutil
import struct
import subprocess

import pytest

from harness import BUILD

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMES = "captures equal guessed truncated longer shorter different frames".split()
FLAGS = """-shared -DHEFT_STACK_CHECK -std=gnu17 -D_GNU_SOURCE -O2 -g -fPIC -fno-omit-frame-pointer
    -fvisibility=hidden -ftls-model=initial-exec -fno-tree-slp-vectorize -fno-builtin-malloc
    -fno-builtin-free -Wl,-z,now""".split()


@pytest.fixture(scope="module")
def checker(tmp_path_factory):
    where = tmp_path_factory.mktemp("check")
    # Without the other build of the same code.
    blob = {*glob.glob(str(ROOT / "src/capture/blob*.c")), *glob.glob(str(ROOT / "src/capture/own_*.c"))}
    sources = sorted(set(glob.glob(str(ROOT / "src/capture/*.c"))) - blob)
    subprocess.run(["gcc", *FLAGS, f"-I{ROOT / 'src'}", f"-I{ROOT / 'include'}", "-o", where / "libheft-preload.so", *sources,
                    ROOT / "tests/integration/stack_check.c", "-lunwind"], check=True, timeout=120)
    shutil.copy(BUILD / "heft", where / "heft")
    return where


def compare(checker, tmp_path, command, least, status=0, **env):
    out = tmp_path / "counts"
    out.mkdir()
    done = subprocess.run([checker / "heft", "run", "-q", "-o", tmp_path / "x.heft", "--", *command],
                          env={**os.environ, "HEFT_CHECK_DIR": str(out), **env}, timeout=240,
                          stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path)
    assert done.returncode == status, done.stderr
    total = [0] * len(NAMES)
    for path in out.glob("*.counts"):
        total = [a + b for a, b in zip(total, struct.unpack("8Q", path.read_bytes()))]
    counts = dict(zip(NAMES, total))
    texts = "".join(p.read_text()[:3000] for p in out.glob("*.text"))
    assert counts["captures"] >= least, counts
    assert counts["equal"] == counts["captures"], (counts, texts)


def test_sqlite3(checker, tmp_path):
    compare(checker, tmp_path, ["sqlite3", ":memory:",
            "create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c "
            "where x<3000) insert into t select x, hex(x) from c; create index i on t(b); "
            "select count(*) from t group by a%7;"], 2000)


def test_perl(checker, tmp_path):
    compare(checker, tmp_path, ["perl", "-e", "for(1..5000){$h{$_}=[1..3]} sub f{my $n=shift; "
            "return $n<1?[]:[f($n-1)]} f(60); @s = sort map { join ',', @$_ } values %h; "
            "eval { die {a=>1} } for 1..50;"], 8000)


def test_python(checker, tmp_path):
    compare(checker, tmp_path, ["/usr/bin/python3", "-c", "import json, threading\n"
            "def w(): json.loads(json.dumps([{'a': i} for i in range(300)]))\n"
            "t = [threading.Thread(target=w) for _ in range(4)]\n"
            "[x.start() for x in t]; [x.join() for x in t]"], 5000, PYTHONMALLOC="malloc")


def test_git(checker, tmp_path):
    subprocess.run("git init -q r && cd r && for i in 1 2 3 4 5; do echo $i > f$i; git add .; "
                   "git -c user.name=a -c user.email=a@b commit -qm $i; done", shell=True, check=True,
                   cwd=tmp_path)
    compare(checker, tmp_path, ["git", "-C", "r", "log", "--stat", "-p"], 500)


def test_cc1(checker, tmp_path):
    source = ROOT / "src/capture/cfi.c"
    compare(checker, tmp_path, ["gcc", "-O2", f"-I{ROOT / 'src'}", "-c", source, "-o", "x.o"], 20000)


def test_gdb(checker, tmp_path):
    compare(checker, tmp_path, ["gdb", "-nx", "-batch", "-ex", "info line main", "-ex",
                                "info functions main", BUILD / "heft"], 10000)


def test_cxx_exceptions(checker, tmp_path):
    (tmp_path / "x.cc").write_text("""
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
static std::string deep(int n) {
    std::string s(40 + n, 'x');
    if (n == 0) throw std::runtime_error(s);
    return deep(n - 1) + s;
}
int main() {
    std::map<int, std::vector<std::string>> m;
    for (int i = 0; i < 300; i++) {
        try { deep(i % 30); } catch (const std::exception &e) { m[i % 17].push_back(e.what()); }
    }
    return m.size() == 17 ? 0 : 1;
}
""")
    subprocess.run(["g++", "-O2", "x.cc", "-o", "x"], check=True, cwd=tmp_path, timeout=120)
    compare(checker, tmp_path, ["./x"], 5000)


# Programs whose segments have gaps between them: the loader's own look-up knows one segment there,
# and build id and unwind tables are in others. Debian has twelve in /usr/bin, of which these.
GAPS = {
    "make": (["make", "-f", "rules"], 500),
    "bc": (["bc", "-q", "sums"], 30),
    "lsof": (["lsof", "-p", "1"], 200),
    "node": (["node", "-e", "const a = []; for (let i = 0; i < 3000; i++) a.push(JSON.parse("
              "JSON.stringify({i, s: 'x'.repeat(i % 50)}))); Buffer.alloc(100000);"
              "require('zlib').gzipSync(JSON.stringify(a))"], 1000),
}


def segment_gaps(program):
    """Whole pages between segments that belong to none."""
    path = shutil.which(program)
    loads = [line.split() for line in subprocess.run(
        ["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout.splitlines()
        if line.split()[:1] == ["LOAD"]]
    spans = [(int(x[2], 16), int(x[2], 16) + int(x[5], 16)) for x in loads]
    return sum(b[0] // 4096 > (a[1] + 4095) // 4096 for a, b in zip(spans, spans[1:]))


@pytest.mark.parametrize("name", GAPS)
def test_gaps_between_segments(checker, tmp_path, name):
    if name == "node" and not shutil.which(name):
        pytest.skip("node is not installed")
    command, least = GAPS[name]
    (tmp_path / "rules").write_text("".join(f"v{i} := $(shell echo {i})\n" for i in range(5)) +
                                    "all: $(foreach i,1 2 3 4 5 6 7 8 9,t$i)\nt%:\n\t@echo $@ $(v1)\n")
    (tmp_path / "sums").write_text("for (i = 0; i < 200; i++) x = x * 7 + 2^i\nx\nquit\n")
    compare(checker, tmp_path, command, least)


def test_python(checker, tmp_path):
    """Not position independent, and takes malloc's address."""
    compare(checker, tmp_path, ["/usr/bin/python3", "-c", "import json\n"
            "json.loads(json.dumps([{'a': i} for i in range(300)]))"], 2000, PYTHONMALLOC="malloc")


GAP_FLAGS = ["-Wl,-z,separate-code", "-Wl,-z,max-page-size=0x200000"]


@pytest.mark.parametrize("kind", [["-pie", "-fPIE"], ["-no-pie"]])
def test_large_pages(checker, tmp_path, kind):
    programs = ROOT / "tests/programs"
    subprocess.run(["gcc", "-g", "-O2", *kind, *GAP_FLAGS, f"-I{programs}", programs / "stack_ends.c",
                    "-o", "x"], check=True, cwd=tmp_path, timeout=120)
    assert segment_gaps(tmp_path / "x") >= 2
    compare(checker, tmp_path, ["./x"], 10000)


@pytest.mark.parametrize("flags", [["-O2"], ["-O2", "-fno-omit-frame-pointer"], ["-O0"]])
def test_inner_ends(checker, tmp_path, flags):
    """What is remembered of one inner end of a stack is not taken for another one."""
    programs = ROOT / "tests/programs"
    subprocess.run(["gcc", *flags, f"-I{programs}", programs / "stack_ends.c", "-o", "x"], check=True,
                   cwd=tmp_path, timeout=120)
    compare(checker, tmp_path, ["./x"], 10000)
