"""heft ctl: looking at and switching a running program, with no server in between, and the same
over HTTP with a token."""

import os
import re
import signal
import subprocess

import pytest

from harness import HEFT, run, wait_until
from live_harness import Agent, Service, agent, live_in, session_env  # noqa: F401

BLOCK = 300000
TOKEN = "0123456789abcdef0123456789abcdef"


def ctl(*arguments, status=0):
    done = run([HEFT, "ctl", *arguments])
    assert done.returncode == status, done.stderr.decode()
    return done.stdout.decode() if status == 0 else done.stderr.decode()


def state(pid):
    """The lines of heft ctl PID as a dictionary."""
    return dict(re.findall(r"^  (\S[^\n]*?)  +(\S.*)$", ctl(pid), re.MULTILINE))


@pytest.fixture
def service(compiled, tmp_path):
    """A sampled program that no agent knows of."""
    made = Service([compiled("service.c")], env=session_env(tmp_path))
    yield made
    if made.process.poll() is None:
        made.end()


def test_state(service):
    service.do(f"keep 20 {BLOCK}")
    shown = state(service.pid)
    assert shown["sampling"] == "on"
    assert shown["rate"] == "one sample per 4.0 KiB"
    taken, live = re.fullmatch(r"([\d,]+) taken, ([\d,]+) live", shown["samples"]).groups()
    assert int(taken.replace(",", "")) >= 20 and int(live.replace(",", "")) >= 20
    assert shown["live"].startswith("5.7 MiB in ")  # 20 x 300,000 bytes
    assert re.search(r" in \d\d blocks \(estimate\)$", shown["live"])
    service.do("keep 3000 5000")  # of which 70 % are samples: 3,020 +- 75
    blocks = re.search(r" in (\d,\d{3}) blocks \(estimate\)$", state(service.pid)["live"])
    assert 2600 < int(blocks[1].replace(",", "")) < 3400
    assert os.path.exists(shown["session file"])
    assert shown["held by"].startswith("no process")


def test_held_by_the_agent(agent, compiled):
    served = agent.service(compiled("service.c"))
    served.do(f"keep 20 {BLOCK}")
    agent.heap(served.pid)
    # Only root may look at the agent's workers.
    holder = f"heft agent (pid {agent.process.pid})" if os.geteuid() == 0 else "no process that is visible from here"
    assert state(served.pid)["held by"] == holder
    served.end()


def test_off_and_on(agent, compiled):
    served = agent.service(compiled("service.c"))
    served.do(f"keep 20 {BLOCK}")
    agent.heap(served.pid)
    ctl(served.pid, "sample=off")
    assert state(served.pid)["sampling"] == "off"
    # The distance to the next sample is already drawn: one more may come.
    served.do(f"keep 40 {BLOCK}")
    status, body = agent.get(f"{served.pid}/heap")
    assert status == 403 and b"off" in body, body
    ctl(served.pid, "sample=on")
    taken = state(served.pid)["samples"]
    live = int(taken.split(", ")[1].split()[0].replace(",", ""))
    assert live < 60  # those while it was off are not known
    served.do("pass 1000 100000")  # a thread that is off looks again after a while
    served.do(f"keep 20 {BLOCK}")
    kept = live_in(agent.heap(served.pid), "keep_block")
    assert 20 * BLOCK < kept[0] <= (20 + 1 + 20) * BLOCK
    served.end()


def test_rate(service):
    service.do("pass 100 1000")
    ctl(service.pid, "rate=1M")
    assert state(service.pid)["rate"] == "one sample per 1.0 MiB"
    service.do("pass 100 100000")  # past the distance that was drawn before
    before = int(state(service.pid)["samples"].split()[0].replace(",", ""))
    service.do("pass 1000 10000")
    after = int(state(service.pid)["samples"].split()[0].replace(",", ""))
    # 10 MB at one sample for 1 MiB: about 10, at 4 KiB it would be 900
    assert after - before < 50
    ctl(service.pid, "rate=64k", "sample=off")
    shown = state(service.pid)
    assert (shown["rate"], shown["sampling"]) == ("one sample per 64.0 KiB", "off")
    ctl(service.pid, "sample=auto")
    assert state(service.pid)["rate"] == "one sample per 64.0 KiB, adjusted to cost 0.5 % of CPU time"
    assert state(service.pid)["sampling"] == "on"


def test_a_path_of_another_namespace_is_not_followed(service, compiled, tmp_path):
    """A process in a mount namespace of its own chooses what the path of its session file leads to here: the
    session file of another program, which nobody asked to switch."""
    if os.geteuid() or run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", tmp_path]).returncode:
        pytest.skip("only root can mount, and not everywhere")
    victim, = tmp_path.glob(f"{service.pid:x}.*")
    settings = " ".join(f"{k}={v}" for k, v in session_env(tmp_path).items())
    attacker = Service(["unshare", "--mount", "sh", "-c",
                        f"mount -t tmpfs none {tmp_path} && exec env {settings} {compiled('service.c')}"])
    attacker.do("keep 1 1")
    name, = os.listdir(f"/proc/{attacker.pid}/root{tmp_path}")
    os.link(victim, tmp_path / name)
    ctl(attacker.pid, "rate=64k")
    assert state(service.pid)["rate"] == "one sample per 4.0 KiB"
    shown = state(attacker.pid)
    assert shown["rate"] == "one sample per 64.0 KiB"
    assert shown["session file"] == f"/proc/{attacker.pid}/root{tmp_path}/{name}"
    attacker.end()


@pytest.mark.parametrize("arguments, status, words", [
    ([], 2, "no process given"), (["x"], 2, "'x' is not a process id"), (["0"], 2, "not a process id"),
    (["1", "sample=maybe"], 2, "on, off or auto"), (["1", "rate=1"], 2, "from 1k to 1G"),
    (["1", "speed=2"], 2, "neither sample="), (["4194303"], 1, "there is no process"),
    ([str(os.getpid())], 1, "is not sampled by heft")])
def test_errors(arguments, status, words):
    assert words in ctl(*arguments, status=status)


def test_ended_and_not_waited_for():
    """A zombie has no mappings: that is no lack of rights."""
    ended = subprocess.Popen(["true"])
    wait_until(lambda: open(f"/proc/{ended.pid}/stat").read().split(") ")[1][0] == "Z", what="its end")
    assert f"process {ended.pid} has ended" in ctl(ended.pid, status=1)
    ended.wait()


def test_exact_recordings_cannot_be_switched(compiled, tmp_path):
    recorded = Service([HEFT, "run", "-q", "-o", tmp_path / "r.heft", compiled("service.c")])
    recorded.do("keep 1 1")
    pid = wait_until(lambda: open(f"/proc/{recorded.pid}/task/{recorded.pid}/children").read().split(),
                     what="the program")[0]
    # Its file is there for a moment, until the recorder has taken it.
    wait_until(lambda: "recorded exactly" in ctl(pid, "sample=off", status=1), what="heft run has its file")
    recorded.end()


def test_run_is_switched_too(compiled, tmp_path):
    recorded = Service([HEFT, "run", "-q", "--sample=4k", "-o", tmp_path / "r.heft",
                        compiled("service.c")])
    recorded.do("keep 1 1")
    pid = wait_until(lambda: open(f"/proc/{recorded.pid}/task/{recorded.pid}/children").read().split(),
                     what="the program")[0]
    wait_until(lambda: "heft run" in state(pid)["held by"], what="heft run has its file")
    ctl(pid, "rate=2M")
    assert state(pid)["rate"] == "one sample per 2.0 MiB"
    recorded.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_another_users_program(service, public_heft):
    done = run([public_heft, "ctl", service.pid, "sample=off"], preexec_fn=lambda: os.setuid(65534))
    assert done.returncode == 1
    assert b"as root" in done.stderr, done.stderr


# ---- over HTTP


def test_switched_over_http(tmp_path, compiled):
    token = tmp_path / "token"
    token.write_text(TOKEN + "\n")
    token.chmod(0o600)
    agent = Agent(tmp_path, ["--token-file", token])  # noqa: F811
    served = agent.service(compiled("service.c"))
    served.do(f"keep 20 {BLOCK}")
    wait_until(lambda: agent.get(f"{served.pid}/heap", token=TOKEN)[0] == 200, what="the profile")
    assert agent.get(f"{served.pid}/heap")[0] == 401
    control = f"{served.pid}/control?"
    assert agent.get(control + "sample=off", data=b"")[0] == 401
    status, body = agent.get(control + "sample=off", token=TOKEN, data=b"")
    assert status == 200, body
    assert state(served.pid)["sampling"] == "off"
    status, body = agent.get(f"{served.pid}/heap", token=TOKEN)
    assert status == 403 and b"off" in body
    assert agent.get(control + "sample=on&rate=1M", token=TOKEN, data=b"")[0] == 200
    shown = state(served.pid)
    assert (shown["sampling"], shown["rate"]) == ("on", "one sample per 1.0 MiB")
    assert agent.get(control + "rate=1", token=TOKEN, data=b"")[0] == 400
    assert agent.get(control + "sample=auto&rate=2M", token=TOKEN, data=b"")[0] == 200
    assert "adjusted to cost 0.5 %" in state(served.pid)["rate"]
    assert agent.get(control + "rate=1M", token=TOKEN, data=b"")[0] == 200
    assert state(served.pid)["rate"] == "one sample per 1.0 MiB"
    served.end()
    agent.close()


# ---- --sample=auto


def test_the_rate_follows_the_budget(agent, compiled):
    """A program that does nothing but allocate spends more than 0.5 % at 512 KiB: it is sampled less."""
    busy, idle = (agent.service(compiled("service.c"), rate="auto") for _ in range(2))
    busy.do("spin")
    idle.do("keep 1 1000")
    agent.heap(idle.pid)
    assert state(busy.pid)["rate"].endswith("adjusted to cost 0.5 % of CPU time")

    def rate(pid):
        number, unit = state(pid)["rate"].split()[3:5]
        return float(number) * {"KiB": 1, "MiB": 1024, "GiB": 1 << 20}[unit.rstrip(",")]
    wait_until(lambda: rate(busy.pid) > 512, what="a larger distance")
    assert rate(idle.pid) == 512
    busy.end(sig=signal.SIGKILL)
    idle.end()


def test_auto_is_said(compiled, tmp_path):
    path = tmp_path / "auto.heft"
    done = run([HEFT, "run", "--sample=auto", "-o", path, compiled("service.c")])
    assert done.returncode == 0
    line = [x for x in done.stderr.decode().splitlines() if "adjusted" in x]
    assert line and re.search(r"rate is adjusted to cost 0.5 % of CPU time: now one sample per 512.0 KiB",
                              line[0])
    text = run([HEFT, "report", path]).stdout.decode()
    assert "rate is adjusted to cost 0.5 % of CPU time" in " ".join(text.split())


def worker_of(service):
    """Forks one; its pid and state, once it has a file of its own."""
    pid = int(service.do("workers 1")[1])
    wait_until(lambda: f"/{pid:x}." in run([HEFT, "ctl", pid]).stdout.decode(), what="its own session file")
    return pid, state(pid)


def test_a_forked_child_is_switched_as_its_parent_is(service):
    service.do("pass 1 1")  # it has begun
    ctl(service.pid, "sample=off", "rate=64k")
    first, shown = worker_of(service)
    assert (shown["sampling"].split()[0], shown["rate"]) == ("off", "one sample per 64.0 KiB")
    ctl(service.pid, "sample=on")
    second, shown = worker_of(service)
    assert shown["sampling"] == "on"
    for pid in first, second:
        os.kill(pid, signal.SIGKILL)
