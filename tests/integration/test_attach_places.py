"""heft attach to programs that live elsewhere: another root, mount, pid and user namespace, another libc. They do not
see heft's session folder, and their files are not those of the same name here."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from attach_harness import Attached, Lines, Target, may_trace
from attach_rounds import check_left
from harness import C_FLAGS, HEFT, PROGRAMS, children_of, line_of, report, run, start, wait_until
from old_glibc import LIBRARIES, old_build

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
NOBODY = 65534
PLACES = {"chroot": ["chroot"], "mount": ["unshare", "-m", "chroot"], "pid": ["unshare", "-p", "-f", "chroot"],
          "container": ["unshare", "-Ur", "-m", "-p", "-f", "chroot"]}


def as_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@pytest.fixture(scope="module")
def jail(compiled, tmp_path_factory):
    """A root with a program and its libraries. Its libc has another build id than the one here."""
    folder = tmp_path_factory.mktemp("jail")
    for above in [folder, *folder.parents][:3]:  # other users get there, if there are any
        if os.geteuid() == 0:
            above.chmod(above.stat().st_mode | 0o711)
    program = compiled("attach_target.c", flags=["-ldl"])
    for line in run(["ldd", program]).stdout.decode().splitlines():
        path = re.search(r"(/\S+) \(", line)
        if path:
            inside = folder / path[1].lstrip("/")
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path[1], inside)
    shutil.copy(program, folder / "target")
    [libc] = [path for path in folder.rglob("libc.so.6")]
    build_id = re.search(r"Build ID: (\w+)", run(["readelf", "-n", libc]).stdout.decode())[1]
    image, number = libc.read_bytes(), bytes.fromhex(build_id)
    assert image.count(number) == 1
    libc.write_bytes(image.replace(number, bytes(b ^ 0xff for b in number)))
    (folder / "tmp").mkdir(mode=0o777)
    return folder


def innermost(pid):
    while children_of(pid):
        [pid] = children_of(pid)
    return pid


class Jailed(Target):
    """attach_target.c in another place; pid: as it is seen from here"""

    def __init__(self, jail, place, folder, **others):
        self.folder = folder
        self.process = start([*PLACES[place], jail, "/target", "/tmp"], stdin=subprocess.PIPE, **others)
        self.lines = Lines(self.process.stdout)
        line = self.lines.next()
        if line is None and place != "chroot":
            pytest.skip("this machine does not allow pid namespaces, mounting and the like")
        assert line == "ready"
        self.pid = innermost(self.process.pid)

    def own_number(self):
        """By which it knows itself"""
        return int(re.search(r"NSpid:.*\s(\d+)\n", pathlib.Path(f"/proc/{self.pid}/status").read_text())[1])

    def maps(self):
        return pathlib.Path(f"/proc/{self.pid}/maps").read_text()

    def numbers(self):
        return sorted(int(n) for n in os.listdir(f"/proc/{self.pid}/fd"))

    def next_number(self):
        self.tell("open")
        number = int(self.line())
        assert self.line() == "ok"
        return number


@pytest.fixture
def jailed(jail, tmp_path):
    made = []

    def begin(place, **others):
        if os.geteuid() and place != "container":
            pytest.skip("only root can leave its root without a user namespace")
        made.append(Jailed(jail, place, tmp_path, **others))
        return made[-1]

    yield begin
    for target in made:
        target.end()


def musl_inside(folder):
    if not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc is not installed")
    (folder / "lib").mkdir()
    shutil.copy("/lib/ld-musl-x86_64.so.1", folder / "lib")
    subprocess.run([str(w) for w in ("musl-gcc", *C_FLAGS, f"-I{PROGRAMS}", PROGRAMS / "attach_target.c", "-o",
                                     folder / "target")], check=True)


def old_glibc_inside(folder):
    old_build("attach_target.c", folder / "target", "-ldl", inside=True)
    for path in LIBRARIES.iterdir():
        if re.match(r"(ld-|lib(c|dl|pthread)[-.])", path.name):
            (folder / "lib/x86_64-linux-gnu").mkdir(parents=True, exist_ok=True)
            shutil.copy(path, folder / "lib/x86_64-linux-gnu")
    (folder / "lib64").mkdir()
    (folder / "lib64/ld-linux-x86-64.so.2").symlink_to("/lib/x86_64-linux-gnu/ld-2.31.so")


def lasting(maps):
    """What stays as it is in a process that allocates: musl maps memory for small blocks, too."""
    return [line for line in maps.splitlines() if not re.search(r" rw-p 0+ 00:00 0 *$", line)]


LIBCS = {"musl": musl_inside, "old glibc": old_glibc_inside}


@pytest.mark.parametrize("libc", LIBCS)
@pytest.mark.parametrize("place", ["chroot", "container"])
def test_another_libc(tmp_path, libc, place):
    """In another user, mount and pid namespace with a libc that the host has not: heft attaches from outside, names are
    right, the forked child has its session, and what heft leaves is as it was."""
    if os.geteuid() and place == "chroot":
        pytest.skip("only root can leave its root without a user namespace")
    root = tmp_path / "root"
    (root / "tmp").mkdir(parents=True, mode=0o777)
    LIBCS[libc](root)
    target = Jailed(root, place, tmp_path)
    try:
        target.do("alloc 10 100")
        before, numbers = lasting(target.maps()), target.numbers()
        for i in range(3):
            heft = Attached(target, heft=HEFT, path=tmp_path / f"{i}.heft")
            target.do("alloc 5 1000", "copy 2")
            target.tell("fork")
            assert target.line() == "child"
            target.do("alloc 3 700", "exit 0")
            heft.signal()
            said = heft.end()
            assert lasting(target.maps()) == before and target.numbers() == numbers, said
            check_left(target.pid)
            rep = heft.report()
            made = [s for s in rep["sites"] if s["stack"][0].get("line") == line_of("attach_target.c", "make")]
            assert (sum(s["allocations"] for s in made), sum(s["allocated_bytes"] for s in made)) == (
                8, 5 * 1000 + 3 * 700), rep["sites"]
            assert all(s["stack"][0]["function"] == "make" for s in made)
            [copied] = [s for s in rep["sites"] if s["allocations"] == 2]
            functions = [f.get("function") for f in copied["stack"]]
            assert "strdup" in functions[0] and (libc == "musl" or functions[1] == "copy"), copied  # musl has no unwind tables
            assert rep["pid"] == target.own_number() and rep["end"] == "detached" and len(rep["processes"]) == 2
            target.do("alloc 3 7", "free 2")
    finally:
        target.end()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("options", [[], ["--sample=1k"]], ids=["exact", "sampled"])
def test_another_place(jailed, place, options):
    """5 blocks of the program and 3 of its forked child, which makes a file of its own."""
    target = jailed(place)
    target.do("alloc 10 100")
    before, numbers = target.maps(), target.numbers()
    heft = Attached(target, *options, heft=HEFT)
    assert target.next_number() == 3 and len(target.numbers()) == len(numbers) + 1
    target.do("alloc 5 1000")
    target.tell("fork")
    assert target.line() == "child"
    target.do("alloc 3 700", "exit 0")
    heft.signal()
    heft.end()
    assert target.maps() == before and target.numbers() == numbers
    target.do("alloc 3 7", "free 2")
    rep = heft.report()
    made = [s for s in rep["sites"] if s["stack"][0]["line"] == line_of("attach_target.c", "make")]
    if options:
        assert made
        return
    assert (sum(s["allocations"] for s in made), sum(s["allocated_bytes"] for s in made)) == (8, 5 * 1000 + 3 * 700)
    assert rep["pid"] == target.own_number() and rep["end"] == "detached" and len(rep["processes"]) == 2
    assert all(s["stack"][0]["function"] == "make" for s in made)


def test_a_user_and_its_own_container(jailed, public_heft, tmp_path):
    """Without privileges: the folder is handed over all the same."""
    if os.geteuid():
        pytest.skip("only root can be another user; test_another_place is this test for a user")
    tmp_path.chmod(0o777)
    target = jailed("container", preexec_fn=as_nobody)
    target.do("alloc 10 100")  # the heap is there
    before = target.maps()
    path = tmp_path / "users.heft"
    heft = start([public_heft, "attach", "-o", path, target.pid], preexec_fn=as_nobody)
    lines, said = Lines(heft.stderr), []
    while not (said and said[-1].startswith("heft: recording; ")):
        said.append(lines.next())
        assert said[-1] is not None, said
    target.do("alloc 5 1000")
    run([HEFT, "detach", target.pid])
    heft.communicate(timeout=60)
    assert heft.returncode == 0 and target.maps() == before
    assert report(path)["totals"]["allocations"] == 5


def test_descriptors_that_a_program_closes(jailed):
    """It closes what it does not know. Its next child has no file, and says so; nothing else is hurt."""
    target = jailed("container")
    heft = Attached(target, heft=HEFT)
    target.do("close", "alloc 5 1000")
    target.tell("fork")
    assert target.line() == "child"
    target.do("alloc 3 700", "exit 0")
    heft.signal()
    heft.end()
    rep = heft.report()
    assert rep["totals"]["allocations"] == 5 and len(rep["processes"]) == 1
    assert any("forked child" in n["text"] for n in rep["notes"]), rep["notes"]


def test_no_way_up_from_the_folder(jailed):
    """What the program has got leads nowhere but to its session: above it is nothing."""
    target = jailed("container")
    heft = Attached(target, heft=HEFT)
    [number] = [n for n in target.numbers() if n > 2]
    folder = os.open(f"/proc/{target.pid}/fd/{number}", os.O_PATH)
    above = os.stat("..", dir_fd=folder)
    own = os.fstat(folder)
    os.close(folder)
    assert (above.st_dev, above.st_ino) == (own.st_dev, own.st_ino)
    heft.signal()
    heft.end()


def libc_names(rep):
    return {f.get("function") for s in rep["sites"] for f in s["stack"] if f.get("module", "").endswith("/libc.so.6")}


def reported(path, env):
    return json.loads(run([HEFT, "report", "--json", path], env=env).stdout)


def is_recorded(target, path):
    """Calls malloc, and looks whether the recording has that already."""
    target.do("alloc 1 10")
    done = run([HEFT, "report", "--json", path])
    return done.returncode == 0 and json.loads(done.stdout)["totals"]["allocations"] > 0


def test_names_from_its_own_files(jailed, tmp_path):
    """Its libc has another build id than the one here: names come from its own, and heft report has them from the cache
    when the program has gone. Without them there are none: those of the libc here would be wrong."""
    target = jailed("container")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    for quiet in [], ["-q"]:
        path = tmp_path / f"names{len(quiet)}.heft"
        heft = start([HEFT, "attach", *quiet, "-o", path, target.pid], env=cache | {"HOME": str(tmp_path)})
        wait_until(lambda: is_recorded(target, path), what="attached")
        target.do("copy 700")
        run([HEFT, "detach", target.pid])
        heft.communicate(timeout=60)
        assert heft.returncode == 0
    target.process.stdin.close()
    target.process.wait(timeout=60)
    for path in tmp_path.glob("names*.heft"):
        [site] = [s for s in reported(path, cache)["sites"] if s["allocations"] == 700]
        names = [f.get("function") for f in site["stack"]]
        assert "strdup" in names[0] and names[1] == "copy", names
        rep = reported(path, {"XDG_CACHE_HOME": str(tmp_path / "none")})
        assert not any("strdup" in (name or "") for name in libc_names(rep)), libc_names(rep)
        assert any("was replaced" in n["text"] or "is gone" in n["text"] for n in rep["notes"]), rep["notes"]
