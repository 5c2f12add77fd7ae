"""heft map of running processes: lines that add up to the kernel's own count, page by page, and what is on which line.
The programs stand still of their own accord, so that smaps, read right after, is of the same moment."""

import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import time

import jsonschema
import pytest

from attach_harness import Lines, may_trace
from harness import BUILD, HEFT, REPOSITORY, TIME_LIMIT, allocator_library, children_of, end_group, run, start, wait_until

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
SCHEMA = json.loads((REPOSITORY / "docs" / "map.schema.json").read_text())
PAGE, MIB = 4096, 1 << 20
NOBODY = 65534


def smaps(pid, field):
    text = pathlib.Path(f"/proc/{pid}/smaps").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(field + ":")) * 1024


def take(pid, **others):
    done = run([HEFT, "map", "--json", pid], **others)
    assert done.returncode == 0, done.stderr.decode()
    made = json.loads(done.stdout)
    jsonschema.validate(made, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert made["schema"] == 1 and len(made["ledgers"]) == 1 and made["mappings"] == []
    return made["ledgers"][0]


class Ledger(dict):
    """A ledger whose lines add up."""

    def __init__(self, made):
        super().__init__(made)
        for column, whole in (("resident_bytes", "rss_bytes"), ("private_bytes", "private_bytes"),
                              ("shared_bytes", "shared_bytes"), ("swapped_bytes", "swapped_bytes"),
                              ("virtual_bytes", "virtual_bytes")):
            assert sum(line[column] for line in self["lines"]) == self[whole], column
        assert self["private_bytes"] + self["shared_bytes"] == self["rss_bytes"]
        keys = [(line["kind"], line["name"]) for line in self["lines"]]
        assert len(keys) == len(set(keys))

    def sum(self, kind, name="", column="resident_bytes"):
        return sum(line[column] for line in self["lines"] if line["kind"] == kind and name in line["name"])

    def largest(self):
        return max(self["lines"], key=lambda line: line["resident_bytes"])


def ledger_of(pid, **others):
    """One that equals smaps before and after: the process stood still around it. An allocator may give pages back for some
    seconds yet."""
    end = time.monotonic() + TIME_LIMIT
    while time.monotonic() < end:
        before = smaps(pid, "Rss")
        made = Ledger(take(pid, **others))
        after = smaps(pid, "Rss")
        if before == after:
            break
        time.sleep(0.2)
    assert made["rss_bytes"] == before == after
    assert made["swapped_bytes"] == smaps(pid, "Swap") or made["shared_bytes"]
    assert made["pid"] == pid and made["moment"] == "request" and made["pause_ns"] > 0
    # Nothing is unexplained, whatever the program is: each page is in a mapping, and each mapping on a line.
    assert made.sum("unexplained") == 0
    return made


@pytest.fixture
def started():
    processes = []

    def begin(command, **others):
        processes.append(start(command, stdin=subprocess.PIPE, **others))
        return processes[-1]

    yield begin
    for process in processes:  # all of them: one that traces another keeps its end from us
        end_group(process)
    for process in processes:
        process.communicate()


@pytest.fixture
def life(compiled, started):
    def begin(*words, **others):
        process = started([compiled("ledger_life.c", flags=["-pthread", "-O0"]), *words], **others)
        numbers = [int(n) for n in Lines(process.stdout).next().split()]
        return process, dict(zip(("arena", "in_use", "free", "mapped"), numbers))
    return begin


def test_known_contents(life):
    """What the program did is on the lines, to the page."""
    process, _ = life()
    made = ledger_of(process.pid)
    # 3 MiB of .bss, 1 MiB written; other variables are on a page or two.
    assert MIB <= made.sum("bss", "ledger_life") <= MIB + 4 * PAGE
    assert 3 * MIB <= made.sum("bss", "ledger_life", "virtual_bytes") <= 3 * MIB + 8 * PAGE
    # 5 of 16 MiB were written. 256 pages that were only read are the kernel's page of zeros, which is not resident.
    assert 5 * MIB <= made.sum("anonymous", "not recorded") <= 5 * MIB + 4 * PAGE
    assert made.sum("anonymous", "not recorded", "virtual_bytes") >= 17 * MIB
    assert made.sum("shared_memory", "shared anonymous") == MIB
    assert made.sum("shared_memory", "memfd:heft-ledger") == MIB // 2
    assert made.sum("shared_memory", "", "private_bytes") == 0
    assert made["reserved_bytes"] >= 1 << 36 and made["page_table_bytes"] > 0
    assert made["virtual_bytes"] < 1 << 30
    # An aligned block of 256 pages, the pages of its header and of its mapping's start, which may be the same one; and
    # 2 MiB of another block, which begins 16 bytes into its first page.
    assert made.sum("large_mappings") in ((256 + 1 + 513) * PAGE, (256 + 2 + 513) * PAGE)
    assert [line["blocks"] for line in made["lines"] if line["kind"] == "large_mappings"] == [2]
    assert made.sum("stacks", "first thread") > 0
    assert made.sum("modules_shared", "libc.so.6") > 100 * PAGE
    assert made.sum("modules_private", "libc.so.6") > 0
    assert made.sum("anonymous", "loader") > 0


def test_heap_is_what_glibc_says(life):
    """mallinfo2: what arenas have, what is in use (with headers, with what lies in threads' caches), what is free."""
    process, glibc = life()
    made = ledger_of(process.pid)

    def mapped(kind, name=""):
        return made.sum(kind, name, "virtual_bytes")

    cached = mapped("held_free", "caches")
    top = mapped("held_free", "top of arenas")
    # The top chunk is measured from its size word on, and the first chunk's first word is before it.
    assert mapped("in_use") + mapped("headers") + cached == glibc["in_use"]
    assert mapped("held_free", "in bins") + mapped("held_free", "in fast bins") + top + 8 == glibc["free"]
    assert mapped("in_use") + mapped("headers") + mapped("held_free") == glibc["arena"]
    assert mapped("large_mappings") == glibc["mapped"]
    # 20 freed blocks of 2,000 bytes: chunks of 2,016, and what was merged with them.
    assert mapped("held_free", "in bins") >= 20 * 2016
    blocks = [line["blocks"] for line in made["lines"] if line["kind"] == "in_use"]
    assert blocks[0] >= 1000 and mapped("headers") == 8 * blocks[0]


def test_heap_in_two_pieces(compiled, started):
    """6,000 blocks of 104 usable bytes, in the break and in a mapping behind which the arena goes on."""
    process = started([compiled("ledger_pieces.c")])
    glibc = dict(zip(("arena", "in_use", "free", "mapped"), map(int, Lines(process.stdout).next().split())))
    made = ledger_of(process.pid)

    def mapped(kind, name=""):
        return made.sum(kind, name, "virtual_bytes")

    assert 6000 * 104 <= mapped("in_use") < 6010 * 104
    assert "not known" not in json.dumps(made["lines"]) and "could not" not in made.get("note", "")
    fences = glibc["in_use"] - mapped("in_use") - mapped("headers") - mapped("held_free", "caches")
    assert 0 <= fences <= 64  # glibc counts the chunks that mark the end of the first piece
    assert made["virtual_bytes"] < 1 << 30


def test_stacks(life):
    """A thread that sleeps and one that runs have 100,000 bytes of stack each; three others have ended, and glibc keeps
    what they had."""
    process, _ = life("threads")
    made = ledger_of(process.pid)
    running = made.sum("stacks", "stacks of threads")
    assert 2 * 100000 <= running <= 2 * (100000 + 16 * PAGE)
    assert PAGE <= made.sum("stacks", "ended threads") <= 3 * 16 * PAGE
    assert 5 * MIB <= made.sum("anonymous", "not recorded") <= 5 * MIB + 4 * PAGE


def test_threads_that_work_are_not_harmed(life):
    """Four threads allocate all the time and check what they wrote, while ledgers are taken. They cannot equal smaps of
    a later moment; they add up."""
    process, _ = life("churn")
    pauses = []
    for _ in range(25):
        made = Ledger(take(process.pid))
        assert made.sum("unexplained") == 0 and made.sum("in_use") > 0
        pauses.append(made["pause_ns"])
    assert sorted(pauses)[12] < 500e6  # the machine itself may have been late now and then
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and out == b"whole\n"


@pytest.mark.parametrize("name, answer", [("epoll_wait_timed", "1 - 0"), ("sigtimedwait", "12 - 0"),
                                          ("semtimedop", "0 - 0"), ("recv_timed", "3 - 0"), ("futex", "0 - 0")])
def test_calls_that_wait_do_not_notice(compiled, started, name, answer):
    """These would return EINTR if they were only stopped. HEFT_STOPS says how often (5)."""
    process = started([compiled("stop_waits.c", flags=["-D_GNU_SOURCE", "-lrt"]), name], env={"STOP_SECONDS": "600"})
    assert Lines(process.stdout).next() == "waits"
    wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/syscall").read_text().split()[0] != "running")
    for _ in range(int(os.environ.get("HEFT_STOPS", 5))):
        Ledger(take(process.pid))
    process.stdin.write(b"r")
    process.stdin.flush()
    assert Lines(process.stdout).next().strip() == answer


@pytest.fixture
def ended_csv(tmp_path, started):
    """csv_rows at its exit, with everything still allocated: its output goes to a pipe that is full."""
    source = tmp_path / "example.csv"
    source.write_bytes(run([BUILD / "examples" / "csv_make"]).stdout)
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while True:
            os.write(write, b"x" * PAGE)
    except BlockingIOError:
        os.set_blocking(write, True)
    process = subprocess.Popen([BUILD / "examples" / "csv_rows", source], stdout=write, stdin=subprocess.DEVNULL)
    os.close(write)
    # It waits in write(1, ...).
    wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/syscall").read_text().startswith("1 0x1 "))
    yield process
    process.kill()
    process.wait()
    os.close(read)


def test_scenario_csv_closes_to_the_byte(ended_csv):
    """docs/scenario-csv.md: 3,653,173 bytes requested and 1,321,411 of rounding in 99,418 blocks, one of which, the array
    of 16,384 rows, has a mapping of its own; glibc holds 5,894,144 bytes."""
    made = ledger_of(ended_csv.pid)

    def mapped(kind, name=""):
        return made.sum(kind, name, "virtual_bytes")

    array, rounding = 16384 * 24, 4080
    assert mapped("in_use") == made.sum("in_use") == 3653173 + 1321411 - array - rounding
    assert mapped("headers") == 8 * 99417
    assert mapped("large_mappings") == array + rounding + 16
    assert mapped("held_free", "tables of threads' caches") == 656
    assert mapped("in_use") + mapped("headers") + mapped("held_free") + mapped("large_mappings") == 5894144


def test_text_and_csv(life):
    process, _ = life("threads")
    done = run([HEFT, "map", process.pid], env={"COLUMNS": "90"})
    text = done.stdout.decode()
    assert done.returncode == 0 and done.stderr == b""
    lines = text.splitlines()
    assert lines[0].startswith(f"process {process.pid}, ") and lines[0].endswith(" resident")
    assert lines[1].startswith("It stood still for ")
    assert all(len(line) <= 100 for line in lines)
    assert len({len(line) for line in lines[3:] if line.endswith("B")}) == 1  # aligned
    assert lines[-1].startswith(f"Next: heft attach {process.pid}")
    assert "anonymous memory" in text and "stacks" in text and " reserved and not usable" in text
    for _ in range(20):
        made = ledger_of(process.pid)
        rows = list(csv.DictReader(io.StringIO(run([HEFT, "map", "--csv", process.pid]).stdout.decode())))
        if ledger_of(process.pid)["lines"] == made["lines"]:  # a look may bring pages of its files into memory
            break
    assert sum(int(row["resident_bytes"]) for row in rows) == made["rss_bytes"]
    assert {(row["kind"], row["name"]) for row in rows} == {(x["kind"], x["name"]) for x in made["lines"]}


def test_kept_in_a_file(life, tmp_path, record):
    """What heft map shows of the file is what it showed of the process."""
    process, _ = life("threads")
    path = tmp_path / "x.heft"
    done = run([HEFT, "map", "-o", path, process.pid])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert b"exists" in run([HEFT, "map", "-o", path, process.pid]).stderr
    for _ in range(20):
        made = ledger_of(process.pid)
        assert run([HEFT, "map", "--force", "-o", path, process.pid]).returncode == 0
        live = run([HEFT, "map", process.pid]).stdout.decode()
        after, kept = Ledger(take(process.pid)), Ledger(take(path))
        # A look may bring pages of its files into memory that somebody else has read since the last one.
        if after["lines"] == made["lines"] == kept["lines"]:
            break
    assert run([HEFT, "verify", path]).returncode == 0
    assert kept["lines"] == made["lines"] and kept["pid"] == process.pid and kept["time_ns"] > made["time_ns"]
    text = run([HEFT, "map", path]).stdout.decode()
    assert text.splitlines()[2:] == live.splitlines()[2:-1]  # but for the pause, and what to do next
    rows = list(csv.DictReader(io.StringIO(run([HEFT, "map", "--csv", path]).stdout.decode())))
    assert sum(int(row["resident_bytes"]) for row in rows) == made["rss_bytes"]
    assert run([HEFT, "report", path]).returncode == 0  # it is a recording, of nothing
    other = tmp_path / "true.heft"
    run([HEFT, "run", "-q", "-o", other, "true"])
    assert "has no ledger" in run([HEFT, "map", other]).stderr.decode()
    assert run([HEFT, "map", other]).returncode == 1
    assert run([HEFT, "map", "/etc/passwd"]).returncode == 1


@pytest.mark.parametrize("allocator", ["libjemalloc.so", "libmimalloc.so", "libtcmalloc"])
def test_other_allocators(life, allocator):
    """What another allocator has is told apart from modules, stacks and shared memory, not from what the program mapped
    itself; and who it may be is named."""
    process, _ = life("threads", env={"LD_PRELOAD": allocator_library(allocator)})
    made = ledger_of(process.pid)
    assert made.sum("in_use") == made.sum("large_mappings") == 0
    assert made.sum("anonymous", allocator) + made.sum("allocator", "program's break") >= 8 * MIB
    assert made.sum("anonymous", allocator) >= 5 * MIB
    assert made.sum("shared_memory") == MIB + MIB // 2
    assert 2 * 100000 <= made.sum("stacks", "stacks of threads") <= 2 * (100000 + 32 * PAGE)


def test_statically_linked(compiled, started):
    process = started([compiled("ledger_life.c", flags=["-static", "-pthread"], output="ledger_static")])
    assert Lines(process.stdout).next()
    made = ledger_of(process.pid)
    assert made.sum("shared_memory") == MIB + MIB // 2
    assert made.sum("bss", "ledger_static") >= MIB


def waiting(started, command, seconds=60, **others):
    """A program that has printed a line and waits."""
    process = started(command, **others)
    assert Lines(process.stdout).next() is not None
    return process


def test_python(started):
    process = waiting(started, ["/usr/bin/python3", "-c", "x = [{'a': i, 'b': str(i)} for i in range(100000)]\n"
                                "print('x', flush=True); input()"])
    made = ledger_of(process.pid)
    assert made.largest()["name"] == "Python's objects (pymalloc's arenas)"
    # A dictionary of two has 184 bytes and more, a string of 5 digits 54, a number 28.
    assert made.largest()["resident_bytes"] > 100000 * (184 + 54)
    assert made.sum("anonymous") < made["rss_bytes"] * 0.02


def test_node(started):
    node = shutil.which("node") or shutil.which("nodejs")
    major = int(subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip("v\n").split(".")[0])
    process = waiting(started, [node, "-e", "x = []; for (let i = 0; i < 400000; i++) x.push({a: i, b: '' + i});"
                                "console.log('x'); process.stdin.resume()"])
    made = ledger_of(process.pid)
    assert made.sum("unexplained") == 0
    if major <= 20:  # chunks of later ones look otherwise, and are not claimed to be known
        assert made.sum("allocator", "V8's heap") > 400000 * 40
        assert made.sum("anonymous") < made["rss_bytes"] * 0.05


def test_java(started, tmp_path):
    if not shutil.which("java") or not shutil.which("javac"):
        pytest.skip("Java is not installed")
    (tmp_path / "Hold.java").write_text("""
public class Hold {
    public static void main(String[] words) throws Exception {
        byte[][] held = new byte[3000][];
        for (int i = 0; i < held.length; i++)
            held[i] = new byte[10000];
        System.out.println("x");
        System.in.read();
    }
}
""")
    assert run(["javac", "Hold.java"], cwd=tmp_path).returncode == 0
    process = waiting(started, ["java", "-XX:+UseSerialGC", "-cp", tmp_path, "Hold"])
    made = ledger_of(process.pid)
    assert made.largest()["name"] == "Java's heap"
    assert made.largest()["resident_bytes"] >= 3000 * 10000
    assert made.sum("allocator", "Java's compiler") > 0
    assert made.sum("anonymous", "code made at run time") == 0


def test_arenas_of_the_standard_library(compiled, started):
    """24 MiB in arenas that the program has mapped, 4 MiB in a pool over malloc."""
    process = waiting(started, [compiled("pmr_arenas.cc")])
    made = ledger_of(process.pid)
    assert made.largest()["kind"] == "anonymous" and made.largest()["name"].startswith("made by the program")
    assert 24 * MIB <= made.largest()["resident_bytes"] < 26 * MIB
    heap = made.sum("in_use") + made.sum("large_mappings")
    assert 4 * MIB <= heap < 8 * MIB


@pytest.mark.parametrize("how", ["run", "attach"])
def test_recorded_processes(life, compiled, started, tmp_path, how):
    """What heft has in a process that it records is on lines of its own."""
    path = tmp_path / "x.heft"
    if how == "run":
        heft = started([HEFT, "run", "-o", path, "--", compiled("ledger_life.c", flags=["-pthread", "-O0"])])
        assert Lines(heft.stdout).next()
        [pid] = children_of(heft.pid)
        name = "heft's library"
        tables = "heft's tables"
    else:
        pid = life()[0].pid
        heft = started([HEFT, "attach", "-o", path, pid])
        name = tables = "heft's code"
        # While heft attaches, it traces the process itself.
        said = Lines(heft.stderr)
        assert any("heft: recording; " in line for line in iter(said.next, None))
    made = ledger_of(pid)
    assert made.sum("heft", name) > 0 and made.sum("heft", "what is recorded") > 0
    assert made.sum("heft", "what is recorded", "private_bytes") == 0
    assert made.sum("heft", tables, "private_bytes") > 0
    # What test_known_contents knows: heft has added nothing to the program's own.
    assert 5 * MIB <= made.sum("anonymous", "not recorded") <= 5 * MIB + 4 * PAGE
    assert made.sum("modules_shared", "libheft") == made.sum("files", ".heft") == 0
    assert made.sum("large_mappings") >= (256 + 1 + 513) * PAGE
    assert run([HEFT, "map", pid]).stdout.decode().splitlines()[-1].startswith(f"Next: heft top {pid}")


HOLDS = """import mmap, sys
with open(sys.argv[1], "r+b") as f:
    held = [mmap.mmap(f.fileno(), 8 << 20, flags=mmap.MAP_PRIVATE, prot=int(p)) for p in sys.argv[2]]
for m in held:
    for at in range(0, len(m), 4096):
        if m is held[-1] and sys.argv[2] == "3":
            m[at] = 1
        m[at]
print("ready", flush=True)
sys.stdin.read()
"""


def test_private_memory_from_dev_zero(started):
    """It has that file's name, but it is anonymous memory."""
    process = started(["/usr/bin/python3", "-c", HOLDS, "/dev/zero", "3"])
    assert Lines(process.stdout).next() == "ready"
    made = ledger_of(process.pid)
    assert made.sum("anonymous", "not recorded") >= 8 * MIB and made.sum("shared_memory") == 0


@pytest.mark.parametrize("rights, kind", [("1", "files"), ("15", "modules_shared")])
def test_files_with_code_are_libraries(started, tmp_path, rights, kind):
    """Also one that the loader does not list (yet): a library is mapped before it is listed. Each page counts once for each
    mapping, as in smaps."""
    path = tmp_path / "code.bin"
    path.write_bytes(bytes(8 * MIB))
    process = started(["/usr/bin/python3", "-c", HOLDS, path, rights])
    assert Lines(process.stdout).next() == "ready"
    made = ledger_of(process.pid)
    assert {line["kind"] for line in made["lines"] if "code.bin" in line["name"]} == {kind}
    assert made.sum(kind, "code.bin") == len(rights) * 8 * MIB


def test_redis(started, tmp_path):
    server = shutil.which("redis-server") or shutil.which("redis-check-rdb")  # one program of two names
    link = tmp_path / "redis-server"
    link.symlink_to(server)
    socket = tmp_path / "s"
    process = started([link, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", tmp_path])
    cli = ["redis-cli", "-s", socket]
    wait_until(lambda: run([*cli, "ping"]).stdout == b"PONG\n", what="redis answers")  # its socket is there before it listens
    done = run([*cli, "eval", "for i = 1, 100000 do redis.call('set', 'key' .. i, string.rep('x', 100)) end", "0"])
    assert done.returncode == 0 and b"ERR" not in done.stdout
    made = ledger_of(process.pid)
    heap = made.sum("in_use") + made.sum("headers") + made.sum("held_free") + made.sum("anonymous", "jemalloc")
    assert heap > made["rss_bytes"] * 0.3
    run([*cli, "shutdown", "nosave"])


def test_huge_pages(started, compiled):
    """Pages of hugetlbfs are no part of Rss; the kernel keeps them apart, and so does the ledger."""
    code = "import mmap; m = mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)\n" \
           "m[0] = 1; print('x', flush=True); input()"
    if int(pathlib.Path("/proc/sys/vm/nr_hugepages").read_text()) < 2:
        pytest.skip("no memory is mounted as huge pages here")
    process = waiting(started, ["/usr/bin/python3", "-c", code])
    assert ledger_of(process.pid)["hugetlb_bytes"] == 2 << 20


# ---- refusals


def refused(pid, **others):
    done = run([HEFT, "map", pid], **others)
    assert done.returncode == 1 and done.stdout == b"", done
    return done.stderr.decode()


def test_ended(started):
    process = started(["/bin/true"])
    wait_until(lambda: pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z")
    assert "has ended" in refused(process.pid)
    assert "there is no process 2147483647" in refused(2147483647)


def test_traced(started, life):
    process, _ = life()
    code = f"""
import ctypes, sys
libc = ctypes.CDLL(None)
assert libc.ptrace(0x4206, {process.pid}, None, None) == 0
print('x', flush=True)
input()
"""
    waiting(started, ["/usr/bin/python3", "-c", code])
    assert "is already traced, by process" in refused(process.pid)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user(life, public_heft):
    process, _ = life()

    def drop():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    done = run([public_heft, "map", process.pid], preexec_fn=drop, cwd="/")
    assert done.returncode == 1 and "belongs to another user" in done.stderr.decode()
    # Its own processes it may look at, and without privileges the numbers are the same.
    mine = subprocess.Popen(["/usr/bin/sleep", "60"], preexec_fn=drop, cwd="/")
    try:
        wait_until(lambda: os.readlink(f"/proc/{mine.pid}/exe").endswith("sleep"))
        wait_until(lambda: pathlib.Path(f"/proc/{mine.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "S")  # it sleeps
        done = run([public_heft, "map", "--json", mine.pid], preexec_fn=drop, cwd="/")
        if b"ptrace_scope" in done.stderr:
            pytest.skip("this machine does not allow ptrace to users")
        made = Ledger(json.loads(done.stdout)["ledgers"][0])
        assert made["rss_bytes"] == smaps(mine.pid, "Rss")
    finally:
        mine.kill()
        mine.wait()
    assert "does not let its user look inside" in hidden_process(public_heft, drop)


def hidden_process(public_heft, drop):
    """What heft says of a process that has asked not to be looked at (PR_SET_DUMPABLE)."""
    code = "import ctypes; ctypes.CDLL(None).prctl(4, 0); print('x', flush=True); input()"
    process = start(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, preexec_fn=drop, cwd="/")
    try:
        assert Lines(process.stdout).next() == "x"
        return run([public_heft, "map", process.pid], preexec_fn=drop, cwd="/").stderr.decode()
    finally:
        end_group(process)
        process.communicate()


def test_wrong_usage():
    for words, said in ((["map"], "no process and no file given"), (["map", "1", "2"], "one process or file at a time"),
                        (["map", "-n", "0", "1"], "'0' is not"), (["map", "--json", "--csv", "1"], "exclude each other"),
                        (["map", "-o", "x", "--csv", "1"], "exclude each other"),
                        (["map", "-o", "x", "y.heft"], "of a process, not of 'y.heft'")):
        done = run([HEFT, *words])
        assert done.returncode == 2 and said in done.stderr.decode()
