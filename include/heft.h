/* heft's interface for programs. Everything here is optional at run time: a
 * program built with this header runs unchanged without heft, where each function
 * does nothing and says so. Nothing has to be linked.
 *
 * The names are weak symbols that heft's library defines where it is loaded
 * (heft run, or LD_PRELOAD). Called through the macros below they are safe to call
 * anywhere. */
#ifndef HEFT_H
#define HEFT_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HEFT_WEAK __attribute__((weak, visibility("default")))

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

/* The function, or NULL without heft. Code that is not position-independent would have the linker
 * decide for good that it is not there: through the table it is decided when the program starts. */
#if defined(__x86_64__) && !defined(__PIC__)
#define HEFT_FUNCTION(f)                                                                           \
	(__extension__({                                                                           \
		void *heft_at_;                                                                    \
		__asm__(".weak " #f "\n\tmovq " #f "@GOTPCREL(%%rip), %0" : "=r"(heft_at_));       \
		(__typeof__(&f))heft_at_;                                                          \
	}))
#else
#define HEFT_FUNCTION(f) (f)
#endif

#define heft_sampling_active()                                                                     \
	(HEFT_FUNCTION(heft_sampling_active) ? HEFT_FUNCTION(heft_sampling_active)() : 0)
#define heft_pprof_dump(fd)                                                                        \
	(HEFT_FUNCTION(heft_pprof_dump) ? HEFT_FUNCTION(heft_pprof_dump)(fd) : (errno = ENOSYS, -1))

#endif
