// The page: three bands and a rail of views. What is open is asked once; everything else follows from
// the state in the URL (state.ts) and the documents (fetch.ts).
import { render, type ComponentType } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Has, Recordings, Summary } from "./api";
import { Empty } from "./bits";
import { DiffView } from "./diff";
import { follow, isFile, readEmbedded, useDocument } from "./fetch";
import { Findings, Pinned } from "./findings";
import { FlameView } from "./flame_view";
import { Help } from "./help";
import { Inspector } from "./inspector";
import { listenToKeys } from "./keys";
import { LifetimesView } from "./lifetimes";
import { MarksView } from "./marks";
import { gapWords, MemoryView, NO_LEDGER } from "./memory";
import { ProcessesView } from "./processes";
import { SandwichView } from "./sandwich";
import { SitesView } from "./sites";
import { SizesView } from "./sizes";
import { SourceView } from "./source";
import { address, go, processOf, startTheme, state, VIEWS, type ViewName } from "./state";
import { ThreadsView } from "./threads";
import { TimelineBand } from "./timeline";
import { TopBar } from "./top_bar";
import { brief } from "./words";

interface View {
  words: string;
  question: string;
  show: ComponentType<{ summary: Summary; recordings: Recordings }>;
  has?: keyof Has; // what a recording must tell for it
  lacks?: (summary: Summary) => string; // the words where it does not
}

// Why something is missing depends on the file: samples are made by heft, too.
const exactOnly = (what: string) => (s: Summary) => (s.mode === "sample" ? `A sampled recording has no ${what}. Record every allocation: heft run, without --sample.` : `A ${s.format} file has no ${what}. Record every allocation with heft run.`);

const VIEW: Record<ViewName, View> = {
  findings: { words: "Findings", question: "What is wrong?", show: Findings },
  flame: { words: "Flame", question: "Where does it come from?", show: FlameView },
  sites: { words: "Sites", question: "Which line?", show: SitesView },
  sandwich: { words: "Sandwich", question: "Who calls this?", show: SandwichView },
  source: { words: "Source", question: "Which statement?", show: SourceView, has: "source", lacks: () => "No frame of this recording has a source line. Build the program with -g to get them." },
  sizes: { words: "Sizes", question: "Which sizes, and what is lost to rounding?", show: SizesView, has: "sizes", lacks: exactOnly("sizes of single blocks") },
  lifetimes: { words: "Lifetimes", question: "How long do blocks live?", show: LifetimesView, has: "lifetimes", lacks: exactOnly("lifetimes: they need every free") },
  threads: { words: "Threads", question: "Who hands memory to whom?", show: ThreadsView, has: "threads", lacks: (s) => (s.format !== "heft" ? `A ${s.format} file does not record threads. Recordings of heft do.` : s.mode === "sample" ? "Samples name the threads of live blocks, and no sample was live." : "No thread of this program allocated anything.") },
  diff: { words: "Compare", question: "What changed?", show: DiffView },
  marks: { words: "Marks", question: "What does the program say?", show: MarksView, has: "remarks", lacks: () => "The program said nothing (heft.h)." },
  processes: { words: "Processes", question: "Which process?", show: ProcessesView },
  memory: { words: "Memory", question: "Why is RSS higher than the heap?", show: MemoryView, has: "ledger", lacks: (s) => gapWords(s) + (s.format === "heft" ? NO_LEDGER : `A ${s.format} file has no ledgers. Recordings of heft do.`) },
};

let current: Summary | null = null; // for the keyboard

function App() {
  const open = useDocument<Recordings>("/api/recordings");
  if (!open.value) return <div class="start">{open.loading ? <p role="status">Loading …</p> : <Empty title="heft does not answer">{open.words}</Empty>}</div>;
  if (!open.value.recordings.length) return <div class="start"><Empty title="Nothing is open">Open recordings with: heft view FILE…</Empty></div>;
  const entry = open.value.recordings.find((r) => r.id === state.value.r) ?? open.value.recordings[0];
  return <Recording key={entry.id} id={entry.id} live={entry.live} recordings={open.value} />;
}

// Of a chosen process it is that one's, among the same processes. A file has the documents of a few
// selections only.
function asShown(whole: Summary, part?: Summary): Summary {
  const { processes, process_count, thread_words } = whole;
  const summary = part ? { ...part, processes, process_count, thread_words } : whole;
  return isFile() ? { ...summary, has: { ...summary.has, windows: false } } : summary;
}

function Recording({ id, live, recordings }: { id: string; live: boolean; recordings: Recordings }) {
  const answer = useDocument<Summary>(`/api/r/${id}/summary`);
  const s = state.value, chosen = s.process || s.program;
  const part = useDocument<Summary>(chosen ? address(`/api/r/${id}/summary`, processOf(s)) : null).value;
  const summary = useMemo(() => answer.value && asShown(answer.value, chosen ? part : undefined), [answer.value, part, chosen]);
  current = summary ?? null; // now: a key may come before any effect does
  useEffect(() => (live && !isFile() ? follow(id) : undefined), [id, live]);
  useEffect(() => {
    if (summary) document.title = `${brief(summary.name || summary.command[0] || "", 60)} – heft`;
  }, [summary]);
  if (!summary) return <div class="start">{answer.loading ? <p role="status">Loading …</p> : <Empty title="No answer">{answer.words}</Empty>}</div>;
  return <>
    <a class="skip" href="#view" onClick={(e) => { e.preventDefault(); document.getElementById("view")?.focus(); }}>To the view</a>
    <TopBar summary={summary} recordings={recordings.recordings} />
    <TimelineBand summary={summary} />
    <Main summary={summary} recordings={recordings} />
    <Help />
  </>;
}

// heft records threads always: where there are none, that is what there was.
function lackTitle(name: ViewName, summary: Summary): string {
  if (name === "memory") return "No breakdown of resident memory";
  return name === "threads" && summary.format === "heft" ? "No threads here" : isFile() && summary.pruned?.length ? "Not in this file" : "Not recorded";
}

function Main({ summary, recordings }: { summary: Summary; recordings: Recordings }) {
  const name = state.value.view, view = VIEW[name];
  const lacking = view.has && !summary.has[view.has];
  const Shown = view.show;
  return <main>
    <nav class="rail" aria-label="Views"><ul>{VIEWS.map((v, i) => {
      if (v === "processes" ? summary.processes.length < 2 : v === "marks" && !summary.has.remarks) return null;
      const off = VIEW[v].has && !summary.has[VIEW[v].has];
      return <li key={v}><button aria-current={v === name ? "page" : undefined} class={off ? "lacking" : undefined}
        title={VIEW[v].question + (off ? " (not in this recording)" : "")} onClick={() => go({ view: v, sort: "" })}><kbd aria-hidden="true">{i < 10 ? (i + 1) % 10 : v === "marks" ? "M" : "P"}</kbd><span>{VIEW[v].words}</span></button></li>;
    })}</ul></nav>
    {/* Lifetimes has nothing in it to focus, and may be too high: the keyboard scrolls it. */}
    <section class={`view view-${name}`} id="view" tabIndex={name === "lifetimes" ? 0 : -1} aria-label={`${view.words}: ${view.question}`}>
      <Pinned summary={summary} />
      {lacking ? <Empty title={lackTitle(name, summary)}>{view.lacks?.(summary)}</Empty> : <Shown summary={summary} recordings={recordings} />}
    </section>
    {name !== "flame" && <Inspector summary={summary} />}
  </main>;
}

async function start() {
  startTheme();
  const page = document.getElementById("page")!;
  try {
    await readEmbedded();
  } catch {
    page.textContent = "The data in this file is damaged. Write it again with: heft export -f html";
    return;
  }
  listenToKeys(() => current);
  page.textContent = "";
  render(<App />, page);
}
void start();
