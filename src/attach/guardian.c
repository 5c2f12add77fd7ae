/* The guardian does all that touches the program: it alone traces. heft itself may be
 * killed at any moment; then the socket closes, and the guardian takes out what it has
 * put in before it ends. So it must not be killed by what kills heft: it has a session
 * of its own, blocks all signals, holds no terminal, and is the last
 * that the kernel ends for lack of memory, where we may say so.
 *
 * Forked children of the program have the same code at the same addresses. It is taken
 * out of them, too (leave.c). */
#include "attach/guardian.h"

#include "attach/leave.h"
#include "attach/placement.h"
#include "attach/start.h"
#include "attach/stop.h"
#include "hosted/passed_message.h"
#include "session/process_start.h"

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

/* ---- what it does */

/* What an earlier heft has left behind goes first; what another one uses stays. */
static int clear(struct guardian *g)
{
	struct guardian_answer *a = &g->answer;
	struct attach_report ignored = {0};
	struct leaving earlier;
	pid_t pid = g->o->pid, guardian;
	for (uint64_t at = 0; (at = placement_find(pid, at, &guardian));) {
		if (guardian)
			return heft_fail(&a->err, HEFT_EREFUSED,
					 "heft (process %d) is attached to process %d already\n"
					 "heft detach %d ends that.",
					 guardian, pid, pid);
		if (!leaving_read(&earlier, pid, at))
			continue; /* the program has just ended */
		int rc = leave_all(&earlier, &ignored, &a->err);
		if (rc)
			return rc;
	}
	return 0;
}

static bool answer(int socket, const struct guardian_answer *a);

/* The program is to be started: traces its process, says so, and holds it when it is there. */
static int hold(struct guardian *g)
{
	struct guardian_answer *a = &g->answer;
	uint32_t word = GUARDIAN_GO;
	int rc = g->o->start_spawns ? start_trace_parent(g->o->pid, !g->o->start_lets_go, &a->err)
				    : start_trace(g->o->pid, !g->o->start_lets_go, &a->err);
	a->report.guardian = getpid();
	if (!rc && !answer(g->socket, a))
		rc = heft_fail(&a->err, HEFT_EIO, "heft has ended");
	if (!rc && g->o->start_lets_go &&
	    (recv(g->socket, &word, sizeof word, 0) != sizeof word || word != GUARDIAN_GO))
		rc = heft_fail(&a->err, HEFT_EIO, "the program is not to be held");
	if (!rc && g->o->start_spawns) {
		g->spawned = *g->o;
		rc = start_trace_child(g->o->pid, &g->spawned.pid, &a->err);
		g->o = &g->spawned;
	}
	a->report.pid = g->o->pid;
	return rc ? rc : start_hold(g->o->pid, g->o->start_execs, &a->err);
}

/* In a thread of its own: when that ends, nothing is traced any more. */
static int put(void *ctx)
{
	struct guardian *g = ctx;
	struct guardian_answer *a = &g->answer;
	int rc = g->o->start_execs ? hold(g) : 0;
	if (rc && !g->o->start_lets_go) /* as in placement_put */
		kill(g->o->pid, SIGKILL);
	return rc ? rc : placement_put(g->o, &g->near_at, &a->report, &a->err);
}

int guardian_detach(struct guardian *g)
{
	const struct leaving l = {g->o->pid, g->near_at, (uint64_t)getpid(),
				  process_start_ticks(getpid())};
	int rc = g->near_at ? leave_all(&l, &g->answer.report, &g->answer.err) : 0;
	g->near_at = 0;
	return rc;
}

int guardian_attach(struct guardian *g)
{
	memset(&g->answer, 0, sizeof g->answer);
	int rc = g->o->start_execs ? 0 : clear(g);
	if (!rc)
		rc = stop_run(put, g, &g->answer.err);
	if (rc) { /* children that were forked meanwhile may have it */
		const struct guardian_answer reason = g->answer;
		guardian_detach(g);
		g->answer = reason;
	}
	return rc;
}

pid_t guardian_child(const struct guardian *g)
{
	DIR *all = opendir("/proc");
	struct dirent *e;
	pid_t found = 0, guardian;
	while (all && !found && (e = readdir(all))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid > 0 && pid != g->o->pid && pid != getpid() &&
		    placement_find(pid, g->near_at - 1, &guardian) == g->near_at &&
		    guardian == getpid())
			found = pid;
	}
	if (all)
		closedir(all);
	return found;
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
void guardian_separate(int socket)
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
	int list = a->report.listed ? a->report.list_fd : -1;
	bool sent = passed_message_send(socket, a, sizeof *a, list);
	if (list >= 0)
		close(list);
	return sent;
}

_Noreturn void guardian_run(int socket, const struct attach_options *o)
{
	struct guardian g = {.o = o, .socket = socket};
	uint32_t asked;
	guardian_separate(socket);
	while (recv(socket, &asked, sizeof asked, 0) == sizeof asked) {
		if (asked == GUARDIAN_PROCESS_ENDED && !guardian_child(&g))
			break;
		if (asked != GUARDIAN_ATTACH && asked != GUARDIAN_DETACH)
			continue;
		memset(&g.answer, 0, sizeof g.answer);
		g.answer.rc = asked == GUARDIAN_ATTACH ? guardian_attach(&g) : guardian_detach(&g);
		bool sent = answer(socket, &g.answer);
		if (!sent || asked == GUARDIAN_DETACH)
			break;
	}
	guardian_detach(&g);
	_exit(0);
}
