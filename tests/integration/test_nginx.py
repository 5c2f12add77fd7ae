"""heft run and heft map on nginx, a master process with two workers, with a configuration of its own on loopback. It is ended by
its number. Where nginx is not installed there is nothing to test."""

import os
import pathlib
import pwd
import shutil
import signal
import urllib.request

import pytest

from attach_harness import may_trace
from attach_rounds import free_port
from harness import HEFT, children_of, end_group, report, run, start, wait_until
from test_ledger import ledger_of
from test_ledger_recorded import ledgers_of

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
pytestmark = [pytest.mark.skipif(not NGINX, reason="nginx is not installed"),
              pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")]

# Each worker allocates room for its connections when it starts: two events of 96 bytes for each, and 200 and more for itself.
CONNECTIONS, WORKERS, REQUESTS = 8192, 2, 200
LEAST_EACH = 2 * 96 + 200
CONF = """daemon off; worker_processes {workers}; pid {folder}/nginx.pid; error_log stderr crit; user {user};
events {{ worker_connections {connections}; }}
http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; root {folder}/files; }} }}
"""


class Server:
    """nginx, or heft run of nginx, which answers."""

    def __init__(self, folder, before):
        self.port = free_port()
        (folder / "files").mkdir()
        (folder / "files" / "page").write_bytes(b"x" * 5000)
        conf = folder / "nginx.conf"
        conf.write_text(CONF.format(folder=folder, port=self.port, workers=WORKERS, connections=CONNECTIONS,
                                    user=pwd.getpwuid(os.geteuid()).pw_name))
        self.process = start([*before, NGINX, "-e", "stderr", "-p", folder, "-c", conf])
        try:
            wait_until(lambda: len(self.workers()) == WORKERS, what="nginx has its workers")
            wait_until(self.answers, what="nginx answers")
        except BaseException:
            end_group(self.process)
            self.process.communicate()
            raise
        self.master = self.find_master()

    def find_master(self):
        """heft run's child, or nginx itself."""
        for pid in [self.process.pid, *children_of(self.process.pid)]:
            if pathlib.Path(f"/proc/{pid}/exe").resolve() == pathlib.Path(NGINX).resolve():
                return pid
        return 0

    def workers(self):
        return children_of(self.find_master() or 0)

    def answers(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/page", timeout=10) as answer:
                return len(answer.read()) == 5000
        except OSError:
            return False

    def end(self):
        """SIGQUIT: it answers what it has begun to answer, and ends."""
        os.kill(self.master, signal.SIGQUIT)
        _, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return err


@pytest.fixture
def serve(tmp_path):
    servers = []

    def begin(*before):
        servers.append(Server(tmp_path, before))
        assert all(servers[-1].answers() for _ in range(REQUESTS))
        return servers[-1]

    yield begin
    for server in servers:
        if server.process.poll() is None:
            end_group(server.process)
            server.process.communicate()


def check(ledger):
    """Less than 2 % is unexplained, and what is not known by name is not the largest line."""
    assert ledger.sum("unexplained") < 0.02 * ledger["rss_bytes"]
    assert "not recorded" not in ledger.largest()["name"]
    return ledger


def test_map_of_a_running_nginx(serve):
    """Nobody records it: master and workers have the heap, their connections above all, and their libraries."""
    server = serve()
    for pid in [server.master, *server.workers()]:
        ledger = check(ledger_of(pid))
        assert ledger.sum("modules_shared", "nginx") > 0 and ledger.sum("stacks") > 0
        assert ledger.sum("anonymous", "not recorded") < 0.02 * ledger["rss_bytes"]
    for pid in server.workers():
        assert ledger_of(pid).sum("large_mappings", column="virtual_bytes") > CONNECTIONS * LEAST_EACH
    server.end()


def test_run_of_nginx_with_its_workers(serve, tmp_path):
    """Each worker has a ledger at its exit. Its connections and their events are three blocks, each with a mapping of its own."""
    path = tmp_path / "nginx.heft"
    server = serve(HEFT, "run", "-q", "-o", path, "--")
    workers = server.workers()
    for pid in [server.master, *workers]:  # while heft records it
        check(ledger_of(pid))
    server.end()
    assert run([HEFT, "verify", path]).returncode == 0
    at_exit = {one["pid"]: check(one) for one in ledgers_of(path) if one["moment"] == "exit"}
    for pid in workers:
        (tables,) = [line for line in at_exit[pid]["lines"] if line["kind"] == "large_mappings"]
        assert tables["blocks"] == 3 and tables["virtual_bytes"] > CONNECTIONS * LEAST_EACH
    rep = report(path)
    assert {process["pid"] for process in rep["processes"]} == {server.master, *workers}
    largest = max(rep["sites"], key=lambda site: site["peak_bytes"])
    assert "ngx_alloc" in [frame["function"] for frame in largest["stack"]]
    assert largest["allocations"] == 3 * WORKERS
