// Sandwich: who calls this function, and what does it call? All functions at the left; the one chosen has
// its callers above and its callees below, each a flame graph of its own.
import { useMemo, useState } from "preact/hooks";
import type { Frame, Functions, Sandwich as Doc, Summary, Tree } from "./api";
import { CHOOSE, Amount, Document, Empty, FunctionName, Table, type Column } from "./bits";
import { isFile, useSelected } from "./fetch";
import { makeFlame, sandwichOf } from "./flame";
import { FlameCanvas } from "./flame_canvas";
import { moduleColour } from "./flame_view";
import { chainShape, go, selectedUnit, state } from "./state";
import { brief, functionWords, share, withUnit } from "./words";

interface Row {
  frame: Frame;
  self: number;
  total: number;
}

export function SandwichView({ summary }: { summary: Summary }) {
  const s = state.value;
  const answer = useSelected<Functions>(summary, "functions", { search: s.search || undefined });
  const unit = selectedUnit();
  const columns = (sum: number): Column<Row>[] => [
    { key: "name", head: "Function", wide: true, phone: true, value: (r) => r.frame.function, cell: (r) => <><FunctionName name={r.frame.function} most={60} /> <span class="place">{brief(r.frame.module, 30)}</span></> },
    { key: "own", head: "Own", number: true, value: (r) => r.self, cell: (r) => <Amount n={r.self} unit={unit} /> },
    { key: "total", head: "Total", number: true, phone: true, value: (r) => r.total, cell: (r) => <Amount n={r.total} unit={unit} /> },
    { key: "share", head: "Share", number: true, cell: (r) => <span class="faint num">{share(r.total, sum)}</span> },
  ];
  // Before anything is chosen: the function of the user's own code that allocates most.
  const rows = answer.value?.rows ?? [];
  const heaviest = (list: Row[]) => list.reduce<Row | undefined>((best, r) => (!best || r.self > best.self ? r : best), undefined);
  const first = s.function ? undefined : (heaviest(rows.filter((r) => r.frame.user && r.self > 0)) ?? heaviest(rows))?.frame;
  const name = s.function || (first?.function ?? ""), module = s.function ? s.module : first?.module ?? "";
  return <div class="sandwich">
    <div class="sandwich-list"><Document answer={answer}>{(doc) => doc.rows.length
      ? <Table label="Functions" columns={columns(doc.sum)} rows={doc.rows} sort="own" rowKey={(r, i) => `${r.frame.function}\n${r.frame.module}\n${i}`}
        chosen={(r) => r.frame.function === name && r.frame.module === module} open={(r) => go({ function: r.frame.function, module: r.frame.module })} />
      : <Empty title="No functions here">{s.search ? "Nothing matches the search." : CHOOSE}</Empty>}</Document></div>
    <div class="sandwich-sides">{name ? <Sides summary={summary} name={name} module={module} /> : <Empty title="No function is chosen">Choose a function to see its callers and callees. In the flame graph, press s to bring the chosen box here.</Empty>}</div>
  </div>;
}

function Sides({ summary, name: full, module }: { summary: Summary; name: string; module: string }) {
  const asked = useSelected<Doc | Tree>(summary, isFile() ? "tree" : "sandwich", isFile() ? {} : { function: full, module: module || undefined });
  const answer = useMemo(() => ({ ...asked, value: asked.value && ("callers" in asked.value ? asked.value : sandwichOf(asked.value, full, module)) }), [asked.value, asked.loading, full, module]);
  const name = functionWords(full, 60);
  return <Document<Doc> answer={answer}>{(doc) => <>
    <h2>Callers of {name}: {withUnit(doc.callers.total[0], doc.callers.unit)}</h2><Side tree={doc.callers} name={name} label="callers" />
    <h2>Called by {name}</h2><Side tree={doc.callees} name={name} label="callees" />
  </>}</Document>;
}

function Side({ tree, name, label }: { tree: Tree; name: string; label: string }) {
  const s = state.value;
  const [chosen, choose] = useState(0);
  const [zoom, zoomTo] = useState(0);
  const flame = useMemo(() => {
    choose(0);
    zoomTo(0);
    return makeFlame(tree, { invert: false, merge: false, fold: false, leafFirst: label === "callers", ...chainShape(s) });
  }, [tree, s.chains, s.opened]);
  const colour = useMemo(() => moduleColour(flame), [flame]);
  if (flame.count < 2) return <p class="note">{label === "callees" ? "It allocates itself and calls nothing that allocates." : "Nothing calls it."}</p>;
  const at = (n: number) => (n < flame.count ? n : 0);
  return <FlameCanvas flame={flame} unit={tree.unit} label={`${label} of ${name}`} rootName={name} chosen={at(chosen)} zoom={at(zoom)} matches={null} colour={colour} dims choose={choose} zoomTo={zoomTo} />;
}
