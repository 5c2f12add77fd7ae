"""Several processes on the page: the table, choosing one by mouse and by keyboard alone, for the whole
page, and going back to all (tests/programs/family.c, whose numbers are known)."""

import json

import pytest

import harness
from browser import node_package
from page_server import view_of
from test_page_access import RUN

PARENT, CHILD, LEFT = 1_000_000, 2_000_000, 1000
PEAK = {k: k * (CHILD + LEFT) for k in (1, 2, 3)}


@pytest.fixture(scope="module")
def recordings(compiled, tmp_path_factory):
    program = compiled("family.c")
    folder = tmp_path_factory.mktemp("families")
    for name, arguments in ("few", ["few"]), ("many", ["many", "30"]):
        done = harness.run([harness.HEFT, "run", "-q", "-o", folder / f"{name}.heft", "--", program, *arguments])
        assert done.returncode == 0, done.stderr
    return folder


def exact(n):
    return f"{n:,} bytes"


def text(page, selector):
    return page.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")


def rows(page):
    return page.evaluate("[...document.querySelectorAll('#view tbody tr')].map(r => r.innerText)")


def numbers(page):
    """Titles of peak, left and RSS in the first view."""
    return page.evaluate("[...document.querySelectorAll('.four dd:nth-of-type(1)')].map(e => e.title)")


def wait_for(page, selector):
    page.wait(f"document.querySelector({json.dumps(selector)}) !== null")


def settled(page):
    page.wait("!document.querySelector('[aria-busy=true]')")


def process(view, k):
    """The k-th child: processes are numbered as they began."""
    return next(p for p in view.get("/api/r/1/summary")["processes"] if p["number"] == k)


def check_chosen(page, view, k):
    """The whole page is about the k-th child."""
    chosen = process(view, k)
    page.wait(f"document.querySelector('.chip')?.innerText.includes('(pid {chosen['pid']})')")
    settled(page)
    line = view.get(f"/api/r/1/timeline?process={k}")
    assert line["from_ns"] == chosen["start_ns"] and max(line["bytes"]) == PEAK[k]
    # Timeline, its peak, the instant, the legend.
    peak = f"{PEAK[k] / 2 ** 20:.1f} MiB"
    page.wait(f"document.querySelector('.peak-mark').textContent.includes('peak {peak}')")
    assert text(page, ".layers-head").endswith(peak)
    assert "hold" in text(page, ".layers ul")
    slider = page.evaluate("(e => [e.ariaValueMin, e.ariaValueNow, e.ariaValueMax].map(Number))(document.querySelector('.chart-box'))")
    assert slider[0] == round(line["from_ns"] / 1000) and slider[2] == round(line["to_ns"] / 1000)
    assert slider[0] <= slider[1] <= slider[2]
    page.press("1")
    page.wait(f"document.querySelector('.four dd')?.title === {json.dumps(exact(PEAK[k]))}")
    assert numbers(page)[1] == exact(k * LEFT)
    assert "Left at exit" in text(page, ".four")
    page.press("2")
    wait_for(page, "#view [role=treegrid]")
    top = f"[...document.querySelectorAll('[role=treegrid] [role=row][data-total]')].map(r => Number(r.dataset.total))[0] === {PEAK[k]}"
    page.wait(top)
    assert "(pid" not in text(page, "#view [role=treegrid]")  # one process is no root
    page.press("3")
    page.wait(f"[...document.querySelectorAll('#view td .num')].some(e => e.title === {json.dumps(exact(k * CHILD))})")


def test_by_mouse(recordings, open_page):
    with view_of(recordings / "few.heft") as view:
        page = open_page(view.url)
        page.wait("document.querySelectorAll('.four dd').length >= 4")
        assert "4 threads in 4 processes" in text(page, ".run-words")
        page.click_text("4 processes")
        wait_for(page, "#view .row-open")
        shown = rows(page)
        assert len(shown) == 4 and all("family few" in row for row in shown)
        assert "5.7 MiB" in shown[0] and "976.6 KiB" in shown[3]
        page.click_on("#view tbody tr:nth-child(2) .row-open")
        wait_for(page, "#view tr.chosen[aria-current=true]")
        assert "process=3" in page.evaluate("location.hash")  # number 2, counted from 1
        check_chosen(page, view, 2)
        # Back to all.
        page.click_on(".chip")
        page.wait("document.querySelector('.chip') === null")
        page.press("1")
        whole = view.get("/api/r/1/summary")["totals"]["peak_bytes"]
        page.wait(f"document.querySelector('.four dd')?.title === {json.dumps(exact(whole))}")


def test_by_keyboard(recordings, open_page):
    with view_of(recordings / "few.heft") as view:
        page = open_page(view.url)
        page.wait("document.querySelectorAll('.four dd').length >= 4")
        page.press("Shift+P")
        page.wait("document.activeElement.matches('#view .row-open')")
        page.press("ArrowDown")
        page.press("ArrowDown")
        page.press("Enter")
        wait_for(page, "#view tr.chosen")
        check_chosen(page, view, 1)
        page.press("Escape")
        page.wait("document.querySelector('.chip') === null && !location.hash.includes('process')")
        # The browser's back button chooses it again.
        page.evaluate("history.back()")
        wait_for(page, ".chip")


def test_processes_are_roots_of_the_flame_graph(recordings, open_page):
    with view_of(recordings / "few.heft") as view:
        page = open_page(view.url + "#view=flame&mode=allocated")
        wait_for(page, "#view [role=treegrid]")
        pids = {k: process(view, k)["pid"] for k in range(4)}
        level = page.evaluate("[...document.querySelectorAll('[role=treegrid] [role=row][aria-level=\"2\"]')]"
                              ".map(r => [r.innerText.split('\\n')[0], Number(r.dataset.total)])")
        assert [n for _, n in level] == [PEAK[3], PEAK[2], PEAK[1], PARENT]
        for (name, _), k in zip(level, (3, 2, 1, 0)):
            assert f"(pid {pids[k]})" in name
        # A root leads to its process.
        page.press("2")
        page.wait("document.activeElement.matches('[role=treegrid]')")
        page.press("ArrowDown")
        page.wait("document.querySelector('.inspector .primary')?.innerText === 'Only this process'")
        page.click_on(".inspector .primary")
        page.wait(f"document.querySelector('.chip')?.innerText.includes('(pid {pids[3]})')")


def test_many_processes(recordings, open_page):
    with view_of(recordings / "many.heft") as view:
        page = open_page(view.url + "#view=processes")
        wait_for(page, "#view .row-open")
        shown = rows(page)
        assert len(shown) == 2 and "family many 30" in shown[0] and "tiny (30 processes)" in shown[1]
        assert exact(3000) in page.evaluate("[...document.querySelectorAll('#view td .num')].map(e => e.title)")
        # All of one program can be chosen, too.
        page.click_on("#view tbody tr:nth-child(2) .row-open")
        page.wait("document.querySelector('.chip')?.innerText.startsWith('all of tiny')")
        assert view.get("/api/r/1/summary?program=tiny")["totals"]["allocated_bytes"] == 3000
        page.press("Escape")
        page.click_text("Each process")
        page.wait("document.querySelectorAll('#view .row-open').length > 20")
        # Filtered by the search, sorted by a column, by keyboard.
        page.press("/")
        page.type("family")
        page.wait("document.querySelectorAll('#view .row-open').length === 1")
        page.press("Escape")
        page.wait("document.querySelectorAll('#view .row-open').length > 20")
        page.click_text("PID")
        page.wait("document.querySelector('#view th[aria-sort]').innerText.startsWith('PID')")
        pids = page.evaluate("[...document.querySelectorAll('#view tbody tr:not(.spacer)')].map(r => Number(r.cells[1].innerText))")
        assert pids == sorted(pids, reverse=True)
        page.press("2")
        wait_for(page, "#view [role=treegrid]")
        page.press("w")
        page.wait("document.querySelector('#view [role=treegrid]').innerText.includes('tiny x (pid')")
        page.click_text("Each process")
        page.wait("document.querySelector('#view [role=treegrid]').innerText.includes('tiny x (30 processes)')")


@pytest.mark.parametrize("scheme, width, height", [("light", 1440, 900), ("dark", 390, 844)])
def test_accessible(recordings, open_page, scheme, width, height):
    axe = (node_package("axe-core") / "axe-core" / "axe.min.js").read_text()
    with view_of(recordings / "few.heft") as view:
        page = open_page(view.url + "#view=processes&process=2", scheme=scheme, width=width, height=height)
        wait_for(page, "#view tr.chosen")
        settled(page)
        page.evaluate(axe + "; null")
        assert page.evaluate(RUN) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_one_process_has_no_table(open_page, tmp_path):
    path = tmp_path / "one.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", harness.BUILD / "examples" / "queue"])
    assert done.returncode == 0, done.stderr
    with view_of(path) as view:
        page = open_page(view.url)
        page.wait("document.querySelectorAll('.four dd').length >= 4")
        assert "Processes" not in text(page, ".rail")
        assert "Live at the end" in text(page, ".four")


def test_a_thread_can_be_chosen(recordings, open_page):
    with view_of(recordings / "few.heft") as view:
        page = open_page(view.url + "#view=threads&process=4")
        page.wait("document.querySelectorAll('#view .row-open').length === 1")  # the third child's
        page.click_on("#view .row-open")
        page.wait("document.querySelector('#view [role=treegrid] [role=row][data-total]') !== null")
        total = page.evaluate("Number(document.querySelector('[role=treegrid] [role=row][data-total]').dataset.total)")
        assert total == PEAK[3]
