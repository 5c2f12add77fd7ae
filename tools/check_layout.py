#!/usr/bin/python3
"""Checks that the tree keeps its shape: which folder may include which, unique file names, what
libheft-preload.so exports and needs, opening comments, self-contained headers, and sources that clang
accepts too. What needs more than a few lines is in files of its own: functions that nothing uses
(layout_functions.py), how large things may grow (layout_limits.py), manual pages (layout_manual.py), the
steps of ARCHITECTURE.md (layout_walks.py) and the format of sources (layout_format.py).

    check_layout.py [--build DIR] [--root DIR] [--only NAME,...]

Prints one line a check, "ok NAME", "skipped NAME: why" or "FAILED NAME: what"; exit 1 if any
failed. --only takes the names of CHECKS; --root is another tree, for the tests of these checks."""

import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
from collections import defaultdict

sys.dont_write_bytecode = True  # no files beside these

import layout_format  # noqa: E402
import layout_functions  # noqa: E402
import layout_limits  # noqa: E402
import layout_manual  # noqa: E402
import layout_walks  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]

# A folder may include itself and these. What is not listed is not allowed: the two halves meet in
# wire only, readers see the model only, and nothing but cli knows cli.
MAY_INCLUDE = {
    "base": set(),
    "wire": {"base"},
    "capture": {"base", "wire"},
    "hosted": {"base"},
    "tally": {"base", "hosted"},
    "trace": {"base", "hosted", "tally"},
    "symbol": {"base", "hosted"},
    "profile": {"base", "hosted", "tally", "trace", "symbol"},
    "import": {"base", "hosted", "symbol", "profile"},
    "export": {"base", "hosted", "profile"},
    "findings": {"base", "hosted", "profile"},
    "model_json": {"base", "hosted", "profile", "findings"},
    "report": {"base", "hosted", "profile", "findings", "model_json"},
    "top": {"base", "hosted", "profile", "findings"},
    "http": {"base", "hosted"},
    "pprof": {"base", "hosted", "profile", "export", "http"},
    "pages": {"base", "hosted", "profile", "export", "findings", "model_json", "report", "http"},
    "session": {"base", "hosted", "wire", "tally", "trace"},
    "attach": {"base", "hosted", "wire", "symbol", "session"},
    "ledger": {"base", "hosted", "session", "symbol", "attach"},
    "agent": {"base", "hosted", "wire", "tally", "trace", "profile", "session"},
    "record": {"base", "hosted", "wire", "tally", "trace", "session", "agent"},
    "cli": {"base", "hosted", "tally", "trace", "symbol", "profile", "import", "export", "findings",
            "model_json", "report", "top", "http", "pprof", "pages", "session", "attach", "ledger", "agent", "record"},
}

# What a header brings in counts as included. These bring in more than their users may see:
# (folder, header or folder of headers): the folders behind it, and why.
BRINGS_IN = {
    ("import", "profile/profile_from_trace.h"): (
        {"trace", "tally"}, "one header has the selection, which imports take, and the reader of recordings"),
    ("pages", "profile/profile_from_trace.h"): (
        {"trace", "tally"}, "a view keeps its recording's reader and ladder, and hands them to profile"),
    ("ledger", "attach/target_allocator.h"): (
        {"wire"}, "the functions of an allocator are numbered as the blob numbers them; ledger reads its module only"),
    ("cli", "session"): (
        {"wire"}, "struct process has the session as a member; cli reads its other fields"),
}

# The allocation functions heft stands in for, and the calls it must follow to see threads,
# processes and unloaded objects.
INTERPOSED = {
    "malloc", "calloc", "realloc", "free", "cfree", "posix_memalign", "aligned_alloc", "memalign",
    "valloc", "pvalloc", "reallocarray", "free_sized", "free_aligned_sized",
    "strdup", "strndup",
    "execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "execveat", "fexecve",
    "posix_spawn", "posix_spawnp", "fork", "vfork", "_Fork", "clone", "system", "popen",
    "dlopen", "dlmopen", "dlclose", "pthread_create", "pthread_exit", "pthread_setname_np", "prctl", "syscall",
    "close", "close_range", "closefrom", "exit", "_exit", "_Exit", "quick_exit", "__libc_start_main", "wait", "waitpid", "wait3",
    "wait4", "waitid", "system", "popen", "pclose",
    "mlockall", "setrlimit", "setrlimit64", "prlimit", "prlimit64",
    "mmap", "mmap64", "munmap", "mremap", "madvise", "brk", "sbrk", "shmat", "shmdt",
    "__gmon_start__",  # called by the start-up code of every library: see src/capture/redirect.c
}
# C++ new and delete, where they are hooked.
INTERPOSED_CXX = re.compile(r"^_Z(nw|na|dl|da)")
NEEDED = {"libc.so.6", "ld-linux-x86-64.so.2"}

# Names that tools demand in more than one folder.
REPEATED = {"meson.build", "conftest.py", "README.md", "__init__.py", ".gitignore"}
VAGUE = {"utils", "util", "misc", "common", "helpers"}

failed = False


def report(name, problems):
    global failed
    if not problems:
        print(f"ok {name}")
        return
    failed = True
    for problem in problems:
        print(f"FAILED {name}: {problem}")


def tracked_files():
    """What git knows or would add; without git, what is there."""
    try:
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"],
                                capture_output=True, text=True, check=True).stdout
        return sorted(f for f in listed.splitlines() if (ROOT / f).is_file())
    except (OSError, subprocess.CalledProcessError):
        return sorted(str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                      if p.is_file() and ".git" not in p.parts and "build" not in p.parts[-2:])


def check_includes(files):
    problems, included = [], {}
    for name in files:
        parts = pathlib.PurePath(name).parts
        if parts[0] != "src" or not name.endswith((".c", ".h")) or len(parts) < 3:
            continue
        folder = parts[1]
        if folder not in MAY_INCLUDE:
            problems.append(f"{name}: folder {folder} has no line in MAY_INCLUDE")
            continue
        headers = included["/".join(parts[1:])] = []
        text = (ROOT / name).read_text(errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not m:
                continue
            target = pathlib.PurePath(m.group(1)).parts
            where = f"{name}:{number}"
            if len(target) == 1 and target[0] != "heft.h":
                problems.append(f'{where}: "{m.group(1)}" is not written from src/')
            elif target[0] in MAY_INCLUDE:
                headers.append(m.group(1))
                if target[0] != folder and target[0] not in MAY_INCLUDE[folder]:
                    problems.append(f"{where}: {folder} may not include {target[0]}")
            elif target[0] != "heft.h":
                problems.append(f'{where}: "{m.group(1)}" is in no folder of src/')
            if m.group(1).endswith(".c"):
                problems.append(f"{where}: a .c file is included")
    report("include directions", problems)
    check_brought_in(included)


def folder_of(name):
    return name.split("/")[0]


def brought_in(name, included):
    """Headers that a file gets through others, and by which: (header, one that includes it)."""
    seen, waiting = set(included[name]), list(included[name])
    while waiting:
        header = waiting.pop()
        for inner in included.get(header, ()):
            yield inner, header
            if inner not in seen:
                seen.add(inner)
                waiting.append(inner)


def check_brought_in(included):
    found = {}  # (folder, header that brings it in, folder behind it): one file for which it does
    for name in sorted(included):
        folder = folder_of(name)
        allowed = MAY_INCLUDE[folder] | {folder}
        for inner, header in brought_in(name, included):
            if folder_of(inner) not in allowed and folder_of(header) in allowed:
                found.setdefault((folder, header, folder_of(inner)), name)
    problems, used = [], set()
    for (folder, header, behind), name in sorted(found.items()):
        excepted = [key for key in ((folder, header), (folder, folder_of(header)))
                    if behind in BRINGS_IN.get(key, (set(),))[0]]
        used.update(excepted)
        if not excepted:
            problems.append(f"src/{name}: {folder} may not see {behind}, which {header} brings in")
    problems += [f"{through} brings nothing into {folder} any more: its line in BRINGS_IN can go"
                 for folder, through in sorted(set(BRINGS_IN) - used)]
    report("headers bring in only what may be included", problems)


def check_names(files):
    places = defaultdict(list)
    problems = []
    for name in files:
        path = pathlib.PurePath(name)
        if path.parts[0] in ("src", "tests", "tools", "examples", "include") and \
                path.name not in REPEATED and "corpus" not in path.parts:
            places[path.name].append(name)
        if path.stem in VAGUE:
            problems.append(f"{name}: name the thing")
    for name, where in sorted(places.items()):
        stems = {pathlib.PurePath(w).parent for w in where}
        if len(where) > 1 and len(stems) > 1:
            problems.append(f"{name} stands in {', '.join(where)}")
    report("file names are unique", problems)


def check_heads(files):
    """Every source opens with what it is, in 3 to 30 lines (a test or example may say it in fewer)."""
    problems = []
    for name in files:
        if not name.startswith("src/") or not name.endswith(".c"):
            continue
        text = (ROOT / name).read_text(errors="replace")
        if not text.startswith("/*"):
            problems.append(f"{name} does not open with a comment")
        elif text[:text.find("*/")].count("\n") > 40:
            problems.append(f"{name} opens with more than 40 lines of comment")
    report("every source opens with what it is", problems)


def command_lines(command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def check_library(build):
    library = build / "libheft-preload.so"
    checks = ("library exports only what it interposes", "library needs only libc",
              "library takes symbols from libc only")
    if not library.exists():
        for name in checks:
            report(name, [f"{library.name} is not in the build directory"])
        return
    exported, undefined = set(), []
    for line in command_lines(["nm", "-D", "--with-symbol-versions", library]):
        m = re.match(r"^[0-9a-f ]{16} (\S) (\S+)$", line)
        if not m:
            continue
        kind, symbol = m.groups()
        if kind in "Uwv":
            undefined.append((kind, symbol))
        else:
            exported.add(symbol.split("@")[0])
    report(checks[0], [f"exports {s}" for s in sorted(exported)
                       if s not in INTERPOSED and not s.startswith("heft_")
                       and not INTERPOSED_CXX.match(s)]
           + ([] if "malloc" in exported else ["does not export malloc"]))
    needed = {m.group(1) for line in command_lines(["readelf", "-dW", library])
              for m in [re.search(r"\(NEEDED\).*\[(.+)\]", line)] if m}
    report(checks[1], [f"needs {n}" for n in sorted(needed - NEEDED)])
    # A versioned name comes from glibc; weak ones without version are the linker's own.
    own_weak = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__"}
    report(checks[2], [f"takes {s}" for kind, s in undefined
                       if "@GLIBC_" not in s and s not in own_weak])


# Functions of the blob that wait for a real one while the guard or `inside` says so (of exec: in a process that shares its
# memory, nobody needs it).
BLOB_WAITS = re.compile(r"<(heft_exact_(?!free)\w+|heft_allocated_unusually|heft_sampled_(?!free)\w+|passed_on_\w+|heft_blob_dlclose|heft_blob_f?execve(at)?)(\.\w+)*>")
# Others that call by an address: a parameter, and what asks an allocator for a size while the guard is set.
BLOB_CALLS = re.compile(r"<(dereference|heft_grown_freed|heft_record_slowly|on_stack|own_record)(\.\w+)*>")


def check_blob(build):
    blob = build / "heft-blob.so"
    checks = ("the blob is linked to nothing", "detaching sees who waits in the blob")
    if not blob.exists():
        for name in checks:
            report(name, [f"{blob.name} is not in the build directory"])
        return
    problems = []
    for line in command_lines(["nm", "-D", blob]):
        if line.split()[1:] != ["D", "heft_blob"]:
            problems.append("has the symbol " + line)
    for line in command_lines(["readelf", "-dlrW", blob]):
        if re.search(r"\(NEEDED\)|^ +TLS ", line) or (" R_X86_64_" in line and "R_X86_64_RELATIVE" not in line):
            problems.append(line.strip())
    report(checks[0], problems)
    function, problems, waits = "", [], 0
    for line in command_lines(["objdump", "-d", "--no-show-raw-insn", blob]):
        named = re.match(r"^[0-9a-f]+ (<.+>):$", line)
        if named:
            function = named.group(1)
        elif re.search(r"\bcall +\*", line):
            waits += 1
            if not BLOB_WAITS.fullmatch(function) and not BLOB_CALLS.fullmatch(function):
                problems.append(f"{function} calls a real function: {line.strip()}")
    report(checks[1], problems or ([] if waits else ["no real function is called: objdump is silent"]))


def check_pages():
    name = "manual pages have no lint"
    pages = sorted((ROOT / "man").glob("*.1"))
    if not shutil.which("mandoc"):
        print(f"skipped {name}: no mandoc")
        return
    problems = [] if pages else ["there are none"]
    for page in pages:
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", str(page)],
                              capture_output=True, text=True, check=False)
        # mandoc knows only the pages that are installed, and ours may not be.
        problems += [line.removeprefix("mandoc: ") for line in done.stdout.splitlines()
                     if "referenced manual not found" not in line]
    report(name, problems)


def compiles(compiler, source, *flags):
    """The first complaint of a compiler about one file, or None."""
    if re.match(r"src/capture/(blob|own_).*\.c$", source):
        flags += ("-DHEFT_BLOB", "-ffreestanding")
    done = subprocess.run([compiler, "-std=gnu17", "-D_GNU_SOURCE=", '-DHEFT_VERSION=""', "-I",
                           str(ROOT / "src"), "-I", str(ROOT / "include"), "-fsyntax-only",
                           "-Werror", *flags, "-x", "c", str(ROOT / source)],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    complaints = [line for line in done.stderr.splitlines() if "error" in line]
    return (complaints or done.stderr.splitlines() or ["failed"])[0].replace(str(ROOT) + "/", "")


def check_functions(build):
    names = ("no function is dead", "what one file uses is static")
    try:
        found = layout_functions.check(ROOT, build)
    except layout_functions.NoObjects as why:
        found = [str(why)], []
    for name, problems in zip(names, found):
        report(name, problems)


def check_format(files):
    name = f"sources are as clang-format {layout_format.RELEASE} writes them"
    formatter, why = layout_format.find_formatter()
    if formatter:
        report(name, layout_format.check(ROOT, files, formatter))
    else:
        print(f"skipped {name}: {why}")


def check_compilers(files):
    sources = [f for f in files if f.startswith("src/")]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        # Wno-unused: a header alone uses none of its static functions.
        complaints = pool.map(lambda f: compiles("gcc", f, "-Wall", "-Wno-unused"),
                              [f for f in sources if f.endswith(".h")])
        report("headers are self-contained", [c for c in complaints if c])
        name = "clang has no complaints"
        if not shutil.which("clang"):
            print(f"skipped {name}: no clang")
            return
        complaints = pool.map(lambda f: compiles("clang", f, "-Wall", "-Wextra"),
                              [f for f in sources if f.endswith(".c")])
        report(name, [c for c in complaints if c])


def check_public_header(files):
    if "include/heft.h" not in files:
        return
    problems = []
    for compiler, flags in (("gcc", ["-std=c99", "-pedantic"]), ("g++", ["-std=c++11", "-pedantic"])):
        if not shutil.which(compiler):
            continue
        done = subprocess.run([compiler, *flags, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x",
                               "c++" if compiler == "g++" else "c", str(ROOT / "include/heft.h")],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            problems.append(f"{compiler}: {done.stderr.splitlines()[0]}")
    report("the public header is plain C and C++", problems)


CHECKS = {
    "includes": lambda files, build: check_includes(files),
    "names": lambda files, build: check_names(files),
    "heads": lambda files, build: check_heads(files),
    "limits": lambda files, build: report("files, functions and structs keep their limits",
                                          layout_limits.check(ROOT, files)),
    "library": lambda files, build: check_library(build),
    "blob": lambda files, build: check_blob(build),
    "functions": lambda files, build: check_functions(build),
    "pages": lambda files, build: check_pages(),
    "manual": lambda files, build: report("manual pages agree with the verbs",
                                          layout_manual.check(ROOT, build / "heft")),
    "walks": lambda files, build: report("ARCHITECTURE.md names what there is", layout_walks.check(ROOT)),
    "table": lambda files, build: report("ARCHITECTURE.md has the table of includes", list(
        layout_walks.check_table((ROOT / "ARCHITECTURE.md").read_text(), MAY_INCLUDE))),
    "format": lambda files, build: check_format(files),
    "compilers": lambda files, build: check_compilers(files),
    "header": lambda files, build: check_public_header(files),
}


def main():
    global ROOT
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--only", default=",".join(CHECKS))
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if set(wanted) - set(CHECKS):
        parser.error(f"no check {', '.join(sorted(set(wanted) - set(CHECKS)))}")
    ROOT = arguments.root.resolve()
    build = (arguments.build or ROOT / "build").resolve()
    files = tracked_files()
    for name in wanted:
        CHECKS[name](files, build)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
