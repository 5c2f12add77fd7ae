"""heft's interface for Python programs: statistics, regions, limits, marks and the program's own heap profile.

    heft run --count -- python3 program.py

Without heft a program runs unchanged: each function does nothing and says so. docs/bindings.md has examples.

heft counts calls of malloc. CPython keeps objects of up to 512 bytes in arenas of its own; with PYTHONMALLOC=malloc in
the environment it takes each of them from malloc, and they count, too."""

from ._interface import (PROCESS, THREAD, Mode, Scope, Stats, dump, event, mark, pprof_dump, region, running,
                         sampling_active, start, stats, stop)
from ._limit import LimitExceeded, NotCounting, limit, parse_size

__version__ = "0.1.0"
__all__ = ["PROCESS", "THREAD", "LimitExceeded", "Mode", "NotCounting", "Scope", "Stats", "dump", "event", "limit",
           "mark", "parse_size", "pprof_dump", "region", "running", "sampling_active", "start", "stats", "stop"]
