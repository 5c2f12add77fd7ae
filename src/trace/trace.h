/* The recording file: its tables, its writer and its reader. The format itself
 * is in docs/trace-format.md.
 *
 * All ids are dense from 0 in the order of the *_add calls. Strings are copied
 * by the writer; the reader's live as long as the reader. */
#ifndef HEFT_TRACE_TRACE_H
#define HEFT_TRACE_TRACE_H

#include "base/own_functions.h"
#include "hosted/error.h"
#include "hosted/heap_look.h"
#include "hosted/ledger.h"
#include "tally/batch.h"
#include "tally/mapping.h"
#include "tally/remark.h"
#include "trace/samples_block.h"
#include "tally/tally.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_NONE UINT32_MAX

/* One loaded ELF object (or a JIT region, vdso ...) */
/* Not a module: its one place in code stands for all that made the blocks which a program had before heft was attached
 * (heft attach --older). */
#define TRACE_OLDER_MODULE "[before]"

/* The same for the program's break, which libc's malloc moves without a call that could be seen. */
#define TRACE_BREAK_MODULE "[break]"

struct trace_module {
	const char *path;
	const uint8_t *build_id;
	uint32_t build_id_len; /* 0: has none */
};

enum trace_frame_flag {
	TRACE_FRAME_GUESS = 1, /* found by frame pointer without unwind tables: may be wrong */
	/* The stack goes on beyond this frame but could not be followed. */
	TRACE_FRAME_TRUNCATED = 2,
	TRACE_FRAME_EXACT_PC = 4, /* an interrupted pc (signal), not a return address */
	TRACE_FRAME_LOST = 8,     /* callees are missing: the node table was full */
};

/* One frame under its caller: a path to the root is a call stack */
struct trace_node {
	uint32_t parent; /* TRACE_NONE: outermost */
	uint32_t module; /* TRACE_NONE: unknown; then offset is the raw address */
	uint64_t offset; /* pc - load bias of the module: an address as in its ELF file.
			    A return address unless EXACT_PC: look up offset - 1. */
	uint32_t flags;
};

/* The allocation function called */
enum trace_via {
	TRACE_VIA_MALLOC,
	TRACE_VIA_CALLOC,
	TRACE_VIA_REALLOC,
	TRACE_VIA_POSIX_MEMALIGN,
	TRACE_VIA_ALIGNED_ALLOC,
	TRACE_VIA_MEMALIGN,
	TRACE_VIA_VALLOC,
	TRACE_VIA_PVALLOC,
	TRACE_VIA_REALLOCARRAY,
	TRACE_VIA_NEW,
	TRACE_VIA_NEW_ARRAY,
	TRACE_VIA_FREE, /* a place that frees: no block has this one */
	TRACE_VIA_OWN,  /* from here on: HEFT_OWN_ALLOCATING, in that order */
	TRACE_VIA_COUNT = TRACE_VIA_OWN + HEFT_OWN_VIA_COUNT
};

struct trace_site {
	uint32_t node; /* caller of the allocation function; TRACE_NONE: stack unknown */
	uint32_t via;  /* enum trace_via */
};

struct trace_thread {
	uint32_t process; /* index */
	int32_t tid;
	const char *name;
};

enum trace_end {
	TRACE_END_RUNNING,
	TRACE_END_EXIT,
	TRACE_END_SIGNAL,
	TRACE_END_EXEC,
	TRACE_END_DETACHED,
	TRACE_END_UNKNOWN, /* ended, status not known to us */
	TRACE_END_OOM,     /* killed by the kernel for lack of memory; signal is SIGKILL */
	TRACE_END_LAST = TRACE_END_OOM
};

/* One program image: an exec begins another with the same pid */
struct trace_process {
	int32_t pid, ppid;
	uint64_t start_ns; /* since the start of the recording */
	const char *exe;
	char *const *argv; /* argc of them */
	uint32_t argc;
	/* Known once it has ended; before that, end is RUNNING. */
	uint64_t end_ns;
	uint32_t end; /* enum trace_end */
	int32_t exit_status;
	int32_t signal; /* that ended it, or that it was asked to end with before it exited; else 0 */
	uint64_t memory_limit_bytes; /* that it ran into (TRACE_END_OOM); 0: not known */
	bool limit_is_cgroup;        /* the limit is its cgroup's, not the machine's memory */
	uint64_t dropped;            /* events that could not be recorded */
	uint64_t dropped_from_ns;    /* when that began; 0 if dropped == 0 */
	uint64_t unknown_frees;      /* frees of blocks never seen */
	/* Frees of blocks that it had before it was recorded: its parent's, or older than the attaching. */
	uint64_t inherited_frees;
	uint64_t lost_stacks; /* allocations whose stack was cut because tables were full */
	uint64_t reentrant;   /* calls from inside a hook (signal handlers): not recorded */
	uint64_t peak_bytes, peak_blocks, peak_time_ns; /* of this process alone */
	uint64_t peak_rss_bytes; /* the kernel's own maximum (VmHWM); 0: not known */
	/* The most of it that belonged to no file and was not shared; 0: not known. */
	uint64_t peak_anonymous_bytes;
};

struct trace_rss {
	uint64_t time_ns;
	uint32_t process;
	uint64_t rss_bytes;
};

/* Resident memory that belongs to a process alone (anonymous: no file's), beside what was recorded. A later
 * one of the same process replaces it. */
struct trace_anonymous {
	uint64_t time_ns;
	uint32_t process;
	uint64_t peak_bytes;      /* greatest seen */
	uint64_t inherited_bytes; /* of a forked child: what it had from its parent */
	uint64_t recorded_bytes, recorded_blocks; /* peak of its live allocations */
};

/* What a look at the heap of a process told */
struct trace_look {
	struct heap_look look;
	uint32_t process;
};

enum trace_note_kind {
	TRACE_NOTE_UNFOLLOWED, /* a child that could not be recorded, and why */
	TRACE_NOTE_OWN_MALLOC, /* the program defines malloc itself */
	TRACE_NOTE_LOST,
	TRACE_NOTE_INFO
};
struct trace_note {
	uint32_t kind;
	uint32_t process;
	uint64_t time_ns;
	const char *text;
};

/* NOT_SAID: by a heft that did not write it down, or by several ways */
enum trace_way { TRACE_WAY_NOT_SAID, TRACE_WAY_PRELOAD, TRACE_WAY_ENTRY };

struct trace_meta {
	const char *heft_version;
	int64_t start_unix_ns;
	char *const *argv; /* the command given to heft */
	uint32_t argc;
	uint32_t page_bytes;
	uint64_t memory_limit_bytes; /* what the program may use; 0: not known */
	bool limit_is_cgroup;        /* of its cgroup, not all of the machine's memory */
	bool attached; /* the program ran before: it has blocks that the recording does not know */
	uint32_t way;  /* enum trace_way: how heft got into the program */
	uint64_t tick_ns; /* file times are multiples of this; a power of two, about 2048 */
};

/* ---- writing: calls return 0 or a negative code; after the first failure (a full disk) all
 * further calls return the same code at once and the file stays readable up to there. */
struct trace_writer;
int trace_writer_open(struct trace_writer **out, const char *path, bool force,
		      const struct trace_meta *meta, struct heft_error *err);
int trace_writer_module(struct trace_writer *w, const struct trace_module *m);
int trace_writer_nodes(struct trace_writer *w, const struct trace_node *nodes, size_t count);
int trace_writer_sites(struct trace_writer *w, const struct trace_site *sites, size_t count);
int trace_writer_process(struct trace_writer *w, const struct trace_process *p);
int trace_writer_process_end(struct trace_writer *w, uint32_t process,
			     const struct trace_process *p);
int trace_writer_thread(struct trace_writer *w, const struct trace_thread *t);
int trace_writer_thread_name(struct trace_writer *w, uint32_t thread, const char *name);
int trace_writer_rss(struct trace_writer *w, const struct trace_rss *samples, size_t count);
int trace_writer_anonymous(struct trace_writer *w, const struct trace_anonymous *a);
int trace_writer_note(struct trace_writer *w, const struct trace_note *note);
/* Writes a ledger of the process at once. */
int trace_writer_ledger(struct trace_writer *w, const struct ledger *l, uint32_t process);
/* Adds a call that mapped memory. Its site and its thread must have been added before. */
int trace_writer_mapping(struct trace_writer *w, const struct trace_mapping *m);
/* Adds what a program said. Its site, its thread and its name must have been added before: names have the numbers 1, 2 ... */
int trace_writer_remark(struct trace_writer *w, const struct trace_remark *m);
void trace_writer_remark_name(struct trace_writer *w, const char *text);
/* The same for what a look at its heap told. */
int trace_writer_look(struct trace_writer *w, const struct heap_look *l, uint32_t process);
/* Writes what a sampled process has now, which replaces what was written for it before. */
int trace_writer_samples(struct trace_writer *w, const struct trace_samples *samples);
/* Writes the peak of several sampled processes, which replaces what was written before. */
int trace_writer_peak(struct trace_writer *w, const struct trace_peak *peak);
/* Ids in the events must have been added before. Times never go back. */
int trace_writer_events(struct trace_writer *w, const struct trace_event *events, size_t count);
/* The same for a batch. The recorder calls this one all the time. */
int trace_writer_batch(struct trace_writer *w, const struct trace_batch *batch);
/* Writes out everything buffered as complete blocks (the recorder calls it at least once a second). */
int trace_writer_flush(struct trace_writer *w);
/* Writes out everything buffered, then the tally, which is that of all events so far. A large tally is
 * left out until the file has grown by much more than its size since the last one. */
int trace_writer_checkpoint(struct trace_writer *w, uint64_t time_ns, struct tally *tally);
/* Writes the final tally, the index and the end. duration_ns is that of the recording. Frees w in any case. */
int trace_writer_close(struct trace_writer *w, uint64_t duration_ns, struct tally *tally,
		       struct heft_error *err);
/* Writes the end at once: whatever comes after it is not recorded, and trace_writer_close only closes. */
int trace_writer_end(struct trace_writer *w, uint64_t duration_ns, struct tally *tally);
void trace_writer_abandon(struct trace_writer *w); /* closes and frees without an end block */
uint64_t trace_writer_bytes(const struct trace_writer *w);
/* From now on a thread writes the file: nobody waits for the disk, except the last call (close or abandon), which
 * gives up if the disk takes nothing at all for half a minute. */
void trace_writer_write_apart(struct trace_writer *w);
uint64_t trace_writer_behind_bytes(const struct trace_writer *w); /* that wait for the disk */
/* Bytes that were given and are not written yet, before compression. */
uint64_t trace_writer_waiting_bytes(const struct trace_writer *w);
/* Bytes that the end would add to the file, without the index. */
uint64_t trace_writer_end_bytes(struct trace_writer *w, struct tally *tally);

/* ---- reading */
struct trace_reader;
/* Opens, checks the header, loads all tables and the final tally. From a file that was cut, the
 * last checkpoint is taken and the complete blocks after it are replayed. */
int trace_reader_open(struct trace_reader **out, const char *path, struct heft_error *err);
/* The same for a recording that was just written, whose tally is at hand: takes it over if the
 * recording is complete, and leaves an empty one. */
int trace_reader_open_written(struct trace_reader **out, const char *path, struct tally *tally,
			      struct heft_error *err);
void trace_reader_close(struct trace_reader *r);

/* Everything but the events; owned by the reader.
 * fields: each table is two: its items and their count. */
struct trace_contents {
	struct trace_meta meta;
	const struct trace_module *modules;
	uint32_t module_count;
	const struct trace_node *nodes;
	uint32_t node_count;
	const struct trace_site *sites;
	uint32_t site_count;
	const struct trace_thread *threads;
	uint32_t thread_count;
	const struct trace_process *processes;
	uint32_t process_count;
	const struct trace_rss *rss;
	size_t rss_count;
	const struct trace_anonymous *anonymous;
	size_t anonymous_count; /* in the order written */
	const struct trace_note *notes;
	size_t note_count;
	const struct ledger *ledgers;
	size_t ledger_count; /* in the order written */
	const struct trace_look *looks;
	size_t look_count; /* the same */
	const struct tally
		*tally; /* of the whole recording, or up to the cut; its peaks are up to date */
	const struct behaviour *behaviour;
	const struct trace_samples *samples;
	uint32_t samples_count;        /* sampled processes */
	const struct trace_peak *peak; /* of several sampled processes; no parts: not recorded */
	uint64_t duration_ns;
	uint64_t file_bytes, events;
	uint64_t mappings;   /* calls that map memory */
	uint64_t remarks;    /* what programs said */
	bool complete;       /* false: cut or still being written */
	uint64_t cut_offset; /* if not complete: where the last complete block ends */
};
const struct trace_contents *trace_reader_contents(const struct trace_reader *r);

/* Calls each() with batches of decoded events whose time lies in [from_ns, to_ns], in order.
 * A negative return from each() ends the walk and is returned. */
typedef int trace_each_fn(void *ctx, const struct trace_event *events, size_t count);
int trace_reader_events(struct trace_reader *r, uint64_t from_ns, uint64_t to_ns,
			trace_each_fn *each, void *ctx, struct heft_error *err);

/* The same for calls that map memory: all of them, one by one, in the order written. */
typedef int trace_mapping_fn(void *ctx, const struct trace_mapping *m);
int trace_reader_mappings(struct trace_reader *r, trace_mapping_fn *each, void *ctx,
			  struct heft_error *err);

/* The same for what programs said. Texts of names live as long as the reader. */
typedef int trace_remark_fn(void *ctx, const struct trace_remark *m);
int trace_reader_remarks(struct trace_reader *r, trace_remark_fn *each, void *ctx,
			 struct heft_error *err);

/* The tally of all events with times before before_ns, from the nearest checkpoint, into t, which
 * is empty (tally_init). */
int trace_reader_tally_before(struct trace_reader *r, uint64_t before_ns, struct tally *t,
			      struct heft_error *err);

/* Checks every block: header, checksum, decoding, ids, times, and that the tally at the end equals
 * the replay of all events. */
struct trace_verify {
	uint64_t blocks, events, bytes;
	bool complete;
	uint64_t cut_offset;
};
int trace_verify(const char *path, struct trace_verify *result, struct heft_error *err);

#endif
