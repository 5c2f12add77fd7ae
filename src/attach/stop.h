/* A running process under heft's hands: its memory is read and written, system calls are made in one of its
 * threads, all threads are stopped for an instant, code is changed, and everything goes on as if nothing had
 * been.
 *
 * The kernel lets only one thread trace: the thread that called stop_open makes all calls of that stop. When
 * that thread ends, the kernel lets go of everything that is still held, also of threads in an
 * uninterruptible wait, which nobody can let go of otherwise. stop_run gives such a thread.
 *
 * Errors: HEFT_ENOTFOUND the process is not there, or has ended meanwhile; HEFT_EREFUSED it cannot be
 * done, and the message says what to do instead; HEFT_EBUSY not now: nothing was changed, try again. */
#ifndef HEFT_ATTACH_STOP_H
#define HEFT_ATTACH_STOP_H

#include "hosted/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct stop;

/* Calls work(ctx) in a thread of its own, waits until it returns and returns its result. Whatever it still
 * traced is free then. */
int stop_run(int (*work)(void *ctx), void *ctx, struct heft_error *err);

/* Touches no thread. Refuses what is no program of our kind, what others trace and what is not permitted. */
int stop_open(struct stop **out, pid_t pid, struct heft_error *err);
/* Lets go of what is still held. NULL is allowed. */
void stop_close(struct stop *s);

/* Which calls of base/sys.h the process must not make, by the filters of all its threads (seccomp): bits by enum
 * sys_kind. Looks at one thread after the other. Refuses sandboxes that nobody can see into, and strict mode. */
int stop_forbidden_calls(struct stop *s, uint64_t *forbidden, struct heft_error *err);

/* The process's memory, whatever its protection. */
int stop_read(struct stop *s, uint64_t at, void *to, size_t bytes, struct heft_error *err);
int stop_write(struct stop *s, uint64_t at, const void *from, size_t bytes, struct heft_error *err);

/* Stops one thread, any that can be had, for system calls. While all threads are stopped it takes one of
 * these. */
int stop_borrow(struct stop *s, struct heft_error *err);
/* `result` is the kernel's: a negative errno on failure. Only calls that do not wait. */
int stop_call(struct stop *s, long number, const uint64_t args[6], int64_t *result,
	      struct heft_error *err);
/* Between two calls: a thread that has stood still for some ms goes on for a moment, and one is borrowed again, perhaps
 * another one. If that fails, none is borrowed. */
int stop_rest(struct stop *s, struct heft_error *err);
/* The borrowed thread calls a function without arguments that lies in its memory, on a stack that ends at `stack`,
 * with another thread pointer than its own (0: its own), as it may have none yet. `back`: STOP_BACK_BYTES of executable memory, which are written. If heft is killed meanwhile, the function ends all the
 * same, and the thread goes on where it was. The function must not wait, nor touch what is not there. */
enum { STOP_BACK_BYTES = 56 };
int stop_function(struct stop *s, uint64_t function, uint64_t stack, uint64_t thread_pointer,
		  uint64_t back, int64_t *result, struct heft_error *err);
/* The borrowed thread goes on as if nothing had been: registers, signal mask, interrupted call. */
int stop_return(struct stop *s, struct heft_error *err);

/* For whoever only looks, and for whom others wait. A thread that nothing interrupts (in vfork, or at a slow disk) is not waited for:
 * it goes on untraced when stop_run ends. While others are waited for, `step` (or NULL) is called for a second. */
void stop_be_brief(struct stop *s, void (*step)(void *ctx), void *ctx);

/* Stops all threads. Returns when none of them can run: each has stopped, or has been told to and is not on a
 * processor (a late thread: it stops before its next instruction). Gives up with HEFT_EBUSY if that takes
 * longer than limit_ns, and while a process that is no thread of this one shares its memory.
 * STOP_LIMIT_NS is what heft promises, 50 ms from the first thread that stops to the last one that goes on, less
 * what is done in between and the time until all go on. */
#define STOP_LIMIT_NS 40000000ull
/* For whoever tries several times: the goal of 10 ms at first, and what is promised only if that was too little. */
uint64_t stop_limit_of_try(unsigned tried);
int stop_all(struct stop *s, uint64_t limit_ns, struct heft_error *err);

struct stop_thread {
	pid_t tid;
	uint64_t pc, sp, thread_pointer; /* 0 if it is late */
	bool stopped;                    /* false: it is late */
};
/* While all are stopped. The list is valid until the next call. */
int stop_threads(struct stop *s, const struct stop_thread **list, size_t *count);
/* While all are stopped: waits for late threads, for limit_ns at most, so that stop_threads knows more of them. */
void stop_wait_late(struct stop *s, uint64_t limit_ns);
/* The general registers of a stopped thread, as words; returns how many. 0: it is late. */
size_t stop_registers(struct stop *s, pid_t tid, uint64_t *words, size_t most);
/* The one that is borrowed; tid 0: none is. */
struct stop_thread stop_borrowed(struct stop *s);
/* Stops threads, looks at each as soon as it has stopped, and lets it go at once: the others run meanwhile. A thread
 * that has ended is shown as one that is not stopped; one that does not stop within limit_ns is not shown. */
int stop_visit(struct stop *s, const pid_t *tids, size_t count, uint64_t limit_ns,
	       void (*visit)(void *ctx, const struct stop_thread *t), void *ctx,
	       struct heft_error *err);
/* Waits until forks that were under way at this moment are done, limit_ns for each to stop: then their children can be
 * seen, and children to come have the memory as it is now. The thread `but` is in none. */
void stop_wait_for_forks(struct stop *s, pid_t but, uint64_t limit_ns);
/* Whether a stopped thread is at an address from low up to high, or will return there from a signal handler. */
bool stop_is_inside(struct stop *s, const struct stop_thread *t, uint64_t low, uint64_t high);
/* Makes a stopped thread go on elsewhere. */
int stop_move(struct stop *s, pid_t tid, uint64_t pc, struct heft_error *err);

enum { STOP_CHANGE_MOST = 32 };
struct stop_change {
	uint64_t at;
	uint8_t bytes; /* at most STOP_CHANGE_MOST */
	uint8_t old[STOP_CHANGE_MOST], now[STOP_CHANGE_MOST];
	/* Where a thread goes on whose pc is strictly between `at` and `at + bytes`; 0: nowhere, so that
	 * the change is refused. NULL: always 0. It must know every place where a thread can be: a late
	 * thread is asked about after the change. Called until the stop is closed: ctx stays that long. */
	uint64_t (*moved)(void *ctx, uint64_t pc);
	void *ctx;
};
/* Changes code while all are stopped: all of the changes, or none. HEFT_EBUSY if a thread is where it
 * cannot be moved from, or if the frame of a signal handler will return there; HEFT_EREFUSED if the old bytes
 * are others. A thread at `at` itself runs the new bytes. */
int stop_change_code(struct stop *s, const struct stop_change *changes, size_t count,
		     struct heft_error *err);

/* All threads go on, untraced. Late threads are waited for afterwards, and repaired. */
int stop_resume(struct stop *s, struct heft_error *err);
/* How many threads are still traced because they have not stopped yet. 0 but for threads in
 * an uninterruptible wait. As long as it is not 0, end the calling thread or call this again. */
size_t stop_unsettled(struct stop *s);
/* From before the first thread was stopped until the last one went on, of the last stop_all. */
uint64_t stop_pause_ns(const struct stop *s);
/* The longest that any thread was kept from going on since stop_open: in a freeze, borrowed, or looked at. */
uint64_t stop_longest_ns(const struct stop *s);

#endif
