/* Runs a command that only counts. Each process has a session file, as if it were recorded, but of that only the header
 * is used: the process writes its sums there (struct wire_counts). We look for new files, read one when its process has
 * ended, and remove it: ten thousand short processes must not fill the session directory.
 *
 * Invariant: a process is in the result from the moment its file is found. `open` has those whose sums may change. */
#include "record/counted_run.h"

#include "hosted/monotonic.h"
#include "hosted/vector.h"
#include "session/process.h"
#include "session/session_dir.h"
#include "session/session_guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_EVERY_MS = 20 };

struct open_process {
	struct process *p;
	uint32_t index; /* in the result */
};

struct counted {
	struct counted_result *result;
	struct session_dir dir;
	struct open_process *open;
	uint32_t open_count, open_capacity;
	bool look_again; /* a file was there that could not be read yet */
};

void counted_result_fini(struct counted_result *r)
{
	free(r->processes);
	*r = (struct counted_result){0};
}

/* ---- processes */

static bool is_known(const struct counted *c, int32_t pid, uint64_t start_tsc)
{
	for (uint32_t i = 0; i < c->open_count; i++)
		if (c->open[i].p->pid == pid && c->open[i].p->start_tsc == start_tsc)
			return true;
	return false;
}

/* Has it said that it leaves, after it wrote its sums? */
static bool has_left(const struct process *p)
{
	const struct wire_header *h = p->view.session.header;
	return atomic_load(&h->exit_tsc) || atomic_load(&h->exec_tsc);
}

static void read_sums(struct counted *c, const struct open_process *o)
{
	const struct wire_counts *w = &o->p->view.session.header->counts;
	struct counted_process *to = &c->result->processes[o->index];
	to->sums = (struct counted_sums){.allocations = atomic_load(&w->allocations),
					 .reallocations = atomic_load(&w->reallocations),
					 .frees = atomic_load(&w->frees),
					 .allocated_bytes = atomic_load(&w->allocated_bytes),
					 .peak_bytes = atomic_load(&w->peak_bytes),
					 .live_bytes = atomic_load(&w->live_bytes),
					 .threads = atomic_load(&w->threads)};
	to->cut = !has_left(o->p);
}

/* A process that does not get the processor may be long about making its file: the directory has not changed
 * since when the file is ready. */
static void take_file(struct counted *c, const char *name)
{
	struct heft_error ignored;
	struct process *p;
	int32_t pid;
	uint64_t start_tsc;
	if (!session_file_name(name, &pid, &start_tsc) || is_known(c, pid, start_tsc))
		return;
	if (process_open(&p, c->dir.fd, name, &ignored)) {
		c->look_again = true;
		return;
	}
	struct counted_result *r = c->result;
	if (!array_reserve(r->processes, r->count, r->capacity, 1) ||
	    !array_reserve(c->open, c->open_count, c->open_capacity, 1)) {
		process_free(p);
		return;
	}
	r->processes[r->count] = (struct counted_process){.pid = pid};
	snprintf(r->processes[r->count].program, sizeof r->processes->program, "%s",
		 p->entry.facts.exe);
	c->open[c->open_count++] = (struct open_process){p, r->count++};
}

static void find_files(struct counted *c)
{
	if (!session_dir_changed(&c->dir) && !c->look_again)
		return;
	c->look_again = false;
	DIR *d = opendir(c->dir.path);
	for (const struct dirent *e; d && (e = readdir(d));)
		take_file(c, e->d_name);
	if (d)
		closedir(d);
}

static bool has_ended(const struct open_process *o)
{
	struct pollfd p = {.fd = o->p->pidfd, .events = POLLIN};
	return o->p->pidfd < 0 || poll(&p, 1, 0) > 0;
}

/* Whether the process has executed another program, which has a file of its own. */
static bool was_replaced(const struct counted *c, const struct process *p)
{
	for (uint32_t i = 0; i < c->open_count; i++)
		if (c->open[i].p->pid == p->pid && c->open[i].p->start_tsc > p->start_tsc)
			return true;
	return false;
}

static void close_file(struct counted *c, uint32_t i)
{
	struct process *p = c->open[i].p;
	read_sums(c, &c->open[i]);
	session_dir_drop(&c->dir, p->pid, p->start_tsc);
	process_free(p);
	c->open[i] = c->open[--c->open_count];
}

static void close_ended(struct counted *c)
{
	for (uint32_t i = 0; i < c->open_count;)
		if (has_ended(&c->open[i]) || was_replaced(c, c->open[i].p))
			close_file(c, i);
		else
			i++;
}

static int by_calls(const void *a, const void *b)
{
	const uint64_t x = ((const struct counted_process *)a)->sums.allocations;
	const uint64_t y = ((const struct counted_process *)b)->sums.allocations;
	return (x < y) - (x > y);
}

static void close_all(struct counted *c)
{
	c->look_again = true;
	find_files(c);
	close_ended(c);
	while (c->open_count) {
		struct counted_process *p = &c->result->processes[c->open[0].index];
		p->running = !has_ended(&c->open[0]);
		close_file(c, 0);
	}
	struct counted_sums *all = &c->result->all;
	for (uint32_t i = 0; i < c->result->count; i++) {
		const struct counted_sums *s = &c->result->processes[i].sums;
		all->allocations += s->allocations;
		all->reallocations += s->reallocations;
		all->frees += s->frees;
		all->allocated_bytes += s->allocated_bytes;
		all->live_bytes += s->live_bytes;
		if (s->peak_bytes > all->peak_bytes) {
			all->peak_bytes = s->peak_bytes;
			all->threads = s->threads;
		}
	}
	qsort(c->result->processes, c->result->count, sizeof *c->result->processes, by_calls);
}

/* ---- the command */

/* It waits for the word that all is prepared, then executes. What it fails with comes back through `report`. */
static void child_main(const struct counted_options *o, char **env, int go, int report,
		       const sigset_t *mask)
{
	char word;
	if (read(go, &word, 1) != 1)
		_exit(125);
	o->in_child();
	pthread_sigmask(SIG_SETMASK, mask, NULL);
	execvpe(o->plan->path, o->argv, env);
	int e = errno;
	_exit(write(report, &e, sizeof e) < 0 || e != ENOENT ? 126 : 127);
}

/* The parent's side. */
static int let_it_go(const struct counted_options *o, pid_t pid, int go, int report,
		     struct heft_error *err)
{
	int failed_with = 0;
	int rc = o->prepare(o->ctx, pid, err);
	if (rc)
		return rc;
	if (write(go, "", 1) != 1)
		return heft_fail_errno(err, "cannot start a process");
	if (read(report, &failed_with, sizeof failed_with) != sizeof failed_with)
		return 0;
	errno = failed_with;
	heft_fail_errno(err, "cannot execute %s", o->plan->path);
	return failed_with == ENOENT ? HEFT_ENOTFOUND : HEFT_ENOEXEC;
}

static int start(struct counted *c, const struct counted_options *o, const sigset_t *mask,
		 pid_t *pid, struct heft_error *err)
{
	char session[sizeof c->dir.path + sizeof WIRE_ENV_SESSION + 1];
	const char *settings[4] = {session, WIRE_ENV_MODE "=count"};
	int go[2] = {-1, -1}, report[2] = {-1, -1}, rc = 0;
	snprintf(session, sizeof session, WIRE_ENV_SESSION "=%s", c->dir.path);
	if (!o->follow)
		settings[2] = WIRE_ENV_FOLLOW "=none";
	char **env = launch_environment(environ, o->preload, settings);
	if (!env)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	if (pipe2(go, O_CLOEXEC) || pipe2(report, O_CLOEXEC)) {
		rc = heft_fail_errno(err, "cannot make a pipe");
		goto out;
	}
	*pid = fork();
	if (*pid == 0) {
		close(go[1]);
		child_main(o, env, go[0], report[1], mask);
	}
	close(report[1]);
	report[1] = -1;
	rc = *pid < 0 ? heft_fail_errno(err, "cannot start a process")
		      : let_it_go(o, *pid, go[1], report[0], err);
	close(go[1]); /* without the word it exits */
	go[1] = -1;
	if (rc && *pid > 0)
		waitpid(*pid, NULL, 0);
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

/* What the terminal sends reaches the command without us. */
static void pass_on(const struct signalfd_siginfo *s, pid_t pid)
{
	if (s->ssi_signo != SIGCHLD && (s->ssi_code == SI_USER || s->ssi_code == SI_QUEUE ||
					s->ssi_signo == SIGTERM || s->ssi_signo == SIGHUP))
		kill(pid, (int)s->ssi_signo);
}

static void wait_for(struct counted *c, pid_t pid, int signals)
{
	struct signalfd_siginfo s;
	while (waitpid(pid, &c->result->status, WNOHANG) == 0) {
		struct pollfd p = {.fd = signals, .events = POLLIN};
		find_files(c);
		close_ended(c);
		if (poll(&p, 1, LOOK_EVERY_MS) > 0 && read(signals, &s, sizeof s) == sizeof s)
			pass_on(&s, pid);
	}
}

int counted_run(const struct counted_options *o, struct counted_result *result,
		struct heft_error *err)
{
	struct counted c = {.result = result};
	sigset_t mine, before;
	pid_t pid = 0;
	*result = (struct counted_result){0};
	sigemptyset(&mine);
	const int watched[] = {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP};
	for (size_t i = 0; i < sizeof watched / sizeof *watched; i++)
		sigaddset(&mine, watched[i]);
	session_allow_files();
	session_guard_install();
	int rc = session_dir_make(&c.dir, err);
	if (rc)
		return rc;
	pthread_sigmask(SIG_BLOCK, &mine, &before);
	int signals = signalfd(-1, &mine, SFD_CLOEXEC);
	const uint64_t began = monotonic_ns();
	rc = start(&c, o, &before, &pid, err);
	if (!rc) {
		wait_for(&c, pid, signals);
		result->duration_ns = monotonic_ns() - began;
		close_all(&c);
	}
	close(signals);
	session_dir_remove(&c.dir);
	free(c.open);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}
