// What the canvas shows, for those who do not see it: a treegrid of the chosen node, the way to it,
// its neighbours and its children. It has the keyboard's focus; the canvas only follows. Bounded: a
// tree of 100,000 nodes has about a hundred rows here.
import { max } from "./arithmetic";
import { useId } from "preact/hooks";
import { childrenOf, frameOf, nodeLabel, stackOf, type Flame } from "./flame";
import { amount, clean, exactAmount, share, type Unit } from "./words";

const NEIGHBOURS = 25;
const CHILDREN = 50;

export function mirrorRows(flame: Flame, chosen: number): number[] {
  const way = stackOf(flame, chosen).reverse(); // from below the root to the chosen one
  const rows = [0, ...way.slice(0, -1)];
  if (!chosen) return [0, ...childrenOf(flame, 0).slice(0, CHILDREN)];
  const siblings = childrenOf(flame, flame.parent[chosen]);
  const at = siblings.indexOf(chosen);
  rows.push(...siblings.slice(max(0, at - NEIGHBOURS), at), chosen,
    ...childrenOf(flame, chosen).slice(0, CHILDREN), ...siblings.slice(at + 1, at + 1 + NEIGHBOURS));
  return rows;
}

export function Mirror({ flame, chosen, unit, label, rootName, cells, onKey }: {
  flame: Flame; chosen: number; unit: Unit; label: string; rootName: string;
  cells?: (node: number) => string; onKey: (e: KeyboardEvent) => void;
}) {
  const id = useId();
  const rows = mirrorRows(flame, chosen);
  return <div class="hidden-grid" role="treegrid" aria-label={label} tabIndex={0} onKeyDown={onKey}
    aria-activedescendant={`${id}-${chosen}`} aria-readonly="true">
    <div role="row" aria-level={1}>
      <span role="columnheader">function</span><span role="columnheader">total</span>
      <span role="columnheader">share</span><span role="columnheader">own</span>
      {cells && <span role="columnheader">more</span>}
    </div>
    {rows.map((node) => {
      const siblings = node ? childrenOf(flame, flame.parent[node]) : null;
      const below = childrenOf(flame, node).length;
      return <div key={node} id={`${id}-${node}`} role="row" aria-level={flame.depth[node] + 1} data-total={flame.total[node]}
        aria-selected={node === chosen} aria-expanded={below ? node === chosen || rows.includes(childrenOf(flame, node)[0]) : undefined}
        aria-posinset={siblings ? siblings.indexOf(node) + 1 : 1} aria-setsize={siblings ? siblings.length : 1}>
        <span role="gridcell" title={clean(frameOf(flame, node)?.function ?? "")}>{nodeLabel(flame, node, rootName)}</span>
        <span role="gridcell" title={exactAmount(flame.total[node], unit)}>{amount(flame.total[node], unit)}</span>
        <span role="gridcell">{share(flame.total[node], flame.total[0])}</span>
        <span role="gridcell" title={exactAmount(flame.self[node], unit)}>{amount(flame.self[node], unit)}</span>
        {cells && <span role="gridcell">{cells(node)}</span>}
      </div>;
    })}
  </div>;
}
