"""tools/check_layout.py on small trees with one planted error each: every check can fail."""

import json
import shutil
import subprocess

import pytest

from harness import REPOSITORY, TIME_LIMIT

CHECK = REPOSITORY / "tools" / "check_layout.py"


class Tree:
    """A small tree of sources, and what the checks say about it."""

    def __init__(self, root):
        self.root = root

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def check(self, name):
        """What failed, without the name of the check."""
        done = subprocess.run(["/usr/bin/python3", str(CHECK), "--root", str(self.root), "--only", name],
                              capture_output=True, text=True, timeout=TIME_LIMIT, check=False)
        assert not done.stderr, done.stderr
        failures = [line.split(": ", 1)[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")]
        assert done.returncode == (1 if failures else 0) and done.stdout, done.stdout
        return failures


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


# ---- includes

def brought(tree):
    """Without the exceptions of the real tree, which this one does not need."""
    return [line for line in tree.check("includes") if "BRINGS_IN" not in line]


def test_a_header_brings_in_what_its_user_may_not_see(tree):
    tree.write("src/trace/blocks.h", "")
    tree.write("src/profile/model.h", '#include "trace/blocks.h"\n')
    tree.write("src/profile/names.h", '#include "profile/model.h"\n')
    tree.write("src/pages/page.c", '#include "profile/names.h"\n')
    tree.write("src/cli/verb.c", '#include "profile/names.h"\n')  # may include trace itself
    assert brought(tree) == ["src/pages/page.c: pages may not see trace, which profile/model.h brings in"]


@pytest.mark.parametrize("headers", [("profile_from_trace.h", "model.h"), ("model.h", "profile_from_trace.h")])
def test_a_second_header_that_brings_it_in_is_not_hidden_by_an_allowed_one(tree, headers):
    tree.write("src/trace/trace.h", "")
    tree.write("src/profile/profile_from_trace.h", '#include "trace/trace.h"\n')  # an exception for pages
    tree.write("src/profile/model.h", '#include "trace/trace.h"\n')
    tree.write("src/pages/page.c", "".join(f'#include "profile/{header}"\n' for header in headers))
    assert brought(tree) == ["src/pages/page.c: pages may not see trace, which profile/model.h brings in"]


def test_an_include_in_the_wrong_direction(tree):
    tree.write("src/profile/model.h", "")
    tree.write("src/trace/blocks.c", '\n#include "profile/model.h"\n')
    assert brought(tree) == ["src/trace/blocks.c:2: trace may not include profile"]


def test_an_exception_that_is_not_needed_any_more(tree):
    tree.write("src/pages/page.c", "")
    assert any(line.startswith("profile/profile_from_trace.h brings nothing into pages any more")
               for line in tree.check("includes"))


# ---- functions

SOURCES = {
    "src/hosted/list.h": "int list_used(void);\nint list_own(void);\nint list_tested(void);\nint list_dead(void);\n"
                         "static inline int list_first(void)\n{\n\treturn 1;\n}\n"
                         "static inline int list_never(void)\n{\n\treturn 2;\n}\n",
    "src/hosted/list.c": '#include "hosted/list.h"\n'
                         "int list_own(void)\n{\n\treturn 3;\n}\n"
                         "int list_tested(void)\n{\n\treturn 4;\n}\n"
                         "int list_used(void)\n{\n\treturn list_own() + list_tested();\n}\n"
                         "static int behind(void)\n{\n\treturn 5;\n}\n"
                         "int list_dead(void)\n{\n\treturn behind();\n}\n",
    "src/cli/main.c": '#include "hosted/list.h"\n'
                      "static int from_table(void)\n{\n\treturn list_first();\n}\n"
                      "int (*const table[])(void) = {from_table};\n"
                      "int main(void)\n{\n\treturn table[0]() + list_used();\n}\n",
    "src/capture/inside.c": "int heft_part(void);\nint heft_lost(void);\n"
                            "static void start(void) __attribute__((constructor));\n"
                            "static void start(void)\n{\n\theft_part();\n}\n"
                            '__attribute__((visibility("default"))) void *malloc(unsigned long n)\n'
                            "{\n\treturn n ? 0 : (void *)1;\n}\n",
    "src/capture/parts.c": "int heft_part(void);\nint heft_lost(void);\n"
                           "int heft_part(void)\n{\n\treturn 6;\n}\nint heft_lost(void)\n{\n\treturn 7;\n}\n",
    "tests/unit/test_list.c": "int main(void)\n{\n\treturn list_tested() + list_dead();\n}\n",
}
OUTPUTS = {"src/hosted/list.c": "src/hosted/libheft-hosted.a.p/list.c.o", "src/cli/main.c": "heft.p/main.c.o",
           "src/capture/inside.c": "libheft-preload.so.p/inside.c.o",
           "src/capture/parts.c": "libheft-preload.so.p/parts.c.o",
           "tests/unit/test_list.c": "tests/unit/test_list.p/test_list.c.o"}


@pytest.fixture
def sources(tree):
    for name, text in SOURCES.items():
        tree.write(name, text)
    hidden = "-fPIC -fvisibility=hidden -fno-builtin"
    tree.write("build/compile_commands.json", json.dumps([
        {"directory": str(tree.root / "build"), "file": f"../{name}", "output": output,
         "command": f"cc -I../src -O2 -g {hidden} -MD -MQ {output} -MF {output}.d -o {output} -c ../{name}"}
        for name, output in OUTPUTS.items()]))
    subprocess.run(["cc", "-shared", *hidden.split(), "-o", str(tree.root / "build/libheft-preload.so"),
                    *(str(tree.root / name) for name in OUTPUTS if name.startswith("src/capture/"))], check=True)
    return tree


def test_dead_functions(sources):
    """A test alone does not make a function alive; a table, a constructor and an export do."""
    failures = [line for line in sources.check("functions") if "KEPT" not in line]
    assert failures == ["src/capture/parts.c: nothing uses heft_lost()",
                        "src/hosted/list.c: nothing uses behind()",
                        "src/hosted/list.c: nothing uses list_dead()",
                        "src/hosted/list.h: nothing uses list_never()",
                        "src/hosted/list.c: only this file uses list_own(): it should be static"]


def test_a_reason_that_is_not_needed_any_more(sources):
    assert "perf_map_parse() is used, or is not there: its line in KEPT can go" in sources.check("functions")


def test_functions_without_a_build(tree):
    assert tree.check("functions") == ["compile_commands.json is not in the build directory"]


# ---- limits

def function_of(lines, head="static int work(int a,\n\t\tint b)"):
    """A function of so many lines, its head included."""
    return "\n".join([head, "{", *["\ta++;"] * (lines - head.count("\n") - 3), "}", ""])


def test_a_function_may_have_100_lines(tree):
    tree.write("src/trace/fits.c", "/* Text */\n" + function_of(100))
    tree.write("src/trace/long.c", "/* Text */\n\n" + function_of(40) + "\n" + function_of(101))
    tree.write("tests/unit/test_long.c", function_of(300))
    assert tree.check("limits") == ["src/trace/long.c:44: work() has 101 lines, more than 100"]


def test_a_file_may_have_600_lines(tree):
    tree.write("src/trace/fits.c", "\n" * 600)
    tree.write("src/trace/long.h", "\n" * 601)
    assert tree.check("limits") == ["src/trace/long.h has 601 lines, more than 600"]


def test_a_struct_may_have_30_fields(tree):
    """Every name counts, also those of a struct within; a comment, an array and a function's parameters do not."""
    most = "struct fits {\n" + "\tint a, b; /* c, d; e */\n" * 14 + \
        "\tint table[3], (*call)(int, int);\n};\n"
    more = "struct wide {\n\tstruct {\n" + "\t\tint a, b;\n" * 15 + "\t} part;\n};\n"
    tree.write("src/trace/structs.h", most + "\n/* Wide. */\n" + more + "\n/* Wide too.\n * fields: a wire format */\n" +
               more.replace("wide", "excused"))
    assert tree.check("limits") == ['src/trace/structs.h:20: struct wide has 31 fields, more than 30, '
                                    'and no "fields: WHY" above it']


# ---- manual pages

HELP = """heft 0.1.0: a heap profiler

usage:
  heft run     [OPTIONS] CMD                 record
  heft --version
"""
RUN_HELP = """heft run: record

usage: heft run [OPTIONS] CMD

options:
  -o, --output FILE         record to FILE
      --follow all|none     children too
      --sample[=BYTES]      sampled
  -q, --quiet               say nothing
  -h, --help                show this help
"""
PAGE = """.Sh SYNOPSIS
.Nm heft run
.Op Fl o Ar file
.Op Fl -follow Ns = Ns Cm all | none
.Op Fl -sample Ns Op = Ns Ar bytes
.Op Fl q
.Sh DESCRIPTION
.Bl -tag -width Ds
.It Fl o Ar file , Fl -output Ar file
.It Fl -follow Ns = Ns Cm all | none
.It Fl -sample Ns Op = Ns Ar bytes
.It Fl q , Fl -quiet
.It Fl h , Fl -help
.El
Beside
.Fl -output
there is nothing.
"""


@pytest.fixture
def manual(tree):
    tree.write("man/heft.1", ".Xr heft-run 1\n.Fl -version\n")
    tree.write("man/heft-run.1", PAGE)
    tree.write("build/heft", f"#!/bin/sh\nif [ $# = 1 ]; then cat <<'E'\n{HELP}E\nelse cat <<'E'\n{RUN_HELP}E\nfi\n")
    (tree.root / "build/heft").chmod(0o755)
    return tree


def test_manual_pages_that_agree(manual):
    assert manual.check("manual") == []


@pytest.mark.parametrize("old, new, said", [
    (".It Fl q , Fl -quiet\n", "", "heft-run.1: does not describe --quiet"),
    (".It Fl q , Fl -quiet\n", ".It Fl -quiet\n", "heft-run.1: does not give -q beside --quiet"),
    (".It Fl q , Fl -quiet\n", ".It Fl q , Fl -quiet Ar n\n",
     "heft-run.1: the argument of --quiet is none in the table, needed here"),
    ("Fl -output Ar file\n", "Fl -output\n", "heft-run.1: the argument of --output is needed in the table, none here"),
    (".It Fl -sample Ns Op = Ns Ar bytes", ".It Fl -sample Ar bytes",
     "heft-run.1: the argument of --sample is optional in the table, needed here"),
    ("Cm all | none", "Cm all", "heft-run.1: does not say that --follow can be none"),
    (".Op Fl q\n", "", "heft-run.1: the synopsis lacks --quiet"),
    (".Op Fl q\n", ".Op Fl qv\n", "heft-run.1: describes -v, which heft run does not have"),
    (".It Fl h", ".It Fl -size Ar n\n.It Fl h", "heft-run.1: describes --size, which heft run does not have"),
    (".Fl -output\n", ".Fl -outputs\n", "heft-run.1: names --outputs, which no verb has"),
])
def test_a_manual_page_that_disagrees(manual, old, new, said):
    assert old in PAGE
    manual.write("man/heft-run.1", PAGE.replace(old, new))
    assert said in manual.check("manual")


def test_pages_and_verbs_without_each_other(manual):
    manual.write("man/heft-walk.1", PAGE)
    (manual.root / "man/heft-run.1").unlink()
    manual.write("man/heft.1", ".Fl -verbal\n")
    assert manual.check("manual") == ["heft.1 does not refer to heft-run", "there is no heft-run.1",
                                      "heft-walk.1 is about no verb", "heft.1: names --verbal, which no verb has"]


# ---- the steps of ARCHITECTURE.md

WALKS = """# Architecture
## Two ways through the code
1. `src/capture/entry.c` `gate` and `ENTRY`: in.
2. `src/record/loop.c` `round`: out.
3. `src/record/loop.c` `match`: out.

1. `src/capture/entry.c` `gate`: in.
2. `src/http/send.h` `send_it`: out (`docs/http.md`).
## Three ideas
"""


@pytest.fixture
def walks(tree):
    tree.write("ARCHITECTURE.md", WALKS)
    tree.write("docs/http.md", "")
    tree.write("src/capture/entry.c", "#define ENTRY(name) \\\n\tvoid name(void)\nstatic int gate(void)\n{\n}\n")
    tree.write("src/record/loop.c", "void round(int a,\n\t   int (*b)(int))\n{\n\tother(1);\n}\n"
                                    "struct x *match(void) __attribute__((unused));\n"
                                    "struct x *match(void)\n{\n}\n")
    tree.write("src/http/send.h", "static inline int send_it(int n) { return n; }\nint declared(int n);\n")
    return tree


def test_steps_that_are_there(walks):
    assert walks.check("walks") == []


@pytest.mark.parametrize("old, new, said", [
    ("`round`", "`other`", "step 2: src/record/loop.c has no other"),  # a call is no definition
    ("`send_it`", "`declared`", "step 2: src/http/send.h has no declared"),  # nor is a declaration
    ("src/http/send.h", "src/http/sent.h", "step 2: there is no src/http/sent.h"),
    ("3. `src/record/loop.c` `match`", "3. `src/capture/entry.c` `gate`", "step 3 goes back to src/capture"),
    ("`match`: out", "matching: out", "step 3 does not begin with a file and its functions: `src/record/loop.c` matching: out."),
    ("docs/http.md", "docs/https.md", "there is no docs/https.md"),
    ("1. `src/capture/entry.c` `gate`: in.\n", "", "'## Two ways through the code' has 1 lists of steps, not 2"),
])
def test_a_step_that_is_wrong(walks, old, new, said):
    assert old in WALKS
    walks.write("ARCHITECTURE.md", WALKS.replace(old, new))
    assert said in walks.check("walks")


@pytest.mark.parametrize("old, new, said", [
    ("hosted, tally |", "hosted |", "the table says that trace may include hosted: check_layout.py says base, hosted, tally"),
    ("| `src/http` |", "| `src/https` |", "only one of the two tables of folders has http"),
    ("all but capture and wire", "all but capture",
     "the table says that cli may include all but capture: check_layout.py says "),
])
def test_a_table_of_folders_that_differs(tree, old, new, said):
    text = (REPOSITORY / "ARCHITECTURE.md").read_text()
    assert old in text
    tree.write("ARCHITECTURE.md", text)
    assert tree.check("table") == []
    tree.write("ARCHITECTURE.md", text.replace(old, new, 1))
    assert any(line.startswith(said) for line in tree.check("table"))


# ---- the format of sources

@pytest.fixture
def formatted(tree):
    shutil.copy(REPOSITORY / ".clang-format", tree.root)
    tree.write("src/hosted/list.c", "int list_used(int n)\n{\n\treturn n;\n}\n")
    tree.write("src/hosted/odd.c", "int odd(int n)\n{\n\treturn  n;\n}\n")
    return tree


def test_a_source_that_is_not_formatted(formatted):
    assert formatted.check("format") == ["src/hosted/odd.c:3: make format would change it"]


def test_what_is_listed_as_unformatted_is_not_looked_at(formatted):
    formatted.write("tools/unformatted.txt", "src/hosted\n")
    assert formatted.check("format") == []
    formatted.write("tools/unformatted.txt", "src/host\n")
    assert formatted.check("format") == ["src/hosted/odd.c:3: make format would change it",
                                         "tools/unformatted.txt lists src/host, which is not there"]


def test_make_format(formatted):
    for path in (REPOSITORY / "tools").glob("*layout*.py"):
        shutil.copy(path, formatted.write(f"tools/{path.name}", ""))
    formatted.write("tools/unformatted.txt", "src\n")
    shutil.copy(REPOSITORY / "Makefile", formatted.root)
    done = subprocess.run(["make", "-C", str(formatted.root), "format"], capture_output=True, text=True,
                          timeout=TIME_LIMIT, check=False)
    assert done.returncode == 0 and "2 files are as .clang-format says" in done.stdout, done
    assert (formatted.root / "src/hosted/odd.c").read_text() == "int odd(int n)\n{\n\treturn n;\n}\n"
    assert (formatted.root / "tools/unformatted.txt").read_text() == ""
    assert formatted.check("format") == []


def test_a_check_that_does_not_exist(tree):
    done = subprocess.run(["/usr/bin/python3", str(CHECK), "--only", "nonsense"], capture_output=True, text=True,
                          timeout=TIME_LIMIT, check=False)
    assert done.returncode == 2 and "no check nonsense" in done.stderr
