"""heft view for a test: started on a free port, asked for documents, ended as Ctrl-C ends it."""

import contextlib
import json
import re
import select
import signal
import subprocess
import time
import urllib.request

import pytest

import browser
import harness
from page_documents import PAGE

START_SECONDS = harness.TIME_LIMIT


class View:
    def __init__(self, url):
        self.url = url
        self.base, self.token = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/\?token=(\w+)", url).groups()

    def get(self, path):
        request = urllib.request.Request(self.base + path, headers={"Authorization": "Bearer " + self.token})
        with urllib.request.urlopen(request, timeout=harness.TIME_LIMIT) as answer:
            return json.load(answer)


def address_of(process):
    """The first line with an address on stdout."""
    text, end = "", time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if not select.select([process.stdout], [], [], 0.5)[0]:
            continue
        line = process.stdout.readline().decode()
        found = re.search(r"http://\S+", line)
        if found:
            return found.group(0)
        text += line
        if not line:
            break
    pytest.fail(f"heft view says no address: {text}")


@contextlib.contextmanager
def view_of(*things):
    """Recordings (paths) or a process (a number)."""
    if not PAGE.exists():
        pytest.skip("the page is not built (no npm)")
    process = harness.start([harness.HEFT, "view", "--no-open", "--port", "0", *things],
                            stderr=subprocess.STDOUT)
    try:
        view = View(address_of(process))
        yield view
        browser.leave(view.base)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=harness.TIME_LIMIT) == 0
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()
