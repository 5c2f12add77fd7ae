"""axe-core finds nothing serious on any view, in light and dark, on a desk and on a phone; numbers and
names are reachable without seeing the canvas."""

import json

import pytest

import harness
from browser import node_package
from page_server import view_of

VIEWS = ["findings", "flame", "sites", "sandwich", "source", "sizes", "lifetimes", "threads", "diff", "memory"]
RUN = """axe.run(document, { resultTypes: ['violations'] }).then((r) => r.violations
  .filter((v) => ['serious', 'critical'].includes(v.impact))
  .map((v) => v.id + ': ' + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).join(' | ')))"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("access") / "queue.heft"
    done = harness.run([harness.HEFT, "run", "-q", "--ledger", "-o", path, "--", harness.BUILD / "examples" / "queue"])
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("scheme, width, height", [("light", 1440, 900), ("dark", 1440, 900), ("dark", 390, 844)])
def test_nothing_serious(recording, open_page, scheme, width, height):
    axe = (node_package("axe-core") / "axe-core" / "axe.min.js").read_text()
    found = {}
    with view_of(recording) as view:
        page = open_page(view.url, scheme=scheme, width=width, height=height)
        page.wait("document.querySelector('.card') !== null")
        page.evaluate(axe + "; null")
        for number, name in enumerate(VIEWS, 1):
            page.press(str(number % 10))
            page.wait(f"document.querySelector('.view-{name}') !== null && !document.querySelector('[aria-busy=true]')")
            if name == "sites":
                page.click_on("#view .row-open")
                page.wait("document.querySelector('.inspector .stack') !== null")
            if name == "diff":
                page.click_on("#view .empty button")
                page.wait("document.querySelector('#view [role=treegrid]') !== null")
            serious = page.evaluate(RUN)
            if serious:
                found[name] = serious
            page.press("Escape")
        page.press("?")
        page.wait("document.querySelector('dialog').open")
        found.update({"help": page.evaluate(RUN)} if page.evaluate(RUN) else {})
    assert found == {}, json.dumps(found, indent=1)


def test_the_mirror_follows_the_canvas(recording, open_page):
    with view_of(recording) as view:
        page = open_page(view.url + "#view=flame")
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        tree = view.get("/api/r/1/tree")
        rows = page.evaluate("[...document.querySelectorAll('[role=treegrid] [role=row][data-total]')]"
                             ".map(r => [Number(r.getAttribute('aria-level')), Number(r.dataset.total)])")
        top = sorted((t for p, t in zip(tree["parent"], tree["total"]) if p == 0), reverse=True)
        assert rows == [[1, tree["sum"]]] + [[2, t] for t in top]
        # A click on a box chooses it in the mirror, a second one zooms.
        box = page.evaluate("(b => [b.left, b.top])(document.querySelector('.flame canvas').getBoundingClientRect())")
        page.click(box[0] + 40, box[1] + 30)
        page.wait("document.querySelector('[role=treegrid] [aria-selected=true]').getAttribute('aria-level') === '2'")
        page.click(box[0] + 40, box[1] + 30)
        page.wait("location.hash.includes('zoom=')")
