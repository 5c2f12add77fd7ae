/* Taking the blob out of a process.
 *
 * First the entries get their old bytes back, so that nobody comes in any more. Then we
 * wait until nobody is in there: all threads are stopped for an instant and looked at.
 * A thread is inside if its pc is, if it will return there from a signal handler, or if
 * its place in the blob's table says that a hook of it waits for a real call (its guard
 * or `inside`, which is the address of the hook's frame; a longjmp may have left it behind).
 * If nobody is, what heft has mapped is unmapped.
 *
 * A thread may be in the middle of fork then, and have copied what is unmapped now; its child cannot be seen
 * yet. So we wait until each such fork is done: whoever looks for children afterwards finds them all.
 *
 * All that is read from the process is its own to change. What it claims can lead to
 * no harm but in that process. */
#include "attach/placement.h"

#include "attach/near_page.h"
#include "attach/placement_session.h"
#include "attach/stop.h"
#include "attach/target_maps.h"
#include "hosted/monotonic.h"
#include "session/session_dir.h"
#include "wire/blob.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>

#define LOOK_NS 1000000000ull     /* how long to wait for threads that have no processor */
#define PATIENCE_NS 3000000000ull /* how long a thread may stay inside, */
#define LATE_NS 15000000000ull    /* and if it hardly ever has a processor */
#define RESTORE_NS 15000000000ull /* how long a program may be in vfork again and again */
enum {
	NEAR_MOST = 1 << 20,
	LOOKS_LEAST = 10, /* on a loaded machine a look may take a second */
	BORROW_TRIES = 5, /* 2 s each: the code is as before, nobody waits but heft */
};

struct removal {
	pid_t pid;
	struct stop *stop;
	struct near_page pages[PLACEMENT_PAGES]; /* the first one has the blob behind it */
	unsigned page_count;
	uint64_t low, high; /* first near page and blob */
	struct wire_blob shared;
	struct target_maps maps;
	/* The threads that were there when the entries had their old bytes, and have not been seen outside since. Who
	 * has been outside does not come in any more, and neither do new threads. */
	VECTOR(pid_t) suspects;
	size_t seen; /* of them, in the last look */
};

static int load_page(struct removal *r, uint64_t near_at, struct heft_error *err)
{
	struct near_header head;
	int rc = stop_read(r->stop, near_at, &head, sizeof head, err);
	if (rc)
		return rc;
	if (!near_page_is((const uint8_t *)&head, sizeof head) || head.bytes > NEAR_MOST)
		return heft_fail(err, HEFT_ENOTFOUND, "process %d has nothing of heft at %#llx",
				 r->pid, (unsigned long long)near_at);
	uint8_t *bytes = malloc(head.bytes);
	if (!bytes)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	rc = stop_read(r->stop, near_at, bytes, head.bytes, err);
	if (!rc)
		rc = near_page_load(&r->pages[r->page_count], bytes, head.bytes, near_at, err);
	free(bytes);
	r->page_count += !rc;
	return rc;
}

static int load(struct removal *r, uint64_t near_at, struct heft_error *err)
{
	int rc = load_page(r, near_at, err);
	if (rc)
		return rc;
	const uint64_t *own = near_page_header(&r->pages[0])->own;
	r->low = near_at;
	r->high = own[OWN_BLOB_AT] + own[OWN_BLOB_BYTES];
	if (own[OWN_BLOB_AT] != near_at + r->pages[0].size || r->high < r->low ||
	    own[OWN_SHARED] < own[OWN_BLOB_AT] || own[OWN_SHARED] > r->high - sizeof r->shared)
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d has written over what heft has put into it", r->pid);
	/* One that is not there was taken away by a heft that was killed meanwhile. */
	for (unsigned i = 0; i < PLACEMENT_PAGES - 1 && own[OWN_SIDES + i] && !rc; i++) {
		rc = load_page(r, own[OWN_SIDES + i], err);
		if (!rc && near_page_header(&r->pages[r->page_count - 1])->own[OWN_MAIN] != near_at)
			near_page_fini(&r->pages[--r->page_count]);
		if (rc == HEFT_ENOTFOUND || rc == HEFT_EIO)
			rc = 0;
	}
	if (!rc)
		rc = stop_read(r->stop, own[OWN_SHARED], &r->shared, sizeof r->shared, err);
	r->shared.session_dir[sizeof r->shared.session_dir - 1] = 0;
	return rc;
}

/* ---- the entries */

/* The changes that bring the old bytes back; those that somebody else has changed since stay. */
static size_t plan_changes(struct removal *r, const struct near_page *near,
			   struct stop_change *changes, size_t most, struct attach_report *report)
{
	size_t count = 0;
	for (unsigned i = 0; i < near_page_count(near) && count < most; i++) {
		const struct near_entry *e = near_page_entry(near, i);
		struct stop_change *c = &changes[count];
		memset(c, 0, sizeof *c);
		if (stop_read(r->stop, e->at, c->old, e->displaced, NULL))
			continue; /* the module is gone */
		memcpy(c->now, e->old, e->displaced);
		c->at = e->at;
		c->bytes = e->displaced;
		if (jump_target(c->old, e->at) == near_page_trampoline(near, i))
			count++;
		else if (memcmp(c->old, e->old, e->displaced))
			snprintf(report->left, sizeof report->left,
				 "somebody else has changed the entry of %s since: it stays as it "
				 "is",
				 e->name);
	}
	return count;
}

static void nap(uint64_t ns)
{
	const struct timespec t = {(time_t)(ns / 1000000000ull), (long)(ns % 1000000000ull)};
	nanosleep(&t, NULL);
}

static void note_pause(const struct removal *r, struct attach_report *report)
{
	if (r->stop && stop_longest_ns(r->stop) > report->pause_ns)
		report->pause_ns = stop_longest_ns(r->stop);
}

static int restore_entries(struct removal *r, struct attach_report *report, struct heft_error *err)
{
	struct stop_change changes[NEAR_PAGE_ENTRIES];
	struct heft_error ignored;
	uint64_t until = monotonic_ns() + RESTORE_NS;
	size_t count = 0;
	for (unsigned i = 0; i < r->page_count; i++)
		count += plan_changes(r, &r->pages[i], changes + count, NEAR_PAGE_ENTRIES - count,
				      report);
	int rc = count ? HEFT_EBUSY : 0;
	uint64_t wait = 1000000;
	for (unsigned try = 0; rc == HEFT_EBUSY; try++, wait += wait / 2) {
		rc = stop_all(r->stop, stop_limit_of_try(try), err);
		if (!rc) {
			report->tries++;
			rc = stop_change_code(r->stop, changes, count, err);
			int back = stop_resume(r->stop, rc ? &ignored : err);
			rc = rc ? rc : back;
		}
		note_pause(r, report);
		if (rc != HEFT_EBUSY || monotonic_ns() > until)
			break;
		nap(wait < 10000000 ? wait : 10000000);
	}
	return rc;
}

/* ---- who is inside */

static bool in_one_mapping(const struct removal *r, uint64_t a, uint64_t b)
{
	const struct target_mapping *m = target_maps_find(&r->maps, a);
	return m && m == target_maps_find(&r->maps, b);
}

/* A frame that is left lies below the stack pointer, on the same stack. */
static bool waits(const struct removal *r, uint64_t frame, uint64_t sp)
{
	return frame && !(sp > frame && in_one_mapping(r, sp, frame));
}

/* Whether the blob was ever written: if whoever attached was killed before, nobody can be in a hook. */
static bool has_hooks(const struct removal *r)
{
	return r->shared.magic == WIRE_BLOB_MAGIC && r->shared.threads > r->low &&
	       r->shared.threads < r->high;
}

static bool is_in_hook(struct removal *r, const struct stop_thread *t)
{
	struct wire_blob_thread places[WIRE_BLOB_PROBES];
	uint32_t first = wire_blob_slot(t->thread_pointer);
	uint32_t count = WIRE_BLOB_THREADS - first < WIRE_BLOB_PROBES ? WIRE_BLOB_THREADS - first
								      : WIRE_BLOB_PROBES;
	if (stop_read(r->stop, r->shared.threads + first * sizeof *places, places,
		      count * sizeof *places, NULL) ||
	    (count < WIRE_BLOB_PROBES &&
	     stop_read(r->stop, r->shared.threads, places + count,
		       (WIRE_BLOB_PROBES - count) * sizeof *places, NULL)))
		return true;
	for (uint32_t i = 0; i < WIRE_BLOB_PROBES; i++) {
		const struct wire_blob_thread *p = &places[i];
		uint64_t pointer = atomic_load_explicit(&p->pointer, memory_order_relaxed);
		if (!pointer)
			return false;
		if (pointer == t->thread_pointer)
			return (waits(r, p->guard, t->sp) || waits(r, p->inside, t->sp)) &&
			       atomic_load_explicit(&p->tid, memory_order_relaxed) ==
				       placement_number(r->pid, t->tid);
	}
	return false;
}

static int list_suspects(struct removal *r, struct heft_error *err)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/task", r->pid);
	DIR *all = opendir(path);
	struct dirent *e;
	int rc = all ? 0 : heft_fail(err, HEFT_ENOTFOUND, "process %d has ended", r->pid);
	while (!rc && (e = readdir(all))) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
		if (tid > 0 && !vector_push(&r->suspects, tid))
			rc = heft_fail(err, HEFT_ENOMEM, "out of memory");
	}
	if (all)
		closedir(all);
	return rc;
}

/* Its pc is in the blob or in a near page, or will be after a signal handler. */
static bool is_at_ours(struct removal *r, const struct stop_thread *t)
{
	bool inside = stop_is_inside(r->stop, t, r->low, r->high);
	for (unsigned i = 1; i < r->page_count && !inside; i++)
		inside = stop_is_inside(r->stop, t, r->pages[i].at,
					r->pages[i].at + r->pages[i].size);
	return inside;
}

/* A thread has stopped, or is gone. */
static void visit(void *ctx, const struct stop_thread *t)
{
	struct removal *r = ctx;
	size_t i = 0;
	r->seen++;
	/* In the copy of an entry it goes on in the entry itself, which is as before. */
	uint64_t back = 0;
	for (unsigned k = 0; k < r->page_count && t->stopped && !back; k++)
		back = near_page_back(&r->pages[k], t->pc);
	const bool moved = back && !stop_move(r->stop, t->tid, back, NULL);
	struct stop_thread there = *t;
	if (moved)
		there.pc = back;
	t = &there;
	if (t->stopped && (is_at_ours(r, t) || (has_hooks(r) && is_in_hook(r, t))))
		return;
	while (i < r->suspects.count && r->suspects.items[i] != t->tid)
		i++;
	if (i < r->suspects.count)
		r->suspects.items[i] = 0;
}

/* Looks at the suspects once; those that are outside are none any more. */
static int look_at_suspects(struct removal *r, struct heft_error *err)
{
	VECTOR(pid_t) all = {0};
	size_t kept = 0;
	r->seen = 0;
	target_maps_fini(&r->maps);
	int rc = target_maps_read(&r->maps, r->pid, err);
	for (size_t i = 0; i < r->suspects.count && !rc; i++)
		if (!vector_push(&all, r->suspects.items[i]))
			rc = heft_fail(err, HEFT_ENOMEM, "out of memory");
	if (!rc)
		rc = stop_visit(r->stop, all.items, all.count, LOOK_NS, visit, r, err);
	vector_free(&all);
	for (size_t i = 0; i < r->suspects.count; i++)
		if (r->suspects.items[i])
			r->suspects.items[kept++] = r->suspects.items[i];
	r->suspects.count = kept;
	return rc;
}

static int wait_until_empty(struct removal *r, struct heft_error *err)
{
	const uint64_t begun = monotonic_ns();
	uint64_t wait = 500000;
	bool patient = true;
	int rc = list_suspects(r, err);
	for (unsigned looks = 1; !rc && r->suspects.count && patient; looks++, wait += wait / 2) {
		const size_t asked = r->suspects.count;
		rc = look_at_suspects(r, err);
		if (r->suspects.count)
			nap(wait < 100000000 ? wait : 100000000);
		/* One that has not been seen may be outside long since. */
		const bool late = r->seen < asked || looks < LOOKS_LEAST;
		patient = monotonic_ns() - begun < (late ? LATE_NS : PATIENCE_NS);
	}
	return rc;
}

/* ---- the memory */

static int unmap(struct removal *r, uint64_t at, uint64_t bytes, struct heft_error *err)
{
	const uint64_t args[6] = {at, bytes};
	int64_t result;
	int rc = bytes ? stop_rest(r->stop, err) : 0;
	return rc || !bytes ? rc : stop_call(r->stop, SYS_munmap, args, &result, err);
}

/* What the blob has mapped for its tables. */
static int unmap_owned(struct removal *r, struct heft_error *err)
{
	uint64_t count = 0;
	int rc = stop_read(r->stop,
			   near_page_header(&r->pages[0])->own[OWN_SHARED] +
				   offsetof(struct wire_blob, owned_count),
			   &count, sizeof count, err);
	if (rc)
		return rc;
	if (count > WIRE_BLOB_OWNED)
		count = WIRE_BLOB_OWNED;
	struct wire_blob_owned *owned = calloc(count + 1, sizeof *owned);
	if (!owned)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	rc = stop_read(r->stop, r->shared.owned, owned, count * sizeof *owned, err);
	for (uint64_t i = 0; i < count && !rc; i++) {
		uint64_t at = atomic_load_explicit(&owned[i].at, memory_order_relaxed);
		/* Only what is still as it was mapped: anonymous memory */
		const struct target_mapping *m = at ? target_maps_find(&r->maps, at) : NULL;
		if (m && !m->inode)
			rc = unmap(r, at, owned[i].bytes, err);
	}
	free(owned);
	return rc;
}

/* A program in another file system has its file by a descriptor: the kernel gives its name below that folder. */
static bool is_session_file(const struct removal *r, const struct target_mapping *m)
{
	size_t n = strlen(r->shared.session_dir);
	const char *name = m->name;
	int32_t pid;
	uint64_t stamp;
	if (n && !strncmp(name, r->shared.session_dir, n) && name[n] == '/')
		return true;
	return r->shared.session_fd > 0 && m->shared && name[0] == '/' &&
	       makedev(m->device_major, m->device_minor) == r->shared.session_device &&
	       session_file_name(name + 1, &pid, &stamp);
}

static int unmap_session(struct removal *r, struct heft_error *err)
{
	int rc = 0;
	for (size_t i = 0; i < r->maps.count && !rc; i++) {
		const struct target_mapping *m = &r->maps.items[i];
		if (is_session_file(r, m) && (m->start >= r->high || m->end <= r->low))
			rc = unmap(r, m->start, m->end - m->start, err);
	}
	return rc;
}

/* Nobody makes a file there any more. The program may have closed it long ago, and use the number. */
static int close_folder(struct removal *r, struct heft_error *err)
{
	const uint64_t *own = near_page_header(&r->pages[0])->own;
	const uint64_t args[6] = {(uint64_t)r->shared.session_fd};
	int64_t result;
	return session_way_is_open(r->pid, r->shared.session_fd, own[OWN_SESSION_DEVICE],
				   own[OWN_SESSION_INODE])
		       ? stop_call(r->stop, SYS_close, args, &result, err)
		       : 0;
}

static int unmap_all(struct removal *r, struct heft_error *err)
{
	struct heft_error returning;
	int rc = HEFT_EBUSY;
	/* Who was still inside when the maps were read may have mapped or unmapped something since. */
	target_maps_fini(&r->maps);
	int read = target_maps_read(&r->maps, r->pid, err);
	if (read)
		return read;
	for (int i = 0; i < BORROW_TRIES && rc == HEFT_EBUSY; i++)
		rc = stop_borrow(r->stop, err);
	if (rc)
		return rc;
	rc = unmap_owned(r, err);
	if (!rc)
		rc = unmap_session(r, err);
	/* The first page comes last: it leads to all others. */
	for (unsigned i = 1; i < r->page_count && !rc; i++)
		rc = unmap(r, r->pages[i].at, r->pages[i].size, err);
	if (!rc)
		rc = close_folder(r, err);
	if (!rc)
		rc = unmap(r, r->low, r->high - r->low, err);
	const pid_t borrowed = stop_borrowed(r->stop).tid;
	int back = stop_return(r->stop, &returning);
	if (!rc && back)
		*err = returning;
	if (!rc && !back)
		stop_wait_for_forks(r->stop, borrowed, LOOK_NS);
	return rc ? rc : back;
}

int placement_take(pid_t pid, uint64_t near_at, struct attach_report *report,
		   struct heft_error *err)
{
	struct removal r = {.pid = pid};
	int rc = stop_open(&r.stop, pid, err);
	if (!rc)
		rc = load(&r, near_at, err);
	if (!rc)
		rc = restore_entries(&r, report, err);
	if (!rc)
		rc = wait_until_empty(&r, err);
	if (!rc && r.suspects.count)
		snprintf(report->left, sizeof report->left,
			 "a thread is still inside the allocator: heft's code stays mapped, and "
			 "does "
			 "nothing; heft detach %d removes it later",
			 pid);
	else if (!rc)
		rc = unmap_all(&r, err);
	note_pause(&r, report);
	stop_close(r.stop);
	for (unsigned i = 0; i < r.page_count; i++)
		near_page_fini(&r.pages[i]);
	target_maps_fini(&r.maps);
	vector_free(&r.suspects);
	return rc == HEFT_ENOTFOUND ? 0 : rc; /* it has ended */
}
