// Processes: which one? A row each, or of many those of one program together. A row chooses what the
// whole page is about: timeline, moments, findings, flame graph, sites.
import { max } from "./arithmetic";
import type { Process, Summary } from "./api";
import { Empty, Size, Table, Toggle, type Column } from "./bits";
import { chooseProcess, state, go } from "./state";
import { baseName, brief, clean, duration, several } from "./words";

// The rules of src/profile/process_groups.h: up to so many are shown one by one; of more, so many of one
// program are one row.
export const APART = 20, ALIKE = 5;

interface Row {
  number: number; // -1: several
  program: string;
  words: string;
  pid: number; // of several: of the greatest, which comes first
  peak: number;
  rss: number;
  left: number;
  ran: number;
  allocated: number;
}

export function commandWords(p: Process): string {
  return [p.program, ...p.command.slice(1)].map(clean).join(" ");
}

export function processRows(processes: Process[], each: boolean): Row[] {
  const groups = new Map<string | number, Process[]>();
  for (const p of processes) {
    const key = each ? p.number : p.program;
    const group = groups.get(key);
    if (group) group.push(p);
    else groups.set(key, [p]);
  }
  const parts = [...groups.values()].flatMap((group) => (group.length < ALIKE ? group.map((p) => [p]) : [group]));
  return parts.map((group) => {
    const one = group.length === 1, first = group[0];
    const sum = (of: (p: Process) => number) => group.reduce((s, p) => s + of(p), 0);
    const most = (of: (p: Process) => number) => group.reduce((m, p) => max(m, of(p)), 0);
    return {
      number: one ? first.number : -1, program: first.program, pid: first.pid,
      words: one ? commandWords(first) : `${clean(first.program)} (${several(new Set(group.map((p) => p.pid)).size, "process", "es")})`,
      peak: most((p) => p.totals.peak_bytes ?? 0), rss: most((p) => p.totals.peak_rss_bytes ?? 0), left: sum((p) => p.totals.left_bytes ?? 0),
      ran: sum((p) => p.run_ns), allocated: sum((p) => p.totals.allocated_bytes ?? 0),
    };
  });
}

// What is chosen, for the chip and the title.
export function chosenWords(summary: Summary): string {
  const s = state.value;
  const p = s.process ? summary.processes.find((x) => x.number === s.process - 1) : undefined;
  return p ? `${brief(commandWords(p), 24)} (pid ${p.pid})` : s.program ? `all of ${brief(baseName(s.program), 40)}` : `process ${s.process}`;
}

const COLUMNS: Column<Row>[] = [
  { key: "command", head: "Command", wide: true, phone: true, value: (r) => r.words, cell: (r) => <span class="function" title={r.words}>{brief(r.words, 90)}</span> },
  { key: "pid", head: "PID", number: true, value: (r) => r.pid, cell: (r) => <span class="num">{r.pid}</span> },
  { key: "peak", head: "Peak", number: true, phone: true, value: (r) => r.peak, cell: (r) => <Size n={r.peak} /> },
  { key: "rss", head: "Peak RSS", number: true, value: (r) => r.rss, cell: (r) => r.rss ? <Size n={r.rss} /> : "–" },
  { key: "left", head: "Left at exit", title: "Not freed when it ended", number: true, phone: true, value: (r) => r.left, cell: (r) => <Size n={r.left} /> },
  { key: "allocated", head: "Allocated", number: true, value: (r) => r.allocated, cell: (r) => <Size n={r.allocated} /> },
  { key: "ran", head: "Ran", number: true, value: (r) => r.ran, cell: (r) => <span class="num">{duration(r.ran)}</span> },
];

export function ProcessesView({ summary }: { summary: Summary }) {
  const s = state.value, all = summary.processes, many = all.length > APART;
  const search = s.search.toLowerCase();
  const rows = processRows(all, s.each || !many).filter((r) => `${r.words} ${r.pid}`.toLowerCase().includes(search));
  const chosen = (r: Row) => (r.number < 0 ? r.program === s.program : r.number === s.process - 1);
  return <>
    <div class="view-bar">
      {many && <Toggle on={s.each} set={(each) => go({ each })} title="Show each process in a row of its own">Each process</Toggle>}
      {(s.process || s.program) ? <button onClick={() => chooseProcess(0, "")} title="Esc">All processes</button> : ""}
    </div>
    {rows.length ? <Table label="Processes" columns={COLUMNS} rows={rows} sort="peak" chosen={chosen} rowKey={(r) => r.number < 0 ? r.program : r.number}
      open={(r) => chosen(r) ? chooseProcess(0, "") : chooseProcess(r.number + 1, r.number < 0 ? r.program : "")} />
      : <Empty title="No process here">Nothing matches the search.</Empty>}
    <p class="note">{brief(summary.thread_words, 60)}. {rows.some((r) => r.number < 0) && "A row for several processes shows the PID, peak and peak RSS of the largest one. Its other numbers are sums; times of processes that ran at once are added up too. "}Choose a row to show it on the whole page; Esc goes back to all.</p>
  </>;
}
