"""Stacks through code that a runtime makes while it runs. With frame pointers they go on, with a perf map they have
names, and the heading is the user's own function, not the interpreter's."""

import pathlib
import shutil
import subprocess

import pytest

from harness import HEFT, report, run


def largest(tmp_path, *command):
    path = tmp_path / "runtime.heft"
    done = run([HEFT, "run", "-q", "-o", path, "--", *command], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rep = report(path)
    pathlib.Path(f"/tmp/perf-{rep['pid']}.map").unlink(missing_ok=True)
    return rep


def names(site):
    return [f["function"] for f in site["stack"]]


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_node(tmp_path):
    (tmp_path / "make.js").write_text(
        "const kept = [];\n"
        "function makeBuffers(n) { for (let i = 0; i < n; i++) kept.push(Buffer.allocUnsafeSlow(100000)); }\n"
        "function outer() { makeBuffers(50); }\n"
        "outer();\n")
    rep = largest(tmp_path, "node", "--perf-basic-prof", "--interpreted-frames-native-stack", "make.js")
    heads = [(s, s["stack"][s["first_user"]]) for s in rep["sites"] if s["allocated_bytes"] >= 100000]
    made = [(s, head) for s, head in heads if head["function"] == "JS:makeBuffers"]
    # The function is compiled meanwhile: its calls are then at another address.
    assert sum(s["allocations"] for s, _ in made) == 50, [names(s) for s, _ in heads]
    assert sum(s["allocated_bytes"] for s, _ in made) == 50 * 100000
    for site, head in made:
        assert (head["file"], head["line"]) == (str(tmp_path / "make.js"), 2)
        assert head["guessed"]  # generated code has no tables
        stack = names(site)
        assert stack.index("JS:makeBuffers") < stack.index("JS:outer") and "_start" in stack[-1]


@pytest.mark.skipif(not shutil.which("javac"), reason="no Java compiler")
def test_java(tmp_path):
    (tmp_path / "Make.java").write_text(
        "import java.nio.ByteBuffer; import java.util.*;\n"
        "public class Make { static List<ByteBuffer> kept = new ArrayList<>();\n"
        "static void makeBuffers(int n) { for (int i = 0; i < n; i++) kept.add(ByteBuffer.allocateDirect(1000)); }\n"
        "public static void main(String[] a) { for (int i = 0; i < 300; i++) makeBuffers(100); } }\n")
    subprocess.run(["javac", "Make.java"], cwd=tmp_path, check=True)
    rep = largest(tmp_path, "java", "-XX:+PreserveFramePointer", "-XX:+UnlockDiagnosticVMOptions",
                  "-XX:+DumpPerfMapAtExit", "-Xmx100m", "-cp", tmp_path, "Make")
    heads = {}
    for site in rep["sites"]:
        head = site["stack"][site["first_user"]]["function"]
        heads[head] = heads.get(head, 0) + site["allocations"]
    # What ran before it was compiled is the interpreter's, which has no frames of its own.
    assert heads.get("void Make.makeBuffers(int)", 0) > 3000, heads
    compiled = [s for s in rep["sites"] if "void Make.makeBuffers(int)" in names(s)]
    assert any("start_thread" in names(s) for s in compiled)
