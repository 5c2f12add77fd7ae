"""@heft.limit: a function that may take only so much memory."""

import functools
import inspect
import re
import warnings

from ._interface import AT_MOST, PROCESS, check_fields, region

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class LimitExceeded(AssertionError):
    """A function took more than its limit. heft's message says how much, and which call sites allocated."""

    __module__ = "heft"  # as it is named in messages


class NotCounting(UserWarning):
    """A limit was not checked, because heft does not count in this process."""

    __module__ = "heft"


def parse_size(size):
    """A size in bytes: a number, or a text such as "20 MB", "1.5G" or "512k". Units are powers of 1024."""
    if isinstance(size, int):
        return size
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(size), re.IGNORECASE)
    if not found:
        raise ValueError(f"{size!r} is not a size: write it as in \"20 MB\", \"1.5G\" or \"512k\"")
    return int(float(found.group(1)) * _UNITS[found.group(2).upper()])


class limit:
    """A function that may take only so much memory while it runs:

        @heft.limit("20 MB")                            # the peak, above the level at its beginning
        @heft.limit(allocations=1000, live_bytes=0)     # any fields of Stats

    If it takes more, it fails with LimitExceeded. Where nobody counts it runs unchanged, with the warning NotCounting."""

    def __init__(self, peak=None, *, scope=PROCESS, **fields):
        if peak is not None:
            fields["peak_bytes"] = peak
        if not fields:
            raise TypeError("heft.limit needs a size or fields of Stats")
        check_fields(fields)
        self._scope = scope
        self._values = {name: parse_size(value) for name, value in fields.items()}

    def __call__(self, function):
        code = inspect.unwrap(function).__code__
        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def limited(*arguments, **named):
                __tracebackhide__ = True
                with region(self._scope, function.__qualname__) as taken:
                    result = await function(*arguments, **named)
                self._check(taken, code)
                return result
        else:
            @functools.wraps(function)
            def limited(*arguments, **named):
                __tracebackhide__ = True
                with region(self._scope, function.__qualname__) as taken:
                    result = function(*arguments, **named)
                self._check(taken, code)
                return result
        return limited

    def _check(self, taken, code):
        __tracebackhide__ = True
        try:
            checked = taken.expect_at(AT_MOST, self._values, code.co_filename, code.co_firstlineno)
        except AssertionError as failure:
            raise LimitExceeded(str(failure)) from None
        if not checked:
            warnings.warn_explicit("heft does not count in this process, so this limit was not checked: start the program "
                                   "with heft run --count", NotCounting, code.co_filename, code.co_firstlineno)
