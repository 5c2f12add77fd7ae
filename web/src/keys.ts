// The keyboard, for everything that is not a focused control's own business.
import { round } from "./arithmetic";
import type { Summary } from "./api";
import { dark } from "./colours";
import { shownRow } from "./diff";
import { openExport } from "./export_menu";
import { nextMatch, shownFlame } from "./flame_view";
import { findPath, frameOf } from "./flame";
import { helpShown } from "./help";
import { copyStack } from "./inspector";
import { openSandwich } from "./bits";
import { chooseProcess, go, MODES, setTheme, state, VIEWS, type State } from "./state";
import { choose, instantNs, moveInstant, nextMark, setWindowEnd, shownTimeline } from "./timeline";
import { searchBox } from "./top_bar";

function back(): void {
  const s = state.value;
  if (helpShown.value) helpShown.value = false;
  else if (s.zoom) go({ zoom: "" });
  else if (s.site || s.node || shownRow.value) {
    shownRow.value = null;
    go({ site: 0, node: "" });
  }
  else if (s.search) go({ search: "" });
  else if (s.focus || s.ignore || s.thread) go({ focus: "", ignore: "", thread: "" });
  else if (s.process || s.program) chooseProcess(0, "");
}

function sandwichOfChosen(): void {
  const shown = shownFlame.value;
  if (!shown) return;
  const f = frameOf(shown.flame, findPath(shown.flame, state.value.node));
  if (f) openSandwich(f.function, f.module);
}

function actions(summary: Summary): Record<string, () => void> {
  const s = state.value, has = summary.has;
  const timed = (act: () => void) => () => { if (has.windows) act(); };
  return {
    "/": () => { searchBox.current?.focus(); searchBox.current?.select(); },
    "?": () => { helpShown.value = !helpShown.value; },
    n: () => nextMatch(1),
    N: () => nextMatch(-1),
    p: () => { if (has.peak) choose("peak", summary); },
    o: timed(() => { if (summary.peak_rss_time_ns) choose("rss", summary); }),
    e: () => { if (has.live) choose("end", summary); },
    w: () => { if (has.allocated) choose("whole", summary); },
    ",": timed(() => moveInstant(summary, -1)),
    ".": timed(() => moveInstant(summary, 1)),
    ArrowLeft: timed(() => moveInstant(summary, -1)),
    ArrowRight: timed(() => moveInstant(summary, 1)),
    "[": timed(() => setWindowEnd(summary, "from")),
    "]": timed(() => setWindowEnd(summary, "to")),
    g: timed(() => go({ mode: MODES[(MODES.indexOf(s.mode) + 1) % MODES.length] })),
    b: () => go({ metric: s.metric === "bytes" ? "count" : "bytes" }),
    m: timed(() => nextMark(shownTimeline, summary)),
    d: timed(() => go({ view: "diff", b: "", bat: round(instantNs(summary)), at: "peak", mode: "live" })),
    i: () => go({ invert: !s.invert, zoom: "", node: "" }),
    r: () => go({ merge: !s.merge, zoom: "", node: "" }),
    f: () => go({ fold: !s.fold, zoom: "", node: "" }),
    k: () => go({ chains: !s.chains, opened: "" }),
    c: () => go({ colour: s.colour === "module" ? "lifetime" : "module" }),
    M: () => { if (has.remarks) openView("marks"); },
    P: () => { if (summary.processes.length > 1) openView("processes"); },
    s: sandwichOfChosen,
    y: copyStack,
    x: openExport,
    t: () => setTheme(dark.value ? "light" : "dark"),
    Escape: back,
  };
}

// A view chosen by its key gets the focus, as soon as it is there: its graph, its first row or card.
// Unless the focus went elsewhere in the meantime.
function focusView(before: Element | null, tries: number): void {
  if (document.activeElement !== before && document.activeElement !== document.body) return;
  const target = ["[role=treegrid]", ".row-open", ".primary", ".table-box"].map((s) => document.querySelector<HTMLElement>("#view " + s)).find((e) => e);
  if (target) target.focus();
  else if (tries) setTimeout(focusView, 50, before, tries - 1);
}

function openView(view: State["view"]): void {
  go({ view, sort: "" });
  setTimeout(focusView, 20, document.activeElement, 40);
}

export function listenToKeys(summaryNow: () => Summary | null): () => void {
  const press = (e: KeyboardEvent) => {
    if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
    const target = e.target as HTMLElement;
    if (target.matches("input, textarea, select") || target.closest("dialog[open]")) return;
    const summary = summaryNow();
    if (!summary) return;
    const view = "1234567890".indexOf(e.key);
    const act = view >= 0 && e.key.length === 1 ? () => openView(VIEWS[view]) : actions(summary)[e.key];
    if (!act) return;
    // Arrows belong to what scrolls, where something does.
    if (e.key.startsWith("Arrow") && target !== document.body && target.closest(".table-box, .view")) return;
    e.preventDefault();
    act();
  };
  addEventListener("keydown", press);
  return () => removeEventListener("keydown", press);
}
