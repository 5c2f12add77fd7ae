"""heft run --listen: profiles of a program that is being recorded, exactly or by samples, while it runs
and for a while after."""

import concurrent.futures
import re
import signal
import subprocess

import pytest

from harness import HEFT, report, run, wait_until
from live_harness import Service, fetch, live_in

BLOCK = 300000
TOKEN = "0123456789abcdef0123456789abcdef"


class Listening(Service):
    """heft run --listen around the service, with what heft says in a file."""

    def __init__(self, tmp_path, program, *options):
        self.recording = tmp_path / "run.heft"
        self.log_path = tmp_path / "run.log"
        self.where = tmp_path
        with open(self.log_path, "wb") as log:
            super().__init__([HEFT, "run", "--listen", "127.0.0.1:0", "-o", self.recording, *options,
                              "--", program], stderr=log)
        self.process.stderr = open(self.log_path, "rb")
        self.url = wait_until(self.served, what="the address")

    def served(self):
        found = re.search(r"serving (http://\S+)", self.log_path.read_text())
        return found and found.group(1)

    def heap(self):
        path = self.where / "heap.pb.gz"
        def ready():
            status, body = fetch(self.url + "heap")
            return body if status == 200 else None
        path.write_bytes(wait_until(ready, what="the heap"))
        return report(path)


@pytest.mark.parametrize("options", [["--sample=4k"], []], ids=["sampled", "exact"])
def test_while_it_runs(tmp_path, compiled, options):
    service = Listening(tmp_path, compiled("service.c"), *options)
    service.do(f"keep 60 {BLOCK}")
    # An exact recording is served up to its last complete block, of a second ago at most.
    wait_until(lambda: live_in(service.heap(), "keep_block") == (60 * BLOCK, 60), what="60 blocks")
    service.do(f"keep 40 {BLOCK}")
    wait_until(lambda: live_in(service.heap(), "keep_block") == (100 * BLOCK, 100), what="100 blocks")
    assert service.end("exit 9") == 9
    assert live_in(report(service.recording), "keep_block") == (100 * BLOCK, 100)


def test_linger(tmp_path, compiled):
    service = Listening(tmp_path, compiled("service.c"), "--sample=4k", "--linger=10m")
    service.do(f"keep 60 {BLOCK}")
    service.tell("exit 3")
    wait_until(lambda: "still serving" in service.log_path.read_text(), what="it lingers")
    assert "exit status 3" in service.log_path.read_text()
    assert live_in(service.heap(), "keep_block") == (60 * BLOCK, 60)
    assert report(service.recording)["exit_status"] == 3
    assert service.end(sig=signal.SIGINT) == 3


def test_linger_is_over(tmp_path, compiled):
    service = Listening(tmp_path, compiled("service.c"), "--linger=100ms")
    assert service.end("exit 4") == 4


def test_after_a_kill(tmp_path, compiled):
    service = Listening(tmp_path, compiled("service.c"), "--sample=4k", "--linger=10m")
    service.do(f"keep 60 {BLOCK}")
    def listed():
        return re.search(r'<td class="n">(\d+)</td>', fetch(service.url)[1].decode())

    pid = int(wait_until(listed, what="the index lists it").group(1))
    subprocess.run(["kill", "-9", str(pid)], check=True)
    wait_until(lambda: "still serving" in service.log_path.read_text(), what="it lingers")
    assert live_in(service.heap(), "keep_block") == (60 * BLOCK, 60)
    assert "killed by signal 9 (SIGKILL)" in fetch(service.url)[1].decode()
    assert service.end(sig=signal.SIGTERM) == 137


@pytest.mark.parametrize("options", [["--sample=4k"], []], ids=["sampled", "exact"])
def test_scrapes_do_not_change_what_the_program_does(tmp_path, compiled, options):
    """100 scrapes, four at a time, while it works: what it answers is what it would without."""
    service = Listening(tmp_path, compiled("service.c"), *options)
    service.do(f"keep 1 {BLOCK}")
    service.heap()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        scrapes = [threads.submit(fetch, service.url + "heap") for _ in range(100)]
        done = 0
        while not all(s.done() for s in scrapes):
            assert service.do("keep 10 2000") == ["kept", str(BLOCK + (done + 10) * 2000),
                                                  str(1 + done + 10)]
            assert service.do("pass 1000 100") == ["passed", "1000"]
            done += 10
    assert {s.result()[0] for s in scrapes} == {200}
    assert service.end("exit 6") == 6


def test_token(tmp_path, compiled):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    service = Listening(tmp_path, compiled("service.c"), "--sample=4k", "--token-file", token)
    service.do(f"keep 10 {BLOCK}")
    assert fetch(service.url + "heap")[0] == 401
    wait_until(lambda: fetch(service.url + "heap", token=TOKEN)[0] == 200, what="the heap")
    service.end()


@pytest.mark.parametrize("options, words", [
    (["--linger=1s"], b"--linger needs --listen"), (["--token-file=x"], b"--token-file needs --listen"),
    (["--listen=x:y"], b"--listen needs"), (["--linger=soon", "--listen=:0"], b"--linger needs a time"),
    (["--listen=0.0.0.0:0"], b"token"), (["--listen=:0", "--token-file=/nowhere"], b"/nowhere"),
    (["--sample=often"], b"--sample needs a size")])
def test_refused_before_anything_runs(tmp_path, options, words):
    made = tmp_path / "ran"
    done = run([HEFT, "run", *options, "-o", tmp_path / "x.heft", "--", "touch", made])
    assert done.returncode == 125 and words in done.stderr, done.stderr
    assert not made.exists() and not (tmp_path / "x.heft").exists()


def test_busy_port(tmp_path, compiled):
    service = Listening(tmp_path, compiled("service.c"))
    port = service.url.split(":")[2].split("/")[0]
    done = run([HEFT, "run", "--listen", port, "-o", tmp_path / "x.heft", "--", "true"])
    assert done.returncode == 125 and port.encode() in done.stderr
    service.end()
