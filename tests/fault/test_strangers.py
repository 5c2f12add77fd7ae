"""What another user of the machine can do to a recording of root: nothing. Root's session directory may be written
by everybody who knows its name, so that a daemon that gave up its privileges can still leave its file there."""

import fcntl
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time

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


FILE_BYTES = 52998144  # of a session file (WIRE_FILE_BYTES); a test below fails if it is another
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
os.execv(sys.argv[1], sys.argv[1:])
"""


def limited(program, directory, library):
    """Runs a program that may not make a session file itself, so that it looks for a spare one."""
    env = {"HEFT_DIR": str(directory), "HEFT_SAMPLE": "1k", "LD_PRELOAD": str(library)}
    return run(["/usr/bin/python3", "-c", LIMITED, "/usr/bin/env", *[f"{k}={v}" for k, v in env.items()], program])


@pytest.fixture
def public_dir(public_heft):
    """As heft agent's: everybody may leave files. Not in pytest's directory, which only root may enter."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="heft-spares-", dir="/dev/shm"))
    directory.chmod(0o1733)
    yield directory
    shutil.rmtree(directory)


def plant(path, owner, kind):
    """What a stranger leaves under the name of a spare file."""
    if kind == "link":
        target = path.parent / "target"
        plant(target, owner, "file")
        path.symlink_to(target)
    elif kind == "other name":  # somebody's own file of the right size
        target = path.parent / "target"
        plant(target, 0, "file")
        os.link(target, path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        with open(path, "wb") as file:
            file.truncate(FILE_BYTES - 4096 if kind == "short" else FILE_BYTES)
        path.chmod(0o666 if owner else 0o600)
    os.chown(path, owner, owner, follow_symlinks=False)


def taken(directory):
    """Session files: PID.TIME."""
    return [p for p in directory.iterdir() if re.fullmatch(r"[0-9a-f]+\.[0-9a-f]+", p.name)]


def has_been_written(path):
    with open(path, "rb") as file:
        return file.read(8) != bytes(8)


@pytest.mark.parametrize("owner, kind", [(STRANGER, "file"), (STRANGER, "link"), (STRANGER, "pipe"),
                                         (STRANGER, "directory"), (0, "other name"), (0, "short")])
def test_a_program_of_root_takes_no_strangers_spare_file(compiled, public_dir, public_heft, owner, kind):
    """Its owner could read the program's call stacks there, and end the program by cutting it."""
    for number in range(2):
        plant(public_dir / f"spare.{number}", owner, kind)
        (public_dir / "target").exists() and (public_dir / "target").rename(public_dir / f"target.{number}")
    before = sorted(p.name for p in public_dir.iterdir())
    done = limited(compiled("service.c"), public_dir, public_heft.parent / "libheft-preload.so")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in public_dir.iterdir()) == before
    assert not any(has_been_written(p) for p in public_dir.iterdir() if p.is_file())


def test_a_program_of_root_takes_roots_spare_file(compiled, public_dir, public_heft):
    """Beside one of a stranger, which it leaves alone."""
    plant(public_dir / "spare.0", STRANGER, "file")
    plant(public_dir / "spare.1", 0, "file")
    done = limited(compiled("service.c"), public_dir, public_heft.parent / "libheft-preload.so")
    assert done.returncode == 0, done.stderr
    assert not has_been_written(public_dir / "spare.0") and not (public_dir / "spare.1").exists()
    assert len(taken(public_dir)) == 1 and has_been_written(taken(public_dir)[0])


def test_a_lease_on_a_spare_file_holds_nobody_up(compiled, public_dir, public_heft):
    """The owner of a file may keep whoever opens it waiting for 45 s. Here it is root's own."""
    plant(public_dir / "spare.0", 0, "file")
    with open(public_dir / "spare.0", "rb") as file:
        fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)  # ignored: the lease is not given up
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        begun = time.monotonic()
        done = limited(compiled("service.c"), public_dir, public_heft.parent / "libheft-preload.so")
        assert done.returncode == 0 and time.monotonic() - begun < 20


def test_the_recorder_replaces_strangers_spare_files(compiled, tmp_path, public_heft):
    """A child of the program, as another user, leaves files of that name. The next process that begins finds
    root's again."""
    code = f"""
import os, resource, subprocess, time
session = os.environ["HEFT_SESSION"]
spares = [session + "/spare.0", session + "/spare.1"]
def owner(spare):
    try:
        return os.stat(spare).st_uid
    except FileNotFoundError:  # the recorder is about to make another one
        return None
def owners():
    return [owner(s) for s in spares]
end = time.monotonic() + 50
for spare in spares:
    while owners()[spares.index(spare)] != {STRANGER} and time.monotonic() < end:
        try:
            os.unlink(spare)
        except FileNotFoundError:
            pass
        if os.fork() == 0:
            os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER})
            try:
                with open(spare, "xb") as f:
                    f.truncate({FILE_BYTES})
                os.chmod(spare, 0o666)
            finally:
                os._exit(0)
        os.wait()
        break
while owners() != [0, 0] and time.monotonic() < end:
    subprocess.run(["/bin/true"])
    time.sleep(0.01)
print(owners())
"""
    done = run([public_heft, "run", "-q", "-o", tmp_path / "r.heft", "--", "/usr/bin/python3", "-c", code])
    assert (done.returncode, done.stdout) == (0, b"[0, 0]\n"), done.stderr
