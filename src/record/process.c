/* Reading one process's session file (layout: wire/session.h). The program owns
 * these pages as much as we do, so every index is checked before use, every
 * word read once, and every walk is bounded by the number of chunks: garbage
 * makes the process `corrupt`, never the recorder crash or spin. */
#include "record/process.h"

#include "base/arch.h"
#include "hosted/number_words.h"
#include "record/owner.h"
#include "record/process_memory.h"
#include "record/session_guard.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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
	if (!p || s.header->version != WIRE_VERSION || (!sampled && reorder_init(&p->reorder))) {
		munmap(base, WIRE_FILE_BYTES);
		free(p);
		return heft_fail(err, HEFT_EFORMAT, "session file %s: not of this version of heft",
				 name);
	}
	if (!session_guard_add(base)) {
		munmap(base, WIRE_FILE_BYTES);
		reorder_fini(&p->reorder);
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
	p->child = p->reorder.is_child = s.header->origin == WIRE_FROM_FORK;
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
	reorder_fini(&p->reorder);
	process_stacks_fini(&p->stacks);
	free(p->peak.samples);
	free(p->rest);
	free(p->together.samples);
	free(p->allocator);
	free(p->answer.bytes);
	pthread_mutex_destroy(&p->lock);
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

void process_take_counts(struct process *p)
{
	struct trace_process *f = &p->facts;
	const struct reorder *r = &p->reorder;
	pthread_mutex_lock(&p->lock);
	f->peak_bytes = r->peak_bytes;
	f->peak_blocks = r->peak_blocks;
	f->peak_time_ns = r->peak_time_ns;
	f->unknown_frees = r->unknown_frees;
	f->inherited_frees = r->inherited_frees;
	pthread_mutex_unlock(&p->lock);
}

/* The words of src/report (words_end), which has them from a profile. */
void process_end_words(const struct trace_process *f, char *text, size_t size)
{
	char limit[NUMBER_WORDS];
	const char *name = sigabbrev_np(f->signal);
	*text = 0;
	switch ((enum trace_end)f->end) {
	case TRACE_END_RUNNING:
		break;
	case TRACE_END_EXIT:
		snprintf(text, size, "exit status %d", f->exit_status);
		break;
	case TRACE_END_SIGNAL:
		snprintf(text, size, "killed by signal %d%s%s%s", f->signal, name ? " (SIG" : "",
			 name ? name : "", name ? ")" : "");
		break;
	case TRACE_END_EXEC:
		snprintf(text, size, "became another program");
		break;
	case TRACE_END_DETACHED:
		snprintf(text, size, "went on after the recording ended");
		break;
	case TRACE_END_UNKNOWN:
		snprintf(text, size, "ended, status unknown");
		break;
	case TRACE_END_OOM:
		number_bytes(limit, f->memory_limit_bytes, "byte", "bytes");
		snprintf(text, size, "killed by the kernel: out of memory%s%s%s",
			 !f->memory_limit_bytes ? ""
			 : f->limit_is_cgroup	? " (limit of its cgroup: "
						: " (of ",
			 f->memory_limit_bytes ? limit : "", f->memory_limit_bytes ? ")" : "");
		break;
	}
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
	p->rss.read_live_bytes = p->reorder.live_bytes;
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
