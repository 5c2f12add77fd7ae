/* A session file and the process behind it, as a supervisor sees them from outside.
 *
 * The file is hostile: anyone may have made it, with any name and contents, and change or cut it at any time. So its
 * header is copied with one read, and only the copy is looked at: numbers of a fixed place, and two bounded strings for
 * the log. Whose process it is, is not what the file says but who has it mapped. A file that somebody has open is never
 * taken for a dead process's, even if that somebody cannot be seen (another pid namespace). */
#include "agent/supervised.h"

#include "hosted/monotonic.h"
#include "hosted/program_name.h"
#include "session/owner.h"
#include "session/session_dir.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NAME_BYTES = 200, STEM_BYTES = 101 };

static struct stat file_of(const struct supervised *c)
{
	return (struct stat){
		.st_dev = c->file.device, .st_ino = c->file.inode, .st_uid = c->file.uid};
}

/* Who has it mapped now, with a pidfd of that very process. A process that may not be looked into (not dumpable, and we
 * are not root) is taken at its word. *known: whether the answer is one. */
static bool find_owner(struct supervised *c, struct looker *l, bool search, bool *known)
{
	const struct stat file = file_of(c);
	enum look_answer named = looker_look(l, c->pid, &file), other = LOOK_LACKS;
	pid_t owner = 0;
	*known = named != LOOK_TOO_LONG;
	if (named == LOOK_HAS && c->pidfd >= 0)
		return true; /* pidfd is older than what we saw in /proc */
	if (search)
		other = looker_search(l, c->pid, &file, &owner);
	*known &= other != LOOK_TOO_LONG;
	if (other != LOOK_HAS)
		return c->pidfd >= 0 && named == LOOK_HIDDEN;
	if (c->pidfd >= 0)
		close(c->pidfd);
	c->pidfd = (int)syscall(SYS_pidfd_open, owner, 0);
	c->pid = owner;
	return c->pidfd >= 0 && looker_look(l, owner, &file) == LOOK_HAS;
}

/* ---- its header */

/* The executable's name with nothing in it that means something to a shell or a file system. */
static void safe_name(const char *exe, char out[STEM_BYTES])
{
	size_t n = 0;
	for (const char *c = path_file(exe); *c && n + 1 < STEM_BYTES; c++)
		out[n++] = isalnum((unsigned char)*c) || strchr("-+_.", *c) ? *c : '_';
	if (!n)
		out[n++] = '_';
	out[n] = 0;
}

/* The header's text is the executable and the arguments, one behind the other; it may be anything. */
static bool copy_names(struct supervised *c, struct wire_header *h)
{
	char name[NAME_BYTES], stem[STEM_BYTES];
	uint32_t bytes = h->text_bytes < WIRE_TEXT_BYTES ? h->text_bytes : WIRE_TEXT_BYTES - 1;
	h->text[bytes] = 0;
	const char *exe = h->text, *argv0 = NULL;
	size_t behind = strlen(exe) + 1;
	if (h->arg_count && behind < bytes)
		argv0 = h->text + behind;
	program_words(name, sizeof name, exe, argv0);
	for (char *at = name; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	safe_name(exe, stem);
	c->name = strdup(name);
	c->stem = strdup(stem);
	return c->name && c->stem;
}

static enum supervised_found read_header(struct supervised *c, int fd)
{
	struct wire_header *h = malloc(sizeof *h);
	enum supervised_found found = SUPERVISED_LATER;
	struct stat st;
	if (h && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_size == WIRE_FILE_BYTES && /* else it is being made */
	    pread(fd, h, sizeof *h, 0) == (ssize_t)sizeof *h &&
	    atomic_load(&h->magic) == WIRE_MAGIC) {
		bool ours = h->version == WIRE_VERSION && h->mode == WIRE_SAMPLED &&
			    st.st_nlink == 1;
		c->file = (struct session_file){st.st_dev, st.st_ino, st.st_uid};
		c->start_mono_ns = h->start_mono_ns;
		c->parent = h->origin == WIRE_FROM_FORK ? h->ppid : 0;
		found = ours && copy_names(c, h) ? SUPERVISED_TAKEN : SUPERVISED_NOTHING;
	}
	free(h);
	return found;
}

enum supervised_found supervised_open(struct supervised **out, int dirfd, const char *name,
				      struct looker *l, bool search)
{
	struct heft_error err;
	int32_t pid;
	uint64_t start_tsc;
	if (!session_file_name(name, &pid, &start_tsc))
		return SUPERVISED_NOTHING;
	enum owner_use use = owner_file_use(dirfd, name); /* before it is open here too */
	int fd = session_file_open(dirfd, name, &err);
	if (fd < 0)
		return fd == HEFT_ENOTFOUND ? SUPERVISED_LATER : SUPERVISED_NOTHING;
	struct supervised *c = calloc(1, sizeof *c);
	enum supervised_found found = SUPERVISED_LATER;
	if (c) {
		*c = (struct supervised){.named_pid = pid,
					 .pid = pid,
					 .start_tsc = start_tsc,
					 .pidfd = -1,
					 .saving_fd = -1};
		found = read_header(c, fd);
	}
	close(fd);
	if (found == SUPERVISED_TAKEN && use != OWNER_NOT_IN_USE) {
		/* /proc is looked through only for a file that may have an owner. */
		c->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		bool known;
		c->running = find_owner(c, l, search, &known);
		if (!c->running && (use == OWNER_IN_USE || !known))
			found = SUPERVISED_UNSEEN;
	}
	if (found != SUPERVISED_TAKEN) {
		if (c)
			supervised_free(c);
		return found;
	}
	*out = c;
	return found;
}

void supervised_free(struct supervised *c)
{
	if (c->pidfd >= 0)
		close(c->pidfd);
	if (c->saving_fd >= 0)
		close(c->saving_fd);
	free(c->name);
	free(c->stem);
	free(c->oom);
	free(c);
}

int supervised_file(const struct supervised *c, int dirfd)
{
	struct heft_error err;
	struct stat st;
	char name[32];
	snprintf(name, sizeof name, "%" PRIx32 ".%" PRIx64, (uint32_t)c->named_pid, c->start_tsc);
	int fd = session_file_open(dirfd, name, &err);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_dev == c->file.device &&
	    st.st_ino == c->file.inode && st.st_uid == c->file.uid)
		return fd;
	close(fd);
	errno = ENOENT;
	return -1;
}

/* ---- the process */

struct identity supervised_identity(const struct supervised *c, const struct identity *others)
{
	return identity_of(c->running ? c->pid : 0, c->file.uid, others);
}

bool supervised_was_replaced(const struct supervised *c, struct looker *l)
{
	const struct stat file = file_of(c);
	struct pollfd ended = {.fd = c->pidfd, .events = POLLIN};
	/* A process on its way out has nothing mapped either. */
	return looker_look(l, c->pid, &file) == LOOK_LACKS && poll(&ended, 1, 0) == 0;
}

uint64_t supervised_age_ns(const struct supervised *c)
{
	uint64_t now = monotonic_ns();
	return now > c->start_mono_ns ? now - c->start_mono_ns : 0;
}

void supervised_watch_memory(struct supervised *c)
{
	struct oom_watch *oom = malloc(sizeof *oom), *fitting;
	if (oom && oom_watch_process(oom, c->pid, &c->limit_bytes, &c->limit_is_cgroup)) {
		/* Most processes have few groups above them. */
		size_t bytes = offsetof(struct oom_watch, at) + oom->count * sizeof *oom->at;
		free(c->oom);
		fitting = realloc(oom, bytes);
		c->oom = fitting ? fitting : oom;
	} else
		free(oom);
}

bool supervised_learn_end(struct supervised *c, bool last)
{
	static const struct oom_watch unknown;
	const struct oom_watch *oom = c->oom ? c->oom : &unknown;
	int status;
	if (owner_exit_status(c->pidfd, c->pid, &status)) {
		c->end = process_end_of_status(status, oom, supervised_age_ns(c));
		c->end_known = true;
	} else if (last)
		supervised_ended_as(c, oom_watch_rose(oom) ? TRACE_END_OOM : TRACE_END_UNKNOWN,
				    supervised_age_ns(c));
	return c->end_known;
}

void supervised_ended_as(struct supervised *c, enum trace_end end, uint64_t end_ns)
{
	c->end = process_end_without_status(end, end_ns);
	c->end_known = true;
}
