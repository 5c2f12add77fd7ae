/* System calls without libc: no errno, no cancellation point, no allocation.
 * Results are the kernel's: a negative errno on failure. Only the calls that the
 * inside needs are here.
 *
 * A program may go into a sandbox that kills it for calls that it does not make
 * itself (capture/sandbox.c). The calls here that its filter does not allow are then
 * forbidden: they are not made, and fail with EPERM. */
#ifndef HEFT_BASE_SYS_H
#define HEFT_BASE_SYS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
static inline long sys_call6(long n, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#else
#error "heft's inside knows x86-64 so far; another architecture starts here and in base/arch.h"
#endif

static inline long sys_call4(long n, long a, long b, long c, long d)
{
	return sys_call6(n, a, b, c, d, 0, 0);
}

/* All that the functions below may ask of the kernel. */
#define SYS_KINDS(X)                                                                               \
	X(OPEN, SYS_openat)                                                                        \
	X(CLOSE, SYS_close)                                                                        \
	X(READ, SYS_read)                                                                          \
	X(READLINK, SYS_readlink)                                                                  \
	X(GETCWD, SYS_getcwd)                                                                      \
	X(FTRUNCATE, SYS_ftruncate)                                                                \
	X(UNLINK, SYS_unlinkat)                                                                    \
	X(RENAME, SYS_renameat)                                                                    \
	X(FSTAT, SYS_fstat)                                                                        \
	X(LSTAT, SYS_newfstatat)                                                                   \
	X(GETEUID, SYS_geteuid)                                                                    \
	X(MMAP, SYS_mmap)                                                                          \
	X(MREMAP, SYS_mremap)                                                                      \
	X(MUNMAP, SYS_munmap)                                                                      \
	X(MPROTECT, SYS_mprotect)                                                                  \
	X(MADVISE, SYS_madvise)                                                                    \
	X(BRK, SYS_brk)                                                                            \
	X(PRLIMIT, SYS_prlimit64)                                                                  \
	X(GETPID, SYS_getpid)                                                                      \
	X(GETPPID, SYS_getppid)                                                                    \
	X(GETTID, SYS_gettid)                                                                      \
	X(GETRUSAGE, SYS_getrusage)                                                                \
	X(YIELD, SYS_sched_yield)                                                                  \
	X(FUTEX, SYS_futex)                                                                        \
	X(CLOCK, SYS_clock_gettime)                                                                \
	X(SIGALTSTACK, SYS_sigaltstack)                                                            \
	X(PRCTL, SYS_prctl)                                                                        \
	X(MEMBARRIER, SYS_membarrier)                                                              \
	X(SIGPROCMASK, SYS_rt_sigprocmask)                                                         \
	X(TGKILL, SYS_tgkill)                                                                      \
	X(WRITE, SYS_write)

#define SYS_KIND(name, number) SYS_DO_##name,
#define SYS_KIND_NUMBER(name, number) SYS_NR_##name = (number),
enum sys_kind { SYS_KINDS(SYS_KIND) SYS_KIND_COUNT };
enum { SYS_KINDS(SYS_KIND_NUMBER) };
#undef SYS_KIND
#undef SYS_KIND_NUMBER
_Static_assert(SYS_KIND_COUNT < 62, "a bit each, and those below");
#define SYS_ALL ((1ull << SYS_KIND_COUNT) - 1)
/* No system call, but forbidden in the same way: reading the time stamp counter. */
#define SYS_STAMP (1ull << 63)
/* One of the forbidden calls would not just fail. */
#define SYS_DEADLY (1ull << 62)

/* 1 << kind: calls that are not made any more. */
extern __attribute__((visibility("hidden"))) _Atomic uint64_t sys_forbidden;

static inline int sys_may_stamp(void)
{
	return !(atomic_load_explicit(&sys_forbidden, memory_order_relaxed) & SYS_STAMP);
}
static inline int sys_may(enum sys_kind kind)
{
	return !(atomic_load_explicit(&sys_forbidden, memory_order_relaxed) >> kind & 1);
}
static inline long sys_checked(enum sys_kind kind, long n, long a, long b, long c, long d, long e,
			       long f)
{
	return sys_may(kind) ? sys_call6(n, a, b, c, d, e, f) : -1 /* EPERM */;
}
#define SYS_DO(name, a, b, c, d) sys_checked(SYS_DO_##name, SYS_NR_##name, a, b, c, d, 0, 0)
#define SYS_DO_6(name, a, b, c, d, e, f) sys_checked(SYS_DO_##name, SYS_NR_##name, a, b, c, d, e, f)

#define SYS_NO_FOLDER (-100) /* AT_FDCWD: a path, and no name in a folder that is open */
static inline int sys_open_in(int folder, const char *name, int flags, int mode)
{
	return (int)SYS_DO(OPEN, folder, (long)name, flags, mode);
}
static inline int sys_open(const char *path, int flags, int mode)
{
	return sys_open_in(SYS_NO_FOLDER, path, flags, mode);
}
static inline int sys_close(int fd)
{
	return (int)SYS_DO(CLOSE, fd, 0, 0, 0);
}
static inline long sys_read(int fd, void *buf, size_t n)
{
	return SYS_DO(READ, fd, (long)buf, (long)n, 0);
}
static inline long sys_write(int fd, const void *buf, size_t n)
{
	return SYS_DO(WRITE, fd, (long)buf, (long)n, 0);
}
static inline long sys_readlink(const char *path, char *buf, size_t n)
{
	return SYS_DO(READLINK, (long)path, (long)buf, (long)n, 0);
}
static inline long sys_getcwd(char *buf, size_t n)
{
	return SYS_DO(GETCWD, (long)buf, (long)n, 0, 0);
}
static inline int sys_ftruncate(int fd, uint64_t n)
{
	return (int)SYS_DO(FTRUNCATE, fd, (long)n, 0, 0);
}
static inline int sys_unlink_in(int folder, const char *name)
{
	return (int)SYS_DO(UNLINK, folder, (long)name, 0, 0);
}
static inline int sys_fstat(int fd, struct stat *st)
{
	return (int)SYS_DO(FSTAT, fd, (long)st, 0, 0);
}
/* A link is not followed, and a file system of another program, which may never answer, is not asked. */
static inline int sys_lstat_in(int folder, const char *name, struct stat *st)
{
	return (int)SYS_DO(LSTAT, folder, (long)name, (long)st,
			   0x4100 /* AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC */);
}
static inline uint32_t sys_geteuid(void)
{
	return (uint32_t)SYS_DO(GETEUID, 0, 0, 0, 0);
}
/* NULL on failure, never MAP_FAILED. */
static inline void *sys_mmap(void *at, size_t n, int prot, int flags, int fd)
{
	long r = SYS_DO_6(MMAP, (long)at, (long)n, prot, flags, fd, 0);
	return (unsigned long)r > -4096ul ? NULL : (void *)r;
}
static inline void *sys_mmap_file(void *at, size_t n, int prot, int flags, int fd, uint64_t from)
{
	long r = SYS_DO_6(MMAP, (long)at, (long)n, prot, flags, fd, (long)from);
	return (unsigned long)r > -4096ul ? NULL : (void *)r;
}
/* Moves a mapping over another one of the same size, which is unmapped. 0, or a negative errno. */
static inline int sys_mremap_to(void *p, size_t n, void *to)
{
	long r = SYS_DO_6(MREMAP, (long)p, (long)n, (long)n, 3 /* MAYMOVE | FIXED */, (long)to, 0);
	return (unsigned long)r > -4096ul ? (int)r : 0;
}
static inline int sys_munmap(void *p, size_t n)
{
	return (int)SYS_DO(MUNMAP, (long)p, (long)n, 0, 0);
}
static inline int sys_mprotect(void *p, size_t n, int prot)
{
	return (int)SYS_DO(MPROTECT, (long)p, (long)n, prot, 0);
}
static inline int sys_madvise(void *p, size_t n, int advice)
{
	return (int)SYS_DO(MADVISE, (long)p, (long)n, advice, 0);
}
/* Makes pages of a shared mapping present: 0, or an error if touching them would raise a signal.
 * Kernels before 5.14 lack this call, and a sandbox may forbid it: then 0 says nothing. */
static inline int sys_populate(void *p, size_t n)
{
	uintptr_t from = (uintptr_t)p & ~4095ul, to = ((uintptr_t)p + n + 4095) & ~4095ul;
	int rc = (int)SYS_DO(MADVISE, (long)from, (long)(to - from), 23 /* POPULATE_WRITE */, 0);
	return rc == -22 /* EINVAL */ || !sys_may(SYS_DO_MADVISE) ? 0 : rc;
}
static inline int sys_rename_in(int folder, const char *from, const char *to)
{
	return (int)SYS_DO(RENAME, folder, (long)from, folder, (long)to);
}
/* RLIMIT_FSIZE or RLIMIT_AS; 0: nobody knows */
static inline uint64_t sys_limit(int resource)
{
	uint64_t limit[2] = {0, 0};
	return SYS_DO(PRLIMIT, 0, resource, 0, (long)limit) ? 0 : limit[0];
}
/* Where the program's break is; 0: nobody tells */
static inline uint64_t sys_break(void)
{
	long at = SYS_DO(BRK, 0, 0, 0, 0);
	return at > 0 ? (uint64_t)at : 0;
}
static inline int sys_getpid(void)
{
	return (int)SYS_DO(GETPID, 0, 0, 0, 0);
}
static inline int sys_getppid(void)
{
	return (int)SYS_DO(GETPPID, 0, 0, 0, 0);
}
static inline uint32_t sys_maxrss_kib(void)
{
	struct rusage usage;
	return SYS_DO(GETRUSAGE, RUSAGE_SELF, (long)&usage, 0, 0) ? 0 : (uint32_t)usage.ru_maxrss;
}
static inline void sys_yield(void)
{
	SYS_DO(YIELD, 0, 0, 0, 0);
}
static inline int sys_gettid(void)
{
	return (int)SYS_DO(GETTID, 0, 0, 0, 0);
}
static inline int sys_futex(void *word, int op, uint32_t value, const void *timeout)
{
	return (int)SYS_DO_6(FUTEX, (long)word, op, value, (long)timeout, 0, 0);
}
static inline uint64_t sys_clock_ns(int clock)
{
	int64_t t[2] = {0, 0};
	SYS_DO(CLOCK, clock, (long)t, 0, 0);
	return (uint64_t)t[0] * 1000000000ull + (uint64_t)t[1];
}
/* old: a stack_t */
static inline int sys_sigaltstack_now(void *old)
{
	return (int)SYS_DO(SIGALTSTACK, 0, (long)old, 0, 0);
}
static inline int sys_prctl(int what, unsigned long a)
{
	return (int)SYS_DO_6(PRCTL, what, (long)a, 0, 0, 0, 0);
}
static inline int sys_membarrier(int cmd)
{
	return (int)SYS_DO(MEMBARRIER, cmd, 0, 0, 0);
}
/* 0, or -ESRCH: the process has no such thread. */
static inline int sys_thread_there(int pid, int tid)
{
	return (int)SYS_DO(TGKILL, pid, tid, 0, 0);
}
/* 1 if 8 bytes at p can be read. The kernel copies the mask before it rejects the first argument. */
static inline int sys_readable(const void *p)
{
	return SYS_DO(SIGPROCMASK, ~0l, (long)p, 0, 8) == -22 /* EINVAL */;
}

#endif
