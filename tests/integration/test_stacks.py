"""Call stacks: which functions are on them, in which order, in the cases that unwinders
get wrong. Frames of libc between ours (trampolines, start code) are not compared."""

import re

import pytest

from harness import HEFT, bare, check_sums, in_module, line_of, names, report, run, total


def go(record, program, *arguments, status=0):
    done, rep = record([program, *arguments])
    assert done.returncode == status, done.stderr
    check_sums(rep)
    return done, rep


def own_chain(site, program):
    """Function names of the frames in the program's own file, innermost first."""
    return [bare(f["function"]) for f in site["stack"]
            if in_module(f, program) and f["function"] and f["function"] != "_start"]


def chains(rep, program, marker, source="stack_shapes.c"):
    """{chain: allocations} over the sites that allocate on the marked line."""
    found = {}
    line = line_of(source, marker)
    for site in rep.sites_of(program):
        if site["stack"][0]["line"] == line:
            chain = tuple(own_chain(site, program))
            found[chain] = found.get(chain, 0) + site["allocations"]
    return found


@pytest.fixture(scope="session")
def shapes(compiled):
    hole = compiled("stack_untabled.c", output="stack_untabled.o", flags=[
        "-c", "-g0", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables",
        "-fomit-frame-pointer"])
    return compiled("stack_shapes.c", hole, output="stack_shapes")


@pytest.fixture(scope="session")
def variants(compiled, shapes):
    """The same program as other people build theirs."""
    hole = shapes.parent / "stack_untabled.o"

    def build(name, *flags):
        return compiled("stack_shapes.c", hole, output=f"stack_shapes_{name}", flags=flags)
    return {
        "plain": shapes,
        "cet": build("cet", "-fcf-protection=full"),
        "o2": build("o2", "-O2"),
        "avx": build("avx", "-O2", "-mavx"),
        "frame_pointers": build("frame_pointers", "-fno-omit-frame-pointer"),
        "no_pie": build("no_pie", "-no-pie", "-fno-pie"),
        "now": build("now", "-Wl,-z,now", "-fno-plt"),
        "lld_like": build("no_header", "-Wl,--no-eh-frame-hdr"),
    }


VARIANTS = ["plain", "cet", "o2", "avx", "frame_pointers", "no_pie", "now"]


def marks(site):
    """Whether the site or a frame says that frames are missing."""
    text = " ".join(str(k) for f in site["stack"] for k in f) + " ".join(map(str, site))
    return re.search("truncated|cut|omitted|lost", text) is not None


def test_recursion_of_70000_frames(record, shapes):
    done, _ = go(record, shapes, "recursion")
    rep = report(record.directory / "recording1.heft", "--full")
    assert done.stdout == b"frames 70000\ndone\n"
    for marker, top, depth, size in (("recursion.bottom", "bottom", 70000, 700),
                                     ("recursion.upper", "upper", 10001, 701)):
        line = line_of("stack_shapes.c", marker)
        (site,) = [s for s in rep.sites_of(shapes) if s["stack"][0]["line"] == line]
        assert site["allocated_bytes"] == size
        chain = own_chain(site, shapes)
        assert chain[0] == top
        frames = chain.count("descend")
        if frames != depth:
            assert frames >= 65536 or marks(site), (frames, [k for k in site])
            assert frames <= depth
        if frames == depth:
            assert chain == [top] + ["descend"] * depth + ["run_recursion", "main"]
            call = line_of("stack_shapes.c", "recursion.call")
            assert all(f["line"] == call for f in site["stack"][2:frames])


def test_same_functions_at_every_depth(record, shapes):
    """Up and down between 20 depths 50 times: exactly one chain for each depth."""
    _, rep = go(record, shapes, "zigzag")
    expected = {}
    for depth in range(1, 21):
        chain = ["leaf_of"] + ["zig" if d % 2 else "zag" for d in range(depth, 0, -1)]
        # reached once for every limit from `depth` to 20
        expected[tuple(chain + ["run_zigzag", "main"])] = 50 * (21 - depth)
    assert chains(rep, shapes, "zigzag.leaf") == expected
    sites = rep.sites_calling("leaf_of")
    assert total(sites, "temporary") == total(sites, "allocations") == 50 * 210
    for site in sites:  # lines of the frames in between
        calls = [line_of("stack_shapes.c", m) for m in ("zigzag.zig_zag", "zigzag.zag_zig")]
        for frame in site["stack"][2:len(own_chain(site, shapes)) - 2]:
            assert frame["line"] in calls


@pytest.mark.parametrize("mode", ["signal", "altstack"])
def test_signal_handlers(record, shapes, mode):
    _, rep = go(record, shapes, mode)
    below = ["run_signal_on", f"run_{mode}", "main"]
    above = ["handler_work"]
    assert chains(rep, shapes, "signal.block") == {
        tuple(above + ["handler", "raiser"] + below): 10,
        tuple(above + ["fault_handler", "interrupted"] + below): 10,
        tuple(above + ["fault_handler", "interrupted_at_start"] + below): 10}
    for site in rep.sites_calling("interrupted"):
        (frame,) = [f for f in site["stack"] if bare(f["function"]) == "interrupted"]
        assert frame["line"] == line_of("stack_shapes.c", "signal.ud2")


def test_asynchronous_signals(record, shapes):
    _, rep = go(record, shapes, "timer")
    found = chains(rep, shapes, "signal.block")
    while_it_spins = found.pop(("handler_work", "handler", "spin", "run_timer", "main"))
    # One that comes as the timer begins or ends may find the program before or after its loop.
    assert set(found) <= {("handler_work", "handler", "run_timer", "main")} and sum(found.values()) <= 2
    assert while_it_spins + sum(found.values()) >= 50


def test_coroutines(record, shapes):
    """Two coroutines and the main stack take turns: no frame of one on the stack of another."""
    _, rep = go(record, shapes, "coroutine")
    # left: the first time, then twice a turn (before and after its switch) for 99 turns
    assert chains(rep, shapes, "coroutine.block") == {
        ("co_take", "co_left_inner", "co_left"): 199, ("co_take", "co_right"): 100}
    assert chains(rep, shapes, "coroutine.main") == {
        ("co_main_take", "run_coroutine", "main"): 100}


def test_longjmp(record, shapes):
    _, rep = go(record, shapes, "longjmp")
    assert chains(rep, shapes, "longjmp.leaf") == {
        ("jump_leaf", "jump_one", "run_longjmp", "main"): 50,
        ("jump_leaf", "jump_one", "jump_two", "run_longjmp", "main"): 50}
    assert chains(rep, shapes, "longjmp.stay") == {
        ("stay_leaf", "stay_two", "run_longjmp", "main"): 100}


@pytest.mark.parametrize("variant", VARIANTS)
def test_variable_and_realigned_frames(record, variants, variant):
    program = variants[variant]
    _, rep = go(record, program, "frames")
    assert chains(rep, program, "frames.leaf") == {
        ("frames_leaf", "with_realigned", "with_vla", "with_both", "with_alloca", "run_frames",
         "main"): 200}


@pytest.mark.parametrize("variant", VARIANTS)
def test_calls_that_do_not_return(record, variants, variant):
    """The return address lies behind the function's end, where another one begins."""
    program = variants[variant]
    _, rep = go(record, program, "noreturn")
    assert chains(rep, program, "noreturn.leaf") == {
        ("die", "ends_with_call", "run_noreturn", "main"): 10}
    call = line_of("stack_shapes.c", "noreturn.call")
    for site in rep.sites_calling("die"):
        assert site["stack"][1]["line"] == call
    assert chains(rep, program, "noreturn.innocent") == {
        ("innocent", "run_noreturn", "main"): 1}


@pytest.mark.parametrize("variant", VARIANTS)
def test_same_depths_in_every_build(record, variants, variant):
    program = variants[variant]
    _, rep = go(record, program, "zigzag")
    found = chains(rep, program, "zigzag.leaf")
    assert sorted(found.values()) == sorted(50 * (21 - d) for d in range(1, 21))
    assert {len(c) for c in found} == set(range(4, 24))


def test_code_without_unwind_tables(record, shapes):
    """Runs to its end; the innermost frame is right; the path without the hole is complete;
    and no frame is invented beyond what really called."""
    _, rep = go(record, shapes, "tables")
    found = chains(rep, shapes, "tables.leaf")
    assert sum(found.values()) == 200
    assert found.pop(("tables_leaf", "run_tables", "main")) == 100
    real = ["tables_leaf", "untabled", "tables_outer", "run_tables", "main"]
    for chain in found:
        left = iter(real)
        assert all(name in left for name in chain), f"not in calling order: {chain}"


@pytest.mark.parametrize("mode", ["zigzag", "frames", "signal", "coroutine", "longjmp"])
def test_without_the_index_of_unwind_tables(record, variants, mode):
    """No .eh_frame_hdr: nothing to look up. The program is unhurt, counts are exact."""
    program = variants["lld_like"]
    _, rep = go(record, program, mode)
    expected = {"zigzag": 50 * 210, "frames": 200, "signal": 30, "coroutine": 399, "longjmp": 200}
    assert rep["totals"]["allocations"] == expected[mode]


def test_exceptions(record, compiled):
    program = compiled("stack_exceptions.cc")
    _, rep = go(record, program, status=3)

    def chains_cxx(marker):
        found = {}
        line = line_of("stack_exceptions.cc", marker)
        for site in rep["sites"]:
            own = [f for f in site["stack"] if in_module(f, program)]
            if own and own[0]["line"] == line:
                chain = tuple(c for c in own_chain(site, program))
                found[chain] = found.get(chain, 0) + site["allocations"]
        return found
    assert chains_cxx("exceptions.after") == {("after_catch", "catcher", "main"): 400}
    assert chains_cxx("exceptions.leaf") == {
        tuple(["throw_leaf"] + ["throw_guarded"] * (depth + 1) + ["catcher", "main"]): 50
        for depth in range(8)}
    guards = [s for s in rep.sites_calling("throw_guarded")
              if s["allocated_bytes"] == 801 * s["allocations"]]
    # a throw of depth d takes d + 1 guards: 50 * (1 + ... + 8), each freed by the unwinding
    assert total(guards, "allocations") == 50 * 36
    assert total(guards, "live_blocks") == 0


@pytest.mark.parametrize("hash_style", ["with build ids", "without"])
def test_libraries_that_come_and_go(record, compiled, hash_style):
    """Two libraries in turn at one address: every frame carries the right one's name."""
    flags = ["-shared", "-fPIC"] + ([] if hash_style == "with build ids"
                                    else ["-Wl,--build-id=none"])
    tag = "" if hash_style == "with build ids" else "_plain"
    alpha = compiled("stack_plugin.c", flags=[*flags, "-DNAME=alpha"], output=f"alpha{tag}.so")
    bravo = compiled("stack_plugin.c", flags=[*flags, "-DNAME=bravo"], output=f"bravo{tag}.so")
    program = compiled("stack_dlopen.c")
    done, rep = go(record, program, alpha, bravo)
    assert done.stdout == b"same address 20\n", "the case that this is about did not happen"
    for library, name, size in ((alpha, "alpha_inner", 901), (bravo, "bravo_inner", 902)):
        sites = [s for s in rep["sites"] if s["stack"] and in_module(s["stack"][0], library)]
        assert total(sites, "allocations") == 60
        assert total(sites, "allocated_bytes") == 60 * size
        assert total(sites, "temporary") == 60
        for site in sites:
            assert names(site)[:3] == [name, "plugin_entry", "use"]
            assert in_module(site["stack"][1], library) and in_module(site["stack"][2], program)
            assert site["stack"][2]["line"] == line_of("stack_dlopen.c", "dlopen.call")
        assert len(sites) == 1  # use() is called twice on one line: the same site once named


def test_stacks_that_only_rbp_tells_apart(record, compiled):
    done, rep = record([compiled("same_looks.c")])
    assert done.returncode == 0, done.stderr
    for caller, calls, size in ("through_small", 2000, 111), ("through_large", 2000, 222), \
                               ("far_away", 3000, 333):
        sites = rep.sites_calling(caller)
        assert total(sites, "allocations") == calls, caller
        assert total(sites, "allocated_bytes") == calls * size, caller


def test_a_full_table_shows_the_nearest_ancestor(compiled, tmp_path):
    """full_table.c: stacks that no longer fit are cut where they leave what is known, and say so."""
    path = tmp_path / "full.heft"
    done = run([HEFT, "run", "-q", "-o", path, "--", compiled("full_table.c")])
    assert done.returncode == 0, done.stderr
    rep = report(path, "-n", "150", "--sort", "live")
    notes = [re.search(r"(\d+) allocations have an incomplete stack", n["text"]) for n in rep["notes"]]
    count, = [int(m[1]) for m in notes if m]
    lost = [s for s in rep["sites"] if s["stack"][0].get("lost")]
    # 2^20 nodes hold about 1,050 paths of 1,000 frames; the last ones are the largest.
    assert 100 < count < 200 and sum(s["allocations"] for s in lost) == count
    assert sum(s["live_bytes"] for s in lost) == sum(range(1000 + 1200 - count, 1000 + 1200))
    for site in lost:
        # A path shares some ten turns with one of a thousand others, and leaves them in walk().
        names = [f["function"] for f in site["stack"]]
        assert names[0] == "walk" and site["stack"][0]["line"] and "main" in names
        assert site["via"] == "unknown"
        assert not any(f.get("lost") for f in site["stack"][1:])
    # The table was filled up in the midst of a path.
    assert sum(len(s["stack"]) >= 40 for s in lost) <= 1
    text = run([HEFT, "report", "-n", "5", "--sort", "live", path]).stdout.decode()
    assert re.search(r"  walk at \S*c:\d+ \[inner frames missing\]", text), text
    assert "[unknown]" not in text


def test_a_wrong_unwind_table_costs_a_stack_only(record, compiled):
    """It leads to a word that is no address: that stack ends there, and everything is recorded."""
    program = compiled("wrong_tables.c")
    _, rep = go(record, program)
    assert not [n for n in rep["notes"] if "wrote over" in n["text"]]
    assert {s["stack"][0]["function"]: (s["allocations"], s["allocated_bytes"]) for s in rep.sites_of(program)} == {
        "wrong_tables": (10, 1000), "right_tables": (5, 1000)}
