"""The examples, recorded: what they allocate is known from their sources, so the report must say
exactly that. In Rust the same facts hold where the standard library makes them certain.

Two kinds of numbers are not exact: how far a producer runs ahead of its consumer is the scheduler's
choice, and so is what libc allocates for itself (a thread's storage, the buffer of stdout)."""

import json
import os
import re
import shutil
import signal

import pytest

import harness

EXAMPLES = harness.BUILD / "examples"
LINES = 12427  # of the CSV: a header and 12,426 rows
COLUMNS = 7


def example(name):
    path = EXAMPLES / name
    if not path.exists():
        pytest.skip(f"{name} is not built: it needs rustc" +
                    (" and a C++ compiler" if name == "queue_mixed" else ""))
    return path


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "example.csv"
    path.write_bytes(harness.run([EXAMPLES / "csv_make"]).stdout)
    return path


@pytest.fixture
def profiled(heft):
    """Records an example and returns its report; checks that heft changed nothing it does."""
    def call(name, *arguments):
        program = example(name)
        alone = harness.run([program, *arguments])
        done = heft("run", "-q", "--force", "-o", "e.heft", program, *arguments)
        status = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
        assert (done.status, done.err) == (status, ""), done
        if "at most" not in done.out:  # how full the queue was
            assert done.out == alone.stdout.decode()
        report = heft("report", "--json", "e.heft")
        assert report.status == 0, report
        report = harness.Report(json.loads(report.out))
        assert report["totals"]["dropped"] == 0
        harness.check_sums(report)
        return report
    return call


def has_function(site, function):
    """C++ names carry parameters; Rust names carry the crate and sometimes a hash."""
    names = [re.sub(r"\(.*|::h[0-9a-f]{16}$", "", f["function"] or "") for f in site["stack"]]
    return any(n == function or n.endswith("::" + function) for n in names)


def sites_through(report, function):
    found = [s for s in report["sites"] if has_function(s, function)]
    assert found, f"no site through {function}"
    return found


def total(sites, column):
    return sum(s[column] for s in sites)


def own_total(report, name, column):
    """Of the sites that the example's own code calls malloc at: all but libc's."""
    return total(report.sites_of(EXAMPLES / name), column)


def files(site):
    return {os.path.basename(f["file"]) for f in site["stack"] if f["file"]}


# ---- S1: the queue


def payloads(report, messages=5000, payload=1024):
    """The one site that copies the payloads."""
    found = [s for s in sites_through(report, "send_message")
             if s["allocated_bytes"] == messages * payload]
    assert len(found) == 1
    assert found[0]["allocations"] == messages
    assert found[0]["via"] == "malloc"
    return found[0]


def check_all_wait(report, site):
    """Hundreds of us of service for what takes about one to send: nearly all wait, half of the run on
    average, the last one for nearly all of it."""
    assert site["cross_thread_frees"] == site["frees"] == 5000
    assert (site["live_blocks"], site["temporary"]) == (0, 0)
    assert 3000 < site["peak_blocks"] <= 5000
    assert 0.4 < site["lifetime_ns"]["mean"] / report["duration_ns"] < 0.6
    assert site["lifetime_ns"]["max"] / report["duration_ns"] > 0.8


def check_few_wait(report, site, bound=64):
    """One more than the bound is in the producer's hands, one more in the worker's."""
    assert site["cross_thread_frees"] == site["frees"] == 5000
    assert site["own_peak_bytes"] == (bound + 2) * 1024
    assert site["lifetime_ns"]["mean"] / report["duration_ns"] < 0.05


SLOW = ["--service-us", "400"]  # two seconds in all: where a busy machine stops it for a moment, that is a small part


def test_queue_without_bound(profiled):
    report = profiled("queue", *SLOW)
    payload = payloads(report)
    check_all_wait(report, payload)
    node, = [s for s in sites_through(report, "send_message") if s is not payload]
    assert (node["allocations"], node["allocated_bytes"]) == (5000, 5000 * 24)
    check_all_wait(report, node)
    # malloc is called in send_message itself, and the stack ends in main.
    assert {s["stack"][0]["function"] for s in (node, payload)} == {"send_message"}
    assert {s["stack"][1]["function"] for s in (node, payload)} == {"main"}
    assert own_total(report, "queue", "allocations") == 2 * 5000 + 1  # and the text that is copied
    assert own_total(report, "queue", "allocated_bytes") == 5000 * (24 + 1024) + 1024
    assert report["totals"]["allocations"] - 10001 <= 3
    threads = {t["name"]: t for t in report["threads"]}
    assert threads["producer"]["allocations"] == report["totals"]["allocations"]
    assert (threads["worker"]["allocations"], threads["worker"]["frees"]) == (0, 10000)


def test_queue_with_a_bound(profiled):
    report = profiled("queue", "--bound", "64")
    payload = payloads(report)
    check_few_wait(report, payload)
    node, = [s for s in sites_through(report, "send_message") if s is not payload]
    assert node["own_peak_bytes"] == 66 * 24


def test_queue_that_is_followed(profiled):
    """What heft works out by itself about the wait is what the program says at each hop."""
    for arguments in [], ["--bound", "64"]:
        report = profiled("queue", "--follow", "1", *arguments)
        assert [(s["from"], s["to"], s["blocks"]) for s in report["stages"]] == [
            (None, "queued", 5000), ("queued", "taken", 5000), ("taken", None, 5000)]
        made, queued, taken = (s["mean_ns"] for s in report["stages"])
        assert made + queued + taken == pytest.approx(payloads(report)["lifetime_ns"]["mean"], rel=0.02)
        assert taken >= 100_000  # the worker's service
        found = [f["evidence"] for f in report["findings"] if f["kind"] == "unbounded-queue"]
        assert bool(found) == (not arguments)
        for evidence in found:
            assert (evidence["stage"], evidence["stage_blocks"]) == ("queued", 5000)
            assert evidence["wait_mean_ns"] == pytest.approx(queued, rel=0.05)


@pytest.mark.parametrize("name", ["queue_rs", "queue_mixed"])
def test_queue_in_rust(profiled, name):
    report = profiled(name, *SLOW)
    check_all_wait(report, payloads(report))
    names = {t["name"]: t for t in report["threads"]}
    assert names["worker" if name == "queue_rs" else "outbox"]["frees"] >= 5000


@pytest.mark.parametrize("name", ["queue_rs", "queue_mixed"])
def test_queue_in_rust_with_a_bound(profiled, name):
    report = profiled(name, "--bound", "64")
    check_few_wait(report, payloads(report))


def test_queue_across_languages(profiled):
    """One stack has C++ and Rust frames; C++'s own copy of a message is gone before the next."""
    report = profiled("queue_mixed", "--messages", "400", "--service-us", "0")
    payload = payloads(report, messages=400)
    assert has_function(payload, "MessageProducer::SendMessage") and has_function(payload, "main")
    assert {"outbox.rs", "queue_mixed.cc"} <= files(payload)
    string, = sites_through(report, "ComposeMessage")
    assert (string["allocations"], string["allocated_bytes"]) == (400, 400 * 1025)
    assert string["own_peak_bytes"] == 1025
    assert string["cross_thread_frees"] == 0


@pytest.mark.parametrize("name", ["queue", "queue_rs"])
def test_queue_in_batches(profiled, name):
    report = profiled(name, "--bound", "64", "--batch", "16", "--messages", "600",
                      "--payload", "100")
    payload = payloads(report, messages=600, payload=100)
    assert payload["frees"] == 600
    # In the queue, in the producer's hands, in the worker's.
    assert payload["own_peak_bytes"] <= (64 + 1 + 16) * 100


# ---- S2: the connections


@pytest.mark.parametrize("variant", ["A", "B", "C"])
@pytest.mark.parametrize("name", ["connections", "connections_rs"])
def test_connections(profiled, name, variant):
    report = profiled(name, variant)
    made = sites_through(report, "conn_new")
    table = sites_through(report, "make_id_table")
    # The object has five pointers in C, five vectors of 24 bytes in Rust.
    parts = {"object": 40 if name == "connections" else 5 * 24,
             "outgoing": 144 * 101, "pending": 4 * 101,
             "ids": 4 * 101 if variant == "C" else 4 * 65536,
             "incoming": 144 * 100, "buffer": 10240}
    assert {s["allocations"] for s in made} == {300}
    assert sorted(s["peak_bytes"] // 300 for s in made) == sorted(parts.values())
    if name == "connections":
        assert total(made, "peak_bytes") == 300 * (40_032 if variant == "C" else 301_772)
        assert own_total(report, name, "peak_bytes") == total(made, "peak_bytes") + 300 * 8
    assert total(made, "live_bytes") == 0
    assert [s["peak_bytes"] for s in table] == [300 * parts["ids"]]
    assert [s["via"] for s in table] == ["malloc" if variant == "B" else "calloc"]
    # A's table is never touched: 300 x 262,144 bytes that are not resident.
    if variant == "B":
        assert report["totals"]["peak_rss_bytes"] > 300 * 280_000
    else:
        assert report["totals"]["peak_rss_bytes"] < 300 * 60_000


def test_connections_count(profiled):
    report = profiled("connections", "A", "7")
    assert total(sites_through(report, "conn_new"), "peak_bytes") == 7 * 301_772


# ---- S3: the CSV


def text_bytes(csv):
    return sum(len(line) - (COLUMNS - 1) for line in csv.read_text().splitlines())


def test_csv_is_the_same_everywhere(csv):
    lines = csv.read_text().splitlines()
    assert len(lines) == LINES
    assert {line.count(",") for line in lines} == {COLUMNS - 1}
    assert lines[0] == "id,name,city,date,amount,state,reference"
    assert text_bytes(csv) == 869_877
    assert len(harness.run([EXAMPLES / "csv_make", "10"]).stdout.splitlines()) == 11


def test_csv_rows(profiled, csv):
    report = profiled("csv_rows", csv)
    fields = sites_through(report, "make_field")
    assert total(fields, "allocations") == LINES * COLUMNS == 86_989
    assert total(fields, "allocated_bytes") == 869_877
    assert total(fields, "live_bytes") == 869_877  # it never frees them
    assert total(fields, "temporary") == 0
    # Each row grows 4 -> 8 fields of 24 bytes.
    arrays = [s for s in sites_through(report, "split_row") if s not in fields]
    assert total(arrays, "allocations") == LINES
    assert total(arrays, "reallocations") == LINES
    assert total(arrays, "reallocated_bytes") == LINES * 8 * 24
    assert total(arrays, "live_bytes") == LINES * 8 * 24 == 2_385_984
    # The sheet grows 4 -> 16384 rows of 24 bytes in 12 steps.
    rows = sites_through(report, "add_row")
    assert total(rows, "allocations") == 1
    assert total(rows, "reallocations") == 12
    assert total(rows, "live_bytes") == 16384 * 24 == 393_216
    assert total(rows, "reallocated_bytes") == sum(2 ** k for k in range(3, 15)) * 24
    assert own_total(report, "csv_rows", "peak_bytes") == 869_877 + 2_385_984 + 393_216
    assert own_total(report, "csv_rows", "peak_blocks") == 86_989 + LINES + 1


def test_csv_rows_in_rust(profiled, csv):
    report = profiled("csv_rows_rs", csv)
    # A line makes 7 strings of exactly their length and one vector, 4 -> 8 strings of 24 bytes.
    split = sites_through(report, "split_row")
    assert total(split, "allocations") == total(split, "frees") == LINES * 8
    assert total(split, "reallocations") == LINES
    assert total(split, "allocated_bytes") == 869_877 + LINES * 8 * 24
    assert total(split, "peak_bytes") == 869_877 + LINES * 8 * 24
    assert total(split, "peak_blocks") == LINES * 8
    # The rows grow as in C; a row is one vector, 24 bytes.
    rows = [s for s in sites_through(report, "push") if has_function(s, "read_sheet")]
    assert total(rows, "allocations") == 1
    assert total(rows, "reallocations") == 12
    assert total(rows, "peak_bytes") == 16384 * 24


@pytest.mark.parametrize("name", ["csv_rows", "csv_rows_rs"])
def test_csv_rows_packed(profiled, csv, name):
    report = profiled(name, "--packed", csv)
    ends_bytes = LINES * COLUMNS * 4
    if name == "csv_rows":
        grown = sites_through(report, "add_packed_row")
        # 4 -> 1,048,576 bytes of text in 18 steps, 4 -> 131,072 ends in 15.
        assert total(grown, "allocations") == 2
        assert total(grown, "reallocations") == 18 + 15
        assert total(grown, "peak_bytes") == 1_048_576 + 4 * 131_072
        trimmed = sites_through(report, "trim")
        assert total(trimmed, "reallocations") == 2
        assert total(trimmed, "live_bytes") == 869_877 + ends_bytes == 1_217_833
        assert total(trimmed, "live_blocks") == 2
        assert own_total(report, name, "live_bytes") == 1_217_833
    else:
        trimmed = sites_through(report, "shrink_to_fit")
        assert sorted(s["reallocated_bytes"] for s in trimmed) == [ends_bytes, 869_877]
    assert report["totals"]["peak_bytes"] < 1_700_000  # against 3,649,077


# ---- S4: the server


class Server:
    """What the server does, once more: the same draws, so every size is known."""

    def __init__(self, requests):
        self.state = 88172645
        self.answered_bytes = self.cached_bytes = 0
        cache = {}
        for _ in range(requests):
            self.answered_bytes += 3 * (256 + self.draw(8192))
            entry, size = self.draw(512), 2048 + self.draw(4096)
            cache[entry] = size
            self.cached_bytes += size
        self.cache_blocks, self.cache_bytes = len(cache), sum(cache.values())

    def draw(self, below):
        for shift in (13, -17, 5):
            moved = self.state << shift if shift > 0 else self.state >> -shift
            self.state = (self.state ^ moved) & 0xffffffff
        return self.state % below


def remembered(report, requests):
    """The site of the records; in Rust the queue that holds them grows in the same function."""
    found = [s for s in sites_through(report, "remember_request") if s["via"] == "malloc" and
             s["allocated_bytes"] == requests * 1024]
    assert len(found) == 1
    assert found[0]["allocations"] == requests
    return found[0]


@pytest.mark.parametrize("name", ["leaky_server", "leaky_server_rs"])
def test_leaky_server(profiled, name):
    report = profiled(name, "--requests", "3000")
    truth = Server(3000)
    records = remembered(report, 3000)
    assert records["own_peak_bytes"] == 3000 * 1024
    answered = sites_through(report, "answer_request")
    assert total(answered, "allocations") == total(answered, "frees") == 6000
    assert total(answered, "allocated_bytes") == truth.answered_bytes
    cache = sites_through(report, "refresh_cache")
    assert total(cache, "allocations") == 3000
    assert total(cache, "allocated_bytes") == truth.cached_bytes
    if name == "leaky_server":  # main returns without freeing
        assert (records["live_bytes"], records["frees"]) == (3000 * 1024, 0)
        assert total(cache, "live_blocks") == truth.cache_blocks
        assert total(cache, "live_bytes") == truth.cache_bytes


@pytest.mark.parametrize("name", ["leaky_server", "leaky_server_rs"])
def test_leaky_server_mended(profiled, name):
    report = profiled(name, "--requests", "3000", "--keep", "100")
    records = remembered(report, 3000)
    assert records["own_peak_bytes"] == 101 * 1024  # the new one comes before the oldest goes
    if name == "leaky_server":
        assert (records["live_bytes"], records["frees"]) == (100 * 1024, 2900)


def test_leaky_server_killed(profiled):
    """SIGKILL from within, at a moment that is known: the recording has everything up to it."""
    report = profiled("leaky_server", "--kill-after", "2500")
    assert (report["end"], report["signal"]) == ("signal", signal.SIGKILL)
    truth = Server(2500)
    assert remembered(report, 2500)["live_bytes"] == 2500 * 1024
    assert total(sites_through(report, "answer_request"), "allocated_bytes") == \
        truth.answered_bytes
    assert total(sites_through(report, "refresh_cache"), "live_bytes") == truth.cache_bytes


@pytest.mark.parametrize("name", ["leaky_server", "leaky_server_rs"])
def test_leaky_server_grows_until_killed(heft, tmp_path, name):
    process = harness.start([harness.HEFT, "run", "-q", "-o", tmp_path / "grow.heft",
                             example(name), "--grow", "--pause-us", "20"])
    try:
        server = harness.wait_until(lambda: harness.children_of(process.pid), what="a child")[0]

        def resident():
            with open(f"/proc/{server}/statm", encoding="ascii") as f:
                return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        harness.wait_until(lambda: resident() > 8 << 20, what="8 MiB resident")
        os.kill(server, signal.SIGKILL)
        assert process.wait(timeout=harness.TIME_LIMIT) == 128 + signal.SIGKILL
    finally:
        harness.end_group(process)
        process.communicate()
    report = harness.report(tmp_path / "grow.heft")
    assert (report["end"], report["signal"]) == ("signal", signal.SIGKILL)
    records = max(sites_through(report, "remember_request"), key=lambda s: s["live_blocks"])
    assert records["live_bytes"] == records["allocations"] * 1024
    assert records["live_blocks"] > 1000
    # One request at a time: what else is live are its two buffers, at the most.
    assert total(sites_through(report, "answer_request"), "live_blocks") <= 2


# ---- all of them


@pytest.mark.parametrize("name, arguments", [
    ("queue", ["--bound", "0"]), ("queue", ["--bound"]), ("queue", ["--follow"]), ("queue", ["64"]),
    ("queue_rs", ["--bound"]), ("queue_rs", ["--what", "1"]), ("queue_mixed", ["--bound"]),
    ("connections", ["D"]), ("connections", ["A", "0"]), ("connections_rs", ["D"]),
    ("csv_rows", []), ("csv_rows_rs", []), ("csv_rows", ["--packed"]),
    ("leaky_server", ["--requests"]), ("leaky_server", ["--requests", "x"]),
    ("leaky_server_rs", ["--requests"])])
def test_wrong_options(name, arguments, tmp_path):
    done = harness.run([example(name), *arguments], cwd=tmp_path)
    expected = (1, b"--packed") if arguments == ["--packed"] else (2, b"usage: " + name.encode())
    assert done.returncode == expected[0]
    assert done.stderr.startswith(expected[1])


# ---- the pages that show them


PAGES = sorted((harness.REPOSITORY / "docs").glob("scenario-*.md")) + \
    [harness.REPOSITORY / "README.md"]


def shown_blocks(text):
    """(command, what stands between its marks) of a page."""
    blocks = re.findall(r"^<!-- output: ([^\n]+) -->\n(.*?)^<!-- end -->$", text, re.M | re.S)
    assert len(blocks) == text.count("<!-- output:") == text.count("<!-- end -->")
    return blocks


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_pages_show_output(page):
    blocks = shown_blocks(page.read_text())
    assert len(blocks) >= 2
    for command, block in blocks:
        assert block.startswith(f"```console\n$ {command}\n"), "run tools/scenario_output.sh"
        assert block.endswith("```\n")
        assert not re.search(r"/(home|root|tmp)/", block)
        if ">" not in command:
            assert block.count("\n") > 3


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_work_where_the_page_says(page, tmp_path):
    """A page says in which folder its commands run and how heft gets onto the PATH. Somebody who pastes these
    lines after make, and then the commands in their order, gets what the page shows."""
    text = page.read_text()
    prepare, = re.findall(r"^```sh\nmake\b[^\n]*\n(cd build/examples\nPATH=[^\n]+\n)```$", text, re.M)
    build = tmp_path / "build"
    shutil.copytree(harness.BUILD / "examples", build / "examples", ignore=shutil.ignore_patterns("*.p", "*.a"))
    for file in ("heft", "libheft-preload.so"):
        shutil.copy(harness.BUILD / file, build)
    commands = [command for command, _ in shown_blocks(text)
                if "./queue_mixed" not in command and "mixed.heft" not in command]
    checks = "".join(f"{{ {command}; }} > shown || [ $? = 137 ]\n" for command in commands)
    script = f'set -e\n{prepare}[ "$(command -v heft)" -ef ../heft ]\n{checks}'
    done = harness.run(["sh", "-c", script], cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert len(commands) >= 2


def test_links_lead_somewhere():
    """Links between the pages of the repository name files, and headings in them, that are there."""
    def anchors(path):
        headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.M | re.S), re.M)
        return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}

    pages = [p for folder in ("", "docs", "examples", "web") for p in (harness.REPOSITORY / folder).glob("*.md")]
    assert len(pages) > 20
    checked = 0
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            if re.match(r"\w+:", target):
                continue
            file, _, anchor = target.partition("#")
            path = (page.parent / file).resolve() if file else page
            assert path.exists(), (page.name, target)
            assert not anchor or anchor in anchors(path), (page.name, target)
            checked += 1
    assert checked > 100


def test_readme_links_every_manual_and_guide():
    text = (harness.REPOSITORY / "README.md").read_text()
    for page in [*(harness.REPOSITORY / "man").glob("*.1"), *(harness.REPOSITORY / "docs").glob("*.md")]:
        assert f"({page.relative_to(harness.REPOSITORY)})" in text, page.name
    assert text.index("make demo") < text.index("make test") < text.index("<!-- output:")


def test_scenario_output(tmp_path):
    """The tool renews what stands between the marks, leaves the rest, and fails on what fails."""
    page = tmp_path / "page.md"
    text = ("before\n<!-- output: heft run -o c.heft ./connections A 3 -->\nold\n<!-- end -->\n"
            "<!-- output: heft report c.heft -->\n<!-- end -->\nafter")
    page.write_text(text)
    tool = harness.REPOSITORY / "tools" / "scenario_output.sh"
    done = harness.run([tool, page], env={"HEFT_BUILD": str(harness.BUILD)})
    assert done.returncode == 0, done.stderr
    renewed = page.read_text()
    assert renewed.startswith("before\n") and renewed.endswith("\nafter\n")
    assert "\nold\n" not in renewed
    (_, run), (_, shown) = shown_blocks(renewed)
    assert run.startswith("```console\n$ heft run -o c.heft ./connections A 3\n"
                          "3 connections open\n")
    assert "make_id_table at examples/connections.c:" in shown
    assert str(harness.BUILD) not in renewed

    page.write_text("<!-- output: heft report missing.heft -->\nkept\n<!-- end -->\n")
    done = harness.run([tool, page], env={"HEFT_BUILD": str(harness.BUILD)})
    assert done.returncode == 1
    assert b"page.md: status 1: heft report missing.heft" in done.stderr
    assert "\nkept\n" in page.read_text()
