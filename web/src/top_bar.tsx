// The top bar: what was recorded, how well, the search, help, theme and export.
import { useRef } from "preact/hooks";
import type { RecordingEntry, Summary } from "./api";
import { taken } from "./bits";
import { ExportMenu, ShareMenu } from "./export_menu";
import { matchedWords, nextMatch } from "./flame_view";
import { helpShown } from "./help";
import { dark } from "./colours";
import { DEFAULTS, go, setTheme, state } from "./state";
import { baseName, brief, bytes, clean, count, duration } from "./words";

function runWords(summary: Summary): string {
  return [summary.duration_ns && duration(summary.duration_ns), !summary.live && summary.end_words && brief(summary.end_words, 80), summary.processes.length > 1 && summary.thread_words].filter(Boolean).join(", ");
}

export function TopBar({ summary, recordings }: { summary: Summary; recordings: RecordingEntry[] }) {
  const command = summary.command.map(clean).join(" ") || clean(summary.name);
  const short = summary.command.length ? [baseName(summary.command[0]), ...summary.command.slice(1)].join(" ") : summary.name;
  return <header class="top">
    <span class="brand">heft</span>
    <h1 title={command}>{brief(short, 60)}</h1>
    {recordings.length > 1 && <label class="select"><span class="hidden">Recording</span>
      <select value={summary.id} onChange={(e) => go({ ...DEFAULTS, r: e.currentTarget.value, view: state.value.view })}>
        {recordings.map((r) => <option key={r.id} value={r.id}>{brief(r.name, 40)}</option>)}</select></label>}
    <span class="run-words" title={runWords(summary)}>{runWords(summary)}</span>
    {summary.live && <span class="live-badge" role="status"><span aria-hidden="true">●</span> running</span>}
    <Badge summary={summary} />
    <Search />
    <nav class="tools" aria-label="Page">
      <button onClick={() => (helpShown.value = true)} title="Keys and words (?)">Help</button>
      <button onClick={() => setTheme(dark.value ? "light" : "dark")} title="Light or dark (t)">{dark.value ? "Light" : "Dark"}</button>
      <ExportMenu summary={summary} />
      <ShareMenu summary={summary} />
    </nav>
  </header>;
}

const LEVELS = { good: "✓", fair: "◐", poor: "✗" };

function Badge({ summary }: { summary: Summary }) {
  const q = summary.quality;
  const kind = summary.mode === "exact" ? "exact" : `sampled: one sample per ${bytes(summary.rate_bytes)}`;
  const dropped = summary.totals.dropped;
  return <details class={`badge ${q.level}`}>
    <summary title="Data quality"><span aria-hidden="true">{LEVELS[q.level]}</span> {kind}{dropped ? `, ${count(dropped)} dropped` : ""}{q.level !== "good" ? `; quality: ${q.level}` : ""}</summary>
    <div class="popup"><p><strong>Quality: {q.level}</strong></p><ul>{q.words.length ? q.words.map((w, i) => <li key={i}>{clean(w)}</li>) : <li>heft knows of nothing that is missing.</li>}</ul></div>
  </details>;
}

export const searchBox: { current: HTMLInputElement | null } = { current: null };

function Search() {
  const s = state.value;
  const timer = useRef(0);
  const set = (search: string) => {
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => go({ search }, true), 150);
  };
  const key = (e: KeyboardEvent) => {
    const input = e.currentTarget as HTMLInputElement;
    if (e.key === "Enter") {
      clearTimeout(timer.current);
      go({ search: input.value }, true);
      nextMatch(e.shiftKey ? -1 : 1);
    } else if (e.key === "Escape") {
      clearTimeout(timer.current);
      input.value = "";
      go({ search: "" }, true);
      input.blur();
    } else return;
    taken(e);
  };
  return <div class="search" role="search">
    <input type="search" ref={(e) => { searchBox.current = e; }} value={s.search} placeholder="Search functions, files   /" aria-label="Search functions, files, modules" spellcheck={false}
      onInput={(e) => set(e.currentTarget.value)} onKeyDown={key} />
    {s.search && <span class="matched" role="status">{s.view === "flame" ? matchedWords.value : ""}</span>}
    {s.search && <button title="Count only stacks that match" onClick={() => go({ focus: s.search, search: "" })}>Only these</button>}
  </div>;
}
