/* What a program asks about itself (include/heft.h): statistics, and regions with expectations. count.c has the numbers.
 *
 * A region is in the caller's memory, which may move or go without a word. So it holds numbers only: those of its
 * beginning, and which place it has among the peaks that are kept. A place has the serial number of its region, so an old
 * copy of a region finds out that its place is another one's. */
#define HEFT_INSIDE
#include "capture/ask.h"
#include "capture/count.h"
#include "capture/marks.h"
#include "capture/program_texts.h"
#include "capture/sample.h"
#include "heft.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION_MAGIC 0x6e6f69676572746eull

/* What struct heft_region holds */
struct region {
	uint64_t magic, serial;
	uint32_t scope; /* enum heft_scope */
	int32_t place;  /* of its peak: in the process's, or in the thread's slot */
	uint32_t name;  /* see program_texts.h; 0: none */
	uint32_t has_ended;
	uint64_t slot_serial; /* of the thread that began it */
	uint64_t begin_tsc, end_tsc;
	struct heft_count_sums first;
	int64_t first_level; /* of its peak */
	struct heft_stats final;
};
_Static_assert(sizeof(struct region) <= sizeof(struct heft_region), "fits");

static int fails(int code)
{
	errno = code;
	return -1;
}

static bool is_sampled(void)
{
	return heft_sampling != 0;
}

int heft_running(void)
{
	if (heft_counts_only())
		return HEFT_COUNTING;
	if (!heft_own_header())
		return HEFT_NOT_RUNNING;
	return is_sampled() ? HEFT_SAMPLED : HEFT_EXACT;
}

/* Counting begins now if it has not. 0, or ENOSYS. */
static int must_count(void)
{
	struct heft_own_work work = heft_own_work_begin();
	int rc = heft_counts() || (heft_own_header() && !is_sampled() && !heft_count_begin())
			 ? 0
			 : ENOSYS;
	heft_own_work_end(work);
	return rc;
}

static void to_stats(const struct heft_count_sums *s, int64_t peak, struct heft_stats *out)
{
	out->allocations = (uint64_t)s->allocations;
	out->reallocations = (uint64_t)s->reallocations;
	out->frees = (uint64_t)s->frees;
	out->allocated_bytes = (uint64_t)s->allocated_bytes;
	out->freed_bytes = (uint64_t)(s->allocated_bytes - s->level);
	out->live_bytes = s->level;
	out->live_blocks = s->allocations - s->frees;
	if (peak < s->level)
		peak = s->level;
	out->peak_bytes = peak > 0 ? (uint64_t)peak : 0;
}

int heft_stats_get(enum heft_scope scope, struct heft_stats *out)
{
	struct heft_count_sums s;
	if (!out || (scope != HEFT_PROCESS && scope != HEFT_THREAD))
		return fails(EINVAL);
	if (must_count())
		return fails(ENOSYS);
	struct heft_count_slot *c = heft_count_slot();
	heft_count_fold(c);
	if (scope == HEFT_PROCESS) {
		heft_count_sums(&s);
		to_stats(&s, atomic_load(&heft_peak(0)->high), out);
	} else {
		heft_count_thread_sums(c, &s);
		to_stats(&s, c->peak - c->first.level, out);
	}
	return 0;
}

/* ---- regions */

/* A place in the thread's slot, or -1: all are taken. */
static int take_place(struct heft_count_slot *c, uint64_t serial, int64_t *level)
{
	if (!~c->regions)
		return -1;
	int place = __builtin_ctz(~c->regions);
	heft_count_fold(c);
	*level = atomic_load_explicit(&c->level, memory_order_relaxed);
	c->region_high[place] = *level;
	c->region_serial[place] = serial;
	c->regions |= 1u << place;
	return place;
}

/* The region, if it was begun and may be used here. */
static struct region *known(const struct heft_region *at)
{
	struct region *r = (struct region *)(uintptr_t)at->opaque;
	if (r->magic != REGION_MAGIC)
		return NULL;
	if (r->has_ended)
		return r;
	struct heft_count_slot *c = heft_count_slot();
	if (r->scope == HEFT_THREAD)
		return c->serial == r->slot_serial && (unsigned)r->place < HEFT_THREAD_REGIONS &&
				       c->region_serial[r->place] == r->serial
			       ? r
			       : NULL;
	return (unsigned)r->place < HEFT_PEAKS &&
			       atomic_load(&heft_peak((unsigned)r->place)->serial) == r->serial
		       ? r
		       : NULL;
}

int heft_region_begin_named(struct heft_region *at, enum heft_scope scope, const char *name)
{
	if (!at || (scope != HEFT_PROCESS && scope != HEFT_THREAD))
		return fails(EINVAL);
	if (must_count())
		return fails(ENOSYS);
	struct heft_count_slot *c = heft_count_slot();
	struct region *r = (struct region *)(uintptr_t)at->opaque;
	if (known(at) && !r->has_ended) /* somebody begins it again, and has not ended it */
		heft_region_end(at, NULL);
	*r = (struct region){.serial = heft_count_serial(), .scope = scope};
	r->slot_serial = c->serial;
	r->place = scope == HEFT_THREAD ? take_place(c, r->serial, &r->first_level)
					: heft_peak_take(r->serial, &r->first_level);
	if (r->place < 0)
		return fails(ENOMEM);
	r->name = heft_text_number(name);
	r->begin_tsc = sys_may_stamp() ? arch_stamp() : 0;
	heft_remark_region(r->serial, r->name, scope, false);
	if (scope == HEFT_THREAD)
		heft_count_thread_sums(c, &r->first);
	else
		heft_count_sums(&r->first);
	r->magic = REGION_MAGIC;
	return 0;
}

int heft_region_begin(struct heft_region *at, enum heft_scope scope)
{
	return heft_region_begin_named(at, scope, NULL);
}

/* What has changed since r began. */
static void change(const struct region *r, struct heft_stats *out)
{
	struct heft_count_slot *c = heft_count_slot();
	struct heft_count_sums s;
	int64_t high;
	if (r->has_ended) {
		*out = r->final;
		return;
	}
	heft_count_fold(c);
	if (r->scope == HEFT_THREAD) {
		heft_count_thread_sums(c, &s);
		high = c->region_high[r->place];
	} else {
		heft_count_sums(&s);
		high = atomic_load(&heft_peak((unsigned)r->place)->high);
	}
	s.allocations -= r->first.allocations;
	s.reallocations -= r->first.reallocations;
	s.frees -= r->first.frees;
	s.allocated_bytes -= r->first.allocated_bytes;
	s.level -= r->first.level;
	to_stats(&s, high - r->first_level, out);
}

int heft_region_change(const struct heft_region *at, struct heft_stats *out)
{
	if (!at || !out)
		return fails(EINVAL);
	if (!heft_counts())
		return fails(ENOSYS);
	const struct region *r = known(at);
	if (!r)
		return fails(EINVAL);
	change(r, out);
	return 0;
}

int heft_region_end(struct heft_region *at, struct heft_stats *out)
{
	if (!at)
		return fails(EINVAL);
	if (!heft_counts())
		return fails(ENOSYS);
	struct region *r = known(at);
	if (!r || r->has_ended)
		return fails(EINVAL);
	struct heft_stats final;
	change(r, &final);
	r->final = final;
	r->has_ended = 1;
	if (r->scope == HEFT_THREAD) {
		struct heft_count_slot *c = heft_count_slot();
		c->regions &= ~(1u << r->place);
		c->region_serial[r->place] = 0;
	} else
		heft_peak_release((unsigned)r->place);
	r->end_tsc = sys_may_stamp() ? arch_stamp() : 0;
	heft_remark_region(r->serial, r->name, r->scope, true);
	if (out)
		*out = final;
	return 0;
}

/* ---- expectations */

static void (*_Atomic on_failure)(const char *message);

void heft_on_failure(void (*callback)(const char *message))
{
	atomic_store(&on_failure, callback);
}

/* The message needs memory, which is not taken from the heap that is being measured. */
enum { MESSAGE_BYTES = 64 << 10 };

/* What heft_expect was given. */
struct expectation {
	size_t field_at;
	enum heft_relation relation;
	int64_t value;
	const char *field, *file;
	int line;
	void (*callback)(const char *message); /* NULL: what heft_on_failure was given */
};

/* Begins it with the place of the expectation. NULL: there is no memory. */
static char *message_begin(struct heft_text *t, const struct expectation *e)
{
	char *message = sys_mmap(NULL, MESSAGE_BYTES, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (message) {
		*t = (struct heft_text){.at = message, .end = message + MESSAGE_BYTES - 1};
		heft_text_put(t, "heft: ");
		heft_text_put(t, e->file);
		heft_text_put(t, ":");
		heft_text_line_put(t, e->line);
		heft_text_put(t, ": ");
	}
	return message;
}

/* Calls the program's function with it, or prints it and aborts. It was made in memory of its own, or is NULL. */
static int deliver(const struct expectation *e, char *message, const struct heft_text *t)
{
	void (*callback)(const char *) = e->callback ? e->callback : atomic_load(&on_failure);
	if (message)
		*t->at = 0;
	const char *text = message ? message : "heft: an expectation does not hold\n";
	if (callback)
		callback(text);
	else {
		size_t left = strlen(text);
		while (left) {
			long n = sys_write(STDERR_FILENO, text, left);
			if (n <= 0)
				break;
			text += n;
			left -= (size_t)n;
		}
		heft_count_publish();
		abort(); /* what the program asked for */
	}
	if (message)
		sys_munmap(message, MESSAGE_BYTES);
	return 0;
}

/* A test must not pass because its region is none. */
static int fail_unchecked(const struct expectation *e)
{
	struct heft_text t;
	char *message = message_begin(&t, e);
	if (message) {
		heft_text_put(&t, e->field);
		heft_text_put(&t,
			      " cannot be checked: this is no region that was begun, or another "
			      "thread began it\n");
	}
	return deliver(e, message, &t);
}

static int fail_broken(const struct region *r, const struct expectation *e, int64_t is)
{
	struct heft_text t;
	char *message = message_begin(&t, e);
	if (message) {
		if (r->name) {
			heft_text_put(&t, "region ");
			heft_text_name_put(&t, heft_text_of(r->name));
			heft_text_put(&t, ": ");
		}
		heft_text_put(&t, e->field);
		heft_text_put(&t, " is ");
		heft_text_number_put(&t, is);
		heft_text_put(&t,
			      e->relation == HEFT_AT_MOST ? ", expected at most " : ", expected ");
		heft_text_number_put(&t, e->value);
		heft_text_put(&t, "\n");
		heft_ask_sites(r->begin_tsc, r->has_ended ? r->end_tsc : 0,
			       r->scope == HEFT_THREAD ? sys_gettid() : 0, e->field_at / sizeof is,
			       &t);
	}
	return deliver(e, message, &t);
}

int heft_expect_or(const struct heft_region *at, size_t field_at, enum heft_relation relation,
		   int64_t value, const char *field, const char *file, int line,
		   void (*callback)(const char *message))
{
	const struct expectation e = {field_at, relation, value, field, file, line, callback};
	struct heft_stats s;
	int64_t is;
	if (field_at > sizeof s - sizeof is || field_at % sizeof is)
		return fails(EINVAL);
	if (heft_region_change(at, &s))
		return errno == ENOSYS ? -1 : fail_unchecked(&e);
	memcpy(&is, (const char *)&s + field_at, sizeof is);
	if (relation == HEFT_AT_MOST ? is <= value : is == value)
		return 1;
	return fail_broken(known(at), &e, is);
}

int heft_expect(const struct heft_region *at, size_t field_at, enum heft_relation relation,
		int64_t value, const char *field, const char *file, int line)
{
	return heft_expect_or(at, field_at, relation, value, field, file, line, NULL);
}
