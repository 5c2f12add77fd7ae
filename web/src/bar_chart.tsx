// Upright bars with an axis in steps of 1, 2 and 5, and their values in a table that screen readers and
// tests read.
import { max, min } from "./arithmetic";
import { AxisLabels, Label, ticks, tidy, useSize } from "./chart_parts";
import { amount, type Unit } from "./words";

export interface BarItem {
  label: string;
  words: string; // the bar in full
  value: number;
}

const LEFT = 66; // room for the axis

// `marks`: what stands under the bars, at places counted in bars; absent: each bar's own label.
export function BarChart({ items, height, caption, unit, marks }: { items: BarItem[]; height: number; caption: string; unit: Unit; marks?: (px: number) => { at: number; text: string }[] }) {
  const [box, { width }] = useSize(600, height);
  const most = max(...items.map((b) => b.value), 1);
  const step = (width - LEFT) / max(items.length, 1), bottom = height - 18;
  const y = (n: number) => bottom - (n * (height - 36)) / most;
  const under = marks?.(step) ?? items.map((b, i) => ({ at: i + 0.5, text: b.label }));
  return <figure class="bars" ref={box}>
    <svg width={width} height={height} aria-hidden="true">
      {ticks(most, unit, height / 40).map((t) => <g key={t}><line class="grid" x1={LEFT} x2={width} y1={y(t)} y2={y(t)} /><Label x={LEFT - 6} y={y(t) + 4} anchor="end">{tidy(amount(t, unit))}</Label></g>)}
      {items.map((b, i) => {
        const full = b.value ? max(1, bottom - y(b.value)) : 0, x = LEFT + i * step;
        return <g key={i}>
          <title>{b.words}</title>
          <rect class="bar-room" x={x} y={0} width={step} height={bottom} />
          <rect class="bar-fill" x={x + 1} y={bottom - full} width={max(1, step - 2)} height={full} />
          {b.value === most && <Label x={min(width - 36, max(LEFT + 36, x + step / 2))} y={bottom - 4 - full}>{amount(b.value, unit)}</Label>}
        </g>;
      })}
      <AxisLabels items={under.map((m) => ({ x: LEFT + m.at * step, text: m.text }))} y={height - 4} width={width} />
    </svg>
    <div class="hidden"><table><caption>{caption}</caption><tbody>{items.filter((b) => b.value).map((b, i) => <tr key={i}><th scope="row">{b.label}</th><td>{b.words}</td></tr>)}</tbody></table></div>
  </figure>;
}
