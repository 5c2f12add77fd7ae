/* Decides whether a request is allowed: by its form and size, its path and method, the names it uses for
 * this server, and its token. A refusal says the reason and what to do, but never repeats what the client
 * sent. The network's thread calls this when the headers of a request have arrived. */
#include "http/http_state.h"

#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool path_matches(const struct http_route *r, const char *path, const char **rest)
{
	size_t length = strlen(r->path);
	*rest = "";
	if (length && r->path[length - 1] == '*') {
		if (strncmp(r->path, path, length - 1) != 0)
			return false;
		*rest = path + length - 1;
		return true;
	}
	return strcmp(r->path, path) == 0;
}

static void refuse_path(struct http_connection *c)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	if (!out)
		return;
	fputs("404: nothing is served under this path. Paths of this server:\n", out);
	for (const struct http_route *r = c->server->routes; r->path; r++) {
		int length = (int)strcspn(r->path, "*");
		if (strcmp(r->method, "GET") == 0)
			fprintf(out, "  %.*s\n", length, r->path);
	}
	if (fclose(out) == 0)
		http_answer_body(&c->answer, 404, "text/plain; charset=utf-8", text, bytes);
	else
		free(text);
}

static void find_route(struct http_connection *c, const char *method, const char *path)
{
	char allow[32] = "";
	for (const struct http_route *r = c->server->routes; r->path; r++) {
		const char *rest;
		if (!path_matches(r, path, &rest))
			continue;
		if (strcmp(r->method, method) == 0) {
			c->route = r;
			c->request.rest = rest;
			return;
		}
		if (!strstr(allow, r->method)) {
			strcat(allow, *allow ? ", " : "");
			strcat(allow, strcmp(r->method, "GET") == 0 ? "GET, HEAD" : "POST");
		}
	}
	if (!*allow) {
		refuse_path(c);
		return;
	}
	http_answer_text(&c->answer, 405, "this path takes %s only\n", allow);
	http_answer_header(&c->answer, "Allow", allow);
}

enum credentials { ABSENT, WRONG, RIGHT };

/* RIGHT: fills in whose token it is. */
static enum credentials credentials_of(const struct http_connection *c, struct http_viewer *viewer)
{
	const struct http_tokens *tokens = c->server->o.tokens;
	const char *header = http_header(&c->request, "Authorization");
	const char *query = http_query(&c->request, "token");
	char password[512];
	if (!tokens)
		return ABSENT;
	bool right = query && http_tokens_find(tokens, query, viewer);
	if (right)
		return RIGHT;
	if (header && strncasecmp(header, "Bearer ", 7) == 0)
		right = http_tokens_find(tokens, header + 7, viewer);
	else if (header && http_basic_password(header, password, sizeof password))
		right = http_tokens_find(tokens, password, viewer);
	return right ? RIGHT : header || query ? WRONG : ABSENT;
}

/* Checks Host and Origin. `identified`: the sender is known, so it is no page that only pretends to be ours. */
static bool names_are_own(struct http_connection *c, bool identified)
{
	struct http_server *s = c->server;
	const char *host = http_header(&c->request, "Host");
	const char *origin = http_header(&c->request, "Origin");
	const char *scheme = s->o.tls ? "https" : "http";
	if (host && !identified && !http_host_is_own(&s->own, host)) {
		http_answer_text(&c->answer, 403,
				 "this server does not answer to the name in the Host header\nask "
				 "for %s://%s:%u/ or %s://localhost:%u/, or give the server this "
				 "name: --host NAME\n",
				 scheme, s->own.any ? "127.0.0.1" : s->own.address, s->port, scheme,
				 s->port);
		return false;
	}
	/* Browsers send passwords also with requests of other pages. */
	if (origin && !http_origin_is_own(&s->own, origin, host)) {
		http_answer_text(&c->answer, 403,
				 "requests from other servers' pages are refused\n");
		return false;
	}
	return true;
}

static void refuse_unknown(struct http_connection *c)
{
	const struct http_options *o = &c->server->o;
	if (!o->tokens)
		http_answer_text(&c->answer, 403,
				 "a client certificate is needed that an authority of this server "
				 "(--tls-client-ca) has signed\n");
	else
		http_answer_text(
			&c->answer, 401,
			"a token is needed: the header \"Authorization: Bearer TOKEN\", "
			"?token=TOKEN,\nor http%s://x:TOKEN@... where programs take passwords%s\n",
			o->tls ? "s" : "",
			o->tls && o->tls->client_ca ? "; or a client certificate" : "");
}

/* Checks who asks, and fills in whose things it may see. True: the request is allowed. A token says more than
 * the socket or the certificate that it comes with. */
static bool may_ask(struct http_connection *c)
{
	struct http_server *s = c->server;
	struct http_viewer *viewer = &c->request.viewer;
	const struct http_viewer *peer = &c->client->peer;
	bool local = c->client->door->local, trusted = http_tls_is_trusted(c);
	enum credentials given = credentials_of(c, viewer);
	if (!names_are_own(c, given == RIGHT || local || trusted))
		return false;
	if (given == RIGHT || c->route->open)
		return true;
	if (given == WRONG) {
		http_answer_text(&c->answer, 403, "this is not the token of this server\n");
		return false;
	}
	if (local) {
		*viewer = *peer;
		if (!peer->known)
			http_answer_text(&c->answer, 403,
					 "this server does not know the user who asks\n");
		return peer->known;
	}
	bool anybody = !s->o.tokens && !(s->o.tls && s->o.tls->client_ca);
	if (trusted || anybody) {
		*viewer = (struct http_viewer){.sees = HTTP_SEES_ALL, .known = trusted};
		return true;
	}
	refuse_unknown(c);
	return false;
}

/* Checks what the bytes of the connection alone show: sizes, number of connections, form. */
static bool well_formed(struct http_connection *c)
{
	struct http_server *s = c->server;
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(
		c->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
	if (info && info->header_size > HTTP_HEADERS) {
		http_answer_text(&c->answer, 431,
				 "the headers of a request may have at most %d bytes\n",
				 HTTP_HEADERS);
		return false;
	}
	if (c->nul) { /* a NUL would end the text too early */
		http_answer_text(&c->answer, 400, "an address may not contain a NUL byte\n");
		return false;
	}
	pthread_mutex_lock(&s->lock);
	bool refused = c->client->refused;
	pthread_mutex_unlock(&s->lock);
	if (refused) {
		http_answer_text(&c->answer, 503, "too many connections; please try again later\n");
		http_answer_header(&c->answer, "Retry-After", "5");
	}
	return !refused;
}

void http_admit(struct http_connection *c, const char *method, const char *path)
{
	if (!well_formed(c))
		return;
	c->request.sender = http_sender(c->client);
	find_route(c, method, path);
	if (c->route && !may_ask(c))
		c->route = NULL;
}
