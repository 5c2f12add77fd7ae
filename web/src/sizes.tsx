// Sizes: clusters of block sizes, and what the allocator's rounding costs.
import type { Sizes as Doc, Summary } from "./api";
import { BarChart } from "./bar_chart";
import { CHOOSE, Choice, Document, Empty, ShareCell, Size, Table, type Column } from "./bits";
import { isFile, useDocument } from "./fetch";
import { address, go, selectionOf, state } from "./state";
import { bytes, clean, count, share } from "./words";

type Row = Doc["rows"][number];
type Measure = "peak" | "live" | "allocated";

function rangeWords(r: Row): string {
  return r.low_bytes === r.high_bytes ? bytes(r.low_bytes) : `${bytes(r.low_bytes)} to ${bytes(r.high_bytes)}`;
}

// The measure follows the selection: its bytes, blocks and what rounding adds.
const MEASURES: Record<Measure, { words: string; bytes: (r: Row) => number; blocks: (r: Row) => number; slack: ((r: Row) => number) | null }> = {
  peak: { words: "At peak", bytes: (r) => r.peak_bytes, blocks: (r) => r.peak_blocks, slack: (r) => r.peak_slack_bytes },
  live: { words: "At end", bytes: (r) => r.live_bytes, blocks: (r) => r.live_blocks, slack: null },
  allocated: { words: "Allocated", bytes: (r) => r.allocated_bytes, blocks: (r) => r.allocations, slack: (r) => r.slack_bytes },
};

export function SizesView({ summary }: { summary: Summary }) {
  const s = state.value;
  // The document has all measures; a file holds only one.
  const answer = useDocument<Doc>(isFile() ? `/api/r/${summary.id}/sizes` : address(`/api/r/${summary.id}/sizes`, selectionOf(s)));
  const which: Measure = s.mode !== "live" ? "allocated" : s.at === "peak" ? "peak" : "live";
  const m = MEASURES[which];
  return <Document answer={answer}>{(doc) => {
    const sum = doc.rows.reduce((a, r) => a + m.bytes(r), 0), slack = m.slack ? doc.rows.reduce((a, r) => a + m.slack!(r), 0) : 0;
    const value = s.metric === "count" ? m.blocks : m.bytes, words = s.metric === "count" ? count : bytes;
    const columns: Column<Row>[] = [
      { key: "size", head: "Block size", wide: true, phone: true, value: (r) => r.low_bytes, cell: rangeWords },
      { key: "blocks", head: "Blocks", number: true, phone: true, value: m.blocks, cell: (r) => <span class="num">{count(m.blocks(r))}</span> },
      { key: "bytes", head: "Bytes", number: true, phone: true, value: m.bytes, cell: (r) => <Size n={m.bytes(r)} /> },
      { key: "share", head: "Share", cell: (r) => <ShareCell part={m.bytes(r)} whole={sum} /> },
    ];
    if (m.slack) columns.push({ key: "slack", head: "Lost to rounding", number: true, value: m.slack, cell: (r) => <Size n={m.slack!(r)} /> });
    return <>
      <div class="view-bar"><Choice label="measure" value={which} set={(v) => v !== which && go(v === "allocated" ? { mode: "allocated" } : { mode: "live", at: v === "live" ? "end" : "peak" })}
        options={(Object.keys(MEASURES) as Measure[]).map((k) => ({ value: k, words: k === "live" && k === which && s.at !== "end" ? "At instant" : MEASURES[k].words }))} />
        <span class="note">{bytes(sum)}{m.slack ? `, and ${bytes(slack)} more (${share(slack, sum)}) for rounding` : ""}. {clean(doc.words)}</span></div>
      {doc.rows.some((r) => value(r) > 0)
        ? <><BarChart height={180} caption="Block sizes" unit={s.metric} items={doc.rows.filter((r) => value(r) > 0).map((r) => ({ label: bytes(r.low_bytes), value: value(r), words: `${rangeWords(r)}: ${words(value(r))}` }))} />
          <Table label="Sizes" columns={columns} rows={doc.rows.filter((r) => m.blocks(r) > 0)} sort="bytes" rowKey={(r) => r.low_bytes} /></>
        : <Empty title="No blocks here">{CHOOSE}</Empty>}
    </>;
  }}</Document>;
}
