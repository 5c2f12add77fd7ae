/* A heft that is attached to a process listens on a socket whose name is made of the process's number, so
 * that `heft detach PID` finds it, and a second heft finds that the process is taken.
 *
 * The name is abstract: it is in no directory, needs no rights, and is gone with its owner, even a killed
 * one. Numbers of processes mean something in a pid namespace only, so that is part of the name. The
 * kernel says who is at the other end: only the same user and root may ask, and who asks believes only the
 * same user, root and the user of the process. Others can take the name first, and then `heft detach` does not
 * work; nothing else depends on it.
 *
 * To connect is to look who is there. Who wants more sends LEAVE and gets one answer: DONE, or FAILED and the
 * reason. */
#include "session/attach_call.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { LEAVE = 'l', DONE = 'd', FAILED = 'f', ANSWER_BYTES = 1000, PATIENCE_MS = 60000 };
/* For one that hangs up, to be gone */
enum { LAST_TRIES = 200 };
#define BETWEEN_TRIES_NS 20000000L

static socklen_t name_of(struct sockaddr_un *name, pid_t pid)
{
	struct stat ns = {0};
	stat("/proc/self/ns/pid", &ns); /* without /proc all have the same */
	memset(name, 0, sizeof *name);
	name->sun_family = AF_UNIX;
	int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1,
			      "heft-attach/%" PRIu64 "/%d", (uint64_t)ns.st_ino, (int)pid);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int make_socket(void)
{
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Connects to the heft that has the process. -1: there is none. */
static int call(pid_t pid, struct ucred *who)
{
	struct sockaddr_un name;
	socklen_t length = name_of(&name, pid), size = sizeof *who;
	int fd = make_socket();
	if (fd >= 0 && !connect(fd, (struct sockaddr *)&name, length) &&
	    !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, who, &size))
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Whether whoever has the name is to be believed: a stranger cannot have attached heft to the process. */
static bool is_believable(pid_t pid, const struct ucred *who)
{
	char path[32];
	struct stat owner;
	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return who->uid == 0 || who->uid == geteuid() ||
	       (!stat(path, &owner) && owner.st_uid == who->uid);
}

pid_t attach_holder(pid_t pid)
{
	struct ucred who;
	int fd = call(pid, &who);
	if (fd < 0)
		return 0;
	close(fd);
	return is_believable(pid, &who) ? who.pid : 0;
}

/* ---- who is attached */

int attach_calls_open(struct attach_calls *c, pid_t pid, const char **warning,
		      struct heft_error *err)
{
	struct sockaddr_un name;
	socklen_t length = name_of(&name, pid);
	*c = (struct attach_calls){.listener = make_socket()};
	*warning = NULL;
	if (c->listener >= 0 && !bind(c->listener, (struct sockaddr *)&name, length) &&
	    !listen(c->listener, ATTACH_CALLERS))
		return 0;
	bool taken = c->listener >= 0 && errno == EADDRINUSE;
	attach_calls_close(c, NULL);
	pid_t holder = taken ? attach_holder(pid) : 0;
	if (holder)
		return heft_fail(err, HEFT_EBUSY,
				 "process %d is being recorded already: heft process %d is "
				 "attached to it\n'heft detach %d' ends that",
				 (int)pid, (int)holder, (int)pid);
	*warning = "heft detach will not find this recording: another user has taken its name";
	if (!taken)
		*warning = "heft detach will not find this recording: there is no socket for it";
	return 0;
}

static void drop(struct attach_calls *c, uint32_t i)
{
	close(c->callers[i].fd);
	c->callers[i] = c->callers[--c->count];
}

/* Only the same user and root may ask. */
static bool may_ask(int fd)
{
	struct ucred who;
	socklen_t size = sizeof who;
	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
	       (who.uid == 0 || who.uid == geteuid());
}

bool attach_calls_look(struct attach_calls *c)
{
	int fd;
	bool asked = false;
	while (c->listener >= 0 && c->count < ATTACH_CALLERS &&
	       (fd = accept4(c->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		if (may_ask(fd))
			c->callers[c->count++] = (struct attach_caller){.fd = fd};
		else
			close(fd);
	for (uint32_t i = 0; i < c->count;) {
		struct attach_caller *q = &c->callers[i];
		char word;
		ssize_t n = recv(q->fd, &word, 1, 0);
		if (n == 0 || (n < 0 && errno != EAGAIN)) {
			drop(c, i); /* it looked who is here, or has given up */
			continue;
		}
		if (n > 0 && word == LEAVE)
			q->asked = true;
		else if (n > 0) {
			drop(c, i);
			continue;
		}
		asked |= q->asked;
		i++;
	}
	return asked;
}

void attach_calls_close(struct attach_calls *c, const char *problem)
{
	char answer[ANSWER_BYTES];
	if (c->listener >= 0)
		attach_calls_look(c); /* who has asked just now */
	snprintf(answer, sizeof answer, "%c%s", problem ? FAILED : DONE, problem ? problem : "");
	while (c->count) {
		if (c->callers[0].asked)
			send(c->callers[0].fd, answer, strlen(answer), MSG_NOSIGNAL);
		drop(c, 0);
	}
	if (c->listener >= 0)
		close(c->listener);
	c->listener = -1;
}

/* ---- who asks */

/* Whoever may ask gets an answer, but for those who come in the moment in which it leaves. */
static bool is_allowed(const struct ucred *who)
{
	return geteuid() == 0 || who->uid == geteuid();
}

/* Sends one question. > 0: there is an answer; 0: it was hung up; < 0: nothing came for a long time. */
static ssize_t ask(int fd, char *answer, size_t bytes)
{
	const char word = LEAVE;
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	ssize_t n;
	if (send(fd, &word, 1, MSG_NOSIGNAL) != 1)
		return 0;
	if (poll(&wait, 1, PATIENCE_MS) <= 0)
		return -1;
	n = recv(fd, answer, bytes, 0);
	return n > 0 ? n : 0;
}

int attach_ask_holder(int fd, pid_t pid, const struct ucred *who, bool *hung_up,
		      struct heft_error *err)
{
	char answer[ANSWER_BYTES] = "";
	ssize_t n = ask(fd, answer, sizeof answer - 1);
	*hung_up = n == 0;
	if (n > 0 && answer[0] == DONE)
		return 0;
	if (n > 0)
		return heft_fail(err, HEFT_EIO, "%s", answer + 1);
	if (!is_allowed(who))
		return heft_fail(
			err, HEFT_EREFUSED,
			"heft process %d, which is attached to process %d, belongs to another "
			"user\nask as that user or as root",
			(int)who->pid, (int)pid);
	return heft_fail(err, HEFT_EBUSY,
			 "heft process %d, which is attached to process %d, does not answer\n"
			 "'kill %d' asks it the same",
			 (int)who->pid, (int)pid, (int)who->pid);
}

int attach_ask_to_leave(pid_t pid, struct heft_error *err)
{
	struct ucred who;
	bool again = true;
	int rc = 0;
	for (unsigned i = 0; i < LAST_TRIES && again; i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = BETWEEN_TRIES_NS}, NULL);
		int fd = call(pid, &who);
		if (fd >= 0 && !is_believable(pid, &who)) {
			close(fd);
			fd = -1;
		}
		if (fd < 0)
			return heft_fail(err, HEFT_ENOTFOUND, "no heft is attached to process %d",
					 (int)pid);
		rc = attach_ask_holder(fd, pid, &who, &again, err);
		close(fd);
		again = again && is_allowed(&who);
	}
	return rc;
}
