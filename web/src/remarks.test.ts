// What Marks and the timeline compute of what the program said.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Mark, Stage } from "./api";
import { lanesOf, stageWords, untilNext } from "./remarks";

const span = (begin_ns: number, end_ns: number) => ({ begin_ns, end_ns });

test("spans that overlap are in lanes of their own, and the shortest are left out", () => {
  const longest = [span(0, 100), span(10, 60), span(60, 90), span(20, 30), span(70, 75), span(22, 24)];
  assert.deepEqual(lanesOf(longest), [[span(0, 100)], [span(10, 60), span(60, 90)], [span(20, 30), span(70, 75)]]);
  assert.deepEqual(lanesOf(longest, 1), [[span(0, 100)]]);
  assert.deepEqual(lanesOf([]), []);
});

test("from a mark to the next one, or to the end", () => {
  const marks = [10, 30, 35].map((time_ns) => ({ time_ns, name: "" }) as Mark);
  assert.deepEqual(untilNext(marks, 50), [20, 5, 15]);
  assert.deepEqual(untilNext([], 50), []);
});

test("stages that have no name are said in words", () => {
  const stage = (from: string | null, to: string | null, still_there = false) => ({ from, to, still_there }) as Stage;
  assert.deepEqual(stageWords(stage(null, "queued")), ["allocated", "queued"]);
  assert.deepEqual(stageWords(stage("queued", null)), ["queued", "freed"]);
  assert.deepEqual(stageWords(stage("queued", null, true)), ["queued", "still there"]);
  assert.deepEqual(stageWords(stage("", "")), ["(no name)", "(no name)"]);
});
