/* The guardian: a process of its own between heft and the program (guardian.c). */
#ifndef HEFT_ATTACH_GUARDIAN_H
#define HEFT_ATTACH_GUARDIAN_H

#include "attach/attach.h"

enum guardian_asks { GUARDIAN_ATTACH = 1, GUARDIAN_DETACH = 2 };

struct guardian_answer {
	int rc;
	struct heft_error err;
	struct attach_report report;
};

/* Serves the other end of the socket, and ends the process when it is closed. */
_Noreturn void guardian_run(int socket, const struct attach_options *o);

#endif
