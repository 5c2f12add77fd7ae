// A recording in words for an issue or a chat: what was run, four numbers, the findings, the greatest sites
// of what is selected. Names are anyone's text: nothing in them is markup.
import type { Place, Sites, Summary } from "./api";
import { MODE_WORDS, selectedUnit, state } from "./state";
import { selectionWords } from "./timeline";
import { amount, brief, bytes, claim, count, duration, functionWords, placeWords, share } from "./words";

// Inside of backticks and of a table's cell.
function code(text: string): string {
  return "`" + text.replace(/`/g, "'").replace(/\|/g, "\\|") + "`";
}
function prose(text: string): string {
  return brief(text, 900).replace(/[\\`*_{}[\]<>#|@&]/g, "\\$&");
}
function placeText(p: Place): string {
  return code(functionWords(p.function, 80) + (p.file ? " " + placeWords(p) : ""));
}

export function markdownSummary(summary: Summary, sites?: Sites): string {
  const t = summary.totals, has = summary.has;
  const facts: [string, string | false | undefined][] = [
    ["Peak heap", has.peak && `${bytes(t.peak_bytes)} in ${count(t.peak_blocks)} blocks${has.times ? ` at ${duration(t.peak_time_ns)}` : ""}`],
    [summary.process_count > 1 ? "Left at exit" : "Live at the end", has.live && `${bytes(summary.end_bytes)} in ${count(summary.end_blocks)} blocks`],
    ["Peak RSS", t.peak_rss_bytes ? bytes(t.peak_rss_bytes) : ""],
    ["Allocated", has.allocated && `${bytes(t.allocated_bytes)} in ${count(t.allocations)} blocks`],
    ["Duration", summary.duration_ns ? `${duration(summary.duration_ns)}, ${summary.end_words}` : ""],
    ["Recorded", `${summary.mode === "exact" ? "every allocation" : `samples, 1 per ${bytes(summary.rate_bytes)}`}; quality ${summary.quality.level}`],
  ];
  const out = [`### Heap of ${code(brief(summary.command.join(" ") || summary.name, 200))}`, "", "| | |", "|---|---|",
    ...facts.filter(([, words]) => words).map(([name, words]) => `| ${name} | ${words} |`), ""];
  if (summary.findings.length) out.push("**Findings**", "");
  for (const f of summary.findings) {
    out.push(`- **${f.severity}**, ${prose(f.kind)}: ${prose(claim(f.kind, f.summary))}${f.where ? ` (${placeText(f.where)})` : ""}`);
    if (f.advice) out.push(`  What to do: ${prose(f.advice)}`);
  }
  if (!summary.findings.length) out.push("heft found nothing wrong.");
  if (sites?.rows.length) {
    const unit = selectedUnit();
    out.push("", `**Greatest sites**, ${MODE_WORDS[state.value.mode].toLowerCase()}, ${prose(selectionWords(summary))}`, "",
      `| ${unit === "bytes" ? "Bytes" : "Blocks"} | Share | Site |`, "|---:|---:|---|",
      ...sites.rows.slice(0, 10).map((r) => `| ${amount(r.value, unit)} | ${share(r.value, sites.sum)} | ${placeText(r.place)} |`));
  }
  return out.join("\n") + "\n";
}
