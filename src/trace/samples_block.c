/* Samples as the payload of a block: numbers as varints, times as differences,
 * floating-point sums by their bits. Counts are compared with what is left before
 * anything is allocated. */
#include "trace/samples_block.h"

#include "trace/record_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIVE_MOST = 1 << 22, SUMS_MOST = 1 << 22 };

double trace_sample_chance(uint64_t size, uint64_t rate_bytes)
{
	if (!rate_bytes)
		return 1;
	/* size + 1: so that blocks of no bytes have a chance too. */
	return -expm1(-((double)size + 1) / (double)rate_bytes);
}

void trace_samples_fini(struct trace_samples *s)
{
	free(s->live);
	free(s->sums);
	free(s->peak);
	memset(s, 0, sizeof *s);
}

#define SAMPLE(member) FIELD(trace_sample, member)
static const struct record_field sample_fields[] = {SAMPLE(site), SAMPLE(tid), SAMPLE(size),
						    SAMPLE(rate_bytes)};
#define SUM(member) FIELD(trace_sample_sum, member)
static const struct record_field sum_fields[] = {SUM(site),           SUM(samples),
						 SUM(bytes),          SUM(objects),
						 SUM(bytes_variance), SUM(objects_variance)};
#define HEAD(member) FIELD(trace_samples, member)
static const struct record_field head_fields[] = {HEAD(process), HEAD(time_ns), HEAD(rate_bytes),
						  HEAD(on), HEAD(peak_time_ns)};

static void put_blocks(struct byte_buffer *b, const struct trace_sample *blocks, uint32_t count)
{
	uint64_t last = 0;
	buffer_put(b, count);
	for (uint32_t i = 0; i < count; i++) {
		fields_put(b, &blocks[i], sample_fields, FIELD_COUNT(sample_fields));
		buffer_put(b, zigzag((int64_t)(blocks[i].birth_ns - last)));
		last = blocks[i].birth_ns;
	}
}

static const char *get_blocks(struct byte_cursor *c, struct trace_sample **blocks, uint32_t *count,
			      uint32_t site_limit)
{
	uint64_t last = 0;
	uint32_t n = (uint32_t)cursor_get_max(c, LIVE_MOST);
	if (c->bad || n > cursor_left(c) / 5)
		return "as many samples as it says";
	*blocks = calloc((size_t)n + 1, sizeof **blocks);
	if (!*blocks)
		return "enough memory for its samples";
	for (uint32_t i = 0; i < n; i++) {
		struct trace_sample *s = &(*blocks)[i];
		fields_get(c, s, sample_fields, FIELD_COUNT(sample_fields));
		s->birth_ns = last += (uint64_t)unzigzag(cursor_get(c));
		if (c->bad || s->site >= site_limit || s->size >> 48)
			return "samples of sites that are defined";
	}
	*count = n;
	return NULL;
}

static void put_progress(struct byte_buffer *b, const struct trace_sample *blocks, uint32_t count)
{
	uint64_t last = 0;
	for (uint32_t i = 0; i < count; i++) {
		buffer_put(b, zigzag((int64_t)(blocks[i].progress_bytes - last)));
		last = blocks[i].progress_bytes;
	}
}

static void get_progress(struct byte_cursor *c, struct trace_sample *blocks, uint32_t count)
{
	uint64_t last = 0;
	for (uint32_t i = 0; i < count; i++)
		blocks[i].progress_bytes = last += (uint64_t)unzigzag(cursor_get(c));
}

void trace_samples_put(struct byte_buffer *b, const struct trace_samples *s)
{
	fields_put(b, s, head_fields, FIELD_COUNT(head_fields));
	put_blocks(b, s->live, s->live_count);
	put_blocks(b, s->peak, s->peak_count);
	buffer_put(b, s->sum_count);
	for (uint32_t i = 0; i < s->sum_count; i++)
		fields_put(b, &s->sums[i], sum_fields, FIELD_COUNT(sum_fields));
	buffer_put(b, s->progress_bytes);
	put_progress(b, s->live, s->live_count);
	put_progress(b, s->peak, s->peak_count);
}

const char *trace_samples_get(struct byte_cursor *c, struct trace_samples *s, uint32_t site_limit,
			      uint32_t process_limit)
{
	fields_get(c, s, head_fields, FIELD_COUNT(head_fields));
	if (c->bad || s->process >= process_limit)
		return "samples of a process that is defined";
	const char *expected = get_blocks(c, &s->live, &s->live_count, site_limit);
	if (!expected)
		expected = get_blocks(c, &s->peak, &s->peak_count, site_limit);
	if (expected)
		return expected;
	uint32_t n = (uint32_t)cursor_get_max(c, SUMS_MOST);
	if (c->bad || n > cursor_left(c) / 6)
		return "as many sums as it says";
	s->sums = calloc((size_t)n + 1, sizeof *s->sums);
	if (!s->sums)
		return "enough memory for its sums";
	for (uint32_t i = 0; i < n; i++) {
		fields_get(c, &s->sums[i], sum_fields, FIELD_COUNT(sum_fields));
		if (c->bad || s->sums[i].site >= site_limit)
			return "sums of sites that are defined";
	}
	s->sum_count = n;
	if (c->at == c->end) /* version 3 and earlier */
		return NULL;
	s->progress_bytes = cursor_get(c);
	get_progress(c, s->live, s->live_count);
	get_progress(c, s->peak, s->peak_count);
	return !c->bad && c->at == c->end ? NULL : "samples as long as their block";
}

/* ---- the peak of several processes */

void trace_peak_fini(struct trace_peak *p)
{
	for (uint32_t i = 0; i < p->part_count; i++)
		if (p->parts[i].own)
			free(p->parts[i].samples);
	free(p->parts);
	memset(p, 0, sizeof *p);
}

void trace_peak_put(struct byte_buffer *b, const struct trace_peak *p)
{
	buffer_put(b, p->time_ns);
	buffer_put(b, p->part_count);
	for (uint32_t i = 0; i < p->part_count; i++) {
		buffer_put(b, p->parts[i].process);
		put_blocks(b, p->parts[i].samples, p->parts[i].count);
	}
}

/* The numbers of processes must rise, so that none is there twice. */
const char *trace_peak_get(struct byte_cursor *c, struct trace_peak *p, uint32_t site_limit,
			   uint32_t process_limit)
{
	p->time_ns = cursor_get(c);
	uint32_t n = (uint32_t)cursor_get_max(c, process_limit);
	if (c->bad || n > cursor_left(c) / 2)
		return "a peak of as many processes as it says";
	p->parts = calloc((size_t)n + 1, sizeof *p->parts);
	if (!p->parts)
		return "enough memory for its peak";
	for (uint32_t i = 0; i < n; i++) {
		struct trace_peak_part *part = &p->parts[p->part_count++];
		uint64_t process = cursor_get(c);
		part->own = true;
		if (c->bad || process >= process_limit || (i && process <= p->parts[i - 1].process))
			return "a peak of processes that are defined, in their order";
		part->process = (uint32_t)process;
		const char *expected = get_blocks(c, &part->samples, &part->count, site_limit);
		if (expected)
			return expected;
	}
	return c->at == c->end ? NULL : "a peak as long as its block";
}
