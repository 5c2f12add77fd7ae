"""The flame graph in Chromium: drawn to fit, zoomed by mouse and by keys, searched; what it shows
agrees with the report; nothing is asked from anywhere, nothing complains, names stay text."""

import re
import subprocess

import pytest

import harness

# What the page shows: every frame that can be seen.
FRAMES = """[...document.querySelectorAll('.f')].filter(g => g.style.display !== 'none').map(g => {
  const r = g.querySelector('rect'), t = g.querySelector('title').textContent.split('\\n');
  return {name: t[0], where: t[1], numbers: t[2], label: g.querySelector('text').textContent,
    x: +r.getAttribute('x'), y: +r.getAttribute('y'), width: +r.getAttribute('width'),
    hit: g.classList.contains('hit'), level: +g.getAttribute('aria-level')}})"""
FOCUSED = "document.activeElement.querySelector('title')?.textContent.split('\\n')[0]"
DETAIL = "[...document.querySelectorAll('.head > .detail')].slice(-3).map(t => t.textContent)"
MATCHED = "document.querySelector('.matched').textContent"
ZOOMED = "!document.querySelector('.bar button').disabled"


@pytest.fixture(scope="module")
def recording(compiled, tmp_path_factory):
    path = tmp_path_factory.mktemp("graph") / "phases.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--",
                        compiled("export_phases.c"), "<b>bold</b>"])
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def graph(recording, tmp_path, heft, open_page):
    def make(*options, **settings):
        heft("export", "-q", "-f", "flamegraph", "-o", tmp_path / "graph.svg", *options, recording)
        return open_page(f"file://{tmp_path}/graph.svg", **settings)
    return make


def frame(page, name):
    found = [f for f in page.evaluate(FRAMES) if f["name"] == name]
    assert len(found) == 1, (name, found)
    return found[0]


def number(text):
    return int(re.match(r"[\d,]+", text).group().replace(",", ""))


@pytest.mark.parametrize("measure, column", [("peak", "peak_bytes"), ("live", "live_bytes"),
                                             ("count", "allocations")])
def test_numbers_are_the_report_s(graph, recording, measure, column):
    page = graph("-m", measure)
    report = harness.report(recording)
    total = report["totals"][column]
    frames = page.evaluate(FRAMES)
    assert number(frames[0]["numbers"]) == total and frames[0]["level"] == 1
    assert number(page.evaluate("document.querySelector('.what').textContent")) == total
    for shown in frames[1:]:
        # Every frame is the sum of the sites that go through it: functions here stand in one
        # place of one stack each.
        if shown["name"] in ("main", "keep", "burst", "briefly"):
            expected = harness.total(report.sites_calling(shown["name"]), column)
            assert number(shown["numbers"]) == expected, shown
            assert f"{100 * expected / total:.2f} % of all" in shown["numbers"]
            assert shown["width"] == pytest.approx(1420 * expected / total, abs=0.01)
    assert "main" in [f["name"] for f in frames]


def test_zoom_by_mouse(graph):
    page = graph()
    keep, burst = frame(page, "keep"), frame(page, "burst")
    assert burst["width"] > keep["width"] and not page.evaluate(ZOOMED)
    page.click(keep["x"] + 5, keep["y"] + 5)
    assert frame(page, "keep")["width"] == pytest.approx(1420)
    assert frame(page, "main")["width"] == pytest.approx(1420)  # what leads there stays
    assert "burst" not in [f["name"] for f in page.evaluate(FRAMES)]
    assert page.evaluate(ZOOMED)
    main = frame(page, "main")
    page.click(main["x"] + 5, main["y"] + 5)
    assert frame(page, "main")["width"] == pytest.approx(1420)
    assert "burst" in [f["name"] for f in page.evaluate(FRAMES)]
    page.evaluate("document.querySelector('.bar button').click()")
    assert frame(page, "keep") == keep and not page.evaluate(ZOOMED)


def test_keys_alone(graph):
    page = graph()
    page.press("Tab")
    assert page.evaluate(FOCUSED) == "all"
    page.wait("window.scrollY === 0")
    for _ in range(20):
        if page.evaluate(FOCUSED) == "burst":
            break
        page.press("ArrowDown")  # always the greatest
    assert page.evaluate(FOCUSED) == "burst"
    assert page.evaluate(DETAIL)[0] == "burst"
    assert page.evaluate(DETAIL)[1].startswith("100,000 bytes (97.7 KiB), ")
    page.press("ArrowRight")
    assert page.evaluate(FOCUSED) == "keep"
    page.press("ArrowLeft")
    assert page.evaluate(FOCUSED) == "burst"
    page.press("Enter")
    assert frame(page, "burst")["width"] == pytest.approx(1420) and page.evaluate(ZOOMED)
    page.press("ArrowUp")
    assert page.evaluate(FOCUSED) == "main"
    page.press("Escape")
    assert not page.evaluate(ZOOMED) and frame(page, "burst")["width"] < 1420
    page.press("/")
    page.type("KEEP")
    assert [f["name"] for f in page.evaluate(FRAMES) if f["hit"]] == ["keep"]
    page.press("Enter")
    assert page.evaluate(FOCUSED) == "keep"
    page.press("Escape")
    assert page.evaluate(MATCHED) == ""


def test_search_tells_the_matched_share(graph, recording):
    page = graph()
    report = harness.report(recording)
    total = report["totals"]["peak_bytes"]
    page.press("/")
    page.type("export_phases")  # the module: main and all below it, counted once
    expected = harness.total(report.sites_calling("main"), "peak_bytes")
    shown = page.evaluate(MATCHED)
    assert shown.startswith(f"{100 * expected / total:.2f} % matched: {expected:,} bytes"), shown
    page.press("Control+a")
    page.type("no such function")
    assert page.evaluate(MATCHED) == "no match"
    page.press("Escape")
    assert page.evaluate(MATCHED) == ""
    assert not page.evaluate("document.documentElement.classList.contains('searching')")


def test_details_on_hover(graph):
    page = graph()
    at = frame(page, "burst")
    page.move(at["x"] + 20, at["y"] + 5)
    name, numbers, _ = page.evaluate(DETAIL)
    assert name == "burst"
    assert numbers.startswith("100,000 bytes (97.7 KiB), ") and "export_phases.c:" in numbers
    page.move(700, 20)
    assert "searches" in page.evaluate(DETAIL)[0]


@pytest.mark.parametrize("width, height", [(1440, 900), (390, 844)])
def test_fits_the_window(graph, width, height):
    page = graph(width=width, height=height)
    for f in page.evaluate(FRAMES):
        assert f["x"] >= 10 and f["x"] + f["width"] <= width - 10 + 0.01
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    over = page.evaluate("""[...document.querySelectorAll('text')].filter(t => t.textContent &&
      t.getBoundingClientRect().width && t.getBoundingClientRect().right > innerWidth)
      .map(t => t.textContent)""")
    assert over == []
    page.size(800, 600)
    page.wait("document.documentElement.getAttribute('width') === '800'")
    assert frame(page, "main")["x"] + frame(page, "main")["width"] <= 790.01


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(graph, scheme):
    """Every text on its ground, by WCAG's formula: 4.5 at least."""
    page = graph(scheme=scheme)
    ratios = page.evaluate("""(() => {
      const rgb = (s) => s.match(/[\\d.]+/g).map(Number);
      const light = (c) => { const [r, g, b] = c.map(v => v / 255).map(
        v => v <= 0.03928 ? v / 12.92 : Math.pow((v + 0.055) / 1.055, 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
        return (x + 0.05) / (y + 0.05); };
      const paper = rgb(getComputedStyle(document.querySelector('.paper')).fill);
      const result = {}, g = document.querySelector('.frames .f:not(.root)');
      for (let hue = 0; hue < 9; hue++) {
        g.setAttribute('class', `f k${hue}`);
        const style = getComputedStyle(g.querySelector('rect'));
        const ground = rgb(style.fill).map((v, i) =>
          v * style.fillOpacity + paper[i] * (1 - style.fillOpacity));
        result[`k${hue}`] = ratio(ground, rgb(getComputedStyle(g.querySelector('text')).fill));
      }
      for (const name of ['what', 'command', 'facts', 'detail'])
        result[name] = ratio(paper, rgb(getComputedStyle(document.querySelector('.' + name)).fill));
      return result; })()""")
    assert len(ratios) == 13
    assert min(ratios.values()) >= 4.5, ratios
    dark = page.evaluate("getComputedStyle(document.querySelector('.paper')).fill") == \
        "rgb(22, 24, 27)"
    assert dark == (scheme == "dark")


def test_asks_for_nothing(graph, recording, tmp_path):
    page = graph()
    page.press("/")
    page.type("main")
    assert page.requests() == [f"file://{tmp_path}/graph.svg"]
    text = (tmp_path / "graph.svg").read_text()
    assert set(re.findall(r"https?://[^\s\"'<)]+", text)) == \
        {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xhtml"}


def test_names_stay_text(tmp_path, heft, open_page):
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>]]>\"'&"
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-o", tmp_path / "plain",
                    harness.PROGRAMS / "export_phases.c"], check=True)
    subprocess.run(["objcopy", "--redefine-sym", f"burst={evil}", tmp_path / "plain",
                    tmp_path / "evil"], check=True)
    harness.run([harness.HEFT, "run", "-q", "-o", tmp_path / "evil.heft", "--", tmp_path / "evil",
                 evil])
    heft("export", "-q", "-f", "flamegraph", "-o", tmp_path / "evil.svg", tmp_path / "evil.heft")
    page = open_page(f"file://{tmp_path}/evil.svg")
    at = frame(page, evil)
    page.move(at["x"] + 20, at["y"] + 5)
    assert page.evaluate(DETAIL)[0] == evil
    page.click(at["x"] + 20, at["y"] + 5)
    page.press("/")
    page.type("<script>")
    assert [f["name"] for f in page.evaluate(FRAMES) if f["hit"]] == [evil]
    assert page.evaluate("document.querySelectorAll('script').length") == 1
    assert page.evaluate("document.querySelectorAll('img').length") == 0


def test_reads_without_script(recording, tmp_path, heft, open_page):
    """As an image, where no script runs: the labels are there."""
    heft("export", "-q", "-f", "flamegraph", "-o", tmp_path / "graph.svg", recording)
    svg = (tmp_path / "graph.svg").read_text()
    (tmp_path / "still.svg").write_text(re.sub(r"(?s)<script>.*</script>", "", svg))
    page = open_page(f"file://{tmp_path}/still.svg", width=1300)
    assert frame(page, "burst")["label"] == "burst"
    assert frame(page, "main")["width"] == pytest.approx(1180, abs=100)
