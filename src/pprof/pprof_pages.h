/* Inside src/pprof: pages about all processes. Each writes to a stream whose errors latch. */
#ifndef HEFT_PPROF_PPROF_PAGES_H
#define HEFT_PPROF_PPROF_PAGES_H

#include "http/http.h"
#include "pprof/pprof_target.h"

#include <stdio.h>

/* The page of /debug/pprof/; `up` is how to get there from the page asked for ("", "../"). token: to
 * be kept in the links, or NULL. */
void pprof_write_index(FILE *out, const struct pprof_list *l, const char *up, const char *token);
/* Prometheus' text. */
void metrics_write(FILE *out, const struct source_process *list, uint32_t count,
		   const struct http_stats *stats);
/* The same about the agent itself. */
void metrics_write_state(FILE *out, const struct source_state *state);

#endif
