// Colours of what is drawn on a canvas; everything else is in style.css. Colour never says anything
// alone: a box has its name, a legend its words, a change its sign.
import { max, min, round } from "./arithmetic";
import { computed, effect, signal } from "@preact/signals";
import { theme } from "./state";

const query = typeof matchMedia === "undefined" ? null : matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(query?.matches ?? false);
query?.addEventListener("change", (e) => (systemDark.value = e.matches));
export const dark = computed(() => (theme.value ? theme.value === "dark" : systemDark.value));
if (query) effect(() => void (document.documentElement.dataset.theme = dark.value ? "dark" : "light"));

export interface Palette {
  modules: string[];
  made: string; // saturation and lightness of the colours for further modules
  system: string;
  root: string;
  text: string;
  faint: string;
  edge: string;
  match: string;
  matchText: string;
  chosen: string;
  back: string;
  more: [number, number, number];
  less: [number, number, number];
  plain: [number, number, number];
  old: [number, number, number];
}

const LIGHT: Palette = {
  made: "62%,79%", modules: ["#a9c7f5", "#f5c396", "#9edccb", "#d9c0f0", "#e9d98d", "#f3b9c8", "#c3e0a5", "#a8dbea"],
  system: "#dfe2e7", root: "#eceef1", text: "#1a1d21", faint: "#6a7079", edge: "#ffffff", match: "#7a2fb5",
  matchText: "#ffffff", chosen: "#1a1d21", back: "#ffffff",
  more: [240, 120, 105], less: [110, 160, 240], plain: [228, 231, 235], old: [232, 160, 60],
};
const DARK: Palette = {
  made: "42%,31%", modules: ["#34578f", "#80532a", "#22685a", "#64457f", "#675c22", "#803f57", "#46672d", "#275f73"],
  system: "#3b414b", root: "#2a2f37", text: "#f1f3f5", faint: "#9aa2ad", edge: "#14171b", match: "#d8b4f8",
  matchText: "#14171b", chosen: "#ffffff", back: "#14171b",
  more: [168, 56, 46], less: [46, 92, 168], plain: [58, 64, 74], old: [150, 92, 20],
};
export const palette = computed(() => (dark.value ? DARK : LIGHT));

export function mix(from: [number, number, number], to: [number, number, number], part: number): string {
  const p = min(1, max(0, part));
  return `rgb(${from.map((v, i) => round(v + (to[i] - v) * p)).join(",")})`;
}

// A module has one colour wherever it is drawn, and no other module has it. The place in this list is
// its colour: the one that its name asks for if that is free, so that it mostly stays the same from one
// recording to the next; else the next free one.
const owners: string[] = [];
function moduleIndex(name: string): number {
  const known = owners.indexOf(name);
  if (known >= 0) return known;
  let h = 7;
  for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) >>> 0;
  let at = h % LIGHT.modules.length;
  for (let k = 0; owners[at] !== undefined && k < LIGHT.modules.length; k++) at = (at + 1) % LIGHT.modules.length;
  while (owners[at] !== undefined) at++;
  owners[at] = name;
  return at;
}

// In the order of their names, as the flame graph of heft export has them.
export function nameModules(names: Iterable<string>): void {
  [...new Set(names)].sort().forEach(moduleIndex);
}

// Behind the eight chosen ones, hues at the golden angle: no two are the same.
export function moduleHue(name: string, p: Palette): string {
  const i = moduleIndex(name);
  return p.modules[i] ?? `hsl(${((i * 137.508 + 20) % 360).toFixed(1)},${p.made})`;
}
