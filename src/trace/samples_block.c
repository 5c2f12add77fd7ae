/* Samples as the payload of a block: numbers as varints, times as differences,
 * floating-point sums by their bits. Counts are compared with what is left before
 * anything is allocated. */
#include "trace/samples_block.h"

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

static void put_double(struct byte_buffer *b, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	buffer_put(b, bits);
}

/* Never negative, never beyond reason, never not a number. */
static double get_double(struct byte_cursor *c)
{
	double value;
	uint64_t bits = cursor_get(c);
	memcpy(&value, &bits, sizeof value);
	if (!(value >= 0 && value < 1e38))
		c->bad = true;
	return c->bad ? 0 : value;
}

static void put_blocks(struct byte_buffer *b, const struct trace_sample *blocks, uint32_t count)
{
	uint64_t last = 0;
	buffer_put(b, count);
	for (uint32_t i = 0; i < count; i++) {
		buffer_put(b, blocks[i].site);
		buffer_put(b, zigzag(blocks[i].tid));
		buffer_put(b, blocks[i].size);
		buffer_put(b, blocks[i].rate_bytes);
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
		uint64_t site = cursor_get(c);
		s->site = (uint32_t)site;
		s->tid = (int32_t)unzigzag(cursor_get(c));
		s->size = cursor_get(c);
		s->rate_bytes = cursor_get(c);
		s->birth_ns = last += (uint64_t)unzigzag(cursor_get(c));
		if (c->bad || site >= site_limit || s->size >> 48)
			return "samples of sites that are defined";
	}
	*count = n;
	return NULL;
}

void trace_samples_put(struct byte_buffer *b, const struct trace_samples *s)
{
	buffer_put(b, s->process);
	buffer_put(b, s->time_ns);
	buffer_put(b, s->rate_bytes);
	buffer_put(b, s->on);
	buffer_put(b, s->peak_time_ns);
	put_blocks(b, s->live, s->live_count);
	put_blocks(b, s->peak, s->peak_count);
	buffer_put(b, s->sum_count);
	for (uint32_t i = 0; i < s->sum_count; i++) {
		const struct trace_sample_sum *x = &s->sums[i];
		buffer_put(b, x->site);
		buffer_put(b, x->samples);
		put_double(b, x->bytes);
		put_double(b, x->objects);
		put_double(b, x->bytes_variance);
		put_double(b, x->objects_variance);
	}
}

const char *trace_samples_get(struct byte_cursor *c, struct trace_samples *s, uint32_t site_limit,
			      uint32_t process_limit)
{
	uint64_t process = cursor_get(c);
	s->time_ns = cursor_get(c);
	s->rate_bytes = cursor_get(c);
	s->on = cursor_get(c) != 0;
	s->peak_time_ns = cursor_get(c);
	if (c->bad || process >= process_limit)
		return "samples of a process that is defined";
	s->process = (uint32_t)process;
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
		struct trace_sample_sum *x = &s->sums[i];
		uint64_t site = cursor_get(c);
		x->site = (uint32_t)site;
		x->samples = cursor_get(c);
		x->bytes = get_double(c);
		x->objects = get_double(c);
		x->bytes_variance = get_double(c);
		x->objects_variance = get_double(c);
		if (c->bad || site >= site_limit)
			return "sums of sites that are defined";
	}
	s->sum_count = n;
	return c->at == c->end ? NULL : "samples as long as their block";
}

/* ---- of several processes */

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

/* Processes rise, so that none is there twice. */
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
