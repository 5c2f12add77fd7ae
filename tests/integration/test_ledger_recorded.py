"""Ledgers in recordings: a process that exits is looked at before its handlers run, and its books close. Programs end
as they do without heft."""

import base64
import gzip
import json
import re
import shutil
import signal
import subprocess
import sys

import jsonschema
import pytest

from attach_harness import may_trace
from harness import BUILD, HEFT, PROGRAMS, report, run
from test_ledger import MIB, SCHEMA, Ledger

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
EXAMPLES = BUILD / "examples"


def ledgers_of(path):
    done = run([HEFT, "map", "--json", path])
    if done.returncode:
        assert b"has no ledger" in done.stderr
        return []
    made = json.loads(done.stdout)
    jsonschema.validate(made, SCHEMA, cls=jsonschema.Draft202012Validator)
    return [Ledger(one) for one in made["ledgers"]]


@pytest.fixture(scope="session")
def ways(compiled):
    return compiled("exit_ways.c", flags=("-pthread",))


@pytest.fixture
def recorded(tmp_path):
    """Runs a command under heft; (process, ledgers)."""

    def go(command, *options, **others):
        path = tmp_path / "out.heft"
        done = run([HEFT, "run", "-q", "--force", *options, "-o", path, *command], **others)
        assert run([HEFT, "verify", path]).returncode == 0
        return done, ledgers_of(path)

    return go


# ---- the books close


def test_a_table_in_c_closes_to_the_byte(recorded, tmp_path):
    """csv_rows: 12,426 rows of 7 columns. docs/scenario-csv.md has what glibc itself says: 5,894,144 bytes."""
    table = tmp_path / "table.csv"
    table.write_bytes(subprocess.run([EXAMPLES / "csv_make"], capture_output=True, check=True).stdout)
    _, (ledger,) = recorded([EXAMPLES / "csv_rows", table])
    assert ledger["moment"] == "exit" and 0.99 < ledger["share_of_peak"] <= 1
    mapped = {kind: ledger.sum(kind, column="virtual_bytes")
              for kind in ("requested", "rounding", "headers", "large_mappings", "held_free", "in_use")}
    assert mapped == {"requested": 3_259_957, "rounding": 1_317_331, "headers": 795_336,
                      "large_mappings": 397_312, "held_free": 124_208, "in_use": 0}
    assert sum(mapped.values()) == 5_894_144
    blocks = {line["kind"]: line.get("blocks") for line in ledger["lines"]}
    assert blocks["requested"] == blocks["headers"] == 99_417 and blocks["large_mappings"] == 1
    assert ledger.sum("unexplained") == 0


HOLDS_STATIC = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    static char *volatile blocks[20000];
    for (int i = 0; i < 20000; i++)
        blocks[i] = memset(malloc(1000), 'x', 1000);
    sleep(3);
    return 0;
}
"""


def test_blocks_of_a_static_program(recorded, tmp_path):
    """Its malloc is in no library, and its heap is the program's break. What it holds is known from the recording."""
    source, program = tmp_path / "holds.c", tmp_path / "holds"
    source.write_text(HOLDS_STATIC)
    subprocess.run(["gcc", "-O1", "-static", source, "-o", program], check=True)
    for _ in range(10):
        _, ledgers = recorded([program])
        if ledgers:  # on a busy machine it may not have stopped in time
            break
    ledger = ledgers[-1]
    (requested,) = [line for line in ledger["lines"] if line["kind"] == "requested"]
    assert requested["blocks"] >= 20000 and 20000000 <= requested["resident_bytes"] < 20100000
    assert ledger.sum("allocator", "program's break") < MIB and ledger.sum("unexplained") == 0
    assert 8 * 20000 <= ledger.sum("held_free", "between blocks") < MIB


def near_peak(recorded, command, kind):
    """All ledgers, and the one near the peak, with much on lines of this kind. On an idle machine its share of the peak is 0.94
    to 0.997; a program that is not stopped at once goes on freeing, and if it has freed nearly everything it runs again."""
    for _ in range(20):
        _, ledgers = recorded(command)
        peaks = [one for one in ledgers if one["moment"] == "peak"]
        if peaks and peaks[0].sum(kind, column="virtual_bytes") >= MIB:
            break
    (one,) = peaks
    assert 0 < one["share_of_peak"] <= 1
    return ledgers, one


def test_a_table_in_rust_is_caught_near_its_peak(recorded, tmp_path):
    """It has freed everything by its exit."""
    if not (EXAMPLES / "csv_rows_rs").exists():
        pytest.skip("csv_rows_rs is not built: it needs rustc")
    table = tmp_path / "table.csv"
    table.write_bytes(subprocess.run([EXAMPLES / "csv_make"], capture_output=True, check=True).stdout)
    ledgers, peak = near_peak(recorded, [EXAMPLES / "csv_rows_rs", table], "requested")
    last = ledgers[-1]
    # To the byte: what is requested is what the recording has live, and nothing in use was missed. The rows' array has a
    # mapping of its own, with 16 bytes before it and the rest of its last page.
    live = round(peak["share_of_peak"] * report(tmp_path / "out.heft")["totals"]["peak_bytes"])
    large = sum(line["virtual_bytes"] for line in peak["lines"] if line["kind"] == "large_mappings")
    blocks = sum(line.get("blocks", 0) for line in peak["lines"] if line["kind"] == "large_mappings")
    assert blocks * 16 <= large - (live - peak.sum("requested", column="virtual_bytes")) < blocks * 4112
    assert peak.sum("in_use") == peak.sum("unexplained") == 0
    assert 1_000 < peak["lines"][0]["blocks"] < 99_420 and peak["lines"][0]["kind"] == "requested"
    assert last["moment"] == "exit" and last["share_of_peak"] < 0.01
    assert last.sum("held_free") > 5 * MIB > peak.sum("held_free")


@pytest.mark.parametrize("variant, resident", [("A", 4_096), ("B", 266_240)])
def test_connections_touched_and_not(recorded, variant, resident):
    """300 tables of 262,144 bytes, each in a mapping of its own: only its first page is touched (A), or all of it (B)."""
    _, peak = near_peak(recorded, [EXAMPLES / "connections", variant], "large_mappings")
    (tables,) = [line for line in peak["lines"] if line["kind"] == "large_mappings"]
    assert 0 < tables["blocks"] <= 300
    assert tables["resident_bytes"] == tables["blocks"] * resident
    assert tables["virtual_bytes"] == tables["blocks"] * 266_240


def test_every_so_often(recorded):
    """A hundredth of its time: a second has room for a few."""
    script = "a = [str(i) for i in range(100000)]\nimport time\ntime.sleep(2)"
    for _ in range(20):  # on a busy machine a ledger may take too much of its time
        done, ledgers = recorded(["/usr/bin/python3", "-X", "importtime", "-c", "x = bytearray(8 << 20)\n" + script],
                                 "--ledger-every", "200ms")
        moments = [one["moment"] for one in ledgers]
        paused = sum(one["pause_ns"] for one in ledgers if one["moment"] == "interval")
        if 1 <= moments.count("interval") <= 10 and paused < 2.5e9 / 50:
            break
    assert done.returncode == 0 and moments[-1] == "exit" and 1 <= moments.count("interval") <= 10
    assert paused < 2.5e9 / 50
    assert "Python's objects (pymalloc's arenas)" in [line["name"] for line in ledgers[-1]["lines"]]


def test_how_near_the_peak_is_of_the_whole_run(recorded, compiled):
    """4 MiB come and go, then 400 MiB stay: what was near the peak at first is a hundredth of it in the end."""
    program = compiled("two_peaks.c")
    for _ in range(20):
        _, ledgers = recorded([program])
        early = [one for one in ledgers if one["rss_bytes"] < 20 << 20]
        if early:  # on a busy machine it may not have stopped in time
            break
    assert early and all(one["share_of_peak"] < 0.03 for one in early)


# ---- ways to end


@pytest.mark.parametrize("way, taken", [
    ("", True), ("exit", True), ("quick_exit", True), ("threads", True), ("in thread", True), ("in handler", True),
    ("_exit", False), ("abort", False), ("killed", False), ("exec", False)])
def test_every_way_to_end(recorded, ways, way, taken):
    plain = run([ways, way])
    done, ledgers = recorded([ways, way])
    status = plain.returncode if plain.returncode >= 0 else 128 - plain.returncode
    assert (done.returncode, done.stdout) == (status, plain.stdout)
    ledgers = [one for one in ledgers if one["moment"] == "exit"]
    assert len(ledgers) == taken
    if taken:
        assert 2_000_000 <= ledgers[0].sum("requested") < 2_010_000  # stacks of threads, and what spins


def test_forked_children_have_ledgers_of_their_own(recorded, ways):
    done, ledgers = recorded([ways, "fork"])
    ledgers = [one for one in ledgers if one["moment"] == "exit"]
    assert done.returncode == 3 and done.stdout == b"handled\n" * 4
    assert len({one["pid"] for one in ledgers}) == len(ledgers) == 4
    for one in ledgers[:3]:  # the child's own blocks; its copies of its parent's are in use, and nobody's
        assert one.sum("requested") == 2_000_000 and one.sum("in_use") + one.sum("held_free") >= 2_000_000


def test_many_threads(compiled, recorded):
    """heft has some memory for each of them: that is not the program's."""
    _, ledgers = recorded([compiled("waiting_threads.c", flags=("-pthread",)), "400"])
    (ledger,) = [one for one in ledgers if one["moment"] == "exit"]
    assert ledger.sum("anonymous", "not recorded") < MIB
    assert ledger.sum("heft", "heft's tables") >= 400 * 4096


def test_small_heaps_and_no_ledger(recorded, ways):
    assert recorded(["true"])[1] == recorded(["ls", "/"])[1] == []
    assert recorded([ways, "exit"], "--no-ledger")[1] == []


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_a_small_program_does_not_ask(ways, tmp_path):
    """It sees that there is a bell, and does not ring it. So it waits for nobody, and nobody stops it."""
    log = tmp_path / "strace.log"
    for command, asks in (["/bin/true"], 0), (["/bin/ls", "/"], 0), ([ways, "exit"], 1):
        run(["strace", "-o", log, "-f", "-e", "trace=openat", HEFT, "run", "-q", "--force", "-o", tmp_path / "a.heft", *command])
        text = log.read_text()
        assert text.count('.bell", O_WRONLY') == 1 + asks, command


# ---- many processes


def notes_of(path):
    report = json.loads(run([HEFT, "report", "--json", path]).stdout)
    return [note["text"] if isinstance(note, dict) else note for note in report["notes"]]


def test_a_storm_of_processes_shares_a_budget(recorded, ways, tmp_path):
    """40 programs of 2 MB, one after the other: all of them with --ledger, else the first ones, and the command always."""
    script = f"i=0; while [ $i -lt 40 ]; do {ways} exit; i=$((i+1)); done; exit 3"
    done, few = recorded(["sh", "-c", script])
    assert done.returncode == 3 and done.stdout == b"handled\n" * 40
    assert 8 <= len(few) < 40
    (note,) = [text for text in notes_of(tmp_path / "out.heft") if "without a ledger" in text]
    assert "--ledger takes all" in note
    done, every = recorded(["sh", "-c", script], "--ledger")
    assert len([one for one in every if one["moment"] == "exit"]) == 40
    assert not [text for text in notes_of(tmp_path / "out.heft") if "without a ledger" in text]


# ---- ends that nobody sees in time

HOLDS = "x = [bytes(1000) for _ in range(20000)]\nimport os, time\ntime.sleep(3)\n"


@pytest.mark.parametrize("end, status, words", [
    ("os._exit(3)", 3, "exit status 3"),
    ("os.abort()", 128 + signal.SIGABRT, "killed by signal 6"),
    ("os.kill(os.getpid(), 9)", 128 + signal.SIGKILL, "killed by signal 9"),
])
def test_the_last_ledger_is_what_there_is(recorded, tmp_path, end, status, words):
    """A program that only grows, then holds 20 MB, and ends without exit: it was looked at when it was a second old, or two."""
    for _ in range(10):
        done, ledgers = recorded([sys.executable, "-c", HOLDS + end])
        assert done.returncode == status
        whole = any(one["moment"] == "interval" and one["share_of_peak"] > 0.9 for one in ledgers)
        if whole:  # on a busy machine it may not have stopped in time, or only while it had just begun to grow
            break
    assert whole and {one["moment"] for one in ledgers} <= {"interval", "peak"}
    text = run([HEFT, "map", tmp_path / "out.heft"]).stdout.decode()
    flat = " ".join(text.split())
    assert f"There is none of its end: {words}" in flat and " later." in flat
    report = run([HEFT, "report", tmp_path / "out.heft"]).stdout.decode()
    assert re.search(r"of the peak (live|RSS), [0-9.]+ m?s before the end", " ".join(report.split()))


MAPS = """import mmap, os, time
held = [bytes(5000) for i in range(1000)]
time.sleep(1.5)
mapped = mmap.mmap(-1, 50 << 20)
for at in range(0, 50 << 20, 4096):
    mapped[at] = 1
time.sleep(3)
os._exit(0)
"""


def test_memory_that_is_not_mallocs_is_seen_while_it_grows(recorded):
    """malloc's heap is the same from the first second on; the process has mapped 50 MiB before its second or its fourth."""
    for _ in range(10):
        done, ledgers = recorded([sys.executable, "-c", MAPS])
        assert done.returncode == 0
        # On a busy machine it may not have stopped in time, or the first ledger took so long that a second one was too much.
        if max((one["rss_bytes"] for one in ledgers), default=0) > 50 * MIB:
            break
    assert {one["moment"] for one in ledgers} <= {"interval", "peak"}
    assert max(one["rss_bytes"] for one in ledgers) > 50 * MIB


@pytest.mark.parametrize("way", ["munmap", "madvise", "by number", "shrink", "map over it"])
def test_a_peak_of_mapped_memory_is_caught(compiled, recorded, tmp_path, way):
    """64 pieces of 1 MiB are there for some milliseconds, and malloc has nothing. The process asks before it gives back the first
    one; heft stops it at once, if the machine is not busy."""
    best = 0
    for _ in range(20):
        done, ledgers = recorded([compiled("mapped_peak.c"), way, "64"])
        assert (done.returncode, done.stdout) == (3, b"") and {one["moment"] for one in ledgers} <= {"interval"}
        best = max([best] + [one.sum("anonymous", "mapped by grow") for one in ledgers])
        if best >= 63 * MIB:  # a piece that shrinks gives back less than the MiB after which the process looks
            break
    assert 63 * MIB <= best <= 64 * MIB
    text = " ".join(run([HEFT, "report", tmp_path / "out.heft"]).stdout.decode().split())
    assert re.search(r"RSS at peak 6\d\.\d MiB: anonymous 6[34]\.\d \(mapped by grow\), .* of the peak RSS", text)


@pytest.mark.parametrize("words", [("4", "16"), ("4", "16", "heap"), ("1", "64")])
def test_a_peak_of_a_few_large_blocks_is_caught(compiled, recorded, words):
    """The first free gives back a quarter of the heap or all of it: who frees such a block asks before it is gone. A fall of an
    eighth, seen later, is too much to be near the peak."""
    best = None
    for _ in range(20):
        done, ledgers = recorded([compiled("large_frees.c"), *words])
        assert (done.returncode, done.stdout) == (3, b"")
        best = max([best, *ledgers], key=lambda one: one["rss_bytes"] if one else 0)
        if best and best["share_of_peak"] == 1:
            break
    assert best["moment"] == "peak" and best["share_of_peak"] == 1
    kind = "requested" if "heap" in words else "large_mappings"
    assert 64 * MIB <= best.sum(kind) < 65 * MIB


def test_a_small_peak_does_not_hide_a_large_one(compiled, recorded):
    """A heap of 1.5 MiB that is freed has its ledger; what the process maps then is much more than that."""
    for _ in range(20):
        done, ledgers = recorded([compiled("mapped_peak.c"), "munmap", "64", "heap"])
        assert done.returncode == 3
        best = max([None, *ledgers], key=lambda one: one["rss_bytes"] if one else 0)
        if {one["moment"] for one in ledgers} == {"peak", "interval"} and best.sum("anonymous", "mapped by grow") == 64 * MIB:
            break
    assert {one["moment"] for one in ledgers} == {"peak", "interval"}
    assert best.sum("anonymous", "mapped by grow") == 64 * MIB


def test_little_mapped_memory_is_not_worth_a_stop(compiled, recorded):
    done, ledgers = recorded([compiled("mapped_peak.c"), "munmap", "6"])
    assert done.returncode == 3 and ledgers == []


def test_memory_that_comes_and_goes_costs_little(compiled, recorded):
    """Ledgers before the exit take a hundredth of the time, but for the first one: what is given back again and again is looked at
    once, then seldom."""
    script = ("import mmap\nfor i in range(60):\n    held = mmap.mmap(-1, 32 << 20)\n"
              "    for at in range(0, 32 << 20, 4096):\n        held[at] = 1\n    held.close()\n")
    done, ledgers = recorded([sys.executable, "-c", script])
    assert done.returncode == 0
    assert len([one for one in ledgers if one["moment"] == "interval"]) <= 4


def test_exec_keeps_the_last_one(recorded, tmp_path):
    """The first image is looked at while it runs; the second one is small."""
    for _ in range(4):
        done, ledgers = recorded([sys.executable, "-c", HOLDS + "os.execv('/bin/true', ['true'])"])
        assert done.returncode == 0
        if "interval" in {one["moment"] for one in ledgers}:
            break
    assert "interval" in {one["moment"] for one in ledgers} and "exit" not in {one["moment"] for one in ledgers}


# ---- who mapped it


def test_anonymous_memory_is_named_by_who_mapped_it(compiled, recorded, tmp_path):
    """All of it is one line, with the call stack that has mapped it; heft map --events adds up to the same."""
    _, ledgers = recorded([compiled("pmr_arena.cc", flags=("-O1",))])
    made = json.loads(run([HEFT, "map", "--json", tmp_path / "out.heft"]).stdout)
    lines = [line for line in made["ledgers"][-1]["lines"] if line["kind"] == "anonymous" and "site" in line]
    (line,) = [line for line in lines if line["name"].startswith("mapped by arena::grow")]
    assert re.search(r"\(pmr_arena\.cc:\d+\)$", line["name"])
    (site,) = [site for site in made["sites"] if site["site"] == line["site"]]
    assert site["via"] == "mmap" and site["function"].startswith("arena::grow")
    mapped = sum(call["change_bytes"] for call in made["mappings"] if call.get("site") == line["site"])
    assert line["virtual_bytes"] == mapped > 10_000_000
    assert line["resident_bytes"] == mapped  # the program has written to all of it
    assert ledgers[-1].sum("unexplained") == 0


@pytest.fixture(scope="module")
def arenas(compiled, tmp_path_factory):
    """Recordings of a program with arenas that it maps itself, and of the same one with 8 lines more before its code."""
    folder = tmp_path_factory.mktemp("arenas")
    source = (PROGRAMS / "pmr_arena.cc").read_text()
    (folder / "pmr_arena.cc").write_text("//\n" * 8 + source)
    later = folder / "later"
    subprocess.run(["g++", "-std=c++17", "-O1", "-g", folder / "pmr_arena.cc", "-o", later], check=True)
    said = {}
    for name, program in ("old", compiled("pmr_arena.cc", flags=("-O1",))), ("new", later):
        done = run([HEFT, "run", "-o", folder / f"{name}.heft", program])
        assert done.returncode == 0
        said[name] = " ".join(done.stderr.decode().split())
    return folder, said


def arena_line(path):
    (made,) = [line for one in json.loads(run([HEFT, "map", "--json", path]).stdout)["ledgers"][-1:]
               for line in one["lines"] if line["name"].startswith("mapped by arena::grow")]
    return made


def test_the_maker_is_named_in_reports(arenas):
    """In the row of the report and of the run's summary, and in the JSON of both."""
    folder, said = arenas
    line = arena_line(folder / "old.heft")
    assert line["name"] == "mapped by " + line["maker"]
    words = f"anonymous {line['resident_bytes'] / MIB:.1f} (mapped by arena::grow(..))"
    assert words in said["old"]
    assert words in " ".join(run([HEFT, "report", folder / "old.heft"]).stdout.decode().split())
    rep = json.loads(run([HEFT, "report", "--json", folder / "old.heft"]).stdout)
    (same,) = [one for one in rep["ledgers"][-1]["lines"] if one["name"] == line["name"]]
    assert (same["maker"], same["resident_bytes"]) == (line["maker"], line["resident_bytes"])


def test_the_maker_is_named_in_a_comparison(arenas):
    """The call stands 8 lines further down in the new program: that is the same line of the ledger."""
    folder, _ = arenas
    old, new = arena_line(folder / "old.heft"), arena_line(folder / "new.heft")
    number = [int(re.search(r":(\d+)\)$", line["name"])[1]) for line in (old, new)]
    assert number[1] - number[0] == 8
    done = json.loads(run([HEFT, "diff", "--json", folder / "old.heft", folder / "new.heft"]).stdout)
    lines = [line for line in done["ledgers"][0]["lines"] if "arena::grow" in line["name"]]
    assert [(line["name"], line["old_bytes"], line["new_bytes"]) for line in lines] == \
        [(new["name"], old["resident_bytes"], new["resident_bytes"])]
    small = folder / "small.heft"
    run([HEFT, "run", "-q", "--force", "--ledger", "-o", small, "/usr/bin/python3", "-c", "x = bytearray(2 << 20)"])
    text = run([HEFT, "diff", "--at", "end", small, folder / "old.heft"]).stdout.decode()
    assert re.search(r"anonymous memory: mapped by arena::grow.*\(pmr_arena\.cc:\d+\)$", text, re.M)


def test_the_maker_is_named_on_the_page(arenas):
    """The document of the Memory view, as a one-file report has it."""
    folder, _ = arenas
    page = folder / "old.html"
    assert run([HEFT, "export", "-f", "html", "-o", page, folder / "old.heft"]).returncode == 0
    data = re.search(r'id="heft-data">([A-Za-z0-9+/=]*)</script>', page.read_text())[1]
    documents = json.loads(gzip.decompress(base64.b64decode(data)))
    (words,) = [line["words"] for line in documents["/api/r/1/ledger"]["ledgers"][-1]["lines"] if "arena::grow" in line["name"]]
    assert words == arena_line(folder / "old.heft")["name"]


def test_python_arenas_have_a_call_stack(recorded, tmp_path):
    recorded(["/usr/bin/python3", "-c", "x = [str(i) for i in range(300000)]"])
    made = json.loads(run([HEFT, "map", "--json", tmp_path / "out.heft"]).stdout)
    (line,) = [line for line in made["ledgers"][-1]["lines"] if "pymalloc" in line["name"]]
    (site,) = [site for site in made["sites"] if site["site"] == line["site"]]
    assert site["via"] == "mmap" and site["stack"]
    # python3 maps them itself; Debian's has no names for that place.
    assert re.search(r"python3|[Aa]rena", line["maker"])
    if line["resident_bytes"] > MIB:
        said = " ".join(run([HEFT, "report", tmp_path / "out.heft"]).stdout.decode().split())
        assert re.search(r"Python's objects \(pymalloc's arenas\) [0-9.]+ \(([0-9.]+ )?mapped by ", said)


# ---- where there is none


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
def test_a_traced_program_has_none(recorded, ways, tmp_path):
    """One note says why. On a machine that is very busy, heft may come too late to try: then there is no reason to give."""
    for _ in range(5):
        done, ledgers = recorded(["strace", "-f", "-o", "/dev/null", ways, "exit"])
        assert (done.returncode, done.stdout) == (4, b"handled\n")
        assert ledgers == []
        notes = [text for text in notes_of(tmp_path / "out.heft") if "could not look where the memory" in text]
        if notes:
            break
    (note,) = notes
    assert "already traced" in note


def test_why_there_is_none(ways, tmp_path):
    path, cut = tmp_path / "x.heft", tmp_path / "cut.heft"
    assert run([HEFT, "run", "--no-ledger", "-q", "-o", path, ways, "exit"]).returncode == 4
    assert b"has no ledger: it was recorded with --no-ledger, or" in run([HEFT, "map", path]).stderr
    cut.write_bytes(path.read_bytes()[:-200])
    assert b"has no ledger: it is incomplete (cut off, or still being written)" in run([HEFT, "map", cut]).stderr


def test_sampled_programs_are_not_stopped(ways, tmp_path):
    path = tmp_path / "sampled.heft"
    assert run([HEFT, "run", "--sample", "-q", "-o", path, ways, "exit"]).returncode == 4
    assert b"has no ledger: it is sampled" in run([HEFT, "map", path]).stderr
    refused = run([HEFT, "run", "--sample", "--ledger", "true"])
    assert refused.returncode == 125 and b"'heft map PID' takes one" in refused.stderr


def test_a_sampled_process_has_a_ledger_when_asked(tmp_path):
    """As any process: what is in use, not what was requested; and heft's own share is told apart."""
    script = "import os\nx = [str(i) for i in range(100000)]\nprint(os.getpid(), flush=True)\ninput()"
    heft = subprocess.Popen([HEFT, "run", "--sample", "-q", "-o", tmp_path / "s.heft", sys.executable, "-c", script],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid = int(heft.stdout.readline())
    made = json.loads(run([HEFT, "map", "--json", str(pid)]).stdout)
    jsonschema.validate(made, SCHEMA, cls=jsonschema.Draft202012Validator)
    ledger = Ledger(made["ledgers"][0])
    heft.communicate(b"\n", timeout=60)
    assert heft.returncode == 0 and ledger["moment"] == "request"
    assert ledger.sum("in_use") > 0 and ledger.sum("requested") == 0 and ledger.sum("heft") > 0
    assert sum(line["resident_bytes"] for line in ledger["lines"]) == ledger["rss_bytes"]
    assert ledger.sum("unexplained") == 0
