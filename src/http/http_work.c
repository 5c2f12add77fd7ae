/* The threads that make answers: workers call routes, and a clock continues requests that wait and ends
 * clients that take too long. http.c says who owns a request at which time. Every request in this file is
 * suspended, or the network's thread itself calls.
 *
 * Invariant: no route, and no function of libmicrohttpd, is called with `lock` held. */
#include "http/http_state.h"

#include <microhttpd.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum {
	CROWDED_MS =
		5000, /* a client without a request may stay so long when connections run out */
	TICK_MS = 10, /* the clock looks at waiting requests at most so often */
};

void http_wait_locked(struct http_server *s, struct http_connection *c)
{
	c->state = WAITING;
	c->next = s->waiting;
	s->waiting = c;
	pthread_cond_signal(&s->tick);
}

bool http_after_route(struct http_connection *c)
{
	struct http_server *s = c->server;
	struct http_answer *a = &c->answer;
	if (a->kind == HTTP_EVENTS) {
		if (!c->stream)
			http_answer_header(a, "Content-Type", "text/event-stream; charset=utf-8");
		http_answer_header(a, "Cache-Control", "no-store");
		c->stream = true;
		c->kept = a->kept;
		c->drop = a->drop;
	}
	if (c->stream) {
		c->done = a->kind != HTTP_EVENTS && a->kind != HTTP_NO_ANSWER;
		c->sent = 0;
		c->due_ns = after(monotonic_ns(), a->wait_ns);
		if (!a->event_bytes && !c->done) { /* sending shows whether the client is gone */
			free(a->events);
			a->events = strdup(":\n\n");
			a->event_bytes = a->events ? 3 : 0;
		}
	}
	pthread_mutex_lock(&s->lock);
	bool later = a->kind == HTTP_LATER && !c->stream;
	if (later && !s->stopping) {
		c->due_ns = after(monotonic_ns(), a->wait_ns);
		http_wait_locked(s, c);
		pthread_mutex_unlock(&s->lock);
		return false;
	}
	c->state = READY;
	c->client->deadline_ns = after(monotonic_ns(),
				       http_limit_ns(s->o.limits.answer_ms, HTTP_ANSWER_MS));
	pthread_mutex_unlock(&s->lock);
	if (later) {
		if (a->drop)
			a->drop(a->kept);
		http_answer_text(a, 503, "the server is shutting down\n");
	}
	return true;
}

void http_call_route(struct http_connection *c)
{
	struct http_answer *a = &c->answer;
	uint64_t wait_ns = a->wait_ns;
	c->request.kept = c->stream ? c->kept : a->kept;
	http_answer_fini(a);
	if (c->stream)
		a->wait_ns = wait_ns;
	c->route->answer(c->route->ctx, &c->request, a);
}

/* Gives a request back to the network without the route's answer. */
static void give_up(struct http_connection *c, enum state state)
{
	if (!c->stream) {
		if (c->answer.drop)
			c->answer.drop(c->answer.kept);
		http_answer_fini(&c->answer);
		http_answer_text(&c->answer, 503, "the server is shutting down\n");
	}
	c->state = state;
	MHD_resume_connection(c->mhd);
}

static struct http_connection *next_job(struct http_server *s, bool *stopping)
{
	pthread_mutex_lock(&s->lock);
	while (!s->queue && !s->stopping)
		pthread_cond_wait(&s->work, &s->lock);
	*stopping = s->stopping;
	struct http_connection *c = s->queue;
	if (c) {
		s->queue = c->next;
		s->turn = c->turn;
	}
	pthread_mutex_unlock(&s->lock);
	return c;
}

void *http_worker(void *ctx)
{
	struct http_server *s = ctx;
	bool stopping;
	for (struct http_connection *c; (c = next_job(s, &stopping));) {
		struct MHD_Connection *mhd = c->mhd;
		if (stopping) {
			give_up(c, READY);
			continue;
		}
		http_call_route(c);
		if (http_after_route(c))
			MHD_resume_connection(mhd);
	}
	return NULL;
}

/* Everybody has the same turns: the first request of each address comes before the second ones. Else a thousand requests
 * of one client would come before the next client's. */
void http_enqueue_locked(struct http_server *s, struct http_connection *c)
{
	struct http_connection **at = &s->queue;
	c->state = WORKING;
	c->turn = s->turn;
	for (const struct http_connection *o = s->queue; o; o = o->next)
		if (o->turn >= c->turn && http_same_address(o->client, c->client))
			c->turn = o->turn + 1;
	while (*at && (*at)->turn <= c->turn)
		at = &(*at)->next;
	c->next = *at;
	*at = c;
	pthread_cond_signal(&s->work);
}

/* ---- the clock */

static bool has_hung_up(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};
	return poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Gives requests that are due to the workers. Returns a list of those whose client has gone, or of all if
 * the server is stopping. *next_ns is when to look again. */
static struct http_connection *take_waiting(struct http_server *s, uint64_t now, bool look,
					    uint64_t *next_ns)
{
	struct http_connection *gone = NULL;
	for (struct http_connection **at = &s->waiting, *c; (c = *at);) {
		bool left = s->stopping || (look && has_hung_up(c->client->fd));
		if (!left && c->due_ns > now) {
			*next_ns = c->due_ns < *next_ns ? c->due_ns : *next_ns;
			at = &c->next;
			continue;
		}
		*at = c->next;
		if (left) {
			c->next = gone;
			gone = c;
		} else {
			http_enqueue_locked(s, c);
		}
	}
	return gone;
}

static void give_up_all(struct http_connection *c, enum state state)
{
	for (struct http_connection *next; c; c = next) {
		next = c->next;
		give_up(c, state);
	}
}

void http_give_up_waiting(struct http_server *s)
{
	uint64_t never = NEVER;
	pthread_mutex_lock(&s->lock);
	struct http_connection *left = take_waiting(s, 0, false, &never);
	pthread_mutex_unlock(&s->lock);
	give_up_all(left, READY);
}

/* Nothing is left to read. */
static bool is_drained(int fd)
{
	int bytes = 0;
	return ioctl(fd, FIONREAD, &bytes) < 0 || bytes == 0;
}

static void end_late_clients(struct http_server *s, uint64_t now)
{
	for (struct client *k = s->clients; k; k = k->next) {
		uint32_t most = k->door->connections;
		bool crowded = k->door->clients > most - most / 4;
		bool late = k->deadline_ns <= now;
		if (crowded && !k->asking && k->deadline_ns != NEVER)
			late = late || after(k->since_ns, http_limit_ns(0, CROWDED_MS)) <= now;
		if (late && k->refused && k->reading) {
			http_turn_away_locked(k);
			continue;
		}
		if (!late && !(k->reading && has_hung_up(k->fd) && is_drained(k->fd)))
			continue;
		shutdown(k->fd, SHUT_RDWR);
		k->deadline_ns = NEVER;
	}
}

static void wait_until(struct http_server *s, uint64_t ns)
{
	struct timespec t = {(time_t)(ns / SECOND), (long)(ns % SECOND)};
	pthread_cond_timedwait(&s->tick, &s->lock, &t);
}

void *http_clock(void *ctx)
{
	struct http_server *s = ctx;
	uint64_t looked_ns = 0;
	uint64_t look_ns = http_limit_ns(s->o.limits.request_ms, HTTP_REQUEST_MS) / 8;
	if (look_ns > SECOND)
		look_ns = SECOND;
	pthread_mutex_lock(&s->lock);
	while (!s->stopping) {
		uint64_t now = monotonic_ns(), next_ns;
		bool look = now >= after(looked_ns, look_ns);
		if (look) {
			looked_ns = now;
			end_late_clients(s, now);
		}
		next_ns = after(looked_ns, look_ns);
		struct http_connection *gone = take_waiting(s, now, look, &next_ns);
		if (gone) {
			pthread_mutex_unlock(&s->lock);
			give_up_all(gone, GONE);
			pthread_mutex_lock(&s->lock);
			continue;
		}
		uint64_t soonest = after(now, TICK_MS * 1000000ull);
		if (next_ns < soonest && s->waiting && s->waiting->next)
			next_ns = soonest; /* looks at several waiting requests together */
		wait_until(s, next_ns);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}
