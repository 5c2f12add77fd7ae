import assert from "node:assert/strict";
import test from "node:test";
import { address, DEFAULTS, format, parse, processOf, selectionOf, type State } from "./state";

test("a fresh page has an empty hash", () => {
  assert.equal(format(DEFAULTS), "");
  assert.deepEqual(parse(""), DEFAULTS);
});

test("everything comes back from the hash", () => {
  const s: State = { ...DEFAULTS, view: "diff", mode: "grew", from: 12, to: 34, at: 5, bat: "end", metric: "count", focus: "a&b=c #%", function: "operator<< <int>", invert: true, line: 9 };
  assert.deepEqual(parse("#" + format(s)), s);
});

test("what is not understood is ignored", () => {
  const s = parse("#view=nothing&at=-5&from=1e9&mode=live&constructor=1&__proto__=2&colour=pink&to=99999999999999999999");
  assert.deepEqual(s, DEFAULTS);
});

test("a selection has only what its mode knows, defaults left out", () => {
  assert.deepEqual(selectionOf({ ...DEFAULTS, from: 5, to: 6 }), {});
  assert.deepEqual(selectionOf({ ...DEFAULTS, mode: "grew", at: "end", from: 5, to: 6 }), { mode: "grew", from: 5, to: 6 });
  assert.deepEqual(selectionOf({ ...DEFAULTS, mode: "churn", metric: "count", within: 1e6 }), { mode: "churn" });
});

test("a process is chosen by its number, counted from 0; a program by its name", () => {
  assert.deepEqual(selectionOf({ ...DEFAULTS, process: 1, at: "end" }), { at: "end", process: 0 });
  assert.deepEqual(selectionOf({ ...DEFAULTS, program: "cc1" }), { program: "cc1" });
  assert.deepEqual(processOf(DEFAULTS), {});
  assert.equal(parse("#" + format({ ...DEFAULTS, process: 12 })).process, 12);
});

test("addresses are as one-file reports name them", () => {
  assert.equal(address("/api/r/1/tree", selectionOf({ ...DEFAULTS, at: "end", process: 4 })), "/api/r/1/tree?at=end&process=3");
  assert.equal(address("/api/r/1/tree", selectionOf({ ...DEFAULTS, at: "end" }), { invert: true }), "/api/r/1/tree?at=end&invert=1");
  assert.equal(address("/api/r/1/tree", selectionOf(DEFAULTS), { invert: false }), "/api/r/1/tree");
  assert.equal(address("/api/r/1/source", { file: "/a b.c" }), "/api/r/1/source?file=%2Fa%20b.c");
});
