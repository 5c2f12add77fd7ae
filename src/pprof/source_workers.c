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
#include "pprof/worker_channels.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MS 1000000ull
#define DESCRIBE_NS (2000 * MS) /* then it is silent */
#define CROWD_NS (100 * MS)     /* others do not wait for somebody who has waited so long */

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

void source_worker_let_go(struct source_workers *s, struct worker *w)
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

int source_worker_hold(struct source_workers *s, uint64_t key, struct worker **out,
		       struct heft_error *err)
{
	struct known known;
	return hold_worker(s, key, &known, out, err);
}

int source_worker_error(const struct channel_answer *a, struct heft_error *err)
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
		rc = answered ? source_worker_error(a, err) : 0;
		answered &= rc || a->bytes == bytes;
		if (answered && !rc && bytes)
			memcpy(answer, w->quick.body, bytes);
		give_quick(w);
	}
	source_worker_let_go(s, w);
	return answered ? rc : no_answer(&known->entry, err);
}

/* A bool in foreign memory may have any value. */
static bool truth(const bool *b)
{
	unsigned char byte;
	memcpy(&byte, b, 1);
	return byte != 0;
}

/* One that no whole number of 64 bits could be, or that is no number, is not known. */
static double amount(double given)
{
	return given >= 0 && given < 0x1p63 ? given : -1;
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
	p->uid = known.entry.uid;
	bool *flags[] = {&p->running, &p->sampled, &p->on, &p->automatic, &p->partly, &p->blind};
	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		*flags[i] = truth(flags[i]);
	double *amounts[] = {&p->live_bytes,        &p->live_objects, &p->allocated_bytes,
			     &p->allocated_objects, &p->peak_bytes,   &p->cost_share};
	for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
		*amounts[i] = amount(*amounts[i]);
	p->exe[sizeof p->exe - 1] = 0;
	p->command[sizeof p->command - 1] = 0;
	if (p->command_bytes > sizeof p->command)
		p->command_bytes = sizeof p->command;
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
					   .automatic = c->automatic,
					   .set_rate = c->set_rate,
					   .rate_bytes = c->rate_bytes};
	struct known known;
	return ask_about(ctx, &q, &known, NULL, 0, err);
}

struct source source_workers_source(struct source_workers *s)
{
	return (struct source){.ctx = s,
			       .list = list,
			       .describe = describe,
			       .take = source_profile_take,
			       .render = source_profile_render,
			       .drop = source_profile_drop,
			       .control = control,
			       .state = state};
}
