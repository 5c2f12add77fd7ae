"""What the integration and fault tests share: finding the build, compiling the test
programs once a session, running commands with a time limit and without leftovers,
and asking a recording questions.

Every command runs in a session of its own and the test process is a subreaper, so
whatever outlives its command becomes our child: it is ended, and the test fails."""

import ctypes
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = REPOSITORY / "tests" / "programs"
BUILD = pathlib.Path(os.environ.get("HEFT_BUILD", REPOSITORY / "build")).resolve()
HEFT = BUILD / "heft"
GO = shutil.which("go") or "/usr/local/go/bin/go"
TIME_LIMIT = 60.0

# -fno-builtin: every call in the source is a call in the program.
C_FLAGS = ["-std=gnu17", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-pthread"]
CXX_FLAGS = ["-std=c++17", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-pthread"]

COLUMNS = ("allocations", "reallocations", "allocated_bytes", "reallocated_bytes", "peak_bytes",
           "own_peak_bytes", "live_bytes", "live_blocks", "temporary", "cross_thread_frees")


def keep_orphans():
    """This process becomes the parent of what its descendants leave behind."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


keep_orphans()
# A shell's background job ignores SIGINT, and so would every program that is started here.
signal.signal(signal.SIGINT, signal.default_int_handler)


def plain_environment(extra=None):
    """The environment for a program: nothing that changes what it allocates or prints."""
    env = {k: v for k, v in os.environ.items()
           if k in ("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "USER", "HEFT_BUILD")}
    env["LC_ALL"] = "C"
    env["DEBUGINFOD_URLS"] = ""
    env["XDG_CACHE_HOME"] = "/dev/null"  # no cache of symbols: every report starts afresh
    env.update(extra or {})
    return {k: v for k, v in env.items() if v is not None}


def run(command, env=None, timeout=TIME_LIMIT, cwd=None, stdin=None, preexec_fn=None):
    """Runs a command to its end; stdout and stderr are bytes. Ends it at the time limit."""
    process = start(command, env=env, cwd=cwd, stdin=stdin, preexec_fn=preexec_fn)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        end_group(process)
        out, err = process.communicate()
        pytest.fail(f"no end after {timeout} s: {command}\n{err.decode(errors='replace')[-2000:]}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def start(command, env=None, cwd=None, stdin=None, preexec_fn=None,
          stdout=subprocess.PIPE, stderr=subprocess.PIPE):
    return subprocess.Popen([str(c) for c in command], env=plain_environment(env), cwd=cwd,
                            stdin=stdin or subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                            start_new_session=True, preexec_fn=preexec_fn)


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def kill_program(heft, find_pid, seconds):
    """Kills the recorded program, whose pid find_pid() gives, after so long, and waits for heft."""
    try:
        pid = find_pid()
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        _, err = heft.communicate(timeout=60)
    finally:
        end_group(heft)
    assert heft.returncode == 128 + signal.SIGKILL, err


def children_of(pid):
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            found += [int(p) for p in pathlib.Path(path).read_text().split()]
        except OSError:
            pass
    return found


def wait_until(condition, seconds=TIME_LIMIT, what="condition"):
    """Polls; the limit is for a broken program only, no test measures with it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    pytest.fail(f"did not come to pass within {seconds} s: {what}")


def is_ending(pid):
    """A SIGKILL is on its way to it, or it has begun to exit: nothing will keep it."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    pending = re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status, re.M)
    flags = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[6])
    return any(int(p, 16) >> (signal.SIGKILL - 1) & 1 for p in pending) or flags & 4  # PF_EXITING


def is_guardian(pid):
    """heft attach leaves it behind for the instant that it takes to end."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text() == "heft-guardian\n" and \
            pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


kept_children = set()  # pids that are meant to outlive a test


def end_leftovers():
    """Ends every child that is still there, but for kept_children; returns their command lines."""
    names = []
    until = time.monotonic() + 20
    while any(is_guardian(pid) for pid in children_of(os.getpid())) and time.monotonic() < until:
        time.sleep(0.005)
    for _ in range(100):
        left = set(children_of(os.getpid())) - kept_children
        if not left:
            break
        for pid in left:
            try:
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
                if state != "Z":
                    line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                    # Go from 1.23 on leaves a process behind that counts its uses.
                    if line and not is_ending(pid) and b"** telemetry **" not in line:
                        names.append(line.replace(b"\0", b" ").decode(errors="replace"))
                    os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (OSError, IndexError):
                pass
    return sorted(set(names))


class Compiler:
    """Compiles test programs into one directory that every user may read."""

    def __init__(self, directory):
        self.directory = directory
        self.done = {}

    def __call__(self, name, *sources, flags=(), output=None):
        """name: source in tests/programs, or any more sources and objects after it."""
        key = (name, sources, tuple(map(str, flags)), output)
        if key not in self.done:
            source = PROGRAMS / name
            target = self.directory / (output or source.stem)
            assert target not in self.done.values(), f"two programs called {target}"
            cxx = source.suffix == ".cc"
            command = ["g++" if cxx else "gcc", *(CXX_FLAGS if cxx else C_FLAGS), f"-I{PROGRAMS}",
                       "-o", target, source, *sources, *flags]
            subprocess.run([str(c) for c in command], check=True, timeout=TIME_LIMIT)
            target.chmod(0o755) if target.suffix != ".o" else None
            self.done[key] = target
        return self.done[key]


# All tests share one cache: without it Go compiles its library and its tools first.
GO_CACHE = str(BUILD / "go-cache")


def go_build(source, out, *flags):
    """Builds a Go program that uses cgo."""
    done = run([GO, "build", *flags, "-o", out, source], cwd=source.parent, timeout=10 * TIME_LIMIT,
               env={"GOCACHE": GO_CACHE, "CGO_ENABLED": "1", "GOFLAGS": "-mod=mod"})
    assert done.returncode == 0, done.stderr
    return out


def go_pprof(where, *words):
    """go tool pprof with what it keeps in `where`. Go 1.26 builds pprof itself when it is first used: kept in build/go-cache."""
    if not os.path.exists(GO):
        pytest.skip("go is not installed")
    return run([GO, "tool", "pprof", *words], timeout=600,
               env={"PPROF_TMPDIR": str(where), "HOME": str(where), "GOCACHE": GO_CACHE,
                    "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"})


def cargo_build(folder, name, manifest, source, *flags, seconds=180, env=None):
    """A Rust program with real crates. What cargo builds of these is kept in build/crates, so only the first test that
    needs a crate pays for it."""
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text(
        f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n{manifest}')
    (folder / "src/main.rs").write_text(source)
    env = {"CARGO_TARGET_DIR": str(BUILD / "crates"), **(env or {})}
    cargo(folder, "build", *flags, seconds=seconds, env=env)
    return pathlib.Path(env["CARGO_TARGET_DIR"]) / ("release" if "--release" in flags else "debug") / name


def cargo(folder, *words, seconds=180, env=None, check=True):
    """Runs cargo in the folder of a package. The test is skipped where cargo or its registry is missing, or all too slow."""
    program = shutil.which("cargo")
    if not program:
        pytest.skip("cargo is not here")
    try:
        done = run([program, *words], cwd=folder, timeout=seconds,
                   env={**os.environ, "CARGO_NET_RETRY": "1", **(env or {})})
    except pytest.fail.Exception:  # run() ended it and all that it had started
        pytest.skip(f"cargo takes more than {seconds} s here")
    if check and done.returncode:
        pytest.skip("cargo cannot build it here: " + done.stderr.decode(errors="replace")[-300:])
    return done


def line_of(source, marker):
    """The number of the line of tests/programs/SOURCE that carries the marker."""
    lines = (PROGRAMS / source).read_text().splitlines()
    found = [i for i, line in enumerate(lines, 1)
             if re.search(r"@" + re.escape(marker) + r"(?![\w.])", line)]
    assert len(found) == 1, f"{source}: marker {marker} on lines {found}"
    return found[0]


def bare(function):
    """A demangled name without parameters and clone suffixes."""
    return re.sub(r"[(.].*", "", function or "")


def names(site):
    return [bare(frame.get("function")) for frame in site["stack"]]


def in_module(frame, path):
    return os.path.basename(frame.get("module") or "") == os.path.basename(str(path))


class Report(dict):
    """`heft report --json`, with the questions that tests ask."""

    path = None

    def sites_calling(self, function):
        """Sites with the function anywhere in their stack."""
        return [s for s in self["sites"] if function in names(s)]

    def sites_of(self, program):
        """Sites whose caller of the allocation function lies in the program's own file."""
        return [s for s in self["sites"] if s["stack"] and in_module(s["stack"][0], program)]

    def images(self):
        """The programs that processes were, one after the other by exec."""
        return [{"pid": p["pid"], "ppid": p["ppid"], **image}
                for p in self["processes"] for image in p.get("images", [p])]

    def process(self, name, which=0):
        found = [p for p in self.images() if os.path.basename(p["command"][0]) == name]
        there = [p["command"] for p in self.images()]
        assert len(found) > which, f"{name} is not among {there}"
        return found[which]

    def everything(self):
        """All words of the recording in one string: for what must be said somewhere."""
        return json.dumps(self)


def total(sites, column):
    return sum(s[column] for s in sites)


def totals_of(sites):
    return {c: total(sites, c) for c in COLUMNS}


def report(path, *options, check=True, timeout=TIME_LIMIT):
    done = run([HEFT, "report", "--json", *options, path], timeout=timeout)
    if not check:
        return done
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    result = Report(json.loads(done.stdout))
    result.path = path
    return result


class Recorder:
    """record(command) -> (CompletedProcess, Report), into the test's own directory."""

    def __init__(self, directory):
        self.directory = directory
        self.count = 0
        self.heft = HEFT

    def file(self):
        self.count += 1
        return self.directory / f"recording{self.count}.heft"

    def __call__(self, command, env=None, opts=(), quiet=True, **others):
        path = self.file()
        done = run([self.heft, "run", *(["-q"] if quiet else []), "-o", path, *opts, "--", *command],
                   env=env, **others)
        assert path.exists(), done.stderr.decode(errors="replace")
        return done, report(path)


def check_sums(rep):
    """What the contract says of every report: sites, processes and threads add up."""
    t = rep["totals"]
    for column in ("allocations", "reallocations", "allocated_bytes", "peak_bytes", "live_bytes",
                   "live_blocks", "left_bytes", "left_blocks", "temporary"):
        assert total(rep["sites"], column) == t[column], column
    for column in ("allocations", "frees", "reallocations", "allocated_bytes", "left_bytes",
                   "left_blocks", "temporary"):
        assert sum(p["totals"][column] for p in rep["processes"]) == t[column], column
    for column in ("allocations", "frees", "allocated_bytes"):
        assert sum(x[column] for x in rep["threads"]) == t[column], column
    assert t["allocations"] - t["frees"] == t["left_blocks"]
    assert t["live_bytes"] <= t["peak_bytes"] and t["live_blocks"] <= t["left_blocks"]


def allocator_library(name):
    """Path of a preloadable allocator, from the loader's own cache. All that are asked for come with
    tools/setup.sh: one that is missing is a failure."""
    out = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True,
                         timeout=TIME_LIMIT).stdout
    for line in out.splitlines():
        if line.strip().startswith(name) and "x86-64" in line:
            return line.split("=>")[1].strip()
    pytest.fail(f"{name} is not installed (make setup installs it)")


# The environment of a program that heft only counts, without heft run
COUNTING = {"LD_PRELOAD": str(BUILD / "libheft-preload.so"), "HEFT_MODE": "count"}


def example(page, language, word):
    """The source of docs/PAGE's example in this language that has the word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", (REPOSITORY / "docs" / page).read_text(), re.M | re.S)
    found = [block for block in blocks if word in block]
    assert len(found) == 1, f"{page}: {len(found)} examples with {word}"
    return found[0]


# ---- fixtures; the conftest.py of each folder imports them


@pytest.fixture(scope="session", autouse=True)
def built():
    if not HEFT.exists():
        pytest.exit(f"{HEFT} is not there: build first, or set HEFT_BUILD", returncode=2)


@pytest.fixture(scope="session")
def compiled():
    directory = pathlib.Path(tempfile.mkdtemp(prefix="heft-programs-"))
    directory.chmod(0o755)
    yield Compiler(directory)
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def heft_stand_in(compiled):
    """A library to preload in heft's place (heft_stand_in.c)."""
    return compiled("heft_stand_in.c", flags=["-I", REPOSITORY / "include", "-shared", "-fPIC"], output="heft_stand_in.so")


@pytest.fixture(scope="session")
def public_heft():
    """heft and its library where every user reaches them: the build may lie in a private home."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="heft-public-"))
    directory.chmod(0o755)
    for file in (HEFT, BUILD / "libheft-preload.so", BUILD / "heft-blob.so"):
        pathlib.Path(shutil.copy(file, directory)).chmod(0o755)
    yield directory / HEFT.name
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def record(tmp_path):
    return Recorder(tmp_path)


@pytest.fixture(autouse=True)
def no_leftovers():
    yield
    left = end_leftovers()
    assert not left, f"still running after the test: {left}"
