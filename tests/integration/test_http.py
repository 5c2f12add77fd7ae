"""The endpoints of always-on mode as their users see them: curl, go tool pprof, Prometheus. The
processes are made up (tests/unit/serve_fake.c, fake_source.h), so that every number is known:
snapshot n has `grow` with n blocks of 100 bytes and `shrink` with 5000 - 10 n bytes live."""

import contextlib
import gzip
import html.parser
import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from harness import run, wait_until
from http_harness import BEARER, SERVER, TOKEN, serving


def test_profile_headers():
    """As Go's own: types, file names, the gzip inside."""
    with serving() as server:
        for name in ("heap", "allocs"):
            status, headers, body = server.curl(f"/debug/pprof/{name}")
            assert status == 200
            assert headers["content-type"] == "application/octet-stream"
            assert headers["content-disposition"] == f'attachment; filename="{name}"'
            assert headers["x-content-type-options"] == "nosniff"
            assert b"inuse_space" in gzip.decompress(body)
            status, headers, body = server.curl(f"/debug/pprof/{name}?debug=1")
            assert status == 200
            assert headers["content-type"] == "text/plain; charset=utf-8"
            assert "content-disposition" not in headers
            assert body.startswith(b"heap profile: ")
        assert server.curl("/debug/pprof/heap?gc=1")[0] == 200
        assert server.curl("/debug/pprof/heap?debug=0&gc=0")[0] == 200
        status, headers, body = server.curl("/debug/pprof/heap", "--head")
        assert (status, body) == (200, b"")
        assert int(headers["content-length"]) > 100


def test_difference():
    with serving() as server:
        begun = time.monotonic()
        status, headers, body = server.curl("/debug/pprof/heap?seconds=1")
        assert time.monotonic() - begun >= 1
        assert status == 200
        assert headers["content-disposition"] == 'attachment; filename="heap-delta"'
        gzip.decompress(body)
        assert server.snapshots() == 2
        for bad in ("0", "-1", "x", "1.5", "99999999999999999999", "3601"):
            text = server.text(f"/debug/pprof/heap?seconds={bad}", status=400)
            assert text.startswith('invalid value for "seconds"')
        assert server.text("/debug/pprof/heap?seconds=1&debug=1",
                           status=400) == "seconds and debug params are incompatible\n"
        assert server.curl("/debug/pprof/heap?seconds=")[0] == 200


def test_other_paths():
    with serving() as server:
        status, headers, body = server.curl("/debug/pprof/cmdline")
        assert (status, body) == (200, b"/x/prog\0-x\0a b")
        assert headers["content-type"] == "text/plain; charset=utf-8"
        assert server.text("/healthz") == "ok\n"
        status, headers, _ = server.curl("/debug/pprof")
        assert (status, headers["location"]) == (301, "/debug/pprof/")
        for unknown in ("/debug/pprof/goroutine", "/debug/pprof/100/profile",
                        "/debug/pprof/../../etc/passwd", "/debug/pprof/100/../heap"):
            assert server.text(unknown, "--path-as-is",
                               status=404).startswith("Unknown profile")
        assert "  /debug/pprof/\n" in server.text("/", status=404)
        assert "  /metrics\n" in server.text("/etc/passwd", status=404)
        status, headers, _ = server.curl("/debug/pprof/nothing")
        assert headers["x-go-pprof"] == "1"


def test_methods():
    with serving() as server:
        for path, method, allow in (("heap", "POST", "GET, HEAD"), ("allocs", "PUT", None),
                                    ("", "POST", "GET, HEAD"), ("cmdline", "POST", "GET, HEAD"),
                                    ("control", "GET", "POST"), ("heap", "DELETE", None)):
            status, headers, _ = server.curl(f"/debug/pprof/{path}", "-X", method)
            assert status == 405, (path, method)
            assert headers["allow"] == (allow or "GET, HEAD, POST")
        status, headers, _ = server.curl("/metrics", "-X", "POST")
        assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_symbols():
    with serving() as server:
        assert server.text("/debug/pprof/symbol") == "num_symbols: 1\n"
        answer = "num_symbols: 1\n0x1010 main\n0x1040 shrink\n"
        assert server.text("/debug/pprof/symbol?0x1010+0x15+0x1040") == answer
        assert server.text("/debug/pprof/symbol", "-d", "0x1010+0x15+0x1040") == answer
        assert server.text("/debug/pprof/100/symbol", "-d", "0x1010+0x1040") == answer
        text = server.text("/debug/pprof/heap?debug=1")
        row = re.search(r"^\d+: \d+00 \[.*\] @ (.*)\n#.*grow", text, re.M)
        asked = "+".join(row.group(1).split())
        names = server.text("/debug/pprof/symbol", "-d", asked).splitlines()[1:]
        assert [line.split(" ", 1)[1] for line in names] == ["grow", "outer", "main"]


def test_which_process():
    with serving("many") as server:
        text = server.text("/debug/pprof/heap", status=409)
        assert "/debug/pprof/100/heap  /x/prog\n" in text
        assert "/debug/pprof/300/heap  /x/gone  (ended)\n" in text
        for path in ("100/heap", "heap?pid=100", "200/allocs?debug=1", "cmdline?pid=200",
                     "300/heap", "100/cmdline", "300/allocs?seconds=1"):
            assert server.curl(f"/debug/pprof/{path}")[0] == 200, path
        assert "pid 200\n" in server.text("/debug/pprof/200/heap?debug=1")
        assert server.text("/debug/pprof/heap?pid=x", status=400)
        assert server.text("/debug/pprof/heap?pid=-1", status=400)
        assert "no process 7 " in server.text("/debug/pprof/7/heap", status=404)
        assert server.curl("/debug/pprof/99999999999999/heap")[0] == 404
    with serving("none") as server:
        assert server.text("/debug/pprof/heap", status=404) == "no process is being profiled\n"
        assert "No process is being profiled" in server.text("/debug/pprof/")
        assert "heft_build_info" in server.text("/metrics")
    with serving("ended") as server:
        assert server.curl("/debug/pprof/heap")[0] == 200
        assert "killed by SIGKILL" in server.text("/debug/pprof/")
    with serving("ended", "off") as server:  # what it left is still there
        assert server.curl("/debug/pprof/heap")[0] == 200


def test_switched_off():
    with serving("off") as server:
        for path in ("heap", "allocs", "100/heap?debug=1", "heap?seconds=1"):
            text = server.text(f"/debug/pprof/{path}", status=403)
            assert "sampling is switched off in process 100 (/x/prog)" in text
            assert "heft ctl 100 sample=on" in text
        assert server.curl("/debug/pprof/cmdline")[0] == 200
        assert 'heft_sampling_enabled{pid="100",exe="/x/prog"} 0' in server.text("/metrics")
        # Without a token nothing can be switched.
        text = server.text("/debug/pprof/control?sample=on", "-X", "POST", status=403)
        assert "--token-file" in text
        assert server.snapshots() == 0


def test_control():
    with serving("off", f"token={TOKEN}") as server:
        control = "/debug/pprof/control"
        assert server.curl(f"{control}?sample=on", "-X", "POST")[0] == 401
        assert server.curl(f"{control}?sample=on", "-X", "POST", "-H",
                           "Authorization: Bearer no")[0] == 403
        assert server.curl("/debug/pprof/heap", *BEARER)[0] == 403
        for bad in ("", "?sample=maybe", "?rate=", "?rate=-1", "?rate=0", "?rate=1x",
                    "?rate=99999999999999999999G", "?sample=on&rate=many", "?rate=100"):
            assert server.curl(control + bad, "-X", "POST", *BEARER)[0] == 400, bad
        assert server.curl(f"{control}?pid=7&sample=on", "-X", "POST", *BEARER)[0] == 404
        # A page of another server cannot do it, even where the browser knows the password.
        assert server.curl(f"{control}?sample=on", "-X", "POST", *BEARER, "-H",
                           "Origin: http://evil.example")[0] == 403
        assert server.text(f"{control}?pid=100&sample=on&rate=1M", "-X", "POST",
                           *BEARER) == "process 100: sampling on, rate set\n"
        assert server.curl("/debug/pprof/heap", *BEARER)[0] == 200
        metrics = server.text("/metrics", *BEARER)
        assert 'heft_sample_rate_bytes{pid="100",exe="/x/prog"} 1048576\n' in metrics
        assert server.text("/debug/pprof/100/control?sample=off", "-X", "POST",
                           *BEARER) == "process 100: sampling off\n"
        assert server.curl("/debug/pprof/heap", *BEARER)[0] == 403
    with serving("ended", f"token={TOKEN}") as server:
        text = server.text("/debug/pprof/control?sample=on", "-X", "POST", *BEARER, status=409)
        assert text == "process 100 has ended\n"


def test_tokens():
    with serving(f"token={TOKEN}") as server:
        for path in ("/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/symbol", "/metrics"):
            status, headers, body = server.curl(path)
            assert status == 401
            assert "www-authenticate" in headers
            assert TOKEN.encode() not in body
            assert server.curl(path, "-H", "Authorization: Bearer wrong")[0] == 403
            assert server.curl(path, *BEARER)[0] == 200
            assert server.curl(path, "-u", f"anyone:{TOKEN}")[0] == 200
            assert server.curl(f"{path}?token={TOKEN}")[0] == 200
        assert server.text("/healthz") == "ok\n"
        assert f'href="100/heap?token={"".join("%%%02X" % ord(c) for c in TOKEN)}"' in \
            server.text(f"/debug/pprof/?token={TOKEN}")


def test_names_of_the_server():
    with serving("check") as server:
        for host, status in (("localhost", 200), ("localhost:1", 200), ("127.0.0.1", 200),
                             ("evil.example", 403), ("evil.example:80", 403)):
            assert server.curl("/metrics", "-H", f"Host: {host}")[0] == status
        for origin, status in ((server.base, 200), ("http://evil.example", 403), ("null", 403)):
            assert server.curl("/metrics", "-H", f"Origin: {origin}")[0] == status


def test_address_needs_token():
    if not SERVER.exists():
        pytest.skip(f"{SERVER.name} is not built")
    done = run([SERVER, "address=0.0.0.0"])
    assert done.returncode == 1
    assert b"--token-file" in done.stderr


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.links = [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.links += [value for name, value in attrs if name == "href"]

    def handle_data(self, data):
        self.words += data


def test_index():
    with serving("many") as server:
        status, headers, body = server.curl("/debug/pprof/")
        assert status == 200
        assert headers["content-type"] == "text/html; charset=utf-8"
        assert headers["content-security-policy"].startswith("default-src 'none'")
        page = Page(body.decode())
        assert set(page.tags) <= {"html", "head", "meta", "title", "style", "body", "h1", "table",
                                  "tr", "th", "td", "br", "code", "a", "p", "b"}
        assert "<script>alert(1)</script>" in page.words  # as text
        assert b"<script" not in body
        assert b"\x1b" not in body
        for link in ("100/heap", "100/heap?debug=1", "200/allocs", "300/cmdline"):
            assert link in page.links
            assert server.curl(f"/debug/pprof/{link}")[0] == 200
        one = Page(server.text("/debug/pprof/200/"))
        assert "../200/heap" in one.links and "../100/heap" not in one.links


SAMPLE = re.compile(r'^([a-z_0-9]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)$')


def test_metrics():
    with serving("many") as server:
        status, headers, body = server.curl("/metrics")
        assert status == 200
        assert headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        seen, values = set(), {}
        typed = {}
        for line in body.decode().splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                assert name not in typed
                typed[name] = kind
                continue
            if line.startswith("# HELP "):
                continue
            found = SAMPLE.match(line)
            assert found, line
            name, labels, value = found.groups()
            assert (name, labels) not in seen
            seen.add((name, labels))
            assert name.endswith("_total") == (typed[name] == "counter")
            values[name, labels] = float(value)
        prog = 'pid="100",exe="/x/prog"'
        assert values["heft_live_bytes", prog] == 123456.5
        assert values["heft_live_objects", prog] == 789
        assert values["heft_allocated_bytes_total", prog] == 1e15
        assert values["heft_allocated_objects_total", prog] == 5e9
        assert values["heft_peak_bytes", prog] == 200000
        assert values["heft_rss_bytes", prog] == 4096000
        assert values["heft_sampling_enabled", prog] == 1
        assert values["heft_sample_rate_bytes", prog] == 524288
        assert values["heft_samples_total", prog] == 1000
        assert values["heft_dropped_samples_total", prog] == 2
        assert values["heft_process_running", prog] == 1
        assert values["heft_sampling_cost_ratio", prog] == 0.0025
        assert ("heft_memory_limit_bytes", prog) not in values  # not known
        gone = 'pid="300",exe="/x/gone"'
        assert values["heft_process_running", gone] == 0
        assert values["heft_live_bytes", gone] == 1  # the latest of that pid
        assert ("heft_sampling_cost_ratio", gone) not in values
        hostile = [labels for name, labels in values if labels and "script" in labels]
        assert hostile and all(r'\"\\\\x0a\\x1b[31m&\\xff"' in labels for labels in hostile)
        assert values["heft_http_requests_total", None] == 0
        server.curl("/nowhere")
        later = server.text("/metrics")
        assert "\nheft_http_requests_total 2\n" in later
        assert '\nheft_http_errors_total{class="4xx"} 1\n' in later


def test_metrics_as_prometheus_sees_them():
    promtool = shutil.which("promtool")
    if not promtool:
        pytest.skip("promtool is not installed (Debian package prometheus)")
    with serving("many") as server:
        text = server.text("/metrics")
        done = subprocess.run([promtool, "check", "metrics"], input=text.encode(),
                              capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_go_tool_pprof(tmp_path):
    with serving() as server:
        top = server.pprof("/debug/pprof/heap", "-top", tmp=tmp_path)
        assert "Type: inuse_space" in top
        assert re.search(r"4990B .* shrink$", top, re.M)
        assert re.search(r"100B .* grow \(inline\)$", top, re.M)
        top = server.pprof("/debug/pprof/allocs", "-top", tmp=tmp_path)
        assert "Type: alloc_space" in top
        raw = server.pprof("/debug/pprof/heap", "-raw", tmp=tmp_path)
        assert "Period: 524288" in raw
        assert "Duration" not in raw
        assert re.search(r"^ +3 +5000 +3 +4970: ", raw, re.M)  # the third snapshot
        top = server.pprof("/debug/pprof/heap?debug=1", "-top", tmp=tmp_path)
        assert re.search(r"4960B .* shrink$", top, re.M)
        assert re.search(r"400B .* grow$", top, re.M)


def test_go_tool_pprof_difference(tmp_path):
    with serving() as server:
        raw = server.pprof("/debug/pprof/heap?seconds=1", "-raw", tmp=tmp_path)
        assert 1 <= float(re.search(r"^Duration: ([\d.]+)", raw, re.M)[1])
        assert re.search(r"^ +10 +1000 +1 +100: ", raw, re.M)
        assert re.search(r"^ +0 +0 +0 +-10: ", raw, re.M)
        top = server.pprof("/debug/pprof/allocs", "-top", "-seconds", "1", tmp=tmp_path)
        assert re.search(r"1000B +100% +100% .* grow \(inline\)$", top, re.M)


def test_go_tool_pprof_of_one_among_many(tmp_path):
    with serving("many", f"token={TOKEN}") as server:
        user = f"x:{TOKEN}@"
        for path in ("/debug/pprof/200/heap", "/debug/pprof/200/heap?debug=1"):
            top = server.pprof(path, "-top", user=user, tmp=tmp_path)
            assert re.search(r"B .* shrink$", top, re.M), path
        why = server.pprof("/debug/pprof/heap", "-top", user=user, status=1, tmp=tmp_path)
        assert "several processes are profiled here" in why


def test_go_tool_pprof_is_told_why(tmp_path):
    with serving("off") as server:
        why = server.pprof("/debug/pprof/heap", "-top", status=1, tmp=tmp_path)
        assert "heft ctl 100 sample=on" in why


def test_scrapes_at_once():
    """All ask within a moment: those who come while one snapshot is made share the next."""
    with serving("slow=500") as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60)) for _ in range(20)]
        begun = time.monotonic()
        for client in clients:
            client.sendall(b"GET /debug/pprof/heap HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        took = time.monotonic() - begun
        got = [read_all(client).partition(b"\r\n\r\n") for client in clients]
        assert [head.split()[1] for head, _, _ in got] == [b"200"] * 20
        made = server.snapshots()
        assert 1 <= made <= 4 + took / 0.5  # two, unless the machine stood still between them
        assert len({body for _, _, body in got}) <= made


def read_all(connection):
    data = b""
    while part := connection.recv(65536):
        data += part
    return data


def ask(connection):
    """The status of an answer on a connection that is there."""
    connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(4096)
        assert part, data
        data += part
    return int(data.split()[1])


def test_thousand_connections():
    with serving() as server:
        with contextlib.ExitStack() as stack:
            try:
                connections = [stack.enter_context(socket.create_connection(
                    ("127.0.0.1", server.port), timeout=30)) for _ in range(1000)]
            except OSError as error:
                pytest.skip(f"cannot open a thousand connections here: {error}")
            assert server.curl("/debug/pprof/heap")[0] == 200
            # The server has yet to see that curl has gone.
            wait_until(lambda: "heft_http_connections 1001\n" in server.text("/metrics"), what="1,001 connections")
            for connection in connections[::100]:
                assert ask(connection) == 200
        assert server.curl("/debug/pprof/heap")[0] == 200


def test_few_files():
    """Where the limit of open files cannot be raised, there are fewer connections: some of the files
    stay for symbols. Clients are told to come again, or wait until others have gone."""
    with serving("files=64") as server:
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(socket.create_connection(
                ("127.0.0.1", server.port), timeout=30)) for _ in range(200)]
            assert ask(connections[0]) in (200, 503)
            assert len(os.listdir(f"/proc/{server.process.pid}/fd")) < 50
        # The server has yet to see that they are gone; until then a newcomer may get a 503.
        wait_until(lambda: server.curl("/healthz")[0] == 200, what="room for a connection")


def test_slow_clients():
    """A byte now and then keeps no connection open; others are not held up."""
    with serving("idle=2000", "request=2000") as server:  # so long may curl stand still, too
        slow = [socket.create_connection(("127.0.0.1", server.port), timeout=30)
                for _ in range(50)]
        for connection in slow:
            connection.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        assert server.text("/healthz") == "ok\n"
        ended, deadline = set(), time.monotonic() + 60
        while len(ended) < len(slow) and time.monotonic() < deadline:
            for connection in set(slow) - ended:
                try:
                    connection.sendall(b"a")
                except OSError:
                    ended.add(connection)
            time.sleep(0.05)
        assert len(ended) == len(slow)
        for connection in slow:
            connection.close()
        assert server.text("/healthz") == "ok\n"


def test_nothing_is_inherited():
    """All descriptors of the server are close-on-exec (0, 1 and 2 apart)."""
    with serving() as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            assert ask(connection) == 200
            directory = f"/proc/{server.process.pid}/fdinfo"
            others = [n for n in os.listdir(directory) if int(n) > 2]
            assert len(others) >= 4
            for n in others:
                with open(f"{directory}/{n}", encoding="ascii") as info:
                    flags = next(line for line in info if line.startswith("flags:"))
                assert int(flags.split()[1], 8) & os.O_CLOEXEC, n


def test_foreign_names_are_refused():
    """A page of another server cannot read profiles, whatever name it makes point here. Who has the token can."""
    evil, page = ("-H", "Host: evil.example"), ("-H", "Origin: https://evil.example")
    for words in ((), ("token=" + TOKEN,)):
        with serving(*words) as server:
            for path in ("/debug/pprof/heap", "/metrics", "/debug/pprof/"):
                assert "does not answer to the name" in server.text(path, *evil, status=403)
                assert "other servers' pages" in server.text(path, *page, *BEARER, status=403)
    with serving("token=" + TOKEN) as server:
        assert server.curl("/debug/pprof/heap", *evil, *BEARER)[0] == 200
