// The small parts that all views are made of: numbers, places, sparklines, bars, tables, empty states.
// All text goes through preact as text; names through words.ts, which makes them inert.
import { ceil, floor, max, min } from "./arithmetic";
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Place } from "./api";
import type { Answer } from "./fetch";
import { go, state } from "./state";
import { amount, brief, clean, exactAmount, exactBytes, bytes, functionWords, placeWords, share, signed, withUnit, type Unit } from "./words";

// The short form to read, the exact one for whoever points at it, and for tests.
export function Size({ n }: { n?: number }) {
  return <span class="num" title={exactBytes(n)}>{bytes(n)}</span>;
}
export function Amount({ n, unit }: { n: number; unit: Unit }) {
  return <span class="num" title={exactAmount(n, unit)}>{amount(n, unit)}</span>;
}
// In a headline, where no column says what is counted.
export function Total({ n, unit }: { n: number; unit: Unit }) {
  return <strong class="num" title={exactAmount(n, unit)}>{withUnit(n, unit)}</strong>;
}
// Of an estimate.
export function Within({ n, unit }: { n?: number; unit: Unit }) {
  return n ? <span class="faint num"> ± {amount(n, unit)}</span> : null;
}
export function Change({ n, unit }: { n: number; unit: Unit }) {
  return <span class={"num " + (n > 0 ? "more" : n < 0 ? "less" : "")} title={exactAmount(n, unit)}>{signed(n, unit)}</span>;
}

export function FunctionName({ name, most }: { name: string; most?: number }) {
  return <span class="function" title={clean(name)}>{functionWords(name, most)}</span>;
}
// Behind a place: who calls it.
export function Callers({ text }: { text?: string }) {
  return text ? <span class="faint" title={clean(text)}> &lt; {brief(text, 80)}</span> : null;
}

export function PlaceName({ place }: { place: Place }) {
  return <span class="place" title={clean(place.file || place.module) + (place.line ? ":" + place.line : "")}>{placeWords(place)}</span>;
}

// Where there is nothing to show, words say why and what to do.
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return <div class="empty" role="status"><p class="empty-title">{title}</p>{children && <p>{children}</p>}</div>;
}

export const CHOOSE = "Choose another instant, window or mode above.";

// For a key that was understood.
export function taken(e: Event): void {
  e.preventDefault();
  e.stopPropagation();
}

// The states of a document: not there yet, not to be had, there.
export function Document<T>({ answer, children }: { answer: Answer<T>; children: (value: T) => ComponentChildren }) {
  if (answer.value !== undefined)
    return <div class={answer.loading ? "document stale" : "document"} aria-busy={answer.loading}>{children(answer.value)}</div>;
  if (answer.loading) return <div class="empty" role="status" aria-busy="true"><p>Loading …</p></div>;
  return <Empty title={answer.absent ? "Not in this file" : "No answer"}>{answer.words}</Empty>;
}

export function Sparkline({ points, width = 96, height = 22, label }: { points: number[]; width?: number; height?: number; label?: string }) {
  if (points.length < 2) return <span class="faint">–</span>;
  const most = max(...points, 1);
  const x = (i: number) => 1 + (i * (width - 2)) / (points.length - 1);
  const y = (v: number) => height - 2 - (v / most) * (height - 4);
  const line = points.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  return <svg class="sparkline" width={width} height={height} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" role="img"
    aria-label={label ?? `live bytes over the run, at most ${bytes(most)}, ${bytes(points[points.length - 1])} at the end`}>
    <path class="spark-area" d={`${line}L${x(points.length - 1)} ${height - 1}L1 ${height - 1}Z`} />
    <path class="spark-line" d={line} />
  </svg>;
}

// A share of a whole, in a table's cell. The number stands beside it.
export function Bar({ part, whole }: { part: number; whole: number }) {
  const width = whole > 0 ? min(100, max(0, (100 * part) / whole)) : 0;
  return <span class="bar" aria-hidden="true"><span style={{ width: width.toFixed(2) + "%" }} /></span>;
}
export function ShareCell({ part, whole }: { part: number; whole: number }) {
  return <span class="share-cell"><Bar part={part} whole={whole} /><span class="num">{share(part, whole)}</span></span>;
}

export function Toggle({ on, set, title, children, disabled }: { on: boolean; set: (on: boolean) => void; title?: string; children: ComponentChildren; disabled?: boolean }) {
  return <button class="toggle" aria-pressed={on} title={title} disabled={disabled} onClick={() => set(!on)}>{children}</button>;
}

export function Choice<T extends string>({ label, value, options, set }: { label: string; value: T; options: { value: T; words: string; title?: string; disabled?: boolean }[]; set: (value: T) => void }) {
  return <div class="choice" role="group" aria-label={label}>
    {options.map((o) => <button key={o.value} aria-pressed={o.value === value} title={o.title} disabled={o.disabled}
      onClick={() => set(o.value)}>{o.words}</button>)}
  </div>;
}

export interface Column<Row> {
  key: string;
  head: string;
  title?: string;
  number?: boolean; // right-aligned
  wide?: boolean; // takes the room that is left
  phone?: boolean; // also shown on narrow screens
  cell: (row: Row) => ComponentChildren;
  value?: (row: Row) => number | string; // to sort by; absent: not sortable
}

const ROW_PX = 32, DENSE_PX = 22;

export function sortRows<Row>(rows: Row[], columns: Column<Row>[], sort: string): Row[] {
  const rising = sort.startsWith("-");
  const value = columns.find((c) => c.key === sort.replace(/^-/, ""))?.value;
  if (!value) return rows;
  const order = (a: Row, b: Row) => {
    const x = value(a), y = value(b);
    if (typeof x === "string" || typeof y === "string") return String(x).localeCompare(String(y)) * (rising ? -1 : 1);
    return rising ? x - y : y - x;
  };
  return [...rows].sort(order);
}

// A real table that holds only the rows near what is visible. `sort` is the column it is sorted by at
// first; the reader's choice is in the URL, "-" before it for the other direction (numbers: smallest
// first, words: from Z). Where a row can be opened, its first
// cell is a button, and up and down move between these. `reveal`: the row to scroll to.
export function Table<Row>({ label, columns, rows, sort: first, chosen, open, rowKey, dense, reveal }: {
  label: string; columns: Column<Row>[]; rows: Row[]; sort?: string;
  chosen?: (row: Row) => boolean; open?: (row: Row) => void; rowKey: (row: Row, i: number) => string | number;
  dense?: boolean; reveal?: number;
}) {
  const sort = state.value.sort || first;
  const px = dense ? DENSE_PX : ROW_PX;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 900, width: 0 });
  const measure = () => {
    const e = box.current;
    if (e) setView((v) => (e.scrollTop !== v.top || e.clientHeight !== v.height || e.clientWidth !== v.width ? { top: e.scrollTop, height: e.clientHeight, width: e.clientWidth } : v));
  };
  useEffect(() => {
    const watch = new ResizeObserver(measure);
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  useEffect(() => {
    if (reveal !== undefined && reveal >= 0) box.current!.scrollTop = max(0, reveal * px - box.current!.clientHeight / 3);
  }, [reveal, rows]);
  // Columns that do not fit are left out, the last ones first: a number is there or not, never cut.
  const [dropped, setDropped] = useState(0);
  const names = columns.map((c) => c.key).join();
  const extra = columns.filter((c) => !c.phone);
  const away = extra.slice(max(0, extra.length - dropped));
  const shown = columns.filter((c) => !away.includes(c));
  useLayoutEffect(() => setDropped(0), [names, view.width]);
  useLayoutEffect(() => {
    if (box.current!.scrollWidth > box.current!.clientWidth + 1 && dropped < extra.length) setDropped((n) => n + 1);
  });
  const sorted = sort ? sortRows(rows, columns, sort) : rows;
  const from = max(0, floor(view.top / px) - 10);
  const to = min(sorted.length, ceil((view.top + view.height) / px) + 10);
  const move = (e: KeyboardEvent) => {
    if (e.key !== "ArrowDown" && e.key !== "ArrowUp") return;
    const row = (e.target as HTMLElement).closest("tr");
    const next = e.key === "ArrowDown" ? row?.nextElementSibling : row?.previousElementSibling;
    const button = next?.querySelector<HTMLElement>(".row-open");
    if (!button) return;
    taken(e);
    button.focus();
  };
  const sortBy = (c: Column<Row>) => go({ sort: sort === c.key ? "-" + c.key : c.key });
  return <div class="table-box" ref={box} onScroll={measure} tabIndex={0} role="region" aria-label={label}>
    <table class={dense ? "dense" : undefined} aria-rowcount={sorted.length + 1} onKeyDown={move}>
      <caption class="hidden">{label}</caption>
      <thead><tr aria-rowindex={1}>
        {shown.map((c) => {
          const state = sort === c.key ? (c.number ? "descending" : "ascending") : sort === "-" + c.key ? (c.number ? "ascending" : "descending") : undefined;
          return <th key={c.key} scope="col" title={c.title} aria-sort={state} class={cellClass(c)}>
            {c.value ? <button onClick={() => sortBy(c)}>{c.head}<span class="sort-mark" aria-hidden="true">{state ? (state === "descending" ? "▾" : "▴") : ""}</span></button> : c.head}
          </th>;
        })}
      </tr></thead>
      <tbody>
        {from > 0 && <tr class="spacer" aria-hidden="true"><td colSpan={shown.length} style={{ height: from * px + "px" }} /></tr>}
        {sorted.slice(from, to).map((row, i) => <tr key={rowKey(row, from + i)} aria-rowindex={from + i + 2}
          class={chosen?.(row) ? "chosen" : undefined} aria-current={chosen?.(row) ? "true" : undefined}
          onClick={open && (() => open(row))}>
          {shown.map((c, k) => <td key={c.key} class={cellClass(c)}>
            {k === 0 && open
              ? <button class="row-open" onClick={(e) => { e.stopPropagation(); open(row); }}>{c.cell(row)}</button>
              : c.cell(row)}
          </td>)}
        </tr>)}
        {to < sorted.length && <tr class="spacer" aria-hidden="true"><td colSpan={shown.length} style={{ height: (sorted.length - to) * px + "px" }} /></tr>}
      </tbody>
    </table>
  </div>;
}

function cellClass<Row>(c: Column<Row>): string {
  return [c.number && "number", c.wide && "wide", !c.phone && "no-phone"].filter(Boolean).join(" ");
}

// Links between views: what the page does with a function or a line, in one place.
export function openSandwich(name: string, module: string) {
  go({ view: "sandwich", function: name, module });
}
export function openSource(file: string, line: number) {
  go({ view: "source", file, line });
}

// One line of a list of facts (dl class="facts").
export function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return <div><dt>{name}</dt><dd>{children}</dd></div>;
}
