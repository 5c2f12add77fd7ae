"""Ledgers of two recordings compared, and budgets for resident memory: both say what heft map says."""

import json

import pytest

from attach_harness import may_trace
from harness import BUILD, HEFT, report, run

pytestmark = pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
HEAP = ["requested", "in_use", "rounding", "headers", "held_free", "large_mappings"]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """csv_rows of few and of many rows, whose blocks are all live when it exits; and without ledgers."""
    folder = tmp_path_factory.mktemp("compared")
    for name, rows, *options in ("few", "10000", "--ledger"), ("many", "40000", "--ledger"), ("none", "10000", "--no-ledger"):
        table = folder / f"{rows}.csv"
        table.write_bytes(run([BUILD / "examples" / "csv_make", rows]).stdout)
        done = run([HEFT, "run", "-q", *options, "-o", folder / f"{name}.heft", "--", BUILD / "examples" / "csv_rows", table])
        assert done.returncode == 0, done.stderr
    return folder


def at_exit(path):
    return json.loads(run([HEFT, "map", "--json", "--moment", "exit", path]).stdout)["ledgers"][0]


def total(ledger, kinds):
    return sum(line["resident_bytes"] for line in ledger["lines"] if line["kind"] in kinds)


def diff(*options):
    done = run([HEFT, "diff", *options])
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_which_line_has_grown(recordings):
    few, many = recordings / "few.heft", recordings / "many.heft"
    made = json.loads(diff("--json", "-n", "1", few, many))
    compared = next(one for one in made["ledgers"] if one["moment"] == "exit")
    old, new = at_exit(few), at_exit(many)
    assert [compared[side]["rss_bytes"] for side in ("old", "new")] == [old["rss_bytes"], new["rss_bytes"]]
    assert compared["change_bytes"] == new["rss_bytes"] - old["rss_bytes"] == sum(line["change_bytes"] for line in compared["lines"])
    assert compared["changed"] is True
    first = compared["lines"][0]
    assert (first["kind"], first["old_bytes"], first["new_bytes"]) == ("requested", total(old, ["requested"]), total(new, ["requested"]))
    changes = [abs(line["change_bytes"]) for line in compared["lines"]]
    assert changes == sorted(changes, reverse=True)
    text = diff("--at", "end", few, many).split("Resident memory when it exited: ")[1]
    line = next(line for line in text.splitlines() if "heap: requested" in line)
    assert line.split()[0].startswith("+") and line.endswith("heap: requested")


def test_what_has_not_changed(recordings):
    few = recordings / "few.heft"
    text = diff(few, few)
    assert "; no line differs by more than " in text and "Nothing changed." in text
    compared = json.loads(diff("--json", few, few))["ledgers"]
    assert compared and not any(one["changed"] or one["change_bytes"] for one in compared)
    # Any difference at all is shown if somebody asks.
    assert "; no line differs by more than 0 B" in diff("--threshold", "0%", few, few)


def test_where_nothing_can_be_compared(recordings):
    few, none = recordings / "few.heft", recordings / "none.heft"
    for options in [few, none], [none, few], ["--focus", "main", few, few], ["--at", "50%", few, few]:
        assert "Resident memory" not in diff(*options)
        assert json.loads(diff("--json", *options))["ledgers"] == []
    assert "Resident memory when it exited" in diff("--at", "exit", few, few)


def check(folder, rules, *what):
    (folder / "budget").write_text(rules)
    done = run([HEFT, "check", "-v", "--budget", folder / "budget", *what])
    return done.returncode, (done.stdout + done.stderr).decode()


def test_budgets_are_those_of_the_largest_ledger(recordings, tmp_path):
    path = recordings / "many.heft"
    ledger = at_exit(path)
    exact = {"rss_bytes": ledger["rss_bytes"], "resident_heap_bytes": total(ledger, HEAP),
             "held_free_bytes": total(ledger, ["held_free"]), "resident_allocator_bytes": total(ledger, ["allocator"]),
             "resident_library_bytes": total(ledger, ["modules_private", "modules_shared", "bss"]),
             "resident_stack_bytes": total(ledger, ["stacks"]), "resident_anonymous_bytes": total(ledger, ["anonymous"]),
             "unexplained_bytes": total(ledger, ["unexplained"])}
    status, text = check(tmp_path, "".join(f"{name} == {value}\n" for name, value in exact.items()), path)
    assert status == 0, text
    totals = report(path)["totals"]
    assert {name: totals[name] for name in exact} == exact
    status, text = check(tmp_path, f"resident_heap_bytes < {exact['resident_heap_bytes']}\n", path)
    assert status == 1 and "over budget" in text


def test_a_command_is_measured_as_its_rules_need(tmp_path, compiled):
    status, text = check(tmp_path, "rss_bytes <= 1G\nresident_heap_bytes >= 4M\nunexplained_bytes == 0\n"
                         "unreachable_bytes >= 5M\nmapped_bytes >= 4M\n", "--", compiled("heap_states.c"), "lost", "100000")
    assert status == 0, text
    status, text = check(tmp_path, "finding leak-unreachable == 0\n", "--", compiled("heap_states.c"), "lost", "100000")
    assert status == 1 and "over budget" in text, text


def test_a_file_that_does_not_tell(recordings, tmp_path):
    rules = "rss_bytes <= 1G\nunreachable_bytes == 0\npeak_bytes <= 1G\n"
    status, text = check(tmp_path, rules, recordings / "none.heft")
    assert status == 1
    assert "no ledger in this file" in text and "no heap was looked at (heft run --leaks)" in text
    done = run([HEFT, "check", "--json", "--budget", tmp_path / "budget", recordings / "none.heft"])
    first, second, third = json.loads(done.stdout)["rules"]
    assert first["unknown"] and first["reason"].startswith("no ledger") and second["reason"].startswith("no heap")
    assert third["holds"] and "reason" not in third
    status, text = check(tmp_path, "finding leak-unreachable == 0\nfinding unbounded-queue == 0\n", recordings / "none.heft")
    assert status == 1 and text.count("no heap was looked at") == 1, text
    assert not any(name.startswith(("rss", "resident")) for name in report(recordings / "none.heft")["totals"])
