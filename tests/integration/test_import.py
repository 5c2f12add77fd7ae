"""Files that the real tools write, read by heft: jemalloc, gperftools, Go, heaptrack and DHAT. The
program's allocations are known (tests/programs/import_facts.c), and where a tool has a reader of its
own, heft must agree with it."""

import gzip
import os
import re
import shutil
import subprocess

import pytest

from harness import (GO, HEFT, PROGRAMS, REPOSITORY, allocator_library, bare, cargo_build, go_build, go_pprof, report,
                     run, total)
from pprof_maker import number, text, varint

GOLDEN = REPOSITORY / "tests" / "golden" / "import"
N = 100  # blocks that hold() makes


def needs(*tools):
    missing = [t for t in tools if not shutil.which(t)]
    return pytest.mark.skipif(bool(missing), reason="not installed: " + ", ".join(missing))


def innermost(rep, function):
    """Sites whose caller of the allocation function is this one."""
    return [s for s in rep["sites"] if s["stack"] and bare(s["stack"][0]["function"]) == function]


def row(rep, function, *columns):
    return tuple(total(innermost(rep, function), c) for c in columns)


def callers(rep, function):
    return sorted(bare(s["stack"][1]["function"]) for s in innermost(rep, function))


@pytest.fixture(scope="session")
def facts(compiled):
    return compiled("import_facts.c")


def jemalloc_dump(facts, directory, options):
    library = allocator_library("libjemalloc.so.2")
    done = run([facts], cwd=directory,
               env={"LD_PRELOAD": library, "MALLOC_CONF": f"prof:true,prof_final:true,{options}"})
    assert done.returncode == 0, done.stderr
    dumps = list(directory.glob("jeprof.*.heap"))
    assert len(dumps) == 1, "this libjemalloc does not profile"
    return dumps[0]


def test_jemalloc_exact(facts, tmp_path):
    """Every allocation sampled. jemalloc counts its size classes: 1000 is 1024, 5000 5120, 70000
    81920, 4000 4096, 240 256, 100 112."""
    rep = report(jemalloc_dump(facts, tmp_path, "lg_prof_sample:0,prof_accum:true"))
    columns = "live_blocks", "live_bytes", "allocations", "allocated_bytes"
    assert row(rep, "hold", *columns) == (N // 5, N // 5 * 1024, N, N * 1024)
    assert row(rep, "leak", *columns) == (2, 5120 + 81920, 2, 5120 + 81920)
    assert row(rep, "churn", *columns) == (0, 0, 3 * N, 3 * N * 112)
    assert row(rep, "table", *columns) == (1, 256, 1, 256)
    assert callers(rep, "leak") == ["main", "work"]
    assert {s["via"] for s in innermost(rep, "table")} == {"calloc"}
    # Debian's library has no symbol for the inside of its malloc
    assert {s["via"] for s in innermost(rep, "hold")} <= {"malloc", "unknown"}
    assert rep["mode"] == "exact"
    # two threads; the second one has leaked its block
    assert [t for t in rep["threads"] if t["allocations"] == N + 1], rep["threads"]


@needs("jeprof")
@pytest.mark.parametrize("rate", [10, 12])
def test_jemalloc_agrees_with_jeprof(facts, tmp_path, rate):
    dump = jemalloc_dump(facts, tmp_path, f"lg_prof_sample:{rate},prof_accum:true")
    rep = report(dump)
    assert (rep["mode"], rep["rate_bytes"]) == ("sample", 2 ** rate)
    for option, column in (("--inuse_space", "live_bytes"), ("--inuse_objects", "live_blocks"),
                           ("--alloc_space", "allocated_bytes"), ("--alloc_objects", "allocations")):
        out = run(["jeprof", "--text", "--show_bytes", option, facts, dump]).stdout.decode()
        flat = {m[2]: int(m[1]) for m in re.finditer(r"^\s*(\d+)\s+\S+%\s+\S+%\s+\d+\s+\S+%\s+(\S+)$",
                                                     out, re.M)}
        assert flat, out
        for function in ("leak", "hold", "churn", "main"):
            there = innermost(rep, function)
            # each stack's estimate is rounded once here, and the sum once there
            assert abs(total(there, column) - flat.get(function, 0)) <= len(there) + 1, (
                option, function, flat)
        everything = int(re.search(r"Total: (\d+)", out)[1])
        assert abs(rep["totals"][column] - everything) <= len(rep["sites"]) + 1


def test_jemalloc_of_another_machine():
    """The program and its libraries are not here: addresses as in the files, no names, no guess."""
    rep = report(GOLDEN / "jemalloc.heap")
    # 13: 13105 [66: 65524] at one sample each 1024 bytes: 1 / (1 - exp(-13105/13/1024)) = 1.596538,
    # and 1 / (1 - exp(-65524/66/1024)) = 1.610994
    hold = [s for s in rep["sites"] if s["stack"][0]["function"] == "facts+0x11ca"]
    assert [(s["live_blocks"], s["live_bytes"], s["allocations"], s["allocated_bytes"])
            for s in hold] == [(21, 20923, 106, 105559)]
    assert hold[0]["stack"][0]["module"] == "/opt/app/facts"
    assert sorted(t["allocations"] > 0 for t in rep["threads"]) == [True, True]


def gperftools_dump(facts, directory):
    library = allocator_library("libtcmalloc.so.4")
    run([facts], env={"LD_PRELOAD": library, "HEAPPROFILE": str(directory / "gp")})
    return directory / "gp.0001.heap"


def test_gperftools(facts, tmp_path):
    """Exact: requested sizes. A realloc counts as an allocation of its new size."""
    rep = report(gperftools_dump(facts, tmp_path))
    columns = "live_blocks", "live_bytes", "allocations", "allocated_bytes"
    assert row(rep, "hold", *columns) == (N // 5, N // 5 * 1000, N, N * 1000)
    assert row(rep, "leak", *columns) == (2, 75000, 2, 75000)
    assert row(rep, "churn", *columns) == (0, 0, 3 * N, 3 * N * 100)
    assert row(rep, "table", *columns) == (1, 240, 1, 240)
    assert row(rep, "main", *columns) == (1, 4000, 2, 4010)


@needs("google-pprof")
def test_gperftools_agrees_with_its_pprof(facts, tmp_path):
    dump = gperftools_dump(facts, tmp_path)
    rep = report(dump)
    out = run(["google-pprof", "--text", "--show_bytes", "--inuse_space", facts, dump]).stdout.decode()
    assert rep["totals"]["live_bytes"] == int(re.search(r"Total: (\d+)", out)[1])
    assert rep["totals"]["live_bytes"] == int(dump.read_text().split()[3])


@needs("google-pprof")
def test_gperftools_sample(compiled, tmp_path):
    """10 blocks of 1,000,000 bytes at one sample each 64 KiB are all sampled and stand for themselves;
    each sampled block of 1000 bytes stands for 1 / (1 - exp(-1000/65536)) = 66.04 of them."""
    library = allocator_library("libtcmalloc.so.4")
    program = compiled("heap_sample.cc", flags=(library,))
    done = run([program], env={"TCMALLOC_SAMPLE_PARAMETER": "65536"})
    path = tmp_path / "sample"
    path.write_bytes(done.stdout)
    rep = report(path)
    assert (rep["mode"], rep["rate_bytes"]) == ("sample", 65536)
    sampled = len(re.findall(r"^ +1: +1000 \[", done.stdout.decode(), re.M))
    assert sampled > 0
    assert sorted(s["live_bytes"] for s in innermost(rep, "hold")) == sorted(
        [sampled * 66037, 10 * 1000000]), sampled
    assert sorted(s["live_blocks"] for s in innermost(rep, "hold")) == sorted([sampled * 66, 10])
    out = run(["google-pprof", "--text", "--show_bytes", program, path]).stdout.decode()
    there = int(re.search(r"Total: (\d+)", out)[1])
    assert abs(rep["totals"]["live_bytes"] - there) <= sampled + 11


@pytest.fixture(scope="session")
def go_profiles(tmp_path_factory):
    if not os.path.exists(GO):
        pytest.skip("go is not installed")
    directory = tmp_path_factory.mktemp("go")
    assert run([go_build(PROGRAMS / "import_go.go", directory / "prog"), directory]).returncode == 0
    return directory


@pytest.mark.parametrize("name", ["heap", "allocs"])
def test_go(go_profiles, name):
    directory = go_profiles
    rep = report(directory / f"{name}.pprof")
    keep = [s for s in rep["sites"] if s["stack"][0]["function"] == "main.keep"]
    churn = [s for s in rep["sites"] if s["stack"][0]["function"] == "main.churn"]
    # the slice of slices is 100 * 24 bytes, in Go's size class of 2688
    assert total(keep, "live_bytes") == 100 * 10240 + 2688
    assert total(keep, "live_blocks") == 101
    assert (total(churn, "live_bytes"), total(churn, "allocations"), total(churn, "allocated_bytes")) \
        == (0, 50, 50 * 3072)
    out = go_pprof(directory, "-raw", directory / f"{name}.pprof").stdout.decode()
    lines = out.split("Samples:\n")[1].split("Locations")[0].splitlines()
    rows = [[int(n) for n in line.split(":")[0].split()] for line in lines[1:]
            if re.match(r"\s+\d+\s+\d+.*:", line)]
    for i, index in enumerate(lines[0].split()):
        column = {"inuse_space": "live_bytes", "alloc_space": "allocated_bytes",
                  "inuse_objects": "live_blocks", "alloc_objects": "allocations"}[index.split("/")[0]]
        assert sum(r[i] for r in rows) == rep["totals"][column] > 0, index


@pytest.fixture(scope="session", params=["interpreted", "raw"])
def heaptrack_file(request, facts, tmp_path_factory):
    if not shutil.which("heaptrack"):
        pytest.skip("heaptrack is not installed")
    directory = tmp_path_factory.mktemp("heaptrack")
    raw = request.param == "raw"
    done = run(["heaptrack", *(["--raw"] if raw else []), "-o", directory / "out", facts],
               timeout=120)
    files = [f for f in directory.iterdir() if f.suffix in (".zst", ".gz")]
    assert len(files) == 1, done.stdout
    return files[0], raw


def test_heaptrack(heaptrack_file):
    path, raw = heaptrack_file
    rep = report(path)
    columns = ("allocations", "allocated_bytes", "peak_bytes", "live_blocks", "live_bytes", "temporary")
    # a temporary one is freed directly after it was made, by any thread
    assert row(rep, "hold", *columns[:5]) == (N, N * 1000, N * 1000, N // 5, N // 5 * 1000)
    assert row(rep, "leak", *columns[:5]) == (2, 75000, 5000, 2, 75000)
    assert row(rep, "churn", *columns) == (3 * N, 3 * N * 100, 0, 0, 0, 3 * N)
    assert row(rep, "table", *columns[:5]) == (1, 240, 240, 1, 240)
    assert row(rep, "main", *columns[:5]) == (2, 4010, 0, 1, 4000)  # a realloc is another one
    assert callers(rep, "leak") == ["main", "work"]
    files = {s["stack"][0]["file"].rsplit("/", 1)[-1] for s in innermost(rep, "hold")}
    assert files == {"import_facts.c"}


@needs("rustc")
@needs("heaptrack")
def test_heaptrack_names_rust(tmp_path):
    """heaptrack's own demangler knows C++ only: Rust's names are made readable here."""
    program = tmp_path / "program"
    done = run(["rustc", "-O", "-g", "-o", program, PROGRAMS / "pprof_names.rs"], timeout=120,
               env={k: v for k, v in os.environ.items() if k.startswith(("RUSTUP", "CARGO"))})
    assert done.returncode == 0, done.stderr.decode()
    run(["heaptrack", "-o", tmp_path / "out", program], timeout=120)
    file, = tmp_path.glob("out*")
    names = {f["function"] for s in report(file)["sites"] for f in s["stack"]}
    assert {"pprof_names::grow", "pprof_names::index", "pprof_names::name"} <= names
    assert not [n for n in names if re.search(r"\$|::h[0-9a-f]{16}|^_R|^_ZN|\.\.[A-Za-z]", n)]


@needs("heaptrack_print")
def test_heaptrack_agrees_with_heaptrack_print(heaptrack_file):
    path, raw = heaptrack_file
    if raw:
        pytest.skip("heaptrack_print does not read raw files")
    rep = report(path)
    out = run(["heaptrack_print", path], timeout=120).stdout.decode()
    assert int(re.search(r"calls to allocation functions: (\d+)", out)[1]) \
        == rep["totals"]["allocations"]
    # heaptrack_print rounds to three digits of powers of 1000
    for words, column in (("peak heap memory consumption", "peak_bytes"),
                          ("total memory leaked", "live_bytes")):
        number, unit = re.search(words + r": ([\d.]+)(\w?)", out).groups()
        factor = {"": 1, "B": 1, "K": 1e3, "M": 1e6}[unit]
        assert abs(float(number) * factor - rep["totals"][column]) <= factor / 100 + 1, words


def test_heaptrack_gz(heaptrack_file, tmp_path):
    """The name says nothing: the same file as gzip and as plain text, called otherwise."""
    path, raw = heaptrack_file
    text = subprocess.run(["zstd", "-dc", path], capture_output=True).stdout \
        if path.suffix == ".zst" else gzip.decompress(path.read_bytes())
    (tmp_path / "a.json").write_bytes(gzip.compress(text))
    (tmp_path / "b.pprof").write_bytes(text)
    expected = report(path)
    for name in ("a.json", "b.pprof"):
        rep = report(tmp_path / name)
        assert rep["totals"] == expected["totals"]
        assert rep["sites"] == expected["sites"]


@needs("valgrind")
def test_dhat(facts, tmp_path):
    out = tmp_path / "dhat.out"
    done = run(["valgrind", "-q", "--tool=dhat", f"--dhat-out-file={out}", facts], timeout=120)
    assert done.returncode == 0, done.stderr
    rep = report(out)
    columns = "allocations", "allocated_bytes", "peak_bytes", "live_blocks", "live_bytes"
    assert row(rep, "hold", *columns) == (N, N * 1000, N * 1000, N // 5, N // 5 * 1000)
    assert row(rep, "leak", *columns) == (2, 75000, 5000, 2, 75000)
    assert row(rep, "churn", *columns) == (3 * N, 3 * N * 100, 0, 0, 0)
    assert row(rep, "table", *columns) == (1, 240, 240, 1, 240)
    # Valgrind 3.19 records the allocation function itself as the innermost frame, 3.24 does not.
    told = ": calloc (in " in out.read_text()
    assert {s["via"] for s in innermost(rep, "table")} == {"calloc" if told else "unknown"}
    assert row(rep, "main", *columns) == (2, 4010, 0, 1, 4000)  # realloc: tbk + 1, tb + new size
    assert rep["command"] == [str(facts)]


DHAT_RS = """
#[global_allocator]
static ALLOC: dhat::Alloc = dhat::Alloc;
#[inline(never)]
fn keep_one(i: u64) -> Box<[u64; 16]> { Box::new([i; 16]) }
fn main() {
    let _p = dhat::Profiler::builder().file_name("dhat.json").build();
    let v: Vec<_> = (0..1000).map(keep_one).collect();
    std::mem::forget(v);
}
"""


@needs("cargo")
def test_dhat_rs(tmp_path):
    """The real crate, where its registry can be reached."""
    probe = cargo_build(tmp_path / "crate", "dhat_probe", '[dependencies]\ndhat = "0.3"\n', DHAT_RS, "--release")
    assert run([probe], cwd=tmp_path, timeout=60).returncode == 0
    rep = report(tmp_path / "dhat.json")
    sites = [s for s in rep["sites"] if "dhat_probe::keep_one" in [f["function"] for f in s["stack"]]]
    assert [(s["allocations"], s["allocated_bytes"], s["peak_blocks"], s["live_blocks"], s["live_bytes"])
            for s in sites] == [(1000, 128000, 1000, 1000, 128000)]
    assert not any(f["file"] == "???" for s in rep["sites"] for f in s["stack"])


@pytest.mark.parametrize("name,live", [("heaptrack.txt", 2), ("heaptrack-raw.txt", 2),
                                       ("gperftools.heap", 20), ("dhat.json", 20)])
def test_golden(name, live):
    """hold() keeps a fifth of 10 or of 100 blocks; where names are missing its address is 0x11c9."""
    rep = report(GOLDEN / name)
    sites = [s for s in rep["sites"]
             if s["stack"] and (bare(s["stack"][0]["function"]) in ("hold", "facts+0x11ca",
                                                                    "facts+0x11c9"))]
    assert [(s["live_blocks"], s["live_bytes"]) for s in sites] == [(live, live * 1000)]


@pytest.mark.parametrize("name,absent", [
    ("jemalloc.heap", "peak_bytes peak_blocks own_peak_bytes temporary reallocations frees duration_ns "
                      "lifetime_ns cross_thread_frees peak_rss_bytes exit_status"),
    ("gperftools.heap", "peak_bytes temporary frees duration_ns lifetime_ns exit_status"),
    ("go-heap.pprof", "peak_bytes temporary frees duration_ns lifetime_ns exit_status"),
    ("heaptrack.txt", "frees reallocations lifetime_ns cross_thread_frees exit_status"),
    ("heaptrack-raw.txt", "frees reallocations p50 cross_thread_frees exit_status"),
    ("dhat.json", "own_peak_bytes temporary frees duration_ns peak_time_ns lifetime_ns exit_status")])
def test_absent_is_not_zero(name, absent):
    done = run([HEFT, "report", "--json", GOLDEN / name])
    for word in absent.split():
        assert f'"{word}"'.encode() not in done.stdout, word
    text = run([HEFT, "report", GOLDEN / name]).stdout.decode()
    if "peak_bytes" in absent.split():
        assert "peak" not in text
    if "temporary" in absent.split():
        assert "temporary" not in text


def test_standard_input():
    data = (GOLDEN / "go-heap.pprof").read_bytes()
    done = subprocess.run([HEFT, "report", "--json", "-"], input=data, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b'"main.keep"' in done.stdout


@pytest.mark.parametrize("name", sorted(p.name for p in GOLDEN.iterdir()))
def test_cut_is_refused(name, tmp_path):
    """Half of a file is no profile: exit 1, nothing on stdout, the offset and what was expected."""
    data = (GOLDEN / name).read_bytes()
    path = tmp_path / "cut"
    path.write_bytes(data[:len(data) // 2 + 3])
    done = report(path, check=False)
    if name.startswith("heaptrack") and done.returncode == 0:
        pytest.skip("cut at the end of a line: nothing tells")
    assert (done.returncode, done.stdout) == (1, b"")
    assert re.search(rb"cut: at offset \d+: expected ", done.stderr), done.stderr


def limited(megabytes):
    import resource

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    return limit


@pytest.mark.parametrize("head", [
    b"heap_v2/1\n", b"v 10400 3\n", b'{"dhatFileVersion":2,"mode":"heap","pps":[',
    b"\x0a\x04\x08\x01\x10\x02", b"heap profile: 1: 2 [1: 2] @ heapprofile\n"],
    ids=["jemalloc", "heaptrack", "dhat", "pprof", "gperftools"])
def test_bomb(head, tmp_path):
    """1 GiB of one byte in 1 MiB: refused in little memory and time."""
    fill = b"\x32\x00" if head[0] == 10 else b" "
    path = tmp_path / "bomb"
    with gzip.open(path, "wb", compresslevel=1) as f:
        f.write(head)
        for _ in range(64):
            f.write(fill * (16 << 20 >> (len(fill) - 1)))
    done = run([HEFT, "report", path], preexec_fn=limited(1500), timeout=60)
    assert (done.returncode, done.stdout) == (1, b""), done
    # A long message goes on in the next line.
    assert re.search(rb"bomb: at offset \d+: expected .*decompressed", b" ".join(done.stderr.split())), done.stderr


def test_selection_is_for_recordings():
    for option in (["--pid", "1"], ["--thread", "main"], ["--from", "1s"]):
        done = report(GOLDEN / "heaptrack.txt", *option, check=False)
        assert done.returncode == 1
        assert option[0].encode() in done.stderr and b"needs a recording of heft's own" in done.stderr


def test_diff_across_formats(facts, tmp_path, record):
    """The same program recorded by heft and by gperftools: what is live agrees, stack by stack; what
    gperftools does not tell (a peak) is not compared."""
    dump = gperftools_dump(facts, tmp_path)
    _, before = record([facts])
    out = run([HEFT, "diff", before.path, dump]).stdout.decode()
    assert "peak" not in out and "gperftools" in out
    assert "Nothing changed" in out
    done = run([HEFT, "diff", dump, dump])
    assert done.returncode == 0 and b"nothing changed" in done.stdout.lower(), done.stdout


def test_check_of_a_foreign_file(facts, tmp_path):
    dump = gperftools_dump(facts, tmp_path)
    (tmp_path / "budget").write_text(f"live_bytes in hold <= {N // 5 * 1000}\n")
    done = run([HEFT, "check", "--budget", tmp_path / "budget", dump])
    assert done.returncode == 0, (done.stdout, done.stderr)
    (tmp_path / "budget").write_text(f"live_bytes in hold <= {N // 5 * 1000 - 1}\n")
    assert run([HEFT, "check", "--budget", tmp_path / "budget", dump]).returncode == 1


def test_a_small_pprof_file_cannot_ask_for_billions_of_frames(tmp_path):
    """One location of 40,000 lines, 20 times in each of 200 samples: 160 million frames in a file of 60 KB."""
    lines = b"".join(text(4, number(1, 1) + number(2, i)) for i in range(40000))
    out = [text(1, number(1, 1) + number(2, 2)), text(4, number(1, 1) + lines), text(5, number(1, 1) + number(2, 3))]
    out += [text(2, text(1, varint(1) * 20) + text(2, varint(10)))] * 200
    out += [text(6, s) for s in (b"", b"alloc_space", b"bytes", b"f")]
    path = tmp_path / "bomb.pb.gz"
    path.write_bytes(gzip.compress(b"".join(out), 1))
    done = run([HEFT, "report", path], timeout=20)
    assert done.returncode == 1 and b"expected fewer frames for a file of this size" in done.stderr
