/* Inside the stop module: the process and the threads that are traced. Only src/attach/stop_*.c include it, and
 * the tests of them. */
#ifndef HEFT_ATTACH_STOP_HELD_H
#define HEFT_ATTACH_STOP_HELD_H

#include "attach/stop.h"
#include "hosted/vector.h"

#include <sys/uio.h>
#include <sys/user.h>
#include <time.h>

enum held_state {
	HELD_RUNS,    /* traced; it was told to stop and has not yet */
	HELD_STOPPED, /* in a stop that we have seen */
	HELD_GONE,    /* ended, or let go */
};

/* A thread that we trace. */
struct held {
	pid_t tid;
	enum held_state state;
	int event;  /* PTRACE_EVENT_* of its stop; 0: a signal, or a system call */
	int signal; /* which it is about to get: goes with it when it is let go */
	bool child; /* no thread of the process, but a forked child's */
	bool seen;  /* it was stopped when the code was changed */
	uint64_t pc, sp, thread_pointer;
};

/* See stop_frame_x86_64.c; 0: there is none. */
struct stop_frame {
	uint64_t at;
	uint64_t call_return, end_handler; /* code of the process */
};

/* One process that is being stopped.
 * fields: it is what the stop module knows, from the threads to the freeze. */
struct stop {
	pid_t pid;
	uint64_t first_stack;       /* the top of the first thread's stack; 0: unknown */
	int mem, tasks;             /* /proc/PID/mem, /proc/PID/task */
	bool ended;                 /* the process is not there any more */
	bool has_filter;            /* one of its threads is in a seccomp sandbox */
	bool all;                   /* stop_all holds the process */
	bool shared;                /* a thread has just made a process that shares the memory */
	VECTOR(struct held *) held; /* their addresses stay while threads are added */
	size_t hint;                /* where held_find looks first */
	VECTOR(struct stop_thread) list;
	struct {
		bool made;
		timer_t id;
	} timer; /* that interrupts SEIZE */

	/* The borrowed thread, 0: none */
	pid_t borrowed;
	bool called;    /* it has made a call */
	uint64_t enter; /* an instruction in its memory that makes a system call */
	struct stop_frame frame;
	struct {
		int policy; /* its own, which is given back; -1: it keeps that */
		pid_t tid;  /* 0: it has it */
	} hurry;
	struct user_regs_struct registers;
	uint64_t mask;

	/* The freeze */
	uint64_t began_ns, until_ns, pause_ns;
	uint64_t ran_ns;          /* when the borrowed thread was last seen to run */
	uint64_t longest_ns;      /* see stop_longest_ns */
	struct stop_probe *probe; /* see stop_memory.c; NULL: there is none */
	uint64_t still_ns;        /* how long the processor clock must stand still */
	bool brief;               /* stop_be_brief */
	void (*step)(void *ctx);
	void *step_ctx;
	int unasked; /* for tests: threads are told to stop 1: just before the code changes, 2: after */
	int policy, nice; /* this thread's own before the freeze */
	bool raised;

	/* Code that was changed, until every late thread has been seen */
	VECTOR(struct stop_change) changed;
	uint64_t trapped,
		repaired; /* late threads that ran into a trap; threads moved out of a change */
	uint8_t *stack;   /* STACK_CHUNK bytes, to search stacks in */
};

enum { STACK_CHUNK = 64 << 10 };

/* stop_open.c */
int stop_ended(struct stop *s, struct heft_error *err); /* fills err */
bool stop_read_some(struct stop *s, uint64_t at, void *to, size_t bytes, size_t *got);
/* A file below /proc/PID/task/TID, its end cut to fit; false: it is not there. */
bool stop_task_file(const struct stop *s, pid_t tid, const char *name, char *text, size_t size);
/* The state's letter, and the kernel's flags of a thread; '\0': it is not there. */
char stop_task_state(const struct stop *s, pid_t tid, unsigned *flags);
/* The number behind "FIELD:" of a status file; -1: it is not there. */
long stop_status_field(const char *status, const char *field);

/* The threads of the process, one after the other; 0 at the end. Threads that begin or end meanwhile may be
 * missed. */
struct task_walk {
	int folder;
	long used, at;
	char entries[16384];
};
/* A thread that has not ended; 0: there is none. The first thread may have, while others go on: it has no
 * memory any more then. */
pid_t stop_live_task(const struct stop *s);
/* Whether each of its threads has ended, or is about to and has no memory any more. */
bool stop_ends(const struct stop *s);
/* Sees whether a thread is in a sandbox. Before a thread is stopped: it decides how its call is restarted. */
void stop_read_filters(struct stop *s);
void task_walk_begin(struct task_walk *w, const struct stop *s);
pid_t task_walk_next(struct task_walk *w);

/* stop_all.c: while a thread stands still, this one has a real-time priority, where that is permitted. */
void stop_raise_priority(struct stop *s);
void stop_restore_priority(struct stop *s);
/* A thread that still ran at since_ns goes on now. */
void stop_note_pause(struct stop *s, uint64_t since_ns);

/* stop_held.c */
struct held *held_find(struct stop *s, pid_t tid);
void held_interrupt(const struct held *h);
/* Traces a thread and tells it to stop. 0; 1: there is nothing to trace, it has ended or is the kernel's own; negative:
 * an error. */
int held_stop(struct stop *s, pid_t tid, struct heft_error *err);
/* Tells all threads of the process to stop. */
void held_interrupt_all(struct stop *s);
/* Seizes the threads that are not held yet; returns how many, or a negative code. */
int held_seize_new(struct stop *s, struct heft_error *err);
/* Sees whether it has stopped or ended. */
void held_poll(struct stop *s, struct held *h);
/* Waits until it has. */
void held_wait(struct stop *s, struct held *h);
/* Polls all that run; returns how many threads of the process still do. */
size_t held_poll_all(struct stop *s);
/* Lets a stopped thread go on untraced. */
void held_release(struct held *h);
/* Lets all stopped threads go but forked children. */
void held_release_stopped(struct stop *s);
/* Lets stopped forked children go, unless all is stopped. Whoever has called vfork waits for its child, so nobody may
 * wait for that thread without this. */
void held_release_children(struct stop *s);
/* Until until_ns, waits for threads that run, repairs them and lets them go. */
void held_settle(struct stop *s, uint64_t until_ns);
/* Sleeps as shortly as is possible without keeping others from the processor. */
void held_nap(void);

/* stop_sharers.c: HEFT_EBUSY if a process outside the thread group shares the memory. */
int sharers_look_everywhere(struct stop *s, struct heft_error *err);
int sharers_look_at_children(struct stop *s, pid_t tid, struct heft_error *err);
bool sharers_same_memory(pid_t a, pid_t b);

/* stop_memory.c: whether the memory can be read and written without waiting for a thread that is late. The probe is begun
 * before threads are stopped; without it the answer is yes. false also if nobody knows until then. */
void memory_probe_begin(struct stop *s);
void memory_probe_end(struct stop *s);
bool memory_is_free(struct stop *s, uint64_t until_ns);

/* stop_restart.c: whether a call that returned EINTR without having done anything may be made again. */
bool restart_is_safe(const struct stop *s, pid_t tid, long number, const uint64_t args[6]);

/* stop_stack.c: the address of the pc in a signal frame on t's stack, if it is between low and high and `wanted`; 0:
 * there is none. */
uint64_t stack_find_frame(struct stop *s, const struct stop_thread *t, uint64_t low, uint64_t high,
			  bool (*wanted)(const void *ctx, uint64_t pc), const void *ctx);

/* stop_change.c: a late thread, or a forked child, has stopped. */
void change_repair_late(struct stop *s, struct held *h);
void change_repair_child(struct stop *s, struct held *h);

/* stop_frame_x86_64.c: so that the borrowed thread gets its registers back if heft is killed. s->frame.at is 0 if
 * that cannot be had. */
void frame_find_code(struct stop *s);
void frame_make(struct stop *s, struct held *h);
/* The same for a function that the borrowed thread will call: writes the frame below `stack`, and to `back` the code
 * that the function returns to. */
struct frame_way {
	uint64_t stack; /* what the function begins with: its return address is there */
	int signal;    /* the caller's choice: the thread gets it when the function has returned, */
	uint64_t told; /* and is here */
};
int frame_for_function(struct stop *s, struct held *h, uint64_t stack, uint64_t back,
		       struct frame_way *way, struct heft_error *err);

/* stop_x86_64.c: what every architecture does its own way */
enum { ARCH_TRAP_BYTES = 1 };
extern const uint8_t arch_trap[ARCH_TRAP_BYTES];
/* Fills in h's registers, and sees to it that an interrupted call is restarted. */
void arch_read(struct stop *s, struct held *h);
void arch_set_pc(struct held *h, uint64_t pc);
/* The address of a trap instruction that h has just run and whose signal it has not had; 0: none. The signal
 * is h->signal afterwards. */
uint64_t arch_trapped_at(struct stop *s, struct held *h);
/* Keeps the registers of the borrowed thread, so that arch_restore brings them back later. */
int arch_keep(struct stop *s, struct held *h, struct heft_error *err);
bool arch_restore(struct stop *s, struct held *h);
/* The vector registers and the like, which a function uses and a system call does not. state: VECTORS_MOST bytes */
enum { VECTORS_MOST = 16 << 10 };
bool arch_keep_vectors(const struct held *h, struct iovec *state);
bool arch_restore_vectors(const struct held *h, struct iovec *state);
int arch_find_enter(struct stop *s, struct heft_error *err);
/* Whether a thread is still in the program that was opened. */
bool arch_can_enter(struct stop *s, const struct held *h);
bool arch_set_call(struct stop *s, struct held *h, long number, const uint64_t args[6]);
/* The same for a function; stack: with its return address; thread_pointer: 0: its own */
bool arch_set_function(struct stop *s, struct held *h, uint64_t function, uint64_t stack,
		       uint64_t thread_pointer);
bool arch_result(struct held *h, int64_t *result, bool *repeat);
/* What a function has returned, on its way back (frame_for_function). */
bool arch_function_result(const struct held *h, int64_t *result);
/* Whether words[0] is the pc in a signal frame. Three words are there. */
bool arch_is_signal_frame(const uint64_t words[3]);

#endif
