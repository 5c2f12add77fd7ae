/* What is mapped, by call stack.
 *
 * glibc maps a large block by itself, and no call shows that. But its usable size does:
 * it is a number of whole pages less 16 bytes, where all other blocks have 8 more than a
 * multiple of 16. So events of such blocks stand for calls of mmap, mremap and munmap.
 * They have no addresses, and need none: a block is all that is in its mapping.
 *
 * Sums are a tally of their own: memory that is mapped is an allocation there, and the
 * peak is found as that of blocks is. Nothing of it gets into the sums of blocks. */
#include "profile/trace_mapped.h"

#include "hosted/compare.h"
#include "hosted/vector.h"
#include "profile/trace_load.h"
#include "tally/mapped_memory.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, BEFORE_BLOCK = 16 };

/* ---- the calls */

struct walk {
	const struct trace_contents *c;
	bool *glibc; /* by process */
	struct {
		struct trace_mapping *items;
		size_t count, capacity;
	} derived;
	size_t next; /* of those */
	trace_mapping_fn *each;
	void *ctx;
	bool any;
};

static int find_glibc(void *ctx, const struct trace_mapping *m)
{
	struct walk *w = ctx;
	uint32_t process = w->c->threads[m->thread].process;
	if (m->call == TRACE_MAP_GLIBC && process < w->c->process_count)
		w->glibc[process] = w->any = true;
	return 0;
}

/* The bytes of the mapping that the block has to itself; 0: it has none. */
static uint64_t own_mapping(uint64_t size, uint32_t slack)
{
	uint64_t usable = size + slack;
	return usable % PAGE == PAGE - BEFORE_BLOCK ? usable + BEFORE_BLOCK : 0;
}

static int derive(void *ctx, const struct trace_event *events, size_t count)
{
	struct walk *w = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct trace_event *e = &events[i];
		if (!trace_event_is_valid(w->c, e))
			return HEFT_EFORMAT;
		uint32_t process = w->c->threads[e->thread].process;
		if (e->op == TRACE_GONE || process >= w->c->process_count || !w->glibc[process] ||
		    e->flags & TRACE_SLACK_UNKNOWN)
			continue;
		uint64_t bytes = own_mapping(e->size, e->slack);
		uint64_t old = e->op == TRACE_REALLOC ? own_mapping(e->old_size, e->old_slack) : 0;
		if (bytes == old)
			continue;
		struct trace_mapping *m = vector_add(&w->derived);
		if (!m)
			return HEFT_ENOMEM;
		*m = (struct trace_mapping){
			.time_ns = e->time_ns,
			.began_ns = e->time_ns,
			.bytes = bytes,
			.thread = e->thread,
			.site = e->site,
			.old_site = e->site,
			.origin = TRACE_MAP_DERIVED,
			.call = e->op == TRACE_FREE ? TRACE_MAP_MUNMAP : TRACE_MAP_MMAP,
		};
		if (!old)
			continue;
		m->call = bytes ? TRACE_MAP_MREMAP : TRACE_MAP_MUNMAP;
		m->bytes = bytes ? bytes : old;
		m->old_bytes = old;
		m->old_site = e->old_site;
	}
	return 0;
}

/* Hands on what was derived, up to a time. */
static int hand_on(struct walk *w, uint64_t to_ns)
{
	int rc = 0;
	while (rc >= 0 && w->next < w->derived.count && w->derived.items[w->next].time_ns <= to_ns)
		rc = w->each(w->ctx, &w->derived.items[w->next++]);
	return rc < 0 ? rc : 0;
}

static int in_order(void *ctx, const struct trace_mapping *m)
{
	struct walk *w = ctx;
	int rc = hand_on(w, m->time_ns);
	return rc || m->call == TRACE_MAP_GLIBC ? rc : w->each(w->ctx, m);
}

int trace_mapped_each(struct trace_reader *r, trace_mapping_fn *each, void *ctx,
		      struct heft_error *err)
{
	const struct trace_contents *c = trace_reader_contents(r);
	struct walk w = {.c = c, .each = each, .ctx = ctx};
	w.glibc = calloc((size_t)c->process_count + 1, sizeof *w.glibc);
	int rc = w.glibc ? trace_reader_mappings(r, find_glibc, &w, err) : HEFT_ENOMEM;
	if (rc == 0 && w.any)
		rc = trace_reader_events(r, 0, UINT64_MAX, derive, &w, err);
	if (rc == 0)
		rc = trace_reader_mappings(r, in_order, &w, err);
	if (rc == 0)
		rc = hand_on(&w, UINT64_MAX);
	free(w.glibc);
	free(w.derived.items);
	return rc;
}

/* ---- their sums */

struct ending {
	uint64_t end_ns;
	uint32_t process;
};

struct summing {
	struct load *l;
	struct mapped_memory **memory; /* by process */
	struct ending *endings;        /* of processes, the first one first */
	uint32_t ending_count, next_ending;
	uint64_t time_ns;
	bool gone;      /* the process has ended */
	bool *has_left; /* by process: it has ended, and what comes is late */
};

static int compare_endings(const void *a, const void *b)
{
	const struct ending *x = a, *y = b;
	return compare_numbers(x->end_ns, y->end_ns);
}

static void add(struct summing *s, enum trace_op op, uint64_t bytes, uint32_t site, uint32_t thread)
{
	const struct trace_event e = {
		.time_ns = s->time_ns,
		.size = bytes,
		.site = site,
		.thread = thread,
		.birth_thread = thread,
		.op = (uint8_t)op,
	};
	if (s->l->threads[thread])
		tally_apply(&s->l->mapped, &e, 1);
}

static int piece_changed(void *ctx, const struct mapped_piece *piece, bool added)
{
	struct summing *s = ctx;
	add(s,
	    s->gone ? TRACE_GONE
	    : added ? TRACE_ALLOC
		    : TRACE_FREE,
	    piece->end - piece->start, piece->site, piece->thread);
	return 0;
}

/* Large blocks: their mappings end with them, or with their process. */
static void sum_derived(struct summing *s, const struct trace_mapping *m)
{
	if (m->call != TRACE_MAP_MMAP)
		add(s, TRACE_FREE, m->old_bytes ? m->old_bytes : m->bytes, m->old_site, m->thread);
	if (m->call != TRACE_MAP_MUNMAP)
		add(s, TRACE_ALLOC, m->bytes, m->site, m->thread);
}

static int end_processes(struct summing *s, uint64_t before_ns)
{
	int rc = 0;
	for (; rc == 0 && s->next_ending < s->ending_count &&
	       s->endings[s->next_ending].end_ns < before_ns;
	     s->next_ending++) {
		uint32_t process = s->endings[s->next_ending].process;
		s->gone = true;
		s->time_ns = s->endings[s->next_ending].end_ns;
		s->has_left[process] = true;
		if (s->memory[process])
			rc = mapped_memory_each(s->memory[process], piece_changed, s);
		mapped_memory_free(s->memory[process]);
		s->memory[process] = NULL;
		s->gone = false;
	}
	return rc;
}

static int sum_call(void *ctx, const struct trace_mapping *m)
{
	struct summing *s = ctx;
	uint32_t process = s->l->c->threads[m->thread].process;
	int rc = end_processes(s, m->time_ns);
	if (rc || process >= s->l->c->process_count || s->has_left[process])
		return rc;
	s->time_ns = m->time_ns;
	if (!s->l->map_calls[m->site])
		s->l->map_calls[m->site] = (uint8_t)(m->call + 1);
	if (m->origin == TRACE_MAP_DERIVED && m->call != TRACE_MAP_BRK) {
		sum_derived(s, m);
		return 0;
	}
	if (!s->memory[process] && !(s->memory[process] = mapped_memory_new()))
		return HEFT_ENOMEM;
	return mapped_memory_apply(s->memory[process], m, piece_changed, s);
}

static int find_endings(struct summing *s)
{
	const struct trace_contents *c = s->l->c;
	s->endings = malloc(((size_t)c->process_count + 1) * sizeof *s->endings);
	if (!s->endings)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->process_count; i++)
		if (c->processes[i].end != TRACE_END_RUNNING)
			s->endings[s->ending_count++] = (struct ending){c->processes[i].end_ns, i};
	qsort(s->endings, s->ending_count, sizeof *s->endings, compare_endings);
	return 0;
}

int trace_load_mapped(struct load *l)
{
	const struct trace_contents *c = l->c;
	if (!l->sel->mapped || l->split || !l->reader || !c->mappings)
		return 0;
	if (l->sel->has_window)
		return heft_fail(l->err, HEFT_EREFUSED,
				 "mapped memory is known of the whole run, not of a part of it\n"
				 "leave --from, --to and --at out");
	struct summing s = {
		.l = l,
		.memory = calloc((size_t)c->process_count + 1, sizeof *s.memory),
		.has_left = calloc((size_t)c->process_count + 1, sizeof *s.has_left),
	};
	l->map_calls = calloc((size_t)c->site_count + 1, sizeof *l->map_calls);
	int rc = s.memory && s.has_left && l->map_calls &&
				 !tally_reserve(&l->mapped, c->site_count, c->thread_count)
			 ? find_endings(&s)
			 : HEFT_ENOMEM;
	if (rc == 0)
		rc = trace_mapped_each(l->reader, sum_call, &s, l->err);
	if (rc == 0)
		rc = end_processes(&s, UINT64_MAX);
	for (uint32_t i = 0; s.memory && i < c->process_count; i++)
		mapped_memory_free(s.memory[i]);
	free(s.memory);
	free(s.has_left);
	free(s.endings);
	tally_update_peaks(&l->mapped);
	l->p->run.has |= PROFILE_HAS_MAPPED;
	return rc;
}
