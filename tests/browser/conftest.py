"""Brings the shared harness and Chromium (browser.py) into this folder's tests: open_page(...) gives
a page, closed when the test ends, which must not have complained."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import harness  # noqa: E402
from harness import built, compiled, no_leftovers  # noqa: E402,F401
from browser import Page  # noqa: E402


@pytest.fixture
def open_page():
    pages = []

    def open_one(url, **settings):
        pages.append(Page(**settings))
        pages[-1].goto(url)
        return pages[-1]
    yield open_one
    complaints = []
    for page in pages:
        try:
            complaints += page.complaints()
        finally:
            page.close()
    assert complaints == []


@pytest.fixture
def heft():
    def call(*arguments):
        done = harness.run([harness.HEFT, *arguments])
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout
    return call
