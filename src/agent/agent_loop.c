/* The supervisor's loop. Everything that processes have is in their session files already: the agent is needed to keep
 * what would go with a machine's memory (recordings of processes that ended), to notice how they ended, and to see
 * peaks between scrapes. It may be killed and started again at any time; nothing is lost but how the processes ended
 * that did so meanwhile.
 *
 * It may be root's, and the session files are anybody's. So this process finds files, holds pidfds and opens what
 * others may have, but reads nothing of a file beyond its copied header: workers do that (worker_loop.c), and the
 * network is answered by a process without privileges. It has one thread, waits for nobody, and sleeps until a process
 * ends, a worker says something, a signal comes or a short tick is over. */
#include "agent/agent_loop.h"

#include "agent/confinement.h"
#include "agent/supervisor.h"
#include "hosted/monotonic.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull
#define TICK_MS 50
#define SLOW_EVERY_NS                                                                              \
	(1000 * MS) /* what is to be dropped, and what the server shows of the agent */
#define TRIM_EVERY_NS (10000 * MS)
#define CHECK_EVERY_NS (10000 * MS)
#define LOOK_NS (20 * MS)
#define LIMIT_EVERY_NS (60000 * MS)
#define LEAVE_NS (15000 * MS) /* for programs that were attached to */
#define LINK_KEY (1ull << 63) /* in epoll, where a process has its key */

enum {
	PLACES = 16384,     /* processes at once, ended ones included */
	MESSAGES_MOST = 64, /* taken in one go */
	OTHER_FILES = 256,  /* descriptors that are not processes' */
	START_MS = 30000,   /* for the server to begin */
	WAITING_MOST = 64,  /* messages to one worker that it has not taken */
	STOP_MS = 5000,     /* and to end */
};

void supervisor_say(const struct supervisor *a, const char *fmt, ...)
{
	char text[1600];
	va_list args;
	if (!a->o->say)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	a->o->say(text);
}

/* ---- the list */

static struct supervised *find_key(const struct supervisor *a, uint64_t key)
{
	uint32_t low = 0, high = a->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (a->list[middle]->key < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low < a->count && a->list[low]->key == key ? a->list[low] : NULL;
}

bool supervisor_tell_worker(struct supervisor *a, struct supervised *c)
{
	struct worker_seat *s = c->seat;
	if (!s->number || c->told == s->number || c->saved)
		return true;
	const struct link *l = &s->link;
	if (l->waiting.count - l->first_waiting >= WAITING_MOST)
		return true; /* later: each takes a descriptor while it waits */
	int fd = supervised_file(c, a->dir.fd);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE; /* later */
	const struct link_message m = {.kind = LINK_TAKE,
				       .key = c->key,
				       .pid = c->pid,
				       .named_pid = c->named_pid,
				       .start_tsc = c->start_tsc,
				       .running = c->running,
				       .attached = c->attached != 0,
				       .limit_bytes = c->limit_bytes,
				       .limit_is_cgroup = c->limit_is_cgroup};
	link_send(&s->link, &m, &fd, 1);
	c->told = s->number;
	return true;
}

void supervisor_tell_front(struct supervisor *a, const struct supervised *c)
{
	const struct link_message m = {.kind = LINK_PROCESS,
				       .key = c->key,
				       .pid = c->pid,
				       .uid = c->file.uid,
				       .running = c->running,
				       .worker = c->told};
	link_send(&a->front, &m, NULL, 0);
}

void supervisor_drop(struct supervisor *a, struct supervised *c)
{
	const struct link_message forget = {.kind = LINK_FORGET, .key = c->key},
				  gone = {.kind = LINK_PROCESS_GONE, .key = c->key};
	uint32_t at = 0;
	while (at < a->count && a->list[at] != c)
		at++;
	a->count--;
	memmove(a->list + at, a->list + at + 1, (a->count - at) * sizeof *a->list);
	link_send(&a->front, &gone, NULL, 0);
	if (c->told && c->told == c->seat->number)
		link_send(&c->seat->link, &forget, NULL, 0);
	if (c->saving) {
		recordings_undo(&a->recordings, c->key);
		c->seat->saving -= c->seat->saving > 0;
	}
	c->seat->processes--;
	supervisor_leave_share(a, c->file.uid);
	supervised_free(c);
}

void supervisor_end_process(struct supervisor *a, struct supervised *c)
{
	c->running = false;
	c->ended_mono_ns = monotonic_ns();
	if (c->pidfd >= 0)
		epoll_ctl(a->epoll, EPOLL_CTL_DEL, c->pidfd, NULL);
}

/* ---- workers */

static void worker_began(void *ctx, struct worker_seat *s, const int channels[WORKER_CHANNELS])
{
	struct supervisor *a = ctx;
	const struct link_message m = {.kind = LINK_WORKER, .worker = s->number};
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = LINK_KEY};
	link_send(&a->front, &m, channels, WORKER_CHANNELS);
	epoll_ctl(a->epoll, EPOLL_CTL_ADD, s->link.fd, &event);
	epoll_ctl(a->epoll, EPOLL_CTL_ADD, s->files, &event);
}

/* What it had of ended processes is gone with it, but their recordings are there. */
static void worker_ended(void *ctx, struct worker_seat *s, const char *why)
{
	struct supervisor *a = ctx;
	const struct link_message m = {.kind = LINK_WORKER_GONE, .worker = s->number};
	link_send(&a->front, &m, NULL, 0);
	if (why)
		supervisor_say(
			a, "the worker for programs of user %u %s; %s (%u in a row)", s->who.uid,
			why,
			workers_are_held(&a->workers, s)
				? "those before it wait for a file system that does not answer, "
				  "and no other begins until one is gone"
				: "it is started again",
			s->failures);
	for (uint32_t i = 0; i < a->count;) {
		struct supervised *c = a->list[i];
		if (c->seat == s && c->saving)
			supervisor_lose_saving(a, c);
		if (c->seat == s && c->saved) {
			supervisor_drop(a, c);
			continue;
		}
		if (c->seat == s)
			c->told = 0;
		i++;
	}
}

static void worker_said(void *ctx, struct worker_seat *s, const struct link_message *m)
{
	struct supervisor *a = ctx;
	struct supervised *c = find_key(a, m->key);
	if (!c || c->seat != s || c->told != s->number)
		return; /* it is not this worker's to speak of */
	if (m->kind == LINK_SAVED)
		supervisor_take_saved(a, c, m);
	if (m->kind != LINK_SPOILT || c->saved)
		return;
	supervisor_say(
		a, "process %d wrote over the memory it shares with heft: heft no longer reads it",
		c->pid);
	session_dir_drop(&a->dir, c->named_pid, c->start_tsc);
	supervisor_drop(a, c);
}

/* ---- now and then */

static void look_after(struct supervisor *a, struct supervised *c, uint64_t now)
{
	if (now >= c->limit_mono_ns) { /* the baseline of kills for memory is renewed, too */
		uint64_t before = c->limit_bytes;
		supervised_watch_memory(c);
		c->limit_mono_ns = now + LIMIT_EVERY_NS;
		const struct link_message m = {.kind = LINK_LIMIT,
					       .key = c->key,
					       .limit_bytes = c->limit_bytes,
					       .limit_is_cgroup = c->limit_is_cgroup};
		if (c->limit_bytes != before && c->told)
			link_send(&c->seat->link, &m, NULL, 0);
	}
	if (now >= c->check_mono_ns) {
		c->check_mono_ns = now + CHECK_EVERY_NS;
		if (supervisor_was_replaced(a, c)) {
			supervised_ended_as(c, TRACE_END_EXEC, supervised_age_ns(c));
			supervisor_end_process(a, c);
			supervisor_tell_front(a, c);
			attacher_replaced(a, c);
		}
	}
}

/* What is due. A process may have so much mapped that a look takes long: others come to their turn in the next round. */
static void look_after_some(struct supervisor *a, uint64_t now)
{
	for (uint32_t n = 0; n < a->count && monotonic_ns() - now < LOOK_NS; n++) {
		if (a->next_look >= a->count)
			a->next_look = 0;
		struct supervised *c = a->list[a->next_look++];
		if (c->running)
			look_after(a, c, now);
	}
}

/* Processes that their worker does not know yet: it takes its time, or has just begun. */
static void tell_pending(struct supervisor *a)
{
	for (uint32_t i = 0; i < a->count;) {
		struct supervised *c = a->list[i];
		const struct link *l = &c->seat->link;
		bool due = c->seat->number && c->told != c->seat->number && !c->saved &&
			   l->waiting.count - l->first_waiting < WAITING_MOST;
		if (due && !supervisor_tell_worker(a, c)) {
			supervisor_drop(a, c);
			continue;
		}
		if (due)
			supervisor_tell_front(a, c);
		i++;
	}
}

static void tell_state(struct supervisor *a)
{
	struct link_message m = {.kind = LINK_STATE};
	m.state.processes = a->count;
	m.state.refused = a->refused;
	m.state.killed = a->workers.killed;
	m.state.attached = attacher_count(a);
	m.state.attached_ever = a->attacher.attached_ever;
	m.state.attach_refused = a->attacher.refused_ever;
	for (uint32_t i = 0; i < a->workers.count; i++)
		m.state.workers += a->workers.seats[i]->number != 0;
	if (a->front.waiting.count < 1000) /* it will come to it */
		link_send(&a->front, &m, NULL, 0);
}

static void now_and_then(struct supervisor *a)
{
	uint64_t now = monotonic_ns();
	workers_look(&a->workers, now);
	if (now >= a->next_slow_ns) {
		supervisor_drop_old(a, now);
		tell_state(a);
		a->next_slow_ns = now + SLOW_EVERY_NS;
		if (now >= a->next_trim_ns) { /* what malloc keeps goes back to the system */
			malloc_trim(0);
			supervisor_recount(a);
			a->next_trim_ns = now + TRIM_EVERY_NS;
		}
	}
	look_after_some(a, now);
	tell_pending(a);
	attacher_look(a, now);
	supervisor_see_ends(a, now);
	link_flush(&a->front);
}

static void hear_front(struct supervisor *a)
{
	struct link_message m;
	int fds[LINK_DESCRIPTORS];
	int got = 0;
	for (int n = 0; n < MESSAGES_MOST && (got = link_receive(a->front.fd, &m, fds)) > 0; n++)
		for (int i = 0; i < LINK_DESCRIPTORS; i++)
			if (fds[i] >= 0)
				close(fds[i]);
	if (got < 0)
		a->failed = a->stop = true;
}

static void wait_for_events(struct supervisor *a)
{
	struct epoll_event events[64];
	int n = epoll_wait(a->epoll, events, 64, TICK_MS);
	for (int i = 0; i < n; i++) {
		uint64_t key = events[i].data.u64;
		struct supervised *c = key && key != LINK_KEY ? find_key(a, key) : NULL;
		a->attacher.ready |= key == ATTACHER_KEY;
		if (!key) {
			struct signalfd_siginfo taken; /* else it would wait for its time */
			a->stop |= read(a->signals, &taken, sizeof taken) > 0;
		}
		if (c && c->running) {
			supervisor_end_process(a, c);
			supervisor_tell_front(a, c);
		}
	}
	hear_front(a);
}

/* ---- the server */

static int wait_for_server(struct supervisor *a, struct heft_error *err)
{
	struct link_message m;
	int fds[LINK_DESCRIPTORS];
	struct pollfd p = {.fd = a->front.fd, .events = POLLIN};
	int ready;
	while ((ready = poll(&p, 1, START_MS)) < 0 && errno == EINTR)
		;
	if (ready != 1 || link_receive(a->front.fd, &m, fds) != 1)
		return heft_fail(err, HEFT_EIO, "the server of HTTP did not begin");
	if (m.kind != LINK_SERVING)
		return heft_fail(err, m.code ? m.code : HEFT_EIO, "%s", m.text);
	a->o->served(a->o->serve_ctx, m.text);
	return 0;
}

static int start_server(struct supervisor *a, struct heft_error *err)
{
	int pair[2];
	pid_t parent = getpid();
	if (link_pair(pair))
		return heft_fail_errno(err, "cannot start the server of HTTP");
	a->front_pid = fork();
	if (a->front_pid == 0) {
		confinement_keep_descriptors(&pair[1], 1, true);
		_exit(getppid() == parent ? a->o->serve(a->o->serve_ctx, pair[1]) : 1);
	}
	close(pair[1]);
	link_init(&a->front, pair[0]);
	if (a->front_pid < 0)
		return heft_fail_errno(err, "cannot start the server of HTTP");
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = LINK_KEY};
	epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->front.fd, &event);
	return wait_for_server(a, err);
}

static void stop_server(struct supervisor *a)
{
	link_fini(&a->front);
	for (int i = 0; a->front_pid > 0 && i < STOP_MS; i++) {
		if (waitpid(a->front_pid, NULL, WNOHANG))
			return;
		usleep(1000);
	}
	if (a->front_pid > 0) {
		kill(a->front_pid, SIGKILL);
		waitpid(a->front_pid, NULL, 0);
	}
}

int agent_server_confine(struct heft_error *err)
{
	const struct identity who = identity_without_rights();
	static const struct confinement limits = {.name = "heft-server", .network = true};
	if (identity_become(&who) && confinement_enter(&limits, getppid()))
		return 0;
	return heft_fail(err, HEFT_EREFUSED, "the server of HTTP cannot give up its privileges");
}

/* ---- from start to end */

/* The lock is on the directory itself: others may write into it, but not open it. */
static int open_dir(struct supervisor *a, struct heft_error *err)
{
	snprintf(a->dir.path, sizeof a->dir.path, "%s", a->o->dir);
	a->dir.fd = open(a->o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->dir.fd < 0)
		return heft_fail_errno(err, "cannot open the session directory %s", a->o->dir);
	struct stat st;
	if (fstat(a->dir.fd, &st) || (st.st_uid != geteuid() && st.st_uid != 0))
		return heft_fail(err, HEFT_EREFUSED,
				 "the session directory %s belongs to another user\n"
				 "Its owner could replace what the agent reads there. --dir names "
				 "another directory.",
				 a->o->dir);
	if (st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX))
		return heft_fail(err, HEFT_EREFUSED,
				 "others may remove programs' files from the session directory %s\n"
				 "chmod +t %s lets everybody remove only their own.",
				 a->o->dir, a->o->dir);
	if (flock(a->dir.fd, LOCK_EX | LOCK_NB))
		return heft_fail(
			err, HEFT_EREFUSED,
			"another agent has the session directory %s\n"
			"One agent is enough for all processes; --dir names another directory.",
			a->o->dir);
	return 0;
}

static int open_waiting(struct supervisor *a, const sigset_t *signals, struct heft_error *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0};
	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	a->signals = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->epoll < 0 || a->signals < 0 ||
	    epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->signals, &event))
		return heft_fail_errno(err, "cannot wait for events");
	return 0;
}

/* One descriptor a process. */
static void count_places(struct supervisor *a)
{
	struct rlimit files;
	session_allow_files();
	a->places = PLACES;
	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= PLACES + OTHER_FILES)
		return;
	a->places = files.rlim_cur > 2 * OTHER_FILES ? (uint32_t)files.rlim_cur - OTHER_FILES
						     : OTHER_FILES;
	supervisor_say(a,
		       "the limit of open files (%llu) leaves room for %u processes; more are not "
		       "profiled",
		       (unsigned long long)files.rlim_cur, a->places);
}

static int begin(struct supervisor *a, const sigset_t *ending, struct heft_error *err)
{
	int rc = open_dir(a, err);
	if (!rc)
		rc = recordings_open(&a->recordings, a->o->output_dir, a->o->quota_bytes, err);
	if (!rc)
		rc = open_waiting(a, ending, err);
	if (!rc)
		rc = start_server(a, err);
	if (rc)
		return rc;
	count_places(a);
	a->workers = (struct workers){.parts = &a->o->parts,
				      .others = identity_without_rights(),
				      .cache = a->o->cache_dir,
				      .ctx = a,
				      .began = worker_began,
				      .ended = worker_ended,
				      .heard = worker_said,
				      .open_file = supervisor_open_file};
	session_dir_spares(&a->dir);
	attacher_init(a);
	return 0;
}

static bool all_saved(const struct supervisor *a)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->list[i]->attached && !a->list[i]->running && !a->list[i]->saved)
			return false;
	return true;
}

/* Programs that were attached to are left, and what they had is saved. Another signal ends the wait: then their guardians
 * leave by themselves, and the next agent finds their files. */
static void leave_programs(struct supervisor *a)
{
	uint64_t until = monotonic_ns() + LEAVE_NS;
	a->stop = a->failed;
	attacher_leave_all(a);
	while (!a->stop && monotonic_ns() < until && !(attacher_is_done(a) && all_saved(a))) {
		now_and_then(a);
		wait_for_events(a);
	}
}

static void end(struct supervisor *a)
{
	attacher_fini(a);
	workers_fini(&a->workers);
	stop_server(a);
	supervisor_stop_scan(a);
	looker_fini(&a->looker);
	for (uint32_t i = 0; i < a->count; i++) {
		if (a->list[i]->saving)
			recordings_undo(&a->recordings, a->list[i]->key);
		supervised_free(a->list[i]);
	}
	free(a->list);
	free(a->unseen);
	hash_index_fini(&a->known);
	vector_free(&a->shares);
	recordings_close(&a->recordings);
	for (int i = 0; i < 3; i++) {
		int fd = (int[]){a->dir.fd, a->epoll, a->signals}[i];
		if (fd >= 0)
			close(fd);
	}
}

int agent_run(const struct agent_options *o, struct heft_error *err)
{
	struct supervisor a = {.o = o, .dir.fd = -1, .epoll = -1, .signals = -1, .front.fd = -1};
	sigset_t ending, blocked, before;
	sigemptyset(&ending);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	blocked = ending;
	sigaddset(&blocked, SIGIO); /* of leases (owner.c) */
	sigaddset(&blocked, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	looker_init(&a.looker);
	int rc = begin(&a, &ending, err);
	while (!rc && !a.stop) {
		supervisor_scan(&a);
		now_and_then(&a);
		wait_for_events(&a);
	}
	if (!rc && a.attacher.held.count)
		leave_programs(&a);
	if (!rc && a.failed)
		rc = heft_fail(err, HEFT_EIO, "the server of HTTP has ended: heft agent ends, too");
	end(&a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}
