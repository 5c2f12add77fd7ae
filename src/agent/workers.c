/* Starting, watching and ending workers. A worker is a child of the supervisor, forked while the supervisor has one
 * thread and no secret: no token, and nothing of a program but what /proc shows to everybody. It keeps the descriptors
 * it is given and no other, becomes the user it works for, and enters its confinement; only then does it read anything.
 *
 * A worker that does not answer, or takes more memory than a worker may, is killed. After a failure the next one begins
 * later and later, so that a program that ends its worker each time costs little. The kernel does not end a process that
 * waits for a file system, and a user may have mounted one that never answers: after two of those that user has no
 * worker until one is gone. */
#include "agent/workers.h"

#include "agent/confinement.h"
#include "hosted/foreign_entry.h"
#include "hosted/monotonic.h"
#include "hosted/proc_text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MS 1000000ull
#define GIB (1ull << 30)
#define CHECK_EVERY_NS (250 * MS) /* its memory, and whether it answers */
#define PING_NS (30000 * MS)
#define DYING_NS (1000 * MS)
#define IDLE_NS (60000 * MS)
#define AGAIN_NS (500 * MS) /* doubles with each failure in a row, */
#define AGAIN_MOST_NS (60000 * MS)
#define CALM_NS (120000 * MS) /* until a worker has run for so long */

#define MEMORY_MOST GIB     /* of its own; it is killed above */
#define DATA_MOST (4 * GIB) /* the kernel refuses more */
#define FILE_MOST (2 * GIB)
#define OOM_SCORE 500 /* of -1000 (never) to 1000 (first) */

enum {
	MESSAGES_MOST = 64,
	FILES_MOST = 8,
	SEATS_OF_USER = 4,
	DYING_OF_USER = 2, /* that cannot be ended: no other begins before one of them is gone */
};

/* Whether it is longer ago than that. It may also be later than `now`, which was taken before. */
static bool is_past(uint64_t then, uint64_t ns, uint64_t now)
{
	return now > then && now - then > ns;
}

struct worker_seat *workers_seat(struct workers *w, const struct identity *who)
{
	uint32_t same = 0, last = 0;
	for (uint32_t i = 0; i < w->count; i++) {
		if (identity_equal(&w->seats[i]->who, who))
			return w->seats[i];
		const struct identity *other = &w->seats[i]->who;
		if (other->uid == who->uid && other->owner == who->owner &&
		    other->roots == who->roots) {
			same++;
			last = i;
		}
	}
	/* A user has a few, whatever groups it finds; and there is always one for root's programs. */
	if (same >= SEATS_OF_USER || (same && who->any_groups))
		return w->seats[last];
	uint32_t most = !who->owner ? WORKERS_MOST : WORKERS_MOST - 2;
	struct worker_seat *s = w->count < most ? calloc(1, sizeof *s) : NULL;
	if (!s)
		return NULL;
	s->who = *who;
	s->link.fd = s->files = -1;
	s->idle_ns = monotonic_ns();
	w->seats[w->count++] = s;
	return s;
}

/* ---- beginning */

/* Sockets between a worker and others */
enum { LINK, FILES, CHANNELS, PAIRS = CHANNELS + WORKER_CHANNELS };

/* What was looked up once is kept for next time, by each user apart: what one has put there, no other reads. Without the
 * folder nothing is kept. */
static void make_cache(const char *base, const struct identity *who)
{
	char path[4200];
	struct stat st;
	/* chmod, because the umask takes bits from mkdir's mode; users need not list it. */
	if (mkdir(base, 0700) ? errno != EEXIST : chmod(base, 0711))
		return;
	int length = snprintf(path, sizeof path, "%.4100s/%u", base, who->uid);
	if (who->owner != who->uid && !who->roots)
		snprintf(path + length, sizeof path - (size_t)length, "-%u", who->owner);
	if (!mkdir(path, 0700) && lchown(path, who->uid, who->gid))
		return;
	if (foreign_entry_stat(AT_FDCWD, path, &st) && S_ISDIR(st.st_mode) && st.st_uid == who->uid)
		setenv("XDG_CACHE_HOME", path, 1);
	else
		unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
}

/* If memory runs out, a worker is to go before the supervisor and before most programs: the next one reads the same
 * session files. A service may be protected from that (OOMScoreAdjust of systemd); a worker must not be. */
static void prefer_to_be_killed(void)
{
	char text[16] = "";
	int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof text - 1) > 0 && atoi(text) < OOM_SCORE) {
		int n = snprintf(text, sizeof text, "%d", OOM_SCORE);
		(void)!pwrite(fd, text, (size_t)n, 0);
	}
	close(fd);
}

/* In the child. */
_Noreturn static void be_worker(const struct workers *w, const struct worker_seat *s,
				int pairs[PAIRS][2], pid_t parent)
{
	static const struct confinement limits = {
		.name = "heft-worker", .data_bytes = DATA_MOST, .file_bytes = FILE_MOST};
	int fds[PAIRS];
	for (int i = 0; i < PAIRS; i++)
		fds[i] = pairs[i][1];
	confinement_keep_descriptors(fds, PAIRS, false);
	if (w->cache)
		make_cache(w->cache, &s->who);
	prefer_to_be_killed();
	int status = WORKER_FAILED;
	if (identity_become(&s->who) && confinement_enter(&limits, parent))
		status = worker_loop(w->parts, fds[LINK], fds[FILES], fds + CHANNELS);
	_exit(status);
}

static void close_pairs(int pairs[][2], int count)
{
	for (int i = 0; i < count; i++)
		for (int k = 0; k < 2; k++)
			if (pairs[i][k] >= 0)
				close(pairs[i][k]);
}

static bool make_pairs(int pairs[PAIRS][2])
{
	memset(pairs, -1, PAIRS * sizeof *pairs);
	bool made = !link_pair(pairs[LINK]) && !link_pair(pairs[FILES]);
	for (int i = CHANNELS; made && i < PAIRS; i++)
		made = !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i]);
	if (!made)
		close_pairs(pairs, PAIRS);
	return made;
}

static void begin(struct workers *w, struct worker_seat *s, uint64_t now)
{
	int pairs[PAIRS][2], channels[WORKER_CHANNELS];
	pid_t parent = getpid();
	s->again_ns = now + AGAIN_NS;
	if (!make_pairs(pairs))
		return; /* no descriptors: later, perhaps */
	pid_t pid = fork();
	if (pid == 0)
		be_worker(w, s, pairs, parent);
	if (pid < 0) {
		close_pairs(pairs, PAIRS);
		return;
	}
	for (int i = 0; i < PAIRS; i++)
		close(pairs[i][1]);
	for (int i = 0; i < WORKER_CHANNELS; i++)
		channels[i] = pairs[CHANNELS + i][0];
	s->pid = pid;
	s->number = ++w->last_number;
	s->begun_ns = now;
	s->pinged_ns = 0;
	s->why = NULL;
	s->saving = 0;
	s->files = pairs[FILES][0];
	link_init(&s->link, pairs[LINK][0]);
	w->began(w->ctx, s, channels);
}

/* ---- ending */

static void close_files(struct worker_seat *s)
{
	if (s->files >= 0)
		close(s->files);
	s->files = -1;
}

static void kill_worker(struct worker_seat *s, const char *why, uint64_t now)
{
	s->why = why;
	s->killed_ns = now;
	kill(s->pid, SIGKILL);
}

/* Children that were killed and are not gone yet: a file system that hangs may keep one for good. Nobody waits. */
static void reap_dying(struct workers *w)
{
	for (size_t i = 0; i < w->dying.count; i++)
		if (waitpid(w->dying.items[i].pid, NULL, WNOHANG))
			w->dying.items[i--] = w->dying.items[--w->dying.count];
}

bool workers_are_held(const struct workers *w, const struct worker_seat *s)
{
	uint32_t held = 0;
	for (size_t i = 0; i < w->dying.count; i++)
		held += w->dying.items[i].owner == s->who.owner;
	return held >= DYING_OF_USER;
}

/* True: it is gone, and *status is its status. */
static bool wait_briefly(pid_t pid, int *status)
{
	pid_t got = 0;
	for (int i = 0; i < 20 && !got; i++) {
		got = waitpid(pid, status, WNOHANG);
		if (!got)
			usleep(1000);
	}
	return got > 0;
}

static const char *words_of(int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_HUNG)
		return "took longer than 30 s for one answer";
	if (WIFEXITED(status))
		return "could not go on";
	return "was ended by a signal";
}

/* The child is gone or about to be: it closed its link, or was killed a while ago. */
static void reap(struct workers *w, struct worker_seat *s, uint64_t now)
{
	int status = 0;
	bool gone = wait_briefly(s->pid, &status);
	if (!gone) {
		kill(s->pid, SIGKILL);
		const struct dying_worker dying = {s->pid, s->who.owner};
		(void)vector_push(&w->dying, dying);
	}
	bool wanted = s->why && !*s->why;
	const char *why = s->why ? s->why : gone ? words_of(status) : "stopped listening";
	link_fini(&s->link);
	close_files(s);
	s->number = 0;
	s->pid = 0;
	if (!wanted) {
		w->killed++;
		s->failures = is_past(s->begun_ns, CALM_NS, now) ? 1 : s->failures + 1;
		uint32_t doubled = s->failures < 8 ? s->failures - 1 : 7;
		uint64_t wait = AGAIN_NS << doubled;
		s->again_ns = now + (wait < AGAIN_MOST_NS ? wait : AGAIN_MOST_NS);
	} else
		s->again_ns = 0;
	w->ended(w->ctx, s, wanted ? NULL : why);
}

/* The memory that is its own, in bytes. */
static uint64_t own_memory(pid_t pid)
{
	char text[128];
	unsigned long resident = 0, shared = 0;
	proc_text(text, sizeof text, "/proc/%d/statm", pid);
	if (sscanf(text, "%*u %lu %lu", &resident, &shared) != 2 || shared > resident)
		return 0;
	return (uint64_t)(resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void check(struct worker_seat *s, uint64_t now)
{
	const struct link_message ping = {.kind = LINK_PING};
	s->next_check_ns = now + CHECK_EVERY_NS;
	if (s->why)
		return;
	if (own_memory(s->pid) > MEMORY_MOST)
		kill_worker(s, "took more than 1 GiB of memory", now);
	else if ((s->pinged_ns && is_past(s->pinged_ns, PING_NS, now)) ||
		 (s->link.stuck_ns && is_past(s->link.stuck_ns, PING_NS, now)))
		kill_worker(s, "did not answer for 30 s", now);
	else if (!s->pinged_ns) {
		s->pinged_ns = now;
		link_send(&s->link, &ping, NULL, 0);
	}
	if (s->processes)
		s->idle_ns = 0;
	else if (!s->idle_ns)
		s->idle_ns = now;
	else if (is_past(s->idle_ns, IDLE_NS, now))
		kill_worker(s, "", now); /* it has nothing to do */
}

/* ---- both */

static void hear(struct workers *w, struct worker_seat *s, uint64_t now)
{
	for (int i = 0; i < MESSAGES_MOST && s->number; i++) {
		struct link_message m;
		int got = link_receive_plain(s->link.fd, &m);
		if (got < 0)
			reap(w, s, now);
		if (got <= 0)
			return;
		if (m.kind == LINK_PONG)
			s->pinged_ns = 0;
		else
			w->heard(w->ctx, s, &m);
	}
}

/* Files that it asks for, a few at a time. */
static void open_files(struct workers *w, struct worker_seat *s)
{
	for (int i = 0; i < FILES_MOST; i++) {
		struct link_message m;
		int got = s->files < 0 ? 0 : link_receive_plain(s->files, &m);
		if (got < 0) /* else it would wake us for ever */
			close_files(s);
		if (got != 1)
			return;
		struct link answer = {.fd = s->files};
		int fd = m.kind == LINK_OPEN ? w->open_file(w->ctx, s, m.text) : -1;
		m = (struct link_message){.kind = LINK_OPENED};
		link_send(&answer, &m, &fd, fd >= 0);
		answer.fd = -1;
		link_fini(&answer); /* what it does not take now it does not get */
	}
}

void workers_look(struct workers *w, uint64_t now)
{
	reap_dying(w);
	for (uint32_t i = 0; i < w->count; i++) {
		struct worker_seat *s = w->seats[i];
		if (s->number)
			hear(w, s, now);
		if (s->number) {
			open_files(w, s);
			link_flush(&s->link);
		}
		if (s->number && now >= s->next_check_ns)
			check(s, now);
		if (s->number && s->why && is_past(s->killed_ns, DYING_NS, now))
			reap(w, s, now); /* it hangs in the kernel */
		if (!s->number && s->processes && now >= s->again_ns && !workers_are_held(w, s))
			begin(w, s, now);
		if (!s->number && !s->processes && now >= s->again_ns &&
		    (!s->idle_ns || is_past(s->idle_ns, IDLE_NS, now))) {
			free(s);
			w->seats[i--] = w->seats[--w->count];
		}
	}
}

void workers_fini(struct workers *w)
{
	for (uint32_t i = 0; i < w->count; i++) {
		struct worker_seat *s = w->seats[i];
		if (s->number) {
			int status;
			kill(s->pid, SIGKILL);
			wait_briefly(s->pid, &status);
			link_fini(&s->link);
			close_files(s);
		}
		free(s);
	}
	w->count = 0;
	vector_free(&w->dying);
}
