/* Ledgers of recorded processes: where their memory is (src/ledger), in the recording.
 *
 * A process that is about to exit asks for one and waits (capture/ledger_request.c). All events up to the moment when it
 * asked are read first. Then the process is stopped, what its other threads have recorded meanwhile is read too, and
 * so the recorder's live blocks are those of the moment at which the pages are looked at.
 *
 * Near a new peak one is taken as soon as the heap shrinks again: the process asks, if it makes calls quickly, or it is seen
 * here in the next round. All before the exit cost a process at most a hundredth of its time, but for the first one, since
 * a short program has only one peak.
 *
 * Memory that is not malloc's has a peak, too. A process that is about to give back what it has mapped asks, if it has more
 * memory of its own than at the last ledger.
 *
 * A process that never frees much, and is killed, is looked at now and then while it grows. So there is a last one of it.
 *
 * By default all processes together share a hundredth of the recording's time, after the first few. The command itself always
 * gets its last one.
 *
 * A heap that never had 1 MiB is not worth a stop, if the process does not have 8 MiB of its own. What is wrong with a ledger is a note in the recording and nothing
 * else. */
#include "record/recorder_parts.h"

#include "base/arch.h"
#include "hosted/ledger.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	LEAST_BYTES = 1 << 20, /* of the heap's peak */
	PATIENCE_MS = 50,      /* with events before the moment at which it asked */
	STILL_ROUNDS = 3,      /* to read what a process that stands still has recorded */
	HIGHER = 16,    /* a peak is new if it is so much (1/16) above the last ledger's heap */
	NEAR = 8,       /* and near as long as no more than 1/8 of it is gone, */
	FALLEN = 64,    /* and over when 1/64 is */
	SHARE = 100,    /* of its time: 1/100 */
	FIRST_FEW = 16, /* of a recording, of whatever processes */
	PART = 8,       /* a heap is worth one of the first ones if it is 1/8 of what is resident */
};
#define LEAST_OWN_BYTES (UINT64_C(4096) * WIRE_LEDGER_OWN_PAGES)
#define FIRST_DUE_NS UINT64_C(1000000000)
#define COST_NS UINT64_C(2000000) /* about what one takes, and for each MiB in memory: */
#define COST_NS_A_MIB UINT64_C(25000)
#define COST_NS_A_BLOCK UINT64_C(40)
#define EARLY_COST_NS UINT64_C(20000000) /* the first ones may take so much of a short life */
#define REFUSAL_NS UINT64_C(1000000)     /* it asked for nothing */

static bool takes_by_itself(const struct recorder *r)
{
	return r->o->take_ledger && !r->o->no_ledgers;
}

static void make_file(struct recorder *r, const char *name)
{
	int fd = openat(r->dir.fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	if (fd >= 0)
		close(fd);
}

void recorder_offer_ledgers(struct recorder *r)
{
	if (!takes_by_itself(r) || r->o->sample_bytes || mkfifoat(r->dir.fd, WIRE_BELL_NAME, 0600))
		return;
	/* Root's programs may drop their privileges. */
	fchmodat(r->dir.fd, WIRE_BELL_NAME, geteuid() ? 0600 : 0622, 0);
	r->books.bell = openat(r->dir.fd, WIRE_BELL_NAME,
			       O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (r->o->leaks)
		make_file(r, WIRE_LEAKS_NAME);
}

void recorder_hush_bell(struct recorder *r)
{
	char events[1024];
	while (r->books.bell >= 0 && read(r->books.bell, events, sizeof events) > 0)
		;
}

/* To a process for which a ledger is being taken */
static void answer(struct process *p)
{
	struct wire_ledger *l = &p->view.session.header->ledger;
	uint32_t working = WIRE_LEDGER_WORKING;
	if (!atomic_compare_exchange_strong(&l->state, &working, WIRE_LEDGER_DONE))
		return;
	syscall(SYS_futex, &l->state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* ---- one ledger */

struct taking {
	struct recorder *r;
	struct process *p;
	uint64_t time_ns, released_ns, live_bytes;
	double share; /* of the peak so far */
	/* Blocks that are in no shadow, in order of address */
	struct late_blocks {
		VECTOR_MEMBERS(struct ledger_block);
		bool failed;
	} late;
};

static struct ledger_block as_listed(const struct live_block *b)
{
	return (struct ledger_block){b->addr, b->size, b->size + b->slack, b->site};
}

static void keep_late(void *ctx, const struct live_block *b)
{
	struct late_blocks *late = ctx;
	late->failed = late->failed || !vector_push(late, as_listed(b));
}

static int by_address(const void *a, const void *b)
{
	const struct ledger_block *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

/* Blocks in shadows come in order of address, and the others between them. */
struct merging {
	const struct late_blocks *late;
	size_t next;
	ledger_block_fn *fn;
	void *ctx;
};

static void merge_block(void *ctx, const struct live_block *live)
{
	struct merging *m = ctx;
	const struct ledger_block b = as_listed(live);
	while (m->next < m->late->count && m->late->items[m->next].address < b.address)
		m->fn(m->ctx, &m->late->items[m->next++]);
	m->fn(m->ctx, &b);
}

static void each_of(struct taking *t,
		    void (*shadowed)(struct live_blocks *, live_block_fn *, void *),
		    ledger_block_fn *fn, void *fn_ctx)
{
	struct merging m = {.late = &t->late, .fn = fn, .ctx = fn_ctx};
	shadowed(&recorded(t->p)->reorder.blocks, merge_block, &m);
	while (m.next < t->late.count)
		fn(fn_ctx, &t->late.items[m.next++]);
}

static void each_block(void *ctx, ledger_block_fn *fn, void *fn_ctx)
{
	each_of(ctx, live_blocks_shadowed, fn, fn_ctx);
}

static void each_large(void *ctx, ledger_block_fn *fn, void *fn_ctx)
{
	_Static_assert((int)LIVE_LARGE == LEDGER_LARGE, "of the same blocks");
	each_of(ctx, live_blocks_shadowed_large, fn, fn_ctx);
}

/* Reads what the process has recorded up to now, while it stands still. False: there may be more. */
static bool read_rest(struct recorder *r)
{
	uint64_t now = arch_stamp_after();
	for (unsigned i = 0; i < STILL_ROUNDS; i++) {
		uint64_t round = drain_begin(&r->drain);
		uint64_t limit = recorder_find_processes(r);
		uint64_t leaving = recorder_leaving_limit(r, round);
		drain_round(&r->drain, r->set->list, r->set->count, round,
			    leaving < limit ? leaving : limit);
		if (r->drain.watermark >= now)
			return true;
	}
	return false;
}

/* What the process says of heft's own memory in it: whoever uses it checks it. */
static void list_own(struct process *p, struct ledger_blocks *blocks)
{
	const struct wire_header *h = p->view.session.header;
	_Static_assert((int)WIRE_OWNS == LEDGER_OWNS, "room for all");
	const uint32_t used = atomic_load(&h->own_used);
	for (size_t i = 0; i < WIRE_OWNS && i < used; i++) {
		uint64_t at = atomic_load(&h->own[i].at), bytes = atomic_load(&h->own[i].bytes);
		if (at && bytes)
			blocks->own[blocks->own_count++] = (struct ledger_own){at, bytes};
	}
}

static int list_mapped(void *ctx, const struct mapped_piece *piece, bool added)
{
	struct ledger_blocks *blocks = ctx;
	const struct ledger_mapped mapped = {piece->start, piece->end, piece->site};
	(void)added;
	return vector_push(&blocks->mapped, mapped) ? 0 : HEFT_ENOMEM;
}

/* Nothing is drained until the ledger is there, so the blocks stay those of this moment. */
static int begin_blocks(void *ctx, struct ledger_blocks *blocks, struct heft_error *err)
{
	struct taking *t = ctx;
	const struct reorder *reorder = &recorded(t->p)->reorder;
	if (recorded(t->p)->done)
		return heft_fail(err, HEFT_ENOTFOUND, "process %d has ended", t->p->pid);
	blocks->about = !read_rest(t->r) && reorder->several_threads;
	t->time_ns = drain_now_ns(&t->r->drain);
	t->live_bytes = reorder->live_bytes;
	blocks->live = reorder->live_blocks;
	t->share = reorder->peak_bytes ? (double)reorder->live_bytes / (double)reorder->peak_bytes
				       : 1;
	live_blocks_tabled(&recorded(t->p)->reorder.blocks, keep_late, &t->late);
	const struct mapped_memory *mapped = recorded(t->p)->mapped;
	if (t->late.failed || (mapped && mapped_memory_each(mapped, list_mapped, blocks)))
		return heft_fail(err, HEFT_ENOMEM, "no memory for the blocks of a ledger");
	if (t->late.count)
		qsort(t->late.items, t->late.count, sizeof *t->late.items, by_address);
	list_own(t->p, blocks);
	return 0;
}

static void release(void *ctx)
{
	struct taking *t = ctx;
	t->released_ns = drain_now_ns(&t->r->drain);
	drain_step(&t->r->drain);
	answer(t->p);
}

static void step(void *ctx)
{
	struct taking *t = ctx;
	drain_step(&t->r->drain);
}

/* Says once why there is none. Of the next process it may well be the same. That one ended meanwhile is no reason. */
static void note_refusal(struct recorder *r, struct process *p, enum ledger_moment moment,
			 const struct heft_error *err)
{
	char text[400];
	int length = (int)strcspn(err->message, "\n");
	if (err->code == HEFT_EBUSY && moment != LEDGER_EXIT)
		return; /* perhaps the next time */
	recorded(p)->ledgers.refused = true;
	if (r->books.refused || err->code == HEFT_ENOTFOUND)
		return;
	r->books.refused = true;
	snprintf(text, sizeof text, "heft could not look where the memory of process %d is: %.*s",
		 p->pid, length, err->message);
	recorder_note(r, TRACE_NOTE_INFO, p->index, text);
}

/* How one is to be taken */
struct ledger_order {
	enum ledger_moment moment;
	bool leaks, at_once, waits; /* as in struct ledger_request */
};

/* Whether there was a look, too. */
static bool take_with(struct recorder *r, struct process *p, struct ledger_order order)
{
	struct taking t = {.r = r, .p = p};
	struct heft_error err = {0};
	struct ledger l;
	struct heap_look look = {0};
	const struct ledger_request request = {
		.pid = p->seen_pid,
		.moment = order.moment,
		.all_known = !p->attached && !p->child,
		.at_once = order.at_once,
		.waits = order.waits,
		.look = order.leaks ? &look : NULL,
		.touched = order.leaks ? NULL : &look,
		.leaks = order.leaks,
		.ctx = &t,
		.begin = begin_blocks,
		.each_block = each_block,
		.each_large = each_large,
		.release = release,
		.step = step,
	};
	uint64_t began = drain_now_ns(&r->drain);
	/* What it was told to wait for is of the last one (watch_own). */
	atomic_store(&p->view.session.header->ledger.own_pages, 0);
	if (!p->seen_pid) {
		heft_fail(&err, HEFT_EREFUSED, "its number is not known here");
		note_refusal(r, p, order.moment, &err);
	} else if (!r->o->take_ledger(&l, &request, &err)) {
		l.time_ns = t.time_ns;
		l.share_of_peak = t.share;
		l.live_bytes = t.live_bytes;
		trace_writer_ledger(r->writer, &l, p->index);
		recorded(p)->ledgers.live_bytes = recorded(p)->reorder.live_bytes;
		recorded(p)->ledgers.rss_bytes = l.rss_bytes;
		recorded(p)->ledgers.own_bytes = ledger_sum(&l).own;
		ledger_fini(&l);
		look.time_ns = t.time_ns;
		look.pid = p->seen_pid;
		if (look.parts || look.note[0])
			trace_writer_look(r->writer, &look, p->index);
	} else {
		note_refusal(r, p, order.moment, &err);
	}
	bool looked = look.parts != 0;
	heap_look_fini(&look);
	vector_free(&t.late);
	uint64_t ended = drain_now_ns(&r->drain);
	recorded(p)->ledgers.spent_ns += (t.released_ns ? t.released_ns : ended) - began;
	r->books.spent_ns += ended - began;
	r->books.taken++;
	recorded(p)->ledgers.taken++;
	return looked;
}

static void take(struct recorder *r, struct process *p, enum ledger_moment moment)
{
	take_with(r, p,
		  (struct ledger_order){.moment = moment,
					.leaks = r->o->leaks,
					.at_once = moment != LEDGER_REQUEST});
}

/* Somebody wants to know now what the process has lost, and reads the recording then. */
static void take_wanted(struct recorder *r, struct process *p)
{
	struct wire_ledger *l = &p->view.session.header->ledger;
	uint32_t wanted = atomic_load(&l->wanted);
	const struct ledger_order order = {.moment = LEDGER_INTERVAL, .leaks = true};
	if (wanted == recorded(p)->ledgers.answered)
		return;
	recorded(p)->ledgers.answered = wanted;
	if (!r->full && r->o->take_ledger && take_with(r, p, order)) {
		drain_flush(&r->drain);
		trace_writer_flush(r->writer);
		atomic_store(&l->looked, wanted);
	}
	atomic_store(&l->answered, wanted);
}

/* A thread that waits until heft holds what it executes. If it is in vfork it cannot be stopped, and heft would wait for it while
 * it waits for heft. */
static bool executes(const struct process *p)
{
	for (unsigned k = 0; k < WIRE_HOLDS; k++)
		if (atomic_load(&p->view.session.header->holds[k].word))
			return true;
	return false;
}

/* A heap, or much memory that is not malloc's */
static bool is_worth(const struct recorder *r, const struct process *p)
{
	return r->o->leaks || recorded(p)->reorder.peak_bytes >= LEAST_BYTES ||
	       p->entry.rss.anonymous_bytes >= LEAST_OWN_BYTES;
}

static bool is_exact(const struct process *p)
{
	return !p->view.sampled && !p->view.corrupt && !p->ended && !recorded(p)->done &&
	       !recorded(p)->gone;
}

/* ---- when */

static uint64_t likely_cost(const struct process *p)
{
	return COST_NS + (p->entry.rss.bytes >> 20) * COST_NS_A_MIB +
	       recorded(p)->reorder.live_blocks * COST_NS_A_BLOCK;
}

/* Whether another one before its exit stays below its share of the time. */
static bool is_in_share(const struct process *p, uint64_t now)
{
	const struct recorded_ledgers *l = &recorded(p)->ledgers;
	uint64_t age = now > p->entry.facts.start_ns ? now - p->entry.facts.start_ns : 0;
	return !l->refused && l->spent_ns + likely_cost(p) <= age / SHARE;
}

/* Or may have what the first ones together may take, if it has much more memory than at the last. */
static bool is_early(const struct process *p)
{
	const struct recorded_ledgers *l = &recorded(p)->ledgers;
	return !l->refused && (l->taken ? l->spent_ns : 0) + likely_cost(p) <= EARLY_COST_NS;
}

/* An interpreter has a small heap at first, and its peak may be yet to come. */
static bool has_doubled(const struct process *p)
{
	uint64_t live = recorded(p)->reorder.live_bytes;
	return live / 2 >= recorded(p)->ledgers.live_bytes && live >= p->entry.rss.bytes / PART;
}

static bool is_affordable(const struct process *p, uint64_t now)
{
	return is_in_share(p, now) || (is_early(p) && has_doubled(p));
}

/* Whether all processes together may take another one. The command itself always may. A storm of short processes is not to
 * wait for heft: after the first few they share a hundredth of the time. */
static bool is_granted(const struct recorder *r, const struct process *p, uint64_t now)
{
	return r->o->all_ledgers || recorded(p)->direct || r->books.taken < FIRST_FEW ||
	       (!r->books.refused && r->books.spent_ns + likely_cost(p) <= now / SHARE);
}

/* The heap, or memory that is not malloc's: of a language's runtime it is most. */
static bool has_grown(const struct process *p)
{
	const struct recorded_ledgers *last = &recorded(p)->ledgers;
	return recorded(p)->reorder.live_bytes > last->live_bytes + last->live_bytes / HIGHER ||
	       p->entry.rss.bytes > last->rss_bytes + last->rss_bytes / HIGHER;
}

static bool is_near_new_peak(const struct process *p)
{
	const struct reorder *b = &recorded(p)->reorder;
	uint64_t last = recorded(p)->ledgers.live_bytes;
	return b->peak_bytes >= LEAST_BYTES && b->peak_bytes > last + last / HIGHER &&
	       b->live_bytes >= b->peak_bytes - b->peak_bytes / NEAR;
}

/* From how much memory of its own on a process asks before it gives some back. */
static void watch_own(struct recorder *r, struct process *p, uint64_t now)
{
	struct wire_ledger *l = &p->view.session.header->ledger;
	struct recorded_ledgers *known = &recorded(p)->ledgers;
	bool in_share = is_in_share(p, now);
	uint64_t bytes = known->own_bytes + known->own_bytes / (in_share ? HIGHER : 1), pages = 0;
	if ((in_share || is_early(p)) && is_granted(r, p, now))
		pages = (bytes > LEAST_OWN_BYTES ? bytes : LEAST_OWN_BYTES) / 4096;
	if (pages <= UINT32_MAX &&
	    pages != atomic_load_explicit(&l->own_pages, memory_order_relaxed))
		atomic_store(&l->own_pages, (uint32_t)pages);
}

/* The process watches while it is armed. Where it makes few calls it is seen here that its heap shrinks. */
static void watch_peak(struct recorder *r, struct process *p, uint64_t now)
{
	struct wire_ledger *l = &p->view.session.header->ledger;
	struct recorded_ledgers *known = &recorded(p)->ledgers;
	const struct reorder *b = &recorded(p)->reorder;
	bool arm = is_near_new_peak(p) && is_affordable(p, now) && is_granted(r, p, now);
	uint64_t step = b->peak_bytes / FALLEN;
	if (arm != known->armed) {
		known->armed = arm;
		atomic_store(&l->armed, arm ? (uint32_t)(step / 4096) + 1 : 0);
	} else if (arm && b->live_bytes < b->peak_bytes - step && atomic_exchange(&l->armed, 0)) {
		known->armed = false;
		take(r, p, LEDGER_PEAK);
	}
}

/* By the clock: every so often; else when a process is 1, 2, 4, 8 ... seconds old, if it has grown since the last one. So
 * there is one of a process that never frees much, and ends in a way that nobody sees in time, or that gives back at its exit
 * what its runtime has mapped. */
static void take_due(struct recorder *r, struct process *p, uint64_t now)
{
	struct recorded_ledgers *known = &recorded(p)->ledgers;
	const uint64_t start = p->entry.facts.start_ns, every = r->o->ledger_every_ns;
	if (now < known->due_ns)
		return;
	bool first = !known->due_ns;
	uint64_t age = now > start ? now - start : 0;
	known->due_ns = now + (every ? every : age < FIRST_DUE_NS ? FIRST_DUE_NS - age : age);
	if (first || !is_worth(r, p) || (!every && !has_grown(p)))
		return;
	if (is_affordable(p, now) && is_granted(r, p, now))
		take(r, p, LEDGER_INTERVAL);
}

/* ---- who asks */

static bool is_wanted(const struct process *p, uint32_t moment, uint64_t now)
{
	switch (moment) {
	case WIRE_LEDGER_NEAR_PEAK:
	case WIRE_LEDGER_FREEING: return is_near_new_peak(p) && is_affordable(p, now);
	/* Its memory of its own is what it was told to wait for (watch_own). */
	case WIRE_LEDGER_GIVING_BACK: return is_in_share(p, now) || is_early(p);
	default: return true;
	}
}

static enum ledger_moment moment_of(uint32_t asked)
{
	switch (asked) {
	case WIRE_LEDGER_NEAR_PEAK:
	case WIRE_LEDGER_FREEING: return LEDGER_PEAK;
	case WIRE_LEDGER_GIVING_BACK: return LEDGER_INTERVAL;
	default: return LEDGER_EXIT;
	}
}

static void take_asked(struct recorder *r, struct process *p, uint64_t now)
{
	struct recorded_ledgers *known = &recorded(p)->ledgers;
	uint32_t asked = atomic_load(&p->view.session.header->ledger.moment);
	enum ledger_moment moment = moment_of(asked);
	/* Who gives memory back has seen that there is much of it. */
	if (r->full || r->stop || (moment != LEDGER_INTERVAL && !is_worth(r, p)))
		return;
	bool granted = is_granted(r, p, now);
	if (granted && is_wanted(p, asked, now))
		take_with(r, p,
			  (struct ledger_order){.moment = moment,
						.leaks = r->o->leaks,
						.at_once = true,
						.waits = asked != WIRE_LEDGER_NEAR_PEAK});
	else
		known->spent_ns += REFUSAL_NS;
	r->books.left_out += moment == LEDGER_EXIT && !granted;
	if (moment == LEDGER_PEAK)
		known->armed = false;
}

/* True: not all events from before it asked were read yet. */
static bool look_at(struct recorder *r, struct process *p)
{
	struct wire_ledger *l = &p->view.session.header->ledger;
	struct recorded_ledgers *known = &recorded(p)->ledgers;
	uint64_t now = drain_now_ns(&r->drain);
	if (is_worth(r, p) && !atomic_load_explicit(&l->worth, memory_order_relaxed))
		atomic_store(&l->worth, 1);
	if (executes(p))
		return false; /* in the next round */
	take_wanted(r, p);
	if (!takes_by_itself(r))
		return false;
	if (atomic_load(&l->state) != WIRE_LEDGER_ASKED) {
		known->asked_ns = 0;
		if (!r->full && !process_leaving_tsc(p)) {
			watch_peak(r, p, now);
			watch_own(r, p, now);
			take_due(r, p, now);
		}
		return false;
	}
	if (!known->asked_ns)
		known->asked_ns = now;
	if (r->drain.watermark < atomic_load(&l->tsc) &&
	    now - known->asked_ns < PATIENCE_MS * 1000000ull)
		return true;
	uint32_t asked = WIRE_LEDGER_ASKED;
	if (!atomic_compare_exchange_strong(&l->state, &asked, WIRE_LEDGER_WORKING))
		return false;
	take_asked(r, p, now);
	answer(p);
	return false;
}

bool recorder_look_for_ledgers(struct recorder *r)
{
	bool waits = false;
	for (uint32_t i = 0; i < r->set->count; i++)
		if (is_exact(r->set->list[i]))
			waits |= look_at(r, r->set->list[i]);
	return waits;
}

void recorder_ledger_before_leaving(struct recorder *r)
{
	for (uint32_t i = 0; i < r->set->count && takes_by_itself(r) && !r->full; i++) {
		struct process *p = r->set->list[i];
		if (is_exact(p) && recorded(p)->direct && is_worth(r, p))
			take(r, p, LEDGER_REQUEST);
	}
}

void recorder_note_ledgers(struct recorder *r)
{
	char text[200];
	if (!r->books.left_out)
		return;
	snprintf(text, sizeof text,
		 "%" PRIu32
		 " process%s exited without a ledger: all together may take a hundredth of "
		 "the time (--ledger takes all)",
		 r->books.left_out, r->books.left_out == 1 ? "" : "es");
	recorder_note(r, TRACE_NOTE_INFO, 0, text);
}
