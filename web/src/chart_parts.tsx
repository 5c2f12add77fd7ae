// What charts share: their size, labels, a time axis, upright lines.
import { ceil, floor } from "./arithmetic";
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { duration } from "./words";

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

export function TimeAxis({ from, to, x, y, width }: { from: number; to: number; x: (ns: number) => number; y: number; width: number }) {
  return <>{timeTicks(from, to, width < 600 ? 4 : 9).map((t) =>
    <Label key={t} x={x(t)} y={y} anchor={x(t) > width - 40 ? "end" : t === from ? "start" : "middle"}>{t ? duration(t) : "0"}</Label>)}</>;
}
