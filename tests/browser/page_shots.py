"""Pictures of the page: every view, on a desk and on a phone, light and dark.

   tests/browser/page_shots.py FOLDER     all of them into FOLDER, to look at
   tests/browser/page_shots.py --renew    those of the manuals, docs/images

test_page_shots.py takes all of them in every run of the tests, into screenshots of the build directory. They show
examples that are built with heft, and Python, which has many modules."""

import contextlib
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "programs")]

import harness  # noqa: E402
from browser import Page  # noqa: E402
from page_server import view_of  # noqa: E402

IMAGES = harness.REPOSITORY / "docs" / "images"
SIZES = {"desk": (1440, 900), "phone": (390, 844)}
SCHEMES = ["light", "dark"]
PYTHON = """import json, sqlite3, sys, zlib

records = [json.loads('{"id": %d, "tags": ["a", "b"]}' % i) for i in range(int(sys.argv[1]))]
table = sqlite3.connect(":memory:")
table.execute("create table t(a, b)")
table.executemany("insert into t values(?, ?)", ((i, "x" * 40) for i in range(20000)))
packed = [zlib.compress(b"abc" * 9000) for _ in range(300)]
"""
#      view: recording (several: compared), what else its address has
VIEWS = {
    "findings": ("queue", ""),
    "flame": ("python", ""),
    "sites": ("python", ""),
    "sandwich": ("connections", ""),
    "source": ("queue", ""),
    "sizes": ("connections", ""),
    "lifetimes": ("queue", ""),
    "threads": ("queue", ""),
    "diff": ("python smaller", "&side=1"),
    "memory": ("python", ""),
    "processes": ("shell", ""),
}
#         file: recording, address, width, height, scheme, selectors to click on first
MANUAL = {
    "view.png": ("queue", "", 1280, 800, "light", [".card-foot .link", ".card details summary"]),
    "flame.png": ("python", "view=flame", 1280, 720, "dark", []),
    "memory.png": ("python", "view=memory", 1280, 760, "light", []),
    "compare.png": ("python smaller", "view=diff&side=1", 1280, 720, "light", []),
}


def record_all(folder, names):
    (folder / "load.py").write_text(PYTHON)
    examples = harness.BUILD / "examples"
    commands = {"queue": [examples / "queue"], "connections": [examples / "connections", "A"], "python": ["/usr/bin/python3", "load.py", "20000"], "smaller": ["/usr/bin/python3", "load.py", "5000"],
                "shell": ["sh", "-c", "ls / | sort; /usr/bin/python3 -c 'print(1)'"]}
    for name in names:
        more = {"PYTHONMALLOC": "malloc"} if name in ("python", "smaller") else {}
        done = harness.run([harness.HEFT, "run", "-q", "--ledger", "-o", folder / f"{name}.heft", "--", *commands[name]],
                           cwd=folder, env=more)
        assert done.returncode == 0, done.stderr


def settle(page):
    page.wait("document.querySelector('.rail') !== null && !document.querySelector('[aria-busy=true]')")
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))")


@contextlib.contextmanager
def views_of(folder, sets):
    """{"queue bounded": address}, while they are open."""
    with contextlib.ExitStack() as stack:
        yield {names: stack.enter_context(view_of(*(folder / f"{n}.heft" for n in names.split()))).url for names in sets}


def take_all(out, look=None):
    """Every view at every size in every scheme; `look` sees the page of each. Returns the files."""
    out.mkdir(parents=True, exist_ok=True)
    files = []
    with tempfile.TemporaryDirectory() as kept:
        folder = pathlib.Path(kept)
        sets = {names for names, _ in VIEWS.values()}
        record_all(folder, {name for names in sets for name in names.split()})
        with views_of(folder, sets) as urls:
            for size, (width, height) in SIZES.items():
                for scheme in SCHEMES:
                    page = Page(width=width, height=height, scheme=scheme)
                    try:
                        for view, (names, more) in VIEWS.items():
                            page.goto("about:blank")
                            page.goto(f"{urls[names]}#view={view}{more}")
                            page.wait(f"document.querySelector('.view-{view}') !== null")
                            settle(page)
                            files.append(out / f"{view}-{size}-{scheme}.png")
                            page.screenshot(files[-1])
                            if look:
                                look(page, files[-1].stem)
                        assert page.complaints() == []
                    finally:
                        page.close()
    return files


def renew():
    with tempfile.TemporaryDirectory() as kept:
        folder = pathlib.Path(kept)
        sets = {case[0] for case in MANUAL.values()}
        record_all(folder, {name for names in sets for name in names.split()})
        with views_of(folder, sets) as urls:
            for name, (names, more, width, height, scheme, clicks) in MANUAL.items():
                page = Page(width=width, height=height, scheme=scheme)
                try:
                    page.goto(f"{urls[names]}#{more}")
                    settle(page)
                    for selector in clicks:
                        page.wait(f"document.querySelector({selector!r}) !== null")
                        page.click_on(selector)
                        settle(page)
                    page.screenshot(IMAGES / name)
                finally:
                    page.close()
                print(IMAGES / name)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.argv[1] == "--renew":
        renew()
    else:
        print(*take_all(pathlib.Path(sys.argv[1])), sep="\n")
