"""Sampling that is switched on and off while a program runs: tests/programs/switching.c does it to
itself through its session file, as heft ctl would, and looks at the table of live samples."""

import pytest

from harness import REPOSITORY, run
from live_harness import session_env


@pytest.fixture
def switched(compiled, tmp_path):
    program = compiled("switching.c", flags=[f"-I{REPOSITORY / 'src'}"])

    def go(mode, rate):
        done = run([program, mode, tmp_path], env=session_env(tmp_path, rate))
        assert done.returncode == 6, done.stderr
        words = done.stdout.decode().split()
        return list(zip(words[::2], map(int, words[1::2])))
    return go


def test_at_random_moments(switched):
    """Four threads allocate, resize and free all the while. Calls pass only while there is no live
    sample to follow (the program looks each time), and when all is freed none is left."""
    (_, passed), *rest = switched("random", "off")
    assert passed > 100, "calls did not pass while it was off: nothing was tested"
    assert rest == [("left", 0), ("differ", 0)]


def test_fork_while_off(switched):
    """The child follows nothing of what it was born with; its parent still does."""
    assert switched("fork", "1k") == [("child", 0), ("child", 7), ("parent", 10), ("parent", 0)]


def test_off_at_start(switched):
    """While it is off nothing is sampled; from the first block on, once it is on."""
    assert switched("start", "off") == [("passes", 1), ("off", 0), ("on", 20), ("freed", 0)]
