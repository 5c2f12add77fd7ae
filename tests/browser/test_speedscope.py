"""speedscope itself (its npm package, in Chromium) opens what heft writes for it: the importer
accepts it, names it, and its sandwich table has the report's numbers. Folded stacks, which it also
reads, go the same way."""

import pytest

import harness
from browser import node_package

TEXT = "document.body.innerText"
# Chromium without a graphics card: speedscope draws with WebGL.
FLAGS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"]


@pytest.fixture
def recording(compiled, tmp_path):
    path = tmp_path / "phases.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", compiled("export_phases.c")])
    assert done.returncode == 0, done.stderr
    return path


def rows(page):
    """The sandwich table: {function: [total, self]} as speedscope words them."""
    page.click_text("🥪Sandwich")
    page.wait("[...document.querySelectorAll('tr')].some(r => r.innerText.includes('burst'))")
    found = {}
    for row in page.evaluate("[...document.querySelectorAll('tr')].map("
                             "r => [...r.cells].map(c => c.innerText.trim()))"):
        if len(row) >= 3:
            found[row[-1]] = [" ".join(cell.split()) for cell in row[:-1]]
    return found


@pytest.mark.parametrize("form", ["speedscope", "folded"])
def test_opens(recording, tmp_path, heft, open_page, form):
    index = node_package("speedscope") / "speedscope" / "dist" / "release" / "index.html"
    out = tmp_path / ("phases.speedscope.json" if form == "speedscope" else "phases.folded")
    heft("export", "-q", "-f", form, "-o", out, recording)
    page = open_page(f"file://{index}", flags=FLAGS)
    page.wait("document.querySelector('input[type=file]') !== null")
    page.choose_file("input[type=file]", out)
    page.wait(f"{TEXT}.includes('Sandwich')")
    table = rows(page)
    report = harness.report(recording)
    for name in ("main", "keep", "burst"):
        expected = harness.total(report.sites_calling(name), "peak_bytes")
        shown = f"{expected / 1024:.2f} KB" if form == "speedscope" else f"{expected:,}"
        assert table[name][0].startswith(shown + " ("), (name, table[name])
    if form == "speedscope":
        assert "live at the peak" in page.evaluate(TEXT)
