// Flame: where does it come from? The tree of the selection, its shape and colours by choice.
import { log, max, min } from "./arithmetic";
import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Summary, Tree } from "./api";
import { CHOOSE, Choice, Document, Empty, Toggle } from "./bits";
import { mix, moduleHue, nameModules, palette, type Palette } from "./colours";
import { holds, isFile, useDocument } from "./fetch";
import { findMatches, findPath, frameOf, framesOf, makeFlame, pathName, type Flame } from "./flame";
import { FlameCanvas } from "./flame_canvas";
import { Inspector } from "./inspector";
import { APART } from "./processes";
import { address, chainShape, go, selectionOf, state } from "./state";
import { amount, baseName, brief, clean, duration, several, share } from "./words";

// For the inspector and the search bar: what is on screen now.
export const shownFlame = signal<{ flame: Flame; unit: "bytes" | "count" } | null>(null);
export const matchedWords = signal("");

export function treeAddress(id: string): { tree: string; inverted: boolean } {
  const s = state.value;
  const processes = s.each ? "each" : undefined;
  const inverted = address(`/api/r/${id}/tree`, selectionOf(s), { processes, invert: s.invert });
  if (s.invert && holds(inverted)) return { tree: inverted, inverted: true };
  return { tree: address(`/api/r/${id}/tree`, selectionOf(s), { processes }), inverted: false };
}

// n and N: to the next match.
export function nextMatch(step: number): void {
  const shown = shownFlame.value;
  if (!shown) return;
  const nodes = findMatches(shown.flame, state.value.search)?.nodes;
  if (!nodes?.length) return;
  const at = nodes.indexOf(findPath(shown.flame, state.value.node));
  const next = at < 0 ? 0 : (at + step + nodes.length) % nodes.length;
  go({ node: pathName(shown.flame, nodes[next]), site: 0 }, true);
}

export function FlameView({ summary }: { summary: Summary }) {
  const where = treeAddress(summary.id);
  const answer = useDocument<Tree>(where.tree);
  return <Document answer={answer}>{(tree) => <Graph tree={tree} summary={summary} clientInvert={state.value.invert && !where.inverted} />}</Document>;
}

export function moduleColour(flame: Flame): (node: number, p: Palette) => string {
  let of: Palette | null = null, colours: string[] = [];
  nameModules(flame.tree.frames.filter((f) => !f.process).map((f) => f.module));
  return (node, p) => {
    if (of !== p) colours = flame.tree.frames.map((f) => (f.process ? p.system : moduleHue(f.module, p)));
    of = p;
    return colours[flame.frame[node]] ?? p.system;
  };
}

function lifetimeRange(flame: Flame): { low: number; high: number } {
  const known = flame.other!.filter((v) => v > 0);
  return { low: known.reduce((a, b) => min(a, b), Infinity), high: known.reduce((a, b) => max(a, b), 0) };
}

function lifetimeColour(flame: Flame): (node: number, p: Palette) => string {
  const { low, high } = lifetimeRange(flame);
  const span = log(high / low) || 1;
  return (node, p) => (flame.other![node] > 0 ? mix(p.plain, p.old, log(flame.other![node] / low) / span) : mix(p.plain, p.old, 0));
}

function Graph({ tree, summary, clientInvert }: { tree: Tree; summary: Summary; clientInvert: boolean }) {
  const s = state.value;
  const flame = useMemo(() => makeFlame(tree, { invert: clientInvert, merge: s.merge, fold: s.fold, leafFirst: s.invert, ...chainShape(s) }),
    [tree, clientInvert, s.invert, s.merge, s.fold, s.chains, s.opened]);
  const matches = useMemo(() => findMatches(flame, s.search), [flame, s.search]);
  useMemo(() => {
    shownFlame.value = { flame, unit: tree.unit };
    matchedWords.value = matches ? (matches.nodes.length ? `${share(matches.sum, flame.total[0])} matched` : "no match") : "";
  }, [flame, matches]);
  const byLifetime = s.colour === "lifetime" && flame.other !== null;
  const colour = useMemo(() => (byLifetime ? lifetimeColour(flame) : moduleColour(flame)), [flame, byLifetime]);
  if (tree.sum <= 0 || flame.count < 2)
    return <><FlameBar summary={summary} flame={flame} /><Empty title="Nothing was allocated here">{CHOOSE}{(s.focus || s.ignore || s.thread) && " You can also clear the filter."}</Empty></>;
  const chosen = findPath(flame, s.node), zoom = findPath(flame, s.zoom);
  return <>
    <FlameBar summary={summary} flame={flame} />
    <div class="flame-area"><FlameCanvas flame={flame} unit={tree.unit} label={s.invert ? "flame graph, allocating functions first" : "flame graph, callers above"}
      rootName={s.invert ? "all, by allocating function" : "all"} chosen={chosen} zoom={zoom} matches={matches} colour={colour} dims
      note={byLifetime ? (node) => (flame.other![node] > 0 ? `lives ${duration(flame.other![node])}` : "") : undefined}
      choose={(node) => go({ node: pathName(flame, node), site: 0 }, true)} zoomTo={(node) => go({ zoom: pathName(flame, node) })} /><Inspector summary={summary} /></div>
    <Legend flame={flame} byLifetime={byLifetime} />
    {tree.error95 ? <p class="note">Estimated from samples: ± {amount(tree.error95, tree.unit)} of the whole, with 95 % confidence.</p> : ""}
    {tree.pruned_nodes > 0 && <p class="note">Drawn together: {several(tree.pruned_nodes, "smaller node")}. Filter or zoom in time to see more.</p>}
  </>;
}

function FlameBar({ summary, flame }: { summary: Summary; flame: Flame }) {
  const s = state.value;
  return <div class="view-bar">
    <Toggle on={s.invert} set={(invert) => go({ invert, zoom: "", node: "" })} title="Allocating functions on top, their callers below (i)">Invert</Toggle>
    <Toggle on={s.merge} set={(merge) => go({ merge, zoom: "", node: "" })} title="A function that calls itself is one box (r)">Merge recursion</Toggle>
    <Toggle on={s.fold} set={(fold) => go({ fold, zoom: "", node: "" })} title="Only your own code; what libc and the language's runtime allocate counts for their callers (f)">Fold system frames</Toggle>
    <Toggle on={!s.chains} set={(on) => go({ chains: !on, opened: "" })} title="A function that only calls one other is in one box with it; (+3) says how many are. Off: a box each (k)">Fold chains</Toggle>
    {summary.processes.length > APART && !s.process && !isFile() && <Toggle on={s.each} set={(each) => go({ each, zoom: "", node: "" })} title="Show each process as a root of its own">Each process</Toggle>}
    <Choice label="colour" value={s.colour} set={(colour) => go({ colour })} options={[
      { value: "module", words: "Colour by module" },
      { value: "lifetime", words: "by lifetime", disabled: !flame.other, title: flame.other ? undefined : summary.mode === "exact" ? "This selection has no lifetimes" : "A sampled recording has no lifetimes" },
    ]} />
    <button disabled={!s.zoom} onClick={() => go({ zoom: "" })} title="Esc">Zoom out</button>
  </div>;
}

const IN_LEGEND = 10;

function Legend({ flame, byLifetime }: { flame: Flame; byLifetime: boolean }) {
  const p = palette.value;
  if (byLifetime) {
    const { low, high } = lifetimeRange(flame);
    return <p class="legend"><i style={{ background: mix(p.plain, p.old, 0) }} />lives {duration(min(low, high))}<i style={{ background: mix(p.plain, p.old, 1) }} />{duration(high)}</p>;
  }
  // By what was allocated in each; last, what has nothing of its own.
  const seen = new Map<string, { own: number; user: boolean }>();
  for (let i = 1; i < flame.count; i++)
    for (const f of framesOf(flame, i)) {
      if (f.process) continue;
      const known = seen.get(f.module);
      if (known) known.user ||= f.user;
      seen.set(f.module, known ?? { own: 0, user: f.user });
      if (f === frameOf(flame, i)) seen.get(f.module)!.own += flame.self[i];
    }
  const all = [...seen].sort((a, b) => b[1].own - a[1].own);
  const entry = ([name, { user }]: (typeof all)[number]) => <span key={name} title={clean(name)}><i class={user ? "" : "dimmed"} style={{ background: moduleHue(name, p) }} />{brief(baseName(name), 40) || "(no module)"}</span>;
  return <div class="legend">{all.slice(0, IN_LEGEND).map(entry)}
    {all.length > IN_LEGEND && <details><summary>{several(all.length - IN_LEGEND, "more module")}</summary><div class="legend">{all.slice(IN_LEGEND).map(entry)}</div></details>}
    <span class="note">Paler boxes: runtimes and the system.</span></div>;
}
