/* The network. libmicrohttpd's thread reads requests and sends answers, workers make the answers, and a
 * clock continues requests that wait and ends clients that take too long. There are one or two doors, the
 * port and the Unix socket; each has its own thread of libmicrohttpd.
 *
 * A request is one struct http_connection, which always has one owner. The network's thread of its door owns it
 * while it is read and sent. The request is *suspended* before it goes to the queue of the workers or to the list
 * of waiting requests. Nobody touches it after it was *resumed*: it then belongs to the network's thread
 * again, which may free it at once. `lock` guards the queue, the list and the clients' deadlines. No route
 * is called with it held, and no function of libmicrohttpd but the one that suspends.
 *
 * libmicrohttpd closes a connection on which nothing happens, but one byte now and then keeps it open for
 * ever. So every client also has a deadline here: for its request to arrive, and for it to take the answer.
 * After that its socket is shut down. It is not closed: the network's thread does that when it sees the end
 * of file. Clients that hang up in the middle of a request are shut down too, because libmicrohttpd misses
 * an end of file that comes together with the last bytes. A client that closes only its sending side counts
 * as gone, as with Go's server. The socket of every client in the list is open: the client leaves the list
 * before libmicrohttpd closes its socket.
 *
 * Every descriptor is close-on-exec. SIGPIPE is blocked in the network's thread, and sends use
 * MSG_NOSIGNAL. All threads block all signals; the verbs handle them. */
#include "http/http_state.h"

#include "hosted/vector.h"

#include <microhttpd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

enum {
	USUAL_CONNECTIONS = 4096,
	SPARE_CONNECTIONS = 64, /* get 503 and are asked to come again */
	LEAST_SHARE = 16,       /* connections of one address, if there are so many */
	USUAL_BODY = 1 << 20,
	MEMORY = 2 * HTTP_HEADERS, /* bytes of a connection; libmicrohttpd refuses more by itself */
	PATIENCE = 8, /* a body up to so many times the limit is read before it gets 413 */
};

/* ---- what routes ask */

const char *http_query(const struct http_request *q, const char *name)
{
	const char *value = NULL;
	if (MHD_lookup_connection_value_n(q->connection->mhd, MHD_GET_ARGUMENT_KIND, name,
					  strlen(name), &value, NULL) != MHD_YES)
		return NULL;
	return value ? value : "";
}

const char *http_header(const struct http_request *q, const char *name)
{
	return MHD_lookup_connection_value(q->connection->mhd, MHD_HEADER_KIND, name);
}

void http_request_stats(const struct http_request *q, struct http_stats *stats)
{
	struct http_server *s = q->connection->server;
	pthread_mutex_lock(&s->lock);
	*stats = (struct http_stats){(uint64_t)s->doors[0].clients + s->doors[1].clients,
				     s->requests, s->refused, s->failed};
	pthread_mutex_unlock(&s->lock);
}

/* The whole request has arrived: its deadline ends. */
static void end_reading(struct http_connection *c)
{
	pthread_mutex_lock(&c->server->lock);
	c->client->deadline_ns = NEVER;
	c->client->reading = false;
	pthread_mutex_unlock(&c->server->lock);
}

/* ---- sending */

/* libmicrohttpd asks for the next part of a stream of events. */
static ssize_t on_more(void *ctx, uint64_t at, char *buffer, size_t size)
{
	struct http_connection *c = ctx;
	struct http_server *s = c->server;
	(void)at;
	if (c->state == GONE)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	size_t left = c->answer.event_bytes - c->sent;
	if (left) {
		size_t n = left < size ? left : size;
		memcpy(buffer, c->answer.events + c->sent, n);
		c->sent += n;
		return (ssize_t)n;
	}
	pthread_mutex_lock(&s->lock);
	if (s->stopping || c->done) {
		pthread_mutex_unlock(&s->lock);
		return MHD_CONTENT_READER_END_OF_STREAM;
	}
	MHD_suspend_connection(c->mhd);
	c->client->deadline_ns = NEVER;
	http_wait_locked(s, c);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

bool http_takes_gzip(const struct http_request *q)
{
	const char *takes = http_header(q, "Accept-Encoding");
	const char *gzip = takes ? strcasestr(takes, "gzip") : NULL;
	if (!gzip)
		return false;
	gzip += strlen("gzip");
	gzip += strspn(gzip, "; ");
	return strncasecmp(gzip, "q=0", 3) != 0 || strcspn(gzip, "123456789") < strcspn(gzip, ",");
}

static struct MHD_Response *response_of(struct http_connection *c)
{
	struct http_answer *a = &c->answer;
	struct MHD_Response *r;
	if (c->stream)
		return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16 * 1024, on_more, c,
							 NULL);
	if (a->packed && http_takes_gzip(&c->request)) {
		http_answer_header(a, "Content-Encoding", "gzip");
	} else if (a->packed) {
		if (http_unpack(a->fixed, a->bytes, &a->body, &a->bytes) < 0)
			return NULL;
		a->fixed = NULL;
	}
	if (a->packed)
		http_answer_header(a, "Vary", "Accept-Encoding");
	if (a->fixed)
		return MHD_create_response_from_buffer(a->bytes, (void *)(uintptr_t)a->fixed,
						       MHD_RESPMEM_PERSISTENT);
	r = MHD_create_response_from_buffer(a->bytes, a->body, MHD_RESPMEM_MUST_FREE);
	if (r)
		a->body = NULL;
	return r;
}

static void add_line(struct MHD_Response *r, const char *line, size_t length)
{
	char text[1024];
	char *colon;
	if (length >= sizeof text)
		return;
	memcpy(text, line, length);
	text[length] = 0;
	colon = strchr(text, ':');
	if (!colon)
		return;
	*colon++ = 0;
	colon += strspn(colon, " ");
	MHD_add_response_header(r, text, colon);
}

static void add_headers(struct http_connection *c, struct MHD_Response *r)
{
	const struct http_answer *a = &c->answer;
	MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
	for (uint32_t i = 0; i < a->header_count; i++)
		MHD_add_response_header(r, a->headers[i].name, a->headers[i].value);
	if (a->status == 401) { /* Basic makes browsers ask for a password */
		MHD_add_response_header(r, "WWW-Authenticate", "Bearer realm=\"heft\"");
		MHD_add_response_header(r, "WWW-Authenticate", "Basic realm=\"heft\"");
	}
	if (a->status == 503)
		MHD_add_response_header(r, "Connection", "close");
	for (const char *line = c->server->o.headers; line && *line;) {
		size_t length = strcspn(line, "\n");
		add_line(r, line, length);
		line += length + (line[length] == '\n');
	}
}

static void answer_full(struct http_connection *c)
{
	http_answer_fini(&c->answer);
	http_answer_text(&c->answer, 503,
			 "this server sends too much already; please take those answers first\n");
	http_answer_header(&c->answer, "Retry-After", "5");
}

static enum MHD_Result send_answer(struct http_connection *c)
{
	struct http_server *s = c->server;
	struct http_answer *a = &c->answer;
	if (c->state == GONE)
		return MHD_NO;
	if (a->no_memory || a->kind == HTTP_NO_ANSWER) {
		http_answer_fini(a);
		http_answer_text(a, 500, "%s\n",
				 "heft could not make this answer: not enough memory");
	}
	if (!http_find_room(c, a->fixed ? 0 : a->bytes))
		answer_full(c);
	struct MHD_Response *r = response_of(c);
	if (!r)
		return MHD_NO;
	add_headers(c, r);
	unsigned status = c->stream ? 200 : a->status;
	pthread_mutex_lock(&s->lock);
	s->requests++;
	s->refused += status / 100 == 4;
	s->failed += status / 100 == 5;
	c->client->reading = false;
	uint64_t slow = a->bytes / (16 * 1024) * SECOND;
	c->client->deadline_ns = after(monotonic_ns(),
				       http_limit_ns(s->o.limits.answer_ms, HTTP_ANSWER_MS) + slow);
	pthread_mutex_unlock(&s->lock);
	enum MHD_Result rc = MHD_queue_response(c->mhd, status, r);
	MHD_destroy_response(r);
	return rc;
}

/* ---- to the routes */

/* The whole request has arrived. */
static enum MHD_Result start_route(struct http_connection *c)
{
	struct http_server *s = c->server;
	c->request.body = c->body ? c->body : "";
	c->request.body_bytes = c->body_bytes;
	c->request.arrived_ns = monotonic_ns();
	c->state = WORKING;
	end_reading(c);
	if (c->route->quick) {
		http_call_route(c);
		if (c->answer.kind != HTTP_LATER)
			return http_after_route(c) ? send_answer(c) : MHD_NO;
		MHD_suspend_connection(c->mhd);
		struct MHD_Connection *mhd = c->mhd;
		if (http_after_route(c))
			MHD_resume_connection(mhd);
		return MHD_YES;
	}
	pthread_mutex_lock(&s->lock);
	bool stopping = s->stopping;
	if (!stopping) {
		MHD_suspend_connection(c->mhd);
		http_enqueue_locked(s, c);
	}
	pthread_mutex_unlock(&s->lock);
	if (!stopping)
		return MHD_YES;
	http_answer_text(&c->answer, 503, "the server is shutting down\n");
	return send_answer(c);
}

/* ---- taking requests in */

/* The headers have arrived. An answer that is ready now is sent after the body was read, so that the
 * connection can take the next request. A body far above the limit is not read. */
static enum MHD_Result begin(struct http_connection *c, const char *path, const char *method)
{
	c->begun = true;
	c->head = strcmp(method, "HEAD") == 0;
	c->request = (struct http_request){
		.method = c->head                       ? "GET"
			  : strcmp(method, "POST") == 0 ? "POST"
							: "GET",
		.path = path,
		.rest = "",
		.body = "",
		.connection = c,
		.query = c->query,
	};
	const char *length = http_header(&c->request, "Content-Length");
	if (length &&
	    strtoull(length, NULL, 10) > (uint64_t)c->server->o.limits.body_bytes * PATIENCE) {
		http_answer_text(&c->answer, 413,
				 "the body of a request may have at most %u bytes\n",
				 c->server->o.limits.body_bytes);
		return send_answer(c);
	}
	http_admit(c, c->head ? "GET" : method, path);
	if (!c->route)
		c->state = READY;
	return MHD_YES;
}

static enum MHD_Result take_body(struct http_connection *c, const char *data, size_t bytes)
{
	size_t most = c->server->o.limits.body_bytes;
	if (c->state == READY || c->too_much_bytes || bytes > most - c->body_bytes) {
		c->too_much_bytes += bytes;
		if (c->state != READY) {
			http_answer_text(&c->answer, 413,
					 "the body of a request may have at most %zu bytes\n",
					 most);
			c->state = READY;
		}
		return c->too_much_bytes > most * PATIENCE ? MHD_NO : MHD_YES;
	}
	size_t needed = c->body_bytes + bytes + 1;
	if (needed > c->body_capacity && !http_find_room(c, 2 * needed)) { /* as it will grow */
		free(c->body);
		c->body = NULL;
		c->body_bytes = c->body_capacity = 0;
		answer_full(c);
		c->state = READY;
		return MHD_YES;
	}
	if (!array_reserve(c->body, c->body_bytes, c->body_capacity, bytes + 1))
		return MHD_NO;
	memcpy(c->body + c->body_bytes, data, bytes);
	c->body_bytes += bytes;
	c->body[c->body_bytes] = 0;
	return MHD_YES;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *mhd, const char *path,
				  const char *method, const char *version, const char *data,
				  size_t *bytes, void **own)
{
	struct http_connection *c = *own;
	(void)ctx;
	(void)mhd;
	(void)version;
	if (!c || !c->client) /* memory ran out */
		return MHD_NO;
	if (!c->begun)
		return begin(c, path, method);
	if (*bytes) {
		size_t n = *bytes;
		*bytes = 0;
		return take_body(c, data, n);
	}
	return c->state == READING ? start_route(c) : send_answer(c);
}

/* The first line of a request has arrived: makes the request and starts its deadline. */
static void *on_first_line(void *ctx, const char *uri, struct MHD_Connection *mhd)
{
	struct http_server *s = ctx;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	const char *query = strchr(uri, '?');
	struct http_connection *c = calloc(1, sizeof *c);
	if (!c || !(c->query = strdup(query ? query + 1 : ""))) {
		free(c);
		return NULL;
	}
	c->server = s;
	c->mhd = mhd;
	c->nul = strstr(uri, "%00");
	c->client = info ? info->socket_context : NULL;
	pthread_mutex_lock(&s->lock);
	s->active++;
	if (c->client && !c->client->refused) {
		c->client->asking = true;
		c->client->deadline_ns = after(
			monotonic_ns(), http_limit_ns(s->o.limits.request_ms, HTTP_REQUEST_MS));
	}
	pthread_mutex_unlock(&s->lock);
	return c;
}

static void on_completed(void *ctx, struct MHD_Connection *mhd, void **own,
			 enum MHD_RequestTerminationCode how)
{
	struct http_server *s = ctx;
	struct http_connection *c = *own;
	(void)mhd;
	(void)how;
	if (!c)
		return;
	*own = NULL;
	if (c->stream && c->drop)
		c->drop(c->kept);
	pthread_mutex_lock(&s->lock);
	if (c->client) {
		http_leave_room_locked(c->client);
		c->client->asking = false;
		c->client->answered = true;
		c->client->reading = !c->client->refused;
		c->client->since_ns = monotonic_ns();
		c->client->deadline_ns = after(c->client->since_ns,
					       http_limit_ns(s->o.limits.idle_ms, HTTP_IDLE_MS));
	}
	if (--s->active == 0)
		pthread_cond_signal(&s->calm);
	pthread_mutex_unlock(&s->lock);
	http_answer_fini(&c->answer);
	free(c->query);
	free(c->body);
	free(c);
}

/* ---- start and end */

static void init_threads(struct http_server *s)
{
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->work, NULL);
	pthread_cond_init(&s->tick, &monotonic);
	pthread_cond_init(&s->calm, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static void on_client(void *ctx, struct MHD_Connection *mhd, void **context,
		      enum MHD_ConnectionNotificationCode what)
{
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		http_client_begins(ctx, mhd, context);
	else
		http_client_ends(*context);
}

/* Begins to take connections; closes the descriptor if that fails. */
static bool open_door(struct http_door *d, int fd)
{
	struct http_server *s = d->server;
	const struct http_tls *tls = d->local ? NULL : s->o.tls;
	unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_SUSPEND_RESUME;
	struct MHD_OptionItem secure[5] = {{MHD_OPTION_END, 0, NULL}};
	if (tls) {
		flags |= MHD_USE_TLS;
		secure[0] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, tls->cert};
		secure[1] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key};
		secure[2] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0,
						    (void *)(uintptr_t)TLS_PRIORITIES};
		secure[3] = (struct MHD_OptionItem){tls->client_ca ? MHD_OPTION_HTTPS_MEM_TRUST
								   : MHD_OPTION_END,
						    0, tls->client_ca};
		secure[4] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
	}
	d->daemon = MHD_start_daemon(
		flags, 0, NULL, NULL, on_request, s, MHD_OPTION_ARRAY, secure,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)d->sockets,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)(http_limit_ns(s->o.limits.idle_ms, HTTP_IDLE_MS) / SECOND) + 1,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_NOTIFY_CONNECTION, on_client, d,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_URI_LOG_CALLBACK,
		on_first_line, s, MHD_OPTION_END);
	if (!d->daemon)
		close(fd);
	return d->daemon != NULL;
}

/* If this fails, http_server_stop ends the threads that were started. */
static int start_threads(struct http_server *s, const int fds[2], struct heft_error *err)
{
	sigset_t all, before;
	bool open = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (s->worker_count < HTTP_WORKERS &&
	       pthread_create(&s->workers[s->worker_count], NULL, http_worker, s) == 0)
		s->worker_count++;
	s->has_clock = pthread_create(&s->clock, NULL, http_clock, s) == 0;
	for (int i = 0; i < 2; i++) {
		if (fds[i] >= 0 && s->worker_count && s->has_clock && open)
			open = open_door(&s->doors[i], fds[i]);
		else if (fds[i] >= 0)
			close(fds[i]);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (s->worker_count && s->has_clock && open)
		return 0;
	return heft_fail(err, HEFT_EIO, "cannot start the threads of the HTTP server");
}

/* How many connections each door takes: the Unix socket has a part of its own, so that neither can take
 * all of them from the other. */
static void divide_connections(struct http_server *s)
{
	uint32_t most = s->o.limits.connections ? s->o.limits.connections : USUAL_CONNECTIONS;
	struct http_door *port = &s->doors[0], *local = &s->doors[1];
	port->connections = s->o.socket_only ? 0 : most;
	local->connections = !s->o.socket ? 0 : s->o.socket_only ? most : (most + 3) / 4;
	uint32_t wanted = 0;
	for (int i = 0; i < 2; i++) {
		struct http_door *d = &s->doors[i];
		d->server = s;
		d->local = d == local;
		d->sockets = d->connections ? d->connections + SPARE_CONNECTIONS : 0;
		wanted += d->sockets;
	}
	uint32_t sockets = http_raise_file_limit(wanted);
	if (sockets < wanted) {
		local->sockets = !local->sockets ? 0 : port->sockets ? sockets / 4 : sockets;
		port->sockets = sockets - local->sockets;
	}
	for (int i = 0; i < 2; i++) {
		struct http_door *d = &s->doors[i];
		if (sockets < wanted)
			d->connections = d->sockets - d->sockets / 4;
		d->share = d->connections / 4 > LEAST_SHARE ? d->connections / 4 : LEAST_SHARE;
		if (s->o.limits.per_address)
			d->share = s->o.limits.per_address;
	}
}

static int listen_all(struct http_server *s, int fds[2], struct heft_error *err)
{
	int rc = s->o.socket_only ? -1 : http_listen(&s->o, &s->own, &s->port, err);
	if (rc < 0 && !s->o.socket_only)
		return rc;
	fds[0] = rc;
	if (!s->o.socket)
		return 0;
	fds[1] = rc = http_listen_local(s->o.socket, &s->local, err);
	return rc < 0 ? rc : 0;
}

static int open_sockets(struct http_server *s, int fds[2], struct heft_error *err)
{
	int rc = listen_all(s, fds, err);
	if (rc == 0 && s->o.confine)
		rc = s->o.confine(err);
	for (int i = 0; rc < 0 && i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
	return rc;
}

int http_server_start(struct http_server **out, const struct http_options *o,
		      const struct http_route *routes, struct heft_error *err)
{
	struct http_server *s = calloc(1, sizeof *s);
	int fds[2] = {-1, -1};
	*out = NULL;
	if (!s)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory for the HTTP server");
	s->o = *o;
	s->routes = routes;
	if (!s->o.limits.body_bytes)
		s->o.limits.body_bytes = USUAL_BODY;
	init_threads(s);
	divide_connections(s);
	int rc = open_sockets(s, fds, err);
	s->own.further = o->names;
	if (rc == 0)
		rc = start_threads(s, fds, err);
	if (rc < 0) {
		http_server_stop(s);
		return rc;
	}
	*out = s;
	return 0;
}

uint16_t http_server_port(const struct http_server *s)
{
	return s->port;
}

/* Waits a moment for answers that are being sent. */
static void wait_for_answers(struct http_server *s)
{
	uint64_t until = after(monotonic_ns(), SECOND / 2);
	struct timespec t = {(time_t)(until / SECOND), (long)(until % SECOND)};
	pthread_mutex_lock(&s->lock);
	while (s->active && pthread_cond_timedwait(&s->calm, &s->lock, &t) == 0)
		;
	pthread_mutex_unlock(&s->lock);
}

void http_server_stop(struct http_server *s)
{
	if (!s)
		return;
	int fds[2];
	for (int i = 0; i < 2; i++)
		fds[i] = s->doors[i].daemon ? MHD_quiesce_daemon(s->doors[i].daemon) : -1;
	pthread_mutex_lock(&s->lock);
	s->stopping = true; /* from here on no request is suspended */
	pthread_cond_broadcast(&s->work);
	pthread_cond_broadcast(&s->tick);
	pthread_mutex_unlock(&s->lock);
	for (uint32_t i = 0; i < s->worker_count; i++)
		pthread_join(s->workers[i], NULL);
	if (s->has_clock)
		pthread_join(s->clock, NULL);
	http_give_up_waiting(s);
	if (s->doors[0].daemon || s->doors[1].daemon)
		wait_for_answers(s);
	for (int i = 0; i < 2; i++) {
		if (s->doors[i].daemon)
			MHD_stop_daemon(s->doors[i].daemon);
		if (fds[i] >= 0)
			close(fds[i]);
	}
	if (s->o.socket)
		http_remove_socket(s->o.socket);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->tick);
	pthread_cond_destroy(&s->calm);
	free(s);
}
