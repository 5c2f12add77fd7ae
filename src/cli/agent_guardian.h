/* A guardian of heft agent (--attach-exe): the process beside a program that was attached to by rule. */
#ifndef HEFT_CLI_AGENT_GUARDIAN_H
#define HEFT_CLI_AGENT_GUARDIAN_H

#include "attach/attach.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guardian_settings {
	const char *session_dir;
	uint64_t sample_bytes;
	bool sample_automatic;
	struct attach_functions functions; /* that every program must have */
	bool agent_is_root;                /* the guardian has its program's rights instead */
};

/* For struct attach_rules; ctx is a struct guardian_settings. Does not return. */
void agent_guard(void *ctx, pid_t pid, int socket, int blob);

#endif
