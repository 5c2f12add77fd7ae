"""heft.h and heft run --count where much happens at once, or at a bad moment (tests/programs/asks_in_crowds.c)."""

import pytest

from harness import HEFT, REPOSITORY, run


@pytest.fixture(scope="module")
def program(compiled):
    return compiled("asks_in_crowds.c", flags=[f"-I{REPOSITORY}/include", "-pthread"])


def test_each_thread_has_numbers_of_its_own(program):
    """A thousand threads begin at once; two of them must not count in one place."""
    for _ in range(5):
        done = run([HEFT, "run", "-q", "--count", "--", program, "crowd"])
        assert done.stdout == b"wrong 0\n", done
