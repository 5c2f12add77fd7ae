/* The agent's loop. Everything that processes have is in their session files already:
 * the agent is needed to keep what would go with a machine's memory (recordings of
 * processes that ended), to notice how they ended, and to see peaks between scrapes.
 * It may be killed and started again at any time; nothing is lost but how the
 * processes ended that did so meanwhile.
 *
 * It sleeps until a process ends, a signal comes or a short tick is over. What is
 * done at a tick costs a few loads for a quiet process. Files that make no sense are
 * left alone. Others may put anything into the directory at any rate: looking it
 * through takes a tenth of the time at most, and whatever costs more than a look
 * (searching /proc, saving) is done a few times a round. */
#include "agent/agent_loop.h"

#include "agent/agent_process.h"
#include "agent/sampled.h"
#include "hosted/monotonic.h"
#include "hosted/program_name.h"
#include "hosted/vector.h"
#include "session/process_memory.h"
#include "session/session_dir.h"
#include "session/session_guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define TICK_MS 50
#define PEAK_EVERY_NS (250 * MS)
#define SLOW_EVERY_NS (1000 * MS)      /* resident memory, budgets, what is to be dropped */
#define RESCAN_NS (1000 * MS)          /* for files that were not ready */
#define STATUS_PATIENCE_NS (2000 * MS) /* for a parent to wait for its child */
#define RETRY_SAVE_NS (60000 * MS)
#define CHECK_EVERY_NS (10000 * MS)
#define LIMIT_EVERY_NS (60000 * MS)
#define UNSEEN_AGAIN_NS (60000 * MS)
#define ENDING_AGAIN_NS (500 * MS)
#define TRIM_EVERY_NS (10000 * MS)

enum {
	PROCESSES_MOST = 8192, /* processes at once, ended ones included */
	SCAN_MOST = 32768,     /* files looked at in one go */
	TAKE_MOST = 64,        /* taken in one go, so that the loop comes round */
	SAVE_MOST = 8,         /* saved in one go */
	UNSEEN_MOST = 8,       /* searched for in vain in one go */
	ENDING_LOOKS = 4, /* a process that is just ending cannot be seen either: not for long */
	UNSEEN_KNOWN =
		4096, /* files whose process cannot be seen: remembered, not searched for again */
	SIGNALS_KEY = 0, /* in epoll, where a process has its key */
};

struct unseen {
	int32_t named_pid;
	uint64_t start_tsc, again_ns;
	uint32_t looks;
};

struct agent {
	const struct agent_options *o;
	struct session_dir dir;
	struct agent_process *list; /* running or ended, in the order they came */
	uint32_t count, capacity;
	int epoll, signals;
	bool stop;
	bool rescan, more;     /* some file was not ready; there are more to take */
	struct unseen *unseen; /* a ring */
	uint32_t unseen_count;
	bool said_full, said_unseen;
	bool saved_some; /* since memory was last given back */
	bool ends_left;  /* there are more to save than in one go */
	uint64_t scan_again_ns, scan_not_before_ns;
	uint64_t next_peak_ns, next_slow_ns, next_trim_ns;
};

static void say(const struct agent *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(const struct agent *a, const char *fmt, ...)
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

/* Its name and executable for a line of the log: a file may claim any bytes. */
static const char *name_of(const struct process *p, char name[200])
{
	program_words(name, 200, p->entry.facts.exe,
		      p->entry.facts.argc ? p->entry.facts.argv[0] : NULL);
	for (char *c = name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	return name;
}

/* ---- taking files */

static struct agent_process *find_process(struct agent *a, int32_t named_pid, uint64_t start_tsc)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->list[i].named_pid == named_pid && a->list[i].process->start_tsc == start_tsc)
			return &a->list[i];
	return NULL;
}

static void end_process(struct agent *a, struct agent_process *c)
{
	c->running = false;
	c->ended_mono_ns = monotonic_ns();
	if (c->process->pidfd >= 0)
		epoll_ctl(a->epoll, EPOLL_CTL_DEL, c->process->pidfd, NULL);
}

/* The same process again: it was replaced by exec. */
static void end_image_before(struct agent *a, const struct agent_process *c)
{
	for (uint32_t i = 0; i < a->count; i++) {
		struct agent_process *b = &a->list[i];
		uint64_t start = b->process->view.session.header->start_mono_ns;
		uint64_t end = c->process->view.session.header->start_mono_ns;
		if (!b->running || b->process->pid != c->process->pid)
			continue;
		process_ended_as(b->process, TRACE_END_EXEC, end > start ? end - start : 0);
		end_process(a, b);
	}
}

static void take(struct agent *a, const struct agent_process *c)
{
	struct process *p = c->process;
	char name[200];
	if (!c->running) /* all that is left to look at */
		process_look_at_program(p);
	if (!array_reserve(a->list, a->count, a->capacity, 1) || process_set_add(a->o->set, p)) {
		process_free(p); /* no memory: its file stays, and another look will come */
		return;
	}
	if (c->running)
		end_image_before(a, c);
	struct agent_process *own = &a->list[a->count++];
	*own = *c;
	if (a->o->verbose)
		say(a, "process %d (%s): %s", p->pid, name_of(p, name),
		    c->running ? "found" : "ended before this agent looked");
	if (!c->running) {
		process_ended_as(p, TRACE_END_UNKNOWN, sampled_last_seen_ns(p));
		end_process(a, own);
		return;
	}
	process_watch_memory(p);
	own->limit_mono_ns = monotonic_ns() + LIMIT_EVERY_NS;
	own->check_mono_ns = monotonic_ns() + CHECK_EVERY_NS;
	process_watch_rss(p);
	process_begin_memory(p, NULL); /* of a fork: what it has now is its parent's, nearly all */
	process_look_for_allocator(p, 0);
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = p->place.key};
	epoll_ctl(a->epoll, EPOLL_CTL_ADD, p->pidfd, &event);
}

/* How long ago the file was made or last changed its size: one that is not ready after a while will
 * never be. */
static bool is_young(const struct agent *a, const char *name)
{
	struct stat st;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return !fstatat(a->dir.fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       now.tv_sec - st.st_ctim.tv_sec < 10;
}

static struct unseen *find_unseen(struct agent *a, int32_t named_pid, uint64_t start_tsc)
{
	uint32_t known = a->unseen_count < UNSEEN_KNOWN ? a->unseen_count : UNSEEN_KNOWN;
	for (uint32_t i = 0; i < known; i++)
		if (a->unseen[i].named_pid == named_pid && a->unseen[i].start_tsc == start_tsc)
			return &a->unseen[i];
	return NULL;
}

static void remember_unseen(struct agent *a, int32_t named_pid, uint64_t start_tsc,
			    const char *name)
{
	struct unseen *u = find_unseen(a, named_pid, start_tsc);
	uint32_t looks = u ? u->looks + 1 : 1;
	bool ending = looks < ENDING_LOOKS;
	if (!u)
		u = &a->unseen[a->unseen_count++ % UNSEEN_KNOWN];
	*u = (struct unseen){named_pid, start_tsc,
			     monotonic_ns() + (ending ? ENDING_AGAIN_NS : UNSEEN_AGAIN_NS), looks};
	a->rescan = true;
	if (ending)
		return;
	if (!a->said_unseen)
		say(a,
		    "%s/%s is in use by a process that cannot be seen from here\n"
		    "The agent has to share the pid namespace of the programs' host "
		    "(docs/always-on.md).",
		    a->o->dir, name);
	a->said_unseen = true;
}

/* One pass through the directory */
struct looking {
	uint32_t looked, taken, unseen;
};

static void look_at_file(struct agent *a, const char *name, struct looking *l)
{
	struct agent_process c;
	int32_t pid;
	uint64_t start_tsc;
	l->looked++;
	if (!session_file_name(name, &pid, &start_tsc) || find_process(a, pid, start_tsc))
		return;
	struct unseen *u = find_unseen(a, pid, start_tsc);
	if (u && monotonic_ns() < u->again_ns) {
		a->rescan = true;
		return;
	}
	switch (agent_process_open(&c, a->dir.fd, name)) {
	case AGENT_TAKEN:
		take(a, &c);
		l->taken++;
		break;
	case AGENT_LATER: a->rescan |= is_young(a, name); break;
	case AGENT_UNSEEN:
		remember_unseen(a, pid, start_tsc, name);
		l->unseen++;
		break;
	case AGENT_NOTHING: break;
	}
}

static void scan(struct agent *a)
{
	uint64_t begun = monotonic_ns();
	bool changed = session_dir_changed(&a->dir);
	if (begun < a->scan_not_before_ns ||
	    !(changed || a->more || (a->rescan && begun >= a->scan_again_ns))) {
		a->more |= changed;
		return;
	}
	DIR *dir = fdopendir(openat(a->dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;
	struct looking l = {0};
	a->rescan = a->more = false;
	while (dir && l.looked < SCAN_MOST && l.taken < TAKE_MOST && l.unseen < UNSEEN_MOST &&
	       a->count < PROCESSES_MOST && (e = readdir(dir)))
		look_at_file(a, e->d_name, &l);
	if (dir)
		closedir(dir);
	a->more = l.taken == TAKE_MOST || l.unseen == UNSEEN_MOST;
	if ((l.looked == SCAN_MOST || a->count == PROCESSES_MOST) && !a->said_full) {
		say(a, "%s has more session files than this agent can hold: it holds %u processes",
		    a->o->dir, a->count);
		a->said_full = true;
	}
	if (l.taken)
		session_dir_spares(&a->dir);
	uint64_t now = monotonic_ns();
	a->scan_again_ns = now + RESCAN_NS;
	a->scan_not_before_ns = now + 9 * (now - begun);
}

/* ---- ends */

/* From now on its profile is the one that was saved. */
static void keep_rest(struct process *p, const struct sampled_sums *sums, const char *path)
{
	size_t n = strlen(path) + 1;
	struct process_rest *rest = malloc(sizeof *rest + n);
	if (!rest)
		return; /* then it keeps its samples */
	rest->sums = *sums;
	memcpy(rest->recording, path, n);
	atomic_store(&p->samples.rest, rest);
}

static void drop_samples(struct agent *a, struct agent_process *c)
{
	if (!c->dropped && c->saved && (c->blind || atomic_load(&c->process->samples.rest)))
		c->dropped = process_set_drop_samples(a->o->set, c->process);
}

/* Those that somebody was looking at when they were saved. And what malloc keeps of the memory that was
 * needed to save some, or to make profiles, goes back to the system. */
static void drop_rests(struct agent *a, uint64_t now)
{
	for (uint32_t i = 0; i < a->count; i++)
		drop_samples(a, &a->list[i]);
	if (!a->saved_some && now < a->next_trim_ns)
		return;
	malloc_trim(0);
	a->saved_some = false;
	a->next_trim_ns = now + TRIM_EVERY_NS;
}

/* Saves what it had. A process that never had a sample is not worth a file. If heft could not see
 * into it, it is kept and says that. */
static void save(struct agent *a, struct agent_process *c)
{
	struct process *p = c->process;
	struct sampled_sums sums;
	struct heft_error err = {0};
	char path[4096], how[200], name[200], reason[2048];
	process_look_at_program(p); /* it may have ended before it was looked at */
	sampled_sums(p, &sums);
	c->blind = process_sight(p, &sums, reason, sizeof reason) == PROCESS_BLIND;
	c->empty = !sums.samples && !c->blind;
	if (sums.samples) {
		if (agent_process_save(c, a->o->output_dir, path, sizeof path, &err)) {
			if (!c->retry_mono_ns)
				say(a, "process %d (%s) cannot be saved: %s", p->pid,
				    name_of(p, name), err.message);
			c->retry_mono_ns = monotonic_ns() + RETRY_SAVE_NS;
			return;
		}
		keep_rest(p, &sums, path);
		process_end_words(&p->entry.facts, how, sizeof how);
		say(a, "process %d (%s): %s; its last profile: %s", p->pid, name_of(p, name), how,
		    path);
	}
	c->saved = a->saved_some = true;
	session_dir_drop(&a->dir, c->named_pid, p->start_tsc);
	drop_samples(a, c);
}

/* Whether something was saved, or tried. */
static bool see_end(struct agent *a, struct agent_process *c, uint64_t now)
{
	if (c->process->entry.facts.end == TRACE_END_RUNNING &&
	    !agent_process_learn_end(c, now - c->ended_mono_ns > STATUS_PATIENCE_NS))
		return false;
	if (now < c->retry_mono_ns)
		return false;
	save(a, c);
	return true;
}

static void drop(struct agent *a, uint32_t at)
{
	struct process *p = a->list[at].process;
	a->count--;
	memmove(a->list + at, a->list + at + 1, (a->count - at) * sizeof *a->list);
	process_set_remove(a->o->set, p);
}

/* Those that ended and were saved stay for a while; those that ended first go first. */
static void drop_old(struct agent *a, uint64_t now)
{
	for (;;) {
		uint32_t kept = 0, first = UINT32_MAX;
		for (uint32_t i = 0; i < a->count; i++) {
			struct agent_process *c = &a->list[i];
			if (!c->saved)
				continue;
			kept++;
			if (c->empty) /* before any other */
				c->ended_mono_ns = 0;
			if (first == UINT32_MAX || c->ended_mono_ns < a->list[first].ended_mono_ns)
				first = i;
		}
		if (first == UINT32_MAX || (!a->list[first].empty && kept <= a->o->keep_count &&
					    now - a->list[first].ended_mono_ns <= a->o->keep_ns))
			return;
		drop(a, first);
	}
}

/* Its pages are no longer what a session file has: it was cut, or written over. */
static bool is_spoilt(const struct process *p)
{
	return atomic_load(&p->view.session.header->magic) != WIRE_MAGIC;
}

static void see_ends(struct agent *a, uint64_t now)
{
	uint32_t saved = 0;
	for (uint32_t i = 0; i < a->count && saved < SAVE_MOST;) {
		struct agent_process *c = &a->list[i];
		if (!c->saved && is_spoilt(c->process)) {
			say(a,
			    "process %d wrote over the memory it shares with heft: heft no longer "
			    "reads it",
			    c->process->pid);
			session_dir_drop(&a->dir, c->named_pid, c->process->start_tsc);
			drop(a, i);
			continue;
		}
		if (!c->running && !c->saved)
			saved += see_end(a, c, now);
		i++;
	}
	a->ends_left = saved == SAVE_MOST;
}

/* ---- now and then */

static void look_after(struct agent *a, struct agent_process *c, uint64_t now)
{
	struct process *p = c->process;
	uint64_t start = p->view.session.header->start_mono_ns;
	process_read_rss(p, now > start ? now - start : 0, 0);
	process_look_for_allocator(p, now > start ? now - start
						  : 0); /* who asks later may come too late */
	sampled_follow_budget(p);
	if (now >= c->limit_mono_ns) { /* the baseline of kills for memory is renewed, too */
		process_watch_memory(p);
		c->limit_mono_ns = now + LIMIT_EVERY_NS;
	}
	if (now >= c->check_mono_ns) {
		c->check_mono_ns = now + CHECK_EVERY_NS;
		if (agent_process_was_replaced(c)) {
			process_ended_as(p, TRACE_END_EXEC, now > start ? now - start : 0);
			end_process(a, c);
		}
	}
}

static void now_and_then(struct agent *a)
{
	uint64_t now = monotonic_ns();
	bool peak = now >= a->next_peak_ns, slow = now >= a->next_slow_ns;
	for (uint32_t i = 0; i < a->count; i++) {
		struct agent_process *c = &a->list[i];
		if (c->running && a->o->answer)
			answer_call(c->process, a->o->answer, a->o->answer_ctx);
		if (c->running && peak)
			sampled_see_peak(c->process);
		if (c->running && slow)
			look_after(a, c, now);
	}
	if (peak)
		a->next_peak_ns = now + PEAK_EVERY_NS;
	if (slow) {
		drop_old(a, now);
		drop_rests(a, now);
		a->next_slow_ns = now + SLOW_EVERY_NS;
	}
	see_ends(a, now);
}

static void wait_for_events(struct agent *a)
{
	struct epoll_event events[64];
	int n = epoll_wait(a->epoll, events, 64, a->ends_left ? 0 : TICK_MS);
	for (int i = 0; i < n; i++) {
		if (events[i].data.u64 == SIGNALS_KEY) {
			struct signalfd_siginfo taken; /* else it would wait for its time */
			a->stop |= read(a->signals, &taken, sizeof taken) > 0;
			continue;
		}
		for (uint32_t k = 0; k < a->count; k++)
			if (a->list[k].process->place.key == events[i].data.u64 &&
			    a->list[k].running)
				end_process(a, &a->list[k]);
	}
}

/* ---- from start to end */

/* The lock is on the directory itself: others may write into it, but not open it. */
static int open_dir(struct agent *a, struct heft_error *err)
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
	if (flock(a->dir.fd, LOCK_EX | LOCK_NB))
		return heft_fail(
			err, HEFT_EREFUSED,
			"another agent has the session directory %s\n"
			"One agent is enough for all processes; --dir names another directory.",
			a->o->dir);
	return 0;
}

static int open_waiting(struct agent *a, const sigset_t *signals, struct heft_error *err)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = SIGNALS_KEY};
	a->epoll = epoll_create1(EPOLL_CLOEXEC);
	a->signals = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (a->epoll < 0 || a->signals < 0 ||
	    epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->signals, &event))
		return heft_fail_errno(err, "cannot wait for events");
	return 0;
}

int agent_run(const struct agent_options *o, struct heft_error *err)
{
	struct agent a = {.o = o, .dir.fd = -1, .epoll = -1, .signals = -1};
	sigset_t ending, blocked, before;
	sigemptyset(&ending);
	sigaddset(&ending, SIGINT);
	sigaddset(&ending, SIGTERM);
	blocked = ending;
	sigaddset(&blocked, SIGIO); /* of leases (owner.c) */
	sigaddset(&blocked, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	session_guard_install();
	session_allow_files();
	a.unseen = calloc(UNSEEN_KNOWN, sizeof *a.unseen);
	int rc = a.unseen ? open_dir(&a, err) : heft_fail(err, HEFT_ENOMEM, "out of memory");
	if (!rc)
		rc = open_waiting(&a, &ending, err);
	if (!rc && o->ready)
		rc = o->ready(o->ready_ctx, err);
	if (!rc) {
		session_dir_spares(&a.dir);
		process_set_start_heartbeat(o->set, NULL);
		while (!a.stop) {
			scan(&a);
			now_and_then(&a);
			wait_for_events(&a);
		}
		process_set_stop_heartbeat(o->set);
	}
	free(a.list);
	free(a.unseen);
	for (int i = 0; i < 3; i++) {
		int fd = (int[]){a.dir.fd, a.epoll, a.signals}[i];
		if (fd >= 0)
			close(fd);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}
