/* Encodes matched events into the columns of an events block.
 *
 * This runs for every event while a program is being recorded, on a core that
 * the program could use. So buffers hold the worst case and nothing
 * is checked per byte; what usually holds is predicted and takes no byte, which
 * makes zstd cheaper afterwards too (it takes about 2.5 ns a byte); and the rare
 * half of an event is out of line. Writing codes and lifetimes without branches
 * was tried and is slower: what the model predicts, the processor predicts too.
 *
 * There are two ways in, which write the same: brief events (encode_some) and
 * events in full (encode_full), one by one.
 *
 * Invariants: `at` of a column never passes the start of the next; a site that
 * has not occurred in this block has no number and words that equal none; a
 * thread's state is meaningless unless its epoch is the block's. */
#include "trace/events_block.h"

#include <string.h>

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

static inline struct events_thread *thread_state(struct events_encoder *e, uint32_t thread)
{
	struct events_thread *t = &e->threads[thread];
	if (__builtin_expect(t->epoch != e->epoch, 0)) {
		t->epoch = e->epoch;
		t->context = 0;
		t->last_cross = 0;
		t->last_alloc = t->last_birth = e->first_tick;
	}
	return t;
}

/* The bit of the block's event `i` in its group: the highest bit is the first event's until the group
 * ends. Bits that are seldom set are set so; shifting both words costs more. */
static inline uint64_t group_bit(uint32_t i)
{
	return 1ull << 63 >> i % EVENTS_GROUP;
}

static __attribute__((noinline)) void new_site(struct events_encoder *e, uint32_t site,
					       uint64_t size)
{
	struct events_site *s = &e->sites[site];
	e->used[e->site_count] = site;
	s->code = e->fresh = e->site_count++ << CODE_SITE_SHIFT;
	s->word[0] = s->word[1] = word_of(size, slack_predict(&e->model, size));
	s->last_alloc = s->last_birth = (uint32_t)e->tick;
	uint8_t *p = prefix_put(e->at[COLUMN_SITES], zigzag((int64_t)site - (int64_t)e->last_site));
	e->at[COLUMN_SITES] = prefix_put(p, size);
	e->last_site = site;
}

/* Writes a size and slack that were not predicted. */
static inline void put_size(struct events_encoder *e, uint64_t size, uint32_t slack)
{
	struct events_model *m = &e->model;
	unsigned off = slack != slack_predict(m, size);
	uint8_t *p = prefix_put(e->at[COLUMN_SIZES], size << 1 | off);
	if (__builtin_expect(off, 0)) {
		p = prefix_put(p, slack);
		slack_learn(m, size, slack);
	}
	e->at[COLUMN_SIZES] = p;
}

/* Writes a code that was not predicted. */
static __attribute__((noinline)) void put_code(struct events_encoder *e, uint64_t context,
					       uint32_t code)
{
	uint64_t value = familiar_rank(familiar_after(&e->model, context), code);
	if (value == CODE_RANKS) {
		bool fresh = (code & ~(uint32_t)CODE_KIND) == e->fresh;
		value = fresh ? CODE_NEW + (code & CODE_KIND) : CODE_FULL + (uint64_t)code;
		e->fresh = CODE_NONE;
	}
	e->at[COLUMN_CODES] = prefix_put_56(e->at[COLUMN_CODES], value);
}

/* Writes when the block of a FREE or GONE was born. It may be the site's last one, or one that was born soon after or
 * before the block that ended last, at this site or in this thread. */
static inline void put_life(struct events_encoder *e, struct events_site *s, uint64_t tick,
			    uint64_t born, uint64_t *last_birth)
{
	const uint64_t life = tick - born;
	const uint32_t last_alloc = s->last_alloc, last_site_birth = s->last_birth;
	uint8_t *p = e->at[COLUMN_LIVES];
	uint64_t near = born - *last_birth;
	s->last_birth = (uint32_t)born;
	*last_birth = born;
	if (life == (uint32_t)tick - last_alloc) {
		*p = 1; /* 0 as a varint */
		e->at[COLUMN_LIVES] = p + 1;
		return;
	}
	uint64_t by_thread = zigzag((int64_t)near);
	uint64_t by_site = zigzag((int64_t)((uint32_t)tick - last_site_birth - life));
	e->at[COLUMN_LIVES] = prefix_put(
		p, 1 + (by_thread <= by_site ? by_thread << 1 | 1 : by_site << 1));
}

static void put_escape(struct events_encoder *e, unsigned op, unsigned flags, uint32_t birth_thread)
{
	uint8_t *p = e->at[COLUMN_ESCAPES];
	*p++ = (uint8_t)(op | flags << 2);
	e->at[COLUMN_ESCAPES] = prefix_put(p, birth_thread);
	e->model.unknown = flags & TRACE_SLACK_UNKNOWN;
}

/* ---- events in full: all that are not brief, one at a time */

/* The kind of an event, by op | flags << 2 | SHAPE_CROSS | SHAPE_STRANGER, where the flag TRACE_SLACK_UNKNOWN is
 * that of the event xor that of the model. All others are escapes. */
enum { SHAPE_CROSS = 16, SHAPE_STRANGER = 32 };
static const uint8_t kind_of[64] = {
	[TRACE_ALLOC] = KIND_ALLOC,
	[TRACE_FREE] = KIND_FREE,
	[TRACE_REALLOC] = KIND_REALLOC,
	[TRACE_GONE] = KIND_GONE,
	[TRACE_FREE | TRACE_TEMPORARY << 2] = KIND_FREE_TEMP,
	[TRACE_FREE | SHAPE_CROSS] = KIND_FREE_CROSS,
};

/* Writes what a REALLOC has beyond the others. */
static void put_realloc(struct events_encoder *e, const struct trace_event *ev)
{
	uint32_t fresh = e->fresh;
	if (e->sites[ev->old_site].code == CODE_NONE)
		new_site(e, ev->old_site, ev->old_size);
	e->fresh = fresh; /* it is the event's own site that its code names */
	const struct events_site *old = &e->sites[ev->old_site];
	uint64_t word = word_of(ev->old_size, ev->old_slack);
	unsigned same = word != WORD_NONE && word == old->word[0];
	uint64_t number = old->code >> CODE_SITE_SHIFT;
	uint8_t *p = prefix_put(e->at[COLUMN_REALLOCS], number << 1 | !same);
	if (!same) {
		uint32_t expect = slack_predict(&e->model, ev->old_size);
		p = prefix_put(p, ev->old_size);
		p = prefix_put(p, ev->old_slack == expect ? 0 : ev->old_slack + 1ull);
	}
	e->at[COLUMN_REALLOCS] = p;
}

static void put_switch(struct events_encoder *e, uint32_t thread)
{
	unsigned moved = thread != e->thread;
	e->switches = e->switches << 1 | moved;
	if (!moved)
		return;
	uint8_t *p = e->at[COLUMN_THREADS];
	if (thread == e->previous_thread) {
		*p++ = THREAD_BEFORE;
	} else if (thread + 1ull < THREAD_FOLLOWS) {
		*p++ = (uint8_t)(thread + 1);
	} else {
		*p++ = THREAD_FOLLOWS;
		p = prefix_put(p, thread);
	}
	e->at[COLUMN_THREADS] = p;
	e->previous_thread = e->thread;
	e->thread = thread;
}

static unsigned full_kind(struct events_encoder *e, struct events_thread *t,
			  const struct trace_event *ev, uint64_t born)
{
	unsigned cross = 0, op = ev->op & 3u, flags = ev->flags & (unsigned)TRACE_KEPT_FLAGS;
	if (ev->birth_thread != ev->thread) {
		cross = ev->birth_thread == t->last_cross ? SHAPE_CROSS : SHAPE_STRANGER;
		t->last_cross = ev->birth_thread;
	}
	unsigned kind = kind_of[(op | flags << 2 | cross) ^ e->model.unknown << 2];
	if (kind == KIND_FREE_TEMP && born != t->last_alloc)
		kind = KIND_ESCAPE;
	if (kind == KIND_ESCAPE)
		put_escape(e, op, flags, ev->birth_thread);
	return kind;
}

static void encode_full(struct events_encoder *e, const struct trace_event *ev)
{
	if (ev->time_ns >= e->tick_end_ns)
		next_tick(e, e->count, ev->time_ns);
	put_switch(e, ev->thread);
	struct events_thread *t = thread_state(e, ev->thread);
	struct events_site *s = &e->sites[ev->site];
	uint64_t born_ns = ev->time_ns > ev->lifetime_ns ? ev->time_ns - ev->lifetime_ns : 0;
	uint64_t born = born_ns >> e->tick_shift;
	unsigned kind = full_kind(e, t, ev, born);
	unsigned from = kind == KIND_ESCAPE ? ev->op & 1u : kind_from(kind);
	if (s->code == CODE_NONE)
		new_site(e, ev->site, ev->size);

	uint64_t word = word_of(ev->size, ev->slack);
	unsigned resized = word == WORD_NONE || word != s->word[from];
	if (resized) {
		e->resizes |= group_bit(e->count);
		put_size(e, ev->size, ev->slack);
	}
	if ((ev->op & 3) == TRACE_REALLOC)
		put_realloc(e, ev);
	if (word != WORD_NONE)
		s->word[from] = word;

	uint32_t code = s->code | kind;
	uint32_t *next = code_after(&e->model, t->context);
	if (*next != code) {
		e->misses |= group_bit(e->count);
		*next = code;
		put_code(e, t->context, code);
	}
	t->context = context_after(t->context, code);
	if (ev->op & 1 && kind != KIND_FREE_TEMP)
		put_life(e, s, e->tick, born, &t->last_birth);
	if ((ev->op & 3) == TRACE_ALLOC) {
		t->last_alloc = e->tick;
		s->last_alloc = (uint32_t)e->tick;
	}
	e->count++;
}

/* ---- brief events */

/* The same at a site that is new in the block, or with another slack than its size usually has. Returns false if
 * the site, once it is in the block, predicts it. */
static __attribute__((noinline)) bool put_unusual(struct events_encoder *e,
						  const struct trace_brief *b, unsigned from)
{
	struct events_site *s = &e->sites[trace_brief_site(b)];
	const uint64_t word = b->block >> BLOCK_SITE_BITS, size = word_size(word);
	if (s->code == CODE_NONE) {
		new_site(e, trace_brief_site(b), size);
		if (s->word[from] == word)
			return false;
	}
	s->word[from] = word;
	put_size(e, size, word_slack(word));
	return true;
}

/* Writes the size of a brief event that is not what its site predicts. */
static inline bool put_resize(struct events_encoder *e, struct events_site *s,
			      const struct trace_brief *b, unsigned from)
{
	const uint64_t word = b->block >> BLOCK_SITE_BITS, size = word_size(word);
	uint32_t slack = slack_guess(size) + *slack_slot(&e->model, size);
	if (__builtin_expect(slack != word_slack(word), 0) ||
	    __builtin_expect(s->code == CODE_NONE, 0))
		return put_unusual(e, b, from);
	s->word[from] = word;
	e->at[COLUMN_SIZES] = prefix_put_56(e->at[COLUMN_SIZES], size << 1);
	return true;
}

/* Whether a temporary or cross-thread free is not what its kind predicts, so that it needs an escape. */
static inline bool escapes(const struct trace_brief *b, const struct events_thread *t,
			   uint64_t last_alloc, unsigned shift)
{
	return trace_brief_kind(b) == TRACE_BRIEF_FREE_TEMP
		       ? (b->time_ns - b->lifetime_ns) >> shift != last_alloc
		       : trace_brief_birth(b) != t->last_cross;
}

static __attribute__((noinline)) uint32_t escape(struct events_encoder *e,
						 const struct trace_brief *b,
						 struct events_thread *t)
{
	bool temporary = trace_brief_kind(b) == TRACE_BRIEF_FREE_TEMP;
	put_escape(e, TRACE_FREE, temporary ? TRACE_TEMPORARY : 0, trace_brief_birth(b));
	if (!temporary)
		t->last_cross = trace_brief_birth(b);
	return KIND_ESCAPE;
}

/* Puts the code of event *b unless it is predicted; in encode_some. */
#define PREDICT(event_code)                                                                        \
	do {                                                                                       \
		const uint32_t code_ = event_code;                                                 \
		uint32_t *next_ = code_after(&e->model, context);                                  \
		if (*next_ != code_) {                                                             \
			*next_ = code_;                                                            \
			e->misses |= group_bit(e->count + (uint32_t)(b - first));                  \
			put_code(e, context, code_);                                               \
		}                                                                                  \
		context = context_after(context, code_);                                           \
	} while (0)

/* Encodes brief events of one group up to one that has to be encoded in full. With `switching` false
 * it also stops at an event of another thread, and keeps the thread's state in registers; with true it
 * takes all, and a change of thread is no branch that could be mispredicted. Both are made of the same
 * text, and write the same. */
static inline __attribute__((always_inline)) uint32_t encode_some(struct events_encoder *e,
								  const struct trace_batch *batch,
								  uint32_t begin, uint32_t end,
								  const bool switching)
{
	/* Stores through byte pointers may alias anything: what changes often lives in locals. */
	const unsigned shift = e->tick_shift;
	const struct trace_brief *const first = batch->brief + begin, *const last = batch->brief +
										    end;
	const struct trace_brief *b;
	struct events_site *const sites = e->sites;
	uint32_t thread = e->thread, previous_thread = e->previous_thread;
	uint64_t tick = e->tick, tick_end_ns = e->tick_end_ns;
	uint64_t switches = e->switches;
	struct events_thread *t = thread_state(e, thread);
	uint64_t context = t->context, last_alloc = t->last_alloc, last_birth = t->last_birth;
	uint8_t *at_threads = e->at[COLUMN_THREADS];

	for (b = first; b < last; b++) {
		const uint64_t time_ns = b->time_ns;
		uint32_t kind = trace_brief_kind(b);

		if (!switching && b->thread != thread)
			break;
		if (kind - TRACE_BRIEF_ALLOC > TRACE_BRIEF_FREE - TRACE_BRIEF_ALLOC) {
			if (__builtin_expect(kind == TRACE_BRIEF_FULL, 0))
				break;
			if (!switching && __builtin_expect(escapes(b, t, last_alloc, shift), 0))
				kind = escape(e, b, t);
		}
		if (__builtin_expect(time_ns >= tick_end_ns, 0)) {
			next_tick(e, e->count + (uint32_t)(b - first), time_ns);
			tick = e->tick;
			tick_end_ns = e->tick_end_ns;
		}
		if (switching) {
			const uint32_t now = b->thread;
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
			t = thread_state(e, thread);
			context = t->context;
			last_alloc = t->last_alloc;
			last_birth = t->last_birth;
		}
		if (switching && kind >= TRACE_BRIEF_FREE_TEMP &&
		    __builtin_expect(escapes(b, t, last_alloc, shift), 0))
			kind = escape(e, b, t);
		struct events_site *const s = &sites[trace_brief_site(b)];
		const unsigned from = kind_from(kind);
		if (b->block >> BLOCK_SITE_BITS != s->word[from] && put_resize(e, s, b, from))
			e->resizes |= group_bit(e->count + (uint32_t)(b - first));

		PREDICT(s->code | kind);
		if (kind == KIND_ALLOC) {
			last_alloc = tick;
			s->last_alloc = (uint32_t)tick;
			if (trace_brief_is_pair(b) && b + 1 < last) {
				/* Its size is predicted now, and so is its birth. */
				b++;
				switches <<= switching;
				if (__builtin_expect(b->time_ns >= tick_end_ns, 0)) {
					next_tick(e, e->count + (uint32_t)(b - first), b->time_ns);
					tick = e->tick;
					tick_end_ns = e->tick_end_ns;
				}
				PREDICT(s->code | KIND_FREE_TEMP);
			}
		} else if (kind != KIND_FREE_TEMP) {
			const uint64_t born = (time_ns - b->lifetime_ns) >> shift;
			put_life(e, s, tick, born, &last_birth);
		}
		if (switching) {
			t->context = context;
			t->last_alloc = last_alloc;
			t->last_birth = last_birth;
		}
	}
	uint32_t done = (uint32_t)(b - first);
	t->context = context;
	t->last_alloc = last_alloc;
	t->last_birth = last_birth;
	e->thread = thread;
	e->previous_thread = previous_thread;
	e->switches = switching || done == EVENTS_GROUP ? switches : switches << done;
	e->at[COLUMN_THREADS] = at_threads;
	e->count += done;
	return done;
}

#undef PREDICT

static __attribute__((noinline)) uint32_t encode_steady(struct events_encoder *e,
							const struct trace_batch *batch,
							uint32_t begin, uint32_t end)
{
	return encode_some(e, batch, begin, end, false);
}

static __attribute__((noinline)) uint32_t encode_switching(struct events_encoder *e,
							   const struct trace_batch *batch,
							   uint32_t begin, uint32_t end)
{
	return encode_some(e, batch, begin, end, true);
}

static void put_bits(struct events_encoder *e, enum events_column column, uint64_t bits)
{
	memcpy(e->at[column], &bits, sizeof bits);
	e->at[column] += sizeof bits;
}

static void end_group(struct events_encoder *e)
{
	unsigned unused = -e->count % EVENTS_GROUP;
	e->switching = e->switches != 0;
	put_bits(e, COLUMN_SWITCHES, e->switches);
	put_bits(e, COLUMN_MISSES, e->misses >> unused);
	put_bits(e, COLUMN_RESIZES, e->resizes >> unused);
	e->switches = e->misses = e->resizes = 0;
}

size_t events_encode(struct events_encoder *e, const struct trace_event *events, size_t count)
{
	size_t most = EVENTS_PER_BLOCK - e->count;
	if (count > most)
		count = most;
	if (count && e->count == 0)
		next_tick(e, 0, events[0].time_ns);
	for (size_t i = 0; i < count; i++) {
		encode_full(e, &events[i]);
		if (e->count % EVENTS_GROUP == 0)
			end_group(e);
	}
	return count;
}

/* Encodes the events [i, end) of a batch, which belong to one group. */
static void encode_group(struct events_encoder *e, const struct trace_batch *batch, uint32_t i,
			 uint32_t end)
{
	while (i < end) {
		/* While the model expects unknown slack, a brief event is an escape. */
		if (trace_brief_kind(&batch->brief[i]) == TRACE_BRIEF_FULL || e->model.unknown) {
			struct trace_event ev = trace_batch_event(batch, i++);
			encode_full(e, &ev);
		} else if (e->switching || batch->brief[i].thread != e->thread) {
			i += encode_switching(e, batch, i, end);
		} else {
			i += encode_steady(e, batch, i, end);
		}
	}
}

uint32_t events_encode_batch(struct events_encoder *e, const struct trace_batch *batch,
			     uint32_t first)
{
	uint32_t count = batch->count - first, most = EVENTS_PER_BLOCK - e->count, done = 0;
	if (count > most)
		count = most;
	if (count && e->count == 0)
		next_tick(e, 0, batch->brief[first].time_ns);
	while (done < count) {
		uint32_t group = EVENTS_GROUP - e->count % EVENTS_GROUP;
		uint32_t n = count - done < group ? count - done : group;
		encode_group(e, batch, first + done, first + done + n);
		done += n;
		if (n == group)
			end_group(e);
	}
	return count;
}

size_t events_encoder_bytes(const struct events_encoder *e)
{
	size_t total = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		total += (size_t)(e->at[i] - e->start[i]);
	return total;
}

void events_encoder_end(struct events_encoder *e, struct events_payload *payload)
{
	end_tick_run(e, e->count, e->tick + 1);
	if (e->count % EVENTS_GROUP)
		end_group(e);

	uint8_t *p = prefix_put(payload->head, e->count);
	p = prefix_put(p, e->first_tick);
	for (int i = 0; i < COLUMN_COUNT; i++) {
		size_t n = (size_t)(e->at[i] - e->start[i]);
		p = prefix_put(p, n);
		payload->pieces[i + 1] = (struct byte_piece){e->start[i], n};
	}
	payload->pieces[0] = (struct byte_piece){payload->head, (size_t)(p - payload->head)};
	payload->first_tick = e->first_tick;
	payload->last_tick = e->tick;
}
