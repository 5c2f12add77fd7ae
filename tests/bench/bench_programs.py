"""The rows of the benchmark: which commands are measured, and the inputs they get.

Every input is generated from fixed rules into the work directory, so that nothing large lives in
the repository and two runs on one machine measure the same thing. A row whose program is not
installed is left out and named. Sizes are chosen so that the plain command takes roughly 0.3 to 1
second (the short runs excepted: they are there to show start-up), which under heaptrack becomes up
to 20 seconds, and for cc1plus up to a minute.
"""
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import bench_symbols

HERE = Path(__file__).resolve().parent
CFLAGS = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra"]
PYTHON = "/usr/bin/python3"  # Debian's; a shim of a version manager would be what is measured


class Row:
    """One command. goal says which goals it counts for: 'micro', 'real', 'short' or None."""

    def __init__(self, name, group, argv, env=None, goal=None, result=None, note=""):
        self.name = name
        self.group = group
        # The full path: heaptrack takes a bare "true" for the shell's own.
        self.argv = [shutil.which(str(argv[0])) or str(argv[0]), *(str(word) for word in argv[1:])]
        self.env = env or {}
        self.goal = goal
        self.result = result  # where a micro program writes its own figures
        self.note = note


def build_tools(work):
    """Compiles the launcher and the micro programs; returns their paths."""
    launcher, micro = work / "timed", work / "micro"
    compiler = os.environ.get("CC", "gcc")
    subprocess.run([compiler, *CFLAGS, HERE / "timed.c", "-o", launcher], check=True)
    subprocess.run(
        [compiler, *CFLAGS, "-fno-optimize-sibling-calls", HERE / "micro.c", HERE / "micro_json.c",
         "-pthread", "-o", micro],
        check=True)
    return launcher, micro


# Pairs a thread (documents of about 8,750 allocations for json), for 1 and for 2 threads. Two
# threads get fewer each: heaptrack serialises them, and takes twice as long for the same count.
MICRO_WORK = {
    "same": (15_000_000, 8_000_000),
    "top": (15_000_000, 8_000_000),
    "disjoint": (10_000_000, 6_000_000),
    "json": (800, 400),
}
HANDOVER_PAIRS = 5_000_000
SCALE_DOCUMENTS = 840  # divisible by 1 to 8
REPORT_DOCUMENTS = 3_600  # 60 million events: an allocation or reallocation, or a free
SMALLER = 4  # what --quick divides by


def micro_rows(work, micro, quick):
    divide = SMALLER if quick else 1
    result = work / "micro.result"

    def row(name, kind, threads, iterations, goal):
        argv = [micro, kind, threads, iterations // divide, result]
        return Row(name, "micro", argv, goal=goal, result=result)

    for kind, counts in MICRO_WORK.items():
        for threads, iterations in zip((1, 2), counts):
            yield row(f"{kind}-{threads}", kind, threads, iterations, "micro")
    yield row("handover", "handover", 2, HANDOVER_PAIRS, "micro")


def scale_rows(work, micro, quick):
    result = work / "micro.result"
    for threads in range(1, 9):
        documents = SCALE_DOCUMENTS // (SMALLER if quick else 1) // threads
        yield Row(f"scale-{threads}", "scale", [micro, "json", threads, documents, result],
                  result=result)


def report_row(work, micro, quick):
    documents = REPORT_DOCUMENTS // (SMALLER if quick else 1)
    return Row("report-60M", "report", [micro, "json", 1, documents, work / "micro.result"])


def write_once(path, make):
    """Writes path from make() unless it is there; the name carries the size, so sizes never mix."""
    if not path.exists():
        partial = path.with_suffix(path.suffix + ".partial")
        partial.write_text(make())
        partial.rename(path)
    return path


def json_text(records):
    return json.dumps([
        {"id": i, "name": f"record-{i * 7919 % records}", "tags": [f"t{i % 17}", f"u{i % 5}"],
         "score": i * 0.25, "owner": {"team": f"team-{i % 50}", "active": i % 3 == 0}}
        for i in range(records)
    ])


def c_text(functions):
    """Preprocessed C: small functions with loops, switches, structures and calls among them."""
    out = ["typedef unsigned long size;",
           "struct node { struct node *next; int key; double weight; char name[16]; };"]
    for i in range(functions):
        callee = f"work_{i - 1}" if i else "0 * (long)"
        out.append(f"""
static long table_{i}[{i % 7 + 3}];
long work_{i}(struct node *list, long seed)
{{
	long sum = seed + {i};
	for (struct node *at = list; at; at = at->next) {{
		switch (at->key % {i % 5 + 3}) {{
		case 0: sum += at->key * {i % 11 + 1}; break;
		case 1: sum ^= (long)(at->weight * {i % 13}.5); break;
		default: sum -= at->name[{i % 16}]; break;
		}}
		table_{i}[at->key % {i % 7 + 3}] += sum;
	}}
	if (sum > {i * 31})
		return {callee}({'list, sum - 1' if i else 'seed'});
	return sum + table_{i}[{i % 3}];
}}""")
    return "\n".join(out) + "\n"


CXX_SOUP = """
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

template <int N> struct shape {
	std::map<std::string, std::vector<std::tuple<int, double, std::string>>> parts;
	std::unordered_map<int, std::shared_ptr<shape<N - 1>>> inner;
	std::variant<int, double, std::string, std::vector<int>> tag;
	int total() const
	{
		int sum = N;
		for (const auto &[name, list] : parts)
			for (const auto &[a, b, c] : list)
				sum += a + int(b) + int(c.size() + name.size());
		for (const auto &entry : inner)
			sum += entry.second->total();
		std::visit([&](const auto &) { sum++; }, tag);
		return sum;
	}
};
template <> struct shape<0> {
	int total() const { return 1; }
};

int main(int argc, char **argv)
{
	std::regex pattern("([a-z]+)-([0-9]+)");
	std::smatch match;
	std::vector<std::string> words(argv, argv + argc);
	std::sort(words.begin(), words.end(), std::greater<>());
	shape<4> big;
	std::set<std::string> seen;
	for (const auto &word : words)
		if (std::regex_match(word, match, pattern))
			seen.insert(match[1].str());
	std::ostringstream out;
	std::mt19937 random(42);
	std::function<int(int)> twice = [&](int n) { return n * 2 + int(random() % 3); };
	out << big.total() << ' ' << twice(argc) << ' ' << seen.size();
	std::cout << out.str() << std::endl;
}
"""


def cxx_input(work):
    source, preprocessed = work / "soup.cc", work / "soup.ii"
    source.write_text(CXX_SOUP)
    subprocess.run(["g++", "-std=c++17", "-E", source, "-o", preprocessed], check=True)
    return preprocessed


def git_input(work, commits=600):
    repository = work / f"repository-{commits}"
    if repository.exists():
        return repository
    partial = work / "repository.partial"
    shutil.rmtree(partial, ignore_errors=True)
    subprocess.run(["git", "init", "-q", "-b", "main", partial], check=True)
    stream = []
    for i in range(commits):
        message = f"Change number {i}\n\nThe reason for change {i}.\n"
        content = "\n".join(f"line {j} of version {i}" for j in range(i % 40 + 1))
        stream.append(
            f"commit refs/heads/main\ncommitter A <a@example.org> {1700000000 + i * 60} +0000\n"
            f"data {len(message)}\n{message}M 100644 inline file-{i % 20}\n"
            f"data {len(content)}\n{content}\n")
    subprocess.run(["git", "-C", partial, "fast-import", "--quiet"], input="".join(stream),
                   text=True, check=True)
    partial.rename(repository)
    return repository


def dot_text(nodes):
    edges = "".join(f"  n{i} -> n{(i * 7 + 3) % nodes};\n  n{i} -> n{i // 2};\n"
                    for i in range(nodes))
    return f"digraph bench {{\n{edges}}}\n"


def compiler_pass(driver, name):
    """cc1 or cc1plus itself: the driver only forks it."""
    found = subprocess.run([driver, f"-print-prog-name={name}"], capture_output=True, text=True,
                           check=False) if shutil.which(driver) else None
    path = found.stdout.strip() if found else ""
    return path if os.path.isabs(path) else None


def real_rows(work, quick):
    """Yields (row, None) or (None, what is missing)."""
    divide = SMALLER if quick else 1
    quiet_git = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_PAGER": "cat"}

    def row(program, name, *args, **kwargs):
        found = program and shutil.which(program)
        return (Row(name, *args, **kwargs), None) if found else (None, name)

    rows_sql = write_once(
        work / f"rows-{divide}.sql",
        lambda: re.sub(r"n < \d+", lambda m: f"n < {int(m[0][4:]) // divide}",
                       (HERE / "bench_rows.sql").read_text()))
    yield row("sqlite3", "sqlite3", "real", ["sqlite3", ":memory:", f".read {rows_sql}"],
              goal="real")
    yield row("perl", "perl", "real", ["perl", HERE / "bench_hashes.pl", 4, 40000 // divide],
              goal="real")
    records = write_once(work / f"records-{divide}.json", lambda: json_text(60000 // divide))
    yield row("jq", "jq", "real",
              ["jq", "-c", "group_by(.owner.team) | map({team: .[0].owner.team, n: length, "
               "names: map(.name | ascii_upcase)})", records], goal="real")
    yield row(PYTHON, "python3", "real", [PYTHON, HERE / "bench_objects.py", 200000 // divide, 3],
              env={"PYTHONMALLOC": "malloc"}, goal="real", note="PYTHONMALLOC=malloc")
    cc1, cc1plus = compiler_pass("gcc", "cc1"), compiler_pass("g++", "cc1plus")
    functions = write_once(work / f"functions-{divide}.i", lambda: c_text(800 // divide))
    yield row(cc1, "cc1", "real",
              [cc1, "-quiet", "-fpreprocessed", "-O1", functions, "-o", "/dev/null"], goal="real")
    soup = cxx_input(work) if cc1plus else "soup.ii"
    for level in ("-O0", "-O2"):
        yield row(cc1plus, f"cc1plus{level}", "real",
                  [cc1plus, "-quiet", "-std=c++17", "-fpreprocessed", level, soup, "-o",
                   "/dev/null"], goal="real")
    if shutil.which("git"):
        repository = git_input(work)
        yield row("git", "git-log", "short", ["git", "-C", repository, "log", "-p"],
                  env=quiet_git, goal="short")
    else:
        yield None, "git-log"
    graph = write_once(work / "graph.dot", lambda: dot_text(60))
    yield row("dot", "dot", "short", ["dot", "-Tsvg", graph], goal="short")
    yield row(PYTHON, "python3-pass", "short", [PYTHON, "-c", "pass"], goal="short")
    yield row("true", "true", "start", ["true"])


def symbol_rows(work, quick):
    """Measured by bench_symbols.py; the second program is built when its turn comes."""
    cc1plus = compiler_pass("g++", "cc1plus")
    if not cc1plus:
        return
    yield Row("symbols-cc1plus", "symbols",
              [cc1plus, "-quiet", "-std=c++17", "-fpreprocessed", "-O2", work / "soup.ii", "-o",
               "/dev/null"])
    units = bench_symbols.UNITS // (SMALLER if quick else 1)
    yield Row("symbols-dwarf", "symbols", [work / f"large-{units}" / "large"],
              env={"UNITS": str(units)})


def all_rows(work, micro, quick):
    rows = list(micro_rows(work, micro, quick))
    missing = []
    for row, name in real_rows(work, quick):
        if row:
            rows.append(row)
        else:
            missing.append(name)
    rows += scale_rows(work, micro, quick)
    rows.append(report_row(work, micro, quick))
    rows += symbol_rows(work, quick)
    return rows, missing
