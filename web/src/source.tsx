import type { Summary } from "./api";
import { Empty } from "./bits";

export function SourceView({ summary }: { summary: Summary }) {
  return <Empty title="Not built yet">{summary.name}</Empty>;
}
