/* heft's side of attaching: starts the guardian and asks it (guardian.c). */
#include "attach/attach.h"

#include "attach/guardian.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct attached {
	int socket;
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

static int ask(struct attached *a, uint32_t what, struct attach_report *report,
	       struct heft_error *err)
{
	struct guardian_answer answer;
	struct iovec part = {&answer, sizeof answer};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof control};
	ssize_t n = -1;
	if (send(a->socket, &what, sizeof what, MSG_NOSIGNAL) == sizeof what)
		while ((n = recvmsg(a->socket, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
			;
	if (n != sizeof answer)
		return heft_fail(err, HEFT_EIO, "heft's own process beside the program has ended");
	*report = answer.report;
	const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(&report->list_fd, CMSG_DATA(c), sizeof(int));
	else
		report->listed = 0; /* no descriptor was free, or none was sent */
	if (answer.rc)
		*err = answer.err;
	return answer.rc;
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

int attach_end(struct attached *a, const pid_t *pids, uint32_t count, struct attach_report *report,
	       struct heft_error *err)
{
	(void)pids, (void)count;
	*report = (struct attach_report){0};
	int rc = ask(a, GUARDIAN_DETACH, report, err);
	close(a->socket);
	free(a);
	return rc;
}

int attached_fd(const struct attached *a)
{
	return a->socket;
}
