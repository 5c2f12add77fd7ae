/* Calls every function of an allocator that is linked in, and counts by itself what heft must see. Built with
 * -DJEMALLOC, -DTCMALLOC or -DMIMALLOC and that library. It answers lines on standard input: "N" does N rounds, and
 * the answer is "allocations reallocations frees bytes" of all rounds so far. It reads and writes without stdio, which
 * allocates. Bytes are those of allocations, and what reallocations add. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <malloc.h>
#include <unistd.h>

#ifdef JEMALLOC
#include <jemalloc/jemalloc.h>
#endif
#ifdef TCMALLOC
#include <gperftools/tcmalloc.h>
#endif
#ifdef MIMALLOC
#include <mimalloc.h>
#endif

static unsigned long allocations, reallocations, frees, bytes;
static const size_t HUGE = ~(size_t)0 >> 2; /* no allocator has it */

static void must(bool good, const char *what)
{
	if (good)
		return;
	write(2, what, strlen(what));
	abort();
}

template <typename T> static T *got(T *p, size_t size)
{
	must(p != nullptr, "no memory");
	memset((void *)p, 1, size);
	allocations++;
	bytes += size;
	return p;
}

template <typename T> static T *resized(T *p, size_t before, size_t now)
{
	must(p != nullptr, "no memory for more");
	reallocations++;
	bytes += now > before ? now - before : 0;
	return p;
}

#define GONE(call) (call, frees++)
/* What the compiler must not leave out, although it may (new and delete in pairs) */
static void *volatile kept;
template <typename T> static T *keep(T *p)
{
	kept = (void *)p;
	return (T *)kept;
}

#if !defined(MIMALLOC)
static void c_functions()
{
	void *p = got(keep(malloc(100)), 100);
	p = resized(keep(realloc(p, 300)), 100, 300);
	must(!keep(realloc(p, HUGE)), "realloc of too much");
	p = resized(keep(realloc(p, 50)), 300, 50);
	GONE(free(p));
	p = got(keep(calloc(7, 11)), 77);
	GONE(free(p));
	must(!keep(malloc(HUGE)) && !keep(calloc(HUGE, HUGE)), "too much");
	p = got(keep(aligned_alloc(64, 640)), 640);
	GONE(free(p));
	p = got(keep(memalign(256, 500)), 500);
	GONE(free(p));
	must(!posix_memalign(&p, 128, 1000), "posix_memalign");
	p = got(keep(p), 1000);
	GONE(free(p));
	p = got(keep(realloc(nullptr, 40)), 40);
	GONE(free(p));
	free(nullptr);
}
#endif

static void operators()
{
	auto *one = got(keep((char *)operator new(33)), 33);
	GONE(operator delete(one));
	auto *many = got(keep(new char[65]), 65);
	GONE(delete[] many);
	auto *quiet = got(keep((char *)operator new(129, std::nothrow)), 129);
	GONE(operator delete(quiet, std::nothrow));
	auto *aligned = got(keep((char *)operator new(257, std::align_val_t(128))), 257);
	GONE(operator delete(aligned, std::align_val_t(128)));
	auto *sized = got(keep((char *)operator new(31)), 31);
	GONE(operator delete(sized, (size_t)31));
	bool thrown = false;
	try {
		kept = operator new(HUGE);
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	must(thrown, "new of too much");
	must(!keep(operator new(HUGE, std::nothrow)), "new of too much, quietly");
}

#ifdef JEMALLOC
static void own_functions()
{
	void *p = got(mallocx(1000, MALLOCX_ALIGN(64)), 1000);
	p = resized(rallocx(p, 1500, 0), 1000, 1500);
	/* 1,500 bytes have 1,536: there is space for 1,520 in place, and none for 100,000 */
	must(xallocx(p, 1520, 0, 0) >= 1520, "xallocx");
	resized(p, 1500, 1520);
	must(xallocx(p, 100000, 0, 0) < 100000, "xallocx of too much");
	GONE(sdallocx(p, 1520, 0));
	p = got(mallocx(200, MALLOCX_ZERO), 200);
	GONE(dallocx(p, 0));
	must(nallocx(100, 0) >= 100, "nallocx");
}
#endif

#ifdef TCMALLOC
static void own_functions()
{
	void *p = got(tc_malloc(123), 123);
	p = resized(tc_realloc(p, 456), 123, 456);
	GONE(tc_free(p));
	p = got(tc_calloc(3, 5), 15);
	GONE(tc_free(p));
	p = got(tc_new(99), 99);
	GONE(tc_delete(p));
	p = got(tc_newarray(98), 98);
	GONE(tc_deletearray(p));
}
#endif

#ifdef MIMALLOC
static void own_functions()
{
	void *p = got(mi_malloc(100), 100);
	p = resized(mi_realloc(p, 333), 100, 333);
	GONE(mi_free(p));
	p = got(mi_zalloc(101), 101);
	GONE(mi_free_size(p, 101));
	p = got(mi_calloc(9, 9), 81);
	p = resized(mi_rezalloc(p, 162), 81, 162);
	GONE(mi_free(p));
	p = got(mi_malloc_aligned(1000, 256), 1000);
	p = resized(mi_realloc_aligned(p, 3000, 256), 1000, 3000);
	GONE(mi_free_aligned(p, 256));
	p = got(mi_zalloc_aligned(500, 64), 500);
	GONE(mi_free_size_aligned(p, 500, 64));
	p = got(mi_mallocn(4, 25), 100);
	p = resized(mi_reallocn(p, 8, 25), 100, 200);
	GONE(mi_free(p));
	p = got(mi_new(77), 77);
	GONE(mi_free(p));
	p = got(mi_new_aligned(78, 32), 78);
	GONE(mi_free(p));
	p = got(mi_new_n(6, 6), 36);
	p = resized(mi_new_realloc(p, 60), 36, 60);
	GONE(mi_free(p));
	must(!mi_posix_memalign(&p, 64, 640), "mi_posix_memalign");
	GONE(mi_free(got(p, 640)));
	char *text = mi_strdup("a text");
	allocations++;
	bytes += 7;
	GONE(mi_free(text));
	/* 100 bytes have 112: there is space for 110 in place, and none for 10,000 */
	p = got(mi_malloc(100), 100);
	resized(mi_expand(p, 110), 100, 110);
	must(!mi_expand(p, 10000), "mi_expand of too much");
	GONE(mi_free(p));
	mi_heap_t *heap = mi_heap_new();
	p = got(mi_heap_malloc(heap, 70), 70);
	p = resized(mi_heap_realloc(heap, p, 700), 70, 700);
	GONE(mi_free(p));
	p = got(mi_heap_calloc(heap, 5, 6), 30);
	GONE(mi_free(p));
	p = got(mi_heap_malloc_aligned(heap, 90, 64), 90);
	GONE(mi_free(p));
	mi_heap_delete(heap);
	must(!mi_malloc(HUGE), "too much");
	mi_free(nullptr);
}
#endif

static void round_of_all()
{
#if !defined(MIMALLOC)
	c_functions();
	operators();
#endif
	own_functions();
}

int main()
{
	char line[64];
	ssize_t n;
#ifdef JEMALLOC
	operators(); /* the runtime's own memory for exceptions is there before heft comes */
#endif
#ifdef MIMALLOC
	(void)operators;
#endif
	allocations = reallocations = frees = bytes = 0;
	write(1, "ready\n", 6);
	while ((n = read(0, line, sizeof line - 1)) > 0) {
		line[n] = 0;
		for (int rounds = atoi(line); rounds > 0; rounds--)
			round_of_all();
		n = snprintf(line, sizeof line, "%lu %lu %lu %lu\n", allocations, reallocations,
			     frees, bytes);
		write(1, line, (size_t)n);
	}
	return 0;
}
