// Help: the keys and the words of the page, in a dialog.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export const helpShown = signal(false);

export const KEYS: [string, string][] = [
  ["1 … 9, 0", "views, in the order of the list at the left"],
  ["/", "search; Enter and Shift+Enter go to the next match, Esc clears"],
  ["n, N", "next and previous match"],
  ["p, o, e, w", "peak, peak of RSS, end, whole run"],
  [", and .", "move the instant backward or forward (in the timeline: ← →)"],
  ["[ and ]", "begin or end the window at the instant"],
  ["g", "next mode: live, grew, allocated, churn"],
  ["b", "bytes or count"],
  ["m", "next mark"],
  ["d", "compare the peak with the instant (Shift+click in the timeline: any two)"],
  ["← → ↑ ↓", "in the flame graph: neighbours, caller, callee; in a table: rows"],
  ["Enter", "zoom to the chosen box, open the chosen row"],
  ["Esc", "back: close, zoom out, clear"],
  ["i, r, f, k, c", "flame graph: invert, merge recursion, fold system frames, fold chains, colours"],
  ["M", "what the program says: marks, regions, stages, pools"],
  ["P", "processes: choose one by its row; Esc shows all again"],
  ["s", "the chosen function in Sandwich"],
  ["y", "copy the stack in the inspector"],
  ["x", "export what is on screen"],
  ["t", "light or dark"],
  ["?", "this help"],
];

const WORDS: [string, string][] = [
  ["live", "allocated and not yet freed"],
  ["left at exit", "not freed when its process ended"],
  ["site", "a call stack that allocates"],
  ["temporary", "freed before its thread allocates again"],
  ["RSS", "all memory that the system gave to the process"],
  ["slack", "what the allocator adds to the size that was asked for"],
];

export function Help() {
  const dialog = useRef<HTMLDialogElement>(null);
  const shown = helpShown.value;
  useEffect(() => {
    if (shown && !dialog.current!.open) dialog.current!.showModal();
    if (!shown && dialog.current!.open) dialog.current!.close();
  }, [shown]);
  return <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={() => (helpShown.value = false)}>
    <div class="help-head"><h2 id="help-title">Keys and words</h2><button onClick={() => (helpShown.value = false)}>Close</button></div>
    <dl class="keys">{KEYS.map(([key, words]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{words}</dd></div>)}</dl>
    <dl class="keys">{WORDS.map(([key, words]) => <div key={key}><dt>{key}</dt><dd>{words}</dd></div>)}</dl>
    <p>In the timeline, click to choose an instant, drag to choose a window, and Shift+click to choose the instant to compare with. The address of the page holds all your choices: send the link to show others what you see.</p>
  </dialog>;
}
