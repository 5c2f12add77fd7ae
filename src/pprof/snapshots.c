/* One snapshot for many. Whoever asks while one is being made wants to see what happened up to now,
 * so that one is too old for them: they all wait, and share the next one, which begins when the first
 * has ended. A failure is shared the same way.
 *
 * Nobody blocks: who has to wait is told to come again (SNAPSHOT_LATER), since workers are few and
 * symbolising a large program for the first time may take seconds.
 *
 * A job is there as long as somebody waits for it or makes it; its last snapshot is kept for those
 * only. So memory holds no profile that nobody wants. `lock` guards jobs and counts of
 * references; a snapshot's own lock is held by who renders it. */
#include "pprof/snapshots.h"

#include "export/export.h"
#include "hosted/monotonic.h"
#include "pprof/pprof_text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct snapshot {
	struct snapshots *of;
	uint32_t references;
	uint64_t begun_ns;
	int rc;
	struct heft_error err;
	struct profile *profile;
	pthread_mutex_t rendering;
	struct {
		char *bytes;
		size_t length;
	} made[SNAPSHOT_FORMS];
};

/* The snapshots of one process */
struct snapshot_job {
	struct snapshot_job *next;
	uint64_t key;
	uint32_t waiting;
	bool working;
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
	for (int i = 0; i < SNAPSHOT_FORMS; i++)
		free(s->made[i].bytes);
	profile_free(s->profile);
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

const struct profile *snapshot_profile(const struct snapshot *s)
{
	return s->profile;
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

/* Takes the request off its job, which may end with it; gives a snapshot to release, or NULL. */
static struct snapshot *leave(struct snapshot_request *request)
{
	struct snapshot_job *job = request->job, **at = &request->of->jobs;
	struct snapshot *last = job->last;
	request->job = NULL;
	if (--job->waiting)
		return NULL;
	while (*at != job)
		at = &(*at)->next;
	*at = job->next;
	free(job);
	return last;
}

void snapshot_cancel(struct snapshot_request *request)
{
	struct snapshot *old = NULL;
	if (!request->job)
		return;
	pthread_mutex_lock(&request->of->lock);
	old = leave(request);
	pthread_mutex_unlock(&request->of->lock);
	snapshot_release(old);
}

static struct snapshot *make(struct snapshots *of, uint64_t key)
{
	struct snapshot *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->of = of;
	s->begun_ns = monotonic_ns();
	pthread_mutex_init(&s->rendering, NULL);
	s->rc = of->source.profile(of->source.ctx, key, &s->profile, &s->err);
	return s;
}

/* The request is fulfilled, or failed: the lock is given up here. */
static int hand_out(struct snapshot_request *request, struct snapshot *s, struct snapshot **out,
		    struct heft_error *err)
{
	struct snapshot *old;
	s->references++;
	old = leave(request);
	pthread_mutex_unlock(&request->of->lock);
	snapshot_release(old);
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
	pthread_mutex_unlock(&of->lock);
	struct snapshot *s = make(of, request->key);
	pthread_mutex_lock(&of->lock);
	job->working = false;
	struct snapshot *old = s ? job->last : NULL;
	if (!s) {
		old = leave(request);
		pthread_mutex_unlock(&of->lock);
		snapshot_release(old);
		return no_memory(err);
	}
	job->last = s;
	s->references = 1;
	int rc = hand_out(request, s, out, err);
	snapshot_release(old);
	return rc;
}

/* ---- forms */

/* d: the difference, where it is one; p is then not looked at. */
static int write_form(FILE *out, const struct profile *p, const struct profile_delta *d,
		      enum snapshot_form form, struct heft_error *err)
{
	bool allocs = form == SNAPSHOT_ALLOCS || form == SNAPSHOT_ALLOCS_TEXT;
	if (form == SNAPSHOT_HEAP_TEXT || form == SNAPSHOT_ALLOCS_TEXT)
		return pprof_write_text(out, p, allocs) < 0 ? no_memory(err) : 0;
	struct export_options o = {
		.measure = allocs ? MEASURE_ALLOCATED_BYTES : MEASURE_LIVE_BYTES,
	};
	if (d)
		return export_pprof_delta(out, d, o.measure, err);
	return exporter_write(exporter_find("pprof"), out, p, &o, err);
}

static int render(const struct profile *p, const struct profile_delta *d, enum snapshot_form form,
		  char **bytes, size_t *length, struct heft_error *err)
{
	*bytes = NULL;
	FILE *out = open_memstream(bytes, length);
	if (!out)
		return no_memory(err);
	int rc = write_form(out, p, d, form, err);
	if (fclose(out) != 0 && rc == 0)
		rc = no_memory(err);
	if (rc < 0) {
		free(*bytes);
		*bytes = NULL;
	}
	return rc;
}

int snapshot_render(const struct profile *p, enum snapshot_form form, char **bytes, size_t *length,
		    struct heft_error *err)
{
	return render(p, NULL, form, bytes, length, err);
}

int snapshot_render_delta(const struct profile_delta *d, enum snapshot_form form, char **bytes,
			  size_t *length, struct heft_error *err)
{
	return render(NULL, d, form, bytes, length, err);
}

int snapshot_bytes(struct snapshot *s, enum snapshot_form form, char **bytes, size_t *length,
		   struct heft_error *err)
{
	int rc = 0;
	if (pthread_mutex_trylock(&s->rendering) != 0)
		return SNAPSHOT_LATER;
	if (!s->made[form].bytes)
		rc = snapshot_render(s->profile, form, &s->made[form].bytes, &s->made[form].length,
				     err);
	if (rc == 0) {
		*length = s->made[form].length;
		*bytes = malloc(*length + 1);
		if (*bytes)
			memcpy(*bytes, s->made[form].bytes, *length + 1);
		else
			rc = no_memory(err);
	}
	pthread_mutex_unlock(&s->rendering);
	return rc;
}
