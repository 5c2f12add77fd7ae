"""What another user of the machine can do to a recording of root: nothing. Root's session directory may be written
by everybody who knows its name, so that a daemon that gave up its privileges can still leave its file there."""

import os
import re

import pytest

from harness import HEFT, report, run

STRANGER = 65534

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")

ATTACK = f"""
import os, re, sys
session = os.environ["HEFT_SESSION"]
outer = os.path.dirname(session)
print("modes", oct(os.stat(outer).st_mode & 0o7777), oct(os.stat(session).st_mode & 0o7777), flush=True)
if os.fork() == 0:
    os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})
    for way in (lambda: os.listdir(outer), lambda: open(outer + "/1.1", "w"), lambda: os.mkdir(outer + "/x"),
                lambda: os.listdir(session)):
        try:
            way()
            print("open", flush=True)
        except PermissionError:
            print("refused", flush=True)
    os._exit(0)
os.wait()
"""


def test_strangers_find_no_way_into_a_session(tmp_path):
    path = tmp_path / "r.heft"
    done = run([HEFT, "run", "-q", "-o", path, "--", "/usr/bin/python3", "-c", ATTACK])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().split("\n")
    assert lines[0] == "modes 0o711 0o1733"
    assert lines[1:5] == ["refused"] * 4
    assert report(path)["complete"]


def test_who_drops_its_privileges_is_recorded(tmp_path, compiled, public_heft):
    """It knows the directory from its environment, and its children make their files there."""
    program = compiled("service.c")
    for folder in (program.parent, program):
        folder.chmod(0o755)
    code = (f"import os, subprocess; os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER});"
            f"subprocess.run([{str(program)!r}], input=b'keep 50 1000\\nexit 0\\n', check=True)")
    path = tmp_path / "r.heft"
    done = run([public_heft, "run", "-q", "-o", path, "--", "/usr/bin/python3", "-c", code])
    assert done.returncode == 0, done.stderr
    rep = report(path)
    assert any(re.search(r"/service$", p["command"][0]) for p in rep["processes"]), rep["processes"]
    kept = [s for s in rep["sites"] if any(f["function"] == "keep_block" for f in s["stack"])]
    assert sum(s["allocations"] for s in kept) == 50
