/* Inside src/profile: a recording on its way into the model. profile_from_trace.c runs the steps; each
 * file trace_*.c has some of them. */
#ifndef HEFT_PROFILE_TRACE_LOAD_H
#define HEFT_PROFILE_TRACE_LOAD_H

#include "profile/profile_from_trace.h"
#include "profile/trace_samples.h"
#include "profile/trace_sizes.h"
#include "profile/trace_split.h"

/* Blocks of one site that are live at one moment. */
struct live_sums {
	uint64_t bytes, blocks, slack;
};

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
	uint64_t processes_from_ns;                /* when the window begins; 0: it has begun */
	struct trace_split *split; /* sites by process; NULL: sites are the recording's */
	struct live_sums *start;   /* at the start of the window, by site; NULL: no window */
	uint32_t start_count;
	bool *last_processes;   /* by the recording's: lives to the end; NULL: there is only one */
	struct live_sums *last; /* their blocks at the end, by site; NULL: all that is left */
	uint32_t last_count;    /* sites beyond have nothing left */
	struct profile_spread *spread; /* of a sampled recording, by its sites; else NULL */
	struct trace_sizes *sizes;
	uint64_t sizes_from_ns; /* when the window begins; 0: it has begun */
	struct tally mapped;    /* of mapped memory, by site; empty: it was not asked for */
	uint8_t *
		map_calls; /* by site: the first call that mapped there, plus 1; 0: none did. Or NULL */
	struct trace_remarks *remarks; /* what the program said (trace_remarks.h); NULL: nothing */
	const struct behaviour *behaviour; /* of the part, by its sites; NULL: the recording's */
};

/* The window is an instant: live is what was live then; allocations and frees count up to it. */
static inline bool trace_is_instant(const struct load *l)
{
	return l->sel->has_window && l->sel->from_ns == l->sel->to_ns;
}

/* When counting begins. */
static inline uint64_t trace_counts_from(const struct load *l)
{
	return l->sel->has_window && !trace_is_instant(l) ? l->sel->from_ns : 0;
}

/* Whether every number of the event is one of the recording's. */
static inline bool trace_event_is_valid(const struct trace_contents *c, const struct trace_event *e)
{
	return e->site < c->site_count && e->thread < c->thread_count &&
	       e->birth_thread < c->thread_count &&
	       (e->op != TRACE_REALLOC || e->old_site < c->site_count);
}

/* Grows the list to at least `count` sites; new ones are 0 (trace_replay.c). 0 or HEFT_ENOMEM. */
int trace_grow_sums(struct live_sums **list, uint32_t *capacity, uint32_t count);

/* Modules, facts of the run, processes and threads (trace_tables.c). */
int trace_load_modules(struct load *l);
int trace_load_meta(struct load *l);
int trace_load_processes(struct load *l);
int trace_load_threads(struct load *l);
/* What is mapped, by site (trace_mapped.c). */
int trace_load_mapped(struct load *l);
/* Stacks, and sites with their measures (trace_sites.c). */
int trace_load_sites(struct load *l);
int trace_load_totals(struct load *l);
/* Which processes and threads are selected, and the words for that (trace_select.c). */
bool trace_process_is_chosen(const struct load *l, uint32_t process);
/* Whether the process ended before the window or began after it; false if it was asked for by name. */
bool trace_process_is_outside(const struct load *l, uint32_t process);
bool trace_process_begins_after(const struct load *l, uint32_t process);
int trace_select_threads(struct load *l);
int trace_describe_selection(struct load *l);
/* Replays what is selected into a tally of its own (trace_replay.c). */
int trace_load_replay(struct load *l);
/* Finds the processes that live to the end, and what they have left (trace_ends.c). */
int trace_ends_load(struct load *l);
/* Whether blocks of this thread are live at the end if they are never freed. */
static inline bool trace_ends_last(const struct load *l, uint32_t thread)
{
	uint32_t process = l->c->threads[thread].process;
	return !l->last_processes || (process < l->c->process_count && l->last_processes[process] &&
				      l->c->processes[process].end != TRACE_END_RUNNING);
}
/* Finds what each process left at its end. */
int trace_ends_left(struct load *l);
/* Allocations by size (trace_replay.c). */
int trace_load_sizes(struct load *l);
/* Live bytes over time of a part and of its sites (trace_history.c). */
int trace_load_history(struct load *l);
/* The first blocks of large sites, in their order, for findings (trace_firsts.c). */
bool trace_wants_firsts(const struct load *l);
int trace_load_firsts(struct load *l);
/* Every number of each process (trace_replay.c). */
int trace_load_process_totals(struct load *l);
/* Loads a part whose tally, split and behaviour are set. */
int trace_load_part(struct load *l);
/* Loads processes one by one for findings, or notes why not (trace_judge.c). trace_judges says whether
 * it will. */
bool trace_judges(const struct load *l);
int trace_judge(struct load *l);

/* ---- sampled recordings (trace_samples.c, trace_births.c) */
/* Totals of processes, what threads have live, and the errors of both. */
int trace_load_sampled_parts(struct load *l);
/* When live blocks were made, by the profile's sites: final[i] is that of the recording's site i. */
int trace_load_births(struct load *l, const uint32_t *final);

#endif
