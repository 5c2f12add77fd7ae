"""Brings the shared harness (tests/programs/harness.py) into this folder's tests, and gives them
the command line: heft(...) runs build/heft in the test's own directory."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "programs"))

import harness  # noqa: E402
from harness import built, no_leftovers  # noqa: E402,F401


class Outcome:
    def __init__(self, done):
        self.status = done.returncode
        self.out = done.stdout.decode(errors="replace")
        self.err = done.stderr.decode(errors="replace")

    def __repr__(self):
        return f"status {self.status}\n--- stdout\n{self.out}--- stderr\n{self.err}---"


@pytest.fixture
def heft(tmp_path):
    def call(*arguments, **options):
        options.setdefault("cwd", tmp_path)
        return Outcome(harness.run([harness.HEFT, *arguments], **options))
    return call


@pytest.fixture(scope="session")
def recording(tmp_path_factory):
    """One sound recording of a small program."""
    path = tmp_path_factory.mktemp("recording") / "sound.heft"
    done = harness.run([harness.HEFT, "run", "-q", "-o", path, "--", "/bin/ls", "/"])
    assert done.returncode == 0, done.stderr
    return path
