/* Reading one process's session file (layout: wire/session.h). The program owns
 * these pages as much as we do, so every index is checked before use, every
 * word read once, and every walk is bounded by the number of chunks: garbage
 * makes the process `corrupt`, never the recorder crash or spin. */
#include "record/process.h"

#include "base/arch.h"
#include "hosted/end_words.h"
#include "record/owner.h"
#include "record/process_memory.h"
#include "record/session_guard.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A thread stopped (by a debugger, by SIGSTOP) between stamp and publication holds everyone's order
 * up for this long at most; its record is then sorted in late. */
enum { OPEN_PATIENCE_MS = 500 };
/* BEHIND_CHUNKS: more than that in one round is more than a recorder reads that keeps up. */
enum { CHECK_ALL_ROUNDS = 1024, GIVE_AT_ONCE = 64, BEHIND_CHUNKS = 256 };

int process_open(struct process **out, int dirfd, const char *name, struct heft_error *err)
{
	int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return heft_fail_errno(err, "session file %s", name);
	struct stat st;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != WIRE_FILE_BYTES) {
		close(fd);
		return HEFT_ENOTFOUND; /* being made */
	}
	void *base = mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (base == MAP_FAILED)
		return heft_fail_errno(err, "cannot map session file %s", name);
	struct wire_session s = wire_session_at(base);
	if (atomic_load(&s.header->magic) != WIRE_MAGIC) {
		munmap(base, WIRE_FILE_BYTES);
		return HEFT_ENOTFOUND;
	}
	struct process *p = calloc(1, sizeof *p);
	bool sampled = s.header->mode == WIRE_SAMPLED; /* such a one has no records to match */
	if (!p || s.header->version != WIRE_VERSION || (!sampled && live_blocks_init(&p->live))) {
		munmap(base, WIRE_FILE_BYTES);
		free(p);
		return heft_fail(err, HEFT_EFORMAT, "session file %s: not of this version of heft",
				 name);
	}
	if (!session_guard_add(base)) {
		munmap(base, WIRE_FILE_BYTES);
		live_blocks_fini(&p->live);
		free(p);
		return heft_fail(err, HEFT_EREFUSED, "more than %d processes at once",
				 SESSION_GUARD_MOST);
	}
	p->base = base;
	p->session = s;
	p->sampled = sampled;
	p->file_device = st.st_dev;
	p->file_inode = st.st_ino;
	p->file_uid = st.st_uid;
	p->stacks.session = &p->session;
	char *dot;
	p->pid = (int32_t)strtol(name, &dot, 16);
	p->start_tsc = *dot == '.' ? strtoull(dot + 1, NULL, 16) : 0;
	p->child = s.header->origin == WIRE_FROM_FORK;
	p->start_maxrss_kib = s.header->start_maxrss_kib;
	p->status_fd = -1;
	p->cost.share = -1;
	p->ending = (struct stream){.process = p, .is_end = true};
	pthread_mutex_init(&p->lock, NULL);
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	p->seen_pid = p->pid;
	p->facts.pid = p->pid;
	p->facts.ppid = s.header->ppid;
	/* exe and arguments: strings one after another, every one checked for its end */
	uint32_t bytes = s.header->text_bytes, count = s.header->arg_count;
	if (bytes > WIRE_TEXT_BYTES)
		bytes = WIRE_TEXT_BYTES;
	char *text = malloc(bytes + 1u);
	char **argv = calloc(count < 4096 ? count + 1u : 4097u, sizeof *argv);
	if (text && argv) {
		memcpy(text, s.header->text, bytes);
		text[bytes] = 0;
		p->facts.exe = text;
		uint32_t n = 0;
		for (uint32_t at = (uint32_t)strlen(text) + 1; at < bytes && n < count && n < 4096;
		     at += (uint32_t)strlen(text + at) + 1)
			argv[n++] = text + at;
		p->facts.argv = argv;
		p->facts.argc = n;
	} else {
		free(text);
		free(argv);
		p->facts.exe = "";
	}
	*out = p;
	return 0;
}

void process_free(struct process *p)
{
	session_guard_remove(p->base);
	munmap(p->base, WIRE_FILE_BYTES);
	if (p->pidfd >= 0)
		close(p->pidfd);
	if (p->status_fd >= 0)
		close(p->status_fd);
	if (p->facts.argv) {
		free((void *)p->facts.exe);
		free((void *)p->facts.argv);
	}
	live_blocks_fini(&p->live);
	process_stacks_fini(&p->stacks);
	free(p->peak.samples);
	free(p->rest);
	free(p->together.samples);
	free(p->allocator);
	free(p->answer.bytes);
	pthread_mutex_destroy(&p->lock);
	free(p->parked);
	free(p->streams);
	free(p);
}

void process_drop_pages(struct process *p)
{
	madvise((char *)p->base + WIRE_HEADER_BYTES, WIRE_FILE_BYTES - WIRE_HEADER_BYTES, MADV_REMOVE);
}

void process_drop_samples(struct process *p)
{
	process_drop_pages(p);
	pthread_mutex_lock(&p->lock);
	free(p->peak.samples); /* how much that was stays */
	p->peak.samples = NULL;
	p->peak.count = 0;
	pthread_mutex_unlock(&p->lock);
	int *fds[] = {&p->pidfd, &p->status_fd};
	for (int i = 0; i < 2; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

void process_watch_memory(struct process *p)
{
	char pid[16];
	struct memory_groups groups;
	snprintf(pid, sizeof pid, "%d", p->seen_pid);
	memory_groups_of("/proc", pid, &groups);
	if (!groups.has_v1 && !groups.has_v2)
		return; /* it is just gone: what was learnt before holds */
	bool is_cgroup;
	oom_watch_begin(&p->oom, "/sys/fs/cgroup", &groups);
	uint64_t limit = memory_limit("/proc", "/sys/fs/cgroup", &groups, &is_cgroup);
	pthread_mutex_lock(&p->lock);
	p->limit_bytes = limit;
	p->limit_is_cgroup = is_cgroup;
	pthread_mutex_unlock(&p->lock);
}

static void set_end(struct process *p, enum trace_end end, int status, uint64_t end_ns)
{
	struct trace_process *f = &p->facts;
	pthread_mutex_lock(&p->lock);
	f->end = end;
	f->end_ns = end_ns;
	f->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	f->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	f->memory_limit_bytes = p->limit_bytes;
	f->limit_is_cgroup = p->limit_is_cgroup;
	pthread_mutex_unlock(&p->lock);
}

void process_ended_with(struct process *p, int status, uint64_t end_ns)
{
	bool oom = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && oom_watch_rose(&p->oom);
	set_end(p, oom ? TRACE_END_OOM : WIFSIGNALED(status) ? TRACE_END_SIGNAL : TRACE_END_EXIT,
		status, end_ns);
}

void process_ended_as(struct process *p, enum trace_end end, uint64_t end_ns)
{
	set_end(p, end, end == TRACE_END_OOM ? SIGKILL : 0, end_ns);
}

void process_end_words(const struct trace_process *f, char *text, size_t size)
{
	_Static_assert((int)TRACE_END_EXIT == END_EXIT && (int)TRACE_END_SIGNAL == END_SIGNAL &&
			       (int)TRACE_END_EXEC == END_EXEC && (int)TRACE_END_OOM == END_OOM &&
			       (int)TRACE_END_DETACHED == END_DETACHED &&
			       (int)TRACE_END_UNKNOWN == END_UNKNOWN,
		       "the same kinds of end");
	struct how_ended end = {(enum end_kind)f->end, f->exit_status, f->signal,
				  f->memory_limit_bytes, f->limit_is_cgroup};
	snprintf(text, size, "%s", f->end == TRACE_END_RUNNING ? "" : words_of_end(&end).text);
}

/* The number behind `name` in a process's status, the last one of that line; -1: it is gone. */
static int32_t status_number(pid_t pid, const char *name)
{
	char path[64], text[2048];
	snprintf(path, sizeof path, "/proc/%d/status", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return -1;
	text[n] = 0;
	char *at = strstr(text, name);
	if (!at)
		return -1;
	char *end = at + 1 + strcspn(at + 1, "\n");
	while (end > at && isdigit((unsigned char)end[-1]))
		end--;
	return (int32_t)strtol(end, NULL, 10);
}

/* Whether the process that has its number here is a stranger: another program. */
static bool is_stranger(const struct process *p)
{
	char path[64], exe[4096];
	snprintf(path, sizeof path, "/proc/%d/exe", p->pid);
	ssize_t n = readlink(path, exe, sizeof exe - 1);
	exe[n > 0 ? n : 0] = 0;
	return *p->facts.exe && strcmp(exe, p->facts.exe) != 0;
}

void process_find(struct process *p, pid_t parent_here)
{
	int32_t parent = status_number(p->pid, "\nPPid:");
	/* Numbers alone prove little: process 2 of a namespace, a child of its first, has the numbers of
	 * a stranger here. A parent whose number here is known does. */
	if (parent < 0 || (parent && parent == parent_here))
		return;
	const struct stat file = {.st_dev = p->file_device, .st_ino = p->file_inode};
	pid_t owner = owner_of_file(&file, p->pid);
	if (owner == p->pid)
		return;
	/* A child of it may have the file mapped, which has not made its own yet. */
	if (owner && status_number(owner, "\nNSpid:") != p->pid)
		owner = 0;
	/* Who has it mapped is not ours to see if that process is another user's. */
	if (!owner && !owner_is_readable(p->pid) && !is_stranger(p))
		return;
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = owner ? (int)syscall(SYS_pidfd_open, owner, 0) : -1;
	p->seen_pid = p->pidfd >= 0 ? owner : 0;
}

uint64_t process_leaving_tsc(const struct process *p)
{
	const struct wire_header *h = p->session.header;
	uint64_t exits = p->corrupt ? 0 : atomic_load(&h->exit_tsc);
	uint64_t execs = p->corrupt ? 0 : atomic_load(&h->exec_tsc);
	uint64_t tsc = exits > execs ? exits : execs;
	return tsc > p->start_tsc && tsc <= arch_stamp() ? tsc : 0;
}

void process_watch_rss(struct process *p)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/status", p->seen_pid);
	p->status_fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* About 50 ms. Who leaves and is still there after that is a vfork child's parent, or what heft cannot
 * follow. */
#define LEAVING_CYCLES (150ull * 1000 * 1000)

/* The number of KiB behind `name` in a process's status, in bytes; 0: it is not there. */
static uint64_t status_bytes(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

/* A little of what is mapped is never touched: only much is worth taking off. */
static uint64_t beyond_usual(uint64_t bytes)
{
	const uint64_t usual = 1 << 20;
	return bytes > usual ? bytes - usual : 0;
}

static void raise_to(uint64_t *highest, uint64_t bytes)
{
	if (bytes > *highest)
		*highest = bytes;
}

void process_take_account(struct process *p, uint64_t maxrss_kib)
{
	/* It goes on over exec, and after fork and vfork: what it was at the start is not this image's. And
	 * the account of a process contains those of the children that it has waited for. */
	if (p->has_children || maxrss_kib <= p->start_maxrss_kib)
		return;
	pthread_mutex_lock(&p->lock);
	raise_to(&p->rss.highest_bytes, maxrss_kib * 1024);
	p->rss.accounted = true;
	pthread_mutex_unlock(&p->lock);
}

uint64_t process_peak_rss(const struct process *p)
{
	const struct trace_process *f = &p->facts;
	uint64_t had = p->rss.read_live_bytes, seen = p->rss.highest_bytes;
	uint64_t grown = f->peak_bytes > had ? f->peak_bytes - had : 0;
	bool later = f->peak_time_ns > f->start_ns + p->rss.read_ns;
	return !p->sampled && !p->rss.accounted && later && grown > seen / 8 ? 0 : seen;
}

uint64_t process_read_rss(struct process *p, uint64_t time_ns)
{
	char text[4096];
	ssize_t n = p->status_fd < 0 ? -1 : pread(p->status_fd, text, sizeof text - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* What is on its way out may be another program by now, whose file has not come. */
	const struct wire_header *h = p->session.header;
	uint64_t bytes = status_bytes(text, "\nVmRSS:");
	uint64_t leaving = process_leaving_tsc(p);
	if (!bytes || (leaving && arch_stamp() - leaving < LEAVING_CYCLES))
		return 0;
	/* The stack is nobody's allocation, and what heft needs inside is not the program's. */
	uint64_t anonymous = status_bytes(text, "\nRssAnon:");
	uint64_t others = beyond_usual(status_bytes(text, "\nVmStk:")) +
			  beyond_usual(p->corrupt ? 0 : atomic_load(&h->own_bytes));
	anonymous = anonymous > others ? anonymous - others : 0;
	pthread_mutex_lock(&p->lock);
	p->rss.bytes = bytes;
	p->rss.read_ns = time_ns;
	p->rss.read_live_bytes = p->live_bytes;
	if (bytes > p->rss.peak_bytes) {
		p->rss.peak_bytes = bytes;
		p->rss.peak_ns = time_ns;
	}
	raise_to(&p->rss.highest_bytes, status_bytes(text, "\nVmHWM:"));
	raise_to(&p->rss.anonymous_bytes, anonymous);
	process_see_gaps(p);
	pthread_mutex_unlock(&p->lock);
	return bytes;
}

/* Chunks that have been read go back to the process. */
static void return_chunks(struct process *p)
{
	struct wire_header *h = p->session.header;
	if (!p->give_first)
		return;
	uint64_t head = atomic_load_explicit(&h->free_head, memory_order_relaxed), want;
	do {
		atomic_store_explicit(&p->session.chunks[p->give_last - 1].next, (uint32_t)head,
				      memory_order_relaxed);
		want = ((head >> 32) + 1) << 32 | p->give_first;
	} while (!atomic_compare_exchange_weak_explicit(&h->free_head, &head, want,
							memory_order_release, memory_order_relaxed));
	p->give_first = p->give_last = p->give_count = 0;
}

/* Who waits for a chunk may look again. */
static void wake(struct process *p, bool behind)
{
	struct wire_header *h = p->session.header;
	if (atomic_load_explicit(&h->behind, memory_order_relaxed) != behind)
		atomic_store_explicit(&h->behind, behind, memory_order_relaxed);
	atomic_fetch_add(&h->progress, 1);
	if (atomic_load(&h->waiters))
		syscall(SYS_futex, &h->progress, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static int take_chunk(struct stream *s, uint32_t index_plus_one)
{
	if (!index_plus_one || index_plus_one > WIRE_CHUNKS)
		return HEFT_EFORMAT;
	s->chunk = &s->process->session.chunks[index_plus_one - 1];
	s->pos = 0;
	s->end = 0;
	uint64_t base = s->chunk->base_tsc;
	if (base > s->tsc)
		s->tsc = base;
	return 0;
}

/* Reads how much of the current chunk is published. */
static int look_at_chunk(struct stream *s)
{
	uint64_t pos = atomic_load_explicit(&s->chunk->pos, memory_order_acquire);
	s->open = pos & WIRE_OPEN;
	pos &= ~WIRE_OPEN;
	if (pos > sizeof s->chunk->data || pos & 7 || pos < s->pos)
		return HEFT_EFORMAT;
	s->end = (uint32_t)pos;
	return 0;
}

int stream_advance(struct stream *s)
{
	struct process *p = s->process;
	for (uint32_t hops = 0; hops <= WIRE_CHUNKS; hops++) {
		while (s->pos < s->end) {
			uint64_t w = s->chunk->data[s->pos / 8];
			unsigned type = wire_type_of(w);
			if (type == WIRE_SYNC) {
				uint64_t t = w >> 3;
				if (t > s->tsc)
					s->tsc = t;
				s->pos += 8;
				continue;
			}
			if (type == WIRE_NOTHING)
				return HEFT_EFORMAT;
			s->next_tsc = s->tsc + wire_dt_of(w);
			s->more = true;
			return 0;
		}
		s->more = false;
		/* The end of what was published. Is the chunk finished? */
		uint32_t next = atomic_load_explicit(&s->chunk->next, memory_order_acquire);
		if (!next)
			return 0;
		int rc = look_at_chunk(s);
		if (rc)
			return rc;
		if (s->pos < s->end)
			continue; /* more came before it was finished */
		uint32_t old = (uint32_t)(s->chunk - p->session.chunks) + 1;
		if ((rc = take_chunk(s, next)) || (rc = look_at_chunk(s)))
			return rc;
		/* Give the old one back: its `next` is ours now. Not only at the end of a round: threads may
		 * be waiting, and what was just read is still in a cache. */
		atomic_store_explicit(&p->session.chunks[old - 1].next, p->give_first,
				      memory_order_relaxed);
		if (!p->give_first)
			p->give_last = old;
		p->give_first = old;
		if (++p->give_count >= GIVE_AT_ONCE) {
			return_chunks(p);
			p->round_chunks += GIVE_AT_ONCE;
			if (p->round_chunks % BEHIND_CHUNKS == 0)
				wake(p, true);
		}
	}
	return HEFT_EFORMAT;
}

int process_look(struct process *p, uint64_t round_tsc, uint64_t now_ns)
{
	struct wire_header *h = p->session.header;
	uint32_t high = atomic_load_explicit(&h->stream_high, memory_order_acquire);
	if (high > WIRE_STREAMS)
		return HEFT_EFORMAT;
	if (high > p->slots) {
		struct stream *more = realloc(p->streams, high * sizeof *more);
		if (!more)
			return HEFT_ENOMEM;
		memset(more + p->slots, 0, (high - p->slots) * sizeof *more);
		p->streams = more;
		p->slots = high;
	}
	int ready = 0;
	for (uint32_t i = 0; i < high; i++) {
		struct stream *s = &p->streams[i];
		struct wire_stream *w = &p->session.streams[i];
		if (!s->active) {
			if (atomic_load_explicit(&w->state, memory_order_acquire) == WIRE_STREAM_FREE)
				continue;
			uint32_t first = atomic_load_explicit(&w->first, memory_order_acquire);
			if (!first || p->sampled) /* which has samples in the place of chunks */
				continue;
			memset(s, 0, sizeof *s);
			s->process = p;
			s->slot = i;
			s->thread = TRACE_NONE;
			int rc = take_chunk(s, first);
			if (rc)
				return rc;
			s->active = true;
		}
		int rc = look_at_chunk(s);
		if (!rc)
			rc = stream_advance(s);
		if (rc)
			return rc;
		ready += s->more;
		uint64_t place = (uint64_t)(s->chunk - p->session.chunks) << 32 | s->end;
		if (!s->open || p->ended) {
			s->open = false;
			s->open_since = 0;
			s->bound = round_tsc;
		} else if (!s->open_since || s->open_pos != place) {
			s->open_since = now_ns;
			s->open_pos = place;
		} else if (now_ns - s->open_since > OPEN_PATIENCE_MS * 1000000ull) {
			s->open = false;
			s->bound = round_tsc;
		}
	}
	return ready;
}

/* False also where we cannot know: in a container with its own numbers, where not even the process
 * is to be found, streams are kept until the process ends. */
static bool thread_is_gone(const struct process *p, int32_t tid)
{
	char path[64];
	if (p->seen_pid != p->pid) /* its threads have other numbers here too */
		return false;
	snprintf(path, sizeof path, "/proc/%d/task/%d", p->pid, tid);
	if (!access(path, F_OK) || errno != ENOENT)
		return false;
	snprintf(path, sizeof path, "/proc/%d/task/%d", p->pid, p->pid);
	return !access(path, F_OK);
}

void process_give_back(struct process *p)
{
	bool all = p->rounds++ % CHECK_ALL_ROUNDS == 0;
	for (uint32_t i = 0; i < p->slots && !p->ended; i++) {
		struct stream *s = &p->streams[i];
		struct wire_stream *w = &p->session.streams[i];
		if (!s->active || s->more || s->pos != s->end)
			continue;
		/* A thread that ends says so; one that ended in another way is found now and then. */
		if (!all && atomic_load_explicit(&w->state, memory_order_acquire) != WIRE_STREAM_CLOSED)
			continue;
		if (!thread_is_gone(p, w->tid))
			continue;
		/* Did it write before it went? Look once more: nothing comes after. */
		if (look_at_chunk(s) || s->pos != s->end ||
		    atomic_load_explicit(&s->chunk->next, memory_order_acquire))
			continue;
		uint32_t last = (uint32_t)(s->chunk - p->session.chunks) + 1;
		atomic_store_explicit(&s->chunk->next, p->give_first, memory_order_relaxed);
		if (!p->give_first)
			p->give_last = last;
		p->give_first = last;
		p->give_count++;
		p->facts.dropped += atomic_exchange(&w->dropped, 0);
		s->active = false;
		atomic_store(&w->first, 0);
		atomic_store_explicit(&w->state, WIRE_STREAM_FREE, memory_order_release);
	}
	return_chunks(p);
	wake(p, p->round_chunks >= BEHIND_CHUNKS);
	p->round_chunks = 0;
}
