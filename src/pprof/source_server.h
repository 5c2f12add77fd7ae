/* Serves a source over a channel (source_channel.h): what a worker does. */
#ifndef HEFT_PPROF_SOURCE_SERVER_H
#define HEFT_PPROF_SOURCE_SERVER_H

#include "pprof/source.h"

struct source_server;
struct source_server *source_server_new(const struct source *source); /* NULL: no memory */
/* Answers questions from fd, which is a blocking socket, until the other side closes it. Several threads may do so
 * with different descriptors. SIGPIPE must be ignored. */
void source_server_answer(struct source_server *s, int fd);
/* When the oldest question that is being answered came; 0: there is none. By this the worker notices that it hangs. */
uint64_t source_server_since_ns(struct source_server *s);

#endif
