/* System calls without libc: no errno, no cancellation point, no allocation.
 * Results are the kernel's: a negative errno on failure. Only the calls that the
 * inside needs are here. */
#ifndef HEFT_BASE_SYS_H
#define HEFT_BASE_SYS_H

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

static inline int sys_open(const char *path, int flags, int mode)
{
	return (int)sys_call4(SYS_openat, -100 /* AT_FDCWD */, (long)path, flags, mode);
}
static inline int sys_close(int fd)
{
	return (int)sys_call4(SYS_close, fd, 0, 0, 0);
}
static inline long sys_read(int fd, void *buf, size_t n)
{
	return sys_call4(SYS_read, fd, (long)buf, (long)n, 0);
}
static inline long sys_readlink(const char *path, char *buf, size_t n)
{
	return sys_call4(SYS_readlink, (long)path, (long)buf, (long)n, 0);
}
static inline long sys_getcwd(char *buf, size_t n)
{
	return sys_call4(SYS_getcwd, (long)buf, (long)n, 0, 0);
}
static inline int sys_ftruncate(int fd, uint64_t n)
{
	return (int)sys_call4(SYS_ftruncate, fd, (long)n, 0, 0);
}
static inline int sys_unlink(const char *path)
{
	return (int)sys_call4(SYS_unlink, (long)path, 0, 0, 0);
}
static inline int sys_fstat(int fd, struct stat *st)
{
	return (int)sys_call4(SYS_fstat, fd, (long)st, 0, 0);
}
/* A link is not followed. */
static inline int sys_lstat(const char *path, struct stat *st)
{
	return (int)sys_call4(SYS_newfstatat, -100 /* AT_FDCWD */, (long)path, (long)st,
			      0x100 /* AT_SYMLINK_NOFOLLOW */);
}
static inline uint32_t sys_geteuid(void)
{
	return (uint32_t)sys_call4(SYS_geteuid, 0, 0, 0, 0);
}
/* NULL on failure, never MAP_FAILED. */
static inline void *sys_mmap(void *at, size_t n, int prot, int flags, int fd)
{
	long r = sys_call6(SYS_mmap, (long)at, (long)n, prot, flags, fd, 0);
	return (unsigned long)r > -4096ul ? NULL : (void *)r;
}
/* Moves a mapping over another one of the same size, which is unmapped. 0, or a negative errno. */
static inline int sys_mremap_to(void *p, size_t n, void *to)
{
	long r = sys_call6(SYS_mremap, (long)p, (long)n, (long)n, 3 /* MAYMOVE | FIXED */, (long)to,
			   0);
	return (unsigned long)r > -4096ul ? (int)r : 0;
}
static inline int sys_munmap(void *p, size_t n)
{
	return (int)sys_call4(SYS_munmap, (long)p, (long)n, 0, 0);
}
static inline int sys_mprotect(void *p, size_t n, int prot)
{
	return (int)sys_call4(SYS_mprotect, (long)p, (long)n, prot, 0);
}
static inline int sys_madvise(void *p, size_t n, int advice)
{
	return (int)sys_call4(SYS_madvise, (long)p, (long)n, advice, 0);
}
/* Makes pages of a shared mapping present: 0, or an error if touching them would raise a signal.
 * Kernels before 5.14 lack this call: then 0 says nothing. */
static inline int sys_populate(void *p, size_t n)
{
	uintptr_t from = (uintptr_t)p & ~4095ul, to = ((uintptr_t)p + n + 4095) & ~4095ul;
	int rc = (int)sys_call4(SYS_madvise, (long)from, (long)(to - from), 23 /* POPULATE_WRITE */,
				0);
	return rc == -22 /* EINVAL */ ? 0 : rc;
}
static inline int sys_rename(const char *from, const char *to)
{
	return (int)sys_call4(SYS_rename, (long)from, (long)to, 0, 0);
}
static inline uint64_t sys_file_size_limit(void)
{
	uint64_t limit[2] = {0, 0};
	return sys_call4(SYS_prlimit64, 0, 1 /* RLIMIT_FSIZE */, 0, (long)limit) ? 0 : limit[0];
}
static inline int sys_getpid(void)
{
	return (int)sys_call4(SYS_getpid, 0, 0, 0, 0);
}
static inline int sys_getppid(void)
{
	return (int)sys_call4(SYS_getppid, 0, 0, 0, 0);
}
static inline uint32_t sys_maxrss_kib(void)
{
	struct rusage usage;
	return sys_call4(SYS_getrusage, RUSAGE_SELF, (long)&usage, 0, 0)
		       ? 0
		       : (uint32_t)usage.ru_maxrss;
}
static inline void sys_yield(void)
{
	sys_call4(SYS_sched_yield, 0, 0, 0, 0);
}
static inline int sys_gettid(void)
{
	return (int)sys_call4(SYS_gettid, 0, 0, 0, 0);
}
static inline int sys_futex(void *word, int op, uint32_t value, const void *timeout)
{
	return (int)sys_call6(SYS_futex, (long)word, op, value, (long)timeout, 0, 0);
}
static inline uint64_t sys_clock_ns(int clock)
{
	int64_t t[2] = {0, 0};
	sys_call4(SYS_clock_gettime, clock, (long)t, 0, 0);
	return (uint64_t)t[0] * 1000000000ull + (uint64_t)t[1];
}
/* old: a stack_t */
static inline int sys_sigaltstack_now(void *old)
{
	return (int)sys_call4(SYS_sigaltstack, 0, (long)old, 0, 0);
}
static inline int sys_prctl(int what, unsigned long a)
{
	return (int)sys_call6(SYS_prctl, what, (long)a, 0, 0, 0, 0);
}
static inline int sys_membarrier(int cmd)
{
	return (int)sys_call4(SYS_membarrier, cmd, 0, 0, 0);
}
/* 1 if 8 bytes at p can be read. The kernel copies the mask before it rejects the first argument. */
static inline int sys_readable(const void *p)
{
	return sys_call4(SYS_rt_sigprocmask, ~0l, (long)p, 0, 8) == -22 /* EINVAL */;
}

#endif
