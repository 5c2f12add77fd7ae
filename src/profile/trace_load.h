/* Inside src/profile: a recording on its way into the model, and the part of that which goes through
 * its events (trace_replay.c). */
#ifndef HEFT_PROFILE_TRACE_LOAD_H
#define HEFT_PROFILE_TRACE_LOAD_H

#include "profile/profile_from_trace.h"
#include "profile/trace_samples.h"
#include "profile/trace_sizes.h"
#include "profile/trace_split.h"

struct load {
	struct profile *p;
	const struct trace_contents *c;
	struct trace_reader *reader;
	const struct profile_selection *sel;
	struct heft_error *err;
	const struct tally *tally; /* what the sites' numbers come from */
	struct tally replayed;
	bool *threads; /* selected, by recording thread */
	bool all_threads;
	uint32_t *processes;                       /* the profile's, by the recording's */
	uint32_t *modules;                         /* the profile's, by the recording's */
	uint32_t *thread_ids;                      /* the profile's, by the recording's */
	struct profile_totals *replayed_processes; /* by the profile's process, or NULL */
	uint64_t processes_from_ns;                /* of the window that has not begun; 0 */
	struct trace_split *split; /* of sites by process; NULL: they are the recording's */
	struct live_at_start {     /* of the window, by site of the tally; NULL: no window */
		uint64_t bytes, blocks;
	} *start;
	uint32_t start_count;
	bool *last_processes; /* by the recording's: ends with what is selected; NULL: the only one */
	struct live_at_end { /* of their blocks, by site of the tally; NULL: all that is left */
		uint64_t bytes, blocks, slack;
	} *last;
	uint32_t last_count;           /* sites beyond have nothing left */
	struct profile_spread *spread; /* of a sampled recording, by its sites; else NULL */
	struct trace_sizes *sizes;
	uint64_t sizes_from_ns;
	const struct behaviour *behaviour; /* of the part, by its sites; NULL: the recording's */
};

/* An instant is what is live then; what was allocated and freed is counted up to it. */
static inline bool trace_is_instant(const struct load *l)
{
	return l->sel->has_window && l->sel->from_ns == l->sel->to_ns;
}

/* From when on it is counted. */
static inline uint64_t trace_counts_from(const struct load *l)
{
	return l->sel->has_window && !trace_is_instant(l) ? l->sel->from_ns : 0;
}

/* Modules, facts of the run, processes and threads (trace_tables.c). */
int trace_load_modules(struct load *l);
int trace_load_meta(struct load *l);
int trace_load_processes(struct load *l);
int trace_load_threads(struct load *l);
/* Stacks, and sites with their measures (trace_sites.c). */
int trace_load_sites(struct load *l);
int trace_load_totals(struct load *l);
/* Which processes and threads are selected, and the words for that (trace_select.c). */
bool trace_process_is_chosen(const struct load *l, uint32_t process);
/* Whether it has no part in the window that is selected; false if it was asked for by name. */
bool trace_process_is_outside(const struct load *l, uint32_t process);
bool trace_process_begins_after(const struct load *l, uint32_t process);
int trace_select_threads(struct load *l);
int trace_describe_selection(struct load *l);
/* What was selected, as a tally of its own. */
int trace_load_replay(struct load *l);
/* Which processes are the last ones, and what they have left (trace_ends.c). */
int trace_ends_load(struct load *l);
/* Whether blocks of this thread are live at the end if they are never freed. */
static inline bool trace_ends_last(const struct load *l, uint32_t thread)
{
	uint32_t process = l->c->threads[thread].process;
	return !l->last_processes || (process < l->c->process_count && l->last_processes[process] &&
				      l->c->processes[process].end != TRACE_END_RUNNING);
}
/* What each process left at its end, of a recording that is whole. */
int trace_ends_left(struct load *l);
/* Allocations by size. */
int trace_load_sizes(struct load *l);
/* Live bytes over time of a part that is loaded, of its sites and of all (trace_history.c). */
int trace_load_history(struct load *l);
/* Every number of each process. */
int trace_load_process_totals(struct load *l);
/* A part whose tally, sites and behaviour are there already, and which has no more than these. */
int trace_load_part(struct load *l);
/* Whether the processes are to be looked at one by one; does it, or says why not (trace_judge.c). */
bool trace_judges(const struct load *l);
int trace_judge(struct load *l);

/* ---- of a sampled recording (trace_samples.c, trace_births.c) */
/* Totals of processes, what threads have live, and their errors. */
int trace_load_sampled_parts(struct load *l);
/* When live blocks were made, by the profile's sites: final[i] is that of the recording's site i. */
int trace_load_births(struct load *l, const uint32_t *final);

#endif
