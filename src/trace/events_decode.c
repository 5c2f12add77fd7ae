/* Decodes the columns of an events block: the mirror of events_encode.c.
 *
 * The payload is hostile. Columns lie one behind the other with slack behind
 * the last, and a batch reads at most EVENTS_READ_SLACK bytes of each, so bounds
 * are checked once per batch: if a column was overrun, its neighbour was read,
 * which gives nonsense but nothing unsafe, and the batch is then refused as a
 * whole. Numbers that are used as an index are checked at once. Functions return
 * what was expected, or NULL.
 *
 * Invariants: a site's state exists for every number below site_count; threads
 * are below thread_limit before their state is touched. */
#include "trace/events_block.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>

void events_decoder_init(struct events_decoder *d, unsigned tick_shift)
{
	memset(d, 0, offsetof(struct events_decoder, model));
	d->tick_shift = tick_shift;
}

void events_decoder_fini(struct events_decoder *d)
{
	free(d->sites);
	free(d->threads);
	memset(d, 0, offsetof(struct events_decoder, model));
}

static int reserve(struct events_decoder *d, uint32_t sites, uint32_t threads)
{
	if (sites > d->site_capacity) {
		free(d->sites);
		d->site_capacity = 0;
		d->sites = aligned_alloc(sizeof *d->sites, sites * sizeof *d->sites);
		if (!d->sites)
			return HEFT_ENOMEM;
		d->site_capacity = sites;
	}
	if (threads > d->thread_capacity) {
		free(d->threads);
		d->thread_capacity = 0;
		d->threads = calloc(threads, sizeof *d->threads);
		if (!d->threads)
			return HEFT_ENOMEM;
		d->thread_capacity = threads;
		d->epoch = 0;
	}
	return 0;
}

static const char *next_tick_run(struct events_decoder *d)
{
	uint64_t run, step = 1;
	const uint8_t *p = prefix_get(d->at[COLUMN_TICKS], &run);
	if (run & 1)
		p = prefix_get(p, &step);
	d->at[COLUMN_TICKS] = p;
	if (run >> 1 == 0)
		return "a run of at least one event in the column of ticks";
	if (step == 0 || step > (UINT64_MAX >> d->tick_shift) - d->tick)
		return "a time that does not go back and fits 64 bits";
	d->tick_left = run >> 1;
	d->tick_step = step;
	return NULL;
}

static const char *switch_thread(struct events_decoder *d)
{
	uint64_t thread = *d->at[COLUMN_THREADS]++;
	if (thread == THREAD_BEFORE)
		thread = d->previous_thread;
	else if (thread == THREAD_FOLLOWS)
		d->at[COLUMN_THREADS] = prefix_get(d->at[COLUMN_THREADS], &thread);
	else
		thread--;
	if (thread >= d->thread_limit)
		return "a thread that has been defined";
	d->previous_thread = d->thread;
	d->thread = (uint32_t)thread;
	return NULL;
}

/* Reads the bits of the next group; the highest is the first event's. */
static uint64_t get_bits(struct events_decoder *d, enum events_column column, uint64_t events)
{
	uint64_t bits;
	memcpy(&bits, d->at[column], sizeof bits);
	d->at[column] += sizeof bits;
	return events < EVENTS_GROUP ? bits << (EVENTS_GROUP - events) : bits;
}

static struct events_thread *thread_state(struct events_decoder *d)
{
	struct events_thread *t = &d->threads[d->thread];
	if (t->epoch != d->epoch) {
		t->epoch = d->epoch;
		t->context = 0;
		t->last_cross = 0;
		t->last_alloc = t->last_birth = d->first_tick;
	}
	return t;
}

static const char *new_site(struct events_decoder *d)
{
	uint64_t delta, size;
	if (d->site_count >= d->site_capacity)
		return "a site only once among those of the block";
	const uint8_t *p = prefix_get(d->at[COLUMN_SITES], &delta);
	d->at[COLUMN_SITES] = prefix_get(p, &size);
	uint64_t site = d->last_site + (uint64_t)unzigzag(delta);
	if (site >= d->site_limit)
		return "a site that has been defined";
	struct events_site *s = &d->sites[d->site_count];
	s->word[0] = s->word[1] = word_of(size, slack_predict(&d->model, size));
	s->last_alloc = s->last_birth = (uint32_t)d->tick;
	d->last_site = s->id = (uint32_t)site;
	d->site_count++;
	return NULL;
}

const char *events_decode_begin(struct events_decoder *d, const uint8_t *payload, size_t len,
				uint32_t site_limit, uint32_t thread_limit)
{
	const uint8_t *p = payload, *limit = payload + len;
	uint64_t count, lengths[COLUMN_COUNT], sum = 0;
	p = prefix_get(p, &count);
	p = prefix_get(p, &d->tick);
	for (int i = 0; i < COLUMN_COUNT; i++) {
		p = prefix_get(p, &lengths[i]);
		if (lengths[i] > len)
			return "columns no longer than their block";
		sum += lengths[i];
	}
	if (p > limit || sum != (uint64_t)(limit - p))
		return "columns that fill their block";
	if (count == 0 || count > EVENTS_PER_BLOCK)
		return "a number of events between 1 and 1048576";
	if (d->tick > UINT64_MAX >> d->tick_shift)
		return "a time that fits 64 bits";
	for (int i = 0; i < COLUMN_COUNT; i++) {
		d->at[i] = p;
		p += lengths[i];
		d->end[i] = p;
	}
	d->first_tick = d->tick;
	/* An event names two sites at most, and each of them is new only once. */
	uint32_t sites = count * 2 < site_limit ? (uint32_t)count * 2 : site_limit;
	if (reserve(d, sites, thread_limit))
		return "enough memory for its events";
	model_reset(&d->model);
	d->epoch++;
	d->site_limit = site_limit;
	d->thread_limit = thread_limit;
	d->site_count = 0;
	d->last_site = 0;
	d->count = count;
	d->done = 0;
	d->thread = d->previous_thread = 0;
	if (thread_limit == 0)
		return "a thread that has been defined";
	return next_tick_run(d);
}

static const char *get_realloc(struct events_decoder *d, struct trace_event *ev)
{
	uint64_t head, size, slack;
	const uint8_t *p = prefix_get(d->at[COLUMN_REALLOCS], &head);
	uint64_t local = head >> 1;
	if (local >= d->site_count) {
		const char *wrong = local > d->site_count ? "a site of this block" : new_site(d);
		if (wrong)
			return wrong;
	}
	const struct events_site *old = &d->sites[local];
	ev->old_site = old->id;
	if (head & 1) {
		p = prefix_get(p, &size);
		p = prefix_get(p, &slack);
		if (slack > UINT32_MAX + 1ull)
			return "a slack of 32 bits";
		ev->old_size = size;
		ev->old_slack = slack ? (uint32_t)(slack - 1) : slack_predict(&d->model, size);
	} else if (old->word[0] == WORD_NONE) {
		return "a size that can be predicted";
	} else {
		ev->old_size = word_size(old->word[0]);
		ev->old_slack = word_slack(old->word[0]);
	}
	d->at[COLUMN_REALLOCS] = p;
	return NULL;
}

static const struct {
	uint8_t op, flags;
} kinds[CODE_KIND + 1] = {
	[KIND_ALLOC] = {TRACE_ALLOC, 0},
	[KIND_FREE] = {TRACE_FREE, 0},
	[KIND_FREE_TEMP] = {TRACE_FREE, TRACE_TEMPORARY},
	[KIND_FREE_CROSS] = {TRACE_FREE, 0},
	[KIND_REALLOC] = {TRACE_REALLOC, 0},
	[KIND_GONE] = {TRACE_GONE, 0},
};

static const char *get_escape(struct events_decoder *d, struct trace_event *ev)
{
	uint64_t birth_thread;
	unsigned head = *d->at[COLUMN_ESCAPES];
	d->at[COLUMN_ESCAPES] = prefix_get(d->at[COLUMN_ESCAPES] + 1, &birth_thread);
	if (head > 15)
		return "an operation and its flags";
	if (birth_thread >= d->thread_limit)
		return "a thread that has been defined";
	ev->op = head & 3;
	ev->flags = (uint8_t)(head >> 2);
	ev->birth_thread = (uint32_t)birth_thread;
	d->model.unknown = ev->flags & TRACE_SLACK_UNKNOWN;
	return NULL;
}

/* Reads a code that was not predicted; *fresh: its site is new in the block. */
static uint64_t get_code(struct events_decoder *d, uint64_t context, bool *fresh)
{
	uint64_t value;
	uint32_t *familiar = familiar_after(&d->model, context);
	d->at[COLUMN_CODES] = prefix_get(d->at[COLUMN_CODES], &value);
	*fresh = value >= CODE_NEW && value < CODE_FULL;
	uint64_t code = value < CODE_RANKS ? familiar[value]
			: *fresh ? ((uint64_t)d->site_count << CODE_SITE_SHIFT) + (value - CODE_NEW)
				 : value - CODE_FULL;
	if (code >> CODE_SITE_SHIFT <= d->site_count)
		familiar_rank(familiar, (uint32_t)code);
	return code;
}

/* Reads a size and slack that were not predicted. */
static const char *get_size(struct events_decoder *d, struct trace_event *ev)
{
	uint64_t head, slack;
	const uint8_t *p = prefix_get(d->at[COLUMN_SIZES], &head);
	ev->size = head >> 1;
	ev->slack = slack_predict(&d->model, ev->size);
	if (head & 1) {
		p = prefix_get(p, &slack);
		if (slack > UINT32_MAX)
			return "a slack of 32 bits";
		ev->slack = (uint32_t)slack;
		slack_learn(&d->model, ev->size, ev->slack);
	}
	d->at[COLUMN_SIZES] = p;
	return NULL;
}

/* The size and slack of an event at site s, as predicted or as stored, and the word that they make. */
static inline __attribute__((always_inline)) const char *
get_block(struct events_decoder *d, struct events_site *s, unsigned from, bool resized,
	  struct trace_event *ev, uint64_t *word)
{
	*word = s->word[from];
	ev->size = word_size(*word);
	ev->slack = word_slack(*word);
	if (!resized)
		return __builtin_expect(*word == WORD_NONE, 0) ? "a size that can be predicted"
							       : NULL;
	const char *wrong = get_size(d, ev);
	if (wrong)
		return wrong;
	*word = word_of(ev->size, ev->slack);
	if (*word != WORD_NONE && ev->op != TRACE_REALLOC)
		s->word[from] = *word;
	return NULL;
}

/* The tick at which the block of a FREE or GONE was born. */
static uint64_t get_birth(struct events_decoder *d, struct events_site *s, struct events_thread *t)
{
	uint64_t value;
	d->at[COLUMN_LIVES] = prefix_get(d->at[COLUMN_LIVES], &value);
	uint64_t born = tick_before(d->tick, s->last_alloc);
	if (value--) {
		uint64_t near = value & 1 ? t->last_birth : tick_before(d->tick, s->last_birth);
		born = near + (uint64_t)unzigzag(value >> 1);
	}
	t->last_birth = born;
	s->last_birth = (uint32_t)born;
	return born;
}

/* Goes on with another thread: *t becomes its state, and *context its context. */
static const char *next_thread(struct events_decoder *d, struct events_thread **t,
			       uint64_t *context)
{
	(*t)->context = *context;
	const char *wrong = switch_thread(d);
	if (wrong)
		return wrong;
	*t = thread_state(d);
	*context = (*t)->context;
	return NULL;
}

static const char *decode_batch(struct events_decoder *d, struct trace_event *events, size_t count)
{
	const char *wrong;
	struct events_model *const m = &d->model;
	struct events_thread *t = thread_state(d);
	struct events_site *const sites = d->sites;
	uint32_t thread = d->thread;
	const unsigned shift = d->tick_shift;
	uint64_t context = t->context, tick = d->tick, tick_left = d->tick_left;
	uint64_t switches = 0, misses = 0, resizes = 0; /* the next event's bit highest */

	for (size_t i = 0; i < count; i++) {
		struct trace_event *ev = &events[i];
		if (__builtin_expect(tick_left == 0, 0)) {
			d->tick = tick += d->tick_step;
			wrong = next_tick_run(d);
			if (wrong)
				return wrong;
			tick_left = d->tick_left;
		}
		tick_left--;
		if (i % EVENTS_GROUP == 0) {
			switches = get_bits(d, COLUMN_SWITCHES, count - i);
			misses = get_bits(d, COLUMN_MISSES, count - i);
			resizes = get_bits(d, COLUMN_RESIZES, count - i);
		}
		if ((int64_t)switches < 0) {
			wrong = next_thread(d, &t, &context);
			if (wrong)
				return wrong;
			thread = d->thread;
		}
		switches <<= 1;

		uint32_t *next = code_after(m, context);
		uint64_t code = *next;
		bool fresh = false;
		if ((int64_t)misses < 0) {
			code = get_code(d, context, &fresh);
			*next = (uint32_t)code;
		}
		misses <<= 1;
		unsigned kind = code & CODE_KIND;
		ev->time_ns = tick << shift;
		ev->lifetime_ns = ev->old_size = 0;
		ev->old_site = ev->old_slack = 0;
		ev->thread = thread;
		ev->birth_thread = kind == KIND_FREE_CROSS ? t->last_cross : thread;
		ev->op = kinds[kind].op;
		ev->flags = (uint8_t)(kinds[kind].flags | m->unknown);
		unsigned from = kind_from(kind);
		if (__builtin_expect(kind == KIND_ESCAPE, 0)) {
			wrong = get_escape(d, ev);
			if (wrong)
				return wrong;
			if (ev->birth_thread != ev->thread)
				t->last_cross = ev->birth_thread;
			from = ev->op & 1;
			if (ev->op == TRACE_ALLOC)
				kind = KIND_ALLOC;
		}
		if (__builtin_expect(fresh, 0)) {
			wrong = new_site(d);
			if (wrong)
				return wrong;
		}
		if (__builtin_expect(code >> CODE_SITE_SHIFT >= d->site_count, 0))
			return "a site of this block";
		context = context_after(context, (uint32_t)code);
		struct events_site *s = &sites[code >> CODE_SITE_SHIFT];
		uint64_t word;
		ev->site = s->id;
		wrong = get_block(d, s, from, (int64_t)resizes < 0, ev, &word);
		if (wrong)
			return wrong;
		resizes <<= 1;
		if (kind == KIND_ALLOC) {
			t->last_alloc = tick;
			s->last_alloc = (uint32_t)tick;
		} else if (ev->op & 1) {
			uint64_t born = kind == KIND_FREE_TEMP ? t->last_alloc : get_birth(d, s, t);
			if (born > tick)
				return "a birth after the start of the recording and before now";
			ev->lifetime_ns = (tick - born) << shift;
		} else if (ev->op == TRACE_REALLOC) {
			wrong = get_realloc(d, ev);
			if (wrong)
				return wrong;
			if (word != WORD_NONE)
				s->word[from] = word;
		} else {
			return "a known kind of event";
		}
	}
	t->context = context;
	d->tick_left = tick_left;
	return NULL;
}

const char *events_decode(struct events_decoder *d, struct trace_event *events, size_t *count)
{
	uint64_t left = d->count - d->done;
	size_t n = left < EVENTS_BATCH ? (size_t)left : EVENTS_BATCH;
	*count = 0;
	if (n) {
		const char *wrong = decode_batch(d, events, n);
		if (wrong)
			return wrong;
	}
	d->done += n;
	int last = d->done == d->count;
	for (int i = 0; i < COLUMN_COUNT; i++) {
		if (d->at[i] > d->end[i] || (last && d->at[i] != d->end[i]))
			return "columns as long as their events";
	}
	if (last && d->tick_left)
		return "runs as long as the block";
	*count = n;
	return NULL;
}
