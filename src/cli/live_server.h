/* Serves a process_set over HTTP, for heft run --listen and heft agent. */
#ifndef HEFT_CLI_LIVE_SERVER_H
#define HEFT_CLI_LIVE_SERVER_H

#include "cli/live_source.h"
#include "cli/serve_options.h"
#include "http/http.h"

struct live_server {
	struct process_set set;
	struct live_source source;
	struct serve_options o;
	char listen[300];
	const char *address; /* points into listen */
	uint16_t port;
	/* Serves this in place of the set; NULL: the set. */
	const struct source *other;
	int (*confine)(struct heft_error *err); /* of http_options */
	struct http_tokens tokens;
	struct http_tls tls;
	struct http_server *http;
	struct pprof_routes *routes;
};

/* Makes the set, and reads what the options name; they are kept. Call live_server_fini also if this fails. */
int live_server_init(struct live_server *s, const struct serve_options *o, struct heft_error *err);
/* Begins to serve. It fits recorder_options.ready and agent_options.ready. */
int live_server_start(void *server, struct heft_error *err);
/* Where it serves: "http://127.0.0.1:6070/debug/pprof/", a socket, or both. */
void live_server_place(const struct live_server *s, char *text, size_t size);
/* Wipes tokens and keys, where another process serves. */
void live_server_forget(struct live_server *s);
void live_server_fini(struct live_server *s);

#endif
