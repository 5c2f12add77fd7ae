"""The examples, recorded: what they allocate is known from their sources, so the report must say
exactly that. In Rust the same facts hold where the standard library makes them certain."""

import json

import pytest

import harness

EXAMPLES = harness.BUILD / "examples"


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = tmp_path_factory.mktemp("csv") / "example.csv"
    path.write_bytes(harness.run([EXAMPLES / "csv_make"]).stdout)
    return path


@pytest.fixture
def profiled(heft):
    """Records an example and returns its report; checks that heft changed nothing it does."""
    def call(name, *arguments):
        program = EXAMPLES / name
        if not program.exists():
            pytest.skip(f"{name} is not built (no rustc)")
        alone = harness.run([program, *arguments])
        done = heft("run", "-q", "-o", "e.heft", program, *arguments)
        assert (done.status, done.err) == (alone.returncode, ""), done
        if not name.startswith("queue"):  # prints how full the queue was
            assert done.out == alone.stdout.decode()
        report = heft("report", "--json", "e.heft")
        assert report.status == 0, report
        report = json.loads(report.out)
        assert report["totals"]["dropped"] == 0
        return report
    return call


def sites_through(report, function):
    """Sites with that function anywhere on their stack. Rust names carry crate and hash."""
    found = [s for s in report["sites"]
             if any(f.get("function") and (f["function"] == function or
                                           f["function"].split("::h")[0].endswith("::" + function))
                    for f in s["stack"])]
    assert found, f"no site through {function}"
    return found


def total(sites, column):
    return sum(s[column] for s in sites)


def test_csv_is_the_same_everywhere(csv):
    lines = csv.read_text().splitlines()
    assert len(lines) == 12427
    assert {line.count(",") for line in lines} == {6}
    assert lines[0] == "id,name,city,date,amount,state,reference"


def test_csv_rows(profiled, csv):
    report = profiled("csv_rows", csv)
    lines = csv.read_text().splitlines()
    fields = sites_through(report, "make_field")
    assert total(fields, "allocations") == 12427 * 7
    assert total(fields, "allocated_bytes") == sum(len(line) - 6 for line in lines)
    assert total(fields, "live_bytes") == total(fields, "allocated_bytes")  # it never frees them
    assert total(fields, "temporary") == 0
    # Each row grows 4 -> 8 fields of 24 bytes.
    arrays = [s for s in sites_through(report, "split_row") if s not in fields]
    assert total(arrays, "allocations") == 12427
    assert total(arrays, "reallocations") == 12427
    assert total(arrays, "live_bytes") == 12427 * 8 * 24
    # The sheet grows 4 -> 16384 rows of 24 bytes in 12 steps.
    rows = sites_through(report, "add_row")
    assert total(rows, "allocations") == 1
    assert total(rows, "reallocations") == 12
    assert total(rows, "live_bytes") == 16384 * 24
    assert total(rows, "reallocated_bytes") == sum(2 ** k for k in range(3, 15)) * 24


def test_csv_rows_in_rust(profiled, csv):
    report = profiled("csv_rows_rs", csv)
    rows = sites_through(report, "read_sheet")
    # 7 strings and one growing vector a line, at the least.
    assert total(rows, "allocations") >= 12427 * 8
    assert report["totals"]["peak_bytes"] > 2_000_000


def test_queue_without_bound(profiled):
    report = profiled("queue")
    sent = sites_through(report, "send_message")
    assert total(sent, "allocations") == 10000
    assert total(sent, "allocated_bytes") == 5000 * (24 + 1024)
    assert total(sent, "live_blocks") == 0
    assert total(sent, "cross_thread_frees") == 10000
    # The worker needs 100 us for each, the producer far less: almost all wait at the peak.
    assert report["totals"]["peak_bytes"] > 3000 * (24 + 1024)
    assert "worker" in [t["name"] for t in report["threads"]]


def test_queue_with_a_bound(profiled):
    report = profiled("queue", "--bound", "64")
    sent = sites_through(report, "send_message")
    assert total(sent, "allocations") == 10000
    assert total(sent, "peak_bytes") <= 66 * (24 + 1024)


def test_queue_in_rust(profiled):
    report = profiled("queue_rs")
    sent = sites_through(report, "send_message")
    payloads = [s for s in sent if s["allocated_bytes"] == 5000 * 1024]
    assert len(payloads) == 1 and payloads[0]["allocations"] == 5000
    assert payloads[0]["cross_thread_frees"] == 5000


@pytest.mark.parametrize("variant", ["A", "B"])
def test_connections(profiled, variant):
    report = profiled("connections", variant)
    made = sites_through(report, "conn_new")
    assert total(made, "allocations") == 300 * 6
    assert total(made, "peak_bytes") == 300 * 301_772
    assert total(made, "live_bytes") == 0
    table = sites_through(report, "make_id_table")
    assert total(table, "peak_bytes") == 300 * 262_144
    assert {s["via"] for s in table} == {"calloc" if variant == "A" else "malloc"}


def test_connections_in_rust(profiled):
    report = profiled("connections_rs")
    made = sites_through(report, "conn_new")
    assert total(made, "allocations") == 300 * 6
    assert total(made, "peak_bytes") >= 300 * 301_732
    assert {s["via"] for s in sites_through(report, "make_id_table")} == {"calloc"}


@pytest.mark.parametrize("name", ["leaky_server", "leaky_server_rs"])
def test_leaky_server(profiled, name):
    report = profiled(name, "--requests", "3000")
    # In Rust the list that holds the records lives in the same function.
    leaked = [s for s in sites_through(report, "remember_request")
              if s["allocated_bytes"] == 3000 * 1024]
    assert len(leaked) == 1
    assert leaked[0]["allocations"] == 3000
    answered = sites_through(report, "answer_request")
    assert total(answered, "allocations") == 6000
    assert total(answered, "live_blocks") == 0
    if name == "leaky_server":  # main returns without freeing
        assert leaked[0]["live_bytes"] == 3000 * 1024
