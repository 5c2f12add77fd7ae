/* `heft top PID` and `heft view PID` of a process that nobody records: they offer to attach to it for as long as the
 * view lasts. */
#ifndef HEFT_CLI_ATTACH_OFFER_H
#define HEFT_CLI_ATTACH_OFFER_H

#include "hosted/error.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct attach_offer {
	pid_t recorder; /* 0: nothing was offered, or it was not taken */
	char path[PATH_MAX];
};

/* What a user said about it: --attach, and how to record. */
struct attach_wish {
	bool attach, force, has_sample;
	const char *sample; /* NULL: the usual rate */
	const char *output; /* NULL: the usual name */
};

/* Call it with the error that says that the process is not recorded. Attaches if the user has said so, or says so now on
 * the terminal; then *err is cleared, and o->path is the recording, which can be read. Else returns `rc`, and *err stays
 * as it was, or says why nothing could be attached; its message is "" if heft attach has printed it. */
int attach_offer_make(struct attach_offer *o, pid_t pid, const struct attach_wish *wish, int rc,
		      struct heft_error *err);
/* Leaves the process, and says where the recording is. */
void attach_offer_end(struct attach_offer *o);

#endif
