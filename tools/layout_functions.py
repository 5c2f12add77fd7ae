"""Functions that nothing uses. Every source of heft and of libheft-preload.so is compiled once more,
without optimisation and with a section for each function, and the linker drops the sections that
neither program reaches (--gc-sections). What is dropped from both is dead: a unit test that calls a
function does not make it alive. Static functions of headers are kept by the compiler
(-fkeep-inline-functions), so that they are seen as well.

A second question is answered by the same objects: a function that only its own source uses should
be static there. A unit test that names it is reason enough for it not to be."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
from collections import defaultdict

# What only tests use, and why it stays: NAME: reason.
KEPT = {
    "import_source_open_bytes": "fuzz targets read an input that is no file",
    "perf_map_parse": "fuzz targets and tests read a map that is no file",
    "symbol_cache_parse": "fuzz targets and tests read a cache that is no file",
    "trace_writer_events": "tests write recordings event by event; the recorder writes batches",
    "events_encode": "trace_writer_events uses it",
    "user_frame_is_runtime": "tests ask the built-in rules about one name; the model asks about all",
}

FLAGS = ["-O0", "-ffunction-sections", "-fdata-sections", "-fkeep-inline-functions", "-w", "-g0"]
# Of a compiler's line: what would write elsewhere, take time or move code.
DROPPED = re.compile(r"^(-O.|-g|-M[DQF]?|-W.*|-fdiagnostics-color.*|-fsanitize.*|--coverage)$")
WITH_VALUE = {"-MQ", "-MF", "-o"}
REMOVED = re.compile(r"removing unused section '\.text\.([^']+)' in file '([^']+)'")
SYMBOL = re.compile(r"^(?:[0-9a-f]{16}|\s{16}) (\S) (\S+)$")


class NoObjects(Exception):
    """A source does not compile, or there is no list of sources."""


def product(output):
    """Which of the two programs an object is a part of, by where meson puts it; None: of neither."""
    if output.startswith(("libheft-preload.so.p/", "libheft-entry.a.p/")):
        return "preload"
    if output.startswith("heft.p/") or re.match(r"src/\w+/libheft-\w+\.a\.p/", output):
        return "heft"
    return None


def recompile(entry, folder):
    """Compiles one source as compile_commands.json says, but for FLAGS; returns the object."""
    words, command = shlex.split(entry["command"]), []
    i = 0
    while i < len(words):
        if words[i] in WITH_VALUE:
            i += 1
        elif not DROPPED.match(words[i]):
            command.append(words[i])
        i += 1
    name = hashlib.sha1(entry["output"].encode()).hexdigest()[:8]
    target = folder / f"{pathlib.PurePath(entry['file']).stem}-{name}.o"
    done = subprocess.run([*command, *FLAGS, "-o", str(target)], cwd=entry["directory"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoObjects(f"{entry['file']}: {(done.stderr.splitlines() or ['failed'])[0]}")
    return target


def compile_all(build, folder):
    """{"heft": [object...], "preload": [object...]}, and the source of each object."""
    listed = build / "compile_commands.json"
    if not listed.is_file():
        raise NoObjects(f"{listed.name} is not in the build directory")
    entries = [e for e in json.loads(listed.read_text()) if product(e["output"])]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        made = list(pool.map(lambda e: recompile(e, folder), entries))
    objects, sources = defaultdict(list), {}
    for entry, target in zip(entries, made):
        objects[product(entry["output"])].append(target)
        sources[target] = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
    return objects, sources


def symbols(objects):
    """Of each object: the functions that it defines for others and for itself, and the names that it
    lacks."""
    defined, local, lacked = {}, {}, {}
    for target in objects:
        done = subprocess.run(["nm", str(target)], capture_output=True, text=True, check=True)
        found = [m.groups() for line in done.stdout.splitlines() for m in [SYMBOL.match(line)] if m]
        defined[target] = {name for kind, name in found if kind == "T"}
        local[target] = {name for kind, name in found if kind == "t"}
        lacked[target] = {name for kind, name in found if kind in "Uw"}
    return defined, local, lacked


def exported(library):
    done = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True,
                          check=False)
    return {m.group(2).split("@")[0] for line in done.stdout.splitlines()
            for m in [SYMBOL.match(line)] if m}


def unreached(objects, roots, output):
    """{object: functions of it that nothing reaches from the roots}."""
    command = ["ld", "-r", "--gc-sections", "--print-gc-sections", "-e", roots[0]]
    for root in roots[1:]:
        command += ["-u", root]
    done = subprocess.run([*command, "-o", str(output), *map(str, objects)], capture_output=True,
                          text=True, check=False, env={**os.environ, "LC_ALL": "C"})
    if done.returncode:
        raise NoObjects(done.stderr.splitlines()[-1])
    found = defaultdict(set)
    for name, target in REMOVED.findall(done.stdout + done.stderr):
        found[pathlib.Path(target)].add(name)
    return found


def function_homes(root):
    """Where each function of the tree may be defined: {name: [files that have NAME( in them]}."""
    homes = defaultdict(list)
    for path in sorted((root / "src").glob("*/*.[ch]")):
        for name in set(re.findall(r"\b(\w+)\(", path.read_text(errors="replace"))):
            homes[name].append(str(path.relative_to(root)))
    return homes


def find_dead(root, sources, dropped, local):
    """A function of a source is dead where it was dropped. One of a header, which many objects have
    a copy of, is dead if every copy was dropped. What the tree does not name is from libc's headers."""
    homes, dead = function_homes(root), set()
    copies, dead_copies = defaultdict(int), defaultdict(int)
    for names in local.values():
        for name in names:
            copies[name] += 1
    for target, names in dropped.items():
        own = str(sources[target].relative_to(root)) if sources[target].is_relative_to(root) else None
        for name in names:
            if name not in local[target] or own in homes[name]:
                dead.add((own or sources[target].name, name))
            else:
                dead_copies[name] += 1
    for name, count in dead_copies.items():
        headers = [home for home in homes[name] if home.endswith(".h")]
        if headers and count == copies[name]:
            dead.add((headers[0], name))
    return dead


def check(root, build):
    """Problems of the two checks: (dead functions, functions that should be static)."""
    with tempfile.TemporaryDirectory(prefix="heft-functions-") as folder:
        return check_objects(root, build, pathlib.Path(folder))


def check_objects(root, build, folder):
    objects, sources = compile_all(build, folder)
    public = exported(build / "libheft-preload.so")
    everything = objects["heft"] + objects["preload"]
    defined, local, lacked = symbols(everything)
    dropped = defaultdict(set)
    for which, roots in (("heft", ["main"]), ("preload", sorted(public))):
        dropped.update(unreached(objects[which], roots, folder / "reached.o"))
    dead = find_dead(root, sources, dropped, local)
    problems = [f"{file}: nothing uses {name}()" for file, name in sorted(dead) if name not in KEPT]
    problems += [f"{name}() is used, or is not there: its line in KEPT can go"
                 for name in sorted(set(KEPT) - {name for _, name in dead})]

    users = defaultdict(int)
    for names in lacked.values():
        for name in names:
            users[name] += 1
    tested = {word for path in (root / "tests").rglob("*.[ch]")
              for word in re.findall(r"\w+", path.read_text(errors="replace"))}
    own = [f"{sources[target].relative_to(root)}: only this file uses {name}(): it should be static"
           for target in everything for name in defined[target] - dropped[target] - tested - public - {"main"}
           if not users[name]]
    return problems, sorted(own)
