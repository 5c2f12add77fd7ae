/* Profiles made by hand for the tests of findings: stacks from words, behaviour from numbers. */
#ifndef HEFT_TESTS_DIAGNOSIS_FIXTURE_H
#define HEFT_TESTS_DIAGNOSIS_FIXTURE_H

#include "profile/user_frame.h"
#include "findings/finding.h"
#include "unit_test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS 1000000u
#define SECOND 1000000000u

static uint32_t fixture_module; /* the program's own */

static inline struct profile *new_profile(uint64_t duration_ns)
{
	struct profile *p = profile_new();
	uint32_t libc;
	assert_non_null(p);
	assert_int_equal(profile_add_module(p, "/usr/lib/libc.so.6", NULL, 0, &libc), 0);
	assert_int_equal(profile_add_module(p, "/home/prog", NULL, 0, &fixture_module), 0);
	p->run.duration_ns = duration_ns;
	p->run.end = PROFILE_END_EXIT;
	return p;
}

/* "main:12 conn_new:41": outermost first. A name with "+0x" has no file. */
static inline uint32_t stack(struct profile *p, const char *words)
{
	uint32_t node = PROFILE_NONE;
	char copy[1024], *rest;
	snprintf(copy, sizeof copy, "%s", words);
	for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		char *colon = strrchr(word, ':');
		struct profile_frame f = {.module = fixture_module};
		if (colon) {
			*colon = 0;
			f.line = (uint32_t)atoi(colon + 1);
			f.file = name_pool_add(p->names, "/home/src/prog.c");
		}
		f.function = name_pool_add(p->names, word);
		uint32_t frame;
		assert_int_equal(profile_add_frame(p, &f, &frame), 0);
		assert_int_equal(profile_add_node(p, node, frame, 0, &node), 0);
	}
	return node;
}

/* Blocks that are all live at the peak and at the end. Pointers hold until the next site. */
static inline struct profile_site *add_site(struct profile *p, const char *words, uint64_t blocks,
					    uint64_t bytes_each)
{
	uint32_t id;
	assert_int_equal(profile_add_site(p, stack(p, words), PROFILE_VIA_MALLOC, &id), 0);
	struct profile_site *s = &p->sites[id];
	s->merged = 1;
	s->allocations = s->peak_blocks = s->live_blocks = blocks;
	s->allocated_bytes = s->peak_bytes = s->own_peak_bytes = s->live_bytes = blocks *
										 bytes_each;
	return s;
}

static inline void all_freed(struct profile_site *s)
{
	s->frees = s->allocations;
	s->live_blocks = s->live_bytes = 0;
}

static inline uint32_t add_thread(struct profile *p, const char *name)
{
	struct profile_thread t = {.pid = 1,
				   .tid = (int32_t)p->thread_count + 1,
				   .name = name_pool_add(p->names, name)};
	assert_int_equal(profile_add_thread(p, &t), 0);
	return p->thread_count - 1;
}

#define APPEND(array, count)                                                                       \
	((array) = realloc((array), ((count) + 1) * sizeof *(array)),                              \
	 memset(&(array)[count], 0, sizeof *(array)), &(array)[(count)++])

/* A queue simulated item by item: born[i] and freed[i] in ns, freed by the next free one of the
 * consumers. Fills in what the recorder would have seen. */
static inline void add_handover(struct profile *p, uint32_t site, uint64_t items,
				const uint64_t *born, const uint64_t *freed, uint32_t from,
				uint32_t to)
{
	struct profile_site *s = &p->sites[site];
	uint64_t size = s->allocated_bytes / s->allocations;
	s->handover = p->behaviour.handover_count;
	struct profile_handover *h = APPEND(p->behaviour.handovers, p->behaviour.handover_count);
	h->site = site;
	h->frees = s->frees = s->cross_thread_frees = items;
	h->bytes = items * size;
	s->live_blocks = s->allocations - items;
	s->live_bytes = s->live_blocks * size;
	h->first_birth_ns = born[0];
	h->last_birth_ns = born[items - 1];
	h->first_free_ns = UINT64_MAX;
	double n = (double)items, mean_x = 0, mean_y = 0, xx = 0, xy = 0, yy = 0;
	for (uint64_t i = 0; i < items; i++) {
		assert_true(freed[i] >= born[i]);
		mean_x += (double)born[i] / n;
		mean_y += (double)(freed[i] - born[i]) / n;
		if (freed[i] < h->first_free_ns)
			h->first_free_ns = freed[i];
		if (freed[i] > h->last_free_ns)
			h->last_free_ns = freed[i];
		uint64_t waiting = 0; /* births up to this free, less frees before it */
		if (i % 16 == 0 || items < 500) {
			for (uint64_t k = 0; k < items; k++)
				waiting += born[k] <= freed[i] && freed[k] >= freed[i];
			if (waiting > h->backlog_blocks) {
				h->backlog_blocks = waiting;
				h->backlog_time_ns = freed[i];
			}
		}
	}
	/* In the order of frees, as the recorder sees them. */
	uint64_t *order = malloc(items * sizeof *order), latest = 0;
	for (uint64_t i = 0; i < items; i++) {
		uint64_t at = i;
		for (; at > 0 && freed[order[at - 1]] > freed[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
	for (uint64_t i = 0; i < items; i++) {
		uint64_t birth = born[order[i]], life = freed[order[i]] - birth;
		h->in_order += birth + life / 8 >= latest;
		if (birth > latest)
			latest = birth;
	}
	free(order);
	h->backlog_blocks += s->allocations - items;
	h->backlog_bytes = h->backlog_blocks * size;
	for (uint64_t i = 0; i < items; i++) {
		double x = (double)born[i] - mean_x, y = (double)(freed[i] - born[i]) - mean_y;
		xx += x * x;
		xy += x * y;
		yy += y * y;
	}
	h->wait_mean_ns = mean_y;
	h->wait_slope = xx > 0 ? xy / xx : 0;
	h->wait_fit = xx > 0 && yy > 0 ? xy * xy / (xx * yy) : 0;
	h->threads_first = p->behaviour.handover_threads_count;
	h->threads_count = 1;
	struct profile_handover_threads *t = APPEND(p->behaviour.handover_threads,
						    p->behaviour.handover_threads_count);
	*t = (struct profile_handover_threads){from, to, items};
	s->peak_blocks = h->backlog_blocks;
	s->peak_bytes = s->own_peak_bytes = h->backlog_bytes;
}

static inline void add_release(struct profile *p, uint32_t site, const char *words)
{
	struct profile_site *s = &p->sites[site];
	s->release_first = p->behaviour.release_count;
	s->release_count = 1;
	struct profile_release *r = APPEND(p->behaviour.releases, p->behaviour.release_count);
	*r = (struct profile_release){site, stack(p, words), 100};
}

static inline struct profile_growth *add_growth(struct profile *p, uint32_t site)
{
	p->sites[site].growth = p->behaviour.growth_count;
	struct profile_growth *g = APPEND(p->behaviour.growths, p->behaviour.growth_count);
	g->site = site;
	return g;
}

static inline void set_slots(struct profile *p, uint32_t count)
{
	p->behaviour.history.slot_count = count;
	p->behaviour.history.slot_ns = p->run.duration_ns / count;
	p->behaviour.history.bytes = calloc(count, sizeof(uint64_t));
	p->behaviour.history.blocks = calloc(count, sizeof(uint64_t));
}

static inline struct profile_history_row *add_history(struct profile *p, uint32_t site)
{
	p->sites[site].history = p->behaviour.history.row_count;
	struct profile_history_row *row = APPEND(p->behaviour.history.rows,
						 p->behaviour.history.row_count);
	row->site = site;
	row->bytes = calloc(p->behaviour.history.slot_count, sizeof(uint64_t));
	row->blocks = calloc(p->behaviour.history.slot_count, sizeof(uint64_t));
	return row;
}

/* Totals are the sums over sites, at least `peak_bytes` at the peak (the rest of the program). */
static inline struct findings *diagnose(struct profile *p, uint64_t peak_bytes)
{
	struct findings *f;
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		p->totals.allocations += s->allocations;
		p->totals.reallocations += s->reallocations;
		p->totals.frees += s->frees;
		p->totals.peak_bytes += s->peak_bytes;
		p->totals.peak_blocks += s->peak_blocks;
		p->totals.peak_slack_bytes += s->peak_slack_bytes;
		p->totals.live_bytes += s->live_bytes;
		p->sites[i].id = i + 1;
	}
	user_frame_find_machinery(p);
	if (p->totals.peak_bytes < peak_bytes)
		p->totals.peak_bytes = peak_bytes;
	assert_int_equal(findings_new(&f, p), 0);
	return f;
}

static inline const struct finding *find(const struct findings *f, enum finding_kind kind)
{
	for (uint32_t i = 0; i < findings_count(f); i++)
		if (findings_get(f, i)->kind == kind)
			return findings_get(f, i);
	return NULL;
}

static inline uint32_t count_of(const struct findings *f, enum finding_kind kind)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < findings_count(f); i++)
		count += findings_get(f, i)->kind == kind;
	return count;
}

static inline const struct evidence *evidence(const struct finding *f, const char *name)
{
	for (uint32_t i = 0; i < f->evidence_count; i++)
		if (strcmp(f->evidence[i].name, name) == 0)
			return &f->evidence[i];
	fail_msg("no evidence %s in: %s", name, f->summary);
	return NULL;
}

static inline void expect_text(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text);
}

/* The note with this text in it; fails if there is none. */
static inline const struct finding_note *note_with(const struct findings *f, const char *part)
{
	for (uint32_t i = 0; i < findings_note_count(f); i++)
		if (strstr(findings_note(f, i)->text, part))
			return findings_note(f, i);
	fail_msg("no note has \"%s\"", part);
	return NULL;
}

static inline void done(struct findings *f, struct profile *p)
{
	findings_free(f);
	profile_free(p);
}

/* One pool, which gets its call sites from add_pool_objects. */
static inline void add_pool(struct profile *p, const char *name)
{
	struct profile_pool *pool = APPEND(p->remarks.pools, p->remarks.pool_count);
	pool->name = name;
	pool->pools = 1;
}

/* Objects of 10 bytes. parts: of those that are left, so many tens from each eighth of the time, as digits. */
static inline void add_pool_objects(struct profile *p, const char *words, uint64_t objects,
				    uint64_t freed, const char *parts)
{
	struct profile_remarks *r = &p->remarks;
	struct profile_pool *pool = &r->pools[0];
	r->pool_sites = realloc(r->pool_sites, (pool->sites + 1) * sizeof *r->pool_sites);
	struct profile_pool_site *s = &r->pool_sites[pool->sites++];
	*s = (struct profile_pool_site){
		.node = stack(p, words), .objects = objects, .bytes = 10 * objects, .freed = freed};
	for (int i = 0; i < PROFILE_POOL_PARTS && parts[i]; i++) {
		s->left_parts[i] = (uint64_t)(parts[i] - '0') * 10;
		s->left_objects += s->left_parts[i];
	}
	s->left_bytes = 10 * s->left_objects;
	pool->objects += objects;
	pool->bytes += s->bytes;
	pool->freed += freed;
	pool->left_objects += s->left_objects;
	pool->left_bytes += s->left_bytes;
}

#endif
