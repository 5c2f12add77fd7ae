"""A server as people write them: axum and tokio, with the allocators tikv-jemallocator and mimalloc linked in. One handler
keeps 20,000 bytes for each request and another one 2,000. heft says so, and jemalloc's own profile of the same run agrees."""

import http.client
import re
import shutil
import signal
import subprocess
import threading

import pytest

from attach_harness import Attached, Lines, may_trace
from harness import HEFT, cargo_build, end_group, go_pprof, report, run, start, total, wait_until
from live_harness import fetch

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")

DEPENDENCIES = """[dependencies]
axum = { version = "=0.8.4", default-features = false, features = ["http1", "tokio"] }
tokio = { version = "=1.47.1", features = ["rt-multi-thread", "net"] }
"""
PROFILE = '[profile.release]\ndebug = true\n[profile.release.package."*"]\ndebug = "line-tables-only"\n'
OWN_PROFILE = """
async fn profile() -> Result<Vec<u8>, StatusCode> {
    let mut control = jemalloc_pprof::PROF_CTL.as_ref().ok_or(StatusCode::NOT_FOUND)?.lock().await;
    control.dump_pprof().map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
"""
CRATES = {
    "tikv": ('tikv-jemallocator = { version = "=0.6.1", features = ["profiling"] }\njemalloc_pprof = "=0.8.2"\n',
             "tikv_jemallocator::Jemalloc", OWN_PROFILE, "jemalloc"),
    "mimalloc": ('mimalloc = "=0.1.52"\n', "mimalloc::MiMalloc",
                 "async fn profile() -> StatusCode { StatusCode::NOT_FOUND }\n", "mimalloc"),
}
SERVER = """use axum::{http::StatusCode, routing::get, Router};
use std::sync::Mutex;
#[global_allocator]
static A: ALLOCATOR = ALLOCATOR;
static KEPT: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
fn keep(block: Vec<u8>) {
    KEPT.lock().unwrap().push(block);
}
async fn open_session() {
    keep(vec![1u8; 20_000]);
}
async fn add_item() {
    keep(vec![2u8; 2_000]);
}
async fn quit() -> StatusCode {
    std::process::exit(0)
}
fn main() {
    let routes = Router::new()
        .route("/open", get(open_session))
        .route("/add", get(add_item))
        .route("/profile", get(profile))
        .route("/quit", get(quit));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_io().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        axum::serve(listener, routes).await.unwrap();
    });
}
"""
REQUESTS = 2000
OPEN, ADD = 20_000 * REQUESTS, 2_000 * REQUESTS


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = {}

    def build(crate):
        if crate not in made:
            more, allocator, functions, _ = CRATES[crate]
            made[crate] = cargo_build(tmp_path_factory.mktemp(crate) / "crate", f"axum_{crate}", DEPENDENCIES + more + PROFILE,
                                      SERVER.replace("ALLOCATOR", allocator) + functions, "--release", seconds=600)
        return made[crate]
    return build


class Client:
    """Asks a server, whose command is an argument of heft or which runs by itself."""

    def __init__(self, *command, env=None):
        self.process = start(command, env=env)
        self.port = int(Lines(self.process.stdout).next() or 0)
        assert self.port, self.process.communicate()

    def get(self, path):
        return fetch(f"http://127.0.0.1:{self.port}{path}")

    def ask(self, times=REQUESTS):
        """So many of each, at the same time."""
        failed = []

        def of_one(path):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            for _ in range(times):
                connection.request("GET", path)
                answer = connection.getresponse()
                failed.extend([answer.status] if answer.status != 200 or answer.read() else [])
            connection.close()
        threads = [threading.Thread(target=of_one, args=(path,)) for path in ("/open", "/add")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed

    def quit(self):
        """Its last words"""
        try:
            self.get("/quit")
        except (OSError, http.client.HTTPException):
            pass  # it does not answer
        try:
            _, err = self.process.communicate(timeout=60)
            assert self.process.returncode == 0, err
            return err.decode()
        finally:
            end_group(self.process)


def of_handler(rep, name, measure):
    """Async functions stand as closures of themselves."""
    return total([s for s in rep["sites"] if any(name in (f.get("function") or "") for f in s["stack"])], measure)


def within(value, expected, part):
    return abs(value - expected) < part * expected


def test_pprof_names_the_handler(server, tmp_path):
    """About 600 samples: 95 % of all runs are within 9 % of what is true, and this allows 20 %."""
    program = server("tikv")
    own = {"_RJEM_MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:16"}
    url = tmp_path / "url"
    client = Client("/bin/sh", "-c", 'exec "$@" 2>"$0"', url, HEFT, "run", "--sample=64k", "--listen", "127.0.0.1:0", "-o",
                    tmp_path / "axum.heft", "--", program, env=own)
    served = wait_until(lambda: re.search(r"serving (http://\S+)", url.read_text()), what="the address").group(1)
    client.ask()
    heap, theirs = tmp_path / "heap.pb.gz", tmp_path / "theirs.pb.gz"
    for path, (status, body) in ((heap, fetch(served + "heap")), (theirs, client.get("/profile"))):
        assert status == 200, body
        path.write_bytes(body)
    client.quit()
    rep = report(heap)
    assert within(of_handler(rep, "open_session", "live_bytes"), OPEN, 0.2)
    assert within(total(rep["sites"], "live_bytes"), OPEN + ADD, 0.2)
    assert within(total(report(theirs)["sites"], "live_bytes"), total(rep["sites"], "live_bytes"), 0.3)
    saved = report(tmp_path / "axum.heft")
    assert saved["way"] == "entry" and within(of_handler(saved, "open_session", "live_bytes"), OPEN, 0.2)
    top = go_pprof(tmp_path, "-top", "-sample_index=inuse_space", heap).stdout.decode()
    first = re.search(r"^ +([\d.]+)MB +[\d.]+% +[\d.]+% +[\d.]+MB +[\d.]+% +(.+)$", top, re.M)
    assert "open_session" in first[2] and within(float(first[1]) * (1 << 20), OPEN, 0.2), top


@pytest.mark.parametrize("crate", CRATES)
def test_exact(server, tmp_path, crate):
    """From its start; and stripped, with its debug file beside it."""
    program = server(crate)
    stripped, debug = tmp_path / "stripped", tmp_path / "stripped.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", program, stripped], check=True)
    for i, file in enumerate((program, stripped)):
        path = tmp_path / f"{i}.heft"
        client = Client(HEFT, "run", "-o", path, "--", file)
        client.ask(300)
        said = client.quit()
        rep = report(path)
        assert rep["way"] == "entry" and "not recorded" not in said
        for name, size in (("open_session", 20_000), ("add_item", 2_000)):
            blocks = [s for s in rep["sites"] if any(name in (f.get("function") or "") for f in s["stack"]) and
                      "push" not in str([f.get("function") for f in s["stack"]])]
            assert (total(blocks, "allocations"), total(blocks, "live_bytes")) == (300, 300 * size), (name, blocks)


def test_sampled_mimalloc(server, tmp_path):
    client = Client(HEFT, "run", "-q", "--sample=64k", "-o", tmp_path / "x.heft", "--", server("mimalloc"))
    client.ask()
    client.quit()
    rep = report(tmp_path / "x.heft")
    assert within(of_handler(rep, "open_session", "live_bytes"), OPEN, 0.2)
    assert within(total(rep["sites"], "live_bytes"), OPEN + ADD, 0.2)


@pytest.mark.parametrize("crate", CRATES)
def test_stripped_is_refused(server, tmp_path, crate):
    """heft attach refuses, and names the allocator and the ways out. heft doctor has said so."""
    stripped = tmp_path / "stripped"
    shutil.copy(server(crate), stripped)
    subprocess.run(["strip", stripped], check=True)
    client = Client(stripped)
    try:
        foretold = run([HEFT, "doctor", client.process.pid])
        done = run([HEFT, "attach", "-o", tmp_path / "x.heft", client.process.pid])
        assert (foretold.returncode, done.returncode) == (1, 1)
        for said in foretold.stdout, done.stderr:
            text = " ".join(said.decode().split())
            assert f"carries the messages of {CRATES[crate][3]}" in text and "/usr/lib/debug/.build-id" in text
            assert ("_RJEM_MALLOC_CONF=prof:true" in text) == (crate == "tikv")
        assert not (tmp_path / "x.heft").exists()
    finally:
        client.quit()


def test_attached(server, tmp_path):
    program = server("tikv")
    client = Client(program)
    client.folder, client.pid = tmp_path, client.process.pid
    client.ask(50)
    heft = Attached(client, heft=HEFT)
    client.ask(200)
    heft.signal(signal.SIGINT)
    heft.end()
    rep = heft.report()
    client.quit()
    assert of_handler(rep, "open_session", "live_bytes") >= 200 * 20_000
    assert rep["totals"]["unknown_frees"] == rep["totals"]["dropped"] == 0
