"""What the page shows first and how it reads: chains of single calls are one box and can be opened, a finding's
sentence stays beside its proof and can be explained, tables say nothing twice, views open on something."""

import json

import pytest

import harness
from page_server import view_of

EXAMPLES = harness.BUILD / "examples"


@pytest.fixture(scope="module")
def recordings(compiled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reading")
    made = {}

    def recording(name):
        if name not in made:
            # Compiled here, so that its source has the path that it has on this machine.
            command = {"queue": [EXAMPLES / "queue"], "moments": [compiled("moments.c")], "family": [compiled("family.c"), "few"],
                       "connections": [EXAMPLES / "connections", "A"], "csv": [EXAMPLES / "csv_rows", folder / "rows.csv"]}[name]
            if name == "csv":
                (folder / "rows.csv").write_bytes(harness.run([EXAMPLES / "csv_make"]).stdout)
            path = folder / f"{name}.heft"
            done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", *command])
            assert done.returncode == 0, done.stderr
            made[name] = path, json.loads(harness.run([harness.HEFT, "report", "--json", path]).stdout)
        return made[name]
    return recording


def settled(page):
    page.wait("document.querySelector('.rail') !== null && !document.querySelector('[aria-busy=true]')")


def text(page, selector):
    return page.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")


def boxes(page):
    """[(level, name, total)] of the rows that the mirror has."""
    return page.evaluate("[...document.querySelectorAll('#view [role=treegrid] [role=row][data-total]')].map((r) => "
                         "[Number(r.getAttribute('aria-level')), r.children[0].innerText, Number(r.dataset.total)])")


def test_chains_are_folded(recordings, open_page):
    """connections: start, libc's two and main are one box, named main; conn_new has blocks of its own."""
    path, report = recordings("connections")
    with view_of(path) as view:
        page = open_page(view.url + "#view=flame")
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        top = boxes(page)
        assert top[1][1].startswith("main connections.c:") and top[1][1].endswith("(+3)")
        assert top[1][2] == top[0][2] == report["totals"]["peak_bytes"]
        # All frames are in the inspector; one chain can be opened there.
        page.press("2")
        page.wait("document.activeElement?.getAttribute('role') === 'treegrid'")
        page.press("ArrowDown")
        page.wait("document.querySelector('.inspector .stack li') !== null")
        stack = page.evaluate("[...document.querySelectorAll('.inspector .stack li')].map((l) => l.innerText.trim().split(' ')[0])")
        assert stack == ["main", "__libc_start_call_main", "__libc_start_main_impl", "_start"] or stack[0] == "main" and len(stack) == 4
        page.click_text("Open 4 frames")
        page.wait("location.hash.includes('opened=')")
        settled(page)
        chain = [b for b in boxes(page) if b[2] == report["totals"]["peak_bytes"]]
        assert len(chain) >= 5 and chain[1][1].startswith("_start")
        # The button opens and folds all of them; so does the key.
        page.press("k")
        page.wait("location.hash.includes('chains=1')")
        assert "(+" not in text(page, "#view [role=treegrid]")
        page.press("k")
        page.wait("!location.hash.includes('chains=1')")
        page.wait("document.querySelector('#view [role=treegrid]').innerText.includes('(+3)')")
        assert page.evaluate("[...document.querySelectorAll('.toggle')].find((b) => b.innerText === 'Fold chains').getAttribute('aria-pressed')") == "true"


def test_search_finds_inside_a_chain(recordings, open_page):
    with view_of(recordings("connections")[0]) as view:
        page = open_page(view.url + "#view=flame")
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        page.press("/")
        page.type("libc_start")
        page.press("Enter")
        page.wait("document.querySelector('.matched').innerText.includes('100.0 %')")
        assert text(page, "#view [role=treegrid] [aria-selected=true]").startswith("main ")


def test_runtimes_are_paler(recordings, open_page):
    """The box of _start is of the runtime: paler than main's, with the same module's colour."""
    with view_of(recordings("connections")[0]) as view:
        page = open_page(view.url + "#view=flame&chains=1")
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        settled(page)
        page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")
        start, main = page.evaluate("""(() => {
          const canvas = document.querySelector('.flame canvas'), ratio = devicePixelRatio || 1;
          const column = canvas.getContext('2d').getImageData((canvas.clientWidth - 60) * ratio, 0, 1, 120 * ratio).data;
          return [1, 4].map((row) => [...column.slice(4 * (row * 20 + 4) * ratio)].slice(0, 3));
        })()""")
        assert start != main
        assert start == pytest.approx([255 - 0.4 * (255 - v) for v in main], abs=2)  # 40 % over white


def test_the_sentence_stays_beside_the_proof(recordings, open_page):
    path, report = recordings("queue")
    finding = report["findings"][0]
    with view_of(path) as view:
        page = open_page(view.url)
        page.wait("document.querySelector('.card .primary') !== null")
        assert text(page, ".card .primary") == "Show me"
        page.click_on(".card .primary")
        page.wait("document.querySelector('.pinned') !== null")
        assert finding["summary"] in text(page, ".pinned") and "High" in text(page, ".pinned .severity")
        page.press("2")  # whatever view is looked at next
        page.wait("document.querySelector('.view-flame .pinned') !== null && document.querySelector('.flame') !== null")
        pinned, graph = page.evaluate("['.pinned', '.flame'].map((s) => (b => [b.top, b.bottom, b.width])(document.querySelector(s).getBoundingClientRect()))")
        assert pinned[1] <= graph[0] and graph[1] <= 900  # both are on screen
        other = open_page(page.evaluate("location.href"))  # it is in the link
        other.wait("document.querySelector('.pinned') !== null")
        page.click_on(".pinned [aria-label=Unpin]")
        page.wait("document.querySelector('.pinned') === null")


def test_a_finding_is_explained(recordings, open_page):
    """Rule, each condition with what was measured and its limit, and what would have made it silent."""
    path, report = recordings("csv")
    finding = next(f for f in report["findings"] if f["conditions"])
    with view_of(path) as view:
        page = open_page(view.url)
        card = f"li.card[data-kind={finding['kind']}] "
        page.wait(f"document.querySelector({json.dumps(card + '.explanation')}) !== null")
        assert not page.evaluate(f"document.querySelector({json.dumps(card + '.explanation')}).open")
        page.click_on(card + ".explanation summary")
        words = text(page, card + ".explanation")
        assert finding["rule"] in words
        rows = page.evaluate(f"[...document.querySelectorAll({json.dumps(card + '.conditions [role=row]')})].slice(1).map((r) => [...r.children].map((c) => c.innerText))")
        assert [r[:2] for r in rows] == [[c["what"], c["measured_words"]] for c in finding["conditions"]]
        assert all(c["limit_words"] in r[2] for r, c in zip(rows, finding["conditions"]) if c["unit"] != "fact")
        assert all(c["silent_if"] in words for c in finding["conditions"])


def heads(page):
    return page.evaluate("[...document.querySelectorAll('#view .table-box thead th')].map((h) => h.innerText.replace(/[▾▴]/, '').trim())")


@pytest.mark.parametrize("more, first, gone", [("", "At peak", "Selected"), ("&at=end", "At end", "Selected"), ("&mode=allocated", "Allocated", "Selected"),
                                               ("&at=200000000", "Selected", ""), ("&mode=churn", "Selected", "")])
def test_sites_say_nothing_twice(recordings, open_page, more, first, gone):
    """The selected value stands once; the column of the site is the widest and names callers."""
    with view_of(recordings("queue")[0]) as view:
        page = open_page(view.url + "#view=sites" + more)
        page.wait("document.querySelector('#view .row-open') !== null")
        settled(page)
        shown = heads(page)
        assert shown[:2] == ["Site", first] and len(set(shown)) == len(shown) and gone not in shown
        widths = page.evaluate("[...document.querySelectorAll('#view .table-box thead th')].map((h) => h.getBoundingClientRect().width)")
        assert widths[0] == max(widths) and widths[0] > 1.5 * sorted(widths)[-2]
        columns = page.evaluate("[...document.querySelectorAll('#view .table-box tbody tr')].map((r) => [...r.cells].map((c) => c.innerText))")
        if first == "At peak":
            site = next(r for r in columns if r[0].startswith("send_message"))
            assert site[0].split(" < ")[1:] == ["main"]


def test_sandwich_opens_on_what_allocates_most(recordings, open_page):
    with view_of(recordings("connections")[0]) as view:
        page = open_page(view.url + "#view=sandwich")
        page.wait("document.querySelector('.sandwich-sides [role=treegrid]') !== null")
        settled(page)
        assert text(page, ".sandwich-sides h2").startswith("Callers of make_id_table: 75.0 MiB")
        assert text(page, "#view tr.chosen").startswith("make_id_table")
        assert "function=" not in page.evaluate("location.hash")


def test_source_opens_on_a_file_that_is_there(recordings, open_page):
    with view_of(recordings("moments")[0]) as view:
        files = view.get("/api/r/1/files")["files"]
        assert any(f["readable"] for f in files)
        page = open_page(view.url + "#view=source")
        page.wait("document.querySelector('#view code') !== null")
        settled(page)
        assert "moments.c" in text(page, "#view .path")
        assert "alloc(" in text(page, "#view tr.chosen code")


@pytest.mark.parametrize("metric, words", [("bytes", "B"), ("count", " block")])
def test_headlines_have_units(recordings, open_page, metric, words):
    with view_of(recordings("connections")[0]) as view:
        page = open_page(view.url)
        page.wait("document.querySelectorAll('.four dd').length >= 8")
        assert text(page, ".four > div:nth-child(4) dd").endswith(" blocks")
        page.goto("about:blank")
        page.goto(f"{view.url}#view=diff&bat=end&metric={metric}")
        page.wait("document.querySelector('#view .lead') !== null")
        settled(page)
        assert all(t.rstrip("s").endswith(words) for t in page.evaluate("[...document.querySelectorAll('#view .lead strong')].slice(0, 2).map((e) => e.innerText)"))
        page.goto("about:blank")
        page.goto(f"{view.url}#view=sandwich&metric={metric}")
        page.wait("document.querySelector('.sandwich-sides h2') !== null")
        settled(page)
        assert text(page, ".sandwich-sides h2").rstrip("s").endswith(words)
