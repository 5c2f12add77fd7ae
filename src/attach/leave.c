/* Taking heft out of a program and its forked children.
 *
 * A fork copies the program with all that heft has put into it, and nobody tells us of forks. Children may
 * have other parents by now, other users, and children of their own. They are known by the near page: it is at the
 * same address, and it names the guardian that made it. So every process of the system is asked for that page.
 *
 * The program comes first: after that, nothing forks from it that has the page (placement_take waits for forks that
 * are under way). Then passes over all processes follow. A pass may miss somebody: a child that was listed may
 * fork and end before it is looked at. So two passes in a row must find nothing. */
#include "attach/leave.h"

#include "attach/near_page.h"
#include "attach/placement.h"
#include "attach/stop.h"
#include "hosted/monotonic.h"
#include "hosted/vector.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CLEAN_PASSES = 2 };
#define PASSES_NS 10000000000ull
#define PASS_AGAIN_NS 5000000ull

/* ---- who has it */

static bool read_header(pid_t pid, uint64_t near_at, struct near_header *head)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/mem", (int)pid);
	int mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return false;
	bool there = pread(mem, head, sizeof *head, (off_t)near_at) == sizeof *head &&
		     near_page_is((const uint8_t *)head, sizeof *head);
	close(mem);
	return there;
}

bool leaving_read(struct leaving *l, pid_t program, uint64_t near_at)
{
	struct near_header head;
	if (!read_header(program, near_at, &head))
		return false;
	*l = (struct leaving){program, near_at, head.own[OWN_GUARDIAN], head.own[OWN_GUARDIAN_ID]};
	return true;
}

static bool is_in(const struct leaving *l, pid_t pid)
{
	struct leaving there;
	return leaving_read(&there, pid, l->near_at) && there.guardian == l->guardian &&
	       there.guardian_id == l->guardian_id;
}

/* ---- taking it out */

struct taking {
	const struct leaving *l;
	pid_t pid;
	struct attach_report *report;
	struct heft_error *err;
};

static int take(void *ctx)
{
	const struct taking *t = ctx;
	return placement_take(t->pid, t->l->near_at, t->report, t->err);
}

/* 0 also if it was gone: the process has ended, or has executed another program. */
static int take_from(const struct leaving *l, pid_t pid, struct attach_report *report,
		     struct heft_error *err)
{
	struct taking t = {l, pid, report, err};
	int rc = stop_run(take, &t, err);
	if (!rc || is_in(l, pid))
		return rc;
	*err = (struct heft_error){0};
	return 0;
}

struct passes {
	const struct leaving *l;
	struct attach_report *report;
	struct heft_error *err;
	int rc;                /* of the last one that found somebody */
	VECTOR(pid_t) staying; /* where a thread is still inside */
};

static bool is_staying(const struct passes *p, pid_t pid)
{
	for (size_t i = 0; i < p->staying.count; i++)
		if (p->staying.items[i] == pid)
			return true;
	return false;
}

/* Takes it out of every process that is listed now; returns how many there were. */
static unsigned pass(struct passes *p)
{
	const struct leaving *l = p->l;
	DIR *all = opendir("/proc");
	struct dirent *e;
	unsigned found = 0;
	p->rc = 0;
	while (all && (e = readdir(all))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid <= 0 || pid == l->program || pid == getpid() || !is_in(l, pid) ||
		    is_staying(p, pid))
			continue;
		found++;
		int rc = take_from(l, pid, p->report, p->err);
		if (!rc && is_in(l, pid) && !vector_push(&p->staying, pid))
			rc = heft_fail(p->err, HEFT_ENOMEM, "out of memory");
		p->rc = p->rc ? p->rc : rc;
	}
	if (all)
		closedir(all);
	return found;
}

int leave_all(const struct leaving *l, struct attach_report *report, struct heft_error *err)
{
	const struct timespec again = {.tv_nsec = PASS_AGAIN_NS};
	struct heft_error child_err = {0};
	struct passes p = {.l = l, .report = report, .err = &child_err};
	int rc = take_from(l, l->program, report, err);
	const uint64_t until = monotonic_ns() + PASSES_NS;
	for (unsigned clean = 0; clean < CLEAN_PASSES && monotonic_ns() < until;) {
		clean = pass(&p) ? 0 : clean + 1;
		if (p.rc) /* it may succeed a little later */
			nanosleep(&again, NULL);
	}
	vector_free(&p.staying);
	if (!rc && p.rc) {
		*err = child_err;
		rc = p.rc;
	}
	return rc;
}
