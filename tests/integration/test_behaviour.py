"""What blocks do, of real programs: who frees them, how much of a grown array is unused, to the
byte; and that looking at a block's contents changes nothing for the program, whatever it did with
its pages, threads and processes.

All cases are in tests/programs/grown_array.c. Its array has room for 16384 structs of 24 bytes, of which
12426 are used: (16384 - 12426) * 24 = 94992 bytes are not. It grew from 64, so by 8 reallocs
(64 -> 128 ... -> 16384); blocks of 16 KiB and more are looked at."""

import json

import pytest

from harness import BUILD, allocator_library, line_of, run

UNUSED = (16384 - 12426) * 24
FINAL = 16384 * 24
SUM = 12426 * 12427 // 2


READER = BUILD / "tests" / "integration" / "behaviour_reader"


@pytest.fixture
def behaviour(compiled, record):
    """behaviour(case) -> {line: site} of a recording of that case, and its report."""

    def ask(case, status=3, stdout=None, env=None):
        program = compiled("grown_array.c")
        alone = run([program, case], env=env)
        done, rep = record([program, case], env=env)
        assert (done.returncode, done.stdout, done.stderr) == \
            (alone.returncode, alone.stdout, alone.stderr), "heft changed what it did"
        assert done.returncode == status
        if stdout is not None:
            assert done.stdout.decode() == stdout
        assert rep["totals"]["dropped"] == 0
        told = run([READER, rep.path])
        assert told.returncode == 0, told.stderr
        sites = [json.loads(line) for line in told.stdout.splitlines()]
        found = {}
        for site in sites:
            found.setdefault(site["place"]["line"], []).append(site)
        return found, rep

    return ask


def only(found, marker):
    (site,) = found[line_of("grown_array.c", marker)]
    return site


def grown_array(found, **expected):
    """The numbers of the array's site; those not named are of one array, freed and measured."""
    growth = only(found, "add")["growth"]
    whole = {"steps": 8, "blocks": 1, "final": FINAL, "largest": FINAL, "measured": 1,
             "measured_bytes": FINAL, "unused": UNUSED}
    whole.update(expected)
    assert {k: growth[k] for k in whole} == whole


def released(site, marker, samples):
    """All of its blocks were freed there."""
    assert [(r["place"]["line"], r["samples"]) for r in site["releases"]] == \
        [(line_of("grown_array.c", marker), samples)]


def test_unused_end_of_a_freed_array(behaviour):
    found, _ = behaviour("freed", stdout=f"sum {SUM}\n")
    grown_array(found)
    released(only(found, "add"), "release", 1)
    assert only(found, "add")["releases"][0]["place"]["function"] == "release"


def test_unused_end_of_an_array_that_is_live_at_exit(behaviour):
    found, rep = behaviour("kept", stdout=f"sum {SUM}\n")
    grown_array(found)
    assert only(found, "add")["releases"] == []
    assert rep["totals"]["live_bytes"] == FINAL


@pytest.mark.parametrize("case", ["closed_freed", "closed_kept", "closed_most"])
def test_pages_that_the_program_has_closed(behaviour, case):
    """It made the end of the block PROT_NONE: nothing is measured, and nobody dies of it."""
    found, _ = behaviour(case, stdout=f"sum {SUM}\n")
    grown_array(found, measured=0, measured_bytes=0, unused=0)


def test_several_threads_at_exit(behaviour):
    """Another thread could free the block while it is looked at: not measured."""
    found, rep = behaviour("thread_at_exit", stdout=f"sum {SUM}\n")
    grown_array(found, measured=0, measured_bytes=0, unused=0)
    assert rep["totals"]["live_bytes"] >= FINAL


def test_threads_that_are_gone_at_exit(behaviour):
    """As far as heft knows they may still be there."""
    found, _ = behaviour("thread_before", stdout=f"sum {SUM}\n")
    grown_array(found, measured=0, measured_bytes=0, unused=0)


def test_child_that_frees_what_it_inherited(behaviour):
    """The parent's array is one block, measured when the parent frees it; the child's copy is
    nobody's."""
    found, rep = behaviour("fork", stdout=f"child {SUM}\nparent 1\n")
    grown_array(found)
    released(only(found, "add"), "release", 1)
    assert rep["totals"]["unknown_frees"] == 0


def test_child_has_a_block_where_an_inherited_one_was(behaviour):
    """What was measured of the inherited one is not the new one's. Of 20000 bytes, the one at 1000
    is the last that is used: the words behind it, from byte 1008 on, are not."""
    found, _ = behaviour("fork_reused", stdout="reused\n")
    columns = ("steps", "blocks", "largest", "measured", "unused")
    before, after = only(found, "before")["growth"], only(found, "after")["growth"]
    assert [before[c] for c in columns] == [1, 1, 20000, 1, 20000 - 1008]
    assert [after[c] for c in columns] == [1, 1, 12000, 0, 0]


def test_child_and_parent_leave_it_to_exit(behaviour):
    found, _ = behaviour("fork_kept", stdout=f"child {SUM}\nparent {SUM}\n")
    grown_array(found)


def test_child_that_goes_on_with_what_it_inherited(behaviour):
    """The child's copy grows to 32768 in the child: to heft a block that the child made (at another
    stack: main, not make) and freed, not one that grew from a size that is known."""
    found, _ = behaviour("fork_grows", stdout=f"child {SUM + 5000 * 7}\nparent 1\n")
    sites = found.pop(line_of("grown_array.c", "add"))
    (parent,) = [s for s in sites if "growth" in s]
    (child,) = [s for s in sites if "growth" not in s]
    grown_array({parent["place"]["line"]: [parent]})
    released(parent, "release", 1)
    released(child, "release", 1)


def test_left_by_longjmp(behaviour):
    found, _ = behaviour("longjmp", stdout=f"sum {SUM}\n")
    grown_array(found)
    released(only(found, "add"), "release", 1)


def test_shrunk_to_what_is_used(behaviour):
    found, _ = behaviour("shrunk", stdout=f"sum {SUM}\n")
    growth = only(found, "shrunk")["growth"]
    assert {k: growth[k] for k in ("steps", "blocks", "final", "measured", "unused")} == \
        {"steps": 0, "blocks": 1, "final": 12426 * 24, "measured": 1, "unused": 0}
    grown_array(found, blocks=0, final=0, largest=0, measured=0, measured_bytes=0, unused=0)


def test_zeros_are_not_known_to_be_unused(behaviour):
    found, _ = behaviour("zeros", stdout="zeros\n")
    growth = only(found, "zeros")["growth"]
    assert {k: growth[k] for k in ("steps", "blocks", "final", "measured", "unused")} == \
        {"steps": 1, "blocks": 1, "final": 1 << 20, "measured": 0, "unused": 0}


def test_handed_to_another_thread(behaviour):
    """200 blocks of one thread, freed in order by another: all 200 were there when it began. The
    first frees of a thread (32 at least) have their stacks taken, then a few."""
    found, _ = behaviour("handed", stdout="handed\n")
    site = only(found, "produce")
    assert site["handover"] == {"frees": 200, "in_order": 200, "backlog": 200, "pairs": 1}
    (release,) = site["releases"]
    assert release["place"] == {"function": "consume", "line": line_of("grown_array.c", "consume")}
    assert 32 <= release["samples"] <= 200


@pytest.mark.parametrize("library", ["libjemalloc.so.2", "libmimalloc.so",
                                     "libtcmalloc_minimal.so.4"])
@pytest.mark.parametrize("case", ["freed", "kept", "closed_freed", "closed_kept", "fork_kept",
                                  "thread_at_exit"])
def test_another_allocator(behaviour, case, library):
    """Its blocks are looked at as well, with its own idea of their sizes. Memory that it gives
    again need not be zero, so there is no more unused than there is; and never from closed pages."""
    found, _ = behaviour(case, env={"LD_PRELOAD": allocator_library(library)})
    growth = only(found, "add")["growth"]
    assert (growth["steps"], growth["blocks"], growth["final"]) == (8, 1, FINAL)
    assert growth["unused"] <= UNUSED
    assert growth["measured"] == (0 if "closed" in case or case == "thread_at_exit" else 1)


def test_blocks_that_were_freed_past_heft(compiled, record):
    """libc's own free took grown blocks, and their memory holds text: heft asks nobody about them."""
    program = compiled("freed_past.c")
    alone = run([program])
    done, _ = record([program])
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout) == (7, b"done\n")
