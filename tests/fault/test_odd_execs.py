"""The exec family and posix_spawn with bad arguments (tests/programs/odd_execs.c): what cannot be read, NULL, texts and
lists that run into nothing. heft looks at paths and environments; what comes of a call is what libc makes of it."""

import pytest

from harness import run


@pytest.mark.parametrize("options", [[], ["--sample=1k"], ["--follow", "none"]], ids=["exact", "sampled", "alone"])
def test_as_without_heft(compiled, record, options):
    program = compiled("odd_execs.c")
    plain = run([program])
    lines = plain.stdout.decode().split("\n")
    assert plain.returncode == 3 and len(lines) == 12 * (1 + 3 * 8 + 1) + 1  # functions x (good, kinds, NULL twice)
    assert "execve(good, good, good): status 0" in lines and "execveat(8, good, good) = -1, errno 14" in lines
    assert "fexecve(good, good, NULL) = -1, errno 22" in lines and "posix_spawn(8, good, good) = -2, errno 14" in lines
    done, rep = record([program], opts=options)
    assert done.returncode == 3, done.stderr
    assert done.stdout.decode().split("\n") == lines
    assert rep["complete"]
