"""The Rust crate: without heft, with a library in heft's place that writes down each call, and with heft. Its counts are
compared with those of the crates stats_alloc and dhat."""

import re
import shutil
import subprocess

import pytest

from attach_harness import Lines
from harness import (BUILD, COUNTING, HEFT, PROGRAMS, REPOSITORY, cargo, cargo_build, children_of, end_group, example, line_of,
                     report, run, start, total)
from live_harness import fetch

CRATE = REPOSITORY / "bindings/rust"
HEFT_CRATE = f'[dependencies]\nheft = {{ path = "{CRATE}" }}\n'


def lines(words):
    return words.decode().splitlines()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The crate has no dependencies, so a registry is not needed: that it cannot be built is a failure."""
    if not shutil.which("cargo"):
        pytest.skip("cargo is not here")
    try:
        return cargo_build(tmp_path_factory.mktemp("calls") / "crate", "binding_calls", HEFT_CRATE,
                           (PROGRAMS / "binding_calls.rs").read_text(), "--release")
    except pytest.skip.Exception as why:
        pytest.fail(str(why))


def test_without_heft(program):
    done = run([program])
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    absent = "Some(38) true"  # ENOSYS
    assert lines(done.stdout) == [
        "NotRunning", f"stats {absent}", f"stats {absent}", f"change {absent}",
        'Region(Err(Os { code: 38, kind: Unsupported, message: "Function not implemented" }))', f"end {absent}",
        *["expected Some(false)"] * 4, f"start {absent}", f"stop {absent}", f"dump {absent}", "false", f"profile {absent}",
        'Ok("")', f"profile {absent}"]


def test_each_call(program, heft_stand_in):
    done = run([program], env={"LD_PRELOAD": str(heft_stand_in)})
    assert done.returncode == 0, done.stderr
    numbers = "Stats { allocations: 1, reallocations: 2, frees: 3, allocated_bytes: 4, freed_bytes: 5, live_bytes: -6, " \
              "live_blocks: -7, peak_bytes: 8 }"
    le, eq = (line_of("binding_calls.rs", marker) for marker in ("le", "eq"))
    assert lines(done.stdout) == [
        "Counting", f"stats {numbers}", f"stats {numbers}", f"change {numbers}", f"Region(Ok({numbers}))", f"end {numbers}",
        "expected Some(true)",
        f"src/main.rs:{le}: peak_bytes of region 2 is 8, expected at most 7 panics on line {le}", "expected None",
        "expected Some(true)",
        f"src/main.rs:{eq}: live_blocks of region 2 is -7, expected 0 panics on line {eq}", "expected None",
        "start ()", "stop ()", "dump ()", "true", "profile ()", 'Ok("profile")', "profile Some(9) false"]  # EBADF
    assert lines(done.stderr) == [
        "stats_get 0", "stats_get 1", "begin 0 0 -", "begin 1 1 part", "change 1", "change 1", "end 1", "end 0",
        "begin 2 0 judged", "end 2", "mark here", "mark " + 127 * "é", "mark_block block sent", "event retry 5",
        "pool 0 create words", "pool 1 create others", "pool 0 alloc 1 30", "pool 1 alloc 1 3", "pool 0 free 1",
        "pool 0 destroy", "start", "stop", "dump /x/y", "pool 1 destroy"]


def test_a_region_that_cannot_begin(program, heft_stand_in):
    """Then its expectations fail: nobody would learn that they were not checked."""
    done = run([program], env={"LD_PRELOAD": str(heft_stand_in), "STAND_IN_ERRNO": "12"})  # ENOMEM
    assert done.returncode == 0 and "change Some(12) false" in lines(done.stdout)
    le = line_of("binding_calls.rs", "le")
    assert f"heft cannot check this: Cannot allocate memory (os error 12) panics on line {le}" in lines(done.stdout)
    assert not re.search(rb"^(change|end) ", done.stderr, re.M)


@pytest.mark.parametrize("linker", ["", "-Clink-arg=-fuse-ld=bfd"])
def test_the_note_stays(tmp_path, linker):
    """heft's note, in a program of which the linker throws away what nothing refers to."""
    file = cargo_build(tmp_path / "crate", "noted", HEFT_CRATE + "[profile.release]\nlto = true\n",
                       "fn main() { heft::mark(\"here\") }", "--release",
                       env={"RUSTFLAGS": linker, "CARGO_TARGET_DIR": str(tmp_path / "built")})
    shown = subprocess.run(["readelf", "-nlW", file], capture_output=True, text=True, check=True).stdout
    assert re.search(r"^ +heft +0x00000004\t.*description data: 01 00 00 00", shown, re.M), shown
    assert re.search(r"^ +02 .* \.note\.heft ", shown, re.M), shown  # in a segment, and so in memory


def test_documentation(tmp_path):
    """The examples of its documentation are programs, which do the same without heft. Nothing is undocumented."""
    shutil.copytree(CRATE, tmp_path / "crate")
    done = cargo(tmp_path / "crate", "test", env={"RUSTFLAGS": "-D warnings", "RUSTDOCFLAGS": "-D warnings"})
    assert re.search(rb"test result: ok\. [1-9]\d* passed; 0 failed; 0 ignored", done.stdout), done.stdout
    cargo(tmp_path / "crate", "doc", "--no-deps", env={"RUSTDOCFLAGS": "-D warnings"})


# 103 allocations, 2 reallocations and 41 frees; at the most 1,000 + 11 + 800 + 100 * 128 bytes are live.
WORK = """
#[inline(never)]
pub fn work() -> (Vec<Box<[u64; 16]>>, Vec<u8>) {
    let zeros = vec![0u8; 1000];                     // calloc: 1,000
    let mut text: Vec<u8> = Vec::with_capacity(10);  // malloc: 10
    for i in 0..11 {
        text.push(i);                                // realloc once: 20
    }
    text.shrink_to_fit();                            // realloc: 11
    let mut boxes = Vec::with_capacity(100);         // 100 pointers: 800
    for i in 0..100 {
        boxes.push(Box::new([i; 16]));               // 128 each
    }
    boxes.truncate(60);                              // 40 freed
    drop(zeros);
    (boxes, text)
}
"""
LIVE = 60 * 128 + 800 + 11
WORKED = {"allocations": 103, "reallocations": 2, "frees": 41, "allocated_bytes": 1000 + 20 + 800 + 12_800,
          "freed_bytes": 9 + 40 * 128 + 1000, "live_bytes": LIVE, "live_blocks": 62, "peak_bytes": 1000 + 11 + 800 + 12_800}
# Each prints what heft counts, and then what its own allocator has counted.
COUNTED = {
    "heft": """
fn main() {
    let mine = heft::Region::thread();
    let all = heft::Region::process();
    let kept = work();
    let (all, mine) = (all.end().unwrap(), mine.end().unwrap());
    println!("{:?}\\n{:?}", all, mine);
    drop(kept);
}
""",
    "stats_alloc": """
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;

fn main() {
    let region = heft::Region::process();
    let theirs = stats_alloc::Region::new(ALLOCATOR);
    let kept = work();
    let theirs = theirs.change();
    println!("{:?}\\n{:?}", region.end().ok(), theirs);
    drop(kept);
}
""",
    "dhat": """
#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let before = dhat::HeapStats::get();
    let kept = work();
    let after = dhat::HeapStats::get();
    println!("total_blocks: {}, total_bytes: {}, curr_blocks: {}, curr_bytes: {}, max_bytes: {}",
        after.total_blocks - before.total_blocks, after.total_bytes - before.total_bytes,
        after.curr_blocks - before.curr_blocks, after.curr_bytes - before.curr_bytes, after.max_bytes - before.curr_bytes);
    drop(kept);
}
""",
}
CRATES = HEFT_CRATE + 'stats_alloc = "=0.1.10"\ndhat = "=0.3.3"\n'


def counting_program(folder, allocator):
    manifest = HEFT_CRATE if allocator == "heft" else CRATES
    return cargo_build(folder / allocator, f"counts_{allocator}", manifest, WORK + COUNTED[allocator], seconds=600)


def numbers(line):
    """Of a struct's {:?}"""
    return {name: int(value) for name, value in re.findall(r"(\w+): (-?\d+)", line)}


def counted(program, *before, env=COUNTING):
    """The lines of a program, as numbers."""
    done = run([*before, program], env=env)
    assert done.returncode == 0, done.stderr
    return [numbers(line) for line in lines(done.stdout)]


def test_counts(tmp_path):
    program = counting_program(tmp_path, "heft")
    assert counted(program) == [WORKED, WORKED]
    assert counted(program, HEFT, "run", "-q", "--count", "--", env=None) == [WORKED, WORKED]
    assert counted(program, HEFT, "run", "-q", "-o", tmp_path / "exact.heft", "--", env=None) == [WORKED, WORKED]


def test_counts_of_stats_alloc(tmp_path):
    """In the same run. It has no peak; the sum of what reallocations changed is apart as well."""
    ours, theirs = counted(counting_program(tmp_path, "stats_alloc"))
    assert ours == WORKED
    assert theirs == {"allocations": ours["allocations"], "deallocations": ours["frees"],
                      "reallocations": ours["reallocations"], "bytes_allocated": ours["allocated_bytes"],
                      "bytes_deallocated": ours["freed_bytes"], "bytes_reallocated": 10 - 9}


def test_counts_of_dhat(tmp_path):
    """A reallocation is a new block of its new size there: 20 and 11 bytes, where heft counts that the first one has added
    10. What is live and the peak are the same."""
    ours, _ = counted(counting_program(tmp_path, "heft"))
    theirs = numbers(run([counting_program(tmp_path, "dhat")]).stdout.decode())
    assert theirs == {"total_blocks": ours["allocations"] + ours["reallocations"],
                      "total_bytes": ours["allocated_bytes"] - 10 + 20 + 11,
                      "curr_blocks": ours["live_blocks"], "curr_bytes": ours["live_bytes"], "max_bytes": ours["peak_bytes"]}


def test_the_example_of_the_page(tmp_path):
    """A test of Rust. The four words take one block; with a limit of 0 only that test fails."""
    test = example("bindings.md", "rust", "#[test]")
    other = test.replace("allocates_once", "allocates_never").replace("allocations, 1", "allocations, 0")
    runner = "env " + " ".join(f"{name}={value}" for name, value in COUNTING.items())
    (tmp_path / "crate/src").mkdir(parents=True)
    (tmp_path / "crate/src/lib.rs").write_text(test + other)
    (tmp_path / "crate/Cargo.toml").write_text(f'[package]\nname = "words"\nversion = "0.1.0"\nedition = "2021"\n{HEFT_CRATE}')
    for env, ends in (({}, "ok"), ({"CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER": runner}, "FAILED")):
        done = cargo(tmp_path / "crate", "test", env={"CARGO_TARGET_DIR": str(BUILD / "crates"), **env}, check=False)
        said = done.stdout.decode()
        assert "test parsing_allocates_once ... ok" in said and f"test parsing_allocates_never ... {ends}" in said, said
    line = (test + other)[:(test + other).index("allocations, 0")].count("\n") + 1
    assert f"heft: src/lib.rs:{line}: allocations is 1, expected at most 0" in said


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """examples/axum, built elsewhere: cargo writes into the folder of a package."""
    folder = tmp_path_factory.mktemp("axum") / "crate"
    shutil.copytree(REPOSITORY / "examples/axum", folder, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    manifest = (folder / "Cargo.toml").read_text()
    (folder / "Cargo.toml").write_text(manifest.replace("../../bindings/rust", str(CRATE)))
    cargo(folder, "build", "--release", seconds=600, env={"CARGO_TARGET_DIR": str(BUILD / "crates")})
    return BUILD / "crates/release/axum_heap"


class Serving:
    """The server, whose command is an argument of heft or which runs by itself."""

    def __init__(self, *command):
        self.process = start(command)

    def __enter__(self):
        self.url = Lines(self.process.stdout).next()
        assert self.url, self.process.communicate()
        return self

    def __exit__(self, *_):
        end_group(self.process)
        self.process.communicate()

    def get(self, path):
        return fetch(self.url + path)


def test_axum_without_heft(server):
    with Serving(server) as serving:
        status, body = serving.get("debug/pprof/heap")
        assert status == 403 and b"heft run --sample" in body


def test_axum_serves_its_profile(server, tmp_path):
    """200 sessions of 20,000 bytes, at one sample each 16 KiB on average: about 244 samples, so the error is about 7 %."""
    with Serving(HEFT, "run", "-q", "--sample=16k", "-o", tmp_path / "server.heft", "--", server) as serving:
        for i in range(200):
            assert serving.get("open") == (200, b"%d sessions\n" % (i + 1))
        status, body = serving.get("debug/pprof/heap")
        assert status == 200, body
        (tmp_path / "heap.pb.gz").write_bytes(body)
        sites = [s for s in report(tmp_path / "heap.pb.gz")["sites"]
                 if any("open_session" in (f["function"] or "") for f in s["stack"])]
        assert 0.7 * 4_000_000 < total(sites, "live_bytes") < 1.4 * 4_000_000
        program, = children_of(serving.process.pid)
        for setting, expected in (("off", 403), ("on", 200)):
            assert run([HEFT, "ctl", program, f"sample={setting}"]).returncode == 0
            assert serving.get("debug/pprof/heap")[0] == expected
