/* Recording a program, from its launch or from the moment heft is attached to it, to the closed file. */
#ifndef HEFT_RECORD_RECORDER_H
#define HEFT_RECORD_RECORDER_H

#include "agent/answer_call.h"
#include "hosted/error.h"
#include "record/launch.h"
#include "tally/tally.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct ledger;
struct ledger_request;
struct process_set;
struct recorder_result;

/* What a process that is recorded exactly asks of its recording, up to the moment at which it asks. */
struct recorder_question {
	bool wants_copy; /* of the recording; else a text, which sites have most of `field` in the time from_ns to to_ns */
	int32_t pid, tid; /* tid 0: of all its threads */
	uint32_t field; /* a number of struct heft_stats, as it comes from the process: any value */
	uint64_t from_ns, to_ns, to_tsc;
};
/* Makes the answer, in a thread of its own; the caller frees it. 0, or a negative code. */
typedef int recorder_answer_fn(void *ctx, const struct recorder_question *q, char **bytes,
			       size_t *length);

enum recorder_wish {
	RECORDER_GO_ON,
	RECORDER_TO_END, /* somebody wants the recording to end */
	RECORDER_ALONE,  /* heft is not in the program any more, unless that has ended */
};

/* A program that already runs, in place of a command. How heft gets into it is not known here. */
struct recorder_attach {
	pid_t pid;
	uint64_t duration_ns; /* then the recording ends; 0: no limit */
	void *ctx;
	/* Everything is ready: the program may leave its file in session_dir from now on. A failure is the
	 * reason not to record it. */
	int (*begin)(void *ctx, const char *session_dir, struct heft_error *err);
	/* What it had allocated before, in words: set by begin; NULL or "": not known. */
	const char *before;
	/* Which functions of its allocators cannot be seen and why, in words: set by begin; NULL or "": none. */
	const char *unseen;
	/* The blocks that it has, set by begin: so many pairs of address and usable bytes in a file in memory, which
	 * the recorder closes. 0: not known. */
	uint64_t older_blocks;
	int older_fd;
	/* Called in every round, some 20 ms apart at most. */
	enum recorder_wish (*wish)(void *ctx);
	/* Called once after begin, when the recording ends: leaves the program and its forked children as
	 * they were. pids: those of them that were recorded and still run, which do not wait for the
	 * recorder any more. A failure is told to the user. */
	int (*end)(void *ctx, const pid_t *pids, uint32_t count, struct heft_error *err);
};

/* A command that heft gets into at its start, where nothing can be preloaded. How is not known here. */
struct recorder_entry {
	void *ctx;
	/* Its process waits to execute it. A failure is the reason not to run it. *tracer: who will trace it for
	 * a moment, and must be allowed to. */
	int (*hold)(void *ctx, pid_t pid, const char *session_dir, pid_t *tracer,
		    struct heft_error *err);
	/* It is being executed: sets the hooks, and lets it run. After a failure it has been killed. */
	int (*hook)(void *ctx, struct heft_error *err);
	/* Nothing is recorded any more: takes the hooks out of what still runs. Also after a failure. */
	void (*end)(void *ctx);
	const char *
		unseen; /* after hook: functions that could not be hooked, a sentence; NULL: none */
};

/* Programs that nothing can be preloaded into, which processes of the command execute. How heft gets into them is not
 * known here. */
enum recorder_held {
	RECORDER_HELD_STARTS, /* it is being executed, or gets its hooks */
	RECORDER_HELD_HOOKED, /* it runs */
	RECORDER_HELD_GONE,   /* nothing more will come; it is freed */
};
struct held;
struct recorder_holder {
	void *ctx;
	/* The process waits to execute. spawns: pid is a thread, and the next process that it makes executes. *tracer:
	 * who will trace it, and must be allowed to. */
	int (*hold)(void *ctx, pid_t pid, bool spawns, const char *session_dir, struct held **out,
		    pid_t *tracer, struct heft_error *err);
	/* It executes now. */
	void (*go)(struct held *h);
	/* It does not, and is let go at once; frees h. */
	void (*cancel)(struct held *h);
	/* *pid is set when it is hooked, or cannot be: the process that has executed. */
	enum recorder_held (*look)(struct held *h, pid_t *pid);
	/* The process has ended. */
	void (*process_ended)(struct held *h);
	/* Nothing is recorded any more: takes the hooks out of what still runs; frees h. */
	void (*end)(struct held *h);
};

/* fields: what a recording is begun with, from the options of the verbs to what it calls back. */
struct recorder_options {
	char **argv; /* the command; argc of them, NULL after */
	int argc;
	const struct launch_plan *plan;
	const char *preload;                  /* absolute path of the library */
	const struct recorder_entry *entry;   /* if the plan's way is LAUNCH_ENTRY */
	const struct recorder_holder *holder; /* for what it executes; NULL: nothing is held */
	const struct recorder_attach *attach; /* in place of these six; or NULL */
	const char *output;                   /* pattern with %e, %p, %t; NULL: heft.%e.%p.heft */
	bool force;
	uint64_t sample_bytes; /* sampled, with this mean distance; 0: every allocation */
	bool sample_automatic; /* sampled, at a rate that follows a budget */
	uint64_t limit_bytes;  /* of the recording: then it ends and the program goes on; 0: none */
	bool mempools;         /* Valgrind's client requests for memory pools, too */
	bool follow;           /* into forked and executed processes */
	bool verbose;          /* say which processes are recorded */
	/* Takes a ledger of a recorded process (hosted/ledger.h). How is not known here. NULL: none is taken. */
	int (*take_ledger)(struct ledger *l, const struct ledger_request *request,
			   struct heft_error *err);
	bool no_ledgers;          /* none but those that somebody asks for */
	bool all_ledgers;         /* of every process, however many there are */
	uint64_t ledger_every_ns; /* 0: now and then, while the heap grows */
	bool leaks; /* look for leaks in any process with a ledger, however long it takes */
	/* A line for the user while it goes on; NULL: none. */
	void (*say)(const char *text);

	/* For whoever answers questions about the processes meanwhile (session/process_set.h). */
	struct process_set *set; /* to be filled; the caller's, who frees it. NULL: not needed */
	/* Called before the program is started, with signals blocked: threads that it starts take none
	 * that are meant for the program. A failure is the reason not to run the command. */
	int (*ready)(void *ctx, struct heft_error *err);
	void *ready_ctx;
	answer_make *
		answer; /* makes what a process gets that asks for its own profile; NULL: nothing */
	recorder_answer_fn *answer_exact; /* the same for one that is recorded exactly */
	void *answer_ctx;
	void (*in_child)(void); /* in the program's process, before it is executed */
	bool keep_ended;        /* snapshots of sampled processes that ended will be asked for */
	uint64_t linger_ns;     /* how long to stay when all is written, unless a signal comes */
	void (*ended)(void *ctx, struct recorder_result *result); /* before that */
};

struct recorder_result {
	char path[4096]; /* of the recording; "" if none was begun */
	bool launched;
	int status; /* as from waitpid; of the command */
	/* A program that was attached to: why it could not be left as it was; code 0: it was. */
	struct heft_error left;
	/* What went wrong with the recording, if code != 0: the program was not affected. */
	struct heft_error problem;
	uint32_t processes;
	uint64_t events, bytes;
	char budget[160];   /* with sample_automatic: what became of the rate, in words; or "" */
	struct tally tally; /* as in the recording, which need not be read for it */
};
void recorder_result_fini(struct recorder_result *result);

/* 0, or the reason why nothing was recorded: the command was not run, the program was not touched. */
int recorder_run(const struct recorder_options *o, struct recorder_result *result,
		 struct heft_error *err);

#endif
