#!/usr/bin/python3
"""Checks that the tree keeps its shape: which folder may include which, unique file names, what
libheft-preload.so exports and needs, opening comments, manual pages without lint, self-contained
headers, and sources that clang accepts too.

    check_layout.py [--build DIR]

Prints one line a check, "ok NAME", "skipped NAME: why" or "FAILED NAME: what"; exit 1 if any
failed."""

import argparse
import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys
from collections import defaultdict

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
    "report": {"base", "hosted", "profile", "findings"},
    "top": {"base", "hosted", "profile", "findings"},
    "http": {"base", "hosted"},
    "pprof": {"base", "hosted", "profile", "export", "http"},
    "pages": {"base", "hosted", "profile", "export", "findings", "report", "http"},
    "record": {"base", "hosted", "wire", "tally", "trace"},
    "cli": {"base", "hosted", "tally", "trace", "symbol", "profile", "import", "export", "findings", "report",
            "top", "http", "pprof", "pages", "record"},
}

# The allocation functions heft stands in for, and the calls it must follow to see threads,
# processes and unloaded objects.
INTERPOSED = {
    "malloc", "calloc", "realloc", "free", "cfree", "posix_memalign", "aligned_alloc", "memalign",
    "valloc", "pvalloc", "reallocarray", "free_sized", "free_aligned_sized",
    "strdup", "strndup",
    "execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle", "execveat", "fexecve",
    "posix_spawn", "posix_spawnp", "fork", "vfork", "_Fork", "clone", "system", "popen",
    "dlopen", "dlmopen", "dlclose", "pthread_create", "pthread_exit", "pthread_setname_np", "prctl",
    "close", "close_range", "closefrom", "_exit", "_Exit", "quick_exit", "wait", "waitpid", "wait3",
    "wait4", "waitid", "system", "popen", "pclose",
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
    problems = []
    for name in files:
        parts = pathlib.PurePath(name).parts
        if parts[0] != "src" or not name.endswith((".c", ".h")) or len(parts) < 3:
            continue
        folder = parts[1]
        if folder not in MAY_INCLUDE:
            problems.append(f"{name}: folder {folder} has no line in MAY_INCLUDE")
            continue
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
                if target[0] != folder and target[0] not in MAY_INCLUDE[folder]:
                    problems.append(f"{where}: {folder} may not include {target[0]}")
            elif target[0] != "heft.h":
                problems.append(f'{where}: "{m.group(1)}" is in no folder of src/')
            if m.group(1).endswith(".c"):
                problems.append(f"{where}: a .c file is included")
    report("include directions", problems)


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
    """Every source opens with what it is, in 3 to 30 lines (a test or example may say it in fewer),
    and stays readable in length."""
    problems, lengths = [], []
    for name in files:
        if not name.startswith("src/") or not name.endswith(".c"):
            continue
        text = (ROOT / name).read_text(errors="replace")
        if not text.startswith("/*"):
            problems.append(f"{name} does not open with a comment")
        elif text[:text.find("*/")].count("\n") > 40:
            problems.append(f"{name} opens with more than 40 lines of comment")
        lines = text.count("\n")
        if lines > 900:
            lengths.append(f"{name} has {lines} lines")
    report("every source opens with what it is", problems)
    report("no source over 900 lines", lengths)


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
    done = subprocess.run([compiler, "-std=gnu17", "-D_GNU_SOURCE=", '-DHEFT_VERSION=""', "-I",
                           str(ROOT / "src"), "-I", str(ROOT / "include"), "-fsyntax-only",
                           "-Werror", *flags, "-x", "c", str(ROOT / source)],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    complaints = [line for line in done.stderr.splitlines() if "error" in line]
    return (complaints or done.stderr.splitlines() or ["failed"])[0].replace(str(ROOT) + "/", "")


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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    arguments = parser.parse_args()
    files = tracked_files()
    check_includes(files)
    check_names(files)
    check_heads(files)
    check_library(arguments.build)
    check_pages()
    check_compilers(files)
    check_public_header(files)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
