"""include/heft.h: a program that asks for its own profile, with heft outside, with nobody there, and
without heft at all."""

import json
import os
import signal
import subprocess

import pytest

from harness import BUILD, HEFT, REPOSITORY, children_of, run, start

PRELOAD = BUILD / "libheft-preload.so"
DONE = "active 1 dump 0 0\n"


@pytest.fixture
def asks(compiled):
    return compiled("asks_profile.c", flags=["-I", REPOSITORY / "include"])


def report(path):
    shown = run([HEFT, "report", "--json", path])
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)


def said(command, env=None):
    done = run(command, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def alone(setting, folder):
    """Sampled, with nobody outside."""
    return {"LD_PRELOAD": str(PRELOAD), "HEFT_SAMPLE": setting, "HEFT_DIR": str(folder)}


def check_profile(path):
    """4,000 blocks of 1,000 bytes from keep(), at one sample each KiB: the error is about 2 %."""
    profile = report(path)
    kept = sum(s["live_bytes"] for s in profile["sites"]
               if any(f["function"] == "keep" for f in s["stack"]))
    assert abs(kept - 4_000_000) < 0.2 * 4_000_000


def recorded(asks, where, out, *options):
    return said([HEFT, "run", "-q", *options, "-o", out.with_suffix(".heft"), "--", asks, where, out])


@pytest.mark.parametrize("where", ["file", "pipe"])
def test_dump(asks, tmp_path, where):
    out = tmp_path / "heap.pb.gz"
    assert recorded(asks, where, out, "--sample=1k") == DONE
    check_profile(out)


def test_several_threads_at_once(asks, tmp_path):
    out = tmp_path / "heap"
    assert recorded(asks, "threads", out, "--sample=1k") == DONE * 4
    for i in range(4):
        check_profile(tmp_path / f"heap.{i}")


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_in_a_jail_without_rights(asks, tmp_path):
    out = tmp_path / "heap.pb.gz"
    assert recorded(asks, "jailed", out, "--sample=1k") == DONE
    check_profile(out)


def test_exact_recording(asks, tmp_path):
    assert recorded(asks, "file", tmp_path / "heap") == "active 0 dump -1 ENOSYS\n"


def test_without_heft(asks, tmp_path):
    assert said([asks, "file", tmp_path / "heap"]) == "active 0 dump -1 ENOSYS\n"


def test_nobody_outside(asks, tmp_path):
    for setting, words in (("1k", "active 1 dump -1 ESRCH\n"), ("off", "active 0 dump -1 EPERM\n")):
        assert said([asks, "file", tmp_path / "heap"], alone(setting, tmp_path)) == words


@pytest.mark.parametrize("flags", [["-no-pie", "-fno-pic"], ["-pie", "-fPIE"], ["-O2", "-no-pie", "-fno-pic"],
                                   ["-static"]], ids=" ".join)
def test_however_it_is_built(compiled, tmp_path, flags):
    program = compiled("asks_profile.c", flags=["-I", REPOSITORY / "include", *flags],
                       output="asks" + "".join(flags))
    seen = "ENOSYS" if "-static" in flags else "EPERM"
    assert said([program, "file", tmp_path / "heap"], alone("off", tmp_path)) == \
        f"active 0 dump -1 {seen}\n"


@pytest.fixture
def server():
    """Starts the example server, with a command before it; its address and process."""
    started = []

    def begin(*prefix):
        process = start([*prefix, BUILD / "examples/pprof_server", "0"])
        started.append(process)
        return process.stdout.readline().decode().strip(), process
    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def get(url, out=None):
    done = subprocess.run(["curl", "-s", "-m", "60", "-o", out or "-", "-w", "\n%{http_code}", url],
                          capture_output=True, text=True, timeout=70, check=True)
    body, code = done.stdout.rsplit("\n", 1)
    return int(code), body


def test_example_server(server, tmp_path):
    url, process = server(HEFT, "run", "-q", "--sample=1k", "-o", tmp_path / "server.heft", "--")
    assert get(url + "work?n=500000") == (200, "500 kept\n")
    out = tmp_path / "heap.pb.gz"
    assert get(url + "debug/pprof/heap", out)[0] == 200
    # 500 entries of 2,000 bytes: at a KiB a sample each is one with a chance of 0.86.
    live = report(out)["totals"]["live_bytes"]
    assert 0.8 < live / (500 * 2000) < 1.25
    assert get(url + "quit")[0] == 200
    assert process.wait(timeout=60) == 0


def test_example_server_when_the_recorder_is_killed(server, tmp_path):
    url, process = server(HEFT, "run", "-q", "--sample=1k", "-o", tmp_path / "server.heft", "--")
    child, = children_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    code, words = get(url + "debug/pprof/heap")
    assert code == 503 and "no heft run or heft agent" in words
    assert get(url + "quit")[0] == 200
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # ours now: orphans come to us


def test_example_server_without_heft(server):
    url, _ = server()
    code, words = get(url + "debug/pprof/heap")
    assert code == 403 and "heft run --sample" in words
    assert get(url + "quit")[0] == 200
