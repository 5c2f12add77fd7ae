// What charts share: their size, labels, axes in steps of 1, 2 and 5, upright lines.
import { ceil, floor, log, max, min } from "./arithmetic";
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { duration, type Unit } from "./words";

// An element and its size on screen, kept up to date.
export function useSize(width: number, height: number): [RefObject<HTMLDivElement | null>, { width: number; height: number }] {
  const box = useRef<HTMLDivElement>(null);
  const [size, setSize] = useState({ width, height });
  useEffect(() => {
    const watch = new ResizeObserver(() => box.current && setSize({ width: box.current.clientWidth, height: box.current.clientHeight }));
    watch.observe(box.current!);
    return () => watch.disconnect();
  }, []);
  return [box, size];
}

export function Label({ x, y, anchor = "middle", children }: { x: number; y: number; anchor?: string; children: string }) {
  return <text class="axis" x={x} y={y} text-anchor={anchor}>{children}</text>;
}

export function Upright({ x, height, top = 0, kind }: { x: number; height: number; top?: number; kind?: string }) {
  return <line class={kind} x1={x} x2={x} y1={top} y2={height} />;
}

export function timeTicks(from: number, to: number, most = 8): number[] {
  const raw = (to - from) / most;
  const power = 10 ** floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw) ?? power;
  const out: number[] = [];
  for (let t = ceil(from / step) * step; t <= to; t += step) out.push(t);
  return out;
}

// Labels along a line, from left to right: inside of it, and none over another.
export function AxisLabels({ items, y, width }: { items: { x: number; text: string }[]; y: number; width: number }) {
  let end = -9;
  return <>{items.map(({ x, text }) => {
    const w = text.length * 6.9, left = max(0, min(x - w / 2, width - w));
    if (left < end + 8) return null;
    end = left + w;
    return <Label key={x} x={left + w / 2} y={y}>{text}</Label>;
  })}</>;
}

export function TimeAxis({ from, to, x, y, width }: { from: number; to: number; x: (ns: number) => number; y: number; width: number }) {
  return <AxisLabels y={y} width={width} items={timeTicks(from, to, width < 600 ? 4 : 9).map((t) => ({ x: x(t), text: t ? tidy(duration(t)) : "0" }))} />;
}

// Values of an upright axis: at most `lines` steps of 1, 2 or 5, of bytes or of a count.
export function ticks(most: number, unit: Unit = "bytes", lines = 5.2): number[] {
  const base = unit === "bytes" ? 1024 : 1000;
  for (let power = 1; power < 1e18; power *= base)
    for (const n of [1, 2, 5, 10, 20, 50, 100, 200, 500]) {
      const step = power * n;
      if (most / step <= lines) return Array.from({ length: floor(most / step) }, (_, i) => (i + 1) * step);
    }
  return [most];
}

// Times of 1, 2 and 5 on an axis of powers, or of 1 alone where a power of ten has few pixels. `room`: what a
// label needs.
export function powerTicks(from: number, to: number, decadePx: number, room: number): number[] {
  const out: number[] = [], every = decadePx * 0.3 > room ? [1, 2, 5] : [1], skip = decadePx < room ? 3 : 1;
  for (let e = floor(log(max(from, 1)) / Math.LN10 / skip) * skip; 10 ** e <= to; e += skip)
    out.push(...every.map((n) => n * 10 ** e));
  return out.filter((t) => t >= from && t <= to);
}

// A label of an axis: round numbers have no zeros behind the point.
export function tidy(text: string): string {
  return text.replace(/(\.\d*?)0+ /, (_, digits: string) => (digits === "." ? " " : digits + " "));
}
