/* Inside src/agent: the live samples of a sampled process, and lists of them. base: its session file, mapped or
 * copied. */
#ifndef HEFT_AGENT_SAMPLED_LIVE_H
#define HEFT_AGENT_SAMPLED_LIVE_H

#include "wire/samples.h"

#include <stdbool.h>

/* How many tables of a kind are in use. The header may say anything, so this is bounded. */
unsigned sampled_levels(_Atomic uint32_t *in_use);

typedef void sampled_each(void *ctx, const struct wire_sample *b);
void sampled_each_live(void *base, sampled_each *each, void *ctx);

/* Begins zeroed */
struct sample_list {
	struct wire_sample *list;
	uint32_t count, capacity;
	bool failed;
};
/* Adds a sample to the list ctx; for sampled_each_live. */
void sample_list_add(void *ctx, const struct wire_sample *b);

/* How many bytes a sample stands for. */
double sampled_bytes(const struct wire_sample *b);
/* When the newest live sample was made; 0: there is none. */
uint64_t sampled_newest_tsc(void *base);

#endif
