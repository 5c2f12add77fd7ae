/* heft's own recording into the model. */
#ifndef HEFT_PROFILE_PROFILE_FROM_TRACE_H
#define HEFT_PROFILE_PROFILE_FROM_TRACE_H

#include "profile/process_groups.h"
#include "profile/profile.h"
#include "trace/trace.h"
#include "trace/trace_ladder.h"

/* All zero: everything */
struct profile_selection {
	bool has_pid;
	int32_t pid;   /* blocks allocated by processes with this pid */
	bool own_time; /* times are counted from when the first of the chosen processes began, to the
			  end of the last: as if only they had been recorded. The window is not */
	uint64_t origin_ns; /* what words for the window count from */
	bool has_process;
	uint32_t process;        /* the one with this number (profile_process.number) */
	const char *program;     /* NULL: all. blocks allocated by processes of this program */
	const char *thread;      /* NULL: all. blocks allocated by threads of this name or tid */
	bool has_window;         /* only what happened in [from_ns, to_ns] */
	uint64_t from_ns, to_ns; /* equal: the instant, what was live then; counts are up to it */
	/* Also live bytes and temporaries for each process: costs a replay of all events if there
	 * is more than one process. */
	bool process_totals;
	bool history; /* of chosen processes also profile.history: costs a replay of all events */
	/* Of several processes also profile.judged, if there are not more events than this: costs a
	 * replay of all events. For whoever wants findings. */
	uint64_t judge_events;
	/* Sites apart for each process, or group of them, where there are several: costs a replay of
	 * all events. Without behaviour. */
	bool by_process;
	enum process_merging merging;
	bool sizes; /* also profile.sizes: costs a replay of all events */
	bool apart; /* stacks are not merged (profile.apart): for what writes addresses */
	bool calls; /* also profile.calls: for what writes addresses of merged stacks */
	/* For a scrape: without profile.ages and births (sorting 100,000 samples is half of its time), and
	 * without words about missing symbols (their packages are looked for in all of the system's). */
	bool numbers_only;
	/* For a summary: symbolise only stacks that can be among the first by peak, and of runtime
	 * libraries only the symbol tables. */
	bool top_only;
	/* For several selections of one recording without reading its symbols again: the first, of
	 * everything, is loaded with `keep`, the others from the same reader with part_of naming it.
	 * They borrow its modules, frames and nodes, so it must outlive them. */
	bool keep;
	const struct profile *part_of;
	/* Where moments are near: windows are then differences of two tallies, which is quick and has
	 * everything but their peak (PROFILE_HAS_PEAK, PROFILE_HAS_OWN_PEAK). NULL: as the file is. */
	struct trace_ladder *ladder;
	/* Debuginfod servers may be asked, if the environment names any: for verbs that may take
	 * their time. */
	bool ask_servers;
	/* Called now and then while symbols are read: which module, how many of its addresses. */
	void (*progress)(void *ctx, const char *module, size_t done, size_t total);
	void *progress_ctx;
};

/* The profile owns all it holds: the reader may be closed afterwards. sel may be NULL. Without
 * pid, thread and window nothing is replayed: the recording's own tally is taken. */
int profile_from_trace(struct profile **out, struct trace_reader *r,
		       const struct profile_selection *sel, struct heft_error *err);

/* The same of what a sampled process had, without a file: c has samples and no events. */
int profile_from_samples(struct profile **out, const struct trace_contents *c,
			 const struct profile_selection *sel, struct heft_error *err);

/* Whether these first bytes of a file are those of a recording. */
bool profile_is_recording(const uint8_t *head, size_t length);
/* Opens a heft recording; *r is NULL if the file is none, or is not a file that can be read: then it
 * is for src/import, which says what is wrong with it. */
int profile_open_recording(struct trace_reader **r, const char *path, struct heft_error *err);
/* Opens, loads and closes. */
int profile_from_recording(struct profile **out, const char *path,
			   const struct profile_selection *sel, struct heft_error *err);

#endif
