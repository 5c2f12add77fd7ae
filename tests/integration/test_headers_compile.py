"""heft.h and heft.hpp in all the languages and ways to build that programs have: no warnings, and the functions are found
at run time if they are there. Both as they are installed, with heft.pc."""

import os
import re
import shutil
import subprocess

import pytest

from harness import BUILD, PROGRAMS, REPOSITORY, run

INCLUDE = ["-I", str(REPOSITORY / "include")]
WARNINGS = "-Wall -Wextra -Wshadow -Wconversion -Wsign-conversion -Wpedantic -Werror".split()
WAYS = {"default": "", "PIE": "-O2 -fPIE -pie", "no PIE": "-O2 -fno-pie -no-pie", "no PIE, slow": "-O0 -fno-pic -no-pie",
        "PIC": "-O2 -fPIC", "static": "-static", "no exceptions": "-O2 -fno-exceptions"}
# with heft_stand_in.c in heft's place: six calls that succeed, 8 <= 8, -6 is not 0; writing to -1 fails
ABSENT, FOUND = "-6 -1 -1 0 -3 0 -1\n", "0 1 0 3 0 1 -1\n"

C = [(standard, way) for standard in ("c11", "c17") for way in WAYS]
CXX = [(standard, way) for standard in ("c++11", "c++20") for way in WAYS] + [("c++14", "default"), ("c++17", "default")]
HPP = [("c++17", way) for way in WAYS] + [("c++20", "default")]


def build(compiler, *words, text=None):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not here")
    done = subprocess.run([compiler, *WARNINGS, *INCLUDE, *map(str, words)], input=text and text.encode(),
                          capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == b"", done.stderr.decode()


def answers(program, calls):
    """Without heft and with something in its place."""
    return [run([program], env=env).stdout.decode() for env in (None, {"LD_PRELOAD": str(calls)})]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("standard,way", C)
def test_c(tmp_path, heft_stand_in, compiler, standard, way):
    build(compiler, f"-std={standard}", *WAYS[way].split(), "-o", tmp_path / "calls", PROGRAMS / "header_calls.c")
    assert answers(tmp_path / "calls", heft_stand_in) == [ABSENT, ABSENT if way == "static" else FOUND]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard,way", CXX)
def test_cxx(tmp_path, heft_stand_in, compiler, standard, way):
    build(compiler, f"-std={standard}", "-Wold-style-cast", *WAYS[way].split(), "-o", tmp_path / "calls", "-x", "c++",
          PROGRAMS / "header_calls.c")
    assert answers(tmp_path / "calls", heft_stand_in) == [ABSENT, ABSENT if way == "static" else FOUND]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_in_a_shared_library(tmp_path, heft_stand_in, compiler):
    build(compiler, "-shared", "-fPIC", "-Wl,-z,defs", "-DLIBRARY", "-o", tmp_path / "calls.so", PROGRAMS / "header_calls.c")
    build(compiler, "-x", "c", "-o", tmp_path / "uses", "-", "-x", "none", tmp_path / "calls.so",
          text="int header_calls(void);\nint main(void) { return header_calls(); }\n")
    assert answers(tmp_path / "uses", heft_stand_in) == [ABSENT, FOUND]


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
@pytest.mark.parametrize("standard,way", HPP)
def test_hpp(tmp_path, compiler, standard, way):
    build(compiler, f"-std={standard}", "-Wold-style-cast", "-Wnon-virtual-dtor", *WAYS[way].split(), "-o",
          tmp_path / "uses", "-x", "c++", "-", text="""#include <heft.hpp>
#include <string>
int main()
{
    heft::region region(heft::thread, "name");
    heft::pool_resource pool("pool");
    std::pmr::string text("text that is longer than a string is itself", &pool);
    int held = HEFT_EXPECT_LE(region, allocations, text.size()) + HEFT_EXPECT_EQ(region, live_bytes, 0);
    return held > 0 || region.change() || region.end() || heft::stats_of();
}
""")


def test_installed(tmp_path):
    """heft.pc says where the headers are, and names nothing to link. The sources of the other bindings are all there."""
    meson = "/usr/bin/meson" if os.path.exists("/usr/bin/meson") else "meson"
    assert run([meson, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", tmp_path]).returncode == 0
    config, = tmp_path.rglob("heft.pc")
    prefix = config.parents[2]
    said = [run(["pkg-config", f"--define-variable=prefix={prefix}", option, config]).stdout.decode().strip()
            for option in ("--cflags", "--libs", "--modversion")]
    assert said[:2] == [f"-I{prefix}/include", ""]
    assert {file.name for file in (prefix / "include").iterdir()} == {"heft.h", "heft.hpp"}
    for folder in ("rust", "python"):
        sources = run(["git", "-C", REPOSITORY, "ls-files", f"bindings/{folder}"]).stdout.decode().splitlines()
        assert sources and all((prefix / "share/heft" / source.removeprefix("bindings/")).exists() for source in sources)
    for file, version in (("rust/Cargo.toml", 'version = "(.+)"'), ("python/heft/__init__.py", '__version__ = "(.+)"')):
        assert re.search(version, (prefix / "share/heft" / file).read_text()).group(1) == said[2]
