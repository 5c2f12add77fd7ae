/* Recordings opened for viewing, and the parts of them that pages ask for.
 *
 * A load of the file is a generation: reader, the profile of everything with its
 * symbols, findings. Parts belong to a generation and hold it; when a growing file
 * is loaded again, the old generation goes with the last part that is still being
 * written out. A part that differs only in what is shown of it (mode, metric) is
 * the same part: the key is the selection alone.
 *
 * Locks: `lock` for pointers and counts, never held over anything slow; `loading`
 * over a load; a generation's `reading` over its reader, which has one cursor. The
 * order is loading, reading, lock.
 *
 * Invariant: the whole is the first part of every generation and is never evicted. */
#include "pages/view_recording.h"

#include "hosted/monotonic.h"
#include "pages/view_heat.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LADDER_BYTES = 192 << 20, RUNG_EVENTS = 1 << 18 /* are replayed in a few ms */ };
enum { KEPT_PARTS = 8, RELOAD_LOADS = 4 /* of the time goes into loading a growing file */ };
/* Processes are looked at one by one up to so many events; a file that grows is read again and again. */
enum { JUDGED_EVENTS = 50000000, JUDGED_LIVE_EVENTS = 2000000 };
static const uint64_t RELOAD_NS = 900000000, QUIET_NS = 10000000000;

/* Lays the rungs of a ladder beside everything else. */
struct laying {
	pthread_t thread;
	struct trace_reader *reader;
	atomic_bool stop;
};

struct generation {
	struct view_recording *recording;
	unsigned holders;
	pthread_mutex_t reading;
	struct trace_reader *reader; /* NULL: another tool's file */
	struct profile *whole;
	struct findings *findings;
	struct part *whole_part;     /* not counted as a holder */
	struct trace_ladder *ladder; /* NULL: not worth it, or not asked for */
	struct laying *laying;
	uint64_t file_bytes;
	bool live;
};

struct part {
	struct view_part seen;
	struct generation *generation;
	struct profile *own; /* to be freed; NULL: the whole */
	uint32_t *site_of_id; /* of chosen processes: theirs, by id */
	struct part *processes; /* held: what it is a part of; NULL: everything, or itself */
	struct view_heat *heat;
	char *key;
	unsigned holders; /* the cache is one */
	uint64_t used;
};

struct view_recording {
	char *path, *id, *name;
	const struct view_loader *loader;
	pthread_mutex_t lock, loading;
	struct generation *now;
	struct part *kept[KEPT_PARTS];
	uint64_t clock;
	uint64_t loaded_ns, load_took_ns;
	bool prepared; /* windows will be asked for */
};

/* ---- letting go */

static void free_generation(struct generation *g)
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

static void drop_part(struct part *part);

static void free_part(struct part *part)
{
	if (part->processes)
		drop_part(part->processes);
	free(part->site_of_id);
	view_heat_free(part->heat);
	profile_free(part->own);
	free(part->key);
	free(part);
}

/* Called with the lock; what is to be freed without it is returned. */
static struct generation *let_go(struct generation *g)
{
	return --g->holders == 0 ? g : NULL;
}

static void drop_part(struct part *part)
{
	struct generation *g = part->generation, *gone = NULL;
	struct view_recording *r = g->recording;
	bool last = false;
	pthread_mutex_lock(&r->lock);
	if (part != g->whole_part)
		last = --part->holders == 0;
	if (part == g->whole_part || last)
		gone = let_go(g);
	pthread_mutex_unlock(&r->lock);
	if (last)
		free_part(part);
	free_generation(gone);
}

void view_part_drop(const struct view_part *part)
{
	if (part)
		drop_part((struct part *)part);
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

static int is_recording(const char *path, bool *recording, struct heft_error *err)
{
	uint8_t head[64];
	FILE *in = fopen(path, "re");
	if (!in)
		return heft_fail_errno(err, "cannot open %s", path);
	size_t n = fread(head, 1, sizeof head, in);
	bool failed = ferror(in);
	if (failed)
		heft_fail_errno(err, "cannot read %s", path);
	fclose(in);
	*recording = profile_is_recording(head, n);
	return failed ? HEFT_EIO : 0;
}

static int load_profiles(struct view_recording *r, struct generation *g, struct heft_error *err)
{
	struct profile_selection keeping = {.keep = true, .judge_events = JUDGED_EVENTS};
	bool recording = false;
	int rc = is_recording(r->path, &recording, err);
	if (rc == 0 && recording) {
		/* Asked first: a recording that is whole by then was written to before. */
		g->live = is_being_written(r->path);
		if (g->live) /* it is read again and again */
			keeping.judge_events = JUDGED_LIVE_EVENTS;
		rc = trace_reader_open(&g->reader, r->path, err);
		if (rc == 0)
			rc = profile_from_trace(&g->whole, g->reader, &keeping, err);
	} else if (rc == 0) {
		rc = r->loader->import(r->loader->ctx, r->path, NULL, &g->whole, err);
	}
	if (rc == 0 && r->loader->rules)
		rc = r->loader->rules(r->loader->ctx, g->whole, err);
	if (rc == 0)
		rc = findings_new(&g->findings, g->whole);
	if (rc == 0) {
		g->live = g->live && !g->whole->complete;
		g->file_bytes = g->whole->file_bytes;
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
		free_generation(g);
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
	struct generation *gone = r->now ? let_go(r->now) : NULL;
	r->now = g;
	memcpy(parts, r->kept, sizeof parts);
	memset(r->kept, 0, sizeof r->kept);
	pthread_mutex_unlock(&r->lock);
	/* Parts hold their generation, so with parts it cannot be gone yet. */
	for (int i = 0; i < KEPT_PARTS; i++)
		if (parts[i])
			drop_part(parts[i]);
	free_generation(gone);
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
		*duration_ns = r->now->whole->duration_ns;
	pthread_mutex_unlock(&r->lock);
}

/* ---- parts */

static void select_part(struct profile_selection *s, const struct view_query *q,
			enum view_extent extent, const struct generation *g)
{
	const struct profile *whole = g->whole;
	uint64_t end = whole->duration_ns;
	bool own_stacks = extent == VIEW_APART || extent == VIEW_CALLS;
	*s = (struct profile_selection){.has_pid = q->has_pid,
					.pid = q->pid,
					.has_process = q->has_process,
					.process = q->process,
					.program = q->program,
					.thread = q->thread,
					.sizes = extent == VIEW_SIZES,
					.by_process = extent >= VIEW_BY_PROCESS,
					.merging = extent == VIEW_EACH_PROCESS ? PROCESSES_EACH
									       : PROCESSES_AS_FIT,
					.apart = extent == VIEW_APART,
					.calls = extent == VIEW_CALLS,
					.part_of = own_stacks ? NULL : whole,
					.ladder = own_stacks ? NULL : g->ladder};
	if (!view_part_has_events(&g->whole_part->seen)) {
		/* Whatever time was meant, this file does not know it: to be refused. */
		s->has_window =
			q->mode == VIEW_LIVE ? q->at == VIEW_AT_TIME : q->has_from || q->has_to;
		return;
	}
	if (q->mode == VIEW_LIVE) {
		/* At the very end the program is gone; what is meant is what it left. */
		s->has_window = q->at == VIEW_AT_TIME && q->at_ns < end;
		s->from_ns = s->to_ns = s->has_window ? q->at_ns : 0;
		return;
	}
	s->from_ns = q->has_from ? (q->from_ns < end ? q->from_ns : end) : 0;
	s->to_ns = q->has_to && q->to_ns < end ? q->to_ns : end;
	s->has_window = s->from_ns > 0 || s->to_ns < end;
	if (!s->has_window)
		s->to_ns = 0;
}

static bool chooses_processes(const struct view_query *q)
{
	return q->has_pid || q->has_process || q->program;
}

static struct view_query processes_of(const struct view_query *q)
{
	struct view_query alone;
	view_query_init(&alone);
	alone.has_pid = q->has_pid;
	alone.pid = q->pid;
	alone.has_process = q->has_process;
	alone.process = q->process;
	alone.program = q->program;
	return alone;
}

/* Of these the course over the run is asked for. */
static bool is_processes_alone(const struct profile_selection *s, const struct view_query *q)
{
	return chooses_processes(q) && !s->has_window && !s->thread && !s->sizes &&
	       !s->by_process && !q->focus && !q->ignore;
}

static char *key_of(const struct profile_selection *s, const struct view_query *q)
{
	char *key = NULL;
	int n = asprintf(&key,
			 "%d %" PRIu64 " %" PRIu64 " %d %" PRId32 " %d %" PRIu32
			 " %d %d %d %d\n%s\n%s\n%s\n%s",
			 s->has_window, s->from_ns, s->to_ns, s->has_pid, s->has_pid ? s->pid : 0,
			 s->has_process, s->has_process ? s->process : 0, s->sizes,
			 s->by_process + (int)s->merging, s->apart, s->calls,
			 s->program ? s->program : "", s->thread ? s->thread : "",
			 q->focus ? q->focus : "", q->ignore ? q->ignore : "");
	return n < 0 ? NULL : key;
}

static bool is_everything(const struct profile_selection *s, const struct view_query *q,
			  const struct profile *whole)
{
	return !s->has_window && !chooses_processes(q) && !s->thread && !q->focus && !q->ignore &&
	       s->part_of && (!s->sizes || whole->sizes) &&
	       (!s->by_process || whole->process_count < 2);
}

/* With the lock. A found part is held. */
static struct part *find_part(struct view_recording *r, const struct generation *g, const char *key)
{
	for (int i = 0; i < KEPT_PARTS; i++) {
		struct part *part = r->kept[i];
		if (part && part->generation == g && strcmp(part->key, key) == 0) {
			part->holders++;
			part->used = ++r->clock;
			return part;
		}
	}
	return NULL;
}

/* Into the place of the one that was not used for longest. */
static void keep_part(struct view_recording *r, struct part *part)
{
	struct part *old = NULL;
	int at = 0;
	pthread_mutex_lock(&r->lock);
	if (r->now == part->generation) { /* else nobody will ask for it again */
		for (int i = 0; i < KEPT_PARTS; i++)
			if (!r->kept[i] || (r->kept[at] && r->kept[i]->used < r->kept[at]->used))
				at = i;
		old = r->kept[at];
		part->holders++;
		part->used = ++r->clock;
		r->kept[at] = part;
	}
	pthread_mutex_unlock(&r->lock);
	if (old)
		drop_part(old);
}

/* Another tool's file has no parts but those that a filter makes. */
static int import_part(struct view_recording *r, const struct profile_selection *s,
		       struct profile **out, struct heft_error *err)
{
	bool processes = s->has_pid || s->has_process || s->program;
	if (s->has_window || processes || s->thread || s->sizes)
		return heft_fail(err, HEFT_EREFUSED,
				 "this file holds sums, not single allocations: it has no %s",
				 s->has_window ? "times to choose from"
				 : processes   ? "processes to choose from"
				 : s->thread   ? "threads to choose from"
					       : "sizes");
	return r->loader->import(r->loader->ctx, r->path, s, out, err);
}

/* With the generation's reading lock. */
static int load_part(struct generation *g, const struct profile_selection *s,
		     const struct view_query *q, struct profile **p, struct heft_error *err)
{
	const struct view_loader *loader = g->recording->loader;
	struct profile_selection with = *s;
	with.history = is_processes_alone(s, q);
	int rc = g->reader ? profile_from_trace(p, g->reader, &with, err)
			   : import_part(g->recording, s, p, err);
	if (rc == 0 && !(*p)->lender && loader->rules)
		rc = loader->rules(loader->ctx, *p, err);
	if (rc == 0 && (q->focus || q->ignore))
		rc = profile_filter(*p, q->focus, q->ignore, err);
	if (rc < 0) {
		profile_free(*p);
		*p = NULL;
	}
	return rc;
}

static int index_sites(struct part *part)
{
	const struct profile *p = part->own, *whole = part->generation->whole;
	part->site_of_id = malloc(((size_t)whole->site_count + 1) * sizeof *part->site_of_id);
	if (!part->site_of_id)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i <= whole->site_count; i++)
		part->site_of_id[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < p->site_count; i++)
		if (p->sites[i].id <= whole->site_count)
			part->site_of_id[p->sites[i].id] = i;
	return 0;
}

/* The generation is held for the part, and let go if there is none in the end. */
static int make_part(struct generation *g, const struct profile_selection *s,
		     const struct view_query *q, char *key, struct part *processes,
		     struct part **out, struct heft_error *err)
{
	struct part *part = calloc(1, sizeof *part);
	int rc = part ? load_part(g, s, q, &part->own, err)
		      : heft_fail(err, HEFT_ENOMEM, "not enough memory for this part");
	if (rc == 0) {
		part->generation = g;
		if (is_processes_alone(s, q) && index_sites(part) < 0)
			rc = heft_fail(err, HEFT_ENOMEM, "not enough memory for this part");
	}
	if (rc < 0) {
		if (part)
			profile_free(part->own);
		free(part);
		return rc;
	}
	part->key = key;
	part->holders = 1;
	part->processes = processes;
	part->seen = (struct view_part){
		.p = part->own, .whole = g->whole, .findings = g->findings, .live = g->live};
	if (processes || part->site_of_id) {
		part->seen.whole = processes ? processes->own : part->own;
		part->seen.site_of_id = processes ? processes->site_of_id : part->site_of_id;
	}
	keep_part(g->recording, part);
	*out = part;
	return 0;
}

static struct generation *hold_now(struct view_recording *r)
{
	pthread_mutex_lock(&r->lock);
	struct generation *g = r->now;
	g->holders++;
	pthread_mutex_unlock(&r->lock);
	return g;
}

static void release(struct generation *g)
{
	struct view_recording *r = g->recording;
	pthread_mutex_lock(&r->lock);
	struct generation *gone = let_go(g);
	pthread_mutex_unlock(&r->lock);
	free_generation(gone);
}

static struct part *find_locked(struct view_recording *r, struct generation *g, const char *key)
{
	pthread_mutex_lock(&r->lock);
	struct part *part = find_part(r, g, key);
	pthread_mutex_unlock(&r->lock);
	return part;
}

/* The part that is kept, or a new one, which takes `processes` over. The generation is held by the
 * caller, and from then on by the part. */
static int hold_part(struct generation *g, const struct profile_selection *s,
		     const struct view_query *q, struct part *processes, struct part **out,
		     struct heft_error *err)
{
	struct view_recording *r = g->recording;
	struct part *part = NULL;
	char *key = key_of(s, q);
	bool made = false;
	int rc = key ? 0 : heft_fail(err, HEFT_ENOMEM, "not enough memory for this part");
	if (rc == 0)
		part = find_locked(r, g, key);
	if (rc == 0 && !part) {
		pthread_mutex_lock(&g->reading);
		part = find_locked(r, g, key); /* another thread made it meanwhile */
		if (!part) {
			rc = make_part(g, s, q, key, processes, &part, err);
			made = rc == 0; /* it holds the generation from now on, and the key */
		}
		pthread_mutex_unlock(&g->reading);
	}
	*out = part;
	if (made)
		return 0;
	free(key);
	if (processes)
		drop_part(processes);
	release(g); /* a found part holds it */
	return rc;
}

/* What the part of a query is a part of: all that its processes did. */
static int hold_processes(struct generation *g, const struct view_query *q, struct part **out,
			  struct heft_error *err)
{
	struct profile_selection s;
	struct view_query alone = processes_of(q);
	select_part(&s, &alone, VIEW_NO_SIZES, g);
	pthread_mutex_lock(&g->recording->lock);
	g->holders++;
	pthread_mutex_unlock(&g->recording->lock);
	return hold_part(g, &s, &alone, NULL, out, err);
}

int view_recording_part(struct view_recording *r, const struct view_query *q,
			enum view_extent extent, const struct view_part **out,
			struct heft_error *err)
{
	struct profile_selection s;
	struct part *part = NULL, *processes = NULL;
	int rc = 0;
	*out = NULL;
	view_recording_refresh(r, NULL, NULL);
	struct generation *g = hold_now(r);
	select_part(&s, q, extent, g);
	if (is_everything(&s, q, g->whole)) {
		*out = &g->whole_part->seen;
		return 0;
	}
	if (chooses_processes(q) && !is_processes_alone(&s, q))
		rc = hold_processes(g, q, &processes, err);
	if (rc < 0) {
		release(g);
		return rc;
	}
	rc = hold_part(g, &s, q, processes, &part, err);
	*out = part ? &part->seen : NULL;
	return rc;
}

int view_recording_processes(struct view_recording *r, const struct view_query *q,
			     const struct view_part **out, struct heft_error *err)
{
	struct view_query alone = processes_of(q);
	return view_recording_part(r, &alone, VIEW_NO_SIZES, out, err);
}

const struct profile_site *view_part_site(const struct view_part *part, uint32_t id)
{
	const struct profile *whole = part->whole;
	uint32_t everything = ((const struct part *)part)->generation->whole->site_count;
	if (!id || id > everything)
		return NULL;
	uint32_t site = part->site_of_id ? part->site_of_id[id] : id - 1;
	return site < whole->site_count ? &whole->sites[site] : NULL;
}

int view_recording_whole(struct view_recording *r, const struct view_part **out,
			 struct heft_error *err)
{
	(void)err;
	view_recording_refresh(r, NULL, NULL);
	*out = &hold_now(r)->whole_part->seen;
	return 0;
}

/* ---- events */

bool view_part_has_events(const struct view_part *part)
{
	const struct trace_contents *c = view_part_contents(part);
	return c && !c->samples_count;
}

const struct trace_contents *view_part_contents(const struct view_part *part)
{
	const struct generation *g = ((const struct part *)part)->generation;
	return g->reader ? trace_reader_contents(g->reader) : NULL;
}

int view_part_events(const struct view_part *part, uint64_t from_ns, uint64_t to_ns,
		     trace_each_fn *each, void *ctx, struct heft_error *err)
{
	struct generation *g = ((const struct part *)part)->generation;
	pthread_mutex_lock(&g->reading);
	int rc = trace_reader_events(g->reader, from_ns, to_ns, each, ctx, err);
	pthread_mutex_unlock(&g->reading);
	return rc;
}

const struct view_heat *view_part_heat(const struct view_part *part)
{
	const struct part *own = (const struct part *)part;
	pthread_mutex_lock(&own->generation->recording->lock);
	const struct view_heat *heat = own->heat;
	pthread_mutex_unlock(&own->generation->recording->lock);
	return heat;
}

void view_part_keep_heat(const struct view_part *part, struct view_heat *heat)
{
	struct part *own = (struct part *)part;
	pthread_mutex_lock(&own->generation->recording->lock);
	if (!own->heat) {
		own->heat = heat;
		heat = NULL;
	}
	pthread_mutex_unlock(&own->generation->recording->lock);
	view_heat_free(heat);
}
