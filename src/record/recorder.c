/* The recorder's loop: launch the command, find the processes of the session,
 * drain them, see them end, close the file.
 *
 * It sleeps between rounds and takes whole batches: a consumer that is always
 * there fights the program for its cache lines. Rounds are about a millisecond
 * apart while there is much to read, more when there is little.
 *
 * The program's fate is not ours: if the disk is full or memory runs out, the
 * draining goes on so that no thread waits, and the user is told at the end. */
#include "record/recorder.h"

#include "hosted/monotonic.h"
#include "hosted/number_words.h"
#include "record/answer_call.h"
#include "record/drain.h"
#include "record/memory_limit.h"
#include "record/process_set.h"
#include "record/sampled.h"
#include "record/session_dir.h"
#include "record/session_guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	ROUND_MIN_US = 700,
	ROUND_QUIET_US = 5000,
	ROUND_MAX_US = 20000,
	ROUND_EVENTS = 8000, /* as many make a round worth its while */
	BUSY_EVENTS = 150000, /* a round this full is followed by the next one at once */
	RSS_EVERY_MS = 10,
	FLUSH_EVERY_MS = 1000,
	CHECKPOINT_EVERY_MS = 10000,
	CHECKPOINT_EVENTS = 4 << 20,
	PEAK_EVERY_MS = 50,	 /* sampled processes: how often to look for a new maximum */
	SAMPLES_EVERY_MS = 2000, /* and to write down what they have, */
	SAMPLES_SELDOM_MS = 300000, /* less often as time goes by: each time it is all of it */
	LATE_CHILD_MS = 300, /* a child that was forked but has not come yet is waited for */
	CALLS_EVERY_MS = 20,	/* heft_pprof_dump: how often to look */
	BUDGET_EVERY_MS = 1000, /* sampled processes: what it costs, and a better rate */
	FOUND_AT_ONCE = 256,
};

struct recorder {
	const struct recorder_options *o;
	struct recorder_result *result;
	struct session_dir dir;
	struct trace_writer *writer;
	struct drain drain;
	struct process_set *set, own_set;
	pid_t child;
	bool child_ended;
	uint64_t child_end_ns;
	long own_maxrss;       /* of the recorder when it forked, in KiB */
	uint64_t child_maxrss; /* bytes; 0: not known */
	int signals;
	bool stop;     /* the user wants no more */
	bool full;     /* the recording has the size that it may have: the program goes on without */
	uint64_t full_ns;
	bool told_daemons;
	bool child_signal; /* something ended since the last look: do not sleep over it */
	bool rescan; /* a file was not ready: look again */
	uint64_t next_peak_ns, next_samples_ns, next_budget_ns, next_call_ns;
	uint64_t next_rss_ns, next_flush_ns, next_checkpoint_ns, checkpoint_events;
	uint64_t last_alive_ns; /* when a process was last seen running */
};

/* ---- launching */

static void expand(const char *pattern, const char *exe, pid_t pid, char *out, size_t size)
{
	size_t n = 0;
	const char *slash = strrchr(exe, '/');
	const char *base = slash ? slash + 1 : exe;
	for (const char *c = pattern; *c && n + 1 < size; c++) {
		char piece[256] = {*c, 0};
		if (*c == '%' && (c[1] == 'e' || c[1] == 'p' || c[1] == 't' || c[1] == '%')) {
			c++;
			time_t now = time(NULL);
			struct tm tm;
			if (*c == 'e')
				snprintf(piece, sizeof piece, "%.200s", base);
			else if (*c == 'p')
				snprintf(piece, sizeof piece, "%d", (int)pid);
			else if (*c == 't')
				strftime(piece, sizeof piece, "%Y%m%dT%H%M%S", localtime_r(&now, &tm));
		}
		n += (size_t)snprintf(out + n, size - n, "%s", piece);
	}
	out[n < size ? n : size - 1] = 0;
}

/* The child waits for the word that the recording's file is open, then executes. What it fails with
 * comes back through `report`. */
static void child_main(const struct recorder_options *o, char **env, int go, int report,
		       const sigset_t *mask)
{
	char word;
	if (read(go, &word, 1) != 1)
		_exit(125);
	close(go);
	if (o->in_child)
		o->in_child();
	pthread_sigmask(SIG_SETMASK, mask, NULL);
	execvpe(o->plan->path, o->argv, env);
	int e = errno;
	if (write(report, &e, sizeof e) < 0)
		_exit(126);
	_exit(e == ENOENT ? 127 : 126);
}

static int launch(struct recorder *r, const sigset_t *mask, struct heft_error *err)
{
	const struct recorder_options *o = r->o;
	int go[2] = {-1, -1}, report[2] = {-1, -1};
	char session[300];
	snprintf(session, sizeof session, WIRE_ENV_SESSION "=%s", r->dir.path);
	char sample[64];
	const char *settings[4] = {session}; /* NULL ends them */
	int count = 1;
	if (!o->follow)
		settings[count++] = WIRE_ENV_FOLLOW "=none";
	if (o->sample_automatic)
		settings[count++] = WIRE_ENV_SAMPLE "=auto";
	else if (o->sample_bytes) {
		snprintf(sample, sizeof sample, WIRE_ENV_SAMPLE "=%" PRIu64, o->sample_bytes);
		settings[count++] = sample;
	}
	char **env = launch_environment(environ, o->preload, settings);
	int rc = 0;
	if (!env)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	if (pipe2(go, O_CLOEXEC) || pipe2(report, O_CLOEXEC)) {
		rc = heft_fail_errno(err, "cannot make a pipe");
		goto out;
	}
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	r->own_maxrss = usage.ru_maxrss;
	r->child = fork();
	if (r->child < 0) {
		rc = heft_fail_errno(err, "cannot start a process");
		goto out;
	}
	if (r->child == 0) {
		close(go[1]);
		child_main(o, env, go[0], report[1], mask);
	}
	close(report[1]);
	report[1] = -1;
	expand(o->output ? o->output : "heft.%e.%p.heft", o->plan->path, r->child, r->result->path,
	       sizeof r->result->path);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	struct memory_groups groups;
	bool limit_is_cgroup = false;
	memory_groups_of("/proc", "self", &groups);
	uint64_t limit = memory_limit("/proc", "/sys/fs/cgroup", &groups, &limit_is_cgroup);
	struct trace_meta meta = {
		.memory_limit_bytes = limit,
		.limit_is_cgroup = limit_is_cgroup,
		.heft_version = HEFT_VERSION,
		.start_unix_ns = now.tv_sec * 1000000000ll + now.tv_nsec,
		.argv = o->argv,
		.argc = (uint32_t)o->argc,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.tick_ns = 2048,
	};
	rc = trace_writer_open(&r->writer, r->result->path, o->force, &meta, err);
	if (rc) {
		r->result->path[0] = 0;
		close(go[1]);
		go[1] = -1;
		waitpid(r->child, NULL, 0);
		goto out;
	}
	drain_init(&r->drain, r->writer);
	if (write(go[1], "g", 1) != 1)
		rc = heft_fail_errno(err, "cannot start %s", o->argv[0]);
	int failed_with = 0;
	if (!rc && read(report[0], &failed_with, sizeof failed_with) == sizeof failed_with) {
		waitpid(r->child, NULL, 0);
		errno = failed_with;
		heft_fail_errno(err, "cannot execute %s", o->plan->path);
		rc = failed_with == ENOENT ? HEFT_ENOTFOUND : HEFT_ENOEXEC;
	}
	if (rc) { /* nothing was recorded: leave no file behind */
		trace_writer_abandon(r->writer);
		r->writer = NULL;
		unlink(r->result->path);
		r->result->path[0] = 0;
		drain_fini(&r->drain);
	} else
		r->result->launched = true;
out:
	for (int i = 0; i < 2; i++) {
		if (go[i] >= 0)
			close(go[i]);
		if (report[i] >= 0)
			close(report[i]);
	}
	free(env);
	return rc;
}

/* ---- the processes of the session */

static void note(struct recorder *r, uint32_t kind, uint32_t process, const char *text)
{
	struct trace_note n = {kind, process, drain_now_ns(&r->drain), text};
	trace_writer_note(r->writer, &n);
}

static void add_process(struct recorder *r, struct process *p)
{
	if (r->full) {
		atomic_store(&p->session.header->state, WIRE_OFF);
		process_free(p);
		return;
	}
	/* The same pid again: the image before has been replaced by exec. */
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *q = r->set->list[i];
		if (q->pid == p->pid && !q->ended) {
			q->ended = true;
			process_ended_as(q, TRACE_END_EXEC, drain_now_ns(&r->drain));
		}
		if (p->child && q->pid == p->facts.ppid)
			q->children_seen++;
	}
	p->index = r->set->count;
	p->direct = p->pid == r->child;
	if (p->direct) /* it may have gone into a cgroup of its own before it called exec */
		process_watch_memory(p);
	uint64_t start = p->start_tsc;
	p->facts.start_ns = start > r->drain.clock.tsc0
				    ? (uint64_t)((unsigned __int128)(start - r->drain.clock.tsc0) *
						 r->drain.clock.mult >> 32)
				    : 0;
	if (process_set_add(r->set, p)) {
		process_free(p);
		return;
	}
	trace_writer_process(r->writer, &p->facts);
	const struct launch_plan *plan = r->o->plan;
	bool planned = p->direct && plan->own_malloc_text[0];
	if (p->session.header->own_malloc || planned) {
		char text[1024];
		if (planned)
			snprintf(text, sizeof text, "%s", plan->own_malloc_text);
		else
			snprintf(text, sizeof text,
				 "%s defines malloc itself: what it allocates there is not seen.\n"
				 "Build it with the system's allocator, or link the allocator as a "
				 "shared library.",
				 p->facts.exe);
		note(r, TRACE_NOTE_OWN_MALLOC, p->index, text);
	}
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/statm", p->pid);
	p->statm_fd = open(path, O_RDONLY | O_CLOEXEC);
	r->next_rss_ns = 0;
	if (r->o->verbose && r->o->say) {
		char text[512];
		snprintf(text, sizeof text, "recording process %d (%s), %s by %d", p->pid, p->facts.exe,
			 p->child ? "forked" : "started", p->facts.ppid);
		r->o->say(text);
	}
}

static int by_start(const void *a, const void *b)
{
	uint64_t x = (*(struct process *const *)a)->start_tsc;
	uint64_t y = (*(struct process *const *)b)->start_tsc;
	return x < y ? -1 : x > y;
}

/* Only of processes that run: the files of others are gone. */
static bool has_file(const struct process_set *set, const char *name)
{
	int32_t pid;
	uint64_t start_tsc;
	session_file_name(name, &pid, &start_tsc);
	for (uint32_t i = 0; i < set->count; i++)
		if (set->list[i]->pid == pid && set->list[i]->start_tsc == start_tsc)
			return true;
	return false;
}

/* Takes every file of the session directory that is ready, the oldest first: a parent before its
 * child, an image before the one that replaces it. A file that was taken is removed: the
 * mapping is what counts, and nothing is left behind if we are killed. One of a sampled process
 * stays until its end, so that heft ctl finds it. */
static void find_processes(struct recorder *r)
{
	if (!session_dir_changed(&r->dir) && !r->rescan && !r->child_ended)
		return;
	r->rescan = false;
	DIR *dir = fdopendir(openat(r->dir.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (!dir)
		return;
	struct dirent *e;
	struct process *found[FOUND_AT_ONCE];
	size_t n = 0;
	while (n < FOUND_AT_ONCE && (e = readdir(dir))) {
		if (e->d_name[0] == '.' ||
		    !strncmp(e->d_name, WIRE_SPARE_NAME, sizeof WIRE_SPARE_NAME - 1))
			continue;
		struct heft_error err;
		if (has_file(r->set, e->d_name))
			continue;
		int rc = process_open(&found[n], r->dir.fd, e->d_name, &err);
		if (rc == HEFT_ENOTFOUND) {
			r->rescan = true;
			continue;
		}
		if (rc || !found[n]->sampled)
			unlinkat(r->dir.fd, e->d_name, 0);
		n += !rc;
	}
	r->rescan |= n == FOUND_AT_ONCE;
	closedir(dir);
	if (n)
		session_dir_spares(&r->dir);
	qsort(found, n, sizeof *found, by_start);
	for (size_t i = 0; i < n; i++)
		add_process(r, found[i]);
}

static bool has_ended(const struct process *p)
{
	if (p->pidfd < 0)
		return kill(p->pid, 0) && errno == ESRCH;
	struct pollfd f = {.fd = p->pidfd, .events = POLLIN};
	return poll(&f, 1, 0) > 0;
}

static void reap_child(struct recorder *r)
{
	int status;
	struct rusage usage;
	if (r->child_ended || wait4(r->child, &status, WNOHANG, &usage) != r->child)
		return;
	r->child_ended = true;
	r->result->status = status;
	r->child_end_ns = drain_now_ns(&r->drain);
	/* What sampling missed. The kernel's maximum includes what the child was before it executed the
	 * command, a copy of us: below that it says nothing. */
	if (usage.ru_maxrss > r->own_maxrss)
		r->child_maxrss = (uint64_t)usage.ru_maxrss * 1024;
}

static void see_ends(struct recorder *r)
{
	reap_child(r);
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		int status = r->result->status;
		bool is_child = p->pid == r->child;
		if (p->ended || (is_child ? !r->child_ended : !has_ended(p)))
			continue;
		p->ended = true;
		uint64_t end_ns = is_child ? r->child_end_ns : drain_now_ns(&r->drain);
		if (is_child && r->child_maxrss) {
			struct trace_rss s = {end_ns, p->index, r->child_maxrss};
			trace_writer_rss(r->writer, &s, 1);
		}
		if (is_child)
			process_ended_with(p, status, end_ns);
		else /* another's child: only its parent knows */
			process_ended_as(p, TRACE_END_UNKNOWN, end_ns);
	}
}

static void count_losses(struct recorder *r, struct process *p)
{
	struct wire_header *h = p->session.header;
	struct trace_process *f = &p->facts;
	uint64_t off = atomic_load(&h->off_tsc), tsc0 = r->drain.clock.tsc0;
	pthread_mutex_lock(&p->lock);
	for (uint32_t i = 0; i < p->slots; i++)
		f->dropped += atomic_load(&p->session.streams[i].dropped);
	f->dropped += atomic_load(&h->dropped);
	f->reentrant = atomic_load(&h->reentrant);
	f->lost_stacks = atomic_load(&h->lost_stacks);
	if (f->dropped)
		f->dropped_from_ns = off > tsc0 ? (uint64_t)((unsigned __int128)(off - tsc0) *
							     r->drain.clock.mult >> 32)
						: f->start_ns;
	pthread_mutex_unlock(&p->lock);
}

static void note_losses(struct recorder *r, struct process *p)
{
	struct wire_header *h = p->session.header;
	const struct trace_process *f = &p->facts;
	unsigned long long dropped = f->dropped;
	char text[512];
	if (p->corrupt)
		snprintf(text, sizeof text,
			 "process %d wrote over the memory it shares with heft: its recording ends "
			 "at %.3f s",
			 p->pid, (double)r->drain.last_ns / 1e9);
	else if (p->sampled)
		snprintf(text, sizeof text,
			 "%llu samples found no place in the tables of process %d", dropped, p->pid);
	else if (atomic_load(&h->off_tsc))
		snprintf(text, sizeof text,
			 "process %d went on without being recorded from %.3f s on, because the "
			 "recorder made no progress: %llu calls are missing",
			 p->pid, (double)f->dropped_from_ns / 1e9, dropped);
	else
		snprintf(text, sizeof text,
			 "process %d had more than %d threads at once: %llu of their calls are "
			 "missing",
			 p->pid, WIRE_STREAMS, dropped);
	if (p->corrupt || dropped)
		note(r, TRACE_NOTE_LOST, p->index, text);
	if (!atomic_load(&h->lost_children))
		return;
	snprintf(text, sizeof text,
		 "%u forked children of process %d could not be recorded: cannot make a file "
		 "in the session directory: %s",
		 atomic_load(&h->lost_children), p->pid,
		 strerror((int)(atomic_load(&h->lost_child_errno) & 0xfff)));
	note(r, TRACE_NOTE_UNFOLLOWED, p->index, text);
}

static void note_budget(struct recorder *r, struct process *p)
{
	char text[sizeof r->result->budget];
	if (!sampled_budget_words(p, text, sizeof text))
		return;
	note(r, TRACE_NOTE_INFO, p->index, text);
	if (p->direct)
		memcpy(r->result->budget, text, sizeof text);
}

/* What others may see of an exact process: its own fields change with every event. */
static void show_exact(struct process *p)
{
	pthread_mutex_lock(&p->lock);
	p->shown = (struct process_shown){p->live_bytes, p->live_blocks, p->facts.peak_bytes};
	pthread_mutex_unlock(&p->lock);
}

static void close_process(struct recorder *r, struct process *p)
{
	struct trace_process *f = &p->facts;
	process_stacks_read_log(&r->drain.stacks, &p->stacks);
	count_losses(r, p);
	note_losses(r, p);
	if (p->sampled) {
		note_budget(r, p);
		sampled_write(&r->drain, p, &p->stacks, p->index, f->end_ns);
		session_dir_drop(&r->dir, p->pid, p->start_tsc);
	}
	else
		show_exact(p);
	drain_process_end(&r->drain, p, f->end_ns);
	trace_writer_process_end(r->writer, p->index, f);
	if (f->end != TRACE_END_DETACHED && !(r->o->keep_ended && p->sampled))
		process_drop_pages(p);
}

/* Closes what has ended; true while something still runs. */
static bool close_ended(struct recorder *r)
{
	bool running = false;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->done)
			continue;
		if (!p->ended) {
			running = true;
			continue;
		}
		/* Everything it published has been merged once no stream holds more. */
		bool more = false;
		for (uint32_t k = 0; k < p->slots && !p->corrupt; k++)
			more |= p->streams[k].active && p->streams[k].more;
		if (more)
			running = true;
		else
			close_process(r, p);
	}
	return running;
}

/* Closes what has not ended: it goes on without being recorded. */
static void leave_processes(struct recorder *r, uint64_t now)
{
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->done)
			continue;
		if (!p->ended) {
			p->ended = true;
			process_ended_as(p, TRACE_END_DETACHED, now);
			atomic_store(&p->session.header->state, WIRE_OFF);
		}
		close_process(r, p);
	}
}

/* --limit-size: nothing more is written, the program goes on, and its status is still waited for. */
static void heed_limit(struct recorder *r)
{
	char text[200], limit[NUMBER_WORDS];
	uint64_t now = drain_now_ns(&r->drain);
	if (!r->o->limit_bytes || r->full || trace_writer_bytes(r->writer) < r->o->limit_bytes)
		return;
	leave_processes(r, now);
	r->full = true;
	r->full_ns = now;
	number_bytes(limit, r->o->limit_bytes, "byte", "bytes");
	snprintf(text, sizeof text,
		 "the recording reached its limit of %s (--limit-size) at %.3f s: what came after is "
		 "not in it",
		 limit, (double)now / 1e9);
	note(r, TRACE_NOTE_LOST, TRACE_NONE, text);
	if (r->o->say)
		r->o->say(text);
}

/* Has every forked child come that we know of? */
static bool children_missing(const struct recorder *r)
{
	if (r->full)
		return false;
	for (uint32_t i = 0; i < r->set->count; i++) {
		const struct process *p = r->set->list[i];
		if (r->o->follow && !p->corrupt &&
		    atomic_load(&p->session.header->forks) >
			    p->children_seen + atomic_load(&p->session.header->lost_children))
			return true;
	}
	return false;
}

/* ---- now and then */

static void sample_rss(struct recorder *r, uint64_t now)
{
	if (now < r->next_rss_ns)
		return;
	/* Often at first, when most programs do all they do; rarer with many processes. */
	uint64_t every = (uint64_t)RSS_EVERY_MS * 1000000ull;
	if (now > 10000000000ull)
		every *= 10;
	uint32_t alive = 0;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->ended)
			continue;
		uint64_t since = now > p->facts.start_ns ? now - p->facts.start_ns : 0;
		struct trace_rss s = {now, p->index, process_read_rss(p, since)};
		if (!s.rss_bytes)
			continue;
		alive++;
		trace_writer_rss(r->writer, &s, 1);
	}
	r->next_rss_ns = now + every * (1 + alive / 16);
}

static void refresh_names(struct recorder *r)
{
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		for (uint32_t k = 0; k < p->slots && !p->done && !p->corrupt; k++) {
			struct stream *s = &p->streams[k];
			const char *name = p->session.streams[k].name;
			if (!s->active || s->thread == TRACE_NONE || !memcmp(name, s->name, 16))
				continue;
			memcpy(s->name, name, 16);
			char text[17] = {0};
			memcpy(text, s->name, 16);
			trace_writer_thread_name(r->writer, s->thread, text);
		}
	}
}

static void answer_calls(struct recorder *r, uint64_t now)
{
	if (!r->o->answer || now < r->next_call_ns)
		return;
	r->next_call_ns = now + CALLS_EVERY_MS * 1000000ull;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->sampled && !p->ended)
			answer_call(p, r->o->answer, r->o->answer_ctx);
	}
}

/* A tenth of the time so far, so that the recording of a service does not grow with its days. */
static uint64_t samples_pause_ns(uint64_t now)
{
	uint64_t pause = now / 10;
	if (pause < SAMPLES_EVERY_MS * 1000000ull)
		return SAMPLES_EVERY_MS * 1000000ull;
	return pause < SAMPLES_SELDOM_MS * 1000000ull ? pause : SAMPLES_SELDOM_MS * 1000000ull;
}

static void look_at_processes(struct recorder *r, uint64_t now)
{
	if (now < r->next_peak_ns)
		return;
	r->next_peak_ns = now + PEAK_EVERY_MS * 1000000ull;
	bool write = now >= r->next_samples_ns, budget = now >= r->next_budget_ns;
	if (write)
		r->next_samples_ns = now + samples_pause_ns(now);
	if (budget)
		r->next_budget_ns = now + BUDGET_EVERY_MS * 1000000ull;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		if (p->done || p->corrupt)
			continue;
		if (!p->sampled) {
			show_exact(p);
			continue;
		}
		sampled_see_peak(p);
		if (budget && !p->ended)
			sampled_follow_budget(p);
		if (write) /* so that it is there even if we are killed */
			sampled_write(&r->drain, p, &p->stacks, p->index, now);
	}
}

static void now_and_then(struct recorder *r)
{
	uint64_t now = drain_now_ns(&r->drain);
	sample_rss(r, now);
	look_at_processes(r, now);
	answer_calls(r, now);
	refresh_names(r);
	if (now >= r->next_checkpoint_ns &&
	    r->drain.event_total - r->checkpoint_events >= CHECKPOINT_EVENTS) {
		trace_writer_checkpoint(r->writer, r->drain.last_ns, &r->drain.tally);
		r->checkpoint_events = r->drain.event_total;
		r->next_checkpoint_ns = now + CHECKPOINT_EVERY_MS * 1000000ull;
	} else if (now >= r->next_flush_ns)
		trace_writer_flush(r->writer);
	else
		return;
	r->next_flush_ns = now + FLUSH_EVERY_MS * 1000000ull;
}

static void take_signals(struct recorder *r)
{
	struct signalfd_siginfo s;
	while (read(r->signals, &s, sizeof s) == sizeof s) {
		int sig = (int)s.ssi_signo;
		if (sig == SIGCHLD)
			r->child_signal = true;
		if (sig == SIGCHLD || sig == SIGXFSZ)
			continue;
		if (r->child_ended)
			r->stop = true;
		else if (s.ssi_code == SI_USER || s.ssi_code == SI_QUEUE || sig == SIGTERM || sig == SIGHUP)
			kill(r->child, sig); /* the terminal's own reach the program without us */
	}
}

static void say_daemons(struct recorder *r)
{
	char text[512];
	uint32_t alive = 0;
	int32_t pid = 0;
	for (uint32_t i = 0; i < r->set->count; i++)
		if (!r->set->list[i]->ended) {
			alive++;
			pid = r->set->list[i]->pid;
		}
	r->told_daemons = true;
	if (!r->o->say || !alive)
		return;
	snprintf(text, sizeof text,
		 "%s has ended; recording goes on for %u process%s it left behind (pid %d%s). "
		 "Ctrl-C ends the recording.",
		 r->o->argv[0], alive, alive == 1 ? "" : "es", pid, alive == 1 ? "" : " ...");
	r->o->say(text);
}

/* ---- the end */

/* What was executed but never came. */
static void note_unfollowed(struct recorder *r)
{
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		for (uint32_t k = 0; k < p->stacks.exec_count; k++) {
			struct exec_note *x = &p->stacks.execs[k];
			bool came = x->failed;
			for (uint32_t j = k + 1; j < p->stacks.exec_count && !came; j++)
				came = p->stacks.execs[j].pid == x->pid && p->stacks.execs[j].failed;
			/* A spawned child may have opened its file before the note was written. */
			for (uint32_t j = 0; j < r->set->count && !came; j++)
				came = r->set->list[j]->pid == x->pid && r->set->list[j] != p &&
				       !r->set->list[j]->child;
			for (uint32_t j = 0; j < r->set->count && !came; j++)
				came = r->set->list[j]->pid == x->pid &&
				       r->set->list[j]->start_tsc > x->tsc;
			if (came || !r->o->follow)
				continue;
			struct launch_plan plan;
			struct heft_error why = {0};
			char text[1536];
			const char *reason = "it did not load heft's library (was its environment cleared?)";
			if (launch_inspect(x->path, &plan, &why))
				reason = why.message;
			snprintf(text, sizeof text, "process %d executed %s and was not recorded: %s", x->pid,
				 x->path, reason);
			char *line = strchr(text, '\n');
			if (line)
				*line = 0;
			note(r, TRACE_NOTE_UNFOLLOWED, p->index, text);
		}
	}
}

/* The command is in the table of processes even if its file never came or was spoilt at once. */
static void note_absent_command(struct recorder *r)
{
	int status = r->result->status;
	for (uint32_t i = 0; i < r->set->count; i++)
		if (r->set->list[i]->direct)
			return;
	struct trace_process p = {
		.pid = r->child,
		.ppid = getpid(),
		.exe = r->o->plan->path,
		.argv = r->o->argv,
		.argc = (uint32_t)r->o->argc,
		.end_ns = r->child_end_ns,
		.end = !r->child_ended ? TRACE_END_DETACHED
		       : WIFSIGNALED(status) ? TRACE_END_SIGNAL : TRACE_END_EXIT,
		.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
		.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
	};
	trace_writer_process(r->writer, &p);
	trace_writer_process_end(r->writer, r->set->count, &p);
	note(r, TRACE_NOTE_UNFOLLOWED, r->set->count,
	     "the command was not recorded: it ended before heft's library was loaded, or wrote over "
	     "the memory it shares with heft");
}

static void finish(struct recorder *r)
{
	struct drain *d = &r->drain;
	uint64_t now = drain_now_ns(d);
	leave_processes(r, now);
	note_absent_command(r);
	note_unfollowed(r);
	drain_flush(d);
	r->result->events = d->event_total;
	r->result->processes = r->set->count;
	uint64_t duration = r->child_ended && r->child_end_ns > d->last_ns ? r->child_end_ns : d->last_ns;
	if (!r->child_ended || r->stop)
		duration = now;
	if (r->full)
		duration = r->full_ns > d->last_ns ? r->full_ns : d->last_ns;
	trace_writer_close(r->writer, duration, &d->tally, &r->result->problem);
	if (d->failed && !r->result->problem.code)
		heft_fail(&r->result->problem, HEFT_ENOMEM,
			  "out of memory: the recording ends early");
}

static void loop(struct recorder *r)
{
	uint32_t sleep_us = ROUND_MIN_US;
	for (;;) {
		see_ends(r); /* before looking at the streams: what ended has published all */
		find_processes(r);
		uint64_t events = drain_round(&r->drain, r->set->list, r->set->count);
		now_and_then(r);
		heed_limit(r);
		bool running = close_ended(r);
		uint64_t now = drain_now_ns(&r->drain);
		if (running || !r->child_ended)
			r->last_alive_ns = now;
		take_signals(r);
		if (r->stop)
			return;
		bool awaited = r->rescan || children_missing(r);
		if (r->child_ended && !running &&
		    (!awaited || now - r->last_alive_ns > LATE_CHILD_MS * 1000000ull))
			return;
		if (r->child_ended && running && !r->told_daemons &&
		    now - r->child_end_ns > LATE_CHILD_MS * 1000000ull)
			say_daemons(r);
		if (events >= BUSY_EVENTS || r->child_signal) {
			r->child_signal = false;
			continue;
		}
		/* A busy program is drained while its records are still in the cache; one that allocates
		 * now and then is not to be disturbed for a handful of them. */
		if (events > ROUND_EVENTS)
			sleep_us = ROUND_MIN_US;
		else if (sleep_us < (events ? ROUND_QUIET_US : ROUND_MAX_US))
			sleep_us += sleep_us / 2;
		struct pollfd signals = {.fd = r->signals, .events = POLLIN};
		struct timespec wait = {0, (long)sleep_us * 1000};
		ppoll(&signals, 1, &wait, NULL);
	}
}

/* What was recorded can still be asked for, until the time is over or the user has enough. */
static void linger(struct recorder *r)
{
	uint64_t until = monotonic_ns() + r->o->linger_ns;
	if (!r->o->linger_ns || r->stop)
		return;
	if (r->o->ended)
		r->o->ended(r->o->ready_ctx, r->result);
	while (!r->stop) {
		uint64_t now = monotonic_ns();
		if (now >= until)
			return;
		struct timespec left = {(time_t)((until - now) / 1000000000ull),
					(long)((until - now) % 1000000000ull)};
		struct pollfd signals = {.fd = r->signals, .events = POLLIN};
		ppoll(&signals, 1, &left, NULL);
		take_signals(r);
	}
}

int recorder_run(const struct recorder_options *o, struct recorder_result *result,
		 struct heft_error *err)
{
	struct recorder *r = calloc(1, sizeof *r);
	memset(result, 0, sizeof *result);
	if (!r)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	r->o = o;
	r->result = result;
	r->dir.fd = -1;
	r->set = o->set ? o->set : &r->own_set;
	process_set_init(&r->own_set);
	sigset_t mine, before;
	sigemptyset(&mine);
	const int watched[] = {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
		sigaddset(&mine, watched[i]);
	/* A file size limit is an error of write(2) to us. Blocked, not ignored: that the program would
	 * inherit. */
	sigaddset(&mine, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &mine, &before);
	prctl(PR_SET_TIMERSLACK, 50000ul);
	session_guard_install();
	int rc = session_dir_make(&r->dir, err);
	if (!rc) {
		r->signals = signalfd(-1, &mine, SFD_CLOEXEC | SFD_NONBLOCK);
		rc = o->ready ? o->ready(o->ready_ctx, err) : 0;
		if (!rc)
			rc = launch(r, &before, err);
		if (!rc) {
			process_set_start_heartbeat(r->set);
			loop(r);
			finish(r);
			process_set_stop_heartbeat(r->set);
			drain_fini(&r->drain);
			linger(r);
		}
		close(r->signals);
		session_dir_remove(&r->dir);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	process_set_fini(&r->own_set);
	free(r);
	return rc;
}
