"""The functions of heft.h by ctypes. heft's library defines them where it is loaded into this process."""

import ctypes
import enum
import errno
import os
import sys
import tempfile
import threading
import typing


class Mode(enum.IntEnum):
    """What heft does in this process. Only NOT_RUNNING is false."""
    NOT_RUNNING = 0
    EXACT = 1     # heft run: every call is recorded
    SAMPLED = 2   # heft run --sample, heft agent: no statistics and no regions
    COUNTING = 3  # heft run --count: statistics and regions, no recording


class Scope(enum.IntEnum):
    PROCESS = 0  # calls of all threads
    THREAD = 1   # calls of the thread that asks


PROCESS, THREAD = Scope


class Stats(typing.NamedTuple):
    """Since the program's start, or in a region. Bytes are requested bytes."""
    allocations: int
    reallocations: int
    frees: int
    allocated_bytes: int  # of new blocks, and what reallocations have added
    freed_bytes: int      # of blocks that ended, and what reallocations have taken away
    live_bytes: int       # negative if more was freed than allocated
    live_blocks: int
    peak_bytes: int       # the greatest live_bytes; in a region: above the level at its beginning


class _Stats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64 if name.startswith("live") else ctypes.c_uint64) for name in Stats._fields]

    def values(self):
        return Stats(*(getattr(self, name) for name in Stats._fields))


class _Region(ctypes.Structure):
    _fields_ = [("opaque", ctypes.c_uint64 * 32)]


_Callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p)
AT_MOST, EQUAL = 0, 1  # enum heft_relation


def _function(name, result, *arguments, waits=False):
    """A function of heft.h, or None without heft. Other threads of Python run only while one waits."""
    if sys.platform != "linux":
        return None
    try:
        function = getattr((ctypes.CDLL if waits else ctypes.PyDLL)(None, use_errno=True), name)
    except AttributeError:
        return None
    function.restype, function.argtypes = result, arguments
    return function


_int, _text = ctypes.c_int, ctypes.c_char_p
_running = _function("heft_running", _int)
_stats_get = _function("heft_stats_get", _int, _int, ctypes.POINTER(_Stats))
_region_begin_named = _function("heft_region_begin_named", _int, ctypes.POINTER(_Region), _int, _text)
_region_change = _function("heft_region_change", _int, ctypes.POINTER(_Region), ctypes.POINTER(_Stats))
_region_end = _function("heft_region_end", _int, ctypes.POINTER(_Region), ctypes.POINTER(_Stats))
_expect_or = _function("heft_expect_or", _int, ctypes.POINTER(_Region), ctypes.c_size_t, _int, ctypes.c_int64, _text, _text,
                       _int, _Callback)
_mark = _function("heft_mark", None, _text)
_event = _function("heft_event", None, _text, ctypes.c_uint64)
_start = _function("heft_start", _int, waits=True)
_stop = _function("heft_stop", _int, waits=True)
_dump = _function("heft_dump", _int, _text, waits=True)
_sampling_active = _function("heft_sampling_active", _int)
_pprof_dump = _function("heft_pprof_dump", _int, _int, waits=True)


def _ask(function, *arguments):
    """True if it was done, False where nobody counts. Other failures are OSError."""
    if function is None:
        return False
    if function(*arguments) == 0:
        return True
    number = ctypes.get_errno()
    if number == errno.ENOSYS:
        return False
    raise OSError(number, os.strerror(number))


def _demand(function, *arguments):
    """Failures are OSError, and so is that heft is not there."""
    if not _ask(function, *arguments):
        raise OSError(errno.ENOSYS, "heft is not in this process, or does not do this here")


def _bytes(name):
    """Any text is a name: nothing may fail with heft alone."""
    return name.encode(errors="replace")


def running():
    """What heft does in this process: a Mode."""
    return Mode(_running() if _running else 0)


def stats(scope=PROCESS):
    """Since the program's start; None where nobody counts."""
    got = _Stats()
    return got.values() if _ask(_stats_get, scope, got) else None


def mark(name):
    """A moment of the timeline."""
    if _mark:
        _mark(_bytes(name))


def event(name, weight=1):
    """Something of the program's own that heft counts by call stack."""
    if _event:
        _event(_bytes(name), weight)


def start():
    """Allocations are recorded from here on."""
    _demand(_start)


def stop():
    """Allocations are not recorded from here on. Frees of recorded blocks always are."""
    _demand(_stop)


def dump(path):
    """Writes a copy of the recording up to now into a new file."""
    _demand(_dump, os.fsencode(path))


def sampling_active():
    """Whether this process is sampled and sampling is switched on."""
    return bool(_sampling_active and _sampling_active())


def pprof_dump(out=None):
    """This process's heap profile, as of now: pprof's format, packed. Into `out`, a file with a descriptor; without it
    the profile is returned as bytes. Failures are OSError; docs/bindings.md lists them."""
    if out is not None:
        out.flush()
        _demand(_pprof_dump, out.fileno())
        return None
    with tempfile.TemporaryFile() as file:
        _demand(_pprof_dump, file.fileno())
        file.seek(0)
        return file.read()


def check_fields(names):
    for name in names:
        if name not in Stats._fields:
            raise TypeError(f"heft counts no {name}: {', '.join(Stats._fields)}")


_failed = threading.local()


@_Callback
def _keep_message(message):
    """heft calls this, in the thread that expects, when an expectation does not hold."""
    _failed.message = message.decode(errors="replace").rstrip()


class region:
    """What is allocated in a `with` block:

        with heft.region() as r:
            table = build()
        print(r.change().peak_bytes)
    """

    def __init__(self, scope=PROCESS, name=None):
        self._scope, self._name = scope, _bytes(name) if name is not None else None
        self._region, self._stats = _Region(), _Stats()
        self._open = self._counted = False

    def __enter__(self):
        self._counted = self._open = _ask(_region_begin_named, self._region, self._scope, self._name)
        return self

    def __exit__(self, *_):
        if self._open:
            self._open = False
            _ask(_region_end, self._region, self._stats)

    def change(self):
        """The Stats since it began, up to its end; None where nobody counts."""
        if not self._counted or (self._open and not _ask(_region_change, self._region, self._stats)):
            return None
        return self._stats.values()

    def expect_le(self, **limits):
        """expect_le(allocations=3): fails with AssertionError if one is greater, and says which call sites allocated.
        Returns whether the numbers were checked: False where nobody counts."""
        return self._expect(AT_MOST, limits)

    def expect_eq(self, **values):
        """The same if one is another number."""
        return self._expect(EQUAL, values)

    def _expect(self, relation, values):
        __tracebackhide__ = True
        caller = sys._getframe(2)
        return self.expect_at(relation, values, caller.f_code.co_filename, caller.f_lineno)

    def expect_at(self, relation, values, file, line):
        """The same for others who expect, and say where."""
        __tracebackhide__ = True
        check_fields(values)
        if not self._counted:
            return False
        for name, value in values.items():
            at = getattr(_Stats, name).offset
            holds = _expect_or(self._region, at, relation, value, name.encode(), os.fsencode(file), line, _keep_message)
            if holds == 0:
                raise AssertionError(_failed.message)
            if holds < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return True
