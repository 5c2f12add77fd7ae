/* Inside the recorder: its state, and the parts that recorder.c's loop calls. */
#ifndef HEFT_RECORD_RECORDER_PARTS_H
#define HEFT_RECORD_RECORDER_PARTS_H

#include "agent/sampled.h"
#include "record/drain.h"
#include "record/recorder.h"
#include "session/process_set.h"
#include "session/session_dir.h"

#include <signal.h>

enum { RECORDER_REAPS = 1024 };

/* A child that one of the processes has waited for (wire_reap) */
struct reaped_child {
	int32_t pid; /* 0: one that began between since_tsc and tsc */
	int32_t parent;
	uint32_t maxrss_kib;
	uint32_t status; /* as in struct wire_reap */
	uint64_t tsc, since_tsc;
};

/* What is kept of every process that was ever found */
struct known_process {
	int32_t pid;
	bool child;
	uint32_t index;
	uint64_t start_tsc;
};

struct known_exec {
	struct exec_note note;
	uint32_t process; /* in whose log it stands */
};

/* A process that was held when it executed a program (recorder_holds.c) */
struct held_process {
	pid_t asked; /* who has asked: it, or the thread that makes it */
	pid_t pid;   /* 0: it has ended, or executed another program, or is not there yet */
	int pidfd;
	bool hooked, hooked_once;
	struct held *held;
};

struct recorder_execs {
	struct known_exec *list;
	uint32_t count;
	struct held_process *held;
	uint32_t held_count, held_capacity;
	int programs_fd; /* kinds of programs, for who asks again; 0: nothing is held */
};

/* The program that was started, or attached to. */
struct recorder_command {
	pid_t pid;
	const char *path;  /* of its file */
	const char *name;  /* for the name of the recording; it may be a path */
	char *const *argv; /* argc of them */
	uint32_t argc;
	struct attached_program *attached; /* recorder_attach.c; NULL: it was started */
	bool found;                        /* its session file has come */
	bool ended;
	bool status_known; /* attached: result.status is its own */
	uint64_t end_ns;
	uint64_t maxrss_kib; /* by the kernel's account */
};

/* When to do next what is done now and then. */
struct recorder_due {
	uint64_t rss_ns, peak_ns, samples_ns, budget_ns, call_ns, flush_ns, checkpoint_ns;
	uint64_t image_ns;     /* attached: whether it is still the same program, */
	uint32_t image_next;   /* of its children from this one on */
	uint64_t after_events; /* of the last checkpoint */
	uint64_t room_ns;      /* when to end because of a disk that is behind; 0: it is not */
	uint64_t size_bytes;   /* --limit-size: when to look how long it would be by now */
};

struct question;

struct recorder_asked {
	int signal;  /* the last one that asked the program to end; 0: none did */
	uint64_t ns; /* when */
	struct question
		*question; /* of a process about its recording; NULL: none (recorder_questions.c) */
};

/* Of all processes together (recorder_ledgers.c) */
struct recorder_books {
	int bell;          /* a pipe: a process has rung; -1: nobody hears it */
	uint64_t spent_ns; /* on ledgers */
	uint32_t taken;
	uint32_t
		left_out; /* processes that got none at exit, because all together would cost too much */
	bool refused; /* the recording says why one could not be taken */
};

/* What the user was told once */
struct recorder_told {
	bool daemons, files;
};

struct recorder {
	const struct recorder_options *o;
	struct recorder_result *result;
	struct session_dir dir;
	struct trace_writer *writer;
	struct drain drain;
	struct process_set *set, own_set;
	struct recorder_command command;
	struct known_process *known;
	uint32_t process_count, known_capacity;
	struct recorder_execs execs;
	struct reaped_child reaps[RECORDER_REAPS]; /* a ring of the last ones */
	uint32_t reap_count;
	uint64_t last_end_ns; /* of the processes that have ended */
	int signals;
	int deaths; /* epoll: processes that are watched; -1: none is */
	struct recorder_books books;
	bool stop; /* the user wants no more */
	bool full; /* the recording has the size that it may have: the program goes on without */
	uint64_t full_ns;
	struct recorder_asked asked;
	uint64_t last_round; /* its stamp */
	struct recorder_told told;
	bool child_signal;      /* something ended since the last look: do not sleep over it */
	bool rescan;            /* a file was not ready: look again */
	struct sampled_sum sum; /* of sampled processes */
	struct sampled_output samples_to;
	struct recorder_due due;
	uint64_t last_alive_ns; /* when a process was last seen running */
};

/* recorder_launch.c: starts the command and opens the recording. mask: the command's signals. 0, or why
 * it was not run; then nothing is left behind. */
int recorder_launch(struct recorder *r, const sigset_t *mask, struct heft_error *err);
/* Opens the recording of r->command. */
int recorder_open(struct recorder *r, struct heft_error *err);
/* Nothing will be recorded: leaves no file behind. */
void recorder_abandon(struct recorder *r);

/* recorder_attach.c: a program that heft did not start. */
/* Opens the recording and begins. 0, or why it was not; then nothing is left behind. */
int recorder_attach(struct recorder *r, struct heft_error *err);
/* Whether p, which was just found, is the program itself. Then its number here is known. */
bool recorder_attach_owns(struct recorder *r, struct process *p);
/* In each round: whether the program has ended, or the recording is to end. */
void recorder_attach_look(struct recorder *r);
/* Ends it, and takes what the program has still recorded. */
void recorder_detach(struct recorder *r);
void recorder_attach_fini(struct recorder *r);

/* recorder_find.c: finds new processes. Returns the stamp up to which no event can come of a process that was not
 * found. */
uint64_t recorder_find_processes(struct recorder *r);

/* recorder_ends.c: who has ended, and when. round: the stamp that drain_begin gave before anything
 * was looked at. */
void recorder_see_ends(struct recorder *r, uint64_t round);
/* Before that: which processes are gone. True if some are that were there before: then the files that they
 * may have left as another image are to be looked for once more. */
bool recorder_find_gone(struct recorder *r);
/* The stamp up to which may be read: some are just leaving, and their ends come first. */
uint64_t recorder_leaving_limit(const struct recorder *r, uint64_t round);
/* Whether p is the program that was started or attached to. */
bool recorder_is_command(const struct recorder *r, const struct process *p);
/* Watches p: its death wakes recorder_sleep. */
void recorder_watch(struct recorder *r, struct process *p);
/* Sleeps for ns, 1 s at most; notices deaths meanwhile. */
void recorder_sleep(struct recorder *r, uint64_t ns);
/* The image `old` became `new`. */
void recorder_see_exec(struct recorder *r, struct process *old, const struct process *new);
/* Writes down what the drain has ended; true while something still runs or is not read out. */
bool recorder_close_ended(struct recorder *r);
/* Closes what has not ended: it goes on without being recorded. */
void recorder_leave(struct recorder *r);
/* Its calls are not recorded from now on, and that is no loss. */
void recorder_switch_off(struct recorder *r, struct process *p);
/* Whether a forked child is known of that has not come yet. */
bool recorder_children_missing(const struct recorder *r);
/* Copies its live and peak numbers into entry.shown, under the lock, for other threads. */
void recorder_show_exact(struct process *p);

/* recorder_questions.c: one step for whoever asks something of the recording. False: nobody does. */
bool recorder_answer_questions(struct recorder *r);
void recorder_forget_question(struct recorder *r, const struct process *p);
void recorder_questions_fini(struct recorder *r);

/* recorder_holds.c: programs that nothing can be preloaded into, which processes of the command execute. */
/* Says in the session directory that they are held. */
void recorder_offer_holds(struct recorder *r);
/* In each round: who asks, who is ready. */
void recorder_look_for_holds(struct recorder *r);
/* Whether one is still on its way to its first instruction. */
bool recorder_holds_start(const struct recorder *r);
void recorder_end_holds(struct recorder *r);

/* recorder_older.c: the blocks that an attached program had before, if they are known. */
void recorder_take_older(struct recorder *r, struct process *p);

/* recorder_ledgers.c: where the memory of processes is, when they ask or when it is time. */
/* Says in the session directory that ledgers are taken, and listens. */
void recorder_offer_ledgers(struct recorder *r);
/* After each round: answers who asks. True: somebody still waits, so do not sleep. */
bool recorder_look_for_ledgers(struct recorder *r);
/* Forgets that somebody has rung. */
void recorder_hush_bell(struct recorder *r);
/* A last one of a program that heft leaves. */
void recorder_ledger_before_leaving(struct recorder *r);
/* At the end: says if some processes got none. */
void recorder_note_ledgers(struct recorder *r);

/* recorder_notes.c: what the recording says in words of itself. */
void recorder_note(struct recorder *r, uint32_t kind, uint32_t process, const char *text);
/* Before the next one: what was not recorded goes into the process's facts. */
void recorder_count_losses(struct recorder *r, struct process *p);
void recorder_note_losses(struct recorder *r, struct process *p);
void recorder_note_late_libraries(struct recorder *r, struct process *p);
void recorder_note_older_blocks(struct recorder *r, struct process *p);
void recorder_note_budget(struct recorder *r, struct process *p);
/* What was executed but never came. */
void recorder_note_unfollowed(struct recorder *r);
/* The command is in the table of processes even if its file never came or was spoilt at once. */
void recorder_note_absent_command(struct recorder *r);

/* recorder_memory.c: whether heft sees the process's memory (session/process_memory.h). */
/* Begins to compare the memory of a process that was just found. */
void recorder_begin_memory(struct recorder *r, struct process *p);
/* Looks for another allocator, since_ns after its start. */
void recorder_look_for_allocator(struct recorder *r, struct process *p, uint64_t since_ns);
/* Writes what is known so far into the recording. */
void recorder_write_memory(struct recorder *r, struct process *p);

#endif
