"""The rows that measure names: heft report without and with its cache, on a large stripped program
and on one with much debug information, and heaptrack's interpreter beside it.

heaptrack turns addresses into names in heaptrack_interpret, which reads the raw data of a run;
heft does in heft report. Both get a run of the same program, whose allocations are the same every
time, so the addresses are the same too. What each does besides (heft: reading the recording,
adding up, the report; the interpreter: writing its output) is small here, and counted.
"""
import os
import shutil
import subprocess

from bench_measure import key_values, median

INTERPRETERS = [
    "/usr/lib/heaptrack/libexec/heaptrack_interpret",
    "/usr/lib/x86_64-linux-gnu/libexec/heaptrack_interpret",
    "/usr/libexec/heaptrack_interpret",
]
UNITS = 20
GOAL_DWARF = 50_000_000

UNIT = """
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>

namespace unit@ {
template <int N> struct shape {
	std::map<std::string, std::vector<std::tuple<int, double, std::string>>> parts;
	std::unordered_map<int, std::shared_ptr<shape<N - 1>>> inner;
	std::variant<int, double, std::string, std::vector<int>> tag;
	void fill(int n)
	{
		for (int i = 0; i < n; i++)
			parts["a name that is too long to be kept inside " + std::to_string(i)]
				.emplace_back(i, i * 0.5, std::string(40 + N, 'x'));
		inner[n] = std::make_shared<shape<N - 1>>();
		inner[n]->fill(n);
		tag = std::vector<int>(N + 1);
	}
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
	void fill(int) {}
	int total() const { return 1; }
};
} // namespace unit@

int run@(int n)
{
	unit@::shape<16> big;
	big.fill(n);
	std::regex pattern("([a-z]+)-([0-9]+)|unit@");
	std::smatch match;
	std::vector<std::string> words;
	for (int i = 0; i < n; i++)
		words.push_back("a-long-enough-word-" + std::to_string(i));
	std::sort(words.begin(), words.end(), std::greater<>());
	std::set<std::string> seen;
	for (const auto &word : words)
		if (std::regex_match(word, match, pattern))
			seen.insert(match[1].str());
	std::ostringstream out;
	std::function<int(int)> twice = [&](int k) { return k * 2 + int(words.size()); };
	out << big.total() << ' ' << twice(n) << ' ' << seen.size();
	return int(out.str().size());
}
"""


def build_large(work, units):
    """The program with much debug information; kept from run to run."""
    folder = work / f"large-{units}"
    program = folder / "large"
    if program.exists():
        return program
    folder.mkdir(exist_ok=True)
    for i in range(units):
        (folder / f"unit{i}.cc").write_text(UNIT.replace("@", str(i)))
    (folder / "main.cc").write_text(
        "".join(f"int run{i}(int);\n" for i in range(units)) + "int main()\n{\n\tint sum = 0;\n" +
        "".join(f"\tsum += run{i}(3);\n" for i in range(units)) + "\treturn sum == 0;\n}\n")
    names = [f"unit{i}" for i in range(units)] + ["main"]
    while names:  # as many at a time as there are processors
        batch = [names.pop() for _ in range(min(len(names), os.cpu_count() or 1))]
        running = [subprocess.Popen(["g++", "-std=c++17", "-O1", "-g", "-c", f"{name}.cc"],
                                    cwd=folder) for name in batch]
        if any([process.wait() for process in running]):
            raise subprocess.CalledProcessError(1, "g++")
    objects = [f"unit{i}.o" for i in range(units)] + ["main.o"]
    subprocess.run(["g++", "-o", "large.partial", *objects], cwd=folder, check=True)
    (folder / "large.partial").rename(program)
    return program


def dwarf_bytes(program):
    """Bytes of all debug sections of a file."""
    listed = subprocess.run(["size", "-A", program], capture_output=True, text=True, check=False)
    words = [line.split() for line in listed.stdout.splitlines()]
    return sum(int(w[1]) for w in words if len(w) == 3 and w[0].startswith(".debug"))


def run_timed(bench, row, argv, cache):
    result = bench.work / "outer.result"
    environment = dict(bench.environment(row), XDG_CACHE_HOME=str(cache))
    done = subprocess.run(bench.timed(result, argv, True), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=environment, check=False)
    values = {key: int(value) for key, value in key_values(result.read_text()).items()}
    return {"wall_s": values["wall_ns"] / 1e9, "maxrss_kb": values["maxrss_kb"],
            "status": values["status"] or done.returncode, "timed_out": bool(values["timed_out"])}


def raw_data(bench, row):
    """heaptrack's raw data of the row, unpacked; None where it cannot be had."""
    if not bench.heaptrack:
        return None
    for path in bench.work.glob("raw-output*"):
        path.unlink()
    subprocess.run([bench.heaptrack, *bench.record_only, "--raw", "-o", bench.work / "raw-output",
                    *row.argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=bench.environment(row), check=False)
    packed = list(bench.work.glob("raw-output*"))
    if len(packed) != 1:
        return None
    unpacked = bench.work / "raw-data"
    tool = {"zst": "zstd", "gz": "gzip"}.get(packed[0].name.rsplit(".", 1)[-1])
    if not tool:
        return packed[0]
    with open(unpacked, "wb") as out:
        done = subprocess.run([tool, "-dc", packed[0]], stdout=out, check=False)
    packed[0].unlink()
    return unpacked if done.returncode == 0 else None


def measure_symbols(bench, row, repeat, say=lambda text: None):
    """Cold is with an empty cache of heft's own; files are in the page cache in all cases."""
    recording, cache = bench.work / "symbols.heft", bench.work / "symbol-cache"
    subprocess.run([bench.heft, "run", "-q", "--force", "-o", recording, "--", *row.argv],
                   stdout=subprocess.DEVNULL, env=bench.environment(row), check=False)
    out = {"row": row.name, "group": row.group, "argv": row.argv, "goal": None,
           "recording": {}, "dwarf_bytes": dwarf_bytes(row.argv[0]),
           "samples": {"cold": [], "warm": []}}
    interpreter = next((path for path in INTERPRETERS if os.path.exists(path)), None)
    raw = raw_data(bench, row) if interpreter and row.name == "symbols-dwarf" else None
    if raw:
        out["samples"]["heaptrack_interpret"] = []
    for _ in range(repeat):
        shutil.rmtree(cache, ignore_errors=True)
        for name in out["samples"]:
            argv = [bench.heft, "report", recording]
            if name == "heaptrack_interpret":
                argv = ["/bin/sh", "-c", f"exec {interpreter} < '{raw}'"]
            sample = run_timed(bench, row, argv, cache)
            out["samples"][name].append(sample)
            say(f"{row.name} {name}: {sample['wall_s']:.3f} s")
    for path in (recording, raw):
        if path:
            path.unlink(missing_ok=True)
    return out


def most_mb(samples):
    return max(sample["maxrss_kb"] for sample in samples) * 1024 / 1e6


def lines(results):
    """The table's text; empty without such rows."""
    out = []
    for result in results:
        if result["group"] != "symbols":
            continue
        out.append(f"{result['row']} ({result['dwarf_bytes'] / 1e6:.0f} MB of DWARF):")
        for name, samples in result["samples"].items():
            what = name if name == "heaptrack_interpret" else f"heft report, cache {name}"
            out.append(f"  {what}: {median(samples):.3f} s, {most_mb(samples):.0f} MB")
    return "\n".join(out)


def goals(results):
    """(text, measured, met or None) as bench_tables.goals gives them."""
    out = []
    for result in results:
        if result["group"] != "symbols":
            continue
        samples = result["samples"]
        failed = any(s["status"] for kind in samples.values() for s in kind)
        cold, warm = median(samples["cold"]), median(samples["warm"])
        limit_s, limit_mb = (3, 500) if result["row"] == "symbols-dwarf" else (1, 200)
        enough = result["row"] != "symbols-dwarf" or result["dwarf_bytes"] >= GOAL_DWARF
        memory = most_mb(samples["cold"])
        out.append((f"{result['row']}: report under {limit_s} s and {limit_mb} MB without the cache",
                    f"{cold:.2f} s, {memory:.0f} MB",
                    not failed and cold < limit_s and memory < limit_mb and (enough or None)))
        out.append((f"{result['row']}: under 0.3 s with it", f"{warm:.2f} s",
                    not failed and warm < 0.3))
        if samples.get("heaptrack_interpret"):
            ratio = median(samples["heaptrack_interpret"]) / cold
            out.append(("  heaptrack's interpreter over heft report without cache: at least 5",
                        f"{ratio:.1f}", ratio >= 5 if enough else None))
    return out
