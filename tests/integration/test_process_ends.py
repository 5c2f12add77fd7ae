"""Several processes in one recording: the end of each has its place among the events, so that the
peak is of blocks that were live together; what is left and what is live; peak RSS."""

import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess

import pytest

from harness import HEFT, check_sums, go_pprof, plain_environment, report, run

MIB = 1 << 20


@pytest.fixture(scope="session")
def in_turn(compiled):
    return compiled("children_in_turn.c")


# ---- children that follow one another

ENDS = ["exit", "_exit", "quick_exit", "exit_group", "abort", "kill", "waitid", "sigchld"]


@pytest.mark.parametrize("how", ENDS)
def test_children_in_turn_have_the_peak_of_one(record, in_turn, how):
    count = 120
    for _ in range(2):
        done, rep = record([in_turn, how, count])
        assert done.returncode == 0
        t = rep["totals"]
        assert len(rep["processes"]) == count + 1
        assert (t["peak_bytes"], t["peak_blocks"]) == (MIB, 1)
        assert (t["left_bytes"], t["left_blocks"]) == (count * MIB, count)
        assert (t["live_bytes"], t["live_blocks"]) == (0, 0)  # the parent ends last, with nothing
        check_sums(rep)


def test_slack_of_each_process(record, in_turn):
    """1 MiB is mapped: with its header of 16 bytes 257 pages, of which 4,080 bytes are more than was asked for."""
    rep = record([in_turn, "exit", 3])[1]
    assert [p["totals"]["peak_slack_bytes"] for p in rep["processes"]] == [0, 4080, 4080, 4080]
    assert rep["totals"]["peak_slack_bytes"] == 4080


def test_left_at_exit_in_other_formats(in_turn, tmp_path):
    """Twenty children leave 1 MiB each; the parent has nothing when it ends."""
    path = tmp_path / "turn.heft"
    assert run([HEFT, "run", "-q", "-o", path, "--", in_turn, "exit", "20"]).returncode == 0

    def export(form):
        done = run([HEFT, "export", "-q", "-f", form, "-o", "-", path])
        assert done.returncode == 0, done.stderr
        return done.stdout
    rows = list(csv.DictReader(io.StringIO(export("csv").decode(), newline="")))
    assert sum(int(r["left_bytes"]) for r in rows) == 20 * MIB
    assert sum(int(r["left_blocks"]) for r in rows) == 20
    assert sum(int(r["live_bytes"]) for r in rows) == 0
    # To DHAT "at t-end" is what a process had not freed when it ended.
    points = json.loads(export("dhat"))["pps"]
    assert sum(p["eb"] for p in points) == 20 * MIB and sum(p["ebk"] for p in points) == 20
    assert sum(p["gb"] for p in points) == MIB and max(p["mb"] for p in points) == MIB
    (tmp_path / "turn.pb.gz").write_bytes(export("pprof"))
    (tmp_path / "one.pb.gz").write_bytes(run([HEFT, "export", "-q", "-f", "pprof", "-o", "-", "--pid",
                                              str(report(path)["pid"]), path]).stdout)
    def raw(name, *options):
        done = go_pprof(tmp_path, "-raw", *options, tmp_path / name)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode()
    lines = raw("turn.pb.gz").split("Samples:\n")[1].split("Locations")[0].splitlines()
    types = lines[0].replace("[dflt]", "").split()
    at = types.index("left_space/bytes")
    values = [[int(v) for v in line.split(":")[0].split()]
              for line in lines[1:] if re.match(r" *[0-9 ]+:", line)]
    assert sum(v[at] for v in values) == 20 * MIB
    assert sum(v[types.index("left_objects/count")] for v in values) == 20
    assert sum(v[types.index("inuse_space/bytes")] for v in values) == 0
    assert "left_space" not in raw("one.pb.gz")  # of one process it is inuse_space


@pytest.mark.parametrize("how", ["raw-wait4", "raw-waitid", "nobody-waits", "spawn-raw", "vfork-raw"])
def test_killed_children_that_nobody_waits_for_in_a_way_that_heft_sees(record, in_turn, how):
    """Nobody notes their end: the recorder sees it when it wakes, some of them later than the next begins."""
    count = 200
    done, rep = record([in_turn, how, count])
    assert done.returncode == 0
    t = rep["totals"]
    assert len(rep["processes"]) == count + 1
    assert MIB <= t["peak_bytes"] <= count * MIB // 2
    assert sum(p["totals"]["left_bytes"] for p in rep.images()) == t["left_bytes"] >= count * MIB
    check_sums(rep)


@pytest.mark.parametrize("how", ["system", "pclose"])
def test_killed_programs_in_turn(record, in_turn, how):
    """A program that has 1 MiB when it is killed, again and again: never more than one at a time."""
    count = 100
    done, rep = record([in_turn, how, count])
    assert done.returncode == 0
    # each shell becomes the program
    assert len(rep.images()) == 2 * count + 1 and len(rep["processes"]) == count + 1
    held = {"take": 0, "programs": 0}
    for site in rep["sites"]:
        for name in held.keys() & {f["function"] for f in site["stack"]}:
            held[name] += site["peak_bytes"]
    # popen's stream is there as long as its command, and what it needed to make that one may still be
    low, high = (100, 1000) if how == "pclose" else (0, 0)
    assert held["take"] == MIB and low <= held["programs"] <= high
    assert rep["totals"]["peak_bytes"] == sum(held.values())


def test_more_killed_children_than_a_process_can_note(record, in_turn):
    """600 with 64 KiB each are killed and waited for, faster than heft looks; one with as much as all
    of them follows. No more than that was ever there."""
    done, rep = record([in_turn, "crowd", 600])
    assert done.returncode == 0
    assert rep["totals"]["left_bytes"] == 2 * 600 * 65536
    assert rep["totals"]["peak_bytes"] == 600 * 65536


def test_an_image_ends_where_the_next_begins(record, in_turn):
    """Each child has 1 MiB, becomes another program, and has 1 MiB again."""
    _, rep = record([in_turn, "exec-first", 60])
    assert len(rep.images()) == 121 and len(rep["processes"]) == 61
    assert rep["totals"]["peak_bytes"] == MIB
    assert rep["totals"]["left_bytes"] == 120 * MIB


def test_no_image_is_lost_where_it_ends_at_once(record, in_turn):
    """What the command becomes may be over before the recorder has looked twice."""
    for _ in range(25):
        _, rep = record(["env", in_turn, "hold", "0"])
        assert [p["end"] for p in rep.images()] == ["exec", "exit"]
        assert not [n for n in rep["notes"] if n["kind"] == "warning"]


def test_two_at_a_time_have_the_peak_of_two(record, in_turn):
    _, rep = record([in_turn, "together", 80])
    assert rep["totals"]["peak_bytes"] == 2 * MIB
    assert rep["totals"]["left_bytes"] == 80 * MIB


def test_many_short_programs_have_the_peak_of_one(record):
    """A shell that runs /bin/echo again and again has no more at once than one that does it once."""
    one = record(["sh", "-c", "i=0; while [ $i -lt 1 ]; do /bin/echo $i; i=$((i+1)); done"])[1]
    many = record(["sh", "-c", "i=0; while [ $i -lt 400 ]; do /bin/echo $i; i=$((i+1)); done"])[1]
    assert many["totals"]["peak_bytes"] - one["totals"]["peak_bytes"] in range(0, 64)  # $i is longer
    assert len(many["processes"]) == 401 > len(one["processes"])


# ---- real programs against a reference that shares no code with heft


@pytest.fixture(scope="session")
def reference(compiled, tmp_path_factory):
    """(peak, left, images, bounds of the peak) of a command from the logs of every process, beside
    heft's own."""
    log = compiled("call_log.c", flags=("-shared", "-fPIC"), output="call_log.so")
    adder = compiled("peak_of_logs.c")

    def measure(record, command, cwd):
        logs = f"/dev/shm/heft-test-logs.{os.getpid()}"
        shutil.rmtree(logs, ignore_errors=True)
        os.mkdir(logs)
        try:
            done, rep = record(["env", f"CALL_LOG={logs}", f"LD_PRELOAD={log}", *command], cwd=cwd)
            assert done.returncode == 0, done.stderr.decode(errors="replace")
            said = subprocess.run([adder, logs], capture_output=True, check=True).stdout.split()
        finally:
            shutil.rmtree(logs)
        env = rep.images()[0]["totals"]["left_bytes"]  # "env" itself is in no log
        return rep, int(said[0]), int(said[1]) + env, *map(int, said[2:])

    return measure


def project(folder):
    for i in range(4):
        (folder / f"part{i}.c").write_text(f"#include <stdio.h>\n#include <stdlib.h>\n"
                                           f"int part{i}(void) {{ return printf(\"{i}\"); }}\n")
    (folder / "Makefile").write_text("all: part0.o part1.o part2.o part3.o\n"
                                     "%.o: %.c\n\tgcc -O2 -c -o $@ $<\n")


def repository(folder):
    env = plain_environment({"GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(folder)})
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "init", "-q", folder], check=True, env=env)
    for i in range(6):
        (folder / "file").write_text(f"{i}\n" * 2000)
        subprocess.run([*git, "add", "file"], cwd=folder, check=True, env=env)
        subprocess.run([*git, "commit", "-q", "-m", f"c{i}"], cwd=folder, check=True, env=env)


SERVER = """
import os, socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(8)
workers = []
for _ in range(3):
    pid = os.fork()
    if not pid:
        for _ in range(4):
            c, _ = s.accept(); c.sendall(b"x" * len(c.recv(100)) * 2000); c.close()
        os._exit(0)
    workers.append(pid)
for _ in range(12):
    c = socket.create_connection(s.getsockname()); c.sendall(b"hello")
    while c.recv(65536): pass
    c.close()
for pid in workers: os.waitpid(pid, 0)
"""

PROGRAMS = {
    "make -j2": ["make", "-s", "-j2", "-B"],
    "shell loop": ["sh", "-c", "for i in 1 2 3 4 5 6 7 8; do ls / >/dev/null; done"],
    "pre-forking server": ["/usr/bin/python3", "-c", SERVER],
    "xargs -P2": ["sh", "-c", "ls *.c | xargs -P2 -n1 gcc -O2 -fsyntax-only"],
    "git gc": ["git", "gc", "-q", "--prune=now"],
    "gcc": ["gcc", "-O2", "-c", "part0.c", "-o", "/dev/null"],
    "pipeline": ["sh", "-c", "cat part*.c | sort | uniq -c | perl -ne 'print length' >/dev/null"],
    "perl fork": ["perl", "-e", "for (1..6) { if (!fork) { my @a = map { $_ x 9 } 1..5000; exit } wait }"],
    "subprocesses": ["/usr/bin/python3", "-c",
                     "import subprocess\nfor i in range(4): subprocess.run(['perl', '-e', '1'])"],
    "timeout": ["timeout", "50", "perl", "-e", "my @a = map { $_ x 9 } 1..9000"],
}


# Processes that allocate at the same time: heft and the log stamp each call one after the other, and a
# process may be stopped between the two, for as long as the machine is busy, while another one reaches
# its peak. So one call of each process, or its end, may be seen on the other side of that: peak_of_logs.c says
# what the greatest sum is at least and at most then.
PARALLEL = {"make -j2", "pre-forking server", "xargs -P2", "pipeline", "git gc"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_peak_equals_the_sum_over_all_processes(record, reference, tmp_path, name):
    if name == "git gc":
        repository(tmp_path)
    project(tmp_path)
    for _ in range(3):
        rep, peak, left, images, low, high = reference(record, PROGRAMS[name], tmp_path)
        assert images > 1 and low <= peak <= high
        if name in PARALLEL:
            assert low <= rep["totals"]["peak_bytes"] <= high
        else:
            assert rep["totals"]["peak_bytes"] == peak
        assert rep["totals"]["left_bytes"] == left
        assert rep["totals"]["live_bytes"] <= rep["totals"]["peak_bytes"]


# ---- left, live, and moments


def test_an_exec_is_no_second_heap(record, in_turn):
    """env and what it becomes are one process: what env left is not live at the end."""
    _, rep = record(["env", in_turn, "hold", "3"])
    t = rep["totals"]
    assert [p["end"] for p in rep.images()] == ["exec", "exit"]
    assert t["live_bytes"] == t["peak_bytes"] == 3 * MIB
    assert t["left_bytes"] == 3 * MIB + rep.images()[0]["totals"]["left_bytes"] > 3 * MIB


def test_at_the_end_of_the_run_only_the_last_process_is_there(record, in_turn, tmp_path):
    _, rep = record(["sh", "-c", f"{in_turn} hold 4; {in_turn} hold 2; true"])
    last = report(rep.path, "--at", "100%")["totals"]
    shell = rep.images()[0]["totals"]
    assert last["live_bytes"] == rep["totals"]["live_bytes"] == shell["left_bytes"] < MIB
    assert rep["totals"]["left_bytes"] == 6 * MIB + shell["left_bytes"]
    for process in rep.images()[1:]:
        alone = report(rep.path, "--pid", str(process["pid"]))["totals"]
        assert alone["live_bytes"] == alone["left_bytes"] == process["totals"]["left_bytes"]


def test_a_budget_for_what_is_live_is_refused(record, in_turn, tmp_path):
    _, rep = record(["sh", "-c", f"{in_turn} hold 4; true"])
    for rule, status in (("live_bytes <= 1G", 1), ("left_bytes <= 5M", 0), ("left_bytes <= 4M", 1)):
        (tmp_path / "budget").write_text(rule + "\n")
        done = run([HEFT, "check", "--budget", tmp_path / "budget", rep.path])
        assert done.returncode == status, (rule, done.stderr)
        if "live" in rule:
            assert b"use left_bytes" in done.stderr
    alone = record(["env", in_turn, "hold", "4"])[1]
    (tmp_path / "budget").write_text("live_bytes <= 4M\n")
    assert run([HEFT, "check", "--budget", tmp_path / "budget", alone.path]).returncode == 0


def test_diff_of_several_processes_compares_what_is_left(record, in_turn):
    old = record(["sh", "-c", f"{in_turn} hold 2; true"])[1]
    new = record(["sh", "-c", f"{in_turn} hold 5; true"])[1]
    text = run([HEFT, "diff", old.path, new.path]).stdout.decode()
    assert "left at exit" in text and "live at end" not in text
    (line,) = [x for x in text.splitlines() if x.split()[:3] == ["left", "at", "exit"]]
    assert "+3.0 MiB" in line
    one = record([in_turn, "hold", "2"])[1]
    text = run([HEFT, "diff", one.path, one.path]).stdout.decode()
    assert "live at end" in text and "left at exit" not in text


def test_a_cut_recording_of_several(record, in_turn, tmp_path):
    """Without its end the recording still tells the dead from the living."""
    _, rep = record([in_turn, "exit", 30])
    data = rep.path.read_bytes()
    cut = tmp_path / "cut.heft"
    cut.write_bytes(data[:-60])
    t = report(cut)["totals"]
    assert t["peak_bytes"] == MIB and t["live_bytes"] <= MIB


# ---- resident memory


@pytest.mark.parametrize("command", ["{} hold 60", "sh -c '{} hold 60; true'", "timeout 50 {} hold 60",
                                     "env {} hold 60", "sh -c '{} hold 1; {} hold 60; {} hold 1; true'",
                                     "/usr/bin/python3 -c 'import subprocess; subprocess.run([\"{}\", \"hold\", \"60\"])'"])
def test_peak_rss_is_of_the_process_that_has_it(record, in_turn, command):
    """Neither of a parent, whose account contains its children's, nor of what was before exec."""
    _, rep = record(shlex.split(command.replace("{}", str(in_turn))))
    images = rep.images()
    holder = max(images, key=lambda p: p["totals"]["peak_bytes"])
    rss = holder["totals"]["peak_rss_bytes"]
    assert 60 * MIB < rss < 66 * MIB
    for p in images:
        if p is not holder:
            assert (p["totals"]["peak_rss_bytes"] or 0) < 25 * MIB, p["command"]
    # all at one instant: the holder, and those that wait for it
    assert rss <= rep["totals"]["peak_rss_bytes"] < 90 * MIB


@pytest.mark.parametrize("how", ["kill", "spawn-raw", "raw-wait4", "system"])
def test_peak_rss_of_short_processes_is_right_or_not_known(record, in_turn, how):
    """Each touches 1 MiB and ends after a millisecond. By the kernel's account, where the parent has it from
    wait4, it is known; else it may be that nobody saw it in time."""
    _, rep = record([in_turn, how, 60])
    holders = [p["totals"] for p in rep.images() if p["totals"]["left_bytes"] == MIB]
    assert len(holders) == 60
    for t in holders:
        assert t["peak_rss_bytes"] is None or MIB < t["peak_rss_bytes"] < 8 * MIB
    if how == "kill":
        assert all(t["peak_rss_bytes"] for t in holders)
    for t in (p["totals"] for p in rep["processes"]):
        assert t["peak_rss_bytes"] is None or t["peak_rss_bytes"] > 300_000  # never 0
    text = run([HEFT, "report", rep.path]).stdout.decode()
    assert "peak RSS  0" not in " ".join(text.split())


def test_a_small_child_of_a_large_parent(record):
    """A spawned child begins with its parent's account: that is not its own."""
    program = "import subprocess, time; x = b'x' * (50 << 20); time.sleep(0.3); subprocess.run(['/bin/true'])"
    _, rep = record(["/usr/bin/python3", "-c", program])
    true = rep.images()[-1]
    assert true["command"] == ["/bin/true"] and (true["totals"]["peak_rss_bytes"] or 0) < 10 * MIB
    assert rep.images()[0]["totals"]["peak_rss_bytes"] > 50 * MIB


def test_resident_memory_of_the_dead_is_not_in_the_sum(record):
    """Hundreds of short processes one after the other never had more than a few together."""
    loop = "for i in $(seq 150); do /bin/true; done; for i in $(seq 20); do echo x | cat; done >/dev/null"
    for _ in range(3):
        _, rep = record(["bash", "-c", loop])
        assert rep["totals"]["peak_rss_bytes"] < 25 * MIB


# ---- programs that make it hard


@pytest.mark.parametrize("how", ["exit", "_exit", "quick_exit"])
def test_an_exec_that_another_thread_forestalls(record, compiled, how):
    """Nothing was executed: the process ended while a thread looked for what to execute."""
    done, rep = record([compiled("exec_under_way.c"), how])
    assert done.returncode == 0, done.stderr
    assert [p["end"] for p in rep["processes"]] == ["exit"]
    assert not [n for n in rep["notes"] if "executed" in n["text"]]


def test_an_exec_that_succeeds_is_told(record, compiled):
    static = compiled("children_in_turn.c", flags=("-static",), output="in_turn_static")
    done, rep = record([compiled("exec_under_way.c"), "leave", static])
    assert done.returncode == 0, done.stderr
    assert [n for n in rep["notes"] if f"executed {static} and was not recorded" in n["text"]]


def test_a_process_whose_first_thread_has_ended(record, in_turn):
    """It has 1 MiB and another thread; a sibling with 1 MiB begins and ends before that one takes 2 MiB more."""
    _, rep = record([in_turn, "leaderless", 1])
    taken = [s for s in rep["sites"] if any(f["function"] == "take" for f in s["stack"])]
    assert sum(s["left_bytes"] if "left_bytes" in s else s["allocated_bytes"] for s in taken) == 4 * MIB
    assert sum(s["peak_bytes"] for s in taken) == 3 * MIB


def test_functions_of_the_programs_own(record, compiled):
    program = compiled("own_names.c")
    for arguments, said in (([], b"4\n"), (["exec"], b"0\n")):
        assert run([program, *arguments]).stdout == said
        done, rep = record([program, *arguments])
        assert (done.returncode, done.stdout) == (9, said)


@pytest.mark.parametrize("how, status", [("exit", 4), ("return", 3)])
def test_a_sandbox_that_allows_little(record, compiled, how, status):
    program = compiled("sandboxed.c")
    assert run([program, how]).returncode == status
    done, rep = record([program, how])
    assert done.returncode == status
    assert rep["totals"]["live_bytes"] == 50


def test_more_children_at_once_than_are_looked_at(record, in_turn):
    """150 that are killed, and all waited for, before the next 150 begin."""
    _, rep = record([in_turn, "batches", 4])
    # A child that was not waited for when the recorder looked ends when it looked: a round at most.
    assert 150 * 65536 <= rep["totals"]["peak_bytes"] <= 165 * 65536
    assert rep["totals"]["live_bytes"] == 0


def test_fewer_descriptors_than_children(tmp_path, in_turn):
    """150 children at a time, with descriptors for 20 or so: a child whose file cannot be opened yet is
    found when another one has ended."""
    path = tmp_path / "x.heft"
    done = run(["bash", "-c", f"ulimit -n 60; exec {HEFT} run -q -o {path} -- {in_turn} batches 4"])
    assert done.returncode == 0, done.stderr
    rep = report(path)
    assert (rep["totals"]["allocations"], len(rep["processes"])) == (600, 601)


@pytest.mark.skipif(os.geteuid() != 0, reason="pid namespaces need root")
def test_processes_that_know_themselves_by_another_number(record):
    """In a namespace of their own their numbers are those of strangers here."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    if run([*unshare, "true"]).returncode:
        pytest.skip("no pid namespaces here")
    done, rep = record([*unshare, "sh", "-c", "/bin/ls / >/dev/null; exit 3"])
    assert done.returncode == 3
    assert {p["command"][0] for p in rep.images()} == {"unshare", "sh", "/bin/ls"}
    assert all(p["end"] in ("exit", "exec", "unknown") for p in rep.images())


@pytest.mark.parametrize("first", ["exec", ""])
def test_strangers_with_the_same_numbers(tmp_path, first):
    """In a container process 2 is a child of 1, and so it is in a namespace that a program makes there:
    a shell that runs on must not be taken for a subshell of the program that has ended; nor heft, if it
    is the first of the container, for the first of that namespace."""
    unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    if run([*unshare, "true"]).returncode:
        pytest.skip("no pid namespaces here")
    path = tmp_path / "strangers.heft"
    script = f"sh -c 'while :; do sleep 1; done' & {first} \"$@\""
    done = run([*unshare, "sh", "-c", script, "sh", HEFT, "run", "-q", "-o", path, "--", *unshare,
                "sh", "-c", "(:); (:); /bin/ls / >/dev/null; exit 3"])
    assert done.returncode == 3
    rep = report(path)
    assert {"sh", "/bin/ls"} <= {p["command"][0] for p in rep["processes"]}
    assert all(p["end"] in ("exit", "unknown") for p in rep["processes"])


BUSY = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	usleep(100000);
	for (int i = 0; i < 2000000; i++) {
		void *volatile p = malloc(50);
		free(p);
	}
	puts("done");
}
"""


@pytest.mark.parametrize("script", [
    "unshare -pf {busy} & unshare -pf {busy} & wait",
    "unshare -pf --kill-child sh -c 'for i in 2 3 4 5 6 7 8; do /bin/true; done; {busy}; :'"])
def test_processes_of_namespaces_are_neither_held_up_nor_lost(tmp_path, script):
    """Two processes that both are number 1, and one whose number nobody has here."""
    if run(["unshare", "-pf", "true"]).returncode:
        pytest.skip("no pid namespaces here")
    source, busy, path = tmp_path / "busy.c", tmp_path / "busy", tmp_path / "ns.heft"
    source.write_text(BUSY)
    subprocess.run(["gcc", "-O1", "-o", busy, source], check=True)
    done = run([HEFT, "run", "-q", "-o", path, "--", "sh", "-c", script.format(busy=busy)])
    count = script.count("{busy}")
    assert (done.returncode, done.stdout) == (0, b"done\n" * count)
    rep = report(path)
    found = [p["totals"]["allocations"] for p in rep.images() if p["command"] == [str(busy)]]
    assert len(found) == count and all(n >= 2_000_000 for n in found)


# ---- how they ended

WAITS = """
import ctypes, os, signal, subprocess
def fork(end, how):
    pid = os.fork()
    if pid == 0:
        end(how) if end is os._exit else end(os.getpid(), how)
    return pid
os.waitpid(fork(os._exit, 3), 0)
fork(os.kill, signal.SIGKILL), os.wait()
fork(os._exit, 255), os.wait3(0)
os.wait4(fork(os.kill, signal.SIGTERM), 0)
os.waitid(os.P_PID, fork(os._exit, 4), os.WEXITED)
os.waitid(os.P_PID, fork(os.kill, signal.SIGUSR1), os.WEXITED)
os.system("exit 5")
os.system("kill -INT $$")
libc = ctypes.CDLL(None)
libc.popen.restype = ctypes.c_void_p
libc.pclose(ctypes.c_void_p(libc.popen(b"kill -KILL $$", b"r")))
subprocess.run(["sh", "-c", "exit 6"])
"""
WAITED = [("exit", 3, 0), ("signal", 0, 9), ("exit", 255, 0), ("signal", 0, 15), ("exit", 4, 0), ("signal", 0, 10),
          ("exit", 5, 0), ("signal", 0, 2), ("signal", 0, 9), ("exit", 6, 0)]


def end_of(p):
    return p["end"], p["exit_status"], p["signal"]


@pytest.fixture(scope="session")
def blind(compiled):
    """Without what newer kernels tell of others' children."""
    return {"LD_PRELOAD": str(compiled("blind_to_exits.c", flags=["-shared", "-fPIC"], output="libblind.so"))}


@pytest.mark.parametrize("told", ["by the parent", "by the kernel"])
def test_how_children_ended(record, blind, told):
    done, rep = record(["/usr/bin/python3", "-Ic", WAITS], env=blind if told == "by the parent" else {})
    assert done.returncode == 0, done.stderr
    assert [end_of(p) for p in rep["processes"]] == [("exit", 0, 0), *WAITED]
    said = run([HEFT, "report", "--pid", str(rep["processes"][4]["pid"]), rep.path]).stdout.decode()
    assert "killed by signal 15 (SIGTERM)" in said


def test_an_end_that_nobody_tells_is_unknown(record, blind, in_turn):
    done, rep = record([in_turn, "raw-wait4", 5], env=blind)
    assert done.returncode == 0, done.stderr
    assert [end_of(p) for p in rep["processes"]] == [("exit", 0, 0)] + [("unknown", None, None)] * 5


# ---- over time

OVERLAPPING = """
import os, time
for mib in 4, 8, 12, 16:
    if os.fork() == 0:
        held = bytearray(mib << 20)
        time.sleep(0.06)
        held = None
        time.sleep(0.01)
        os._exit(0)
    time.sleep(0.025)
for _ in range(4):
    os.wait()
"""


def test_sizes_over_time_are_those_of_their_moments(tmp_path):
    """Few events, far apart: the recorder takes those of many milliseconds at once."""
    path = tmp_path / "overlap.heft"
    assert run([HEFT, "run", "-q", "-o", path, "--", "/usr/bin/python3", "-Ic", OVERLAPPING]).returncode == 0
    massif = run([HEFT, "export", "-q", "-f", "massif", "-o", "-", path]).stdout.decode()
    course = [(float(t), int(b)) for t, b in re.findall(r"^time=([\d.]+)\nmem_heap_B=(\d+)$", massif, re.M)]
    rep = report(path)
    assert len(course) > 100 and max(b for _, b in course) == rep["totals"]["peak_bytes"]
    last_ms = rep["duration_ns"] / 1e6 - 1
    steps = sorted((abs(c[1] - before[1]), *c) for before, c in zip(course, course[1:]) if c[0] < last_ms)[-12:]
    assert steps[0][0] > 0
    for _, time_ms, size in steps:
        def at(time):
            return report(path, "-n", "1", "--at", f"{time:.3f}ms")["totals"]["live_bytes"]
        # massif's times are cut to microseconds
        assert size == at(time_ms) or size in (at(time_ms - 0.001), at(time_ms + 0.001)), time_ms
