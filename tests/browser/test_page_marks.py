"""What a program says (heft.h) on the page: marks and regions on the timeline, and the view Marks, from heft view and from a
file. The numbers are those of heft report --json."""

import json

import pytest

import harness
from page_server import view_of
from page_shots import settle
from test_page_looks import faults

PROGRAMS = {"marked": [], "followed_queue": ["keep"], "arena": ["leak"]}
READY = "document.querySelector('#view h2') !== null && !document.querySelector('[aria-busy=true]')"


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Three programs, one after the other, in one recording; its path and its report."""
    folder = tmp_path_factory.mktemp("marks")
    for name in PROGRAMS:
        done = harness.run(["gcc", "-O1", "-g", "-I", harness.REPOSITORY / "include", "-o", folder / name,
                            harness.PROGRAMS / f"{name}.c", "-pthread"])
        assert done.returncode == 0, done.stderr
    path = folder / "said.heft"
    script = "; ".join(" ".join([f"./{name}", *words]) for name, words in PROGRAMS.items())
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", "sh", "-c", script], cwd=folder)
    assert done.returncode == 0, done.stderr
    return path, json.loads(harness.run([harness.HEFT, "report", "--json", path]).stdout)


def rows_of(page, label):
    """The cells of a table's rows, by their titles where these have the exact number."""
    return page.evaluate(f"[...document.querySelectorAll('[aria-label=\"{label}\"] tbody tr')].map(r => [...r.cells].map("
                         "c => c.querySelector('.num')?.title || c.innerText.trim()))")


def check_tables(page, report):
    assert [r[:2] for r in rows_of(page, "Marks")] == [[m["name"], f"{m['time_ns']} ns"] for m in report["marks"]]
    assert [r[0].split()[0] for r in rows_of(page, "Regions")] == [r["name"] for r in report["regions"]]
    stages = rows_of(page, "Time at each stage")
    assert [r[0] for r in stages] == ["allocated → queued", "queued → worked on", "worked on → freed", "worked on → still there"]
    assert [r[2] for r in stages] == [f"{s['mean_ns']} ns" for s in report["stages"]]
    pools = rows_of(page, "Pools")
    assert [r[0].split()[0] for r in pools] == ["rows", "arena_take", "arena_take"]
    assert "take_session" in pools[1][0] and pools[1][1:3] == ["400", "19,200 bytes"]
    assert [r[1:] for r in rows_of(page, "Events")] == [["400", "79,800"]] * 2


def test_the_tables_have_the_reports_numbers(said, open_page):
    path, report = said
    with view_of(path) as view:
        page = open_page(view.url + "#view=marks")
        page.wait(READY)
        settle(page)
        check_tables(page, report)
        assert faults(page, "marks") == []
        page.screenshot(harness.BUILD / "screenshots" / "said.png")


def test_on_a_phone(said, open_page):
    path, report = said
    with view_of(path) as view:
        page = open_page(view.url + "#view=marks", width=390, height=844)
        page.wait(READY)
        settle(page)
        assert faults(page, "marks") == []
        assert [r[0] for r in rows_of(page, "Marks")] == [m["name"] for m in report["marks"]]


def test_marks_and_regions_on_the_timeline(said, open_page):
    path, report = said
    with view_of(path) as view:
        page = open_page(view.url)
        page.wait("document.querySelectorAll('.mark').length === 4")
        titles = page.evaluate("[...document.querySelectorAll('.mark title')].map(t => t.textContent)")
        assert [t.split(" at ")[0] for t in titles] == [m["name"] for m in report["marks"]]
        spans = page.evaluate("[...document.querySelectorAll('.region title')].map(t => t.textContent.split(':')[0])")
        assert sorted(spans) == ["all", "b", "open"]
        # All are inside of the picture, under the axis, and none lies over another.
        boxes = page.evaluate("[...document.querySelectorAll('.region rect')].map(r => { const b = r.getBoundingClientRect();"
                              " return [b.left, b.right, b.top, b.bottom]; })")
        bottom = page.evaluate("document.querySelector('.chart-box').getBoundingClientRect().bottom")
        for i, (left, right, top, low) in enumerate(boxes):
            assert left < right and low <= bottom
            assert all(right <= o[0] + 2 or o[1] <= left + 2 or top >= o[3] or low <= o[2] for o in boxes[:i] + boxes[i + 1:])


def test_a_region_and_the_way_to_the_next_mark_become_the_window(said, open_page):
    path, report = said
    marks = report["marks"]
    with view_of(path) as view:
        page = open_page(view.url + "#view=marks")
        page.wait(READY)
        page.evaluate("document.querySelectorAll('[aria-label=Marks] .row-open')[1].click()")  # "middle"
        page.wait("location.hash.includes('mode=grew')")
        hash_ = page.evaluate("location.hash")
        assert f"from={marks[1]['time_ns']}" in hash_ and f"to={marks[2]['time_ns']}" in hash_ and "view=flame" in hash_
        # keep_b() keeps 50 blocks of 1,000 bytes.
        page.wait("document.querySelector('[role=treegrid] [data-total]')?.dataset.total === '50000'")
        # The window's own marks: it begins with one, and ends with the next.
        page.goto(view.url + hash_.replace("view=flame", "view=marks"))
        page.wait(READY)
        assert [r[0] for r in rows_of(page, "Marks")] == ["middle", "end"]
        page.goto(view.url)
        page.wait("document.querySelector('.region') !== null")
        page.evaluate("[...document.querySelectorAll('.region')].find(r => r.querySelector('title').textContent.startsWith('all:'))"
                      ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")
        page.wait(f"location.hash.includes('from={report['regions'][0]['begin_ns']}')")


def test_in_a_file(said, open_page, tmp_path):
    path, report = said
    out = tmp_path / "said.html"
    done = harness.run([harness.HEFT, "export", "-f", "html", "-o", out, path])
    assert done.returncode == 0, done.stderr
    page = open_page(out.as_uri() + "#view=marks")
    page.wait(READY)
    settle(page)
    check_tables(page, report)
    assert page.evaluate("document.querySelectorAll('[aria-label=Marks] .row-open').length") == 0  # a file has no windows


def test_a_program_that_says_nothing(open_page, tmp_path):
    path = tmp_path / "silent.heft"
    assert harness.run([harness.HEFT, "run", "-q", "-o", path, "--", "/bin/true"]).returncode == 0
    with view_of(path) as view:
        page = open_page(view.url)
        page.wait("document.querySelector('.rail') !== null")
        assert "Marks" not in page.evaluate("document.querySelector('.rail').innerText")
