"""The page while a program runs: it grows with the recording, and what the reader chose stays."""

import json
import os
import re
import signal

import harness
from page_server import view_of

SERVER = harness.BUILD / "examples" / "leaky_server"


def shows(path, function):
    """It is written about once a second."""
    told = harness.run([harness.HEFT, "report", "--json", path])
    return told.returncode == 0 and any(frame.get("function") == function for site in json.loads(told.stdout)["sites"]
                                        for frame in site["stack"])


def test_page_grows_with_the_run(open_page, tmp_path):
    path = tmp_path / "live.heft"
    run = harness.start([harness.HEFT, "run", "-q", "-o", path, "--", SERVER, "--requests", "2000000", "--pause-us", "1000"])
    try:
        harness.wait_until(lambda: path.exists() and shows(path, "remember_request"), what="something to show")
        with view_of(path) as view:
            page = open_page(view.url)
            page.wait("document.querySelector('.live-badge') !== null")
            page.wait("document.querySelectorAll('.four dd').length >= 4")
            page.press("2")
            page.wait("document.querySelector('#view [role=treegrid]') !== null")
            page.press("/")
            page.type("remember_request")
            # The graph is of the peak so far, which may not have it yet: then there is nothing to go to.
            page.wait("document.querySelector('.matched')?.innerText.includes('% matched')")
            page.press("Enter")
            chosen = "document.querySelector('#view [role=treegrid] [aria-selected=true]')"
            page.wait(f"{chosen}?.innerText.includes('remember_request')")
            first = page.evaluate(f"Number({chosen}.dataset.total)")
            # The same box is still chosen, and wider.
            page.wait(f"{chosen}?.innerText.includes('remember_request') && Number({chosen}.dataset.total) > {first}")
            assert re.search("search=remember_request", page.evaluate("location.hash"))
            children = harness.children_of(run.pid)
            os.kill(children[0], signal.SIGTERM)
            run.wait(timeout=harness.TIME_LIMIT)
            page.wait("document.querySelector('.live-badge') === null")
            page.wait("document.querySelector('.run-words').innerText.includes('signal')")
    finally:
        harness.end_group(run)
        run.communicate()
