/* Serves a process_set over HTTP, for heft run --listen and heft agent. */
#ifndef HEFT_CLI_LIVE_SERVER_H
#define HEFT_CLI_LIVE_SERVER_H

#include "cli/live_source.h"
#include "http/http.h"

struct live_server {
	struct process_set set;
	struct live_source source;
	char listen[300], token[300];
	const char *address; /* points into listen */
	uint16_t port;
	const char *names; /* of --host; NULL: none */
	/* Serves this in place of the set; NULL: the set. */
	const struct source *other;
	int (*confine)(struct heft_error *err); /* of http_options */
	bool wanted;
	struct http_server *http;
	struct pprof_routes *routes;
};

/* listen is the value of --listen; NULL: the set is made, but nothing is served. token_file may be NULL.
 * Call live_server_fini also if this fails. */
int live_server_init(struct live_server *s, const char *listen, const char *token_file,
		     struct heft_error *err);
/* Begins to serve. It fits recorder_options.ready and agent_options.ready. */
int live_server_start(void *server, struct heft_error *err);
/* "http://127.0.0.1:6070/debug/pprof/" */
void live_server_url(const struct live_server *s, char *text, size_t size);
void live_server_fini(struct live_server *s);

#endif
