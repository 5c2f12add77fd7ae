// The flame graph without a screen: a Tree of the server made into one to draw (inverted, recursion
// merged, system frames and chains folded), laid out, searched, and walked by keyboard.
//
// Invariants: a parent's index is smaller than its children's; total[i] = self[i] + its children's
// totals; children are in order of their totals, so that drawing stops at the first one that is
// too small to see and never looks at the rest: 100,000 nodes cost what is visible of them.
import { max, min } from "./arithmetic";
import type { Frame, Sandwich, Tree } from "./api";
import { functionWords, placeWords, quoted } from "./words";

export interface Flame {
  count: number;
  parent: Int32Array;
  frame: Int32Array; // -1: root, or smaller ones together
  total: Float64Array;
  self: Float64Array;
  depth: Int32Array;
  start: Float64Array; // of the node's left edge, in units of total
  children: Int32Array; // indices, grouped by parent
  firstChild: Int32Array; // where a node's group begins in `children`; one more at the end
  path: Uint32Array; // hash of the names from the root: names a node in the URL
  smaller: Map<number, number>; // nodes that stand for several
  other: Float64Array | null; // mean lifetime
  extra: Float64Array[]; // further sums: a diff's values before and after
  deepest: number;
  chains: Map<number, number[]>; // boxes that stand for a chain: its frames from the root's side
  hidden: Map<number, number>; // paths of boxes inside chains, and the chain's box
  tree: Tree;
}

export interface Shape {
  invert: boolean;
  merge: boolean;
  fold: boolean;
  chains?: boolean; // a box whose only child has all of it is one with that child
  opened?: string[]; // paths of chains that are not folded
  leafFirst?: boolean; // allocating functions stand above their callers
}

function hashText(text: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 0x01000193);
  return h >>> 0;
}

// For each frame the number of the box it goes into: frames of one function are one.
function boxOfFrames(frames: Frame[]): Int32Array {
  const seen = new Map<string, number>();
  return Int32Array.from(frames, (f, i) => {
    const key = `${f.function}\n${f.module}` + (f.function ? "" : `\n${f.file}\n${f.line}`);
    const known = seen.get(key);
    if (known !== undefined) return known;
    seen.set(key, i);
    return i;
  });
}

// A growing tree in which equal boxes under one parent are one node.
class Builder {
  parent: number[] = [-1];
  frame: number[] = [-1];
  self: number[] = [0];
  weight: number[] = [0]; // sum of what `other` was weighted with
  other: number[] = [0];
  extra: number[][];
  smaller = new Map<number, number>();
  private found = new Map<number, Map<number, number>>();

  constructor(extras: number) {
    this.extra = Array.from({ length: extras }, () => [0]);
  }

  child(parent: number, box: number): number {
    let group = this.found.get(parent);
    if (!group) this.found.set(parent, (group = new Map()));
    let node = group.get(box);
    if (node === undefined) group.set(box, (node = this.add(parent, box)));
    return node;
  }

  add(parent: number, box: number): number {
    this.frame.push(box);
    this.self.push(0);
    this.weight.push(0);
    this.other.push(0);
    for (const list of this.extra) list.push(0);
    return this.parent.push(parent) - 1;
  }
}

const SMALLER = -1;

function rebuild(tree: Tree, shape: Shape, extra: number[][]): Builder {
  const out = new Builder(extra.length);
  const box = boxOfFrames(tree.frames);
  const many = new Map(tree.smaller.map((s) => [s.node, s.count]));
  const n = tree.parent.length;
  const place = new Int32Array(n); // of each node of the tree
  const add = (node: number, i: number, amount: number) => {
    out.self[node] += amount;
    for (let k = 0; k < extra.length; k++) out.extra[k][node] += extra[k][i];
    if (!tree.other) return;
    out.other[node] += tree.other[i] * amount;
    out.weight[node] += amount;
  };
  const step = (parent: number, i: number): number => {
    const f = tree.frame[i];
    if (f < 0) return out.child(parent, SMALLER);
    const frame = tree.frames[f];
    if (shape.fold && !frame.user) return parent;
    if (shape.merge && parent > 0 && out.frame[parent] >= 0 && tree.frames[out.frame[parent]].function === frame.function &&
        tree.frames[out.frame[parent]].module === frame.module) return parent;
    return out.child(parent, box[f]);
  };
  for (let i = 1; i < n; i++) {
    if (!shape.invert) {
      place[i] = step(place[tree.parent[i]], i);
      add(place[i], i, tree.self[i]);
    } else if (tree.self[i] !== 0) {
      let node = 0;
      for (let k = i; k > 0; k = tree.parent[k]) node = step(node, k);
      add(node, i, tree.self[i]);
      place[i] = node;
    }
    const count = many.get(i);
    if (count && place[i]) out.smaller.set(place[i], (out.smaller.get(place[i]) ?? 0) + count);
  }
  if (tree.self[0]) out.self[0] += tree.self[0];
  return out;
}

// Names of nodes in the URL: a hash over the names from the root.
function pathsOf(b: Builder, frames: Frame[]): Uint32Array {
  const path = new Uint32Array(b.parent.length);
  const names = new Map<number, number>();
  for (let i = 0; i < path.length; i++) {
    const key = b.frame[i], up = path[b.parent[i]];
    let name = names.get(key);
    if (name === undefined) {
      const f = frames[key];
      name = hashText(f ? `${f.function}\n${f.module}` : "");
      names.set(key, name);
    }
    path[i] = i ? (Math.imul(up ^ name, 0x9e3779b1) ^ (up >>> 15)) >>> 0 : 1;
  }
  return path;
}

interface Folded {
  b: Builder;
  path: Uint32Array;
  chains: Flame["chains"];
  hidden: Flame["hidden"];
}

// A box that has nothing of its own and one child tells nothing that the child does not: both are one
// box, named by the frame of the user's own code that is nearest to the allocation. Its path is that of
// its last box, so that a link finds it folded or not.
function foldChains(b: Builder, path: Uint32Array, frames: Frame[], shape: Shape): Folded {
  const n = b.parent.length, chains: Flame["chains"] = new Map(), hidden: Flame["hidden"] = new Map();
  if (!shape.chains) return { b, path, chains, hidden };
  const children = new Int32Array(n), only = new Int32Array(n), place = new Int32Array(n);
  for (let i = 1; i < n; i++) {
    children[b.parent[i]]++;
    only[b.parent[i]] = i;
  }
  const opened = new Set(shape.opened?.map((name) => parseInt(name, 16)));
  const stays = new Uint8Array(n); // the chain that ends here is open
  for (let i = n - 1; i > 0; i--) stays[i] = opened.has(path[i]) || (children[i] === 1 && !b.self[i] && stays[only[i]]) ? 1 : 0;
  const joins = (i: number) => {
    const up = b.parent[i];
    return up > 0 && children[up] === 1 && !b.self[up] && b.frame[i] >= 0 && b.frame[up] >= 0 && !frames[b.frame[up]].process &&
      !stays[i] && b.extra.every((list) => !list[up]);
  };
  const out = new Builder(b.extra.length), paths: number[] = [path[0]];
  const put = (to: number, i: number) => {
    out.self[to] += b.self[i];
    out.other[to] += b.other[i];
    out.weight[to] += b.weight[i];
    b.extra.forEach((list, k) => (out.extra[k][to] += list[i]));
    const count = b.smaller.get(i);
    if (count) out.smaller.set(to, count);
    paths[to] = path[i];
  };
  put(0, 0);
  for (let i = 1; i < n; i++) {
    const up = b.parent[i];
    let to = place[up];
    if (joins(i)) {
      const chain = chains.get(to) ?? [out.frame[to]];
      chains.set(to, chain);
      hidden.set(paths[to], to);
      const named = frames[out.frame[to]];
      if (shape.leafFirst ? !named.user && frames[b.frame[i]].user : frames[b.frame[i]].user || !named.user) out.frame[to] = b.frame[i];
      chain.push(b.frame[i]);
    } else to = out.add(to, b.frame[i]);
    put(to, i);
    place[i] = to;
  }
  return { b: out, path: Uint32Array.from(paths), chains, hidden };
}

// `extra`: lists of further self values by node of the tree, which are added up like the tree's own.
export function makeFlame(tree: Tree, shape: Shape, extra: number[][] = []): Flame {
  const built = rebuild(tree, shape, extra);
  const { b, path, chains, hidden } = foldChains(built, pathsOf(built, tree.frames), tree.frames, shape);
  const n = b.parent.length;
  const parent = Int32Array.from(b.parent), frame = Int32Array.from(b.frame);
  const self = Float64Array.from(b.self), total = Float64Array.from(b.self);
  const other = tree.other ? Float64Array.from(b.other) : null, weight = Float64Array.from(b.weight);
  const sums = b.extra.map((list) => Float64Array.from(list));
  for (let i = n - 1; i > 0; i--) {
    total[parent[i]] += total[i];
    for (const list of sums) list[parent[i]] += list[i];
    if (other) {
      other[parent[i]] += other[i];
      weight[parent[i]] += weight[i];
    }
  }
  if (other) for (let i = 0; i < n; i++) other[i] = weight[i] > 0 ? other[i] / weight[i] : 0;
  const { children, firstChild } = group(parent, total);
  const depth = new Int32Array(n), start = new Float64Array(n);
  let deepest = 0;
  for (let i = 0; i < n; i++) {
    if (i) depth[i] = depth[parent[i]] + 1;
    deepest = max(deepest, depth[i]);
    let x = start[i];
    for (let k = firstChild[i]; k < firstChild[i + 1]; k++) {
      start[children[k]] = x;
      x += total[children[k]];
    }
  }
  return { count: n, parent, frame, total, self, depth, start, children, firstChild, path, smaller: b.smaller, other, extra: sums, deepest, chains, hidden, tree };
}

// Children by parent, largest first; those "smaller together" last.
function group(parent: Int32Array, total: Float64Array): { children: Int32Array; firstChild: Int32Array } {
  const n = parent.length;
  const firstChild = new Int32Array(n + 1);
  for (let i = 1; i < n; i++) firstChild[parent[i] + 1]++;
  for (let i = 0; i < n; i++) firstChild[i + 1] += firstChild[i];
  const next = firstChild.slice();
  const children = new Int32Array(max(0, n - 1));
  for (let i = 1; i < n; i++) children[next[parent[i]]++] = i;
  for (let i = 0; i < n; i++)
    if (firstChild[i + 1] - firstChild[i] > 1)
      children.subarray(firstChild[i], firstChild[i + 1]).sort((a, b) => total[b] - total[a] || a - b);
  return { children, firstChild };
}

export function pathName(flame: Flame, node: number): string {
  return node ? flame.path[node].toString(16) : "";
}
export function findPath(flame: Flame, name: string): number {
  const wanted = parseInt(name, 16);
  return name ? flame.hidden.get(wanted) ?? max(0, flame.path.indexOf(wanted)) : 0;
}

export function frameOf(flame: Flame, node: number): Frame | null {
  return flame.frame[node] >= 0 ? flame.tree.frames[flame.frame[node]] : null;
}

// All frames of a box, from the root's side: several where it is a chain.
export function framesOf(flame: Flame, node: number): Frame[] {
  return (flame.chains.get(node) ?? [flame.frame[node]]).map((f) => flame.tree.frames[f]).filter((f) => f);
}

export function frameLabel(f: Frame): string {
  return f.function ? functionWords(f.function) + (f.file ? " " + placeWords(f) : "") : placeWords(f) || "(no name)";
}

export function nodeLabel(flame: Flame, node: number, rootName = "all"): string {
  const f = frameOf(flame, node), chain = flame.chains.get(node);
  if (f) return frameLabel(f) + (chain ? ` (+${chain.length - 1})` : "");
  if (!node) return rootName;
  const count = flame.smaller.get(node) ?? 0;
  return count ? `(${count.toLocaleString("en")} smaller)` : "(smaller ones)";
}

export function stackOf(flame: Flame, node: number): number[] {
  const out: number[] = [];
  for (let i = node; i > 0; i = flame.parent[i]) out.push(i);
  return out;
}

export function childrenOf(flame: Flame, node: number): Int32Array {
  return flame.children.subarray(flame.firstChild[node], flame.firstChild[node + 1]);
}

// What the search bar means: an expression, or plain text where it is none; letters of any case.
export function matcher(search: string): ((f: Frame) => boolean) | null {
  if (!search) return null;
  let expression: RegExp;
  try {
    expression = new RegExp(search, "i");
  } catch {
    expression = new RegExp(quoted(search), "i");
  }
  return (f) => expression.test(f.function) || expression.test(f.file) || expression.test(f.module);
}

export interface Matches {
  boxes: Uint8Array; // by node: it matches itself
  nodes: number[]; // topmost matches, heaviest first
  sum: number; // of theirs: nothing counts twice
}

export function findMatches(flame: Flame, search: string): Matches | null {
  const test = matcher(search);
  if (!test) return null;
  const frames = Uint8Array.from(flame.tree.frames, (f) => (test(f) ? 1 : 0));
  const inside = new Uint8Array(flame.count), boxes = new Uint8Array(flame.count);
  const nodes: number[] = [];
  let sum = 0;
  for (let i = 1; i < flame.count; i++) {
    boxes[i] = (flame.chains.get(i) ?? [flame.frame[i]]).some((f) => frames[f]) ? 1 : 0;
    if (inside[flame.parent[i]]) inside[i] = 1;
    else if (boxes[i]) {
      inside[i] = 1;
      nodes.push(i);
      sum += flame.total[i];
    }
  }
  nodes.sort((a, b) => flame.total[b] - flame.total[a]);
  return { boxes, nodes, sum };
}

export interface Box {
  node: number;
  x: number;
  width: number;
  depth: number;
}

// The boxes to draw: of the part [from, to) of the root's total, at so many pixels a unit, of the
// rows [top, bottom). Whatever is narrower than half a pixel is left out with all below it.
export function visit(flame: Flame, from: number, to: number, scale: number, top: number, bottom: number, draw: (box: Box) => void): void {
  const box: Box = { node: 0, x: 0, width: 0, depth: 0 };
  const stack: number[] = [0];
  const least = 0.5 / scale;
  while (stack.length) {
    const node = stack.pop()!;
    const depth = flame.depth[node];
    if (depth >= top) {
      box.node = node;
      box.x = (flame.start[node] - from) * scale;
      box.width = flame.total[node] * scale;
      box.depth = depth;
      draw(box);
    }
    if (depth + 1 >= bottom) continue;
    for (let k = flame.firstChild[node]; k < flame.firstChild[node + 1]; k++) {
      const child = flame.children[k];
      if (flame.total[child] < least) break;
      if (flame.start[child] >= to) break;
      if (flame.start[child] + flame.total[child] > from) stack.push(child);
    }
  }
}

// The node at a point, -1: none.
export function nodeAt(flame: Flame, position: number, depth: number): number {
  let node = 0;
  for (let d = 0; d < depth; d++) {
    let next = -1;
    for (const child of childrenOf(flame, node))
      if (position >= flame.start[child] && position < flame.start[child] + flame.total[child]) {
        next = child;
        break;
      }
    if (next < 0) return -1;
    node = next;
  }
  return node;
}

export function neighbour(flame: Flame, node: number, key: string): number {
  const siblings = node ? childrenOf(flame, flame.parent[node]) : new Int32Array([0]);
  const at = siblings.indexOf(node);
  switch (key) {
    case "ArrowDown":
      return childrenOf(flame, node)[0] ?? node;
    case "ArrowUp":
      return node ? flame.parent[node] : 0;
    case "ArrowRight":
      return siblings[min(at + 1, siblings.length - 1)];
    case "ArrowLeft":
      return siblings[max(at - 1, 0)];
    default:
      return node;
  }
}

// Callers and callees of a function, from a whole tree: for a file, which holds no sandwiches. Of a recursive
// function the outermost call counts, as at the server. Equal boxes become one in makeFlame.
export function sandwichOf(tree: Tree, name: string, module: string): Sandwich {
  const empty = (): Tree => ({ ...tree, parent: [-1], frame: [-1], total: [0], self: [0], smaller: [], other: undefined });
  const callers = empty(), callees = empty(), below = new Int32Array(tree.parent.length).fill(-1);
  const add = (to: Tree, parent: number, frame: number, self: number) => {
    to.frame.push(frame);
    to.self.push(self);
    to.total.push(self);
    return to.parent.push(parent) - 1;
  };
  for (let i = 1; i < tree.parent.length; i++) {
    const f = tree.frames[tree.frame[i]], up = tree.parent[i];
    if (below[up] >= 0) below[i] = add(callees, below[up], tree.frame[i], tree.self[i]);
    else if (f?.function === name && (!module || f.module === module)) {
      below[i] = 0;
      callees.self[0] += tree.self[i];
      callees.total[0] += tree.total[i];
      callers.total[0] += tree.total[i];
      let at = 0;
      for (let k = up; k > 0; k = tree.parent[k]) at = add(callers, at, tree.frame[k], 0);
      callers.self[at] += tree.total[i];
    }
  }
  return { callers, callees };
}
