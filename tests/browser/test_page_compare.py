"""Two recordings compared (one graph in colours, two beside each other, their numbers), and what can be handed
on: a link, a summary in words, an image; one-file reports say what they cannot do."""

import json
import pathlib

import pytest

import harness
from page_server import view_of

EXAMPLES = harness.BUILD / "examples"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """{name: (path, report)}: 300 connections, and a server that keeps what it was asked."""
    folder = tmp_path_factory.mktemp("compare")
    made = {}
    for name, command in {"a": [EXAMPLES / "connections", "A"], "b": [EXAMPLES / "leaky_server"]}.items():
        path = folder / f"{name}.heft"
        done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", *command])
        assert done.returncode == 0, done.stderr
        made[name] = path, json.loads(harness.run([harness.HEFT, "report", "--json", path]).stdout)
    return made


def settled(page):
    page.wait("document.querySelector('.rail') !== null && !document.querySelector('[aria-busy=true]')")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")


def exact(n):
    return f"{n:,} bytes".replace("-", "−")


def test_numbers_of_both(recordings, open_page):
    (a, report_a), (b, report_b) = recordings["a"], recordings["b"]
    with view_of(a, b) as view:
        page = open_page(view.url + "#view=diff")
        page.wait("document.querySelector('.numbers') !== null")
        settled(page)
        rows = page.evaluate("[...document.querySelectorAll('.numbers > div')].map((r) => [...r.children].map((c) => c.querySelector('.num')?.title ?? c.innerText))")
        one, two = report_a["totals"], report_b["totals"]
        assert rows[0] == ["Whole run", "A: a.heft", "B: b.heft", "Change"]
        assert rows[1] == ["Peak heap", exact(one["peak_bytes"]), exact(two["peak_bytes"]), exact(two["peak_bytes"] - one["peak_bytes"])]
        assert ["Blocks allocated", f"{one['allocations']:,} blocks", f"{two['allocations']:,} blocks"] == rows[5][:3]


def test_one_graph_in_colours(recordings, open_page):
    """What grew is redder than plain, what shrank bluer."""
    with view_of(recordings["a"][0], recordings["b"][0]) as view:
        page = open_page(view.url + "#view=diff")
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        settled(page)
        names = page.evaluate("[...document.querySelectorAll('#view [role=treegrid] [role=row]')].map((r) => r.innerText)")
        assert any("−" in n for n in names) and any("+" in n for n in names)
        page.press("x")
        page.wait("document.querySelector('.menu').open")
        svg = pathlib.Path(page.download(".menu .popup button")["path"]).read_text()
        import re
        fills = {}
        for title, fill in re.findall(r'<title>(.*?)</title><rect [^>]*fill="rgb\((.*?)\)"', svg):
            fills[title.split(" ")[0]] = [int(v) for v in fill.split(",")]
        grown, gone = fills["remember_request"], fills["make_id_table"]
        assert grown[0] > grown[2] and gone[2] > gone[0], (grown, gone)


@pytest.mark.parametrize("size", [(1440, 900), (1024, 768), (390, 844)])
def test_side_by_side(recordings, open_page, size):
    """Both whole trees on one scale: the smaller one does not fill its half."""
    (a, report_a), (b, report_b) = recordings["a"], recordings["b"]
    with view_of(a, b) as view:
        page = open_page(view.url + "#view=diff", width=size[0], height=size[1])
        page.wait("document.querySelector('.numbers') !== null")
        page.click_text("Side by side")
        page.wait("document.querySelectorAll('.pair [role=treegrid]').length === 2")
        settled(page)
        totals = page.evaluate("[...document.querySelectorAll('.pair [role=treegrid]')].map((t) => Number(t.querySelector('[data-total]').dataset.total))")
        assert totals == [report_a["totals"]["peak_bytes"], report_b["totals"]["peak_bytes"]]
        boxes = page.evaluate("[...document.querySelectorAll('.pair canvas')].map((c) => (b => [b.left, b.top, b.width])(c.getBoundingClientRect()))")
        assert (boxes[0][1] == boxes[1][1]) == (size[0] > 720)  # beside each other; on a phone below
        widths = page.evaluate("""[...document.querySelectorAll('.pair canvas')].map((canvas) => {
          const ratio = devicePixelRatio || 1, row = canvas.getContext('2d').getImageData(0, 10 * ratio, canvas.width, 1).data;
          let n = 0;
          while (n < canvas.width && !(row[4 * n] === 255 && row[4 * n + 1] === 255 && row[4 * n + 2] === 255)) n++;
          return n / canvas.width;
        })""")
        most = max(totals)
        assert widths == pytest.approx([t / most for t in totals], abs=0.02)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_two_instants_side_by_side(recordings, open_page):
    with view_of(recordings["b"][0]) as view:
        page = open_page(view.url + "#view=diff&bat=end&side=1")
        page.wait("document.querySelectorAll('.pair [role=treegrid]').length === 2")
        assert page.evaluate("document.querySelector('.numbers') === null")  # one recording has one set


def open_share(page):
    page.evaluate("[...document.querySelectorAll('.menu summary')].find((s) => s.innerText === 'Share').click()")
    page.wait("document.querySelector('.menu[open] .popup button:not(:disabled):nth-of-type(2)') !== null")


def test_share(recordings, open_page):
    path, report = recordings["a"]
    with view_of(path) as view:
        page = open_page(view.url + "#view=sites&at=end")
        settled(page)
        # What is copied can be pasted.
        page.evaluate("document.addEventListener('copy', () => { window.taken = document.activeElement.value; })")
        open_share(page)
        words = page.evaluate("[...document.querySelectorAll('.menu[open] button')].map((b) => b.innerText)")
        assert words == ["Copy link", "Copy summary as Markdown", "Copy image of this view"]
        page.click_on(".menu[open] button:nth-of-type(1)")
        page.wait("window.taken !== undefined")
        link = page.evaluate("window.taken")
        assert link == page.evaluate("location.href") and link.endswith("#view=sites&at=end")
        page.wait("document.querySelector('.menu[open] button').innerText.endsWith('✓')")
        page.click_on(".menu[open] button:nth-of-type(2)")
        page.wait("window.taken.startsWith('### Heap of')")
        text = page.evaluate("window.taken")
        totals = report["totals"]
        assert f"in {totals['peak_blocks']:,} blocks" in text and "connections A" in text
        for finding in report["findings"]:
            assert f"- **{finding['severity']}**, {finding['kind']}" in text
        first = max(report["sites"], key=lambda s: s["live_bytes"])
        assert "live at instant, at end" in text
        assert any(f["function"] in text for f in first["stack"])
        # The link shows the same to who opens it.
        other = open_page(link)
        other.wait("document.querySelector('.view-sites') !== null && location.hash.includes('at=end')")


def test_image_where_a_page_may_not_copy(recordings, open_page):
    """Chromium without a permission for the clipboard: the image comes as a file."""
    with view_of(recordings["a"][0]) as view:
        page = open_page(view.url + "#view=flame")
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        settled(page)
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        open_share(page)
        file = page.download(".menu[open] button:nth-of-type(3)")
        assert file["name"] == "a-flame.png"
        assert pathlib.Path(file["path"]).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_one_file_says_what_it_cannot(recordings, open_page, heft, tmp_path):
    """No window, no instant of one's own; the page says so before and after one tries."""
    out = tmp_path / "one.html"
    heft("export", "-q", "-f", "html", "-o", out, recordings["b"][0])
    page = open_page(f"file://{out}#view=flame")
    page.wait("document.querySelector('.cannot') !== null")
    settled(page)
    words = page.evaluate("document.querySelector('.cannot').innerText")
    assert "no other instants and windows" in words and "heft view" in words
    box = page.evaluate("(b => [b.left, b.top, b.width])(document.querySelector('[role=slider]').getBoundingClientRect())")
    before = page.evaluate("location.hash")
    page.drag(box[0] + 200, box[1] + 40, box[0] + 500, box[1] + 40)
    page.wait("document.querySelector('.cannot.asked') !== null")
    assert page.evaluate("location.hash") == before
    # The graph zooms as in the page, and the link is shared as there.
    at = page.evaluate("(b => [b.left + b.width * 0.2, b.top + 50])(document.querySelector('.flame canvas').getBoundingClientRect())")
    page.double_click(*at)
    page.wait("location.hash.includes('zoom=')")
    open_share(page)
    # heft view of the recording has no such words.
    with view_of(recordings["b"][0]) as view:
        page = open_page(view.url)
        settled(page)
        assert page.evaluate("document.querySelector('.cannot') === null")


def test_one_file_has_callers(recordings, open_page, heft, tmp_path):
    """Sandwich and Source of a file open on something, or say why there is nothing."""
    out = tmp_path / "one.html"
    heft("export", "-q", "-f", "html", "--source", "-o", out, recordings["a"][0])
    page = open_page(f"file://{out}#view=sandwich")
    page.wait("document.querySelector('.sandwich-sides [role=treegrid]') !== null")
    assert "Callers of make_id_table" in page.evaluate("document.querySelector('.sandwich-sides').innerText")
