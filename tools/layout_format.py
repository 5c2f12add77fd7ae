#!/usr/bin/python3
"""C and C++ sources are written as .clang-format says, by one release of clang-format: others differ in
details. Debian 12 and 13 both have it as clang-format-19 (tools/setup.sh installs it).

    layout_format.py           formats the tree and empties tools/unformatted.txt (make format)

tools/unformatted.txt lists files and folders that are not checked yet, one a line."""

import concurrent.futures
import pathlib
import re
import shutil
import subprocess
import sys

RELEASE = "19.1.7"
NAMES = ("clang-format-19", "clang-format")
FOLDERS = ("src", "include", "tests", "examples")
PENDING = pathlib.PurePath("tools/unformatted.txt")


def find_formatter():
    """The program, or None; and why not."""
    found = []
    for name in NAMES:
        program = shutil.which(name)
        if not program:
            continue
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.search(r"version (\d+\.\d+\.\d+)", said)
        if version and version.group(1) == RELEASE:
            return program, ""
        found.append(f"{name} is {version.group(1) if version else 'unknown'}")
    return None, ", ".join(found) or f"no {NAMES[0]}"


def pending(root):
    path = root / PENDING
    return [line.strip() for line in path.read_text().splitlines() if line.strip()] if path.is_file() else []


def sources(files):
    return [f for f in files if f.endswith((".c", ".h", ".cc", ".hpp")) and pathlib.PurePath(f).parts[0] in FOLDERS]


def is_pending(file, listed):
    return any(file == entry or file.startswith(entry.rstrip("/") + "/") for entry in listed)


def check(root, files, formatter):
    """The first line of each file that clang-format would change."""
    listed = pending(root)

    def first_change(file):
        done = subprocess.run([formatter, "--style=file", "--dry-run", "--ferror-limit=1", "-Werror", file],
                              cwd=root, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        m = re.match(r"[^:]+:(\d+):", done.stderr)
        return f"{file}:{m.group(1)}: make format would change it" if m else f"{file}: {done.stderr[:200]}"

    with concurrent.futures.ThreadPoolExecutor() as pool:
        found = pool.map(first_change, [f for f in sources(files) if not is_pending(f, listed)])
    problems = [p for p in found if p]
    problems += [f"{PENDING} lists {entry}, which is not there" for entry in listed if not (root / entry).exists()]
    return problems


def main():
    import check_layout
    formatter, why = find_formatter()
    if not formatter:
        print(f"format: needs clang-format {RELEASE}: {why} (make setup installs it)", file=sys.stderr)
        return 1
    files = sources(check_layout.tracked_files())
    subprocess.run([formatter, "--style=file", "-i", *files], cwd=check_layout.ROOT, check=True)
    (check_layout.ROOT / PENDING).write_text("")
    print(f"format: {len(files)} files are as .clang-format says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
