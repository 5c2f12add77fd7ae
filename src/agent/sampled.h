/* Reads what a sampled process keeps in its tables (wire/samples.h), while it runs and after its
 * death. */
#ifndef HEFT_AGENT_SAMPLED_H
#define HEFT_AGENT_SAMPLED_H

#include "session/process.h"
#include "session/tsc_clock.h"

/* What the samples of a process add up to; of one that has ended, what they did then. */
void sampled_sums(const struct process *p, struct sampled_sums *sums);
/* When it made its newest live sample, since its start: it lived then. */
uint64_t sampled_last_seen_ns(const struct process *p);

/* Keeps its live samples as the peak if it never had so much. Reads every live sample. */
void sampled_see_peak(struct process *p);
/* The same even if it made no sample since the last look. */
void sampled_look_for_peak(struct process *p);

/* The recording that samples are converted for: its sites, its times, and where it is written */
struct sampled_output {
	struct stack_map *stacks;
	const struct tsc_clock *clock;
	struct trace_writer *writer;
};

/* ---- several processes (sampled_peak.c) */
struct sampled_sum { /* the greatest sum of what all processes had at one instant */
	double bytes;
	uint64_t tsc;
	bool alone;   /* one process had all of it: then its own peak is the sum */
	bool unsaved; /* it has changed since it was written */
	struct trace_peak_part *closed; /* the parts of processes that are closed */
	uint32_t closed_count;
};
/* Looks at all processes that are not closed, for their own peaks and for that of their sum. Call it now and
 * then, and when a process has ended, before it is closed. */
void sampled_sum_look(struct sampled_sum *s, struct process *const *list, uint32_t count);
/* p is about to be closed, and its memory is still there: keeps what it had at the greatest sum. */
void sampled_sum_close(struct sampled_sum *s, const struct sampled_output *to, struct process *p);
/* Writes it down if it has changed. */
void sampled_sum_write(struct sampled_sum *s, const struct sampled_output *to,
		       struct process *const *list, uint32_t count);
void sampled_sum_fini(struct sampled_sum *s);

/* Converts samples to the sites and times of the recording. The caller frees the result. *count: how many
 * there are, and then how many made sense. NULL: no memory. */
struct trace_sample *sampled_convert(const struct sampled_output *to, struct process_stacks *stacks,
				     const struct wire_sample *b, uint32_t *count);
/* Converts everything that a session file holds, mapped or copied at `base`, into out, which has process and
 * time_ns and else zeros. `stacks` are those of that file. HEFT_ENOMEM. trace_samples_fini(out) in any case. */
int sampled_convert_all(const struct sampled_output *to, void *base, struct process_stacks *stacks,
			const struct process_peak *peak, struct trace_samples *out);
/* Writes what it has at time_ns, and what it had at its peak, into the recording, where it is process
 * `index`. */
void sampled_write(const struct sampled_output *to, struct process *p,
		   struct process_stacks *stacks, uint32_t index, uint64_t time_ns);

/* Limits of the mean distance of samples. Below, an exact recording costs less; above, a process may have
 * one sample a day, which is no profile. */
#define SAMPLED_RATE_LEAST 1024u
#define SAMPLED_RATE_MOST (1u << 30)
#define SAMPLED_RATE_DEFAULT (512u << 10)
#define SAMPLED_AUTO_LEAST (64u << 10) /* a quiet program need not be sampled more finely */
/* Switches a process; a rate of 0 stays as it is. */
void sampled_control(struct process *p, bool on, uint64_t rate_bytes);
/* Switches it on, at a rate that follows the budget: sampled_follow_budget changes it. */
void sampled_control_automatic(struct process *p);

/* --sample=auto: the share of its CPU time that a process may spend on samples. */
#define SAMPLED_BUDGET 0.005
/* Call it about once a second. Returns the share of CPU time since the last call (below 0: not known), and
 * improves the rate if that is automatic. */
double sampled_follow_budget(struct process *p);
/* The share since its start; below 0: not known. */
double sampled_cost_share(const struct process *p);
/* Describes rate and cost in a sentence. False: the rate is not automatic. */
bool sampled_budget_words(const struct process *p, char *text, size_t size);

#endif
