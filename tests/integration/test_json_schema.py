"""What heft writes as JSON is what docs/*.schema.json says: reports, comparisons and checks of every kind of
input have no field that the schema lacks, and the schema has no field that nothing produces."""

import json

import jsonschema
import pytest

from attach_harness import may_trace
from harness import BUILD, HEFT, REPOSITORY, report, run
from pprof_maker import number, text, varint
from view_server import Viewer

DOCS = REPOSITORY / "docs"
KINDS = ("report", "diff", "check")
SCHEMAS = {kind: json.loads((DOCS / f"{kind}.schema.json").read_text()) for kind in KINDS}
IMPORTS = sorted((REPOSITORY / "tests" / "golden" / "import").iterdir())
UNITS = {"_bytes": "byte", "_ns": "nanosecond", "_blocks": "block", "_share": "share"}

# Fields that no recording of this test has, and why.
NOT_PRODUCED = {
    **{f"report:{name}": "a recorder must lose events or samples: tests/unit/test_finding_notes.c and "
                         "test_findings_samples.c"
       for name in ("note-evidence/dropped", "note-evidence/dropped_share", "evidence-profile-quality/dropped",
                    "evidence-profile-quality/dropped_share", "evidence-profile-quality/lost_share",
                    "evidence-profile-quality/samples")},
    "report:note-evidence/unknown_free_share": "blocks must be made beside the recording: "
                                               "tests/unit/test_finding_notes.c",
    **{name: "only heft attach makes it: tests/integration/test_attach.py"
       for name in ("report:/attached", "report:totals/older_frees")},
    "report:evidence-per-instance-cost/touched_bytes_each": "heft must look near the peak: tests/integration/test_leaks.py",
    "report:ledger/note": "threads must be in the middle of calls: tests/integration/test_ledger_recorded.py",
    "report:/oom_killed": "the kernel must end a program for lack of memory: tests/fault/test_oom.py",
}

# What these recordings are made for; the family has one process for each kind.
# Of heap_states.c: each is a finding of a look at the heap.
HEAP_STATES = {"lost": "5000", "untouched": "50", "equal": "5000", "every_second": "100000"}
FINDINGS = {"queue": {"unbounded-queue"}, "leaky_server": {"growing-site"}, "leaking": {"growing-site"},
            "family": {"unbounded-queue", "growing-site", "per-instance-cost", "allocator-rounding", "growth-slack",
                       "temporary-churn", "copied-records"},
            "together": {"growing-site"}, "warms": {"growing-site"},
            "followed": {"unbounded-queue"}, "pool": {"pool-leak"}}


def validator(kind, within=""):
    """Of a document, or of an object of its $defs."""
    uri = (DOCS / f"{kind}.schema.json").as_uri()
    schema = {"$ref": f"{uri}#/$defs/{within}"} if within else SCHEMAS[kind]
    return jsonschema.Draft202012Validator(schema, resolver=jsonschema.RefResolver(uri, SCHEMAS[kind]))


def problems(kind, document, within=""):
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:300]}"
            for e in validator(kind, within).iter_errors(document)]


# ---- the schema itself

def objects(kind):
    """(name of a field or a definition, its schema) of everything that has a description."""
    def of(node, name):
        yield name, node
        for key, inner in node.get("properties", {}).items():
            yield from of(inner, f"{name}/{key}")
        if "items" in node:
            yield from of(node["items"], name + "[]")
    yield from of(SCHEMAS[kind], f"{kind}:")
    for key, inner in SCHEMAS[kind]["$defs"].items():
        yield from of(inner, f"{kind}:{key}")


def fields(kind):
    return {name: node for name, node in objects(kind) if "/" in name and not name.endswith("[]")}


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_is_one(kind):
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[kind])
    for name, node in objects(kind):
        if node.get("type") == "object":
            inner = node.get("additionalProperties")
            assert inner is False or name.endswith(("/labels", "/evidence")), f"{name} takes any field"
        if name.endswith("[]"):
            continue
        words = node.get("description", "")
        assert words.endswith(".") and words[0] != words[0].lower() or node.get("enum"), name
        for end, unit in UNITS.items():
            if name.endswith(end):
                assert unit in words.lower(), f"{name} does not say its unit: {words}"


def test_ends_and_kinds():
    defs = SCHEMAS["report"]["$defs"]
    assert set(defs["end"]["enum"]) == {"exit", "signal", "exec", "detached", "running", "unknown"}
    kinds = defs["finding"]["properties"]["kind"]["enum"]
    assert {"evidence-" + k for k in kinds} == {k for k in defs if k.startswith("evidence-")}
    source = (REPOSITORY / "src" / "findings" / "findings.c").read_text()
    assert all(f'"{k}"' in source for k in kinds)


# ---- documents

def labelled(path):
    """A pprof file with a label in words and one that is a number."""
    strings = [b"", b"inuse_space", b"bytes", b"f", b"tenant", b"red", b"size"]
    sample = [number(1, 4) + number(2, 5), number(1, 6) + number(3, 32)]
    message = text(1, number(1, 1) + number(2, 2))
    for i, label in enumerate(sample):
        message += text(2, text(1, b"\x01") + text(2, varint(100 + i)) + text(3, label))
    message += text(4, number(1, 1) + text(4, number(1, 1) + number(2, 9))) + text(5, number(1, 1) + number(2, 3))
    path.write_bytes(message + b"".join(text(6, s) for s in strings))
    return path


@pytest.fixture(scope="module")
def recordings(compiled, tmp_path_factory):
    """Recordings of all kinds by name."""
    folder, made = tmp_path_factory.mktemp("schema"), {}
    examples = BUILD / "examples"
    rows = folder / "rows.csv"
    rows.write_bytes(run([examples / "csv_make", "20000"]).stdout)
    blind = {"LD_PRELOAD": str(compiled("blind_to_exits.c", flags=["-shared", "-fPIC"], output="libschema.so"))}
    sql = "create table t(a); with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000) " \
          "insert into t select hex(randomblob(x % 50)) from c; select count(*) from t;"
    shapes = compiled("slack_shapes.c")
    family = " && ".join([*(f"{examples}/{name}" for name in ("queue", "leaky_server", "connections")),
                          f"{examples}/csv_rows {rows}", f"{shapes} spare", f"{shapes} scratch", f"{shapes} both",
                          f"{compiled('copied_rows.c')} strdup"])
    growth = compiled("growth_shapes.c")
    header = ["-I", REPOSITORY / "include"]
    for name, opts, env, status, *command in (
            ("sqlite", [], {}, 0, "sqlite3", ":memory:", sql),
            ("slack", [], {}, 0, f"{examples}/csv_rows", rows),
            ("python", [], {}, 0, "/usr/bin/python3", "-Ic", "import json, threading"),
            ("arenas", [], {}, 0, "/bin/sh", "-c",
             "/usr/bin/python3 -Ic 'import time; kept = [{1: i} for i in range(200000)]; time.sleep(0.5)'; true"),
            ("shell", [], {}, 0, "/bin/sh", "-c", "ls / | sort >/dev/null; exec /bin/true"),
            ("killed", [], {}, 137, "/bin/sh", "-c", "kill -9 $$"),
            ("blind", [], blind, 0, compiled("children_in_turn.c"), "raw-wait4", "2"),
            ("sampled", ["--sample=4k"], {}, 0, compiled("sampled_heap.c"), "mixed", "2000"),
            ("few", ["--sample=512k"], {}, 0, compiled("sampled_heap.c"), "mixed", "2000"),
            ("leaking", ["--sample=1k"], {}, 137, compiled("sampled_children.c"), "tasks", "1"),
            ("queue", [], {}, 0, examples / "queue"),
            ("leaky_server", [], {}, 0, examples / "leaky_server"),
            ("family", [], {}, 0, "/bin/sh", "-c", family),
            ("together", [], {}, 0, growth, "together"),
            ("warms", [], {}, 0, growth, "warms-up"),
            ("marked", [], {}, 0, compiled("marked.c", flags=header)),
            ("followed", [], {}, 0, compiled("followed_queue.c", flags=header)),
            ("pool", [], {}, 0, compiled("arena.c", flags=header), "leak"),
            ("deep", [], {}, 0, compiled("deep_recursion.c"), "mixed", "6000", "600"),
            ("deeper", [], {}, 0, compiled("deep_recursion.c"), "mixed", "7200", "600"),
            ("guessed", [], {}, 0, compiled("jit_frame.c")),
            ("truncated", [], {}, 0, compiled("frame_without_caller.c")),
            ("full", [], {}, 0, compiled("full_table.c")),
            ("mapped", [], {}, 0, compiled("memory_kinds.c", flags=["-fno-builtin"]), "map"),
            *((state, ["--ledger", "--leaks"], {}, 0, compiled("heap_states.c"), state, count)
              for state, count in HEAP_STATES.items() if may_trace()),
            *((("books", ["--ledger"], {}, 0, "/bin/sh", "-c",
                f"{compiled('whose_memory.c')} handle 3000; {compiled('whose_memory.c')} map"),) if may_trace() else ()),
            ("states", ["--leaks"], {}, 0, "/bin/sh", "-c",
             " && ".join(f"{compiled('heap_states.c')} {state} {count}" for state, count in HEAP_STATES.items()))):
        made[name] = folder / f"{name}.heft"
        for _ in range(20):  # on a busy machine a run of 0.1 s may stand still for half of its time
            done = run([HEFT, "run", "-q", "--force", *opts, "-o", made[name], "--", *command], env=env)
            assert done.returncode == status, (name, done.stderr)
            if name not in FINDINGS or FINDINGS[name] <= {f["kind"] for f in report(made[name])["findings"]}:
                break
    whole = made["sqlite"].read_bytes()
    made["cut"] = folder / "cut.heft"
    made["cut"].write_bytes(whole[:whole.rindex(b"HBLK")])
    made["labels"] = labelled(folder / "labels")
    made.update({path.name: path for path in IMPORTS})
    return made


def written(*command, status=(0,)):
    done = run([HEFT, *command])
    assert done.returncode in status, (command, done.stderr)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def documents(recordings, tmp_path_factory):
    """(schema, name, document) of everything that heft writes about them."""
    found, large = [], ("python", "cut", "deep", "deeper")

    def add(name, *options):
        found.append(("report", f"{name} {' '.join(options)}", written("report", "--json", *options, recordings[name])))
    for name in recordings:
        add(name, *(["-n", "5", "--sort", "live"] if name == "full" else ["-n", "40"] if name in large else []))
    for name in "sqlite", "queue", "shell":
        add(name, "--threads", "--sizes", "--lifetimes")
        add(name, "--from", "20%", "--to", "90%", "-n", "40")
        add(name, "--at", "50%", "-n", "40")
    for name in "sqlite", "deep", "guessed", "truncated", "sampled", "labels":
        add(name, "--compact", "-n", "40")
    add("full", "--compact", "-n", "5", "--sort", "live")
    add("python", "--sort", "mapped", "-n", "40")
    add("sqlite", "--focus", "sqlite3", "--ignore", "main", "-n", "3")
    add("shell", "--pid", str(found[list(recordings).index("shell")][2]["processes"][1]["pid"]))
    for old, new, *options in (("sqlite", "queue"), ("sampled", "sqlite"), ("queue", "leaky_server", "--per", "second"),
                               ("deep", "deeper"), ("deeper", "deep"), ("labels", "sampled"),
                               *((("lost", "equal"),) if may_trace() else ()),
                               ("sqlite", "sqlite", "--at", "50%", "--focus", "sqlite", "--ignore", "nothing")):
        found.append(("diff", f"{old} {new}",
                      written("diff", "--json", "-n", "40", *options, recordings[old], recordings[new], status=(0, 1))))
    budget = tmp_path_factory.mktemp("budget") / "budget"
    budget.write_text("peak_bytes <= 1k\nleft_bytes <= 1G\nallocations in main <= 1\nfrees in thread:* <= 1\n"
                      "finding unbounded-queue == 0\nallocated_bytes in file:nothing.c <= 1k\nrss_bytes <= 1k\n")
    for name, *options in ["queue"], ["sampled"], ["mapped"], ["go-heap.pprof"], ["sqlite", "--at", "peak"]:
        if options:
            budget.write_text("peak_bytes <= 1k\n")
        found.append(("check", name, written("check", "--json", *options, "--budget", budget, recordings[name],
                                             status=(0, 1))))
    baseline = budget.with_name("baseline")
    for name, limit, *options in ["queue", "1G", "--update-baseline"], ["leaky_server", "1k"]:
        budget.write_text(f"peak_bytes <= {limit}\n")
        found.append(("check", f"{name} baseline",
                      written("check", "--json", *options, "--baseline", baseline, "--budget", budget,
                              recordings[name], status=(0, 1))))
    return found


def test_documents_are_as_the_schema_says(documents):
    assert {name: problems(kind, document) for kind, name, document in documents
            if problems(kind, document)} == {}


def test_ends_are_told_apart(documents):
    reports = {}
    for kind, name, document in documents:
        if kind == "report":
            reports.setdefault(name.split()[0], document)
    assert [reports[name]["end"] for name in ("sqlite", "killed", "cut")] == ["exit", "signal", "running"]
    assert {p["end"] for p in reports["blind"]["processes"]} == {"exit", "unknown"}
    assert {i["end"] for p in reports["shell"]["processes"] for i in p.get("images", [p])} == {"exit", "exec"}


def visited(kind, node, name, value, used):
    """Adds the names of the fields that a value has; name None: what a reference leads to is named there."""
    if "$ref" in node:
        file, _, path = node["$ref"].partition("#/")
        kind_there = file.split(".")[0] or kind
        there = SCHEMAS[kind_there]
        for step in path.split("/"):
            there = there[step]
        visited(kind_there, there, f"{kind_there}:{path.split('/')[1]}", value, used)
    for rule in node.get("allOf", ()):
        if rule["if"]["properties"]["kind"]["const"] == value["kind"]:
            visited(kind, rule["then"]["properties"]["evidence"], "", value["evidence"], used)
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in node.get("properties", {}):
                used.add(f"{name}/{key}")
                visited(kind, node["properties"][key], f"{name}/{key}", inner, used)
    if isinstance(value, list) and "items" in node:
        for inner in value:
            visited(kind, node["items"], name + "[]", inner, used)


@pytest.mark.skipif(not may_trace(), reason="this machine does not allow ptrace")
def test_every_field_is_produced(documents):
    used = set()
    for kind, _, document in documents:
        visited(kind, SCHEMAS[kind], f"{kind}:", document, used)
    used.discard("report:ledger/note")  # the scheduler's choice
    used.discard("report:evidence-per-instance-cost/touched_bytes_each")  # the same
    everything = {name for kind in KINDS for name in fields(kind)}
    assert sorted(everything - used - set(NOT_PRODUCED)) == [], "no recording of this test has these"
    assert sorted(set(NOT_PRODUCED) & used) == [], "these are produced after all"


def test_unknown_fields_are_found(documents):
    """Every object of a document is closed: one more field is a problem."""
    def objects_of(value):
        if isinstance(value, dict):
            yield value
            for key, inner in value.items():
                if key != "labels":
                    yield from objects_of(inner)
        if isinstance(value, list):
            for inner in value[:2]:
                yield from objects_of(inner)
    for kind, name in ("report", "queue --threads --sizes --lifetimes"), ("diff", "deep deeper"), ("check", "queue"):
        document = next(d for k, n, d in documents if (k, n.strip()) == (kind, name))
        for key in "sites", "changes":
            document[key] = document.get(key, [])[:2]
        if kind != "report":
            del document["sites"]
        if kind != "diff":
            del document["changes"]
        assert problems(kind, document) == []
        for inner in list(objects_of(document)):
            inner["surprise"] = 1
            assert problems(kind, document), f"{kind}: {sorted(inner)}"
            del inner["surprise"]


# ---- the page has the same objects

@pytest.mark.parametrize("name", ["queue", "shell", "sampled", "go-heap.pprof"])
def test_the_page_has_the_same_objects(recordings, name):
    reported = written("report", "--json", "--threads", recordings[name])
    with Viewer(recordings[name]) as view:
        summary = view.document("summary")
        found = {"totals": [summary["totals"]], "note": summary["notes"], "thread": summary["threads"]}
        own = {"number", "program", "run_ns"}
        found["process"] = [{k: v for k, v in p.items() if k not in own} for p in summary["processes"]]
        own = {"where", "callers", "trend", "explain"}
        found["finding"] = [{k: v for k, v in f.items() if k not in own} for f in summary["findings"]]
        if summary["has"]["sizes"]:
            found["size"] = view.document("sizes")["rows"]
        rows = view.document("sites")["rows"]
        own = {"place", "callers", "called_by", "value", "error95", "end_bytes", "end_blocks", "trend", "freed_by"}
        required = {"stack_frames": [0], "merged_stacks": 1, "first_user": 0}
        found["site"] = [{**required, **{k: v for k, v in row.items() if k not in own}} for row in rows]
        found["handover"] = view.document("site", site=rows[0]["id"])["handover"]
    assert {kind: problems("report", x, kind) for kind, list_ in found.items() for x in list_
            if problems("report", x, kind)} == {}
    assert summary["totals"] == reported["totals"] and found["note"] == reported["notes"]
    assert found["finding"] == reported["findings"]
    by_id = {s["id"]: s for s in reported["sites"]}
    for row in found["site"]:
        assert {k: by_id[row["id"]][k] for k in row if k not in required and k != "lifetime_ns"} == \
            {k: v for k, v in row.items() if k not in required and k != "lifetime_ns"}
