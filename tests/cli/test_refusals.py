"""What `heft run` refuses, and with which status: 127 not found, 126 cannot be executed, 125 for
heft's own reasons. A refusal names the file and the reason, starts nothing and writes nothing."""

import os
import shutil
import struct
import subprocess

import pytest

import harness


def assert_refused(done, status, *words):
    assert (done.status, done.out) == (status, ""), done
    for word in words:
        assert word in done.err, done
    assert done.err.startswith("heft"), done


def recordings(path):
    return sorted(p.name for p in path.glob("*.heft"))


def compiled(tmp_path, *flags, source="int main(void) { return 0; }\n"):
    (tmp_path / "p.c").write_text(source)
    subprocess.run(["gcc", *flags, "-o", "p", "p.c"], cwd=tmp_path, check=True)
    return tmp_path / "p"


def script(path, text, mode=0o755):
    path.write_text(text)
    path.chmod(mode)
    return path


def test_not_found(heft, tmp_path):
    assert_refused(heft("run", "no-such-command"), 127, "no-such-command")
    assert_refused(heft("run", "./missing"), 127, "./missing")
    assert_refused(heft("--", "no-such-command"), 127, "no-such-command")
    assert recordings(tmp_path) == []


def test_not_executable(heft, tmp_path):
    script(tmp_path / "plain", "echo hello\n", 0o644)
    assert_refused(heft("run", "./plain"), 126, "./plain is not executable", "chmod +x")
    assert_refused(heft("run", "/"), 126, "is a directory")
    (tmp_path / "junk").write_bytes(b"\0\1\2\3")
    (tmp_path / "junk").chmod(0o755)
    assert_refused(heft("run", "./junk"), 126, "neither an ELF program nor a script")
    assert recordings(tmp_path) == []


def test_static(heft, tmp_path):
    for flag in ("-static", "-static-pie"):
        compiled(tmp_path, flag)
        assert_refused(heft("run", "--via=preload", "./p"), 125, "./p is statically linked", "--via=auto")
        assert_refused(heft("run", "--count", "./p"), 125, "./p is statically linked", "heft run without --count records it")
    assert recordings(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_setuid(heft, tmp_path):
    program = compiled(tmp_path)
    os.chown(program, 65534, -1)
    program.chmod(0o4755)
    assert_refused(heft("run", "--via=preload", "./p"), 125, "setuid", "record a copy")
    # A setuid-root program gains nothing when root runs it: no reason to refuse.
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    assert heft("run", "-q", "-o", "x.heft", "./p").status == 0


def test_other_architecture(heft, tmp_path):
    def header(machine, bits):
        ident = b"\x7fELF" + bytes([bits, 1, 1]) + bytes(9)
        return ident + struct.pack("<HHI", 2, machine, 1) + bytes(44)
    for machine, bits, word, status in ((183, 2, "aarch64", 126), (3, 1, "i386", 125)):
        path = tmp_path / "foreign"
        path.write_bytes(header(machine, bits))
        path.chmod(0o755)
        assert_refused(heft("run", "./foreign"), status, word)


def test_damaged_elf(heft, tmp_path):
    data = open("/bin/true", "rb").read()
    for cut in (5, 63, 64, 100, len(data) // 2):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        path.chmod(0o755)
        assert_refused(heft("run", "./cut"), 126, "damaged ELF")


def test_scripts(heft, tmp_path):
    script(tmp_path / "lost", "#!/no/such/shell\n")
    assert_refused(heft("run", "./lost"), 126, "/no/such/shell")
    script(tmp_path / "env", "#!/usr/bin/env no-such-language\n")
    assert_refused(heft("run", "./env"), 127, "no-such-language")
    static = compiled(tmp_path, "-static")
    script(tmp_path / "by-static", f"#!{static}\n")
    assert_refused(heft("run", "--via=preload", "./by-static"), 125, "statically linked")
    # Without a first line the shell runs it, as execvp would.
    script(tmp_path / "bare", "echo from $0\nexit 7\n")
    done = heft("run", "-q", "-o", "bare.heft", "./bare")
    assert (done.status, done.out) == (7, "from ./bare\n"), done
    script(tmp_path / "sh", "#!/bin/sh\necho \"$@\"\n")
    done = heft("run", "-q", "-o", "sh.heft", "./sh", "-o", "two words")
    assert (done.status, done.out) == (0, "-o two words\n"), done


def test_sanitizer(heft, tmp_path):
    compiled(tmp_path, "-fsanitize=address")
    assert_refused(heft("run", "./p"), 125, "AddressSanitizer", "without -fsanitize")


def test_own_malloc_is_named(heft, tmp_path):
    compiled(tmp_path, "-fno-builtin", source="""
#include <stddef.h>
static char heap[1 << 16];
static size_t used;
void *malloc(size_t n) { void *p = heap + used; used += (n + 15) & ~(size_t)15; return p; }
void free(void *p) { (void)p; }
int main(void) { return malloc(10) == NULL; }
""")
    done = heft("run", "-o", "own.heft", "./p")
    assert (done.status, done.out) == (0, ""), done
    assert "defines malloc itself" in done.err, done
    report = heft("report", "own.heft")
    assert "defines malloc itself" in report.out + report.err, report


def test_output_is_a_directory(heft, tmp_path):
    (tmp_path / "there").mkdir()
    marker = script(tmp_path / "mark", "#!/bin/sh\ntouch ran\n")
    for output in ("there", "there/", "."):
        for force in ([], ["--force"]):
            done = heft("run", *force, "-o", output, marker)
            assert_refused(done, 125, "is a directory" if not done.err.count("Is a directory")
                           else "Is a directory", output.rstrip("/"))
    assert not (tmp_path / "ran").exists()
    assert list((tmp_path / "there").iterdir()) == []


def test_output_cannot_be_made(heft, tmp_path):
    marker = script(tmp_path / "mark", "#!/bin/sh\ntouch ran\n")
    assert_refused(heft("run", "-o", "no/such/place.heft", marker), 125, "no/such/place.heft",
                   "No such file or directory")
    assert_refused(heft("run", "-o", "mark/place.heft", marker), 125, "mark/place.heft")
    assert not (tmp_path / "ran").exists()


def test_output_exists(heft, tmp_path):
    (tmp_path / "old.heft").write_text("precious")
    marker = script(tmp_path / "mark", "#!/bin/sh\ntouch ran\n")
    assert_refused(heft("run", "-o", "old.heft", marker), 125, "old.heft", "--force")
    assert (tmp_path / "old.heft").read_text() == "precious"
    assert not (tmp_path / "ran").exists()
    assert heft("run", "-q", "--force", "-o", "old.heft", marker).status == 0
    assert (tmp_path / "ran").exists()
    assert heft("verify", "old.heft").status == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_no_write_permission(tmp_path, heft):
    place = tmp_path / "sealed"
    place.mkdir(mode=0o755)
    os.chmod(tmp_path, 0o755)
    for parent in tmp_path.parents:  # pytest's own directories are private
        if parent.owner() == "root" and str(parent).startswith("/tmp/"):
            os.chmod(parent, 0o755)
    copy = tmp_path / "bin"
    copy.mkdir(mode=0o755)
    for name in ("heft", "libheft-preload.so"):
        shutil.copy(harness.BUILD / name, copy / name)
    done = harness.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                        copy / "heft", "run", "/bin/true"], cwd=place)
    assert done.returncode == 125, done
    assert b"Permission denied" in done.stderr and b"heft.true." in done.stderr, done
    assert list(place.iterdir()) == []


def test_library_is_missing(tmp_path, heft):
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(harness.HEFT, alone / "heft")
    done = harness.run([alone / "heft", "run", "/bin/true"], cwd=tmp_path)
    assert done.returncode == 125, done
    assert b"libheft-preload.so" in done.stderr and b"make" in done.stderr
    # Where an installation puts it, it is found.
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "lib" / "heft").mkdir(parents=True)
    shutil.copy(harness.HEFT, tree / "bin" / "heft")
    shutil.copy(harness.BUILD / "libheft-preload.so", tree / "lib" / "heft")
    done = harness.run([tree / "bin" / "heft", "run", "-q", "-o", "t.heft", "/bin/true"], cwd=tmp_path)
    assert done.returncode == 0, done


def test_a_path_that_cannot_be_preloaded(tmp_path, heft):
    place = tmp_path / "two words"
    place.mkdir()
    shutil.copy(harness.HEFT, place / "heft")
    shutil.copy(harness.BUILD / "libheft-preload.so", place)
    done = harness.run([place / "heft", "run", "/bin/true"], cwd=tmp_path)
    assert done.returncode == 125, done
    assert b"space or a colon" in done.stderr


def test_the_programs_own_status(heft):
    for status in (0, 1, 2, 3, 124, 200, 255):
        done = heft("run", "-q", "--force", "-o", "s.heft", "--", "/bin/sh", "-c", f"exit {status}")
        assert done.status == status, done
    done = heft("run", "-q", "--force", "-o", "s.heft", "/bin/sh", "-c", "kill -TERM $$")
    assert done.status == 128 + 15, done


def test_output_name_is_expanded(heft, tmp_path):
    assert heft("run", "-q", "-o", "%e-%p-%t.heft", "/bin/true").status == 0
    assert heft("run", "-q", "/bin/true").status == 0
    assert heft("run", "-q", "/bin/true").status == 0
    names = recordings(tmp_path)
    assert len([n for n in names if n.startswith("heft.true.")]) == 2, names
    assert len([n for n in names if n.startswith("true-") and "%" not in n]) == 1, names


def test_quiet_says_nothing(heft):
    done = heft("run", "-q", "-o", "q.heft", "/bin/echo", "hello")
    assert (done.status, done.out, done.err) == (0, "hello\n", "")


def test_summary_goes_to_stderr_and_is_short(heft):
    done = heft("run", "-o", "s.heft", "/bin/echo", "hello")
    assert (done.status, done.out) == (0, "hello\n")
    assert 1 <= len(done.err.splitlines()) <= 12, done
    assert "heft report s.heft" in done.err, done
    assert "\033[" not in done.err


@pytest.mark.parametrize("option", ["--dir", "--output-dir", "--socket", "--token-file", "--tls-cert", "--tls-key",
                                    "--tls-client-ca"])
def test_agent_refuses_an_empty_path(heft, tmp_path, option):
    """A variable of a script that was never set: a message with an empty name in it helps nobody."""
    assert_refused(heft("agent", f"{option}=", cwd=tmp_path), 2, f"{option} needs a ", ", not ''", "usage: heft agent")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments, status, words", [
    (["--quota="], 2, "--quota needs a size"), (["--quota=-1"], 2, "'-1'"), (["--quota=1X"], 2, "'1X'"),
    (["--quota=99999999999999999999G"], 2, "--quota needs a size"), (["--quota=1M", "--quota=x"], 2, "'x'"),
    (["--listen="], 2, "--listen needs ADDR:PORT"), (["--listen=NONE"], 2, "--listen needs ADDR:PORT"),
    (["--listen=none"], 2, "--listen none needs --socket"), (["--listen=:0", "--listen=none"], 2, "needs --socket"),
    (["--listen=none", "--token-file=none"], 2, "--listen none needs --socket"),
    (["--tls-cert=a"], 2, "--tls-cert and --tls-key go together"), (["--tls-client-ca=a"], 2, "needs --tls-cert"),
    (["--tls-cert=none", "--tls-key=none"], 1, "cannot read none"), (["--token-file=none"], 1, "cannot read the token file none"),
    (["--tls-cert=.", "--tls-key=."], 1, ". is not a file"), (["--token-file=."], 1, ". is not a file")])
def test_agent_refuses(heft, tmp_path, arguments, status, words):
    """Before anything listens, and before a folder is made."""
    done = heft("agent", "--dir", "d", "--output-dir", "out", *arguments, cwd=tmp_path)
    assert_refused(done, status, words)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--dir", "--output-dir"])
def test_agent_leaves_a_file_alone_that_is_no_folder(heft, tmp_path, option):
    (tmp_path / "file").write_text("mine")
    dirs = {"--dir": "d", "--output-dir": "out", option: "file"}
    done = heft("agent", "--listen=127.0.0.1:0", *(f"{name}={value}" for name, value in dirs.items()), cwd=tmp_path)
    assert_refused(done, 1, "cannot make the directory file: File exists")
    assert (tmp_path / "file").read_text() == "mine"


def test_agent_names_the_whole_path_of_its_folder(tmp_path):
    """Programs take no HEFT_DIR that is not a whole path."""
    agent = subprocess.Popen([harness.HEFT, "agent", "--dir=d", "--output-dir=out", "--listen=127.0.0.1:0"], cwd=tmp_path,
                             stderr=subprocess.PIPE, text=True)
    try:
        said = next(line for line in agent.stderr if "serving" in line)
        assert said.endswith(f"HEFT_DIR={tmp_path}/d\n"), said
    finally:
        agent.terminate()
        assert agent.wait(60) == 0
