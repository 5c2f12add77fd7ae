"""heft agent: programs that nobody started with heft, served while they run and saved when they end.
Blocks are so much larger than the rate that every one is sampled: what comes out is exact."""

import fcntl
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import time

import pytest

from harness import HEFT, REPOSITORY, go_pprof, report, run, start, wait_until
from live_harness import LIBRARY, Agent, agent, fetch, live_in, session_env  # noqa: F401

BLOCK = 300000


# ---- while they run


def test_c_program(agent, compiled):
    service = agent.service(compiled("service.c"))
    service.do(f"keep 200 {BLOCK}")
    service.do(f"pass 50 {BLOCK}")
    heap = agent.heap(service.pid)
    assert live_in(heap, "keep_block") == (200 * BLOCK, 200)
    allocs = agent.heap(service.pid, "allocs").sites_calling("keep_block")
    assert sum(s["allocations"] for s in allocs) == 250
    service.do(f"keep 100 {BLOCK}")
    assert live_in(agent.heap(service.pid), "keep_block") == (300 * BLOCK, 300)
    assert service.end() == 0


def test_top_of_an_agents_process(agent, compiled):
    """There is no recording to read: what the process has is read from its session file."""
    service = agent.service(compiled("service.c"))
    service.do(f"keep 200 {BLOCK}")
    shown = run([HEFT, "top", "--once", str(service.pid)])
    assert shown.returncode == 0, shown.stderr
    text = shown.stdout.decode()
    assert re.search(r"  running ", text.splitlines()[0])
    assert re.search(r"^live 57M .* blocks 200$", text, re.M)  # 200 * 300,000 bytes
    assert "service.c" in text
    assert f"Next: heft view {service.pid}" in text
    assert service.end() == 0
    gone = run([HEFT, "top", "--once", str(service.pid)])
    assert gone.returncode == 1 and gone.stdout == b""


@pytest.mark.parametrize("command, function", [
    (["/usr/bin/python3", "-c", "kept = [bytearray(200000) for i in range(100)]\n"
      "print('ready', flush=True)\ninput()"], "bytearray"),
    (["/usr/bin/perl", "-e", "$| = 1; my @kept = map { 'x' x (200000 + $_) } 1 .. 100;"
      " print \"ready\\n\"; <STDIN>;"], "Perl")], ids=["python3", "perl"])
def test_interpreters(agent, command, function):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not here")
    program = agent.start(command, stdin=subprocess.PIPE)
    assert program.stdout.readline() == b"ready\n"
    heap = agent.heap(program.pid)
    assert 100 * 200000 <= heap["totals"]["live_bytes"] < 100 * 200000 * 1.3
    assert function in heap.everything()
    program.communicate(b"\n", timeout=30)
    how, saved = agent.ended(program.pid)
    assert (how, saved["exit_status"]) == ("exit status 0", 0)


def test_go_tool_pprof(agent, compiled):
    service = agent.service(compiled("service.c"))
    service.do(f"keep 200 {BLOCK}")
    agent.heap(service.pid)
    done = go_pprof(agent.where, "-top", "-unit=B", f"{agent.url}{service.pid}/heap")
    assert done.returncode == 0, done.stderr
    shown = done.stdout.decode()
    top = [line.split() for line in shown.splitlines() if "keep_block" in line]
    assert top and top[0][0] == f"{200 * BLOCK}B", shown
    service.end()


def test_a_program_asks_for_its_own_profile(agent, compiled):
    """examples/pprof_server.c: heft_pprof_dump is answered by the agent."""
    server = compiled(REPOSITORY / "examples" / "pprof_server.c",
                      flags=[f"-I{REPOSITORY}/include"])
    program = agent.start([server, "0"])
    port = program.stdout.readline().split(b":")[-1].split(b"/")[0].split()[0].decode()
    agent.heap(program.pid)  # the agent knows it: it answers
    subprocess.run(["curl", "-s", f"127.0.0.1:{port}/work?n=100000"], check=True, timeout=30,
                   capture_output=True)
    path = agent.where / "own.pb.gz"
    subprocess.run(["curl", "-sf", "-o", path, f"127.0.0.1:{port}/debug/pprof/heap"], check=True,
                   timeout=60)
    assert report(path).sites_calling("work")
    program.kill()
    program.communicate()


def test_prefork_server(agent, compiled):
    service = agent.service(compiled("service.c"))
    service.do(f"keep 77 {BLOCK}")
    pids = [int(p) for p in service.do("workers 5")[1:]]
    for i, pid in enumerate(pids, 1):
        wait_until(lambda n=i, child=pid: live_in(agent.heap(child), "keep_block") ==
                   (n * 100 * 100000, n * 100), what=f"worker {i}")
    assert live_in(agent.heap(service.pid), "keep_block") == (77 * BLOCK, 77)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for i, pid in enumerate(pids, 1):
        how, saved = agent.ended(pid)
        assert how == "killed by signal 9 (SIGKILL)"
        assert live_in(saved, "keep_block") == (i * 100 * 100000, i * 100)
    service.end()


def test_an_empty_argument(agent):
    command = ["/bin/sh", "-c", "echo ready; read line", "sh", "", "last"]
    program = agent.start(command, stdin=subprocess.PIPE)
    assert program.stdout.readline() == b"ready\n"
    wanted = "\0".join(command).encode()
    wait_until(lambda: agent.get(f"{program.pid}/cmdline") == (200, wanted), what="the command line")
    program.communicate(b"\n", timeout=30)


def test_peak_rss_is_at_least_what_was_seen(agent, compiled):
    """The agent asks the kernel about once a second. What came later, it cannot know."""
    service = agent.service(compiled("service.c"))
    service.do(f"keep 200 {BLOCK}")
    metrics = agent.url.replace("/debug/pprof/", "/metrics")
    wait_until(lambda: f'heft_rss_bytes{{pid="{service.pid}"' in fetch(metrics)[1].decode(), what="its RSS")
    assert service.end() == 0
    path = agent.wait_for_log(rf"process {service.pid} .*; its last profile: (\S+)").group(1)
    shown = run([HEFT, "report", path]).stdout.decode()
    assert re.search(r"^  peak RSS      at least \d", shown, re.M), shown


def test_the_variables_of_programs_are_said(agent):
    said = agent.wait_for_log(r"LD_PRELOAD=(\S+) HEFT_SAMPLE=512k")
    assert os.path.samefile(said.group(1), LIBRARY)


def test_metrics(agent, compiled):
    service = agent.service(compiled("service.c"))
    service.do(f"keep 10 {BLOCK}")
    agent.heap(service.pid)

    def is_there():
        text = fetch(agent.url.replace("/debug/pprof/", "/metrics"))[1].decode()
        lines = [line for line in text.splitlines() if f'pid="{service.pid}"' in line]
        return any("live_bytes" in line and float(line.split()[-1]) >= 10 * BLOCK for line in lines)
    wait_until(is_there, what="what it has")
    service.end()


# ---- when they end


@pytest.mark.parametrize("order, sig, how", [
    ("exit 7", None, "exit status 7"), ("_exit 3", None, "exit status 3"),
    ("abort", None, "killed by signal 6 (SIGABRT)"),
    (None, signal.SIGKILL, "killed by signal 9 (SIGKILL)"),
    (None, signal.SIGTERM, "killed by signal 15 (SIGTERM)")])
def test_last_profile(agent, compiled, order, sig, how):
    service = agent.service(compiled("service.c"))
    service.do(f"keep 123 {BLOCK}")
    agent.heap(service.pid)
    service.end(order, sig)
    said, saved = agent.ended(service.pid)
    assert said == how
    assert saved["mode"] == "sample" and saved["pid"] == service.pid
    assert (saved["end"], saved["exit_status"]) == (
        ("signal", 0) if "signal" in how else ("exit", int(how.split()[-1])))
    assert live_in(saved, "keep_block") == (123 * BLOCK, 123)
    assert live_in(agent.heap(service.pid), "keep_block") == (123 * BLOCK, 123)
    assert run([HEFT, "verify", saved.path]).returncode == 0
    assert os.path.basename(saved.path) == f"heft.service.{service.pid}.heft"
    assert os.stat(saved.path).st_mode & 0o777 == 0o600
    agent.no_files()
    index = agent.get("")[1].decode()
    assert how in index


def test_killed_at_random_moments(agent, compiled, tmp_path):
    """The last profile parses, served and saved, and agrees with the program's own tally."""
    program, rng = compiled("service.c"), random.Random(5)
    for i in range(100):
        tally = tmp_path / f"tally{i}"
        service = agent.service(program, rate="64k")
        service.tell(f"grow {tally}")
        limit = rng.randrange(20, 400)  # a program without a sample has no profile to save
        wait_until(lambda t=tally, n=limit: t.exists() and t.stat().st_size == 4096 and
                   struct.unpack("<QQ", t.read_bytes()[:16])[1] > n, what="growth")
        service.end(sig=signal.SIGKILL)
        live, blocks = struct.unpack("<QQ", tally.read_bytes()[:16])
        saved = agent.ended(service.pid)[1]
        sites = saved.sites_calling("grow_block")
        estimate = sum(s["live_bytes"] for s in sites)
        error = sum(s["live_bytes_error95"] ** 2 for s in sites) ** 0.5
        # 5 standard errors, which 100 rounds in a row keep to but for one in 20,000, and the one block
        # that it may have been at work on.
        assert abs(estimate - live) <= 5 / 1.96 * error + 100000, blocks
        assert abs(live_in(agent.heap(service.pid), "grow_block")[0] - estimate) <= len(sites)


def test_exec(agent, compiled):
    program = compiled("service.c")
    service = agent.service(program)
    service.do(f"keep 11 {BLOCK}")
    agent.heap(service.pid)
    service.tell(f"exec {program}")
    service.do(f"keep 22 {BLOCK}")
    how, saved = agent.ended(service.pid)
    assert how == "became another program"
    assert live_in(saved, "keep_block") == (11 * BLOCK, 11)
    assert live_in(agent.heap(service.pid), "keep_block") == (22 * BLOCK, 22)
    service.end("exit 0")
    agent.wait_for_log(rf"process {service.pid} .*exit status 0; .*heft.service.{service.pid}.1.heft")
    assert len(list(agent.output.iterdir())) == 2  # the second one beside the first


def test_keep_says_how_many_stay(tmp_path, compiled):
    agent = Agent(tmp_path, ["--keep", "2", "--keep", "10m"])  # noqa: F811
    pids = []
    for _ in range(4):
        service = agent.service(compiled("service.c"))
        service.do(f"keep 10 {BLOCK}")
        service.end("exit 0")
        agent.ended(service.pid)
        pids.append(service.pid)
    wait_until(lambda: agent.get(f"{pids[0]}/heap")[0] == 404 and
               agent.get(f"{pids[1]}/heap")[0] == 404, what="the oldest two are gone")
    assert [agent.get(f"{pid}/heap")[0] for pid in pids[2:]] == [200, 200]
    assert len(list(agent.output.iterdir())) == 4
    agent.close()


def test_nothing_is_saved_of_a_program_without_samples(agent):
    agent.start(["/bin/true"], rate="1G").communicate(timeout=30)
    wait_until(lambda: not agent.files(), what="its session file is gone")
    assert not list(agent.output.iterdir())


# ---- agents that come and go


def test_dead_before_the_agent_started(tmp_path, compiled):
    agent = Agent(tmp_path)  # noqa: F811
    agent.stop()
    service = agent.service(compiled("service.c"))
    service.do(f"keep 50 {BLOCK}")
    service.end(sig=signal.SIGKILL)
    assert len(agent.files()) == 1
    agent.begin()
    how, saved = agent.ended(service.pid)
    assert how == "ended, status unknown"
    assert live_in(saved, "keep_block") == (50 * BLOCK, 50)
    assert live_in(agent.heap(service.pid), "keep_block") == (50 * BLOCK, 50)
    agent.no_files()
    agent.close()


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_agent_is_started_again(agent, compiled, sig):
    service = agent.service(compiled("service.c"))
    service.do(f"keep 50 {BLOCK}")
    agent.heap(service.pid)
    agent.stop(sig)
    service.do(f"keep 50 {BLOCK}")
    agent.begin()
    assert live_in(agent.heap(service.pid), "keep_block") == (100 * BLOCK, 100)
    service.end("exit 5")
    assert agent.ended(service.pid)[0] == "exit status 5"


def test_one_agent_a_directory(agent):
    second = run([HEFT, "agent", "--dir", agent.dir, "--listen", "127.0.0.1:0"])
    assert second.returncode == 1
    assert b"another agent has the session directory" in second.stderr


def test_busy_port_is_named(agent, tmp_path):
    port = agent.url.split(":")[2].split("/")[0]
    second = run([HEFT, "agent", "--dir", tmp_path, "--listen", f"127.0.0.1:{port}",
                  "--output-dir", tmp_path])
    assert second.returncode == 1
    assert port.encode() in second.stderr


@pytest.mark.parametrize("options, words", [
    (["--keep", "often"], b"--keep needs"), (["--listen", "nowhere:x"], b"--listen needs"),
    (["extra"], b"unexpected argument 'extra'")])
def test_wrong_usage(tmp_path, options, words):
    done = run([HEFT, "agent", "--dir", tmp_path, "--output-dir", tmp_path, *options])
    assert done.returncode == 2 and words in done.stderr


# ---- hostile directories


def session_file_facts(agent, compiled):
    """The size of a session file, and how it begins: what it is, and its version."""
    service = agent.service(compiled("service.c"))
    service.do(f"keep 1 {BLOCK}")
    path = agent.dir / wait_until(agent.files, what="a session file")[0]
    size = path.stat().st_size
    with open(path, "rb") as f:
        begin = f.read(12)
    assert begin.startswith(b"HEFTSSES"), begin
    service.end("exit 0")
    agent.ended(service.pid)
    return size, begin


def make_garbage(directory, size, begin):
    rng = random.Random(7)
    for i in range(3000):
        (directory / f"{i + 70000:x}.{i:x}").write_bytes(b"")
    for i, length in enumerate((1, 4096, size - 1, size + 1)):
        with open(directory / f"{i + 80000:x}.1", "wb") as f:
            f.truncate(length)
    with open(directory / "90000.1", "wb") as f:
        f.truncate(size)
    for i in range(40):  # a header that looks right, and nonsense
        with open(directory / f"{i + 90001:x}.{rng.getrandbits(60):x}", "wb") as f:
            f.truncate(size)
            f.write(rng.randbytes(40 << 10))
            for _ in range(200):
                f.seek(rng.randrange(40 << 10, size - 4096))
                f.write(rng.randbytes(4096))
            f.seek(0)
            f.write(begin + struct.pack("<I", rng.randrange(2)))
            f.seek(48)
            f.write(struct.pack("<I", 1))
    os.symlink("/etc/passwd", directory / "aaaa.1")
    os.symlink(directory / "90000.1", directory / "aaaa.2")
    os.mkfifo(directory / "aaaa.3")
    (directory / "aaaa.4").mkdir()
    for name in ("..x", "%s%n", "a b", "zz.1", "1.2.3", "ffffffffffffffff.1", "-1.1", "0.0"):
        (directory / name).write_bytes(b"x" * 100)


def test_hostile_directory(agent, compiled):
    make_garbage(agent.dir, *session_file_facts(agent, compiled))
    service = agent.service(compiled("service.c"))
    service.do(f"keep 40 {BLOCK}")
    assert live_in(agent.heap(service.pid), "keep_block") == (40 * BLOCK, 40)
    assert agent.get("")[0] == 200
    service.end("exit 0")
    assert agent.ended(service.pid)[0] == "exit status 0"
    status = (agent.where / "status")
    status.write_text(open(f"/proc/{agent.process.pid}/status").read())
    anonymous = [line for line in status.read_text().splitlines() if "RssAnon" in line][0]
    assert int(anonymous.split()[1]) < 300 << 10
    assert (agent.dir / "aaaa.1").is_symlink() and (agent.dir / "zz.1").exists()
    for path in agent.output.glob("[!.]*"):
        assert path.name.startswith("heft.") and path.name.endswith(".heft")


def test_a_file_is_cut_while_it_is_read(agent, compiled):
    """Touching what is gone is a SIGBUS, which the agent has to survive."""
    service = agent.service(compiled("service.c"))
    service.do(f"keep 40 {BLOCK}")
    agent.heap(service.pid)
    spoilt = agent.dir / agent.files()[0]
    os.kill(service.pid, signal.SIGSTOP)
    with open(spoilt, "r+b") as f:
        f.truncate(0)
    agent.wait_for_log(f"process {service.pid} wrote over the memory")
    assert agent.get(f"{service.pid}/heap")[0] == 404
    os.kill(service.pid, signal.SIGKILL)
    service.end(sig=signal.SIGKILL)
    other = agent.service(compiled("service.c"))
    other.do(f"keep 30 {BLOCK}")
    assert live_in(agent.heap(other.pid), "keep_block") == (30 * BLOCK, 30)
    other.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_another_users_program(agent, compiled, public_heft):
    program = agent.start([compiled("service.c")], stdin=subprocess.PIPE,
                          library=public_heft.with_name("libheft-preload.so"),
                          preexec_fn=lambda: os.setuid(65534))
    program.stdin.write(f"keep 60 {BLOCK}\nexit 0\n".encode())
    program.communicate(timeout=30)
    how, saved = agent.ended(program.pid)
    assert live_in(saved, "keep_block") == (60 * BLOCK, 60)
    st = os.stat(saved.path)
    assert (st.st_uid, st.st_mode & 0o777) == (65534, 0o600), how


def test_a_process_in_another_pid_namespace(agent, compiled):
    """In a container a process knows itself by another number: it is found by its mapping."""
    if run(["unshare", "--pid", "--fork", "true"]).returncode:
        pytest.skip("no pid namespaces here")
    program = agent.start(["unshare", "--pid", "--fork", "--kill-child", compiled("service.c")],
                          stdin=subprocess.PIPE)
    program.stdin.write(f"keep 60 {BLOCK}\n".encode())
    program.stdin.flush()
    assert program.stdout.readline().startswith(b"kept")
    inner = wait_until(lambda: open(f"/proc/{program.pid}/task/{program.pid}/children").read().split(),
                       what="the inner process")[0]
    assert live_in(agent.heap(int(inner)), "keep_block") == (60 * BLOCK, 60)
    program.communicate(b"exit 4\n", timeout=30)
    assert agent.ended(int(inner))[0] == "exit status 4"


def test_session_env_is_what_the_manual_says():
    page = (REPOSITORY / "man" / "heft-agent.1").read_text()
    for name in session_env("/x"):
        assert name in page


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_nothing_is_lost_if_it_cannot_be_saved(agent, compiled):
    """The session file stays, the profile is served, and the next agent saves it."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", agent.output], timeout=30,
                      check=False, capture_output=True).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        service = agent.service(compiled("service.c"))
        service.do(f"keep 70 {BLOCK}")
        agent.heap(service.pid)
        service.end("exit 0")
        agent.wait_for_log(rf"process {service.pid} .* cannot be saved: .*Read-only file system")
        assert live_in(agent.heap(service.pid), "keep_block") == (70 * BLOCK, 70)
        assert len(agent.files()) == 1
    finally:
        subprocess.run(["umount", "--lazy", agent.output], timeout=30, check=True)  # the agent may just be trying again
    agent.stop()
    agent.begin()
    assert live_in(agent.ended(service.pid)[1], "keep_block") == (70 * BLOCK, 70)
    agent.no_files()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_an_agent_of_a_user(compiled, tmp_path, public_heft):
    """Without options it has the user's own places."""
    home = tmp_path / "home"
    home.mkdir()
    tmp_path.chmod(0o755)
    for parent in list(tmp_path.parents)[:2]:
        parent.chmod(parent.stat().st_mode | 0o011)
    os.chown(home, 65534, 65534)
    env = {"HOME": str(home), "XDG_RUNTIME_DIR": str(home), "XDG_CACHE_HOME": str(home)}

    def as_user():
        os.setgroups([])
        os.setuid(65534)
    log = tmp_path / "user.log"
    with open(log, "wb") as out:
        agent = start([public_heft, "agent", "--listen", ":0"], env=env, stderr=out,  # noqa: F811
                      preexec_fn=as_user)
    wait_until(lambda: b"serving" in log.read_bytes(), what=f"it serves: {log.read_bytes()}")
    assert (home / "heft").stat().st_mode & 0o7777 == 0o700
    library = public_heft.with_name("libheft-preload.so")
    program = start([compiled("service.c")], env=session_env(home / "heft", library=library),
                    stdin=subprocess.PIPE, preexec_fn=as_user)
    program.communicate(f"keep 60 {BLOCK}\nexit 0\n".encode(), timeout=30)
    saved = home / ".local" / "state" / "heft" / f"heft.service.{program.pid}.heft"
    wait_until(saved.exists, what=log.read_text())
    wait_until(lambda: not [p for p in (home / "heft").iterdir() if "spare" not in p.name],
               what="it is saved")
    assert live_in(report(saved), "keep_block") == (60 * BLOCK, 60)
    agent.terminate()
    agent.communicate(timeout=30)
    assert agent.returncode == 0


def test_nobody_reads_the_log(compiled, tmp_path):
    """heft agent | head -1: what reads the log is gone. The agent is not."""
    agent = start([HEFT, "agent", "-v", "--dir", tmp_path / "run", "--output-dir", tmp_path,  # noqa: F811
                   "--listen", "127.0.0.1:0"])
    assert any(b"serving" in line for line in agent.stderr)
    agent.stderr.close()
    program = start([compiled("service.c")], env=session_env(tmp_path / "run"), stdin=subprocess.PIPE)
    program.communicate(f"keep 60 {BLOCK}\nexit 0\n".encode(), timeout=30)
    saved = tmp_path / f"heft.service.{program.pid}.heft"
    wait_until(saved.exists, what="the recording, although nobody can be told")
    agent.terminate()
    assert agent.wait(timeout=30) == 0
    agent.stdout.close()


def test_files_that_somebody_only_holds_open(agent, compiled):
    """They have no process that can be seen: they are left alone, and nobody waits for them."""
    size, begin = session_file_facts(agent, compiled)
    held = []
    for i in range(50):
        f = open(agent.dir / f"{i + 1000000:x}.5", "w+b", buffering=0)
        held.append(f)
        f.truncate(size)
        f.seek(48)
        f.write(struct.pack("<I", 1))
        f.seek(0)
        f.write(begin + struct.pack("<I", 0))
    agent.wait_for_log("in use by a process that cannot be seen")
    service = agent.service(compiled("service.c"))
    service.do(f"keep 40 {BLOCK}")
    assert live_in(agent.heap(service.pid), "keep_block") == (40 * BLOCK, 40)
    service.end("exit 0")
    agent.ended(service.pid)
    wait_until(lambda: len(agent.files()) == 50, what="only its own file is removed")
    for f in held:
        f.close()


def test_files_that_nobody_can_open_hold_nothing_up(agent, compiled):
    """A lease makes whoever opens the file wait for its owner, up to 45 s. A FIFO waits for its other end."""
    leased = agent.dir / "7ffffff0.1"
    with open(leased, "wb") as file:
        file.truncate(1 << 20)
    holder = os.open(leased, os.O_RDWR)
    fcntl.fcntl(holder, fcntl.F_SETSIG, signal.SIGURG)  # told of each try, and does nothing
    fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    os.mkfifo(agent.dir / "7ffffff1.1")
    began = time.monotonic()
    service = agent.service(compiled("service.c"))
    service.do(f"keep 20 {BLOCK}")
    assert live_in(agent.heap(service.pid), "keep_block") == (20 * BLOCK, 20)
    service.end()
    agent.ended(service.pid)
    assert time.monotonic() - began < 30
    fcntl.fcntl(holder, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    os.close(holder)
    leased.unlink()
    (agent.dir / "7ffffff1.1").unlink()


def test_a_name_with_leading_zeros_is_no_session(agent, compiled):
    """It would pass for the file of another process, which a restarted agent would remove."""
    service = agent.service(compiled("service.c"))
    service.do(f"keep 20 {BLOCK}")
    (own,) = agent.files()
    alias = agent.dir / ("0" + os.path.basename(own))
    shutil.copyfile(agent.dir / os.path.basename(own), alias)
    agent.stop()
    agent.begin()
    assert live_in(agent.heap(service.pid), "keep_block") == (20 * BLOCK, 20)
    assert (agent.dir / os.path.basename(own)).exists()
    alias.unlink()
    service.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_a_directory_of_another_user_is_refused(tmp_path):
    os.chown(tmp_path, 65534, 65534)
    done = run([HEFT, "agent", "--dir", tmp_path, "--listen", ":0", "--output-dir", tmp_path / "out"])
    assert done.returncode == 1 and b"belongs to another user" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
@pytest.mark.parametrize("owner, mode, refused", [(65534, 0o755, True), (0, 0o777, True), (0, 0o1777, False)])
def test_a_folder_for_recordings_that_others_can_change_is_refused(tmp_path, owner, mode, refused):
    """Its owner could put a link in its place, and root would write where that leads."""
    folder = tmp_path / "out"
    folder.mkdir()
    os.chown(folder, owner, owner)
    folder.chmod(mode)
    agent = start([HEFT, "agent", "--dir", tmp_path / "sessions", "--output-dir", folder, "--listen", "127.0.0.1:0"])
    said = next((line for line in agent.stderr if any(w in line for w in (b"serving", b"belongs to", b"remove"))), b"")
    if b"serving" in said:
        agent.terminate()
    agent.communicate(timeout=60)
    assert (agent.returncode, b"serving" in said) == ((1, False) if refused else (0, True)), said


@pytest.mark.parametrize("mode, refused", [(0o777, True), (0o770, True), (0o1777, False), (0o755, False)])
def test_a_directory_from_which_others_may_remove_files(tmp_path, mode, refused):
    folder = tmp_path / "sessions"
    folder.mkdir()
    folder.chmod(mode)
    agent = start([HEFT, "agent", "--dir", folder, "--output-dir", tmp_path / "out", "--listen", "127.0.0.1:0"])
    said = next((line for line in agent.stderr if b"serving" in line or b"chmod +t " in line), b"")
    if b"serving" in said:
        agent.terminate()
    agent.communicate(timeout=60)
    assert (agent.returncode, b"serving" in said) == ((1, False) if refused else (0, True)), said
