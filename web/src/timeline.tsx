// The timeline, always visible: live heap stacked by its top sites, RSS over it, marks, the peak and a
// memory limit. It chooses what every view is about: a click an instant, dragging a window, Shift+click
// the instant that Diff compares with. By keyboard it is a slider (arrows), [ and ] set the window's ends.
import { abs, floor, max, min, round } from "./arithmetic";
import { signal } from "@preact/signals";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Mode, Summary, Timeline as Doc } from "./api";
import { Callers, Choice, PlaceName, taken } from "./bits";
import { Label, TimeAxis, ticks, tidy, Upright, useSize } from "./chart_parts";
import { holds, isFile, useDocument } from "./fetch";
import { lanesOf, zoomTo } from "./remarks";
import { chosenWords } from "./processes";
import { address, chooseProcess, go, MODE_WORDS, MODES, processOf, selectionOf, state, type State } from "./state";
import { brief, bytes, clean, duration, functionWords, rate, several } from "./words";

const LANE = 15; // pixels
const LEFT = 68, RIGHT = 66; // room for the axes: of the heap, and of RSS

// The instant that is chosen, as a time.
export function instantNs(summary: Summary): number {
  const at = state.value.at;
  if (at === "peak") return summary.totals.peak_time_ns ?? 0;
  return at === "end" ? summary.end_ns : at;
}

export function indexAt(times: number[], ns: number): number {
  let low = 0, high = times.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (times[middle] <= ns) low = middle;
    else high = middle - 1;
  }
  return low;
}

export function moveInstant(summary: Summary, step: number): void {
  const { start_ns, end_ns } = summary;
  go({ mode: "live", at: round(min(end_ns, max(start_ns, instantNs(summary) + (step * (end_ns - start_ns)) / 200))) }, true);
}
export function setWindowEnd(summary: Summary, which: "from" | "to"): void {
  const s = state.value, now = s.mode === "live" ? instantNs(summary) : which === "from" ? s.from : s.to || summary.end_ns;
  const mode: Mode = s.mode === "live" ? "grew" : s.mode;
  if (which === "from") go({ mode, from: now, to: s.to > now ? s.to : 0, at: s.at });
  else go({ mode, to: now, from: s.from < now ? s.from : 0 });
}
export function nextMark(doc: Doc | undefined, summary: Summary): void {
  if (!doc?.marks.length) return;
  const now = instantNs(summary);
  const next = doc.marks.find((m) => m.time_ns > now) ?? doc.marks[0];
  go({ mode: "live", at: next.time_ns });
}
type Instant = "peak" | "rss" | "end" | "whole";
export function choose(kind: Instant, summary: Summary): void {
  if (kind === "whole") go({ mode: state.value.mode === "live" ? "allocated" : state.value.mode, from: 0, to: 0 });
  else go({ mode: "live", at: kind === "rss" ? summary.peak_rss_time_ns : kind });
}

// What is left is then of each process at its own end.
export function areSeveral(summary: Summary): boolean {
  return summary.process_count > 1 && !state.value.process;
}

// They ended one after the other: that is no instant of the timeline.
const LEFT_WORDS = "when each process exited";
function isAtExits(summary: Summary): boolean {
  return state.value.mode === "live" && state.value.at === "end" && areSeveral(summary);
}

// Somebody clicked or dragged where no instant can be chosen.
const refused = signal(false);
const CANNOT = "This file holds the peak, the end and the whole run, no other instants and windows. To choose those, open the recording itself: heft view FILE";

export let shownTimeline: Doc | undefined;

export function TimelineBand({ summary }: { summary: Summary }) {
  const answer = useDocument<Doc>(address(`/api/r/${summary.id}/timeline`, processOf(state.value)));
  shownTimeline = answer.value;
  return <section class="timeline" aria-label="Timeline">
    <Controls summary={summary} />
    {isFile() && summary.has.times && <p class={refused.value ? "cannot asked" : "cannot"} role="status">{CANNOT}</p>}
    {answer.value && answer.value.times_ns.length > 1
      ? <Chart doc={answer.value} summary={summary} />
      : answer.loading ? <div class="chart-box" aria-busy="true" /> : <p class="note">No timeline: {summary.has.times ? answer.words : `${summary.mode === "sample" ? "a sampled recording" : `a ${clean(summary.format)} file`} holds sums, not times. Record every allocation with heft run to see how the heap grew.`}</p>}
  </section>;
}

function Controls({ summary }: { summary: Summary }) {
  const s = state.value, has = summary.has;
  const live = s.mode === "live";
  // In a file only what it holds can be chosen.
  const absent = (patch: Partial<State>) => !holds(address(`/api/r/${summary.id}/tree`, selectionOf({ ...s, ...patch })));
  const rssTime = summary.peak_rss_time_ns;
  return <div class="controls">
    <Choice<Instant | ""> label="instant" set={(kind) => kind && choose(kind, summary)}
      value={live ? (s.at === rssTime && rssTime ? "rss" : typeof s.at === "string" ? s.at : "") : s.from || s.to ? "" : "whole"} options={[
        { value: "peak", words: "Peak", title: "key p", disabled: !has.peak || absent({ mode: "live", at: "peak" }) },
        { value: "rss", words: "Peak RSS", title: "key o", disabled: !rssTime || !has.windows },
        { value: "end", words: areSeveral(summary) ? "Exit" : "End", title: areSeveral(summary) ? "What each process left, key e" : "key e", disabled: !has.live || absent({ mode: "live", at: "end" }) },
        { value: "whole", words: "Whole run", title: "key w", disabled: !has.allocated },
      ]} />
    <Choice label="what is counted" value={s.mode} set={(mode) => go({ mode })} options={MODES.map((m) => ({
      value: m, words: MODE_WORDS[m], title: MODE_TITLES[m],
      disabled: absent({ mode: m }) || (m === "live" ? !has.live && !has.peak : m === "allocated" ? !has.allocated : !has.windows && !isFile()),
    }))} />
    <Choice label="metric" value={s.mode === "churn" ? "count" : s.metric} set={(metric) => go({ metric })} options={[
      { value: "bytes", words: "Bytes", disabled: s.mode === "churn" || absent({ metric: "bytes" }), title: "key b" }, { value: "count", words: "Count", disabled: absent({ metric: "count" }), title: "key b" }]} />
    <span class="chosen-words" role="status">{selectionWords(summary)}</span>
    <Filters summary={summary} />
  </div>;
}

const MODE_TITLES: Record<Mode, string> = {
  live: "What was allocated and not yet freed at one instant",
  grew: "How much more a call stack holds at the window's end than at its start",
  allocated: "Everything allocated inside the window",
  churn: "Freed inside the window, soon after it was allocated",
};

export function selectionWords(summary: Summary): string {
  const s = state.value;
  if (s.mode === "live") {
    if (isAtExits(summary)) return LEFT_WORDS;
    const time = summary.has.times && duration(instantNs(summary));
    return "at " + [typeof s.at === "string" && s.at, time].filter(Boolean).join(", ");
  }
  const to = s.to || summary.end_ns;
  return !s.from && !s.to ? `whole run, ${duration(summary.end_ns - summary.start_ns)}` : `from ${duration(s.from)} to ${duration(to)} (${duration(to - s.from)})`;
}

function Filters({ summary }: { summary: Summary }) {
  const s = state.value;
  const chip = (words: string, clear: () => void) =>
    <button class="chip" onClick={clear} title="Click to remove this filter">{words} <span aria-hidden="true">×</span><span class="hidden">remove</span></button>;
  return <>
    {summary.processes.length > 1 && (s.process || s.program ? chip(chosenWords(summary), () => chooseProcess(0, ""))
      : <button onClick={() => go({ view: "processes", sort: "" })} title="Choose one, key P">{several(summary.process_count, "process", "es")}</button>)}
    {s.focus && chip("only " + brief(s.focus, 40), () => go({ focus: "" }))}
    {s.ignore && chip("without " + brief(s.ignore, 40), () => go({ ignore: "" }))}
    {s.thread && chip("thread " + brief(s.thread, 30), () => go({ thread: "" }))}
  </>;
}

interface Scale {
  width: number;
  height: number;
  x: (ns: number) => number;
  y: (bytes: number) => number;
  right: number; // where the plot ends
  most: number;
  rssMost: number; // of the axis at the right; 0: there is none
  rssY: (bytes: number) => number;
}

// RSS has an axis of its own, at the right; up to twice the heap it has the same scale.
function scaleOf(doc: Doc, width: number, height: number): Scale {
  const heap = max(...doc.bytes, 1);
  const rss = doc.rss.reduce((m, p) => max(m, p.bytes), 0);
  const apart = rss > 2 * heap;
  let most = apart ? heap : max(heap, rss);
  if (doc.limit_bytes && doc.limit_bytes < most * 2) most = max(most, doc.limit_bytes);
  most *= 1.08;
  const span = doc.to_ns - doc.from_ns || 1;
  const right = width - (rss ? RIGHT : 8), rssMost = apart ? rss * 1.08 : rss && most;
  return {
    width, height, right, most, rssMost,
    x: (ns) => LEFT + ((ns - doc.from_ns) / span) * (right - LEFT),
    y: (v) => height - 18 - (v / most) * (height - 26),
    rssY: (v) => height - 18 - (v / rssMost) * (height - 26),
  };
}

function areas(doc: Doc, s: Scale): string[] {
  const base = new Float64Array(doc.times_ns.length);
  const layer = (values: (i: number) => number) => {
    const low = base.slice();
    let d = "";
    for (let i = 0; i < base.length; i++) {
      base[i] += max(0, values(i));
      d += `${i ? "L" : "M"}${s.x(doc.times_ns[i]).toFixed(1)} ${s.y(base[i]).toFixed(1)}`;
    }
    for (let i = base.length - 1; i >= 0; i--) d += `L${s.x(doc.times_ns[i]).toFixed(1)} ${s.y(low[i]).toFixed(1)}`;
    return d + "Z";
  };
  const out = doc.rows.map((row) => layer((i) => row.bytes[i]));
  out.push(layer((i) => doc.bytes[i] - base[i]));
  return out;
}

function line(points: { time_ns: number; bytes: number }[], s: Scale): string {
  // Steps: between two samples, and after the last one, the last one is all that is known.
  return points.map((p, i) => `${i ? "H" : "M"}${s.x(p.time_ns).toFixed(1)}${i ? "V" : " "}${s.rssY(p.bytes).toFixed(1)}`).join("") + `H${s.right}`;
}

function Chart({ doc, summary }: { doc: Doc; summary: Summary }) {
  const [box, size] = useSize(900, 150);
  const [hover, setHover] = useState<number | null>(null);
  const [drag, setDrag] = useState<{ from: number; to: number } | null>(null);
  const start = useRef<{ x: number; ns: number } | null>(null);
  // Regions have lanes below the axis.
  const lanes = useMemo(() => lanesOf(doc.regions), [doc]), depth = lanes.length * LANE;
  const s = scaleOf(doc, size.width, size.height - depth);
  const st = state.value;
  const timeOf = (e: MouseEvent) => {
    const x = e.clientX - box.current!.getBoundingClientRect().left;
    const part = min(1, max(0, (x - LEFT) / (s.right - LEFT)));
    return round(doc.from_ns + part * (doc.to_ns - doc.from_ns));
  };
  const down = (e: PointerEvent) => {
    if (e.button) return;
    refused.value = !summary.has.windows;
    if (refused.value) return;
    start.current = { x: e.clientX, ns: timeOf(e) };
    box.current!.setPointerCapture(e.pointerId);
  };
  const move = (e: PointerEvent) => {
    const ns = timeOf(e);
    setHover(ns);
    if (start.current && abs(e.clientX - start.current.x) > 4)
      setDrag({ from: min(ns, start.current.ns), to: max(ns, start.current.ns) });
  };
  const up = (e: PointerEvent) => {
    const began = start.current;
    start.current = null;
    if (!began) return;
    if (drag) go({ mode: st.mode === "live" ? "grew" : st.mode, from: drag.from, to: drag.to });
    else if (e.shiftKey) go({ view: "diff", b: "", bat: timeOf(e) });
    else go({ mode: "live", at: timeOf(e) });
    setDrag(null);
  };
  const keys = (e: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -20, PageUp: 20 }[e.key];
    if (e.key === "Home") go({ mode: "live", at: summary.start_ns });
    else if (e.key === "End") go({ mode: "live", at: "end" });
    else if (step && summary.has.windows) moveInstant(summary, step);
    else return;
    taken(e);
  };
  const now = instantNs(summary), left = isAtExits(summary);
  const i = indexAt(doc.times_ns, now);
  const window_ = drag ?? (st.mode !== "live" ? { from: st.from, to: st.to || doc.to_ns } : null);
  const right = s.right, bottom = s.height - 18;
  const peakX = s.x(summary.totals.peak_time_ns ?? 0), late = peakX > right - 130;
  return <div class="timeline-row">
    <div class={summary.has.windows ? "chart-box" : "chart-box fixed"} title={summary.has.windows ? undefined : CANNOT} ref={box} style={{ "--lanes": depth + "px" }} tabIndex={0} role="slider" aria-label="instant" aria-valuemin={round(doc.from_ns / 1000)} aria-valuemax={round(doc.to_ns / 1000)}
      aria-valuenow={round(now / 1000)} aria-valuetext={left ? `${LEFT_WORDS}: ${bytes(doc.left_bytes)}` : `${duration(now)}: live ${bytes(doc.bytes[i])}`}
      onPointerDown={down} onPointerMove={move} onPointerUp={up} onPointerLeave={() => setHover(null)}
      onPointerCancel={() => { start.current = null; setDrag(null); }} onKeyDown={keys}>
      <svg width={size.width} height={size.height} aria-hidden="true">
        {ticks(s.most).map((t) => <g key={t}><line class="grid" x1={LEFT} x2={right} y1={s.y(t)} y2={s.y(t)} /><Label x={LEFT - 6} y={s.y(t) + 4} anchor="end">{tidy(bytes(t))}</Label></g>)}
        {s.rssMost > 0 && <g class="rss-axis"><line class="grid" x1={right} x2={right} y1={8} y2={bottom} />{ticks(s.rssMost).map((t) => <Label key={t} x={right + 6} y={s.rssY(t) + 4} anchor="start">{tidy(bytes(t))}</Label>)}<Label x={right + 6} y={bottom} anchor="start">RSS</Label></g>}
        <Label x={LEFT - 6} y={bottom} anchor="end">heap</Label>
        <TimeAxis from={doc.from_ns} to={doc.to_ns} x={s.x} y={s.height - 4} width={right + 8} />
        {areas(doc, s).map((d, k, all) => <path key={k} class={k === all.length - 1 ? "layer-other" : `layer-${k}`} d={d} />)}
        {s.rssMost > 0 && <path class="rss-line" d={line(doc.rss, s)} />}
        {doc.limit_bytes > 0 && doc.limit_bytes <= s.most && <g><line class="limit-line" x1={LEFT} x2={right} y1={s.y(doc.limit_bytes)} y2={s.y(doc.limit_bytes)} /><Label x={late ? LEFT + 4 : right - 4} y={s.y(doc.limit_bytes) - 4} anchor={late ? "start" : "end"}>{`limit ${bytes(doc.limit_bytes)}`}</Label></g>}
        {window_ && <rect class="window" x={s.x(window_.from)} y={0} width={max(1, s.x(window_.to) - s.x(window_.from))} height={bottom} />}
        {summary.has.peak && <g class="peak-mark"><Upright x={peakX} top={8} height={bottom} /><Label x={peakX + (late ? -6 : 6)} y={11} anchor={late ? "end" : "start"}>{`▲ peak ${bytes(summary.totals.peak_bytes)}`}</Label></g>}
        <Marks doc={doc} s={s} bottom={bottom} />
        {lanes.map((lane, k) => lane.map((r) => {
          const x = s.x(r.begin_ns), w = max(2, s.x(r.end_ns) - x);
          return <g key={r.begin_ns} class="region" onPointerDown={(e) => e.stopPropagation()} onClick={() => summary.has.windows && zoomTo(r.begin_ns, r.end_ns)}>
            <title>{brief(r.name) || "region"}: {duration(r.end_ns - r.begin_ns)}{summary.has.windows && ", click for what grew in it"}</title>
            <rect x={x} y={s.height + k * LANE} width={w} height={LANE - 2} rx={2} />
            {w > 7 * min(r.name.length, 12) && <text class="axis" x={x + 4} y={s.height + k * LANE + 10.5}>{brief(r.name, floor(w / 7))}</text>}
          </g>;
        }))}
        {st.mode === "live" && !left && <g class="instant"><Upright x={s.x(now)} height={bottom} /><path d={`M${s.x(now) - 5} 0h10l-5 7Z`} /></g>}
        {st.view === "diff" && typeof st.bat === "number" && !st.b && <g class="instant second"><Upright x={s.x(st.bat)} height={bottom} /><Label x={s.x(st.bat) + 8} y={24}>B</Label></g>}
        {hover !== null && <Upright kind="hover-line" x={s.x(hover)} height={bottom} />}
      </svg>
    </div>
    <Legend doc={doc} at={hover ?? now} hovering={hover !== null} left={left && hover === null} />
  </div>;
}

// Upright lines with names, where there is room for these.
function Marks({ doc, s, bottom }: { doc: Doc; s: Scale; bottom: number }) {
  let end = 0;
  return <>{doc.marks.map((m, k) => {
    const x = s.x(m.time_ns), name = brief(m.name, 14), w = name.length * 6.9;
    const named = x >= end && x + w + 6 < s.right;
    if (named) end = x + w + 10;
    return <g key={k} class="mark"><Upright x={x} top={24} height={bottom} /><path class="diamond" d={`M${x} ${bottom - 6}l5 6l-5 6l-5-6Z`}><title>{brief(m.name)} at {duration(m.time_ns)}</title></path>
      {named && <Label x={x + 4} y={32} anchor="start">{name}</Label>}</g>;
  })}</>;
}

// The layers in words, with their sizes at the instant pointed at.
function Legend({ doc, at, hovering, left }: { doc: Doc; at: number; hovering: boolean; left: boolean }) {
  const i = indexAt(doc.times_ns, at);
  const value = (of: { bytes: number[]; left_bytes: number }) => (left ? of.left_bytes : of.bytes[i]);
  const rest = value(doc) - doc.rows.reduce((sum, r) => sum + value(r), 0);
  const rss = doc.rss.length ? doc.rss[indexAt(doc.rss.map((p) => p.time_ns), at)].bytes : 0;
  return <div class="layers" data-hovering={hovering}>
    <div class="layers-head"><span>{left ? LEFT_WORDS : duration(at)}</span><span class="num">{bytes(value(doc))}</span></div>
    <ul>
      {doc.rows.map((r, k) => <li key={r.site}><button class="layer-name" title={clean(r.place.function)} onClick={() => go({ site: r.site, node: "" })}><i class={`swatch layer-${k}`} /><span>{functionWords(r.place.function, 60)} <PlaceName place={r.place} /><Callers text={r.callers} /></span></button><span class="num">{bytes(value(r))}</span></li>)}
      <li><span class="layer-name"><i class="swatch layer-other" /><span>other</span></span><span class="num">{bytes(max(0, rest))}</span></li>
      {!left && doc.rss.length > 0 && <li><span class="layer-name"><i class="swatch rss" /><span>RSS, right axis</span></span><span class="num">{bytes(rss)}</span></li>}
      {!left && doc.events.length > 0 && <li><span class="layer-name"><i class="swatch" /><span>allocations and frees</span></span><span class="num">{rate(doc.events[i] ?? 0, 1e9)}</span></li>}
    </ul>
  </div>;
}
