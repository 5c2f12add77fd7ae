// What the server answers (src/pages/routes_view.c and the files beside it), one
// interface a document. Both sides are held to it by tests/browser. Times are
// nanoseconds since the start of the recording, sizes bytes; numbers stay below 2^53.
//
// A one-file report (heft export -f html) holds the same documents under the same
// addresses; what it does not hold, it says it lacks. In the built page (build/web/heft.html) the
// comment <!--heft-data--> marks where its
// <script type="application/json" id="heft-data">BASE64 OF GZIP OF {"ADDRESS": DOCUMENT, ...}</script>
// goes. An address there is what the page would ask: path, then the query parameters in the order
// in which this file names them (Selection's first), percent-encoded as encodeURIComponent does,
// without those that have their default value: "/api/recordings", "/api/r/1/summary",
// "/api/r/1/timeline", "/api/r/1/tree", "/api/r/1/tree?at=end", "/api/r/1/tree?mode=allocated",
// "/api/r/1/sites?at=end", "/api/r/1/site?site=7", "/api/r/1/lifetimes", "/api/r/1/threads".
// Mode churn has counts only: its metric never stands in an address ("/api/r/1/tree?mode=churn").
// A file holds tree, sites and functions of these five: live at the peak, at=end, mode=allocated,
// mode=allocated&metric=count, mode=churn; besides them sizes, lifetimes, threads, ledger, files, and
// with --source source?file=...
// Of several processes it holds for the greatest summary, timeline, threads, ledger, tree and sites with process=N,
// the last two also with at=end.
// A file inverts a tree by itself where it has no document with invert=1.
//
// The token of the page's own address (?token=T) goes with every request as "Authorization: Bearer T",
// and as the parameter `token` where no header can be set (events, export).

// Which part of a recording a document is about. Every GET below with `Selection`
// takes these as query parameters, all optional.
export interface Selection {
  mode?: Mode; // default "live"
  at?: "peak" | "end" | number; // of mode live; default "peak"
  from?: number; // of the others; default 0
  to?: number; // default: the end
  metric?: "bytes" | "count"; // default "bytes"
  process?: number; // one of Summary.processes, by its number
  program?: string; // all processes of this program
  pid?: number; // all programs that a process was, one after the other
  thread?: string;
  focus?: string; // extended regular expression over function, file, module: keep these stacks
  ignore?: string;
  within?: number; // of mode churn: freed within so many ns (rounded up to a power of two), default 1 ms
}
// live: live at the instant. grew: what a call stack has live at the window's end beyond what it had
// at its start (never below 0). allocated: allocated inside the window. churn: freed inside it, soon
// after its birth (counts only).
export type Mode = "live" | "grew" | "allocated" | "churn";

// GET /api/recordings: what is open here.
export interface Recordings {
  heft: string; // version
  recordings: RecordingEntry[];
}
export interface RecordingEntry {
  id: string; // "1", "2" ...: stands in the addresses below
  name: string; // file name, or "pid 123"
  format: string; // "heft", "pprof", ...
  live: boolean; // grows: GET /api/r/ID/events tells when
}

// GET /api/r/ID/summary?process=N or ?program=NAME: of these; findings are then those about their sites.
export interface Summary {
  id: string;
  name: string;
  command: string[];
  pid: number;
  format: string;
  mode: "exact" | "sample";
  rateBytes: number;
  start: string; // ISO, "" if not known
  durationNs: number;
  startNs: number; // of the chosen process, else 0
  endNs: number; // likewise, else durationNs
  end: string; // "exit" | "signal" | "detached" | "running" | ...
  endWords: string; // "exit status 0", "killed by signal 9 (out of memory, limit 512 MiB)"
  complete: boolean;
  live: boolean;
  has: Has; // what the file tells: views of the rest show words instead
  totals: Totals;
  errors?: Partial<Totals>; // sampled: 95 % error of each
  quality: { level: "good" | "fair" | "poor"; words: string[] }; // badge; why
  notes: { warning: boolean; timeNs: number; text: string }[];
  findings: Finding[];
  processCount: number; // of operating-system processes: one that called exec is twice in the list
  threadWords: string; // "203 threads in 202 processes"
  processes: Process[]; // greatest peak first; without copies of a parent that only called exec
  threads: { pid: number; tid: number; name: string; allocations: number; allocatedBytes: number }[];
  pruned?: string[]; // one-file report: what was left out, in words
}
export interface Process {
  number: number; // in the recording
  pid: number;
  ppid: number;
  program: string;
  command: string[]; // as much as a table shows
  end: string;
  startNs: number;
  runNs: number;
  peakBytes: number;
  peakRssBytes: number; // 0: not known
  leftBytes: number; // not freed when it ended
  leftBlocks: number;
  allocatedBytes: number;
}
export interface Has {
  peak: boolean;
  live: boolean;
  allocated: boolean;
  times: boolean; // a timeline, windows, instants
  windows: boolean; // modes of any window can be asked for (false: peak, end, whole run only)
  lifetimes: boolean;
  heatmap: boolean;
  threads: boolean;
  matrix: boolean; // which thread freed a block
  sizes: boolean;
  temporary: boolean;
  ledger: boolean;
  source: boolean;
}
export interface Totals {
  allocations: number;
  reallocations: number;
  frees: number;
  allocatedBytes: number;
  peakBytes: number;
  peakBlocks: number;
  peakTimeNs: number;
  liveBytes: number;
  liveBlocks: number;
  leftBytes: number; // of several processes, or of chosen ones: when each ended; of one, live at the end
  leftBlocks: number;
  temporary: number;
  threads: number;
  dropped: number;
  peakRssBytes: number;
  peakRssTimeNs: number;
}
export interface Finding {
  kind: string;
  severity: "high" | "medium" | "low";
  bytes: number;
  summary: string;
  advice: string;
  site: number; // id, 0: none
  where: Place | null; // first user frame
  callers: string; // as SiteRow.callers, among findings
  evidence: { name: string; value: string | string[] | Part[] }[]; // values in words with units
  trend: number[]; // live bytes of its site over the run, up to 60 points; empty: not known
  explain: Partial<Selection> & { view: string }; // what shows the proof
}
export interface Part {
  function: string;
  where: string;
  bytes: number;
  share: number;
  site: number;
}
export interface Place {
  function: string;
  file: string; // "" if not known
  line: number;
  module: string; // without folders
}

// GET /api/r/ID/timeline?slots=N (at most so many points; default 400) and process or program as in
// Selection: then of these alone, from the start of the first to the end of the last.
export interface Timeline {
  fromNs: number;
  toNs: number;
  timesNs: number[]; // of the points, rising
  bytes: number[]; // live heap, everything
  leftBytes: number; // what processes left at their exits, each at its own: at no instant of the line
  rows: { site: number; place: Place; callers: string; bytes: number[]; leftBytes: number }[]; // the top 5 sites; the rest is the difference
  rss: { timeNs: number; bytes: number }[]; // thinned, its maximum kept; empty: not known
  events: number[]; // allocations, reallocations and frees a second up to each point; empty: not known
  marks: { timeNs: number; name: string }[];
  limitBytes: number; // memory limit; 0: not known or far away
}

// GET /api/r/ID/tree?Selection&processes=merged|each|none&invert=0|1&limit=N (default 20000)&root=PATH
// Where there are several processes they are the outermost frames: up to 20 one by one; of more, five or
// more of one program together (merged, the default).
// Nodes in an order where a parent stands before its children; siblings stand greatest first. Node 0
// is the root of everything. Calls of one function (in one module) under one caller are one node,
// whatever their lines; its frame shows the place of the greatest. Children of a node below the limit
// are one node with frame -1, named by `smaller`, after its other children.
// root=PATH: only what is below one node: "3.0.12" is the 13th child of the 1st child of the 4th child
// of node 0. Node 0 is then that node, with its frame.
export interface Tree {
  frames: Frame[];
  parent: number[]; // of node i; parent[0] = -1
  frame: number[]; // index into frames; -1: smaller ones together; of node 0: -1 (or that of root)
  total: number[]; // value with everything below
  self: number[];
  smaller: { node: number; count: number }[]; // how many stacks a node of frame -1 stands for
  other?: number[]; // second value for colour: mean lifetime ns (exact), by node; absent: not known
  unit: "bytes" | "count";
  sum: number;
  error95?: number; // of the sum, sampled
  prunedNodes: number;
}
export interface Frame {
  function: string;
  file: string;
  line: number;
  module: string;
  user: boolean; // the user's own code, not libc or a language's runtime
  inlined: boolean;
  process?: { number?: number; program?: string }; // no function, but a process (number) or several (program)
}

// GET /api/r/ID/sites?Selection&sort=peak|live|allocated|count|temporary|lifetime|value&n=N (200)&search=TEXT
export interface Sites {
  count: number; // all that match
  sum: number; // of the selection's value, all sites
  rows: SiteRow[];
}
export interface SiteRow {
  id: number;
  place: Place; // first user frame
  callers: string; // that tell it from rows whose place reads the same: "g", "... < main:12"; or ""
  via: string;
  value: number; // of the selection (mode and metric)
  error95?: number;
  peakBytes: number; // its part of the recording's peak, whatever is selected
  liveBytes: number;
  liveBlocks: number;
  leftBytes: number; // as Totals.leftBytes, whatever is selected
  leftBlocks: number;
  allocations: number;
  reallocations: number;
  allocatedBytes: number;
  temporary: number;
  p50Ns: number | null; // of mode live at an instant: of the whole run; null: no block was freed
  p99Ns: number | null;
  trend: number[]; // up to 60 points of live bytes; empty: not known
  freedBy: string; // "consumer() 98 %", "" if not known
}

// GET /api/r/ID/site?process=N&program=NAME&site=N (whole run; freedBy and handover of all processes)
export interface Site {
  row: SiteRow;
  stack: Frame[]; // innermost first
  firstUser: number; // index into stack
  timesNs: number[];
  bytes: number[]; // live over time; empty: not known
  lifetimes: number[]; // as Lifetimes.counts
  freedBy: { share: number; stack: Frame[] }[];
  handover: { from: string; to: string; frees: number }[]; // threads
}

// GET /api/r/ID/sandwich?Selection&function=NAME&module=NAME
// Callers: a tree whose root is the function and whose children are its callers. Callees likewise.
// Of a recursive function the outermost call counts, so that every byte counts once.
// &limit=N as for tree, of each of the two.
export interface Sandwich {
  callers: Tree;
  callees: Tree;
}

// GET /api/r/ID/functions?Selection&n=N&search=TEXT
export interface Functions {
  count: number;
  sum: number;
  rows: { frame: Frame; self: number; total: number }[];
}

// GET /api/r/ID/files?Selection: source files by value. GET /api/r/ID/source?Selection&file=PATH
// Only files that the recording names are ever read.
export interface Files {
  files: { file: string; total: number; self: number; readable: boolean }[];
}
export interface Source {
  file: string;
  words: string; // "" or why there is no text ("not on this machine"), or what to know of it ("newer than the program")
  lines: { line: number; text: string; self: number; total: number }[];
  sum: number;
}

// GET /api/r/ID/sizes?Selection
export interface Sizes {
  words: string; // "" or what to know
  rows: {
    low: number;
    high: number;
    allocations: number;
    allocatedBytes: number;
    slackBytes: number;
    peakBlocks: number;
    peakBytes: number;
    peakSlackBytes: number;
    liveBlocks: number;
    liveBytes: number; // at the instant; at the end as Totals.leftBytes
  }[];
}

// GET /api/r/ID/lifetimes?Selection (of mode live: of the whole run)
export interface Lifetimes {
  lowNs: number[]; // lower bound of each bucket: 0, 512, 1024, ...
  counts: number[]; // blocks freed or, at the end, still live (see liveAtEnd)
  liveAtEnd: number;
  // Birth time x lifetime: cells[b][l] blocks born in birth slot b with lifetime bucket l; null: not known
  heat: { birthNs: number[]; cells: number[][]; live: number[][] } | null;
}

// GET /api/r/ID/threads?process=N&program=NAME
export interface Threads {
  // What the file tells: of every allocation allocations and frees, of samples what is live and its 95 % error
  threads: { label: string; pid: number; tid: number; liveBytes?: number; liveBlocks?: number; bytesError95?: number; blocksError95?: number; allocations?: number; allocatedBytes?: number; frees?: number }[];
  // hand-overs: blocks allocated by `from` and freed by `to`
  cells: { from: number; to: number; frees: number; waitMeanNs: number }[]; // indices; -1: others
}

// GET /api/diff?a=ID&b=ID&metric=...&a.at=...&b.at=... (any Selection field with "a." or "b.")
export interface Diff {
  unit: "bytes" | "count";
  a: { name: string; sum: number };
  b: { name: string; sum: number };
  rows: { a: number; b: number; change: number; kind: "same" | "grown" | "shrunk" | "new" | "vanished" | "insignificant"; significant: boolean; place: Place; stack: Frame[] }[]; // largest change first, up to 500
  tree: Tree; // of b, `other` = change by node; vanished stacks are in it with total 0
  before: number[]; // value in a, by node of tree
}

// GET /api/r/ID/ledger?process=N&program=NAME: bands from requested bytes to RSS, when recorded.
export interface Ledger {
  words: string; // "" or how to record one
  rows: { name: string; bytes: number; words: string }[];
  rssBytes: number;
}

// GET /api/r/ID/export?format=pprof|folded|...&Selection: a file.
// GET /api/r/ID/events?token=T: server-sent events "change" {"durationNs": N} while a recording grows, "end".
