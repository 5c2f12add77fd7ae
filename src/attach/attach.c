/* heft's side of attaching: starts the guardian and asks it (guardian.c). */
#include "attach/attach.h"

#include "attach/guardian.h"
#include "hosted/passed_message.h"
#include "hosted/proc_text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CANCEL_TRIES = 500, CANCEL_WAIT_NS = 200000 };

struct attached {
	int socket;
	pid_t pid; /* the program's process */
};

/* The guardian is not heft's child, so that nobody takes its end for a program's. */
static int start_guardian(const struct attach_options *o, int sockets[2], struct heft_error *err)
{
	pid_t pid = fork();
	if (pid < 0)
		return heft_fail_errno(err, "cannot start a process");
	if (pid == 0) {
		pid_t guardian = fork();
		if (guardian == 0) {
			close(sockets[0]);
			guardian_run(sockets[1], o);
		}
		_exit(guardian < 0);
	}
	int status;
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return heft_fail(err, HEFT_EIO, "cannot start a process");
	return 0;
}

static int take_answer(struct attached *a, struct attach_report *report, struct heft_error *err)
{
	struct guardian_answer answer;
	int list = -1;
	ssize_t n = passed_message_receive(a->socket, &answer, sizeof answer, &list);
	if (n != sizeof answer)
		return heft_fail(err, HEFT_EIO, "heft's own process beside the program has ended");
	*report = answer.report;
	if (list >= 0)
		report->list_fd = list;
	else
		report->listed = 0; /* no descriptor was free, or none was sent */
	if (answer.rc)
		*err = answer.err;
	return answer.rc;
}

static int ask(struct attached *a, uint32_t what, struct attach_report *report,
	       struct heft_error *err)
{
	if (send(a->socket, &what, sizeof what, MSG_NOSIGNAL) != sizeof what)
		return heft_fail(err, HEFT_EIO, "heft's own process beside the program has ended");
	return take_answer(a, report, err);
}

int attach_begin(struct attached **out, const struct attach_options *o,
		 struct attach_report *report, struct heft_error *err)
{
	int sockets[2];
	struct attached *a = calloc(1, sizeof *a);
	*out = NULL;
	*report = (struct attach_report){0};
	if (!a)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets)) {
		free(a);
		return heft_fail_errno(err, "cannot make a socket");
	}
	a->socket = sockets[0];
	a->pid = o->pid;
	int rc = start_guardian(o, sockets, err);
	close(sockets[1]);
	if (!rc)
		rc = ask(a, GUARDIAN_ATTACH, report, err);
	if (!rc) {
		*out = a;
		return 0;
	}
	close(a->socket);
	free(a);
	return rc;
}

/* Who is about to end has no memory any more, and the kernel lets nobody look inside. */
static bool has_memory(pid_t pid)
{
	char status[4096];
	return proc_text(status, sizeof status, "/proc/%d/status", (int)pid) &&
	       proc_status_line(status, "VmSize");
}

/* A forked child may have closed itself against its own user since: then only root could leave it. */
static void note_closed(const pid_t *pids, uint32_t count, struct attach_report *report)
{
	char path[64];
	for (uint32_t i = 0; i < count; i++) {
		snprintf(path, sizeof path, "/proc/%d/mem", (int)pids[i]);
		int mem = open(path, O_RDONLY | O_CLOEXEC);
		if (mem >= 0)
			close(mem);
		else if ((errno == EACCES || errno == EPERM) && has_memory(pids[i]))
			snprintf(report->left, sizeof report->left,
				 "process %d does not let heft look inside any more: unless it has "
				 "executed another program, heft's code stays in it, and does "
				 "nothing",
				 (int)pids[i]);
	}
}

int attach_started(struct attached *a, struct attach_report *report, struct heft_error *err)
{
	*report = (struct attach_report){0};
	return take_answer(a, report, err);
}

void attach_go(struct attached *a)
{
	const uint32_t what = GUARDIAN_GO;
	send(a->socket, &what, sizeof what, MSG_NOSIGNAL);
}

/* It waits for the exec, and nothing is in the process yet: what ends the tracer ends the tracing. */
void attach_cancel(struct attached *a, pid_t guardian)
{
	char text[4096];
	kill(guardian, SIGKILL);
	for (int i = 0; i < CANCEL_TRIES; i++) {
		proc_text(text, sizeof text, "/proc/%d/status", (int)a->pid);
		if (proc_status_last(text, "TracerPid") <= 0) /* else: a thread of the guardian */
			break;
		nanosleep(&(struct timespec){.tv_nsec = CANCEL_WAIT_NS}, NULL);
	}
	attach_forget(a);
}

void attach_process_ended(struct attached *a)
{
	const uint32_t what = GUARDIAN_PROCESS_ENDED;
	send(a->socket, &what, sizeof what, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void attach_forget(struct attached *a)
{
	close(a->socket);
	free(a);
}

int attach_end(struct attached *a, const pid_t *pids, uint32_t count, struct attach_report *report,
	       struct heft_error *err)
{
	*report = (struct attach_report){0};
	int rc = ask(a, GUARDIAN_DETACH, report, err);
	note_closed(pids, count, report);
	attach_forget(a);
	return rc;
}

int attached_fd(const struct attached *a)
{
	return a->socket;
}
