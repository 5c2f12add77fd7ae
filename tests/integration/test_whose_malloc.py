"""Whose malloc a program calls, told truly: a program that takes malloc's address does not define it,
one that defines it is named, and what is said of many processes stands once."""

import os
import re
import shutil
import subprocess

import pytest

from harness import HEFT, line_of, report, run, total
from view_server import Viewer

ITSELF = "defines malloc itself"


@pytest.mark.parametrize("kind", ["no-pie", "pie"])
@pytest.mark.parametrize("binding", ["lazy", "now"])
def test_the_address_is_taken(compiled, tmp_path, kind, binding):
    library = compiled("taken_address.c", flags=["-shared", "-fPIC", "-DLIBRARY", f"-Wl,-z,{binding}"],
                       output=f"libtaken_{kind}_{binding}.so")
    code = ["-fno-pie", "-no-pie"] if kind == "no-pie" else ["-fPIE", "-pie"]
    program = compiled("taken_address.c", library, output=f"taken_{kind}_{binding}", flags=[
        *code, f"-Wl,-z,{binding}", f"-Wl,-rpath,{library.parent}"])
    if kind == "no-pie":  # the case: undefined, yet with a value
        symbols = subprocess.run(["readelf", "--dyn-syms", "-W", program], check=True, text=True,
                                 capture_output=True).stdout
        assert re.search(r": 0*[1-9a-f]\w* +\d+ FUNC .* UND malloc@", symbols), symbols
    path = tmp_path / "x.heft"
    done = run([HEFT, "run", "-o", path, "--", program])
    assert (done.returncode, done.stdout) == (0, b"one address\n")
    rep = report(path)
    assert ITSELF not in rep.everything() + done.stderr.decode()
    for marker, calls, size in (("own", 10, 100), ("theirs", 20, 200), ("found", 30, 300),
                                ("library", 40, 400)):
        line = line_of("taken_address.c", f"taken.{marker}")
        sites = [s for s in rep["sites"] if s["stack"][0].get("line") == line]
        assert (total(sites, "allocations"), total(sites, "allocated_bytes")) == (calls, calls * size)
        assert total(sites, "live_blocks") == (30 if marker == "found" else 0)
    assert rep["totals"]["unknown_frees"] == 0
    sampled = tmp_path / "s.heft"
    done = run([HEFT, "run", "-q", "--sample=1k", "-o", sampled, "--", program])
    assert done.returncode == 0 and ITSELF not in report(sampled).everything()


@pytest.mark.parametrize("name", ["/usr/bin/python3", shutil.which("node") or "node"],
                         ids=["python3", "node"])
def test_programs_that_take_it(record, name):
    done, rep = record([name, "--version"])
    assert done.returncode == 0
    assert ITSELF not in rep.everything()


DEFINES = {
    "versioned": (["-Wl,--version-script=versions", "-rdynamic"], "OWN_1 { global: malloc; free; };"),
    "without a type": (["-DUNTYPED", "-rdynamic"], ""),
}


@pytest.mark.parametrize("how", DEFINES)
def test_those_that_define_it(tmp_path, how):
    """Whatever kind of definition it is: the loader prefers it to heft's. (One that is chosen at start,
    an IFUNC, the loader refuses in a program.)"""
    flags, versions = DEFINES[how]
    (tmp_path / "versions").write_text(versions)
    (tmp_path / "x.c").write_text("""
#include <stddef.h>
static char heap[1 << 20];
static size_t used;
void *take(size_t n) { used += (n + 15) & ~15ul; return heap + used - ((n + 15) & ~15ul); }
#ifdef UNTYPED
__asm__(".globl malloc\\nmalloc: jmp take");
#else
void *malloc(size_t n) { return take(n); }
#endif
void *malloc(size_t n);
void free(void *p) { (void)p; }
int main(void) { return malloc(100) == NULL; }
""")
    subprocess.run(["gcc", "-O1", "-fno-builtin", "x.c", "-o", "x", *flags], cwd=tmp_path, check=True)
    done = run([HEFT, "run", "-o", "x.heft", "--", "sh", "-c", "./x; ./x"], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    notes = [n for n in report(tmp_path / "x.heft")["notes"] if ITSELF in n["text"]]
    assert [n["count"] for n in notes] == [2], notes


def test_what_many_processes_say_stands_once(compiled, tmp_path):
    program, path = compiled("own_malloc.c", output="own_malloc_often"), tmp_path / "x.heft"
    done = run([HEFT, "run", "--via=preload", "-o", path, "--", "sh", "-c",
                f"for i in 1 2 3 4 5 6 7; do {program}; done >/dev/null; exit 0"])
    assert done.returncode == 0
    said = f"(7 times) {program} {ITSELF}: the dynamic loader prefers it to heft's, so its allocations " \
           "are not recorded."
    assert done.stderr.decode().count(ITSELF) == 1
    assert done.stderr.decode().count(f"(7 times) {program} {ITSELF}") == 1
    text = " ".join(run([HEFT, "report", path]).stdout.decode().split())
    assert text.count(ITSELF) == 1 and said in text
    notes = [n for n in report(path)["notes"] if ITSELF in n["text"]]
    assert [(n["kind"], n["count"], n["text"].splitlines()[0]) for n in notes] == [("warning", 7, said)]
    with Viewer(path) as v:
        notes = [n["text"] for n in v.document("summary")["notes"] if ITSELF in n["text"]]
    assert [n.splitlines()[0] for n in notes] == [said]


def test_notes_that_differ_in_the_process_only(tmp_path):
    """Programs that could not be followed, one note for each process in the file."""
    subprocess.run(["gcc", "-static", "-x", "c", "-", "-o", tmp_path / "still"], check=True, text=True,
                   input="int main(void) { return 0; }")
    path = tmp_path / "x.heft"
    done = run([HEFT, "run", "-q", "--via=preload", "-o", path, "--", "sh", "-c", "./still; ./still; ./still; exit 0"],
               cwd=tmp_path)
    assert done.returncode == 0
    (note,) = [n for n in report(path)["notes"] if "statically linked" in n["text"]]
    assert note["count"] == 3
    assert re.fullmatch(r"\(3 like this\) process \d+ executed \./still and was not recorded: "
                        r".*statically linked.*", note["text"]), note
