/* Inside src/agent: the supervisor attaches to programs by rule. */
#ifndef HEFT_AGENT_ATTACHER_H
#define HEFT_AGENT_ATTACHER_H

#include "agent/attach_rules.h"
#include "agent/program_finder.h"

#define ATTACHER_KEY (1ull << 62) /* of guardians, in the supervisor's epoll */

struct supervisor;
struct supervised;

enum held_state {
	HELD_TRYING,
	HELD_ATTACHED,
	HELD_LEAVING,   /* it was told to */
	HELD_ABANDONED, /* it took too long: when it can, it leaves by itself */
	HELD_ENDING,    /* nothing more comes from it */
};

/* A guardian and its program */
struct held {
	pid_t pid, guardian;
	uint64_t began; /* the program */
	uid_t uid;
	uint32_t rule;
	enum held_state state;
	bool answered;
	bool replaced; /* the process executes another program */
	int fd;        /* -1: closed */
	uint64_t since_ns;
};

/* What a user's programs have taken of our time */
struct attach_user {
	uid_t uid;
	uint64_t spent_ns, spent_at_ns;
	uint64_t said_ns; /* since then it was said so often why something was not attached to */
	uint32_t said;
};

struct attacher {
	const struct attach_rules *rules;
	struct program_finder finder;
	VECTOR(struct held) held;
	VECTOR(struct attach_user) users;
	bool ready, leaving; /* a guardian has said something; the agent ends */
	size_t turn;
	uint64_t start_ns; /* when to look for somebody to attach to */
	uint64_t attached_ever, refused_ever;
};

void attacher_init(struct supervisor *a);
void attacher_fini(struct supervisor *a);
/* Finds programs, begins to attach, hears guardians. Call it often. */
void attacher_look(struct supervisor *a, uint64_t now);
/* The program that a guardian has attached to, if this session file is its or that of a fork of it; else 0. */
pid_t attacher_origin(const struct supervisor *a, const struct supervised *c);
/* The process runs another program now. */
void attacher_replaced(struct supervisor *a, const struct supervised *c);
/* How many programs are attached to now. */
uint32_t attacher_count(const struct supervisor *a);
/* Leaves all programs, from now on. attacher_is_done: all have been left. */
void attacher_leave_all(struct supervisor *a);
bool attacher_is_done(const struct supervisor *a);

#endif
