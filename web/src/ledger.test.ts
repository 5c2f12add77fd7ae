import assert from "node:assert/strict";
import test from "node:test";
import type { Ledger, LedgerLine } from "./api";
import { barsOf, layerOf, layersOf, ledgerAt, rowsOf, sumOf } from "./ledger";

const sections = [
  { title: "heap", kinds: [{ kind: "requested", title: "requested" }, { kind: "held_free", title: "free in the heap" }] },
  { title: "other allocators", kinds: [{ kind: "allocator", title: "other allocators" }] },
  { title: "anonymous memory", kinds: [{ kind: "anonymous", title: "anonymous" }] },
];
const line = (kind: string, words: string, resident_bytes: number): LedgerLine =>
  ({ kind, name: words, words, resident_bytes, private_bytes: 1, shared_bytes: 0, swapped_bytes: 0, virtual_bytes: 2 });
const ledger = (moment: Ledger["moment"], time_ns: number, ...lines: LedgerLine[]) => ({ moment, time_ns, lines }) as unknown as Ledger;

test("a ledger's layers are its kinds, and the greatest makers by name", () => {
  const makers = ["a", "b", "c", "d", "e"].map((name, i) => line("anonymous", name, 10 * (i + 1)));
  const all = [ledger("peak", 1, line("requested", "requested", 5), line("held_free", "free, in bins", 2), line("held_free", "free, in caches", 3), ...makers),
    ledger("exit", 2, line("allocator", "Python's objects", 7), line("anonymous", "a", 100))];
  const layers = layersOf(sections, all);
  assert.deepEqual(layers.map((l) => [l.title, l.section, l.shade, l.bytes]), [
    ["requested", 0, 0, [5, 0]], ["free in the heap", 0, 1, [5, 0]], ["Python's objects", 1, 0, [0, 7]],
    ["a", 2, 0, [10, 100]], ["e", 2, 1, [50, 0]], ["d", 2, 2, [40, 0]], ["other anonymous", 2, 3, [50, 0]]]);
  assert.equal(layerOf(layers, makers[4])?.title, "e");
  assert.equal(layerOf(layers, makers[1])?.title, "other anonymous");
  assert.equal(layerOf(layers, line("requested", "requested: 3 blocks", 1))?.title, "requested");
});

test("an instant has the nearest ledger, the end that of the exit", () => {
  const all = [ledger("interval", 10), ledger("peak", 20), ledger("peak", 40), ledger("exit", 90)];
  assert.equal(ledgerAt(all, "peak", 25), 1);
  assert.equal(ledgerAt(all, "peak", 39), 2);
  assert.equal(ledgerAt(all, "peak", 80), 3); // the others are of earlier peaks
  assert.equal(ledgerAt([...all, ledger("request", 95)], "end", 100), 3);
  assert.equal(ledgerAt(all, "end", 100), 3);
  assert.equal(ledgerAt(all, 12, 12), 0);
  assert.equal(ledgerAt(all, 70, 70), 3);
  assert.equal(ledgerAt(all.slice(0, 1), "peak", 99), 0);
  assert.equal(ledgerAt([], "peak", 99), -1);
});

test("bars stand beside each other and inside of the picture", () => {
  for (const at of [[100], [100, 101], [0, 0, 0, 700], [698, 699, 700], Array.from({ length: 100 }, () => 700), Array.from({ length: 100 }, (_, i) => 7 * i)]) {
    const { x, width } = barsOf(at, 68, 692);
    x.forEach((v, i) => {
      assert.ok(v >= 68 && v + width <= 692.001, `${v} ${width}`);
      assert.ok(!i || v >= x[i - 1] + width);
    });
  }
  assert.deepEqual(barsOf([300, 500], 68, 692), { x: [285, 485], width: 30 });
});

test("six lines of a section are shown, the rest is one row, and sums are whole", () => {
  const lines = Array.from({ length: 9 }, (_, i) => line("held_free", `free ${i}`, i));
  const l = ledger("peak", 1, ...lines, line("allocator", "p", 4));
  const [heap, other] = rowsOf(sections, l, () => false, () => true);
  assert.deepEqual(heap.lines.map((x) => x.words), [8, 7, 6, 5, 4, 3].map((i) => `free ${i}`));
  assert.deepEqual(heap.rest.map((x) => x.words), ["free 2", "free 1"]); // what has no bytes is in no row
  assert.deepEqual(heap.sum, { resident_bytes: 36, private_bytes: 8, swapped_bytes: 0, virtual_bytes: 16 });
  assert.equal(other.rest.length, 0);
  assert.equal(rowsOf(sections, l, () => true, () => true)[0].rest.length, 0);
  assert.equal(rowsOf(sections, ledger("peak", 1, ...lines.slice(0, 8)), () => false, () => true)[0].rest.length, 0); // seven: no row for one line
  assert.deepEqual(rowsOf(sections, l, () => false, (words) => words === "p").map((r) => r.section), [1]);
  assert.deepEqual(sumOf([]).resident_bytes, 0);
});
