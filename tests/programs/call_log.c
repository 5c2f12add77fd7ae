/* A library that writes down every call of the malloc family of every process, as
 * it is, for peak_of_logs.c to add up: the reference that heft's peaks of several
 * processes are compared with. It shares no code with heft.
 *
 * A file for each process image in the directory CALL_LOG, of 32-byte entries,
 * mapped shared, so that it is complete whatever ends the process. Preloaded behind
 * heft's library it sees the same calls, within a microsecond.
 *
 *   gcc -shared -fPIC -O2 -o call_log.so call_log.c */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

enum { MADE = 1, FREED = 2, LEFT = 3, CAPACITY = 4 << 20 };
struct entry {
	uint64_t tsc, kind, address, size;
};
struct log {
	_Atomic uint64_t count;
	uint64_t pad[3];
	struct entry entries[CAPACITY];
};

static struct log *the_log;
static int *mine; /* in memory that fork wipes: a vfork child's calls are its parent's */
static pid_t log_pid;
static char directory[400];
static void *(*next_malloc)(size_t), *(*next_calloc)(size_t, size_t),
	*(*next_realloc)(void *, size_t);
static void *(*next_memalign)(size_t, size_t), *(*next_aligned_alloc)(size_t, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void (*next_free)(void *);
static void (*next__exit)(int);
static char early[8192]; /* what dlsym itself asks for */
static size_t early_used;

static uint64_t stamp(void)
{
	unsigned cpu;
	return __rdtscp(&cpu);
}

/* False while the look-up itself is under way. */
static int look_up(void)
{
	static int looking;
	if (next_malloc || looking)
		return next_malloc != NULL;
	looking = 1;
	next_calloc = dlsym(RTLD_NEXT, "calloc");
	next_realloc = dlsym(RTLD_NEXT, "realloc");
	next_free = dlsym(RTLD_NEXT, "free");
	next_memalign = dlsym(RTLD_NEXT, "memalign");
	next_aligned_alloc = dlsym(RTLD_NEXT, "aligned_alloc");
	next_posix_memalign = dlsym(RTLD_NEXT, "posix_memalign");
	next__exit = dlsym(RTLD_NEXT, "_exit");
	next_malloc = dlsym(RTLD_NEXT, "malloc");
	return 1;
}

/* A forked child begins a log of its own. */
static struct log *own_log(void)
{
	if (mine && *mine)
		return the_log;
	pid_t pid = (pid_t)syscall(SYS_getpid);
	int saved = errno;
	char path[500];
	const char *where = directory[0] ? directory : getenv("CALL_LOG");
	if (!where)
		return NULL;
	if (!directory[0])
		snprintf(directory, sizeof directory, "%s", where);
	snprintf(path, sizeof path, "%s/%d.%llx", directory, pid, (unsigned long long)stamp());
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof *the_log))
		abort();
	the_log = mmap(NULL, sizeof *the_log, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
		       fd, 0);
	close(fd);
	log_pid = pid;
	if (!mine) {
		mine = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		madvise(mine, 4096, MADV_WIPEONFORK);
	}
	*mine = 1;
	errno = saved;
	return the_log;
}

static void note(uint64_t kind, const void *address, uint64_t size, uint64_t tsc)
{
	struct log *l = own_log();
	if (!l)
		return;
	uint64_t i = atomic_fetch_add(&l->count, 1);
	if (i >= CAPACITY)
		abort();
	l->entries[i] = (struct entry){tsc, kind, (uint64_t)address, size};
}

static int is_early(const void *p)
{
	return (const char *)p >= early && (const char *)p < early + sizeof early;
}

static void *take_early(size_t n)
{
	void *p = early + early_used;
	early_used += (n + 15) & ~15ul;
	if (early_used > sizeof early)
		abort();
	return p;
}

static void *made(void *p, size_t size)
{
	if (p)
		note(MADE, p, size, stamp());
	return p;
}

void *malloc(size_t n)
{
	if (!look_up())
		return take_early(n);
	return made(next_malloc(n), n);
}

void *calloc(size_t n, size_t size)
{
	if (!look_up())
		return take_early(n * size);
	return made(next_calloc(n, size), n * size);
}

void free(void *p)
{
	if (!p || is_early(p))
		return;
	note(FREED, p, 0, stamp());
	next_free(p);
}

void *realloc(void *p, size_t n)
{
	look_up();
	if (!p)
		return made(next_realloc(p, n), n);
	uint64_t before = stamp();
	void *q = next_realloc(p, n);
	if (q || !n)
		note(FREED, p, 0, q ? stamp() : before);
	return q ? made(q, n) : q;
}

void *memalign(size_t alignment, size_t n)
{
	return made(next_memalign(alignment, n), n);
}
void *aligned_alloc(size_t alignment, size_t n)
{
	return made(next_aligned_alloc(alignment, n), n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
	int rc = next_posix_memalign(p, alignment, n);
	if (!rc)
		made(*p, n);
	return rc;
}

__attribute__((destructor)) static void at_end(void)
{
	if (mine && *mine && log_pid == (pid_t)syscall(SYS_getpid))
		note(LEFT, NULL, 0, stamp());
}

void _exit(int status)
{
	at_end();
	look_up();
	next__exit(status);
	__builtin_unreachable();
}
