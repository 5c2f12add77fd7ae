/* A process is opened: is it there, is it ours to stop, and if not, why and what can be done. Nothing here
 * touches a thread.
 *
 * Permission is the kernel's decision, and opening /proc/PID/mem asks for it: that needs the same rights as
 * tracing. Only when it says no do we look for the reason. */
#include "attach/stop_held.h"

#include "hosted/monotonic.h"
#include "hosted/number_words.h"
#include "hosted/proc_text.h"
#include "hosted/whole_io.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PF_EXITING 0x00000004u
#define PF_KTHREAD 0x00200000u
enum { CAPABILITY_SYS_PTRACE = 19 };
enum { BEGIN_TRIES = 100, BEGIN_NAP_NS = 2000000 };
#define CLOSE_WAIT_NS 1000000000ull
#define THREAD_WAIT_NS 10000000000ull

bool stop_task_file(const struct stop *s, pid_t tid, const char *name, char *text, size_t size)
{
	char path[64];
	snprintf(path, sizeof path, "%d/%s", tid, name);
	return proc_text_at(s->tasks, path, text, size) > 0;
}

char stop_task_state(const struct stop *s, pid_t tid, unsigned *flags)
{
	char text[1024];
	if (!stop_task_file(s, tid, "stat", text, sizeof text))
		return '\0';
	const char *rest = proc_stat_field(text, STAT_STATE);
	char state;
	unsigned found;
	if (!rest || sscanf(rest, "%c %*d %*d %*d %*d %*d %u", &state, &found) != 2)
		return '\0';
	if (flags)
		*flags = found;
	return state;
}

long stop_status_field(const char *status, const char *field)
{
	const char *line = proc_status_line(status, field);
	return line ? strtol(line, NULL, 10) : -1;
}

int stop_ended(struct stop *s, struct heft_error *err)
{
	s->ended = true;
	return heft_fail(err, HEFT_ENOTFOUND, "process %d has ended, or has begun another program",
			 s->pid);
}

static const char *name_of(pid_t pid, char name[32])
{
	if (!proc_text(name, 32, "/proc/%d/comm", pid))
		return "?";
	name[strcspn(name, "\n")] = '\0';
	for (char *c = name; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return name;
}

/* The kernel said no, and the reason is one of these. */
static int refused(pid_t pid, const char *status, struct heft_error *err)
{
	char text[32], name[32];
	name_of(pid, name);
	long uid = stop_status_field(status, "Uid"), ours = (long)geteuid();
	if (ours && uid != ours)
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d (%s) belongs to another user (uid %ld)\n"
				 "Run heft as that user or as root.",
				 pid, name, uid);
	proc_text(text, sizeof text, "/proc/sys/kernel/yama/ptrace_scope");
	long scope = strtol(text, NULL, 10);
	if (scope == 3)
		return heft_fail(err, HEFT_EREFUSED,
				 "this system lets nobody trace a process: "
				 "kernel.yama.ptrace_scope is 3 until the next boot");
	if (scope && ours)
		return heft_fail(err, HEFT_EREFUSED,
				 "this system lets only root attach to a running process: "
				 "kernel.yama.ptrace_scope is %ld\n"
				 "Run heft as root, or: sudo sysctl kernel.yama.ptrace_scope=0",
				 scope);
	if (ours)
		return heft_fail(
			err, HEFT_EREFUSED,
			"process %d (%s) does not let its user look inside: it has changed "
			"its user or group, or has asked for this\nRun heft as root.",
			pid, name);
	char own[4096];
	proc_text(own, sizeof own, "/proc/self/status");
	const char *rights = proc_status_line(own, "CapEff");
	if (rights && strtoull(rights, NULL, 16) >> CAPABILITY_SYS_PTRACE & 1)
		return heft_fail(
			err, HEFT_EREFUSED,
			"the system does not permit to trace process %d (%s), and heft has "
			"the capability for it here\n"
			"The process is outside of this container or user namespace: run "
			"heft there. Or a security module (SELinux, AppArmor) forbids it.",
			pid, name);
	return heft_fail(err, HEFT_EREFUSED,
			 "the system does not permit to trace process %d (%s)\n"
			 "In a container heft needs the capability SYS_PTRACE "
			 "(docker run --cap-add=SYS_PTRACE).",
			 pid, name);
}

static int check_kind(struct stop *s, const char *status, struct heft_error *err)
{
	pid_t pid = s->pid;
	char name[32];
	name_of(pid, name);
	long group = stop_status_field(status, "Tgid");
	if (group != pid)
		return heft_fail(err, HEFT_EREFUSED,
				 "%d is a thread of process %ld (%s)\nName the process.", pid,
				 group, name);
	unsigned flags = 0;
	char state = stop_task_state(s, pid, &flags);
	if (flags & PF_KTHREAD)
		return heft_fail(err, HEFT_EREFUSED, "process %d (%s) is a thread of the kernel",
				 pid, name);
	if ((state == 'Z' || state == 'X' || !state) && stop_status_field(status, "Threads") <= 1)
		return heft_fail(err, HEFT_ENOTFOUND, "process %d (%s) has ended", pid, name);
	long tracer = stop_status_field(status, "TracerPid");
	if (tracer > 0 && tracer != gettid()) { /* a program that is just started is ours already */
		char tracer_name[32];
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d (%s) is already traced, by process %ld (%s)\n"
				 "A process can have one tracer only: end that one first.",
				 pid, name, tracer, name_of((pid_t)tracer, tracer_name));
	}
	char path[32];
	unsigned char ident[EI_NIDENT];
	snprintf(path, sizeof path, "/proc/%d/exe", pid);
	int exe = open(path, O_RDONLY | O_CLOEXEC);
	bool whole = exe >= 0 && read_whole(exe, ident, sizeof ident) == sizeof ident;
	if (exe >= 0)
		close(exe);
	if (whole && !memcmp(ident, ELFMAG, SELFMAG) && ident[EI_CLASS] != ELFCLASS64)
		return heft_fail(err, HEFT_EREFUSED,
				 "process %d (%s) is a 32-bit program: heft knows 64-bit ones only",
				 pid, name);
	return 0;
}

void task_walk_begin(struct task_walk *w, const struct stop *s)
{
	w->folder = s->tasks;
	w->used = w->at = 0;
	lseek(w->folder, 0, SEEK_SET);
}

pid_t task_walk_next(struct task_walk *w)
{
	for (;;) {
		if (w->at >= w->used) {
			w->at = 0;
			w->used = syscall(SYS_getdents64, w->folder, w->entries, sizeof w->entries);
			if (w->used <= 0)
				return 0;
		}
		/* struct linux_dirent64: two words, the length, a byte, the name */
		const char *entry = w->entries + w->at;
		uint16_t length;
		memcpy(&length, entry + 16, sizeof length);
		w->at += length;
		pid_t tid = (pid_t)strtol(entry + 19, NULL, 10);
		if (tid > 0)
			return tid;
	}
}

pid_t stop_live_task(const struct stop *s)
{
	struct task_walk walk;
	task_walk_begin(&walk, s);
	for (pid_t tid; (tid = task_walk_next(&walk)) > 0;) {
		char state = stop_task_state(s, tid, NULL);
		if (state && state != 'Z' && state != 'X')
			return tid;
	}
	return 0;
}

bool stop_ends(const struct stop *s)
{
	struct task_walk walk;
	unsigned flags;
	task_walk_begin(&walk, s);
	for (pid_t tid; (tid = task_walk_next(&walk)) > 0;) {
		char state = stop_task_state(s, tid, &flags);
		if (state && state != 'Z' && state != 'X' && !(flags & PF_EXITING))
			return false;
	}
	return true;
}

void stop_read_filters(struct stop *s)
{
	struct task_walk walk;
	char status[4096];
	task_walk_begin(&walk, s);
	for (pid_t tid; !s->has_filter && (tid = task_walk_next(&walk)) > 0;)
		s->has_filter = stop_task_file(s, tid, "status", status, sizeof status) &&
				stop_status_field(status, "Seccomp") > 0;
}

static int open_memory(struct stop *s)
{
	char path[64];
	snprintf(path, sizeof path, "%d/mem", stop_live_task(s));
	return openat(s->tasks, path, O_RDWR | O_CLOEXEC);
}

/* It stands in the stat of each thread. */
static uint64_t first_stack(const struct stop *s)
{
	char text[1024];
	if (!stop_task_file(s, s->pid, "stat", text, sizeof text))
		return 0;
	const char *at = proc_stat_field(text, STAT_START_STACK);
	return at ? strtoull(at, NULL, 10) : 0;
}

int stop_open(struct stop **out, pid_t pid, struct heft_error *err)
{
	*out = NULL;
	if (pid == getpid())
		return heft_fail(err, HEFT_EREFUSED, "heft cannot attach to itself");
	struct stop *s = calloc(1, sizeof *s);
	if (!s)
		return heft_fail(err, HEFT_ENOMEM, "no memory");
	*s = (struct stop){.pid = pid, .mem = -1, .tasks = -1, .still_ns = 100000};
	char path[64], status[4096];
	int result = 0;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	s->tasks = pid > 0 ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (s->tasks < 0 || !stop_task_file(s, pid, "status", status, sizeof status)) {
		result = heft_fail(err, HEFT_ENOTFOUND, "there is no process %d", pid);
		goto out;
	}
	s->first_stack = first_stack(s);
	result = check_kind(s, status, err);
	if (result)
		goto out;
	s->mem = open_memory(s);
	if (s->mem < 0) {
		const int why = errno;
		const bool is_gone = stop_ends(s);
		errno = why;
		result = is_gone                             ? stop_ended(s, err)
			 : errno == EACCES || errno == EPERM ? refused(pid, status, err)
			 : errno == ENOENT || errno == ESRCH
				 ? heft_fail(err, HEFT_ENOTFOUND, "process %d has ended", pid)
				 : heft_fail_errno(err, "/proc/%d/mem", pid);
		goto out;
	}
	s->stack = malloc(STACK_CHUNK);
	result = !s->stack || !vector_reserve(&s->held, 256)
			 ? heft_fail(err, HEFT_ENOMEM, "no memory")
			 : arch_find_enter(s, err);
	/* In the middle of exec its memory is new, and has nothing yet. */
	for (int i = 0; result == HEFT_EBUSY && i < BEGIN_TRIES; i++) {
		nanosleep(&(struct timespec){.tv_nsec = BEGIN_NAP_NS}, NULL);
		result = arch_find_enter(s, err);
	}
	if (!result)
		frame_find_code(s);
out:
	if (result)
		stop_close(s);
	else
		*out = s;
	return result;
}

void stop_close(struct stop *s)
{
	if (!s)
		return;
	if (s->borrowed)
		stop_return(s, NULL);
	if (s->all)
		stop_resume(s, NULL);
	held_settle(s, monotonic_ns() + CLOSE_WAIT_NS);
	memory_probe_end(s);
	if (s->timer.made)
		timer_delete(s->timer.id);
	if (s->mem >= 0)
		close(s->mem);
	if (s->tasks >= 0)
		close(s->tasks);
	vector_free(&s->held);
	vector_free(&s->list);
	vector_free(&s->changed);
	free(s->stack);
	free(s);
}

bool stop_read_some(struct stop *s, uint64_t at, void *to, size_t bytes, size_t *got)
{
	*got = 0;
	while (*got < bytes) {
		ssize_t n = pread(s->mem, (char *)to + *got, bytes - *got, (off_t)(at + *got));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0;
		*got += (size_t)n;
	}
	return true;
}

int stop_read(struct stop *s, uint64_t at, void *to, size_t bytes, struct heft_error *err)
{
	size_t got;
	if (!stop_read_some(s, at, to, bytes, &got))
		return stop_ended(s, err); /* the memory is gone: it is not even unreadable */
	if (got < bytes)
		return heft_fail(err, HEFT_EIO, "process %d: cannot read %s at %#llx", s->pid,
				 words_size(bytes).text, (unsigned long long)at);
	return 0;
}

int stop_write(struct stop *s, uint64_t at, const void *from, size_t bytes, struct heft_error *err)
{
	size_t done = 0;
	while (done < bytes) {
		ssize_t n = pwrite(s->mem, (const char *)from + done, bytes - done,
				   (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return stop_ended(s, err);
		if (n < 0)
			return heft_fail_errno(err, "process %d: cannot write %s at %#llx", s->pid,
					       words_size(bytes).text, (unsigned long long)at);
		done += (size_t)n;
	}
	return 0;
}

struct run {
	int (*work)(void *ctx);
	void *ctx;
	int result;
};

static void *run_work(void *arg)
{
	struct run *run = arg;
	run->result = run->work(run->ctx);
	return NULL;
}

int stop_run(int (*work)(void *ctx), void *ctx, struct heft_error *err)
{
	struct run run = {.work = work, .ctx = ctx};
	pthread_t thread;
	/* A machine may be out of threads for a moment, and what is in the program must come out. */
	const uint64_t until = monotonic_ns() + THREAD_WAIT_NS;
	while ((errno = pthread_create(&thread, NULL, run_work, &run)) == EAGAIN &&
	       monotonic_ns() < until)
		nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	if (errno)
		return heft_fail_errno(err, "heft cannot start a thread");
	pthread_join(thread, NULL);
	return run.result;
}
