"""Programs and libraries whose segments have gaps between them keep their names, lines and stacks.
What lies in a gap is not theirs. (tests/integration/test_stacks_exact.py compares the stacks of
make, bc, lsof and node, which are laid out so, with libunwind's.)"""

import re
import subprocess

import pytest

from harness import in_module, line_of, names, total

GAPS = ["-Wl,-z,separate-code", "-Wl,-z,max-page-size=0x200000"]
KINDS = {"pie": ["-fPIE", "-pie", "-Wl,--section-start=.text_far=0x8000000"],
         "fixed": ["-no-pie", "-Wl,--section-start=.text_far=0x8000000"]}


@pytest.fixture
def build(compiled):
    def make(kind, tag="", *flags):
        library = compiled("gap_library.c", flags=["-shared", "-fPIC", *GAPS, *flags],
                           output=f"libgap{tag}.so")
        program = compiled("gap_program.c", library, flags=[
            *KINDS[kind], *GAPS, *flags, f"-Wl,-rpath,{library.parent}"], output=f"gap_{kind}{tag}")
        return program, library
    return make


def loads(path):
    out = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"LOAD +\S+ (0x\w+) \S+ \S+ (0x\w+) ([RWE ]+?) +0x", out)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ids", ["with build ids", "without"])
def test_names_and_stacks(record, build, kind, ids):
    flags = [] if ids == "with build ids" else ["-Wl,--build-id=none"]
    program, library = build(kind, "" if ids == "with build ids" else "_plain", *flags)
    segments = loads(program)
    assert sum("E" in s[2] for s in segments) == 2, segments
    spans = [(int(a, 16), int(a, 16) + int(n, 16)) for a, n, _ in segments]
    assert all(b[0] - a[1] > 0x10000 for a, b in zip(spans[:3], spans[1:3])), segments

    done, rep = record([program])
    assert done.returncode == 0, done.stderr
    assert "was replaced" not in rep.everything()
    for function, marker, size, module, source in (
            ("near_alloc", "gap.near", 1000, program, "gap_program.c"),
            ("far_alloc", "gap.far", 2000, program, "gap_program.c"),
            ("library_alloc", "gap.library", 3000, library, "gap_library.c")):
        (site,) = [s for s in rep["sites"] if names(s)[0] == function]
        assert (site["allocations"], site["allocated_bytes"]) == (5, 5 * size)
        frame, caller = site["stack"][:2]
        assert in_module(frame, module) and frame["line"] == line_of(source, marker)
        assert names(site)[1] == "main" and in_module(caller, program)
        assert names(site)[-1] == "_start", names(site)
    # The code in the gap belongs to nobody, and what called it is found beyond it.
    (site,) = rep.sites_calling("from_gap")
    assert (site["allocations"], site["allocated_bytes"]) == (5, 5 * 4000)
    assert names(site)[2] == "main" and not in_module(site["stack"][1], program), site["stack"]


def test_a_library_laid_out_as_the_program_is(record, compiled, tmp_path):
    """Their program headers say the same of their dynamic sections; each has its own all the same."""
    place = ["-Wl,--section-start=.dynamic=0x20000"]
    library = compiled("gap_library.c", flags=["-shared", "-fPIC", *place], output="libsame_layout.so")
    program = tmp_path / "same_layout"
    subprocess.run(["gcc", "-g", "-O1", "-fPIE", "-pie", "-x", "c", "-", "-x", "none", library, *place,
                    f"-Wl,-rpath,{library.parent}", "-o", program], check=True, text=True, input="""
void *library_alloc(unsigned long);
int main(void) { for (int i = 0; i < 5; i++) library_alloc(3000); return 0; }
""")
    where = {re.search(r"DYNAMIC +\S+ (0x\w+)", subprocess.run(
        ["readelf", "-lW", path], capture_output=True, text=True, check=True).stdout)[1]
        for path in (program, library)}
    assert len(where) == 1, where
    done, rep = record([program])
    assert done.returncode == 0, done.stderr
    assert "was replaced" not in rep.everything()
    (site,) = [s for s in rep["sites"] if names(s)[0] == "library_alloc"]
    assert (site["allocations"], names(site)[1], names(site)[-1]) == (5, "main", "_start")


@pytest.mark.parametrize("name", ["make", "bc", "lsof"])
def test_debian_programs_are_not_replaced(record, name):
    done, rep = record([f"/usr/bin/{name}", "-v"])
    assert done.returncode == 0, done.stderr
    assert "was replaced" not in rep.everything()
    assert rep["totals"]["allocations"] > 0
    for site in rep["sites"]:
        assert not any(frame.get("guessed") or frame.get("truncated") for frame in site["stack"]), site
