// Diff: what changed, between two instants of a recording or two recordings. Red and blue, and always
// a sign: boxes are as wide as the larger of both values, so that what vanished is still there.
import { abs, max } from "./arithmetic";
import { signal } from "@preact/signals";
import { useMemo, useState } from "preact/hooks";
import type { Diff as Doc, Recordings, Summary } from "./api";
import { Amount, Change, Document, Empty, FunctionName, PlaceName, Table, type Column } from "./bits";
import { mix, type Palette } from "./colours";
import { isFile, useDocument } from "./fetch";
import { findMatches, findPath, makeFlame, pathName, type Flame } from "./flame";
import { FlameCanvas } from "./flame_canvas";
import { address, go, state } from "./state";
import { brief, duration, share, signed, type Unit } from "./words";

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
    </div>
    <Document answer={answer}>{(doc) => <Result doc={doc} />}</Document>
  </>;
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

export function diffFlame(doc: Doc): Flame {
  const { before, after } = ownValues(doc);
  const self = after.map((v, i) => max(v, before[i], 0));
  return makeFlame({ ...doc.tree, self, other: undefined }, { invert: false, merge: false, fold: false }, [before, after]);
}

function changeColour(flame: Flame): (node: number, p: Palette) => string {
  return (node, p) => {
    const change = flame.extra[1][node] - flame.extra[0][node];
    return mix(p.plain, change > 0 ? p.more : p.less, Math.sqrt(abs(change) / (flame.total[node] || 1)));
  };
}

function Result({ doc }: { doc: Doc }) {
  const s = state.value;
  const flame = useMemo(() => diffFlame(doc), [doc]);
  const colour = useMemo(() => changeColour(flame), [flame]);
  const [zoom, setZoom] = useState("");
  const matches = useMemo(() => findMatches(flame, s.search), [flame, s.search]);
  const change = doc.b.sum - doc.a.sum;
  const words = (node: number) => signed(flame.extra[1][node] - flame.extra[0][node], doc.unit);
  return <>
    <p class="lead">A <strong><Amount n={doc.a.sum} unit={doc.unit} /></strong> → B <strong><Amount n={doc.b.sum} unit={doc.unit} /></strong>: <strong><Change n={change} unit={doc.unit} /></strong>{doc.a.sum > 0 && ` (${change > 0 ? "+" : "−"}${share(abs(change), doc.a.sum)})`}</p>
    {flame.count < 2 ? <Empty title="Nothing to compare">Neither side holds anything.</Empty> : <>
      <FlameCanvas flame={flame} unit={doc.unit} label="changes by call stack" rootName="all" chosen={findPath(flame, s.node)} zoom={findPath(flame, zoom)} matches={matches} colour={colour} note={words}
        choose={(n) => go({ node: pathName(flame, n), site: 0 }, true)} zoomTo={(n) => setZoom(pathName(flame, n))} />
      <p class="legend"><span class="more">+ more in B (red)</span><span class="less">− less in B (blue)</span><span>a box is as wide as the larger of A and B</span></p>
      <Table label="Changes" columns={columns(doc.unit)} rows={doc.rows} rowKey={(_, i) => i}
        open={(row) => { shownRow.value = row; go({ site: 0, node: "" }); }} chosen={(row) => row === shownRow.value} />
    </>}
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
