/* Holds programs that nothing can be preloaded into when processes of the command execute them.
 *
 * A process asks what kind of program it is about to execute, unless it finds that in a file of the session
 * directory: a program is looked at once.
 *
 * A process that is about to execute one asks through its session file (struct wire_hold;
 * capture/held_exec.c) and waits for a moment. It is traced, told so, executes, and gets its hooks before its
 * first instruction, all by a process beside us (attach/guardian.c): the loop here only looks.
 *
 * The session file is hostile. The number in it must be that of its process, or of a child:
 * we may be root, and no other process is ours to trace. */
#include "record/recorder_parts.h"

#include "hosted/proc_text.h"
#include "hosted/vector.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HELD_MOST = 256 }; /* each has a process beside it */

void recorder_offer_holds(struct recorder *r)
{
	if (!r->o->holder)
		return;
	r->execs.programs_fd = openat(r->dir.fd, WIRE_HOLDS_NAME, O_WRONLY | O_CREAT | O_CLOEXEC,
				      0444);
}

static struct held_process *find(struct recorder *r, pid_t pid)
{
	for (uint32_t i = 0; i < r->execs.held_count; i++)
		if (pid && r->execs.held[i].pid == pid)
			return &r->execs.held[i];
	return NULL;
}

/* The one that this process or thread waits for: it is not hooked yet. */
static struct held_process *find_asked(struct recorder *r, pid_t asked)
{
	for (uint32_t i = 0; i < r->execs.held_count; i++)
		if (r->execs.held[i].asked == asked && !r->execs.held[i].hooked)
			return &r->execs.held[i];
	return NULL;
}

static void forget(struct recorder *r, struct held_process *h)
{
	if (h->pidfd >= 0)
		close(h->pidfd);
	*h = r->execs.held[--r->execs.held_count];
}

/* The process is not what it was. Its guardian stays while children have what it put in. */
static void process_ended(struct recorder *r, struct held_process *h)
{
	h->pid = 0;
	r->o->holder->process_ended(h->held);
}

/* Sets a state in place of `old`; false: that is not there any more. */
static bool answer(struct wire_hold *hold, uint64_t old, enum wire_hold_state state)
{
	uint64_t word = state ? (old & ~0xffffffffull) | state : 0;
	bool set = atomic_compare_exchange_strong(&hold->word, &old, word);
	syscall(SYS_futex, &hold->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return set;
}

/* Its own number or that of a thread of it, or of a child */
static bool belongs_to(const struct process *p, pid_t pid)
{
	char text[512];
	if (!p->seen_pid || pid <= 1)
		return false;
	snprintf(text, sizeof text, "/proc/%d/task/%d", (int)p->seen_pid, (int)pid);
	if (pid == p->seen_pid || access(text, F_OK) == 0)
		return true;
	proc_text(text, sizeof text, "/proc/%d/stat", (int)pid);
	const char *end = strrchr(text, ')'); /* ") S PPID" */
	return end && strlen(end) > 4 && strtol(end + 4, NULL, 10) == p->seen_pid;
}

/* ---- what kind of program it is */

static void remember_kind(const struct recorder *r, int fd, enum wire_program_kind kind)
{
	struct stat st;
	if (fstat(fd, &st))
		return;
	struct wire_program p = {
		.device = st.st_dev,
		.inode = st.st_ino,
		.changed_ns = (uint64_t)st.st_ctim.tv_sec * 1000000000ull +
			      (uint64_t)st.st_ctim.tv_nsec,
	};
	p.kind_check = wire_program_check(&p, kind);
	if (pwrite(r->execs.programs_fd, &p, sizeof p,
		   (off_t)wire_program_place(p.device, p.inode)) != sizeof p)
		return; /* it is asked for again */
}

/* An allocator that could not be hooked: the next process that executes the program gets heft's library. */
static void remember_unhooked(const struct recorder *r, pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (launch_kind_of(fd, "") == WIRE_PROGRAM_OWN_ALLOCATOR)
		remember_kind(r, fd, WIRE_PROGRAM_TAKES);
	close(fd);
}

static void tell_kind(struct recorder *r, const struct process *p, struct wire_hold *hold,
		      uint64_t asked)
{
	enum wire_program_kind kind = WIRE_PROGRAM_UNKNOWN;
	pid_t pid = (pid_t)(asked >> 32);
	char path[64];
	struct stat st;
	snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, (int)atomic_load(&hold->number));
	/* A pipe, or a device, is not opened. */
	int fd = belongs_to(p, pid) && !stat(path, &st) && S_ISREG(st.st_mode)
			 ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
			 : -1;
	if (fd >= 0) {
		snprintf(path, sizeof path, "/proc/%d/root", (int)pid);
		kind = launch_kind_of(fd, path);
		remember_kind(r, fd, kind);
		close(fd);
	}
	atomic_store(&hold->number, (int32_t)kind);
	answer(hold, asked, WIRE_HOLD_KNOWN);
}

/* ---- one that waits */

static void begin(struct recorder *r, const struct process *p, struct wire_hold *hold,
		  uint64_t asked)
{
	const struct recorder_holder *holder = r->o->holder;
	struct recorder_execs *x = &r->execs;
	const bool spawns = (uint32_t)asked == WIRE_HOLD_SPAWNS;
	pid_t pid = (pid_t)(asked >> 32), tracer = 0;
	struct held_process h = {.asked = pid, .pid = spawns ? 0 : pid, .pidfd = -1};
	struct held_process *before = find(r, h.pid);
	struct heft_error ignored;
	if (before)
		process_ended(r, before);
	if (r->full || r->stop || x->held_count >= HELD_MOST || !belongs_to(p, pid) ||
	    !array_reserve(x->held, x->held_count, x->held_capacity, 1) ||
	    holder->hold(holder->ctx, pid, spawns, r->dir.path, &h.held, &tracer, &ignored)) {
		answer(hold, asked, WIRE_HOLD_REFUSED);
		return;
	}
	atomic_store(&hold->number, tracer);
	if (!spawns)
		h.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if ((h.pidfd < 0 && !spawns) || !answer(hold, asked, WIRE_HOLD_READY)) {
		holder->cancel(h.held);
		if (h.pidfd >= 0)
			close(h.pidfd);
		answer(hold, asked, WIRE_HOLD_REFUSED);
		return;
	}
	holder->go(h.held);
	x->held[x->held_count++] = h;
}

static void look_at(struct recorder *r, const struct process *p, struct wire_hold *hold)
{
	uint64_t word = atomic_load(&hold->word);
	struct held_process *h = word ? find_asked(r, (pid_t)(word >> 32)) : NULL;
	switch ((uint32_t)word) {
	case WIRE_HOLD_NONE: return;
	case WIRE_HOLD_ASKED:
	case WIRE_HOLD_SPAWNS: begin(r, p, hold, word); return;
	case WIRE_HOLD_LOOK: tell_kind(r, p, hold, word); return;
	case WIRE_HOLD_FAILED:
		if (h) {
			r->o->holder->cancel(h->held);
			forget(r, h);
		}
		answer(hold, word, WIRE_HOLD_NONE);
		return;
	case WIRE_HOLD_READY:
		if (!h)
			answer(hold, word, WIRE_HOLD_NONE);
		return;
	default: /* the process takes it back, unless it was killed meanwhile */
		if (kill((pid_t)(word >> 32), 0) && errno == ESRCH)
			answer(hold, word, WIRE_HOLD_NONE);
	}
}

void recorder_look_for_holds(struct recorder *r)
{
	if (!r->o->holder)
		return;
	for (uint32_t i = 0; i < r->set->count; i++) {
		struct process *p = r->set->list[i];
		for (unsigned k = 0; k < WIRE_HOLDS && !recorded(p)->done && !p->view.corrupt; k++)
			look_at(r, p, &p->view.session.header->holds[k]);
	}
	for (uint32_t i = r->execs.held_count; i-- > 0;) {
		struct held_process *h = &r->execs.held[i];
		pid_t pid = 0;
		enum recorder_held now = r->o->holder->look(h->held, &pid);
		if (pid && h->pidfd < 0) { /* a thread has spawned it */
			h->pid = pid;
			h->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		}
		struct pollfd f = {.fd = h->pidfd, .events = POLLIN};
		h->hooked = now == RECORDER_HELD_HOOKED;
		h->hooked_once |= h->hooked;
		if (now == RECORDER_HELD_GONE && !h->hooked_once && h->pid)
			remember_unhooked(r, h->pid);
		if (now == RECORDER_HELD_GONE)
			forget(r, h);
		else if (h->hooked && h->pid && (h->pidfd < 0 || poll(&f, 1, 0) > 0))
			process_ended(r, h);
	}
}

bool recorder_holds_start(const struct recorder *r)
{
	for (uint32_t i = 0; i < r->execs.held_count; i++)
		if (!r->execs.held[i].hooked)
			return true;
	return false;
}

void recorder_end_holds(struct recorder *r)
{
	while (r->execs.held_count) {
		r->o->holder->end(r->execs.held[0].held);
		forget(r, r->execs.held);
	}
	free(r->execs.held);
	if (r->execs.programs_fd > 0)
		close(r->execs.programs_fd);
}
