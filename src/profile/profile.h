/* The model in the middle: call sites with their measures, threads, processes
 * and totals of one recording, whatever format it came from. Importers fill it,
 * reports and exporters read it.
 *
 * Stacks are a tree: a node is a frame under the node of its caller, so a site
 * is its innermost node. Two stacks that read the same (function, file, line and
 * module of every frame) are the same node: merging happens as the tree is built.
 *
 * Strings belong to the profile. Ids are indices; PROFILE_NONE is none. */
#ifndef HEFT_PROFILE_PROFILE_H
#define HEFT_PROFILE_PROFILE_H

#include "hosted/error.h"
#include "symbol/name_pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_NONE UINT32_MAX

struct profile_module {
	const char *path;
	const uint8_t *build_id;
	uint32_t build_id_len;
	bool runtime; /* libc, an allocator or a language's runtime library (user_frame.h) */
};

struct profile_frame {
	const char *function; /* never NULL: where nothing is known, "module+0x12" */
	const char *file;     /* NULL: not known */
	uint32_t line;        /* 0: not known */
	uint32_t module;      /* PROFILE_NONE: not known */
	uint64_t address; /* as in the module's file, within the call; of the first one merged */
	bool inlined;     /* into its caller */
	bool user;        /* outside allocator, libc and language runtime */
};

enum profile_node_flag {
	PROFILE_GUESSED = 1,   /* found without unwind tables: may be wrong */
	PROFILE_TRUNCATED = 2, /* callers are missing */
	PROFILE_LOST = 4,      /* callees are missing */
};

struct profile_node {
	uint32_t parent; /* the caller, always a smaller index; PROFILE_NONE: outermost */
	uint32_t frame;
	uint32_t flags;
};

enum profile_via { /* the allocation function called */
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
		   PROFILE_VIA_COUNT
};
const char *profile_via_name(uint32_t via);

struct profile_lifetime {
	uint64_t mean_ns, p50_ns, p99_ns,
		max_ns; /* of blocks freed, or live at the end, up to there */
};

struct profile_site {
	uint32_t id;   /* from 1, by peak contribution: what people and findings name it by */
	uint32_t node; /* innermost; PROFILE_NONE: stack unknown */
	uint32_t via;
	uint32_t merged; /* how many call stacks of the recording it stands for */
	uint64_t allocations, reallocations, frees;
	uint64_t allocated_bytes, reallocated_bytes;
	uint64_t peak_bytes, peak_blocks;
	uint64_t own_peak_bytes; /* exact if merged == 1, else an upper bound */
	uint64_t live_bytes, live_blocks, live_slack_bytes;
	uint64_t temporary, cross_thread_frees;
	struct profile_lifetime lifetime;
};

struct profile_totals {
	uint64_t allocations, reallocations, frees;
	uint64_t allocated_bytes, reallocated_bytes;
	uint64_t peak_bytes, peak_blocks, peak_time_ns;
	uint64_t live_bytes, live_blocks, live_slack_bytes;
	uint64_t temporary, threads, dropped, peak_rss_bytes, unknown_frees;
};

enum profile_end {
	PROFILE_END_RUNNING,
	PROFILE_END_EXIT,
	PROFILE_END_SIGNAL,
	PROFILE_END_DETACHED, /* the recording ended before the process */
	PROFILE_END_EXEC,     /* of a process: became another program */
	PROFILE_END_UNKNOWN,  /* ended; with what status is not known */
};

struct profile_process { /* one program image: an exec begins another with the same pid */
	int32_t pid, ppid;
	const char *exe;
	const char **argv;
	uint32_t argc;
	uint64_t start_ns, end_ns;
	enum profile_end end;
	int32_t exit_status, signal;
	struct profile_totals totals; /* all of them only with profile.process_totals */
};

struct profile_thread {
	int32_t pid, tid;
	const char *name;
	uint32_t process;
	uint64_t allocations, allocated_bytes, reallocations, frees;
};

enum profile_note_kind {
	PROFILE_NOTE_WARNING, /* numbers are incomplete or may mislead: shown prominently */
	PROFILE_NOTE_INFO,
};

struct profile_note {
	enum profile_note_kind kind;
	uint64_t time_ns;
	const char *text;
};

struct profile_index; /* the hash tables behind profile_add_* */

struct profile {
	struct name_pool *names;
	struct profile_index *index;

	/* about the recording */
	const char *heft_version; /* that made it */
	const char **argv;
	uint32_t argc;
	int32_t pid;
	int64_t start_unix_ns;
	uint64_t duration_ns;
	enum profile_end end;
	int32_t exit_status, signal;
	bool complete;       /* false: cut, or still being written */
	uint64_t cut_offset; /* if not complete: where the last readable part ends */
	uint64_t file_bytes, events;
	const char *selection; /* words for what was selected ("pid 12"); NULL: everything */
	bool process_totals;

	struct profile_module *modules;
	uint32_t module_count;
	struct profile_frame *frames;
	uint32_t frame_count;
	struct profile_node *nodes;
	uint32_t node_count;
	struct profile_site *sites;
	uint32_t site_count; /* by peak contribution */
	struct profile_thread *threads;
	uint32_t thread_count;
	struct profile_process *processes;
	uint32_t process_count;
	struct profile_note *notes;
	uint32_t note_count;
	struct profile_totals totals;
	uint32_t sites_left_out; /* summaries only: small sites that were not symbolised */
};

struct profile *profile_new(void); /* NULL: no memory */
void profile_free(struct profile *p);

/* Building. Ids are returned through *id; 0 or HEFT_ENOMEM. */
int profile_add_module(struct profile *p, const char *path, const uint8_t *build_id,
		       uint32_t length, uint32_t *id);
/* The strings must be in p->names. Finds or makes the frame; `user` is decided here. */
int profile_add_frame(struct profile *p, const struct profile_frame *frame, uint32_t *id);
/* Finds or makes the node; flags are added to those it has. */
int profile_add_node(struct profile *p, uint32_t parent, uint32_t frame, uint32_t flags,
		     uint32_t *id);
/* Finds or makes the site of (node, via) and gives its index. */
int profile_add_site(struct profile *p, uint32_t node, uint32_t via, uint32_t *id);
int profile_add_process(struct profile *p, const struct profile_process *process, uint32_t *id);
int profile_add_thread(struct profile *p, const struct profile_thread *thread);
int profile_add_note(struct profile *p, enum profile_note_kind kind, uint64_t time_ns,
		     const char *fmt, ...) __attribute__((format(printf, 4, 5)));
const char **profile_copy_strings(struct profile *p, char *const *strings, uint32_t count);
/* Orders the sites by peak contribution and numbers them. Call once, after the last one. */
void profile_finish_sites(struct profile *p);

/* Selecting (profile_select.c). */
enum profile_sort {
	PROFILE_BY_PEAK,
	PROFILE_BY_LIVE,
	PROFILE_BY_ALLOCATED,
	PROFILE_BY_COUNT,
	PROFILE_BY_TEMPORARY,
	PROFILE_BY_LIFETIME
};
int profile_sort_parse(const char *name, enum profile_sort *sort); /* 0 or HEFT_EUSAGE */
const char *profile_sort_name(enum profile_sort sort);
uint64_t profile_site_measure(const struct profile_site *site, enum profile_sort sort);
/* Indices of all sites, greatest first; equal ones keep their order. NULL: no memory; free() it. */
uint32_t *profile_sorted_sites(const struct profile *p, enum profile_sort sort);
/* Keeps only sites with a frame that matches `focus` and none that matches `ignore` (POSIX extended
 * expressions over function, file and module; either may be NULL). Totals become those of the
 * sites that are left. */
int profile_filter(struct profile *p, const char *focus, const char *ignore,
		   struct heft_error *err);

/* Reading. */
const char *profile_module_name(const struct profile *p, uint32_t module); /* without folders */
/* Innermost user frame of a stack, or its innermost frame if it has none; PROFILE_NONE without a
 * stack. */
uint32_t profile_first_user_node(const struct profile *p, uint32_t node);

#endif
