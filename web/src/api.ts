// What the server answers (src/pages/routes_view.c and the files beside it), one
// interface a document. Fields are spelt as in heft report --json. Both sides are held to it by tests/browser. Times are
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
// mode=allocated&metric=count, mode=churn; besides them sizes, lifetimes, threads, ledger, remarks, files, and
// with --source source?file=...
// Of several processes it holds for the greatest summary, timeline, threads, tree and sites with process=N,
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

// ---- Objects of the model, as heft report --json has them (src/model_json; docs/report.schema.json
// describes every field). What a file does not record is absent.

export interface Run {
  recorded_by: string;
  command: string[];
  pid: number;
  format: string;
  mode: "exact" | "sample";
  rate_bytes: number;
  start?: string; // ISO
  duration_ns?: number;
  end?: End;
  exit_status?: number | null;
  signal?: number | null;
  complete: boolean;
}
export type End = "exit" | "signal" | "detached" | "exec" | "running" | "unknown";
export interface Totals {
  peak_bytes?: number;
  peak_blocks?: number;
  peak_time_ns?: number;
  live_bytes?: number;
  live_blocks?: number;
  left_bytes?: number; // not freed when each process ended
  left_blocks?: number;
  allocated_bytes?: number;
  allocations?: number;
  reallocations?: number;
  frees?: number;
  temporary?: number;
  threads?: number;
  dropped?: number;
  peak_rss_bytes?: number | null; // null: the program ended before anybody looked
  // sampled: 95 % error of each
  peak_bytes_error95?: number;
  peak_blocks_error95?: number;
  allocations_error95?: number;
}
export interface Image {
  command: string[];
  name: string;
  exe: string;
  start_ns?: number;
  end_ns?: number;
  end?: End;
  exit_status?: number | null;
  signal?: number | null;
  totals: Totals; // without what needs a walk over all events (live_bytes, temporary)
}
export interface Thread {
  pid: number;
  tid: number;
  name: string;
  allocations?: number; // a recording of every allocation has these, samples what is live
  allocated_bytes?: number;
  reallocations?: number;
  frees?: number;
  live_bytes?: number;
  live_blocks?: number;
  live_bytes_error95?: number;
  live_blocks_error95?: number;
}
export interface Note {
  kind: "warning" | "info";
  time_ns: number;
  text: string;
  count: number;
  about?: string; // "profile-quality", "runtime", "resident-memory": what heft concludes; absent: the recorder wrote it
  advice?: string;
}
// The numbers that the page shows.
export interface SiteNumbers {
  via: string;
  peak_bytes?: number;
  live_bytes?: number;
  live_blocks?: number;
  left_bytes?: number;
  allocated_bytes?: number;
  allocations?: number;
  reallocations?: number;
  temporary?: number;
  lifetime_ns?: { mean: number; p50?: number; p99?: number; max?: number };
}
export interface Handover {
  site: number;
  from_tid: number; // 0 and "": others
  from_name: string;
  to_tid: number;
  to_name: string;
  frees: number;
}
export interface Size {
  low_bytes: number;
  high_bytes: number;
  allocations: number;
  allocated_bytes: number;
  slack_bytes: number;
  peak_blocks: number;
  peak_bytes: number;
  peak_slack_bytes: number;
  live_blocks: number;
  live_bytes: number;
}
export interface ModelFinding {
  kind: string;
  severity: "high" | "medium" | "low";
  bytes: number;
  summary: string;
  evidence: Record<string, EvidenceValue>; // names say their units
  site: number; // id, 0: none
  advice: string;
  severity_reason?: string;
  rule?: string; // what it looks for, in words; "" or absent: not recorded
  conditions?: Condition[];
}
// A condition of a finding's rule, which held.
export interface Condition {
  what: string;
  comparison: "at-least" | "at-most";
  unit: string; // "fact": yes or no, no limit
  measured_words: string;
  limit_words: string;
  silent_if: string; // what would have made the rule silent
  margin?: number; // how far beyond the limit: 1 at it
}
export type EvidenceValue = number | string | string[] | Part[];
export interface Part {
  function: string;
  where?: string;
  bytes: number;
  share: number;
  site?: number;
}
export interface Place {
  function: string;
  file: string; // "" if not known
  line: number;
  module: string; // without folders
}

// ---- Documents

// GET /api/r/ID/summary?process=N or ?program=NAME: of these; findings are then those about their sites.
export interface Summary extends Run {
  id: string;
  name: string;
  start_ns: number; // of the chosen process, else 0
  end_ns: number; // likewise, else duration_ns
  peak_rss_time_ns: number; // 0: not known
  end_bytes: number; // not freed in the end: of several processes, or of chosen ones, what each left; else what is live
  end_blocks: number;
  end_bytes_error95?: number; // sampled
  end_blocks_error95?: number;
  end_words: string; // "exit status 0", "killed by signal 9 (out of memory, limit 512 MiB)"
  live: boolean;
  has: Has; // what the file tells: views of the rest show words instead
  totals: Totals;
  quality: { level: "good" | "fair" | "poor"; words: string[] }; // badge; why
  notes: Note[];
  findings: Finding[];
  process_count: number; // of operating-system processes: one that called exec is twice in the list
  thread_words: string; // "203 threads in 202 processes"
  processes: Process[]; // greatest peak first; without copies of a parent that only called exec
  threads: Thread[];
  pruned?: string[]; // one-file report: what was left out, in words
}
export interface Process extends Image {
  number: number; // in the recording
  pid: number;
  ppid: number;
  program: string; // as Selection.program chooses it
  run_ns: number;
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
  ledger: boolean; // somebody looked where the resident memory was
  remarks: boolean; // the program said something (heft.h)
  source: boolean;
}
export interface Finding extends ModelFinding {
  where: Place | null; // first user frame
  callers: string; // as SiteRow.callers, among findings
  trend: number[]; // live bytes of its site over the run, up to 60 points; empty: not known
  explain: Partial<Selection> & { view: string }; // what shows the proof
}

// GET /api/r/ID/timeline?slots=N (at most so many points; default 400) and process or program as in
// Selection: then of these alone, from the start of the first to the end of the last.
export interface Timeline {
  from_ns: number;
  to_ns: number;
  times_ns: number[]; // of the points, rising
  bytes: number[]; // live heap, everything
  left_bytes: number; // what processes left at their exits, each at its own: at no instant of the line
  rows: { site: number; place: Place; callers: string; bytes: number[]; left_bytes: number }[]; // the top 5 sites; the rest is the difference
  rss: { time_ns: number; bytes: number }[]; // thinned, its maximum kept; empty: not known
  events: number[]; // allocations, reallocations and frees a second up to each point; empty: not known
  marks: { time_ns: number; name: string }[]; // of very many every n-th
  regions: { begin_ns: number; end_ns: number; name: string }[]; // up to 100, the longest first
  limit_bytes: number; // memory limit; 0: not known or far away
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
  pruned_nodes: number;
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
// Numbers are of the selection, but for the peak and end_bytes, which are of the whole run. Of mode
// live at an instant lifetimes are of the whole run; absent: no block was freed.
export interface SiteRow extends SiteNumbers {
  id: number;
  place: Place; // first user frame
  callers: string; // that tell it from rows whose place reads the same: "g", "... < main:12"; or ""
  called_by: string[]; // the nearest functions of the user's own code that call the place, up to 3
  value: number; // of the selection (mode and metric)
  error95?: number;
  end_bytes: number; // as in Summary, whatever is selected
  end_blocks: number;
  trend: number[]; // up to 60 points of live bytes, each the most of its part of the run, the last the end's; empty: not known
  freed_by: string; // "consumer() 98 %", "" if not known
}

// GET /api/r/ID/site?process=N&program=NAME&site=N (whole run; freed_by and handover of all processes)
export interface Site {
  row: SiteRow;
  stack: Frame[]; // innermost first
  first_user: number; // index into stack
  times_ns: number[];
  bytes: number[]; // live over time; empty: not known
  lifetime_log2?: number[]; // as Lifetimes.counts, without zeros at the end
  freed_by: { share: number; stack: Frame[] }[];
  handover: Handover[];
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
  rows: Size[]; // live: at the instant; at the end of several processes, what they left
}

// GET /api/r/ID/lifetimes?Selection (of mode live: of the whole run)
export interface Lifetimes {
  low_ns: number[]; // lower bound of each bucket: 0, 512, 1024, ...
  counts: number[]; // blocks freed or, at the end, still live (see live_at_end)
  live_at_end: number;
  // Birth time x lifetime: cells[b][l] blocks born in birth slot b with lifetime bucket l; null: not known
  heat: { birth_ns: number[]; cells: number[][]; live: number[][] } | null;
}

// GET /api/r/ID/threads?process=N&program=NAME
export interface Threads {
  threads: Thread[];
  // hand-overs: blocks allocated by `from` and freed by `to`
  cells: { from: number; to: number; frees: number; wait_mean_ns: number }[]; // indices; -1: others
}

// GET /api/r/ID/remarks?mode=allocated&from=NS&to=NS&process=N&program=NAME: what the program said, in the window or in all; each list
// is absent where it is empty. Of marks and regions the first 1000, and how many there are if these are more.
export interface Remarks {
  marks?: Mark[];
  mark_count?: number;
  regions?: Region[];
  region_count?: number;
  stages?: Stage[];
  program_events?: { name: string; count: number; weight: number; sites: ({ count: number; weight: number } & Said)[] }[];
  pools?: (PoolObjects & { name: string; pools: number; destroyed: number; sites: (PoolObjects & Said)[] })[];
}
export interface Mark { time_ns: number; name: string; pid: number; tid: number }
export interface Region { begin_ns: number; end_ns: number; name: string; scope: "process" | "thread"; open: boolean; inherited: boolean; pid: number; tid: number }
// from null: the allocation. to null: the block ended, or it is still_there.
export interface Stage { from: string | null; to: string | null; still_there: boolean; blocks: number; total_ns: number; mean_ns: number; p50_ns: number; p99_ns: number; max_ns: number }
export interface Said extends Place { caller: string } // who calls heft.h, and who calls that one
export interface PoolObjects { objects: number; bytes: number; given_back: number; left_objects: number; left_bytes: number; peak_objects: number; peak_bytes: number }

// GET /api/diff?a=ID&b=ID&metric=...&a.at=...&b.at=... (any Selection field with "a." or "b.")
export interface Diff {
  unit: "bytes" | "count";
  a: { name: string; sum: number };
  b: { name: string; sum: number };
  rows: { a: number; b: number; change: number; kind: "same" | "grown" | "shrunk" | "new" | "vanished" | "insignificant"; significant: boolean; place: Place; stack: Frame[] }[]; // largest change first, up to 500
  tree: Tree; // of b, `other` = change by node; vanished stacks are in it with total 0
  before: number[]; // value in a, by node of tree
}

// GET /api/r/ID/ledger?process=N&program=NAME: where resident memory was, each time that somebody looked, as
// heft map --json has it (docs/map.schema.json). Of very many ledgers every n-th and the largest; of very many lines
// the largest, and the others of a kind as one ("12 more"): the lines of a ledger always sum to its rss_bytes.
export interface Ledgers {
  sections: { title: string; kinds: { kind: string; title: string }[] }[]; // the groups that heft map prints, in its order
  ledgers: Ledger[]; // in order of time
  left_out: number;
}
export interface Ledger {
  pid: number;
  process?: number; // by its number
  moment: "peak" | "exit" | "request" | "interval";
  words: string; // "near the peak of its heap"
  time_ns: number;
  share_of_peak: number;
  rss_bytes: number;
  peak_rss_bytes: number;
  private_bytes: number;
  shared_bytes: number;
  swapped_bytes: number;
  virtual_bytes: number;
  reserved_bytes: number;
  page_table_bytes: number;
  huge_bytes: number;
  hugetlb_bytes: number;
  pause_ns: number;
  note?: string;
  lines: LedgerLine[];
}
export interface LedgerLine {
  kind: string;
  name: string;
  words: string; // as heft map prints it, and who has mapped it: "libc.so.6, shared"
  maker?: string; // who has mapped it: "pool_grow (arena.cc:12)"
  resident_bytes: number;
  private_bytes: number;
  shared_bytes: number;
  swapped_bytes: number;
  virtual_bytes: number;
  blocks?: number;
}

// GET /api/r/ID/export?format=pprof|folded|...&Selection: a file.
// GET /api/r/ID/events?token=T: server-sent events "change" {"duration_ns": N} while a recording grows, "end".
