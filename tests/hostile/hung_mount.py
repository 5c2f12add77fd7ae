"""A file system of a stranger's own program (FUSE) over one file: it says what the file is, and never answers when somebody
opens or reads it. Not even SIGKILL ends who waits for that. `fusermount3` makes such mounts for every user over files
that they own; others may enter them where /etc/fuse.conf has user_allow_other."""

import contextlib
import ctypes
import os
import subprocess
import tempfile

import pytest

from harness import start, wait_until
from strangers import STRANGER, become

LIBC = ctypes.CDLL(None, use_errno=True)
MS_NOSUID_NODEV, MNT_DETACH = 6, 2

# Its stdin is /dev/fuse, its argument the size of the file. Prints the number of each request and whose it is.
SERVER = """
import os, struct, sys
size, uid = int(sys.argv[1]), os.getuid()
attributes = struct.pack("<6Q10I", 1, size, size // 512, 0, 0, 0, 0, 0, 0, 0o100755, 1, uid, uid, 0, 4096, 0)
INIT, GETATTR = 26, 3
while True:
    try:
        request = os.read(0, 1 << 20)
    except OSError:  # not mounted any more
        break
    length, number, unique, node, user, group, pid, _ = struct.unpack_from("<IIQQIIII", request)
    if number == INIT:
        answer = struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 16, 12, 65536, 1, 16, 0, 0)
    elif number == GETATTR and size:
        answer = struct.pack("<QII", 0, 0, 0) + attributes
    else:
        answer = None
    print(number, pid, flush=True)
    if answer is not None:
        os.write(0, struct.pack("<IiQ", 16 + len(answer), 0, unique) + answer)
"""
INIT, OPEN = 26, 14


class HungMount:
    def __init__(self, server, log):
        self.server, self.log = server, log

    def requests(self):
        """Who asked what: (number, pid)."""
        text = os.pread(self.log.fileno(), os.fstat(self.log.fileno()).st_size, 0)  # threads ask, so nothing is sought
        return [tuple(map(int, line.split())) for line in text.decode().splitlines()]

    def was_asked(self, number):
        return [pid for asked, pid in self.requests() if asked == number]


def mount_over(path):
    """A file that has no server yet: what that will read."""
    fd = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={fd},rootmode=100755,user_id={STRANGER},group_id={STRANGER},allow_other"
    if LIBC.mount(b"heft-test", str(path).encode(), b"fuse", MS_NOSUID_NODEV, options.encode()) != 0:
        error = ctypes.get_errno()
        os.close(fd)
        raise OSError(error, "cannot mount")
    return fd


def unmount(path):
    LIBC.umount2(str(path).encode(), MNT_DETACH)


def may_mount():
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.close(mount_over(file.name))
        except OSError:
            return False
        unmount(file.name)
    return True


# Before a test begins: one that is skipped in its middle leaves its programs behind.
NEED_MOUNT = pytest.mark.skipif(os.geteuid() == 0 and not may_mount(), reason="this machine does not allow mounting (FUSE)")


@contextlib.contextmanager
def hung_mount(path, size=100000):
    """Mounts it over the file. size 0: not even what it is is answered."""
    # Mounted before there is a server: one that reads before that is told that nothing is mounted, and ends.
    fd = mount_over(path)
    with tempfile.TemporaryFile() as log:
        server = start(["/usr/bin/python3", "-c", SERVER, size], stdin=fd, stdout=log, stderr=subprocess.DEVNULL,
                       preexec_fn=become(STRANGER))
        os.close(fd)
        try:
            made = HungMount(server, log)
            wait_until(lambda: made.was_asked(INIT), what="the file system")
            yield made
        finally:
            server.kill()  # all who wait are let go
            server.communicate()
            unmount(path)
