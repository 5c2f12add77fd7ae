/* Attaching by rule. A program that a rule matches gets a guardian: a child of the supervisor that takes the rights of that
 * program before it looks into it (credentials.c), attaches to it, and stays beside it until the program ends or the agent
 * does. The supervisor itself looks at nothing but what the kernel says, and waits for nobody.
 *
 * What a program can do about it is bounded. A user has one attempt at a time, and 10 % of the time of a processor for them
 * once the first three seconds are spent; an attempt has a limit of time; a program that refuses is tried a few times;
 * and one user has half of the places that the others leave. */
#include "agent/attacher.h"

#include "agent/confinement.h"
#include "agent/credentials.h"
#include "agent/supervisor.h"
#include "hosted/monotonic.h"
#include "session/process_start.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull
#define SECOND_NS (1000 * MS)
#define ATTEMPT_NS (20 * SECOND_NS)
#define KILL_NS (60 * SECOND_NS) /* after that, one that was given up is killed */
#define BURST_NS (3 * SECOND_NS)
#define START_EVERY_NS (250 * MS)
#define STOPPED_AGAIN_NS (5 * SECOND_NS)
#define TAKEN_AGAIN_NS (30 * SECOND_NS)
#define FULL_AGAIN_NS (10 * SECOND_NS)
#define YOUNG_NS (5 * SECOND_NS)
#define SAY_AGAIN_NS (60 * SECOND_NS)

enum {
	PLACES = 256,
	SHARE_LEAST = 8,
	TRIES = 4,
	DUTY = 10,        /* a user has one part in so many of the time */
	SAY_MOST = 20,    /* refusals of one user's programs in a minute */
	LOOK_MOST = 64,   /* at programs whose user is not known yet, in one go */
	CPU_SECONDS = 60, /* of a guardian, in all its life */
	DATA_MIB = 512,
};

void attacher_init(struct supervisor *a)
{
	struct attacher *t = &a->attacher;
	t->rules = &a->o->attach;
	if (program_finder_init(&t->finder, t->rules->globs, t->rules->count))
		supervisor_say(a, "there is no /proc: --attach-exe finds nothing");
}

void attacher_fini(struct supervisor *a)
{
	struct attacher *t = &a->attacher;
	for (size_t i = 0; i < t->held.count; i++)
		if (t->held.items[i].fd >= 0)
			close(t->held.items[i].fd); /* it leaves its program */
	vector_free(&t->held);
	vector_free(&t->users);
	program_finder_fini(&t->finder);
}

/* ---- users */

/* What is spent is given back with time. NULL: no memory. */
static struct attach_user *user_of(struct attacher *t, uid_t uid, uint64_t now)
{
	struct attach_user *u = NULL;
	for (size_t i = 0; i < t->users.count && !u; i++)
		if (t->users.items[i].uid == uid)
			u = &t->users.items[i];
	if (!u && (u = vector_add(&t->users)))
		*u = (struct attach_user){.uid = uid, .spent_at_ns = now};
	if (!u)
		return NULL;
	uint64_t back = (now - u->spent_at_ns) / DUTY;
	u->spent_ns -= back < u->spent_ns ? back : u->spent_ns;
	u->spent_at_ns = now;
	return u;
}

/* Users without programs that have spent nothing need not be known. */
static void forget_users(struct attacher *t, uint64_t now)
{
	for (size_t i = 0; i < t->users.count; i++) {
		const struct attach_user *u = user_of(t, t->users.items[i].uid, now);
		if (!u->spent_ns && now - u->said_ns > SAY_AGAIN_NS)
			t->users.items[i--] = t->users.items[--t->users.count];
	}
}

static bool has_attempt(const struct attacher *t, uid_t uid)
{
	for (size_t i = 0; i < t->held.count; i++) {
		const struct held *h = &t->held.items[i];
		if (h->uid == uid && (h->state == HELD_TRYING || h->state == HELD_ABANDONED))
			return true;
	}
	return false;
}

static bool has_place(const struct attacher *t, uid_t uid)
{
	uint32_t own = 0, others;
	for (size_t i = 0; i < t->held.count; i++)
		own += t->held.items[i].uid == uid;
	others = (uint32_t)t->held.count - own;
	uint32_t most = uid == geteuid() ? PLACES - others : (PLACES - others) / 2;
	return t->held.count < PLACES && own < (most < SHARE_LEAST ? SHARE_LEAST : most);
}

/* ---- what is said */

/* False: of this user there was enough of late. */
static bool may_say(struct supervisor *a, uid_t uid, uint64_t now)
{
	struct attach_user *u = user_of(&a->attacher, uid, now);
	if (!u)
		return false;
	if (!u->said_ns || now - u->said_ns > SAY_AGAIN_NS) {
		u->said_ns = now;
		u->said = 0;
	}
	if (++u->said == SAY_MOST)
		supervisor_say(a,
			       "more programs of user %u cannot be attached to; for a minute they "
			       "are not named",
			       uid);
	return u->said < SAY_MOST;
}

/* Whoever made the program chose its path, and a line of the log must be ours. */
static void name_executable(pid_t pid, char path[PATH_MAX])
{
	if (!program_executable(pid, path, PATH_MAX))
		snprintf(path, PATH_MAX, "?");
	for (char *at = path; *at; at++)
		if (*at == '\n')
			*at = '?'; /* other control characters are spelt out where it is printed */
}

static void say_refused(struct supervisor *a, const struct program *p, uid_t uid, const char *why,
			bool again)
{
	char exe[PATH_MAX];
	if (!may_say(a, uid, monotonic_ns()))
		return;
	name_executable(p->pid, exe);
	supervisor_say(
		a, "cannot attach to process %d (%.300s) by rule --attach-exe=%.200s: %s; it is %s",
		p->pid, exe, a->attacher.rules->globs[p->rule], why,
		again ? "tried again" : "not tried again");
}

/* What a guardian has read of its program may be in these words. */
static void clean(char *text, size_t size)
{
	text[size - 1] = 0;
	for (char *at = text; *at; at++)
		if (*at == '\n')
			*at = ';';
		else if (*at < ' ' || *at > '~')
			*at = '?';
}

/* ---- how it went */

static bool is_young(const struct program *p)
{
	struct timespec now;
	long ticks = sysconf(_SC_CLK_TCK);
	if (ticks <= 0 || clock_gettime(CLOCK_BOOTTIME, &now))
		return false;
	uint64_t ns = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
	return ns < p->began * (SECOND_NS / (uint64_t)ticks) + YOUNG_NS;
}

/* A program that has just begun may be without its allocator: nothing is said about its first refusal. */
static void be_refused(struct supervisor *a, const struct held *h, int code, bool for_good,
		       const char *why)
{
	static const uint64_t waits[TRIES] = {2 * SECOND_NS, 10 * SECOND_NS, 60 * SECOND_NS, 0};
	struct attacher *t = &a->attacher;
	struct program *p = program_finder_get(&t->finder, h->pid, h->began);
	if (!p || p->state != PROGRAM_TRIED)
		return;
	bool young = is_young(p),
	     last = ++p->tries >= TRIES || for_good || (code == HEFT_EREFUSED && !young);
	p->state = last ? PROGRAM_LEFT : PROGRAM_WANTED;
	p->again_ns = last ? 0 : monotonic_ns() + waits[p->tries - 1];
	t->refused_ever += last;
	if (!p->said && (last || !young))
		say_refused(a, p, h->uid, why, !last);
	p->said |= last || !young;
}

static void be_attached(struct supervisor *a, struct held *h, const struct guardian_message *m)
{
	char exe[PATH_MAX];
	name_executable(h->pid, exe);
	if (h->state == HELD_TRYING)
		h->state = HELD_ATTACHED;
	a->attacher.attached_ever++;
	supervisor_say(a,
		       "attached to process %d (%.300s) by rule --attach-exe=%.200s; %u thread%s "
		       "stood still for %.2f ms",
		       h->pid, exe, a->attacher.rules->globs[h->rule], m->threads,
		       m->threads == 1 ? "" : "s", (double)m->pause_ns / 1e6);
}

static void leave_alone(struct supervisor *a, pid_t pid)
{
	struct program *p = program_finder_get(&a->attacher.finder, pid, process_start_ticks(pid));
	if (p)
		p->state = PROGRAM_LEFT;
}

/* It and its forks go on without heft: what they had is saved. */
static void be_left(struct supervisor *a, const struct held *h, const struct guardian_message *m)
{
	if (m->by_caller)
		leave_alone(a, h->pid);
	for (uint32_t i = 0; i < a->count; i++) {
		struct supervised *c = a->list[i];
		if (!c->running || c->attached != h->pid || c->file.uid != h->uid)
			continue;
		if (m->by_caller)
			leave_alone(a, c->pid);
		supervised_ended_as(c, TRACE_END_DETACHED, supervised_age_ns(c));
		supervisor_end_process(a, c);
		supervisor_tell_front(a, c);
	}
	if (!h->replaced)
		supervisor_say(a, "detached from process %d%s; it stood still for %.2f ms%s%s",
			       h->pid,
			       m->by_caller ? " because heft detach asked for it; this agent does "
					      "not attach to it again"
					    : "",
			       (double)m->pause_ns / 1e6, *m->text ? "; " : "", m->text);
}

static uint64_t cpu_of(pid_t pid)
{
	clockid_t clock;
	struct timespec t = {0};
	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
		return 0;
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static void charge(struct attacher *t, const struct held *h, uint64_t ns, uint64_t now)
{
	struct attach_user *u = user_of(t, h->uid, now);
	if (u)
		u->spent_ns += ns;
}

static void take_message(struct supervisor *a, struct held *h, struct guardian_message *m)
{
	struct attacher *t = &a->attacher;
	uint64_t now = monotonic_ns();
	struct program *p = program_finder_get(&t->finder, h->pid, h->began);
	clean(m->text, sizeof m->text);
	if (!h->answered)
		charge(t, h, cpu_of(h->guardian), now);
	bool first = !h->answered;
	h->answered = true;
	t->start_ns = 0;
	switch (m->what) {
	case GUARDIAN_ATTACHED:
		if (first)
			be_attached(a, h, m);
		break;
	case GUARDIAN_REFUSED:
		if (first)
			be_refused(a, h, m->code, m->for_good, m->text);
		break;
	case GUARDIAN_TAKEN:
		if (p && first && p->state == PROGRAM_TRIED) {
			p->state = PROGRAM_WANTED;
			p->again_ns = now + TAKEN_AGAIN_NS;
		}
		break;
	case GUARDIAN_LEFT: be_left(a, h, m); break;
	default: break;
	}
	if (m->what != GUARDIAN_ATTACHED && h->state != HELD_ABANDONED)
		h->state = HELD_ENDING;
}

/* It has ended without a word: it was killed, or could not begin. */
static void be_gone(struct supervisor *a, struct held *h)
{
	if (h->fd >= 0)
		close(h->fd);
	h->fd = -1;
	if (h->state == HELD_TRYING || h->state == HELD_ATTACHED) {
		if (!h->answered)
			charge(&a->attacher, h, monotonic_ns() - h->since_ns, monotonic_ns());
		be_refused(a, h, HEFT_EIO, false, "heft's guardian of it was killed");
	}
	h->state = HELD_ENDING;
}

static void hear(struct supervisor *a, struct held *h)
{
	struct guardian_message m;
	while (h->fd >= 0) {
		ssize_t n = recv(h->fd, &m, sizeof m, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n < 0 && errno == ECONNRESET)
			continue; /* it ended before it read what we said; what it said comes now */
		if (n == (ssize_t)sizeof m)
			take_message(a, h, &m);
		else
			be_gone(a, h);
	}
}

static void hear_all(struct supervisor *a, uint64_t now)
{
	struct attacher *t = &a->attacher;
	for (size_t i = 0; i < t->held.count; i++) {
		struct held *h = &t->held.items[i];
		if (t->ready)
			hear(a, h);
		if (h->state == HELD_TRYING && now > h->since_ns + ATTEMPT_NS) {
			charge(t, h, now - h->since_ns, now);
			be_refused(a, h, HEFT_EBUSY, false, "that took longer than 20 s");
			close(h->fd);
			h->fd = -1;
			h->state = HELD_ABANDONED;
		}
		if (h->state == HELD_ABANDONED && now > h->since_ns + KILL_NS)
			kill(h->guardian, SIGKILL);
		if (h->fd < 0 && waitpid(h->guardian, NULL, WNOHANG))
			t->held.items[i--] = t->held.items[--t->held.count];
	}
	t->ready = false;
}

/* ---- beginning */

static void answer(int socket, const char *why)
{
	struct guardian_message m = {
		.what = GUARDIAN_REFUSED, .code = HEFT_EREFUSED, .for_good = true};
	snprintf(m.text, sizeof m.text, "%s", why);
	(void)!send(socket, &m, sizeof m, MSG_NOSIGNAL);
}

static void limit(int what, uint64_t most)
{
	setrlimit((__rlimit_resource_t)what, &(struct rlimit){most, most});
}

/* In the child. */
_Noreturn static void be_guardian(const struct attach_rules *rules, const struct program *p,
				  const struct credentials *c, int socket)
{
	int fds[2] = {socket, rules->blob};
	confinement_keep_descriptors(fds, 2, false);
	const char *refuses = geteuid() == 0 && c->who.uid == 0
				      ? credentials_root_refuses(p->pid, c)
				      : NULL;
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_CPU, CPU_SECONDS);
#ifndef __SANITIZE_ADDRESS__ /* whose shadow is far larger */
	limit(RLIMIT_DATA, (uint64_t)DATA_MIB << 20);
#endif
	if (!refuses && (!credentials_become(c) || prctl(PR_SET_DUMPABLE, 0)))
		refuses = "heft cannot take its user's rights";
	if (refuses)
		answer(fds[0], refuses);
	else if (process_start_ticks(p->pid) == p->began)
		rules->guard(rules->ctx, p->pid, fds[0], fds[1]);
	_exit(0);
}

/* Whether heft has it already: started with the library, or forked from one that was attached to. One that was itself
 * attached to and has no guardian any more has lost it. */
static bool is_ours(const struct supervisor *a, const struct program *p)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->list[i]->running && a->list[i]->pid == p->pid &&
		    a->list[i]->attached != p->pid)
			return true;
	for (size_t i = 0; i < a->attacher.held.count; i++)
		if (a->attacher.held.items[i].pid == p->pid)
			return true;
	return false;
}

static void start(struct supervisor *a, struct program *p, const struct credentials *c,
		  uint64_t now)
{
	struct attacher *t = &a->attacher;
	int pair[2];
	struct held *h = vector_add(&t->held);
	p->again_ns = now + FULL_AGAIN_NS;
	if (!h || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair)) {
		t->held.count -= h != NULL;
		return;
	}
	*h = (struct held){.pid = p->pid,
			   .began = p->began,
			   .uid = c->who.uid,
			   .rule = p->rule,
			   .fd = pair[0],
			   .since_ns = now};
	h->guardian = fork();
	if (h->guardian == 0)
		be_guardian(t->rules, p, c, pair[1]);
	close(pair[1]);
	if (h->guardian < 0) {
		close(pair[0]);
		t->held.count--;
		return;
	}
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = ATTACHER_KEY};
	epoll_ctl(a->epoll, EPOLL_CTL_ADD, pair[0], &event);
	p->state = PROGRAM_TRIED;
}

/* Attaches to it, or sees why that is not to be done now. */
static void consider(struct supervisor *a, struct program *p, uint64_t now)
{
	struct attacher *t = &a->attacher;
	struct credentials c;
	const char *why = credentials_of(p->pid, &c);
	p->again_ns = now + STOPPED_AGAIN_NS;
	if ((why && !*why) || (geteuid() && !why && c.who.uid != geteuid()))
		return;
	p->uid = why ? 0 : c.who.uid;
	p->uid_known = !why;
	if (is_ours(a, p)) {
		p->again_ns = now + TAKEN_AGAIN_NS;
	} else if (why) {
		p->state = PROGRAM_LEFT;
		t->refused_ever++;
		say_refused(a, p, c.who.uid, why, false);
	} else if (!has_place(t, c.who.uid)) {
		p->again_ns = now + FULL_AGAIN_NS;
		if (!p->said)
			say_refused(a, p, c.who.uid, "heft is attached to as many as it can", true);
		p->said = true;
	} else if (has_attempt(t, c.who.uid))
		p->again_ns = 0;
	else if (!c.is_stopped)
		start(a, p, &c, now);
}

/* One attempt a user, whoever comes first; the next time another one does. */
static void start_some(struct supervisor *a, uint64_t now)
{
	struct attacher *t = &a->attacher;
	unsigned looks = 0;
	t->start_ns =
		UINT64_MAX; /* until the finder has looked, or a guardian has said something */
	for (size_t n = 0; n < t->finder.list.count && looks < LOOK_MOST; n++) {
		if (++t->turn >= t->finder.list.count)
			t->turn = 0;
		struct program *p = &t->finder.list.items[t->turn];
		if (p->state != PROGRAM_WANTED)
			continue;
		t->start_ns = now + START_EVERY_NS;
		if (now < p->again_ns)
			continue;
		if (p->uid_known) {
			const struct attach_user *u = user_of(t, p->uid, now);
			if (!u || u->spent_ns > BURST_NS || has_attempt(t, p->uid))
				continue;
		}
		looks++;
		consider(a, p, now);
	}
}

static void end_replaced(struct supervisor *a, const struct held *h)
{
	for (uint32_t i = 0; i < a->count; i++) {
		struct supervised *c = a->list[i];
		if (!c->running || c->pid != h->pid || c->attached != h->pid)
			continue;
		supervised_ended_as(c, TRACE_END_EXEC, supervised_age_ns(c));
		supervisor_end_process(a, c);
		supervisor_tell_front(a, c);
	}
}

/* A guardian whose program executes another one has nothing left to guard. */
static void leave_replaced(struct supervisor *a)
{
	struct attacher *t = &a->attacher;
	for (size_t i = 0; i < t->held.count; i++) {
		struct held *h = &t->held.items[i];
		const struct program *p = program_finder_get(&t->finder, h->pid, h->began);
		if (h->state == HELD_ATTACHED && p && p->state != PROGRAM_TRIED) {
			h->replaced = true;
			end_replaced(a, h);
			(void)!send(h->fd, "l", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
			h->state = HELD_LEAVING;
		}
	}
}

void attacher_look(struct supervisor *a, uint64_t now)
{
	struct attacher *t = &a->attacher;
	if (t->ready || t->held.count)
		hear_all(a, now);
	if (t->leaving || !t->rules->count)
		return;
	if (program_finder_look(&t->finder, now)) {
		t->start_ns = 0;
		leave_replaced(a);
		forget_users(t, now);
	}
	if (now >= t->start_ns)
		start_some(a, now);
}

/* ---- what others ask */

pid_t attacher_origin(const struct supervisor *a, const struct supervised *c)
{
	for (size_t i = 0; i < a->attacher.held.count; i++) {
		const struct held *h = &a->attacher.held.items[i];
		if (h->pid == c->pid && h->state != HELD_ENDING)
			return h->pid;
	}
	for (uint32_t i = 0; i < a->count && c->parent; i++) {
		const struct supervised *b = a->list[i];
		if (b != c && b->attached && b->named_pid == c->parent &&
		    b->file.uid == c->file.uid)
			return b->attached;
	}
	return 0;
}

void attacher_replaced(struct supervisor *a, const struct supervised *c)
{
	for (size_t i = 0; i < a->attacher.held.count; i++) {
		const struct held *h = &a->attacher.held.items[i];
		struct program *p = program_finder_get(&a->attacher.finder, h->pid, h->began);
		if (h->pid == c->pid && p && p->state == PROGRAM_TRIED && h->state == HELD_ATTACHED)
			p->exe_hash = p->looks = 0, p->look_ns = 0, p->state = PROGRAM_OTHER;
	}
}

uint32_t attacher_count(const struct supervisor *a)
{
	uint32_t count = 0;
	for (size_t i = 0; i < a->attacher.held.count; i++)
		count += a->attacher.held.items[i].state == HELD_ATTACHED;
	return count;
}

void attacher_leave_all(struct supervisor *a)
{
	a->attacher.leaving = true;
	for (size_t i = 0; i < a->attacher.held.count; i++) {
		struct held *h = &a->attacher.held.items[i];
		if (h->fd < 0 || h->state == HELD_LEAVING)
			continue;
		(void)!send(h->fd, "l", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
		h->state = HELD_LEAVING;
	}
}

bool attacher_is_done(const struct supervisor *a)
{
	for (size_t i = 0; i < a->attacher.held.count; i++)
		if (a->attacher.held.items[i].state != HELD_ABANDONED)
			return false;
	return true;
}
