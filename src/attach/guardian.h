/* The guardian: a process of its own between heft and the program (guardian.c). */
#ifndef HEFT_ATTACH_GUARDIAN_H
#define HEFT_ATTACH_GUARDIAN_H

#include "attach/attach.h"

enum guardian_asks {
	GUARDIAN_ATTACH = 1,
	GUARDIAN_DETACH = 2,
	GUARDIAN_GO = 3,            /* attach_go; there is no answer */
	GUARDIAN_PROCESS_ENDED = 4, /* likewise: ends the guardian if it is of no use any more */
};

struct guardian_answer {
	int rc;
	struct heft_error err;
	struct attach_report report;
};

/* Serves the other end of the socket, and ends the process when it is closed. */
_Noreturn void guardian_run(int socket, const struct attach_options *o);

/* ---- for a process that is a guardian with a loop of its own */
struct guardian {
	const struct attach_options *o;
	struct attach_options spawned; /* the same with another process, once it is there */
	int socket;                    /* to whoever asks; only if a program is to be started */
	uint64_t near_at;              /* 0: nothing is in the program */
	struct guardian_answer answer;
};
/* Leaves the session, the terminal and all sockets but this one of whoever started us; blocks all signals. */
void guardian_separate(int socket);
/* 0 or why not; g->answer has the report, and the error. */
int guardian_attach(struct guardian *g);
/* Takes it out of the program and of its forked children, if it is in. */
int guardian_detach(struct guardian *g);
/* A running process that has what was put into the program because it was forked from it; 0: none. */
pid_t guardian_child(const struct guardian *g);

#endif
