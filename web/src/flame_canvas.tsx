// A flame graph on a canvas: root on top, drawn in the browser's next frame whenever something
// changed, only what is visible (flame.ts visit). The mouse zooms (click, wheel with Ctrl), pans (drag)
// and points; the keyboard is aria.tsx's. Zoom is a window onto the root's width, so that ancestors of a
// zoomed node simply reach beyond both edges.
import { abs, ceil, floor, max, min, round } from "./arithmetic";
import { effect } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Mirror } from "./aria";
import { taken } from "./bits";
import { palette, type Palette } from "./colours";
import { exportAs } from "./export_menu";
import { frameLabel, frameOf, framesOf, neighbour, nodeAt, nodeLabel, visit, type Flame, type Matches } from "./flame";
import { escapeXml } from "./svg_text";
import { inspectorAway } from "./inspector_side";
import { amount, clean, share, withUnit, type Unit } from "./words";

const ROW = 20;
const DIMMED = 0.4; // of a fill; the legend's swatches have it, too (style.css)
const FONT = "12px system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";

export interface FlameProps {
  flame: Flame;
  unit: Unit;
  label: string;
  rootName?: string;
  chosen: number;
  zoom: number;
  whole?: number; // the width of everything, where two graphs have one scale
  matches: Matches | null;
  colour: (node: number, palette: Palette) => string;
  dims?: boolean; // code of runtimes and the system is paler than the user's own
  note?: (node: number) => string; // behind a box's name, in the mirror, in the tooltip
  choose: (node: number) => void;
  zoomTo: (node: number) => void;
}

interface Window {
  from: number;
  to: number;
}

let widths: Float32Array | null = null;

// Widths of characters, measured once: asking the canvas for every name would cost more than drawing.
function textWidth(c: CanvasRenderingContext2D, text: string): number {
  if (!widths) {
    widths = new Float32Array(128);
    for (let i = 32; i < 127; i++) widths[i] = c.measureText(String.fromCharCode(i)).width;
  }
  let width = 0;
  for (let i = 0; i < text.length; i++) width += widths[text.charCodeAt(i)] || 12;
  return width;
}

function fit(c: CanvasRenderingContext2D, text: string, room: number): string {
  if (room < 14) return "";
  if (textWidth(c, text) <= room) return text;
  let width = 11; // of the three dots
  let n = 0;
  while (n < text.length && (width += widths![text.charCodeAt(n)] || 12) <= room) n++;
  return n > 1 ? text.slice(0, n) + "…" : "";
}

interface Placed {
  x: number;
  y: number;
  w: number;
  fill: string;
  text: string;
  textFill: string;
  dim: boolean;
  mark: boolean;
  node: number;
}

// Everything to draw, for the canvas and for an SVG alike.
function place(p: FlameProps, win: Window, width: number, top: number, height: number, colours: Palette, c: CanvasRenderingContext2D, put: (b: Placed) => void): void {
  const scale = width / (win.to - win.from || 1);
  const searching = p.matches !== null;
  const out: Placed = { x: 0, y: 0, w: 0, fill: "", text: "", textFill: "", dim: false, mark: false, node: 0 };
  visit(p.flame, win.from, win.to, scale, floor(top / ROW), ceil((top + height) / ROW), (b) => {
    const left = max(0, b.x), right = min(width, b.x + b.width);
    const hit = searching && p.matches!.boxes[b.node] === 1;
    out.node = b.node;
    out.x = left;
    out.y = b.depth * ROW - top;
    out.w = right - left;
    out.fill = hit ? colours.match : b.node ? p.colour(b.node, colours) : colours.root;
    out.dim = !hit && !!p.dims && b.node > 0 && frameOf(p.flame, b.node)?.user === false;
    out.textFill = hit ? colours.matchText : out.dim ? colours.faint : colours.text;
    out.mark = b.node === p.chosen && b.node !== 0;
    out.text = "";
    if (out.w > 22) {
      const words = nodeLabel(p.flame, b.node, p.rootName);
      const more = `${words}   ${p.note?.(b.node) || (b.node ? amount : withUnit)(p.flame.total[b.node], p.unit)}`;
      out.text = textWidth(c, more) <= out.w - 8 ? more : fit(c, words, out.w - 8);
    }
    put(out);
  });
}

function draw(canvas: HTMLCanvasElement, p: FlameProps, win: Window, top: number, colours: Palette): void {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  if (canvas.width !== round(width * ratio) || canvas.height !== round(height * ratio)) {
    canvas.width = round(width * ratio);
    canvas.height = round(height * ratio);
  }
  const c = canvas.getContext("2d")!;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.fillStyle = colours.back;
  c.fillRect(0, 0, width, height);
  c.font = FONT;
  c.textBaseline = "middle";
  let marked: Placed | null = null;
  place(p, win, width, top, height, colours, c, (b) => {
    c.fillStyle = b.fill;
    c.globalAlpha = b.dim ? DIMMED : 1;
    c.fillRect(b.x, b.y, b.w > 3 ? b.w - 1 : b.w, ROW - 1);
    c.globalAlpha = 1;
    if (b.mark) marked = { ...b };
    if (!b.text) return;
    c.fillStyle = b.textFill;
    c.fillText(b.text, b.x + 4, b.y + ROW / 2);
  });
  if (marked) {
    const m = marked as Placed;
    c.strokeStyle = colours.chosen;
    c.lineWidth = 2;
    c.strokeRect(m.x + 1, m.y + 1, max(2, m.w - 3), ROW - 3);
  }
}

export function flameSvg(canvas: HTMLCanvasElement, p: FlameProps, win: Window): string {
  const width = canvas.clientWidth, height = (p.flame.deepest + 1) * ROW;
  const c = canvas.getContext("2d")!;
  const out: string[] = [];
  place(p, win, width, 0, height, palette.value, c, (b) => {
    const title = `${nodeLabel(p.flame, b.node, p.rootName)}: ${amount(p.flame.total[b.node], p.unit)} (${share(p.flame.total[b.node], p.flame.total[0])})`;
    out.push(`<g><title>${escapeXml(title)}</title><rect x="${b.x.toFixed(1)}" y="${b.y}" width="${max(0.5, b.w - 1).toFixed(1)}" height="${ROW - 1}" fill="${b.fill}"${b.dim ? ` fill-opacity="${DIMMED}"` : ""}/>` +
      (b.text ? `<text x="${(b.x + 4).toFixed(1)}" y="${b.y + 14}" fill="${b.textFill}">${escapeXml(b.text)}</text>` : "") + "</g>");
  });
  return out.join("\n");
}

export function FlameCanvas(props: FlameProps) {
  const { flame, unit, zoom } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const latest = useRef(props);
  latest.current = props;
  const win = useRef<Window>({ from: 0, to: flame.total[0] });
  const waiting = useRef(0);
  const [pointed, setPointed] = useState<{ node: number; x: number; y: number } | null>(null);

  const redraw = () => {
    waiting.current ||= requestAnimationFrame(() => {
      waiting.current = 0;
      if (canvas.current) draw(canvas.current, latest.current, win.current, scroller.current!.scrollTop, palette.value);
    });
  };
  useLayoutEffect(() => {
    const node = zoom < flame.count ? zoom : 0;
    win.current = { from: flame.start[node], to: flame.start[node] + ((!node && props.whole) || flame.total[node] || 1) };
    const box = scroller.current!;
    const y = flame.depth[node] * ROW;
    if (y < box.scrollTop || y > box.scrollTop + box.clientHeight - ROW) box.scrollTop = max(0, y - 3 * ROW);
  }, [flame, zoom, props.whole]);
  const byMouse = useRef(-1); // a box that was clicked is on screen: the graph stays where it is under the mouse
  useLayoutEffect(() => {
    const box = scroller.current!;
    const y = flame.depth[props.chosen] * ROW;
    if (!props.chosen || byMouse.current === props.chosen) return; // nothing is chosen any more: what is seen stays
    byMouse.current = -1;
    if (y < box.scrollTop) box.scrollTop = y;
    else if (y > box.scrollTop + box.clientHeight - ROW) box.scrollTop = y - box.clientHeight + 2 * ROW;
  }, [props.chosen, flame]);
  useEffect(redraw);
  useEffect(() => effect(() => {
    void palette.value;
    redraw();
  }), []);
  useEffect(() => {
    const watch = new ResizeObserver(redraw);
    watch.observe(scroller.current!);
    const off = exportAs(canvas.current!, () => flameSvg(canvas.current!, latest.current, win.current),
      () => (latest.current.flame.deepest + 1) * ROW);
    return () => {
      watch.disconnect();
      off();
      cancelAnimationFrame(waiting.current);
      waiting.current = 0;
    };
  }, []);

  const hit = (e: MouseEvent): number => {
    const box = canvas.current!.getBoundingClientRect();
    const w = win.current;
    const position = w.from + ((e.clientX - box.left) / box.width) * (w.to - w.from);
    return nodeAt(flame, position, floor((e.clientY - box.top + scroller.current!.scrollTop) / ROW));
  };
  const limit = (from: number, to: number) => {
    const all = flame.total[0], size = min(all, to - from);
    const start = min(max(0, from), all - size);
    win.current = { from: start, to: start + size };
    redraw();
  };
  const wheel = (e: WheelEvent) => {
    const w = win.current;
    const span = w.to - w.from;
    const width = canvas.current!.clientWidth;
    if (e.ctrlKey || e.metaKey) {
      const box = canvas.current!.getBoundingClientRect();
      const middle = w.from + ((e.clientX - box.left) / box.width) * span;
      const factor = Math.exp(e.deltaY / 300);
      limit(middle - (middle - w.from) * factor, middle + (w.to - middle) * factor);
    } else if (e.deltaX) {
      limit(w.from + (e.deltaX / width) * span, w.to + (e.deltaX / width) * span);
    } else return;
    e.preventDefault();
  };
  useEffect(() => {
    const element = canvas.current!; // preact's own handler would be passive
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  });
  const press = useRef<{ x: number; y: number; from: number; to: number; top: number; moved: boolean } | null>(null);
  const down = (e: PointerEvent) => {
    if (e.button) return;
    press.current = { x: e.clientX, y: e.clientY, ...win.current, top: scroller.current!.scrollTop, moved: false };
    if (e.pointerType === "mouse") canvas.current!.setPointerCapture(e.pointerId);
  };
  const move = (e: PointerEvent) => {
    const p = press.current;
    if (p && (p.moved || abs(e.clientX - p.x) + abs(e.clientY - p.y) > 4)) {
      p.moved = true;
      setPointed(null);
      const shift = ((p.x - e.clientX) / canvas.current!.clientWidth) * (p.to - p.from);
      limit(p.from + shift, p.to + shift);
      if (e.pointerType === "mouse") scroller.current!.scrollTop = p.top + p.y - e.clientY;
      return;
    }
    const node = hit(e);
    if (node < 0) setPointed(null);
    else if (e.pointerType === "mouse") setPointed({ node, x: e.clientX, y: e.clientY });
  };
  const up = (e: PointerEvent) => {
    const p = press.current;
    press.current = null;
    if (!p || p.moved) return;
    const node = hit(e);
    if (node < 0) return;
    byMouse.current = node;
    inspectorAway(e);
    if (node === props.chosen || node === 0) props.zoomTo(node);
    props.choose(node);
  };
  // The second click may come after the first one changed the graph: what counts is what the first one hit.
  const first = useRef(-1);
  const clicked = (e: MouseEvent) => {
    if (e.detail === 1) first.current = byMouse.current;
  };
  const key = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key.startsWith("Arrow")) props.choose(neighbour(flame, props.chosen, e.key));
    else if (e.key === "Home") {
      scroller.current!.scrollTop = 0;
      props.choose(0);
    }
    else if (e.key === "Enter") props.zoomTo(props.chosen);
    else return;
    taken(e);
  };
  return <div class="flame" data-nodes={flame.count}>
    <div class="flame-scroll" ref={scroller} onScroll={redraw}>
      <div class="flame-rows" style={{ height: `${(flame.deepest + 1) * ROW + 4}px` }}>
        <Mirror flame={flame} chosen={props.chosen} unit={unit} label={props.label} rootName={props.rootName ?? "all"} cells={props.note} onKey={key} />
        <canvas ref={canvas} aria-hidden="true" onPointerDown={down} onPointerMove={move} onPointerUp={up}
          onPointerCancel={() => (press.current = null)} onPointerLeave={() => setPointed(null)} onClick={clicked} onDblClick={() => first.current >= 0 && props.zoomTo(first.current)} />
      </div>
    </div>
    {pointed && pointed.node < flame.count && <Tip {...props} node={pointed.node} x={pointed.x} y={pointed.y} />}
  </div>;
}

function Tip({ flame, node, unit, x, y, note, rootName }: FlameProps & { node: number; x: number; y: number }) {
  const f = frameOf(flame, node);
  const style = { left: `${min(x + 14, innerWidth - 380)}px`, top: `${y + 18 > innerHeight - 130 ? y - 120 : y + 18}px` };
  return <div class="tip" style={style} aria-hidden="true">
    <strong>{nodeLabel(flame, node, rootName)}</strong>
    {flame.chains.has(node) && <span>{framesOf(flame, node).slice(0, 30).map(frameLabel).join(" › ").slice(0, 900)}</span>}
    {f && <span>{clean(f.file ? `${f.file}:${f.line}` : f.module).slice(-90)}{f.inlined ? " (inlined)" : ""}</span>}
    {f?.file && f.module && <span>{clean(f.module).slice(-90)}</span>}
    <span>{amount(flame.total[node], unit)}, {share(flame.total[node], flame.total[0])}{flame.self[node] && flame.self[node] !== flame.total[node] ? `, own ${amount(flame.self[node], unit)}` : ""}</span>
    {note && <span>{note(node)}</span>}
  </div>;
}
