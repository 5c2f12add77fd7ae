/* The answering side of a channel. Profiles that were taken stay here, under a number, until they are dropped: a
 * difference over time needs two. Their number is bounded, and the oldest goes first.
 *
 * The asker is a process of heft without privileges, which reads the network: what it sends is checked as well. */
#include "pprof/source_server.h"

#include "hosted/monotonic.h"
#include "hosted/whole_io.h"
#include "pprof/source_channel.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROFILES_MOST = 64, ANSWERERS_MOST = 8 };

struct source_server {
	struct source source;
	pthread_mutex_t lock;
	struct kept {
		uint64_t number; /* 0: free */
		uint32_t users;
		bool dropped;
		void *profile;
	} kept[PROFILES_MOST];
	uint64_t last_number;
	uint64_t since_ns[ANSWERERS_MOST];
};

struct source_server *source_server_new(const struct source *source)
{
	struct source_server *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->source = *source;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

uint64_t source_server_since_ns(struct source_server *s)
{
	uint64_t oldest = 0;
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < ANSWERERS_MOST; i++)
		if (s->since_ns[i] && (!oldest || s->since_ns[i] < oldest))
			oldest = s->since_ns[i];
	pthread_mutex_unlock(&s->lock);
	return oldest;
}

/* Where this thread notes that it is at work; NULL: there are more threads than notes. */
static uint64_t *begin_work(struct source_server *s)
{
	uint64_t *at = NULL;
	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < ANSWERERS_MOST && !at; i++)
		if (!s->since_ns[i])
			at = &s->since_ns[i];
	if (at)
		*at = monotonic_ns();
	pthread_mutex_unlock(&s->lock);
	return at;
}

static void end_work(struct source_server *s, uint64_t *at)
{
	pthread_mutex_lock(&s->lock);
	if (at)
		*at = 0;
	pthread_mutex_unlock(&s->lock);
}

/* ---- profiles */

static struct kept *find(struct source_server *s, uint64_t number)
{
	for (int i = 0; i < PROFILES_MOST && number; i++)
		if (s->kept[i].number == number && !s->kept[i].dropped)
			return &s->kept[i];
	return NULL;
}

/* Takes the profile out if nobody uses it; to be dropped without the lock. */
static void *take_out(struct kept *k)
{
	void *profile = k->profile;
	if (k->users || !k->dropped)
		return NULL;
	memset(k, 0, sizeof *k);
	return profile;
}

static void *drop_locked(struct kept *k)
{
	if (!k)
		return NULL;
	k->dropped = true;
	return take_out(k);
}

/* 0: there is no place. */
static uint64_t keep(struct source_server *s, void *profile)
{
	void *old = NULL;
	uint64_t number = 0;
	pthread_mutex_lock(&s->lock);
	struct kept *at = NULL;
	for (int i = 0; i < PROFILES_MOST; i++) {
		struct kept *k = &s->kept[i];
		if (!k->number) {
			at = k;
			break;
		}
		if (!k->users && (!at || k->number < at->number))
			at = k;
	}
	if (at) {
		old = at->number ? drop_locked(at) : NULL;
		number = ++s->last_number;
		*at = (struct kept){.number = number, .profile = profile};
	}
	pthread_mutex_unlock(&s->lock);
	s->source.drop(s->source.ctx, old);
	return number;
}

static struct kept *hold(struct source_server *s, uint64_t number)
{
	pthread_mutex_lock(&s->lock);
	struct kept *k = find(s, number);
	if (k)
		k->users++;
	pthread_mutex_unlock(&s->lock);
	return k;
}

static void let_go(struct source_server *s, struct kept *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&s->lock);
	k->users--;
	void *profile = take_out(k);
	pthread_mutex_unlock(&s->lock);
	s->source.drop(s->source.ctx, profile);
}

static void drop(struct source_server *s, uint64_t number)
{
	pthread_mutex_lock(&s->lock);
	void *profile = drop_locked(find(s, number));
	pthread_mutex_unlock(&s->lock);
	s->source.drop(s->source.ctx, profile);
}

/* ---- questions */

struct result {
	uint64_t profile;
	char *bytes;
	size_t length;
};

static int describe(struct source_server *s, const struct channel_question *q, struct result *r,
		    struct heft_error *err)
{
	struct source_process *p = calloc(1, sizeof *p);
	if (!p)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	r->bytes = (char *)p;
	r->length = sizeof *p;
	return s->source.describe(s->source.ctx, q->key, p, err);
}

static int control(struct source_server *s, const struct channel_question *q,
		   struct heft_error *err)
{
	const struct source_control c = {.set_on = q->set_on != 0,
					 .on = q->on != 0,
					 .automatic = q->automatic != 0,
					 .set_rate = q->set_rate != 0,
					 .rate_bytes = q->rate_bytes};
	return s->source.control(s->source.ctx, q->key, &c, err);
}

static int take(struct source_server *s, const struct channel_question *q, struct result *r,
		struct heft_error *err)
{
	void *profile = NULL;
	int rc = s->source.take(s->source.ctx, q->key, &profile, err);
	if (rc) {
		s->source.drop(s->source.ctx, profile);
		return rc;
	}
	r->profile = keep(s, profile);
	if (r->profile)
		return 0;
	s->source.drop(s->source.ctx, profile);
	return heft_fail(err, HEFT_EBUSY, "too many profiles at once; please try again later");
}

static int render(struct source_server *s, const struct channel_question *q, const char *text,
		  struct result *r, struct heft_error *err)
{
	struct kept *k = hold(s, q->profile), *before = hold(s, q->before);
	const struct source_wish wish = {.form = (enum source_form)q->form,
					 .before = before ? before->profile : NULL,
					 .between_ns = q->between_ns,
					 .addresses = text};
	int rc;
	if (!k || (q->before && !before) || q->form >= SOURCE_FORMS_ALL)
		rc = heft_fail(err, HEFT_EBUSY,
			       "this profile is gone, because many others were asked for; please "
			       "try again");
	else
		rc = s->source.render(s->source.ctx, k->profile, &wish, &r->bytes, &r->length, err);
	let_go(s, k);
	let_go(s, before);
	if (rc == 0 && r->length > CHANNEL_BYTES_MOST)
		rc = heft_fail(err, HEFT_EREFUSED,
			       "the profile has %zu MiB, more than the %d MiB that are served",
			       r->length >> 20, CHANNEL_BYTES_MOST >> 20);
	return rc;
}

static int answer(struct source_server *s, const struct channel_question *q, const char *text,
		  struct result *r, struct heft_error *err)
{
	switch (q->ask) {
	case CHANNEL_DESCRIBE: return describe(s, q, r, err);
	case CHANNEL_CONTROL: return control(s, q, err);
	case CHANNEL_TAKE: return take(s, q, r, err);
	case CHANNEL_RENDER: return render(s, q, text, r, err);
	default: return heft_fail(err, HEFT_EUSAGE, "no such question");
	}
}

/* ---- the socket */

static bool answer_one(struct source_server *s, int fd, const struct channel_question *q,
		       const char *text)
{
	struct heft_error err = {0};
	struct result r = {0};
	struct channel_answer a = {0};
	if (q->ask == CHANNEL_DROP) {
		drop(s, q->profile);
		return true;
	}
	uint64_t *working = begin_work(s);
	a.code = answer(s, q, text, &r, &err);
	end_work(s, working);
	a.profile = r.profile;
	a.bytes = a.code ? 0 : r.length;
	memcpy(a.message, err.message, sizeof a.message);
	bool sent = write_whole(fd, &a, sizeof a) && write_whole(fd, r.bytes, a.bytes);
	free(r.bytes);
	return sent;
}

void source_server_answer(struct source_server *s, int fd)
{
	struct channel_question q;
	bool alive = true;
	while (alive && read_whole(fd, &q, sizeof q) == sizeof q &&
	       q.text_bytes <= CHANNEL_TEXT_MOST) {
		char *text = calloc(1, q.text_bytes + 1u);
		alive = text && read_whole(fd, text, q.text_bytes) == q.text_bytes &&
			answer_one(s, fd, &q, text);
		free(text);
	}
	close(fd);
}
