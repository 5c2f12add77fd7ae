/* Inside src/profile: allocations by size, counted event by event. */
#ifndef HEFT_PROFILE_TRACE_SIZES_H
#define HEFT_PROFILE_TRACE_SIZES_H

#include "profile/profile.h"
#include "tally/event.h"

/* Exact sizes up to 1024 (0 too), then eight classes for each power of two up to 2^63. */
enum { TRACE_SIZE_CLASSES = 1025 + 8 * 54 };

struct trace_size_count {
	struct profile_size size;
	uint64_t live_slack;
	uint64_t end_blocks, end_bytes; /* live when their process ended */
	uint32_t peak_epoch;
};

struct trace_sizes {
	struct trace_size_count classes[TRACE_SIZE_CLASSES];
	uint64_t live_bytes, peak_bytes;
	uint32_t peak_epoch;
};

unsigned trace_size_class(uint64_t size);
/* Smallest and largest size of a class. */
void trace_size_bounds(unsigned index, uint64_t *low, uint64_t *high);
/* counted: the event is in the window; before it only what stays live matters. last: a block that ends
 * with its process is live at the end. */
void trace_sizes_apply(struct trace_sizes *s, const struct trace_event *e, bool counted, bool last);
/* A window begins: what is live is its first peak. */
void trace_sizes_begin(struct trace_sizes *s);
/* Copies the classes that are not empty into behaviour.sizes. 0 or HEFT_ENOMEM. */
int trace_sizes_load(struct trace_sizes *s, struct profile *p);

#endif
