// Sites: which line? One row a call stack that allocates; the server sorts and counts, the table shows
// what fits.
import { min } from "./arithmetic";
import type { Summary, SiteRow, Sites as Doc } from "./api";
import { CHOOSE, Amount, Callers, Document, Empty, FunctionName, PlaceName, ShareCell, Size, Sparkline, Table, Within, type Column } from "./bits";
import { useSelected } from "./fetch";
import { go, MODE_WORDS, selectedUnit, state } from "./state";
import { selectionWords } from "./timeline";
import { signal } from "@preact/signals";
import { brief, count, lifetime, several, type Unit } from "./words";

// How a column is called for the server: it returns the largest by this.
const SERVER_SORT: Record<string, string> = { peak: "peak", live: "live", allocated: "allocated", count: "count", temporary: "temporary", p99: "lifetime", value: "" };
const MANY = 5000;
const all = signal(false);

// The column of the selection has the name of the one that would repeat it.
function selectedHead(summary: Summary): string {
  const s = state.value;
  if (s.mode === "allocated") return s.metric === "bytes" ? "Allocated" : "Allocations";
  if (s.mode !== "live" || s.metric !== "bytes" || typeof s.at === "number") return "Selected";
  return s.at === "peak" ? "At peak" : endHead(summary);
}
function endHead(summary: Summary): string {
  return summary.process_count > 1 ? "Left at exit" : "At end";
}

// A column that would repeat what is selected is left out.
function columns(summary: Summary, sum: number, unit: Unit): Column<SiteRow>[] {
  const has = summary.has, s = state.value, bytewise = s.metric === "bytes";
  const repeats = { peak: s.mode === "live" && s.at === "peak" && bytewise, live: s.mode === "live" && s.at === "end" && bytewise,
    allocated: s.mode === "allocated" && bytewise, count: s.mode === "allocated" && !bytewise };
  const out: Column<SiteRow>[] = [
    { key: "place", head: "Site", wide: true, phone: true, value: (r) => r.place.function, cell: (r) => <><FunctionName name={r.place.function} most={70} /> <PlaceName place={r.place} /><Callers text={r.callers || r.called_by?.map((c) => brief(c, 40)).join(" < ")} /></> },
    { key: "value", head: selectedHead(summary), title: `What is selected above: ${MODE_WORDS[s.mode]}, ${selectionWords(summary)}`, number: true, phone: true, value: (r) => r.value, cell: (r) => <><Amount n={r.value} unit={unit} /><Within n={r.error95} unit={unit} /></> },
    { key: "share", head: "Share", cell: (r) => <ShareCell part={r.value} whole={sum} /> },
  ];
  if (has.times) out.push({ key: "trend", head: "Over the run", cell: (r) => <Sparkline points={r.trend} /> });
  const bytes = (key: string, head: string, field: "peak_bytes" | "end_bytes" | "allocated_bytes", title?: string) =>
    out.push({ key, head, title, number: true, value: (r) => r[field] ?? 0, cell: (r) => <Size n={r[field]} /> });
  const counts = (key: string, head: string, field: "allocations" | "temporary", title?: string) =>
    out.push({ key, head, title, number: true, value: (r) => r[field] ?? 0, cell: (r) => <span class="num">{count(r[field])}</span> });
  if (has.peak && !repeats.peak) bytes("peak", "At peak", "peak_bytes");
  if (has.live && !repeats.live) bytes("live", endHead(summary), "end_bytes", "Does not depend on the selection");
  if (has.allocated) {
    if (!repeats.allocated) bytes("allocated", "Allocated", "allocated_bytes");
    if (!repeats.count) counts("count", "Allocations", "allocations");
  }
  if (has.temporary && summary.totals.temporary) counts("temporary", "Temporary", "temporary", "Freed before the thread's next allocation");
  const life = (key: "p50" | "p99", title: string) => out.push({ key, head: "Life " + key, title, number: true, value: (r) => r.lifetime_ns?.[key] ?? -1, cell: (r) => <span class="num">{lifetime(r.lifetime_ns?.[key])}</span> });
  if (has.lifetimes) {
    life("p50", "Median lifetime");
    life("p99", "99 of 100 blocks live no longer than this");
  }
  out.push({ key: "freed_by", head: "Freed by", cell: (r) => <span class="freed">{r.freed_by ? brief(r.freed_by, 40) : "–"}</span> });
  return out;
}

export function SitesView({ summary }: { summary: Summary }) {
  const s = state.value;
  const key = s.sort.replace(/^-/, "");
  const answer = useSelected<Doc>(summary, "sites", {
    sort: SERVER_SORT[key] || undefined, n: all.value ? MANY : undefined, search: s.search || undefined });
  const unit = selectedUnit();
  return <Document answer={answer}>{(doc) => doc.rows.length === 0
    ? <Empty title="No sites here">{s.search ? "Nothing matches the search." : CHOOSE}</Empty>
    : <>
      <Table label="Sites" columns={columns(summary, doc.sum, unit)} rows={doc.rows} sort="value"
        chosen={(r) => r.id === s.site} open={(r) => go({ site: r.id, node: "" })} rowKey={(r) => r.id} />
      <p class="note">{count(doc.rows.length)} of {several(doc.count, "site")}.{doc.count > doc.rows.length && !all.value && <> <button class="link" onClick={() => (all.value = true)}>Show {count(min(MANY, doc.count))}</button></>}</p>
    </>}</Document>;
}
