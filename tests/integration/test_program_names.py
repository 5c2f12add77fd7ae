"""A program that was started through a link is called by the link's name; its file's path follows."""

import os
import re

import pytest

from harness import HEFT, report, run


@pytest.fixture
def linked(compiled, tmp_path):
    """A link `well-known` to a file of another name."""
    link = tmp_path / "well-known"
    link.symlink_to(compiled("call_places.c"))
    return link, os.path.realpath(link)


def test_reports(linked, tmp_path):
    link, file = linked
    path = tmp_path / "x.heft"
    done = run([HEFT, "run", "-v", "-o", path, "--", link])
    assert re.search(rf"recording process \d+ \(well-known, {re.escape(file)}\)",
                     done.stderr.decode())
    process, = report(path)["processes"]
    assert (process["name"], process["exe"]) == ("well-known", file)
    top = run([HEFT, "top", "--once", path]).stdout.decode()
    assert re.match(r"heft top  well-known \d+", top), top.splitlines()[0]


@pytest.mark.parametrize("argv0, name", [("-call_places", "call_places"), ("", "call_places"), ("work: idle", "work")])
def test_odd_names(compiled, tmp_path, argv0, name):
    """exec -a: a login shell's dash, nothing at all, a title."""
    path = tmp_path / "x.heft"
    program = compiled("call_places.c")
    run([HEFT, "run", "-q", "-o", path, "--", "bash", "-c", 'exec -a "$1" "$0"', program, argv0])
    rep = report(path)
    found = [p for p in rep["processes"] if p["exe"] == str(program)]
    assert len(found) == 1, (rep["processes"], rep["notes"])
    process = found[0]
    assert process["name"] == name


def test_default_file_name(linked, tmp_path):
    """The file of the recording has the command's name, as before."""
    link, _ = linked
    assert run([HEFT, "run", "-q", "--", link], cwd=tmp_path).returncode == 0
    found, = tmp_path.glob("heft.*.heft")
    assert re.fullmatch(r"heft\.well-known\.\d+\.heft", found.name), found
