"""What the tests of heft's HTTP share: a server of made-up processes (tests/unit/serve_fake.c), and a client."""

import contextlib
import subprocess

import pytest

from harness import BUILD, go_pprof, run, start

SERVER = BUILD / "tests" / "unit" / "serve_fake"
TOKEN = "0123456789abcdef0123456789abcdef"
BEARER = ("-H", f"Authorization: Bearer {TOKEN}")


class Served:
    def __init__(self, port, process):
        self.port = port
        self.process = process
        self.base = f"http://127.0.0.1:{port}"

    def curl(self, path, *options):
        """Status, headers by lower-case name, body."""
        done = run(["curl", "-s", "-S", "-i", "--max-time", "30", *options, self.base + path])
        assert done.returncode == 0, done.stderr
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.strip().lower(): v.strip()
                   for k, _, v in (line.partition(":") for line in lines[1:])}
        return int(lines[0].split()[1]), headers, body

    def text(self, path, *options, status=200):
        got, headers, body = self.curl(path, *options)
        assert got == status, body
        assert headers["x-content-type-options"] == "nosniff"
        return body.decode()

    def snapshots(self):
        return int(self.text("/test/snapshots"))

    def pprof(self, path, *options, user="", status=0, tmp=None):
        address = f"http://{user}127.0.0.1:{self.port}{path}"
        done = go_pprof(tmp, *options, address)
        assert (done.returncode == 0) == (status == 0), done.stderr.decode()
        return done.stdout.decode() if status == 0 else done.stderr.decode()


@contextlib.contextmanager
def serving(*words):
    if not SERVER.exists():
        pytest.skip(f"{SERVER.name} is not built")
    process = start([SERVER, *words], stdin=subprocess.PIPE)
    try:
        port = process.stdout.readline()
        assert port, process.stderr.read().decode()
        yield Served(int(port), process)
        process.stdin.close()
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
