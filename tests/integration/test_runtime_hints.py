"""Programs of a runtime that maps its objects itself: a note names it and says what shows the rest. It is
judged by what is on the stacks and by how much memory is not in the recording, not by names."""

import os
import shutil
import subprocess

import pytest

from harness import GO, HEFT, go_build, report, run

PYTHON = "/usr/bin/python3"
KEEP = "import time; kept = [{'number': i} for i in range(300_000)]; time.sleep(0.5)"


def hints(rep):
    return [n for n in rep["notes"] if n.get("about") == "runtime"]


def recorded(tmp_path, *command, env=None, opts=()):
    path = tmp_path / "runtime.heft"
    done = run([HEFT, "run", "-q", "--force", *opts, "-o", path, "--", *command], env=env or {})
    assert done.returncode == 0, done.stderr
    return report(path), path


def only_hint(rep, runtime, advice):
    (note,) = hints(rep)
    e = note["evidence"]
    assert note["kind"] == "info" and e["runtime"] == runtime and advice in note["advice"]
    assert e["recorded_bytes"] < e["resident_bytes"] / 2
    assert e["resident_bytes"] in {rep["totals"].get("peak_anonymous_bytes"),
                                   *(p["totals"].get("peak_anonymous_bytes") for p in rep["processes"])}
    return note


@pytest.mark.parametrize("opts", [[], ["--sample=4k"]], ids=["exact", "sampled"])
def test_python(tmp_path, opts):
    rep, path = recorded(tmp_path, PYTHON, "-c", KEEP, opts=opts)
    note = only_hint(rep, "Python", "PYTHONMALLOC=malloc")
    text = run([HEFT, "report", path]).stdout.decode()
    said = " ".join(text.split())
    assert note["text"] in said and note["advice"] in said
    # The warning that memory is not seen says so without guessing why.
    assert "most of this program's memory does not come from malloc" in said
    assert "allocator linked in" not in said and said.count("PYTHONMALLOC") == 1


def test_the_run_ends_with_the_hint(tmp_path):
    done = run([HEFT, "run", "-o", tmp_path / "x.heft", "--", PYTHON, "-c", KEEP])
    lines = done.stderr.decode().splitlines()
    assert len(lines) <= 16
    assert [line for line in lines if line.startswith("  hint          Set PYTHONMALLOC=malloc in its environment")]


def test_python_that_uses_malloc(tmp_path):
    """What the note advises helps, and then there is none."""
    rep, _ = recorded(tmp_path, PYTHON, "-c", KEEP, env={"PYTHONMALLOC": "malloc"})
    assert hints(rep) == []
    assert rep["totals"]["peak_bytes"] > 300_000 * 200  # a dict of one entry has 184 bytes and more


def test_small_python(tmp_path):
    rep, _ = recorded(tmp_path, PYTHON, "-c", "print(1)")
    assert hints(rep) == []


def test_python_under_a_shell(tmp_path):
    rep, _ = recorded(tmp_path, "/bin/sh", "-c", f'{PYTHON} -c "{KEEP}"; true')
    note = only_hint(rep, "Python", "PYTHONMALLOC=malloc")
    process = next(p for p in rep["processes"] if p["pid"] == note["evidence"]["pid"])
    assert "python3" in process["name"] and f"(pid {process['pid']})" in note["text"]


def test_not_by_the_name(compiled, tmp_path):
    """A program called python3 that maps memory itself is no Python."""
    fake = tmp_path / "python3-tool"
    shutil.copy(compiled("memory_kinds.c", flags=["-fno-builtin"]), fake)
    rep, _ = recorded(tmp_path, fake, "map")
    assert hints(rep) == []


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_node(tmp_path):
    rep, _ = recorded(tmp_path, "node", "-e", "const a=[];for(let i=0;i<600000;i++)a.push({x:i,y:[i]});"
                      "setTimeout(()=>console.log(a.length),400)")
    only_hint(rep, "V8", "--heap-prof")


@pytest.mark.skipif(not shutil.which("javac"), reason="no Java compiler")
def test_java(tmp_path):
    (tmp_path / "Keep.java").write_text(
        "import java.util.*; public class Keep { static List<byte[]> kept = new ArrayList<>();\n"
        "public static void main(String[] a) throws Exception { for (int i = 0; i < 40000; i++)\n"
        "kept.add(new byte[1000]); Thread.sleep(500); System.out.println(kept.size()); } }\n")
    subprocess.run(["javac", "Keep.java"], cwd=tmp_path, check=True)
    rep, _ = recorded(tmp_path, "java", "-Xmx200m", "-cp", tmp_path, "Keep")
    only_hint(rep, "JVM", "GC.class_histogram")


@pytest.mark.skipif(not os.path.exists(GO), reason="no Go")
@pytest.mark.parametrize("flags", [[], ["-ldflags=-s -w"]], ids=["symbols", "stripped"])
def test_go(tmp_path, flags):
    (tmp_path / "keep.go").write_text(
        'package main\n// #include <stdlib.h>\n// static void *get(void) { return malloc(10); }\nimport "C"\n'
        'import ("fmt"; "time")\nvar kept [][]byte\nfunc main() {\n\tC.get()\n\tfor i := 0; i < 40000; i++ {\n'
        "\t\tb := make([]byte, 1000)\n\t\tfor j := range b { b[j] = 1 }\n\t\tkept = append(kept, b)\n\t}\n"
        "\ttime.Sleep(500 * time.Millisecond)\n\tfmt.Println(len(kept))\n}\n")
    rep, _ = recorded(tmp_path, go_build(tmp_path / "keep.go", tmp_path / "keep", *flags))
    only_hint(rep, "Go", "net/http/pprof")
