"""Pictures of every view, at both sizes and in both themes, for people to look at: build/screenshots. The manuals'
pictures come from the same script (page_shots.py --renew), and all that it makes are used."""

import re
import struct

import harness
import page_shots
from test_page_looks import faults


def size_of(path):
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_every_view():
    found = []
    files = page_shots.take_all(harness.BUILD / "screenshots", lambda page, name: found.extend(faults(page, name)))
    assert len(files) == len(page_shots.VIEWS) * 4
    for path in files:
        assert size_of(path) == page_shots.SIZES[path.stem.split("-")[1]]
        assert path.stat().st_size > 10_000, path  # an empty page has less
    light, dark = ([path.read_bytes() for path in files if path.stem.endswith(scheme)] for scheme in page_shots.SCHEMES)
    assert not set(light) & set(dark)
    assert found == []


def test_the_manuals_have_its_pictures():
    there = {path.name for path in page_shots.IMAGES.iterdir()}
    assert there == set(page_shots.MANUAL)
    used = set()
    for text in [harness.REPOSITORY / "README.md", *(harness.REPOSITORY / "docs").glob("*.md")]:
        used |= set(re.findall(r"images/([\w.-]+\.png)", text.read_text()))
    assert used == there
    for name, case in page_shots.MANUAL.items():
        assert size_of(page_shots.IMAGES / name) == case[2:4]
