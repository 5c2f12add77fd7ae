/* The blob: the inside as heft attach puts it into a program that already runs. It is
 * linked to nothing. The outside maps it, writes what it must know (wire/blob.h), lets
 * one thread call heft_blob_open, and then leads the entries of malloc and its
 * siblings here.
 *
 * A hook is reached by a jump, so it finds the stack as a caller of malloc left it. The
 * next function is a copy of the entry's first instructions, which goes on behind
 * them.
 *
 * Detaching needs to know whether a thread is still in here: its guard or its `inside`
 * says so, except for the first and last instructions of a hook, where its pc does. So
 * no hook may wait for a real call without one of them; hooks without either jump to
 * the real function. tools/check_layout.py looks at that. */
#include "capture/hooks.h"
#include "capture/hotpath.h"
#include "capture/object.h"
#include "capture/redirect.h"
#include "capture/settings.h"

#include <elf.h>
#include <string.h>

struct heft_settings heft_settings;
struct heft_next heft_next;
union heft_unusual heft_unusual;
unsigned char heft_arena[HEFT_ARENA_BYTES];
_Atomic uint64_t sys_forbidden;

struct wire_blob_thread heft_blob_threads[WIRE_BLOB_THREADS] __attribute__((aligned(4096)));
static struct wire_blob_owned owned[WIRE_BLOB_OWNED];
static unsigned char stack[WIRE_BLOB_STACK] __attribute__((aligned(4096)));

/* ---- threads */

/* For threads that find no place: a guard that is always set lets every call pass. */
static struct heft_tls *nobody(void)
{
	static struct heft_tls none;
	none = (struct heft_tls){.guard = UINTPTR_MAX, .left = UINT64_MAX, .rate_bytes = 1};
	return &none;
}

NOINLINE struct heft_tls *heft_blob_find_thread(uintptr_t pointer, int32_t tid)
{
	for (uint64_t i = 0; i < WIRE_BLOB_PROBES; i++) {
		struct wire_blob_thread *t =
			&heft_blob_threads[(wire_blob_slot(pointer) + i) % WIRE_BLOB_THREADS];
		uint64_t there = 0;
		if (!atomic_compare_exchange_strong(&t->pointer, &there, pointer) &&
		    there != pointer)
			continue;
		if (atomic_load_explicit(&t->tid, memory_order_relaxed) != tid) {
			memset(&t->thread, 0, sizeof(struct heft_tls));
			atomic_store_explicit(&t->tid, tid, memory_order_relaxed);
		}
		return (struct heft_tls *)&t->thread;
	}
	return nobody();
}

/* ---- what is around */

int heft_find_object(void *address, struct dl_find_object *found)
{
	int (*find)(void *,
		    struct dl_find_object *) = (__typeof__(find))(uintptr_t)heft_blob.find_object;
	return find ? find(address, found) : -1;
}

int heft_own_object(uintptr_t address, struct heft_object *o)
{
	if (address - heft_blob.start >= heft_blob.end - heft_blob.start)
		return 0;
	*o = (struct heft_object){
		.start = heft_blob.start,
		.end = heft_blob.end,
		.eh_frame_hdr = heft_blob.eh_frame_hdr,
		.segments = {.headers = (const Elf64_Phdr *)(uintptr_t)heft_blob.headers,
			     .count = (unsigned)heft_blob.header_count,
			     .bias = heft_blob.start},
	};
	return 1;
}

uint64_t heft_auxiliary(uint64_t type)
{
	switch (type) {
	case AT_PHDR: return heft_blob.phdr;
	case AT_PHNUM: return heft_blob.phnum;
	case AT_RANDOM: return heft_blob.random;
	default: return 0;
	}
}

void *heft_stack_end(void)
{
	return (void *)(uintptr_t)heft_blob.stack_end;
}

void heft_around_mapped(void *at, size_t bytes)
{
	uint64_t i = atomic_fetch_add(&heft_blob.owned_count, 1);
	if (i >= WIRE_BLOB_OWNED)
		return;
	owned[i].bytes = bytes;
	atomic_store_explicit(&owned[i].at, (uintptr_t)at, memory_order_release);
}

void heft_around_unmapped(const void *at)
{
	uint64_t n = atomic_load(&heft_blob.owned_count);
	for (uint64_t i = n < WIRE_BLOB_OWNED ? n : WIRE_BLOB_OWNED; i-- > 0;)
		if (atomic_load_explicit(&owned[i].at, memory_order_relaxed) == (uintptr_t)at) {
			atomic_store(&owned[i].at, 0);
			return;
		}
}

/* ---- what the library does and the blob does not */

void heft_watch_end_of_thread(struct heft_thread *t)
{
	(void)t;
}

void heft_settings_read(void)
{
}

int heft_resolve_next(void)
{
	return 0;
}

void *heft_arena_realloc(void *old, size_t size)
{
	(void)old, (void)size;
	return NULL; /* there is no arena, and no block in it */
}

uintptr_t heft_given_stack_low(uintptr_t thread)
{
	(void)thread;
	return 0;
}

/* Calls are not redirected: their target is changed. */
void heft_redirect_late(const struct heft_object *o, char *work)
{
	(void)o, (void)work;
}

/* ---- the start */

static void take_next(void)
{
#define TAKE(ENTRY, field)                                                                         \
	heft_next.field = (__typeof__(heft_next.field))(uintptr_t)heft_blob.next[WIRE_BLOB_##ENTRY]
	TAKE(MALLOC, malloc);
	TAKE(CALLOC, calloc);
	TAKE(REALLOC, realloc);
	TAKE(FREE, free);
	TAKE(POSIX_MEMALIGN, posix_memalign);
	TAKE(MEMALIGN, memalign);
	TAKE(ALIGNED_ALLOC, aligned_alloc);
	TAKE(VALLOC, valloc);
	TAKE(PVALLOC, pvalloc);
	TAKE(DLCLOSE, dlclose);
#undef TAKE
	heft_next.usable = (__typeof__(heft_next.usable))(uintptr_t)heft_blob.usable;
	heft_next.is_glibc = heft_blob.is_glibc;
}

static int blob_open(void)
{
	struct heft_settings *s = &heft_settings;
	memcpy(s->session_dir, heft_blob.session_dir, sizeof s->session_dir);
	memcpy(s->exe, heft_blob.exe, sizeof s->exe);
	s->sample_bytes = heft_blob.sample_bytes;
	s->sample_auto = heft_blob.sample_auto;
	s->follow_none = heft_blob.follow_none;
	atomic_store(&sys_forbidden, heft_blob.forbidden);
	heft_set_home_reach(heft_blob.thread_local_bytes);
	take_next();
	struct heft_own_work work = heft_own_work_begin();
	int rc = heft_process_open();
	heft_own_work_end(work);
	return rc && heft_open_error ? heft_open_error : rc;
}

/* ---- entries that the library has elsewhere */

/* The real one sets errno. */
void *heft_too_large(void *old, size_t n, size_t each)
{
	void *(*next)(void *, size_t,
		      size_t) = (__typeof__(next))(uintptr_t)heft_blob.next[WIRE_BLOB_REALLOCARRAY];
	return next(old, n, each);
}

static int blob_dlclose(void *handle)
{
	int rc = HEFT_WAITED_FOR(int, heft_next.dlclose(handle));
	heft_after_dlclose();
	return rc;
}

#define HOOK(ENTRY, name) [WIRE_BLOB_##ENTRY] = (uintptr_t)heft_blob_##name
struct wire_blob heft_blob = {
	.magic = WIRE_BLOB_MAGIC,
	.version = WIRE_BLOB_VERSION,
	.bytes = sizeof(struct wire_blob),
	.open = (uintptr_t)blob_open,
	.stack = (uintptr_t)stack + sizeof stack,
	.threads = (uintptr_t)heft_blob_threads,
	.owned = (uintptr_t)owned,
	.hook = {HOOK(MALLOC, malloc), HOOK(CALLOC, calloc), HOOK(REALLOC, realloc),
		 HOOK(FREE, free), HOOK(POSIX_MEMALIGN, posix_memalign), HOOK(MEMALIGN, memalign),
		 HOOK(ALIGNED_ALLOC, aligned_alloc), HOOK(VALLOC, valloc), HOOK(PVALLOC, pvalloc),
		 HOOK(REALLOCARRAY, reallocarray), [WIRE_BLOB_DLCLOSE] = (uintptr_t)blob_dlclose},
};
