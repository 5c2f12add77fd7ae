// Findings, the first view: four numbers, then what is wrong, worst first, each with its proof a click
// away ("Show me" sets window, mode, filter and view, and keeps the sentence beside it).
import type { EvidenceValue, Finding, Note, Part, Summary } from "./api";
import { Callers, Empty, PlaceName, Size, Sparkline } from "./bits";
import { DEFAULTS, go, state, VIEWS, type State, type ViewName } from "./state";
import { brief, bytes, claim, clean, count, duration, exactBytes, functionWords, rate, several, share, short } from "./words";

const SEVERITY = { high: { icon: "▲", words: "High" }, medium: { icon: "◆", words: "Medium" }, low: { icon: "●", words: "Low" } };

export function Findings({ summary }: { summary: Summary }) {
  const findings = summary.findings, chosen = state.value.process || state.value.program;
  return <div class="findings">
    <FourNumbers summary={summary} />
    <Notes summary={summary} />
    {findings.length > 0 && chosen ? <p class="note">heft found these in all processes together. This process has the same call stacks.</p> : ""}
    {findings.length === 0
      ? <Empty title={chosen ? "No finding concerns this selection" : "heft found nothing wrong"}>{summary.live ? "It keeps looking while the program runs. " : ""}Start with the flame graph (2) or the sites (3) to see where the memory comes from.</Empty>
      : <ol class="cards" aria-label="Findings">{findings.map((f, i) => <Card key={i} finding={f} number={i + 1} summary={summary} />)}</ol>}
    <Conclusions notes={summary.notes.filter((n) => n.about)} />
  </div>;
}

// What was not freed: of several processes, each at its own end.
export function endWords(summary: Summary): string {
  return summary.process_count > 1 ? "Left at exit" + (summary.live ? " or live now" : "") : summary.live ? "Live now" : "Live at the end";
}

function FourNumbers({ summary }: { summary: Summary }) {
  const t = summary.totals, has = summary.has, { allocations = 0, peak_bytes = 0 } = t, rss = t.peak_rss_bytes ?? 0;
  const within = (n: number | undefined, words: (n: number) => string) => (n ? ` ± ${words(n)}` : "");
  // Of bytes, then of the blocks that they are in.
  const blocks = (n = 0, bytesError?: number, blocksError?: number) => `${bytesError ? within(bytesError, bytes) + ", " : ""}${count(n)}${within(blocksError, count)} ${n === 1 ? "block" : "blocks"}`;
  const items: { name: string; value: string; title?: string; more: string }[] = [
    { name: "Peak heap", value: has.peak ? bytes(peak_bytes) : "not known", title: exactBytes(peak_bytes),
      more: has.peak ? blocks(t.peak_blocks, t.peak_bytes_error95, t.peak_blocks_error95) + (has.times ? ` at ${duration(t.peak_time_ns)}` : "") : "not recorded in this file" },
    { name: endWords(summary), value: has.live ? bytes(summary.end_bytes) : "not known", title: exactBytes(summary.end_bytes),
      more: has.live ? blocks(summary.end_blocks, summary.end_bytes_error95, summary.end_blocks_error95) : "not recorded in this file" },
    { name: "Peak RSS", value: rss ? bytes(rss) : "not known", title: exactBytes(rss),
      more: rss && peak_bytes && has.peak ? `${(rss / peak_bytes).toFixed(1)} × the peak heap` : "not recorded in this file" },
    { name: "Allocated in all", value: `${short(allocations)} blocks`, title: several(allocations, "block"),
      more: [has.times && summary.duration_ns && rate(allocations, summary.end_ns - summary.start_ns).replace("/", " allocations/"), t.allocations_error95 && `± ${count(t.allocations_error95)}`, t.allocated_bytes && bytes(t.allocated_bytes),
        has.temporary && allocations && `${share(t.temporary, allocations)} temporary`].filter(Boolean).join(", ") },
  ];
  return <dl class="four">{items.map((i) => <div key={i.name}><dt>{i.name}</dt><dd title={i.title}>{i.value}</dd><dd class="faint">{i.more}</dd></div>)}</dl>;
}

function Notes({ summary }: { summary: Summary }) {
  const left = summary.pruned ?? [];
  const words = [...summary.notes.filter((n) => n.kind === "warning" && !n.about).map((n) => n.text), ...left.map((p) => `This file leaves out: ${p}`)];
  if (!summary.complete) words.unshift(`The recording is incomplete${summary.end_words ? ": " + summary.end_words : ""}.`);
  if (!words.length) return null;
  return <ul class="notes" aria-label="Notes">{words.map((w, i) => <li key={i}>{i < words.length - left.length && <span aria-hidden="true">⚠ </span>}{clean(w)}</li>)}</ul>;
}

// What is good to know, apart from what is wrong.
function Conclusions({ notes }: { notes: Note[] }) {
  return notes.length > 0 && <section class="conclusions" aria-label="Notes on this recording"><h2>Notes</h2><ul>{notes.map((n, i) => <li key={i} data-about={n.about}>
    <p>{brief(n.text, 900)}</p>{n.advice && <p class="advice"><strong>What to do</strong> {brief(n.advice, 900)}</p>}</li>)}</ul></section>;
}

// What "Show me" applies: the selection from its defaults, so that an earlier filter does not lie.
export function explainPatch(finding: Finding): Partial<State> {
  const { view, ...selection } = finding.explain;
  const patch: Partial<State> = { mode: DEFAULTS.mode, at: DEFAULTS.at, from: 0, to: 0, metric: "bytes", thread: "", focus: "", ignore: "", within: 0, zoom: "", node: "", search: "" };
  for (const [key, value] of Object.entries(selection)) if (value !== undefined && value !== null) (patch as Record<string, unknown>)[key] = value;
  patch.view = (VIEWS as readonly string[]).includes(view) ? (view as ViewName) : "flame";
  patch.site = finding.site;
  return patch;
}

// Above a view that shows a finding's proof: what it said.
export function Pinned({ summary }: { summary: Summary }) {
  const f = summary.findings[state.value.finding - 1];
  if (!f || state.value.view === "findings") return null;
  return <div class={`pinned ${f.severity}`} role="note" aria-label="The finding that is shown">
    <Severity finding={f} />
    <p>{brief(f.summary, 900)}</p>
    <button onClick={() => go({ view: "findings", site: 0, node: "" })}>Findings</button>
    <button onClick={() => go({ finding: 0 })} title="Unpin this sentence" aria-label="Unpin">×</button>
  </div>;
}

function Severity({ finding: f }: { finding: Finding }) {
  const s = SEVERITY[f.severity] ?? SEVERITY.low;
  return <span class={`severity ${f.severity}`}><span aria-hidden="true">{s.icon}</span> {s.words}</span>;
}

function Card({ finding: f, number, summary }: { finding: Finding; number: number; summary: Summary }) {
  const peak = summary.has.peak ? summary.totals.peak_bytes ?? 0 : 0, evidence = Object.entries(f.evidence);
  return <li class={`card ${f.severity}`} data-kind={f.kind}>
    <div class="card-head">
      <Severity finding={f} />
      <span class="kind">{brief(f.kind, 60).replace(/[-_]/g, " ")}</span>
      {f.bytes > 0 && <span class="card-bytes"><Size n={f.bytes} />{peak > 0 && f.bytes <= peak && <span class="faint"> {share(f.bytes, peak)} of the peak</span>}</span>}
    </div>
    <div class="card-body">
      <div class="card-text">
        <h2 class="claim">{claim(f.kind, f.summary)}</h2>
        {f.advice && <p class="advice"><strong>What to do</strong> {brief(f.advice, 900)}</p>}
      </div>
      {f.trend.length > 1 && <Sparkline points={f.trend} width={150} height={48} />}
    </div>
    <div class="card-foot">
      {f.where && <button class="link" onClick={() => go({ site: f.site, node: "" })} disabled={!f.site} title={clean(f.where.function)}>{functionWords(f.where.function, 60)} <PlaceName place={f.where} /><Callers text={f.callers} /></button>}
      {f.explain.view !== "findings" && <button class="primary" onClick={() => go({ ...explainPatch(f), finding: number })}>Show me</button>}
    </div>
    {evidence.length > 0 && <details><summary>Evidence</summary><dl class="evidence">
      {evidence.map(([name, value]) => <div key={name}><dt>{clean(name).replace(/_/g, " ").replace(/ (ns|bytes)$/, "")}</dt><dd><Evidence name={name} value={value} /></dd></div>)}</dl></details>}
    {f.rule && <Explanation finding={f} />}
  </li>;
}

// The chain behind a finding: its rule, what was measured against which limit, and what would have made it
// silent, the nearest first.
function Explanation({ finding: f }: { finding: Finding }) {
  const all = f.conditions ?? [], nearest = [...all].sort((a, b) => (a.margin ?? Infinity) - (b.margin ?? Infinity));
  return <details class="explanation"><summary>Explain</summary>
    <p>{clean(f.rule!)} {clean(f.severity_reason ?? "")}</p>
    {all.length > 0 && <>
      <h3>All of these held</h3>
      <div class="conditions" role="table" aria-label="Conditions">
        <div role="row"><span role="columnheader">What</span><span role="columnheader">Measured</span><span role="columnheader">Limit</span></div>
        {all.map((c, i) => <div key={i} role="row"><span role="cell">{clean(c.what)}</span><span role="cell" class="num">{clean(c.measured_words)}</span>
          <span role="cell" class="num">{c.unit === "fact" ? "–" : `${c.comparison === "at-least" ? "at least" : "at most"} ${clean(c.limit_words)}`}</span></div>)}
      </div>
      <h3>Any one of these would have made it silent</h3>
      <ul>{nearest.map((c, i) => <li key={i}>{clean(c.silent_if)}</li>)}</ul></>}
  </details>;
}

// Names of evidence say the unit of their numbers (docs/findings.md).
export function evidenceWords(name: string, n: number): string {
  const has = (what: RegExp) => what.test(name);
  return has(/_ns$/) ? duration(n) : has(/bytes/) ? bytes(n) + (has(/second/) ? "/s" : "") : has(/share$|in_order|by_others/) ? share(n, 1) : count(n);
}

function Evidence({ name, value }: { name: string; value: EvidenceValue }) {
  if (typeof value === "number") return <>{evidenceWords(name, value)}</>;
  if (typeof value === "string") return <>{brief(value, 300)}</>;
  if (!value.length || typeof value[0] === "string") return <>{(value as string[]).map(clean).join(", ")}</>;
  return <ul class="parts">{(value as Part[]).map((p, i) => <li key={i}>
    <Size n={p.bytes} /> <span class="num faint">{share(p.share, 1)}</span> <button class="link" disabled={!p.site} aria-current={p.site && state.value.site === p.site ? "true" : undefined}
      onClick={() => go({ site: p.site ?? 0, node: "" })}>{functionWords(p.function, 60)} <span class="place">{clean(p.where ?? "")}</span></button></li>)}</ul>;
}
