/* Inside src/agent: the supervisor's state, for its parts: finding (supervisor_find.c), ends (supervisor_ends.c), what is
 * kept (recordings.c) and the loop (agent_loop.c). */
#ifndef HEFT_AGENT_SUPERVISOR_H
#define HEFT_AGENT_SUPERVISOR_H

#include "agent/agent_loop.h"
#include "agent/attacher.h"
#include "agent/recordings.h"
#include "agent/supervised.h"
#include "hosted/hash_index.h"
#include "session/session_dir.h"

struct unseen {
	int32_t named_pid;
	uint64_t start_tsc, again_ns;
	uint32_t looks;
};

/* What a user has here */
struct share {
	uid_t uid;
	uint32_t processes;
	uint64_t said_ns; /* when the log said that there are too many; 0: never */
	/* In this pass through the directory: time for its files, how many of them were taken and searched for */
	uint64_t spent_ns;
	uint32_t taken, searches;
	uint64_t again_ns; /* its files have taken so long that they wait until then, */
	uint64_t look_ns;  /* and so have its processes */
	/* By the time of the last change: the newest file that had to wait in this pass, and in the one before. The files
	 * that waited come first, however many newer ones there are; 0: none did. */
	int64_t waited_ns, turn_ns;
};

/* A pass through the directory, which may take several rounds of the loop */
struct looking {
	void *stream; /* DIR; NULL: there is none under way */
	uint64_t begun_ns;
	uint32_t taken, refused;
	uint64_t charged_ns; /* of this slice: it is some user's time */
};

/* fields: what one loop looks after, each thing once */
struct supervisor {
	const struct agent_options *o;
	struct session_dir dir;
	struct recordings recordings;
	struct workers workers;
	struct link front; /* the server of HTTP */
	pid_t front_pid;
	struct supervised **list; /* running or ended, in the order they came: keys rise */
	uint32_t count, capacity;
	uint32_t places; /* for so many */
	uint64_t last_key;
	int epoll, signals;
	bool stop, failed;

	/* finding */
	bool rescan, more;       /* some file was not ready; there are more to take */
	struct hash_index known; /* of the list, while the directory is looked through */
	struct unseen *unseen;   /* a ring */
	uint32_t unseen_count;
	bool said_unseen, said_slow;
	struct looking looking;
	struct looker looker;
	VECTOR(struct share) shares;
	uint32_t refused; /* files that had no place when last looked at */
	uint64_t scan_again_ns, scan_not_before_ns;

	struct attacher attacher; /* --attach-exe */

	uint32_t next_look; /* in the list */
	uint64_t next_slow_ns, next_trim_ns;
};

void supervisor_say(const struct supervisor *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Tells the worker of a process to look after it, if that worker is there and does not yet. False: its file is gone. */
bool supervisor_tell_worker(struct supervisor *a, struct supervised *c);
/* Tells the server of HTTP that it is there, or has changed. */
void supervisor_tell_front(struct supervisor *a, const struct supervised *c);
/* Forgets it, everywhere. */
void supervisor_drop(struct supervisor *a, struct supervised *c);
/* It does not run any more, or goes on without heft. */
void supervisor_end_process(struct supervisor *a, struct supervised *c);

/* ---- supervisor_find.c */
/* Looks through the directory if something may have come. */
void supervisor_scan(struct supervisor *a);
/* A process of this user is gone. */
void supervisor_leave_share(struct supervisor *a, uid_t uid);
/* Whether this process has another program now, if its user's looks have not taken too long of late. */
bool supervisor_was_replaced(struct supervisor *a, const struct supervised *c);
void supervisor_stop_scan(struct supervisor *a);

/* ---- supervisor_files.c */
/* Opens a file that a running process of this worker has mapped, and may read. -1: there is none. ctx: the
 * supervisor. */
int supervisor_open_file(void *ctx, struct worker_seat *s, const char *path);

/* ---- supervisor_ends.c */
/* Saves what ended processes had, and drops the oldest of those that were kept for a while. */
void supervisor_see_ends(struct supervisor *a, uint64_t now);
void supervisor_drop_old(struct supervisor *a, uint64_t now);
/* Removes recordings that have grown beyond their owner's quota. */
void supervisor_recount(struct supervisor *a);
/* A worker has written, or could not. */
void supervisor_take_saved(struct supervisor *a, struct supervised *c,
			   const struct link_message *m);
/* Its worker is gone before it had written. */
void supervisor_lose_saving(struct supervisor *a, struct supervised *c);

#endif
