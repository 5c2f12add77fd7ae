/* The guardian does all that touches the program: it alone traces. heft itself may be
 * killed at any moment; then the socket closes, and the guardian takes out what it has
 * put in before it ends. So it must not be killed by what kills heft: it has a session
 * of its own, blocks all signals, holds no terminal, and is the last
 * that the kernel ends for lack of memory, where we may say so.
 *
 * Forked children of the program have the same code at the same addresses. They are
 * found by that, when it is taken out. */
#include "attach/guardian.h"

#include "attach/placement.h"
#include "attach/stop.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUNDS = 5 }; /* a child may fork while its parent is seen to */

struct guardian {
	const struct attach_options *o;
	uint64_t near_at; /* 0: nothing is in the program */
	struct guardian_answer answer;
};

/* ---- what it does, each in a thread of its own: when that ends, nothing is traced any more */

/* What an earlier heft has left behind goes first; what another one uses stays. */
static int clear(pid_t pid, struct heft_error *err)
{
	struct attach_report report = {0};
	pid_t guardian;
	for (uint64_t at = 0; (at = placement_find(pid, at, &guardian));) {
		if (guardian)
			return heft_fail(err, HEFT_EREFUSED,
					 "heft (process %d) is attached to process %d already\n"
					 "heft detach %d ends that.",
					 guardian, pid, pid);
		int rc = placement_take(pid, at, &report, err);
		if (rc)
			return rc;
	}
	return 0;
}

static int put(void *ctx)
{
	struct guardian *g = ctx;
	struct guardian_answer *a = &g->answer;
	uint64_t near_at = 0;
	int rc = clear(g->o->pid, &a->err);
	if (!rc)
		rc = placement_put(g->o, &near_at, &a->report, &a->err);
	g->near_at = rc ? 0 : near_at;
	return rc;
}

struct taking {
	struct guardian *g;
	pid_t pid;
};

static int take(void *ctx)
{
	const struct taking *t = ctx;
	struct guardian_answer *a = &t->g->answer;
	return placement_take(t->pid, t->g->near_at, &a->report, &a->err);
}

static int take_from(struct guardian *g, pid_t pid)
{
	struct taking t = {g, pid};
	return stop_run(take, &t, &g->answer.err);
}

/* Whether a process has what we have put into the program, because it was forked from it. */
static bool has_ours(const struct guardian *g, pid_t pid)
{
	pid_t guardian;
	return placement_find(pid, g->near_at - 1, &guardian) == g->near_at && guardian == getpid();
}

/* Takes it out of every forked child; returns how many there were. */
static unsigned take_from_children(struct guardian *g, int *rc)
{
	DIR *all = opendir("/proc");
	struct dirent *e;
	unsigned found = 0;
	while (all && (e = readdir(all))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid <= 0 || pid == g->o->pid || pid == getpid() || !has_ours(g, pid))
			continue;
		found++;
		int taken = take_from(g, pid);
		*rc = *rc ? *rc : taken;
	}
	if (all)
		closedir(all);
	return found;
}

static int detach(struct guardian *g)
{
	if (!g->near_at)
		return 0;
	int rc = take_from(g, g->o->pid);
	/* It has executed another program, or ended: what we had put in is gone. */
	if (rc && !has_ours(g, g->o->pid)) {
		g->answer.err = (struct heft_error){0};
		rc = 0;
	}
	for (unsigned i = 0; i < ROUNDS && take_from_children(g, &rc); i++)
		;
	g->near_at = 0;
	return rc;
}

/* ---- the process */

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		errno = 0; /* not permitted: it is as likely to be killed as others */
	if (fd >= 0)
		close(fd);
}

/* heft listens on sockets: who calls one shall not find us when heft has ended. */
static void close_sockets(int but)
{
	DIR *all = opendir("/proc/self/fd");
	struct dirent *e;
	struct stat st;
	while (all && (e = readdir(all))) {
		int fd = (int)strtol(e->d_name, NULL, 10);
		if (fd > 2 && fd != but && fd != dirfd(all) && !fstat(fd, &st) &&
		    S_ISSOCK(st.st_mode))
			close(fd);
	}
	if (all)
		closedir(all);
}

/* Nobody shall wait for the end of a pipe or a terminal because we have it. Other descriptors stay: libraries may have
 * some of their own, and use them. */
static void separate(int socket)
{
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "heft-guardian");
	int none = open("/dev/null", O_RDWR);
	for (int fd = 0; fd < 3 && none >= 0; fd++)
		dup2(none, fd);
	if (none > 2)
		close(none);
	close_sockets(socket);
	if (chdir("/"))
		errno = 0;
	write_file("/proc/self/oom_score_adj", "-1000");
}

/* The list of older blocks goes with the answer. */
static bool answer(int socket, const struct guardian_answer *a)
{
	struct iovec part = {(void *)(uintptr_t)a, sizeof *a};
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (a->report.listed) {
		message.msg_control = &control;
		message.msg_controllen = sizeof control;
		control.head = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&control.head), &a->report.list_fd, sizeof(int));
	}
	bool sent = sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
	if (a->report.listed)
		close(a->report.list_fd);
	return sent;
}

_Noreturn void guardian_run(int socket, const struct attach_options *o)
{
	struct guardian g = {.o = o};
	uint32_t asked;
	separate(socket);
	while (recv(socket, &asked, sizeof asked, 0) == sizeof asked) {
		memset(&g.answer, 0, sizeof g.answer);
		g.answer.rc = asked == GUARDIAN_ATTACH ? stop_run(put, &g, &g.answer.err)
						       : detach(&g);
		bool sent = answer(socket, &g.answer);
		if (!sent || asked == GUARDIAN_DETACH)
			break;
	}
	detach(&g);
	_exit(0);
}
