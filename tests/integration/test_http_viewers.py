"""Who may see whose processes: tokens with a user, and a Unix socket whose callers the kernel knows. The processes
of the first part are made up (tests/unit/serve_fake.c): 100 and 300 belong to user 1000, 200 to user 1001."""

import contextlib
import os
import re
import select
import socket
import stat
import subprocess
import sys

import pytest

from harness import HEFT, run, wait_until
from http_harness import SERVER, serving
from live_harness import Agent, fetch

ALL, FIRST, SECOND, NOBODY = ("all-" + "0" * 28, "first-" + "1" * 26, "second-" + "2" * 25, "none-" + "3" * 27)
OWNERS = "owners=1000,1001,1000,1000"
STRANGER = 65534


def bearer(token):
    return "-H", f"Authorization: Bearer {token}"


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# who may see what\n{ALL}\n\n{FIRST} uid=1000\n{SECOND}\tuid=1001\n{NOBODY} uid=7\n")
    path.chmod(0o600)
    return path


def pids_in(text):
    return {int(pid) for pid in re.findall(r'pid="(\d+)"', text)}


def test_a_token_sees_its_user(tokens):
    with serving("many", OWNERS, f"tokens={tokens}") as server:
        for token, seen in ((ALL, {100, 200, 300}), (FIRST, {100, 300}), (SECOND, {200}), (NOBODY, set())):
            who = bearer(token)
            assert pids_in(server.text("/metrics", *who)) == seen
            index = server.text("/debug/pprof/", *who)
            assert {int(pid) for pid in re.findall(r'<td class="n">(\d+)</td><td title', index)} == seen
            assert ("No process is being profiled" in index) == (not seen)
            for pid in (100, 200, 300):
                for path in (f"{pid}/heap", f"heap?pid={pid}", f"{pid}/allocs?debug=1", f"{pid}/cmdline",
                             f"{pid}/symbol?0x1010", f"{pid}/heap?seconds=1"):
                    if path.endswith("seconds=1") and pid in seen:
                        continue
                    status, _, body = server.curl(f"/debug/pprof/{path}", *who)
                    assert status == (200 if pid in seen else 404), (token, path)
                    if pid not in seen:  # word for word what a process that is not there gets
                        missing = server.curl(f"/debug/pprof/{path.replace(str(pid), '77')}", *who)[2]
                        assert body == missing.replace(b"77", str(pid).encode())
        # Of one's own processes one runs: no pid is needed. The others' do not make it ambiguous.
        assert "pid 100\n" in server.text("/debug/pprof/heap?debug=1", *bearer(FIRST))
        assert "pid 200\n" in server.text("/debug/pprof/heap?debug=1", *bearer(SECOND))
        assert server.text("/debug/pprof/heap", *bearer(NOBODY), status=404) == "no process is being profiled\n"
        assert "/debug/pprof/200/heap" in server.text("/debug/pprof/heap", *bearer(ALL), status=409)
        assert server.curl("/metrics")[0] == 401
        assert server.curl("/metrics", *bearer(FIRST + " uid=1000"))[0] == 403
        # The other ways to send a token have the same rights.
        assert server.curl(f"/debug/pprof/200/heap?token={FIRST}")[0] == 404
        assert server.curl("/debug/pprof/200/heap", "-u", f"root:{FIRST}")[0] == 404
        assert server.curl("/debug/pprof/200/heap", "-u", f"x:{SECOND}")[0] == 200


def test_a_token_switches_its_users_processes(tokens):
    with serving("many", OWNERS, f"tokens={tokens}") as server:
        def switch(pid, token):
            return server.curl(f"/debug/pprof/control?pid={pid}&sample=off", "-X", "POST", *bearer(token))[0]
        assert switch(200, FIRST) == 404
        assert switch(100, SECOND) == 404
        assert server.curl("/debug/pprof/200/heap", *bearer(ALL))[0] == 200
        assert switch(100, FIRST) == 200
        assert server.curl("/debug/pprof/100/heap", *bearer(ALL))[0] == 403  # off
        assert switch(200, ALL) == 200
        assert server.curl("/debug/pprof/200/heap", *bearer(SECOND))[0] == 403


def test_a_user_cannot_take_all_differences(tokens):
    """Each seconds=N holds a profile: there are 64 of them at once, and a user has 16."""
    with serving("many", OWNERS, f"tokens={tokens}") as server, contextlib.ExitStack() as stack:
        def begin(pid, token):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            connection.sendall(f"GET /debug/pprof/{pid}/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n"
                               f"Authorization: Bearer {token}\r\n\r\n".encode())
            return connection
        held = [begin(100, FIRST) for _ in range(40)]
        answered = wait_until(lambda: len(a := select.select(held, [], [], 0)[0]) >= 24 and a, what="24 refusals")
        assert len(answered) == 24
        for connection in answered:
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503 ") and b"Retry-After: 10\r\n" in answer
        assert server.curl("/debug/pprof/200/heap?seconds=1", *bearer(SECOND))[0] == 200
        assert server.curl("/debug/pprof/100/heap?seconds=1", *bearer(ALL))[0] == 200
        for connection in held:
            connection.close()
        # The server sees that they are gone.
        wait_until(lambda: server.curl("/debug/pprof/100/heap?seconds=1", *bearer(FIRST))[0] == 200, what="room")


def test_bad_token_files(tmp_path):
    """A message says which line, and never what stands there."""
    path = tmp_path / "tokens"
    for text, words in ((f"{ALL}\n{FIRST} uid=root\n", "line 2 of"), (f"{ALL} uid=1\n{ALL}\n", "line 2 of"),
                        (f"{FIRST} 1000\n", "line 1 of"), ("# none\n", "there is no token"),
                        (f"\n\n{FIRST[:15]}\n", "line 3 of")):
        path.write_text(text)
        path.chmod(0o600)
        done = run([HEFT, "agent", "--dir", tmp_path / "dir", "--output-dir", tmp_path / "out", "--listen",
                    "127.0.0.1:0", "--token-file", path])
        assert done.returncode == 1 and words in done.stderr.decode(), done.stderr
        assert ALL not in done.stderr.decode() and FIRST[:15] not in done.stderr.decode()


# ---- the Unix socket

def ask(path, request="/metrics", user=None, head="Host: whatever\r\n", method="GET"):
    """(status, text) of a request on a Unix socket, as another user."""
    code = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1]);"
            "s.sendall(sys.argv[2].encode());\n"
            "while True:\n d = s.recv(65536)\n if not d: break\n sys.stdout.buffer.write(d)")

    def become():
        if user is not None:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)

    text = f"{method} {request} HTTP/1.1\r\n{head}Connection: close\r\n\r\n"
    done = run([sys.executable, "-c", code, path, text], preexec_fn=become)
    assert done.returncode == 0, done.stderr.decode()
    head, _, body = done.stdout.decode().partition("\r\n\r\n")
    return int(head.split()[1]), body


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")


@pytest.fixture
def open_path(tmp_path):
    """A path that every user can reach."""
    folder = tmp_path
    while folder.stat().st_uid == os.geteuid() and folder != folder.parent:
        folder.chmod(folder.stat().st_mode | 0o711)
        folder = folder.parent
    return tmp_path / "heft.sock"


def test_the_socket_knows_its_caller(open_path):
    me = os.geteuid()
    with serving("many", f"owners={me or 5},{me + 1},{me or 5},{me or 5}", f"socket={open_path}") as server:
        seen = {100, 200, 300} if me == 0 else {100, 300}
        assert pids_in(ask(open_path)[1]) == seen
        assert stat.S_ISSOCK(open_path.stat().st_mode)
        assert open_path.stat().st_mode & 0o777 == 0o666
        assert pids_in(server.text("/metrics")) == {100, 200, 300}  # the port has no token
    assert not open_path.exists()


@needs_root
def test_the_socket_knows_other_users(open_path, tokens):
    with serving("many", OWNERS, f"tokens={tokens}", f"socket={open_path}") as server:
        for user, seen in ((0, {100, 200, 300}), (1000, {100, 300}), (1001, {200}), (STRANGER, set())):
            status, text = ask(open_path, user=user)
            assert (status, pids_in(text)) == (200, seen)
            for pid in (100, 200, 300):
                assert ask(open_path, f"/debug/pprof/{pid}/heap?debug=1", user)[0] == (200 if pid in seen else 404)
        # It may switch what is its own. A token says more than the socket; a wrong one is refused.
        control = "/debug/pprof/control?sample=off&pid="
        assert ask(open_path, control + "200", 1000, method="POST")[0] == 404
        assert ask(open_path, control + "100", 1000, method="POST")[0] == 200
        for token, seen in ((ALL, {100, 200, 300}), (SECOND, {200})):
            assert pids_in(ask(open_path, f"/metrics?token={token}", 1000)[1]) == seen
        assert ask(open_path, "/metrics?token=wrong", 1000)[0] == 403
        assert ask(open_path, "/metrics", 1000, head="Host: x\r\nOrigin: http://evil.example\r\n")[0] == 403
        assert server.curl("/metrics")[0] == 401  # the port needs its token


@needs_root
def test_users_of_another_namespace_see_nothing(open_path):
    """In a user namespace all users it does not know have one uid. They are not the user who really has it."""
    unshare = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("there are no user namespaces here")
    process = subprocess.Popen([*unshare, SERVER, f"socket={open_path}", "many", "only", f"owners={STRANGER}"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdout.readline()
        assert pids_in(ask(open_path)[1]) == {100, 200, 300}  # root is root there too
        assert ask(open_path, user=1000)[0] == 403
        assert ask(open_path, user=STRANGER)[0] == 403
    finally:
        process.stdin.close()
        assert process.wait(timeout=30) == 0
        process.stdout.close()


def test_the_socket_alone(open_path):
    with serving(f"socket={open_path}", "only") as server:
        assert server.port == 0
        assert ask(open_path, "/healthz") == (200, "ok\n")
        listening = run(["cat", f"/proc/{server.process.pid}/net/tcp"]).stdout.decode()
        inodes = {os.readlink(f"/proc/{server.process.pid}/fd/{n}") for n in os.listdir(f"/proc/{server.process.pid}/fd")}
        assert not [line for line in listening.splitlines()[1:] if f"socket:[{line.split()[9]}]" in inodes]


def test_what_is_at_the_path(open_path):
    """A socket that nobody answers is replaced; one that is in use, and any other file, stays."""
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(open_path))
    left.close()
    with serving(f"socket={open_path}", "only"):
        assert ask(open_path, "/healthz")[0] == 200
        done = run([SERVER, f"socket={open_path}", "only"])
        assert done.returncode == 1 and b"is used by another program" in done.stderr
        assert ask(open_path, "/healthz")[0] == 200
        open_path.rename(open_path.with_suffix(".moved"))
        open_path.write_text("mine")
    assert open_path.read_text() == "mine"  # not the server's: it stays
    done = run([SERVER, f"socket={open_path}", "only"])
    assert done.returncode == 1 and b"is not a socket" in done.stderr
    open_path.unlink()
    other = open_path.with_name("other")
    other.write_text("x")
    other.chmod(0o600)
    open_path.symlink_to(other)
    done = run([SERVER, f"socket={open_path}", "only"])
    assert done.returncode == 1 and other.stat().st_mode & 0o777 == 0o600
    done = run([SERVER, f"socket={open_path}{'x' * 200}", "only"])
    assert done.returncode == 1 and b"107 characters" in done.stderr


# ---- heft agent and heft run

@needs_root
def test_the_agents_processes(tmp_path, open_path, compiled, tokens):
    """Real programs of two users, seen by both of them and by root."""
    program = compiled("service.c")
    for path in (program.parent, program):
        path.chmod(0o755)
    tokens.write_text(f"{ALL} all\n{FIRST} uid=0\n{SECOND} uid={STRANGER}\n")
    agent = Agent(tmp_path, ["--token-file", tokens, "--socket", open_path])
    try:
        mine = agent.start([program], stdin=subprocess.PIPE)
        his = agent.start([program], stdin=subprocess.PIPE, preexec_fn=lambda: os.setuid(STRANGER))
        def seen(token):
            return pids_in(fetch(agent.url.replace("/debug/pprof/", "/metrics"), token=token)[1].decode())
        wait_until(lambda: seen(ALL) == {mine.pid, his.pid}, what=f"both processes\n{agent.log()}")
        assert seen(FIRST) == {mine.pid}
        assert seen(SECOND) == {his.pid}
        assert pids_in(ask(open_path)[1]) == {mine.pid, his.pid}
        assert pids_in(ask(open_path, user=STRANGER)[1]) == {his.pid}
        assert pids_in(ask(open_path, user=1000)[1]) == set()
        assert ask(open_path, f"/debug/pprof/{mine.pid}/heap", STRANGER)[0] == 404
        assert ask(open_path, f"/debug/pprof/control?pid={mine.pid}&sample=off", STRANGER, method="POST")[0] == 404
        control = f"/debug/pprof/control?pid={his.pid}&sample="
        assert ask(open_path, control + "off", STRANGER, method="POST")[0] == 200
        assert ask(open_path, f"/debug/pprof/{his.pid}/heap")[0] == 403  # off
        assert ask(open_path, control + "on", STRANGER, method="POST")[0] == 200
        for process in (mine, his):
            process.stdin.write(b"keep 10 300000\n")
            process.stdin.close()
            process.wait(timeout=30)
        # A process that has ended is its user's still.
        wait_until(lambda: re.search(r"heft_process_running.*} 0", ask(open_path, user=STRANGER)[1]), what="its end")
        assert pids_in(ask(open_path, user=STRANGER)[1]) == {his.pid}
        assert ask(open_path, f"/debug/pprof/{mine.pid}/cmdline", STRANGER)[0] == 404
    finally:
        agent.close()
    assert not open_path.exists()


def test_run_on_a_socket(tmp_path, open_path, compiled):
    from test_listen import Listening
    service = Listening(tmp_path, compiled("service.c"), "--sample=4k", "--socket", open_path)
    service.do("keep 10 300000")
    assert "and the socket" in service.log_path.read_text()
    wait_until(lambda: len(pids_in(ask(open_path)[1])) == 1, what="the process")
    if os.geteuid() == 0:
        assert pids_in(ask(open_path, user=STRANGER)[1]) == set()
    assert service.end("exit 0") == 0
    assert not open_path.exists()


@pytest.mark.parametrize("options, words", [
    (["--listen=none"], b"--listen none needs --socket"), (["--token-file=x"], b"--token-file needs --listen"),
    (["--socket="], b"--socket needs a PATH"), (["--socket", "x" * 200], b"1 to 107 characters"),
    (["--listen=none", "--token-file=x"], b"--listen none needs --socket"), (["--socket", "/nowhere/at/all"], b"/nowhere/at/all")])
def test_refused_before_anything_runs(tmp_path, options, words):
    made = tmp_path / "ran"
    done = run([HEFT, "run", *options, "-o", tmp_path / "x.heft", "--", "touch", made])
    assert done.returncode == 125 and words in done.stderr, done.stderr
    assert not made.exists()
