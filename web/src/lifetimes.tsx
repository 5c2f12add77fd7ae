import type { Summary } from "./api";
import { Empty } from "./bits";

export function LifetimesView({ summary }: { summary: Summary }) {
  return <Empty title="Not built yet">{summary.name}</Empty>;
}
export function Histogram({ counts }: { counts: number[]; width: number; height: number }) {
  return <span>{counts.length}</span>;
}
