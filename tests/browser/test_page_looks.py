"""How the page looks, where that can be computed: no text exceeds its box at any width with the inspector
open, no labels over each other, nothing wider than a phone; one colour a module in graph, legend and export;
a double click zooms to what it hit; axes, empty views and what they say."""

import json
import math
import pathlib
import re
import xml.etree.ElementTree as tree

import pytest

import harness
from page_server import view_of

HERE = pathlib.Path(__file__).resolve().parent
CHECKS = (HERE / "page_checks.js").read_text()
VIEWS = ["findings", "flame", "sites", "sandwich", "source", "sizes", "lifetimes", "threads", "diff", "memory", "processes"]
SIZES = [(1440, 900), (1024, 768), (390, 844)]
# Several shared objects, names without lines, deep stacks.
PYTHON = ("import json, zlib, hashlib, decimal, sqlite3\n"
          "d = [json.loads('{\"a\": [1, 2, \"%d\"]}' % i) for i in range(3000)]\n"
          "z = [zlib.compress(b'abc' * 9000) for _ in range(40)]\n"
          "db = sqlite3.connect(':memory:'); db.execute('create table t(a)')\n"
          "db.executemany('insert into t values(?)', (('x' * 60,) for _ in range(3000)))\n")


@pytest.fixture(scope="module")
def recordings(compiled, tmp_path_factory):
    """{name: path}, each made when it is first asked for."""
    folder = tmp_path_factory.mktemp("looks")
    made = {}
    commands = {
        "queue": [harness.BUILD / "examples" / "queue"],
        "leak": [harness.BUILD / "examples" / "leaky_server"],
        "python": ["env", "PYTHONMALLOC=malloc", "/usr/bin/python3", "-c", PYTHON],
        "family": [compiled("family.c"), "few"],
        "own": [compiled("threads.c"), "same", "4"],
        "moments": [compiled("moments.c")],
        "sampled": [compiled("sampled_heap.c"), "threads", "5000"],
        "freed": [compiled("moments.c")],  # sampled too coarsely for any sample
        "connections": [harness.BUILD / "examples" / "connections", "A"],
    }
    options = {"sampled": ["--sample=4k"], "freed": ["--sample=512m"], "python": ["--ledger"], "family": ["--ledger"]}

    def recording(name):
        if name not in made:
            if name == "pprof":
                path = folder / "import.pb.gz"
                command = [harness.HEFT, "export", "-q", "-f", "pprof", "-o", path, recording("connections")]
            else:
                path = folder / f"{name}.heft"
                command = [harness.HEFT, "run", "-q", *options.get(name, []), "-o", path, "--", *commands[name]]
            done = harness.run(command)
            assert done.returncode == 0, done.stderr
            made[name] = path
        return made[name]
    return recording


def settled(page):
    page.wait("document.querySelector('.rail') !== null && !document.querySelector('[aria-busy=true]')")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")


def open_view(page, view, url):
    page.goto("about:blank")
    page.goto(url)
    page.wait(f"document.querySelector('.view-{view}') !== null")
    settled(page)


def check(page, name):
    return page.evaluate(f"{CHECKS}.{name}()")


def faults(page, where):
    found = []
    for name in ("cutTexts", "overlappingLabels", "overflowing"):
        found += [f"{where}: {words}" for words in check(page, name)]
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", ["python", "queue", "family", "sampled", "pprof"])
def test_no_text_exceeds_its_box(recordings, open_page, name, size):
    """Every view, and then with the inspector open."""
    found = []
    with view_of(recordings(name)) as view:
        sites = view.get("/api/r/1/sites")["rows"]
        site = sites[0]["id"]
        page = open_page(view.url, width=size[0], height=size[1])
        settled(page)
        for shown in VIEWS:
            if shown == "processes" and name != "family":
                continue
            for more in ["", f"&site={site}"]:
                open_view(page, shown, f"{view.url}#view={shown}{more}")
                if more:
                    page.wait("document.querySelector('.inspector .stack') !== null")
                    settled(page)
                found += faults(page, f"{shown}{more}")
        for more in ["&mode=allocated&metric=count", "&at=end"]:
            open_view(page, "sites", f"{view.url}#view=sites{more}&site={site}")
            found += faults(page, "sites" + more)
        open_view(page, "diff", f"{view.url}#view=diff&bat=end")
        found += faults(page, "diff&bat=end")
    assert found == []


def test_the_check_sees_a_fault(recordings, open_page):
    """The functions above are not blind: a cut number, labels over each other, a box that is too wide."""
    with view_of(recordings("queue")) as view:
        page = open_page(view.url + "#view=sites")
        page.wait("document.querySelector('#view td.number') !== null")
        settled(page)
        assert faults(page, "") == []
        page.evaluate("document.querySelector('#view td.number .num').style.cssText = 'display: inline-block; width: 20px; overflow: hidden; text-overflow: ellipsis'")
        assert any("cuts" in words for words in check(page, "cutTexts"))
        page.evaluate("document.querySelectorAll('.timeline svg text').forEach((t) => t.setAttribute('x', 100))")
        page.evaluate("document.querySelectorAll('.timeline svg text').forEach((t) => t.setAttribute('y', 20))")
        assert check(page, "overlappingLabels")
        page.evaluate("document.querySelector('.top').style.width = '2000px'; document.body.style.overflow = 'visible'")
        assert check(page, "overflowing")


# ---- the flame graph under the mouse

CANVAS = "(b => [b.left, b.top, b.width, b.height])(document.querySelector('.flame canvas').getBoundingClientRect())"


def zoomed(page):
    """What the graph is zoomed to: the name in the address is that of a box of the mirror."""
    return page.evaluate("new URLSearchParams(location.hash.slice(1)).get('zoom')")


def chosen(page):
    return page.evaluate("document.querySelector('[role=treegrid] [aria-selected=true] [role=gridcell]').innerText")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("x", [0.03, 0.3, 0.6, 0.97])
def test_double_click_zooms_to_what_it_hit(recordings, open_page, size, x):
    """At the left, in the middle, and where the inspector opens; the graph does not move."""
    with view_of(recordings("python")) as view:
        page = open_page(view.url + "#view=flame&chains=1", width=size[0], height=size[1])
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        settled(page)
        page.evaluate("document.querySelector('.flame').scrollIntoView({ block: 'start' })")
        box = page.evaluate(CANVAS)
        at = box[0] + box[2] * x, box[1] + 20 * 6 + 10
        page.click(*at)
        page.wait("document.querySelector('.inspector') !== null")
        clicked = chosen(page)
        assert page.evaluate(CANVAS) == box  # it overlays
        page.press("Escape")
        page.wait("document.querySelector('.inspector') === null")
        page.double_click(*at)
        page.wait("location.hash.includes('zoom=')")
        assert chosen(page) == clicked
        node = page.evaluate("new URLSearchParams(location.hash.slice(1)).get('node')")
        assert zoomed(page) == node
        assert page.evaluate(CANVAS) == box


def test_double_click_in_the_last_row(recordings, open_page):
    """A click on a row at the edge does not scroll the graph under the second click."""
    with view_of(recordings("python")) as view:
        page = open_page(view.url + "#view=flame&chains=1", height=590)
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        settled(page)
        box = page.evaluate(CANVAS)
        # The last row that is not quite on screen, where a box is wide enough to hit.
        row = math.floor(box[3] / 20) * 20 + 2
        assert row < box[3]
        at = page.evaluate(f"""(() => {{
          const canvas = document.querySelector('.flame canvas'), ratio = devicePixelRatio || 1, c = canvas.getContext('2d');
          const line = c.getImageData(0, {row} * ratio, canvas.width, 1).data;
          const back = (x) => line[4 * x] > 253 && line[4 * x + 1] > 253 && line[4 * x + 2] > 253;
          for (let x = 0, run = 0; x < canvas.width; x++) {{
            run = back(x) ? 0 : run + 1;
            if (run > 8 * ratio) return (x - 4 * ratio) / ratio;
          }}
          return -1;
        }})()""")
        assert at > 0
        at = box[0] + at, box[1] + row
        top = page.evaluate("document.querySelector('.flame-scroll').scrollTop")
        page.click(*at)
        clicked = chosen(page)
        assert page.evaluate("document.querySelector('.flame-scroll').scrollTop") == top
        page.press("Escape")
        page.double_click(*at)
        page.wait("location.hash.includes('zoom=')")
        assert chosen(page) == clicked


def test_a_scrolled_graph(recordings, open_page):
    """What is drawn and what is hit is where the graph was scrolled to; the canvas is not higher than its box."""
    with view_of(recordings("python")) as view:
        page = open_page(view.url + "#view=flame&chains=1", height=590)
        page.wait("document.querySelector('#view [role=treegrid]') !== null")
        settled(page)
        box = page.evaluate(CANVAS)
        assert box[3] == pytest.approx(page.evaluate("document.querySelector('.flame-scroll').clientHeight"), abs=1)
        column = """((down) => { const canvas = document.querySelector('.flame canvas'), ratio = devicePixelRatio || 1;
          const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d');
          copy.drawImage(canvas, 0, 0);
          return [...copy.getImageData(200 * ratio, down * ratio, 1, 60 * ratio).data].join(); })"""
        before = page.evaluate(column + "(100)")
        page.evaluate("document.querySelector('.flame-scroll').scrollTop = 100")
        settled(page)
        page.wait(f"{column}(0) === {json.dumps(before)}")  # 100 pixels up
        assert page.evaluate(CANVAS) == box
        page.click(box[0] + 200, box[1] + 30)  # 130 pixels down, row 6: levels count from 1
        page.wait("document.querySelector('[role=treegrid] [aria-selected=true]')?.getAttribute('aria-level') === '7'")
        name = chosen(page)
        page.press("Escape")
        page.double_click(box[0] + 200, box[1] + 30)
        page.wait("location.hash.includes('zoom=')")
        assert chosen(page) == name


def colours_of_legend(page):
    page.evaluate("document.querySelectorAll('.legend details').forEach((d) => (d.open = true))")
    pairs = page.evaluate("[...document.querySelectorAll('.legend span:has(> i)')].map((s) => [s.title, getComputedStyle(s.querySelector('i')).backgroundColor])")
    return dict(pairs)


def rgb(page, colour):
    return page.evaluate(f"(e => {{ e.style.color = {json.dumps(colour)}; document.body.append(e); const c = getComputedStyle(e).color; e.remove(); return c; }})(document.createElement('i'))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_one_colour_a_module(recordings, open_page, scheme):
    """Legend, graph and SVG agree, and no two modules share a colour."""
    with view_of(recordings("python")) as view:
        page = open_page(view.url + "#view=flame&chains=1", scheme=scheme)
        page.wait("document.querySelector('.legend i') !== null")
        settled(page)
        legend = colours_of_legend(page)
        document = view.get("/api/r/1/tree")
        modules = {f["module"] for f in document["frames"] if "process" not in f}
        assert set(legend) == modules and len(modules) > 5
        assert len(set(legend.values())) == len(legend)
        module_of = {}
        for f in document["frames"]:
            module_of.setdefault(f["function"], set()).add(f["module"])
        page.press("x")
        page.wait("document.querySelector('.menu').open")
        file = page.download(".menu .popup button")
        root = tree.parse(file["path"]).getroot()
        seen, known = 0, {}
        for group in root.iter("{http://www.w3.org/2000/svg}g"):
            title, rect = group.find("{*}title"), group.find("{*}rect")
            if title is None or rect is None:
                continue
            name = title.text.rsplit(": ", 1)[0].split(" ")[0]
            if len(module_of.get(name, ())) != 1:
                continue
            module = next(iter(module_of[name]))
            fill = known.setdefault(rect.get("fill"), rgb(page, rect.get("fill")))
            assert fill == legend[module], (title.text, module)
            seen += 1
        assert seen > 20
        # The canvas: the middle of a box of the user's own code has its module's colour.
        pixel = page.evaluate("""(() => {
          const canvas = document.querySelector('.flame canvas'), ratio = devicePixelRatio || 1;
          return [...canvas.getContext('2d').getImageData((canvas.clientWidth - 30) * ratio, 115 * ratio, 1, 1).data].slice(0, 3).join(', ');
        })()""")
        assert f"rgb({pixel})" in legend.values()
        # Another view that draws modules has the same colours.
        page.press("4")
        page.wait("document.querySelector('.view-sandwich .flame canvas') !== null")
        settled(page)
        pixels = page.evaluate("""(() => {
          const canvas = document.querySelector('.view-sandwich .flame canvas'), c = canvas.getContext('2d'), ratio = devicePixelRatio || 1;
          return [...c.getImageData(30 * ratio, 38 * ratio, 1, 1).data].slice(0, 3).join(', ');
        })()""")
        assert f"rgb({pixels})" in legend.values()


# ---- charts

NUMBER = re.compile(r"([\d.,]+) ?(\S*)")
UNITS = {"": 1, "B": 1, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def leading(text):
    """The first digit of a round number: 1, 2 or 5 of steps; None: not round."""
    value = float(NUMBER.fullmatch(text)[1].replace(",", ""))
    while value >= 9.9999:
        value /= 10
    while 0 < value < 0.9999:
        value *= 10
    return round(value, 3)


def labels(page, selector):
    return page.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((t) => t.textContent)")


@pytest.mark.parametrize("size", SIZES)
def test_histogram_steps(recordings, open_page, size):
    with view_of(recordings("queue")) as view:
        page = open_page(view.url + "#view=lifetimes", width=size[0], height=size[1])
        page.wait("document.querySelector('.view-lifetimes .bars') !== null")
        settled(page)
        bottom = page.evaluate("Math.max(...[...document.querySelectorAll('.view-lifetimes .bars text')].map((t) => Number(t.getAttribute('y'))))")
        times = page.evaluate(f"[...document.querySelectorAll('.view-lifetimes .bars text')].filter((t) => Number(t.getAttribute('y')) === {bottom}).map((t) => t.textContent)")
        assert len(times) >= 2 and all(leading(t) in (0, 1, 2, 5) for t in times), times
        upright = labels(page, ".view-lifetimes .bars text[text-anchor=end]")
        values = [float(t.replace(",", "")) for t in upright]
        steps = {b - a for a, b in zip([0] + values, values)}
        assert len(steps) == 1 and leading(str(steps.pop())) in (1, 2, 5), values
        lifetimes = labels(page, ".view-lifetimes .heat text[text-anchor=end]")
        assert lifetimes and all(leading(t) in (1, 2, 5) for t in lifetimes), lifetimes


def test_rss_has_its_own_axis(recordings, open_page):
    """At the right, in steps of 1, 2 or 5, and it reaches the peak of RSS; the heap's is at the left."""
    for name in "python", "queue":
        with view_of(recordings(name)) as view:
            line = view.get("/api/r/1/timeline")
            page = open_page(view.url)
            page.wait("document.querySelector('.rss-axis text') !== null")
            settled(page)
            marks = page.evaluate("[...document.querySelectorAll('.rss-axis text')].map((t) => [t.textContent, Number(t.getAttribute('y')) - 4, t.getBoundingClientRect().left])")
            plot = page.evaluate("document.querySelector('.rss-axis line').getBoundingClientRect().left")
            assert all(left > plot for _, _, left in marks) and "RSS" in [text for text, _, _ in marks]
            values = [(float(t.split()[0]) * UNITS[t.split()[1]], y) for t, y, _ in marks if t != "RSS"]
            assert values and leading(str(values[0][0] / 1024 ** int(math.log(values[0][0], 1024)))) in (1, 2, 5)
            # The line's highest point is where the axis says that the greatest RSS is.
            most = max(p["bytes"] for p in line["rss"])
            path = page.evaluate("document.querySelector('.rss-line').getAttribute('d')")
            highest = min(float(y) for y in re.findall(r"[V ]([\d.]+)", path))
            bottom = page.evaluate("Number(document.querySelector('.rss-axis line').getAttribute('y2'))")
            value, y = values[-1]
            assert bottom - highest == pytest.approx((bottom - y) * most / value, abs=1)


def test_sparklines_are_visible(recordings, open_page):
    """A site that was large for a moment has a line that rises, drawn inside of its box."""
    with view_of(recordings("queue")) as view:
        rows = view.get("/api/r/1/sites")["rows"]
        tops = {r["id"]: max(r["trend"]) for r in rows if r["trend"]}
        assert tops and all(top > 0 for top in tops.values())
        page = open_page(view.url + "#view=sites")
        page.wait("document.querySelector('#view .sparkline') !== null")
        settled(page)
        drawn = page.evaluate("""[...document.querySelectorAll('#view .sparkline')].map((s) => {
          const box = s.getBoundingClientRect(), line = s.querySelector('.spark-line').getBoundingClientRect();
          return [line.height > box.height / 2, line.left >= box.left - 1 && line.right <= box.right + 1, box.width > 60];
        })""")
        assert drawn and all(all(d) for d in drawn)


# ---- what views say when there is little to show

def words_of(page):
    return page.evaluate("document.querySelector('#view').innerText")


@pytest.mark.parametrize("name", ["queue", "own", "moments", "family", "sampled", "freed", "python"])
def test_threads_are_recorded(recordings, open_page, name):
    """heft records threads: the view never says that it did not, and says nothing twice."""
    with view_of(recordings(name)) as view:
        page = open_page(view.url + "#view=threads")
        page.wait("document.querySelector('.view-threads') !== null")
        settled(page)
        words = words_of(page)
        assert "not recorded" not in words.lower(), words
        rows = page.evaluate("[...document.querySelectorAll('#view .table-box tbody tr')].map((r) => r.cells[0].innerText)")
        assert len(rows) == len(set(rows)) == len(view.get("/api/r/1/threads")["threads"])
        heads = page.evaluate("[...document.querySelectorAll('#view h2, #view th')].map((e) => e.innerText)")
        assert len(heads) == len(set(heads)), heads
        for process in view.get("/api/r/1/summary")["processes"]:
            open_view(page, "threads", f"{view.url}#view=threads&process={process['number'] + 1}")
            assert "not recorded" not in words_of(page).lower()


#         recording, view, more of the address, words that must be there
EMPTY = [("sampled", "lifetimes", "", "A sampled recording has no lifetimes"),
         ("sampled", "sizes", "", "A sampled recording has no sizes"),
         ("pprof", "sizes", "", "A pprof file has no sizes"),
         ("pprof", "lifetimes", "", "A pprof file has no lifetimes"),
         ("pprof", "threads", "", "A pprof file does not record threads"),
         ("freed", "threads", "", "no sample was live"),
         ("python", "source", "&focus=nothing_is_called_this", "No source lines here"),
         ("queue", "flame", "&focus=nothing_is_called_this", "clear the filter"),
         ("queue", "sites", "&search=nothing_is_called_this", "Nothing matches the search"),
         ("queue", "sites", "&focus=nothing_is_called_this", "No sites here"),
         ("queue", "sandwich", "&search=nothing_is_called_this", "No functions here"),
         ("queue", "lifetimes", "&focus=nothing_is_called_this", "No blocks here"),
         ("queue", "diff", "", "Compare two instants, or two recordings"),
         ("moments", "findings", "", "heft found nothing wrong"),
         ("moments", "threads", "", "There is one thread"),
         ("own", "threads", "", "No thread frees what another one allocated"),
         ("pprof", "memory", "", "A pprof file has no ledgers"),
         ("moments", "memory", "", "No breakdown of resident memory"),
         ("moments", "memory", "", "heft run takes ledgers"),
         ("family", "processes", "&search=nothing_is_called_this", "No process here")]


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_each_empty_view_says_why(recordings, open_page, size):
    page, missing = None, []
    for name in sorted({case[0] for case in EMPTY}):
        with view_of(recordings(name)) as view:
            page = page or open_page(view.url, width=size[0], height=size[1])
            for _, shown, more, words in (case for case in EMPTY if case[0] == name):
                open_view(page, shown, f"{view.url}#view={shown}{more}")
                said = words_of(page)
                if words not in said:
                    missing.append(f"{name} {shown}{more}: {said}")
                missing += faults(page, f"{name} {shown}")
    assert missing == []


def test_views_without_data_are_dimmed(recordings, open_page):
    with view_of(recordings("pprof")) as view:
        page = open_page(view.url)
        settled(page)
        style = page.evaluate("[...document.querySelectorAll('.rail button')].map((b) => [b.innerText.split('\\n').pop(), b.className, getComputedStyle(b).color, getComputedStyle(b.querySelector('span')).textDecorationLine])")
        assert {line for *_, line in style} == {"none"}
        dim = {name: colour for name, kind, colour, _ in style if kind == "lacking"}
        plain = {colour for name, kind, colour, _ in style if kind != "lacking" and name != "Findings"}
        assert set(dim) == {"Sizes", "Lifetimes", "Threads", "Memory"} and not set(dim.values()) & plain
