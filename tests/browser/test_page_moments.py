"""What the page says of instants, of exits, of samples and of threads is what the report says, and what
programs with known numbers (tests/programs/moments.c, family.c, threads.c, sampled_heap.c) do."""

import json

import pytest

import harness
from page_server import view_of

EXITS = "when each process exited"


def record(folder, name, *command, options=()):
    path = folder / f"{name}.heft"
    done = harness.run([harness.HEFT, "run", "-q", *options, "-o", path, "--", *command])
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def recordings(compiled, tmp_path_factory):
    folder = tmp_path_factory.mktemp("moments")
    record(folder, "moments", compiled("moments.c"))
    record(folder, "family", compiled("family.c"), "few")
    record(folder, "many", compiled("family.c"), "many", "30")
    record(folder, "threads", compiled("threads.c"), "same", "4")
    record(folder, "exec", "sh", "-c", f"exec {compiled('moments.c')}")
    record(folder, "sampled", compiled("sampled_heap.c"), "threads", "5000", options=["--sample=4k"])
    return folder


def report(path, *options):
    return json.loads(harness.run([harness.HEFT, "report", "--json", *options, path]).stdout)


def exact(n):
    return f"{n:,} bytes"


def text(page, selector):
    return page.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")


def wait_for(page, selector):
    page.wait(f"document.querySelector({json.dumps(selector)}) !== null")


def settled(page):
    page.wait("!document.querySelector('[aria-busy=true]')")


def table(page):
    """The rows of the view's table, by the words of its head."""
    wait_for(page, "#view .table-box tbody tr")
    settled(page)
    head = page.evaluate("[...document.querySelectorAll('#view .table-box thead th')].map(h => h.innerText.replace(/[▾▴]/, '').trim())")
    cells = page.evaluate("[...document.querySelectorAll('#view .table-box tbody tr')].map(r => [...r.cells].map(c => c.innerText.trim()))")
    return [dict(zip(head, row)) for row in cells]


def between(view):
    """In moments.c: while all three blocks are there, and after two of them were freed."""
    line = view.get("/api/r/1/timeline")
    full = [t for t, n in zip(line["times_ns"], line["bytes"]) if n == 3000]
    return full[len(full) // 2], line["to_ns"] - 1


def test_an_instant(recordings, open_page):
    """What is left in the end and how long blocks live are of the run, not of the instant."""
    with view_of(recordings / "moments.heft") as view:
        full, late = between(view)
        page = open_page(f"{view.url}#view=sites&at={full}")
        rows = {row["Site"].split()[0]: row for row in table(page)}
        assert rows["grow"]["Selected"] == "2.0 KiB" and rows["grow"]["At end"] == "0 B"
        assert rows["keep_one"]["Selected"] == rows["keep_one"]["At end"] == "1000 B"
        for row in rows["grow"], rows["keep_one"]:  # at least the sleep of 600 ms
            value, unit = row["Life p50"].split()
            assert float(value) * {"ms": 1, "s": 1000}[unit] >= 500, row
        # Resized blocks were not allocated here.
        page.click_text("grow")
        wait_for(page, ".inspector .facts")
        page.wait("document.querySelector('.inspector .facts').innerText.includes('0 times, 2 reallocations')")
        # A window in which nothing was freed tells no lifetimes.
        page = open_page(f"{view.url}#view=sites&mode=allocated&to={full}")
        rows = {row["Site"].split()[0]: row for row in table(page)}
        assert rows["grow"]["Life p50"] == rows["grow"]["Life p99"] == "–"
        # Sizes are of the instant, too: two of three blocks of 1000 bytes are freed by then.
        page = open_page(f"{view.url}#view=sizes&at={late}")
        assert table(page)[0]["Blocks"] == "1"
        assert text(page, "#view .choice [aria-pressed=true]") == "At instant"


def test_exits(recordings, open_page):
    """Processes left 1000, 2000 and 3000 bytes; each at another time."""
    path = recordings / "family.heft"
    with view_of(path) as view:
        page = open_page(view.url + "#view=sites&at=end")
        rows = table(page)
        page.wait(f"document.querySelector('.layers-head').innerText.includes({json.dumps(EXITS)})")
        assert text(page, ".layers-head").split() == [*EXITS.split(), "5.9", "KiB"]
        legend = text(page, ".layers ul")
        assert "hold" in legend and "RSS" not in legend
        left = report(path)["totals"]["left_bytes"]
        assert left == 6000
        assert page.evaluate("document.querySelector('.chart-box').ariaValueText") == f"{EXITS}: 5.9 KiB"
        assert page.evaluate("document.querySelector('.instant') === null")
        assert [row["Left at exit"] for row in rows if row["Site"].startswith("serve")] == ["5.9 KiB"]
        page = open_page(view.url + "#view=sizes&at=end")
        assert sorted((row["Block size"], row["Blocks"]) for row in table(page)) == [
            ("1.9 KiB to 2.0 KiB", "1"), ("1000 B", "1"), ("2.8 KiB to 3.0 KiB", "1")]
        sizes = view.get("/api/r/1/sizes?at=end")["rows"]
        assert sum(row["live_bytes"] for row in sizes) == left


def test_exec_is_one_process(recordings, open_page):
    path = recordings / "exec.heft"
    totals = report(path)["totals"]
    assert totals["left_bytes"] > totals["live_bytes"] == 1000  # the shell's own, before exec
    with view_of(path) as view:
        summary = view.get("/api/r/1/summary")
        assert len(summary["processes"]) == 2 and summary["process_count"] == 1
        page = open_page(view.url)
        page.wait("document.querySelectorAll('.four dd').length >= 4")
        assert "Live at the end" in text(page, ".four") and "Left at exit" not in text(page, ".four")
        assert page.evaluate("document.querySelectorAll('.four dd:nth-of-type(1)')[1].title") == exact(1000)
        assert "End" in text(page, ".controls") and "Exit" not in text(page, ".controls")
        page.press("3")
        assert {row["At end"] for row in table(page) if row["Site"].startswith("keep_one")} == {"1000 B"}
        assert view.get("/api/r/1/tree?at=end")["sum"] == 1000


def test_threads_that_free_their_own(recordings, open_page, heft, tmp_path):
    """Nothing crosses threads: that is known, and said; a one-file report says it, too."""
    path = recordings / "threads.heft"
    words = "Every block was freed by the thread that allocated it"
    assert "No block was freed by a thread other than the one" in harness.run([harness.HEFT, "report", "--threads", path]).stdout.decode()
    with view_of(path) as view:
        page = open_page(view.url + "#view=threads")
        rows = table(page)
        assert words in text(page, "#view") and "Not recorded" not in text(page, "#view")
        assert {(t["tid"], t["frees"]) for t in report(path)["threads"]} == \
            {(int(row["Thread"].split("(")[1].rstrip(")")), int(row["Frees"].replace(",", ""))) for row in rows}
    out = tmp_path / "threads.html"
    heft("export", "-q", "-f", "html", "-o", out, path)
    page = open_page(f"file://{out}#view=threads")
    table(page)
    assert words in text(page, "#view") and page.evaluate("document.querySelector('#view .row-open') === null")


def test_sampled(recordings, open_page):
    path = recordings / "sampled.heft"
    told = report(path)
    totals = told["totals"]
    with view_of(path) as view:
        page = open_page(view.url)
        page.wait("document.querySelectorAll('.four dd').length >= 4")
        errors = view.get("/api/r/1/summary")["totals"]
        peak = page.evaluate("document.querySelectorAll('.four dd.faint')[0].innerText")
        assert peak.endswith(f", {totals['peak_blocks']:,} ± {totals['peak_blocks_error95']:,} blocks"), peak
        assert peak.startswith("± ") and peak.split(",")[0].endswith("B")
        assert errors["peak_bytes_error95"] == totals["peak_bytes_error95"]
        # Samples name the threads of what is live.
        page.press("8")
        rows = table(page)
        shown = harness.run([harness.HEFT, "report", "--threads", path]).stdout.decode()
        assert f"{len(rows)} threads with live samples" in shown and len(rows) > 1
        lines = [" ".join(line.split()) for line in shown.splitlines()]
        for row in rows:
            live, error = row["Live"].split(" ± ")
            blocks, blocks_error = row["Live blocks"].split(" ± ")
            tid = row["Thread"].split()[-1].strip("()")
            assert any(line.endswith(f"{tid} {live} {error} {blocks} {blocks_error}") for line in lines), (row, shown)
        assert "does not record which thread freed" in text(page, "#view")


def test_explanations_lead_somewhere(open_page, tmp_path):
    rows = tmp_path / "example.csv"
    rows.write_bytes(harness.run([harness.BUILD / "examples" / "csv_make"]).stdout)
    path = record(tmp_path, "csv", harness.BUILD / "examples" / "csv_rows", rows)
    with view_of(path) as view:
        page = open_page(view.url)
        wait_for(page, "li.card[data-kind=allocator-rounding] .primary")
        page.click_on("li.card[data-kind=allocator-rounding] .primary")
        page.wait("location.hash.includes('view=sizes')")
        assert page.evaluate("document.querySelector('.chip') === null")
        # Where a filter is set all the same, the view says that it ignores it.
        page = open_page(view.url + "#view=sizes&focus=main")
        table(page)
        assert "the filter does not apply" in text(page, "#view")
        kinds = {f["kind"]: f["explain"]["view"] for f in view.get("/api/r/1/summary")["findings"]}
        page = open_page(view.url)
        wait_for(page, "li.card")
        buttons = page.evaluate("[...document.querySelectorAll('li.card')].filter(c => c.querySelector('.primary')).map(c => c.dataset.kind)")
        assert set(buttons) == {kind for kind, shown in kinds.items() if shown != "findings"}


def test_sums_of_processes_are_explained(recordings, open_page):
    with view_of(recordings / "many.heft") as view:
        page = open_page(view.url + "#view=processes")
        table(page)
        assert "Its other numbers are sums" in text(page, "#view .note:last-child")
        page = open_page(view.url + "#view=processes&each=1")
        table(page)
        assert "numbers are sums" not in text(page, "#view .note:last-child")
