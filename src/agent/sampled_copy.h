/* A copy of what the session file of a sampled process holds at one moment. */
#ifndef HEFT_AGENT_SAMPLED_COPY_H
#define HEFT_AGENT_SAMPLED_COPY_H

#include "hosted/error.h"
#include "wire/session.h"

struct sampled_copy {
	void *base; /* as long as a session file; what is not read of one is zero */
	struct wire_session session;
};

/* fd: the session file, which may be anything. HEFT_EFORMAT: it is none of a sampled process. Nothing is to be
 * closed then. */
int sampled_copy_open(struct sampled_copy *c, int fd, struct heft_error *err);
void sampled_copy_close(struct sampled_copy *c);

#endif
