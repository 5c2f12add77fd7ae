/* Inside src/agent, and for the server of HTTP: messages between the supervisor and the processes that it has started:
 * its workers and the server (docs/security.md). Each is one packet of a socket of sequenced packets: a struct, and
 * perhaps descriptors.
 *
 * Nobody waits: what the other side does not take now is kept, in order. The supervisor takes nothing in a message for
 * granted: a worker has read hostile bytes. */
#ifndef HEFT_AGENT_LINK_H
#define HEFT_AGENT_LINK_H

#include "hosted/vector.h"
#include "session/sampled_state.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum link_kind {
	/* to a worker */
	LINK_TAKE =
		1, /* look after this process; with its session file, and its recording if it has one already */
	LINK_LIMIT, /* how much memory it may use */
	LINK_END,   /* it has ended, like this */
	LINK_SAVE,  /* write its recording into the descriptor */
	LINK_KEEP, /* the recording is saved: serve it from there, and give its samples' memory back */
	LINK_FORGET,
	LINK_PING,
	/* from a worker */
	LINK_SAVED,  /* answers LINK_SAVE */
	LINK_SPOILT, /* its session file makes no sense any more */
	LINK_PONG,   /* answers LINK_PING */
	LINK_OPEN,   /* opens the file of this path, which a program of this worker has mapped */
	LINK_OPENED, /* answers LINK_OPEN, with the file if it may be read */
	/* to the server of HTTP */
	LINK_WORKER, /* a worker has begun; with its channels */
	LINK_WORKER_GONE,
	LINK_PROCESS, /* a process is there, or has changed */
	LINK_PROCESS_GONE,
	LINK_STATE, /* of the agent itself */
	/* from the server of HTTP */
	LINK_SERVING,
	LINK_FAILED,
};

enum { LINK_DESCRIPTORS = 3, LINK_TEXT = 4096 };

/* What the agent says about itself */
struct link_state {
	uint32_t processes, workers;
	uint64_t refused;        /* processes that had no place */
	uint64_t killed;         /* workers that hung, died or grew */
	uint32_t attached;       /* programs that it is attached to by rule, */
	uint64_t attached_ever;  /* how often it was, */
	uint64_t attach_refused; /* and programs that it could not attach to */
};

struct link_message {
	uint32_t kind;
	uint32_t worker;
	uint64_t key;
	int32_t pid, named_pid;
	uint32_t uid;
	bool running;
	bool has_recording;
	bool attached; /* heft came while it ran */
	bool limit_is_cgroup;
	uint64_t start_tsc;
	uint64_t limit_bytes;
	/* An end */
	uint32_t end; /* enum trace_end */
	int32_t exit_status, signal;
	uint64_t end_ns; /* since its start; UINT64_MAX: when it made its last sample */
	/* What was saved */
	int32_t code; /* 0 or a negative heft_code */
	bool blind;   /* heft could not see into it */
	struct sampled_sums sums;
	struct link_state state;
	char text[LINK_TEXT]; /* only as much as is used is sent */
};

struct link_out {
	void *message;
	size_t bytes;
	int fds[LINK_DESCRIPTORS];
	int fd_count;
};
struct link {
	int fd;
	VECTOR(struct link_out) waiting;
	size_t first_waiting;
	uint64_t stuck_ns; /* since when the other side takes nothing; 0: it does */
};

/* A pair of sockets: ours and the other's. 0 or HEFT_EIO. */
int link_pair(int fds[2]);
void link_init(struct link *l, int fd);
/* Closes it and what was not sent. */
void link_fini(struct link *l);
/* Sends the message, now or later. Takes the descriptors. */
void link_send(struct link *l, const struct link_message *m, const int *fds, int fd_count);
/* Sends what waits, as far as the other side takes it. */
void link_flush(struct link *l);
/* 1: a message, with descriptors of the caller's; those that are not there are -1. 0: none now. -1: the other side is
 * gone or talks nonsense. Texts are ended, and numbers of fixed kinds are in their range. */
int link_receive(int fd, struct link_message *m, int fds[LINK_DESCRIPTORS]);
/* The same from a worker, which has no descriptors to give: those that it sends are never ours. */
int link_receive_plain(int fd, struct link_message *m);

#endif
