/* Putting the blob into a process.
 *
 *   1. Plan, while the program runs: which functions, where the blob will lie, what
 *      stands at their entries, copies of that.
 *   2. One thread makes the system calls that map it; then it is written through
 *      /proc/PID/mem. Nothing is ever writable and executable.
 *   3. One thread runs the blob's open: if the session cannot be opened, the program
 *      was never touched.
 *   4. All threads stop; the entries get their jumps; all go on.
 *
 * A near page and the blob are one piece of memory; modules further away have near pages
 * of their own. The page says what it needs to be
 * removed again, so whoever finds it can do that: this heft, or another one after this
 * one was killed. */
#include "attach/placement.h"

#include "attach/placement_before.h"
#include "attach/placement_plan.h"
#include "attach/placement_session.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	TRIES = 3,
	BUSY_TRIES = 40,
	PLACE_TRIES =
		10, /* a program that begins many threads takes hundreds of MiB in an instant */
	DESCRIPTOR = 1024, /* more than a thread's descriptor has before its number */
};
#define FIRST_NS 5000000000ull /* the first thread may wait for a processor for so long */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

_Static_assert((int)NEAR_PAGE_SPARE >= (int)STOP_BACK_BYTES, "the way back fits");

struct plan {
	const struct attach_options *o;
	struct stop *stop;
	struct placement_plan made;
	struct before before;
	struct session_way way;
	bool place_taken; /* by the program, since the plan was made */
	uint64_t
		first_thread; /* the thread pointer of the thread that the program began with; 0: not known */
};

/* ---- the memory */

/* The thread that is borrowed makes a call that must succeed. */
static int call(struct plan *p, const char *what, long number, uint64_t a, uint64_t b, uint64_t c,
		uint64_t d, uint64_t e, struct heft_error *err)
{
	const uint64_t args[6] = {a, b, c, d, e, 0};
	int64_t result;
	int rc = stop_call(p->stop, number, args, &result, err);
	if (!rc && result < 0) {
		errno = (int)-result;
		rc = heft_fail_errno(err, "process %d cannot %s", p->o->pid, what);
	}
	return rc;
}

/* One piece of memory: a near page, and behind the first one the blob. */
static uint64_t piece_bytes(const struct plan *p, unsigned page)
{
	return p->made.pages[page].near.size + (page ? 0 : p->made.blob.size);
}

static void unmap_page(struct plan *p, unsigned page)
{
	struct heft_error ignored;
	call(p, "unmap memory", SYS_munmap, p->made.pages[page].at, piece_bytes(p, page), 0, 0, 0,
	     &ignored);
}

/* If this fails, nothing of ours is there. Nobody may use the memory yet. */
static int map_page(struct plan *p, unsigned page, struct heft_error *err)
{
	const struct placement_page *at = &p->made.pages[page];
	int rc = call(p, "map memory", SYS_mmap, at->at, piece_bytes(p, page), PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
		      (uint64_t)-1, err);
	p->place_taken = rc && err->sys_errno == EEXIST;
	if (rc)
		return rc; /* what lies there now is the program's own, or another heft's: it stays */
	/* The page comes first: whoever finds it, here or in a forked child, can take all of it out. */
	rc = stop_write(p->stop, at->at, at->near.bytes, at->near.size, err);
	if (rc)
		unmap_page(p, page);
	return rc;
}

/* The first page comes first: it leads to all others. */
static int map_all(struct plan *p, struct heft_error *err)
{
	int rc = 0;
	for (unsigned i = 0; i < p->made.page_count && !rc; i++) {
		rc = map_page(p, i, err);
		for (unsigned k = 0; rc && k < i; k++)
			unmap_page(p, k);
	}
	return rc;
}

/* Each piece of the memory gets its rights. The thread may go on for a moment in between. */
static int protect(struct plan *p, uint64_t at, uint64_t bytes, int rights, struct heft_error *err)
{
	int rc = stop_rest(p->stop, err);
	return rc ? rc : call(p, "map code", SYS_mprotect, at, bytes, (uint64_t)rights, 0, 0, err);
}

static int protect_all(struct plan *p, struct heft_error *err)
{
	const struct blob_image *blob = &p->made.blob;
	int rc = 0;
	for (unsigned i = 0; i < p->made.page_count && !rc; i++)
		rc = protect(p, p->made.pages[i].at, p->made.pages[i].near.size,
			     PROT_READ | PROT_EXEC, err);
	for (unsigned i = 0; i < blob->count && !rc; i++) {
		const struct blob_part *part = &blob->parts[i];
		rc = protect(p, blob->at + part->from, part->to - part->from, part->protection,
			     err);
	}
	return rc;
}

static void pause_between_tries(unsigned try)
{
	const struct timespec t = { 0, (long)(try < 10 ? 1 + try : 20) * 1000000 };
	nanosleep(&t, NULL);
}

static int with_borrowed(struct plan *p, int (*work)(struct plan *p, struct heft_error *err),
			 struct heft_error *err)
{
	struct heft_error returning;
	int rc = stop_borrow(p->stop, err);
	/* A program may be in vfork for a while. */
	for (unsigned i = 1; rc == HEFT_EBUSY && i < BUSY_TRIES; i++) {
		pause_between_tries(i);
		rc = stop_borrow(p->stop, err);
	}
	if (rc)
		return rc;
	rc = work(p, err);
	int back = stop_return(p->stop, &returning);
	if (!rc && back)
		*err = returning;
	return rc ? rc : back;
}

static int write_blob(struct plan *p, struct heft_error *err)
{
	const struct blob_image *blob = &p->made.blob;
	int rc = stop_write(p->stop, blob->at, blob->bytes, blob->filled, err);
	if (!rc && p->made.tables_from)
		rc = stop_write(p->stop, blob->at + p->made.tables_from, p->made.tables.bytes,
				p->made.tables.size, err);
	return rc;
}

/* ---- threads */

/* Where a thread's number stands behind its thread pointer. */
static int find_number_offset(struct plan *p, const struct stop_thread *t, uint64_t *offset,
			      struct heft_error *err)
{
	static const uint64_t known[] = {0x2d0 /* glibc */, 0x30 /* musl */};
	int32_t number, own = placement_number(p->o->pid, t->tid);
	for (unsigned k = 0; k < 2; k++)
		if (!stop_read(p->stop, t->thread_pointer + known[k], &number, sizeof number,
			       err) &&
		    number == own) {
			*offset = known[k];
			return 0;
		}
	return heft_fail(err, HEFT_EBUSY,
			 "the threads of process %d are not as heft knows them: no number behind "
			 "the thread pointer",
			 p->o->pid);
}

static void note_first(void *ctx, const struct stop_thread *t)
{
	struct plan *p = ctx;
	if (t->stopped && t->tid == p->o->pid)
		p->first_thread = t->thread_pointer;
}

/* Writes down something that the blob must know. */
static int tell(struct plan *p, size_t field, uint64_t value, struct heft_error *err)
{
	return stop_write(p->stop, p->made.blob.at + p->made.blob.shared + field, &value,
			  sizeof value, err);
}

/* ---- the session */

/* The thread that calls open has a stack of heft's; its lower end is not used yet. */
static uint64_t scratch(struct plan *p)
{
	return blob_image_shared(&p->made.blob)->stack - WIRE_BLOB_STACK;
}

/* A program may close the time stamp counter, which every record needs. */
static int check_counter(struct plan *p, struct heft_error *err)
{
	int32_t mode = 0;
	int rc = call(p, "look at its time stamp counter", SYS_prctl, PR_GET_TSC, scratch(p), 0, 0,
		      0, err);
	if (!rc)
		rc = stop_read(p->stop, scratch(p), &mode, sizeof mode, err);
	if (!rc && mode == PR_TSC_SIGSEGV)
		rc = heft_fail(err, HEFT_EREFUSED,
			       "process %d has closed the time stamp counter (PR_SET_TSC), "
			       "without which heft cannot record",
			       p->o->pid);
	return rc;
}

/* How the program reaches its session. */
static int hand_over_folder(struct plan *p, struct heft_error *err)
{
	const uint64_t shared = p->made.blob.at + p->made.blob.shared;
	int32_t number = 0;
	int rc = tell(p, offsetof(struct wire_blob, session_device), p->way.folder.st_dev, err);
	if (!rc)
		rc = tell(p, offsetof(struct wire_blob, session_inode), p->way.folder.st_ino, err);
	if (rc || p->way.fd < 0)
		return rc;
	rc = session_way_hand_over(&p->way, p->stop, p->o->pid, scratch(p), &number, err);
	return rc ? rc
		  : stop_write(p->stop, shared + offsetof(struct wire_blob, session_fd), &number,
			       sizeof number, err);
}

static int prepare_session(struct plan *p, struct heft_error *err)
{
	int rc = check_counter(p, err);
	return rc ? rc : hand_over_folder(p, err);
}

static int open_session(struct plan *p, struct heft_error *err)
{
	const struct wire_blob *shared = blob_image_shared(&p->made.blob);
	const struct stop_thread borrowed = stop_borrowed(p->stop);
	uint64_t offset = 0, stack = shared->stack, pointer = 0;
	int64_t result;
	int rc = 0;
	note_first(p, &borrowed);
	if (!borrowed.thread_pointer) { /* it has just begun: a descriptor of ours will do */
		pointer = stack -= DESCRIPTOR;
		rc = stop_write(p->stop, pointer, &pointer, sizeof pointer, err);
	} else if (find_number_offset(p, &borrowed, &offset, err) && !p->o->start_execs)
		rc = err->code; /* of one that was just started, the blob finds out */
	if (!rc)
		rc = tell(p, offsetof(struct wire_blob, tid_offset), offset, err);
	if (rc)
		return rc;
	rc = stop_function(p->stop, shared->open, stack, pointer,
			   near_page_spare(&p->made.pages[0].near), &result, err);
	if (!rc && (int32_t)result) {
		errno = (int)-(int32_t)result;
		rc = heft_fail_errno(err, "process %d cannot make its file in %s", p->o->pid,
				     p->o->session_dir);
	}
	return rc;
}

/* The first thread's stack ends elsewhere than those of others. If it was not the one that was borrowed, it is
 * stopped now, alone: in the freeze it may be late. */
static int describe_first(struct plan *p, struct heft_error *err)
{
	int rc = 0;
	if (!p->first_thread)
		rc = stop_visit(p->stop, &p->o->pid, 1, FIRST_NS, note_first, p, err);
	return rc ? rc : tell(p, offsetof(struct wire_blob, first_thread), p->first_thread, err);
}

/* ---- all of it */

/* Stops all threads and calls work; tries again while they are not where they can be stopped. */
static int frozen(struct plan *p,
		  int (*work)(struct plan *, struct attach_report *, struct heft_error *),
		  struct attach_report *report, struct heft_error *err)
{
	int rc = HEFT_EBUSY;
	for (unsigned busy = 0, late = 0; rc == HEFT_EBUSY && busy < BUSY_TRIES && late < TRIES;
	     busy++) {
		struct heft_error ignored;
		if (busy)
			pause_between_tries(busy);
		report->tries++;
		rc = stop_all(p->stop, stop_limit_of_try(busy), err);
		/* A program in vfork is not stopped at all. */
		late += rc == HEFT_EBUSY && stop_pause_ns(p->stop) >= STOP_LIMIT_NS;
		if (!rc) {
			rc = work(p, report, err);
			int back = stop_resume(p->stop, rc ? &ignored : err);
			rc = rc ? rc : back;
		}
		if (stop_longest_ns(p->stop) > report->pause_ns)
			report->pause_ns = stop_longest_ns(p->stop);
	}
	return rc;
}

static int change_entries(struct plan *p, struct attach_report *report, struct heft_error *err)
{
	const struct stop_thread *threads;
	size_t count;
	int rc = stop_threads(p->stop, &threads, &count);
	if (rc)
		return heft_fail(err, rc, "cannot list the threads of process %d", p->o->pid);
	report->threads = (uint32_t)count;
	rc = stop_change_code(p->stop, p->made.changes, p->made.change_count, err);
	if (!rc)
		before_look_again(&p->before, p->stop);
	return rc;
}

/* The heap that was read is that of malloc. What the program has in another allocator's nobody knows. */
static void say_unknown_before(const struct plan *p, struct attach_report *report)
{
	const struct target_allocator *a = &p->made.allocator;
	for (size_t i = 1; i < a->own_count && p->before.heap; i++) {
		const size_t used = strlen(report->before);
		const char *path = p->made.modules.items[a->own[i].module].path;
		const char *slash = strrchr(path, '/');
		if (a->own[i].functions)
			snprintf(report->before + used, sizeof report->before - used,
				 "; what is %s's in %s is not known", a->own[i].name,
				 slash ? slash + 1 : path);
	}
}

/* The mapping is there; whatever fails now, it goes again. */
static int fill_and_hook(struct plan *p, struct attach_report *report, struct heft_error *err)
{
	struct heft_error ignored;
	int rc = with_borrowed(p, protect_all, err);
	if (!rc)
		rc = write_blob(p, err);
	if (!rc)
		rc = with_borrowed(p, prepare_session, err);
	if (!rc)
		rc = with_borrowed(p, open_session, err);
	if (!rc)
		rc = describe_first(p, err);
	if (!rc)
		before_look(&p->before, &p->made.modules, p->made.allocator.module, p->o->older);
	if (!rc)
		rc = frozen(p, change_entries, report, err);
	if (!rc) {
		before_report(&p->before, report);
		say_unknown_before(p, report);
	}
	if (rc) {
		struct attach_report left = {0};
		stop_close(p->stop);
		p->stop = NULL;
		placement_take(p->o->pid, p->made.pages[0].at, &left, &ignored);
	}
	return rc;
}

/* A program that was just started and stands still: it does so until all is done. */
static int put_into_started(struct plan *p, uint64_t *near_at, struct attach_report *report,
			    struct heft_error *err)
{
	int rc = stop_all(p->stop, FIRST_NS, err); /* nobody waits for it yet */
	if (!rc)
		rc = with_borrowed(p, map_all, err);
	*near_at = rc ? 0 : p->made.pages[0].at;
	if (!rc)
		rc = with_borrowed(p, protect_all, err);
	if (!rc)
		rc = write_blob(p, err);
	if (!rc)
		rc = with_borrowed(p, prepare_session, err);
	if (!rc)
		rc = with_borrowed(p, open_session, err);
	if (!rc)
		rc = tell(p, offsetof(struct wire_blob, first_thread), p->first_thread, err);
	if (!rc)
		rc = change_entries(p, report, err);
	return rc ? rc : stop_resume(p->stop, err);
}

/* *place_taken: nothing was done, because the program has mapped something where heft wanted to be. */
static int put_once(const struct attach_options *o, uint64_t *near_at, bool *place_taken,
		    struct attach_report *report, struct heft_error *err)
{
	struct plan p = {.o = o, .way.fd = -1};
	int rc = stop_open(&p.stop, o->pid, err);
	uint64_t forbidden = 0;
	if (!rc)
		rc = stop_forbidden_calls(p.stop, &forbidden, err);
	if (!rc)
		rc = session_way_find(&p.way, o, err);
	if (!rc)
		rc = blob_image_read(&p.made.blob, o->blob, err);
	if (!rc)
		blob_image_shared(&p.made.blob)->forbidden = forbidden;
	if (!rc)
		rc = placement_plan_make(&p.made, o, report, err);
	if (!rc && o->start_execs)
		rc = put_into_started(&p, near_at, report, err);
	else if (!rc) {
		rc = with_borrowed(&p, map_all, err);
		*near_at = rc ? 0 : p.made.pages[0].at;
		if (!rc)
			rc = fill_and_hook(&p, report, err);
	}
	*place_taken = rc && p.place_taken && !o->start_execs;
	if (rc && o->start_execs &&
	    !o->start_lets_go) /* it must not run unseen when it is let go */
		kill(o->pid, SIGKILL);
	stop_close(p.stop);
	if (rc && o->start_lets_go && *near_at) {
		struct attach_report left = {0};
		struct heft_error ignored;
		placement_take(o->pid, *near_at, &left, &ignored);
	}
	before_fini(&p.before);
	session_way_fini(&p.way);
	placement_plan_fini(&p.made);
	return rc;
}

int placement_put(const struct attach_options *o, uint64_t *near_at, struct attach_report *report,
		  struct heft_error *err)
{
	const struct attach_report empty = *report;
	bool place_taken;
	int rc = put_once(o, near_at, &place_taken, report, err);
	for (unsigned i = 1; place_taken && i < PLACE_TRIES; i++) {
		pause_between_tries(i);
		*report = empty;
		report->places_taken = i;
		*err = (struct heft_error){0};
		rc = put_once(o, near_at, &place_taken, report, err);
	}
	if (place_taken)
		rc = heft_fail(err, HEFT_EBUSY,
			       "process %d maps memory all the time where heft wants to be: it was "
			       "tried %d times\nTry again a little later.",
			       o->pid, PLACE_TRIES);
	return rc;
}
