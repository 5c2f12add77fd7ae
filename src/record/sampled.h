/* Reading what a sampled process keeps of itself (wire/samples.h), while it runs or after its
 * death. */
#ifndef HEFT_RECORD_SAMPLED_H
#define HEFT_RECORD_SAMPLED_H

#include "record/drain.h"
#include "trace/samples_block.h"

/* What a process's samples add up to, or did when it ended. */
void sampled_sums(const struct process *p, struct sampled_sums *sums);
/* When it last showed a sign of life that is still there: its newest live sample. Since its start. */
uint64_t sampled_last_seen_ns(const struct process *p);

/* Keeps its live samples in p->peak if it never had that much. Costs a look at every live sample. */
void sampled_see_peak(struct process *p);
/* The same whether or not there is anything new. */
void sampled_look_for_peak(struct process *p);

/* ---- several processes (sampled_peak.c) */
struct sampled_sum { /* the greatest sum of what they had at one instant */
	double bytes;
	uint64_t tsc;
	bool alone;   /* one process had all of it: its own peak tells what */
	bool unsaved; /* changed since it was written */
	struct trace_peak_part *closed; /* what processes had that are closed */
	uint32_t closed_count;
};
/* Looks at all processes of a recording that are not done, for their own peaks and for that of their
 * sum. To be called when one has ended and before it is closed, and now and then. */
void sampled_sum_look(struct sampled_sum *s, struct process *const *list, uint32_t count);
/* Before a process is closed and its memory is gone: takes over what it had at the greatest sum. */
void sampled_sum_close(struct sampled_sum *s, struct drain *d, struct process *p);
/* Writes it down if it has changed. */
void sampled_sum_write(struct sampled_sum *s, struct drain *d, struct process *const *list,
		       uint32_t count);
void sampled_sum_fini(struct sampled_sum *s);

/* Samples with the sites and times of the recording: free() it. *count: how many they are, and how many
 * made sense. NULL: no memory. */
struct trace_sample *sampled_convert(struct drain *d, struct process_stacks *stacks,
				     const struct wire_sample *b, uint32_t *count);
/* Writes down what it has at time_ns, and what it had at its peak. `stacks` belong to the drain's
 * recording, of which it is process `index`. */
void sampled_write(struct drain *d, struct process *p, struct process_stacks *stacks,
		   uint32_t index, uint64_t time_ns);

/* Mean distances of samples that make sense: below, exact recording costs less; above, a sample a day
 * is no profile. */
#define SAMPLED_RATE_LEAST 1024u
#define SAMPLED_RATE_MOST (1u << 30)
#define SAMPLED_RATE_DEFAULT (512u << 10)
#define SAMPLED_AUTO_LEAST (64u << 10) /* a quiet program need not be sampled more finely */
/* Switches a process; a rate of 0 stays as it is. */
void sampled_control(struct process *p, bool on, uint64_t rate_bytes);
/* On, at a rate that follows the budget (whoever calls sampled_follow_budget moves it). */
void sampled_control_automatic(struct process *p);

/* --sample=auto: the share of its CPU time that a process may spend on samples. */
#define SAMPLED_BUDGET 0.005
/* Once a second or so: what share that was (below 0: not known), and, if the process's rate is
 * automatic, a better rate. */
double sampled_follow_budget(struct process *p);
/* The share since its start; below 0: not known. */
double sampled_cost_share(const struct process *p);
/* What became of it, in a sentence; false: the rate is not automatic. */
bool sampled_budget_words(const struct process *p, char *text, size_t size);

#endif
