/* Finding the functions behind ours: the next allocator, and what else we call on to.
 *
 * The first allocation may come before any constructor, from the loader, or from
 * dlsym itself while it looks for the allocator. So `heft_next` starts with functions
 * that resolve and then call on. What is asked for in the meantime comes from a static
 * arena, whose blocks free and realloc recognise. */
#include "capture/inside.h"
#include "capture/map_calls.h"
#include "capture/redirect.h"
#include "capture/sample.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { PAGE = 4096 };

unsigned char heft_arena[HEFT_ARENA_BYTES] __attribute__((aligned(64)));
union heft_unusual heft_unusual;

static _Atomic int resolving; /* 0 not begun, 1 under way, 2 done */

/* ---- the arena. It gives no byte twice, so its blocks are zero. The size of a block lies before it. */

static void *arena_alloc(size_t size, size_t alignment)
{
	if (alignment < 16)
		alignment = 16;
	bool fits = size <= HEFT_ARENA_BYTES / 2 && alignment <= PAGE;
	uint32_t need = fits ? (uint32_t)(size + alignment + 32) : 0;
	uint32_t at = atomic_fetch_add(&heft_unusual.arena_used, need) &
		      ~(uint32_t)HEFT_UNUSUAL_WAYS;
	if (!fits || at > HEFT_ARENA_BYTES - need) {
		errno = ENOMEM;
		return NULL;
	}
	uintptr_t p = ((uintptr_t)heft_arena + at + 16 + alignment - 1) &
		      ~(uintptr_t)(alignment - 1);
	((size_t *)p)[-1] = size;
	heft_filter_keep((void *)p);
	return (void *)p;
}

void *heft_arena_realloc(void *old, size_t size)
{
	size_t had = ((size_t *)old)[-1];
	void *p = heft_next.malloc(size);
	if (p)
		memcpy(p, old, had < size ? had : size);
	return p;
}

/* ---- until the next allocator is known */

static void *boot_malloc(size_t size);

static bool resolved(void)
{
	heft_resolve_next();
	return heft_next.malloc != boot_malloc;
}
static void *boot_malloc(size_t size)
{
	return resolved() ? heft_next.malloc(size) : arena_alloc(size, 16);
}
static void *boot_calloc(size_t n, size_t each)
{
	size_t size;
	if (resolved())
		return heft_next.calloc(n, each);
	return __builtin_mul_overflow(n, each, &size) ? NULL : arena_alloc(size, 16);
}
static void *boot_realloc(void *old, size_t size)
{
	if (resolved())
		return heft_next.realloc(old, size);
	return old ? heft_arena_realloc(old, size) : arena_alloc(size, 16);
}
static void boot_free(void *p)
{
	if (resolved())
		heft_next.free(p);
}
static int boot_posix_memalign(void **out, size_t alignment, size_t size)
{
	if (resolved())
		return heft_next.posix_memalign(out, alignment, size);
	void *p = arena_alloc(size, alignment);
	if (!p)
		return ENOMEM;
	*out = p;
	return 0;
}
static void *boot_aligned_alloc(size_t alignment, size_t size)
{
	return resolved() ? heft_next.aligned_alloc(alignment, size) : arena_alloc(size, alignment);
}
static void *boot_memalign(size_t alignment, size_t size)
{
	return resolved() ? heft_next.memalign(alignment, size) : arena_alloc(size, alignment);
}
static size_t whole_pages(size_t size)
{
	return (size + PAGE - 1) & ~(size_t)(PAGE - 1);
}
static void *boot_valloc(size_t size)
{
	return resolved() ? heft_next.valloc(size) : arena_alloc(size, PAGE);
}
static void *boot_pvalloc(size_t size)
{
	return resolved() ? heft_next.pvalloc(size) : arena_alloc(whole_pages(size), PAGE);
}

struct heft_next heft_next = {
	.malloc = boot_malloc,
	.calloc = boot_calloc,
	.realloc = boot_realloc,
	.free = boot_free,
	.posix_memalign = boot_posix_memalign,
	.aligned_alloc = boot_aligned_alloc,
	.memalign = boot_memalign,
	.valloc = boot_valloc,
	.pvalloc = boot_pvalloc,
};

/* ---- functions that an allocator lacks */

static int no_posix_memalign(void **out, size_t alignment, size_t size)
{
	(void)out, (void)alignment, (void)size;
	return ENOMEM;
}
static void *no_aligned(size_t alignment, size_t size)
{
	(void)alignment, (void)size;
	errno = ENOMEM;
	return NULL;
}
static void *page_aligned(size_t size)
{
	return heft_next.memalign(PAGE, size);
}
static void *pages(size_t size)
{
	return heft_next.memalign(PAGE, whole_pages(size));
}

/* ---- looking them up */

void *heft_next_symbol(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

/* Whether both addresses belong to one loaded object. */
static int in_one_object(const void *f, const void *g)
{
	struct dl_find_object a, b;
	return f && g && !_dl_find_object((void *)f, &a) && !_dl_find_object((void *)g, &b) &&
	       a.dlfo_link_map == b.dlfo_link_map;
}

#define TAKE(field, name, otherwise)                                                               \
	do {                                                                                       \
		__typeof__(next.field) f_ = (__typeof__(next.field))heft_next_symbol(name);        \
		next.field = f_ ? f_ : (otherwise);                                                \
	} while (0)

int heft_resolve_next(void)
{
	int never = 0;
	if (!atomic_compare_exchange_strong(&resolving, &never, 1))
		return never == 2 ? 0 : -1;
	int saved = errno;
	struct heft_next next = {0};
	TAKE(malloc, "malloc", NULL);
	TAKE(calloc, "calloc", NULL);
	TAKE(realloc, "realloc", NULL);
	TAKE(free, "free", NULL);
	TAKE(posix_memalign, "posix_memalign", no_posix_memalign);
	TAKE(aligned_alloc, "aligned_alloc", no_aligned);
	TAKE(memalign, "memalign", next.aligned_alloc);
	TAKE(valloc, "valloc", page_aligned);
	TAKE(pvalloc, "pvalloc", pages);
	TAKE(usable, "malloc_usable_size", NULL);
	TAKE(dlclose, "dlclose", NULL);
	TAKE(setname, "pthread_setname_np", NULL);
	/* Where another allocator lacks one of these the look-up finds libc's, which knows nothing of its
	 * blocks. */
	const void *home = (const void *)next.malloc;
	const void *in_libc = heft_next_symbol("gnu_get_libc_version");
	if (!in_one_object((const void *)next.usable, home))
		next.usable = NULL;
	if (!in_one_object((const void *)next.valloc, home))
		next.valloc = page_aligned;
	if (!in_one_object((const void *)next.pvalloc, home))
		next.pvalloc = pages;
	next.is_glibc = next.usable && in_one_object(in_libc, home);
	uint32_t own_malloc = (uint32_t)heft_redirect_init(home, in_libc);
	heft_follow_init();
	heft_ends_init();
	heft_commands_init();
	heft_sandbox_init();
	heft_limits_init();
	heft_map_calls_init();
	heft_thread_stacks_init();
	if (next.malloc && next.calloc && next.realloc && next.free)
		heft_next = next;
	heft_next.own_malloc = own_malloc;
	errno = saved;
	atomic_store(&resolving, 2);
	return 0;
}

#undef TAKE

/* ---- functions that an allocator may bring itself */

NOINLINE uintptr_t heft_own_function(_Atomic uintptr_t *known, const char *name, int in_runtimes)
{
	static const char *const runtimes[] = {"libstdc++.so.6", "libc++abi.so.1", "libc++.so.1"};
	struct heft_own_work work = heft_own_work_begin();
	heft_resolve_next();
	void *f = heft_next_symbol(name);
	for (unsigned i = 0; !f && in_runtimes && i < 3; i++) {
		void *handle = dlopen(runtimes[i], RTLD_LAZY | RTLD_NOLOAD);
		if (handle)
			f = dlsym(handle, name);
	}
	heft_own_work_end(work);
	/* dlsym is libc's. */
	uintptr_t own = in_one_object(f, (const void *)heft_next.malloc) &&
			!in_one_object(f, (const void *)dlsym);
	uintptr_t found = (uintptr_t)f | own;
	atomic_store_explicit(known, found, memory_order_release);
	return found;
}
