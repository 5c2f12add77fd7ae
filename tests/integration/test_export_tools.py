"""Exports opened by the tools they are for: go tool pprof and protoc, Valgrind's dh_view.js and
ms_print, heaptrack_print. What those say must be what `heft report --json` says of the same
recording, to the byte. A tool that is not installed skips its tests and says so."""

import collections
import csv
import functools
import gzip
import json
import os
import pathlib
import re
import shutil
import tempfile

import pytest

from harness import BUILD, HEFT, REPOSITORY, Report, bare, go_pprof, report, run
from pprof_maker import read_pprof

HERE = pathlib.Path(__file__).resolve().parent
VIEWER = next((p for p in ("/usr/libexec/valgrind/dh_view.js", "/usr/lib/valgrind/dh_view.js",
                           "/usr/lib/x86_64-linux-gnu/valgrind/dh_view.js")
               if os.path.exists(p)), None)


def need(tool):
    path = shutil.which(tool)
    if not path:
        pytest.skip(f"{tool} is not installed")
    return path


def words(*command, **options):
    done = run(command, **options)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="replace")


# ---- recordings: made once, read by every tool

PROGRAMS = ("csv", "queue", "sqlite3", "python3", "cxx", "names", "rust")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory, compiled):
    made = {}
    folder = tmp_path_factory.mktemp("exported")

    def make(name):
        if name in made:
            return made[name]
        path = folder / f"{name}.heft"
        if name == "csv":
            table = folder / "table.csv"
            table.write_bytes(run([BUILD / "examples" / "csv_make"]).stdout)
            command = [BUILD / "examples" / "csv_rows", table]
        elif name == "queue":
            command = [BUILD / "examples" / "queue"]
        elif name == "sqlite3":
            command = [need("sqlite3"), ":memory:",
                       "with recursive n(i) as (select 1 union all select i + 1 from n limit 3000)"
                       " select count(*) from (select i, hex(i) from n order by hex(i));"]
        elif name == "python3":
            command = ["/usr/bin/python3", "-c",
                       "import json; print(len(json.dumps([str(i) for i in range(20000)])))"]
        elif name == "names":
            command = [compiled("pprof_names.cc")]
        elif name == "rust":
            command = [folder / "pprof_names_rs"]
            words(need("rustc"), "-O", "-g", "-o", command[0],
                  REPOSITORY / "tests" / "programs" / "pprof_names.rs",
                  env={k: v for k, v in os.environ.items() if k.startswith(("RUSTUP", "CARGO"))})
        else:
            command = [compiled("containers.cc")]
        done = run([HEFT, "run", "-q", "-o", path, "--", *command])
        assert path.exists(), done.stderr
        made[name] = report(path)
        return made[name]
    return make


@pytest.fixture(params=PROGRAMS)
def recorded(request, recordings):
    return recordings(request.param)


def export(rep, name, folder, *options, file=None):
    out = folder / (file or f"exported.{name}")
    words(HEFT, "export", "-q", "-f", name, "-o", out, *options, rep.path)
    return out


def column(site, name):
    if name == "alloc_objects":
        return site["allocations"] + site["reallocations"]
    return site[{"alloc_space": "allocated_bytes", "inuse_objects": "live_blocks",
                 "inuse_space": "live_bytes", "peak_space": "peak_bytes",
                 "temporary_objects": "temporary"}[name]]


def functions(site):
    return [f["function"] for f in site["stack"]] or ["[stack unknown]"]


# ---- pprof

def short(name):
    """A name without parameters, as pprof compares it with the frames to hide (its simplifyFunc)."""
    name = name.removeprefix(".")
    for m in re.finditer(r"\(anonymous namespace\)|operator\(\)|\(", name):
        if m[0] == "(":
            return name[:m.start()]
    return name


@functools.lru_cache(maxsize=4)
def dropped(path):
    return re.compile(read_pprof(path)["drop_frames"])


def shown(site, path):
    """The stack as pprof shows it: from the outermost frame that matches drop_frames on, all are
    hidden. (Its own exception, stacks that match from the root on, is in none of these.)"""
    stack = functions(site)
    hidden = [i for i, name in enumerate(stack) if dropped(path).fullmatch(short(name)) and short(name)]
    return stack[hidden[-1] + 1:] if hidden else stack


def pprof(*options):
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as where:  # go's telemetry may still write
        done = go_pprof(where, *options)
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done.stdout.decode(errors="replace")


def pprof_number(text):
    m = re.fullmatch(r"(-?\d+)B?", text)
    assert m, f"not a whole number: {text}"
    return int(m.group(1))


def pprof_top(*options):
    """{function: (flat, cumulative)}, and the total."""
    out = pprof("-top", "-unit=B", "-nodefraction=0", "-nodecount=1000000", *options)
    rows = collections.Counter(), collections.Counter()
    total = re.search(r"of (-?\d+)B? total", out)
    for line in out.split("cum%\n", 1)[1].splitlines():
        flat, _, _, cumulative, _, name = line.split(None, 5)
        name = re.sub(r" \((partial-)?inline\)$", "", name)
        rows[0][name] += pprof_number(flat)
        rows[1][name] += pprof_number(cumulative)
    return rows[0], rows[1], int(total.group(1)) if total else 0


@pytest.mark.parametrize("kind", ["alloc_space", "inuse_space", "peak_space", "alloc_objects"])
def test_pprof_top_agrees(recorded, tmp_path, kind):
    path = export(recorded, "pprof", tmp_path)
    flat, cumulative, total = pprof_top(f"-sample_index={kind}", path)
    expected = collections.Counter(), collections.Counter()
    for site in recorded["sites"]:
        stack = shown(site, path)
        expected[0][stack[0]] += column(site, kind)
        for name in set(stack):
            expected[1][name] += column(site, kind)
    assert {k: v for k, v in flat.items() if v} == {k: v for k, v in expected[0].items() if v}
    assert {k: v for k, v in cumulative.items() if v} == \
        {k: v for k, v in expected[1].items() if v}
    assert total == sum(column(s, kind) for s in recorded["sites"])


def test_pprof_traces_agree(recorded, tmp_path):
    path = export(recorded, "pprof", tmp_path)
    out = pprof("-traces", "-unit=B", "-sample_index=peak_space", path)
    have = collections.Counter()
    for trace in out.split("-----------+")[1:]:
        lines = [x for x in trace.splitlines()[1:] if x.strip()]
        via = [x.split(":", 1)[1].strip() for x in lines if re.match(r" *via:", x)]
        lines = [x for x in lines if not re.match(r" *via:", x)]
        if not lines:
            continue
        value, first = lines[0].split(None, 1)
        stack = [re.sub(r" \(inline\)$", "", x.strip()) for x in [first] + lines[1:]]
        have[tuple(via or ["malloc"]), tuple(stack)] += pprof_number(value)
    expected = collections.Counter()
    for site in recorded["sites"]:
        expected[(site["via"],), tuple(shown(site, path))] += site["peak_bytes"]
    assert {k: v for k, v in have.items() if v} == {k: v for k, v in expected.items() if v}


def user_functions(rep, path):
    """Of each site: (innermost function of the user's own or None, stack, site), from the table."""
    done = words(HEFT, "export", "-q", "-f", "csv", "-o", "-", rep.path)
    rows = {int(row["id"]): row for row in csv.DictReader(done.splitlines())}
    for site in rep["sites"]:
        row = rows[site["id"]]
        yield row["user_function"], shown(site, path), site


def test_pprof_hides_no_user_function(recorded, tmp_path):
    """What drop_frames hides never has a frame of the user's own among it."""
    path = export(recorded, "pprof", tmp_path)
    count = 0
    for user, stack, site in user_functions(recorded, path):
        if user in functions(site):
            assert user in stack, f"site {site['id']} shows {stack}"
            count += 1
    assert count > 0


def test_pprof_top_begins_with_the_user(recorded, tmp_path):
    """-top's first line is the function that the report has at the head of the most bytes."""
    path = export(recorded, "pprof", tmp_path)
    most = collections.Counter()
    for user, _, site in user_functions(recorded, path):
        most[user] += site["allocated_bytes"]
    flat, _, _ = pprof_top("-sample_index=alloc_space", path)
    (name, size), = flat.most_common(1)
    assert (name, size) == most.most_common(1)[0]


def test_pprof_names_by_hand(recordings, tmp_path):
    """pprof_names.cc: Row's copy allocates inside push_back; push_back of plain numbers is hidden."""
    rep = recordings("names")
    flat, cumulative, _ = pprof_top("-sample_index=alloc_space", export(rep, "pprof", tmp_path))
    # Copies of 100 bytes each: one for each of 64 rows, and one for each that moved as the vector
    # grew through 1, 2, 4 .. 32.
    assert flat["Row::Row(Row const&)"] == 100 * (64 + 1 + 2 + 4 + 8 + 16 + 32)
    assert flat["add_numbers(int)"] == 4 * (1 + 2 + 4 + 8 + 16 + 32 + 64)
    assert not any(re.search(r"^operator new|::allocate\(", name) for name in cumulative)


def test_pprof_full(recorded, tmp_path):
    """--full: nothing is hidden."""
    path = export(recorded, "pprof", tmp_path, "--full")
    assert read_pprof(path)["drop_frames"] == ""
    flat, _, _ = pprof_top("-sample_index=alloc_space", path)
    expected = collections.Counter()
    for site in recorded["sites"]:
        expected[functions(site)[0]] += site["allocated_bytes"]
    assert {k: v for k, v in flat.items() if v} == {k: v for k, v in expected.items() if v}


def test_pprof_difference(recordings, tmp_path):
    """-diff_base: new minus old by function; of a file with itself, nothing."""
    old, new = recordings("csv"), recordings("queue")
    a = export(old, "pprof", tmp_path, file="old.pb.gz")
    b = export(new, "pprof", tmp_path, file="new.pb.gz")
    kind = "-sample_index=alloc_space"
    flat, _, _ = pprof_top(kind, "-diff_base", a, a)
    assert not any(flat.values())
    flat, _, _ = pprof_top(kind, "-diff_base", a, b)
    expected = collections.Counter()
    for rep, sign in (old, -1), (new, 1):
        for site in rep["sites"]:  # pprof puts both together and then hides what the new one says
            expected[shown(site, b)[0]] += sign * site["allocated_bytes"]
    assert {k: v for k, v in flat.items() if v} == {k: v for k, v in expected.items() if v}


def decoded(path):
    """Fields of the profile by protoc, as (name, value or list of such)."""
    protoc = need("protoc")
    plain = path.with_suffix(".plain")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    with open(plain, "rb") as stream:
        text = words(protoc, "--decode=perftools.profiles.Profile",
                     f"-I{REPOSITORY / 'src' / 'export'}", "profile.proto", stdin=stream)
    assert not re.search(r"^\s*\d+:", text, re.M), "fields that the schema does not know"
    stack = [[]]
    for line in text.splitlines():
        line = line.strip()
        if line.endswith("{"):
            stack.append([])
            stack[-2].append((line[:-1].strip(), stack[-1]))
        elif line == "}":
            stack.pop()
        else:
            name, value = line.split(": ", 1)
            stack[-1].append((name, value))
    return stack[0]


def values(message, name):
    return [v for n, v in message if n == name]


def one(message, name, default="0"):
    return (values(message, name) or [default])[0]


def test_pprof_by_the_schema(recorded, tmp_path):
    profile = decoded(export(recorded, "pprof", tmp_path))
    strings = [json.loads(s) if "\\" not in s else s for s in values(profile, "string_table")]
    assert strings[0] == ""
    types = [strings[int(one(t, "type"))] for t in values(profile, "sample_type")]
    assert types == ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space",
                     "peak_objects", "peak_space", "temporary_objects"]
    assert strings[int(one(profile, "default_sample_type"))] == "peak_space"
    for what in "mapping", "location", "function":
        entries = values(profile, what)
        assert [int(one(e, "id")) for e in entries] == list(range(1, len(entries) + 1))
    sums = [sum(int(values(s, "value")[i]) for s in values(profile, "sample")) for i in range(7)]
    t = recorded["totals"]
    assert sums == [t["allocations"] + t["reallocations"], t["allocated_bytes"], t["live_blocks"],
                    t["live_bytes"], t["peak_blocks"], t["peak_bytes"], t["temporary"]]
    program = strings[int(one(values(profile, "mapping")[0], "filename"))]
    assert os.path.realpath(program) == \
        os.path.realpath(shutil.which(recorded["command"][0]) or recorded["command"][0])
    assert not values(profile, "duration_nanos")
    assert one(profile, "period") == "1"


def test_pprof_raw(recordings, tmp_path):
    """Addresses and build ids alone: another tool finds heft's own names by them."""
    need("addr2line")
    rep = recordings("csv")
    profile = decoded(export(rep, "pprof", tmp_path, "--raw"))
    strings = values(profile, "string_table")
    assert not any("split_row" in s or "csv_rows.c" in s for s in strings)
    mappings = values(profile, "mapping")
    program = json.loads(strings[int(one(mappings[0], "filename"))])
    note = re.search(r"Build ID: ([0-9a-f]+)", words("readelf", "-n", program))
    assert json.loads(strings[int(one(mappings[0], "build_id"))]) == note.group(1)
    assert all(one(m, "memory_limit") == str(2**64 - 1) for m in mappings)
    assert all(not values(m, "has_functions") for m in mappings)
    found = {}
    for location in values(profile, "location"):
        assert not values(location, "line")
        if one(location, "mapping_id") == "1":
            address = hex(int(one(location, "address")))
            lines = words("addr2line", "-e", program, "-f", "-i", address).splitlines()
            found[one(location, "id")] = lines[::2]
    largest = max(values(profile, "sample"), key=lambda s: int(values(s, "value")[5]))
    have = [name for i in values(largest, "location_id") for name in found.get(i, [])]
    site = max(rep["sites"], key=lambda s: s["peak_bytes"])
    assert have == [f["function"] for f in site["stack"] if f["module"] == program]


# ---- DHAT

def dhat_leaves(node, above=()):
    path = above + tuple(node["frames"])
    if node["leaf"]:
        yield path, node
    for kid in node["kids"]:
        yield from dhat_leaves(kid, path)


def dhat_frame(frame):
    """The function of "0x1: f(int) (a.c:3)"."""
    return re.sub(r" \((in )?[^()]*\)$", "", re.sub(r"^0x[0-9A-F]+: ", "", frame))


def test_dhat_viewer_agrees(recorded, tmp_path):
    node = need("node")
    if not VIEWER:
        pytest.skip("Valgrind's dh_view.js is not installed")
    path = export(recorded, "dhat", tmp_path)
    tree = json.loads(words(node, HERE / "dhat_tree.js", VIEWER, path))
    root, t = tree["root"], recorded["totals"]
    assert root["tbk"] == t["allocations"] + t["reallocations"]
    assert (root["gb"], root["gbk"]) == (t["peak_bytes"], t["peak_blocks"])
    assert (root["eb"], root["ebk"]) == (t["live_bytes"], t["live_blocks"])
    assert tree["te"] == recorded["duration_ns"] // 1000
    assert tree["tg"] == t["peak_time_ns"] // 1000
    have, expected = collections.Counter(), collections.Counter()
    for path, leaf in dhat_leaves(root):
        assert path[0] == "[root]"
        key = tuple(dhat_frame(f) for f in path[1:])
        have[key] += 1
        for name in "tbk", "gb", "gbk", "eb", "ebk":
            have[key, name] += leaf[name]
    for site in recorded["sites"]:
        key = (site["via"], *functions(site))
        expected[key] += 1
        expected[key, "tbk"] += site["allocations"] + site["reallocations"]
        for name, of in ("gb", "peak_bytes"), ("eb", "live_bytes"), ("ebk", "live_blocks"):
            expected[key, name] += site[of]
    assert {k: v for k, v in have.items() if v and k[-1] != "gbk"} == \
        {k: v for k, v in expected.items() if v}


# ---- Massif

def massif_snapshots(path):
    """By the rules of massif-visualizer's reader, which are stricter than ms_print's."""
    lines = iter(path.read_text().split("\n")[:-1])
    for head in "desc: ", "cmd: ", "time_unit: ":
        assert next(lines).startswith(head)

    def tree(depth):
        line = next(lines)
        m = re.fullmatch(r" {%d}n(\d+): (\d+) (\S.*)" % depth, line)
        assert m, line
        return int(m.group(2)), m.group(3), [tree(depth + 1) for _ in range(int(m.group(1)))]

    for line in lines:
        assert line == "#-----------"
        snapshot = {}
        number = next(lines).removeprefix("snapshot=")
        assert next(lines) == "#-----------"
        for name in "time", "mem_heap_B", "mem_heap_extra_B", "mem_stacks_B":
            line = next(lines)
            assert line.startswith(name + "=")
            snapshot[name] = float(line.split("=")[1])
        kind = next(lines).removeprefix("heap_tree=")
        assert kind in ("empty", "detailed", "peak")
        yield int(number), kind, snapshot, None if kind == "empty" else tree(0)


def check_massif_node(node, total):
    bytes_, label, kids = node
    assert bytes_ <= total
    assert "#" not in label
    assert sum(k[0] for k in kids) <= bytes_
    sizes = [k[0] for k in kids if " below massif's threshold" not in k[1]]
    assert sizes == sorted(sizes, reverse=True)
    for kid in kids:
        check_massif_node(kid, bytes_)


def test_massif_is_read(recorded, tmp_path):
    path = export(recorded, "massif", tmp_path)
    t = recorded["totals"]
    snapshots = list(massif_snapshots(path))
    assert [n for n, *_ in snapshots] == list(range(len(snapshots)))
    times = [s["time"] for _, _, s, _ in snapshots]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(recorded["duration_ns"] / 1e6, abs=1)
    peaks = [(s, tree) for _, kind, s, tree in snapshots if kind == "peak"]
    assert len(peaks) == 1
    assert peaks[0][0]["mem_heap_B"] == t["peak_bytes"] == peaks[0][1][0]
    assert peaks[0][0]["time"] == pytest.approx(t["peak_time_ns"] / 1e6, abs=1)
    assert snapshots[-1][2]["mem_heap_B"] == t["live_bytes"]
    assert max(s["mem_heap_B"] for _, _, s, _ in snapshots) == t["peak_bytes"]
    for _, _, s, tree in snapshots:
        if tree:
            check_massif_node(tree, s["mem_heap_B"])
    # The greatest callers at the peak, by the innermost frame.
    callers = collections.Counter()
    for site in recorded["sites"]:
        frame = site["stack"][0] if site["stack"] else None
        callers[frame and (frame["function"], frame.get("file"), frame.get("line"))] += \
            site["peak_bytes"]
    largest = callers.most_common(1)[0]
    assert peaks[0][1][2][0][0] == largest[1]
    if largest[0]:
        assert bare(largest[0][0]) in peaks[0][1][2][0][1]


def test_ms_print_agrees(recorded, tmp_path):
    tool = need("ms_print")
    path = export(recorded, "massif", tmp_path)
    out = words(tool, "--threshold=0", path, cwd=tmp_path)
    number = re.search(r"(\d+) \(peak\)", out).group(1)
    row = re.search(rf"^ *{number} +[\d.,]+ +([\d,]+) +([\d,]+) +0 +0$", out, re.M)
    assert {x.replace(",", "") for x in row.groups()} == {str(recorded["totals"]["peak_bytes"])}
    innermost = collections.Counter()
    for m in re.finditer(r"^->\d+\.\d+% \(([\d,]+)B\) 0x[0-9A-F]+: (.+?)$",
                         out[row.end():].split("-" * 80)[0], re.M):
        innermost[dhat_frame(m.group(2))] += int(m.group(1).replace(",", ""))
    expected = collections.Counter()
    for site in recorded["sites"]:
        expected[functions(site)[0]] += site["peak_bytes"]
    for name, bytes_ in innermost.items():
        if expected[name] > recorded["totals"]["peak_bytes"] / 100:
            assert bytes_ <= expected[name], name
    name, bytes_ = expected.most_common(1)[0]
    assert innermost[name] > 0.9 * bytes_


# ---- heaptrack

def heaptrack(path, *options):
    return words(need("heaptrack_print"), "--disable-builtin-suppressions",
                 "--disable-embedded-suppressions", *options, "-f", path)


def heaptrack_stack(site):
    """As -F writes it: from main on, if nothing is inlined there; an inlined function before the one
    that it is in; without operator new, which it skips."""
    groups, group = [], []
    for frame in site["stack"]:
        group.append(frame["function"])
        if not frame["inlined"]:
            groups.append(group)
            group = []
    groups += [group] if group else []
    while groups and groups[0][0] in ("operator new(unsigned long)",
                                      "operator new[](unsigned long)"):
        del groups[0]
    first = [i for i, g in enumerate(groups) if g[0] == "main"]
    groups = groups[:first[0] + 1] if first else groups
    return tuple(name for g in reversed(groups) for name in g) or ("[stack unknown]",)


@pytest.mark.parametrize("kind", ["allocations", "peak", "leaked", "temporary"])
def test_heaptrack_flames_agree(recorded, tmp_path, kind):
    """heaptrack_print -F: every stack with its number."""
    path = export(recorded, "heaptrack", tmp_path, file="x.zst")
    flames = tmp_path / "flames"
    heaptrack(path, "-F", flames, "--flamegraph-cost-type", kind, "--shorten-templates=0")
    have, expected = collections.Counter(), collections.Counter()
    for line in flames.read_text().splitlines():
        stack, number = line.rsplit(" ", 1)
        names = [re.sub(r" \([^()]*\)$", "", f) for f in stack.rstrip(";").split(";")]
        have[tuple(names)] += int(number)
    for site in recorded["sites"]:
        expected[heaptrack_stack(site)] += {
            "allocations": site["allocations"] + site["reallocations"],
            "peak": site["peak_bytes"], "leaked": site["live_bytes"],
            "temporary": site["temporary"]}[kind]
    have = {k: v for k, v in have.items() if v}
    expected = {k: v for k, v in expected.items() if v}
    if kind == "temporary":  # follows from the order of events, which is not exact within a slice of time
        assert abs(sum(have.values()) - sum(expected.values())) <= 2 + recorded["totals"]["allocations"] // 1000
    else:
        assert have == expected


def heaptrack_bytes(text):
    number, unit = re.fullmatch(r"([\d.]+)([BKMGT])", text).groups()
    return float(number) * 1000 ** "BKMGT".index(unit)


@pytest.mark.parametrize("name", ["x.zst", "x.gz", "plain"])
def test_heaptrack_totals_agree(recorded, tmp_path, name):
    out = heaptrack(export(recorded, "heaptrack", tmp_path, file=name))
    t = recorded["totals"]

    def found(what):
        return re.search(rf"^{what}: (\S+)", out, re.M).group(1)
    assert int(found("calls to allocation functions")) == t["allocations"] + t["reallocations"]
    assert abs(int(found("temporary memory allocations")) - t["temporary"]) <= 2 + t["allocations"] // 1000
    assert heaptrack_bytes(found("peak heap memory consumption")) == \
        pytest.approx(t["peak_bytes"], rel=0.01)
    assert heaptrack_bytes(found("total memory leaked")) == \
        pytest.approx(t["live_bytes"], rel=0.01)
    assert float(found("total runtime").rstrip("s.")) == \
        pytest.approx(recorded["duration_ns"] / 1e9, abs=0.02)


def test_heaptrack_top_sites(recordings, tmp_path):
    rep = recordings("queue")
    out = heaptrack(export(rep, "heaptrack", tmp_path, file="x.zst"))
    first = out.split("PEAK MEMORY CONSUMERS")[1].split("\n\n")[0].splitlines()[1:]
    largest = max(rep["sites"], key=lambda s: s["peak_bytes"])
    assert first[0].split()[0] == f"{largest['peak_bytes'] / 1e6:.2f}M"
    assert first[1] == largest["stack"][0]["function"]
    assert first[2].strip() == \
        f"at {largest['stack'][0]['file']}:{largest['stack'][0]['line']}"
    assert first[3].strip() == f"in {largest['stack'][0]['module']}"


# ---- selections, and names that mean harm

def test_filters_reach_every_format(recordings, tmp_path):
    rep = recordings("csv")
    wanted = report(rep.path, "--focus", "make_field")
    bytes_ = sum(s["peak_bytes"] for s in wanted["sites"])
    assert 0 < bytes_ < rep["totals"]["peak_bytes"]
    options = ("--focus", "make_field")
    points = json.loads(export(rep, "dhat", tmp_path, *options).read_text())["pps"]
    assert sum(p["gb"] for p in points) == bytes_
    snapshots = list(massif_snapshots(export(rep, "massif", tmp_path, *options)))
    assert [s["mem_heap_B"] for _, kind, s, _ in snapshots if kind == "peak"] == [bytes_]
    for _, _, s, tree in snapshots:
        if tree:
            check_massif_node(tree, s["mem_heap_B"])
    if shutil.which("go"):
        _, _, total = pprof_top("-sample_index=peak_space",
                                export(rep, "pprof", tmp_path, *options))
        assert total == bytes_
    if shutil.which("heaptrack_print"):
        out = heaptrack(export(rep, "heaptrack", tmp_path, *options, file="x.zst"))
        assert "make_field" in out and "add_row" not in out


def test_hostile_names(tmp_path):
    """A program that is called anything: no format breaks, and no terminal gets its escapes."""
    program = tmp_path / "a#b\n\x1b]0;x\x07;<i>\"\\.c"
    shutil.copy("/bin/true", program)
    path = tmp_path / "hostile.heft"
    done = run([HEFT, "run", "-q", "-o", path, "--", program, "x\ny#z"])
    assert path.exists(), done.stderr
    rep = report(path)
    assert isinstance(rep, Report)
    for name in "pprof", "dhat", "massif", "heaptrack":
        data = export(rep, name, tmp_path, file=f"hostile.{name}").read_bytes()
        data = gzip.decompress(data) if name == "pprof" else data
        assert b"\x1b]" not in data and b"\x1b\n" not in data
        if name != "pprof":
            data.decode()
    list(massif_snapshots(tmp_path / "hostile.massif"))
    assert "\n" in json.loads((tmp_path / "hostile.dhat").read_text())["cmd"]
    if shutil.which("ms_print"):
        words("ms_print", tmp_path / "hostile.massif", cwd=tmp_path)
    if shutil.which("heaptrack_print"):
        assert run([need("heaptrack_print"), "-f", tmp_path / "hostile.heaptrack"]) \
            .stderr.count(b"failed to parse") == 0
    if shutil.which("go"):
        assert "\x1b" not in pprof("-traces", tmp_path / "hostile.pprof")
