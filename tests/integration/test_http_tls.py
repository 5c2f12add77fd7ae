"""TLS: heft serves HTTPS with a certificate of the user's, and knows clients by theirs. The certificates are made
by openssl, and checked by Python's ssl module: another implementation than heft's (GnuTLS)."""

import contextlib
import gzip
import http.client
import re
import shutil
import socket
import ssl
import subprocess

import pytest

from harness import HEFT, run, wait_until
from http_harness import SERVER, TOKEN, serving
from live_harness import Service

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


class Authority:
    """Makes certificates: NAME.pem with NAME.key, and its own ca.pem."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.pem = folder / "ca.pem"
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                     "-subj", "/CN=test authority", "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", folder / "ca.key", "-out", self.pem)

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)

    def make(self, name, extensions="subjectAltName=DNS:localhost,IP:127.0.0.1", days=30):
        pem, key, request, more = (self.folder / f"{name}.{end}" for end in ("pem", "key", "csr", "ext"))
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                     "-keyout", key, "-out", request)
        more.write_text(f"{extensions}\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n")
        self.openssl("x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.folder / "ca.key",
                     "-CAcreateserial", "-days", str(days), "-extfile", more, "-out", pem)
        key.chmod(0o600)
        return pem, key


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def server_files(authority):
    return authority.make("server")


def trusting(authority, client=None):
    context = ssl.create_default_context(cafile=authority.pem)
    if client:
        context.load_cert_chain(*client)
    return context


def ask(port, context, path="/metrics", headers=None, method="GET"):
    connection = http.client.HTTPSConnection("localhost", port, timeout=60, context=context)
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def words(files, *others):
    return (f"cert={files[0]}", f"key={files[1]}", *others)


def test_https(authority, server_files):
    context = trusting(authority)
    with serving(*words(server_files)) as server:
        status, body = ask(server.port, context)
        assert status == 200 and b"heft_live_bytes" in body
        status, body = ask(server.port, context, "/debug/pprof/heap")
        assert status == 200 and b"inuse_space" in gzip.decompress(body)
        # Several requests on one connection, one of them with a body and one that waits.
        kept = http.client.HTTPSConnection("localhost", server.port, timeout=60, context=context)
        for path, body in (("/healthz", None), ("/debug/pprof/symbol", "0x1010+0x1040"),
                           ("/debug/pprof/heap?seconds=1", None), ("/metrics", None)):
            kept.request("POST" if body else "GET", path, body=body)
            answer = kept.getresponse()
            assert answer.status == 200 and answer.read(), path
        kept.close()
        with pytest.raises(ssl.SSLCertVerificationError):  # a client that does not know our authority
            ask(server.port, ssl.create_default_context())
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as plain:
            plain.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"heft_" not in plain.recv(65536)
        done = run(["curl", "-sS", "--cacert", authority.pem, f"https://localhost:{server.port}/healthz"])
        assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stderr
        text = ask(server.port, context, headers={"Host": "evil.example"})
        assert text[0] == 403 and b"https://127.0.0.1:" in text[1]
        assert ask(server.port, context, headers={"Origin": f"https://localhost:{server.port}"})[0] == 200
        assert ask(server.port, context, headers={"Origin": "https://evil.example"})[0] == 403
        assert ask(server.port, context, "/debug/pprof/control?sample=off", method="POST")[0] == 403


@pytest.mark.filterwarnings("ignore:.*deprecated:DeprecationWarning")
def test_old_versions_are_refused(authority, server_files):
    with serving(*words(server_files)) as server:
        for version, works in ((ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, True),
                               (ssl.TLSVersion.TLSv1_1, False)):
            context = trusting(authority)
            context.set_ciphers("DEFAULT:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
            if works:
                assert ask(server.port, context, "/healthz")[0] == 200
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    ask(server.port, context, "/healthz")


def test_large_answers_and_many_clients(authority, server_files):
    context = trusting(authority)
    with serving(*words(server_files, "many")) as server:
        connections = [http.client.HTTPSConnection("localhost", server.port, timeout=60, context=context)
                       for _ in range(20)]
        for round_ in range(5):
            for connection in connections:
                connection.request("GET", f"/debug/pprof/{(100, 200)[round_ % 2]}/heap")
            for connection in connections:
                answer = connection.getresponse()
                assert answer.status == 200 and b"inuse_space" in gzip.decompress(answer.read())
        for connection in connections[:3]:
            connection.request("GET", "/test/large")
        for connection in connections[:3]:
            body = connection.getresponse().read()
            assert len(body) == 32 << 20 and body == b"x" * len(body)
        for connection in connections:
            connection.close()


def test_client_certificates(authority, server_files, tmp_path):
    client = authority.make("client", "extendedKeyUsage=clientAuth")
    plain = authority.make("plain", "basicConstraints=CA:FALSE")
    wrong_use = authority.make("wrong_use", "extendedKeyUsage=serverAuth")
    foreign = Authority(tmp_path / "theirs").make("client", "extendedKeyUsage=clientAuth")
    with serving(*words(server_files, f"ca={authority.pem}", "address=0.0.0.0")) as server:  # needs no token
        for certificate, status in ((client, 200), (plain, 200), (wrong_use, 403), (foreign, 403), (None, 403)):
            got, body = ask(server.port, trusting(authority, certificate))
            assert got == status, (certificate, body)
            if status == 403:
                assert b"heft_" not in body and b"certificate is needed" in body
        assert ask(server.port, trusting(authority), "/healthz")[0] == 200
        known = trusting(authority, client)
        assert ask(server.port, known, headers={"Host": "any.example"})[0] == 200  # no page can pretend that
        assert ask(server.port, known, headers={"Origin": "https://evil.example"})[0] == 403
        assert ask(server.port, known, "/debug/pprof/control?sample=off", method="POST")[0] == 200
        assert ask(server.port, trusting(authority), headers={"Host": "any.example"})[0] == 403
    with serving(*words(server_files, f"ca={authority.pem}", f"token={TOKEN}")) as server:  # one of both
        assert ask(server.port, known)[0] == 200
        assert ask(server.port, trusting(authority))[0] == 401
        assert ask(server.port, trusting(authority), headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200
        assert ask(server.port, known, headers={"Authorization": "Bearer wrong"})[0] == 403


def test_expired_client_certificate(authority, server_files):
    name = "expired"
    authority.make(name, "extendedKeyUsage=clientAuth")
    pem, key = (authority.folder / f"{name}.{end}" for end in ("pem", "key"))
    # Newer versions of openssl want both moments, older ones take days.
    for expired in ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"], ["-days", "-1"]:
        done = subprocess.run(["openssl", "x509", "-req", "-in", authority.folder / f"{name}.csr", "-CA", authority.pem,
                               "-CAkey", authority.folder / "ca.key", "-CAcreateserial", *expired, "-out", pem],
                              check=False, capture_output=True)
        if done.returncode == 0:
            break
    assert done.returncode == 0, done.stderr
    with serving(*words(server_files, f"ca={authority.pem}")) as server:
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            assert ask(server.port, trusting(authority, (pem, key)))[0] == 403


def test_slow_handshakes(authority, server_files):
    """Clients that connect and send nothing, or half a hello, do not keep others out."""
    with serving(*words(server_files, "connections=100")) as server, contextlib.ExitStack() as stack:
        for i in range(200):
            connection = stack.enter_context(socket.create_connection(
                ("127.0.0.1", server.port), timeout=60, source_address=("127.0.0.2", 0)))
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"\x16\x03\x01\x02\x00\x01"[:i % 7])
        assert ask(server.port, trusting(authority), "/healthz")[0] == 200


def test_bad_files(authority, server_files, tmp_path):
    """Everything is said in words before anything listens."""
    cert, key = server_files
    other_cert, other_key = authority.make("other")
    empty, open_key, locked = tmp_path / "empty", tmp_path / "open.key", tmp_path / "locked.key"
    empty.write_text("")
    empty.chmod(0o600)
    open_key.write_bytes(key.read_bytes())
    open_key.chmod(0o604)
    authority.openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked)
    locked.chmod(0o600)
    group_key = tmp_path / "group.key"
    group_key.write_bytes(key.read_bytes())
    group_key.chmod(0o640)
    for given, said in (((tmp_path / "none", key), "none"), ((cert, tmp_path / "none"), "none"),
                        ((cert, other_key), "does not belong to the certificate"),
                        ((other_cert, key), "does not belong to the certificate"),
                        ((cert, open_key), "can be read or changed by others\nchmod 600"),
                        ((cert, locked), "passphrase"), ((empty, key), "no certificate in PEM form"),
                        ((cert, empty), "no private key in PEM form"), ((cert, cert), "by others"),
                        ((key, key), "no certificate in PEM form"), ((tmp_path, key), "is not a file"),
                        ((cert, key, empty), "no certificate in PEM form"),
                        ((cert, key, tmp_path / "none"), "none")):
        done = run([SERVER, *words(given, *(f"ca={path}" for path in given[2:]))])
        assert done.returncode == 1 and said in done.stderr.decode(), (given, done.stderr)
    with serving(*words((cert, group_key))) as server:  # a group for keys, as Debian's ssl-cert
        assert ask(server.port, trusting(authority), "/healthz")[0] == 200


# ---- the verbs

def url_in(path):
    found = re.search(r"serving https://127.0.0.1:(\d+)/debug/pprof/", path.read_text())
    return found and int(found.group(1))


def test_run_and_agent(tmp_path, compiled, authority, server_files):
    cert, key = server_files
    tls = ["--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]
    for verb in (["run", "--sample=4k", "-o", tmp_path / "x.heft", *tls, "--", compiled("service.c")],
                 ["agent", "--dir", tmp_path / "dir", "--output-dir", tmp_path / "out", *tls]):
        log = tmp_path / "log"
        with open(log, "wb") as out:
            service = Service([HEFT, *verb], stderr=out)
        service.process.stderr = open(log, "rb")
        port = wait_until(lambda: url_in(log), what="the address")
        assert ask(port, trusting(authority), "/healthz") == (200, b"ok\n")
        assert b"heft_build_info" in ask(port, trusting(authority))[1]
        if verb[0] == "run":
            assert service.end("exit 0") == 0
        else:
            assert service.end(sig=15) == 0


def test_view(tmp_path, authority, server_files):
    recording = tmp_path / "x.heft"
    assert run([HEFT, "run", "-q", "-o", recording, "--", "true"]).returncode == 0
    cert, key = server_files
    process = subprocess.Popen([HEFT, "view", "--no-open", "--port", "0", "--tls-cert", cert, "--tls-key", key,
                                recording], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        found = re.fullmatch(r"https://127.0.0.1:(\d+)/\?token=(\w+)\n", process.stdout.readline().decode())
        assert found
        status, body = ask(int(found.group(1)), trusting(authority), f"/api/recordings?token={found.group(2)}")
        assert status == 200 and b"x.heft" in body
        assert ask(int(found.group(1)), trusting(authority), "/api/recordings")[0] == 401
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0
        process.stdout.close()


@pytest.mark.parametrize("options, said", [
    (["--tls-cert=x"], "--tls-cert and --tls-key go together"), (["--tls-key=x"], "--tls-cert and --tls-key go together"),
    (["--tls-client-ca=x"], "--tls-client-ca needs --tls-cert"),
    (["--tls-cert=/nowhere", "--tls-key=x"], "cannot read /nowhere"),
    (["--listen=none", "--socket=x", "--tls-cert=x", "--tls-key=x"], "--tls-cert needs --listen"),
    (["--listen=0.0.0.0:0"], "--tls-client-ca")])
def test_wrong_usage(tmp_path, options, said):
    done = run([HEFT, "agent", "--dir", tmp_path / "dir", "--output-dir", tmp_path / "out", "--listen=127.0.0.1:0",
                *options], cwd=tmp_path)
    assert done.returncode in (1, 2) and said in done.stderr.decode(), done.stderr
    assert not (tmp_path / "x").exists()
