/* The worker's loop. It maps the session files that it is given, sees peaks between scrapes, follows the cost budget,
 * writes recordings of processes that have ended into descriptors, and answers processes that ask for their own
 * profile. Everything hostile is read here: with the rights of the user whose programs left it, and with limits
 * (workers.c). Whatever goes wrong here is this user's loss alone.
 *
 * A question that takes too long ends the worker: the thread that answers it may hang in a file system. */
#include "agent/worker_loop.h"

#include "agent/sampled.h"
#include "agent/sampled_recording.h"
#include "hosted/monotonic.h"
#include "hosted/passed_file.h"
#include "hosted/vector.h"
#include "session/process_memory.h"
#include "session/session_guard.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS 1000000ull
#define TICK_MS 50
#define PEAK_EVERY_NS (250 * MS)
#define SLOW_EVERY_NS (1000 * MS) /* resident memory, budgets, what is to be dropped */
#define TRIM_EVERY_NS (10000 * MS)
#define QUESTION_NS (30000 * MS)
#define FILE_MS 5000

enum {
	MESSAGES_MOST = 64, /* taken in one go, so that the loop comes round */
	QUIET_LOOKS = 4,    /* a process that takes no samples is looked after so seldom */
};

struct looked_after {
	struct process *process; /* in the set */
	bool running;
	bool keep; /* it is saved: the memory of its samples is to be given back */
	bool spoilt;
	uint64_t cost_tsc; /* its sampling.cost_tsc when it was last looked after */
	uint32_t quiet;    /* how often it was not, because it had taken no sample */
};

struct worker {
	const struct worker_parts *parts;
	void *ctx;
	struct process_set set;
	struct link link;
	VECTOR(struct looked_after) list; /* in the order they came: keys rise */
	bool stop, failed, saved_some;
	uint64_t next_peak_ns, next_slow_ns, next_trim_ns;
};

static struct looked_after *find(struct worker *w, uint64_t key)
{
	for (size_t i = 0; i < w->list.count; i++)
		if (w->list.items[i].process->place.key == key)
			return &w->list.items[i];
	return NULL;
}

static void tell(struct worker *w, uint32_t kind, uint64_t key)
{
	const struct link_message m = {.kind = kind, .key = key};
	link_send(&w->link, &m, NULL, 0);
}

/* ---- messages */

/* From now on its profile is the one that was saved. Takes the descriptor. */
static void keep_rest(struct process *p, const struct link_message *m, int fd)
{
	size_t n = strlen(m->text) + 1;
	struct process_rest *rest = malloc(sizeof *rest + n);
	if (!rest || fd < 0) {
		free(rest); /* then it keeps its samples */
		if (fd >= 0)
			close(fd);
		return;
	}
	rest->sums = m->sums;
	rest->fd = fd;
	memcpy(rest->recording, m->text, n);
	atomic_store(&p->samples.rest, rest);
}

static void drop_samples(struct worker *w, struct looked_after *c)
{
	if (c->keep && process_set_drop_samples(&w->set, c->process))
		c->keep = false;
}

static void look_for_allocator(struct process *p, uint64_t age_ns)
{
	if (!process_look_for_allocator(p, age_ns) && !age_ns)
		process_look_at_program(p); /* we may not see what it has mapped */
}

/* Whether it is the machine, or a limit, that did not allow it, and not the session file. */
static bool is_for_lack_of_means(int rc, const struct heft_error *err)
{
	return rc == HEFT_ENOMEM ||
	       (rc == HEFT_EIO && (err->sys_errno == ENOMEM || err->sys_errno == EAGAIN ||
				   err->sys_errno == EMFILE || err->sys_errno == ENFILE));
}

/* Takes the descriptors. */
static void take(struct worker *w, const struct link_message *m, int *fds)
{
	struct heft_error err = {0};
	struct process *p;
	char name[32];
	snprintf(name, sizeof name, "%" PRIx32 ".%" PRIx64, (uint32_t)m->named_pid, m->start_tsc);
	int rc = process_take(&p, sizeof *p, fds[0], name, &err);
	fds[0] = -1;
	bool sampled = !rc && p->view.sampled;
	if (sampled) {
		rc = vector_reserve(&w->list, 1) ? process_set_add_as(&w->set, p, m->key)
						 : HEFT_ENOMEM;
		if (rc)
			process_free(p);
	} else if (!rc)
		process_free(p);
	if (is_for_lack_of_means(rc, &err)) {
		w->stop = w->failed = true; /* the next worker is told of it again */
		return;
	}
	if (rc || !sampled) {
		tell(w, LINK_SPOILT, m->key);
		return;
	}
	p->pid = p->entry.facts.pid = p->seen_pid = m->pid;
	p->attached = m->attached;
	process_set_limit(p, m->limit_bytes, m->limit_is_cgroup);
	struct looked_after *c = vector_add(&w->list);
	c->process = p;
	c->running = m->running;
	c->keep = m->has_recording || m->blind;
	if (m->has_recording) {
		keep_rest(p, m, fds[1]);
		fds[1] = -1;
	} else if (m->running) {
		p->kernel.status_by_path = true;
		process_begin_memory(
			p, NULL); /* of a fork: what it has now is its parent's, nearly all */
		look_for_allocator(p, 0);
	} else
		process_look_at_program(p); /* all that is left to look at */
}

static void end(struct looked_after *c, const struct link_message *m)
{
	const struct process_end how = {
		.end = (enum trace_end)m->end,
		.exit_status = m->exit_status,
		.signal = m->signal,
		.end_ns = m->end_ns == UINT64_MAX ? sampled_last_seen_ns(c->process) : m->end_ns};
	process_set_limit(c->process, m->limit_bytes, m->limit_is_cgroup);
	process_set_end(c->process, &how);
	c->process->kernel.status_by_path = false;
	c->running = false;
}

/* A process that never had a sample is not worth a file. If heft could not see into it, it is kept and says that. */
static void save(struct worker *w, struct looked_after *c, const struct link_message *asked, int fd)
{
	struct process *p = c->process;
	struct heft_error err = {0};
	struct link_message m = {.kind = LINK_SAVED, .key = asked->key};
	char path[PASSED_FILE_PATH], reason[2048];
	process_look_at_program(p); /* it may have ended before it was looked at */
	sampled_sums(p, &m.sums);
	m.blind = process_sight(p, &m.sums, reason, sizeof reason) == PROCESS_BLIND;
	passed_file_path(fd, path);
	if (m.sums.samples)
		m.code = sampled_recording_write(p, path, true, &err);
	snprintf(m.text, sizeof m.text, "%s", err.message);
	w->saved_some = true;
	link_send(&w->link, &m, NULL, 0);
}

static void forget(struct worker *w, struct looked_after *c)
{
	size_t at = (size_t)(c - w->list.items);
	process_set_remove(&w->set, c->process);
	w->list.count--;
	memmove(c, c + 1, (w->list.count - at) * sizeof *c);
}

static void obey(struct worker *w, const struct link_message *m, int *fds)
{
	struct looked_after *c = find(w, m->key);
	if (m->kind == LINK_PING) {
		tell(w, LINK_PONG, m->key);
		return;
	}
	if (m->kind == LINK_TAKE && !c && fds[0] >= 0) {
		take(w, m, fds);
		return;
	}
	if (!c || m->kind == LINK_TAKE)
		return;
	switch (m->kind) {
	case LINK_LIMIT: process_set_limit(c->process, m->limit_bytes, m->limit_is_cgroup); break;
	case LINK_END: end(c, m); break;
	case LINK_SAVE: save(w, c, m, fds[0]); break;
	case LINK_KEEP:
		keep_rest(c->process, m, fds[0]);
		fds[0] = -1;
		c->keep = m->blind || atomic_load(&c->process->samples.rest);
		drop_samples(w, c);
		break;
	case LINK_FORGET: forget(w, c); break;
	default: break;
	}
}

static void take_messages(struct worker *w)
{
	for (int i = 0; i < MESSAGES_MOST; i++) {
		struct link_message m;
		int fds[LINK_DESCRIPTORS];
		int got = link_receive(w->link.fd, &m, fds);
		if (got < 0)
			w->stop = true;
		if (got <= 0)
			return;
		obey(w, &m, fds);
		for (int k = 0; k < LINK_DESCRIPTORS; k++)
			if (fds[k] >= 0)
				close(fds[k]);
	}
}

/* ---- now and then */

/* Its pages are no longer what a session file has: it was cut, or written over. */
static bool is_spoilt(const struct process *p)
{
	return atomic_load(&p->view.session.header->magic) != WIRE_MAGIC;
}

static void look_after(struct looked_after *c, uint64_t now)
{
	struct process *p = c->process;
	const struct wire_header *h = p->view.session.header;
	uint64_t start = h->start_mono_ns, cost = atomic_load(&h->sampling.cost_tsc);
	if (cost == c->cost_tsc && ++c->quiet < QUIET_LOOKS)
		return;
	c->cost_tsc = cost;
	c->quiet = 0;
	uint64_t age = now > start ? now - start : 1;
	process_read_rss(p, age, 0);
	look_for_allocator(p, age); /* who asks later may come too late */
	sampled_follow_budget(p);
}

/* What malloc keeps of the memory that was needed to save some, or to make profiles, goes back to the system. */
static void trim(struct worker *w, uint64_t now)
{
	if (!w->saved_some && now < w->next_trim_ns)
		return;
	malloc_trim(0);
	w->saved_some = false;
	w->next_trim_ns = now + TRIM_EVERY_NS;
}

static void now_and_then(struct worker *w)
{
	uint64_t now = monotonic_ns();
	bool peak = now >= w->next_peak_ns, slow = now >= w->next_slow_ns;
	for (size_t i = 0; i < w->list.count; i++) {
		struct looked_after *c = &w->list.items[i];
		if (!c->spoilt && !c->process->samples.rest && is_spoilt(c->process)) {
			c->spoilt = true;
			tell(w, LINK_SPOILT, c->process->place.key);
		}
		if (c->running && w->parts->answer)
			answer_call(c->process, w->parts->answer, w->ctx);
		if (c->running && peak)
			sampled_see_peak(c->process);
		if (c->running && slow)
			look_after(c, now);
		if (slow)
			drop_samples(w, c);
	}
	if (peak)
		w->next_peak_ns = now + PEAK_EVERY_NS;
	if (slow) {
		trim(w, now);
		w->next_slow_ns = now + SLOW_EVERY_NS;
	}
}

/* ---- from start to end */

struct channel_thread {
	struct worker *worker;
	int fd;
};

static void *serve(void *arg)
{
	struct channel_thread *t = arg;
	t->worker->parts->serve(t->worker->ctx, t->fd);
	return NULL;
}

static bool start_serving(struct worker *w, struct channel_thread *threads, const int *channels)
{
	for (int i = 0; i < WORKER_CHANNELS; i++) {
		pthread_t thread;
		threads[i] = (struct channel_thread){w, channels[i]};
		if (pthread_create(&thread, NULL, serve, &threads[i]))
			return false;
		pthread_detach(thread);
	}
	return true;
}

/* Asks the supervisor; threads do so in turn. */
static struct {
	pthread_mutex_t lock;
	int fd;
} files = {PTHREAD_MUTEX_INITIALIZER, -1};

static int open_file(const char *path)
{
	struct link_message *m = calloc(1, sizeof *m);
	int fds[LINK_DESCRIPTORS] = {-1, -1, -1};
	size_t length = strlen(path);
	if (!m || length >= sizeof m->text) {
		free(m);
		return -1;
	}
	m->kind = LINK_OPEN;
	memcpy(m->text, path, length);
	pthread_mutex_lock(&files.lock);
	struct pollfd p = {.fd = files.fd, .events = POLLIN};
	/* An answer that comes later would be taken for the next one: then there are no more. */
	if (files.fd >= 0 && (send(files.fd, m, sizeof *m, MSG_NOSIGNAL) != (ssize_t)sizeof *m ||
			      poll(&p, 1, FILE_MS) != 1 || link_receive(files.fd, m, fds) != 1)) {
		close(files.fd);
		files.fd = -1;
	}
	pthread_mutex_unlock(&files.lock);
	free(m);
	return fds[0];
}

int worker_loop(const struct worker_parts *parts, int link, int files_link,
		const int channels[WORKER_CHANNELS])
{
	struct worker w = {.parts = parts};
	struct channel_thread threads[WORKER_CHANNELS];
	signal(SIGPIPE, SIG_IGN);
	session_guard_install();
	process_set_init(&w.set);
	link_init(&w.link, link);
	files.fd = files_link;
	w.ctx = parts->begin(&w.set, open_file);
	if (!w.ctx || !start_serving(&w, threads, channels))
		return WORKER_FAILED;
	process_set_start_heartbeat(&w.set, NULL);
	while (!w.stop) {
		struct pollfd p = {.fd = link, .events = POLLIN};
		poll(&p, 1, TICK_MS);
		take_messages(&w);
		now_and_then(&w);
		link_flush(&w.link);
		uint64_t since = parts->busy_since_ns(w.ctx);
		if (since && monotonic_ns() > since + QUESTION_NS)
			return WORKER_HUNG;
	}
	return w.failed ? WORKER_FAILED : WORKER_OK; /* the threads end with the process */
}
