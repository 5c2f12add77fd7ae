"""heft run on programs that keep most of their memory in other places than malloc: less than 2 % of it is on lines that nobody
can name, and the largest line says what made it. nginx is in test_nginx.py."""

import shutil

import pytest

from attach_harness import may_trace
from harness import HEFT, report, run, start, wait_until
from test_ledger_recorded import ledgers_of

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
LEAST_KNOWN = 0.98


def check(ledger, kind, name, least):
    largest = ledger.largest()
    assert largest["kind"] == kind and name in largest["name"], largest
    assert largest["resident_bytes"] > least
    unknown = ledger.sum("unexplained") + ledger.sum("anonymous", "not recorded")
    assert unknown < (1 - LEAST_KNOWN) * ledger["rss_bytes"]
    return largest


@pytest.fixture
def at_exit(tmp_path):
    def go(*command, **others):
        path = tmp_path / "out.heft"
        done = run([HEFT, "run", "-q", "-o", path, "--", *command], **others)
        assert done.returncode == 0, done.stderr
        (one,) = [one for one in ledgers_of(path) if one["moment"] == "exit"]
        return one

    return go


def test_python(at_exit):
    """libc's exit, so that Python does not free its objects before. A dictionary of one has 184 bytes and more, a string of five
    digits 54."""
    ledger = at_exit("/usr/bin/python3", "-c", "import ctypes\nx = [{'a': str(i)} for i in range(100000)]\nctypes.CDLL(None).exit(0)")
    largest = check(ledger, "allocator", "Python's objects (pymalloc's arenas)", 100000 * (184 + 54))
    assert largest["maker"]


def test_python_that_frees_its_objects(tmp_path):
    """It gives its arenas back before it exits. The ledger is taken before the first one goes, and its thread waits until heft
    has seen whose they are. A string of six digits takes 64 bytes, or 48 in newer versions of Python; some have five or less."""
    path = tmp_path / "out.heft"
    best = None
    each = int(run(["/usr/bin/python3", "-c", "import sys; print(sys.getsizeof('123456'))"]).stdout)
    least = 300000 * (each + 15 & ~15) * 7 // 8
    for _ in range(10):
        assert run([HEFT, "run", "-q", "--force", "-o", path, "--", "/usr/bin/python3", "-c", "x = [str(i) for i in range(300000)]"]).returncode == 0
        best = max(ledgers_of(path), key=lambda one: one["rss_bytes"])
        if best.sum("allocator", "pymalloc") > least:  # else the machine was too busy to stop it in time
            break
    assert best["moment"] == "interval"
    check(best, "allocator", "Python's objects (pymalloc's arenas)", least)


@pytest.mark.skipif(not (shutil.which("node") or shutil.which("nodejs")), reason="no node")
def test_node(at_exit):
    """process.exit: V8's heap is still there. Its chunks look otherwise from Node.js 22 on."""
    node = shutil.which("node") or shutil.which("nodejs")
    major = int(run([node, "--version"]).stdout.decode().strip("v\n").split(".")[0])
    ledger = at_exit(node, "-e", "x = []; for (let i = 0; i < 600000; i++) x.push({a: i, b: '' + i}); process.exit(0)")
    if major <= 20:
        check(ledger, "allocator", "V8's heap", 600000 * 40)
    assert ledger.sum("unexplained") == 0


@pytest.mark.skipif(not (shutil.which("java") and shutil.which("javac")), reason="Java is not installed")
def test_java(at_exit, tmp_path):
    (tmp_path / "Hold.java").write_text("public class Hold { public static void main(String[] words) {\n"
                                        "byte[][] held = new byte[3000][]; for (int i = 0; i < held.length; i++)\n"
                                        "held[i] = new byte[10000]; System.out.println(held.length); } }\n")
    assert run(["javac", "Hold.java"], cwd=tmp_path).returncode == 0
    check(at_exit("java", "-XX:+UseSerialGC", "-cp", tmp_path, "Hold"), "allocator", "Java's heap", 3000 * 10000)


def test_arenas_of_the_standard_library(at_exit, compiled):
    """std::pmr over arenas of 1 MiB that the program maps."""
    largest = check(at_exit(compiled("pmr_arena.cc", flags=("-O1",))), "anonymous", "mapped by arena::grow", 10_000_000)
    assert "(pmr_arena.cc:" in largest["maker"]


def test_redis(tmp_path):
    """Its allocator is jemalloc: pages with live blocks are its heap, and what the blocks were asked for is the largest line."""
    link, socket, path = tmp_path / "redis-server", tmp_path / "s", tmp_path / "out.heft"
    link.symlink_to(shutil.which("redis-server") or shutil.which("redis-check-rdb"))  # one program of two names
    heft = start([HEFT, "run", "-q", "-o", path, "--", link, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", tmp_path])
    cli = ["redis-cli", "-s", socket]
    wait_until(lambda: socket.exists() and run([*cli, "ping"]).stdout == b"PONG\n", what="redis answers")
    done = run([*cli, "eval", "for i = 1, 100000 do redis.call('set', 'key' .. i, string.rep('x', 100)) end", "0"])
    assert done.returncode == 0 and b"ERR" not in done.stdout
    run([*cli, "shutdown", "nosave"])
    heft.communicate(timeout=60)
    exits = [one for one in ledgers_of(path) if one["moment"] == "exit"]
    if report(path)["way"] == "preload":
        (ledger,) = exits
        check(ledger, "requested", "requested", 100000 * 100)
    else:  # redis 8 calls mallocx, so its jemalloc is hooked where its functions begin
        assert exits == []
