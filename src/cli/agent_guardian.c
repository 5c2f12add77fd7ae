/* A guardian of heft agent. It has the program's rights already, and attaches to it in sampled mode: the program makes
 * its session file in the agent's folder, and the agent takes it from there as it takes those of other programs.
 *
 * Then the guardian sleeps until one of these wakes it: the agent wants it to leave, or is gone; `heft detach` calls; the
 * program ends. Forked children have heft in them as well: as long as one of them runs, the guardian stays. */
#include "cli/agent_guardian.h"

#include "agent/attach_rules.h"
#include "attach/guardian.h"
#include "attach/placement.h"
#include "cli/cli.h"
#include "cli/record_verb.h"
#include "session/attach_call.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

struct guarding {
	struct attach_options o;
	struct guardian g;
	struct attach_calls calls;
	int socket;
	int process; /* pidfd of the program, or of a fork of it that outlives it */
};

static void say(const struct guarding *t, struct guardian_message *m, enum guardian_says what)
{
	m->what = what;
	(void)!send(t->socket, m, sizeof *m, MSG_NOSIGNAL);
}

/* "Run heft as root" is no advice to who has done that: the guardian has the program's rights on purpose. */
static void advise(const struct guardian_settings *s, char *text, size_t size)
{
	char *advice = strstr(text, "\nRun heft as");
	if (!s->agent_is_root || !advice)
		return;
	bool yama = strstr(text, "yama");
	snprintf(advice, size - (size_t)(advice - text), "\n%s",
		 yama ? "The agent attaches with the rights of the program: sysctl "
			"kernel.yama.ptrace_scope=0 "
			"permits that, or start the program with LD_PRELOAD."
		      : "Start it with LD_PRELOAD.");
}

_Noreturn static void refuse(struct guarding *t, const struct guardian_settings *s, int code,
			     const struct heft_error *err, enum guardian_says what)
{
	struct guardian_message m = {.code = code, .for_good = placement_is_sandboxed(t->o.pid)};
	snprintf(m.text, sizeof m.text, "%s", err->message);
	advise(s, m.text, sizeof m.text);
	say(t, &m, what);
	attach_calls_close(&t->calls, m.text);
	_exit(0);
}

_Noreturn static void leave(struct guarding *t, bool by_caller)
{
	struct guardian_message m = {.by_caller = by_caller};
	t->g.answer = (struct guardian_answer){0}; /* it still has how attaching went */
	m.code = guardian_detach(&t->g);
	const struct attach_report *report = &t->g.answer.report;
	m.pause_ns = report->pause_ns;
	snprintf(m.text, sizeof m.text, "%s", m.code ? t->g.answer.err.message : report->left);
	attach_calls_close(&t->calls, m.code ? m.text : NULL);
	say(t, &m, GUARDIAN_LEFT);
	_exit(0);
}

/* The program has ended, or the fork that was waited for. */
static void outlive(struct guarding *t)
{
	struct guardian_message m = {0};
	pid_t child = guardian_child(&t->g);
	close(t->process);
	t->process = child ? (int)syscall(SYS_pidfd_open, child, 0) : -1;
	if (t->process >= 0)
		return;
	say(t, &m, GUARDIAN_ENDED);
	attach_calls_close(&t->calls, NULL);
	_exit(0);
}

static void wait_for_end(struct guarding *t)
{
	struct pollfd p[3 + ATTACH_CALLERS] = {{.fd = t->socket, .events = POLLIN},
					       {.fd = t->process, .events = POLLIN}};
	nfds_t n = 2;
	for (uint32_t i = 0; i < t->calls.count; i++)
		p[n++] = (struct pollfd){.fd = t->calls.callers[i].fd, .events = POLLIN};
	if (t->calls.listener >= 0 && t->calls.count < ATTACH_CALLERS)
		p[n++] = (struct pollfd){.fd = t->calls.listener, .events = POLLIN};
	if (poll(p, n, -1) <= 0)
		return;
	if (p[0].revents)
		leave(t, false);
	if (attach_calls_look(&t->calls))
		leave(t, true);
	if (p[1].revents)
		outlive(t);
}

/* What a guardian that was killed has left is not another heft's. */
static bool has_leftover(pid_t pid)
{
	pid_t guardian;
	return placement_find(pid, 0, &guardian) && !guardian;
}

void agent_guard(void *ctx, pid_t pid, int socket, int blob)
{
	const struct guardian_settings *s = ctx;
	struct heft_error err = {0};
	const char *warning;
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", blob);
	struct guarding t = {.o = {.pid = pid,
				   .blob = path,
				   .session_dir = s->session_dir,
				   .sample_bytes = s->sample_bytes,
				   .sample_automatic = s->sample_automatic,
				   .functions = s->functions,
				   .follow = true},
			     .socket = socket};
	t.g.o = &t.o;
	guardian_separate(socket);
	int rc = attach_calls_open(&t.calls, pid, &warning, &err);
	if (!rc && !has_leftover(pid))
		rc = attach_check_free(pid, &err);
	if (rc)
		refuse(&t, s, rc, &err, GUARDIAN_TAKEN);
	t.process = (int)syscall(SYS_pidfd_open, pid, 0);
	rc = guardian_attach(&t.g);
	if (rc)
		refuse(&t, s, rc, &t.g.answer.err, GUARDIAN_REFUSED);
	struct guardian_message m = {.pause_ns = t.g.answer.report.pause_ns,
				     .threads = t.g.answer.report.threads};
	say(&t, &m, GUARDIAN_ATTACHED);
	for (;;)
		wait_for_end(&t);
}
