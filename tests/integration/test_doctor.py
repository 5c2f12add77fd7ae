"""heft doctor: what it says of this machine, of processes and of commands, and that it only looks."""

import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

from attach_harness import Lines, Target, may_trace
from harness import HEFT, end_group, run, start, wait_until


def checks(*args, status=0, **others):
    done = run([HEFT, "doctor", "--json", *args], **others)
    assert done.returncode == status and done.stderr == b"", done
    told = json.loads(done.stdout)
    assert told["schema"] == 1 and (told["verdict"] == "no") == (status == 1)
    found = {}
    for check in told["checks"]:
        assert set(check) == {"name", "verdict", "text", "way_out"} and check["text"]
        assert check["verdict"] != "warning" or check["way_out"], check
        found.setdefault(check["name"], []).append(check)
    return found


@pytest.fixture
def target(compiled, tmp_path):
    made = Target(compiled("attach_target.c", flags=["-ldl"]), tmp_path)
    yield made
    made.end()


def test_this_machine():
    found = checks()
    assert {"heft run", "heft attach", "heft view", "session", "attach", "sandboxes", "kernel", "limits", "memory",
            "debuginfod"} <= set(found)
    assert found["heft run"][0]["text"].endswith("libheft-preload.so")
    assert found["session"][0]["verdict"] == "ok"


def test_text_is_aligned_and_ends_with_what_is_next():
    done = run([HEFT, "doctor"])
    lines = done.stdout.decode().splitlines()
    assert lines[-1] == "Next: heft run CMD, or heft doctor PID"
    column = lines[0].index("/")  # the path of heft's library
    for line in lines[:-1]:
        assert line[:7].strip() in ("ok", "warning", "no", "") and line[column - 1] == " " and line[column] != " ", line
        assert len(line) <= 100 or "/" in line


def test_a_session_folder_that_is_missing():
    """Where nothing is left to choose, recording fails, and so does the check."""
    found = checks(env={"HEFT_DIR": "/nonexistent"})
    assert found["session"][0]["verdict"] == "ok"  # it takes another one


def status_at_rest(pid):
    """What the kernel says of a process that waits; nothing, if it is only about to: it gives up the processor then."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    time.sleep(0.2)
    return "\nState:\tS" in status and status == pathlib.Path(f"/proc/{pid}/status").read_text() and status


@pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
def test_a_process(target, compiled):
    target.do("alloc 1 10")
    stat = wait_until(lambda: status_at_rest(target.pid), what="it waits")
    found = checks(target.pid)
    assert found["way in"][0]["text"] == "heft may attach to it"
    assert found["allocator"][0]["text"].split(": ")[0].endswith("libc.so.6")
    for name in ("malloc", "calloc", "realloc", "free", "posix_memalign"):
        assert name in found["allocator"][0]["text"]
    assert found["symbols"][0]["text"] == "attach_target has functions, files and lines"
    assert found["place"][0]["text"] == "it sees the files that heft sees"
    assert found["sandbox"][0]["verdict"] == "ok"
    now = pathlib.Path(f"/proc/{target.pid}/status").read_text()
    for field in ("voluntary_ctxt_switches", "Threads", "TracerPid"):  # it was not even woken
        assert [line for line in stat.splitlines() if line.startswith(field)] == [
            line for line in now.splitlines() if line.startswith(field)]
    target.do("alloc 1 10")


@pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
def test_a_process_that_heft_has(target, tmp_path):
    heft = start([HEFT, "attach", "-o", tmp_path / "x.heft", target.pid])
    lines = Lines(heft.stderr)
    while not lines.next().startswith("heft: recording; "):
        pass
    found = checks(target.pid, status=1)
    assert f"heft (process {heft.pid}) is attached to it" == found["way in"][0]["text"]
    assert f"heft detach {target.pid}" in found["way in"][0]["way_out"]
    run([HEFT, "detach", target.pid])
    heft.communicate(timeout=60)
    assert checks(target.pid)["way in"][0]["verdict"] == "ok"


def test_a_process_that_is_traced(target):
    tracer = start([sys.executable, "-c", "import ctypes, time\n"
                    f"assert ctypes.CDLL(None).ptrace(0x4206, {target.pid}, None, None) == 0\n"
                    "print('traces', flush=True); time.sleep(600)"])
    try:
        if Lines(tracer.stdout).next() != "traces":
            pytest.skip("this machine does not permit to trace a process")
        found = checks(target.pid, status=1)
        assert f"is already traced, by process {tracer.pid}" in found["way in"][0]["text"]
    finally:
        end_group(tracer)
        tracer.communicate()


@pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
def test_strict_seccomp():
    process = start(["/usr/bin/python3", "-c", "import ctypes, os\n"
                     "os.write(1, b'x\\n'); ctypes.CDLL(None).prctl(22, 1, 0, 0, 0); os.read(0, 1)"],
                    stdin=subprocess.PIPE)
    assert process.stdout.readline() == b"x\n"
    wait_until(lambda: "Seccomp:\t1" in pathlib.Path(f"/proc/{process.pid}/status").read_text())
    try:
        found = checks(process.pid, status=1)
        assert "strict mode" in found["sandbox"][0]["text"]
        assert "Python" in found["runtime"][0]["text"] and process.poll() is None
    finally:
        end_group(process)
        process.communicate()


def test_nobody_there():
    assert "there is no process" in checks("2147483647", status=1)["way in"][0]["text"]


def test_a_command(compiled, tmp_path):
    program = compiled("attach_target.c", flags=["-ldl"])
    found = checks(program)
    assert found["way in"][0]["text"] == f"heft run records {program}"
    assert found["symbols"][0]["text"] == "attach_target has functions, files and lines"
    stripped = tmp_path / "stripped"
    run(["strip", "-o", stripped, program])
    found = checks(stripped)
    assert "is stripped" in found["symbols"][0]["text"] and "-g" in found["symbols"][0]["way_out"]
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/python3\n")
    script.chmod(0o755)
    found = checks(script)
    assert "which runs the script" in found["way in"][0]["text"] and "perf" in found["runtime"][0]["way_out"]
    assert "no such command" in checks("no-such-command", status=1)["way in"][0]["text"]
    assert "not executable" in checks("--", __file__, status=1)["way in"][0]["text"]


def test_a_static_program(compiled, tmp_path):
    """It foretells what heft run does: hooks where malloc has a name, a refusal where it has none."""
    static = compiled("leaf.c", flags=["-static"], output="static_leaf")
    found = checks(str(static))
    assert "statically linked" in found["way in"][0]["text"] and "unwinding" not in found
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, static], check=True)
    found = checks(str(stripped), status=1)
    assert found["way in"][0]["verdict"] == "no" and "malloc" in found["way in"][0]["text"]
    assert run([HEFT, "run", "-o", tmp_path / "x.heft", stripped]).returncode == 125


def test_a_static_program_without_malloc(tmp_path):
    source, program = tmp_path / "none.c", tmp_path / "none"
    source.write_text("""__attribute__((force_align_arg_pointer)) void _start(void)
{ __asm__ volatile("syscall" : : "a"(60), "D"(0)); __builtin_unreachable(); }""")
    subprocess.run(["gcc", "-static", "-nostdlib", source, "-o", program], check=True)
    found = checks(str(program), status=1)
    assert (found["way in"][0]["verdict"], found["way in"][0]["text"]) == \
        ("no", "none is linked statically and has no malloc")
    assert run([HEFT, "run", "-o", tmp_path / "x.heft", program]).returncode == 125


def test_arguments_of_the_command_are_its_own(compiled):
    assert checks("true", "--json", "-x")["way in"][0]["verdict"] == "ok"


def test_colours():
    assert b"\033[32mok" in run([HEFT, "doctor", "--color", "always"]).stdout
    assert b"\033" not in run([HEFT, "doctor"]).stdout
