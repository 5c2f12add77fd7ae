/* The model in the middle: call sites with their measures, threads, processes
 * and totals of one recording, whatever format it came from. Importers fill it,
 * reports and exporters read it.
 *
 * Stacks are a tree: a node is a frame under the node of its caller, and a site names
 * its innermost node. Two stacks that read the same (function, file, line and module of
 * every frame) are the same node: building the tree merges them. A merged frame stands
 * for several addresses and keeps one. Formats that write addresses ask for stacks that
 * are not merged (chosen.apart), or take them from one recorded stack of the site
 * (stacks.calls).
 *
 * Strings belong to the profile. Ids are indices; PROFILE_NONE is none. */
#ifndef HEFT_PROFILE_PROFILE_H
#define HEFT_PROFILE_PROFILE_H

#include "base/own_functions.h"
#include "hosted/end_words.h"
#include "hosted/error.h"
#include "hosted/name_pool.h"
#include "profile/profile_look.h"
#include "profile/profile_remarks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_NONE UINT32_MAX

struct profile_module {
	const char *path;
	const uint8_t *build_id;
	uint32_t build_id_len;
	bool runtime;  /* libc, an allocator or a language's runtime library (user_frame.h) */
	bool no_debug; /* looked for debug information (files and lines), found none */
	bool go;       /* ... and it is a Go program */
	/* What is missing of its debug information: "FILE is missing" or the like; or NULL. */
	const char *debug_lacking;
};

struct profile_frame {
	const char *function; /* never NULL: where nothing is known, "module+0x12" */
	const char *file;     /* NULL: not known */
	uint32_t line;        /* 0: not known */
	uint32_t module;      /* PROFILE_NONE: not known */
	/* As in the module's file, within the call. A merged frame has the address of the first one, so
	 * frames of one stack may have addresses of different stacks; not so with chosen.apart. */
	uint64_t address;
	uint64_t code_bytes; /* the size of a function without a name; 0: not known */
	bool inlined;        /* into its caller */
	bool user;    /* outside allocator, libc, language runtime and wrappers around malloc */
	bool wrapper; /* not user because of what it does (wrapper_frames.h), not by a rule */
	bool plumbing; /* not user, but a library that may stand for stacks without the user's code */
	bool kept;     /* user because a rule says so, whatever it does */
	uint8_t allocates; /* importers': 0 not looked at, 1 no allocation function, else 2 + via */
};

enum profile_node_flag {
	PROFILE_GUESSED = 1,   /* found without unwind tables: may be wrong */
	PROFILE_TRUNCATED = 2, /* callers are missing */
	PROFILE_LOST = 4,      /* callees are missing: another node than one with all of them */
};

struct profile_node {
	uint32_t parent; /* the caller, always a smaller index; PROFILE_NONE: outermost */
	uint32_t frame;
	uint32_t flags;
	uint32_t user; /* profile_first_user_node's answer + 1; 0: not worked out yet */
	/* Where the innermost frame of an instruction calls, in the first stack merged; 0: not known. It
	 * distinguishes places of functions without lines; stacks.calls has what is to be shown. */
	uint64_t address;
};

/* A return address of a stack as it was recorded. It stands for the frames from `node` up to its
 * caller's node: a function and what was inlined into it. */
struct profile_call {
	uint32_t caller;  /* in the profile's calls, a smaller index; PROFILE_NONE: outermost */
	uint32_t node;    /* the innermost of its frames */
	uint64_t address; /* as in the module's file, within the call */
};

/* The allocation function called */
enum profile_via {
	PROFILE_VIA_MALLOC,
	PROFILE_VIA_CALLOC,
	PROFILE_VIA_REALLOC,
	PROFILE_VIA_POSIX_MEMALIGN,
	PROFILE_VIA_ALIGNED_ALLOC,
	PROFILE_VIA_MEMALIGN,
	PROFILE_VIA_VALLOC,
	PROFILE_VIA_PVALLOC,
	PROFILE_VIA_REALLOCARRAY,
	PROFILE_VIA_NEW,
	PROFILE_VIA_NEW_ARRAY,
	PROFILE_VIA_FREE, /* no site has it */
	PROFILE_VIA_OWN,  /* from here on: HEFT_OWN_ALLOCATING, in that order */
	/* From here on: calls that map memory (enum trace_map_call). Only with PROFILE_HAS_MAPPED */
	PROFILE_VIA_MAPS = PROFILE_VIA_OWN + HEFT_OWN_VIA_COUNT,
	PROFILE_VIA_COUNT = PROFILE_VIA_MAPS + 7,
	PROFILE_VIA_UNKNOWN = PROFILE_VIA_COUNT /* the format does not say */
};
const char *profile_via_name(uint32_t via);

struct profile_lifetime {
	uint64_t mean_ns, p50_ns, p99_ns, max_ns; /* until they are freed or the end comes */
};

/* Lifetime histogram: bucket 0 is under 512 ns, bucket i holds [2^(i+8), 2^(i+9)) ns, the last one
 * everything above. */
enum { PROFILE_LIFE_BUCKETS = 40 };

/* fields: a row of the table of sites; each measure is a column of it. */
struct profile_site {
	uint32_t id;    /* from 1, by peak contribution; people and findings use it. A part
			(stacks.lender) has the whole's ids */
	uint32_t added; /* its index before the sites were put in order */
	uint32_t node;  /* innermost; PROFILE_NONE: stack unknown */
	uint32_t via;
	uint32_t labels; /* in label_sets, or PROFILE_NONE: other labels are another site */
	uint32_t merged; /* how many call stacks of the recording it stands for */
	uint32_t call;   /* the innermost one of the largest of those; PROFILE_NONE: not kept */
	uint64_t allocations, reallocations, frees;
	uint64_t allocated_bytes, reallocated_bytes;
	uint64_t peak_bytes, peak_blocks;
	uint64_t own_peak_bytes; /* exact if merged == 1, else an upper bound */
	uint64_t live_bytes, live_blocks, live_slack_bytes; /* when the recording ended */
	uint64_t left_bytes, left_blocks;   /* when its process ended, or the recording before */
	uint64_t peak_slack_bytes;          /* usable - requested of what was live at the peak */
	uint64_t start_bytes, start_blocks; /* live when the selected window began; 0 without one */
	uint64_t temporary, cross_thread_frees;
	uint64_t mapped_bytes, mapped_pieces; /* when most was mapped in all; PROFILE_HAS_MAPPED */
	uint64_t mapped_left_bytes;           /* still mapped when its process ended */
	struct profile_lifetime lifetime;
	struct profile_look look;
	uint32_t handover, waits, growth; /* indices into the profile's arrays, or PROFILE_NONE */
	uint32_t history; /* row of the profile's history, or PROFILE_NONE: never large */
	uint32_t release_first, release_count; /* in the profile's releases, most frequent first */
};

/* ---- behaviour: what the recorder saw blocks do. It is of the whole recording, whatever is selected;
 * formats without it have counts of 0. */

/* Sums over frees, for a straight line of wait over birth: births in us since first_birth_ns, waits in us */
struct profile_wait_line {
	double n, x, y, xx, xy, yy;
};

/* Blocks of a site that were freed: by another thread than their own (`handovers`), or by any (`waits`: all
 * but temporaries, and of large sites only). Times are of those blocks. */
struct profile_handover {
	uint32_t site;
	uint64_t frees, bytes;
	uint64_t in_order; /* frees that did not overtake an earlier born block: first in, first
				    out. (A step back of less than 1/8 of the wait counts as order.) */
	uint64_t backlog_blocks; /* most of the site's blocks that were live at such a free */
	uint64_t backlog_bytes, backlog_time_ns; /* at that moment, and when */
	uint64_t first_birth_ns, last_birth_ns, first_free_ns, last_free_ns;
	double wait_mean_ns; /* lifetime */
	double wait_slope; /* of lifetime over birth time, by least squares: 1.0 means that a block
				 born 1 s later lives 1 s longer */
	double wait_fit;   /* r squared of that line, 0 to 1 */
	struct profile_wait_line line;
	/* In handover_threads or wait_threads, most frequent first. */
	uint32_t threads_first, threads_count;
};
/* Adds from's frees to to, which may be empty: first_birth_ns and first_free_ns UINT64_MAX, else 0. The sum of
 * two backlogs is an upper bound: they need not have been greatest at one moment. Threads are not added. */
void profile_waits_add(struct profile_handover *to, const struct profile_handover *from);

struct profile_handover_threads {
	uint32_t from, to; /* profile threads: allocated, freed; PROFILE_NONE: others, together */
	uint64_t frees;
};

/* Who frees blocks of a site. The recorder takes the call stacks of every thread's first frees and of
 * a random few after them, so the counts are shares, not totals. */
struct profile_release {
	uint32_t site;
	uint32_t node; /* innermost frame of the freeing stack: the caller of free */
	uint64_t samples;
};

/* Blocks that were resized by a realloc at this site. */
struct profile_growth {
	uint32_t site;
	uint64_t steps;        /* reallocations here that grew a block */
	uint64_t moved_steps;  /* those that moved it to another address */
	uint64_t copied_bytes; /* old contents that were copied; not where the kernel moved pages */
	uint64_t blocks;       /* that ended (or were live at the end) with a size given here */
	uint64_t final_bytes;  /* theirs */
	uint64_t largest_bytes; /* the largest of them */
	/* Those whose contents were read: the large ones, and one in 64 of the small ones */
	uint64_t measured_blocks, measured_bytes;
	uint64_t unused_bytes; /* the part of measured_bytes that is zeros at blocks' ends */
};

/* Live bytes over time, of everything and of the sites that were ever large (a thousandth of the
 * peak). Slot i is the state at start_ns + (i + 1) * slot_ns. */
struct profile_history_row {
	uint32_t site;
	uint32_t first;           /* slots before this one are 0: the site was not large then */
	uint64_t *bytes, *blocks; /* slot_count of each */
};

struct profile_history {
	uint64_t start_ns; /* 0, or when the first of the chosen processes began */
	uint64_t slot_ns;
	uint32_t slot_count;
	uint64_t *bytes, *blocks; /* of all sites */
	/* Allocations, reallocations and frees so far: how far the program had come. NULL: not known. */
	uint64_t *events;
	struct profile_history_row *rows;
	uint32_t row_count;
};

/* One of the first blocks made at a site. Only if the profile is judged, of one process, for large sites
 * (trace_firsts.c). */
struct profile_first {
	uint32_t site, thread; /* the recording's number of the thread */
	uint64_t order;        /* among all allocations of the program */
	uint64_t size;
};

/* Allocations by size: exact requested sizes up to 1024, then eight classes for each power of two.
 * Only if asked for (profile_selection.sizes). */
struct profile_size {
	uint64_t low_bytes, high_bytes;        /* requested, inclusive */
	uint64_t allocations, allocated_bytes; /* blocks made or resized to this; their bytes */
	uint64_t slack_bytes;                  /* usable - requested, of these */
	uint64_t peak_blocks, peak_bytes, peak_slack_bytes; /* live at the peak */
	uint64_t live_blocks, live_bytes;                   /* live at the end */
	uint64_t left_blocks, left_bytes; /* when its process ended, or the recording before */
};

/* Resident memory of all processes together, from then on. */
struct profile_rss {
	uint64_t time_ns, bytes;
};

struct profile_totals {
	uint64_t allocations, reallocations, frees;
	uint64_t allocated_bytes, reallocated_bytes;
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	uint64_t live_bytes, live_blocks, live_slack_bytes; /* when the recording ended */
	uint64_t left_bytes, left_blocks; /* sum of what each process had not freed at its end */
	uint64_t peak_slack_bytes;
	uint64_t start_bytes, start_blocks; /* live when the selected window began */
	uint64_t temporary, threads, dropped, peak_rss_bytes, unknown_frees;
	uint64_t older_frees;          /* frees of blocks from before heft was attached */
	uint64_t peak_anonymous_bytes; /* resident memory that is no file's; 0: not known */
	uint64_t mapped_bytes, mapped_pieces, mapped_left_bytes; /* as of sites */
	struct profile_look look;
	struct profile_resident resident;
};

/* How certain the numbers of a sampled profile are: the true one lies within plus or minus this with
 * a probability of 95 %. */
struct profile_errors {
	uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks, allocated_bytes, allocations;
	uint64_t left_bytes, left_blocks;
};

/* What they come from: variances of the estimates, and how many samples those are made of. */
struct profile_spread {
	double live_bytes, live_blocks, peak_bytes, peak_blocks, allocated_bytes, allocations;
	double left_bytes, left_blocks;
	uint64_t samples; /* ever */
	uint64_t live_samples, peak_samples, left_samples;
};

/* When a sampled block that is live (now, or at the peak of its process) was made. */
struct profile_birth {
	uint32_t site, process;
	uint64_t age_ns;
	double at; /* when in the life of its process up to that moment: 0 to 1 */
	/* The same by how far the process had come (what it had allocated); `at` if that is not known. */
	double progress;
	double bytes; /* that it stands for */
	double variance;
};

/* By site, then oldest first. */
struct profile_births {
	struct profile_birth *list;
	uint32_t count;
};

/* Ages of what is live, weighted by bytes. */
struct profile_age {
	uint32_t first, count; /* in the profile's live_births; none: all 0 */
	uint64_t min_ns, p50_ns, p99_ns, max_ns;
	double old_share; /* of the bytes: made in the first half of their process's life */
};

enum profile_end {
	PROFILE_END_RUNNING,
	PROFILE_END_EXIT,
	PROFILE_END_SIGNAL,
	PROFILE_END_DETACHED, /* the recording ended before the process */
	PROFILE_END_EXEC,     /* of a process: became another program */
	PROFILE_END_UNKNOWN,  /* ended; with what status is not known */
};

/* One program image: an exec begins another with the same pid */
struct profile_process {
	int32_t pid, ppid;
	uint32_t number; /* in the file; of a part it is the whole's */
	const char *exe;
	const char **argv;
	uint32_t argc;
	uint64_t start_ns, end_ns;
	enum profile_end end;
	int32_t exit_status, signal;
	bool begins_after; /* the window that is selected */
	bool is_outside;   /* it began after the window or ended before it: it does not count */
	struct profile_totals totals; /* complete only with chosen.process_totals */
	struct profile_errors errors; /* in a sampled profile */
	/* Sampled: how much of all that it allocated it had allocated at its peak; 0: not known. */
	double peak_progress;
};

struct profile_thread {
	int32_t pid, tid;
	const char *name;
	uint32_t process;
	uint64_t allocations, allocated_bytes, reallocations, frees;
	uint64_t live_bytes, live_blocks; /* exact recordings have these by site only */
	struct profile_errors errors;     /* of these, in a sampled profile */
};

/* What a foreign profile (pprof) says about the samples of a site beyond their stack: text, or a
 * number with a unit. */
struct profile_label {
	const char *key;
	const char *text; /* NULL: a number */
	int64_t number;
	const char *unit; /* of the number; NULL: none given */
};

struct profile_label_set {
	const char *words;    /* all of it, as "tenant=a, size=32 bytes" */
	const char *identity; /* equal sets, and only they, have the same one */
	const struct profile_label *labels;
	uint32_t count;
};

enum profile_note_kind {
	PROFILE_NOTE_WARNING, /* numbers are incomplete or may mislead: shown prominently */
	PROFILE_NOTE_INFO,
};

struct profile_note {
	enum profile_note_kind kind;
	uint64_t time_ns;
	const char *text;
	uint32_t count; /* how many that said the same it stands for; the text says it too */
};

/* What the file has that a profile came from. Reports and exporters leave out other numbers. */
enum profile_has {
	PROFILE_HAS_PEAK = 1,       /* peak_bytes, peak_blocks of sites and totals */
	PROFILE_HAS_LIVE = 2,       /* live_bytes, live_blocks, left_bytes, left_blocks */
	PROFILE_HAS_ALLOCATED = 4,  /* allocations, allocated_bytes */
	PROFILE_HAS_FREES = 8,      /* frees; and reallocations apart from allocations */
	PROFILE_HAS_TIMES = 16,     /* duration, time of the peak */
	PROFILE_HAS_THREADS = 32,   /* threads */
	PROFILE_HAS_LIFETIMES = 64, /* lifetime, lifetimes */
	PROFILE_HAS_TEMPORARY = 128,
	PROFILE_HAS_USABLE = 256,         /* slack: usable sizes are known */
	PROFILE_HAS_CROSS_FREES = 512,    /* cross_thread_frees */
	PROFILE_HAS_MEAN_LIFETIME = 1024, /* lifetime.mean_ns */
	PROFILE_HAS_OWN_PEAK = 2048,      /* own_peak_bytes */
	PROFILE_HAS_ALL = 4095,
	/* What looks at heaps told (--leaks) */
	PROFILE_HAS_REACHABLE = 8192, /* look.unreachable, .indirect, .held */
	PROFILE_HAS_TOUCHED = 16384,  /* look.untouched */
	PROFILE_HAS_EQUAL = 32768,    /* look.duplicate, .zero */
	PROFILE_HAS_PINNED = 65536,   /* look.pinned */
	PROFILE_HAS_MAPPED = 131072,  /* mapped_bytes and kin; if asked for (profile_selection) */
	PROFILE_HAS_LEDGER = 262144,  /* resident */
	/* The other way round, since hardly any file lacks them: how many blocks live and peak bytes are */
	PROFILE_LACKS_BLOCKS = 4096,
};

/* One process of several: a part of the profile with its own numbers, behaviour and times, which begin
 * with it. */
struct profile_judged {
	struct profile *p;
	uint32_t process; /* of the whole's */
};

struct profile_index; /* the hash tables behind profile_add_* */

/* What is known of the run that was recorded, and of the file. */
struct profile_run {
	const char *format;       /* "heft", "jemalloc", "pprof" ...: what it was read from */
	const char *heft_version; /* that made it */
	uint32_t has;             /* enum profile_has */
	uint64_t rate_bytes; /* sampled: one sample each that many bytes on average; 0: exact */
	const char **argv;
	uint32_t argc;
	int32_t pid;
	int64_t start_unix_ns;
	uint64_t duration_ns;
	enum profile_end end;
	int32_t exit_status, signal;
	bool attached;        /* heft came while it ran: older blocks are not in the profile, */
	bool older_listed;    /* or are a site of their own */
	const char *way;      /* "preload" or "entry": how heft got into it; NULL: not known */
	bool oom_killed;      /* by the kernel, for lack of memory */
	bool limit_is_cgroup; /* the limit is its cgroup's, not all of the machine's memory */
	uint64_t memory_limit_bytes; /* what the program may use; 0: not known */
	bool complete;               /* false: cut, or still being written */
	uint64_t cut_offset;         /* if not complete: where the last readable part ends */
	uint64_t file_bytes, events;
	struct profile_rss *rss; /* in the order of time */
	uint32_t rss_count;
	bool rss_was_seen; /* peak_rss_bytes is the greatest of these, not the kernel's maximum */
};

/* Which part of the recording this is, and in which form. */
struct profile_chosen {
	const char *words;       /* "pid 12"; NULL: everything */
	uint64_t from_ns, to_ns; /* 0 and the run's duration without a window */
	bool process_totals;     /* processes have all their totals */
	bool by_process; /* a site is of one group of processes; its label "process" names it */
	bool apart;      /* frames of different addresses are different: no stacks are merged */
	bool keep_calls; /* fill stacks.calls */
	uint32_t sites_left_out; /* summaries only: small sites that were not symbolised */
};

struct profile_stacks {
	struct profile_module *modules;
	struct profile_frame *frames;
	struct profile_node *nodes;
	struct profile_call *calls;
	uint32_t module_count, frame_count, node_count;
	uint32_t call_count;          /* 0: not kept */
	const struct profile *lender; /* modules, frames and nodes are its own, not ours; or NULL */
};

/* What blocks did: the lists behind the indices of a site. */
struct profile_behaviour {
	uint32_t (*lifetimes)[PROFILE_LIFE_BUCKETS]; /* by site; NULL: not known */
	struct profile_handover *handovers, *waits;
	struct profile_handover_threads *handover_threads, *wait_threads;
	struct profile_release *releases;
	struct profile_growth *growths;
	uint32_t handover_count, handover_threads_count, release_count, growth_count;
	uint32_t wait_count, wait_threads_count;
	struct profile_history history;
	struct profile_size *sizes;
	uint32_t size_count;
	struct profile_first *firsts; /* by site, then by order */
	uint32_t first_count;
};

/* How certain a sampled profile is; all NULL or 0 in an exact one. */
struct profile_estimates {
	struct profile_errors *errors; /* by site */
	struct profile_errors total_errors;
	struct profile_spread *spreads; /* by site, whenever there are errors */
	struct profile_spread total_spread;
	struct profile_births live_births, peak_births;
	struct profile_age *ages; /* by site; NULL: not known */
};

/* Indices by the recording's own; only with profile_selection.keep or .part_of. */
struct profile_recorded {
	uint32_t *nodes, *sites; /* PROFILE_NONE: not in the profile */
	uint32_t site_count;
};

struct ledger;
struct profile {
	struct name_pool *names;
	struct profile_index *index;
	struct profile_run run;
	struct profile_chosen chosen;
	struct profile_stacks stacks;
	struct profile_site *sites; /* by peak contribution */
	uint32_t site_count;
	struct profile_label_set *label_sets;
	uint32_t label_set_count;
	struct profile_thread *threads;
	uint32_t thread_count;
	struct profile_process *processes;
	uint32_t process_count;
	struct profile_totals totals;
	struct profile_behaviour behaviour;
	struct profile_estimates estimates;
	struct profile_heap heap;
	struct profile_remarks remarks;
	struct profile_note *notes;
	uint32_t note_count;
	struct ledger *ledgers; /* of the processes here, in order of time */
	uint32_t ledger_count;
	const char *unseen; /* a note that most of its memory is not recorded, or NULL */
	/* The processes that findings look at, in an exact recording of several (trace_judge.c). */
	struct profile_judged *judged;
	uint32_t judged_count;
	struct profile_recorded recorded;
};

struct profile *profile_new(void); /* NULL: no memory */
void profile_free(struct profile *p);

/* Building. Ids are returned through *id; 0 or HEFT_ENOMEM. */
int profile_add_module(struct profile *p, const char *path, const uint8_t *build_id,
		       uint32_t length, uint32_t *id);
/* The first module of this path, which is in p->names, and with this build id (length 0: any). */
bool profile_find_module(const struct profile *p, const char *path, const uint8_t *build_id,
			 uint32_t length, uint32_t *id);
/* The strings must be in p->names. Finds or makes the frame; `user` is decided here. */
int profile_add_frame(struct profile *p, const struct profile_frame *frame, uint32_t *id);
/* Finds or makes the node; flags are added to those it has. */
int profile_add_node(struct profile *p, uint32_t parent, uint32_t frame, uint32_t flags,
		     uint32_t *id);
/* Adds a call, if they are kept; else *id becomes PROFILE_NONE. */
int profile_add_call(struct profile *p, uint32_t caller, uint32_t node, uint64_t address,
		     uint32_t *id);
/* Takes back the nodes from `first` on, which nothing may refer to. */
void profile_forget_nodes(struct profile *p, uint32_t first);
/* Makes space for this many more nodes at once, so that the tables need not grow in steps. */
int profile_expect_nodes(struct profile *p, uint32_t count);
/* Finds or makes the site of (node, via) and gives its index. */
int profile_add_site(struct profile *p, uint32_t node, uint32_t via, uint32_t *id);
/* The same for a stack with labels (PROFILE_NONE: without). */
int profile_add_labelled_site(struct profile *p, uint32_t node, uint32_t via, uint32_t labels,
			      uint32_t *id);
/* Finds or makes the set; strings must be in p->names, the array is copied. Sorts the labels. */
int profile_add_label_set(struct profile *p, struct profile_label *labels, uint32_t count,
			  uint32_t *id);
/* Merges sites that differ in their labels only, for formats without labels. Call it before anything
 * refers to sites. */
void profile_drop_labels(struct profile *p);
int profile_add_process(struct profile *p, const struct profile_process *process, uint32_t *id);
int profile_add_thread(struct profile *p, const struct profile_thread *thread);
int profile_add_note(struct profile *p, enum profile_note_kind kind, uint64_t time_ns,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
const char **profile_copy_strings(struct profile *p, char *const *strings, uint32_t count);
/* Orders the sites by peak contribution (by live bytes where no peak is known) and numbers them.
 * Call once, after the last one. */
void profile_finish_sites(struct profile *p);

/* Sets the sites' handover, waits, growth, history and releases from the entries, which name their sites. The
 * releases of a site must stand together. */
void profile_link_behaviour(struct profile *p);
/* After sites were dropped or moved: to[old index] is the new one, or PROFILE_NONE: its entries go. */
void profile_sites_moved(struct profile *p, const uint32_t *to);

/* Sets the errors of sites and totals from their spreads, once the numbers are there. */
void profile_compute_errors(struct profile *p);

/* Selecting (profile_select.c). */
/* Whether there were several processes. Then "live at the end" is of the last ones alone, and people
 * mostly mean what each had left at its exit. A process that called exec is one. */
bool profile_is_of_several(const struct profile *p);
enum profile_moment { PROFILE_AT_END, PROFILE_AT_PEAK, PROFILE_AT_EXIT };
/* Sets what is live to what was live at the peak, or to what processes had left at their exits, in
 * sites, totals and errors. HEFT_EREFUSED: the file does not have it. */
int profile_select_moment(struct profile *p, enum profile_moment moment, struct heft_error *err);
/* The same for any instant: sets what is live to what is live in `instant`, a part of p
 * (profile_selection.part_of). Everything else stays the run's. */
void profile_take_live(struct profile *p, const struct profile *instant);
/* Whether the file shows one moment, not a run: what is live is live then, not at an end. */
bool profile_is_snapshot(const struct profile *p);
/* Keeps only sites with a frame that matches `focus` and none that matches `ignore` (POSIX extended
 * expressions over function, file and module; either may be NULL). Totals become those of the
 * sites that are left. */
int profile_filter(struct profile *p, const char *focus, const char *ignore,
		   struct heft_error *err);
/* By node: whether its frame or one of its callers' matches. NULL: no memory; free() it. */
typedef bool profile_frame_test(const struct profile *p, const struct profile_frame *f,
				const void *ctx);
bool *profile_match_nodes(const struct profile *p, profile_frame_test *matches, const void *ctx);

/* The label of sites that are apart by process (chosen.by_process): "echo (200 processes)". A second
 * one is "number" for a single process or "program" for several. */
#define PROFILE_LABEL_PROCESS "process"
const struct profile_label *profile_find_label(const struct profile_label_set *set,
					       const char *key); /* or NULL */

/* Reading. */
static inline const struct profile_frame *profile_node_frame(const struct profile *p, uint32_t node)
{
	return &p->stacks.frames[p->stacks.nodes[node].frame];
}
struct how_ended profile_how_ended(const struct profile *p); /* the recorded command */
const char *profile_module_name(const struct profile *p, uint32_t module); /* without folders */
/* The innermost user frame of a stack. Without one: its innermost plumbing, or its outermost wrapper, or else its innermost
 * frame; PROFILE_NONE without a stack. */
uint32_t profile_first_user_node(const struct profile *p, uint32_t node);
/* Works it out for all nodes at once. To be called whenever it was decided which frames are the user's. */
void profile_find_user_nodes(struct profile *p);
/* The address of a frame on the recorded stack of a site, and whether it is inlined there. Begin with the site's node and
 * call, then go from caller to caller: *call moves along. */
uint64_t profile_frame_address(const struct profile *p, uint32_t node, uint32_t *call,
			       bool *inlined);

#endif
