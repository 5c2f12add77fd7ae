// Memory: why is RSS higher than the heap? The ledgers of a process over time as a stacked picture, and the lines of
// one of them as a table, in the sections and the words of heft map.
import { abs, max, min } from "./arithmetic";
import type { Ledger, Ledgers, Process, Summary, Timeline } from "./api";
import { Document, Empty, ShareCell, Size, taken } from "./bits";
import { Label, TimeAxis, ticks, tidy, useSize } from "./chart_parts";
import { isFile, useDocument } from "./fetch";
import { barsOf, layerOf, layersOf, ledgerAt, rowsOf, sumOf, type Layer, type Sums } from "./ledger";
import { commandWords } from "./processes";
import { address, chooseProcess, go, processOf, state } from "./state";
import { instantNs } from "./timeline";
import { brief, bytes, clean, duration, exactBytes, several, share } from "./words";

export const NO_LEDGER = "heft run takes ledgers near the peak of the heap and at exit, of processes that had at least 1 MiB of heap (--no-ledger: none). heft map PID takes one of any process that runs.";

export function gapWords(summary: Summary): string {
  const rss = summary.totals.peak_rss_bytes ?? 0, peak = summary.totals.peak_bytes ?? 0;
  return rss && summary.has.peak ? `At its peak the program asked for ${bytes(peak)}; the system gave it up to ${bytes(rss)} (RSS)${rss > peak ? `, ${bytes(rss - peak)} more` : ""}. ` : "";
}

export function MemoryView({ summary }: { summary: Summary }) {
  const answer = useDocument<Ledgers>(`/api/r/${summary.id}/ledger`);
  return <>
    <p class="lead">{gapWords(summary)}</p>
    <Document answer={answer}>{(doc) => <OfProcess doc={doc} summary={summary} />}</Document>
  </>;
}

// Nobody chose a process: that of the largest ledger.
function processToShow(doc: Ledgers, summary: Summary): number | undefined {
  const s = state.value;
  if (s.process) return s.process - 1;
  const mine = summary.processes.filter((p) => p.program === s.program).map((p) => p.number);
  const all = s.program ? doc.ledgers.filter((l) => mine.includes(l.process ?? -1)) : doc.ledgers;
  return all.reduce<Ledger | undefined>((a, l) => (a && a.rss_bytes > l.rss_bytes ? a : l), undefined)?.process;
}

function processWords(number: number, pid: number, processes: Process[]): string {
  const p = processes.find((x) => x.number === number);
  return p ? `${brief(commandWords(p), 40)} (pid ${p.pid})` : `process ${pid}`;
}

function momentWords(l: Ledger): string {
  return `${l.words}, at ${duration(l.time_ns)}: ${bytes(l.rss_bytes)}`;
}

function OfProcess({ doc, summary }: { doc: Ledgers; summary: Summary }) {
  const s = state.value, process = processToShow(doc, summary);
  const ledgers = doc.ledgers.filter((l) => l.process === process);
  const owners = [...new Map(doc.ledgers.map((l) => [l.process ?? 0, l.pid]))];
  const timeline = useDocument<Timeline>(address(`/api/r/${summary.id}/timeline`, processOf(s))).value;
  // In a file no instant can be chosen but one of a ledger.
  const pinned = s.ledger && ledgers[s.ledger - 1] && (isFile() || ledgers[s.ledger - 1].time_ns === s.at) ? s.ledger - 1 : -1;
  const at = s.mode === "live" ? s.at : s.to || "end";
  const i = pinned >= 0 ? pinned : ledgerAt(ledgers, at, s.mode === "live" ? instantNs(summary) : s.to || summary.end_ns);
  const choose = (k: number) => go(isFile() ? { ledger: k + 1 } : { ledger: k + 1, mode: "live", at: ledgers[k].time_ns }, true);
  const layers = layersOf(doc.sections, ledgers), ledger = ledgers[i];
  return <>
    <div class="view-bar">
      {owners.length > 1 && <label class="select">of <select value={String(process)} onChange={(e) => chooseProcess(Number(e.currentTarget.value) + 1, "")}>
        {!ledger && <option value={String(process)}>{processWords(process ?? 0, 0, summary.processes)}</option>}
        {owners.map(([number, pid]) => <option key={number} value={String(number)}>{processWords(number, pid, summary.processes)}</option>)}</select></label>}
      {ledger && <label class="select">Ledger <select value={String(i)} onChange={(e) => choose(Number(e.currentTarget.value))}>
        {ledgers.map((l, k) => <option key={k} value={String(k)}>{momentWords(l)}</option>)}</select></label>}
    </div>
    {ledger ? <>
      <div class="memory">
        <Picture ledgers={ledgers} layers={layers} chosen={i} choose={choose} timeline={timeline} summary={summary} alone={owners.length < 2 || s.process > 0} />
        <Lines doc={doc} ledger={ledger} layers={layers} />
      </div>
      <p class="note">{pinned < 0 && ledgers.length > 1 && "The one that is nearest to what is chosen above. "}{besideWords(ledger, summary)}{doc.left_out > 0 && ` ${several(doc.left_out, "ledger")} between these ${doc.left_out === 1 ? "is" : "are"} left out.`}</p>
    </> : <Empty title="This process has no ledger">{NO_LEDGER}</Empty>}
  </>;
}

function besideWords(l: Ledger, summary: Summary): string {
  const recorded = l.moment !== "request" || summary.has.windows;
  return [
    (recorded ? `Taken ${l.words}, at ${duration(l.time_ns)}, with ${share(l.share_of_peak, 1)} of the peak's live bytes; the process` : "The process") + ` stood still for ${duration(l.pause_ns)}.`,
    `Beside it: page tables ${bytes(l.page_table_bytes)}` + (l.reserved_bytes ? `; ${bytes(l.reserved_bytes)} reserved and not usable` : "") +
      (l.hugetlb_bytes ? `; ${bytes(l.hugetlb_bytes)} in pages of hugetlbfs` : "") + (l.huge_bytes ? `; ${bytes(l.huge_bytes)} of the resident memory in huge pages` : "") + ".",
    clean(l.note ?? ""),
  ].join(" ");
}

// ---- the picture

const LEFT = 68, TOP = 8, BOTTOM = 18, LETTER = 6.6;

function layerClass(l: Layer): string {
  return `part-${l.section} shade-${min(4, l.shade)}`;
}

function Picture({ ledgers, layers, chosen, choose, timeline, summary, alone }: {
  ledgers: Ledger[]; layers: Layer[]; chosen: number; choose: (i: number) => void; timeline?: Timeline; summary: Summary; alone: boolean;
}) {
  const [box, { width, height }] = useSize(700, 320);
  const from = timeline?.from_ns ?? summary.start_ns, to = max(timeline?.to_ns ?? summary.end_ns, ...ledgers.map((l) => l.time_ns), from + 1);
  const right = width - 8, bottom = height - BOTTOM;
  const rss = alone ? timeline?.rss ?? [] : [];
  const most = max(1, ...ledgers.map((l) => l.rss_bytes), rss.reduce((m, p) => max(m, p.bytes), 0)) * 1.06;
  const x = (ns: number) => LEFT + ((ns - from) / (to - from)) * (right - LEFT);
  const y = (v: number) => bottom - (v / most) * (bottom - TOP);
  const bars = barsOf(ledgers.map((l) => x(l.time_ns)), LEFT, right);
  const bases = ledgers.map((_, i) => layers.reduce<number[]>((out, l) => [...out, out[out.length - 1] + l.bytes[i]], [0]));
  const band = (k: number, i: number) => `${y(bases[i][k + 1]).toFixed(1)} ${(y(bases[i][k]) - y(bases[i][k + 1])).toFixed(1)}`.split(" ");
  const ease = (i: number) => bars.x[i] + bars.width;
  const between = (k: number, i: number) => `M${ease(i).toFixed(1)} ${y(bases[i][k]).toFixed(1)}V${y(bases[i][k + 1]).toFixed(1)}L${bars.x[i + 1].toFixed(1)} ${y(bases[i + 1][k + 1]).toFixed(1)}V${y(bases[i + 1][k]).toFixed(1)}Z`;
  const nearest = (e: MouseEvent) => {
    const px = e.clientX - box.current!.getBoundingClientRect().left;
    choose(bars.x.reduce((best, v, i) => (abs(v + bars.width / 2 - px) < abs(bars.x[best] + bars.width / 2 - px) ? i : best), 0));
  };
  const keys = (e: KeyboardEvent) => {
    const next = { ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: ledgers.length - 1 }[e.key];
    if (next === undefined) return;
    taken(e);
    choose(min(ledgers.length - 1, max(0, next)));
  };
  const l = ledgers[chosen], named = layers.filter((layer) => layer.bytes[chosen] > l.rss_bytes / 200).reverse();
  return <figure class="memory-picture" aria-label="Resident memory over time">
    <div class="memory-box" ref={box} tabIndex={0} role="slider" aria-label="ledger" aria-valuemin={1} aria-valuemax={ledgers.length} aria-valuenow={chosen + 1}
      aria-valuetext={momentWords(l)} onClick={nearest} onKeyDown={keys}>
      <svg width={width} height={height} aria-hidden="true">
        <defs><pattern id="free" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0V6" /></pattern></defs>
        {ticks(most).map((t) => <g key={t}><line class="grid" x1={LEFT} x2={right} y1={y(t)} y2={y(t)} /><Label x={LEFT - 6} y={y(t) + 4} anchor="end">{tidy(bytes(t))}</Label></g>)}
        <Label x={LEFT - 6} y={bottom} anchor="end">resident</Label>
        <TimeAxis from={from} to={to} x={x} y={height - 4} width={right} />
        <g class="between">{layers.map((layer, k) => ledgers.slice(1).map((_, i) => <path key={layer.key + i} class={layerClass(layer)} d={between(k, i)} />))}</g>
        {ledgers.map((ledger, i) => <g key={i} class={i === chosen ? "bar-chosen" : undefined}>
          {layers.map((layer, k) => {
            const [top, high] = band(k, i);
            const shape = { x: bars.x[i], y: top, width: bars.width, height: high };
            return layer.bytes[i] > 0 && <g key={layer.key}><rect class={`layer ${layerClass(layer)}`} {...shape}><title>{`${brief(layer.title)}: ${bytes(layer.bytes[i])}, ${share(layer.bytes[i], ledger.rss_bytes)}`}</title></rect>
              {layer.key === "held_free" && <rect class="hatched" fill="url(#free)" {...shape} />}</g>;
          })}
          <rect class="bar-outline" x={bars.x[i]} y={y(ledger.rss_bytes)} width={bars.width} height={bottom - y(ledger.rss_bytes)} />
        </g>)}
        {rss.length > 0 && <path class="rss-line" d={rss.map((p, i) => `${i ? "H" : "M"}${x(p.time_ns).toFixed(1)}${i ? "V" : " "}${y(p.bytes).toFixed(1)}`).join("") + `H${right}`} />}
        <PictureLabels layers={layers} bases={bases} bars={bars} y={y} left={LEFT} right={right} />
        <g class="instant"><path d={`M${bars.x[chosen] + bars.width / 2 - 5} 0h10l-5 7Z`} /></g>
      </svg>
    </div>
    <figcaption class="legend">
      {named.map((layer) => <span key={layer.key} title={exactBytes(layer.bytes[chosen])}><Swatch layer={layer} />{brief(layer.title, 44)}<span class="num">{bytes(layer.bytes[chosen])}</span></span>)}
      {rss.length > 0 && <span><i class="swatch rss" />RSS as sampled</span>}
      {ledgers.length > 1 && <span>Bars are ledgers; what is between them is drawn straight.</span>}
    </figcaption>
  </figure>;
}

function Swatch({ layer }: { layer?: Layer }) {
  return <i aria-hidden="true" class={layer ? `swatch ${layerClass(layer)}${layer.key === "held_free" ? " hatched-swatch" : ""}` : "swatch"} />;
}

// Names of layers that are thick enough, in the widest gap beside a bar.
function PictureLabels({ layers, bases, bars, y, left, right }: {
  layers: Layer[]; bases: number[][]; bars: { x: number[]; width: number }; y: (v: number) => number; left: number; right: number;
}) {
  const gaps = bars.x.slice(1).map((next, i) => ({ a: i, b: i + 1, from: bars.x[i] + bars.width, to: next }));
  if (!gaps.length) {
    const end = bars.x[0] + bars.width;
    gaps.push(right - end > bars.x[0] - left ? { a: 0, b: 0, from: end, to: right } : { a: 0, b: 0, from: left, to: bars.x[0] });
  }
  const gap = gaps.reduce((best, g) => (g.to - g.from > best.to - best.from ? g : best));
  const room = gap.to - gap.from - 10;
  return <g class="part-names">{layers.map((layer, k) => {
    const at = (i: number, n: number) => y((bases[i][k] + bases[i][k + 1]) / 2) * n;
    const high = (i: number) => (y(bases[i][k]) - y(bases[i][k + 1])) / 2;
    const text = brief(layer.title, 44);
    if (high(gap.a) + high(gap.b) < 15 || text.length * LETTER > room) return null;
    const single = gap.a === gap.b;
    return <text key={layer.key} x={single && gap.to === bars.x[0] ? gap.to - 5 : single ? gap.from + 5 : (gap.from + gap.to) / 2}
      y={(at(gap.a, 0.5) + at(gap.b, 0.5) + 4).toFixed(1)} text-anchor={!single ? "middle" : gap.to === bars.x[0] ? "end" : "start"}>{text}</text>;
  })}</g>;
}

// ---- the table

// Which sections are closed ("-3") and which show all lines ("3"), in the page's address.
function useFolds(): { has: (code: string) => boolean; set: (section: number, code: string) => void } {
  const codes = state.value.lines.split(".").filter(Boolean);
  return {
    has: (code) => codes.includes(code),
    set: (section, code) => go({ lines: [...codes.filter((c) => abs(Number(c)) !== section), code].filter(Boolean).join(".") }, true),
  };
}

function Cells({ sums, whole, swapped }: { sums: Sums; whole: number; swapped: boolean }) {
  const cell = (n: number, phone = false) => <td class={phone ? "number" : "number no-phone"}>{n ? <Size n={n} /> : "–"}</td>;
  return <>{cell(sums.resident_bytes, true)}<td><ShareCell part={sums.resident_bytes} whole={whole} /></td>{cell(sums.private_bytes)}{swapped && cell(sums.swapped_bytes)}{cell(sums.virtual_bytes)}</>;
}

function Lines({ doc, ledger, layers }: { doc: Ledgers; ledger: Ledger; layers: Layer[] }) {
  const folds = useFolds(), search = state.value.search.toLowerCase();
  const rows = rowsOf(doc.sections, ledger, (section) => folds.has(String(section + 1)), (words) => words.toLowerCase().includes(search));
  const whole = ledger.rss_bytes, all = sumOf(ledger.lines), swapped = all.swapped_bytes > 0;
  const move = (e: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    const buttons = [...(e.currentTarget as HTMLElement).querySelectorAll("button")];
    const next = step && buttons[buttons.indexOf(e.target as HTMLButtonElement) + step];
    if (!next) return;
    taken(e);
    next.focus();
  };
  return <div class="table-box" tabIndex={0} role="region" aria-label="Ledger"><table class="ledger" onKeyDown={move}>
    <caption class="hidden">{`Lines of the ledger ${momentWords(ledger)} resident`}</caption>
    <thead><tr><th scope="col">Line</th><th scope="col" class="number">Resident</th><th scope="col">Share</th>
      <th scope="col" class="number no-phone" title="In pages that are the process's own">Private</th>{swapped && <th scope="col" class="number no-phone">Swapped</th>}
      <th scope="col" class="number no-phone" title="Touched or not">Mapped</th></tr></thead>
    {rows.map(({ section, sum, lines, rest }) => {
      const code = String(section + 1), closed = folds.has("-" + code) && !search, title = doc.sections[section].title;
      return <tbody key={section}>
        <tr class="section"><th scope="rowgroup"><button class="link" aria-expanded={!closed} onClick={() => folds.set(section + 1, closed ? "" : "-" + code)}><span aria-hidden="true">{closed ? "▸" : "▾"}</span> {title}</button></th><Cells sums={sum} whole={whole} swapped={swapped} /></tr>
        {!closed && lines.map((line, i) => <tr key={i}><th scope="row" title={clean(line.name)}><Swatch layer={layerOf(layers, line)} />{brief(line.words, 90)}</th><Cells sums={line} whole={whole} swapped={swapped} /></tr>)}
        {!closed && rest.length > 0 && <tr><th scope="row"><Swatch /><button class="link" onClick={() => folds.set(section + 1, code)}>{`${rest.length} more`}</button></th><Cells sums={sumOf(rest)} whole={whole} swapped={swapped} /></tr>}
      </tbody>;
    })}
    <tbody><tr class="sum"><th scope="row">all</th><Cells sums={all} whole={whole} swapped={swapped} /></tr></tbody>
  </table></div>;
}
