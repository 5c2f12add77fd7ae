// The inspector: everything about one site, or about one box of the flame graph.
import type { Frame, Site, Summary } from "./api";
import { Amount, Document, Fact, FunctionName, openSandwich, openSource, PlaceName, Size, Sparkline } from "./bits";
import { copied, copyText } from "./clipboard";
import { shownRow } from "./diff";
import { isFile, useDocument } from "./fetch";
import { childrenOf, findPath, frameLabel, frameOf, framesOf, nodeLabel, pathName, stackOf, type Flame } from "./flame";
import { otherSide } from "./inspector_side";
import { endWords } from "./findings";
import { shownFlame } from "./flame_view";
import { allBuckets, Histogram } from "./lifetimes";
import { address, chooseProcess, go, processOf, state } from "./state";
import { clean, count, duration, lifetime, quoted, several, share, threadWords, type Unit } from "./words";

let stackText = "";

export function copyStack(): void {
  copyText(stackText);
}

function frameText(f: Frame): string {
  return `${f.function || "(no name)"}${f.file ? ` (${f.file}${f.line ? ":" + f.line : ""})` : f.module ? ` [${f.module}]` : ""}`;
}

export function Inspector({ summary }: { summary: Summary }) {
  const s = state.value;
  const shown = shownFlame.value;
  const row = s.view === "diff" && !s.site ? shownRow.value : null;
  if (!s.site && !row && !(s.node && s.view === "flame" && shown)) return null;
  const close = () => {
    shownRow.value = null;
    go({ site: 0, node: "" });
  };
  return <aside class={otherSide.value ? "inspector other-side" : "inspector"} aria-label="Inspector">
    <div class="inspector-head"><h2>{s.site ? "Site" : row ? "Change" : "Function"}</h2>
      <button onClick={copyStack} title="key y">{copied.value && copied.value === stackText ? "Copied" : "Copy stack"}</button>
      <button onClick={close} title="Esc">Close</button></div>
    {s.site ? <SiteDetails summary={summary} /> : row ? <ChangeDetails row={row} /> : <NodeDetails flame={shown!.flame} unit={shown!.unit} summary={summary} />}
  </aside>;
}

function SiteDetails({ summary }: { summary: Summary }) {
  const answer = useDocument<Site>(address(`/api/r/${summary.id}/site`, processOf(state.value), { site: state.value.site }));
  return <Document answer={answer}>{(site) => <SiteBody site={site} summary={summary} />}</Document>;
}

function ChangeDetails({ row }: { row: NonNullable<typeof shownRow.value> }) {
  stackText = row.stack.map(frameText).join("\n");
  return <>
    <p class="inspector-title"><FunctionName name={row.place.function} /> <PlaceName place={row.place} /></p>
    <Stack frames={row.stack} first={row.stack.findIndex((f) => f.user)} />
  </>;
}

function SiteBody({ site, summary }: { site: Site; summary: Summary }) {
  const r = site.row, has = summary.has;
  stackText = site.stack.map(frameText).join("\n");
  return <>
    <p class="inspector-title"><FunctionName name={r.place.function} /> <PlaceName place={r.place} />{r.via && <span class="faint"> via {clean(r.via)}</span>}</p>
    <dl class="facts">
      {has.peak && <Fact name="At peak"><Size n={r.peak_bytes} /></Fact>}
      {has.live && <Fact name={endWords(summary)}><Size n={r.end_bytes} /> <span class="faint">{several(r.end_blocks, "block")}</span></Fact>}
      {has.allocated && <Fact name="Allocated"><Size n={r.allocated_bytes} /> <span class="faint">{several(r.allocations, "time")}{r.reallocations ? `, ${several(r.reallocations, "reallocation")}` : ""}</span></Fact>}
      {has.temporary && <Fact name="Temporary">{count(r.temporary)} <span class="faint">{share(r.temporary, r.allocations)}</span></Fact>}
      {has.lifetimes && <Fact name="Lifetime">{lifetime(r.lifetime_ns?.p50)} <span class="faint">median, p99 {lifetime(r.lifetime_ns?.p99)}</span></Fact>}
    </dl>
    {site.bytes.length > 1 && <><h3>Live over time</h3><Sparkline points={site.bytes} width={300} height={56} /></>}
    {has.lifetimes && site.lifetime_log2?.length ? <><h3>Lifetimes</h3><Histogram counts={allBuckets(site.lifetime_log2)} height={84} /></> : ""}
    <h3>Call stack</h3>
    <Stack frames={site.stack} first={site.first_user} />
    {site.freed_by.length > 0 && <><h3>Freed by</h3>{site.freed_by.map((f, i) => <details key={i}><summary>{share(f.share, 1)} <FunctionName name={(f.stack.find((x) => x.user) ?? f.stack[0])?.function ?? ""} most={40} /></summary><Stack frames={f.stack} first={f.stack.findIndex((x) => x.user)} /></details>)}</>}
    {site.handover.length > 0 && <><h3>Handed over</h3><ul class="plain">{site.handover.map((h, i) => <li key={i}>{whoWords(h.from_tid, h.from_name)} → {whoWords(h.to_tid, h.to_name)} <span class="faint">{several(h.frees, "block")}</span></li>)}</ul></>}
  </>;
}

// Neither number nor name: all other threads.
function whoWords(tid: number, name: string): string {
  return tid || name ? threadWords(tid, name) : "others";
}

// Innermost first; the first frame of the user's own code stands out, with a word for it.
export function Stack({ frames, first }: { frames: Frame[]; first: number }) {
  return <ol class="stack">{frames.map((f, i) => <li key={i} class={i === first ? "first-user" : f.user ? "" : "system"}>
    <button class="link" onClick={() => openSandwich(f.function, f.module)} title={clean(f.function) + ": open in Sandwich"}><FunctionName name={f.function} most={80} /></button>{" "}
    {f.file ? <button class="link place-link" onClick={() => openSource(f.file, f.line)} title={clean(f.file) + ": open the source"}><PlaceName place={f} /></button> : <PlaceName place={f} />}
    {f.inlined && <span class="faint"> inlined</span>}{i === first && <span class="tag">first of your code</span>}
  </li>)}</ol>;
}

function NodeDetails({ flame, unit, summary }: { flame: Flame; unit: Unit; summary: Summary }) {
  const node = findPath(flame, state.value.node);
  const f = frameOf(flame, node);
  const chain = flame.chains.get(node)?.length ?? 0;
  // Innermost first, chains frame by frame.
  const path = stackOf(flame, node).flatMap((n) => {
    const frames: (Frame | null)[] = framesOf(flame, n).reverse();
    return (frames.length ? frames : [null]).map((frame) => ({ node: n, frame }));
  });
  if (state.value.invert) path.reverse();
  stackText = path.map((p) => (p.frame ? frameText(p.frame) : nodeLabel(flame, p.node))).join("\n");
  const children = childrenOf(flame, node);
  return <>
    <p class="inspector-title"><FunctionName name={f?.function || nodeLabel(flame, node)} /> {f && <PlaceName place={f} />}</p>
    <dl class="facts">
      <Fact name="Total"><Amount n={flame.total[node]} unit={unit} /> <span class="faint">{share(flame.total[node], flame.total[0])}</span></Fact>
      <Fact name="Own"><Amount n={flame.self[node]} unit={unit} /></Fact>
      {flame.other && flame.other[node] > 0 && <Fact name="Mean lifetime">{duration(flame.other[node])}</Fact>}
      {f && !f.process && <Fact name="Module"><span title={clean(f.module)}>{clean(f.module).slice(-60)}</span></Fact>}
    </dl>
    {f && <div class="button-row">
      <button onClick={() => go({ zoom: pathName(flame, node) })}>Zoom</button>
      {chain > 0 && <button onClick={() => go({ opened: [state.value.opened, pathName(flame, node)].filter(Boolean).join(".") })} title="A box for each of them">Open {chain} frames</button>}
      {f.process ? <button class="primary" disabled={isFile()} onClick={() => chooseProcess((f.process!.number ?? -1) + 1, f.process!.program ?? "")}>{f.process.program ? "Only these processes" : "Only this process"}</button> : <>
      <button onClick={() => openSandwich(f.function, f.module)} title="key s">Sandwich</button>
      {f.file && <button disabled={!summary.has.source} onClick={() => openSource(f.file, f.line)} title={summary.has.source ? undefined : "No source lines in this file"}>Source</button>}
      <button onClick={() => go({ view: "sites", search: f.function, sort: "" })}>Its sites</button>
      {!isFile() && <><button onClick={() => go({ focus: quoted(f.function), zoom: "" })} title="Count only stacks through it">Only this</button>
        <button onClick={() => go({ ignore: quoted(f.function), zoom: "", node: "" })} title="Count only stacks without it">Without</button></>}</>}
    </div>}
    {children.length > 0 && <><h3>{state.value.invert ? "Called by" : "Calls"}</h3><ul class="plain">{[...children.slice(0, 12)].map((c) => <li key={c}><button class="link" onClick={() => go({ node: pathName(flame, c) }, true)}>{nodeLabel(flame, c)}</button> <span class="faint num">{share(flame.total[c], flame.total[node])}</span></li>)}</ul></>}
    <h3>Call stack</h3>
    <ol class="stack">{path.map((p, i) => <li key={i} class={p.frame === f ? "first-user" : p.frame && !p.frame.user ? "system" : ""}>
      <button class="link" onClick={() => go({ node: pathName(flame, p.node) }, true)}>{p.frame ? frameLabel(p.frame) : nodeLabel(flame, p.node)}</button></li>)}</ol>
  </>;
}
