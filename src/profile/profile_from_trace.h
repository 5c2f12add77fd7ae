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
	bool own_time; /* times count from the start of the first chosen process to the end of the
			  last, as if only they had been recorded; those of the window do not */
	uint64_t origin_ns; /* words for the window count from here */
	bool has_process;
	uint32_t process;        /* the one with this number (profile_process.number) */
	const char *program;     /* NULL: all. blocks allocated by processes of this program */
	const char *thread;      /* NULL: all. blocks allocated by threads of this name or tid */
	bool has_window;         /* only what happened in [from_ns, to_ns] */
	uint64_t from_ns, to_ns; /* equal: the instant, what was live then; counts are up to it */
	/* Each of the next six replays all events. */
	bool process_totals; /* also live bytes and temporaries of each process, if there are several */
	bool history;        /* also behaviour.history, if processes are chosen */
	/* Also profile.judged, if there are several processes and at most this many events: for
	 * findings. */
	uint64_t judge_events;
	/* Sites are apart for each process or group of processes, if there are several. Without
	 * behaviour. */
	bool by_process;
	enum process_merging merging;
	bool sizes; /* also behaviour.sizes */
	/* Also what is mapped (PROFILE_HAS_MAPPED), with sites of its own; map_events: also sites that only give
	 * memory back. */
	bool mapped, map_events;
	bool apart; /* stacks are not merged (chosen.apart): for formats with addresses */
	bool calls; /* also stacks.calls: for formats with merged stacks and addresses */
	/* For a scrape: no estimates.ages and births (sorting 100,000 samples is half of its time), and no
	 * note about missing symbols (it searches all packages of the system). */
	bool numbers_only;
	/* For a summary: symbolise only stacks that can be among the first by peak, and read only the
	 * symbol tables of runtime libraries. */
	bool top_only;
	/* Several selections of one recording need its symbols only once: load the first, which is of
	 * everything, with `keep`, and the others from the same reader with part_of naming it. They
	 * borrow its modules, frames and nodes, so it must outlive them. */
	bool keep;
	const struct profile *part_of;
	/* Tallies of many moments: a window is then the difference of two tallies, which is quick but
	 * has no peak (PROFILE_HAS_PEAK, PROFILE_HAS_OWN_PEAK). NULL: use the file's checkpoints. */
	struct trace_ladder *ladder;
	/* Ask debuginfod servers, if the environment names any: for verbs that may take their time. */
	bool ask_servers;
	/* Called now and then while symbols are read: the module, and how many of its addresses. */
	void (*progress)(void *ctx, const char *module, size_t done, size_t total);
	void *progress_ctx;
};

/* The profile owns all it holds: the reader may be closed afterwards. sel may be NULL.
 * Events are replayed for a selection (pid, process, program, thread, window), for the options above that
 * say so, and for some recordings of several processes; else the recording's own tally is taken. */
int profile_from_trace(struct profile **out, struct trace_reader *r,
		       const struct profile_selection *sel, struct heft_error *err);

/* The same for a sampled process, without a file: c has samples and no events. */
int profile_from_samples(struct profile **out, const struct trace_contents *c,
			 const struct profile_selection *sel, struct heft_error *err);

/* When the selected processes made the mark "NAME" for the first time; "NAME#2": the second time. Times of events are
 * rounded down to ticks, and so is *time_ns. HEFT_ENOTFOUND: there is none; the message lists those that there are. */
int trace_mark_time(struct trace_reader *r, const struct profile_selection *sel, const char *text,
		    uint64_t *time_ns, struct heft_error *err);

/* Whether these first bytes of a file are those of a recording. */
bool profile_is_recording(const uint8_t *head, size_t length);
/* Opens a heft recording. *r is NULL if the file is not one or cannot be read: src/import then takes it,
 * or says what is wrong with it. */
int profile_open_recording(struct trace_reader **r, const char *path, struct heft_error *err);
/* Opens, loads and closes. */
int profile_from_recording(struct profile **out, const char *path,
			   const struct profile_selection *sel, struct heft_error *err);

#endif
