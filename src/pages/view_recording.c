/* Recordings opened for viewing: loading, loading again as a file grows, letting go.
 *
 * A load of the file is a generation: reader, the profile of everything with its
 * symbols, findings. Parts belong to a generation and hold it; when a growing file
 * is loaded again, the old generation goes with the last part that is still being
 * written out (view_part.c). */
#include "pages/view_recording_parts.h"

#include "hosted/monotonic.h"
#include "pages/view_heat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LADDER_BYTES = 192 << 20, RUNG_EVENTS = 1 << 18 /* are replayed in a few ms */ };
enum { RELOAD_LOADS = 4 /* of the time goes into loading a growing file */ };
/* Processes are looked at one by one up to so many events; a file that grows is read again and again. */
enum { JUDGED_EVENTS = 50000000, JUDGED_LIVE_EVENTS = 2000000 };
static const uint64_t RELOAD_NS = 900000000, QUIET_NS = 10000000000;

/* ---- letting go */

void view_generation_free(struct generation *g)
{
	if (!g)
		return;
	if (g->whole_part) {
		view_heat_free(g->whole_part->heat);
		free(g->whole_part);
	}
	if (g->laying) {
		atomic_store(&g->laying->stop, true);
		pthread_join(g->laying->thread, NULL);
		trace_reader_close(g->laying->reader);
		free(g->laying);
	}
	trace_ladder_free(g->ladder);
	findings_free(g->findings);
	profile_free(g->whole);
	trace_reader_close(g->reader);
	pthread_mutex_destroy(&g->reading);
	free(g);
}

struct generation *view_generation_let_go(struct generation *g)
{
	return --g->holders == 0 ? g : NULL;
}

/* ---- loading */

/* Whether somebody has the file open for writing: then the kernel refuses a lease for readers. */
static bool is_being_written(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return false;
	bool taken = fcntl(fd, F_SETLEASE, F_RDLCK) == 0;
	bool written = !taken && errno == EAGAIN;
	if (taken)
		fcntl(fd, F_SETLEASE, F_UNLCK);
	else if (!written && fstat(fd, &st) == 0)
		/* Not ours to ask, or no such file system: recorders write once a second. */
		written = time(NULL) - st.st_mtim.tv_sec < (time_t)(QUIET_NS / 1000000000);
	close(fd);
	return written;
}

static int load_profiles(struct view_recording *r, struct generation *g, struct heft_error *err)
{
	struct profile_selection keeping = {.keep = true, .judge_events = JUDGED_EVENTS};
	/* Asked before it is read: a recording that is whole by then was written to before. */
	bool written = is_being_written(r->path);
	int rc = profile_open_recording(&g->reader, r->path, err);
	if (rc == 0 && g->reader) {
		g->live = written;
		if (g->live) /* it is read again and again */
			keeping.judge_events = JUDGED_LIVE_EVENTS;
		rc = profile_from_trace(&g->whole, g->reader, &keeping, err);
	} else if (rc == 0) {
		rc = r->loader->import(r->loader->ctx, r->path, NULL, &g->whole, err);
	}
	if (rc == 0 && r->loader->rules)
		rc = r->loader->rules(r->loader->ctx, g->whole, err);
	if (rc == 0)
		rc = findings_new(&g->findings, g->whole);
	if (rc == 0) {
		g->live = g->live && !g->whole->run.complete;
		g->file_bytes = g->whole->run.file_bytes;
	}
	return rc;
}

static int new_generation(struct view_recording *r, struct generation **out, struct heft_error *err)
{
	struct generation *g = calloc(1, sizeof *g);
	if (!g)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory to open %s", r->path);
	pthread_mutex_init(&g->reading, NULL);
	g->recording = r;
	g->holders = 1;
	if (err)
		err->message[0] = 0;
	int rc = load_profiles(r, g, err);
	if (rc == 0 && !(g->whole_part = calloc(1, sizeof *g->whole_part)))
		rc = HEFT_ENOMEM;
	if (rc < 0) {
		if (err && !err->message[0])
			heft_fail(err, rc, "not enough memory to load %s", r->path);
		view_generation_free(g);
		return rc;
	}
	g->whole_part->generation = g;
	g->whole_part->seen = (struct view_part){
		.p = g->whole, .whole = g->whole, .findings = g->findings, .live = g->live};
	*out = g;
	return 0;
}

/* Puts a generation in the place of the one before it, whose parts leave the cache. */
static void take_generation(struct view_recording *r, struct generation *g)
{
	struct part *parts[KEPT_PARTS];
	pthread_mutex_lock(&r->lock);
	struct generation *gone = r->now ? view_generation_let_go(r->now) : NULL;
	r->now = g;
	memcpy(parts, r->kept, sizeof parts);
	memset(r->kept, 0, sizeof r->kept);
	pthread_mutex_unlock(&r->lock);
	/* Parts hold their generation, so with parts it cannot be gone yet. */
	for (int i = 0; i < KEPT_PARTS; i++)
		if (parts[i])
			view_part_release(parts[i]);
	view_generation_free(gone);
}

/* ---- the ladder */

static void *lay(void *ctx)
{
	struct generation *g = ctx;
	struct heft_error err;
	trace_ladder_lay(g->ladder, g->laying->reader, &g->laying->stop, &err);
	return NULL; /* what is missing of it makes windows slower, no more */
}

/* Joined before the generation goes: the thread holds nothing. */
static void start_laying(struct generation *g)
{
	struct heft_error err;
	struct laying *l = calloc(1, sizeof *l);
	if (l && trace_reader_open(&l->reader, g->recording->path, &err) == 0) {
		g->ladder = trace_ladder_new(trace_reader_contents(l->reader), LADDER_BYTES,
					     RUNG_EVENTS);
		g->laying = l;
		if (g->ladder && pthread_create(&l->thread, NULL, lay, g) == 0)
			return;
		g->laying = NULL;
		trace_ladder_free(g->ladder);
		g->ladder = NULL;
		trace_reader_close(l->reader);
	}
	free(l);
}

/* One that grows is soon another: its windows come from its checkpoints. */
static void prepare(struct view_recording *r, struct generation *g)
{
	if (r->prepared && !g->live && !g->laying && view_part_has_events(&g->whole_part->seen))
		start_laying(g);
}

static int load(struct view_recording *r, struct heft_error *err)
{
	struct generation *g = NULL;
	uint64_t start = monotonic_ns();
	int rc = new_generation(r, &g, err);
	r->loaded_ns = monotonic_ns();
	r->load_took_ns = r->loaded_ns - start;
	if (rc == 0) {
		prepare(r, g);
		take_generation(r, g);
	}
	return rc;
}

int view_recording_open(struct view_recording **out, const char *path, const char *id,
			const char *name, const struct view_loader *loader, struct heft_error *err)
{
	struct view_recording *r = calloc(1, sizeof *r);
	*out = NULL;
	if (!r)
		return heft_fail(err, HEFT_ENOMEM, "not enough memory to open %s", path);
	pthread_mutex_init(&r->lock, NULL);
	pthread_mutex_init(&r->loading, NULL);
	r->path = strdup(path);
	r->id = strdup(id);
	r->name = strdup(name);
	r->loader = loader;
	int rc = r->path && r->id && r->name
			 ? load(r, err)
			 : heft_fail(err, HEFT_ENOMEM, "not enough memory to open %s", path);
	if (rc < 0)
		view_recording_close(r);
	else
		*out = r;
	return rc;
}

void view_recording_close(struct view_recording *r)
{
	if (!r)
		return;
	take_generation(r, NULL);
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->loading);
	free(r->path);
	free(r->id);
	free(r->name);
	free(r);
}

void view_recording_prepare(struct view_recording *r)
{
	pthread_mutex_lock(&r->loading);
	r->prepared = true;
	prepare(r, r->now);
	pthread_mutex_unlock(&r->loading);
}

const char *view_recording_id(const struct view_recording *r)
{
	return r->id;
}

const char *view_recording_name(const struct view_recording *r)
{
	return r->name;
}

/* ---- growing files */

static bool is_due(const struct view_recording *r)
{
	uint64_t since = monotonic_ns() - r->loaded_ns;
	return since >= RELOAD_NS && since >= r->load_took_ns * RELOAD_LOADS;
}

static bool has_changed(const struct view_recording *r, uint64_t file_bytes)
{
	struct stat st;
	return (stat(r->path, &st) == 0 && (uint64_t)st.st_size != file_bytes) ||
	       !is_being_written(r->path); /* its end may have come without another byte */
}

void view_recording_refresh(struct view_recording *r, bool *live, uint64_t *duration_ns)
{
	pthread_mutex_lock(&r->lock);
	bool growing = r->now->live;
	pthread_mutex_unlock(&r->lock);
	/* Whoever finds somebody loading shows what there is. */
	if (growing && pthread_mutex_trylock(&r->loading) == 0) {
		struct heft_error err;
		/* Only a load changes `now`, and we hold that. */
		if (r->now->live && is_due(r) && has_changed(r, r->now->file_bytes))
			load(r, &err); /* what could not be read now may be later */
		pthread_mutex_unlock(&r->loading);
	}
	pthread_mutex_lock(&r->lock);
	if (live)
		*live = r->now->live;
	if (duration_ns)
		*duration_ns = r->now->whole->run.duration_ns;
	pthread_mutex_unlock(&r->lock);
}
