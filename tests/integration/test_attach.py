"""heft attach and heft detach, as far as recorder and command line go: a stand-in puts heft's library into the
program, so that what is recorded, how it ends and what heft says can be tested exactly."""

import json
import os
import signal
import socket
import subprocess

import pytest

from attach_harness import FAKE, Attached, Target
from harness import HEFT, REPOSITORY, check_sums, children_of, line_of, report, run, start, wait_until
from live_harness import Service, fetch


@pytest.fixture
def target(compiled, tmp_path):
    made = Target(compiled("attach_target.c", flags=["-ldl"]), tmp_path)
    yield made
    made.end()


def notes(rep):
    return [n["text"] for n in rep["notes"]]


def test_what_was_before_counts_apart(target):
    """10 blocks of 100 bytes are older. 4 of them are resized to 500, the other 6 are freed. 5 blocks of 1,000
    are new; two of the resized ones are freed, a third one grows to 700."""
    target.do("alloc 10 100")
    heft = Attached(target)
    target.do("realloc 4 500", "free 6", "alloc 5 1000", "free 2", "realloc 1 700")
    heft.signal()
    said = heft.end()
    target.do("alloc 3 7", "free 2")  # it goes on, and nobody records it
    rep = heft.report()
    check_sums(rep)
    t = rep["totals"]
    assert (t["allocations"], t["frees"], t["reallocations"]) == (4 + 5, 2, 1)
    assert t["allocated_bytes"] == 4 * 500 + 5 * 1000 + 200
    assert (t["live_bytes"], t["live_blocks"]) == (500 + 700 + 5000, 7)
    assert (t["peak_bytes"], t["peak_blocks"]) == (4 * 500 + 5 * 1000, 9)
    assert (t["older_frees"], t["unknown_frees"], t["dropped"]) == (6, 0, 0)
    assert rep["attached"] and rep["end"] == "detached" and rep["complete"]
    assert rep["pid"] == target.pid and rep["command"] == [str(c) for c in target.process.args]
    assert f"process {target.pid} freed 6 and resized 4 blocks that it had allocated before heft was " \
           "attached" in notes(rep)
    assert rep["findings"] == []
    assert {s["stack"][0]["line"] for s in rep["sites"]} == {line_of("attach_target.c", "make"),
                                                            line_of("attach_target.c", "grow")}
    assert "stood still for 1.25 ms, at try 2" in said and "3 threads" in said
    assert "heft: it had something before" in said
    assert f"Ctrl-C or 'heft detach {target.pid}' ends it" in said
    assert f"heft: detached from process {target.pid}; it stood still for 0.75 ms" in said
    assert "went on after the recording ended" in said
    assert all(len(line) <= 100 for line in said.splitlines() if "attach_target.c" not in line)
    assert run([HEFT, "verify", heft.path]).returncode == 0
    text = run([HEFT, "report", heft.path]).stdout.decode()
    assert "  attached      while it ran: it freed 6 blocks from before, others are not known\n" in text
    assert "unknown frees" not in text


def test_only_what_was_before(target):
    """Nothing is allocated while heft is there, and what is freed is older: all numbers are 0."""
    target.do("alloc 10 100")
    heft = Attached(target)
    target.do("free 10")
    heft.signal()
    heft.end()
    t = heft.report()["totals"]
    assert (t["allocations"], t["frees"], t["peak_bytes"], t["older_frees"]) == (0, 0, 0, 10)


def test_threads(target):
    """With several threads a free may wait for its allocation: older blocks still count as such."""
    target.do("threads 100 10", "alloc 200 10")
    heft = Attached(target)
    # A thread frees 200 older blocks while it knows of others; their addresses are given out again.
    target.do("threads 200 10", "threads 200 10", "free 100")
    heft.signal()
    heft.end()
    t = heft.report()["totals"]
    # threads N frees the first N of the list: older ones first.
    assert (t["allocations"], t["frees"]) == (400, 300)
    assert (t["older_frees"], t["unknown_frees"], t["left_blocks"]) == (200, 0, 100)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_end_the_recording_only(target, number):
    heft = Attached(target)
    target.do("alloc 1 10")
    heft.signal(number)
    heft.end()
    target.do("alloc 1 10")
    assert heft.report()["totals"]["allocations"] == 1


def test_duration(target):
    heft = Attached(target, "--duration", "200ms")
    assert "it ends after 0.2 s" in heft.said[-1]
    target.do("alloc 1 10")
    heft.end()
    rep = heft.report()
    assert rep["end"] == "detached" and rep["duration_ns"] >= 200e6


def test_limit_size(target):
    """A recording that has its size leaves the program. Sizes differ: what repeats takes next to no room."""
    heft = Attached(target, "--limit-size=16k")
    size = 1
    while heft.process.poll() is None:
        target.do(*(f"alloc 1 {size + i}" for i in range(200)), "free 200")
        size = size * 5 % 7919 + 1
    said = heft.end()
    assert "reached its limit" in said and f"detached from process {target.pid}" in said
    target.do("alloc 1 1")
    assert heft.report()["end"] == "detached"


def test_detach(target):
    heft = Attached(target)
    target.do("alloc 7 10")
    done = run([HEFT, "detach", target.pid])
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    # heft has left the program before detach returns.
    target.do("alloc 5 10")
    heft.end()
    assert heft.report()["totals"]["allocations"] == 7
    done = run([HEFT, "detach", target.pid])
    assert done.returncode == 1
    assert done.stderr.decode() == f"heft: no heft is attached to process {target.pid}\n"


def test_detach_by_others(target):
    """Several may ask; all get the answer."""
    heft = Attached(target)
    asked = [subprocess.Popen([str(HEFT), "detach", str(target.pid)], stderr=subprocess.PIPE) for _ in range(5)]
    heft.end()
    answers = [(a.communicate(timeout=60)[1], a.returncode) for a in asked]
    # Who comes when heft has left is told that nobody is there.
    assert all(status == 0 or b"no heft is attached" in err for err, status in answers), answers
    assert any(status == 0 for _, status in answers)


def test_detach_while_heft_leaves(target):
    """Who asks in the last moment is hung up on, by a heft that has left the process then."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(f"\0heft-attach/{os.stat('/proc/self/ns/pid').st_ino}/{target.pid}")
        listener.listen()
        asked = start([HEFT, "detach", target.pid])
        caller, _ = listener.accept()
    caller.close()
    _, err = asked.communicate(timeout=60)
    assert (asked.returncode, err.decode()) == (1, f"heft: no heft is attached to process {target.pid}\n")


@pytest.mark.parametrize("operands, status, words", [
    ([], 2, "no process given"), (["x"], 2, "'x' is not a process id"), (["0"], 2, "'0' is not a process id"),
    (["-1"], 2, ""), (["1", "2"], 2, "one process at a time"), (["99999999999"], 2, "is not a process id")])
@pytest.mark.parametrize("verb", ["attach", "detach"])
def test_usage(verb, operands, status, words, tmp_path):
    done = run([HEFT, verb, *operands], cwd=tmp_path)
    assert done.returncode == status and words in done.stderr.decode(), done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("options, words", [
    (["--duration", "0s"], "--duration needs more than 0"), (["--duration", "x"], "--duration needs a time"),
    (["--duration", "10%"], "--duration needs a time"), (["--sample=1"], "--sample needs a size"),
    (["--linger", "1s"], "--linger needs --listen"), (["--follow", "some"], "some"), (["--limit-size", "x"], "such as 500M"),
    (["--token-file", "x"], "--token-file")])
def test_wrong_options(options, words, tmp_path):
    done = run([HEFT, "attach", *options, os.getpid()], cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr.decode(), done.stderr
    assert os.listdir(tmp_path) == []


def gone_pid():
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    return process.pid


@pytest.mark.parametrize("verb", ["attach", "detach"])
def test_no_such_process(verb, tmp_path):
    pid = gone_pid()
    done = run([FAKE, verb, pid], cwd=tmp_path)
    assert (done.returncode, done.stderr.decode()) == (1, f"heft: there is no process {pid}\n")
    assert os.listdir(tmp_path) == []


def test_the_program_exits(target):
    heft = Attached(target)
    target.do("alloc 3 10")
    target.tell("exit 3")
    said = heft.end()
    rep = heft.report()
    # Nobody has waited for it: the kernel still knows its status.
    assert (rep["end"], rep["exit_status"]) == ("exit", 3)
    assert rep["totals"]["left_blocks"] == 3
    assert "detached" not in said and target.process.wait(60) == 3


def test_the_program_is_killed(target):
    heft = Attached(target)
    target.do("alloc 3 10")
    target.process.kill()
    heft.end()
    rep = heft.report()
    assert (rep["end"], rep["signal"], rep["totals"]["left_blocks"]) == ("signal", signal.SIGKILL, 3)


@pytest.mark.parametrize("known", [True, False])
def test_the_program_executes_another(target, known):
    """Nothing of heft is left after that: the recording ends, with a note. /bin/cat reads on. It may come so
    soon that heft has not found the process yet."""
    heft = Attached(target, "-v")
    target.do("alloc 3 10")
    if known:
        heft.hear("heft: recording process ")
    target.tell("exec /bin/cat")
    said = heft.end()
    rep = heft.report()
    words = f"process {target.pid} executed another program (/usr/bin/cat), which heft is not attached to"
    assert words in said.replace("/bin/cat", "/usr/bin/cat").replace("/usr/usr", "/usr")
    assert rep["totals"]["allocations"] == 3 and rep["totals"]["left_blocks"] == 3
    assert any("executed another program" in n for n in notes(rep))
    target.tell("hello")
    assert target.line() == "hello"


def test_nothing_was_called(target):
    """A program that calls its allocator never has no file to read (the stand-in makes one all the same)."""
    heft = Attached(target)
    heft.signal()
    heft.end()
    rep = heft.report()
    assert (rep["end"], rep["totals"]["allocations"], rep["pid"]) == ("detached", 0, target.pid)


def test_forked_children(target):
    """The child frees 5 of its parent's 8 blocks, which nobody counts, and makes 2 of its own."""
    target.do("alloc 8 10")
    heft = Attached(target)
    target.do("alloc 4 10")
    target.tell("fork")
    assert target.line() == "child"
    target.do("free 5", "alloc 2 100")
    target.tell("exit 0")
    assert target.line() == "ok"  # the parent, which has waited
    target.do("alloc 1 10")
    heft.signal()
    heft.end()
    rep = heft.report()
    assert [p["totals"]["allocations"] for p in rep["processes"]] == [5, 2]
    assert rep["totals"]["unknown_frees"] == 0 and rep["totals"]["frees"] == 0
    assert [p["totals"]["left_bytes"] for p in rep["processes"]] == [50, 200]


def test_children_that_are_not_followed(target):
    heft = Attached(target, "--follow=none")
    target.do("alloc 1 10")
    target.tell("fork")
    assert target.line() == "child"
    target.do("alloc 2 100")
    target.tell("exit 0")
    assert target.line() == "ok"
    heft.signal()
    heft.end()
    rep = heft.report()
    assert [p["totals"]["allocations"] for p in rep["processes"]] == [1]


def test_children_that_run_on(target):
    """heft leaves them too."""
    heft = Attached(target)
    target.tell("fork")
    assert target.line() == "child"
    target.do("alloc 2 100")
    heft.signal()
    heft.end()
    target.do("alloc 3 100")  # the child
    rep = heft.report()
    assert [p["totals"]["allocations"] for p in rep["processes"]] == [0, 2]
    assert [p["end"] for p in rep["processes"]] == ["detached", "detached"]


def test_guardian_gone(target):
    """Without it nothing more can come: the recording ends, unless it is the program that has ended."""
    heft = Attached(target)
    target.do("alloc 3 10")
    (target.folder / "alone").touch()
    heft.end()
    target.do("alloc 3 10")
    rep = heft.report()
    assert (rep["end"], rep["totals"]["allocations"]) == ("detached", 3)


def test_guardian_gone_with_the_program(target):
    heft = Attached(target)
    target.do("alloc 3 10")
    target.tell("exit 4")
    os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
    (target.folder / "alone").touch()
    heft.end()
    rep = heft.report()
    assert (rep["end"], rep["exit_status"], rep["totals"]["allocations"]) == ("exit", 4, 3)


def test_a_thread_is_no_process(compiled, tmp_path):
    process = start(["/usr/bin/python3", "-Ic", "import threading, time, sys\n"
                     "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
                     "print(flush=True); sys.stdin.read()"], stdin=subprocess.PIPE)
    process.stdout.readline()
    [tid] = [t for t in map(int, os.listdir(f"/proc/{process.pid}/task")) if t != process.pid]
    done = run([FAKE, "attach", tid], cwd=tmp_path)
    process.communicate(timeout=60)
    assert done.returncode == 1
    assert done.stderr.decode() == (f"heft: {tid} is a thread of process {process.pid}\n"
                                    f"      'heft attach {process.pid}' records that\n")
    assert os.listdir(tmp_path) == []


def as_nobody():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_others_may_not_ask(target, public_heft):
    heft = Attached(target)
    done = run([public_heft, "detach", target.pid], preexec_fn=as_nobody)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"heft: heft process {heft.process.pid}, which is attached to process {target.pid}, belongs to another user\n"
        "      ask as that user or as root\n")
    target.do("alloc 1 10")
    heft.signal()
    heft.end()
    assert heft.report()["totals"]["allocations"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_a_stranger_has_the_name(target):
    """Who is not the user of the process, and not root, cannot keep heft from attaching, nor answer for it."""
    name = f"heft-attach/{os.stat('/proc/self/ns/pid').st_ino}/{target.pid}"
    stranger = start(["/usr/bin/python3", "-Ic", "import socket, sys\n"
                      "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                      f"s.bind('\\0{name}'); s.listen(); print(flush=True); sys.stdin.read()"],
                     stdin=subprocess.PIPE, preexec_fn=as_nobody)
    assert stranger.stdout.readline() == b"\n"
    heft = Attached(target)
    assert "heft: heft detach will not find this recording: another user has taken its name" in heft.said
    done = run([HEFT, "detach", target.pid])
    assert done.returncode == 1 and b"no heft is attached" in done.stderr
    heft.signal(signal.SIGTERM)
    heft.end()
    stranger.communicate(timeout=60)


def test_sampled(target):
    heft = Attached(target, "--sample=1k")
    target.do("alloc 10 100000")
    done = run([HEFT, "top", "--once", target.pid])
    assert done.returncode == 0, done.stderr
    heft.signal()
    heft.end()
    rep = heft.report()
    assert (rep["mode"], rep["rate_bytes"], rep["end"], rep["attached"]) == ("sample", 1024, "detached", True)
    assert rep["totals"]["live_blocks"] == 10 and "older_frees" not in rep["totals"]


def test_refused(target):
    """Why it was refused, and nothing is left behind."""
    (target.folder / "refuse").touch()
    heft = Attached(target, wait=False)
    said = heft.end(1)
    assert said == "heft: attaching was refused\n      as the test wanted"
    assert not heft.path.exists()
    (target.folder / "refuse").unlink()
    heft = Attached(target)
    heft.signal()
    heft.end()


def test_not_left_cleanly(target):
    """The recording is whole, but heft says that it failed, and so does heft detach."""
    heft = Attached(target)
    target.do("alloc 3 10")
    (target.folder / "refuse").touch()
    done = run([HEFT, "detach", target.pid])
    assert done.returncode == 1 and b"detaching was refused" in done.stderr
    assert "heft: detaching was refused" in heft.end(1)
    rep = heft.report()
    assert rep["complete"] and rep["totals"]["allocations"] == 3


def test_one_at_a_time(target):
    heft = Attached(target)
    done = run([FAKE, "attach", target.pid], env=heft.env, cwd=target.folder)
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"heft: process {target.pid} is being recorded already: heft process {heft.process.pid} is attached to it\n"
        f"      'heft detach {target.pid}' ends that\n")
    assert list(target.folder.glob("*.heft")) == [heft.path]
    heft.signal()
    heft.end()


def test_a_program_that_is_recorded(target, compiled, tmp_path):
    """By heft run: it is not attached to."""
    service = Service([HEFT, "run", "-q", "-o", tmp_path / "run.heft", "--", compiled("service.c")])
    service.do("keep 0 0")
    [pid] = children_of(service.pid)
    done = run([FAKE, "attach", pid], cwd=tmp_path)
    assert done.returncode == 1 and b"is profiled by heft already" in done.stderr, done.stderr
    service.tell("exit 0")
    service.process.communicate(timeout=60)


def test_no_file_is_overwritten(target):
    path = target.folder / "there.heft"
    path.write_text("mine")
    heft = Attached(target, path=path, wait=False)
    said = heft.end(1)
    assert "there.heft" in said and path.read_text() == "mine"
    assert list(target.folder.glob(f"{target.pid}.*")) == []  # the program was not asked
    heft = Attached(target, "--force", path=path)
    heft.signal()
    heft.end()
    assert report(path)["end"] == "detached"


def test_default_name(target):
    heft = Attached(target, path="", cwd=target.folder)
    heft.signal()
    heft.end()
    assert report(target.folder / f"heft.attach_target.{target.pid}.heft")["pid"] == target.pid


def test_a_title_over_the_arguments(compiled, tmp_path):
    """As nginx and postgres write it: the rest of the arguments is zeros. The name is the first word."""
    target = Target(compiled("attach_target.c", flags=["-ldl"]), tmp_path, title="worker: process 3")
    try:
        heft = Attached(target, path="", cwd=tmp_path)
        heft.signal()
        heft.end()
        rep = report(tmp_path / f"heft.worker.{target.pid}.heft")
        assert rep["command"] == ["worker: process 3"]
    finally:
        target.end()


def test_quiet(target):
    heft = Attached(target, "-q", wait=False)
    wait_until(lambda: run([HEFT, "detach", target.pid]).returncode == 0)
    assert heft.end() == ""


def test_listen_and_linger(target):
    """Served while it is recorded, and for a while after it."""
    heft = Attached(target, "--listen", "127.0.0.1:0", "--linger", "1h", wait=False)
    url = heft.hear("heft: serving ").split()[2]
    heft.hear("heft: recording; ")
    target.do("alloc 3 10")
    assert wait_until(lambda: fetch(url + "heap")[0] == 200)
    heft.signal()
    heft.hear("heft: still serving ")
    assert fetch(url + "heap")[0] == 200
    assert f"heft: detached from process {target.pid}" in "\n".join(heft.said)
    assert run([HEFT, "detach", target.pid]).returncode == 1  # it has left
    heft.signal()
    heft.end()
    assert heft.report()["totals"]["allocations"] == 3


def test_top_finds_it(target):
    heft = Attached(target)
    target.do("alloc 1000 1000")
    done = wait_until(lambda: (lambda d: d if b" 977K" in d.stdout else None)(
        run([HEFT, "top", "--once", target.pid])), what="heft top shows 1,000 blocks of 1,000 bytes")
    assert b"attach_target" in done.stdout
    heft.signal()
    heft.end()
    done = run([HEFT, "top", "--once", target.pid])
    assert done.returncode == 1


@pytest.mark.parametrize("verb", [["top", "--once"], ["view", "--no-open"], ["report"], ["export", "-f", "csv"]])
def test_unknown_processes_are_offered(target, verb):
    done = run([HEFT, *verb, target.pid], cwd=target.folder)
    assert done.returncode == 1 and f"heft attach {target.pid}" in done.stderr.decode(), done.stderr


def test_the_document_keeps_to_its_schema(target):
    jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")
    heft = Attached(target)
    target.do("alloc 3 10")
    heft.signal()
    heft.end()
    schema = json.loads((REPOSITORY / "docs" / "report.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(dict(heft.report()))
