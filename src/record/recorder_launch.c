/* From a command line to a running command and an open recording. The command
 * waits, forked but not executed, until the recording is open: a file that cannot be
 * made is a reason not to run it, and its name may hold the command's pid. */
#include "record/recorder_parts.h"

#include "record/output_name.h"
#include "session/memory_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The child waits for the word that the recording's file is open, then executes. What it fails with
 * comes back through `report`. */
static void child_main(const struct recorder_options *o, char **env, int go, int report,
		       const sigset_t *mask)
{
	pid_t tracer;
	if (o->entry) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody would give the word */
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	}
	if (read(go, &tracer, sizeof tracer) != sizeof tracer)
		_exit(125);
	close(go);
	if (o->entry) {
		prctl(PR_SET_PTRACER, tracer);
		prctl(PR_SET_PDEATHSIG, 0);
	}
	if (o->in_child)
		o->in_child();
	pthread_sigmask(SIG_SETMASK, mask, NULL);
	execvpe(o->plan->path, o->argv, env);
	int e = errno;
	if (write(report, &e, sizeof e) < 0)
		_exit(126);
	_exit(e == ENOENT ? 127 : 126);
}

int recorder_open(struct recorder *r, struct heft_error *err)
{
	const struct recorder_options *o = r->o;
	char whose[24] = "self"; /* the command is in the same groups */
	if (o->attach)
		snprintf(whose, sizeof whose, "%d", (int)r->command.pid);
	session_allow_files(); /* a program that we start keeps the limit that it was started with */
	output_name(o->output ? o->output : "heft.%e.%p.heft", r->command.name, r->command.pid,
		    r->result->path, sizeof r->result->path);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	struct memory_groups groups;
	bool limit_is_cgroup = false;
	memory_groups_of("/proc", whose, &groups);
	uint64_t limit = memory_limit("/proc", "/sys/fs/cgroup", &groups, &limit_is_cgroup);
	struct trace_meta meta = {
		.memory_limit_bytes = limit,
		.limit_is_cgroup = limit_is_cgroup,
		.attached = o->attach != NULL,
		.way = o->attach || o->entry ? TRACE_WAY_ENTRY : TRACE_WAY_PRELOAD,
		.heft_version = HEFT_VERSION,
		.start_unix_ns = now.tv_sec * 1000000000ll + now.tv_nsec,
		.argv = r->command.argv,
		.argc = r->command.argc,
		.page_bytes = (uint32_t)sysconf(_SC_PAGESIZE),
		.tick_ns = 2048,
	};
	int rc = trace_writer_open(&r->writer, r->result->path, o->force, &meta, err);
	if (rc) {
		r->result->path[0] = 0;
		return rc;
	}
	trace_writer_write_apart(r->writer);
	drain_init(&r->drain, r->writer);
	r->drain.keeps_mapped = r->o->take_ledger && !r->o->no_ledgers;
	r->samples_to = (struct sampled_output){&r->drain.stacks, &r->drain.clock, r->writer};
	return 0;
}

void recorder_abandon(struct recorder *r)
{
	trace_writer_abandon(r->writer);
	r->writer = NULL;
	unlink(r->result->path);
	r->result->path[0] = 0;
	drain_fini(&r->drain);
}

/* What heft's library reads at its start. A program that heft gets into by another way does not need it, only what it
 * executes. */
static char **make_environment(const struct recorder *r)
{
	const struct recorder_options *o = r->o;
	const bool preload = o->plan->way == LAUNCH_PRELOAD || (o->plan->may_preload && o->follow);
	char session[300], sample[64];
	const char *settings[5] = {session}; /* NULL ends them */
	int count = 1;
	snprintf(session, sizeof session, WIRE_ENV_SESSION "=%s", r->dir.path);
	if (!o->follow)
		settings[count++] = WIRE_ENV_FOLLOW "=none";
	if (o->mempools)
		settings[count++] = WIRE_ENV_MODE "=mempools";
	if (o->sample_automatic)
		settings[count++] = WIRE_ENV_SAMPLE "=auto";
	else if (o->sample_bytes) {
		snprintf(sample, sizeof sample, WIRE_ENV_SAMPLE "=%" PRIu64, o->sample_bytes);
		settings[count++] = sample;
	}
	if (!preload)
		settings[0] = NULL;
	return launch_environment(environ, preload ? o->preload : NULL, settings);
}

int recorder_launch(struct recorder *r, const sigset_t *mask, struct heft_error *err)
{
	const struct recorder_options *o = r->o;
	int go[2] = {-1, -1}, report[2] = {-1, -1};
	char **env = make_environment(r);
	int rc = 0;
	if (!env)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	if (pipe2(go, O_CLOEXEC) || pipe2(report, O_CLOEXEC)) {
		rc = heft_fail_errno(err, "cannot make a pipe");
		goto out;
	}
	r->command.pid = fork();
	if (r->command.pid < 0) {
		rc = heft_fail_errno(err, "cannot start a process");
		goto out;
	}
	if (r->command.pid == 0) {
		close(go[1]);
		child_main(o, env, go[0], report[1], mask);
	}
	close(report[1]);
	report[1] = -1;
	r->command.path = r->command.name = o->plan->path;
	r->command.argv = o->argv;
	r->command.argc = (uint32_t)o->argc;
	rc = recorder_open(r, err);
	if (rc) {
		close(go[1]);
		go[1] = -1;
		waitpid(r->command.pid, NULL, 0);
		goto out;
	}
	pid_t tracer = 0;
	if (o->entry)
		rc = o->entry->hold(o->entry->ctx, r->command.pid, r->dir.path, &tracer, err);
	if (!rc && write(go[1], &tracer, sizeof tracer) != sizeof tracer)
		rc = heft_fail_errno(err, "cannot start %s", o->argv[0]);
	int failed_with = 0;
	if (!rc && read(report[0], &failed_with, sizeof failed_with) == sizeof failed_with) {
		waitpid(r->command.pid, NULL, 0);
		errno = failed_with;
		heft_fail_errno(err, "cannot execute %s", o->plan->path);
		rc = failed_with == ENOENT ? HEFT_ENOTFOUND : HEFT_ENOEXEC;
	} else if (!rc && o->entry) {
		rc = o->entry->hook(o->entry->ctx, err);
		if (rc)
			waitpid(r->command.pid, NULL, 0);
	} else if (rc) { /* it still waits for the word, and ends without it */
		close(go[1]);
		go[1] = -1;
		waitpid(r->command.pid, NULL, 0);
	}
	if (rc && o->entry)
		o->entry->end(o->entry->ctx);
	if (rc)
		recorder_abandon(r);
	else
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
