"""Programs that make life hard for hooks (tests/programs/rough_life.c): none crashes or hangs, and
every block that it counts is in the recording, sampled or exact, whatever the allocator below."""

import pytest

from harness import allocator_library, names, report

ALLOCATORS = [None, "libjemalloc.so", "libmimalloc.so"]
MODES = ["forks", "executes", "libraries", "cancels", "storm", "small", "profiled", "alternate",
         "deep", "deep_and_wide"]


@pytest.mark.parametrize("rate", [["--sample=1k"], []], ids=["sampled", "exact"])
@pytest.mark.parametrize("mode", MODES)
def test_all_is_counted(compiled, record, mode, rate):
    command = [compiled("rough_life.c"), mode]
    if mode == "libraries":
        command.append(compiled("stack_plugin.c", output="rough_plugin.so",
                                flags=["-shared", "-fPIC", "-DNAME=rough"]))
    for library in ALLOCATORS:
        below = library and allocator_library(library)
        done, rep = record(command, opts=rate, env={"LD_PRELOAD": below})
        assert done.returncode == 6, (library, done.stderr)
        made, left = (int(n) for n in done.stdout.split()[1::2])
        if mode.startswith("deep"):
            rep = report(rep.path, "--full")
        sites = rep.sites_calling("keep_block")
        if mode.startswith("deep"):
            assert {names(s).count("deep") for s in sites} == {120001}
        assert sum(s["allocations"] for s in sites) == made, library
        assert sum(s["live_blocks"] for s in sites) == left, library
