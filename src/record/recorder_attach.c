/* Recording a program that heft did not start.
 *
 * The recorder finds, drains and closes its processes as ever. What differs is here: nobody tells us
 * how the program was started, it is not our child, and the recording ends before it does. Its end is
 * seen by a pidfd, and its status is known only where the kernel tells it to others than the parent.
 *
 * Order at the end: first the processes are switched off, so that no thread waits for us; then heft is
 * taken out of the program, so that no record is half written; then what was recorded is read. */
#include "record/recorder_parts.h"

#include "base/arch.h"
#include "hosted/monotonic.h"
#include "hosted/proc_text.h"
#include "hosted/program_name.h"
#include "session/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	ARGUMENTS = 4096,
	ARGUMENT_BYTES = 256 << 10, /* of all arguments; the rest is not shown */
	IMAGE_EVERY_MS = 1000,      /* how often to look whether it has executed another program, */
	IMAGES_AT_ONCE = 32,   /* and so many of its children, in turn: a look reads two maps */
	LAST_ROUNDS_MS = 1000, /* a thread that is stuck inside is not waited for */
};

struct attached_program {
	int pidfd;
	uint64_t until_ns; /* by the monotonic clock; 0: no limit */
	char path[PATH_MAX], name[PROGRAM_NAME];
	char *text; /* its arguments */
	char *argv[ARGUMENTS + 1];
};

/* Who it is: the file that it runs and its arguments. */
static void describe(struct attached_program *a, struct recorder_command *c)
{
	char link[64];
	static const char deleted[] = " (deleted)";
	snprintf(link, sizeof link, "/proc/%d/exe", (int)c->pid);
	ssize_t n = readlink(link, a->path, sizeof a->path - 1);
	a->path[n > 0 ? n : 0] = 0;
	if (n > (ssize_t)sizeof deleted && !strcmp(a->path + n - (sizeof deleted - 1), deleted))
		a->path[n - (ssize_t)(sizeof deleted - 1)] = 0;
	if (n <= 0) { /* not ours to see: its short name */
		proc_text(a->path, 64, "/proc/%d/comm", (int)c->pid);
		a->path[strcspn(a->path, "\n")] = 0;
	}
	size_t bytes = proc_text(a->text, ARGUMENT_BYTES, "/proc/%d/cmdline", (int)c->pid);
	for (size_t at = 0; at < bytes && c->argc < ARGUMENTS; at += strlen(a->text + at) + 1)
		a->argv[c->argc++] = a->text + at;
	/* A program that has written a title over its arguments leaves zeros after it. */
	while (c->argc && !*a->argv[c->argc - 1])
		a->argv[--c->argc] = NULL;
	if (!c->argc)
		a->argv[c->argc++] = a->path;
	c->path = a->path;
	c->argv = a->argv;
	c->name = program_name(a->name, a->path, a->argv[0]);
}

/* Its process has another number, or the kernel is too old. errno: of pidfd_open. */
static int refuse_thread(pid_t pid, struct heft_error *err)
{
	char text[4096];
	int process = 0, reason = errno;
	proc_text(text, sizeof text, "/proc/%d/status", (int)pid);
	const char *line = proc_status_line(text, "Tgid");
	if (line && sscanf(line, "%d", &process) == 1 && process != pid)
		return heft_fail(err, HEFT_EREFUSED,
				 "%d is a thread of process %d\n'heft attach %d' records that",
				 (int)pid, process, process);
	errno = reason;
	return heft_fail_errno(err, "cannot watch process %d", (int)pid);
}

int recorder_attach(struct recorder *r, struct heft_error *err)
{
	const struct recorder_attach *o = r->o->attach;
	struct attached_program *a = calloc(1, sizeof *a);
	r->command.attached = a;
	r->command.pid = o->pid;
	if (a)
		a->pidfd = -1;
	if (!a || !(a->text = malloc(ARGUMENT_BYTES)))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	a->pidfd = (int)syscall(SYS_pidfd_open, o->pid, 0);
	if (a->pidfd < 0 && errno == ESRCH)
		return heft_fail(err, HEFT_ENOTFOUND, "there is no process %d", (int)o->pid);
	if (a->pidfd < 0)
		return refuse_thread(o->pid, err);
	describe(a, &r->command);
	int rc = recorder_open(r, err);
	if (rc)
		return rc;
	rc = o->begin(o->ctx, r->dir.path, err);
	if (rc) {
		recorder_abandon(r);
		return rc;
	}
	a->until_ns = o->duration_ns ? monotonic_ns() + o->duration_ns : 0;
	r->result->launched = true;
	return 0;
}

/* Execution of another program removes all that heft had put into the process. It has the same number. */
static void see_image_gone(struct recorder *r, struct process *p)
{
	char text[PATH_MAX + 200], path[64], exe[PATH_MAX], program[400];
	uint64_t leaving = process_leaving_tsc(p);
	snprintf(path, sizeof path, "/proc/%d/exe", (int)(p->seen_pid ? p->seen_pid : p->pid));
	ssize_t n = readlink(path, exe, sizeof exe - 1);
	if (n <= 0)
		return; /* it is about to end */
	exe[n] = 0;
	recorder_switch_off(r, p);
	p->ended = true;
	p->end_tsc = leaving ? leaving : recorded(p)->alive_tsc;
	process_ended_as(p, TRACE_END_EXEC, drain_stamp_ns(&r->drain, p->end_tsc));
	program_words(program, sizeof program, exe, NULL);
	snprintf(text, sizeof text,
		 "process %d executed another program (%s), which heft is not attached to", p->pid,
		 program);
	recorder_note(r, TRACE_NOTE_UNFOLLOWED, p->index, text);
	if (r->o->say)
		r->o->say(text);
	if (!recorded(p)->direct)
		return;
	r->command.ended = true;
	r->command.end_ns = drain_now_ns(&r->drain);
}

bool recorder_attach_owns(struct recorder *r, struct process *p)
{
	if (!r->command.attached || p->child || !owner_maps_same(r->command.pid, p->view.base))
		return false;
	int pidfd = (int)syscall(SYS_pidfd_open, r->command.pid, 0);
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = pidfd;
	p->seen_pid = r->command.pid;
	recorded(p)->maps_file = true;
	return true;
}

static void look_at_images(struct recorder *r)
{
	uint64_t now = drain_now_ns(&r->drain);
	if (now < r->due.image_ns)
		return;
	r->due.image_ns = now + IMAGE_EVERY_MS * 1000000ull;
	const uint32_t count = r->set->count, first = count ? r->due.image_next % count : 0;
	r->due.image_next = first + IMAGES_AT_ONCE;
	for (uint32_t i = 0; i < count; i++) {
		struct process *p = r->set->list[i];
		bool is_turn = (i + count - first) % count < IMAGES_AT_ONCE;
		if (p->ended || recorded(p)->gone || !(is_turn || recorded(p)->direct))
			continue;
		if (!p->seen_pid) { /* it was so already when its file was found */
			if (recorded(p)->direct && !r->command.ended)
				see_image_gone(r, p);
			continue;
		}
		if (owner_maps_same(p->seen_pid, p->view.base))
			recorded(p)->maps_file = true;
		else if (recorded(p)->maps_file && owner_is_readable(p->seen_pid))
			see_image_gone(r, p);
	}
}

void recorder_attach_look(struct recorder *r)
{
	const struct recorder_attach *o = r->o->attach;
	const struct attached_program *a = r->command.attached;
	struct pollfd ended = {.fd = a->pidfd, .events = POLLIN};
	enum recorder_wish wish = o->wish(o->ctx); /* before: the end of the program explains it */
	if (!r->command.ended && poll(&ended, 1, 0) > 0) {
		r->command.ended = true;
		r->command.end_ns = drain_now_ns(&r->drain);
		r->command.status_known = owner_exit_status(a->pidfd, o->pid, &r->result->status);
	}
	look_at_images(r);
	r->stop |= wish == RECORDER_TO_END || (wish == RECORDER_ALONE && !r->command.ended) ||
		   (a->until_ns && monotonic_ns() >= a->until_ns);
}

/* Whether heft is still in it */
static bool is_to_leave(const struct process *p)
{
	return p->seen_pid && (!p->ended || p->entry.facts.end == TRACE_END_DETACHED);
}

/* Nobody writes any more, unless a thread is stuck: takes what is there. */
static void take_last(struct recorder *r)
{
	uint64_t until = monotonic_ns() + LAST_ROUNDS_MS * 1000000ull;
	for (int empty = 0; empty < 2 && monotonic_ns() < until;) {
		uint64_t round = drain_begin(&r->drain);
		uint64_t limit = recorder_find_processes(r);
		uint64_t events = drain_round(&r->drain, r->set->list, r->set->count, round, limit);
		empty = events || r->rescan ? 0 : empty + 1;
	}
}

void recorder_detach(struct recorder *r)
{
	const struct recorder_attach *o = r->o->attach;
	uint32_t count = 0;
	pid_t *pids = calloc(r->set->count + 1u, sizeof *pids);
	recorder_ledger_before_leaving(r);
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		recorded(p)->reorder.is_leaving = true;
		if (!p->ended)
			recorder_switch_off(r, p);
		if (pids && is_to_leave(p))
			pids[count++] = p->seen_pid;
	}
	o->end(o->ctx, pids, count, &r->result->left);
	free(pids);
	if (!r->full)
		take_last(r);
}

void recorder_attach_fini(struct recorder *r)
{
	struct attached_program *a = r->command.attached;
	if (!a)
		return;
	if (a->pidfd >= 0)
		close(a->pidfd);
	free(a->text);
	free(a);
	r->command.attached = NULL;
}
