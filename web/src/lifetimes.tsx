// Lifetimes: temporary, for a session, or for ever? A histogram with buckets of powers of two, and birth
// time x lifetime, where a queue that grows shows as a rising diagonal.
import { log, max, min } from "./arithmetic";
import type { Lifetimes as Doc, Summary } from "./api";
import { BarChart, type BarItem } from "./bar_chart";
import { CHOOSE, Document, Empty } from "./bits";
import { Label, powerTicks, tidy, TimeAxis, useSize } from "./chart_parts";
import { useSelected } from "./fetch";

import { count, duration, several, share } from "./words";

function used(counts: number[]): { from: number; to: number } {
  let from = counts.findIndex((n) => n > 0), to = counts.length;
  while (to > 0 && !counts[to - 1]) to--;
  if (from < 0) from = 0;
  return { from: max(0, from - 1), to: min(counts.length, to + 1) };
}

// Lower bound of a bucket where a document does not give them: 0, 512 ns, 1024 ns, ...
export function bucketLow(i: number): number {
  return i ? 256 * 2 ** i : 0;
}

// Sites have no zeros at the end.
const BUCKETS = 40;
export function allBuckets(counts: number[]): number[] {
  return Array.from({ length: BUCKETS }, (_, i) => counts[i] ?? 0);
}

export function Histogram({ counts, lows, height }: { counts: number[]; lows?: number[]; height: number }) {
  const { from, to } = used(counts);
  const low = (i: number) => lows?.[i] ?? bucketLow(i);
  const items: BarItem[] = counts.slice(from, to).map((n, k) => {
    const i = from + k;
    const range = i + 1 < counts.length ? `${duration(low(i))} to ${duration(low(i + 1))}` : `${duration(low(i))} and longer`;
    return { label: duration(low(i)), value: n, words: `${range}: ${several(n, "block")}` };
  });
  // A bucket is twice as long as the one before it, but for the first: times in between have their place.
  const at = (ns: number) => log(ns / low(1)) / log(2) + 1 - from;
  const marks = (px: number) => powerTicks(max(low(1), low(from)), low(to - 1) * 2, px * DECADE, 50).map((t) => ({ at: at(t), text: tidy(duration(t)) }))
    .concat(from ? [] : [{ at: 0.3, text: "0" }]).sort((a, b) => a.at - b.at);
  return <BarChart items={items} height={height} caption="Blocks by lifetime" unit="count" marks={marks} />;
}
const DECADE = log(10) / log(2); // in buckets

export function LifetimesView({ summary }: { summary: Summary }) {
  const answer = useSelected<Doc>(summary, "lifetimes");
  return <Document answer={answer}>{(doc) => {
    const sum = doc.counts.reduce((a, b) => a + b, 0);
    if (!sum) return <Empty title="No blocks here">{CHOOSE}</Empty>;
    const within = (ns: number) => doc.counts.reduce((a, n, i) => a + ((doc.low_ns[i + 1] ?? Infinity) <= ns ? n : 0), 0);
    return <>
      <p class="lead"><strong>{several(sum, "block")}</strong>: {share(within(2 ** 20), sum)} lived less than {duration(2 ** 20)}. Still live at the end: <strong>{count(doc.live_at_end)}</strong> ({share(doc.live_at_end, sum)}); such a block counts with its age.</p>
      <h2>How long blocks live</h2>
      <Histogram counts={doc.counts} lows={doc.low_ns} height={210} />
      <h2>Time of allocation and lifetime</h2>
      {doc.heat && doc.heat.birth_ns.length > 0 ? <HeatMap heat={doc.heat} lows={doc.low_ns} summary={summary} /> : <Empty title="Not known">{summary.has.heatmap ? "Nothing was allocated in this window." : "This file does not record when blocks were allocated."}</Empty>}
    </>;
  }}</Document>;
}

function HeatMap({ heat, lows, summary }: { heat: NonNullable<Doc["heat"]>; lows: number[]; summary: Summary }) {
  const [box, { width }] = useSize(800, 300);
  const both = heat.cells.map((row, b) => row.map((n, l) => n + (heat.live[b]?.[l] ?? 0)));
  const { from, to } = used(lows.map((_, l) => both.reduce((sum, row) => sum + (row[l] ?? 0), 0)));
  const most = max(...both.map((row) => max(...row, 0)), 1);
  const left = 64, height = 16, rows = to - from;
  const step = (width - left - 8) / both.length;
  const ends = [...heat.birth_ns.slice(1), summary.end_ns];
  const y = (l: number) => (to - 1 - l) * height;
  const x = (ns: number) => left + ((ns - heat.birth_ns[0]) / ((ends[ends.length - 1] - heat.birth_ns[0]) || 1)) * step * both.length;
  return <figure class="heat" ref={box}>
    <svg width={width} height={rows * height + 22} role="img" aria-label={`Blocks by time of allocation and lifetime; at most ${several(most, "block")} in one cell`}>
      {powerTicks(max(lows[1], lows[from]), lows[to - 1] * 1.5, height * DECADE, 14).map((t) => <Label key={t} x={left - 6} y={y(log(t / lows[1]) / log(2) + 1) + height + 4} anchor="end">{tidy(duration(t))}</Label>)}
      {both.map((row, b) => row.slice(from, to).map((n, k) => n > 0 && <rect key={`${b}-${k}`} class={(heat.live[b]?.[from + k] ?? 0) * 2 > n ? "cell still" : "cell"} x={left + b * step} y={y(from + k)} width={max(1, step - 0.5)} height={height - 1} fill-opacity={(0.15 + (0.85 * log(1 + n)) / log(1 + most)).toFixed(2)}>
        <title>{`allocated ${duration(heat.birth_ns[b])} to ${duration(ends[b])}, lived ${duration(lows[from + k])} or longer: ${several(n, "block")}${heat.live[b]?.[from + k] ? `, ${count(heat.live[b][from + k])} still live` : ""}`}</title></rect>))}
      <TimeAxis from={heat.birth_ns[0]} to={ends[ends.length - 1]} x={x} y={rows * height + 16} width={width} />
    </svg>
    <figcaption class="note">The horizontal axis is the time of allocation, the vertical axis the lifetime. Darker cells hold more blocks. In outlined cells most blocks were still live at the end.</figcaption>
  </figure>;
}
