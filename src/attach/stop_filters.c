/* Programs in a sandbox (seccomp). A filter may kill the program for a system call that it does not make itself, and
 * heft's code inside makes some (base/sys.h). So each filter of each thread is read and run here, for all of these
 * calls, before anything is put into the program. What a filter does not allow is not called there.
 *
 * Calls that a borrowed thread makes for us are not filtered: the tracer suspends that (stop_call.c). Reading a filter
 * and suspending it both need CAP_SYS_ADMIN, and that heft is in no sandbox itself.
 *
 * Strict mode is refused: it also closes the time stamp counter, which every record needs. */
#include "attach/stop_held.h"

#include "base/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#ifndef PTRACE_SECCOMP_GET_FILTER
#define PTRACE_SECCOMP_GET_FILTER 0x420c
#endif
#define LOOK_NS 2000000000ull
enum {
	FILTERS_MOST = 1024
}; /* the kernel limits those of a thread to 32,768 instructions together */

struct reading {
	VECTOR(pid_t) tids;          /* of threads that have a filter; 0: it was looked at */
	struct sock_filter *program; /* BPF_MAXINSNS of them */
	uint64_t forbidden;
	int failed; /* an errno */
};

/* One filter, the latest first. 0, 1: there are no more; or a negative errno. */
static int read_filter(struct reading *r, pid_t tid, uintptr_t number)
{
	const enum __ptrace_request get = (enum __ptrace_request)PTRACE_SECCOMP_GET_FILTER;
	long length = ptrace(get, tid, (void *)number, NULL);
	if (length < 0)
		return errno == ENOENT ? 1 : -errno;
	if (length > BPF_MAXINSNS || ptrace(get, tid, (void *)number, r->program) != length)
		return -EIO;
	r->forbidden |= filter_forbids_all(r->program, (uint32_t)length);
	return 0;
}

static void read_filters(void *ctx, const struct stop_thread *t)
{
	struct reading *r = ctx;
	int rc = t->stopped ? 0 : 1; /* it has ended */
	for (uintptr_t i = 0; i < FILTERS_MOST && !rc; i++)
		rc = read_filter(r, t->tid, i);
	if (rc <= 0) /* or there is no end of them */
		r->failed = rc ? -rc : EIO;
	for (size_t i = 0; i < r->tids.count; i++)
		if (r->tids.items[i] == t->tid)
			r->tids.items[i] = 0;
}

static int refuse(const struct stop *s, int why, struct heft_error *err)
{
	if (why == EACCES || why == EPERM)
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d is in a sandbox (seccomp), which might kill it for "
				 "heft's system calls\n"
				 "Run heft as root, outside of any container: then it can see what "
				 "the sandbox allows. Or start the program with heft run.",
				 s->pid);
	return heft_fail(err, HEFT_EREFUSED,
			 "process %d is in a sandbox (seccomp), and the kernel keeps what that "
			 "allows to itself: %s\n"
			 "Start the program with heft run, which sees its sandbox begin.",
			 s->pid, strerror(why));
}

static int list_filtered(struct stop *s, struct reading *r, struct heft_error *err)
{
	struct task_walk walk;
	char status[4096];
	task_walk_begin(&walk, s);
	for (pid_t tid; (tid = task_walk_next(&walk)) > 0;) {
		long mode = stop_task_file(s, tid, "status", status, sizeof status)
				    ? stop_status_field(status, "Seccomp")
				    : 0;
		if (mode == SECCOMP_MODE_STRICT)
			return heft_fail(
				err, HEFT_EREFUSED,
				"process %d is in a sandbox (seccomp, strict mode), in which "
				"heft's code cannot run: it needs the time stamp counter\n"
				"heft run records such a program until its sandbox begins.",
				s->pid);
		if (mode > 0 && !vector_push(&r->tids, tid))
			return heft_fail(err, HEFT_ENOMEM, "no memory");
	}
	return 0;
}

/* All that have one; those that did not stop in time are refused as well. */
static int look_at_filtered(struct stop *s, struct reading *r, struct heft_error *err)
{
	size_t count = r->tids.count;
	pid_t *tids = malloc(count * sizeof *tids);
	r->program = malloc(BPF_MAXINSNS * sizeof *r->program);
	int rc = tids && r->program ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory");
	if (!rc) {
		memcpy(tids, r->tids.items, count * sizeof *tids);
		rc = stop_visit(s, tids, count, LOOK_NS, read_filters, r, err);
	}
	if (!rc && r->failed)
		rc = refuse(s, r->failed, err);
	for (size_t i = 0; i < count && !rc; i++)
		if (r->tids.items[i])
			rc = heft_fail(err, HEFT_EBUSY,
				       "thread %d of process %d, which is in a sandbox (seccomp), "
				       "does not stop",
				       r->tids.items[i], s->pid);
	free(r->program);
	free(tids);
	return rc;
}

/* Each thread needs memory of its own, which is mapped when it first allocates. */
static int check_needed(const struct stop *s, uint64_t forbidden, struct heft_error *err)
{
	return forbidden >> SYS_DO_MMAP & 1
		       ? heft_fail(err, HEFT_EREFUSED,
				   "process %d is in a sandbox (seccomp) that does not allow mmap, "
				   "which heft needs in it for each thread\n"
				   "Start the program with heft run, which has its memory before "
				   "the sandbox begins.",
				   s->pid)
		       : 0;
}

int stop_forbidden_calls(struct stop *s, uint64_t *forbidden, struct heft_error *err)
{
	struct reading r = {0};
	int rc = list_filtered(s, &r, err);
	if (!rc && r.tids.count)
		rc = look_at_filtered(s, &r, err);
	if (!rc)
		rc = check_needed(s, r.forbidden, err);
	*forbidden = r.forbidden;
	vector_free(&r.tids);
	return rc;
}
