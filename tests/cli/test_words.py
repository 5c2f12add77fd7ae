"""What heft prints is for people: sentences of at most 100 columns, in words that need no second look.

Every verb is run on recordings of several kinds. A line may be wider for three reasons only, and the
tests say which: the folders of a path (a message is copied from, so a path stays whole), a command after
"Next: " (likewise), and a row of a table: a rule of heft check, or anything on a wide terminal."""

import re
import shutil
import subprocess

import pytest

import harness

PROSE = 100

# Names as C++ programs have them; what is allocated under them lives until the end.
LONG = r"""
#include <cstdlib>
#include <string>
#include <vector>
namespace a_company_with_a_long_name { namespace message_processing_framework {
template <typename Message, typename Allocator> struct queue_of_messages_that_wait {
	std::vector<Message, Allocator> messages;
	__attribute__((noinline)) void append_a_message_to_the_messages_that_wait(const Message &m)
	{
		messages.push_back(m);
	}
};
}}
int main()
{
	static a_company_with_a_long_name::message_processing_framework::queue_of_messages_that_wait<
		std::string, std::allocator<std::string>> queue;
	for (int i = 0; i < 3000; i++)
		queue.append_a_message_to_the_messages_that_wait(std::string(1000, 'x'));
	return 0;
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Recordings: a queue, a leak that is killed, one sampled, several processes, long names, one that was
    cut, one of other tools' files, and two budgets."""
    folder = tmp_path_factory.mktemp("words")
    deep = folder / "a_folder_with_a_long_name" / "and_another_one_inside_that_is_longer_still"
    deep.mkdir(parents=True)
    (deep / "a_source_file_with_a_long_name.cc").write_text(LONG)
    subprocess.run(["g++", "-g", "-O1", "-o", deep / "program_with_a_long_name",
                    deep / "a_source_file_with_a_long_name.cc"], check=True, timeout=120)
    examples = harness.BUILD / "examples"
    for name, command in {
            "queue": [examples / "queue"],
            "connections": [examples / "connections", "A", "50"],
            "leak": [examples / "leaky_server", "--kill-after", "3000"],
            "mended": [examples / "leaky_server", "--keep", "100", "--requests", "3000"],
            "processes": ["sh", "-c", f"{examples}/connections A 20; ls / >/dev/null; ls /usr >/dev/null; "
                          "echo an argument that makes the command a long one, longer than a line of text"],
            "long": [deep / "program_with_a_long_name", "--with", "arguments" * 12]}.items():
        done = harness.run([harness.HEFT, "run", "-o", folder / f"{name}.heft", "--", *command], cwd=folder)
        assert b"heft: " in done.stderr, done
        (folder / f"{name}.summary").write_bytes(done.stderr)
    done = harness.run([harness.HEFT, "run", "--sample=8k", "-o", folder / "sampled.heft", "--",
                        examples / "leaky_server", "--kill-after", "3000"], cwd=folder)
    (folder / "sampled.summary").write_bytes(done.stderr)
    whole = (folder / "leak.heft").read_bytes()
    (folder / "cut.heft").write_bytes(whole[:len(whole) // 2])
    for other in (harness.REPOSITORY / "tests" / "golden" / "import").iterdir():
        shutil.copy(other, folder)
    (folder / "tight.budget").write_text("peak_bytes <= 1k\nlive_bytes in handle_* <= 1k\ntemporary <= 1\n"
                                         "finding growing-site == 0\npeak_bytes in nothing_that_is_there <= 1\n")
    (folder / "wide.budget").write_text("peak_bytes <= 1G\nallocations in a_function_with_a_long_name_* <= 1G\n")
    (folder / "wrong.budget").write_text("peak_byte <= 1G\n")
    (folder / "static.c").write_text("int main(void) { return 0; }")
    subprocess.run(["gcc", "-static", "-o", folder / "static", folder / "static.c"], check=True, timeout=60)
    return folder


VIEWS = [[], ["--tree"], ["--invert"], ["--threads"], ["--sizes"], ["--lifetimes"], ["--at", "50%"],
         ["--from", "20%", "--to", "80%"], ["--full"], ["--sort", "temporary"], ["--focus", "nothing_like_this"],
         ["--at", "exit"], ["--sort", "allocated"]]
RECORDINGS = ["queue.heft", "connections.heft", "leak.heft", "processes.heft", "long.heft", "sampled.heft",
              "cut.heft"]
FOREIGN = ["dhat.json", "go-heap.pprof", "gperftools.heap", "heaptrack-raw.txt", "heaptrack.txt", "jemalloc.heap"]
COMMANDS = [
    *(["report", *view, name] for view in VIEWS for name in [*RECORDINGS, *FOREIGN]),
    *(["top", "--once", name] for name in [*RECORDINGS, *FOREIGN]),
    *(["diff", *options, old, new] for options in ([], ["--sort", "count"], ["--at", "50%"], ["--per", "s"],
                                                   ["--per", "10,20"],
                                                   ["--threshold", "100%"], ["--focus", "main"])
      for old, new in (("leak.heft", "mended.heft"), ("leak.heft", "leak.heft"), ("sampled.heft", "leak.heft"),
                       ("long.heft", "queue.heft"), ("jemalloc.heap", "long.heft"))),
    *(["check", *options, "--budget", budget, name] for options in ([], ["-v"], ["--at", "peak"])
      for budget in ("tight.budget", "wide.budget", "wrong.budget", "none.budget")
      for name in ("leak.heft", "long.heft", "sampled.heft", "processes.heft", "cut.heft", "heaptrack.txt")),
    *(["help", verb] for verb in ("run", "attach", "detach", "report", "diff", "check", "export", "view", "top", "map", "verify", "agent",
                                  "ctl", "doctor", "help")),
    ["help"], ["help", "nothing"], ["nothing"], ["record", "ls"],
    ["verify", "leak.heft"], ["verify", "cut.heft"], ["verify", "dhat.json"], ["verify", "tight.budget"],
    ["report", "tight.budget"], ["report", "none.heft"], ["report", "/"], ["report"], ["report", "a", "b"],
    ["report", "--at", "1s", "--from", "0", "leak.heft"], ["report", "--at", "5h", "leak.heft"],
    ["report", "--sort", "grew", "leak.heft"], ["report", "--pid", "1", "leak.heft"],
    ["report", "--thread", "none", "leak.heft"], ["report", "--tree", "--sizes", "leak.heft"],
    ["report", "--tree", "--sort", "lifetime", "leak.heft"], ["report", "--focus", "(", "leak.heft"],
    ["report", "--sizes", "--at", "1s", "leak.heft"], ["report", "--limit", "3", "leak.heft"],
    ["report", "--compact", "leak.heft"], ["diff", "leak.heft"], ["diff", "a", "b", "c"], ["check", "leak.heft"],
    ["check", "--budget", "tight.budget"], ["check", "--budget", "tight.budget", "--", "false"],
    ["export", "leak.heft"], ["export", "-o", "x.json", "leak.heft"], ["export", "-f", "nothing", "leak.heft"],
    ["export", "-f", "csv", "--invert", "leak.heft"], ["export", "-f", "html", "--at", "1s", "leak.heft"],
    ["export", "-f", "massif", "--at", "1s", "leak.heft"], ["export", "-f", "massif", "-o", "leak.heft", "leak.heft"],
    ["export", "-f", "pprof", "-m", "peak", "gperftools.heap"], ["export", "-f", "folded", "-o", "-", "cut.heft"],
    ["view", "--port", "99999", "leak.heft"], ["view", "--at", "exit", "leak.heft"], ["view", "1"], ["top"],
    ["top", "--at", "1s", "leak.heft"], ["top", "--once", "1"], ["top", "a", "b"], ["ctl"], ["ctl", "1"],
    ["attach"], ["attach", "x"], ["attach", "1", "2"], ["attach", "--duration", "x", "1"], ["attach", "--duration", "50%", "1"],
    ["attach", "--linger", "1s", "1"], ["attach", "-o", "leak.heft", "1"], ["attach", "2147483647"], ["detach"],
    ["map"], ["map", "x"], ["map", "2147483647"], ["map", "-n", "x", "1"],
    ["detach", "x"], ["detach", "1"], ["detach", "2147483647"], ["report", "1"],
    ["ctl", "1", "a=b"], ["ctl", "1", "rate=x"], ["agent", "--keep", "x"], ["agent", "--listen", "x"],
    ["doctor"], ["doctor", "1"], ["doctor", "ls"], ["doctor", "none"], ["doctor", "1", "2"], ["doctor", "2147483647"],
    ["run"], ["run", "--sample=x", "ls"], ["run", "--linger", "1s", "ls"], ["run", "none"], ["run", "./none"],
    ["run", "/etc/passwd"], ["run", "."], ["run", "./static"], ["run", "-o", "leak.heft", "ls"],
    ["run", "-o", "none/x.heft", "ls"], ["run", "--listen", "0.0.0.0:1", "ls"], ["run", "--listen", "x", "ls"],
    ["run", "--follow", "some", "ls"], ["run", "--limit-size", "1k", "-o", "small.heft", "--force", "true"],
]
# Words that a reader has to read twice. "tell" without an object, and sentences turned around.
STUMBLES = re.compile(r"does not tell|not told|told apart|is not there|bytes live then|without any$|likewise|"
                      r"stands? after|all the same|makes no sense|for want of|come again|going down|"
                      r"(?<![\d.])% [^.;]*\bis in functions")


def lines_of(done):
    return (done.out + done.err).splitlines()


def without_folders(line):
    return re.sub(r"(?<![\w.])\.{0,2}/(?:[^\s/']+/)+", "", line)


def is_row(line):
    """A row of a table, which may be as wide as a wide terminal: it begins with numbers or with the sign of a
    caller, it is a frame of a whole stack, or evidence behind its label."""
    return re.match(r"\s*(~ )?[+-]?\s*[\d.]|\s+([<>]|\.\.\.) |\s{14,}\S.* (at|in) \S| {13}[a-z][a-z0-9 ]{10}|(old|new)  ",
                    line) is not None


def is_rule(line):
    """A row of heft check: a rule may be long, and is shown whole up to 60 columns."""
    return re.match(r" +\d+  \w+.* (<=|<|>=|>|==) ", line) is not None


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_lines_fit_and_read_well(heft, folder, arguments):
    done = heft(*arguments, cwd=folder)
    lines = lines_of(done)
    assert lines, done
    for line in lines:
        if line.startswith("Next: ") and len(line) > PROSE:
            assert "    (" not in line, "what a command is for gives way to it"
        elif arguments[0] != "export" or line.startswith(("heft", "  ")):  # not what it exports
            assert len(without_folders(line)) <= PROSE or is_rule(line), line
        assert not STUMBLES.search(line), line


@pytest.mark.parametrize("arguments", [
    *(["report", *view, name] for view in VIEWS for name in ("leak.heft", "processes.heft", "long.heft", "sampled.heft")),
    ["diff", "leak.heft", "mended.heft"], ["diff", "leak.heft", "leak.heft"], ["diff", "sampled.heft", "leak.heft"],
    ["check", "--budget", "tight.budget", "leak.heft"], ["check", "--at", "peak", "--budget", "wide.budget", "leak.heft"],
], ids=" ".join)
def test_prose_stays_narrow_on_a_wide_terminal(heft, folder, arguments):
    done = heft(*arguments, cwd=folder, env={"COLUMNS": "220"})
    for line in lines_of(done)[1:]:
        assert len(without_folders(line)) <= PROSE or is_row(line) or line.startswith("Next: "), line


@pytest.mark.parametrize("name", ["queue", "leak", "processes", "long", "sampled"])
def test_summary_of_a_run_fits(folder, name):
    lines = (folder / f"{name}.summary").read_text().splitlines()
    assert any(line.startswith("heft: ") for line in lines)
    for line in lines:
        assert len(line) <= PROSE or line.startswith("Next: "), line


def test_a_message_breaks_between_words(heft, folder):
    """129 columns of text behind a path of any length are two lines; the path and "at offset 0" stay whole."""
    done = heft("report", "tight.budget", cwd=folder)
    assert done.status == 1
    first, second, *rest = done.err.splitlines()
    assert rest == [] and second.startswith("      ") and 80 < len(first) <= PROSE
    assert "at offset 0: not a profile: expected a heft recording," in first and second.endswith("pprof")
    from_afar = heft("report", folder / "tight.budget").err.splitlines()
    assert [line.replace(f"{folder}/", "") for line in from_afar] == [first, second]
