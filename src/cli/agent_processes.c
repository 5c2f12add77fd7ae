/* What heft agent's server and workers are made of. The server knows processes by what the supervisor says over its
 * link, and asks workers over channels that the supervisor passes on. */
#include "cli/agent_processes.h"

#include "cli/cli.h"
#include "pprof/source_server.h"
#include "pprof/source_workers.h"
#include "symbol/symbol.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert((int)SOURCE_CHANNELS == (int)WORKER_CHANNELS, "a worker has all its channels");

/* ---- the server */

static void obey(struct source_workers *w, const struct link_message *m, int *fds)
{
	const struct source_entry entry = {
		.key = m->key, .pid = m->pid, .uid = m->uid, .running = m->running};
	const struct source_state state = {
		m->state.processes, m->state.workers,       m->state.refused,       m->state.killed,
		m->state.attached,  m->state.attached_ever, m->state.attach_refused};
	switch (m->kind) {
	case LINK_WORKER:
		source_workers_begin(w, m->worker, fds);
		for (int i = 0; i < LINK_DESCRIPTORS; i++)
			fds[i] = -1;
		break;
	case LINK_WORKER_GONE: source_workers_end(w, m->worker); break;
	case LINK_PROCESS: source_workers_set(w, &entry, m->worker); break;
	case LINK_PROCESS_GONE: source_workers_forget(w, m->key); break;
	case LINK_STATE: source_workers_state(w, &state); break;
	default: break;
	}
}

/* Until the supervisor is gone. */
static void follow(struct source_workers *w, int link)
{
	for (;;) {
		struct link_message m;
		int fds[LINK_DESCRIPTORS];
		struct pollfd p = {.fd = link, .events = POLLIN};
		poll(&p, 1, -1);
		int got = link_receive(link, &m, fds);
		if (got < 0)
			return;
		if (got == 0)
			continue;
		obey(w, &m, fds);
		for (int i = 0; i < LINK_DESCRIPTORS; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	}
}

int agent_front(struct live_server *server, int fd)
{
	struct heft_error err = {0};
	struct link link;
	struct link_message m = {.kind = LINK_SERVING};
	struct source_workers *w = source_workers_new();
	link_init(&link, fd);
	if (!w)
		return CLI_FAILED;
	struct source source = source_workers_source(w);
	server->other = &source;
	server->confine = agent_server_confine;
	int rc = live_server_start(server, &err);
	if (rc) {
		m.kind = LINK_FAILED;
		m.code = rc;
		memcpy(m.text, err.message, sizeof err.message);
	} else
		live_server_place(server, m.text, sizeof m.text);
	_Static_assert(sizeof m.text >= sizeof err.message, "one fits the other");
	link_send(&link, &m, NULL, 0);
	if (!rc)
		follow(w, fd);
	live_server_fini(server);
	source_workers_free(w);
	link_fini(&link);
	return rc ? CLI_FAILED : CLI_SUCCESS;
}

/* ---- workers */

struct worker_ctx {
	struct live_source live;
	struct source_server *server;
};

static void *begin(struct process_set *set, int (*open_file)(const char *path))
{
	symbol_files_from(open_file);
	struct worker_ctx *w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->live.set = set;
	struct source source = live_source(&w->live);
	w->server = source_server_new(&source);
	if (w->server)
		return w;
	free(w);
	return NULL;
}

static void serve(void *ctx, int channel)
{
	struct worker_ctx *w = ctx;
	source_server_answer(w->server, channel);
}

static uint64_t busy_since_ns(void *ctx)
{
	struct worker_ctx *w = ctx;
	return source_server_since_ns(w->server);
}

static int answer(void *ctx, struct process *p, char **bytes, size_t *length)
{
	struct worker_ctx *w = ctx;
	return live_source_answer(&w->live, p, bytes, length);
}

struct worker_parts agent_worker_parts(void)
{
	return (struct worker_parts){
		.begin = begin, .serve = serve, .busy_since_ns = busy_since_ns, .answer = answer};
}
