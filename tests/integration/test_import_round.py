"""Out and in again: what heft exports, heft reads back with the same numbers at the same sites. A
foreign format counts a reallocation as an allocation, so the sum of both is compared."""

import pytest

from harness import HEFT, report, run
from protobuf_bytes import field, varint


def table(rep, via):
    sums = {}
    for s in rep["sites"]:
        stack = tuple((f["function"], f["file"], f["line"], f["module"]) for f in s["stack"])
        key = (s["via"] if via else None, stack)
        values = (s["live_bytes"], s["live_blocks"], s["peak_bytes"], s["peak_blocks"],
                  s["allocations"] + s.get("reallocations", 0))
        sums[key] = tuple(a + b for a, b in zip(sums.get(key, (0,) * 5), values))
    return sums


PROGRAMS = [("import_facts.c", ["300"]), ("each_function.c", ["chain"]),
            ("each_function.c", ["malloc_zero"]), ("each_new.cc", ["new"]),
            ("each_function.c", ["temporary"])]


@pytest.mark.parametrize("form", ["pprof", "heaptrack"])
@pytest.mark.parametrize("program,arguments", PROGRAMS, ids=[p + "-" + a[0] for p, a in PROGRAMS])
def test_round_trip(compiled, record, tmp_path, form, program, arguments):
    done, before = record([compiled(program), *arguments])
    assert before["sites"]
    out = tmp_path / "out"
    exported = run([HEFT, "export", "-f", form, "-o", out, before.path])
    assert exported.returncode == 0, exported.stderr
    after = report(out)
    # pprof keeps the allocation function as a label; heaptrack has no place for it
    assert table(after, form == "pprof") == table(before, form == "pprof")
    for column in ("live_bytes", "live_blocks", "peak_bytes"):
        assert after["totals"][column] == before["totals"][column]
    assert after["totals"]["allocations"] == \
        before["totals"]["allocations"] + before["totals"]["reallocations"]


def test_jemalloc_to_pprof(compiled, tmp_path):
    """One command instead of jemalloc_pprof and jeprof: a dump becomes pprof, symbols resolved."""
    from test_import import jemalloc_dump
    dump = jemalloc_dump(compiled("import_facts.c"), tmp_path, "lg_prof_sample:10,prof_accum:true")
    out = tmp_path / "out.pprof"
    assert run([HEFT, "export", "-f", "pprof", "-o", out, dump]).returncode == 0
    before, after = report(dump), report(out)
    assert after["rate_bytes"] == 1024
    columns = ("live_bytes", "live_blocks", "allocations", "allocated_bytes")
    assert {c: after["totals"][c] for c in columns} == {c: before["totals"][c] for c in columns}
    assert "hold" in {s["stack"][0]["function"] for s in after["sites"]}
    assert [s["via"] for s in after["sites"]] == [s["via"] for s in before["sites"]]


def test_labels_round_trip(tmp_path):
    """Two tenants at one stack: two samples of pprof with their labels, one point of DHAT, which
    has no place for them."""
    strings = ["", "inuse_space", "bytes", "f", "tenant", "red", "size", "kilobytes"]
    labels = [[field(1, 4) + field(2, 5)], [field(1, 6) + field(3, 32) + field(4, 7)]]
    message = field(1, field(1, 1) + field(2, 2))
    for i, some in enumerate(labels):
        message += field(2, field(1, b"\x01") + field(2, varint(100 + i))
                         + b"".join(field(3, label) for label in some))
    message += field(4, field(1, 1) + field(4, field(1, 1) + field(2, 9)))
    message += field(5, field(1, 1) + field(2, 3))
    message += b"".join(field(6, s.encode()) for s in strings)
    path = tmp_path / "labels"
    path.write_bytes(message)
    before = report(path)
    assert [(s["live_bytes"], s["labels"]) for s in before["sites"]] == [
        (101, {"size": 32}), (100, {"tenant": "red"})]
    for form in ("pprof", "dhat"):
        run([HEFT, "export", "-f", form, "-o", tmp_path / form, path])
    after = report(tmp_path / "pprof")
    assert after["sites"] == before["sites"]
    assert b"tenant=red" in run([HEFT, "report", tmp_path / "pprof"]).stdout
    assert [s["live_bytes"] for s in report(tmp_path / "dhat")["sites"]] == [201]
