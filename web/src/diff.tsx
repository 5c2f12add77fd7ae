// Compare: what changed, between two instants of a recording or two recordings. As one graph, red and
// blue, and always with a sign: boxes are as wide as the larger of both values, so that what vanished is
// still there. Or as two graphs beside each other, on one scale and in one set of colours.
import { abs, max } from "./arithmetic";
import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Diff as Doc, Recordings, Summary, Tree } from "./api";
import { Amount, Change, Choice, Document, Empty, FunctionName, PlaceName, Table, Total, type Column } from "./bits";
import { mix, type Palette } from "./colours";
import { isFile, useDocument } from "./fetch";
import { findMatches, findPath, makeFlame, pathName, type Flame } from "./flame";
import { FlameCanvas } from "./flame_canvas";
import { moduleColour } from "./flame_view";
import { address, chainShape, go, state } from "./state";
import { brief, clean, duration, share, signed, type Unit } from "./words";

type Row = Doc["rows"][number];
export const shownRow = signal<Row | null>(null); // its stack is in the inspector
type Instant = "peak" | "end" | number;

export function DiffView({ summary, recordings }: { summary: Summary; recordings: Recordings }) {
  const s = state.value;
  const others = recordings.recordings.filter((r) => r.id !== summary.id);
  const b = s.b || (s.bat === "" && others.length ? others[0].id : "");
  if (isFile()) return <Empty title="Not in this file">Compare recordings with: heft view A.heft B.heft, or heft diff A.heft B.heft</Empty>;
  if (!b && s.bat === "")
    return <Empty title="Compare two instants, or two recordings">Shift+click in the timeline chooses the second instant; d compares the peak with the instant.
      {" "}<button onClick={() => go({ mode: "live", at: "peak", bat: "end" })}>Compare the peak with the end</button> Two recordings: heft view A.heft B.heft</Empty>;
  return <Compared summary={summary} recordings={recordings} b={b} />;
}

function Compared({ summary, recordings, b }: { summary: Summary; recordings: Recordings; b: string }) {
  const s = state.value;
  const at: Instant = s.at, bat: Instant = s.bat === "" ? "peak" : s.bat;
  const answer = useDocument<Doc>(address("/api/diff", { a: summary.id, b: b || summary.id, metric: s.metric === "count" ? "count" : undefined,
    "a.at": at === "peak" ? undefined : at, "b.at": bat === "peak" ? undefined : bat }));
  const instants = (value: Instant, set: (v: Instant) => void, label: string) => <label class="select">{label} <select value={String(value)} onChange={(e) => set(e.currentTarget.value as Instant)}>
    <option value="peak">at its peak</option><option value="end">at its end</option>{typeof value === "number" && <option value={String(value)}>at {duration(value)}</option>}</select></label>;
  return <>
    <div class="view-bar">
      {instants(at, (v) => go({ mode: "live", at: v }), `A: ${brief(summary.name, 30)}`)}
      <label class="select">with <select value={b || summary.id} onChange={(e) => go({ b: e.currentTarget.value === summary.id ? "" : e.currentTarget.value, bat: bat })}>
        {recordings.recordings.map((r) => <option key={r.id} value={r.id}>{brief(r.name, 30)}</option>)}</select></label>
      {instants(bat, (v) => go({ bat: v }), "B")}
      <button onClick={() => (b ? go({ r: b, b: summary.id, at: bat, bat: at }) : go({ mode: "live", at: bat, bat: at }))}>Swap</button>
      <Choice label="as" value={s.side ? "two" : "one"} set={(v) => go({ side: v === "two" })} options={[
        { value: "one", words: "One graph", title: "Red: more in B, blue: less" }, { value: "two", words: "Side by side", title: "A and B on the same scale" }]} />
    </div>
    {b && <Numbers a={summary} b={b} />}
    <Document answer={answer}>{(doc) => <>
      <p class="lead">A <Total n={doc.a.sum} unit={doc.unit} /> → B <Total n={doc.b.sum} unit={doc.unit} />: <strong><Change n={doc.b.sum - doc.a.sum} unit={doc.unit} /></strong>{doc.unit === "count" && " blocks"}{doc.a.sum > 0 && doc.a.sum !== doc.b.sum && ` (${doc.b.sum > doc.a.sum ? "+" : "−"}${share(abs(doc.b.sum - doc.a.sum), doc.a.sum)})`}</p>
      {doc.a.sum + doc.b.sum <= 0 ? <Empty title="Nothing to compare">Both sides are empty.</Empty> : <>
        {s.side ? <Pair a={summary.id} b={b || summary.id} at={at} bat={bat} most={max(doc.a.sum, doc.b.sum)} /> : <Result doc={doc} />}
        <Table label="Changes" columns={columns(doc.unit)} rows={doc.rows} rowKey={(_, i) => i}
          open={(row) => { shownRow.value = row; go({ site: 0, node: "" }); }} chosen={(row) => row === shownRow.value} /></>}
    </>}</Document>
  </>;
}

// The numbers of both whole recordings.
function Numbers({ a, b: id }: { a: Summary; b: string }) {
  const b = useDocument<Summary>(`/api/r/${id}/summary`).value;
  if (!b) return null;
  const rows: { name: string; of: (s: Summary) => number; unit: Unit; has: (s: Summary) => unknown }[] = [
    { name: "Peak heap", of: (s) => s.totals.peak_bytes ?? 0, unit: "bytes", has: (s) => s.has.peak },
    { name: "Not freed in the end", of: (s) => s.end_bytes, unit: "bytes", has: (s) => s.has.live },
    { name: "Peak RSS", of: (s) => s.totals.peak_rss_bytes ?? 0, unit: "bytes", has: (s) => s.totals.peak_rss_bytes },
    { name: "Allocated", of: (s) => s.totals.allocated_bytes ?? 0, unit: "bytes", has: (s) => s.has.allocated },
    { name: "Blocks allocated", of: (s) => s.totals.allocations ?? 0, unit: "count", has: (s) => s.has.allocated },
  ];
  const of = (s: Summary, r: (typeof rows)[number]) => (r.has(s) ? <Amount n={r.of(s)} unit={r.unit} /> : "–");
  const cell = (content: ComponentChildren, role: "cell" | "columnheader" | "rowheader" = "cell") => <span role={role}>{content}</span>;
  return <div class="numbers" role="table" aria-label="Numbers of both recordings">
    <div role="row">{cell("Whole run", "columnheader")}{[a, b].map((s, i) => cell(<span title={clean(s.name)}>{"AB"[i]}: {brief(s.name, 12)}</span>, "columnheader"))}{cell("Change", "columnheader")}</div>
    {rows.map((r) => <div key={r.name} role="row">{cell(r.name, "rowheader")}{cell(of(a, r))}{cell(of(b, r))}{cell(r.has(a) && r.has(b) ? <Change n={r.of(b) - r.of(a)} unit={r.unit} /> : "–")}</div>)}
  </div>;
}

// Both sides as they are. A box of the same width is the same amount in both.
function Pair({ a, b, at, bat, most }: { a: string; b: string; at: Instant; bat: Instant; most: number }) {
  return <>
    <div class="pair"><Half label="A" id={a} at={at} most={most} /><Half label="B" id={b} at={bat} most={most} /></div>
    <p class="legend"><span>Both graphs have one scale: a box of the same width is the same amount. Colours are those of modules.</span></p>
  </>;
}

function Half({ label, id, at, most }: { label: string; id: string; at: Instant; most: number }) {
  const s = state.value;
  const answer = useDocument<Tree>(address(`/api/r/${id}/tree`, { at: at === "peak" ? undefined : at, metric: s.metric === "count" ? "count" : undefined }));
  const [zoom, setZoom] = useState("");
  const tree = answer.value;
  const flame = useMemo(() => tree && makeFlame(tree, { invert: false, merge: s.merge, fold: s.fold, ...chainShape(s) }), [tree, s.merge, s.fold, s.chains, s.opened]);
  const colour = useMemo(() => flame && moduleColour(flame), [flame]);
  const matches = useMemo(() => flame && findMatches(flame, s.search), [flame, s.search]);
  return <section aria-label={`Side ${label}`}><h2>{label}{tree && <>: <Total n={tree.sum} unit={tree.unit} /></>}</h2><Document answer={answer}>{() => flame && colour && (flame.count < 2 ? <Empty title={`Nothing in ${label}`} /> : <FlameCanvas flame={flame} unit={tree!.unit} label={`${label}: flame graph`} rootName={label}
    chosen={findPath(flame, s.node)} zoom={findPath(flame, zoom)} whole={most} matches={matches ?? null} colour={colour} dims
    choose={(n) => go({ node: pathName(flame, n), site: 0 }, true)} zoomTo={(n) => setZoom(pathName(flame, n))} />)}</Document></section>;
}

// Own values of both sides by node, from the totals: what a node has beyond its children.
function ownValues(doc: Doc): { before: number[]; after: number[] } {
  const { parent, total } = doc.tree;
  const before = [...doc.before], after = [...total];
  for (let i = parent.length - 1; i > 0; i--) {
    before[parent[i]] -= doc.before[i];
    after[parent[i]] -= total[i];
  }
  return { before, after };
}

export function diffFlame(doc: Doc, chains: ReturnType<typeof chainShape>): Flame {
  const { before, after } = ownValues(doc);
  const self = after.map((v, i) => max(v, before[i], 0));
  return makeFlame({ ...doc.tree, self, other: undefined }, { invert: false, merge: false, fold: false, ...chains }, [before, after]);
}

function changeColour(flame: Flame): (node: number, p: Palette) => string {
  return (node, p) => {
    const change = flame.extra[1][node] - flame.extra[0][node];
    return mix(p.plain, change > 0 ? p.more : p.less, Math.sqrt(abs(change) / (flame.total[node] || 1)));
  };
}

function Result({ doc }: { doc: Doc }) {
  const s = state.value;
  const flame = useMemo(() => diffFlame(doc, chainShape(s)), [doc, s.chains, s.opened]);
  const colour = useMemo(() => changeColour(flame), [flame]);
  const [zoom, setZoom] = useState("");
  const matches = useMemo(() => findMatches(flame, s.search), [flame, s.search]);
  const words = (node: number) => signed(flame.extra[1][node] - flame.extra[0][node], doc.unit);
  return <>
    <FlameCanvas flame={flame} unit={doc.unit} label="changes by call stack" rootName="all" chosen={findPath(flame, s.node)} zoom={findPath(flame, zoom)} matches={matches} colour={colour} note={words}
      choose={(n) => go({ node: pathName(flame, n), site: 0 }, true)} zoomTo={(n) => setZoom(pathName(flame, n))} />
    <p class="legend"><span class="more">+ more in B (red)</span><span class="less">− less in B (blue)</span><span>each box is as wide as the larger of A and B</span></p>
  </>;
}

function columns(unit: Unit): Column<Row>[] {
  return [
    { key: "place", head: "Site", wide: true, phone: true, value: (r) => r.place.function, cell: (r) => <><FunctionName name={r.place.function} most={70} /> <PlaceName place={r.place} /></> },
    { key: "kind", head: "What happened", cell: (r) => <>{brief(r.kind, 20)}{!r.significant && r.change !== 0 && <span class="faint"> (within the error)</span>}</> },
    { key: "a", head: "A", number: true, value: (r) => r.a, cell: (r) => <Amount n={r.a} unit={unit} /> },
    { key: "b", head: "B", number: true, value: (r) => r.b, cell: (r) => <Amount n={r.b} unit={unit} /> },
    { key: "change", head: "Change", number: true, phone: true, value: (r) => abs(r.change), cell: (r) => <strong><Change n={r.change} unit={unit} /></strong> },
  ];
}
