/* Tallies in the file: one column for each number, sites one after the other,
 * so that the many zeros and the likeness of neighbours compress well. A column holds
 * the difference to what the number probably is, given those before it (a site's frees
 * are its allocations less what is left): with 100,000 sites, most of them seen once,
 * that saves two thirds of a recording's tally.
 *
 * A reader that starts at a checkpoint must go on exactly as if the tally had never
 * been written, so it holds live numbers, own peaks, and what each site contributes to
 * the peak. tally_update_peaks comes before the writing: then every site is at the
 * tally's epoch, and only that one number is stored. */
#include "trace/tally_block.h"

#include "hosted/error.h"
#include "trace/events_block.h"
#include "trace/trace_block.h"

#include <stddef.h>
#include <stdio.h>

/* ---- what a number will probably be, from fields that stand before it; any input is allowed, since a
 * reader does this to hostile ones: differences wrap */

static uint64_t mean(uint64_t sum, uint64_t count)
{
	return count ? sum / count : 0;
}

static uint64_t bytes_of(const struct tally_site *s, uint64_t blocks)
{
	return blocks == s->allocations ? s->allocated_bytes
					: blocks * mean(s->allocated_bytes, s->allocations);
}

static uint64_t slack_of(uint64_t bytes, uint64_t blocks)
{
	return blocks * slack_guess(mean(bytes, blocks));
}

static uint64_t ended(const struct tally_site *s)
{
	return s->frees + s->end_blocks;
}

static uint64_t likely_frees(const struct tally_site *s)
{
	return s->allocations - s->end_blocks - s->live_blocks;
}

static uint64_t likely_end_bytes(const struct tally_site *s)
{
	return bytes_of(s, s->end_blocks);
}

static uint64_t likely_live_bytes(const struct tally_site *s)
{
	return bytes_of(s, s->live_blocks);
}

static uint64_t likely_end_slack(const struct tally_site *s)
{
	return slack_of(s->end_bytes, s->end_blocks);
}

static uint64_t likely_live_slack(const struct tally_site *s)
{
	return slack_of(s->live_bytes, s->live_blocks);
}

static uint64_t likely_own_peak_bytes(const struct tally_site *s)
{
	uint64_t left = s->end_bytes + s->live_bytes,
		 one = mean(s->allocated_bytes, s->allocations);
	return left > one ? left : one;
}

static uint64_t likely_peak_blocks(const struct tally_site *s)
{
	return s->end_blocks + s->live_blocks;
}

static uint64_t likely_peak_bytes(const struct tally_site *s)
{
	return s->peak_blocks == s->end_blocks + s->live_blocks ? s->end_bytes + s->live_bytes
								: bytes_of(s, s->peak_blocks);
}

static uint64_t likely_peak_slack(const struct tally_site *s)
{
	return s->peak_blocks == s->end_blocks + s->live_blocks
		       ? s->end_slack + s->live_slack
		       : slack_of(s->peak_bytes, s->peak_blocks);
}

static uint64_t likely_lifetime_max_ns(const struct tally_site *s)
{
	return mean(s->lifetime_sum_ns, ended(s));
}

/* A number of a tally. The tables have the order of the file. */
struct tally_field {
	size_t offset;
	const char *name;
	bool exact; /* not touched by the rounding of times */
	uint64_t (*likely)(const struct tally_site *s);
};
#define SITE(field) {offsetof(struct tally_site, field), #field, true, NULL}
#define SITE_LIKELY(field) {offsetof(struct tally_site, field), #field, true, likely_##field}
static const struct tally_field site_fields[] = {
	SITE(allocations),
	SITE(allocated_bytes),
	SITE(end_blocks),
	SITE(live_blocks),
	SITE(reallocations),
	SITE(reallocated_bytes),
	SITE_LIKELY(frees),
	SITE(temporary),
	SITE(cross_thread_frees),
	SITE_LIKELY(end_bytes),
	SITE_LIKELY(live_bytes),
	SITE_LIKELY(end_slack),
	SITE_LIKELY(live_slack),
	SITE_LIKELY(own_peak_bytes),
	SITE_LIKELY(peak_blocks),
	SITE_LIKELY(peak_bytes),
	SITE_LIKELY(peak_slack),
	{offsetof(struct tally_site, lifetime_sum_ns), "lifetime_sum_ns", false, NULL},
	{offsetof(struct tally_site, lifetime_max_ns), "lifetime_max_ns", false,
	 likely_lifetime_max_ns},
};
#define THREAD(field) {offsetof(struct tally_thread, field), #field, true, NULL}
static const struct tally_field thread_fields[] = {
	THREAD(allocations),
	THREAD(allocated_bytes),
	THREAD(reallocations),
	THREAD(frees),
};
#define TOTAL(field) {offsetof(struct tally, field), #field, true, NULL}
#define TOTAL_ROUNDED(field) {offsetof(struct tally, field), #field, false, NULL}
static const struct tally_field total_fields[] = {
	TOTAL(live_bytes),  TOTAL(live_blocks),          TOTAL(peak_bytes),
	TOTAL(peak_blocks), TOTAL_ROUNDED(peak_time_ns), TOTAL(events),
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

/* The bucket of the longest life holds something if anything has ended. */
static uint64_t likely_mask(const struct tally_site *s)
{
	unsigned bits = 64u - (unsigned)__builtin_clzll(s->lifetime_max_ns | 1);
	unsigned bucket = bits < 9 ? 0 : bits - 9;
	return ended(s) ? 1ull << (bucket < TALLY_BUCKETS ? bucket : TALLY_BUCKETS - 1) : 0;
}

/* Histograms are sparse: which buckets, then what is in them; in the last one, what is left. */
static void put_lifetimes(struct byte_buffer *b, const struct tally_site *s)
{
	uint64_t mask = 0, left = ended(s);
	for (int i = 0; i < TALLY_BUCKETS; i++)
		mask |= (uint64_t)(s->lifetime[i] != 0) << i;
	if (!buffer_reserve(b, (TALLY_BUCKETS + 1) * PREFIX_MAX))
		return;
	uint8_t *p = prefix_put(b->data + b->len, mask ^ likely_mask(s));
	for (; mask; mask &= mask - 1) {
		uint32_t count = s->lifetime[__builtin_ctzll(mask)];
		bool last = (mask & (mask - 1)) == 0;
		p = prefix_put(p, last ? zigzag((int64_t)(count - left)) : count);
		left -= count;
	}
	b->len = (size_t)(p - b->data);
}

static void get_lifetimes(struct byte_cursor *c, struct tally_site *s)
{
	uint64_t left = ended(s);
	uint64_t mask = cursor_get_max(c, (1ull << TALLY_BUCKETS) - 1) ^ likely_mask(s);
	for (; mask && !c->bad; mask &= mask - 1) {
		bool last = (mask & (mask - 1)) == 0;
		uint64_t count = cursor_get(c);
		if (last)
			count = left + (uint64_t)unzigzag(count);
		if (count > UINT32_MAX)
			c->bad = true;
		s->lifetime[__builtin_ctzll(mask)] = (uint32_t)count;
		left -= count;
	}
}

/* All columns in one pass over the sites: a site is several cache lines, and 100,000 of them fit no
 * cache. Each column gets space for the worst case, then they are moved together. */
static bool put_site_fields(struct byte_buffer *b, const struct tally_site *sites, uint32_t count)
{
	size_t column = (size_t)count * PREFIX_MAX + PREFIX_SCRATCH; /* bytes, at worst */
	uint8_t *at[LENGTH(site_fields)];
	if (!buffer_reserve(b, column * LENGTH(site_fields)))
		return false;
	uint8_t *base = b->data + b->len;
	for (size_t i = 0; i < LENGTH(site_fields); i++)
		at[i] = base + i * column;
	for (uint32_t j = 0; j < count; j++) {
		const struct tally_site *s = &sites[j];
		for (size_t i = 0; i < LENGTH(site_fields); i++) {
			uint64_t value = field(s, site_fields[i].offset);
			if (site_fields[i].likely)
				value = zigzag((int64_t)(value - site_fields[i].likely(s)));
			at[i] = prefix_put(at[i], value);
		}
	}
	uint8_t *end = at[0];
	for (size_t i = 1; i < LENGTH(site_fields); i++) {
		size_t bytes = (size_t)(at[i] - (base + i * column));
		memmove(end, base + i * column, bytes);
		end += bytes;
	}
	b->len = (size_t)(end - b->data);
	return true;
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
	if (!put_site_fields(b, sites ? &t->sites[site] : NULL, sites))
		return;
	for (uint32_t j = 0; j < sites; j++)
		put_lifetimes(b, &t->sites[site + j]);
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
	if (c->bad || part >= parts ||
	    cursor_left(c) <
		    (size_t)sites * LENGTH(site_fields) + (size_t)threads * LENGTH(thread_fields))
		return "a tally as long as its sites and threads";
	if (tally_reserve(t, site_count, thread_count))
		return "enough memory for its sites";
	if (parts != tally_block_parts(t))
		return "as many parts as the tally needs";

	for (size_t i = 0; i < LENGTH(site_fields); i++) {
		for (uint32_t j = 0; j < sites; j++) {
			struct tally_site *s = &t->sites[site + j];
			uint64_t value = cursor_get(c);
			if (site_fields[i].likely)
				value = site_fields[i].likely(s) + (uint64_t)unzigzag(value);
			set_field(s, site_fields[i].offset, value);
		}
	}
	for (uint32_t j = 0; j < sites; j++) {
		get_lifetimes(c, &t->sites[site + j]);
		t->sites[site + j].peak_epoch = t->peak_epoch;
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

/* Compares two records; NULL: they agree. Fields that are not exact are skipped if tick_ns is 0. */
static const char *compare(const char *what, uint32_t id, const void *x, const void *y,
			   const struct tally_field *fields, size_t count, uint64_t tick_ns)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t is = field(x, fields[i].offset), should = field(y, fields[i].offset);
		if (!fields[i].exact)
			is = tick_ns ? is / tick_ns * tick_ns : should;
		if (is != should)
			return differs(what, id, fields[i].name, field(x, fields[i].offset),
				       should);
	}
	return NULL;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

const char *tally_block_difference(const struct tally *a, const struct tally *b, uint64_t tick_ns)
{
	static const struct tally_site no_site;
	static const struct tally_thread no_thread;
	const char *wrong = compare("", UINT32_MAX, a, b, total_fields, LENGTH(total_fields),
				    tick_ns);
	uint32_t sites = a->site_count > b->site_count ? a->site_count : b->site_count;
	for (uint32_t j = 0; j < sites && !wrong; j++) {
		const struct tally_site *x = j < a->site_count ? &a->sites[j] : &no_site;
		const struct tally_site *y = j < b->site_count ? &b->sites[j] : &no_site;
		wrong = compare("site", j, x, y, site_fields, LENGTH(site_fields), 0);
		/* Rounding both birth and end moves a lifetime by less than a tick. */
		uint64_t far = distance(x->lifetime_sum_ns, y->lifetime_sum_ns);
		if (!wrong && far && far / tick_ns >= ended(x))
			wrong = differs("site", j, "lifetime_sum_ns about", x->lifetime_sum_ns,
					y->lifetime_sum_ns);
		if (!wrong && distance(x->lifetime_max_ns, y->lifetime_max_ns) >= tick_ns)
			wrong = differs("site", j, "lifetime_max_ns about", x->lifetime_max_ns,
					y->lifetime_max_ns);
	}
	uint32_t threads = a->thread_count > b->thread_count ? a->thread_count : b->thread_count;
	for (uint32_t j = 0; j < threads && !wrong; j++)
		wrong = compare("thread", j, j < a->thread_count ? &a->threads[j] : &no_thread,
				j < b->thread_count ? &b->threads[j] : &no_thread, thread_fields,
				LENGTH(thread_fields), 0);
	return wrong;
}
