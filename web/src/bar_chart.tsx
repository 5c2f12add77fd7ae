// Upright bars with their values in a table that screen readers and tests read.
import { ceil, max, min } from "./arithmetic";
import { Label, useSize } from "./chart_parts";

export interface BarItem {
  label: string; // under the bar, where there is room
  words: string; // the bar in full
  value: number;
}

export function BarChart({ items, height, caption, value }: { items: BarItem[]; height: number; caption: string; value: (n: number) => string }) {
  const [box, { width }] = useSize(600, height);
  const most = max(...items.map((b) => b.value), 1);
  const step = width / max(items.length, 1);
  const skip = ceil(58 / step);
  const scale = (height - 34) / most;
  return <figure class="bars" ref={box}>
    <svg width={width} height={height} aria-hidden="true">
      {items.map((b, i) => {
        const full = b.value ? max(1, b.value * scale) : 0;
        return <g key={i}>
          <title>{b.words}</title>
          <rect class="bar-room" x={i * step} y={0} width={step} height={height - 18} />
          <rect class="bar-fill" x={i * step + 1} y={height - 18 - full} width={max(1, step - 2)} height={full} />
          {b.value === most && <Label x={min(width - 30, max(30, (i + 0.5) * step))} y={height - 22 - full}>{value(b.value)}</Label>}
          {i % skip === 0 && <Label x={(i + 0.5) * step} y={height - 4} anchor={step > 50 ? "middle" : i === 0 ? "start" : (i + 0.5) * step > width - 30 ? "end" : "middle"}>{b.label}</Label>}
        </g>;
      })}
    </svg>
    <table class="hidden"><caption>{caption}</caption><tbody>{items.filter((b) => b.value).map((b, i) => <tr key={i}><th scope="row">{b.label}</th><td>{b.words}</td></tr>)}</tbody></table>
  </figure>;
}
