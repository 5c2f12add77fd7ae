"""What another user of the machine tries against root's heft agent and other users' profiles."""

import http.client
import os
import re
import shutil
import threading
import time

import pytest

from harness import REPOSITORY, run, start, wait_until
from live_harness import fetch, session_env
from strangers import (BLOCK, HONEST, NEED_ROOT, STRANGER, SharedAgent, become, end_all, forge,  # noqa: F401
                       of_same_length, replace_in_log, service_program, shared_agent, status_of)

pytestmark = NEED_ROOT


@pytest.fixture
def both(shared_agent):
    """An honest program and one that attacks; afterwards the honest one is still served, and right."""
    honest, stranger = (shared_agent.service_of(uid) for uid in (HONEST, STRANGER))
    for service in (honest, stranger):
        service.do(f"keep 40 {BLOCK}")
        assert shared_agent.holds(service, 40)
    yield shared_agent, stranger
    assert shared_agent.process.poll() is None, shared_agent.log()
    assert shared_agent.holds(honest, 40)
    late = shared_agent.service_of(HONEST)
    late.do(f"keep 7 {BLOCK}")
    assert shared_agent.holds(late, 7)
    late.end("exit 0")
    assert shared_agent.ended(late.pid)[0] in ("exit status 0", "ended, status unknown")
    end_all(honest, stranger)


def test_a_session_file_is_cut_while_it_is_read(both):
    agent, stranger = both
    path = agent.session_file(stranger)
    size = path.stat().st_size
    cutter = start(["/usr/bin/python3", "-c", f"""
import os, time
fd = os.open({str(path)!r}, os.O_RDWR)
end = time.monotonic() + 3
while time.monotonic() < end:
    for n in (0, 4096, 100000, {size} // 2):
        os.ftruncate(fd, n)
        os.ftruncate(fd, {size})
"""], preexec_fn=become(STRANGER))
    while cutter.poll() is None:
        assert agent.get(f"{stranger.pid}/heap")[0] in (200, 403, 404, 500, 501, 503)
    cutter.communicate()


# Writes a program's file again and again, in parts, so that it is cut whenever somebody reads it. argv: the file.
REWRITER = """
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR)
whole = os.pread(fd, 1 << 24, 0)
end = time.monotonic() + 3
while time.monotonic() < end:
    for size in (0, 100, 4096, len(whole) // 2):
        os.ftruncate(fd, size)
        os.pwrite(fd, whole[size:], size)
"""


def that_names(agent, other):
    """A program of the stranger that says that its file is another one, before anybody has asked for its profile."""
    stranger = agent.service_of(STRANGER)
    stranger.do(f"keep 40 {BLOCK}")
    real = os.readlink(f"/proc/{stranger.pid}/exe")
    replace_in_log(agent.session_file(stranger), real.encode(), other.encode())
    return stranger


def test_a_program_file_is_cut_while_it_is_read(both):
    """Its size and time are others each time, so that nothing that was kept of it holds."""
    agent, _ = both
    other = of_same_length(agent.program)
    shutil.copy(agent.program, other)
    os.chown(other, STRANGER, STRANGER)
    try:
        writer = start(["/usr/bin/python3", "-c", REWRITER, other], preexec_fn=become(STRANGER))
        while writer.poll() is None:
            stranger = that_names(agent, other)
            for _ in range(3):
                assert agent.get(f"{stranger.pid}/heap")[0] in (200, 404, 503)
            end_all(stranger)
        writer.communicate()
    finally:
        os.unlink(other)


def test_modules_that_hang(both):
    """A FIFO that nobody writes to, a device, a directory: where a module's path leads."""
    agent, _ = both
    other = of_same_length(agent.program)
    for make in (os.mkfifo, os.mkdir, lambda p: os.symlink("/dev/tty", p), lambda p: os.symlink("/dev/zero", p)):
        make(other)
        try:
            stranger = that_names(agent, other)
            text = wait_until(lambda: shown(agent, stranger.pid), what="a profile")
            assert "heap profile: 40:" in text and "keep_block" not in text, text
            end_all(stranger)
        finally:
            os.rmdir(other) if os.path.isdir(other) else os.unlink(other)


@pytest.mark.parametrize("mode", [0o700, 0o711], ids=["private", "execute-only"])
def test_names_of_a_program_that_only_root_can_read(shared_agent, compiled, mode):
    """Shown neither to who names its path, nor to who may run it. Nothing was looked up and kept before."""
    agent = shared_agent
    stranger = agent.service_of(STRANGER)
    stranger.do(f"keep 40 {BLOCK}")
    real = os.readlink(f"/proc/{stranger.pid}/exe")
    folder = os.path.dirname(real)
    secret = folder[:-1] + ("x" if folder[-1] != "x" else "y")
    other = f"{secret}/{os.path.basename(real)}"
    os.mkdir(secret)
    os.chmod(secret, 0o755)
    shutil.copy(compiled("service.c"), other)
    os.chmod(other, mode)
    try:
        replace_in_log(agent.session_file(stranger), real.encode(), other.encode())
        text = wait_until(lambda: shown(agent, stranger.pid), what="a profile")
        assert "heap profile: 40:" in text and "keep_block" not in text, text
        if mode == 0o711:
            runs_it = agent.service_of(STRANGER, program=other)
            runs_it.do(f"keep 3 {BLOCK}")
            text = wait_until(lambda: shown(agent, runs_it.pid), what="a profile")
            assert "heap profile: 3:" in text and "keep_block" not in text, text
            end_all(runs_it)
    finally:
        shutil.rmtree(secret, ignore_errors=True)
    end_all(stranger)


def shown(agent, pid):
    status, body = agent.get(f"{pid}/heap?debug=1")
    return status == 200 and body.decode(errors="replace")


def test_symbols_are_kept_by_each_user_apart(both):
    agent, _ = both
    for uid in (HONEST, STRANGER):
        folder = agent.cache / "heft-agent" / str(uid)
        assert folder.stat().st_uid == uid and folder.stat().st_mode & 0o777 == 0o700
        found = [os.path.join(d, f) for d, _, files in os.walk(folder) for f in files]
        assert found and all(os.stat(f).st_uid == uid for f in found)


def saved_sizes(agent, uid):
    """On disk, of each saved recording of a user."""
    found = []
    for path in agent.output.glob("heft.*"):
        try:
            if path.stat().st_uid == uid:
                found.append(path.stat().st_blocks * 512)
        except FileNotFoundError:  # the agent has removed it
            pass
    return found


def test_forged_sessions_do_not_fill_the_output(tmp_path, public_heft, service_program):
    agent = SharedAgent(tmp_path, public_heft, service_program, ["--quota", "100k"])
    honest, stranger = (agent.service_of(uid) for uid in (HONEST, STRANGER))
    for service in (honest, stranger):
        service.do(f"keep 40 {BLOCK}")
        assert agent.holds(service, 40)
    honest.end("exit 0")
    saved = agent.ended(honest.pid)
    forge(agent, agent.session_file(stranger), STRANGER, 80)
    agent.wait_for_log(rf"user {STRANGER} has more than 100\.0 KiB of recordings in .*: the \d+ oldest")
    wait_until(lambda: len(agent.files()) == 1, what=f"all to be saved\n{agent.log()}")
    # What the last one makes too much is removed after it was saved.
    wait_until(lambda: sum(saved_sizes(agent, STRANGER)) <= 100 << 10, what=f"room\n{agent.log()}")
    assert saved_sizes(agent, HONEST) and saved[1]["totals"]["live_bytes"]
    assert not list(agent.output.glob(".saving*"))
    late = agent.service_of(HONEST)
    late.do(f"keep 9 {BLOCK}")
    assert agent.holds(late, 9)
    end_all(stranger, late)
    agent.close()


def test_one_user_does_not_take_all_places(tmp_path, public_heft, service_program):
    """With a low limit of open files there are 304 places, and one user gets half of what others leave."""
    limited = tmp_path / "heft"
    limited.write_text(f"#!/bin/sh\nulimit -n 560 && exec {public_heft} \"$@\"\n")
    limited.chmod(0o755)
    agent = SharedAgent(tmp_path, public_heft, service_program, heft_command=limited)
    agent.wait_for_log(r"the limit of open files \(560\) leaves room for 304 processes")
    sleepers = [start(["/usr/bin/sleep", "300"], env=session_env(agent.dir, library=agent.library),
                      preexec_fn=become(STRANGER)) for _ in range(170)]
    agent.wait_for_log(rf"there is no place for more processes of user {STRANGER}: 152 of 304 are taken, 152 of them")
    honest = agent.service_of(HONEST)
    honest.do(f"keep 40 {BLOCK}")
    assert agent.holds(honest, 40)
    text = wait_until(lambda: re.search(r"^heft_agent_refused_processes ([1-9]\d*)$", metrics(agent), re.M),
                      what="those without a place")
    assert int(text.group(1)) <= 170 - 152
    for sleeper in sleepers[:60]:
        sleeper.kill()
    for sleeper in sleepers[:60]:
        sleeper.communicate()
    wait_until(lambda: re.search(r"^heft_agent_refused_processes 0$", metrics(agent), re.M),
               what=f"places for all\n{agent.log()}")
    for sleeper in sleepers[60:]:
        sleeper.kill()
        sleeper.communicate()
    end_all(honest)
    agent.close()


def metrics(agent):
    return fetch(agent.url.replace("/debug/pprof/", "/metrics"))[1].decode()


def test_a_session_that_claims_to_be_another_process(shared_agent):
    """The same pid, the same program, other numbers: it hides neither the running process nor its last profile."""
    agent = shared_agent
    honest, stranger = (agent.service_of(uid) for uid in (HONEST, STRANGER))
    honest.do(f"keep 40 {BLOCK}")
    stranger.do(f"keep 3 {BLOCK}")
    assert agent.holds(honest, 40) and agent.holds(stranger, 3)
    forge(agent, agent.session_file(stranger), STRANGER, 1, first=honest.pid)
    agent.wait_for_log(rf"process {honest.pid} .*: ended, status unknown")
    shown_bytes = re.findall(rf'^heft_live_bytes{{pid="{honest.pid}",.*}} (\S+)$', metrics(agent), re.M)
    assert shown_bytes == [str(40 * BLOCK)]
    assert agent.holds(honest, 40)
    honest.end("exit 0")
    agent.wait_for_log(rf"process {honest.pid} .*: exit status 0|(process {honest.pid} .*: ended.*\n(.*\n)*){{2}}")
    assert agent.holds(honest, 40)
    end_all(stranger)


@pytest.mark.parametrize("depth, sites", [(100, 140000), (500000, 140000), (2000, 30000)],
                         ids=["wide", "deepest", "deep"])
def test_a_profile_without_end(both, compiled, depth, sites):
    """37,000 modules, a million nodes, sites at the ends of deep stacks: hundreds of megabytes, or no end at all. What
    its user gets is a profile or a refusal; the honest user is served meanwhile."""
    agent, stranger = both
    forger = compiled("forge_session.c", flags=[f"-I{REPOSITORY}/src"])
    done = run([forger, agent.session_file(stranger), depth, sites], preexec_fn=become(STRANGER))
    assert done.returncode == 0 and int(done.stdout) == sites
    answers = []

    def ask():
        try:
            answers.append(agent.get(f"{stranger.pid}/heap")[0])
        except (OSError, http.client.HTTPException):  # no whole answer within 30 s
            answers.append(503)
    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        late = agent.service_of(HONEST)
        late.do(f"keep 11 {BLOCK}")
        assert agent.holds(late, 11)
        end_all(late)
    asking.join()
    assert answers[0] in (200, 404, 409, 500, 503), answers


def test_thousands_of_files_do_not_hide_a_program(both):
    agent, _ = both
    flood = start(["/usr/bin/python3", "-c", f"""
import os, time
i = 0
while True:
    name = {str(agent.dir)!r} + "/%x.%x" % (100000 + i % 20000, i + 1)
    open(name, "w").close()
    i += 1
    if i > 20000:
        try:
            os.unlink({str(agent.dir)!r} + "/%x.%x" % (100000 + (i - 20000) % 20000, i - 20000 + 1))
        except FileNotFoundError:  # the agent may remove it
            pass
"""], preexec_fn=become(STRANGER))
    seen, end = 0, time.monotonic() + 4
    while seen < 2 or time.monotonic() < end:
        assert flood.poll() is None
        service = agent.service_of(HONEST)
        service.do(f"keep 3 {BLOCK}")
        assert agent.holds(service, 3)
        end_all(service)
        seen += 1
    flood.kill()
    flood.communicate()


# Asks for something on many connections and takes no more than the status of each answer. argv: host, port, path, how many.
# Prints how many were answered with which status, and stays.
TAKES_NOTHING = """
import collections, select, socket, sys, time
host, port, path, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
held = []
for i in range(count):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.connect((host, port))
    s.sendall(b"GET %s HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n" % (path.encode(), host.encode(), port))
    held.append(s)
seen = collections.Counter()
for s in held:
    s.settimeout(60)
    seen[s.recv(12).split()[1].decode()] += 1
print(*(f"{k}:{v}" for k, v in sorted(seen.items())), flush=True)
time.sleep(60)
"""


def shown_in_time(agent, pid):
    try:
        return shown(agent, pid)
    except OSError:  # no answer within 30 s
        return None


def test_large_answers_that_nobody_takes(both, compiled):
    """A profile of 12 MB, asked for on 80 connections: the server would hold it 80 times, for ten minutes."""
    agent, stranger = both
    forger = compiled("forge_session.c", flags=[f"-I{REPOSITORY}/src"])
    assert run([forger, agent.session_file(stranger), 60, 4000, 200], preexec_fn=become(STRANGER)).returncode == 0
    text = wait_until(lambda: shown_in_time(agent, stranger.pid), what="the profile")
    assert 8 << 20 < len(text) < 20 << 20, len(text)
    server, = agent.children("heft-server")
    before = own_memory(server)
    host, port = agent.url.split("/")[2].split(":")
    taker = start(["/usr/bin/python3", "-c", TAKES_NOTHING, host, port, f"/debug/pprof/{stranger.pid}/heap?debug=1", 80],
                  preexec_fn=become(STRANGER))
    try:
        seen = dict(pair.split(b":") for pair in taker.stdout.readline().split())
        late = agent.service_of(HONEST)
        late.do(f"keep 11 {BLOCK}")
        assert agent.holds(late, 11)
        end_all(late)
        grown = own_memory(server) - before
        most = (256 << 20) // len(text) + 4  # some fit into the kernel's buffers
        assert 1 <= int(seen[b"200"]) <= most and int(seen[b"503"]) >= 80 - most, (seen, len(text))
        assert grown < 512 << 20, grown  # copies on their way are not counted
    finally:
        taker.kill()
        taker.communicate()
    assert wait_until(lambda: shown_in_time(agent, stranger.pid), what="the profile again")


def own_memory(pid):
    return int(status_of(pid)["RssAnon"].split()[0]) << 10
