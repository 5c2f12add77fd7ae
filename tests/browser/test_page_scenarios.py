"""The four scenarios on the page: whoever opens the recording reaches the culprit by mouse, and by
keyboard alone; what the page says equals heft report --json."""

import json

import pytest

import harness
from page_server import view_of

EXAMPLES = harness.BUILD / "examples"
#            program, arguments, finding, the function to blame, its file
SCENARIOS = {
    "queue": ("queue", [], "unbounded-queue", "send_message", "queue.c"),
    "connections": ("connections", ["A"], "per-instance-cost", "make_id_table", "connections.c"),
    "csv": ("csv_rows", ["FILE"], "allocator-rounding", "make_field", "csv_rows.c"),
    # Slower than it could be: a busy machine that stops it for a while must not show in its growth.
    "leak": ("leaky_server", ["--pause-us", "50"], "growing-site", "remember_request", "leaky_server.c"),
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """{scenario: (recording, report)}, made once."""
    folder = tmp_path_factory.mktemp("scenarios")
    made = {}

    def recording(name):
        if name not in made:
            program, arguments = SCENARIOS[name][:2]
            if "FILE" in arguments:
                rows = folder / "example.csv"
                rows.write_bytes(harness.run([EXAMPLES / "csv_make"]).stdout)
                arguments = [rows]
            path = folder / f"{name}.heft"
            done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", EXAMPLES / program, *arguments])
            assert done.returncode == 0, done.stderr
            made[name] = path, json.loads(harness.run([harness.HEFT, "report", "--json", path]).stdout)
        return made[name]
    return recording


def exact(n):
    return f"{n:,} bytes"


def text(page, selector):
    return page.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")


def titles(page, selector):
    return page.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.title)")


def has_fact(n):
    """The inspector shows that many bytes."""
    return f"[...document.querySelectorAll('.inspector .facts .num')].some((e) => e.title === {json.dumps(exact(n))})"


def wait_for(page, selector):
    page.wait(f"document.querySelector({json.dumps(selector)}) !== null")


@pytest.mark.parametrize("name", SCENARIOS)
def test_by_mouse(recordings, open_page, name):
    path, report = recordings(name)
    kind, culprit, file = SCENARIOS[name][2:]
    finding = next(f for f in report["findings"] if f["kind"] == kind)
    site = next(s for s in report["sites"] if s["id"] == finding["site"])
    card = f"li.card[data-kind={kind}]"
    with view_of(path) as view:
        page = open_page(view.url)
        wait_for(page, card)
        # The card's title is not repeated, and a sentence begins with a capital letter.
        title = finding["kind"].replace("-", " ") + ": "
        assert finding["summary"].removeprefix(title)[1:] in text(page, card)
        # The server ends by itself, so that its growth may be data that it was meant to keep.
        assert ("Medium" if name == "leak" else "High") in text(page, card + " .severity")
        totals = report["totals"]
        assert titles(page, ".four dd:nth-of-type(1)")[:3] == [
            exact(totals["peak_bytes"]), exact(totals["live_bytes"]), exact(totals["peak_rss_bytes"])]
        page.click_on(card + " .primary")
        wait_for(page, ".inspector .stack .first-user")
        first = text(page, ".inspector .stack .first-user")
        assert culprit in first and file in first
        assert exact(site["peak_bytes"]) in titles(page, ".inspector .facts .num")
        assert exact(site["allocated_bytes"]) in titles(page, ".inspector .facts .num")
        assert f"site={finding['site']}" in page.evaluate("location.hash")


@pytest.mark.parametrize("name", SCENARIOS)
def test_by_keyboard(recordings, open_page, name):
    path, report = recordings(name)
    kind, culprit, file = SCENARIOS[name][2:]
    chosen = "#view [role=treegrid] [aria-selected=true]"
    expected = sum(s["peak_bytes"] for s in report["sites"] if any(f["function"] == culprit for f in s["stack"]))
    with view_of(path) as view:
        page = open_page(view.url)
        wait_for(page, ".card")
        page.press("2")
        wait_for(page, "#view [role=treegrid]")
        page.press("/")
        page.type(culprit)
        page.press("Enter")
        page.wait(f"document.querySelector({json.dumps(chosen)})?.innerText.includes({json.dumps(culprit)})")
        row = text(page, chosen)
        assert culprit in row and file in row
        assert page.evaluate(f"document.querySelector({json.dumps(chosen)}).dataset.total") == str(expected)
        page.wait(has_fact(expected))
        # The findings, their explanation and the inspector, without leaving the keyboard.
        page.press("Escape")
        page.press("1")
        page.wait("document.activeElement?.classList.contains('primary')")
        page.press("Enter")
        wait_for(page, ".inspector .stack .first-user")
        finding = next(f for f in report["findings"] if f["kind"] == report["findings"][0]["kind"])
        site = next(s for s in report["sites"] if s["id"] == finding["site"])
        page.wait(has_fact(site["peak_bytes"]))


def test_flame_walk_and_totals(recordings, open_page):
    """Arrow keys alone lead down the widest boxes to the line; the mirror's numbers are the report's."""
    path, report = recordings("connections")
    with view_of(path) as view:
        page = open_page(view.url + "#view=flame&chains=1")
        wait_for(page, "#view [role=treegrid]")
        page.press("2")
        page.wait("document.activeElement?.getAttribute('role') === 'treegrid'")
        for _ in range(12):
            page.press("ArrowDown")
        page.wait("document.querySelector('[role=treegrid] [aria-selected=true] [role=gridcell]')?.innerText"
                  ".startsWith('make_id_table connections.c:')")
        assert page.evaluate("document.querySelector('[role=treegrid] [aria-level=\"1\"][data-total]').dataset.total") \
            == str(report["totals"]["peak_bytes"])
        page.press("Enter")
        page.wait("location.hash.includes('zoom=')")
        page.press("Escape")
        page.wait("!location.hash.includes('zoom=')")


def test_sites_equal_the_report(recordings, open_page):
    path, report = recordings("csv")
    with view_of(path) as view:
        page = open_page(view.url)
        wait_for(page, ".card")
        page.press("3")
        wait_for(page, "#view table .row-open")
        rows = page.evaluate("[...document.querySelectorAll('#view tbody tr')].map(r => "
                             "[...r.cells].map(c => c.querySelector('.num[title]')?.title ?? c.innerText))")
        head = page.evaluate("[...document.querySelectorAll('#view thead th')].map(h => h.innerText.trim())")
        peak, live, count = (next(i for i, h in enumerate(head) if h.startswith(n)) for n in
                             ("At peak", "At end", "Allocations"))
        expected = sorted(([exact(s["peak_bytes"]), exact(s["live_bytes"]), f"{s['allocations']:,}"]
                           for s in report["sites"]))
        assert sorted([r[peak], r[live], r[count]] for r in rows) == expected
        page.wait("document.activeElement?.classList.contains('row-open')")
        page.press("ArrowDown")  # to the second row, and into it
        page.press("Enter")
        wait_for(page, ".inspector .stack")


def test_timeline_by_mouse_and_keyboard(recordings, open_page):
    path, report = recordings("leak")
    with view_of(path) as view:
        page = open_page(view.url + "#view=flame")
        wait_for(page, "[role=slider]")
        wait_for(page, "#view [role=treegrid]")
        box = page.evaluate("(b => [b.left, b.top, b.width, b.height])"
                            "(document.querySelector('[role=slider]').getBoundingClientRect())")
        page.drag(box[0] + 200, box[1] + 60, box[0] + 500, box[1] + 60)
        page.wait("location.hash.includes('mode=grew')")
        assert "from=" in page.evaluate("location.hash") and "to=" in page.evaluate("location.hash")
        page.click(box[0] + 300, box[1] + 60)
        page.wait("/at=\\d+/.test(location.hash) && !location.hash.includes('mode=')")
        before = page.evaluate("Number(/at=(\\d+)/.exec(location.hash)[1])")
        page.evaluate("document.querySelector('[role=slider]').focus()")
        page.press("ArrowRight")
        page.wait(f"Number(/at=(\\d+)/.exec(location.hash)[1]) > {before}")
        page.press("[")
        page.wait("location.hash.includes('mode=grew')")
        page.press("p")
        page.wait("!location.hash.includes('at=') && !location.hash.includes('mode=')")
        page.shift_click(box[0] + 150, box[1] + 60)
        page.wait("location.hash.includes('view=diff') && /bat=\\d+/.test(location.hash)")
        wait_for(page, "#view [role=treegrid]")


def test_diff_of_two_recordings(recordings, open_page):
    (a, report_a), (b, report_b) = recordings("connections"), recordings("leak")
    with view_of(a, b) as view:
        page = open_page(view.url)
        wait_for(page, ".card")
        page.press("9")
        wait_for(page, "#view table tbody tr")
        numbers = titles(page, "#view .lead .num")
        change = report_b["totals"]["peak_bytes"] - report_a["totals"]["peak_bytes"]
        assert numbers[:2] == [exact(report_a["totals"]["peak_bytes"]), exact(report_b["totals"]["peak_bytes"])]
        assert numbers[2] == exact(change).replace("-", "−")
        rows = text(page, "#view table")
        assert "make_id_table" in rows and "remember_request" in rows
        assert "+19." in rows and "−" in rows  # signs, not colours alone
        page.click_on("#view .row-open")
        wait_for(page, ".inspector .stack")
