"""Usage: help, version, wrong verbs, wrong options. Exit 2 (125 under run, whose other statuses
are the program's), messages on stderr, nothing on stdout."""

import os
import pathlib

import pytest

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden" / "help"


def assert_golden(name, text):
    """Compares with tests/golden/help/NAME; HEFT_UPDATE_GOLDEN=1 writes it instead."""
    path = GOLDEN / name
    if os.environ.get("HEFT_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert text == path.read_text(), f"{path.name} differs; HEFT_UPDATE_GOLDEN=1 renews it"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["help"]])
def test_help(heft, arguments):
    done = heft(*arguments)
    assert (done.status, done.err) == (0, "")
    assert_golden("heft.txt", done.out)


@pytest.mark.parametrize("verb", ["run", "attach", "detach", "report", "diff", "check", "export", "top", "view", "map",
                                  "verify", "agent", "ctl", "doctor", "help"])
def test_help_of_a_verb(heft, verb):
    asked = heft("help", verb)
    assert (asked.status, asked.err) == (0, "")
    assert_golden(f"{verb}.txt", asked.out)
    assert heft(verb, "--help").out == asked.out
    assert heft(verb, "-h").out == asked.out


def test_version(heft):
    done = heft("--version")
    assert (done.status, done.err) == (0, "")
    assert done.out == "heft 0.1.0\n"


def test_no_arguments_is_help_on_stderr(heft):
    done = heft()
    assert (done.status, done.out) == (2, "")
    assert done.err == heft("--help").out


@pytest.mark.parametrize("wrong, meant", [("reprot", "report"), ("rn", "run"), ("verfy", "verify"),
                                          ("rep", "report"), ("hlep", "help")])
def test_unknown_verb_suggests_the_nearest(heft, wrong, meant):
    done = heft(wrong, "x")
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines()[0] == f"heft: no verb '{wrong}'; did you mean '{meant}'?"
    assert heft("help", wrong).err.splitlines()[0] == done.err.splitlines()[0]


def test_unknown_verb_near_nothing(heft):
    done = heft("/bin/true")
    assert (done.status, done.out) == (2, "")
    assert "to record a program: heft run /bin/true" in done.err
    assert heft("--bogus").status == 2


@pytest.mark.parametrize("verb, status", [("run", 125), ("attach", 2), ("detach", 2), ("report", 2), ("diff", 2),
                                          ("check", 2), ("top", 2), ("view", 2), ("map", 2), ("verify", 2), ("agent", 2), ("ctl", 2), ("doctor", 2), ("help", 2)])
def test_unknown_option(heft, verb, status):
    done = heft(verb, "--bogus")
    assert (done.status, done.out) == (status, "")
    lines = done.err.splitlines()
    assert lines[0] == f"heft {verb}: unknown option --bogus"
    assert lines[1].startswith(f"usage: heft {verb} ")
    assert heft(verb, "-Z").status == status


def test_unknown_option_suggests_the_nearest(heft):
    assert "did you mean --follow?" in heft("run", "--folow=all", "true").err
    assert "did you mean --tree?" in heft("report", "--tre", "x").err


@pytest.mark.parametrize("arguments, words", [
    (["report"], "FILE"),
    (["report", "a", "b"], ""),
    (["report", "--sort"], "--sort needs a value"),
    (["report", "--sort=size", "x"], "peak|live|left|allocated|calls|count|temporary|lifetime"),
    (["report", "--color=red", "x"], "auto|always|never"),
    (["report", "--json=1", "x"], "takes no value"),
    (["report", "-n", "many", "x"], "many"),
    (["report", "--from", "yesterday", "x"], "yesterday"),
    (["report", "--to", "120%", "x"], "120%"),
    (["report", "--pid", "self", "x"], "self"),
    (["verify"], "FILE"),
    (["verify", "a", "b"], ""),
    (["help", "run", "report"], ""),
])
def test_wrong_usage(heft, arguments, words):
    done = heft(*arguments)
    assert (done.status, done.out) == (2, ""), done
    assert words in done.err, done
    assert "usage: heft " in done.err


def test_wrong_regular_expression(heft, recording):
    for option in ("--focus", "--ignore"):
        done = heft("report", option, "(", recording)
        assert (done.status, done.out) == (2, ""), done
        assert "(" in done.err


@pytest.mark.parametrize("arguments", [["run"], ["run", "--"], ["--"], ["run", "-q"],
                                       ["run", "--follow=some", "true"], ["run", "-o"]])
def test_run_used_wrongly(heft, arguments, tmp_path):
    done = heft(*arguments)
    assert (done.status, done.out) == (125, ""), done
    assert "usage: heft run " in done.err
    assert list(tmp_path.iterdir()) == []


def test_options_may_follow_the_file(heft, recording):
    before = heft("report", "--json", recording)
    assert before.status == 0, before
    assert heft("report", recording, "--json").out == before.out


def test_full_disk_under_stdout_is_an_error(heft, recording):
    import subprocess
    import harness
    for arguments in (["--help"], ["help", "run"], ["report", recording],
                      ["report", "--json", recording]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([str(harness.HEFT), *map(str, arguments)], stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
        assert done.returncode == 1, arguments
        assert b"standard output" in done.stderr, (arguments, done.stderr)
