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
#include "capture/blob_exec.h"
#include "capture/hooks.h"
#include "capture/hotpath.h"
#include "capture/object.h"
#include "capture/own.h"
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

/* A program that heft has started had no threads yet when we came: its C library makes the first one's descriptor
 * before it allocates. So the first call finds where a thread's number stands there. */
static int32_t find_number(uintptr_t pointer, int32_t unknown)
{
	static const uint64_t known[] = {0x2d0 /* glibc */, 0x30 /* musl */};
	const int32_t own = sys_gettid();
	if (pointer - heft_blob.start < heft_blob.end - heft_blob.start)
		return unknown; /* the descriptor that we were opened with */
	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (heft_readable(pointer + known[i], pointer + known[i] + sizeof own) &&
		    *(const volatile int32_t *)(pointer + known[i]) == own) {
			heft_blob.tid_offset = known[i];
			return own;
		}
	/* Before 2.34, glibc writes the first thread's number down later, in a constructor of libpthread. */
	if (!heft_readable(pointer + known[0], pointer + known[0] + sizeof own) ||
	    *(const volatile int32_t *)(pointer + known[0]) != 0)
		return unknown;
	heft_blob.tid_offset = known[0];
	return 0;
}

/* The same for its pointer. The stacks of other threads lie elsewhere. */
static void find_first_thread(uintptr_t pointer)
{
	enum { FIRST_STACK = 64 << 20 };
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	if (heft_blob.stack_end - here < FIRST_STACK)
		heft_blob.first_thread = pointer;
}

NOINLINE struct heft_tls *heft_blob_find_thread(uintptr_t pointer, int32_t tid)
{
	if (!heft_blob.tid_offset)
		tid = find_number(pointer, tid);
	if (!heft_blob.first_thread)
		find_first_thread(pointer);
	for (uint64_t i = 0; i < WIRE_BLOB_PROBES; i++) {
		struct wire_blob_thread *t =
			&heft_blob_threads[(wire_blob_slot(pointer) + i) % WIRE_BLOB_THREADS];
		uint64_t there = 0;
		if (!atomic_compare_exchange_strong(&t->pointer, &there, pointer) &&
		    there != pointer)
			continue;
		int32_t before = atomic_load_explicit(&t->tid, memory_order_relaxed);
		if (before != tid) {
			if (before) /* another thread's. 0: a new place, or the number was not there yet */
				memset(&t->thread, 0, sizeof(struct heft_tls));
			atomic_store_explicit(&t->tid, tid, memory_order_relaxed);
		}
		return (struct heft_tls *)&t->thread;
	}
	return nobody();
}

/* ---- what is around */

/* The modules that the outside has listed, as the loader would have them */
static struct link_map links[WIRE_BLOB_MODULES];

static const struct wire_blob_module *listed(uintptr_t address)
{
	const struct wire_blob_module *m = (const struct wire_blob_module *)(uintptr_t)
						   heft_blob.tables;
	for (uint64_t i = 0; i < heft_blob.module_count; i++)
		if (address - m[i].start < m[i].end - m[i].start)
			return &m[i];
	return NULL;
}

static struct link_map *link_of(const struct wire_blob_module *m)
{
	return &links[m - (const struct wire_blob_module *)(uintptr_t)heft_blob.tables];
}

static void fill_links(void)
{
	const struct wire_blob_module *m = (const struct wire_blob_module *)(uintptr_t)
						   heft_blob.tables;
	for (uint64_t i = 0; i < heft_blob.module_count; i++) {
		links[i].l_addr = m[i].bias;
		links[i].l_name = (char *)(uintptr_t)(heft_blob.tables + m[i].path);
		links[i].l_ld = (Elf64_Dyn *)(uintptr_t)m[i].dynamic;
	}
}

int heft_find_object(void *address, struct dl_find_object *found)
{
	int (*find)(void *,
		    struct dl_find_object *) = (__typeof__(find))(uintptr_t)heft_blob.find_object;
	const struct wire_blob_module *m = find ? NULL : listed((uintptr_t)address);
	if (find)
		return find(address, found);
	if (!m)
		return -1;
	*found = (struct dl_find_object){.dlfo_map_start = (void *)(uintptr_t)m->start,
					 .dlfo_map_end = (void *)(uintptr_t)m->end,
					 .dlfo_link_map = link_of(m),
					 .dlfo_eh_frame = (void *)(uintptr_t)m->eh_frame_hdr};
	return 0;
}

static int listed_object(uintptr_t address, struct heft_object *o)
{
	const struct wire_blob_module *m = listed(address);
	if (!m)
		return 0;
	*o = (struct heft_object){
		.map = link_of(m),
		.start = m->start,
		.end = m->end,
		.eh_frame_hdr = m->eh_frame_hdr,
		.segments = {.headers = (const Elf64_Phdr *)(uintptr_t)(heft_blob.tables +
									m->headers),
			     .count = m->header_count,
			     .bias = m->bias},
		.unwind = (const struct wire_blob_unwind *)(uintptr_t)(heft_blob.tables +
								       m->unwind),
		.unwind_count = m->unwind_count,
	};
	return 1;
}

int heft_own_object(uintptr_t address, struct heft_object *o)
{
	if (!heft_blob.find_object && listed_object(address, o))
		return 1;
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

/* Where libc has it: no system call is needed, which a sandbox may not allow. */
int32_t heft_around_tid(void)
{
	return *(const volatile int32_t *)((uintptr_t)arch_thread_pointer() + heft_blob.tid_offset);
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

void heft_watch_end_of_thread(const void *of_thread)
{
	(void)of_thread;
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

static const struct wire_blob_entry *entry_of(enum wire_blob_hook hook)
{
	static const struct wire_blob_entry none;
	for (uint32_t i = 0; i < heft_blob.entry_count; i++)
		if (heft_blob.entries[i].hook == hook)
			return &heft_blob.entries[i];
	return &none;
}

static void take_next(void)
{
#define TAKE(ENTRY, field)                                                                         \
	heft_next.field = (__typeof__(heft_next.field))(uintptr_t)entry_of(WIRE_BLOB_##ENTRY)->next
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
	heft_next.usable =
		(__typeof__(heft_next.usable))(uintptr_t)entry_of(WIRE_BLOB_MALLOC)->usable;
	heft_next.is_glibc = heft_blob.is_glibc;
	heft_next.own_malloc = heft_blob.program_hooked ? WIRE_MALLOC_HOOKED : WIRE_MALLOC_OURS;
}

static int blob_open(void)
{
	struct heft_settings *s = &heft_settings;
	memcpy(s->session_dir, heft_blob.session_dir, sizeof s->session_dir);
	s->session_fd = heft_blob.session_fd;
	s->session_device = heft_blob.session_device;
	s->session_inode = heft_blob.session_inode;
	memcpy(s->exe, heft_blob.exe, sizeof s->exe);
	s->sample_bytes = heft_blob.sample_bytes;
	s->sample_auto = heft_blob.sample_auto;
	s->follow_none = heft_blob.follow_none;
	memcpy(s->preload_path, heft_blob.preload_path, sizeof s->preload_path);
	memcpy(s->mode_variable, heft_blob.mode_variable, sizeof s->mode_variable);
	heft_set_home_reach(heft_blob.thread_local_bytes);
	take_next();
	fill_links();
	struct heft_own_work work = heft_own_work_begin();
	int rc = heft_process_open();
	heft_own_work_end(work);
	/* The tracer has suspended the program's sandbox until here. */
	atomic_store(&sys_forbidden, heft_blob.forbidden);
	return rc && heft_open_error ? heft_open_error : rc;
}

/* ---- entries that the library has elsewhere */

/* The real one sets errno. */
void *heft_too_large(void *old, size_t n, size_t each)
{
	void *(*next)(void *, size_t,
		      size_t) = (__typeof__(next))(uintptr_t)entry_of(WIRE_BLOB_REALLOCARRAY)->next;
	return next(old, n, each);
}

static int heft_blob_dlclose(void *handle)
{
	int rc = HEFT_WAITED_FOR(int, heft_next.dlclose(handle));
	heft_after_dlclose();
	return rc;
}

#define HOOK(ENTRY, name) [WIRE_BLOB_##ENTRY] = (uintptr_t)heft_blob_##name,
struct wire_blob heft_blob = {
	.magic = WIRE_BLOB_MAGIC,
	.version = WIRE_BLOB_VERSION,
	.bytes = sizeof(struct wire_blob),
	.open = (uintptr_t)blob_open,
	.stack = (uintptr_t)stack + sizeof stack,
	.threads = (uintptr_t)heft_blob_threads,
	.owned = (uintptr_t)owned,
	.hook = {WIRE_BLOB_FUNCTIONS(HOOK) WIRE_BLOB_OWN(HOOK)},
};
