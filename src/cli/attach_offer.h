/* `heft top PID` and `heft view PID` of a process that nobody records: they offer to attach to it for as long as the
 * view lasts. */
#ifndef HEFT_CLI_ATTACH_OFFER_H
#define HEFT_CLI_ATTACH_OFFER_H

#include "cli/recording_wish.h"
#include "hosted/error.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

struct attach_offer {
	pid_t recorder; /* 0: nothing was offered, or it was not taken */
	char path[PATH_MAX];
};

/* Call it with the error that says that the process is not recorded. Attaches if the user has said so (--attach: asked is
 * true), or says so now on the terminal; then *err is cleared, and o->path is the recording, which can be read. Else returns `rc`, and *err stays
 * as it was, or says why nothing could be attached; its message is "" if heft attach has printed it. */
int attach_offer_make(struct attach_offer *o, pid_t pid, bool asked,
		      const struct recording_wish *wish, int rc, struct heft_error *err);
/* Leaves the process, and says where the recording is. */
void attach_offer_end(struct attach_offer *o);

#endif
