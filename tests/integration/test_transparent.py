"""Nobody notices heft: stdout, stderr and exit status are the same with and without it,
for real programs, also with another allocator preloaded, and for every way to end."""

import os
import shutil
import signal
import subprocess

import pytest

from harness import HEFT, allocator_library, check_sums, report, run

PRELOADS = [None, "libjemalloc.so.2", "libmimalloc.so", "libtcmalloc_minimal.so.4"]

SQL = """create table t(id integer primary key, word text, n real);
with recursive c(x) as (select 1 union all select x+1 from c where x<4000)
insert into t select x, 'word' || (x * 7919 % 4001), x / 7.0 from c;
create index i on t(word);
select count(*), sum(n), max(word) from t;
select word, id from t where word like 'word12%' order by word limit 5;
select nonsense from t;
"""

PERL = r"""my %h; my @a;
for my $i (1..20000) { $h{"key$i"} = { n => $i, s => "x" x ($i % 50) }; push @a, [1..($i % 5)] }
my $sum = 0; $sum += $h{$_}{n} + length $h{$_}{s} for sort keys %h;
print "$sum ", scalar(@a), "\n"; warn "warned\n"; exit 3;"""

PYTHON = r"""import sys, json, threading
d = {str(i): [i] * (i % 7) for i in range(8000)}
out = []
ts = [threading.Thread(target=lambda k=k: out.append(len(json.dumps(d)) + k)) for k in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
print(sorted(out)); print('to stderr', file=sys.stderr); sys.exit(5)"""

JQ = "[range(3000) | {n: ., s: \"x\\(.)\", a: [range(. % 5)]}] | map(select(.n % 3 == 0)) | " \
     "group_by(.a | length) | map({l: (.[0].a | length), c: length, t: (map(.s) | add | length)})"

SHELL = "for i in $(seq 300); do echo \"line $i\"; done | sort -r | head -5 | tr a-z A-Z; " \
        "x=$(echo inner); echo $x >&2; (exit 4)"

C_SOURCE = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n" \
    + "\n".join(f"int f{i}(int x) {{ char b[{i + 9}]; memset(b, x, sizeof b); "
                f"return b[{i}] * {i} + x; }}" for i in range(150)) + "\nint unused = ;\n"


def git_repository(directory):
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    for variable in ("AUTHOR", "COMMITTER"):
        env.update({f"GIT_{variable}_NAME": "a", f"GIT_{variable}_EMAIL": "a@b",
                    f"GIT_{variable}_DATE": "2020-01-01T00:00:00Z"})

    def git(*arguments):
        subprocess.run(["git", *arguments], cwd=directory, env=env, check=True, timeout=60,
                       stdout=subprocess.DEVNULL)
    git("init", "-q", "-b", "main")
    for i in range(8):
        (directory / f"file{i}").write_text(f"{i}\n" * (i + 1))
        git("add", ".")
        git("commit", "-qm", f"number {i}")
    (directory / "untracked").write_text("x")


def command_for(name, directory):
    """(command, environment, stdin text) of a real program with input that makes it work."""
    env = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "GIT_PAGER": "cat"}
    if name == "sqlite3":
        return ["sqlite3", ":memory:"], {}, SQL
    if name == "perl":
        return ["perl", "-e", PERL], {"PERL_HASH_SEED": "0"}, None
    if name == "python3":
        return ["/usr/bin/python3", "-c", PYTHON], {"PYTHONHASHSEED": "0"}, None
    if name == "python3 on malloc":
        return (["/usr/bin/python3", "-c", PYTHON],
                {"PYTHONHASHSEED": "0", "PYTHONMALLOC": "malloc"}, None)
    if name in ("git log", "git status"):
        if not (directory / ".git").exists():
            git_repository(directory)
        return ["git", *(["log", "-p", "--stat"] if name == "git log" else ["status"])], env, None
    if name == "jq":
        return ["jq", "-n", JQ], {}, None
    if name == "gcc":
        (directory / "input.c").write_text(C_SOURCE)
        return ["gcc", "-O1", "-Wall", "-c", "input.c", "-o", "input.o"], {}, None
    if name == "gcc to assembler":
        (directory / "input.c").write_text(C_SOURCE.replace("int unused = ;", ""))
        return ["gcc", "-O1", "-S", "-o", "-", "input.c"], {}, None
    if name == "sort":
        return ["sort", "-k2", "-n", "-u"], {}, "".join(
            f"{i} {i * 7919 % 10007}\n" for i in range(20000))
    if name == "bash":
        return ["bash", "-c", SHELL], {}, None
    if name == "gdb version":
        return ["gdb", "--version"], {}, None
    if name == "gdb":
        return ["gdb", "-nx", "-batch", "-ex", "print 6 * 7", "-ex", "info line main",
                "/bin/ls"], {}, None
    raise KeyError(name)


REAL = ["sqlite3", "perl", "python3", "python3 on malloc", "git log", "git status", "jq", "gcc",
        "gcc to assembler", "sort", "bash", "gdb version", "gdb"]


def both(command, tmp_path, env=None, stdin_text=None, cwd=None, opts=()):
    """The command alone and under heft; both with the same standard input."""
    source = tmp_path / "standard-input"
    source.write_text(stdin_text or "")
    recording = tmp_path / "recording.heft"
    with open(source, "rb") as stdin:
        plain = run(command, env=env, cwd=cwd, stdin=stdin)
    with open(source, "rb") as stdin:
        under = run([HEFT, "run", "-q", "-o", recording, *opts, "--", *command], env=env, cwd=cwd,
                    stdin=stdin)
    return plain, under, recording


def check_same(plain, under):
    assert under.stdout == plain.stdout
    assert under.stderr == plain.stderr
    expected = plain.returncode if plain.returncode >= 0 else 128 - plain.returncode
    assert under.returncode == expected


@pytest.mark.parametrize("name,library", [
    (name, None) for name in REAL] + [
    (name, library) for library in PRELOADS[1:]
    for name in ("sqlite3", "perl", "python3 on malloc", "jq", "bash", "git log", "gcc")])
def test_real_program(tmp_path, name, library):
    directory = tmp_path / "work"
    directory.mkdir()
    command, env, text = command_for(name, directory)
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    if library:
        env["LD_PRELOAD"] = allocator_library(library)
    plain, under, recording = both(command, tmp_path, env, text, directory)
    check_same(plain, under)
    rep = report(recording)
    check_sums(rep)
    totals = rep["totals"]
    assert totals["allocations"] >= 10 and totals["dropped"] == 0
    assert totals["unknown_frees"] == 0
    assert all(s["stack"] for s in rep["sites"])


def test_rust(tmp_path):
    rustc = shutil.which("rustc")
    if not rustc or subprocess.run([rustc, "--version"], capture_output=True,
                                   timeout=60).returncode:
        pytest.skip("rustc is not installed")
    source = tmp_path / "program.rs"
    source.write_text("""
use std::collections::HashMap;
#[inline(never)]
fn grow(n: u64) -> Vec<String> { (0..n).map(|i| format!("number {}", i)).collect() }
fn main() {
    let handles: Vec<_> = (0..4).map(|t| std::thread::spawn(move || grow(500 + t).len())).collect();
    let sum: usize = handles.into_iter().map(|h| h.join().unwrap()).sum();
    let map: HashMap<u64, Vec<String>> = (0..50).map(|i| (i, grow(i))).collect();
    println!("{} {}", sum, map.values().map(|v| v.len()).sum::<usize>());
    let caught = std::panic::catch_unwind(|| { let v = grow(3); panic!("{}", v[2]) });
    eprintln!("{}", caught.is_err());
    std::process::exit(11);
}
""")
    built = subprocess.run([rustc, "-g", "-o", tmp_path / "program", source], timeout=120,
                           capture_output=True)
    if built.returncode:
        pytest.skip("rustc does not link here")
    plain, under, recording = both([tmp_path / "program"], tmp_path)
    assert plain.returncode == 11 and b"2006 1225" in plain.stdout
    # the panic's message names the thread by its number, which may differ
    assert (under.stdout, under.returncode) == (plain.stdout, plain.returncode)
    rep = report(recording)
    check_sums(rep)
    strings = [s for s in rep["sites"]
               if any("grow" in (f["function"] or "") for f in s["stack"])]
    assert sum(s["allocations"] for s in strings) >= 2006 + 1225 + 3


@pytest.mark.parametrize("library", PRELOADS)
def test_cxx_streams_and_exceptions(compiled, tmp_path, library):
    program = compiled("stack_exceptions.cc")
    env = {}
    if library:
        env["LD_PRELOAD"] = allocator_library(library)
    plain, under, _ = both([program], tmp_path, env)
    assert (plain.returncode, plain.stdout) == (3, b"caught 400\n")
    check_same(plain, under)


def test_uncaught_exception(compiled, tmp_path):
    plain, under, recording = both([compiled("stack_exceptions.cc"), "throw"], tmp_path)
    assert plain.returncode == -signal.SIGABRT and b"nobody catches this" in plain.stderr
    check_same(plain, under)
    rep = report(recording)
    assert (rep["end"], rep["signal"]) == ("signal", signal.SIGABRT)


@pytest.mark.parametrize("library", PRELOADS)
def test_errno_and_usable_sizes(compiled, tmp_path, library):
    """free_sized comes with heft alone, so this program does not ask for it."""
    env = {}
    if library:
        env["LD_PRELOAD"] = allocator_library(library)
    calls = "calls-portable" if library else "calls"
    plain, under, _ = both([compiled("transparent.c"), calls], tmp_path, env)
    assert plain.returncode == 0 and plain.stdout.count(b"errno") == (19 if library else 20)
    check_same(plain, under)


ENDS = {"0": 0, "3": 3, "255": 255, "_exit": 17, "segv": -signal.SIGSEGV, "abort": -signal.SIGABRT,
        "term": -signal.SIGTERM, "kill": -signal.SIGKILL, "double-free": -signal.SIGABRT}


@pytest.mark.parametrize("end", ENDS)
def test_every_way_to_end(compiled, tmp_path, end):
    plain, under, recording = both([compiled("transparent.c"), end], tmp_path,
                                   cwd=tmp_path)
    assert plain.returncode == ENDS[end]
    check_same(plain, under)
    rep = report(recording)
    if ENDS[end] >= 0:
        assert (rep["end"], rep["exit_status"], rep["signal"]) == ("exit", ENDS[end], 0)
    else:
        assert (rep["end"], rep["signal"]) == ("signal", -ENDS[end])
    assert rep["totals"]["allocations"] >= 1
    assert rep["totals"]["live_bytes"] >= 10


def test_signals_reach_the_program(compiled, tmp_path):
    """A program that handles SIGINT and SIGTERM itself goes on doing so under heft."""
    script = "trap 'echo got TERM; exit 7' TERM; trap 'echo got INT' INT; " \
             "kill -INT $$; kill -TERM $$; echo not reached"
    plain, under, _ = both(["bash", "-c", script], tmp_path)
    assert (plain.returncode, plain.stdout) == (7, b"got INT\ngot TERM\n")
    check_same(plain, under)


def test_standard_streams_and_working_directory_are_the_programs(tmp_path):
    script = "pwd; cat; echo done >&2; ls /proc/self/fd | wc -l; umask"
    plain, under, _ = both(["bash", "-c", script], tmp_path, stdin_text="text from here\n",
                           cwd=tmp_path)
    assert b"text from here" in plain.stdout
    check_same(plain, under)


def test_words_go_to_stderr_only(compiled, record):
    """Without -q a summary of at most 12 lines on stderr; stdout stays the program's."""
    done, _ = record([compiled("each_function.c"), "malloc"], quiet=False)
    assert done.stdout == b"done\n"
    assert 1 <= len(done.stderr.splitlines()) <= 12
    assert b"heft report" in done.stderr


def test_an_existing_recording_is_not_overwritten(compiled, tmp_path):
    program, path = compiled("each_function.c"), tmp_path / "there.heft"
    path.write_bytes(b"precious")
    done = run([HEFT, "run", "-q", "-o", path, "--", program, "malloc"])
    assert done.returncode == 125 and str(path).encode() in done.stderr
    assert done.stdout == b""  # the program was not run
    assert path.read_bytes() == b"precious"
    done = run([HEFT, "run", "-q", "--force", "-o", path, "--", program, "malloc"])
    assert done.returncode == 0
    assert report(path)["totals"]["allocations"] == 3
