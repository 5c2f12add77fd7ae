/* The processes of heft agent that are not its supervisor: the server of HTTP, and workers. Both are only given the parts
 * they need: the server has no session file, a worker no network. */
#ifndef HEFT_CLI_AGENT_PROCESSES_H
#define HEFT_CLI_AGENT_PROCESSES_H

#include "agent/agent_loop.h"
#include "cli/live_server.h"

/* Serves what workers answer, until the link is closed. Returns the status of the process. */
int agent_front(struct live_server *server, int link);
struct worker_parts agent_worker_parts(void);

#endif
