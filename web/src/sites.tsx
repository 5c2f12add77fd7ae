// Sites: which line? One row a call stack that allocates; the server sorts and counts, the table shows
// what fits.
import { min } from "./arithmetic";
import type { Summary, SiteRow, Sites as Doc } from "./api";
import { CHOOSE, Amount, Callers, Document, Empty, FunctionName, PlaceName, ShareCell, Size, Sparkline, Table, Within, type Column } from "./bits";
import { useSelected } from "./fetch";
import { go, selectedUnit, state } from "./state";
import { signal } from "@preact/signals";
import { brief, count, lifetime, several, type Unit } from "./words";

// How a column is called for the server: it returns the largest by this.
const SERVER_SORT: Record<string, string> = { peak: "peak", live: "live", allocated: "allocated", count: "count", temporary: "temporary", p99: "lifetime", value: "" };
const MANY = 5000;
const all = signal(false);

function columns(summary: Summary, sum: number, unit: Unit): Column<SiteRow>[] {
  const has = summary.has;
  const out: Column<SiteRow>[] = [
    { key: "place", head: "Site", wide: true, phone: true, value: (r) => r.place.function, cell: (r) => <><FunctionName name={r.place.function} most={70} /> <PlaceName place={r.place} /><Callers text={r.callers} /></> },
    { key: "value", head: "Selected", title: "Of what is selected above", number: true, phone: true, value: (r) => r.value, cell: (r) => <><Amount n={r.value} unit={unit} /><Within n={r.error95} unit={unit} /></> },
    { key: "share", head: "Share", cell: (r) => <ShareCell part={r.value} whole={sum} /> },
  ];
  if (has.times) out.push({ key: "trend", head: "Over the run", cell: (r) => <Sparkline points={r.trend} /> });
  if (has.peak) out.push({ key: "peak", head: "At peak", number: true, value: (r) => r.peakBytes, cell: (r) => <Size n={r.peakBytes} /> });
  if (has.live) out.push({ key: "live", head: summary.processCount > 1 ? "Left at exit" : "At end", title: "Whatever is selected", number: true, value: (r) => r.leftBytes, cell: (r) => <Size n={r.leftBytes} /> });
  if (has.allocated) {
    out.push({ key: "allocated", head: "Allocated", number: true, value: (r) => r.allocatedBytes, cell: (r) => <Size n={r.allocatedBytes} /> });
    out.push({ key: "count", head: "Allocations", number: true, value: (r) => r.allocations, cell: (r) => <span class="num">{count(r.allocations)}</span> });
  }
  if (has.temporary && summary.totals.temporary) out.push({ key: "temporary", head: "Temporary", title: "Freed before the thread's next allocation", number: true, value: (r) => r.temporary, cell: (r) => <span class="num">{count(r.temporary)}</span> });
  const life = (key: "p50" | "p99", title: string) => out.push({ key, head: "Life " + key, title, number: true, value: (r) => r[`${key}Ns`] ?? -1, cell: (r) => <span class="num">{lifetime(r[`${key}Ns`])}</span> });
  if (has.lifetimes) {
    life("p50", "Median lifetime");
    life("p99", "99 of 100 blocks live no longer");
  }
  out.push({ key: "freedBy", head: "Freed by", cell: (r) => <span class="freed">{r.freedBy ? brief(r.freedBy, 40) : "–"}</span> });
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
