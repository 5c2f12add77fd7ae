/* A session file and the process behind it, as an agent sees them from outside.
 *
 * The file is hostile: anyone may have made it, with any name and contents, and
 * change or cut it at any time (session_guard.h). Whose process it is, is not what
 * it says but who has it mapped. A file that somebody has open is never taken for a
 * dead process's, even if that somebody cannot be seen (another pid namespace). */
#include "agent/agent_process.h"

#include "agent/sampled_recording.h"
#include "hosted/monotonic.h"
#include "session/owner.h"
#include "session/session_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SAVE_NAMES = 10000 }; /* so many recordings of one name, then it is refused */

static struct stat file_of(const struct process *p)
{
	return (struct stat){.st_dev = p->view.file.device, .st_ino = p->view.file.inode};
}

/* A process that may not be looked into (not dumpable, and we are not root) is taken at its word. */
static bool is_hidden(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char byte;
	bool hidden = fd < 0 ? errno == EACCES || errno == EPERM : read(fd, &byte, 1) < 0;
	if (fd >= 0)
		close(fd);
	return hidden;
}

/* Who has it mapped now, with a pidfd of that very process. */
static bool find_owner(struct process *p)
{
	struct stat file = file_of(p);
	pid_t owner = owner_of_file(&file, p->pid);
	if (!owner)
		return p->pidfd >= 0 && is_hidden(p->pid);
	if (owner == p->pid && p->pidfd >= 0)
		return true; /* pidfd is older than what we saw in /proc */
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = (int)syscall(SYS_pidfd_open, owner, 0);
	p->pid = p->entry.facts.pid = p->seen_pid = owner;
	return p->pidfd >= 0 && owner_of_file(&file, owner) == owner;
}

enum agent_found agent_process_open(struct agent_process *c, int dirfd, const char *name)
{
	struct heft_error err;
	uint64_t start_tsc;
	memset(c, 0, sizeof *c);
	if (!session_file_name(name, &c->named_pid, &start_tsc))
		return AGENT_NOTHING;
	enum owner_use use = owner_file_use(dirfd, name); /* before it is mapped here too */
	int rc = process_open(&c->process, dirfd, name, &err);
	if (rc)
		return rc == HEFT_ENOTFOUND ? AGENT_LATER : AGENT_NOTHING;
	struct process *p = c->process;
	/* /proc is looked through only for a file that may have an owner. */
	c->running = use != OWNER_NOT_IN_USE && find_owner(p);
	if (p->view.sampled && (c->running || use != OWNER_IN_USE))
		return AGENT_TAKEN;
	bool sampled = p->view.sampled;
	process_free(p);
	c->process = NULL;
	return sampled ? AGENT_UNSEEN : AGENT_NOTHING;
}

bool agent_process_was_replaced(const struct agent_process *c)
{
	const struct process *p = c->process;
	struct stat file = file_of(p);
	return owner_of_file(&file, p->pid) != p->pid && !is_hidden(p->pid);
}

/* Since the process's start, by the clock that its header begins with. */
static uint64_t age_ns(const struct process *p)
{
	uint64_t now = monotonic_ns();
	uint64_t start = p->view.session.header->start_mono_ns;
	return now > start ? now - start : 0;
}

bool agent_process_learn_end(struct agent_process *c, bool last)
{
	struct process *p = c->process;
	int status;
	if (owner_exit_status(p->pidfd, p->pid, &status))
		process_ended_with(p, status, age_ns(p));
	else if (last)
		process_ended_as(p,
				 oom_watch_rose(&p->kernel.oom) ? TRACE_END_OOM : TRACE_END_UNKNOWN,
				 age_ns(p));
	else
		return false;
	return true;
}

/* The executable's name with nothing in it that means something to a shell or a file system. */
static void safe_name(const char *exe, char *out, size_t size)
{
	const char *slash = strrchr(exe, '/');
	size_t n = 0;
	for (const char *c = slash ? slash + 1 : exe; *c && n + 1 < size; c++)
		out[n++] = isalnum((unsigned char)*c) || strchr("-+_.", *c) ? *c : '_';
	if (!n)
		out[n++] = '_';
	out[n] = 0;
}

int agent_process_save(const struct agent_process *c, const char *dir, char *path, size_t size,
		       struct heft_error *err)
{
	struct process *p = c->process;
	char exe[101];
	int rc = HEFT_EREFUSED;
	safe_name(p->entry.facts.exe, exe, sizeof exe);
	for (int i = 0; i < SAVE_NAMES; i++) {
		char suffix[16] = "";
		if (i)
			snprintf(suffix, sizeof suffix, ".%d", i);
		if (snprintf(path, size, "%s/heft.%s.%d%s.heft", dir, exe, p->pid, suffix) >=
		    (int)size)
			return heft_fail(err, HEFT_EREFUSED, "the path %s is too long", dir);
		rc = sampled_recording_write(p, path, false, err);
		if (rc != HEFT_EREFUSED)
			break;
	}
	if (rc && rc != HEFT_EREFUSED)
		unlink(path); /* half of it, on a full disk: its session file is still there */
	if (!rc && geteuid() == 0 && lchown(path, p->view.file.uid, (gid_t)-1))
		rc = 0; /* then it stays root's */
	return rc;
}
