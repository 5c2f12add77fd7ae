/* One snapshot for many. Whoever asks while one is being made wants to see what happened up to now,
 * so that one is too old for them: they all wait, and share the next one, which begins when the first
 * has ended. A failure is shared the same way.
 *
 * Nobody blocks: who has to wait is told to come again (SNAPSHOT_LATER), since threads are few and
 * symbolising a large program for the first time may take seconds. A source that works elsewhere says the same
 * (SOURCE_LATER): then whoever comes next asks it again.
 *
 * A job is there as long as somebody waits for it or makes it; its last snapshot is kept for those
 * only. So memory holds no profile that nobody wants. `lock` guards jobs and counts of
 * references; a snapshot's own lock is held by who renders it. */
#include "pprof/snapshots.h"

#include "hosted/monotonic.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct snapshot {
	struct snapshots *of;
	uint32_t references;
	uint64_t begun_ns;
	int rc;
	struct heft_error err;
	void *profile; /* the source's */
	pthread_mutex_t rendering;
	struct {
		char *bytes;
		size_t length;
	} made[SOURCE_FORMS];
};

/* The snapshots of one process */
struct snapshot_job {
	struct snapshot_job *next;
	uint64_t key;
	uint32_t waiting;
	bool working;
	struct snapshot *making; /* the source is at it; or NULL */
	struct snapshot *last;
};

struct snapshots {
	struct source source;
	pthread_mutex_t lock;
	struct snapshot_job *jobs;
};

struct snapshots *snapshots_new(const struct source *source)
{
	struct snapshots *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->source = *source;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void snapshots_free(struct snapshots *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void destroy(struct snapshot *s)
{
	for (int i = 0; i < SOURCE_FORMS; i++)
		free(s->made[i].bytes);
	s->of->source.drop(s->of->source.ctx, s->profile);
	pthread_mutex_destroy(&s->rendering);
	free(s);
}

void snapshot_release(struct snapshot *s)
{
	if (!s)
		return;
	pthread_mutex_t *lock = &s->of->lock;
	pthread_mutex_lock(lock);
	bool last = --s->references == 0;
	pthread_mutex_unlock(lock);
	if (last)
		destroy(s);
}

/* ---- jobs */

static struct snapshot_job *find_job(struct snapshots *s, uint64_t key)
{
	struct snapshot_job *job = s->jobs;
	while (job && job->key != key)
		job = job->next;
	if (job || !(job = calloc(1, sizeof *job)))
		return job;
	job->key = key;
	job->next = s->jobs;
	s->jobs = job;
	return job;
}

/* What a job leaves behind, to be released without the lock */
struct leftover {
	struct snapshot *last, *making;
};

/* Takes the request off its job, which may end with it. */
static struct leftover leave(struct snapshot_request *request)
{
	struct snapshot_job *job = request->job, **at = &request->of->jobs;
	struct leftover left = {job->last, job->making};
	request->job = NULL;
	if (--job->waiting)
		return (struct leftover){NULL, NULL};
	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	free(job);
	return left;
}

static void release_leftover(struct leftover left)
{
	snapshot_release(left.last);
	snapshot_release(left.making);
}

void snapshot_cancel(struct snapshot_request *request)
{
	if (!request->job)
		return;
	pthread_mutex_lock(&request->of->lock);
	struct leftover left = leave(request);
	pthread_mutex_unlock(&request->of->lock);
	release_leftover(left);
}

static struct snapshot *begin(struct snapshots *of)
{
	struct snapshot *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->of = of;
	s->references = 1;
	s->begun_ns = monotonic_ns();
	pthread_mutex_init(&s->rendering, NULL);
	return s;
}

/* The request is fulfilled, or failed: the lock is given up here. */
static int hand_out(struct snapshot_request *request, struct snapshot *s, struct snapshot **out,
		    struct heft_error *err)
{
	s->references++;
	struct leftover left = leave(request);
	pthread_mutex_unlock(&request->of->lock);
	release_leftover(left);
	int rc = s->rc;
	if (rc < 0) {
		*err = s->err;
		snapshot_release(s);
		return rc;
	}
	*out = s;
	return 0;
}

static int no_memory(struct heft_error *err)
{
	return heft_fail(err, HEFT_ENOMEM, "not enough memory for a snapshot");
}

int snapshot_take(struct snapshot_request *request, struct snapshot **out, struct heft_error *err)
{
	struct snapshots *of = request->of;
	pthread_mutex_lock(&of->lock);
	struct snapshot_job *job = request->job ? request->job : find_job(of, request->key);
	if (!job) {
		pthread_mutex_unlock(&of->lock);
		return no_memory(err);
	}
	if (!request->job) {
		request->job = job;
		job->waiting++;
	}
	if (job->last && job->last->begun_ns >= request->since_ns)
		return hand_out(request, job->last, out, err);
	if (job->working) {
		pthread_mutex_unlock(&of->lock);
		return SNAPSHOT_LATER;
	}
	job->working = true; /* and the job stays: we wait for it ourselves */
	struct snapshot *s = job->making;
	job->making = NULL;
	pthread_mutex_unlock(&of->lock);
	if (!s)
		s = begin(of);
	if (s)
		s->rc = of->source.take(of->source.ctx, request->key, &s->profile, &s->err);
	pthread_mutex_lock(&of->lock);
	job->working = false;
	if (!s) {
		struct leftover left = leave(request);
		pthread_mutex_unlock(&of->lock);
		release_leftover(left);
		return no_memory(err);
	}
	if (s->rc == SOURCE_LATER) {
		job->making = s;
		pthread_mutex_unlock(&of->lock);
		return SNAPSHOT_LATER;
	}
	struct snapshot *old = job->last;
	job->last = s;
	int rc = hand_out(request, s, out, err);
	snapshot_release(old);
	return rc;
}

/* ---- forms */

/* What the source does with one profile, one thread does at a time. */
static int render(struct snapshot *s, const struct source_wish *wish, char **bytes, size_t *length,
		  struct heft_error *err)
{
	if (pthread_mutex_trylock(&s->rendering) != 0)
		return SNAPSHOT_LATER;
	int rc = s->of->source.render(s->of->source.ctx, s->profile, wish, bytes, length, err);
	pthread_mutex_unlock(&s->rendering);
	return rc == SOURCE_LATER ? SNAPSHOT_LATER : rc;
}

int snapshot_difference(struct snapshot *s, struct snapshot *before, uint64_t between_ns,
			enum source_form form, char **bytes, size_t *length, struct heft_error *err)
{
	const struct source_wish wish = {
		.form = form, .before = before->profile, .between_ns = between_ns};
	return render(s, &wish, bytes, length, err);
}

int snapshot_symbols(struct snapshot *s, const char *addresses, char **bytes, size_t *length,
		     struct heft_error *err)
{
	const struct source_wish wish = {.form = SOURCE_SYMBOLS, .addresses = addresses};
	return render(s, &wish, bytes, length, err);
}

int snapshot_bytes(struct snapshot *s, enum source_form form, char **bytes, size_t *length,
		   struct heft_error *err)
{
	const struct source_wish wish = {.form = form};
	int rc = 0;
	if (pthread_mutex_trylock(&s->rendering) != 0)
		return SNAPSHOT_LATER;
	if (!s->made[form].bytes)
		rc = s->of->source.render(s->of->source.ctx, s->profile, &wish,
					  &s->made[form].bytes, &s->made[form].length, err);
	if (rc == 0) {
		*length = s->made[form].length;
		*bytes = malloc(*length + 1);
		if (*bytes)
			memcpy(*bytes, s->made[form].bytes, *length + 1);
		else
			rc = no_memory(err);
	}
	pthread_mutex_unlock(&s->rendering);
	return rc == SOURCE_LATER ? SNAPSHOT_LATER : rc;
}
