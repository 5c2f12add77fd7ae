"""The Memory view: its table is what heft map prints, whichever ledger, process and section is chosen, and whether the
page comes from heft view or from a file."""

import json

import pytest

import harness
from attach_harness import may_trace
from page_server import view_of

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
# Half of what it makes is freed again; meanwhile the recorder takes its first ledger.
GROWING = """import time
kept = [bytes(1000 + i % 7) for i in range(9000)]
del kept[::2]
time.sleep(0.4)
"""
KINDS = ["requested", "in_use", "rounding", "headers", "held_free", "large_mappings"]  # of the section "heap"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    (folder / "growing.py").write_text(GROWING)
    for name, command in {"one": ["/usr/bin/python3", "-I", "growing.py"],
                          "two": ["sh", "-c", "/usr/bin/python3 -I growing.py; /usr/bin/python3 -Ic 'kept = bytes(5 << 20)'"]}.items():
        done = harness.run([harness.HEFT, "run", "-q", "--ledger-every", "100ms", "-o", f"{name}.heft", "--", *command], cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


def mapped(path, *options):
    return json.loads(harness.run([harness.HEFT, "map", "--json", *options, path]).stdout)["ledgers"]


def table(page):
    """[(first cell, exact bytes resident)] of the table's rows."""
    page.wait("document.querySelector('#view table.ledger tbody tr') !== null && !document.querySelector('[aria-busy=true]')")
    return [tuple(row) for row in page.evaluate(
        "[...document.querySelectorAll('#view table.ledger tbody tr')].map(r => [r.cells[0].innerText.replace(/^[▾▸] /, ''),"
        " r.cells[1].querySelector('.num')?.title ?? ''])")]


def rows_of(table):
    return dict(table)


def exact(n):
    return f"{n:,} bytes"


def total(lines, kinds):
    return sum(line["resident_bytes"] for line in lines if line["kind"] in kinds)


def chosen(page):
    return page.evaluate("document.querySelector('.memory-box').ariaValueText")


def test_the_table_is_what_heft_map_prints(recordings, open_page):
    path = recordings / "one.heft"
    ledger = mapped(path)[-1]
    text = harness.run([harness.HEFT, "map", "--moment", "exit", path], env={"COLUMNS": "100"}).stdout.decode()
    with view_of(path) as view:
        page = open_page(view.url + "#view=memory&at=end")
        shown = table(page)
    rows = rows_of(shown)
    # Sections and lines in the same words and order, but for what the text cuts. Who has mapped something is a line below it.
    lines = text.split("\n\n")[1].splitlines()[1:]
    printed = [line.strip()[:40].strip() for line in lines if not line.startswith("    ")]
    makers = [line.strip() for line in lines if line.startswith("    ")]
    shown_makers = [name.partition(", mapped by ")[2] for name, _ in shown if ", mapped by " in name]
    assert [name.partition(", mapped by ")[0][:40].strip() for name, _ in shown] == printed
    assert makers == [f"mapped by {who}" for who in shown_makers] and makers
    assert rows["heap"] == exact(total(ledger["lines"], KINDS))
    assert rows["program and libraries"] == exact(total(ledger["lines"], ["modules_private", "modules_shared", "bss"]))
    assert rows["all"] == exact(ledger["rss_bytes"])
    libc = next(line for line in ledger["lines"] if line["name"].endswith("/libc.so.6") and line["kind"] == "modules_shared")
    assert rows["libc.so.6, shared"] == exact(libc["resident_bytes"])


def test_a_ledger_is_chosen(recordings, open_page):
    path = recordings / "one.heft"
    ledgers = mapped(path)
    assert len(ledgers) >= 2 and ledgers[-1]["moment"] == "exit"
    last = len(ledgers) - 1
    with view_of(path) as view:
        page = open_page(view.url + "#view=memory")
        settled = "!document.querySelector('[aria-busy=true]')"
        assert rows_of(table(page))["all"] != exact(ledgers[last]["rss_bytes"])  # nearest to the peak
        assert "when it exited" not in chosen(page)
        # By keyboard, in both directions; the page's instant moves along.
        page.evaluate("document.querySelector('.memory-box').focus()")
        page.press("End")
        page.wait(f"document.querySelector('.memory-box').ariaValueNow === '{last + 1}'")
        page.wait(settled)
        assert rows_of(table(page))["all"] == exact(ledgers[last]["rss_bytes"])
        assert f"at={ledgers[last]['time_ns']}" in page.evaluate("location.hash")
        page.press("ArrowRight")  # there is none behind it
        assert page.evaluate("document.querySelector('.memory-box').ariaValueNow") == str(last + 1)
        page.press("Home")
        page.wait("document.querySelector('.memory-box').ariaValueNow === '1'")
        assert rows_of(table(page))["all"] == exact(ledgers[0]["rss_bytes"])
        # By the list, and by its bar.
        page.evaluate(f"(s => {{ s.value = '{last}'; s.dispatchEvent(new Event('change', {{bubbles: true}})); }})"
                      "([...document.querySelectorAll('#view .select select')].at(-1))")
        page.wait(f"document.querySelector('.memory-box').ariaValueNow === '{last + 1}'")
        bar = page.evaluate("(b => [b.left + b.width / 2, b.top + b.height / 2])"
                            "(document.querySelectorAll('.bar-outline')[0].getBoundingClientRect())")
        page.click(*bar)
        page.wait("document.querySelector('.memory-box').ariaValueNow === '1'")
        # The timeline chooses again, and the nearest is shown.
        page.press("e")
        page.wait(f"document.querySelector('.memory-box').ariaValueNow === '{last + 1}'")
        assert "when it exited" in chosen(page)


def test_the_picture_adds_up(recordings, open_page):
    """Each bar is as high as its resident memory, and its layers fill it."""
    path = recordings / "one.heft"
    with view_of(path) as view:
        page = open_page(view.url + "#view=memory")
        table(page)
        bars = page.evaluate("[...document.querySelectorAll('.memory-box svg > g')].filter(g => g.querySelector('.bar-outline')).map(g => "
                             "[g.querySelector('.bar-outline').height.baseVal.value, "
                             "[...g.querySelectorAll('rect.layer')].reduce((s, r) => s + r.height.baseVal.value, 0)])")
    heights = [rss for rss, _ in bars]
    sizes = [one["rss_bytes"] for one in mapped(path)]
    assert len(bars) == len(sizes)
    for rss, layers in bars:
        assert abs(rss - layers) < 0.1 * 25  # heights have one decimal
    for height, size in zip(heights, sizes):
        assert abs(height / max(heights) - size / max(sizes)) < 0.02


def test_sections_fold(recordings, open_page):
    with view_of(recordings / "one.heft") as view:
        page = open_page(view.url + "#view=memory&at=end")
        before = table(page)
        assert any(name.endswith(" more") for name, _ in before)
        heap = "document.querySelector('#view .section button')"
        page.evaluate(f"{heap}.focus()")
        page.press("Enter")
        page.wait(f"{heap}.ariaExpanded === 'false'")
        folded = table(page)
        assert folded[0] == before[0] and folded[1][0] == "other allocators"
        # What is folded is in the address, and the arrow goes from section to section.
        page.goto(page.evaluate("location.href"))
        assert table(page) == folded
        page.evaluate(f"{heap}.focus()")
        page.press("ArrowDown")
        assert "other allocators" in page.evaluate("document.activeElement.innerText")
        page.press("ArrowUp")
        page.press("Enter")
        page.wait(f"{heap}.ariaExpanded === 'true'")
        more = "[...document.querySelectorAll('#view table.ledger tr:not(.section) button')]"
        count = page.evaluate(f"{more}.length")
        page.evaluate(f"{more}[0].click()")
        page.wait(f"{more}.length === {count - 1}")
        whole = table(page)
        assert len(whole) > len(before) and rows_of(whole)["all"] == rows_of(before)["all"]


def test_each_process_has_its_own(recordings, open_page):
    path = recordings / "two.heft"
    ledgers = mapped(path)
    pids = list(dict.fromkeys(one["pid"] for one in ledgers))
    assert len(pids) == 2
    largest = max(ledgers, key=lambda one: one["rss_bytes"])
    with view_of(path) as view:
        page = open_page(view.url + "#view=memory&at=end")
        table(page)
        of = "document.querySelectorAll('#view .select select')[0]"
        options = page.evaluate(f"[...{of}.options].map(o => o.innerText)")
        assert len(options) == 2 and all(any(f"(pid {pid})" in o for o in options) for pid in pids)
        assert f"(pid {largest['pid']})" in page.evaluate(f"{of}.selectedOptions[0].innerText")
        for pid in pids:
            index = next(i for i, o in enumerate(options) if f"(pid {pid})" in o)
            page.evaluate(f"(s => {{ s.selectedIndex = {index}; s.dispatchEvent(new Event('change', {{bubbles: true}})); }})({of})")
            page.wait(f"document.querySelector('.chip')?.innerText.includes('{pid}')")
            page.press("e")
            page.wait("!document.querySelector('[aria-busy=true]') && document.querySelector('.memory-box').ariaValueText.includes('exited')")
            assert rows_of(table(page))["all"] == exact([one for one in ledgers if one["pid"] == pid][-1]["rss_bytes"])
        page.press("Escape")
        # The shell has none: it says so, and the others can be chosen.
        shell = next(p for p in view.get("/api/r/1/summary")["processes"] if p["pid"] not in pids)
        page.goto("about:blank")
        page.goto(f"{view.url}#view=memory&process={shell['number'] + 1}")
        page.wait("document.querySelector('#view .empty-title')?.innerText === 'This process has no ledger'")


def test_in_one_file(recordings, open_page, heft, tmp_path):
    out = tmp_path / "two.html"
    heft("export", "-q", "-f", "html", "-o", out, recordings / "two.heft")
    ledgers = mapped(recordings / "two.heft")
    largest = max(ledgers, key=lambda one: one["rss_bytes"])
    mine = [one for one in ledgers if one["pid"] == largest["pid"]]
    page = open_page(f"file://{out}#view=memory")
    table(page)
    page.evaluate("document.querySelector('.memory-box').focus()")
    page.press("Home")
    page.wait("document.querySelector('.memory-box').ariaValueNow === '1'")
    assert rows_of(table(page))["all"] == exact(mine[0]["rss_bytes"])
    page.press("End")
    page.wait(f"document.querySelector('.memory-box').ariaValueNow === '{len(mine)}'")
    assert rows_of(table(page))["all"] == exact(mine[-1]["rss_bytes"])
    assert "at=" not in page.evaluate("location.hash")  # a file has no such instants
