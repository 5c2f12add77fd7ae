/* Serving a process_set over HTTP: what heft run --listen and heft agent have in common. */
#ifndef HEFT_CLI_LIVE_SERVER_H
#define HEFT_CLI_LIVE_SERVER_H

#include "cli/live_source.h"
#include "http/http.h"

struct live_server {
	struct process_set set;
	struct live_source source;
	char listen[300], token[300];
	const char *address; /* in listen */
	uint16_t port;
	bool wanted;
	struct http_server *http;
	struct pprof_routes *routes;
};

/* listen: as --listen; NULL: nothing is served, but there is a set. token_file may be NULL. Fini it in
 * any case. */
int live_server_init(struct live_server *s, const char *listen, const char *token_file,
		     struct heft_error *err);
/* Begins to serve: for recorder_options.ready and agent_options.ready. */
int live_server_start(void *server, struct heft_error *err);
/* "http://127.0.0.1:6070/debug/pprof/" */
void live_server_url(const struct live_server *s, char *text, size_t size);
void live_server_fini(struct live_server *s);

#endif
