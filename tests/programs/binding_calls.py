"""Calls everything in the Python module heft once, for tests of the bindings. Prints what comes of it."""

import sys

import heft


def failure(expect):
    try:
        return expect()
    except AssertionError as why:
        return str(why).rsplit("/", 1)[-1]


def done(call, *arguments):
    try:
        return call(*arguments)
    except OSError as why:
        return why.errno


@heft.limit("1k", scope=heft.THREAD)
def limited(text):
    """Its words"""
    return text.upper()


print(repr(heft.running()), heft.stats(), heft.stats(heft.THREAD))
with heft.region() as whole:
    with heft.region(heft.THREAD, "part") as part:
        print(part.change())
print(part.change() == whole.change())
print(failure(lambda: part.expect_le(peak_bytes=8)), failure(lambda: part.expect_eq(live_bytes=-6, live_blocks=-7)))
print(failure(lambda: part.expect_le(allocations=1, peak_bytes=7)))  # @le
print(failure(lambda: part.expect_eq(live_blocks=0)))  # @eq
print(limited("a"), limited.__name__, limited.__doc__)
heft.mark("hier: äöü")
heft.event("retry", 5)
heft.event("retry")
print(done(heft.start), done(heft.stop), done(heft.dump, "/x/y"))
print(heft.sampling_active(), done(heft.pprof_dump), flush=True)
print(done(heft.pprof_dump, sys.stdout))
