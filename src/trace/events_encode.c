/* Encoding matched events into the columns of an events block.
 *
 * This runs for every event while a program is being recorded, on a core that
 * the program would like to have. So: buffers hold the worst case and nothing
 * is checked per byte; what usually holds is predicted and costs no byte, which
 * makes zstd cheaper afterwards too (it costs about 2.5 ns a byte); and the rare
 * half of an event is out of line. Writing codes and lifetimes without branches
 * was tried and is slower: what the model predicts, the processor predicts too.
 *
 * Invariants: `at` of a column never passes the start of the next; a site's or
 * thread's state is meaningless unless its epoch is the block's. */
#include "trace/events_block.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const uint8_t worst[COLUMN_COUNT] = COLUMN_WORST;

static size_t column_capacity(int column)
{
	return (size_t)worst[column] * (EVENTS_PER_BLOCK + 1) + PREFIX_SCRATCH;
}

static void begin(struct events_encoder *e)
{
	for (int i = 0; i < COLUMN_COUNT; i++)
		e->at[i] = e->start[i];
	memset(&e->model, 0, sizeof e->model);
	e->epoch++;
	e->site_count = 0;
	e->count = 0;
	e->tick_start = 0;
	e->switches = e->misses = 0;
	e->last_site = 0;
	e->thread = e->previous_thread = 0;
}

int events_encoder_init(struct events_encoder *e, unsigned tick_shift)
{
	memset(e, 0, sizeof *e);
	e->tick_shift = tick_shift;
	size_t total = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		total += column_capacity(i);
	/* Mostly never touched: pages that no event reaches are not resident. */
	e->buffer = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (e->buffer == MAP_FAILED) {
		e->buffer = NULL;
		return HEFT_ENOMEM;
	}
	uint8_t *p = e->buffer;
	for (int i = 0; i < COLUMN_COUNT; i++) {
		e->start[i] = p;
		p += column_capacity(i);
	}
	begin(e);
	return 0;
}

void events_encoder_fini(struct events_encoder *e)
{
	size_t total = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		total += column_capacity(i);
	if (e->buffer)
		munmap(e->buffer, total);
	free(e->sites);
	free(e->threads);
	memset(e, 0, sizeof *e);
}

static int grow(void **array, uint32_t *capacity, uint32_t need, size_t element)
{
	if (need <= *capacity)
		return 0;
	uint32_t bigger = *capacity > UINT32_MAX / 2 ? UINT32_MAX : *capacity * 2;
	if (bigger < need)
		bigger = need;
	if (bigger < 64)
		bigger = 64;
	void *p = reallocarray(*array, bigger, element);
	if (!p)
		return HEFT_ENOMEM;
	memset((char *)p + *capacity * element, 0, (size_t)(bigger - *capacity) * element);
	*array = p;
	*capacity = bigger;
	return 0;
}

int events_encoder_reserve(struct events_encoder *e, uint32_t sites, uint32_t threads)
{
	void *p = e->sites;
	int rc = grow(&p, &e->site_capacity, sites, sizeof *e->sites);
	e->sites = p;
	if (rc)
		return rc;
	p = e->threads;
	rc = grow(&p, &e->thread_capacity, threads, sizeof *e->threads);
	e->threads = p;
	return rc;
}

static void end_tick_run(struct events_encoder *e, uint32_t now, uint64_t next_tick)
{
	uint64_t run = now - e->tick_start, step = next_tick - e->tick;
	uint8_t *p = prefix_put(e->at[COLUMN_TICKS], run << 1 | (step != 1));
	if (step != 1)
		p = prefix_put(p, step);
	e->at[COLUMN_TICKS] = p;
}

static __attribute__((noinline)) void next_tick(struct events_encoder *e, uint32_t now,
						 uint64_t time_ns)
{
	uint64_t tick = time_ns >> e->tick_shift;
	if (now == 0)
		e->first_tick = tick;
	else
		end_tick_run(e, now, tick);
	e->tick = tick;
	e->tick_start = now;
	uint64_t end = (tick + 1) << e->tick_shift;
	e->tick_end_ns = end ? end : UINT64_MAX;
}

static inline struct events_thread *thread_state(struct events_encoder *e, uint32_t thread,
						 uint64_t tick)
{
	struct events_thread *t = &e->threads[thread];
	if (__builtin_expect(t->epoch != e->epoch, 0)) {
		t->epoch = e->epoch;
		t->context = 0;
		t->last_cross = 0;
		t->last_birth = tick;
	}
	return t;
}

static __attribute__((noinline)) void new_site(struct events_encoder *e, uint32_t site,
						uint64_t size)
{
	struct events_site *s = &e->sites[site];
	s->epoch = e->epoch;
	s->local = e->site_count++;
	s->size[0] = s->size[1] = size;
	s->slack[0] = s->slack[1] = slack_predict(&e->model, size);
	uint8_t *p = prefix_put(e->at[COLUMN_SITES], zigzag((int64_t)site - (int64_t)e->last_site));
	e->at[COLUMN_SITES] = prefix_put(p, size);
	e->last_site = site;
}

/* What REALLOC has beyond the others. */
static void put_realloc(struct events_encoder *e, const struct trace_event *ev)
{
	if (e->sites[ev->old_site].epoch != e->epoch)
		new_site(e, ev->old_site, ev->old_size);
	const struct events_site *old = &e->sites[ev->old_site];
	uint32_t slack = ev->old_slack;
	unsigned same = ev->old_size == old->size[0] && slack == old->slack[0];
	uint8_t *p = prefix_put(e->at[COLUMN_REALLOCS], (uint64_t)old->local << 1 | !same);
	if (!same) {
		p = prefix_put(p, ev->old_size);
		p = prefix_put(p, slack == slack_predict(&e->model, ev->old_size) ? 0 : slack + 1ull);
	}
	e->at[COLUMN_REALLOCS] = p;
}

/* How events are told apart, by op | flags << 2 | SHAPE_CROSS | SHAPE_STRANGER, where the flag
 * TRACE_SLACK_UNKNOWN is that of the event xor that of the model. All others are escapes. */
enum { SHAPE_CROSS = 16, SHAPE_STRANGER = 32 };	 /* in the index */
enum { SHAPE_PLAIN = 8, SHAPE_FROM = 16 }; /* in the value, beside the kind */
static const uint8_t shape_of[64] = {
	[TRACE_ALLOC] = KIND_ALLOC | SHAPE_PLAIN,
	[TRACE_FREE] = KIND_FREE | SHAPE_PLAIN | SHAPE_FROM,
	[TRACE_REALLOC] = KIND_REALLOC,
	[TRACE_GONE] = KIND_GONE | SHAPE_PLAIN | SHAPE_FROM,
	[TRACE_FREE | TRACE_TEMPORARY << 2] = KIND_FREE_TEMP | SHAPE_PLAIN,
	[TRACE_FREE | SHAPE_CROSS] = KIND_FREE_CROSS | SHAPE_PLAIN | SHAPE_FROM,
};

/* An event that is not wholly as predicted, but for its code: returns the low bits of that. */
static __attribute__((noinline)) uint32_t encode_special(struct events_encoder *e,
							 const struct trace_event *ev,
							 uint32_t shape)
{
	struct events_site *s = &e->sites[ev->site];
	struct events_model *m = &e->model;
	const uint64_t size = ev->size;
	uint32_t kind = shape & CODE_KIND, slack = ev->slack;
	unsigned from = kind == KIND_ESCAPE ? ev->op & 1u : shape / SHAPE_FROM;
	uint32_t expect = size == s->size[from] ? s->slack[from] : slack_predict(m, size);
	if (slack != expect || kind == KIND_ESCAPE) {
		uint8_t *p = e->at[COLUMN_ESCAPES];
		kind = KIND_ESCAPE;
		from = ev->op & 1u;
		*p++ = (uint8_t)((ev->op & 3u) | (ev->flags & (unsigned)TRACE_KEPT_FLAGS) << 2);
		p = prefix_put(p, ev->birth_thread);
		e->at[COLUMN_ESCAPES] = prefix_put(p, slack);
		slack_learn(m, size, slack, ev->flags & TRACE_SLACK_UNKNOWN);
	}
	if (size != s->size[from]) {
		e->at[COLUMN_SIZES] = prefix_put(e->at[COLUMN_SIZES], size);
		kind |= CODE_NEW_SIZE;
	}
	if ((ev->op & 3) == TRACE_REALLOC)
		put_realloc(e, ev);
	s->size[from] = size;
	s->slack[from] = slack;
	return kind;
}

/* Encodes events of one group. With `switching` false it stops at an event of another thread, and
 * keeps the thread's state in registers; with true it takes all, and a change of thread is no
 * branch that could be mispredicted. Both are made of the same text, and write the same. */
static inline __attribute__((always_inline)) size_t
encode_some(struct events_encoder *e, const struct trace_event *events, size_t count,
	    const bool switching)
{
	/* Stores through byte pointers may alias anything: what changes often lives in locals. */
	const uint32_t first = e->count, epoch = e->epoch;
	const unsigned shift = e->tick_shift;
	const struct trace_event *const last = events + count;
	const struct trace_event *ev;
	struct events_site *const sites = e->sites;
	uint32_t thread = e->thread, previous_thread = e->previous_thread;
	uint64_t tick = e->tick, tick_end_ns = e->tick_end_ns;
	uint64_t switches = e->switches, misses = e->misses;
	struct events_thread *t = thread_state(e, thread, tick);
	uint32_t context = t->context;
	uint64_t last_birth = t->last_birth;
	uint8_t *at_threads = e->at[COLUMN_THREADS];
	uint8_t *at_codes = e->at[COLUMN_CODES], *at_lives = e->at[COLUMN_LIVES];

	for (ev = events; ev < last; ev++) {
		const struct events_site *s = &sites[ev->site];
		const uint64_t time_ns = ev->time_ns;
		unsigned cross = 0;

		if (!switching && ev->thread != thread)
			break;
		if (__builtin_expect(time_ns >= tick_end_ns, 0)) {
			next_tick(e, first + (uint32_t)(ev - events), time_ns);
			tick = e->tick;
			tick_end_ns = e->tick_end_ns;
		}
		if (switching) {
			const uint32_t now = ev->thread;
			const unsigned moved = now != thread;
			/* THREAD_BEFORE is 0: arithmetic, for compilers would make a branch of it. */
			const uint32_t name = (now + 1) & (0 - (uint32_t)(now != previous_thread));
			*at_threads = (uint8_t)name;
			if (__builtin_expect(moved & (name >= THREAD_FOLLOWS), 0)) {
				*at_threads = THREAD_FOLLOWS;
				at_threads = prefix_put(at_threads + 1, now) - 1;
			}
			at_threads += moved;
			switches = switches << 1 | moved;
			previous_thread = moved ? thread : previous_thread;
			thread = now;
			t = thread_state(e, thread, tick);
			context = t->context;
			last_birth = t->last_birth;
		}
		if (ev->birth_thread != thread) {
			cross = ev->birth_thread == t->last_cross ? SHAPE_CROSS : SHAPE_STRANGER;
			t->last_cross = ev->birth_thread;
		}
		if (__builtin_expect(s->epoch != epoch, 0))
			new_site(e, ev->site, ev->size);

		uint32_t shape = shape_of[((ev->op & 3u) | (ev->flags & (unsigned)TRACE_KEPT_FLAGS) << 2 | cross) ^
					  e->model.unknown << 2];
		unsigned from = shape / SHAPE_FROM;
		uint32_t low = shape & CODE_KIND;
		if ((~shape & SHAPE_PLAIN) | (ev->size ^ s->size[from]) |
		    (ev->slack ^ s->slack[from]))
			low = encode_special(e, ev, shape);

		uint32_t code = s->local << CODE_SITE_SHIFT | low;
		uint32_t *next = code_after(&e->model, context);
		const unsigned miss = *next != code;
		context = context_after(context, code);
		misses = misses << 1 | miss;
		if (miss) {
			*next = code;
			at_codes = prefix_put(at_codes, code);
		}

		if (ev->op & 1) {
			/* FREE, GONE. A short life is a small number; the blocks of a structure
			 * that is torn down were born one after the other. The smaller is stored. */
			uint64_t lifetime_ns = ev->lifetime_ns;
			uint64_t born = (time_ns > lifetime_ns ? time_ns - lifetime_ns : 0) >> shift;
			uint64_t life = tick - born;
			uint64_t step = zigzag((int64_t)(born - last_birth));
			unsigned by_step = step < life;
			at_lives = prefix_put(at_lives, (by_step ? step : life) << 1 | by_step);
			last_birth = by_step ? born : last_birth;
		}
		if (switching) {
			t->context = context;
			t->last_birth = last_birth;
		}
	}
	size_t done = (size_t)(ev - events);
	t->context = context;
	t->last_birth = last_birth;
	e->thread = thread;
	e->previous_thread = previous_thread;
	e->switches = switching || done == EVENTS_GROUP ? switches : switches << done;
	e->misses = misses;
	e->at[COLUMN_THREADS] = at_threads;
	e->at[COLUMN_CODES] = at_codes;
	e->at[COLUMN_LIVES] = at_lives;
	e->count = first + (uint32_t)done;
	return done;
}

static __attribute__((noinline)) size_t encode_steady(struct events_encoder *e,
						       const struct trace_event *events, size_t count)
{
	return encode_some(e, events, count, false);
}

static __attribute__((noinline)) size_t encode_switching(struct events_encoder *e,
							  const struct trace_event *events,
							  size_t count)
{
	return encode_some(e, events, count, true);
}

static void put_bits(struct events_encoder *e, enum events_column column, uint64_t bits)
{
	memcpy(e->at[column], &bits, sizeof bits);
	e->at[column] += sizeof bits;
}

static void end_group(struct events_encoder *e)
{
	e->switching = e->switches != 0;
	put_bits(e, COLUMN_SWITCHES, e->switches);
	put_bits(e, COLUMN_MISSES, e->misses);
	e->switches = e->misses = 0;
}

size_t events_encode(struct events_encoder *e, const struct trace_event *events, size_t count)
{
	size_t room = EVENTS_PER_BLOCK - e->count, done = 0;
	if (count > room)
		count = room;
	if (!count)
		return 0;
	if (e->count == 0)
		next_tick(e, 0, events[0].time_ns);
	while (done < count) {
		size_t group = EVENTS_GROUP - e->count % EVENTS_GROUP;
		size_t n = count - done < group ? count - done : group;
		size_t taken = e->switching ? 0 : encode_steady(e, events + done, n);
		if (taken < n)
			encode_switching(e, events + done + taken, n - taken);
		done += n;
		if (n == group)
			end_group(e);
	}
	return count;
}

size_t events_encoder_bound(const struct events_encoder *e)
{
	size_t total = (size_t)(COLUMN_COUNT + 2) * PREFIX_MAX + 64;
	for (int i = 0; i < COLUMN_COUNT; i++)
		total += (size_t)(e->at[i] - e->start[i]);
	return total;
}

size_t events_encoder_finish(struct events_encoder *e, uint8_t *out, uint64_t *first_tick,
			     uint64_t *last_tick)
{
	end_tick_run(e, e->count, e->tick + 1);
	if (e->count % EVENTS_GROUP)
		end_group(e);

	uint8_t *p = prefix_put(out, e->count);
	p = prefix_put(p, e->first_tick);
	for (int i = 0; i < COLUMN_COUNT; i++)
		p = prefix_put(p, (uint64_t)(e->at[i] - e->start[i]));
	for (int i = 0; i < COLUMN_COUNT; i++) {
		size_t n = (size_t)(e->at[i] - e->start[i]);
		memcpy(p, e->start[i], n);
		p += n;
	}
	*first_tick = e->first_tick;
	*last_tick = e->tick;
	begin(e);
	return (size_t)(p - out);
}
