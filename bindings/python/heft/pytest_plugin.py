"""Limits for tests: @heft.limit("20 MB"), or @pytest.mark.heft_limit("20 MB") without importing heft.

    heft run --count -- python3 -m pytest

A test over its limit fails. Where heft does not count, tests with limits run as others do, with the warning
heft.NotCounting; pytest -W error::heft.NotCounting makes them fail: for CI, where limits are not to be forgotten."""

import os

import pytest

import heft


def pytest_configure(config):
    config.addinivalue_line("markers", "heft_limit(peak, *, scope, **fields): how much memory the test may take, as in "
                                       "heft_limit(\"20 MB\") or heft_limit(allocations=1000)")


def pytest_report_header():
    if heft.stats() is None:
        return "heft: does not count here (heft run --count); limits are not checked"
    small = "all objects" if os.environ.get("PYTHONMALLOC", "").startswith("malloc") else \
        "objects over 512 bytes (PYTHONMALLOC=malloc: all)"
    return f"heft: counts {small}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """After the set-up, when all kinds of tests have their function. What fixtures allocate does not count."""
    mark = item.get_closest_marker("heft_limit")
    if mark and not hasattr(item.obj, "heft_limited"):
        limited = heft.limit(*mark.args, **mark.kwargs)(item.obj)
        limited.heft_limited = True
        item.obj = limited


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """The message is all: a traceback would only show how the limit was checked."""
    made = yield
    if call.excinfo and isinstance(call.excinfo.value, heft.LimitExceeded):
        made.get_result().longrepr = call.excinfo.getrepr(style="value", tbfilter=False)
