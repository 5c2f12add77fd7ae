/* The asking side of all workers. A worker reads what hostile programs left, so it may hang, die or lie at any time:
 *
 * - nobody waits for a profile: the question is on its way while other requests are served (SOURCE_LATER);
 * - a description is waited for, but not long; a worker that did not answer the last one is not waited for at all
 *   until it has;
 * - what an answer says about who the process is (number, pid, user) is replaced by what the supervisor said, and
 *   texts are ended.
 *
 * `lock` guards the tables, a worker's `lock` its channels. The first is never taken while the second is held. */
#include "pprof/source_workers.h"

#include "hosted/monotonic.h"
#include "hosted/vector.h"
#include "pprof/source_channel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define DESCRIBE_NS (2000 * MS) /* then it is silent */
#define CROWD_NS (100 * MS)     /* others do not wait for somebody who has waited so long */
#define PROFILE_NS (60000 * MS) /* the worker itself gives up before */

struct worker {
	uint32_t number, users;
	bool ended;
	pthread_mutex_t lock;
	struct channel_call quick;
	bool quick_taken;        /* a thread waits for its answer, */
	uint64_t quick_since_ns; /* since then */
	struct slow {
		struct channel_call call;
		bool taken;
	} slow[SOURCE_CHANNELS - 1];
	VECTOR(uint64_t) drops; /* profiles to be dropped as soon as a channel is free */
};

struct known {
	struct source_entry entry;
	uint32_t worker;
};

struct source_workers {
	pthread_mutex_t lock;
	VECTOR(struct worker *) workers;
	VECTOR(struct known) known; /* their keys rise */
	struct source_state state;
};

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

struct source_workers *source_workers_new(void)
{
	struct source_workers *s = calloc(1, sizeof *s);
	if (s)
		pthread_mutex_init(&s->lock, NULL);
	return s;
}

static void free_worker(struct worker *w)
{
	channel_close(&w->quick);
	for (int i = 0; i < SOURCE_CHANNELS - 1; i++)
		channel_close(&w->slow[i].call);
	vector_free(&w->drops);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void source_workers_free(struct source_workers *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->workers.count; i++)
		free_worker(s->workers.items[i]);
	vector_free(&s->workers);
	vector_free(&s->known);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

/* ---- the tables */

void source_workers_begin(struct source_workers *s, uint32_t number, const int fds[SOURCE_CHANNELS])
{
	struct worker *w = calloc(1, sizeof *w);
	if (w) {
		w->number = number;
		pthread_mutex_init(&w->lock, NULL);
		w->quick.fd = fds[0];
		for (int i = 1; i < SOURCE_CHANNELS; i++)
			w->slow[i - 1].call.fd = fds[i];
	}
	pthread_mutex_lock(&s->lock);
	bool added = w && vector_push(&s->workers, w);
	pthread_mutex_unlock(&s->lock);
	if (added)
		return;
	for (int i = 0; i < SOURCE_CHANNELS && !w; i++)
		close(fds[i]);
	if (w)
		free_worker(w);
}

/* Takes it out of the table if it has ended and nobody uses it; to be freed without the lock. */
static struct worker *take_out_locked(struct source_workers *s, struct worker *w)
{
	if (w->users || !w->ended)
		return NULL;
	for (size_t i = 0; i < s->workers.count; i++)
		if (s->workers.items[i] == w) {
			s->workers.items[i] = s->workers.items[--s->workers.count];
			return w;
		}
	return NULL;
}

static struct worker *find_worker_locked(struct source_workers *s, uint32_t number)
{
	for (size_t i = 0; i < s->workers.count; i++)
		if (s->workers.items[i]->number == number && !s->workers.items[i]->ended)
			return s->workers.items[i];
	return NULL;
}

void source_workers_end(struct source_workers *s, uint32_t number)
{
	struct worker *unused = NULL;
	pthread_mutex_lock(&s->lock);
	struct worker *w = find_worker_locked(s, number);
	if (w) {
		w->ended = true;
		unused = take_out_locked(s, w);
	}
	pthread_mutex_unlock(&s->lock);
	if (unused)
		free_worker(unused);
}

static void let_go(struct source_workers *s, struct worker *w)
{
	pthread_mutex_lock(&s->lock);
	w->users--;
	struct worker *unused = take_out_locked(s, w);
	pthread_mutex_unlock(&s->lock);
	if (unused)
		free_worker(unused);
}

/* The first entry whose key is not below this one. */
static size_t place_of(const struct source_workers *s, uint64_t key)
{
	size_t low = 0, high = s->known.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (s->known.items[middle].entry.key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct known *find_known(struct source_workers *s, uint64_t key)
{
	size_t at = place_of(s, key);
	bool found = at < s->known.count && s->known.items[at].entry.key == key;
	return found ? &s->known.items[at] : NULL;
}

void source_workers_set(struct source_workers *s, const struct source_entry *e, uint32_t worker)
{
	const struct known now = {*e, worker};
	pthread_mutex_lock(&s->lock);
	struct known *k = find_known(s, e->key);
	size_t at = place_of(s, e->key);
	if (k) {
		*k = now;
	} else if (vector_reserve(&s->known, 1)) {
		struct known *to = &s->known.items[at];
		memmove(to + 1, to, (s->known.count - at) * sizeof *to);
		*to = now;
		s->known.count++;
	}
	pthread_mutex_unlock(&s->lock);
}

void source_workers_forget(struct source_workers *s, uint64_t key)
{
	pthread_mutex_lock(&s->lock);
	struct known *k = find_known(s, key);
	if (k) {
		size_t behind = (size_t)(s->known.items + s->known.count - (k + 1));
		memmove(k, k + 1, behind * sizeof *k);
		s->known.count--;
	}
	pthread_mutex_unlock(&s->lock);
}

void source_workers_state(struct source_workers *s, const struct source_state *state)
{
	pthread_mutex_lock(&s->lock);
	s->state = *state;
	pthread_mutex_unlock(&s->lock);
}

static void state(void *ctx, struct source_state *out)
{
	struct source_workers *s = ctx;
	pthread_mutex_lock(&s->lock);
	*out = s->state;
	pthread_mutex_unlock(&s->lock);
}

static int list(void *ctx, struct source_entry **out, uint32_t *count, struct heft_error *err)
{
	struct source_workers *s = ctx;
	pthread_mutex_lock(&s->lock);
	*count = (uint32_t)s->known.count;
	*out = malloc((s->known.count + 1) * sizeof **out);
	for (uint32_t i = 0; *out && i < *count; i++)
		(*out)[i] = s->known.items[i].entry;
	pthread_mutex_unlock(&s->lock);
	return *out ? 0 : heft_fail(err, HEFT_ENOMEM, "out of memory");
}

/* ---- asking */

static int no_answer(const struct source_entry *e, struct heft_error *err)
{
	return heft_fail(err, HEFT_EBUSY,
			 "the worker that reads the samples of process %d does not answer\n"
			 "It is started again; the log of heft agent says why. Please try again.",
			 e->pid);
}

/* The worker of a process, held. HEFT_ENOTFOUND: no such process. HEFT_EBUSY: it has no worker now. */
static int hold_worker(struct source_workers *s, uint64_t key, struct known *known,
		       struct worker **out, struct heft_error *err)
{
	pthread_mutex_lock(&s->lock);
	const struct known *k = find_known(s, key);
	*out = NULL;
	if (k) {
		*known = *k;
		*out = find_worker_locked(s, k->worker);
	}
	if (*out)
		(*out)->users++;
	pthread_mutex_unlock(&s->lock);
	if (!k)
		return heft_fail(err, HEFT_ENOTFOUND, "this process is gone");
	return *out ? 0 : no_answer(&known->entry, err);
}

/* The worker's error, with its own words. */
static int take_error(const struct channel_answer *a, struct heft_error *err)
{
	return a->code ? heft_fail(err, a->code, "%s", a->message) : 0;
}

/* Whether the quick channel is ours now. It is not if its last answer is still to come, or somebody has waited for it
 * for a while already. */
static bool take_quick(struct worker *w)
{
	for (;;) {
		pthread_mutex_lock(&w->lock);
		uint64_t now = monotonic_ns();
		bool crowd = w->quick_taken && now - w->quick_since_ns > CROWD_NS;
		bool silent = !w->quick_taken && w->quick.busy &&
			      channel_go_on(&w->quick) == SOURCE_LATER;
		bool ours = !w->quick_taken && !silent && w->quick.fd >= 0;
		bool over = crowd || silent || ours || w->quick.fd < 0;
		if (ours) {
			w->quick_taken = true;
			w->quick_since_ns = now;
		}
		pthread_mutex_unlock(&w->lock);
		if (over)
			return ours;
		usleep(200);
	}
}

static void give_quick(struct worker *w)
{
	pthread_mutex_lock(&w->lock);
	w->quick_taken = false;
	pthread_mutex_unlock(&w->lock);
}

/* A question that is answered at once, with so many bytes. HEFT_EBUSY: it was not. */
static int ask_about(struct source_workers *s, const struct channel_question *q,
		     struct known *known, void *answer, size_t bytes, struct heft_error *err)
{
	struct worker *w;
	int rc = hold_worker(s, q->key, known, &w, err);
	if (rc)
		return rc;
	bool answered = false;
	if (take_quick(w)) {
		answered = !channel_ask(&w->quick, q, NULL) &&
			   !channel_wait(&w->quick, DESCRIBE_NS);
		const struct channel_answer *a = &w->quick.answer;
		rc = answered ? take_error(a, err) : 0;
		answered &= rc || a->bytes == bytes;
		if (answered && !rc && bytes)
			memcpy(answer, w->quick.body, bytes);
		give_quick(w);
	}
	let_go(s, w);
	return answered ? rc : no_answer(&known->entry, err);
}

/* A bool in foreign memory may have any value. */
static bool truth(const bool *b)
{
	unsigned char byte;
	memcpy(&byte, b, 1);
	return byte != 0;
}

static int describe(void *ctx, uint64_t key, struct source_process *p, struct heft_error *err)
{
	const struct channel_question q = {.ask = CHANNEL_DESCRIBE, .key = key};
	struct known known;
	int rc = ask_about(ctx, &q, &known, p, sizeof *p, err);
	if (rc)
		return rc;
	p->key = key;
	p->pid = known.entry.pid;
	bool *flags[] = {&p->running, &p->sampled, &p->on, &p->automatic, &p->partly, &p->blind};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		*flags[i] = truth(flags[i]);
	p->exe[sizeof p->exe - 1] = 0;
	memset(p->command + sizeof p->command - 2, 0, 2);
	p->ended[sizeof p->ended - 1] = 0;
	p->unseen[sizeof p->unseen - 1] = 0;
	return 0;
}

static int control(void *ctx, uint64_t key, const struct source_control *c, struct heft_error *err)
{
	const struct channel_question q = {.ask = CHANNEL_CONTROL,
					   .key = key,
					   .set_on = c->set_on,
					   .on = c->on,
					   .set_rate = c->set_rate,
					   .rate_bytes = c->rate_bytes};
	struct known known;
	return ask_about(ctx, &q, &known, NULL, 0, err);
}

/* ---- profiles */

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

static int take(void *ctx, uint64_t key, void **profile, struct heft_error *err)
{
	struct remote *r = *profile;
	struct known known;
	const struct channel_question q = {.ask = CHANNEL_TAKE, .key = key};
	if (!r && !(r = *profile = calloc(1, sizeof *r)))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	int rc = r->worker ? 0 : hold_worker(ctx, key, &known, &r->worker, err);
	if (rc)
		return rc;
	pthread_mutex_lock(&r->worker->lock);
	rc = ask_slowly(r->worker, &r->taking, &q, NULL, err);
	if (rc == 0) {
		const struct channel_answer *a = &r->taking.slow->call.answer;
		r->number = a->profile;
		rc = take_error(a, err);
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

static int render(void *ctx, void *profile, const struct source_wish *wish, char **bytes,
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

static void drop(void *ctx, void *profile)
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
		let_go(ctx, w);
	}
	free(r);
}

struct source source_workers_source(struct source_workers *s)
{
	return (struct source){.ctx = s,
			       .list = list,
			       .describe = describe,
			       .take = take,
			       .render = render,
			       .drop = drop,
			       .control = control,
			       .state = state};
}
