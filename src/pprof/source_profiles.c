/* Profiles that are made and kept in workers. A profile, and each form of it, is a question on one of the worker's
 * channels; nobody waits for the answer (SOURCE_LATER), and who asked may be gone when it comes. */
#include "hosted/monotonic.h"
#include "pprof/worker_channels.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000000ull
#define PROFILE_NS (60000 * MS) /* the worker itself gives up before */

/* A question on a channel for profiles */
struct asked {
	struct slow *slow; /* taken; NULL: none */
	uint64_t since_ns; /* when it was first tried; 0: not yet */
};

/* A profile in a worker. Its forms are asked for by several requests, which may come and go. */
enum { RENDERINGS = 8 };
struct remote {
	struct worker *worker; /* held; NULL: not found yet */
	uint64_t number;       /* there; 0: not made yet */
	struct asked taking;
	struct rendering {
		bool used, done;
		struct source_wish wish; /* pointers are compared, never followed */
		struct asked asked;
		char *bytes;
		size_t length;
		int code;
		char message[sizeof((struct heft_error *)0)->message];
	} renderings[RENDERINGS];
};

/* ---- questions */

static void drop_later(struct worker *w, uint64_t number)
{
	if (number)
		(void)vector_push(&w->drops,
				  number); /* else the worker drops its oldest some time */
}

/* A free channel for profiles; NULL: there is none now. Under the worker's lock. */
static struct slow *free_channel(struct worker *w)
{
	for (int i = 0; i < SOURCE_CHANNELS - 1; i++) {
		struct slow *c = &w->slow[i];
		if (!c->taken && c->call.busy && channel_go_on(&c->call) == 0)
			drop_later(w, c->call.answer.profile); /* nobody waits for it any more */
		if (!c->taken && !c->call.busy && c->call.fd >= 0)
			return c;
	}
	return NULL;
}

/* Under the worker's lock. */
static void send_drops(struct worker *w, struct slow *c)
{
	for (size_t i = 0; i < w->drops.count; i++) {
		const struct channel_question q = {.ask = CHANNEL_DROP,
						   .profile = w->drops.items[i]};
		channel_tell(&c->call, &q);
	}
	w->drops.count = 0;
}

/* Under the worker's lock. */
static void give_slow(struct asked *asked)
{
	if (asked->slow)
		asked->slow->taken = false;
	*asked = (struct asked){NULL, 0};
}

/* It is answered, or the channel is gone. Under the worker's lock. */
static void take_body(struct rendering *g)
{
	struct channel_call *c = &g->asked.slow->call;
	if (c->fd >= 0) {
		g->code = c->answer.code;
		memcpy(g->message, c->answer.message, sizeof g->message);
		g->bytes = g->code ? NULL : c->body;
		g->length = c->answer.bytes;
		c->body = g->code ? c->body : NULL;
	}
	give_slow(&g->asked);
}

static void drop_rendering(struct rendering *g)
{
	give_slow(&g->asked);
	free(g->bytes);
	*g = (struct rendering){.used = false};
}

static int silent(struct heft_error *err)
{
	return heft_fail(err, HEFT_EBUSY,
			 "the worker that reads the samples of this process does not answer\n"
			 "It is started again; the log of heft agent says why. Please try again.");
}

/* Asks, or goes on with what was asked. 0: asked->slow has the answer, and is to be given back. Under the worker's
 * lock. */
static int ask_slowly(struct worker *w, struct asked *asked, const struct channel_question *q,
		      const char *text, struct heft_error *err)
{
	int rc = 0;
	if (!asked->slow && (asked->slow = free_channel(w))) {
		send_drops(w, asked->slow);
		rc = channel_ask(&asked->slow->call, q, text);
		asked->slow->taken = true;
	}
	if (!asked->since_ns)
		asked->since_ns = monotonic_ns();
	if (rc == 0)
		rc = asked->slow ? channel_go_on(&asked->slow->call) : SOURCE_LATER;
	bool alive = false;
	for (int i = 0; i < SOURCE_CHANNELS - 1; i++)
		alive |= w->slow[i].call.fd >= 0;
	bool late = rc == SOURCE_LATER && monotonic_ns() - asked->since_ns > PROFILE_NS;
	if (rc == 0 || (rc == SOURCE_LATER && alive && !late))
		return rc;
	give_slow(asked);
	return rc == HEFT_ENOMEM ? heft_fail(err, rc, "out of memory") : silent(err);
}

int source_profile_take(void *ctx, uint64_t key, void **profile, struct heft_error *err)
{
	struct remote *r = *profile;
	const struct channel_question q = {.ask = CHANNEL_TAKE, .key = key};
	if (!r && !(r = *profile = calloc(1, sizeof *r)))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	int rc = r->worker ? 0 : source_worker_hold(ctx, key, &r->worker, err);
	if (rc)
		return rc;
	pthread_mutex_lock(&r->worker->lock);
	rc = ask_slowly(r->worker, &r->taking, &q, NULL, err);
	if (rc == 0) {
		const struct channel_answer *a = &r->taking.slow->call.answer;
		r->number = a->profile;
		rc = source_worker_error(a, err);
		give_slow(&r->taking);
	}
	pthread_mutex_unlock(&r->worker->lock);
	return rc;
}

/* ---- forms of a profile */

static struct channel_question question_of(const struct remote *r, const struct source_wish *wish)
{
	const struct remote *before = wish->before;
	size_t text = wish->addresses ? strlen(wish->addresses) : 0;
	return (struct channel_question){
		.ask = CHANNEL_RENDER,
		.form = wish->form,
		.profile = r->number,
		.before = before ? before->number : 0,
		.between_ns = wish->between_ns,
		.text_bytes = text < CHANNEL_TEXT_MOST ? (uint32_t)text : CHANNEL_TEXT_MOST};
}

/* The rendering of this wish, new if there is none. NULL: there are too many. */
static struct rendering *find_rendering(struct remote *r, const struct source_wish *wish)
{
	struct rendering *unused = NULL;
	for (int i = 0; i < RENDERINGS; i++) {
		struct rendering *g = &r->renderings[i];
		if (g->used && g->wish.form == wish->form && g->wish.before == wish->before &&
		    g->wish.between_ns == wish->between_ns && g->wish.addresses == wish->addresses)
			return g;
		if (!g->used && !unused)
			unused = g;
	}
	if (unused)
		*unused = (struct rendering){.used = true, .wish = *wish};
	return unused;
}

/* Those of others, too: who asked for one may have left, and its channel is needed. */
static void go_on_with_all(struct remote *r, const struct rendering *but)
{
	for (int i = 0; i < RENDERINGS; i++) {
		struct rendering *g = &r->renderings[i];
		if (g != but && g->asked.slow && !g->done &&
		    channel_go_on(&g->asked.slow->call) != SOURCE_LATER) {
			g->done = true;
			take_body(g);
		}
	}
}

int source_profile_render(void *ctx, void *profile, const struct source_wish *wish, char **bytes,
			  size_t *length, struct heft_error *err)
{
	struct remote *r = profile;
	const struct remote *before = wish->before;
	(void)ctx;
	if (before && before->worker != r->worker)
		return heft_fail(err, HEFT_EBUSY,
				 "the worker that had the first of two profiles is gone\n"
				 "The log of heft agent says why. Please try again.");
	const struct channel_question q = question_of(r, wish);
	pthread_mutex_lock(&r->worker->lock);
	struct rendering *g = find_rendering(r, wish);
	go_on_with_all(r, g);
	int rc = SOURCE_LATER;
	if (g && !g->done) {
		rc = ask_slowly(r->worker, &g->asked, &q, wish->addresses, err);
		if (rc == 0)
			take_body(g);
	} else if (g)
		rc = 0;
	if (rc == 0)
		rc = g->bytes  ? 0
		     : g->code ? heft_fail(err, g->code, "%s", g->message)
			       : silent(err);
	if (rc == 0) {
		*bytes = g->bytes;
		*length = g->length;
		g->bytes = NULL;
	}
	if (g && rc != SOURCE_LATER)
		drop_rendering(g);
	pthread_mutex_unlock(&r->worker->lock);
	return rc;
}

void source_profile_drop(void *ctx, void *profile)
{
	struct remote *r = profile;
	if (r && r->worker) {
		struct worker *w = r->worker;
		pthread_mutex_lock(&w->lock);
		drop_later(w, r->number);
		give_slow(&r->taking); /* its answer is thrown away when it comes */
		for (int i = 0; i < RENDERINGS; i++)
			drop_rendering(&r->renderings[i]);
		struct slow *c = w->drops.count ? free_channel(w) : NULL;
		if (c)
			send_drops(w, c);
		pthread_mutex_unlock(&w->lock);
		source_worker_let_go(ctx, w);
	}
	free(r);
}
