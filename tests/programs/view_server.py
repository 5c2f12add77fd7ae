"""`heft view` for tests: starts it on a free port, asks for documents, ends it."""

import gzip
import json
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from harness import HEFT, TIME_LIMIT, end_group, start


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def text(self):
        return self.body.decode()


class Viewer:
    """with Viewer(files...) as v: v.json("/api/r/1/summary")"""

    def __init__(self, *files, cwd=None, options=("--port", "0")):
        self.process = start([HEFT, "view", "--no-open", *options, *files], cwd=cwd)
        self.url = self.process.stdout.readline().decode().strip()
        if not self.url:
            self.status = self.process.wait(TIME_LIMIT)
            self.error = self.process.stderr.read().decode()
            return
        self.base, self.token = self.url.split("/?token=")
        self.port = int(self.base.rsplit(":", 1)[1])

    def __enter__(self):
        assert self.url, self.error
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end()

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        try:
            status = self.process.wait(TIME_LIMIT)
        except subprocess.TimeoutExpired:
            end_group(self.process)
            raise
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def ask(self, path, token=True, headers=None, method="GET", data=None):
        request = urllib.request.Request(self.base + path, method=method, data=data)
        if token:
            request.add_header("Authorization", f"Bearer {self.token if token is True else token}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=TIME_LIMIT) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def json(self, path, **query):
        """Packed, as a browser asks for it."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        answer = self.ask(path, headers={"Accept-Encoding": "gzip"})
        assert answer.status == 200, (path, answer.status, answer.body[:300])
        assert answer.headers["Content-Type"].startswith("application/json")
        packed = answer.headers.get("Content-Encoding") == "gzip"
        return json.loads(gzip.decompress(answer.body) if packed else answer.body)

    def document(self, name, recording=1, **query):
        return self.json(f"/api/r/{recording}/{name}", **query)
