// What Marks and the timeline compute of what the program said.
import type { Mark, Stage } from "./api";
import { go } from "./state";

interface Span { begin_ns: number; end_ns: number }

// Spans in lanes, where none lies over another: each in the first lane that is free. What does not fit is left out: the shortest,
// as the longest come first.
export function lanesOf<T extends Span>(spans: T[], most = 3): T[][] {
  const lanes: T[][] = [];
  for (const s of spans) {
    let lane = lanes.find((l) => l.every((o) => o.end_ns <= s.begin_ns || s.end_ns <= o.begin_ns));
    if (!lane && lanes.length < most) lanes.push((lane = []));
    lane?.push(s);
  }
  return lanes;
}

// What grew in a part of the run.
export function zoomTo(from: number, to: number): void {
  go({ mode: "grew", from, to, view: "flame", site: 0, node: "", zoom: "" });
}

// How long it is from each mark to the next one, or to the end.
export function untilNext(marks: Mark[], end_ns: number): number[] {
  return marks.map((m, i) => (marks[i + 1]?.time_ns ?? end_ns) - m.time_ns);
}

export function stageWords(s: Stage): [string, string] {
  return [s.from ?? "allocated", s.still_there ? "still there" : s.to ?? "freed"].map((n) => n || "(no name)") as [string, string];
}
