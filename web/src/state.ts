// All of the page's state stands in the URL's hash: a link shows what its sender saw, and the
// browser's back button undoes. Only the theme is the reader's own (localStorage).
//
// Invariant: parse(format(s)) equals s, and defaults are not written, so that a fresh page has an
// empty hash. A hash is anyone's text: what is not understood is ignored.
import { signal } from "@preact/signals";
import type { Mode, Selection } from "./api";

export const VIEWS = ["findings", "flame", "sites", "sandwich", "source", "sizes", "lifetimes", "threads",
  "diff", "memory", "marks", "processes"] as const;
export type ViewName = (typeof VIEWS)[number];
export const MODES: Mode[] = ["live", "grew", "allocated", "churn"];
export const MODE_WORDS: Record<Mode, string> = {
  live: "Live at instant",
  grew: "Grew in window",
  allocated: "Allocated in window",
  churn: "Churn",
};

export interface State {
  r: string; // recording
  view: ViewName;
  mode: Mode;
  at: "peak" | "end" | number;
  from: number; // 0: the start
  to: number; // 0: the end
  metric: "bytes" | "count";
  process: number; // its number + 1; 0: all
  program: string; // all processes of this one
  each: boolean; // processes one by one, however many
  thread: string;
  focus: string;
  ignore: string;
  within: number; // 0: the default, 1 ms
  search: string;
  finding: number; // whose proof is shown: its place in the list + 1
  site: number; // in the inspector
  node: string; // in the inspector: hash of a flame graph's path
  zoom: string; // likewise
  invert: boolean;
  merge: boolean; // recursion
  fold: boolean; // system frames
  chains: boolean; // shown box by box, not folded
  opened: string; // those that are: hashes of their paths, "." between
  colour: "module" | "lifetime";
  sort: string; // of the table shown; "-" before it: rising
  function: string; // of Sandwich
  module: string;
  file: string; // of Source
  line: number;
  b: string; // Diff: the other recording ("" : the same one)
  side: boolean; // Diff: two graphs beside each other
  bat: "" | "peak" | "end" | number; // Diff: instant of B ("": not chosen)
  ledger: number; // Memory: the one that was chosen of a process's, + 1; 0: that of the instant
  lines: string; // Memory: sections + 1 that show all lines, "-" before it: none; "." between
}

export const DEFAULTS: State = {
  r: "", view: "findings", mode: "live", at: "peak", from: 0, to: 0, metric: "bytes", process: 0, program: "", each: false, thread: "",
  focus: "", ignore: "", within: 0, search: "", finding: 0, site: 0, node: "", zoom: "", invert: false, merge: false,
  fold: false, chains: false, opened: "", colour: "module", sort: "", function: "", module: "", file: "", line: 0,
  b: "", side: false, bat: "", ledger: 0, lines: "",
};

const CHOICES: Partial<Record<keyof State, readonly string[]>> = {
  view: VIEWS, mode: MODES, metric: ["bytes", "count"], colour: ["module", "lifetime"],
};

function readInstant(text: string): "peak" | "end" | number | undefined {
  if (text === "peak" || text === "end") return text;
  return /^\d{1,16}$/.test(text) ? Number(text) : undefined;
}

export function parse(hash: string): State {
  const state = { ...DEFAULTS } as Record<string, unknown>;
  for (const [key, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!Object.hasOwn(DEFAULTS, key)) continue;
    const name = key as keyof State;
    const fallback = DEFAULTS[name];
    let value: unknown;
    if (name === "at" || name === "bat") value = readInstant(text);
    else if (CHOICES[name]) value = CHOICES[name].includes(text) ? text : undefined;
    else if (typeof fallback === "number") value = /^\d{1,16}$/.test(text) ? Number(text) : undefined;
    else if (typeof fallback === "boolean") value = text === "1";
    else value = text;
    if (value !== undefined) state[name] = value;
  }
  return state as unknown as State;
}

export function format(state: State): string {
  const out: string[] = [];
  for (const name of Object.keys(DEFAULTS) as (keyof State)[]) {
    const value = state[name];
    if (value === DEFAULTS[name]) continue;
    out.push(`${name}=${encodeURIComponent(value === true ? "1" : String(value))}`);
  }
  return out.join("&");
}

const here = typeof location === "undefined" ? "" : location.hash;
export const state = signal<State>(parse(here));

// `quiet` replaces the entry in the browser's history: for what changes many times (dragging, typing).
export function go(patch: Partial<State>, quiet = false): void {
  const next = { ...state.value, ...patch };
  const hash = format(next);
  if (hash === format(state.value)) return;
  state.value = next;
  const address = hash ? "#" + hash : location.pathname + location.search;
  if (quiet) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
}

if (typeof addEventListener !== "undefined") {
  const reread = () => (state.value = parse(location.hash));
  addEventListener("hashchange", reread);
  addEventListener("popstate", reread);
}

// Of which processes.
export function processOf(s: State): Selection {
  return s.process ? { process: s.process - 1 } : s.program ? { program: s.program } : {};
}
export function chooseProcess(process: number, program: string): void {
  go({ process, program, ledger: 0, mode: "live", at: "peak", from: 0, to: 0, thread: "", zoom: "", node: "", site: 0 });
}

// Which part of the recording the views are about, as the server wants it.
export function selectionOf(s: State): Selection {
  const sel: Selection = {};
  if (s.mode !== "live") sel.mode = s.mode;
  if (s.mode === "live" && s.at !== "peak") sel.at = s.at;
  if (s.mode !== "live" && s.from) sel.from = s.from;
  if (s.mode !== "live" && s.to) sel.to = s.to;
  if (s.metric !== "bytes" && s.mode !== "churn") sel.metric = s.metric;
  Object.assign(sel, processOf(s));
  if (s.thread) sel.thread = s.thread;
  if (s.focus) sel.focus = s.focus;
  if (s.ignore) sel.ignore = s.ignore;
  if (s.mode === "churn" && s.within && s.within !== 1e6) sel.within = s.within;
  return sel;
}

// How chains of single children are drawn.
export function chainShape(s: State): { chains: boolean; opened: string[] } {
  return { chains: !s.chains, opened: s.opened.split(".") };
}

// What the selected values are counted in.
export function selectedUnit(): "bytes" | "count" {
  return state.value.mode === "churn" ? "count" : state.value.metric;
}

export type Query = Record<string, string | number | boolean | undefined>;

// Order and left-out defaults matter: a one-file report finds its documents by this text.
export function address(path: string, ...queries: (Query | Selection)[]): string {
  const parts: string[] = [];
  for (const query of queries)
    for (const [key, value] of Object.entries(query))
      if (value !== undefined && value !== "" && value !== false)
        parts.push(`${key}=${encodeURIComponent(value === true ? "1" : String(value))}`);
  return path + (parts.length ? "?" + parts.join("&") : "");
}

// Theme: "" follows the system.
export type Theme = "" | "light" | "dark";
export const theme = signal<Theme>("");

export function setTheme(next: Theme): void {
  theme.value = next;
  try {
    if (next) localStorage.setItem("heft-theme", next);
    else localStorage.removeItem("heft-theme");
  } catch {
    // A page from a file may have no storage: the choice then lasts as long as the page.
  }
}

export function startTheme(): void {
  let kept: string | null = null;
  try {
    kept = localStorage.getItem("heft-theme");
  } catch {
    // as above
  }
  if (kept === "light" || kept === "dark") setTheme(kept);
}
