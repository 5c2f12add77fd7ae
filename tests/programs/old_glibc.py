"""The C library of Debian 11 (glibc 2.31), for which heft's library is too new: unpacked into a folder from the
release's own packages, with what a compiler needs. A test that needs it is skipped where the packages cannot be had."""

import hashlib
import lzma
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from harness import BUILD, C_FLAGS, PROGRAMS, TIME_LIMIT

ROOT = BUILD / "old-glibc"
MIRROR = os.environ.get("HEFT_MIRROR", "http://deb.debian.org/debian")
RELEASE = "bullseye"
PACKAGES = ["libc6", "libc6-dev", "linux-libc-dev"]
LIBRARIES = ROOT / "lib/x86_64-linux-gnu"
LOADER = ROOT / "lib64/ld-linux-x86-64.so.2"
DEVELOPMENT = ROOT / "usr/lib/x86_64-linux-gnu"


def fetch(path):
    with urllib.request.urlopen(f"{MIRROR}/{path}", timeout=TIME_LIMIT) as answer:
        return answer.read()


def unpack(folder):
    listed = lzma.decompress(fetch(f"dists/{RELEASE}/main/binary-amd64/Packages.xz")).decode()
    for package in PACKAGES:
        [about] = re.findall(rf"^Package: {package}\n(?:.+\n)+", listed, re.M)
        [name], [checksum] = (re.findall(rf"^{field}: (\S+)$", about, re.M) for field in ("Filename", "SHA256"))
        content = fetch(name)
        assert hashlib.sha256(content).hexdigest() == checksum, name
        (folder / "package.deb").write_bytes(content)
        subprocess.run(["dpkg-deb", "-x", folder / "package.deb", folder], check=True)
    (folder / "package.deb").unlink()
    for path in folder.rglob("*"):  # a link that leads out of the folder, unless that is the root
        if path.is_symlink() and os.readlink(path).startswith("/"):
            target = os.path.relpath(f"{folder}{os.readlink(path)}", path.parent)
            path.unlink()
            path.symlink_to(target)


def old_root():
    """The folder. It is kept in the build, so only the first test pays for it."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("dpkg-deb is not here")
    if not LOADER.exists():
        new = BUILD / f"old-glibc.{os.getpid()}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        try:
            unpack(new)
            shutil.rmtree(ROOT, ignore_errors=True)
            new.rename(ROOT)
        except (OSError, urllib.error.URLError) as error:
            pytest.skip(f"the packages of Debian 11 cannot be had: {error}")
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return ROOT


def old_build(source, out, *flags, inside=False):
    """Compiles a C program of tests/programs against that library. It finds it in that folder or, inside, in the root
    that it will have."""
    root = old_root()
    place = [] if inside else [f"-Wl,--dynamic-linker={LOADER}", f"-Wl,-rpath={LIBRARIES}"]
    subprocess.run([str(word) for word in (
        "gcc", f"--sysroot={root}", f"-B{DEVELOPMENT}", f"-L{DEVELOPMENT}", *C_FLAGS, f"-I{PROGRAMS}",
        PROGRAMS / source, "-o", out, *place, *flags)], check=True, timeout=TIME_LIMIT)
    return out
