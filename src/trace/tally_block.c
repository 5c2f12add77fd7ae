/* Tallies in the file: one column for each number, sites one after the other,
 * so that the many zeros and the likeness of neighbours compress well.
 *
 * A checkpoint must allow to go on exactly as if the tally had never been
 * written: live numbers, own peaks, and for the peak the contributions saved so
 * far. Tallies are settled before they are written, so every site is at the
 * tally's epoch, and only that one number is stored. */
#include "trace/tally_block.h"

#include "hosted/error.h"
#include "trace/trace_block.h"

#include <stddef.h>
#include <stdio.h>

#define SITE(field) {offsetof(struct tally_site, field), #field, true}
#define SITE_ROUNDED(field) {offsetof(struct tally_site, field), #field, false}
/* The order is the file's. */
static const struct {
	size_t offset;
	const char *name;
	bool exact; /* not touched by the rounding of times */
} site_fields[] = {
	SITE(allocations), SITE(allocated_bytes), SITE(live_bytes), SITE(live_blocks),
	SITE(peak_bytes), SITE(peak_blocks), SITE(peak_slack), SITE(own_peak_bytes), SITE(frees), SITE(temporary),
	SITE(cross_thread_frees), SITE(reallocations), SITE(reallocated_bytes), SITE(end_bytes),
	SITE(end_blocks), SITE(live_slack), SITE(end_slack), SITE_ROUNDED(lifetime_sum_ns),
	SITE_ROUNDED(lifetime_max_ns),
};
#define THREAD(field) {offsetof(struct tally_thread, field), #field}
static const struct { size_t offset; const char *name; } thread_fields[] = {
	THREAD(allocations), THREAD(allocated_bytes), THREAD(reallocations), THREAD(frees),
};
#define TOTAL(field) {offsetof(struct tally, field), #field, true}
#define TOTAL_ROUNDED(field) {offsetof(struct tally, field), #field, false}
static const struct { size_t offset; const char *name; bool exact; } total_fields[] = {
	TOTAL(live_bytes), TOTAL(live_blocks), TOTAL(peak_bytes), TOTAL(peak_blocks),
	TOTAL_ROUNDED(peak_time_ns), TOTAL(events),
};
#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static uint64_t field(const void *base, size_t offset)
{
	uint64_t value;
	memcpy(&value, (const char *)base + offset, sizeof value);
	return value;
}

static void set_field(void *base, size_t offset, uint64_t value)
{
	memcpy((char *)base + offset, &value, sizeof value);
}

static uint32_t parts_of(uint32_t count)
{
	return count / TRACE_TALLY_PART + (count % TRACE_TALLY_PART != 0);
}

uint32_t tally_block_parts(const struct tally *t)
{
	uint32_t sites = parts_of(t->site_count), threads = parts_of(t->thread_count);
	uint32_t parts = sites > threads ? sites : threads;
	return parts ? parts : 1;
}

/* The range of part `part` of `count` things; returns how many. */
static uint32_t range(uint32_t count, uint32_t part, uint32_t *first)
{
	uint64_t from = (uint64_t)part * TRACE_TALLY_PART;
	*first = from < count ? (uint32_t)from : count;
	uint32_t left = count - *first;
	return left < TRACE_TALLY_PART ? left : TRACE_TALLY_PART;
}

void tally_block_put(struct byte_buffer *b, const struct tally *t, uint32_t part)
{
	uint32_t site, thread;
	uint32_t sites = range(t->site_count, part, &site);
	uint32_t threads = range(t->thread_count, part, &thread);

	buffer_put(b, part);
	buffer_put(b, tally_block_parts(t));
	buffer_put(b, t->site_count);
	buffer_put(b, t->thread_count);
	if (part == 0) {
		for (size_t i = 0; i < LENGTH(total_fields); i++)
			buffer_put(b, field(t, total_fields[i].offset));
		buffer_put(b, t->peak_epoch);
	}
	for (size_t i = 0; i < LENGTH(site_fields); i++) {
		if (!buffer_reserve(b, (size_t)sites * PREFIX_MAX))
			return;
		uint8_t *p = b->data + b->len;
		for (uint32_t j = 0; j < sites; j++)
			p = prefix_put(p, field(&t->sites[site + j], site_fields[i].offset));
		b->len = (size_t)(p - b->data);
	}
	/* Histograms are sparse: which buckets, then what is in them. */
	for (uint32_t j = 0; j < sites; j++) {
		const struct tally_site *s = &t->sites[site + j];
		uint64_t mask = 0;
		for (int i = 0; i < TALLY_BUCKETS; i++)
			mask |= (uint64_t)(s->lifetime[i] != 0) << i;
		if (!buffer_reserve(b, (TALLY_BUCKETS + 1) * PREFIX_MAX))
			return;
		uint8_t *p = prefix_put(b->data + b->len, mask);
		for (; mask; mask &= mask - 1)
			p = prefix_put(p, s->lifetime[__builtin_ctzll(mask)]);
		b->len = (size_t)(p - b->data);
	}
	for (size_t i = 0; i < LENGTH(thread_fields); i++) {
		for (uint32_t j = 0; j < threads; j++)
			buffer_put(b, field(&t->threads[thread + j], thread_fields[i].offset));
	}
}

const char *tally_block_get(struct byte_cursor *c, struct tally *t, uint32_t site_limit,
			    uint32_t thread_limit, uint32_t *left)
{
	uint32_t part = (uint32_t)cursor_get_max(c, UINT32_MAX);
	uint32_t parts = (uint32_t)cursor_get_max(c, UINT32_MAX);
	uint32_t site_count = (uint32_t)cursor_get_max(c, site_limit);
	uint32_t thread_count = (uint32_t)cursor_get_max(c, thread_limit);
	if (c->bad)
		return "a tally of no more sites and threads than were defined";
	uint32_t site, thread;
	uint32_t sites = range(site_count, part, &site);
	uint32_t threads = range(thread_count, part, &thread);
	if (part == 0) {
		/* Every site takes a byte in each of its columns: a lie about the number of
		 * sites of a part is found out before anything is allocated for it. */
		for (size_t i = 0; i < LENGTH(total_fields); i++)
			set_field(t, total_fields[i].offset, cursor_get(c));
		t->peak_epoch = (uint32_t)cursor_get_max(c, UINT32_MAX);
	} else if (t->site_count != site_count || t->thread_count != thread_count) {
		return "parts of one tally";
	}
	if (c->bad || part >= parts || cursor_left(c) < (size_t)sites * LENGTH(site_fields) +
							       (size_t)threads * LENGTH(thread_fields))
		return "a tally as long as its sites and threads";
	if (tally_reserve(t, site_count, thread_count))
		return "enough memory for its sites";
	if (parts != tally_block_parts(t))
		return "as many parts as the tally needs";

	for (size_t i = 0; i < LENGTH(site_fields); i++) {
		for (uint32_t j = 0; j < sites; j++)
			set_field(&t->sites[site + j], site_fields[i].offset, cursor_get(c));
	}
	for (uint32_t j = 0; j < sites; j++) {
		struct tally_site *s = &t->sites[site + j];
		uint64_t mask = cursor_get_max(c, (1ull << TALLY_BUCKETS) - 1);
		for (; mask && !c->bad; mask &= mask - 1)
			s->lifetime[__builtin_ctzll(mask)] =
				(uint32_t)cursor_get_max(c, UINT32_MAX);
		s->peak_epoch = t->peak_epoch;
	}
	for (size_t i = 0; i < LENGTH(thread_fields); i++) {
		for (uint32_t j = 0; j < threads; j++)
			set_field(&t->threads[thread + j], thread_fields[i].offset, cursor_get(c));
	}
	if (c->bad || c->at != c->end)
		return "a tally as long as its block";
	*left = parts - part - 1;
	return NULL;
}

static const char *differs(const char *what, uint32_t id, const char *name, uint64_t is,
			   uint64_t should)
{
	static _Thread_local char text[160];
	if (id == UINT32_MAX)
		snprintf(text, sizeof text, "%s %llu, but the tally says %llu", name,
			 (unsigned long long)should, (unsigned long long)is);
	else
		snprintf(text, sizeof text, "%s %llu for %s %u, but the tally says %llu", name,
			 (unsigned long long)should, what, id, (unsigned long long)is);
	return text;
}

const char *tally_block_difference(const struct tally *a, const struct tally *b, uint64_t tick_ns)
{
	static const struct tally_site no_site;
	static const struct tally_thread no_thread;

	for (size_t i = 0; i < LENGTH(total_fields); i++) {
		uint64_t x = field(a, total_fields[i].offset), y = field(b, total_fields[i].offset);
		if (total_fields[i].exact ? x != y : x / tick_ns * tick_ns != y)
			return differs("", UINT32_MAX, total_fields[i].name, x, y);
	}
	uint32_t sites = a->site_count > b->site_count ? a->site_count : b->site_count;
	for (uint32_t j = 0; j < sites; j++) {
		const struct tally_site *x = j < a->site_count ? &a->sites[j] : &no_site;
		const struct tally_site *y = j < b->site_count ? &b->sites[j] : &no_site;
		for (size_t i = 0; i < LENGTH(site_fields); i++) {
			uint64_t is = field(x, site_fields[i].offset);
			uint64_t should = field(y, site_fields[i].offset);
			if (site_fields[i].exact && is != should)
				return differs("site", j, site_fields[i].name, is, should);
		}
		/* Rounding both birth and end moves a lifetime by less than a tick. */
		uint64_t ended = x->frees + x->end_blocks;
		uint64_t far = x->lifetime_sum_ns > y->lifetime_sum_ns
				       ? x->lifetime_sum_ns - y->lifetime_sum_ns
				       : y->lifetime_sum_ns - x->lifetime_sum_ns;
		if (far && far / tick_ns >= ended)
			return differs("site", j, "lifetime_sum_ns about", x->lifetime_sum_ns,
				       y->lifetime_sum_ns);
		far = x->lifetime_max_ns > y->lifetime_max_ns
			      ? x->lifetime_max_ns - y->lifetime_max_ns
			      : y->lifetime_max_ns - x->lifetime_max_ns;
		if (far >= tick_ns)
			return differs("site", j, "lifetime_max_ns about", x->lifetime_max_ns,
				       y->lifetime_max_ns);
	}
	uint32_t threads = a->thread_count > b->thread_count ? a->thread_count : b->thread_count;
	for (uint32_t j = 0; j < threads; j++) {
		const struct tally_thread *x = j < a->thread_count ? &a->threads[j] : &no_thread;
		const struct tally_thread *y = j < b->thread_count ? &b->threads[j] : &no_thread;
		for (size_t i = 0; i < LENGTH(thread_fields); i++) {
			uint64_t is = field(x, thread_fields[i].offset);
			uint64_t should = field(y, thread_fields[i].offset);
			if (is != should)
				return differs("thread", j, thread_fields[i].name, is, should);
		}
	}
	return NULL;
}
