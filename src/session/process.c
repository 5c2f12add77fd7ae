/* A process from the moment its session file is found: who it is, which number it has
 * here, how it ended. Its header is hostile input: what it says is bounded and copied
 * once, when the file is opened. */
#include "session/process.h"

#include "base/arch.h"
#include "hosted/end_words.h"
#include "hosted/proc_text.h"
#include "session/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The header holds the executable and the arguments, one string after another. Each must end inside it. */
static void copy_command(struct trace_process *f, const struct wire_header *h)
{
	uint32_t bytes = h->text_bytes, count = h->arg_count;
	if (bytes > WIRE_TEXT_BYTES)
		bytes = WIRE_TEXT_BYTES;
	char *text = malloc(bytes + 1u);
	char **argv = calloc(count < 4096 ? count + 1u : 4097u, sizeof *argv);
	if (!text || !argv) {
		free(text);
		free(argv);
		f->exe = "";
		return;
	}
	memcpy(text, h->text, bytes);
	text[bytes] = 0;
	f->exe = text;
	uint32_t n = 0;
	for (uint32_t at = (uint32_t)strlen(text) + 1; at < bytes && n < count && n < 4096;
	     at += (uint32_t)strlen(text + at) + 1)
		argv[n++] = text + at;
	f->argv = argv;
	f->argc = n;
}

int process_open(struct process **out, int dirfd, const char *name, struct heft_error *err)
{
	return process_open_larger(out, sizeof **out, NULL, dirfd, name, err);
}

int process_open_larger(struct process **out, size_t bytes, void (*fini)(struct process *),
			int dirfd, const char *name, struct heft_error *err)
{
	int fd = session_file_open(dirfd, name, err);
	int rc = fd < 0 ? fd : process_take(out, bytes, fd, name, err);
	if (rc)
		return rc;
	(*out)->fini = fini;
	(*out)->pidfd = (int)syscall(SYS_pidfd_open, (*out)->pid, 0);
	return 0;
}

int process_take(struct process **out, size_t bytes, int fd, const char *name,
		 struct heft_error *err)
{
	struct process *p = calloc(1, bytes);
	if (!p)
		close(fd);
	int rc = p ? session_view_take(&p->view, fd, name, err)
		   : heft_fail(err, HEFT_ENOMEM, "out of memory");
	if (rc) {
		free(p);
		return rc;
	}
	const struct wire_header *h = p->view.session.header;
	char *dot;
	p->pid = (int32_t)strtol(name, &dot, 16);
	p->start_tsc = *dot == '.' ? strtoull(dot + 1, NULL, 16) : 0;
	p->child = h->origin == WIRE_FROM_FORK;
	p->pidfd = -1;
	p->seen_pid = p->pid;
	p->stacks.session = &p->view.session;
	p->kernel.start_maxrss_kib = h->start_maxrss_kib;
	p->kernel.status_fd = -1;
	p->samples.cost.share = -1;
	p->entry.facts.pid = p->pid;
	p->entry.facts.ppid = h->ppid;
	copy_command(&p->entry.facts, h);
	pthread_mutex_init(&p->samples.lock, NULL);
	pthread_mutex_init(&p->entry.lock, NULL);
	*out = p;
	return 0;
}

int process_open_of(pid_t pid, char *path, size_t size, struct process **out,
		    struct heft_error *err)
{
	char copy[4200];
	int rc = owner_file(pid, path, size, err);
	if (rc)
		return rc;
	snprintf(copy, sizeof copy, "%s", path);
	char *slash = strrchr(copy, '/');
	if (!slash)
		return heft_fail(err, HEFT_ENOTFOUND, "process %d is not sampled by heft", pid);
	*slash = 0;
	int dir = owner_open_folder(pid, *copy ? copy : "/");
	rc = process_open(out, dir, slash + 1, err);
	if (dir >= 0)
		close(dir);
	if (!rc && !owner_maps_same(pid, (*out)->view.base)) {
		process_free(*out);
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d has mapped another file than the one at %s", pid,
				 path);
	}
	if (rc == HEFT_EIO && (err->sys_errno == EACCES || err->sys_errno == EPERM))
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d belongs to another user\nAsk as that user or as root.",
				 pid);
	if (rc == HEFT_ENOTFOUND)
		return heft_fail(err, rc, "process %d has a damaged session file: %s", pid, path);
	if (!rc)
		(*out)->pid = (*out)->seen_pid = pid; /* as seen from here */
	return rc;
}

void process_close_descriptors(struct process *p)
{
	int *fds[] = {&p->pidfd, &p->kernel.status_fd};
	for (int i = 0; i < 2; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

void process_free(struct process *p)
{
	session_view_close(&p->view);
	process_close_descriptors(p);
	if (p->entry.facts.argv) {
		free((void *)p->entry.facts.exe);
		free((void *)p->entry.facts.argv);
	}
	if (p->fini)
		p->fini(p);
	process_stacks_fini(&p->stacks);
	free(p->samples.peak.samples);
	if (p->samples.rest)
		close(p->samples.rest->fd);
	free(p->samples.rest);
	free(p->part.together.samples);
	free(p->entry.allocator);
	free(p->answer.bytes);
	pthread_mutex_destroy(&p->samples.lock);
	pthread_mutex_destroy(&p->entry.lock);
	free(p);
}

void process_drop_samples(struct process *p)
{
	session_view_drop_pages(&p->view);
	pthread_mutex_lock(&p->samples.lock);
	free(p->samples.peak.samples); /* peak.bytes stays */
	p->samples.peak.samples = NULL;
	p->samples.peak.count = 0;
	pthread_mutex_unlock(&p->samples.lock);
	process_close_descriptors(p);
}

void process_watch_memory(struct process *p)
{
	uint64_t limit;
	bool is_cgroup;
	if (!oom_watch_process(&p->kernel.oom, p->seen_pid, &limit, &is_cgroup))
		return; /* the process is gone: what is known stays */
	process_set_limit(p, limit, is_cgroup);
}

void process_set_limit(struct process *p, uint64_t bytes, bool is_cgroup)
{
	pthread_mutex_lock(&p->entry.lock);
	p->entry.limit_bytes = bytes;
	p->entry.limit_is_cgroup = is_cgroup;
	pthread_mutex_unlock(&p->entry.lock);
}

void process_set_end(struct process *p, const struct process_end *end)
{
	struct trace_process *f = &p->entry.facts;
	pthread_mutex_lock(&p->entry.lock);
	f->end = end->end;
	f->end_ns = end->end_ns;
	f->exit_status = end->exit_status;
	f->signal = end->signal;
	f->memory_limit_bytes = p->entry.limit_bytes;
	f->limit_is_cgroup = p->entry.limit_is_cgroup;
	pthread_mutex_unlock(&p->entry.lock);
}

struct process_end process_end_of_status(int status, const struct oom_watch *oom, uint64_t end_ns)
{
	bool killed = WIFSIGNALED(status);
	bool for_memory = killed && WTERMSIG(status) == SIGKILL && oom_watch_rose(oom);
	return (struct process_end){.end = for_memory ? TRACE_END_OOM
					   : killed   ? TRACE_END_SIGNAL
						      : TRACE_END_EXIT,
				    .exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
				    .signal = killed ? WTERMSIG(status) : 0,
				    .end_ns = end_ns};
}

struct process_end process_end_without_status(enum trace_end end, uint64_t end_ns)
{
	return (struct process_end){
		.end = end, .signal = end == TRACE_END_OOM ? SIGKILL : 0, .end_ns = end_ns};
}

void process_ended_with(struct process *p, int status, uint64_t end_ns)
{
	const struct process_end end = process_end_of_status(status, &p->kernel.oom, end_ns);
	process_set_end(p, &end);
}

void process_ended_as(struct process *p, enum trace_end kind, uint64_t end_ns)
{
	const struct process_end end = process_end_without_status(kind, end_ns);
	process_set_end(p, &end);
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

/* The last number of the line `name` in the status of a process; -1: the process is gone. */
static int32_t status_number(pid_t pid, const char *name)
{
	char text[2048];
	proc_text(text, sizeof text, "/proc/%d/status", pid);
	return (int32_t)proc_status_last(text, name);
}

/* Whether the process with this number here runs another program than p, as far as we may know that. */
static bool is_stranger(const struct process *p)
{
	char path[64], exe[4096];
	snprintf(path, sizeof path, "/proc/%d/exe", p->pid);
	ssize_t n = readlink(path, exe, sizeof exe - 1);
	if (n <= 0)
		return false;
	exe[n] = 0;
	return *p->entry.facts.exe && strcmp(exe, p->entry.facts.exe) != 0;
}

void process_find(struct process *p, const struct process_parent *known)
{
	int32_t parent = status_number(p->pid, "PPid");
	/* Numbers alone prove little: process 2 of a namespace, a child of process 1, has the numbers of a
	 * stranger here. The number here of its parent proves it, if that is known. */
	if (parent > 0 && parent == known->here)
		return;
	/* It is gone, if its numbers are ours. */
	if (parent < 0 && (known->same_numbers || process_leaving_tsc(p)))
		return;
	const struct stat file = {.st_dev = p->view.file.device, .st_ino = p->view.file.inode};
	if (owner_has_mapped(p->pid, &file))
		return;
	/* Who is on its way out may have nothing mapped any more: everybody else is not looked at for it. */
	pid_t owner = process_leaving_tsc(p) ? 0 : owner_of_file(&file, 0);
	/* A child that has not made its own file yet has the same file mapped. */
	if (owner && status_number(owner, "NSpid") != p->pid)
		owner = 0;
	/* We cannot see what the process of another user has mapped. The machine's first is never ours. */
	if (!owner && parent > 0 && !owner_is_readable(p->pid) && !is_stranger(p))
		return;
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = owner ? (int)syscall(SYS_pidfd_open, owner, 0) : -1;
	p->seen_pid = p->pidfd >= 0 ? owner : 0;
}

uint64_t process_leaving_tsc(const struct process *p)
{
	const struct wire_header *h = p->view.session.header;
	uint64_t exits = p->view.corrupt ? 0 : atomic_load(&h->exit_tsc);
	uint64_t execs = p->view.corrupt ? 0 : atomic_load(&h->exec_tsc);
	uint64_t tsc = exits > execs ? exits : execs;
	return tsc > p->start_tsc && tsc <= arch_stamp() ? tsc : 0;
}
