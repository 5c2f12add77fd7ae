"""heft agent --attach-exe: programs that were started without heft, found by their executable, attached to, served,
saved, and left again. Blocks are so much larger than the rate that every one is sampled: what comes out is exact."""

import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from attach_harness import may_trace
from harness import C_FLAGS, HEFT, PROGRAMS, run, start, wait_until
from live_harness import Agent, Service, fetch, live_in, session_env

pytestmark = pytest.mark.skipif(not may_trace(), reason="this system does not let us trace")

BLOCK = 300000


@pytest.fixture
def program(compiled, tmp_path):
    """service.c under a name that no other program has: nothing else is attached to."""
    return shutil.copy(compiled("service.c"), tmp_path / f"by-rule-{os.getpid()}")


@pytest.fixture
def agent(tmp_path, program):
    made = Agent(tmp_path, ["--sample=4k", "--attach-exe", os.path.basename(program)])
    yield made
    made.close()


def attached(agent, pid):
    return agent.wait_for_log(rf"attached to process {pid} \((.*)\) by rule --attach-exe=(\S+); "
                              r"\d+ threads? stood still for [\d.]+ ms")


def has_heft(pid):
    """Whether something of heft is mapped: its session file, or code of no file beside the allocator's."""
    with open(f"/proc/{pid}/maps") as maps:
        return any("heft" in line or re.search(r" r-xp .* 0 *$", line) for line in maps)


def metric(agent, wanted):
    text = fetch(agent.url.replace("/debug/pprof/", "/metrics"))[1].decode()
    return float(re.search(rf"^{wanted} (\S+)$", text, re.M).group(1))


def test_present_and_later(program, tmp_path):
    """One runs when the agent begins, one starts later. Older blocks are not in the profile."""
    first = Service([program])
    first.do(f"keep 10 {BLOCK}")
    agent = Agent(tmp_path, ["--sample=4k", "--attach-exe=nothing-like-it", f"--attach-exe={tmp_path}/by-rule-*"])
    second = Service([program])
    for service, count in ((first, 20), (second, 30)):
        assert attached(agent, service.pid).groups() == (str(program), f"{tmp_path}/by-rule-*")
        service.do(f"keep {count} {BLOCK}")
        assert live_in(agent.heap(service.pid), "keep_block") == (count * BLOCK, count)
        assert f">{service.pid}<" in agent.get("")[1].decode()
    wait_until(lambda: metric(agent, "heft_agent_attached_processes") == 2, what="the metric")
    assert metric(agent, "heft_agent_attaches_total") == 2
    assert "heft_live_objects{pid=\"%d\",exe=\"%s\"} 20" % (first.pid, program) in \
        fetch(agent.url.replace("/debug/pprof/", "/metrics"))[1].decode()
    control = run([HEFT, "ctl", str(first.pid)]).stdout.decode()
    assert "rate          one sample per 4.0 KiB" in control
    if os.geteuid() == 0:  # others cannot see what the agent's worker has mapped
        assert f"(pid {agent.process.pid})" in control
    assert run([HEFT, "ctl", str(first.pid), "rate=8k"]).returncode == 0
    assert "one sample per 8.0 KiB" in run([HEFT, "ctl", str(first.pid)]).stdout.decode()
    assert first.end("exit 7") == 7
    how, saved = agent.ended(first.pid)
    assert how == "exit status 7" and live_in(saved, "keep_block") == (20 * BLOCK, 20)
    assert saved["attached"]
    assert second.end(sig=signal.SIGKILL) == -signal.SIGKILL
    assert agent.ended(second.pid)[0] == "killed by signal 9 (SIGKILL)"
    wait_until(lambda: metric(agent, "heft_agent_attached_processes") == 0, what="no guardian")
    agent.close()
    assert "cannot attach" not in agent.log()


OWN = {
    "jemalloc": ("gcc", ["-l:libjemalloc.a", "-lstdc++", "-lm"]),
    "static tcmalloc": ("gcc", ["-static", "-Wl,--whole-archive", "-l:libtcmalloc_minimal.a", "-Wl,--no-whole-archive",
                                "-lstdc++", "-lm"]),
    "static-pie": ("gcc", ["-static-pie"]),
    "musl": ("musl-gcc", []),
}


@pytest.mark.parametrize("kind", OWN)
def test_own_allocators(tmp_path, kind):
    """Programs that nothing can be preloaded into: served, shown by heft top, and saved like any other."""
    compiler, flags = OWN[kind]
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    program = tmp_path / f"own-{os.getpid()}"
    subprocess.run([compiler, *C_FLAGS, f"-I{PROGRAMS}", PROGRAMS / "service.c", *flags, "-o", program], check=True,
                   stderr=subprocess.DEVNULL)
    agent = Agent(tmp_path, ["--sample=4k", "--attach-exe", program.name])
    try:
        service = Service([program])
        attached(agent, service.pid)
        service.do(f"keep 20 {BLOCK}")
        assert live_in(agent.heap(service.pid), "keep_block") == (20 * BLOCK, 20)
        shown = run([HEFT, "top", "--once", str(service.pid)]).stdout.decode()
        assert re.search(r"5\.7M .* 20 +.*keep_block", shown) and "!" not in shown.split("BLOCKS")[0].split("findings")[0], shown
        assert metric(agent, r'heft_unseen\{pid="%d".*\}' % service.pid) == 0
        assert service.end("exit 0") == 0
        assert live_in(agent.ended(service.pid)[1], "keep_block") == (20 * BLOCK, 20)
    finally:
        agent.close()


def test_named_functions(program, tmp_path):
    """--alloc-fn: the outer call counts, so the site is where keep_block was called. A program that lacks the function is
    refused, and the log says why."""
    other = shutil.copy(shutil.which("sleep"), tmp_path / f"other-{os.getpid()}")
    agent = Agent(tmp_path, ["--sample=4k", "--attach-exe", program.name, "--attach-exe", other.name,
                             "--alloc-fn=keep_block:malloc"])
    sleeper = start([other, "60"])
    try:
        service = Service([program])
        attached(agent, service.pid)
        service.do(f"keep 20 {BLOCK}")
        rep = agent.heap(service.pid)
        assert live_in(rep, "keep_many") == (20 * BLOCK, 20) and "keep_block" not in str(rep["sites"])
        agent.wait_for_log(rf"cannot attach to process {sleeper.pid} .*has no function keep_block that heft can find")
        assert service.end("exit 0") == 0
    finally:
        agent.close()
        sleeper.kill()
        sleeper.communicate()


def test_detach(agent, program):
    service = Service([program])
    attached(agent, service.pid)
    service.do(f"keep 40 {BLOCK}")
    refused = run([HEFT, "attach", str(service.pid)])
    assert refused.returncode == 1 and b"is attached to it" in refused.stderr
    left = run([HEFT, "detach", str(service.pid)])
    assert left.returncode == 0, left.stderr
    assert not has_heft(service.pid)
    agent.wait_for_log(rf"detached from process {service.pid} because heft detach asked for it")
    how, saved = agent.ended(service.pid)
    assert how == "went on after the recording ended"
    assert saved["end"] == "detached" and live_in(saved, "keep_block") == (40 * BLOCK, 40)
    time.sleep(2.5)  # the agent looks every second
    assert service.kept() == (40 * BLOCK, 40) and not has_heft(service.pid)
    assert agent.log().count("attached to process") == 1
    service.end()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_the_agent_ends(agent, program, sig):
    """SIGTERM: it leaves its programs, and saves what they had. SIGKILL: their guardians leave. The next agent attaches
    again."""
    services = [Service([program]), Service([program])]
    for service in services:
        attached(agent, service.pid)
        service.do(f"keep 9 {BLOCK}")
    agent.heap(services[0].pid), agent.heap(services[1].pid)
    guardians = [pid for pid in agent.pids()[1:] if comm(pid) == "heft-guardian"]
    assert len(guardians) == 2
    assert agent.stop(sig) == (0 if sig == signal.SIGTERM else -signal.SIGKILL), agent.log()
    wait_until(lambda: not any(has_heft(s.pid) for s in services), what="programs without heft")
    wait_until(lambda: not any(is_there(pid) for pid in guardians), what="guardians to end")
    if sig == signal.SIGTERM:
        for service in services:
            assert live_in(agent.ended(service.pid)[1], "keep_block") == (9 * BLOCK, 9)
        assert agent.files() == []
    agent.begin(["--sample=4k", "--attach-exe", os.path.basename(program)])
    for service in services:
        attached(agent, service.pid)
        if sig == signal.SIGKILL:  # it finds what the first one could not save
            assert live_in(agent.ended(service.pid)[1], "keep_block") == (9 * BLOCK, 9)
        service.do(f"keep 3 {BLOCK}")
        # Until the agent has found its new file, what the first one had is served.
        wait_until(lambda s=service: live_in(agent.heap(s.pid), "keep_block") == (3 * BLOCK, 3), what="the new profile")
        service.end()


def comm(pid):
    with open(f"/proc/{pid}/comm") as f:
        return f.read().strip()


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return ") Z " not in f.read()
    except FileNotFoundError:
        return False


def test_forks_and_exec(agent, program):
    """Forked children are profiled, and left with their parent. A process that executes a program which matches is
    attached to."""
    shell = start(["/bin/sh", "-c", f"read go; exec {program}"], stdin=subprocess.PIPE)
    service = Service([program])
    attached(agent, service.pid)
    children = [int(p) for p in service.do("workers 2")[1:]]
    for i, pid in enumerate(children, 1):
        wait_until(lambda n=i, child=pid: live_in(agent.heap(child), "keep_block") ==
                   (n * 100 * 100000, n * 100), what=f"worker {i}")
    shell.stdin.write(b"go\n")
    shell.stdin.flush()
    attached(agent, shell.pid)
    shell.kill()
    shell.communicate()
    assert run([HEFT, "detach", str(service.pid)]).returncode == 0
    for i, pid in enumerate(children, 1):
        assert not has_heft(pid)
        how, saved = agent.ended(pid)
        assert how == "went on after the recording ended"
        assert live_in(saved, "keep_block") == (i * 100 * 100000, i * 100)
    time.sleep(1.5)
    assert agent.log().count("attached to process") == 2, agent.log()  # the children are left alone, too
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    service.end()


def test_it_executes_another_program(agent, program):
    service = Service([program])
    attached(agent, service.pid)
    service.do(f"keep 12 {BLOCK}")
    agent.heap(service.pid)
    service.tell("exec /bin/cat")
    how, saved = agent.ended(service.pid)
    assert how == "became another program" and live_in(saved, "keep_block") == (12 * BLOCK, 12)
    wait_until(lambda: metric(agent, "heft_agent_attached_processes") == 0, what="no guardian")
    service.tell("still here")
    assert service.process.stdout.readline() == b"still here\n"
    assert service.end() == 0


def start_stopped(agent, program):
    """The agent looks for programs only when this one stands still."""
    agent.process.send_signal(signal.SIGSTOP)
    made = Service([program])
    os.kill(made.pid, signal.SIGSTOP)
    with open(f"/proc/{made.pid}/stat") as stat:
        wait_until(lambda: stat.seek(0) == 0 and stat.read().rsplit(")", 1)[1].split()[0] == "T", what="it stands still")
    agent.process.send_signal(signal.SIGCONT)
    return made


def test_not_twice(agent, program):
    """What heft has already is not attached to, and a program that heft attach records only when that has ended."""
    preloaded = Service([program], env=session_env(agent.dir))
    preloaded.do(f"keep 5 {BLOCK}")
    assert live_in(agent.heap(preloaded.pid), "keep_block") == (5 * BLOCK, 5)
    stopped = start_stopped(agent, program)
    time.sleep(2.5)
    assert "attach to process" not in agent.log() and "attached to process" not in agent.log()
    os.kill(stopped.pid, signal.SIGCONT)
    attached(agent, stopped.pid)
    assert agent.log().count("attached to process") == 1
    stopped.end(), preloaded.end()


def test_a_sandbox(compiled, tmp_path):
    """It is refused as heft attach refuses it, and the log says so once."""
    name = f"by-rule-{os.getpid()}"
    copy = shutil.copy(compiled("sandbox_sleeper.c"), tmp_path / name)
    sandboxed = start([copy], stdin=subprocess.PIPE)
    assert sandboxed.stdout.readline() == b"ready\n"
    agent = Agent(tmp_path, ["--attach-exe", name])
    agent.wait_for_log(rf"cannot attach to process {sandboxed.pid} \(.*{name}\) by rule "
                       rf"--attach-exe={name}: .*seccomp")
    wait_until(lambda: metric(agent, "heft_agent_attach_refusals_total") == 1, what="the metric")
    assert agent.log().count("cannot attach") == 1
    agent.close()
    sandboxed.kill()
    sandboxed.communicate()


def test_the_guardian_is_killed(agent, program):
    """The program goes on and is attached to again, with what the first guardian had left taken out."""
    service = Service([program])
    attached(agent, service.pid)
    service.do(f"keep 6 {BLOCK}")
    guardian, = [pid for pid in agent.pids()[1:] if comm(pid) == "heft-guardian"]
    os.kill(guardian, signal.SIGKILL)
    wait_until(lambda: agent.log().count("attached to process") == 2, what="another guardian")
    service.do(f"keep 7 {BLOCK}")
    wait_until(lambda: live_in(agent.heap(service.pid), "keep_block") == (7 * BLOCK, 7), what="the new profile")
    assert live_in(agent.ended(service.pid)[1], "keep_block") == (6 * BLOCK, 6)
    assert agent.stop() == 0
    assert not has_heft(service.pid) and service.kept()[1] == 13
    service.end()


@pytest.mark.parametrize("options, message", [
    (["--attach-exe="], "needs the name of an executable"),
    (["--attach-exe=bin/server"], "with a slash it is compared with whole paths"),
    (["--sample=1M"], "--sample goes with --attach-exe"),
    (["--attach-exe=x", "--sample=1"], "--sample needs a size")])
def test_usage(options, message):
    said = run([HEFT, "agent", *options])
    assert said.returncode == 2 and message in " ".join(said.stderr.decode().split())
