"""Memory that does not come from malloc: allocators that are linked in are named, whatever brings
them, and a program whose resident memory is far above what was recorded is never shown as a small
one without a word. The words are asked of every place where numbers are shown."""

import json
import os
import re
import shutil
import subprocess
import time

import pytest

from harness import GO_CACHE, HEFT, PROGRAMS, allocator_library, cargo_build, report, run, wait_until
from live_harness import agent, fetch  # noqa: F401
from test_listen import Listening
from view_server import Viewer

MIB = 1 << 20


def warnings(rep):
    return [n["text"] for n in rep["notes"] if n["kind"] == "warning"]


def unseen(rep):
    return [w for w in warnings(rep) if "anonymous memory were resident" in w]


@pytest.fixture(scope="module")
def linked(compiled):
    """A program with an allocator linked in, of which two entries are there."""
    return compiled("linked_allocator.c")


@pytest.fixture(scope="module")
def memory(compiled):
    return compiled("memory_kinds.c", flags=["-fno-builtin"])


# ---- by what is resident


def test_mapped_memory_is_said_everywhere(tmp_path, memory):
    path = tmp_path / "map.heft"
    done = run([HEFT, "run", "-o", path, "--", memory, "map"])
    assert done.returncode == 0
    words = "heft recorded a peak of 0 bytes, but 64."
    assert words in done.stderr.decode()  # when the program has ended
    rep = report(path)
    assert len(unseen(rep)) == 1, warnings(rep)
    assert words in unseen(rep)[0]
    assert "most of this program's memory does not come from malloc.\n" in unseen(rep)[0]
    # 64 MiB and less than 2 MiB of stack, data and libraries.
    assert 64 * MIB <= rep["totals"]["peak_anonymous_bytes"] < 66 * MIB
    assert rep["processes"][0]["totals"]["peak_anonymous_bytes"] == \
        rep["totals"]["peak_anonymous_bytes"]
    text = run([HEFT, "report", path]).stdout.decode()
    assert words in text and "a small part of the program's memory" in text
    assert words in run([HEFT, "top", "--once", path]).stdout.decode()
    with Viewer(path) as viewer:
        summary = viewer.document("summary")
    assert words in str(summary["notes"]) and summary["quality"]["level"] == "poor"
    assert "exact: every allocation was recorded" not in summary["quality"]["words"]
    assert run([HEFT, "verify", path]).returncode == 0


def test_a_budget_that_cannot_be_judged_does_not_pass(tmp_path, memory):
    """64 MiB that malloc does not give: limits of the heap hold for what was recorded, which says
    nothing, and heft check says so. What the kernel tells can be judged."""
    path, budget = tmp_path / "map.heft", tmp_path / "budget"
    assert run([HEFT, "run", "-q", "-o", path, "--", memory, "map"]).returncode == 0

    def check(rules, *options):
        budget.write_text(rules)
        done = run([HEFT, "check", "--budget", budget, *options, path])
        return done.returncode, done.stdout.decode()
    status, text = check("peak_bytes <= 20M\nallocations <= 1000\npeak_rss_bytes <= 1G\n")
    assert status == 1
    assert f"not judged: 2 of 3 rules of {budget} hold for what was recorded, but most of the memory " \
           "was not\n" in text
    assert len(re.findall("not judged: most of the memory was not recorded\n", text)) == 2
    assert "judge only what was recorded: --ignore-unseen" in text and "over budget" not in text
    assert check("peak_bytes <= 20M\n", "-q")[0] == 1
    assert check("peak_rss_bytes <= 1G\nduration_ns <= 1h\nallocations >= 0\n")[0] == 0
    status, text = check("peak_bytes <= 20M\npeak_rss_bytes <= 1M\n")
    assert status == 1 and f"over budget: 1 of 2 rules of {budget} does not hold, 1 cannot be judged\n" in text
    status, text = check("peak_bytes <= 20M\n", "--ignore-unseen")
    assert status == 0 and "within budget" in text and "anonymous memory were resident" in text
    for text in text, run([HEFT, "diff", path, path]).stdout.decode():  # a note of two lines, wrapped
        assert "\\x0a" not in text and max(map(len, text.splitlines())) <= 100 + len(str(path))
        assert re.search(r"does not\s+come\s+from\s+malloc\.\s+It\s+maps", text)
    status, text = check("peak_bytes <= 20M\n", "--json")
    out = json.loads(text)
    assert status == 1 and out["within"] is False and "anonymous memory were resident" in out["unseen"]
    assert out["rules"][0]["holds"] is False and out["rules"][0]["unseen"] is True
    # A budget is not made of what was recorded either, and an old one is not touched.
    before = "peak_bytes <= 20M\n"
    budget.write_text(before)
    done = run([HEFT, "check", "--update", "--budget", budget, path])
    assert done.returncode == 1 and b"heft cannot make a budget of this recording" in done.stderr
    assert budget.read_text() == before
    assert run([HEFT, "check", "--update", "--ignore-unseen", "--budget", budget, path]).returncode == 0
    assert budget.read_text() != before


def test_sampled_is_told_the_same(record, memory):
    _, rep = record([memory, "map"], opts=["--sample"])
    assert len(unseen(rep)) == 1 and "a peak of 0 bytes, but 64." in unseen(rep)[0]


@pytest.mark.parametrize("mode", ["malloc", "tiny", "file", "fork", "kept"])
@pytest.mark.parametrize("options", [[], ["--sample"]], ids=["exact", "sampled"])
def test_memory_of_malloc_is_silent(tmp_path, record, memory, mode, options):
    _, rep = record([memory, mode, tmp_path / "file"], opts=options)
    assert warnings(rep) == []


@pytest.mark.parametrize("command", [
    ["perl", "-e", "my @a = map { \"x$_\" } 1 .. 200000; print scalar @a"],
    ["sh", "-c", "seq 200000 | sort -R | tail -1"],
    ["git", "--version"],
    ["awk", "BEGIN { for (i = 0; i < 200000; i++) a[i] = i; print length(a) }"],
    ["sqlite3", ":memory:", "create table t(a); with recursive c(x) as (select 1 union all select x + 1"
     " from c where x < 100000) insert into t select hex(randomblob(8)) from c"],
    ["gcc", "-O2", "-c", PROGRAMS / "churn.c", "-o", os.devnull, f"-I{PROGRAMS}"],
    ["readelf", "-a", HEFT],
], ids=lambda c: str(c[0]))
def test_ordinary_programs_are_silent(record, command):
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not here")
    done, rep = record(command)
    assert done.returncode == 0, done.stderr
    assert unseen(rep) == [] and "linked in" not in rep.everything()


def test_python_is_told_how(record, tmp_path):
    script = tmp_path / "objects.py"
    script.write_text("kept = [{'a': i, 'b': str(i)} for i in range(200000)]\n")
    _, rep = record(["/usr/bin/python3", script])
    assert len(unseen(rep)) == 1 and "PYTHONMALLOC=malloc" in unseen(rep)[0], warnings(rep)
    _, rep = record(["/usr/bin/python3", script], env={"PYTHONMALLOC": "malloc"})
    assert unseen(rep) == []


def test_go_has_memory_of_its_own(record, tmp_path):
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        pytest.skip("go is not here")
    (tmp_path / "main.go").write_text(
        'package main\n\nimport "C"\nimport "time"\n\nfunc main() {\n\tvar kept [][]byte\n'
        "\tfor i := 0; i < 40; i++ {\n\t\tb := make([]byte, 1<<20)\n\t\tfor k := range b {\n"
        "\t\t\tb[k] = 1\n\t\t}\n\t\tkept = append(kept, b)\n\t}\n"
        "\ttime.Sleep(200 * time.Millisecond)\n\tprintln(len(kept))\n}\n")
    built = run([go, "build", "-o", tmp_path / "program", tmp_path / "main.go"],
                env={"HOME": str(tmp_path), "CGO_ENABLED": "1", "GOCACHE": GO_CACHE,
                     "PATH": os.environ["PATH"]}, timeout=300)
    if built.returncode:
        pytest.skip("go cannot build with C here: " + built.stderr.decode()[-200:])
    _, rep = record([tmp_path / "program"])
    assert len(unseen(rep)) == 1 and "it maps memory itself" in unseen(rep)[0].lower()


# ---- by name


def test_linked_in_is_named(tmp_path, linked):
    path = tmp_path / "linked.heft"
    done = run([HEFT, "run", "--via=preload", "-o", path, "--", linked], stdin=subprocess.DEVNULL)
    words = f"{linked} has mimalloc linked in (mi_malloc_aligned)"
    assert words in done.stderr.decode()
    assert words in " ".join(warnings(report(path)))
    # There is next to no memory, but a zero would be wrong.
    assert "mimalloc linked in" in run([HEFT, "top", "--once", path]).stdout.decode()


def test_one_note_for_all_children(record, linked):
    """It is executed three times and forked: each program is named, not each process."""
    _, rep = record(["sh", "-c", f"for i in 1 2 3; do {linked} < /dev/null; done"], opts=["--via=preload"])
    assert len(set(w for w in warnings(rep) if "mimalloc linked in" in w)) == 1


def test_stripped_with_symbols_elsewhere(linked, tmp_path):
    """Where the symbols are gone and kept nowhere, it is not known by name; with the file that
    has them, it is."""
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, linked], check=True)
    done = run([HEFT, "run", "-o", tmp_path / "s.heft", "--", stripped], stdin=subprocess.DEVNULL)
    assert "linked in" not in done.stderr.decode()
    notes = subprocess.run(["readelf", "-n", linked], capture_output=True, text=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes).group(1)
    where = f"/usr/lib/debug/.build-id/{build_id[:2]}"
    if not os.access("/usr/lib", os.W_OK):
        pytest.skip("only root can put symbols where they are looked for")
    made = [d for d in ("/usr/lib/debug", "/usr/lib/debug/.build-id", where) if not os.path.isdir(d)]
    os.makedirs(where, exist_ok=True)
    debug = f"{where}/{build_id[2:]}.debug"
    try:
        subprocess.run(["objcopy", "--only-keep-debug", linked, debug], check=True)
        done = run([HEFT, "run", "--via=preload", "-o", tmp_path / "d.heft", "--", stripped],
                   stdin=subprocess.DEVNULL)
        assert "has mimalloc linked in (mi_malloc_aligned)" in done.stderr.decode()
    finally:
        os.unlink(debug)
        for directory in reversed(made):
            os.rmdir(directory)


@pytest.fixture(scope="module")
def library(compiled):
    return compiled("linked_allocator.c", flags=["-DLIBRARY", "-shared", "-fPIC"],
                    output="libtakes.so")


def test_a_library_brings_it(record, compiled, library):
    user = compiled("allocator_user.c", flags=["-DLINKED", library, f"-Wl,-rpath,{library.parent}"],
                    output="linked_user")
    _, rep = record([user])
    named = [w for w in warnings(rep) if "has mimalloc linked in" in w]
    assert len(named) == 1 and named[0].startswith(f"{library}, a library of this program,")
    assert len(unseen(rep)) == 1


def test_a_library_that_is_loaded_later(record, compiled, library):
    user = compiled("allocator_user.c", output="loading_user", flags=["-ldl"])
    _, rep = record([user, library])
    assert len([w for w in warnings(rep) if f"{library}, a library" in w]) == 1


@pytest.mark.parametrize("name", ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so"])
def test_shared_allocators_are_recorded(record, compiled, name, tmp_path):
    """Linked as a library, it stands behind heft's malloc: nothing is missing."""
    path = allocator_library(name)
    program = compiled("memory_kinds.c", flags=["-fno-builtin", "-Wl,--no-as-needed", path],
                       output=f"with_{name.split('.')[0]}")
    _, rep = record([program, "malloc"])
    assert rep["totals"]["peak_bytes"] >= 64 * MIB
    assert warnings(rep) == []


def test_called_directly(record, compiled, tmp_path):
    """mi_malloc of the shared library is not malloc."""
    path = allocator_library("libmimalloc.so")
    source = tmp_path / "direct.c"
    source.write_text("#include <stddef.h>\nvoid *mi_malloc(size_t);\nvoid mi_free(void *);\n"
                      "int main(void) { mi_free(mi_malloc(100)); return 0; }\n")
    subprocess.run(["gcc", "-o", tmp_path / "direct", source, path], check=True)
    _, rep = record([tmp_path / "direct"], opts=["--via=preload"])
    assert any("calls mimalloc directly (mi_malloc)" in w for w in warnings(rep)), warnings(rep)


# ---- operator new


@pytest.fixture(scope="module")
def own_new(compiled):
    return compiled("own_new.cc", flags=["-O2", "-fno-builtin", "-Wl,--no-as-needed"])  # libstdc++ calls it, too


@pytest.mark.parametrize("how", ["map", "break"])
def test_an_operator_new_that_maps(tmp_path, own_new, how):
    """400,000 bytes that malloc does not give: said although they are little. Hooked, they are recorded."""
    words = f"{own_new} replaces operator new by one that maps memory itself"
    path = tmp_path / "new.heft"
    done = run([HEFT, "run", "-o", path, "--", own_new, how])
    assert done.returncode == 0 and words in " ".join(done.stderr.decode().split()), done.stderr
    rep = report(path)
    assert len([w for w in warnings(rep) if w.startswith(words) and "--alloc-fn=_Znwm:malloc" in w]) == 1
    assert words in " ".join(run([HEFT, "top", "--once", path]).stdout.decode().split())
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, own_new], check=True)
    assert run([HEFT, "run", "-o", tmp_path / "s.heft", "--", stripped, how]).returncode == 0
    assert any("replaces operator new" in w for w in warnings(report(tmp_path / "s.heft")))
    path = tmp_path / "hooked.heft"
    assert run([HEFT, "run", "-o", path, "--alloc-fn=_Znwm:malloc", "--", own_new, how]).returncode == 0
    rep = report(path)
    [site] = [s for s in rep["sites"] if s["stack"][0]["function"] == "main"]
    assert (site["allocations"], site["allocated_bytes"]) == (100, 400000)
    assert "replaces operator new" not in rep.everything()


@pytest.mark.parametrize("how", ["malloc", "table", "tail"])
def test_an_operator_new_that_calls_malloc(record, own_new, how):
    """Also if it maps memory for itself: all that it gives out is recorded."""
    _, rep = record([own_new, how])
    assert warnings(rep) == [] and rep["totals"]["allocated_bytes"] >= 400000


# ---- over HTTP


@pytest.mark.parametrize("options", [[], ["--sample=64k"]], ids=["exact", "sampled"])
def test_501_while_it_runs(tmp_path, linked, options):
    service = Listening(tmp_path, linked, "--via=preload", *options)
    service.do("keep 0")
    wait_until(lambda: fetch(service.url + "heap")[0] != 404, what="the process")
    for kept in ("keep 0", "keep 40"):
        service.do(kept)
        for form in ("heap", "allocs", "heap?debug=1", "heap?seconds=1"):
            status, body = fetch(service.url + form)
            assert (status, b"has mimalloc linked in" in body) == (501, True), body
    def numbers():
        _, body = fetch(service.url + form)
        return b"40." in body
    wait_until(numbers, what="40 MiB in the reason")
    _, metrics = fetch(service.url.replace("debug/pprof/", "metrics"))
    assert re.search(rb"^heft_unseen\{.*\} 1$", metrics, re.M)
    assert b"heft_live_bytes{" not in metrics and b"heft_peak_bytes{" not in metrics
    _, index = fetch(service.url)
    assert b"cannot see into this process" in index and b"mimalloc linked in" in index
    assert service.end() == 0


def test_501_of_the_agent(agent, linked, compiled):
    blind, plain = agent.service(linked), agent.service(compiled("service.c"))
    blind.do("keep 1")
    plain.do("keep 10 300000")
    def refused():
        status, body = agent.get(f"{blind.pid}/heap")
        return body if status != 404 else None
    assert b"has mimalloc linked in (mi_malloc_aligned)" in wait_until(refused, what="an answer")
    assert agent.get(f"{blind.pid}/allocs")[0] == 501
    assert "has mimalloc linked in" in run([HEFT, "top", "--once", str(blind.pid)]).stdout.decode()
    assert agent.heap(plain.pid)["totals"]["live_bytes"] >= 3000000
    _, metrics = fetch(agent.url.replace("debug/pprof/", "metrics"))
    assert re.search(rf'^heft_unseen\{{pid="{blind.pid}".*\}} 1$'.encode(), metrics, re.M)
    assert re.search(rf'^heft_unseen\{{pid="{plain.pid}".*\}} 0$'.encode(), metrics, re.M)
    assert blind.end() == 0 and plain.end() == 0


def test_501_of_the_agent_after_the_end(agent, linked, compiled):
    """Nobody asked while they ran: one that had a while to live, one that was gone at once, and one that
    lives on."""
    blind, plain = agent.service(linked), agent.service(compiled("service.c"))
    blind.do("keep 1")
    plain.do("keep 10 300000")
    wait_until(lambda: len(agent.files()) == 2, what="both")
    time.sleep(0.3)
    assert blind.end() == 0
    short = agent.start([linked], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert short.wait(timeout=30) == 0
    wait_until(lambda: agent.files() == [f for f in agent.files() if int(f.split(".")[0], 16) == plain.pid],
               what="the end of both")
    time.sleep(2.2)  # those with nothing to tell are forgotten now
    for pid in (blind.pid, short.pid):
        for form in ("heap", "allocs", "heap?debug=1"):
            status, body = agent.get(f"{pid}/{form}")
            assert (status, b"has mimalloc linked in (mi_malloc_aligned)" in body) == (501, True), body
    for saved in agent.output.glob(f"*.{blind.pid}.heft"):
        assert any("has mimalloc linked in" in w for w in warnings(report(saved)))
    assert agent.heap(plain.pid)["totals"]["live_bytes"] >= 3000000
    assert plain.end() == 0


def test_501_of_an_agent_that_comes_late(agent, linked):
    """The program has ended, and its file is all there is."""
    agent.stop()
    blind = agent.service(linked)
    blind.do("keep 1")
    assert blind.end() == 0
    agent.begin()
    def answer():
        status, body = agent.get(f"{blind.pid}/heap")
        return (status, body) if status != 404 else None
    status, body = wait_until(answer, what="an answer")
    assert (status, b"has mimalloc linked in" in body) == (501, True), body


def test_501_without_any_name(tmp_path, memory):
    """Nothing says why: but all of its memory is elsewhere."""
    with open(tmp_path / "log", "wb") as log:
        program = subprocess.Popen([HEFT, "run", "--listen", "127.0.0.1:0", "--linger=20s", "-o",
                                    tmp_path / "map.heft", "--", memory, "map"], stderr=log)
    try:
        said = lambda: (tmp_path / "log").read_text()  # noqa: E731
        wait_until(lambda: "still serving" in said(), what="the end of the program")
        url = re.search(r"serving (http://\S+)", said()).group(1)
        status, body = fetch(url + "heap")
        assert (status, b"does not come from malloc" in body) == (501, True), body
    finally:
        program.send_signal(2)
        program.wait(timeout=30)


# ---- real crates


CRATES = {
    "mimalloc": ('mimalloc = "=0.1.52"', "mimalloc::MiMalloc", "mimalloc linked in (mi_malloc_aligned)"),
    "tikv": ('tikv-jemallocator = { version = "=0.6.1", features = ["profiling"] }',
             "tikv_jemallocator::Jemalloc", "jemalloc linked in (_rjem_malloc)"),
}


@pytest.mark.parametrize("crate", CRATES)
def test_crates(tmp_path_factory, record, crate):
    dependency, allocator, words = CRATES[crate]
    where = tmp_path_factory.mktemp(crate)
    program = cargo_build(
        where / "crate", f"held_{crate}", f"[dependencies]\n{dependency}\n",
        f"#[global_allocator]\nstatic A: {allocator} = {allocator};\n"
        "fn main() {\n    let kept: Vec<Vec<u8>> = (0..400).map(|i| vec![i as u8; 65536]).collect();\n"
        "    std::thread::sleep(std::time::Duration::from_millis(100));\n"
        '    println!("{}", kept.iter().map(|b| b[7] as u64).sum::<u64>());\n}\n')
    # heft run hooks these functions (test_own_allocators.py); with the library alone they are not seen.
    done, rep = record([program], opts=["--via=preload"], quiet=False)
    assert words in done.stderr.decode()
    # 400 blocks of 64 KiB are 25 MiB.
    assert len(unseen(rep)) == 1 and rep["totals"]["peak_anonymous_bytes"] >= 25 * MIB
    stripped = where / "stripped"
    subprocess.run(["strip", "-o", stripped, program], check=True)
    done, rep = record([stripped], quiet=False)
    text = " ".join(done.stderr.decode().split())
    assert f"carries the messages of {words.split()[0]}" in text and "heft preloads its library instead" in text
    if crate != "tikv":
        return
    # What heft advises there works: jemalloc writes a profile, and heft reads it.
    advice = re.search(r"run it with (\S+)=(prof:true,lg_prof_interval):26", done.stderr.decode())
    env = {**os.environ, advice.group(1): advice.group(2) + ":23"}
    subprocess.run([program], cwd=where, env=env, check=True, capture_output=True)
    dumps = sorted(where.glob("jeprof.*.heap"))
    assert dumps and max(report(d)["totals"]["live_bytes"] for d in dumps) > 8 * MIB
