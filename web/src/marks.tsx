// Marks: what the program said while it was recorded (heft.h), in the window if one is chosen: marks and regions, how long followed
// blocks are at each stage, events, and the objects of its own allocators.
import type { ComponentChildren } from "preact";
import type { Mark, Region, Remarks as Doc, Said, Stage, Summary } from "./api";
import { Callers, Document, Empty, FunctionName, PlaceName, Size, Table, type Column } from "./bits";
import { useDocument } from "./fetch";
import { stageWords, untilNext, zoomTo } from "./remarks";
import { address, processOf, state } from "./state";
import { brief, clean, count, duration, several } from "./words";

const name = (text: string) => <span class="function" title={clean(text)}>{brief(text, 60) || "(no name)"}</span>;
const number = <Row,>(key: string, head: string, value: (row: Row) => number, cell: (n: number) => ComponentChildren, phone = false): Column<Row> =>
  ({ key, head, number: true, phone, value, cell: (row) => cell(value(row)) });
const time = (ns: number) => <span class="num" title={`${ns} ns`}>{duration(ns)}</span>;
const many = (n: number) => <span class="num">{count(n)}</span>;
const size = (n: number) => <Size n={n} />;

export function MarksView({ summary }: { summary: Summary }) {
  const s = state.value;
  const window = s.mode !== "live" && (s.from || s.to) ? { mode: "allocated" as const, from: s.from || undefined, to: s.to || undefined } : {};
  const answer = useDocument<Doc>(address(`/api/r/${summary.id}/remarks`, { ...window, ...processOf(s) }));
  const end = s.mode !== "live" && s.to ? s.to : summary.end_ns;
  return <Document answer={answer}>{(doc) => Object.keys(doc).length
    ? <><Moments doc={doc} summary={summary} end={end} /><Regions doc={doc} summary={summary} /><Stages doc={doc} /><Pools doc={doc} /><Events doc={doc} /></>
    : <Empty title="The program said nothing here">Choose the whole run above.</Empty>}</Document>;
}

function Moments({ doc, summary, end }: { doc: Doc; summary: Summary; end: number }) {
  if (!doc.marks) return null;
  const until = untilNext(doc.marks, end), at = (m: Mark) => doc.marks!.indexOf(m);
  const columns: Column<Mark>[] = [
    { key: "mark", head: "Mark", wide: true, phone: true, cell: (m) => name(m.name) },
    number("marked", "At", (m) => m.time_ns, time, true), number("until", "Until the next", (m) => until[at(m)], time, true),
  ];
  return <><h2>Marks</h2>
    <Table label="Marks" columns={columns} rows={doc.marks} rowKey={(_, i) => i} open={summary.has.windows ? (m) => zoomTo(m.time_ns, m.time_ns + until[at(m)]) : undefined} />
    <p class="note">{summary.has.windows && "Choose a mark to see what grew until the next one. "}{doc.mark_count && `These are the first of ${several(doc.mark_count, "mark")}.`}</p></>;
}

function Regions({ doc, summary }: { doc: Doc; summary: Summary }) {
  if (!doc.regions) return null;
  const columns: Column<Region>[] = [
    { key: "region", head: "Region", wide: true, phone: true, cell: (r) => <>{name(r.name)}<span class="faint">{r.scope === "thread" && ` thread ${r.tid}`}{r.open && " open"}</span></> },
    number("began", "Began", (r) => r.begin_ns, time), number("took", "Took", (r) => r.end_ns - r.begin_ns, time, true),
  ];
  return <><h2>Regions</h2>
    <Table label="Regions" columns={columns} rows={doc.regions} rowKey={(_, i) => i} open={summary.has.windows ? (r) => zoomTo(r.begin_ns, r.end_ns) : undefined} />
    <p class="note">{summary.has.windows && "Choose a region to see what grew in it. "}{doc.region_count && `These are the first of ${several(doc.region_count, "region")}.`}</p></>;
}

const STAGES: Column<Stage>[] = [
  { key: "stage", head: "From → to", wide: true, phone: true, cell: (s) => name(stageWords(s).join(" → ")) },
  number("blocks", "Blocks", (s) => s.blocks, many), number("mean", "Mean", (s) => s.mean_ns, time, true),
  number("p50", "p50", (s) => s.p50_ns, time), number("p99", "p99", (s) => s.p99_ns, time), number("max", "Max", (s) => s.max_ns, time),
];
function Stages({ doc }: { doc: Doc }) {
  return doc.stages ? <><h2>Time at each stage</h2><Table label="Time at each stage" columns={STAGES} rows={doc.stages} rowKey={(_, i) => i} /></> : null;
}

const place = (p: Said) => <><FunctionName name={p.function} most={60} /> <PlaceName place={p} /><Callers text={p.caller} /></>;

type PoolRow = { pool: string; site?: Said; left_objects: number; left_bytes: number; peak_bytes: number; objects: number };
const POOLS: Column<PoolRow>[] = [
  { key: "pool", head: "Pool", wide: true, phone: true, cell: (r) => (r.site ? <span class="indented">{place(r.site)}</span> : name(r.pool)) },
  number("left_objects", "Left", (r) => r.left_objects, many, true), number("left_bytes", "Left bytes", (r) => r.left_bytes, size, true),
  number("pool_peak", "Peak", (r) => r.peak_bytes, size), number("objects", "Objects", (r) => r.objects, many),
];
function Pools({ doc }: { doc: Doc }) {
  if (!doc.pools) return null;
  const rows = doc.pools.flatMap((p): PoolRow[] => [{ ...p, pool: p.name }, ...p.sites.map((s) => ({ ...s, pool: p.name, site: s }))]);
  return <><h2>Pools: objects that the program's own allocators hand out</h2><Table label="Pools" columns={POOLS} rows={rows} rowKey={(_, i) => i} /></>;
}

type EventRow = { event: string; site?: Said; count: number; weight: number };
const EVENTS: Column<EventRow>[] = [
  { key: "event", head: "Event", wide: true, phone: true, cell: (r) => (r.site ? <span class="indented">{place(r.site)}</span> : name(r.event)) },
  number("times", "Times", (r) => r.count, many, true), number("weight", "Weight", (r) => r.weight, many, true),
];
function Events({ doc }: { doc: Doc }) {
  if (!doc.program_events) return null;
  const rows = doc.program_events.flatMap((e): EventRow[] => [{ ...e, event: e.name }, ...e.sites.map((s) => ({ ...s, event: e.name, site: s }))]);
  return <><h2>Events</h2><Table label="Events" columns={EVENTS} rows={rows} rowKey={(_, i) => i} /></>;
}
