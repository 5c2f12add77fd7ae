// Source: which statement? The files by value, and one file's lines with what they allocate.
import { max } from "./arithmetic";
import type { Files, Source as Doc, Summary } from "./api";
import { Amount, Document, Empty, ShareCell, Table, type Column } from "./bits";
import { useSelected } from "./fetch";
import { go, selectedUnit, state } from "./state";
import { baseName, clean, share } from "./words";

type Line = Doc["lines"][number];

export function SourceView({ summary }: { summary: Summary }) {
  const s = state.value;
  const answer = useSelected<Files>(summary, "files");
  return <Document answer={answer}>{(doc) => {
    if (!doc.files.length) return <Empty title="No source lines here">No frame of this selection has a source line. Build the program with -g to get them.</Empty>;
    // Before one is chosen: the file whose text is there and whose own lines allocate most.
    const file = s.file || [...doc.files].sort((a, b) => Number(b.readable) - Number(a.readable) || b.self - a.self || b.total - a.total)[0].file;
    const sum = max(...doc.files.map((f) => f.total), 1);
    const known = doc.files.some((f) => f.file === file);
    return <>
      <div class="view-bar"><label class="select">File <select value={file} onChange={(e) => go({ file: e.currentTarget.value, line: 0 })}>
        {!known && <option value={file}>{clean(baseName(file))}</option>}
        {doc.files.slice(0, 500).map((f) => <option key={f.file} value={f.file}>{`${clean(baseName(f.file))}  ${share(f.total, sum)}${f.readable ? "" : " (no text)"}`}</option>)}</select></label>
        <span class="note path">{clean(file)}</span></div>
      <Lines summary={summary} file={file} />
    </>;
  }}</Document>;
}

function Lines({ summary, file }: { summary: Summary; file: string }) {
  const s = state.value;
  const answer = useSelected<Doc>(summary, "source", { file });
  const unit = selectedUnit();
  return <Document answer={answer}>{(doc) => {
    const columns: Column<Line>[] = [
      { key: "line", head: "Line", number: true, phone: true, cell: (l) => l.line },
      { key: "total", head: "Total", number: true, phone: true, title: "Allocated by this line and what it calls", cell: (l) => (l.total ? <Amount n={l.total} unit={unit} /> : "") },
      { key: "share", head: "Share", cell: (l) => (l.total ? <ShareCell part={l.total} whole={doc.sum} /> : "") },
      { key: "own", head: "Own", number: true, title: "Allocated by this line itself", cell: (l) => (l.self ? <Amount n={l.self} unit={unit} /> : "") },
      { key: "text", head: "Source", wide: true, phone: true, cell: (l) => <code title={clean(l.text.trim())}>{clean(l.text.replace(/\t/g, "    "))}</code> },
    ];
    const heavy = doc.lines.reduce((best, l, i) => (l.self > (doc.lines[best]?.self ?? 0) ? i : best), 0);
    const wanted = s.line ? doc.lines.findIndex((l) => l.line === s.line) : heavy;
    return <>
      {doc.words && <p class="note">{clean(doc.words)}</p>}
      {doc.lines.length ? <Table label="Source lines" columns={columns} rows={doc.lines} rowKey={(l) => l.line} dense reveal={wanted}
        chosen={(l) => l.line === doc.lines[wanted]?.line} /> : <Empty title="Nothing to show">{clean(doc.words)}</Empty>}
    </>;
  }}</Document>;
}
