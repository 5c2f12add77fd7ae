/* Opening this process: its file in the session directory, and its state.
 *
 * The process state is in memory that a fork wipes. A child that finds it blank
 * opens a file of its own, over the parent's mapping at the same address, so that
 * nothing of the child can reach the parent's file any more. A file is made complete
 * first, with memory behind all that will be touched, and takes the place of the
 * parent's only then. Files are opened here only; after that the inside works on
 * memory alone.
 *
 * A program that does not see the session directory (a container) has it as a descriptor
 * instead, from heft attach. A program may close descriptors that it does not know, and
 * open others of the same number, so it is looked at before each use.
 *
 * Until the first call has opened the process, its gate (wire/session.h) says
 * "count"; then it says what the settings want. */
#include "capture/count.h"
#include "capture/inside.h"
#include "capture/map_calls.h"
#include "capture/own_memory.h"
#include "capture/sample.h"
#include "capture/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PATH_BYTES = 600, OPEN_SPINS = 100000 };

struct heft_process *heft_process;
void *heft_first_thread;
void *heft_mapped;
int heft_open_error;
static int last_pid; /* who opened a file in this image last: in a forked child, its parent */

/* ---- the file */

static char *append(char *to, const char *end, const char *text)
{
	while (*text && to < end)
		*to++ = *text++;
	return to;
}

static char *append_hex(char *to, const char *end, uint64_t v)
{
	for (int shift = 60; shift >= 0; shift -= 4)
		if ((v >> shift || shift == 0) && to < end)
			*to++ = "0123456789abcdef"[v >> shift & 15];
	return to;
}

/* What the names of files are in */
static int folder_of_session(void)
{
	return heft_settings.session_fd ? heft_settings.session_fd : SYS_NO_FOLDER;
}

/* A descriptor may have become another file's: our folder is known by its device and number. */
static int has_folder(void)
{
	struct stat st;
	return !heft_settings.session_fd ||
	       (!sys_fstat(heft_settings.session_fd, &st) && S_ISDIR(st.st_mode) &&
		st.st_dev == heft_settings.session_device &&
		st.st_ino == heft_settings.session_inode);
}

static char *append_folder(char *to, const char *end)
{
	if (heft_settings.session_fd)
		return to;
	to = append(to, end, heft_settings.session_dir);
	return append(to, end, "/");
}

/* Whether a file may be ours: whoever owns it can cut it, read it and write into it while we have it mapped.
 * So the owner is ourselves, or root. That also holds where the directory belongs to another user: the recorder
 * of a user reads what that user's programs do, not what root's do. A file with another name elsewhere is
 * somebody's own file that was linked here. */
static int is_spare(const struct stat *st)
{
	return S_ISREG(st->st_mode) && (st->st_uid == sys_geteuid() || st->st_uid == 0) &&
	       st->st_nlink == 1 && (uint64_t)st->st_size == WIRE_FILE_BYTES;
}

/* Takes a file that the recorder has ready. In root's directory everybody may leave files, so we look at it
 * before we take it (what is not ours stays where it is), and again when it is open: by then the name may
 * have led to another file. O_NONBLOCK: the owner of a file may hold a lease on it, and let whoever opens it
 * wait. */
static int take_spare(const char *path)
{
	static char spare[PATH_BYTES]; /* as in open_session */
	const int folder = folder_of_session();
	char *end = spare + sizeof spare - 1;
	struct stat st;
	for (uint64_t i = 0; i < WIRE_SPARES; i++) {
		char *to = append_folder(spare, end);
		to = append(to, end, WIRE_SPARE_NAME);
		to = append_hex(to, end, i);
		*to = 0;
		if (sys_lstat_in(folder, spare, &st) || !is_spare(&st) ||
		    sys_rename_in(folder, spare, path))
			continue;
		int fd = sys_open_in(folder, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
		if (fd >= 0 && !sys_fstat(fd, &st) && is_spare(&st))
			return fd;
		if (fd >= 0)
			sys_close(fd);
		sys_unlink_in(folder, path);
	}
	return -EFBIG;
}

/* A new file of full size at `path`, or a negative errno. A process that may not make one that large
 * (it would get a signal for trying) takes one that the recorder has ready. */
static int make_file(const char *path)
{
	if (sys_limit(RLIMIT_FSIZE) < WIRE_FILE_BYTES)
		return take_spare(path);
	int fd = sys_open_in(folder_of_session(), path,
			     O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	int rc = fd < 0 ? fd : sys_ftruncate(fd, WIRE_FILE_BYTES);
	if (fd < 0 || !rc)
		return fd;
	sys_close(fd);
	sys_unlink_in(folder_of_session(), path);
	return rc;
}

/* Maps the file wherever there is space and asks for the pages that are touched first. */
static int map_file(int fd, void **at)
{
	*at = heft_parts_map(fd);
	if (!*at)
		return -ENOMEM;
	struct wire_session s = wire_session_at(*at);
	int rc = sys_populate(s.header, offsetof(struct wire_header, own) + sizeof *s.header->own);
	if (!rc)
		rc = sys_populate(s.nodes, 2 * HEFT_NODES_A_PAGE * sizeof *s.nodes);
	if (!rc && heft_settings.sample_bytes)
		rc = heft_sample_make_tables(s.header);
	return rc;
}

/* The mapping becomes ours: it takes the place of the parent's. From here on a forked child no longer
 * follows its parent's gate. */
static int take_place(int fd, void *at)
{
	if (heft_settings.sample_bytes &&
	    !sys_mmap(heft_gate_page, HEFT_GATE_PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd))
		return -ENOMEM;
	if (heft_mapped && heft_parts_move(at, heft_mapped))
		return -ENOMEM;
	if (!heft_mapped)
		heft_mapped = at;
	return 0;
}

static int open_file(const char *path)
{
	void *at = NULL;
	if (!has_folder())
		return -EBADF;
	int fd = make_file(path);
	if (fd < 0)
		return fd;
	int rc = map_file(fd, &at);
	if (!rc)
		rc = take_place(fd, at);
	sys_close(fd);
	if (rc && at)
		heft_parts_unmap(at);
	if (rc)
		sys_unlink_in(folder_of_session(), path);
	return rc;
}

/* ---- the header */

/* exe and arguments, as the kernel has them: the program may change its argv later. */
static void describe(struct wire_header *h)
{
	uint32_t n = (uint32_t)strlen(heft_settings.exe) + 1;
	memcpy(h->text, heft_settings.exe, n);
	int fd = sys_open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
	uint32_t start = n;
	while (fd >= 0 && n < WIRE_TEXT_BYTES - 1) {
		long got = sys_read(fd, h->text + n, WIRE_TEXT_BYTES - 1 - n);
		if (got <= 0)
			break;
		n += (uint32_t)got;
	}
	if (fd >= 0)
		sys_close(fd);
	h->text[n] = 0;
	for (uint32_t i = start; i < n; i++)
		h->arg_count += h->text[i] == 0;
	if (n > start && h->text[n - 1]) { /* cut in the middle of an argument */
		n++;
		h->arg_count++;
	}
	h->text_bytes = n;
}

/* A child is sampled as its parent is when it forks: the outside may have switched that. */
static void inherit_switch(const struct wire_header *parent)
{
	const struct wire_sampling *s = &parent->sampling;
	uint64_t rate = atomic_load(&s->rate_bytes);
	heft_settings.sample_off = !atomic_load(&s->on);
	heft_settings.sample_auto = atomic_load(&s->automatic) != 0;
	if (rate && rate < 1ull << 40)
		heft_settings.sample_bytes = rate;
}

static void start_sampling(struct wire_header *h, int forked)
{
	h->mode = WIRE_SAMPLED;
	atomic_store(&h->sampling.rate_bytes, heft_settings.sample_bytes);
	atomic_store(&h->sampling.automatic, heft_settings.sample_auto);
	atomic_store(&h->sampling.on, !heft_settings.sample_off);
	if (forked)
		heft_sample_forget_all();
	heft_sampling = 1;
	heft_gate_set(h);
}

static void fill(struct wire_session *s, int pid, int forked, uint64_t now)
{
	struct wire_header *h = s->header;
	h->version = WIRE_VERSION;
#ifndef HEFT_BLOB
	atomic_store(&h->ledger.armed, 1);
	atomic_store(&h->ledger.own_pages, WIRE_LEDGER_OWN_PAGES);
#endif
	h->origin = forked ? WIRE_FROM_FORK : WIRE_FROM_EXEC;
	h->pid = pid;
	h->ppid = forked ? last_pid : sys_getppid();
	h->start_tsc = now;
	h->start_mono_ns = sys_clock_ns(CLOCK_MONOTONIC);
	h->start_unix_ns = (int64_t)sys_clock_ns(CLOCK_REALTIME);
	h->start_maxrss_kib = sys_maxrss_kib();
	h->own_malloc = heft_next.own_malloc;
	h->usable_known = heft_next.usable != NULL;
	heft_describe_allocators(h);
	if (heft_settings.sample_bytes)
		start_sampling(h, forked);
	if (heft_settings.counts)
		h->mode = WIRE_COUNTED;
	describe(h);
	/* Node 0 is the root. */
	s->nodes[0].check = ~0u;
	atomic_store(&s->nodes[0].pc_flags, (uint64_t)WIRE_NODE_PRESENT << WIRE_FLAG_SHIFT);
	atomic_store(&h->node_count, 1);
	atomic_store(&h->state, WIRE_ON);
	atomic_store(&h->magic, WIRE_MAGIC);
}

/* The mapping is still the parent's: tells the outside there. */
static void lose_child(int rc)
{
	if (!heft_mapped)
		return;
	struct wire_header *h = wire_session_at(heft_mapped).header;
	atomic_store(&h->lost_child_errno, (uint32_t)-rc);
	atomic_fetch_add(&h->lost_children, 1);
}

/* A child of a process whose sandbox forbids one of these is not recorded. */
#define NEEDED_TO_OPEN                                                                             \
	(1ull << SYS_DO_OPEN | 1ull << SYS_DO_FTRUNCATE | 1ull << SYS_DO_CLOSE |                   \
	 1ull << SYS_DO_PRLIMIT | 1ull << SYS_DO_MMAP | 1ull << SYS_DO_MREMAP |                    \
	 1ull << SYS_DO_GETPID)

/* What heft has mapped in the parent is in its forked child, too. The child's file takes the place of the parent's, which
 * has the list. */
static struct heft_inherited {
	uint64_t at, bytes;
} inherited[WIRE_OWNS];
static unsigned inherited_count;

static void keep_parents_own(void)
{
	struct wire_header *h = wire_session_at(heft_mapped).header;
	inherited_count = heft_own_used(h);
	for (unsigned i = 0; i < inherited_count; i++) {
		inherited[i].at = atomic_load(&h->own[i].at);
		inherited[i].bytes = atomic_load(&h->own[i].bytes);
	}
}

static void list_own(struct heft_process *p, int forked)
{
	struct wire_header *h = p->session.header;
	heft_list_own(h, p, sizeof *p);
	for (unsigned i = 0; forked && i < inherited_count; i++)
		if (inherited[i].at && inherited[i].at != (uint64_t)p)
			heft_list_own(h, (const void *)inherited[i].at, inherited[i].bytes);
}

static int open_session(struct heft_process *p)
{
	int pid = sys_getpid();
	int forked = last_pid && last_pid != pid;
	if (!heft_settings.session_dir[0] || (forked && heft_settings.follow_none))
		return -1;
	if (forked && heft_mapped) /* the mapping is still its parent's */
		keep_parents_own();
	if (forked && heft_mapped && heft_settings.sample_bytes)
		inherit_switch(heft_mapped);
	if (atomic_load(&sys_forbidden) & NEEDED_TO_OPEN) {
		lose_child(-EPERM);
		return -1;
	}
	uint64_t now = arch_stamp();
	/* Not on the stack, which may be small. One thread at a time opens a process. */
	static char path[PATH_BYTES];
	char *end = path + sizeof path - 1;
	char *to = append_folder(path, end);
	to = append_hex(to, end, (uint64_t)pid);
	to = append(to, end, ".");
	to = append_hex(to, end, now);
	*to = 0;
	int rc = open_file(path);
	heft_open_error = rc;
	if (rc) {
		if (forked)
			lose_child(rc);
		return -1;
	}
	p->session = wire_session_at(heft_mapped);
	fill(&p->session, pid, forked, now);
	list_own(p, forked);
	atomic_store(&p->break_seen, heft_break_now());
	last_pid = pid;
	sys_membarrier(1 << 2); /* REGISTER_GLOBAL_EXPEDITED: see record/drain.c, the watermark */
	return 0;
}

/* ---- the process */

int heft_process_open(void)
{
	if (heft_resolve_next())
		return -1; /* called from inside the look-up itself */
	if (!sys_may_stamp())
		return -1; /* a child of a process that has stepped aside */
	heft_settings_read();
	struct heft_process *p = heft_process;
	if (!p) {
		p = sys_mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
		if (!p)
			return -1;
		sys_madvise(p, sizeof *p, MADV_WIPEONFORK);
		heft_around_mapped(p, sizeof *p);
		if (!heft_first_thread)
			heft_first_thread = arch_thread_pointer();
		heft_process =
			p; /* the first call is in a single thread: the constructor's at the latest */
	}
	uint32_t fresh = HEFT_FRESH;
	if (atomic_compare_exchange_strong(&p->phase, &fresh, HEFT_OPENING)) {
		atomic_store(&heft_several_threads, 0); /* a forked child is alone again */
		int rc = open_session(p);
		if (heft_count_as_settings_say())
			rc = -1;
		/* A process that is not recorded costs nothing more, unless it has blocks of the arena. */
		if (!heft_settings.sample_bytes || (rc && !heft_mapped))
			heft_gate_choose(heft_counts_only() ? WIRE_GATE_STATS
					 : rc && !atomic_load(&heft_unusual.arena_used)
						 ? WIRE_GATE_PASS
						 : WIRE_GATE_EXACT);
		atomic_store(&p->phase, rc ? HEFT_DISABLED : HEFT_OPEN);
		return rc;
	}
	for (unsigned i = 0; i < OPEN_SPINS && atomic_load(&p->phase) == HEFT_OPENING; i++)
		arch_pause();
	return atomic_load(&p->phase) == HEFT_OPEN ? 0 : -1;
}

NOINLINE int heft_open_now(void)
{
	struct heft_own_work work = heft_own_work_begin();
	heft_process_open();
	heft_own_work_end(work);
	return heft_sampling;
}
