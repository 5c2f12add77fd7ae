// Ledgers as the Memory view draws them: which one belongs to the chosen instant, the layers of the picture, where
// its bars stand, and the rows of its table.
import { abs, max, min } from "./arithmetic";
import type { Ledger, Ledgers, LedgerLine } from "./api";

// Of other allocators and of anonymous memory, whose makers matter, this many have layers of their own.
const MAKERS = 3;
const BY_NAME = ["allocator", "anonymous"];

export interface Layer {
  key: string; // a line's kind, or kind and words
  title: string;
  section: number; // its colour
  shade: number; // of that colour
  bytes: number[]; // of each ledger
}

function ownKey(line: LedgerLine): string {
  return `${line.kind}\n${line.words}`;
}

// The layers that any of these ledgers has, the lowest first.
export function layersOf(sections: Ledgers["sections"], ledgers: Ledger[]): Layer[] {
  const out: Layer[] = [];
  sections.forEach(({ kinds }, section) => {
    let shade = 0;
    for (const { kind, title } of kinds) {
      const most = new Map<string, { words: string; bytes: number }>();
      const lines = ledgers.map((l) => l.lines.filter((line) => line.kind === kind));
      if (BY_NAME.includes(kind))
        for (const line of lines.flat())
          if (line.resident_bytes > (most.get(ownKey(line))?.bytes ?? 0)) most.set(ownKey(line), { words: line.words, bytes: line.resident_bytes });
      const named = [...most].sort((a, b) => b[1].bytes - a[1].bytes).slice(0, MAKERS).map(([key, { words }]) => ({ key, title: words }));
      const known = named.map((n) => n.key);
      for (const layer of [...named, { key: kind, title: named.length ? "other " + title.replace(/^other /, "") : title }]) {
        const bytes = lines.map((of) => of.reduce((sum, line) => sum + ((known.includes(ownKey(line)) ? ownKey(line) : kind) === layer.key ? line.resident_bytes : 0), 0));
        if (bytes.some((b) => b > 0)) out.push({ ...layer, section, shade: shade++, bytes });
      }
    }
  });
  return out;
}
export function layerOf(layers: Layer[], line: LedgerLine): Layer | undefined {
  return layers.find((l) => l.key === ownKey(line)) ?? layers.find((l) => l.key === line.kind);
}

// The ledger for an instant: the nearest in time, and for the end that of the exit. A ledger near an earlier peak of the
// heap says nothing about the greatest one. -1: there is none.
export function ledgerAt(ledgers: Ledger[], at: "peak" | "end" | number, ns: number): number {
  const near = (ok: (l: Ledger) => boolean) => ledgers.reduce((best, l, i) => (ok(l) && (best < 0 || abs(l.time_ns - ns) <= abs(ledgers[best].time_ns - ns)) ? i : best), -1);
  const named = at === "end" ? near((l) => l.moment === "exit") : -1;
  return named < 0 ? near(() => true) : named;
}

// Where the bars of ledgers stand: at their times, but beside each other and inside of the picture.
export function barsOf(at: number[], left: number, right: number): { x: number[]; width: number } {
  const n = at.length, width = max(1.5, min(n < 2 ? 96 : 30, ((right - left) / max(1, n)) * 0.6));
  const x = at.map((v) => min(right - width, max(left, v - width / 2)));
  for (let i = n - 2; i >= 0; i--) x[i] = min(x[i], x[i + 1] - width - 1);
  for (let i = 0; i < n; i++) x[i] = max(x[i], i ? x[i - 1] + width + 1 : left);
  return { x, width };
}

export interface Rows {
  section: number;
  lines: LedgerLine[]; // largest first
  sum: Sums;
  rest: LedgerLine[]; // behind "N more"
}
export type Sums = Pick<LedgerLine, "resident_bytes" | "private_bytes" | "swapped_bytes" | "virtual_bytes">;

export function sumOf(lines: Sums[]): Sums {
  return lines.reduce((a, b) => ({
    resident_bytes: a.resident_bytes + b.resident_bytes, private_bytes: a.private_bytes + b.private_bytes,
    swapped_bytes: a.swapped_bytes + b.swapped_bytes, virtual_bytes: a.virtual_bytes + b.virtual_bytes,
  }), { resident_bytes: 0, private_bytes: 0, swapped_bytes: 0, virtual_bytes: 0 });
}

// As heft map prints them: six lines of a section, and the others as one if there are at least two.
const SHOWN = 6;
export function rowsOf(sections: Ledgers["sections"], ledger: Ledger, whole: (section: number) => boolean, matches: (words: string) => boolean): Rows[] {
  return sections.flatMap(({ kinds }, section) => {
    const all = ledger.lines.filter((l) => kinds.some((k) => k.kind === l.kind) && (l.resident_bytes || l.swapped_bytes) && matches(l.words));
    all.sort((a, b) => b.resident_bytes - a.resident_bytes);
    const some = all.length > SHOWN + 1 && !whole(section);
    return all.length ? [{ section, sum: sumOf(all), lines: some ? all.slice(0, SHOWN) : all, rest: some ? all.slice(SHOWN) : [] }] : [];
  });
}
