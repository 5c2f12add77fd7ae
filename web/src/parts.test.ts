import assert from "node:assert/strict";
import test from "node:test";
import type { Finding, Process, Summary } from "./api";
import { sortRows, type Column } from "./bits";
import { powerTicks, ticks, tidy, timeTicks } from "./chart_parts";
import { endWords, evidenceWords, explainPatch } from "./findings";
import { bucketLow } from "./lifetimes";
import { markdownSummary } from "./markdown";
import { processRows } from "./processes";
import { escapeXml } from "./svg_text";
import { indexAt } from "./timeline";

test("tables sort numbers downwards first, words upwards", () => {
  const columns: Column<{ n: number; w: string }>[] = [
    { key: "n", head: "", number: true, cell: () => "", value: (r) => r.n }, { key: "w", head: "", cell: () => "", value: (r) => r.w }];
  const rows = [{ n: 1, w: "b" }, { n: 3, w: "a" }, { n: 2, w: "c" }];
  assert.deepEqual(sortRows(rows, columns, "n").map((r) => r.n), [3, 2, 1]);
  assert.deepEqual(sortRows(rows, columns, "-n").map((r) => r.n), [1, 2, 3]);
  assert.deepEqual(sortRows(rows, columns, "w").map((r) => r.w), ["a", "b", "c"]);
  assert.deepEqual(sortRows(rows, columns, "unknown"), rows);
});

test("many processes of one program are one row, with the greatest and sums", () => {
  const one = (number: number, program: string): Process => ({ number, pid: 100 + number, ppid: 1, program, command: ["/bin/" + program, "x"], name: program, exe: "/bin/" + program, end: "exit",
    start_ns: 0, run_ns: 10, totals: { peak_bytes: 1000 - number, peak_rss_bytes: number, left_bytes: 3, left_blocks: 1, allocated_bytes: 7 } });
  const all = [...Array.from({ length: 30 }, (_, i) => one(i, "echo")), ...[30, 31, 32, 33].map((i) => one(i, "server"))];
  const rows = processRows(all, false);
  assert.deepEqual(rows.map((r) => r.words), ["echo (30 processes)", "server x", "server x", "server x", "server x"]);
  assert.deepEqual(rows[0], { number: -1, program: "echo", words: "echo (30 processes)", pid: 100, peak: 1000, rss: 29, left: 90, ran: 300, allocated: 210 });
  assert.equal(rows[1].number, 30);
  assert.equal(processRows(all, true).length, 34);
});

test("several processes leave what one has at the end", () => {
  const of = (process_count: number, live: boolean) => endWords({ process_count, live, processes: [{}, {}] } as unknown as Summary);
  assert.equal(of(1, false), "Live at the end"); // two programs by exec are one process
  assert.equal(of(1, true), "Live now");
  assert.equal(of(2, false), "Left at exit");
  assert.equal(of(2, true), "Left at exit or live now");
});

test("axes have few, round ticks", () => {
  assert.deepEqual(ticks(3 * 1048576), [1048576, 2097152, 3145728]);
  assert.deepEqual(ticks(700), [200, 400, 600]);
  assert.deepEqual(ticks(904353, "count"), [200000, 400000, 600000, 800000]);
  assert.deepEqual(powerTicks(512, 20000, 400, 50), [1000, 2000, 5000, 10000, 20000]);
  assert.deepEqual(powerTicks(512, 20000, 100, 50), [1000, 10000]); // too narrow for 2 and 5
  assert.deepEqual(["1.00 s", "1.50 s", "15.0 MiB", "500 ms", "200,000"].map(tidy), ["1 s", "1.5 s", "15 MiB", "500 ms", "200,000"]);
  assert.deepEqual(timeTicks(0, 1000, 5), [0, 200, 400, 600, 800, 1000]);
});

test("the point of a time is the last one not after it", () => {
  assert.equal(indexAt([0, 10, 20], 0), 0);
  assert.equal(indexAt([0, 10, 20], 19), 1);
  assert.equal(indexAt([0, 10, 20], 99), 2);
});

test("Explain starts from a clean selection", () => {
  const finding = { explain: { view: "flame", mode: "grew", from: 5, to: 9, focus: "f" }, site: 3 } as unknown as Finding;
  const patch = explainPatch(finding);
  assert.equal(patch.view, "flame");
  assert.equal(patch.mode, "grew");
  assert.equal(patch.thread, "");
  assert.equal(patch.site, 3);
  assert.equal(explainPatch({ ...finding, explain: { view: "nonsense" } } as Finding).view, "flame");
});

test("evidence has the unit that its name says", () => {
  assert.equal(evidenceWords("backlog_bytes", 2048), "2.0 KiB");
  assert.equal(evidenceWords("usable_bytes_each", 10), "10 B");
  assert.equal(evidenceWords("bytes_per_second_error95", 1024), "1.0 KiB/s");
  assert.equal(evidenceWords("per_second", 1024), "1,024");
  assert.equal(evidenceWords("wait_mean_ns", 1500), "1.5 us");
  assert.equal(evidenceWords("freed_share", 0.125), "12.5 %");
  assert.equal(evidenceWords("in_order", 1), "100.0 %");
  assert.equal(evidenceWords("instances", 1234567), "1,234,567");
});

test("lifetime buckets begin at 0, 512, 1024 ns", () => {
  assert.deepEqual([0, 1, 2, 3].map(bucketLow), [0, 512, 1024, 2048]);
});

test("hostile text is inert in SVG", () => {
  assert.equal(escapeXml(`<script>"'&\u0000\ud800`), "&lt;script&gt;&quot;&#39;&amp;\ufffd\ufffd");
});

test("a summary in Markdown: numbers, findings, sites; names are no markup", () => {
  const place = { function: "a|b`c", file: "/src/x.c", line: 3, module: "m" };
  const summary = { command: ["./prog", "<b>"], name: "x.heft", mode: "exact", rate_bytes: 0, process_count: 1, start_ns: 0, end_ns: 2e9, duration_ns: 2e9, end_words: "exit status 0", end_bytes: 2048, end_blocks: 2,
    quality: { level: "good", words: [] }, has: { peak: true, live: true, allocated: true, times: true }, totals: { peak_bytes: 1048576, peak_blocks: 7, peak_time_ns: 1e9, allocated_bytes: 3145728, allocations: 9 },
    findings: [{ kind: "growing-site", severity: "high", bytes: 1, summary: "It [grows](http://x) @all", evidence: {}, site: 1, advice: "Stop *it*.", where: place, callers: "", trend: [], explain: { view: "flame" } }] } as unknown as Summary;
  const text = markdownSummary(summary, { count: 1, sum: 200, rows: [{ place, value: 100 } as never] });
  assert.deepEqual(text.split("\n"), ["### Heap of `./prog <b>`", "", "| | |", "|---|---|", "| Peak heap | 1.0 MiB in 7 blocks at 1.00 s |", "| Live at the end | 2.0 KiB in 2 blocks |", "| Allocated | 3.0 MiB in 9 blocks |",
    "| Duration | 2.00 s, exit status 0 |", "| Recorded | every allocation; quality good |", "", "**Findings**", "", "- **high**, growing-site: It \\[grows\\](http://x) \\@all (`a\\|b'c x.c:3`)", "  What to do: Stop \\*it\\*.", "",
    "**Greatest sites**, live at instant, at peak, 1.00 s", "", "| Bytes | Share | Site |", "|---:|---:|---|", "| 100 B | 50.0 % | `a\\|b'c x.c:3` |", ""]);
});
