/* A program makes its own session file, and its forked children make theirs. In a container
 * or a chroot it does not see the folder that they go into. Then it gets the folder as a
 * descriptor:
 *
 *   1. A thread of the program makes a pair of sockets. heft takes one of them
 *      (pidfd_getfd) and sends the folder through it; the thread receives it.
 *   2. The descriptor gets a high number, and the others are closed: the program's next
 *      file has the number that it would have had.
 *
 * What is handed over must not be a way out of the container. From a folder of ours the
 * program could walk up ("..") to every file that heft sees. So it gets a mount of its own
 * that has nothing but this folder (open_tree): there is nothing above it. Making one
 * takes CAP_SYS_ADMIN. A user without it has it in a user namespace of its own, where the
 * system allows that, so a short-lived child makes it there. */
#include "attach/placement_session.h"

#include "session/process_start.h"
#include "hosted/passed_message.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#endif
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#endif

enum {
	HIGH_NUMBER = 1000, /* the kernel's table of 1,024 has it still */
	BELOW_LIMIT = 16,   /* if the program may not have that many */
};

/* ---- the folder alone */

static int clone_folder(const char *path)
{
	return (int)syscall(SYS_open_tree, AT_FDCWD, path, OPEN_TREE_CLONE | O_CLOEXEC);
}

/* In a child, which has a user and mount namespace of its own. */
static int clone_in_namespace(const char *path)
{
	int pair[2], fd = -1, status;
	char byte = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	pid_t child = fork();
	if (child == 0) {
		int made = unshare(CLONE_NEWUSER | CLONE_NEWNS) ? -1 : clone_folder(path);
		_exit(made < 0 || !passed_message_send(pair[1], &byte, sizeof byte, made));
	}
	close(pair[1]);
	if (child > 0) {
		passed_message_receive(pair[0], &byte, sizeof byte, &fd);
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(pair[0]);
	return fd;
}

static int refuse_folder(const struct attach_options *o, struct heft_error *err)
{
	return heft_fail(
		err, HEFT_EREFUSED,
		"process %d sees another file system (a container, or chroot), and heft may not "
		"hand it the folder %s\n"
		"Run heft as root, or set HEFT_DIR to a folder in memory that both see under the "
		"same name.",
		o->pid, o->session_dir);
}

int session_way_find(struct session_way *w, const struct attach_options *o, struct heft_error *err)
{
	char path[600];
	struct stat theirs, cloned;
	w->fd = -1;
	snprintf(path, sizeof path, "/proc/%d/root%s", o->pid, o->session_dir);
	if (!process_start_ticks(o->pid))
		return heft_fail(err, HEFT_ENOTFOUND, "process %d has ended", o->pid);
	if (stat(o->session_dir, &w->folder))
		return heft_fail_errno(err, "%s", o->session_dir);
	if (!stat(path, &theirs) && w->folder.st_dev == theirs.st_dev &&
	    w->folder.st_ino == theirs.st_ino)
		return 0;
	w->fd = clone_folder(o->session_dir);
	if (w->fd < 0)
		w->fd = clone_in_namespace(o->session_dir);
	if (w->fd < 0 || fstat(w->fd, &cloned) || cloned.st_dev != w->folder.st_dev ||
	    cloned.st_ino != w->folder.st_ino)
		return refuse_folder(o, err);
	return 0;
}

void session_way_fini(struct session_way *w)
{
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

/* ---- handing it over */

/* What lies in the program's memory meanwhile */
struct scratch {
	int32_t pair[2];
	struct msghdr message;
	struct iovec part;
	uint64_t byte;
	union { /* last: it may grow */
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
};
_Static_assert(sizeof(struct scratch) <= 256, "what the caller gives");

struct handing {
	struct stop *stop;
	pid_t pid;
	uint64_t at; /* the scratch */
};

static int call(struct handing *h, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
		int64_t *result, struct heft_error *err)
{
	const uint64_t args[6] = {a, b, c, d, 0, 0};
	int rc = stop_call(h->stop, number, args, result, err);
	if (!rc && *result < 0) {
		errno = (int)-*result;
		rc = heft_fail_errno(err, "process %d cannot take the folder of its session",
				     h->pid);
	}
	return rc;
}

static void close_in(struct handing *h, int64_t number)
{
	struct heft_error ignored;
	int64_t result;
	if (number >= 0)
		call(h, SYS_close, (uint64_t)number, 0, 0, 0, &result, &ignored);
}

/* Sends the folder into a socket of the program. */
static int send_to(pid_t pid, int number, int folder, struct heft_error *err)
{
	char byte = 0;
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int ours = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
	int rc = ours >= 0 && passed_message_send(ours, &byte, sizeof byte, folder)
			 ? 0
			 : heft_fail_errno(err, "cannot hand a folder to process %d", pid);
	if (ours >= 0)
		close(ours);
	if (pidfd >= 0)
		close(pidfd);
	return rc;
}

static int receive(struct handing *h, int socket, int64_t *number, struct heft_error *err)
{
	struct scratch s = {
		.message = {.msg_iov = (void *)(uintptr_t)(h->at + offsetof(struct scratch, part)),
			    .msg_iovlen = 1,
			    .msg_control = (void *)(uintptr_t)(h->at +
							       offsetof(struct scratch, control)),
			    .msg_controllen = sizeof s.control},
		.part = {(void *)(uintptr_t)(h->at + offsetof(struct scratch, byte)), 1},
	};
	int64_t result;
	int32_t got;
	int rc = stop_write(h->stop, h->at, &s, sizeof s, err);
	if (!rc)
		rc = call(h, SYS_recvmsg, (uint64_t)socket,
			  h->at + offsetof(struct scratch, message),
			  MSG_DONTWAIT | MSG_CMSG_CLOEXEC, 0, &result, err);
	if (!rc)
		rc = stop_read(h->stop, h->at, &s, sizeof s, err);
	if (rc)
		return rc;
	if (s.control.head.cmsg_type != SCM_RIGHTS ||
	    s.control.head.cmsg_len != CMSG_LEN(sizeof got))
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d has no descriptor left for heft: its limit of open "
				 "files is reached",
				 h->pid);
	memcpy(&got, CMSG_DATA(&s.control.head), sizeof got);
	*number = got;
	return 0;
}

/* The highest number that costs the program nothing, and that it is least likely to use itself. */
static uint64_t high_number(pid_t pid)
{
	struct rlimit files;
	if (prlimit(pid, RLIMIT_NOFILE, NULL, &files) || files.rlim_cur > HIGH_NUMBER + BELOW_LIMIT)
		return HIGH_NUMBER;
	return files.rlim_cur > BELOW_LIMIT ? files.rlim_cur - BELOW_LIMIT : 0;
}

int session_way_hand_over(const struct session_way *w, struct stop *stop, pid_t pid,
			  uint64_t scratch, int32_t *number, struct heft_error *err)
{
	struct handing h = {stop, pid, scratch};
	int32_t pair[2] = {-1, -1};
	int64_t received = -1, result = -1;
	int rc = call(&h, SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, scratch, &result,
		      err);
	if (!rc)
		rc = stop_read(stop, scratch, pair, sizeof pair, err);
	if (!rc)
		rc = send_to(pid, pair[0], w->fd, err);
	if (!rc)
		rc = receive(&h, pair[1], &received, err);
	if (!rc)
		rc = call(&h, SYS_fcntl, (uint64_t)received, F_DUPFD_CLOEXEC, high_number(pid), 0,
			  &result, err);
	if (!rc)
		*number = (int32_t)result;
	close_in(&h, received);
	close_in(&h, pair[1]);
	close_in(&h, pair[0]);
	return rc;
}

bool session_way_is_open(pid_t pid, int32_t number, uint64_t device, uint64_t inode)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, number);
	return number > 0 && !stat(path, &st) && st.st_dev == device && st.st_ino == inode;
}
