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
 * The near page and the blob are one piece of memory. The page says what it needs to be
 * removed again, so whoever finds it can do that: this heft, or another one after this
 * one was killed. */
#include "attach/placement.h"

#include "attach/blob_image.h"
#include "attach/near_page.h"
#include "attach/placement_before.h"
#include "attach/stop.h"
#include "attach/target_allocator.h"
#include "attach/target_branches.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	TRIES = 3,
	CODE_MOST = 256 << 10, /* of one function, to look for branches back */
	BUSY_TRIES = 40,
};
#define LIMIT_NS 50000000ull
#define FIRST_NS 5000000000ull /* the first thread may wait for a processor for so long */
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

struct plan {
	const struct attach_options *o;
	struct stop *stop;
	struct target_modules modules;
	struct target_allocator allocator;
	struct blob_image blob;
	struct near_page near;
	struct before before;
	uint64_t at, bytes; /* all of it: near page, then blob */
	struct stop_change changes[WIRE_BLOB_ENTRY_COUNT];
	size_t change_count;
	uint64_t
		first_thread; /* the thread pointer of the thread that the program began with; 0: not known */
};

/* ---- the plan */

/* The process makes its session file in a folder of ours: it must see that folder under the same name. */
static int check_folder(const struct attach_options *o, struct heft_error *err)
{
	char path[600];
	struct stat ours, theirs;
	snprintf(path, sizeof path, "/proc/%d/root%s", o->pid, o->session_dir);
	if (!placement_began(o->pid))
		return heft_fail(err, HEFT_ENOTFOUND, "process %d has ended", o->pid);
	if (stat(o->session_dir, &ours))
		return heft_fail_errno(err, "%s", o->session_dir);
	if (stat(path, &theirs) || ours.st_dev != theirs.st_dev || ours.st_ino != theirs.st_ino)
		return heft_fail(
			err, HEFT_EREFUSED,
			"process %d sees another file system (a container, or chroot): it cannot "
			"reach %s\n"
			"Set HEFT_DIR to a folder in memory that both see under the same name.",
			o->pid, o->session_dir);
	return 0;
}

static uint64_t moved_pc(void *ctx, uint64_t pc)
{
	return near_page_pc(ctx, pc);
}

static int plan_entry(struct plan *p, unsigned entry, struct heft_error *err)
{
	const struct target_function *f = &p->allocator.functions[entry];
	struct wire_blob *shared = blob_image_shared(&p->blob);
	size_t n = f->room < CODE_MOST ? f->room : CODE_MOST;
	if (!f->address || !shared->hook[entry])
		return 0;
	uint8_t *code = malloc(n);
	if (!code)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	int number;
	if (!target_modules_memory(&p->modules, f->address, code, n))
		number = heft_fail(err, HEFT_EIO, "cannot read %s of process %d",
				   target_entry_names[entry], p->o->pid);
	else
		number = near_page_add(&p->near, target_entry_names[entry], code, n, f->address,
				       f->bytes, shared->hook[entry], err);
	free(code);
	if (number < 0)
		return number;
	const struct near_entry *e = near_page_entry(&p->near, (unsigned)number);
	struct stop_change *c = &p->changes[p->change_count++];
	c->at = f->address;
	c->bytes = e->displaced;
	memcpy(c->old, e->old, e->displaced);
	memcpy(c->now, e->old, e->displaced);
	near_page_jump(&p->near, (unsigned)number, c->now);
	c->moved = moved_pc;
	c->ctx = &p->near;
	shared->next[entry] = near_page_copy(&p->near, (unsigned)number);
	return 0;
}

/* One piece from where a jump reaches every module that has a function of ours. */
static int choose_place(struct plan *p, struct heft_error *err)
{
	uint64_t low = UINT64_MAX, high = 0;
	for (unsigned i = 0; i < WIRE_BLOB_ENTRY_COUNT; i++) {
		ssize_t module = target_module_at(&p->modules, p->allocator.functions[i].address);
		if (!p->allocator.functions[i].address || module < 0)
			continue;
		const struct target_module *m = &p->modules.items[module];
		low = m->low < low ? m->low : low;
		high = m->high > high ? m->high : high;
	}
	size_t near_bytes = near_page_bytes(WIRE_BLOB_ENTRY_COUNT);
	p->bytes = near_bytes + p->blob.size;
	p->at = target_place_near(&p->modules, low, high, p->bytes);
	if (!p->at)
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d has no space within 2 GiB of its allocator",
				 p->o->pid);
	blob_image_place(&p->blob, p->at + near_bytes);
	return near_page_init(&p->near, p->at, WIRE_BLOB_ENTRY_COUNT, err);
}

static void fill_settings(struct plan *p)
{
	struct wire_blob *shared = blob_image_shared(&p->blob);
	struct near_header *header = near_page_header(&p->near);
	struct stat st = {0};
	shared->sample_bytes = p->o->sample_bytes;
	shared->sample_auto = p->o->sample_automatic;
	shared->follow_none = !p->o->follow;
	snprintf(shared->session_dir, sizeof shared->session_dir, "%s", p->o->session_dir);
	stat(p->o->session_dir, &st);
	header->own[OWN_BLOB_AT] = p->blob.at;
	header->own[OWN_BLOB_BYTES] = p->blob.size;
	header->own[OWN_SHARED] = p->blob.at + p->blob.shared;
	header->own[OWN_GUARDIAN] = (uint64_t)getpid();
	header->own[OWN_GUARDIAN_ID] = placement_began(getpid());
	header->own[OWN_SESSION_DEVICE] = st.st_dev;
	header->own[OWN_SESSION_INODE] = st.st_ino;
}

static int make_plan(struct plan *p, struct heft_error *err)
{
	int rc = target_modules_read(&p->modules, p->o->pid, err);
	if (!rc)
		rc = target_allocator_find(&p->allocator, &p->modules, err);
	if (!rc)
		rc = target_describe(blob_image_shared(&p->blob), &p->modules, &p->allocator, err);
	if (!rc)
		rc = choose_place(p, err);
	for (unsigned i = 0; i < WIRE_BLOB_ENTRY_COUNT && !rc; i++)
		rc = plan_entry(p, i, err);
	if (!rc)
		rc = target_branches_check(&p->modules, &p->near, err);
	if (!rc)
		fill_settings(p);
	return rc;
}

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

static int map_all(struct plan *p, struct heft_error *err)
{
	uint64_t near_bytes = p->blob.at - p->at;
	int rc = call(p, "map memory", SYS_mmap, p->at, p->bytes, PROT_NONE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
		      (uint64_t)-1, err);
	if (rc)
		return rc;
	rc = call(p, "map code", SYS_mprotect, p->at, near_bytes, PROT_READ | PROT_EXEC, 0, 0, err);
	for (unsigned i = 0; i < p->blob.count && !rc; i++) {
		const struct blob_part *part = &p->blob.parts[i];
		rc = call(p, "map code", SYS_mprotect, p->blob.at + part->from,
			  part->to - part->from, (uint64_t)part->protection, 0, 0, err);
	}
	if (rc) {
		struct heft_error ignored;
		call(p, "unmap memory", SYS_munmap, p->at, p->bytes, 0, 0, 0, &ignored);
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

static int write_all(struct plan *p, struct heft_error *err)
{
	int rc = stop_write(p->stop, p->blob.at, p->blob.bytes, p->blob.filled, err);
	return rc ? rc : stop_write(p->stop, p->at, p->near.bytes, p->near.size, err);
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
	return stop_write(p->stop, p->blob.at + p->blob.shared + field, &value, sizeof value, err);
}

/* ---- the session */

static int open_session(struct plan *p, struct heft_error *err)
{
	const struct wire_blob *shared = blob_image_shared(&p->blob);
	const struct stop_thread borrowed = stop_borrowed(p->stop);
	uint64_t offset = 0;
	int64_t result;
	note_first(p, &borrowed);
	int rc = find_number_offset(p, &borrowed, &offset, err);
	if (!rc)
		rc = tell(p, offsetof(struct wire_blob, tid_offset), offset, err);
	if (rc)
		return rc;
	/* The page ends in traps: the function returns there. */
	rc = stop_function(p->stop, shared->open, shared->stack, p->at + p->near.size - 1, &result,
			   err);
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
		rc = stop_all(p->stop, LIMIT_NS, err);
		late += rc == HEFT_EBUSY;
		if (rc)
			continue;
		rc = work(p, report, err);
		int back = stop_resume(p->stop, rc ? &ignored : err);
		rc = rc ? rc : back;
		if (stop_pause_ns(p->stop) > report->pause_ns)
			report->pause_ns = stop_pause_ns(p->stop);
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
	rc = stop_change_code(p->stop, p->changes, p->change_count, err);
	if (!rc)
		before_look_again(&p->before, p->stop);
	return rc;
}

/* The mapping is there; whatever fails now, it goes again. */
static int fill_and_hook(struct plan *p, struct attach_report *report, struct heft_error *err)
{
	struct heft_error ignored;
	int rc = write_all(p, err);
	if (!rc)
		rc = with_borrowed(p, open_session, err);
	if (!rc)
		rc = describe_first(p, err);
	if (!rc)
		before_look(&p->before, &p->modules, p->allocator.module, p->o->older);
	if (!rc)
		rc = frozen(p, change_entries, report, err);
	if (!rc)
		before_report(&p->before, report);
	if (rc) {
		struct attach_report left = {0};
		stop_close(p->stop);
		p->stop = NULL;
		placement_take(p->o->pid, p->at, &left, &ignored);
	}
	return rc;
}

int placement_put(const struct attach_options *o, uint64_t *near_at, struct attach_report *report,
		  struct heft_error *err)
{
	struct plan p = {.o = o};
	int rc = stop_open(&p.stop, o->pid, err);
	if (!rc && placement_is_sandboxed(o->pid))
		rc = heft_fail(
			err, HEFT_EREFUSED,
			"process %d is in a sandbox (seccomp), which might kill it for the system "
			"calls that heft makes in it\n"
			"Start it with heft run, which sees what the sandbox allows.",
			o->pid);
	if (!rc)
		rc = check_folder(o, err);
	if (!rc)
		rc = blob_image_read(&p.blob, o->blob, err);
	if (!rc)
		rc = make_plan(&p, err);
	if (!rc)
		rc = with_borrowed(&p, map_all, err);
	if (!rc)
		rc = fill_and_hook(&p, report, err);
	*near_at = p.at;
	stop_close(p.stop);
	near_page_fini(&p.near);
	before_fini(&p.before);
	target_modules_fini(&p.modules);
	blob_image_fini(&p.blob);
	return rc;
}
