"""Nobody takes all connections. Whoever sends half a request holds one, so each address has a share of them: others
are answered meanwhile, and who has too many gets 503. The server has 200 connections, 50 for each address."""

import contextlib
import os
import select
import socket
import time

import pytest

from harness import wait_until
from http_harness import TOKEN, serving

MOST, SHARE = 200, 50
HALF = b"GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
IN_TIME = 10  # a slow request is ended after 20 s: none of these waits for that
WHOLE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def connect(server, address="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", server.port), timeout=60, source_address=(address, 0))


def read_all(connection):
    data = b""
    with contextlib.suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
    return data


def ask(server, address="127.0.0.1"):
    """The status of a request of its own."""
    with connect(server, address) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(WHOLE)
        answer = read_all(connection)
    return int(answer.split()[1]) if answer else 0


class Crowd:
    """Half-sent requests."""

    def __init__(self, stack, server, count, addresses=("127.0.0.2",)):
        self.waiting, self.answers = set(), []
        for i in range(count):
            connection = stack.enter_context(connect(server, addresses[i % len(addresses)]))
            with contextlib.suppress(ConnectionError):
                connection.sendall(HALF)
            self.waiting.add(connection)

    def look(self):
        """How many are held; takes the answers of the others."""
        poll = select.poll()
        by_number = {c.fileno(): c for c in self.waiting}
        for number in by_number:
            poll.register(number, select.POLLIN)
        for number, _ in poll.poll(0):
            self.answers.append(read_all(by_number[number]))
            self.waiting.discard(by_number[number])
            by_number[number].close()
        return len(self.waiting)


def refusal(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    return (head.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 5" in head and
            body == b"too many connections; please try again later\n" and
            f"Content-Length: {len(body)}".encode() in head)


@pytest.mark.parametrize("addresses", [["127.0.0.2"], [f"127.0.0.{n}" for n in range(2, 30)]], ids=["one", "many"])
def test_one_address_cannot_take_all(addresses):
    """Nor can one program with all the addresses of loopback."""
    with serving(f"connections={MOST}") as server, contextlib.ExitStack() as stack:
        crowd = Crowd(stack, server, 2 * MOST, addresses)
        asked = time.monotonic()
        assert ask(server) == 200
        assert time.monotonic() - asked < IN_TIME
        wait_until(lambda: crowd.look() <= SHARE, what="the others get their answer")
        assert [a for a in crowd.answers if not refusal(a)] == []
        assert len(crowd.answers) >= 2 * MOST - SHARE
        assert ask(server) == 200
        assert 'heft_http_errors_total{class="4xx"} 0\n' in server.text("/metrics")


def test_addresses_of_a_socket_for_both_versions():
    """A server on [::] sees 127.0.0.2 as ::ffff:127.0.0.2: it is the same address there, and ::1 is another one."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    with open("/proc/sys/net/ipv6/bindv6only", encoding="ascii") as setting:
        if setting.read().strip() != "0":
            pytest.skip("IPv6 sockets take no IPv4 connections here")
    with serving(f"connections={MOST}", "address=::", f"token={TOKEN}") as server, contextlib.ExitStack() as stack:
        crowd = Crowd(stack, server, 2 * MOST, [f"127.0.0.{n}" for n in range(2, 30)])
        assert ask(server) == 200
        with socket.create_connection(("::1", server.port), timeout=60) as connection:
            connection.sendall(WHOLE)
            assert b" 200 OK" in read_all(connection)
        wait_until(lambda: crowd.look() <= SHARE, what="the others get their answer")
        assert [a for a in crowd.answers if not refusal(a)] == []


def test_the_slowest_makes_room():
    """The address that has too many is served, too: who takes longest to send is answered 503."""
    with serving(f"connections={MOST}") as server, contextlib.ExitStack() as stack:
        crowd = Crowd(stack, server, SHARE, ["127.0.0.1"])
        assert crowd.look() == SHARE
        wait_until(lambda: ask(server) == 200, IN_TIME, what="room for a request")
        for _ in range(10):
            assert ask(server) == 200
        crowd.look()
        assert crowd.answers and [a for a in crowd.answers if not refusal(a)] == []


def test_all_taken_by_many_addresses():
    """Here 127.0.0.1 may have all connections. When all are taken, the slowest of all makes room."""
    with serving(f"connections={SHARE}", f"each={MOST}") as server, contextlib.ExitStack() as stack:
        crowd = Crowd(stack, server, SHARE, ["127.0.0.1"])
        assert ask(server, "127.0.0.2") in (200, 503)
        wait_until(lambda: ask(server, "127.0.0.2") == 200, IN_TIME, what="room for a request")
        assert crowd.look() <= SHARE


def test_an_idle_connection_gets_no_stray_answer():
    """A client that keeps its connection waits for nothing: it may be closed, but never reads a 503."""
    with serving(f"connections={MOST}", "each=5") as server, contextlib.ExitStack() as stack:
        kept = [stack.enter_context(connect(server, "127.0.0.2")) for _ in range(5)]
        for connection in kept:
            connection.sendall(WHOLE.replace(b"Connection: close\r\n", b""))
            data = b""
            while not data.endswith(b"ok\n"):
                data += connection.recv(4096)
        idle_since = time.monotonic()
        wait_until(lambda: time.monotonic() > idle_since + 1.2, what="they are idle")
        assert [ask(server, "127.0.0.2") for _ in range(10)] == [200] * 10
        closed = [c for c in kept if select.select([c], [], [], 0)[0]]
        assert closed
        assert [read_all(c) for c in closed] == [b""] * len(closed)


def test_a_refused_client_cannot_stay():
    """Whoever is refused and sends nothing gets 503 all the same, soon."""
    with serving(f"connections={MOST}", "each=1") as server, contextlib.ExitStack() as stack:
        # It waits for its answer. One that still sends would have to make room after a second.
        first = stack.enter_context(connect(server, "127.0.0.2"))
        first.sendall(b"GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: server.snapshots() > 0, what="its first profile")
        others = [stack.enter_context(connect(server, "127.0.0.2")) for _ in range(3)]
        answers = [read_all(c) for c in others]
        assert [refusal(a) for a in answers] == [True] * 3, answers
        assert ask(server) == 200
        first.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
def test_one_user_cannot_take_the_socket(tmp_path):
    folder = tmp_path
    while folder.stat().st_uid == 0 and folder != folder.parent:
        folder.chmod(folder.stat().st_mode | 0o711)
        folder = folder.parent
    path = str(tmp_path / "heft.sock")

    def connect_as(user):
        os.seteuid(user)  # SO_PEERCRED has the effective user
        try:
            made = socket.socket(socket.AF_UNIX)
            made.settimeout(60)
            made.connect(path)
            return made
        finally:
            os.seteuid(0)

    with serving(f"connections={MOST}", f"socket={path}", "each=10") as server, contextlib.ExitStack() as stack:
        crowd = [stack.enter_context(connect_as(1000)) for _ in range(100)]
        for connection in crowd:
            with contextlib.suppress(ConnectionError):
                connection.sendall(HALF)
        with connect_as(1001) as other:
            other.sendall(WHOLE)
            assert b" 200 OK" in read_all(other)
        assert ask(server) == 200
        wait_until(lambda: sum(bool(select.select([c], [], [], 0)[0]) for c in crowd) >= 90, what="the crowd's answers")
