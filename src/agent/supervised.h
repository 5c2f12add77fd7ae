/* Inside src/agent: a session file and the process behind it, as the supervisor knows them: by what the kernel says, and
 * by a copy of the file's header. It reads nothing else of the file, and never maps it. */
#ifndef HEFT_AGENT_SUPERVISED_H
#define HEFT_AGENT_SUPERVISED_H

#include "agent/looker.h"
#include "agent/workers.h"
#include "session/process.h"

struct supervised {
	uint64_t key;      /* never used again */
	int32_t named_pid; /* of the file's name; in a container another than pid */
	int32_t pid;       /* as seen from here */
	uint64_t start_tsc, start_mono_ns;
	int pidfd; /* -1: it has ended */
	struct session_file file;
	int32_t parent; /* of a fork: whose memory it began with, as its file says; else 0 */
	int32_t attached; /* the process that a guardian attached to: this one, or whose fork it is; 0: none */
	char *name; /* its name and executable for a line of the log */
	char *stem; /* what its recording is called after */
	struct worker_seat *seat;
	uint32_t told; /* the number of the worker that was told of it; 0: none yet */

	struct oom_watch *oom; /* NULL: not known */
	uint64_t limit_bytes;
	bool limit_is_cgroup;
	uint64_t check_mono_ns; /* when to see next whether it still has its file mapped, */
	uint64_t limit_mono_ns; /* and what its memory limit is */

	bool running;
	uint64_t ended_mono_ns; /* when its end was noticed */
	bool end_known;
	struct process_end end;

	bool saving;            /* its worker was told to write */
	int saving_fd;          /* where to; -1 */
	uint32_t tries;         /* workers that ended meanwhile */
	uint64_t retry_mono_ns; /* it could not be saved: when to try again */
	bool saved;             /* or there is nothing to save: the session file is gone */
	bool empty;             /* it never had a sample, and there is nothing else to say */
};

enum supervised_found {
	SUPERVISED_TAKEN,
	SUPERVISED_LATER,   /* not ready: look again */
	SUPERVISED_UNSEEN,  /* in use by a process that cannot be seen from here, or not in time */
	SUPERVISED_NOTHING, /* not a session file of a sampled process */
};
/* Looks at the session file `name`. With SUPERVISED_TAKEN *out is the caller's to free; (*out)->running says whether there
 * is still a process, pid which. search: those of other pid namespaces are looked at as well; else only
 * the one of its name is. */
enum supervised_found supervised_open(struct supervised **out, int dirfd, const char *name,
				      struct looker *l, bool search);
void supervised_free(struct supervised *c);

/* Opens its session file again, for a worker. -1 and errno: it is not there any more, or cannot be opened now. */
int supervised_file(const struct supervised *c, int dirfd);
/* As whom its samples are read. */
struct identity supervised_identity(const struct supervised *c, const struct identity *others);
/* A running one whose process has another program now, without heft. */
bool supervised_was_replaced(const struct supervised *c, struct looker *l);
/* Reads its memory limit, and watches from now on whether the kernel kills for lack of memory. */
void supervised_watch_memory(struct supervised *c);
/* Finds out how it ended, if that is to be had by now, or if it will not be (last). */
bool supervised_learn_end(struct supervised *c, bool last);
void supervised_ended_as(struct supervised *c, enum trace_end end, uint64_t end_ns);
/* Since the process's start. */
uint64_t supervised_age_ns(const struct supervised *c);

#endif
