/* A process asks for a ledger of itself (struct wire_ledger): where its memory is before it ends, while
 * nothing is destroyed yet; and when its heap begins to shrink, after a new peak. The recorder reads all events up to this
 * moment, so that it knows the live blocks; it stops the process and looks at its pages.
 *
 * The wait is bounded, by the recorder's signs of life and in all. While a ledger is taken the process stands still, which is no time to it. Who asks writes into a pipe
 * that the recorder watches: it looks at once and not only in its next round. Without that pipe nobody
 * takes ledgers.
 *
 * A process with a small heap does not ask. The recorder says when one has become large, but that may be some
 * milliseconds late; so who has as much memory of its own asks, too, and gets an answer at once.
 *
 * What a heap has live is not counted here: that would cost every call. The recorder knows it, some milliseconds late. It
 * says when the heap is near a new peak, and from then on threads look at what they have recorded, 64 words at a time. If
 * nearly all of it is frees, the recorder is asked, and decides whether that was a peak. A program may be quicker than the recorder,
 * so this begins with the process.
 *
 * One large block may be a step by itself: who frees one is there before it is gone.
 *
 * Memory that the program or an allocator of its own has mapped is in no heap that the recorder knows. So whoever is about
 * to give some back looks now and then how much memory the process has of its own, and asks if that is more than at
 * the last ledger. The ledger is taken before the call: what it gives back is still there.
 *
 * Nothing is asked at exit or before memory is given back from inside a hook (a signal handler has interrupted malloc, so no order of events is
 * known), nor by a process that has installed a filter of system calls. Nothing here
 * takes a lock or allocates. */
#include "capture/ledger_request.h"
#include "capture/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

enum {
	FUTEX_WAIT_SHARED = 0,
	MONOTONIC = 1,
	SLICE_MS = 20,
	/* Without a sign of life. The recorder's heart beats every 100 ms; another process may come first. */
	SILENT_MS = 240,
	UNANSWERED_MS = 1000, /* at exit: heft is alive, but has not begun */
	NEAR_PEAK_MS = 100,   /* near the peak: in all */
	FREES_LEAST = 24,     /* of the last records */
	LONGEST_MS = 10000,
	LOOK_BYTES = 1 << 20,  /* given back since the last look at how much there is, */
	LOOK_CYCLES = 1 << 20, /* and so long ago it was, at least: less than a millisecond */
	SMALL_PAGES =
		256, /* of its own in memory: its heap is no larger, unless most was never touched */
};

/* A file of the session directory; negative: it is not there, or nobody hears the bell. */
static int open_there(const char *name, int flags)
{
	char path[sizeof heft_settings.session_dir + sizeof WIRE_LEAKS_NAME + 1];
	char *end = stpcpy(path, heft_settings.session_dir);
	*end++ = '/';
	strcpy(end, name);
	return sys_open(path, flags | O_NONBLOCK | O_CLOEXEC, 0);
}

static int is_there(const char *name, int flags)
{
	int fd = open_there(name, flags);
	if (fd >= 0)
		sys_close(fd);
	return fd >= 0;
}

static int ring(void)
{
	int fd = open_there(WIRE_BELL_NAME, O_WRONLY);
	long rung = fd >= 0 ? sys_write(fd, "", 1) : 0;
	if (fd >= 0)
		sys_close(fd);
	return rung == 1;
}

static void wait_for_answer(struct wire_header *h, unsigned unanswered_ms, unsigned longest_ms)
{
	struct wire_ledger *l = &h->ledger;
	uint32_t progress = atomic_load(&h->progress);
	unsigned silent = 0;
	for (unsigned all = 0; all < longest_ms; all += SLICE_MS) {
		const int64_t slice[2] = {0, SLICE_MS * 1000000l};
		uint32_t state = atomic_load(&l->state), now = atomic_load(&h->progress);
		if (state != WIRE_LEDGER_ASKED && state != WIRE_LEDGER_WORKING)
			return;
		if (state == WIRE_LEDGER_ASKED && all >= unanswered_ms)
			break;
		silent = now != progress ? 0 : silent + SLICE_MS;
		progress = now;
		if (silent > SILENT_MS)
			break;
		sys_futex(&l->state, FUTEX_WAIT_SHARED, state, slice);
	}
	uint32_t asked = WIRE_LEDGER_ASKED;
	atomic_compare_exchange_strong(&l->state, &asked, WIRE_LEDGER_NONE);
}

static const char *number(const char *text, const char *end, uint64_t *value)
{
	*value = 0;
	while (text < end && *text >= '0' && *text <= '9')
		*value = *value * 10 + (uint64_t)(*text++ - '0');
	return text < end ? text + 1 : end;
}

/* Pages in memory that belong to no file and are not shared */
static uint64_t own_pages(void)
{
	char text[128];
	uint64_t all, resident, shared;
	int fd = sys_open("/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);
	long n = fd >= 0 ? sys_read(fd, text, sizeof text) : 0;
	if (fd >= 0)
		sys_close(fd);
	if (n <= 0)
		return 0;
	const char *end = text + n;
	number(number(number(text, end, &all), end, &resident), end, &shared);
	return resident > shared ? resident - shared : 0;
}

/* Whether this process may have enough for a ledger to be worth its while. */
static int may_be_large(const struct wire_header *h)
{
	return atomic_load_explicit(&h->ledger.worth, memory_order_relaxed) ||
	       own_pages() >= SMALL_PAGES || is_there(WIRE_LEAKS_NAME, O_RDONLY);
}

/* Asks, unless somebody else does. Returns when there is an answer. */
static void ask(struct wire_header *h, enum wire_ledger_moment moment)
{
	const int exits = moment == WIRE_LEDGER_AT_EXIT;
	const unsigned unanswered_ms = exits ? UNANSWERED_MS : NEAR_PEAK_MS;
	const unsigned longest_ms = exits ? LONGEST_MS : NEAR_PEAK_MS;
	uint32_t none = WIRE_LEDGER_NONE;
	atomic_store(&h->ledger.moment, moment);
	atomic_store(&h->ledger.tsc, arch_stamp());
	if (!atomic_compare_exchange_strong(&h->ledger.state, &none, WIRE_LEDGER_ASKED))
		wait_for_answer(h, unanswered_ms, longest_ms);
	else if (ring())
		wait_for_answer(h, unanswered_ms, longest_ms);
	else
		atomic_store(&h->ledger.state, WIRE_LEDGER_NONE);
}

/* Whether asking is possible and nobody minds the calls that it takes. */
static int may_ask(const struct wire_header *h)
{
	return h->mode == WIRE_EXACT && atomic_load(&h->state) == WIRE_ON &&
	       heft_settings.session_dir[0] && !heft_sandbox_has_filter() &&
	       !atomic_load_explicit(&sys_forbidden, memory_order_relaxed) &&
	       h->pid == sys_getpid();
}

void heft_ledger_at_exit(void)
{
	struct wire_header *h = heft_own_header();
	const int saved = errno;
	if (h && !heft_tls_now()->guard && may_ask(h) && is_there(WIRE_BELL_NAME, O_WRONLY) &&
	    may_be_large(h)) {
		uint32_t done = WIRE_LEDGER_DONE;
		/* Another one may be under way, in another thread. */
		if (atomic_load(&h->ledger.moment) != WIRE_LEDGER_AT_EXIT) {
			wait_for_answer(h, UNANSWERED_MS, LONGEST_MS);
			atomic_compare_exchange_strong(&h->ledger.state, &done, WIRE_LEDGER_NONE);
		}
		ask(h, WIRE_LEDGER_AT_EXIT);
	}
	errno = saved;
}

/* Whether frees are most of what the thread has recorded since it last looked. A free takes a word, an allocation two. */
static int shrinks(struct heft_thread *t)
{
	uint32_t all = t->frees_base - t->frees_to_skip, frees = all - t->watched_frees;
	uint32_t words = ((uint32_t)t->pos - t->watched_bytes) / 8;
	t->watched_frees = all;
	t->watched_bytes = (uint32_t)t->pos;
	return frees >= FREES_LEAST && frees * 3 > words * 2;
}

void heft_ledger_watch(struct heft_thread *t)
{
	struct wire_header *h = heft_own_header();
	uint32_t done = WIRE_LEDGER_DONE;
	if (!h || !t->chunk || !shrinks(t) || !may_ask(h) ||
	    !atomic_exchange(&h->ledger.armed, 0) || !may_be_large(h))
		return;
	ask(h, WIRE_LEDGER_NEAR_PEAK);
	atomic_compare_exchange_strong(&h->ledger.state, &done, WIRE_LEDGER_NONE);
}

void heft_ledger_before_giving_back(size_t bytes)
{
	static _Atomic uint64_t given_back, looked_tsc;
	struct wire_header *h = heft_own_header();
	uint32_t pages = h ? atomic_load_explicit(&h->ledger.own_pages, memory_order_relaxed) : 0;
	uint32_t done = WIRE_LEDGER_DONE;
	if (LIKELY(!pages) || atomic_fetch_add(&given_back, bytes) + bytes < LOOK_BYTES)
		return;
	if (heft_tls_now()->guard || !may_ask(h))
		return;
	/* A look takes some microseconds. In LOOK_CYCLES a program cannot touch more than a few MiB. */
	const uint64_t now = arch_stamp();
	if (now - atomic_load_explicit(&looked_tsc, memory_order_relaxed) < LOOK_CYCLES)
		return;
	atomic_store_explicit(&looked_tsc, now, memory_order_relaxed);
	const int saved = errno;
	atomic_store(&given_back, 0);
	if (own_pages() >= pages &&
	    atomic_compare_exchange_strong(&h->ledger.own_pages, &pages, 0)) {
		ask(h, WIRE_LEDGER_GIVING_BACK);
		atomic_compare_exchange_strong(&h->ledger.state, &done, WIRE_LEDGER_NONE);
	}
	errno = saved;
}

void heft_ledger_before_freeing(const void *p)
{
	struct wire_header *h = heft_own_header();
	const uint64_t chunk = ((const uint64_t *)p)[-1];
	uint32_t armed = h ? atomic_load_explicit(&h->ledger.armed, memory_order_relaxed) : 0;
	uint32_t done = WIRE_LEDGER_DONE;
	if (!armed || chunk / 4096 < armed || heft_tls_now()->guard || !may_ask(h)) {
		if (chunk & 2) /* mapped by itself */
			heft_ledger_before_giving_back(chunk);
		return;
	}
	const int saved = errno;
	if (atomic_compare_exchange_strong(&h->ledger.armed, &armed, 0) && may_be_large(h)) {
		ask(h, WIRE_LEDGER_FREEING);
		atomic_compare_exchange_strong(&h->ledger.state, &done, WIRE_LEDGER_NONE);
	}
	errno = saved;
}
