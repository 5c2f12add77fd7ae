"""Where names, files and lines come from, on real programs: every place that debug information can
be, the cache of answers, debuginfod, and files that are no longer what was recorded.

A program is recorded once, then its file is changed into another form with the same build id
(stripped, split, packed ...) and the report is asked again."""

import http.server
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
import time

import pytest

from harness import HEFT, PROGRAMS, TIME_LIMIT, line_of, run, start

C_LINES = [("inner", line_of("named.c", "inner"), True), ("hidden", line_of("named.c", "hidden"), False),
           ("main", line_of("named.c", "main"), False)]


def sh(*command, cwd=None):
    subprocess.run([str(c) for c in command], check=True, timeout=TIME_LIMIT, cwd=cwd,
                   stdout=subprocess.DEVNULL)


def need(tool):
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")


class Case:
    """A program of this test in its own folder, and its recording."""

    def __init__(self, folder):
        self.folder = folder
        self.program = folder / "prog"
        self.recording = folder / "recording.heft"
        self.root = folder / "root"
        self.cache = folder / "cache"
        self.env = {"HEFT_DEBUG_ROOTS": str(self.root)}

    def build(self, *flags, source="named.c", compiler=None,
              opts=("-O1", "-g", "-fno-builtin")):
        compiler = compiler or ("g++" if source.endswith(".cc") else "gcc")
        shutil.copy(PROGRAMS / source, self.folder / source)
        sh(compiler, *opts, "-Wl,--build-id=sha1", *flags, "-o", self.program, source,
           cwd=self.folder)
        return self

    def record(self, *command, env=None):
        done = run([HEFT, "run", "-q", "-o", self.recording, "--", *(command or [self.program])],
                   env=env, cwd=self.folder)
        assert done.returncode == 0, done.stderr
        shutil.copy(self.program, self.folder / "whole")
        return self

    def change(self, *command):
        """Rewrites the program from its whole form: arguments of objcopy."""
        sh("objcopy", *command, self.folder / "whole", self.program)

    def keep_debug(self, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        sh("objcopy", "--only-keep-debug", self.folder / "whole", target)
        return target

    def build_id(self):
        notes = subprocess.run(["readelf", "-n", self.folder / "whole"], capture_output=True,
                               text=True, check=True).stdout
        return notes.split("Build ID:")[1].split()[0]

    def by_id(self, build_id=None):
        build_id = build_id or self.build_id()
        return self.root / ".build-id" / build_id[:2] / (build_id[2:] + ".debug")

    def report(self, cached=False, **env):
        settings = dict(self.env, **env)
        if cached:
            settings.setdefault("XDG_CACHE_HOME", str(self.cache))
        done = run([HEFT, "report", "--json", self.recording], env=settings)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def stack(self, size=4242, **more):
        """The frames of the one site that allocated this many bytes."""
        sites = [s for s in self.report(**more)["sites"] if s["allocated_bytes"] == size]
        assert len(sites) == 1
        return sites[0]["stack"]

    def notes(self, **more):
        return " | ".join(n["text"] for n in self.report(**more)["notes"])


@pytest.fixture
def case(tmp_path):
    return Case(tmp_path)


def is_whole(stack, folder, source="named.c"):
    found = [(f["function"], f.get("line"), f["inlined"]) for f in stack[:3]]
    files = {os.path.basename(f.get("file") or "") for f in stack[:3]}
    return found == C_LINES and files == {source}


def is_names_only(stack):
    return [f["function"] for f in stack[:2]] == ["hidden", "main"] and not stack[0].get("line")


def is_bare(stack):
    return stack[0]["function"].startswith("prog+0x")


def check_whole(stack, folder):
    assert is_whole(stack, folder), stack[:3]


# ---- forms of debug information


@pytest.mark.parametrize("flags", [
    [], ["-gdwarf-4"], ["-gdwarf-3"], ["-gz=zlib"], ["-gz=zlib-gnu"], ["-no-pie"],
    ["-fdebug-types-section"], ["-flto"], ["-Wl,--strip-debug"],
], ids=lambda f: f[0].strip("-") if f else "plain")
def test_forms(case, flags):
    case.build(*flags).record()
    if flags == ["-Wl,--strip-debug"]:
        assert is_names_only(case.stack())
    else:
        check_whole(case.stack(), case.folder)


def test_clang_without_address_ranges(case):
    need("clang")
    case.build(compiler="clang").record()
    sections = subprocess.run(["readelf", "-S", "--wide", case.program], capture_output=True,
                              text=True, check=True).stdout
    assert ".debug_info" in sections and ".debug_aranges" not in sections
    check_whole(case.stack(), case.folder)


def test_shared_library(case):
    (case.folder / "main.c").write_text("int start(void); int main(void) { return start(); }\n")
    text = (PROGRAMS / "named.c").read_text().replace("int main(void)", "int start(void)")
    (case.folder / "named.c").write_text(text)
    library = case.folder / "libnamed.so"
    sh("gcc", "-O1", "-g", "-fPIC", "-shared", "-o", library, "named.c", cwd=case.folder)
    sh("gcc", "-O1", "-o", case.program, "main.c", f"-L{case.folder}", "-lnamed",
       f"-Wl,-rpath,{case.folder}", cwd=case.folder)
    case.record()
    stack = case.stack()
    assert [(f["function"], f["line"]) for f in stack[:2]] == [c[:2] for c in C_LINES[:2]]
    assert stack[0]["module"] == str(library) and stack[3]["module"] == str(case.program)


def test_compressed_with_zstd(case):
    """elfutils reads it from 0.189 on: then lines come too, else names must still come."""
    if subprocess.run(["objcopy", "--compress-debug-sections=zstd", HEFT, case.folder / "x"],
                      capture_output=True, check=False).returncode:
        pytest.skip("objcopy cannot make it")
    case.build().record()
    case.change("--compress-debug-sections=zstd")
    stack = case.stack()
    version = subprocess.run(["pkg-config", "--modversion", "libdw"], capture_output=True, text=True,
                             check=True).stdout
    if tuple(int(n) for n in version.split(".")) >= (0, 189):
        assert is_whole(stack, case.folder)
    else:
        assert is_names_only(stack)


def test_stripped(case):
    case.build().record()
    check_whole(case.stack(), case.folder)
    case.change("--strip-debug")
    assert is_names_only(case.stack())
    case.change("--strip-all")
    assert is_bare(case.stack())
    assert "build your own with -g" in case.notes()
    assert case.notes().count("no debug information") == 1


# ---- separate debug files


@pytest.mark.parametrize("place", ["beside", "in .debug", "under the root"])
def test_debug_link(case, place):
    case.build().record()
    debug = {"beside": case.folder / "prog.debug", "in .debug": case.folder / ".debug/prog.debug",
             "under the root": case.root / str(case.folder)[1:] / "prog.debug"}[place]
    case.keep_debug(debug)
    case.change("--strip-all", f"--add-gnu-debuglink={debug}")
    check_whole(case.stack(), case.folder)
    debug.unlink()
    assert is_bare(case.stack())  # as distributions' files are: a link, and nothing there


def test_debug_file_of_another_build_is_not_used(case):
    case.build().record()
    debug = case.folder / "prog.debug"
    case.keep_debug(debug)
    case.change("--strip-all", f"--add-gnu-debuglink={debug}")
    sh("gcc", "-O0", "-g", "-Wl,--build-id=sha1", "-o", "other", "named.c", cwd=case.folder)
    sh("objcopy", "--only-keep-debug", "other", debug, cwd=case.folder)
    assert is_bare(case.stack())
    case.by_id().parent.mkdir(parents=True)
    shutil.copy(debug, case.by_id())
    assert is_bare(case.stack())


def test_build_id_folder(case):
    case.build().record()
    case.keep_debug(case.by_id())
    case.change("--strip-all")
    check_whole(case.stack(), case.folder)
    roots = f"{case.folder}/nothing:{case.root}/"
    check_whole(case.stack(HEFT_DEBUG_ROOTS=roots), case.folder)
    assert is_bare(case.stack(HEFT_DEBUG_ROOTS=str(case.folder)))


def test_debug_file_outlives_the_program(case):
    case.build().record()
    case.keep_debug(case.by_id())
    case.program.unlink()
    check_whole(case.stack(), case.folder)
    shutil.copy("/bin/true", case.program)
    check_whole(case.stack(), case.folder)


def test_dwz_alternate_file(case):
    need("dwz")
    case.build().record()
    first = case.keep_debug(case.by_id())
    text = (case.folder / "named.c").read_text()
    (case.folder / "more.c").write_text(text)  # dwz shares what two files have in common
    sh("gcc", "-O1", "-g", "-Wl,--build-id=sha1", "-o", "more", "more.c", cwd=case.folder)
    sh("objcopy", "--only-keep-debug", "more", "more.debug", cwd=case.folder)
    common = case.root / ".dwz" / "common.debug"
    common.parent.mkdir()
    sh("dwz", "-m", common, "-M", "../../.dwz/common.debug", first, case.folder / "more.debug")
    sections = subprocess.run(["readelf", "-S", "--wide", first], capture_output=True, text=True,
                              check=True).stdout
    assert ".gnu_debugaltlink" in sections
    case.change("--strip-all")
    check_whole(case.stack(), case.folder)
    moved = case.root / ".dwz" / "elsewhere"
    common.rename(moved)
    assert "common.debug is missing" in case.notes()
    build_id = subprocess.run(["readelf", "-n", moved], capture_output=True, text=True,
                              check=True).stdout.split("Build ID:")[1].split()[0]
    case.by_id(build_id).parent.mkdir(parents=True, exist_ok=True)
    moved.rename(case.by_id(build_id))
    check_whole(case.stack(), case.folder)


@pytest.mark.parametrize("version", ["-gdwarf-5", "-gdwarf-4"])
def test_split_dwarf(case, version):
    case.build("-gsplit-dwarf", version).record()
    check_whole(case.stack(), case.folder)
    dwo = list(case.folder.glob("*.dwo"))
    assert len(dwo) == 1
    away = case.folder / "away"
    dwo[0].rename(away)
    stack = case.stack(cached=True)
    assert stack[0]["function"] == "hidden" and not stack[0]["inlined"]
    assert f"{dwo[0].name} is missing" in case.notes(cached=True)
    away.rename(dwo[0])  # what was cached without it must not last
    check_whole(case.stack(cached=True), case.folder)


# binutils' tool does not know version 5, and LLVM 14's does not end on gcc's.
@pytest.mark.parametrize("compiler,version,tool", [
    ("gcc", 4, "dwp"), ("gcc", 4, "llvm-dwp"), ("clang", 4, "llvm-dwp"), ("clang", 5, "llvm-dwp")])
def test_split_dwarf_package(case, compiler, version, tool):
    need(compiler)
    need(tool)
    text = (PROGRAMS / "named.c").read_text()
    (case.folder / "other.c").write_text(
        text.replace("hidden", "unrelated").replace("int main(void)", "int unused(void)"))
    case.build("-gsplit-dwarf", f"-gdwarf-{version}", "other.c", compiler=compiler).record()
    sh(tool, "-e", case.program, "-o", case.folder / "prog.dwp", cwd=case.folder)
    for dwo in case.folder.glob("*.dwo"):
        dwo.unlink()
    check_whole(case.stack(), case.folder)


@pytest.mark.parametrize("version", [4, 5])
def test_split_dwarf_beside_an_old_package(case, version):
    """The package was made from an earlier build: what is in the .dwo file counts."""
    need("dwp")
    (case.folder / "old.c").write_text("int main(void) { return 0; }\n")
    sh("gcc", "-g", "-gsplit-dwarf", "-gdwarf-4", "-o", "old", "old.c", cwd=case.folder)
    sh("dwp", "-e", "old", "-o", "prog.dwp", cwd=case.folder)
    case.build("-gsplit-dwarf", f"-gdwarf-{version}").record()
    check_whole(case.stack(), case.folder)


def test_mini_debuginfo(case):
    need("xz")
    case.build().record()
    sh("objcopy", "-S", "--keep-symbol=hidden", "--keep-symbol=main", "--remove-section=.comment",
       case.folder / "whole", case.folder / "mini")
    sh("xz", case.folder / "mini")
    case.change("--strip-all", f"--add-section=.gnu_debugdata={case.folder}/mini.xz")
    assert is_names_only(case.stack())


# ---- files that are not what was recorded


def test_replaced_program(case):
    case.build().record()
    sh("gcc", "-O0", "-g", "-Wl,--build-id=sha1", "-o", case.program, "named.c", cwd=case.folder)
    assert is_bare(case.stack())
    assert "was replaced since the recording" in case.notes()
    case.program.unlink()
    assert is_bare(case.stack())
    assert "is gone or cannot be read" in case.notes()


# ---- names


def test_cxx_names(case):
    case.build(source="named_cxx.cc").record()
    sites = [s["stack"] for s in case.report()["sites"] if s["allocated_bytes"] == 5151]
    assert sorted((s[0]["function"], s[0]["line"]) for s in sites) == [
        ("outer::(anonymous namespace)::unseen(int)", line_of("named_cxx.cc", "unseen")),
        ("outer::box<char>::make(unsigned long) const", line_of("named_cxx.cc", "make")),
    ]


@pytest.mark.parametrize("mangling", ["legacy", "v0"])
def test_rust_names(case, mangling):
    need("rustc")
    shutil.copy(PROGRAMS / "named.rs", case.folder)
    flags = ["-C", f"symbol-mangling-version={mangling}"]
    if mangling == "legacy":
        flags += ["-Z", "unstable-options"]
    command = ["rustc", "-g", "-O", "-o", str(case.program), "named.rs"]
    done = subprocess.run(command[:1] + flags + command[1:], cwd=case.folder, capture_output=True,
                          text=True, timeout=TIME_LIMIT, check=False)
    if done.returncode and mangling == "legacy":  # where it is the default, the flag is not stable
        done = subprocess.run(command, cwd=case.folder, capture_output=True, text=True,
                              timeout=TIME_LIMIT, check=False)
    if done.returncode:
        pytest.skip(f"rustc cannot build it: {done.stderr.strip()[:200]}")
    case.record()
    functions = [f["function"] for f in case.stack(7171)]
    grow = [f for f in functions if "grow" in f and "Shelf" in f]
    assert len(grow) == 1, functions
    assert grow[0].endswith("::grow") and "17h" not in grow[0] and "_R" not in grow[0]
    assert "named::main" in functions


# ---- code that a program makes itself


def perf_map_of(case, *arguments):
    case.build(source="jit_frame.c").record(case.program, *arguments)
    pid = case.report()["pid"]
    return pathlib.Path(f"/tmp/perf-{pid}.map")


def test_perf_map(case):
    path = perf_map_of(case, "Script::run (a.js:12)")
    try:
        stack = case.stack(6363)
        assert stack[0]["function"] == "Script::run (a.js:12)"
        os.utime(path, (time.time() - 7200, time.time() - 7200))  # of an earlier process
        assert "Script" not in case.stack(6363)[0]["function"]
        os.utime(path, None)
        text = path.read_text()
        path.unlink()
        (case.folder / "map").write_text(text)
        path.symlink_to(case.folder / "map")
        assert "Script" not in case.stack(6363)[0]["function"]
        path.unlink()
        path.write_text(text)
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)  # anyone may write there
            assert "Script" not in case.stack(6363)[0]["function"]
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("said, function, file, line", [
    ("JS:*work /src/a b.js:12:5", "JS:work", "/src/a b.js", 12),
    ("LazyCompile:~get size node:buffer:414:50", "JS:get size", "node:buffer", 414),
    ("JS:~ file:///src/m.mjs:1:1", "JS:(anonymous)", "file:///src/m.mjs", 1),
    ("JS:^x [eval]:3:4", "JS:x", "[eval]", 3),
    ("JS:*nowhere", "JS:*nowhere", "", 0),
    ("JS:*f /src/a.js:99999999999:1", "JS:*f /src/a.js:99999999999:1", "", 0),
    ("JS:", "JS:", "", 0),
    ("py::work:/src/a.py", "py::work", "/src/a.py", 0),
])
def test_perf_map_of_an_interpreter(case, said, function, file, line):
    path = perf_map_of(case, said)
    try:
        frame = case.stack(6363)[0]
        assert (frame["function"], frame["file"], frame["line"]) == (function, file, line)
    finally:
        path.unlink(missing_ok=True)


def test_no_perf_map(case):
    assert not perf_map_of(case).exists()
    assert case.stack(6363)[0]["function"].startswith("[unknown]+0x")


# ---- the cache


def entry(case):
    """The file of the program: its name is the build id, and a hash of its path."""
    found, = (case.cache / "heft" / "symbols").glob(case.build_id() + "-*")
    return found


def test_cache_answers_without_the_program(case):
    case.build().record()
    check_whole(case.stack(cached=True), case.folder)
    assert entry(case).stat().st_mode & 0o777 == 0o600
    first = entry(case).stat()
    case.program.unlink()
    check_whole(case.stack(cached=True), case.folder)
    assert "is gone" not in case.notes(cached=True)
    assert entry(case).stat().st_mtime_ns == first.st_mtime_ns  # nothing new, nothing written
    assert is_bare(case.stack())


def test_cache_is_not_mixed_up_by_another_build(case):
    case.build().record()
    check_whole(case.stack(cached=True), case.folder)
    sh("gcc", "-O0", "-g", "-Wl,--build-id=sha1", "-o", case.program, "named.c", cwd=case.folder)
    check_whole(case.stack(cached=True), case.folder)  # still the recorded build's lines


def damage(case, how):
    path = entry(case)
    data = bytearray(path.read_bytes())
    if how == "flipped":
        data[len(data) // 2] ^= 1
    elif how == "cut":
        data = data[:len(data) // 2]
    elif how == "empty":
        data = bytearray()
    elif how == "another version":
        data[8] += 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["flipped", "cut", "empty", "another version"])
def test_damaged_cache_is_written_anew(case, how):
    case.build().record()
    check_whole(case.stack(cached=True), case.folder)
    whole = entry(case).read_bytes()
    damage(case, how)
    check_whole(case.stack(cached=True), case.folder)
    assert entry(case).read_bytes() == whole


def test_cache_folder_cannot_be_written(case):
    case.build().record()
    case.cache.write_text("a file where the folder should be")
    check_whole(case.stack(cached=True), case.folder)
    case.cache.unlink()
    check_whole(case.stack(cached=True), case.folder)
    path = entry(case)
    path.unlink()
    path.mkdir()  # and where the entry should be
    check_whole(case.stack(cached=True), case.folder)
    assert entry(case).is_dir() and len(list(entry(case).parent.iterdir())) == len(
        [p for p in entry(case).parent.iterdir() if not p.name.endswith(".new")])


def test_cache_of_another_user(case):
    if os.geteuid():
        pytest.skip("needs root to make a file of another user")
    case.build().record()
    case.stack(cached=True)
    case.program.unlink()
    os.chown(entry(case), 12345, -1)
    assert is_bare(case.stack(cached=True))


def forge(case):
    """The same program with other names, which says that it has the build id of the real one."""
    text = (PROGRAMS / "named.c").read_text().replace("hidden", "forged").replace("inner", "faked")
    (case.folder / "forged.c").write_text(text)
    forged = case.folder / "forged"
    sh("gcc", "-O1", "-g", "-fno-builtin", f"-Wl,--build-id=0x{case.build_id()}", "-o", forged, "forged.c",
       cwd=case.folder)
    return forged


def test_a_forged_build_id_gives_no_names_to_others(case):
    """Somebody's program says that it is the build of another one, and its recording is looked at first."""
    case.build().record()
    forged = forge(case)
    theirs = Case(case.folder)
    theirs.recording = case.folder / "theirs.heft"
    done = run([HEFT, "run", "-q", "-o", theirs.recording, "--", forged], cwd=case.folder)
    assert done.returncode == 0, done.stderr
    assert [f["function"] for f in theirs.stack(cached=True)[:2]] == ["faked", "forged"]
    check_whole(case.stack(cached=True), case.folder)
    assert [f["function"] for f in theirs.stack(cached=True)[:2]] == ["faked", "forged"]


def test_a_forged_file_in_the_same_place(case):
    """The same at the same path, with the same size and times: the file's own time of change tells."""
    case.build().record()
    forged = forge(case)
    real = case.program.read_bytes()
    os.utime(case.program, ns=(10**18, 10**18))
    case.program.write_bytes(forged.read_bytes().ljust(len(real), b"\0"))
    os.utime(case.program, ns=(10**18, 10**18))
    assert [f["function"] for f in case.stack(cached=True)[:2]] == ["faked", "forged"]
    case.program.write_bytes(real.ljust(case.program.stat().st_size, b"\0"))
    os.utime(case.program, ns=(10**18, 10**18))
    check_whole(case.stack(cached=True), case.folder)
    assert [f["function"] for f in case.stack(cached=True)[:1]] == ["inner"]  # from the cache now


def test_a_forged_file_that_is_gone(case):
    case.build().record()
    program = case.program.read_bytes()
    case.program.write_bytes(forge(case).read_bytes())
    case.stack(cached=True)
    case.program.write_bytes(program)
    check_whole(case.stack(cached=True), case.folder)
    case.program.unlink()
    check_whole(case.stack(cached=True), case.folder)


def test_without_build_id_nothing_is_cached(case):
    case.build("-Wl,--build-id=none").record()
    check_whole(case.stack(cached=True), case.folder)
    names = [p.name for p in (case.cache / "heft" / "symbols").iterdir()]
    assert names and all(len(n) == 40 + 1 + 16 for n in names)  # libc's and the like
    case.program.unlink()
    assert is_bare(case.stack(cached=True))


def test_debug_information_that_comes_later_is_noticed(case):
    case.build().record()
    case.change("--strip-all")
    assert is_bare(case.stack(cached=True))
    case.keep_debug(case.by_id())
    check_whole(case.stack(cached=True), case.folder)
    case.by_id().unlink()  # it may go again: what it said stays true
    check_whole(case.stack(cached=True), case.folder)


def test_another_root_is_noticed(case):
    case.build().record()
    case.change("--strip-all")
    case.keep_debug(case.by_id())
    elsewhere = str(case.folder / "elsewhere")
    assert is_bare(case.stack(cached=True, HEFT_DEBUG_ROOTS=elsewhere))
    check_whole(case.stack(cached=True, HEFT_DEBUG_ROOTS=f"{elsewhere}:{case.root}"), case.folder)


def test_unstripped_program_that_comes_later_is_noticed(case):
    case.build().record()
    case.change("--strip-all")
    assert is_bare(case.stack(cached=True))
    shutil.copy(case.folder / "whole", case.program)
    check_whole(case.stack(cached=True), case.folder)


def test_summary_of_a_run_leaves_full_answers_for_the_report(case):
    case.build()
    env = dict(case.env, XDG_CACHE_HOME=str(case.cache))
    case.record(env=env)
    check_whole(case.stack(cached=True), case.folder)


# ---- debuginfod


class DebugServer:
    """A debuginfod on loopback: files by build id, and what was asked for."""

    def __init__(self):
        self.files, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # the name that http.server looks for
                outer.asked.append(self.path)
                parts = self.path.split("/")
                path = outer.files.get(parts[2]) if self.path.endswith("/debuginfo") else None
                self.send_response(200 if path else 404)
                data = path.read_bytes() if path else b""
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def debug_server():
    if not any(pathlib.Path("/usr/lib").rglob("libdebuginfod.so.1")):
        pytest.skip("libdebuginfod1 is not installed")
    server = DebugServer()
    yield server
    server.close()


def server_env(case, url, seconds=20):
    return {"DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": str(case.folder / "fetched"),
            "HEFT_DEBUGINFOD_SECONDS": str(seconds)}


def test_debuginfod(case, debug_server):
    case.build().record()
    debug = case.keep_debug(case.folder / "served")
    case.change("--strip-all")
    env = server_env(case, debug_server.url)
    assert is_bare(case.stack(**dict(env, DEBUGINFOD_URLS="")))
    assert debug_server.asked == []  # not configured: not asked
    assert is_bare(case.stack(cached=True))
    assert is_bare(case.stack(cached=True, **env))  # asked in spite of the cache: it has not it
    assert f"/buildid/{case.build_id()}/debuginfo" in debug_server.asked
    count = len(debug_server.asked)
    assert is_bare(case.stack(cached=True, **env))
    assert len(debug_server.asked) == count  # a "no" is believed for a while
    debug_server.files[case.build_id()] = debug
    shutil.rmtree(case.folder / "fetched")
    check_whole(case.stack(**env), case.folder)


def test_a_run_never_asks(case, debug_server):
    """The summary at the end of a run must not wait for a network."""
    case.build("-s").record(env=dict(case.env, **server_env(case, debug_server.url)))
    run([HEFT, "run", "-o", case.folder / "loud.heft", "--", case.program],
        env=dict(case.env, **server_env(case, debug_server.url)), cwd=case.folder)
    assert debug_server.asked == []


def test_debuginfod_with_a_wrong_file(case, debug_server):
    case.build().record()
    case.change("--strip-all")
    sh("gcc", "-O0", "-g", "-Wl,--build-id=sha1", "-o", "other", "named.c", cwd=case.folder)
    debug_server.files[case.build_id()] = case.folder / "other"
    assert is_bare(case.stack(**server_env(case, debug_server.url)))


@pytest.fixture
def silent_server():
    """A server that takes connections and never says a word; gives its URL."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)
        yield f"http://127.0.0.1:{silent.getsockname()[1]}"


def test_debuginfod_that_does_not_answer(case, silent_server):
    case.build().record()
    case.change("--strip-all")
    start = time.monotonic()
    assert is_bare(case.stack(**server_env(case, silent_server, seconds=1)))
    assert time.monotonic() - start < 15  # one second for all modules, and the report itself


# ---- progress


def stderr_on_a_terminal(case, env):
    """What `heft report` writes to a terminal that is its stderr."""
    ours, theirs = os.openpty()
    process = start([HEFT, "report", case.recording], env=dict(case.env, **env),
                    stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    try:
        while chunk := os.read(ours, 4096):
            shown += chunk
    except OSError:  # how a terminal says that nobody is there any more
        pass
    os.close(ours)
    assert process.wait(TIME_LIMIT) == 0
    return shown


def in_a_moment(case):
    """What it writes while it reads symbols for less than a second, which a busy machine may not allow at once."""
    for _ in range(60):
        began = time.monotonic()
        shown = stderr_on_a_terminal(case, {})
        if time.monotonic() - began < 1:
            break
    return shown


def test_progress_is_shown_when_it_takes_long(case, silent_server):
    case.build().record()
    case.change("--strip-all")
    env = server_env(case, silent_server, seconds=2)
    shown = stderr_on_a_terminal(case, env)
    assert b"heft: reading symbols: debuginfod, " in shown
    assert shown.endswith(b"\r\x1b[K")  # and is taken away
    assert in_a_moment(case) == b""
    done = run([HEFT, "report", case.recording], env=dict(case.env, **env))
    assert done.stderr == b""  # nor into a file
