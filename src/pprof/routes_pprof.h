/* What heft serves of running programs: /debug/pprof/ as Go has it, /metrics for Prometheus,
 * /healthz. docs/http.md describes the endpoints. */
#ifndef HEFT_PPROF_ROUTES_PPROF_H
#define HEFT_PPROF_ROUTES_PPROF_H

#include "http/http.h"
#include "pprof/source.h"

struct pprof_routes;

/* The source is copied, what it points to must live as long as the routes. 0 or HEFT_ENOMEM. */
int pprof_routes_new(struct pprof_routes **out, const struct source *s);
/* For http_server_start; ends with a NULL path. */
const struct http_route *pprof_routes_table(const struct pprof_routes *r);
void pprof_routes_free(struct pprof_routes *r); /* after http_server_stop */

#endif
