"""The page with documents inside, as a one-file report has them: no server, no request, hostile names,
files that tell little, phones, and a tree of 100,000 nodes."""

import json
import pathlib
import re
import statistics

import pytest

import harness
import page_documents as documents

HOSTILE = ["<script>document.title='owned'</script>", "\"><img src=x onerror=alert(1)>", "n" * 10000 + "<b>end",
           "right\u202eto left", "escape\x1b[31m\x07\x00", "\ufffd\udcff bad", "{{constructor}} ${alert(1)}"]
VIEWS = ["findings", "flame", "sites", "sandwich", "source", "sizes", "lifetimes", "threads", "diff", "memory"]


def show(open_page, tmp_path, docs, view="findings", more="", **settings):
    path = documents.write_page(tmp_path / f"{view}.html", docs)
    page = open_page(f"file://{path}#view={view}{more}", **settings)
    page.wait("document.querySelector('.rail') !== null")
    page.wait("document.querySelector('[aria-busy=true]') === null")
    return page


def hostile_report():
    sites = [documents.made_up_site(i + 1, [(name, f"/src/{name[:50]}.c", 7, "program"), ("main", "m.c", 1, "program")],
                                    1000 * (i + 1)) for i, name in enumerate(HOSTILE)]
    report = documents.made_up_report(sites)
    report["findings"] = [{"kind": name[:60], "severity": "high", "bytes": 10, "summary": name, "advice": name,
                           "evidence": {name[:40]: name}, "site": i + 1} for i, name in enumerate(HOSTILE)]
    report["command"] = [HOSTILE[0], HOSTILE[3]]
    return report


@pytest.mark.parametrize("view", ["findings", "flame", "sites", "memory"])
def test_hostile_names_are_inert(open_page, tmp_path, view):
    docs = documents.from_report(hostile_report(), notes=[{"kind": "warning", "time_ns": 0, "text": HOSTILE[1], "count": 0}])
    page = show(open_page, tmp_path, docs, view, "&site=3")
    page.wait("document.querySelector('.inspector .stack') !== null")
    assert page.evaluate("document.title") != "owned"
    assert page.evaluate("document.querySelectorAll('#page script, #page img').length") == 0
    shown = page.evaluate("document.body.innerText")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", shown)
    # Cut in the middle, whole in the title.
    assert "n" * 700 not in shown
    assert page.evaluate("[...document.querySelectorAll('.inspector [title]')].some(e => e.title.length > 10000)")
    # Wide names do not push the page apart.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_export_of_hostile_names(open_page, tmp_path):
    page = show(open_page, tmp_path, documents.from_report(hostile_report()), "flame")
    page.press("x")
    page.wait("document.querySelector('.menu').open")
    file = page.download(".menu .popup button")
    assert file["name"] == "example-flame.svg"
    svg = pathlib.Path(file["path"]).read_bytes()
    import xml.etree.ElementTree as tree
    root = tree.fromstring(svg)
    tags = {e.tag.split("}")[1] for e in root.iter()}
    assert tags <= {"svg", "g", "rect", "text", "title", "path", "line"}
    assert any("<script>" in (e.text or "") for e in root.iter())  # as text
    page.wait("!document.querySelector('.menu').open")  # it closes when the file is written
    page.press("x")
    page.wait("document.querySelector('.menu').open")
    png = page.download(".menu .popup button:nth-of-type(2)")
    assert pathlib.Path(png["path"]).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_nothing_leaves_the_page(open_page, tmp_path):
    docs = documents.from_report(hostile_report())
    page = show(open_page, tmp_path, docs)
    for key in "2345678901":
        page.press(key)
        page.wait("document.querySelector('.view [aria-busy=true]') === null")
    assert [r for r in page.requests() if not r.startswith(("file://", "data:", "blob:"))] == []


LITTLE = {"source": "-g", "sizes": "heft", "lifetimes": "heft run", "threads": "thread"}


@pytest.mark.parametrize("size", [(1440, 900), (390, 844)])
def test_a_file_that_tells_little_says_so(open_page, tmp_path, size):
    report = documents.made_up_report([documents.made_up_site(1, [("f", "", 0, "p")], 10)])
    docs = documents.from_report(report, has=["allocated"], pruned=["3 sites under 1 KiB"])
    del docs["/api/r/1/timeline"]
    page = show(open_page, tmp_path, docs, width=size[0], height=size[1])
    shown = page.evaluate("document.body.innerText")
    assert "not known" in shown and "This file leaves out: 3 sites under 1 KiB" in shown
    assert "No timeline" in shown and "heft found nothing wrong" in shown
    for number, view in enumerate(VIEWS, 1):
        page.press(str(number % 10))
        page.wait(f"document.querySelector('.view-{view}') !== null && document.querySelector('.view [aria-busy=true]') === null")
        words = page.evaluate("document.querySelector('.view').innerText")
        assert len(words) > 20, view
        if view in LITTLE:
            assert LITTLE[view] in words
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_empty_recording(open_page, tmp_path):
    page = show(open_page, tmp_path, documents.from_report(documents.made_up_report([])), "flame")
    assert "Nothing was allocated here" in page.evaluate("document.body.innerText")
    page.press("3")
    page.wait("document.body.innerText.includes('No sites here')")


def test_damaged_data_is_named(open_page, tmp_path):
    path = tmp_path / "damaged.html"
    path.write_text(documents.built_page().replace(
        "<!--heft-data-->", '<script type="application/json" id="heft-data">AAAA</script>'))
    page = open_page(f"file://{path}")
    page.wait("document.body.innerText.includes('damaged')")


def test_themes(open_page, tmp_path):
    docs = documents.from_report(hostile_report())
    back = "getComputedStyle(document.body).backgroundColor"
    light = show(open_page, tmp_path, docs, scheme="light").evaluate(back)
    page = show(open_page, tmp_path, docs, scheme="dark")
    assert page.evaluate(back) != light
    page.press("t")
    page.wait(f"{back} === {json.dumps(light)}")
    page.goto(page.evaluate("location.href"))
    page.wait("document.querySelector('.rail') !== null")
    assert page.evaluate(back) == light  # kept


def test_state_is_in_the_address(open_page, tmp_path):
    docs = documents.from_report(hostile_report())
    page = show(open_page, tmp_path, docs, "sites")
    page.press("e")
    page.wait("location.hash.includes('at=end')")
    page.press("2")
    page.press("i")
    page.wait("location.hash.includes('invert=1')")
    page.evaluate("history.back()")
    page.wait("!location.hash.includes('invert=1') && location.hash.includes('view=flame')")
    assert page.evaluate("document.querySelector('.rail [aria-current]').innerText").endswith("Flame")


def test_many_sites_scroll(open_page, tmp_path):
    sites = [documents.made_up_site(i, [(f"function_{i:04}", "a.c", i, "p")], 10000 - i) for i in range(1, 2001)]
    docs = documents.from_report(documents.made_up_report(sites))
    rows = [documents.site_row(s) for s in sites]
    docs["/api/r/1/sites"] = {"count": 2000, "sum": sum(r["value"] for r in rows), "rows": rows}
    page = show(open_page, tmp_path, docs, "sites")
    assert page.evaluate("document.querySelectorAll('#view tbody tr').length") < 80
    assert page.evaluate("document.querySelector('#view table').getAttribute('aria-rowcount')") == "2001"
    page.evaluate("document.querySelector('#view .table-box').scrollTop = 1e9")
    page.wait("document.querySelector('#view tbody').innerText.includes('function_2000')")


def deep_tree(nodes):
    """Ten children each, with names of their own."""
    frames = [{"function": f"function_{i}", "file": "a.c", "line": i, "module": f"m{i % 9}", "user": True,
               "inlined": False} for i in range(5000)]
    parent = [-1] + [(i - 1) // 10 for i in range(1, nodes)]
    self = [0] + [1 + i % 13 for i in range(1, nodes)]
    total = self[:]
    for i in range(nodes - 1, 0, -1):
        total[parent[i]] += total[i]
    return {"frames": frames, "parent": parent, "frame": [-1] + [i % 5000 for i in range(1, nodes)], "total": total,
            "self": self, "smaller": [], "unit": "bytes", "sum": total[0], "pruned_nodes": 0}


# Times of drawing, and between frames, while the graph is zoomed in and panned for 60 frames.
PAN = """(async () => {
  const canvas = document.querySelector('.flame canvas'), draws = [], gaps = [];
  const frame = (act) => new Promise((done) => requestAnimationFrame((t) => { act(); done(t); }));
  const original = window.requestAnimationFrame;
  window.requestAnimationFrame = (f) => original((t) => { const s = performance.now(); f(t); draws.push(performance.now() - s); });
  const box = canvas.getBoundingClientRect();
  const wheel = (o) => canvas.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true, clientX: box.left + 300, clientY: box.top + 60, ...o }));
  let last = 0;
  for (let i = 0; i < 60; i++) {
    const now = await frame(() => wheel(i < 10 ? { ctrlKey: true, deltaY: -60 } : { deltaX: i % 20 < 10 ? 40 : -40 }));
    if (last) gaps.push(now - last);
    last = now;
  }
  window.requestAnimationFrame = original;
  return { draws: draws.filter((d) => d > 0), gaps };
})()"""


def test_pan_100000_nodes(open_page, tmp_path, record_property):
    docs = documents.from_report(documents.made_up_report([]))
    docs["/api/r/1/tree"] = deep_tree(100_000)
    page = show(open_page, tmp_path, docs, "flame")
    page.wait("document.querySelector('.flame')?.dataset.nodes === '100000'")
    times = page.evaluate(PAN)
    draw, gap = statistics.median(times["draws"]), statistics.median(times["gaps"])
    record_property("median_draw_ms", draw)
    record_property("median_frame_ms", gap)
    print(f"100,000 nodes: median draw {draw:.1f} ms, median frame {gap:.1f} ms")
    assert len(times["gaps"]) == 59
    assert draw < 200  # the goal is 16 on an idle machine; a busy one must not fail the test
