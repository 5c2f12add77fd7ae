/* heft's interface for programs: statistics, regions with expectations, marks, blocks that are followed, pools, and the
 * program's own profile. Everything here is optional at run time: a program built with this header runs
 * unchanged without heft, where each function does nothing and says so. Nothing has to be linked.
 *
 * The names are weak symbols that heft's library defines where it is loaded (heft run,
 * or LD_PRELOAD). Called through the macros below they are safe to call anywhere; a call
 * without heft is one load and one branch.
 *
 * Bytes are requested bytes. docs/api.md has examples, and says what each number means. */
#ifndef HEFT_H
#define HEFT_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef HEFT_INSIDE
#define HEFT_WEAK __attribute__((visibility("default"))) /* heft's own library, which has them */
#else
#define HEFT_WEAK __attribute__((weak, visibility("default")))
#endif

/* ---- statistics */

enum heft_scope {
	HEFT_PROCESS, /* calls of all threads */
	HEFT_THREAD   /* calls of the thread that asks */
};

struct heft_stats {
	uint64_t allocations, reallocations, frees;
	/* allocated: of new blocks, and what reallocations have added. freed: of blocks that ended, and what
	 * reallocations have taken away. */
	uint64_t allocated_bytes, freed_bytes;
	int64_t live_bytes, live_blocks; /* of a thread or a region they may be negative */
	uint64_t peak_bytes;             /* the greatest live_bytes so far */
};

enum heft_mode {
	HEFT_NOT_RUNNING, /* heft is not there */
	HEFT_EXACT,       /* heft run: every call is recorded */
	HEFT_SAMPLED,     /* heft run --sample, heft agent: no statistics and no regions */
	HEFT_COUNTING /* heft run --count, HEFT_MODE=count: statistics and regions, no recording */
};
int heft_running(void) HEFT_WEAK;

/* Since the program's start. 0; or -1 with errno ENOSYS: nobody counts here. */
int heft_stats_get(enum heft_scope scope, struct heft_stats *out) HEFT_WEAK;

/* ---- regions: the same between two points of the program. They may nest and overlap. A thread's region belongs to the
 * thread that began it. A forked child has its parent's regions, as copies of its own. */

struct heft_region {
	uint64_t opaque[32]; /* the caller's memory; it may be moved and copied */
};

/* All return 0; or -1 with errno: ENOSYS nobody counts here, EINVAL not a region that was begun (or another thread's),
 * ENOMEM too many at once. Not for signal handlers. name: for the timeline, or NULL. */
int heft_region_begin(struct heft_region *r, enum heft_scope scope) HEFT_WEAK;
int heft_region_begin_named(struct heft_region *r, enum heft_scope scope,
			    const char *name) HEFT_WEAK;
/* Since it began. peak_bytes: the highest level above that of its beginning. */
int heft_region_change(const struct heft_region *r, struct heft_stats *out) HEFT_WEAK;
/* out may be NULL. */
int heft_region_end(struct heft_region *r, struct heft_stats *out) HEFT_WEAK;

/* ---- expectations: HEFT_EXPECT_LE(&region, allocations, 0). If one does not hold, heft says by how much and which call
 * sites allocated in the region, and aborts; or it calls the function below and goes on. Of a region that has ended,
 * its final numbers count. What is no region that was begun, or another thread's, does not hold: nobody can check it.
 * They are 1 if it holds, 0 if it does not, -1 without heft. */

#define HEFT_EXPECT_LE(region, field, limit) HEFT_EXPECT_(region, field, HEFT_AT_MOST, limit)
#define HEFT_EXPECT_EQ(region, field, value) HEFT_EXPECT_(region, field, HEFT_EQUAL, value)
void heft_on_failure(void (*callback)(const char *message)) HEFT_WEAK;

enum heft_relation { HEFT_AT_MOST, HEFT_EQUAL };
/* at: of the field in struct heft_stats */
int heft_expect(const struct heft_region *r, size_t at, enum heft_relation relation, int64_t value,
		const char *field, const char *file, int line) HEFT_WEAK;
/* Calls this function, whatever heft_on_failure was given: for libraries, which leave that to the program. */
int heft_expect_or(const struct heft_region *r, size_t at, enum heft_relation relation,
		   int64_t value, const char *field, const char *file, int line,
		   void (*callback)(const char *message)) HEFT_WEAK;

/* ---- marks and events. Names are copied; up to 255 bytes, and 4,000 different ones. */

void heft_mark(const char *name) HEFT_WEAK; /* a moment of the timeline */
/* A block has come to this stage: how long it waits at each is in the report. */
void heft_mark_block(const void *block, const char *stage) HEFT_WEAK;
/* Something of the program's own that is counted by call stack. */
void heft_event(const char *name, uint64_t weight) HEFT_WEAK;

/* ---- pools: allocators of the program's own that hand out objects from larger blocks. `pool` is any address that
 * stands for it. heft_pool_destroy gives all its objects back. */

void heft_pool_create(void *pool, const char *name) HEFT_WEAK;
void heft_pool_alloc(void *pool, const void *block, size_t size) HEFT_WEAK;
void heft_pool_free(void *pool, const void *block) HEFT_WEAK;
void heft_pool_destroy(void *pool) HEFT_WEAK;

/* ---- the recording. -1 with errno as below */

/* Allocations are recorded or not from here on; frees of recorded blocks always are. */
int heft_start(void) HEFT_WEAK;
int heft_stop(void) HEFT_WEAK;
/* A copy of the recording up to now, in a new file. */
int heft_dump(const char *path) HEFT_WEAK;

/* 1 if this process is sampled and sampling is switched on, else 0. */
int heft_sampling_active(void) HEFT_WEAK;

/* Writes this process's heap profile, as of now, to fd: pprof's format, packed, as /debug/pprof/heap
 * serves it. For a server's own handler. The profile is made outside the process, by the heft run
 * or heft agent that holds its session; this thread waits for it.
 *
 * Returns 0, or -1 with errno:
 *   ENOSYS     heft is not in this process, or does not sample it
 *   EPERM      sampling is switched off (heft ctl PID sample=on)
 *   ESRCH      nobody is there to make it: no heft run and no heft agent holds this process
 *   EBUSY      another thread has been asking for too long
 *   ETIMEDOUT  somebody is there but does not answer
 *   EIO        it could not be made; heft run or heft agent has said why
 *   others     as of write(2): part of it may have been written
 * Not for signal handlers. */
int heft_pprof_dump(int fd) HEFT_WEAK;

#ifdef __cplusplus
}
#endif

#ifndef HEFT_INSIDE

/* heft run finds this note at the start of a program, and counts from then on. Elsewhere counting begins with
 * the first call. */
static const struct {
	uint32_t name_bytes, content_bytes, type;
	char name[8];
	uint32_t content;
} heft_note_ __attribute__((section(".note.heft"), used, aligned(4))) = {5, 4, 1, "heft", 1};

/* What both languages write in their own way. */
#ifdef __cplusplus
#define HEFT_INLINE_ inline
#define HEFT_CAST_(type, value) (static_cast<type>(value))
#else
#define HEFT_INLINE_ static inline
#define HEFT_CAST_(type, value) ((type)(value))
#endif

/* A function: errno may be set more than once in an expression. */
HEFT_INLINE_ int heft_absent_(void)
{
	errno = ENOSYS;
	return -1;
}

/* The function, or NULL without heft. Code that is not position-independent would have the linker
 * decide for good that it is not there: through the table it is decided when the program starts. */
#if defined(__x86_64__) && !defined(__PIC__)
#define HEFT_FUNCTION(f)                                                                           \
	(__extension__({                                                                           \
		__typeof__(&f) heft_at_;                                                           \
		__asm__(".weak " #f "\n\tmovq " #f "@GOTPCREL(%%rip), %0" : "=r"(heft_at_));       \
		heft_at_;                                                                          \
	}))
#else
#define HEFT_FUNCTION(f) (f)
#endif

#define HEFT_CALL_(f, arguments, otherwise)                                                        \
	(HEFT_FUNCTION(f) ? HEFT_FUNCTION(f) arguments : (otherwise))

#define heft_running() HEFT_CALL_(heft_running, (), 0)
#define heft_stats_get(scope, out) HEFT_CALL_(heft_stats_get, (scope, out), heft_absent_())
#define heft_region_begin(r, scope) HEFT_CALL_(heft_region_begin, (r, scope), heft_absent_())
#define heft_region_begin_named(r, scope, name)                                                    \
	HEFT_CALL_(heft_region_begin_named, (r, scope, name), heft_absent_())
#define heft_region_change(r, out) HEFT_CALL_(heft_region_change, (r, out), heft_absent_())
#define heft_region_end(r, out) HEFT_CALL_(heft_region_end, (r, out), heft_absent_())
#define heft_expect(r, at, relation, value, field, file, line)                                     \
	HEFT_CALL_(heft_expect, (r, at, relation, value, field, file, line), heft_absent_())
#define heft_expect_or(r, at, relation, value, field, file, line, callback)                        \
	HEFT_CALL_(heft_expect_or, (r, at, relation, value, field, file, line, callback),          \
		   heft_absent_())
#define heft_on_failure(callback) HEFT_CALL_(heft_on_failure, (callback), (void)0)
#define heft_mark(name) HEFT_CALL_(heft_mark, (name), (void)0)
#define heft_mark_block(block, stage) HEFT_CALL_(heft_mark_block, (block, stage), (void)0)
#define heft_event(name, weight) HEFT_CALL_(heft_event, (name, weight), (void)0)
#define heft_pool_create(pool, name) HEFT_CALL_(heft_pool_create, (pool, name), (void)0)
#define heft_pool_alloc(pool, block, size) HEFT_CALL_(heft_pool_alloc, (pool, block, size), (void)0)
#define heft_pool_free(pool, block) HEFT_CALL_(heft_pool_free, (pool, block), (void)0)
#define heft_pool_destroy(pool) HEFT_CALL_(heft_pool_destroy, (pool), (void)0)
#define heft_start() HEFT_CALL_(heft_start, (), heft_absent_())
#define heft_stop() HEFT_CALL_(heft_stop, (), heft_absent_())
#define heft_dump(path) HEFT_CALL_(heft_dump, (path), heft_absent_())
#define heft_sampling_active() HEFT_CALL_(heft_sampling_active, (), 0)
#define heft_pprof_dump(fd) HEFT_CALL_(heft_pprof_dump, (fd), heft_absent_())

#define HEFT_EXPECT_(region, field, relation, value)                                               \
	heft_expect(region, offsetof(struct heft_stats, field), relation,                          \
		    HEFT_CAST_(int64_t, value), #field, __FILE__, __LINE__)

#endif

#endif
