// Export and share what is on screen: the view as SVG or PNG, made from what the browser laid out, the
// selection as a pprof file, which the server makes, a link, and a summary in words (markdown.ts).
import { ceil, max, min } from "./arithmetic";
import { signal, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Sites, Summary } from "./api";
import { copied, copyText } from "./clipboard";
import { isFile, token, useSelected } from "./fetch";
import { markdownSummary } from "./markdown";
import { address, selectionOf, state } from "./state";
import { escapeXml } from "./svg_text";

// Canvases say themselves what they would be as SVG.
const drawn = new Map<HTMLCanvasElement, { svg: () => string; height: () => number }>();
export function exportAs(canvas: HTMLCanvasElement, svg: () => string, height: () => number): () => void {
  drawn.set(canvas, { svg, height });
  return () => void drawn.delete(canvas);
}

const open = signal(false);
export function openExport(): void {
  open.value = true;
}

// The lines of a text node as they stand on screen.
function textLines(node: Text): { text: string; box: DOMRect }[] {
  const out: { text: string; box: DOMRect }[] = [];
  const range = document.createRange();
  const all = node.data;
  let from = 0;
  let last: DOMRect | null = null;
  for (let i = 0; i < all.length && i < 2000; i++) {
    range.setStart(node, i);
    range.setEnd(node, i + 1);
    const box = range.getBoundingClientRect();
    if (!box.width && !box.height) continue;
    if (last && box.top > last.top + last.height / 2) {
      range.setStart(node, from);
      range.setEnd(node, i);
      out.push({ text: all.slice(from, i), box: range.getBoundingClientRect() });
      from = i;
    }
    last = box;
  }
  if (last) {
    range.setStart(node, from);
    range.setEnd(node, all.length);
    out.push({ text: all.slice(from), box: range.getBoundingClientRect() });
  }
  return out;
}

const SHAPE_STYLE = ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity", "opacity", "font-size", "text-anchor"];

function inlineShapes(source: SVGElement): string {
  const copy = source.cloneNode(true) as SVGElement;
  const from = source.querySelectorAll<SVGElement>("*"), to = copy.querySelectorAll<SVGElement>("*");
  to.forEach((element, i) => {
    const style = getComputedStyle(from[i]);
    for (const name of SHAPE_STYLE) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute("class");
  });
  return new XMLSerializer().serializeToString(copy).replace(/^<svg[^>]*>/, "").replace(/<\/svg>$/, "");
}

// A part of the page as SVG: backgrounds, text, drawings, within what is visible of it.
export function pageToSvg(root: HTMLElement): string {
  const area = root.getBoundingClientRect();
  const out: string[] = [];
  let height = area.height;
  const visible = (b: DOMRect) => b.width > 0 && b.height > 0 && b.bottom > area.top && b.right > area.left && b.left < area.right && b.top < area.top + height;
  const walk = (element: Element) => {
    if (element.matches(".hidden, .hidden-grid, .tip, .inspector")) return;
    const style = getComputedStyle(element);
    if (style.visibility === "hidden" || style.display === "none") return;
    const box = element.getBoundingClientRect();
    const x = (box.left - area.left).toFixed(1), y = (box.top - area.top).toFixed(1);
    if (element instanceof HTMLCanvasElement) {
      const how = drawn.get(element);
      if (!how) return;
      height = max(height, box.top - area.top + how.height());
      out.push(`<g transform="translate(${x} ${y})">${how.svg()}</g>`);
      return;
    }
    if (element instanceof SVGSVGElement) {
      if (visible(box)) out.push(`<g transform="translate(${x} ${y})">${inlineShapes(element)}</g>`);
      return;
    }
    if (visible(box)) {
      const back = style.backgroundColor, edge = parseFloat(style.borderTopWidth) > 0 && style.borderTopStyle !== "none";
      if ((back && back !== "rgba(0, 0, 0, 0)") || edge)
        out.push(`<rect x="${x}" y="${y}" width="${box.width.toFixed(1)}" height="${box.height.toFixed(1)}" fill="${back === "rgba(0, 0, 0, 0)" ? "none" : back}"${edge ? ` stroke="${style.borderTopColor}"` : ""} rx="${parseFloat(style.borderTopLeftRadius) || 0}"/>`);
    }
    for (const child of element.childNodes)
      if (child instanceof Text) {
        if (!child.data.trim()) continue;
        for (const { text, box: b } of textLines(child))
          if (visible(b)) out.push(`<text x="${(b.left - area.left).toFixed(1)}" y="${(b.top - area.top + b.height * 0.78).toFixed(1)}" font-size="${style.fontSize}" font-weight="${style.fontWeight}" fill="${style.color}" textLength="${b.width.toFixed(1)}" lengthAdjust="spacingAndGlyphs">${escapeXml(text)}</text>`);
      } else if (child instanceof Element) walk(child);
  };
  walk(root);
  const w = ceil(area.width), h = ceil(height);
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" font-family="system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif" font-size="12">` +
    `<rect width="${w}" height="${h}" fill="${getComputedStyle(document.body).backgroundColor}"/>${out.join("\n")}</svg>\n`;
}

function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function nameOf(summary: Summary, ending: string): string {
  return `${summary.name.replace(/[^\w.-]+/g, "_").replace(/\.heft$/, "").slice(0, 60) || "heft"}-${state.value.view}.${ending}`;
}

export function currentSvg(): string {
  return pageToSvg(document.querySelector<HTMLElement>("main .view")!);
}

function toPng(): Promise<Blob> {
  const image = new Image();
  const address_ = URL.createObjectURL(new Blob([currentSvg()], { type: "image/svg+xml" }));
  return new Promise((done) => {
    image.onload = () => {
      const canvas = document.createElement("canvas");
      const ratio = min(2, 16000 / max(image.width, image.height, 1));
      canvas.width = image.width * ratio;
      canvas.height = image.height * ratio;
      const c = canvas.getContext("2d")!;
      c.scale(ratio, ratio);
      c.drawImage(image, 0, 0);
      URL.revokeObjectURL(address_);
      canvas.toBlob((blob) => blob && done(blob), "image/png");
    };
    image.src = address_;
  });
}

function savePng(summary: Summary): void {
  void toPng().then((blob) => save(blob, nameOf(summary, "png")));
}

// A button that opens a list of things to do.
function Menu({ words, title, open, children }: { words: string; title: string; open: Signal<boolean>; children: ComponentChildren }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const shown = open.value;
  useEffect(() => {
    menu.current!.open = shown;
    if (shown) menu.current!.querySelector<HTMLElement>(".popup button")?.focus();
  }, [shown]);
  // The menus are there as long as the page: the listener is never taken away.
  useEffect(() => document.addEventListener("pointerdown", (e) => menu.current?.contains(e.target as Node) || (open.value = false)), []);
  return <details ref={menu} class="menu" onToggle={(e) => (open.value = e.currentTarget.open)}
    onKeyDown={(e) => { if (e.key === "Escape" && open.value) { e.stopPropagation(); open.value = false; menu.current!.querySelector("summary")!.focus(); } }}>
    <summary title={title}>{words}</summary>
    <div class="popup">{shown && children}</div>
  </details>;
}

const run = (open: Signal<boolean>, act: () => void) => () => {
  open.value = false;
  act();
};

export function ExportMenu({ summary }: { summary: Summary }) {
  const pprof = address(`/api/r/${summary.id}/export`, { format: "pprof" }, selectionOf(state.value), { token: token || undefined });
  return <Menu words="Export" title="Export what is on screen (x)" open={open}>
    <button onClick={run(open, () => save(new Blob([currentSvg()], { type: "image/svg+xml" }), nameOf(summary, "svg")))}>This view as SVG</button>
    <button onClick={run(open, () => savePng(summary))}>This view as PNG</button>
    {isFile() ? <p class="faint">pprof: heft export -f pprof FILE</p> : <a href={pprof} download>Selection as pprof</a>}
  </Menu>;
}

const sharing = signal(false);

export function ShareMenu({ summary }: { summary: Summary }) {
  return <Menu words="Share" title="Copy a link, a summary or an image" open={sharing}><ShareList summary={summary} /></Menu>;
}

// A browser that cannot copy an image gets it as a file.
function copyImage(summary: Summary): void {
  const image = toPng();
  const file = () => void image.then((blob) => save(blob, nameOf(summary, "png")));
  if (typeof ClipboardItem === "undefined" || !navigator.clipboard?.write) return file();
  navigator.clipboard.write([new ClipboardItem({ "image/png": image })]).then(() => (copied.value = "image"), file);
}

function ShareList({ summary }: { summary: Summary }) {
  // Asked for as soon as the menu opens: a browser lets a page copy only at once.
  const sites = useSelected<Sites>(summary, "sites");
  const link = location.href, text = sites.loading ? "" : markdownSummary(summary, sites.value);
  const done = (what: string) => copied.value === what && what ? " ✓" : "";
  return <>
    <button onClick={() => copyText(link)}>Copy link{done(link)}</button>
    <button disabled={!text} onClick={() => copyText(text)}>Copy summary as Markdown{done(text)}</button>
    <button onClick={() => copyImage(summary)}>Copy image of this view{done("image")}</button>
    <p class="faint">{isFile() ? "The link shows the same to whoever has this file at the same place." : "The link works on this machine, while heft view runs. To send the page itself: heft export -f html FILE"}</p>
  </>;
}
