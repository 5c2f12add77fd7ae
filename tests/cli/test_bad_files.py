"""`heft report` and `heft verify` on files that are no recordings: exit 1, a message that names the
file, nothing on stdout. Recordings cut short are read up to their last complete block."""

import json
import os

import pytest

import harness

VERBS = [["report"], ["report", "--json"], ["report", "--tree"], ["verify"]]


@pytest.fixture(params=VERBS, ids=" ".join)
def verb(request):
    return request.param


def assert_bad(done, *words):
    assert (done.status, done.out) == (1, ""), done
    assert done.err.startswith("heft: "), done
    for word in words:
        assert word in done.err, done


def test_missing(heft, verb):
    assert_bad(heft(*verb, "missing.heft"), "missing.heft", "No such file or directory")


def test_directory(heft, verb, tmp_path):
    (tmp_path / "dir.heft").mkdir()
    done = heft(*verb, "dir.heft")
    assert_bad(done, "dir.heft")
    assert "directory" in done.err.lower()


@pytest.mark.parametrize("content", [b"", b"x", b"hello, world\n" * 100, bytes(4096), b"\x7fELF",
                                     b"\xff" * 70000],
                         ids=["empty", "byte", "text", "zeros", "elf", "ones"])
def test_not_a_recording(heft, verb, tmp_path, content):
    (tmp_path / "bad.heft").write_bytes(content)
    assert_bad(heft(*verb, "bad.heft"), "bad.heft")
    assert (tmp_path / "bad.heft").read_bytes() == content


def test_device(heft, verb):
    assert_bad(heft(*verb, "/dev/null"), "/dev/null")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_unreadable(verb, tmp_path, recording):
    place = tmp_path
    os.chmod(place, 0o755)
    secret = place / "secret.heft"
    secret.write_bytes(recording.read_bytes())
    secret.chmod(0o600)
    for parent in place.parents:
        if str(parent).startswith("/tmp/") and parent.stat().st_uid == 0:
            os.chmod(parent, 0o755)
    copy = place / "heft"
    copy.write_bytes(harness.HEFT.read_bytes())
    copy.chmod(0o755)
    done = harness.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", copy, *verb,
                        secret])
    assert (done.returncode, done.stdout) == (1, b""), done
    assert b"Permission denied" in done.stderr and b"secret.heft" in done.stderr, done


def test_sound(heft, recording):
    done = heft("verify", recording)
    assert done.status == 0, done
    assert heft("verify", "-q", recording).out == ""
    report = json.loads(heft("report", "--json", recording).out)
    assert report["schema"] == 1
    assert report["totals"]["allocations"] > 0


def test_cut_anywhere(heft, recording, tmp_path):
    """Every cut is answered: with what was complete, or with a message; never with a crash. There is
    something to answer with as soon as the first block is whole."""
    data = recording.read_bytes()
    first_end = 32 + 48 + int.from_bytes(data[44:48], "little")
    answered = 0
    for i in range(40):
        cut = len(data) * i // 40
        path = tmp_path / "cut.heft"
        path.write_bytes(data[:cut])
        done = heft("report", "--json", path)
        assert done.status == (0 if cut >= first_end else 1), (cut, done)
        if done.status == 0:
            answered += 1
            notes = [n["text"] for n in json.loads(done.out)["notes"]]
            assert any("the recording is incomplete" in n for n in notes), (cut, notes)
        else:
            assert_bad(done, "cut.heft")
    assert 0 < answered < 40


def test_damaged_byte_is_found(heft, recording, tmp_path):
    """verify sees any changed byte, says where, and what was expected there."""
    data = bytearray(recording.read_bytes())
    for i in range(40):
        at = (len(data) - 1) * i // 39
        data[at] ^= 0x55
        path = tmp_path / "damaged.heft"
        path.write_bytes(data)
        data[at] ^= 0x55
        done = heft("verify", path)
        assert done.status == 1, (at, done)
        assert_bad(done, "damaged.heft", "expected")


def test_filters_that_match_nothing(heft, recording):
    done = heft("report", "--focus", "no_such_function_anywhere", recording)
    assert done.status == 0, done
    report = json.loads(heft("report", "--json", "--focus", "no_such_function_anywhere",
                             recording).out)
    assert report["sites"] == []


def test_color(heft, recording):
    assert "\033[" not in heft("report", recording).out
    assert "\033[" not in heft("report", "--color=never", recording).out
    assert "\033[" in heft("report", "--color=always", recording).out
    assert "\033[" not in heft("report", "--color=always", "--json", recording).out
