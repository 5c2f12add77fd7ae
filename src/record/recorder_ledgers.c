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
 * A heap that never had 1 MiB is not worth a stop. What is wrong with a ledger is a note in the recording and nothing
 * else. */
#include "record/recorder_parts.h"

#include "base/arch.h"
#include "hosted/ledger.h"

#include <fcntl.h>
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
	HIGHER = 16, /* a peak is new if it is so much (1/16) above the last ledger's heap */
	NEAR = 8,    /* and near as long as no more than 1/8 of it is gone, */
	FALLEN = 64, /* and over when 1/64 is */
	SHARE = 100, /* of its time: 1/100 */
};
#define COST_NS UINT64_C(2000000) /* about what one takes, and for each MiB in memory: */
#define COST_NS_A_MIB UINT64_C(25000)
#define FIRST_COST_NS UINT64_C(20000000) /* the first may take so much of a short life */
#define REFUSAL_NS UINT64_C(1000000)     /* it asked for nothing */

static void make_file(struct recorder *r, const char *name)
{
	int fd = openat(r->dir.fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);
	if (fd >= 0)
		close(fd);
}

void recorder_offer_ledgers(struct recorder *r)
{
	if (!r->o->take_ledger || mkfifoat(r->dir.fd, WIRE_BELL_NAME, 0600))
		return;
	/* Root's programs may drop their privileges. */
	fchmodat(r->dir.fd, WIRE_BELL_NAME, geteuid() ? 0600 : 0622, 0);
	r->bell = openat(r->dir.fd, WIRE_BELL_NAME, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (r->o->leaks)
		make_file(r, WIRE_LEAKS_NAME);
}

void recorder_hush_bell(struct recorder *r)
{
	char events[1024];
	while (r->bell >= 0 && read(r->bell, events, sizeof events) > 0)
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
	uint64_t time_ns;
	double share;
};

struct listing {
	struct ledger_blocks *blocks;
	bool failed;
};

static void list_block(void *ctx, const struct live_block *b)
{
	struct listing *l = ctx;
	const struct ledger_block block = {b->addr, b->size, b->size + b->slack, b->site};
	l->failed = l->failed || !vector_push(l->blocks, block);
}

static int by_address(const void *a, const void *b)
{
	const struct ledger_block *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

/* Most come in order of address: all that the shadows hold. A few follow. */
static bool put_in_order(struct ledger_blocks *blocks)
{
	struct ledger_block *b = blocks->items;
	size_t in_order = 1, count = blocks->count;
	while (in_order < count && b[in_order - 1].address <= b[in_order].address)
		in_order++;
	if (in_order >= count)
		return true;
	size_t rest = count - in_order;
	struct ledger_block *late = malloc(rest * sizeof *late);
	if (!late)
		return false;
	memcpy(late, b + in_order, rest * sizeof *late);
	qsort(late, rest, sizeof *late, by_address);
	for (size_t to = count; rest;)
		b[--to] = in_order && b[in_order - 1].address > late[rest - 1].address
				  ? b[--in_order]
				  : late[--rest];
	free(late);
	return true;
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
	for (size_t i = 0; i < WIRE_OWNS; i++) {
		uint64_t at = atomic_load(&h->own[i].at), bytes = atomic_load(&h->own[i].bytes);
		if (at && bytes)
			blocks->own[blocks->own_count++] = (struct ledger_own){at, bytes};
	}
}

static int list_blocks(void *ctx, struct ledger_blocks *blocks, struct heft_error *err)
{
	struct taking *t = ctx;
	const struct reorder *reorder = &recorded(t->p)->reorder;
	struct listing l = {.blocks = blocks};
	if (recorded(t->p)->done)
		return heft_fail(err, HEFT_ENOTFOUND, "process %d has ended", t->p->pid);
	blocks->about = !read_rest(t->r) && reorder->several_threads;
	t->time_ns = drain_now_ns(&t->r->drain);
	t->share = reorder->peak_bytes ? (double)reorder->live_bytes / (double)reorder->peak_bytes
				       : 1;
	if (!vector_reserve(blocks, reorder->live_blocks + 1))
		return heft_fail(err, HEFT_ENOMEM, "no memory for the blocks of a ledger");
	live_blocks_all(&recorded(t->p)->reorder.blocks, list_block, &l);
	list_own(t->p, blocks);
	if (l.failed || !put_in_order(blocks))
		return heft_fail(err, HEFT_ENOMEM, "no memory for the blocks of a ledger");
	return 0;
}

static void release(void *ctx)
{
	struct taking *t = ctx;
	drain_step(&t->r->drain);
	answer(t->p);
}

static void step(void *ctx)
{
	struct taking *t = ctx;
	drain_step(&t->r->drain);
}

/* Says once for each process why there is none. */
static void note_refusal(struct recorder *r, struct process *p, const struct heft_error *err)
{
	char text[400];
	int length = (int)strcspn(err->message, "\n");
	if (recorded(p)->ledgers.refused)
		return;
	recorded(p)->ledgers.refused = true;
	snprintf(text, sizeof text, "heft could not look where the memory of process %d is: %.*s",
		 p->pid, length, err->message);
	recorder_note(r, TRACE_NOTE_INFO, p->index, text);
}

static void take(struct recorder *r, struct process *p, enum ledger_moment moment)
{
	struct taking t = {.r = r, .p = p};
	struct heft_error err = {0};
	struct ledger l;
	struct heap_look look = {0};
	const struct ledger_request request = {
		.pid = p->seen_pid,
		.moment = moment,
		.all_known = !p->attached && !p->child,
		.at_once = moment == LEDGER_EXIT,
		.look = r->o->leaks ? &look : NULL,
		.leaks = r->o->leaks,
		.ctx = &t,
		.list = list_blocks,
		.release = release,
		.step = step,
	};
	uint64_t began = drain_now_ns(&r->drain);
	if (!p->seen_pid) {
		heft_fail(&err, HEFT_EREFUSED, "its number is not known here");
		note_refusal(r, p, &err);
	} else if (!r->o->take_ledger(&l, &request, &err)) {
		l.time_ns = t.time_ns;
		l.share_of_peak = t.share;
		trace_writer_ledger(r->writer, &l, p->index);
		ledger_fini(&l);
		look.time_ns = t.time_ns;
		if (look.parts || look.note[0])
			trace_writer_look(r->writer, &look, p->index);
	} else {
		note_refusal(r, p, &err);
	}
	heap_look_fini(&look);
	recorded(p)->ledgers.spent_ns += drain_now_ns(&r->drain) - began;
	recorded(p)->ledgers.live_bytes = recorded(p)->reorder.live_bytes;
	recorded(p)->ledgers.taken++;
}

static bool is_worth(const struct recorder *r, const struct process *p)
{
	return r->o->leaks || recorded(p)->reorder.peak_bytes >= LEAST_BYTES;
}

static bool is_exact(const struct process *p)
{
	return !p->view.sampled && !p->view.corrupt && !p->ended && !recorded(p)->done &&
	       !recorded(p)->gone;
}

/* ---- when */

/* Whether another one before its exit is worth its time. */
static bool is_affordable(const struct process *p, uint64_t now)
{
	const struct recorded_ledgers *l = &recorded(p)->ledgers;
	uint64_t age = now > p->entry.facts.start_ns ? now - p->entry.facts.start_ns : 0;
	uint64_t cost = COST_NS + (p->entry.rss.bytes >> 20) * COST_NS_A_MIB;
	if (!l->taken && cost <= FIRST_COST_NS)
		return true;
	return !l->refused && l->spent_ns + cost <= age / SHARE;
}

static bool is_near_new_peak(const struct process *p)
{
	const struct reorder *b = &recorded(p)->reorder;
	uint64_t last = recorded(p)->ledgers.live_bytes;
	return b->peak_bytes >= LEAST_BYTES && b->peak_bytes > last + last / HIGHER &&
	       b->live_bytes >= b->peak_bytes - b->peak_bytes / NEAR;
}

/* The process watches while it is armed. Where it makes few calls it is seen here that its heap shrinks. */
static void watch_peak(struct recorder *r, struct process *p, uint64_t now)
{
	struct wire_ledger *l = &p->view.session.header->ledger;
	struct recorded_ledgers *known = &recorded(p)->ledgers;
	const struct reorder *b = &recorded(p)->reorder;
	bool arm = is_near_new_peak(p) && is_affordable(p, now);
	uint32_t armed = 1;
	if (arm != known->armed) {
		known->armed = arm;
		atomic_store(&l->armed, arm);
	} else if (arm && b->live_bytes < b->peak_bytes - b->peak_bytes / FALLEN &&
		   atomic_compare_exchange_strong(&l->armed, &armed, 0)) {
		known->armed = false;
		take(r, p, LEDGER_PEAK);
	}
}

static void take_due(struct recorder *r, struct process *p, uint64_t now)
{
	struct recorded_ledgers *known = &recorded(p)->ledgers;
	if (!r->o->ledger_every_ns || now < known->due_ns)
		return;
	bool first = !known->due_ns;
	known->due_ns = now + r->o->ledger_every_ns;
	if (!first && is_worth(r, p) && is_affordable(p, now))
		take(r, p, LEDGER_INTERVAL);
}

/* ---- who asks */

static void take_asked(struct recorder *r, struct process *p, uint64_t now)
{
	struct recorded_ledgers *known = &recorded(p)->ledgers;
	bool exits = atomic_load(&p->view.session.header->ledger.moment) != WIRE_LEDGER_NEAR_PEAK;
	if (r->full || r->stop || !is_worth(r, p))
		return;
	if (exits || (is_near_new_peak(p) && is_affordable(p, now)))
		take(r, p, exits ? LEDGER_EXIT : LEDGER_PEAK);
	else
		known->spent_ns += REFUSAL_NS;
	if (!exits)
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
	if (atomic_load(&l->state) != WIRE_LEDGER_ASKED) {
		known->asked_ns = 0;
		if (!r->full && !process_leaving_tsc(p)) {
			watch_peak(r, p, now);
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
	for (uint32_t i = 0; i < r->set->count && r->o->take_ledger; i++)
		if (is_exact(r->set->list[i]))
			waits |= look_at(r, r->set->list[i]);
	return waits;
}

void recorder_ledger_before_leaving(struct recorder *r)
{
	for (uint32_t i = 0; i < r->set->count && r->o->take_ledger && !r->full; i++) {
		struct process *p = r->set->list[i];
		if (is_exact(p) && recorded(p)->direct && is_worth(r, p))
			take(r, p, LEDGER_REQUEST);
	}
}
