/* What a sampled process knew of its heap at one moment: blocks that were sampled
 * and are live, and the sums of all samples ever, by site. Each sample has its own
 * weight (capture/poisson.h has the arithmetic), so that readers only add up. */
#ifndef HEFT_TRACE_SAMPLES_BLOCK_H
#define HEFT_TRACE_SAMPLES_BLOCK_H

#include "trace/byte_buffer.h"

#include <stdbool.h>
#include <stdint.h>

/* One live block */
struct trace_sample {
	uint32_t site;
	int32_t tid; /* of the thread that allocated it */
	uint64_t size, rate_bytes;
	uint64_t birth_ns;
	uint64_t progress_bytes; /* how far its process had come (wire/session.h); 0: not known */
};

/* All samples that were ever taken at a site */
struct trace_sample_sum {
	uint32_t site;
	uint64_t samples;
	double bytes, objects;                   /* estimates */
	double bytes_variance, objects_variance; /* of those */
};

/* The samples of one process */
struct trace_samples {
	uint32_t process;
	uint64_t time_ns;
	uint64_t rate_bytes;     /* in force then */
	bool on;                 /* not switched off */
	uint64_t progress_bytes; /* how far it had come; 0: not known */
	struct trace_sample *live;
	uint32_t live_count;
	struct trace_sample_sum *sums;
	uint32_t sum_count;
	uint64_t peak_time_ns; /* of the greatest estimate seen; 0: live itself is that */
	struct trace_sample *peak;
	uint32_t peak_count;
};

/* The samples of all processes when their sum was the greatest that was seen */
struct trace_peak {
	uint64_t time_ns;
	struct trace_peak_part {
		uint32_t process;
		struct trace_sample *samples;
		uint32_t count;
		bool own; /* to be freed with it */
	} *parts;
	uint32_t part_count;
};

void trace_peak_fini(struct trace_peak *p);
void trace_peak_put(struct byte_buffer *b, const struct trace_peak *p);
/* As trace_samples_get. */
const char *trace_peak_get(struct byte_cursor *c, struct trace_peak *p, uint32_t site_limit,
			   uint32_t process_limit);

void trace_samples_fini(struct trace_samples *s);
void trace_samples_put(struct byte_buffer *b, const struct trace_samples *s);
/* Reads into a zeroed one, which needs trace_samples_fini in any case. NULL, or what was expected. */
const char *trace_samples_get(struct byte_cursor *c, struct trace_samples *s, uint32_t site_limit,
			      uint32_t process_limit);

/* The probability that a block of this size was sampled. */
double trace_sample_chance(uint64_t size, uint64_t rate_bytes);

#endif
