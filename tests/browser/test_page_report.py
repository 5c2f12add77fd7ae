"""heft export -f html: one file, under 1 MB, that opens without a server and sends nothing; it says what it
left out, and holds source lines only where they were asked for."""

import json

import pytest

import harness

EXAMPLES = harness.BUILD / "examples"
MOST_BYTES = 1_000_000


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "connections.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", EXAMPLES / "connections", "A"])
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("source", [False, True])
def test_one_file(recording, tmp_path, heft, open_page, source):
    out = tmp_path / "report.html"
    heft("export", "-q", "-f", "html", *(["--source"] if source else []), "-o", out, recording)
    assert out.stat().st_size < MOST_BYTES
    report = json.loads(heft("report", "--json", recording))
    page = open_page(f"file://{out}")
    page.wait("document.querySelector('.card') !== null")
    title = page.evaluate("document.querySelector('.four dd').title")
    assert "This file leaves out: windows, instants" in page.evaluate("document.querySelector('.notes').innerText")
    assert title == f"{report['totals']['peak_bytes']:,} bytes"
    page.press("2")
    page.wait("document.querySelector('#view [role=treegrid]') !== null")
    assert page.evaluate("document.querySelector('[role=treegrid] [data-total]').dataset.total") == \
        str(report["totals"]["peak_bytes"])
    # What the file lacks cannot be chosen.
    off = page.evaluate("[...document.querySelectorAll('.controls button:disabled')].map(b => b.innerText)")
    assert "Grew in window" in off and "Allocated in window" not in off and "Whole run" not in off
    box = page.evaluate("(b => [b.left, b.top])(document.querySelector('[role=slider]').getBoundingClientRect())")
    page.click(box[0] + 300, box[1] + 40)
    assert "at=" not in page.evaluate("location.hash")
    page.press("i")  # inverted by the page itself, or from its own document
    page.wait("location.hash.includes('invert=1')")
    page.wait("document.querySelector('[role=treegrid] [aria-level=\"2\"]')?.innerText.startsWith('make_id_table')")
    page.press("3")
    page.wait("document.querySelectorAll('#view tbody tr').length > 0")
    page.press("5")
    page.wait("document.querySelector('.view-source') !== null && document.querySelector('.view [aria-busy=true]') === null")
    lines = "[...document.querySelectorAll('#view code')].filter(c => c.innerText.trim()).length"
    if source:
        page.wait(f"{lines} > 3")
    else:
        assert page.evaluate(lines) == 0
    for key in "467890":
        page.press(key)
        page.wait("document.querySelector('.view [aria-busy=true]') === null")
    sent = [r for r in page.requests() if not r.startswith(("file://", "data:", "blob:"))]
    assert sent == []


def test_many_sites_fit(tmp_path, heft, open_page, compiled):
    """A program with more stacks than fit: the file stays small and says what it left out."""
    path, out = tmp_path / "many.heft", tmp_path / "many.html"
    program = compiled("many_stacks.c")
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", program])
    assert done.returncode == 0, done.stderr
    heft("export", "-q", "-f", "html", "-o", out, path)
    assert out.stat().st_size < MOST_BYTES
    page = open_page(f"file://{out}")
    page.wait("document.querySelector('.rail') !== null")
    report = json.loads(heft("report", "--json", path))
    assert report["totals"]["allocations"] >= 1 << 14
    page.wait("document.querySelector('.notes')?.innerText.includes('leaves out')")
    page.press("2")
    page.wait("document.querySelector('[role=treegrid] [data-total]')?.dataset.total === "
              f"'{report['totals']['peak_bytes']}'")
