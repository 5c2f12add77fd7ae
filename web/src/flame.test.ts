import assert from "node:assert/strict";
import test from "node:test";
import type { Frame, Tree } from "./api";
import { mirrorRows } from "./aria";
import { moduleHue, nameModules, palette } from "./colours";
import { childrenOf, findMatches, findPath, frameOf, framesOf, makeFlame, neighbour, nodeAt, nodeLabel, pathName, sandwichOf, visit, type Flame } from "./flame";
import { diffFlame } from "./diff";

const frame = (name: string, user = true): Frame => ({ function: name, file: name + ".c", line: 1, module: "m", user, inlined: false });
const PLAIN = { invert: false, merge: false, fold: false };

// main 100 (own 10) -> work 60 -> work 20 -> malloc wrapper 15 ; main -> sys 30 -> work 30
function example(): Tree {
  return {
    frames: [frame("main"), frame("work"), frame("xmalloc", false), frame("sys", false)],
    parent: [-1, 0, 1, 2, 3, 1, 5],
    frame: [-1, 0, 1, 1, 2, 3, 1],
    total: [100, 100, 60, 20, 15, 30, 30],
    self: [0, 10, 40, 5, 15, 0, 30],
    smaller: [], unit: "bytes", sum: 100, pruned_nodes: 0,
  };
}

function lines(flame: Flame): string[] {
  const out: string[] = [];
  const walk = (node: number) => {
    if (node) out.push(`${" ".repeat(flame.depth[node])}${frameOf(flame, node)?.function} ${flame.total[node]} ${flame.self[node]}`);
    for (const c of childrenOf(flame, node)) walk(c);
  };
  walk(0);
  return out;
}

test("totals are own values and those below, largest first", () => {
  const flame = makeFlame(example(), PLAIN);
  assert.deepEqual(lines(flame), [" main 100 10", "  work 60 40", "   work 20 5", "    xmalloc 15 15", "  sys 30 0", "   work 30 30"]);
  assert.equal(flame.total[0], 100);
  assert.equal(flame.deepest, 4);
});

test("inverted: allocating functions first, every byte once", () => {
  const flame = makeFlame(example(), { ...PLAIN, invert: true });
  assert.deepEqual(lines(flame).filter((l) => /^ \S/.test(l)), [" work 75 0", " xmalloc 15 0", " main 10 10"]);
  assert.equal(flame.total[0], 100);
});

test("recursion merged, system frames folded", () => {
  assert.deepEqual(lines(makeFlame(example(), { ...PLAIN, merge: true })), [" main 100 10", "  work 60 45", "   xmalloc 15 15", "  sys 30 0", "   work 30 30"]);
  assert.deepEqual(lines(makeFlame(example(), { ...PLAIN, fold: true })), [" main 100 10", "  work 90 70", "   work 20 20"]);
});

test("mean lifetimes are weighted by what they are of", () => {
  const tree = { ...example(), other: [0, 100, 10, 0, 0, 0, 50] };
  const flame = makeFlame(tree, PLAIN);
  const main = childrenOf(flame, 0)[0];
  assert.equal(flame.other![main], (10 * 100 + 40 * 10 + 30 * 50) / 100);
});

test("search counts nothing twice", () => {
  const found = findMatches(makeFlame(example(), PLAIN), "WORK")!;
  assert.equal(found.sum, 90);
  assert.equal(found.nodes.length, 2);
  assert.equal(findMatches(makeFlame(example(), PLAIN), ""), null);
  assert.equal(findMatches(makeFlame(example(), PLAIN), "(((")!.sum, 0); // no expression: plain text
});

test("a path names the same node after the data changed", () => {
  const flame = makeFlame(example(), PLAIN);
  const node = childrenOf(flame, childrenOf(flame, 0)[0])[1];
  const grown = example();
  grown.self[6] = 500;
  const again = makeFlame(grown, PLAIN);
  assert.equal(nodeLabel(again, findPath(again, pathName(flame, node))), "sys sys.c:1");
  assert.equal(findPath(again, "not there"), 0);
});

test("points and keys find their nodes", () => {
  const flame = makeFlame(example(), PLAIN);
  assert.equal(frameOf(flame, nodeAt(flame, 65, 2))!.function, "sys");
  assert.equal(nodeAt(flame, 95, 2), -1);
  const work = neighbour(flame, childrenOf(flame, 0)[0], "ArrowDown");
  assert.equal(frameOf(flame, neighbour(flame, work, "ArrowRight"))!.function, "sys");
  assert.equal(neighbour(flame, work, "ArrowLeft"), work);
  assert.equal(frameOf(flame, neighbour(flame, work, "ArrowUp"))!.function, "main");
});

test("what is smaller together has its number in its name", () => {
  const tree = example();
  tree.parent.push(1);
  tree.frame.push(-1);
  tree.total.push(3);
  tree.self.push(3);
  tree.smaller = [{ node: 7, count: 1234 }];
  const flame = makeFlame(tree, PLAIN);
  const small = [...childrenOf(flame, childrenOf(flame, 0)[0])].find((n) => flame.frame[n] < 0)!;
  assert.equal(nodeLabel(flame, small), "(1,234 smaller)");
});

function wide(n: number): Tree {
  const parent = [-1], of = [-1], total = [0], self = [0];
  for (let i = 1; i <= n; i++) {
    parent.push(Math.floor((i - 1) / 10));
    of.push(i % 100);
    self.push(i % 7);
    total.push(0);
  }
  return { frames: Array.from({ length: 100 }, (_, i) => frame("f" + i)), parent, frame: of, total, self, smaller: [], unit: "bytes", sum: 0, pruned_nodes: 0 };
}

test("100,000 nodes: drawing visits what is visible only, the mirror stays small", () => {
  const flame = makeFlame(wide(100000), PLAIN);
  assert.equal(flame.count, 100001);
  let drawn = 0;
  visit(flame, 0, flame.total[0], 1400 / flame.total[0], 0, 100, () => drawn++);
  assert.ok(drawn > 100 && drawn < 10000, String(drawn));
  assert.ok(mirrorRows(flame, 0).length <= 51);
  assert.ok(mirrorRows(flame, 500).length < 120);
});

test("a diff's boxes are as wide as the larger side; what vanished is there", () => {
  const tree = example();
  const before = [130, 130, 60, 20, 15, 60, 60];
  const flame = diffFlame({ unit: "bytes", a: { name: "a", sum: 130 }, b: { name: "b", sum: 100 }, rows: [], tree, before }, { chains: false, opened: [] });
  assert.equal(flame.total[0], 130);
  assert.equal(flame.extra[0][0], 130);
  assert.equal(flame.extra[1][0], 100);
  const gone = makeGone();
  assert.equal(gone.total[0], 40);
  assert.equal(gone.extra[1][0] - gone.extra[0][0], -40);
});

function makeGone(): Flame {
  const tree: Tree = { frames: [frame("gone")], parent: [-1, 0], frame: [-1, 0], total: [0, 0], self: [0, 0], smaller: [], unit: "bytes", sum: 0, pruned_nodes: 0 };
  return diffFlame({ unit: "bytes", a: { name: "a", sum: 40 }, b: { name: "b", sum: 0 }, rows: [], tree, before: [40, 40] }, { chains: false, opened: [] });
}

// start -> main -> read 60 (own 10) -> grow 50 -> xmalloc 50 ; main -> work 40
function chained(): Tree {
  return {
    frames: [frame("start", false), frame("main"), frame("read"), frame("grow"), frame("xmalloc", false), frame("work")],
    parent: [-1, 0, 1, 2, 3, 4, 2],
    frame: [-1, 0, 1, 2, 3, 4, 5],
    total: [100, 100, 100, 60, 50, 50, 40],
    self: [0, 0, 0, 10, 0, 50, 40],
    smaller: [], unit: "bytes", sum: 100, pruned_nodes: 0,
  };
}

test("a box with nothing of its own is one with its only child, named by the user's code", () => {
  const flame = makeFlame(chained(), { ...PLAIN, chains: true });
  // read has 10 of its own, and main two children: these end chains.
  assert.deepEqual(lines(flame), [" main 100 0", "  read 60 10", "   grow 50 50", "  work 40 40"]);
  assert.equal(flame.total[0], 100);
  assert.deepEqual([1, 2, 3].map((n) => framesOf(flame, n).map((f) => f.function).join(">")), ["start>main", "read", "grow>xmalloc"]);
  assert.equal(nodeLabel(flame, 1), "main main.c:1 (+1)");
  assert.equal(nodeLabel(flame, 2), "read read.c:1");
  const up = makeFlame(chained(), { ...PLAIN, invert: true, chains: true, leafFirst: true });
  assert.deepEqual(lines(up).filter((l) => /^ \S/.test(l)), [" grow 50 50", " work 40 40", " read 10 10"]);
});

test("search and links find what is inside of a chain; a chain can be opened", () => {
  const whole = makeFlame(chained(), PLAIN), flame = makeFlame(chained(), { ...PLAIN, chains: true });
  const node = (f: Flame, name: string) => Array.from({ length: f.count }, (_, i) => i).find((i) => frameOf(f, i)?.function === name)!;
  const found = findMatches(flame, "xmalloc")!;
  assert.deepEqual([found.nodes, found.sum, found.boxes[node(flame, "grow")]], [[node(flame, "grow")], 50, 1]);
  for (const name of ["start", "main"]) assert.equal(findPath(flame, pathName(whole, node(whole, name))), node(flame, "main"));
  for (const name of ["read", "work"]) assert.equal(pathName(flame, node(flame, name)), pathName(whole, node(whole, name)));
  const opened = makeFlame(chained(), { ...PLAIN, chains: true, opened: [pathName(flame, node(flame, "main"))] });
  assert.deepEqual(lines(opened), [" start 100 0", "  main 100 0", "   read 60 10", "    grow 50 50", "   work 40 40"]);
});

test("no two modules have one colour, however many there are", () => {
  const names = Array.from({ length: 60 }, (_, i) => `lib${i}.so`);
  nameModules(names);
  const colours = names.map((n) => moduleHue(n, palette.value));
  assert.equal(new Set(colours).size, 60);
  assert.deepEqual(names.map((n) => moduleHue(n, palette.value)), colours);
});

test("callers and callees of a function, its outermost call counted", () => {
  const { callers, callees } = sandwichOf(example(), "work", "m");
  assert.deepEqual([callers.total[0], callees.total[0]], [90, 90]); // 60 under main, of which 20 are its own call; 30 under sys
  assert.deepEqual(lines(makeFlame(callers, PLAIN)), [" main 60 60", " sys 30 0", "  main 30 30"]);
  assert.deepEqual(lines(makeFlame(callees, PLAIN)), [" work 20 5", "  xmalloc 15 15"]);
  assert.equal(sandwichOf(example(), "nobody", "m").callers.total[0], 0);
});
