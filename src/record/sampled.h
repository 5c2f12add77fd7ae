/* Reading what a sampled process keeps of itself (wire/samples.h), while it runs or after its
 * death. */
#ifndef HEFT_RECORD_SAMPLED_H
#define HEFT_RECORD_SAMPLED_H

#include "record/drain.h"
#include "trace/samples_block.h"

/* What a process's samples add up to. */
struct sampled_sums {
	uint64_t samples, live_samples;
	double live_bytes, live_objects, allocated_bytes, allocated_objects;
};
void sampled_sums(const struct process *p, struct sampled_sums *sums);
/* When it last showed a sign of life that is still there: its newest live sample. Since its start. */
uint64_t sampled_last_seen_ns(const struct process *p);

/* Keeps its live samples in p->peak if it never had that much. Costs a look at every live sample. */
void sampled_see_peak(struct process *p);
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
