/* A child of the supervisor reads /proc/PID/maps for it, because the process that is looked at decides how long that takes:
 * it may have 65,000 mappings with paths of 4 KiB, or wait for a file system that does not answer while it holds the lock
 * of its memory. The supervisor has one thread and everybody waits for it, so it waits for a look no longer than
 * LOOK_MS; a looker that takes longer is killed, and the next question begins another one. On a machine that is so busy
 * that the looker did not come to its turn it gets more time: the process that is looked at cannot help that.
 *
 * The looker is not root. It keeps one capability (to see what others have mapped), has no descriptor but its link, and
 * is confined like a worker. It reads what the kernel writes, and nothing of a program. */
#include "agent/looker.h"

#include "agent/confinement.h"
#include "agent/identity.h"
#include "hosted/monotonic.h"
#include "hosted/proc_text.h"
#include "session/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define BUSY_NS (200 * MS) /* of processor time: then it is given up, too */
enum {
	LOOK_MS = 500,
	STARVED_MS = 5000, /* if the machine has no processor for it */
};

struct question {
	uint32_t number;
	bool search;
	int32_t pid;
	uint64_t device, inode;
	uint32_t uid;
};
struct answer {
	uint32_t number, what;
	int32_t pid;
	uint64_t cost_ns;
};

/* ---- the child */

static uint64_t cpu_ns(void)
{
	struct timespec t = {0};
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

static struct answer look(const struct question *q)
{
	uint64_t begun = cpu_ns();
	const struct stat file = {.st_dev = q->device, .st_ino = q->inode, .st_uid = q->uid};
	struct answer a = {.number = q->number};
	if (q->search) {
		a.pid = owner_in_namespace(&file, q->pid);
		a.what = a.pid ? LOOK_HAS : LOOK_LACKS;
	} else
		a.what = mappings_look(q->pid, &file);
	a.cost_ns = cpu_ns() - begun;
	return a;
}

/* Gives up being root, and every capability but the one to see what others have mapped. Who does not have that one (in
 * some containers) sees root's processes only as root. */
static bool give_up_rights(void)
{
	const struct identity who = identity_without_rights();
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[2] = {0};
	if (geteuid() != 0 || syscall(SYS_capget, &head, sets) ||
	    !(sets[0].effective & 1u << CAP_SYS_PTRACE))
		return true;
	memset(sets, 0, sizeof sets);
	sets[0].permitted = sets[0].effective = 1u << CAP_SYS_PTRACE;
	return !prctl(PR_SET_KEEPCAPS, 1) && identity_become(&who) &&
	       !syscall(SYS_capset, &head, sets);
}

_Noreturn static void be_looker(int fd, pid_t parent)
{
	static const struct confinement limits = {.name = "heft-looker"};
	struct question q;
	confinement_keep_descriptors(&fd, 1, false);
	if (!give_up_rights() || !confinement_enter(&limits, parent))
		_exit(1);
	while (recv(fd, &q, sizeof q, 0) == (ssize_t)sizeof q) {
		const struct answer a = look(&q);
		if (send(fd, &a, sizeof a, MSG_NOSIGNAL) != (ssize_t)sizeof a)
			break;
	}
	_exit(0);
}

/* ---- the supervisor */

void looker_init(struct looker *l)
{
	*l = (struct looker){.fd = -1};
}

static void reap(struct looker *l)
{
	for (size_t i = 0; i < l->dying.count; i++)
		if (waitpid(l->dying.items[i], NULL, WNOHANG))
			l->dying.items[i--] = l->dying.items[--l->dying.count];
}

static void end(struct looker *l)
{
	if (l->fd < 0)
		return;
	close(l->fd);
	l->fd = -1;
	kill(l->pid, SIGKILL);
	(void)vector_push(&l->dying, l->pid);
}

static bool begin(struct looker *l)
{
	int pair[2];
	pid_t parent = getpid();
	reap(l);
	if (l->fd >= 0)
		return true;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return false;
	l->pid = fork();
	if (l->pid == 0)
		be_looker(pair[1], parent);
	close(pair[1]);
	if (l->pid < 0)
		close(pair[0]);
	else
		l->fd = pair[0];
	return l->pid > 0;
}

void looker_fini(struct looker *l)
{
	end(l);
	for (int i = 0; i < 100 && l->dying.count; i++) {
		reap(l);
		if (l->dying.count)
			usleep(1000);
	}
	vector_free(&l->dying);
}

static uint64_t cpu_of(pid_t pid)
{
	clockid_t clock;
	struct timespec t = {0};
	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

/* Whether it would go on if there were a processor, and has not had one for long. */
static bool is_starved(pid_t pid, uint64_t cpu_before)
{
	char text[512];
	proc_text(text, sizeof text, "/proc/%d/stat", pid);
	const char *state = proc_stat_field(text, STAT_STATE);
	return state && *state == 'R' && cpu_of(pid) - cpu_before < BUSY_NS;
}

/* False: there was none in time. */
static bool receive(struct looker *l, struct answer *a, uint64_t cpu_before)
{
	const uint64_t begun = monotonic_ns();
	uint64_t until = begun + LOOK_MS * MS, now;
	struct pollfd p = {.fd = l->fd, .events = POLLIN};
	for (;;) {
		now = monotonic_ns();
		if (now >= until &&
		    (now > begun + STARVED_MS * MS || !is_starved(l->pid, cpu_before)))
			return false;
		if (now >= until)
			until = now + LOOK_MS / 10 * MS;
		int ready = poll(&p, 1, (int)((until - now) / MS) + 1);
		if (ready == 1)
			return recv(l->fd, a, sizeof *a, MSG_DONTWAIT) == (ssize_t)sizeof *a &&
			       a->number == l->last && a->what < LOOK_TOO_LONG;
		if (ready < 0 && errno != EINTR)
			return false;
	}
}

static enum look_answer ask(struct looker *l, struct question *q, pid_t *found)
{
	struct answer a;
	if (!begin(l))
		return LOOK_TOO_LONG;
	q->number = ++l->last;
	const uint64_t begun = monotonic_ns(), cpu_before = cpu_of(l->pid);
	if (send(l->fd, q, sizeof *q, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof *q ||
	    !receive(l, &a, cpu_before)) {
		end(l);
		l->given_up++;
		l->cost_ns += monotonic_ns() - begun;
		return LOOK_TOO_LONG;
	}
	l->cost_ns += a.cost_ns;
	if (found)
		*found = a.pid;
	return (enum look_answer)a.what;
}

enum look_answer looker_look(struct looker *l, pid_t pid, const struct stat *file)
{
	struct question q = {.pid = pid, .device = file->st_dev, .inode = file->st_ino};
	return ask(l, &q, NULL);
}

enum look_answer looker_search(struct looker *l, pid_t named, const struct stat *file, pid_t *found)
{
	struct question q = {.search = true,
			     .pid = named,
			     .device = file->st_dev,
			     .inode = file->st_ino,
			     .uid = file->st_uid};
	return ask(l, &q, found);
}
