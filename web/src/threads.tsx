// Threads: who allocates, and who hands memory to whom: rows allocate, columns free.
import { max } from "./arithmetic";
import type { Summary, Thread, Threads as Doc } from "./api";
import { Amount, Document, Table, Within, type Column } from "./bits";
import { useDocument } from "./fetch";
import { address, go, processOf, state } from "./state";
import { brief, clean, count, duration, several, threadWords } from "./words";

const MOST = 16;
const labelOf = (t: Thread) => threadWords(t.tid, t.name);
const nameOf = (t: Thread) => (t.tid ? String(t.tid) : labelOf(t)); // as the server selects one

export function ThreadsView({ summary }: { summary: Summary }) {
  const answer = useDocument<Doc>(address(`/api/r/${summary.id}/threads`, processOf(state.value)));
  return <Document answer={answer}>{(doc) => {
    // A number may be used again: such threads have their process and then their place behind them.
    const texts = doc.threads.map(labelOf), pids = new Set(doc.threads.map((t) => t.pid)).size > 1;
    const same = texts.map((text, i) => texts.indexOf(text) !== texts.lastIndexOf(text) ? `${text}${pids ? `, pid ${doc.threads[i].pid}` : ""}, ${texts.slice(0, i + 1).filter((x) => x === text).length}` : text);
    const label = (i: number) => (i < 0 ? "others" : same[i] ?? "");
    const nameColumn: Column<Thread> = { key: "name", head: "Thread", wide: true, phone: true, value: labelOf, cell: (t) => <span class="function">{brief(label(doc.threads.indexOf(t)), 60)}</span> };
    return <>
    <h2>Hand-overs: the row's thread allocated, the column's thread freed</h2>
    {doc.cells.some((c) => c.frees > 0 && c.from !== c.to) ? <Matrix doc={doc} label={label} />
      : doc.threads.length < 2 ? <p class="note">There is one thread: it frees what it allocated.</p>
        : summary.has.matrix ? <p class="note">No thread frees what another one allocated. Every block was freed by the thread that allocated it, or not at all.</p>
          : <p class="note">{summary.mode === "sample" ? "A sampled recording" : `A ${clean(summary.format)} file`} does not record which thread freed a block. An exact recording (heft run) does.</p>}
    <h2>What each thread allocated</h2>
    <Table label="Threads" columns={[nameColumn, ...COLUMNS].filter((c) => doc.threads.some((t) => c.key in t))} rows={doc.threads} sort={summary.has.matrix ? "allocated_bytes" : "live_bytes"}
      open={summary.has.windows ? (t) => go({ thread: nameOf(t), view: "flame" }) : undefined} chosen={(t) => nameOf(t) === state.value.thread} rowKey={(t, i) => `${t.pid}-${t.tid}-${i}`} />
    {summary.has.windows && <p class="note">Choose a row to see the flame graph of what its thread allocated.</p>}
    </>;
  }}</Document>;
}

// Keys are names of fields: what the file does not tell has no column.
const number = (key: "live_bytes" | "live_blocks" | "allocated_bytes" | "allocations" | "frees", head: string, phone?: boolean, error?: "live_bytes_error95" | "live_blocks_error95"): Column<Thread> => {
  const unit = key.endsWith("bytes") ? "bytes" : "count";
  return { key, head, number: true, phone, value: (t) => t[key] ?? 0, cell: (t) => <><Amount n={t[key] ?? 0} unit={unit} />{error && <Within n={t[error]} unit={unit} />}</> };
};
const COLUMNS: Column<Thread>[] = [
  number("live_bytes", "Live", true, "live_bytes_error95"), number("live_blocks", "Live blocks", false, "live_blocks_error95"),
  number("allocated_bytes", "Allocated", true), number("allocations", "Allocations"), number("frees", "Frees", true),
];

function Matrix({ doc, label }: { doc: Doc; label: (i: number) => string }) {
  const weight = (side: "from" | "to") => {
    const sums = new Map<number, number>();
    for (const c of doc.cells) sums.set(c[side], (sums.get(c[side]) ?? 0) + c.frees);
    return [...sums].sort((a, b) => b[1] - a[1]).map(([i]) => i);
  };
  const rows = weight("from"), columns = weight("to");
  const name = (i: number) => brief(label(i), 24);
  const cells = new Map(doc.cells.map((c) => [`${c.from} ${c.to}`, c]));
  const most = max(...doc.cells.map((c) => c.frees), 1);
  const hiddenRows = max(0, rows.length - MOST), hiddenColumns = max(0, columns.length - MOST);
  return <>
    <div class="matrix" tabIndex={0} role="region" aria-label="Hand-overs"><table>
      <caption class="hidden">Blocks allocated by a row's thread and freed by a column's</caption>
      <thead><tr><th scope="col">allocated ↓ freed →</th>{columns.slice(0, MOST).map((c) => <th key={c} scope="col" class="number">{name(c)}</th>)}</tr></thead>
      <tbody>{rows.slice(0, MOST).map((r) => <tr key={r}><th scope="row">{name(r)}</th>{columns.slice(0, MOST).map((c) => {
        const cell = cells.get(`${r} ${c}`);
        return <td key={c} class={r === c ? "number same" : "number"} style={cell ? { "--heat-part": String(0.08 + 0.42 * (cell.frees / most)) } : undefined}
          title={cell ? `${name(r)} to ${name(c)}: ${several(cell.frees, "block")}, after ${duration(cell.wait_mean_ns)} on average` : undefined}>
          {cell ? <>{count(cell.frees)} <span class="faint">{duration(cell.wait_mean_ns)}</span></> : <span class="faint">–</span>}</td>;
      })}</tr>)}</tbody>
    </table></div>
    <p class="note">Blocks, and how long they lived on average.{hiddenRows + hiddenColumns > 0 && ` Not shown: ${several(hiddenRows, "row")} and ${several(hiddenColumns, "column")} with fewer blocks.`}</p>
  </>;
}
