/* Finding processes by their executable, cheaply.
 *
 * A list of /proc has the inode of each process's folder. It belongs to that process alone as long as the kernel keeps
 * it, so a process that has the same number and the same inode as a second ago is the same one, and nothing needs to be
 * read. If the inode is another one, its start says whether it is a new process. /proc lists processes by number, and so is
 * our list: one is compared with the other as they go. If no process was started since the last time, as /proc/loadavg
 * says, not even the list is read.
 *
 * What that does not show is that a process executes another program, as every new process does at first. So the
 * executable of a new one is looked at again after 1, 2, 4 and 8 seconds, and that of older ones in turn.
 *
 * All of this is what the kernel writes, and takes no lock that a process can hold. 1,000 processes take about 1.2 ms to
 * list and 4 us each to look at; looking takes 1/800 of the time at most. */
#include "agent/program_finder.h"

#include "hosted/hash_index.h"
#include "hosted/monotonic.h"
#include "hosted/program_name.h"
#include "session/process_start.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS 1000000000ull
#define WHOLE_EVERY_NS (10 * SECOND_NS)

enum {
	YOUNG_LOOKS = 5,  /* then it is looked at in turn */
	LOOKS_MOST = 500, /* in one go */
	TURN_MOST = 20,   /* of them at old ones */
	REST = 800,
};

uint32_t program_rule(const char *const *globs, uint32_t count, const char *path)
{
	uint32_t i = 0;
	while (i < count && fnmatch(globs[i], strchr(globs[i], '/') ? path : path_file(path),
				    strchr(globs[i], '/') ? FNM_PATHNAME : 0))
		i++;
	return i;
}

bool program_executable(pid_t pid, char *path, size_t size)
{
	static const char removed[] = " (deleted)";
	char link[64];
	snprintf(link, sizeof link, "/proc/%d/exe", pid);
	ssize_t n = readlink(link, path, size - 1);
	if (n <= 0)
		return false;
	path[n] = 0;
	size_t length = (size_t)n, behind = sizeof removed - 1;
	if (length > behind && !strcmp(path + length - behind, removed))
		path[length - behind] = 0;
	return true;
}

int program_finder_init(struct program_finder *f, const char *const *globs, uint32_t count)
{
	*f = (struct program_finder){.globs = globs, .glob_count = count, .loadavg = -1};
	if (!count)
		return 0;
	f->proc = opendir("/proc");
	f->loadavg = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	if (!program_executable(getpid(), f->own, sizeof f->own))
		f->own[0] = 0;
	return f->proc ? 0 : -1;
}

void program_finder_fini(struct program_finder *f)
{
	if (f->proc)
		closedir(f->proc);
	if (f->loadavg >= 0)
		close(f->loadavg);
	f->proc = NULL;
	f->loadavg = -1;
	vector_free(&f->list);
	vector_free(&f->older);
}

/* ---- executables */

static void look_at(struct program_finder *f, struct program *p, uint64_t now)
{
	char path[PATH_MAX];
	bool seen = program_executable(p->pid, path, sizeof path);
	uint32_t hash = seen ? hash_bytes(path, strlen(path)) : 0;
	bool changed = hash != p->exe_hash;
	p->look_ns = now + (SECOND_NS << (p->looks < YOUNG_LOOKS ? p->looks : YOUNG_LOOKS));
	if (p->looks < YOUNG_LOOKS)
		p->looks++;
	if (!changed || !seen)
		return; /* not to be seen: it is ending, a thread of the kernel, or not ours to see */
	p->exe_hash = hash;
	p->rule = strcmp(path, f->own) ? program_rule(f->globs, f->glob_count, path)
				       : f->glob_count;
	p->tries = p->said = 0;
	p->state = PROGRAM_OTHER;
	if (p->rule == f->glob_count)
		return;
	p->began = process_start_ticks(p->pid);
	p->state = p->began ? PROGRAM_WANTED : PROGRAM_OTHER;
	p->again_ns = 0;
}

static void look_at_some(struct program_finder *f, uint64_t now)
{
	unsigned looks = 0, turns = 0;
	for (size_t n = 0; n < f->list.count && looks < LOOKS_MOST; n++) {
		if (++f->turn >= f->list.count)
			f->turn = 0;
		struct program *p = &f->list.items[f->turn];
		bool old = p->looks == YOUNG_LOOKS;
		if (now < p->look_ns || (old && turns == TURN_MOST))
			continue;
		looks++;
		turns += old;
		look_at(f, p, now);
	}
}

/* ---- processes */

/* One of the list of /proc. *at: where to look for it among those that were known. */
static void list_one(struct program_finder *f, pid_t pid, uint64_t inode, size_t *at)
{
	while (*at < f->older.count && f->older.items[*at].pid < pid)
		++*at;
	const struct program *known = *at < f->older.count && f->older.items[*at].pid == pid
					      ? &f->older.items[*at]
					      : NULL;
	struct program *p = vector_add(&f->list);
	if (!p)
		return; /* next time */
	if (known &&
	    (known->inode == inode || (known->began && known->began == process_start_ticks(pid))))
		*p = *known;
	p->pid = pid;
	p->inode = inode;
}

static void list_all(struct program_finder *f)
{
	const struct dirent *e;
	size_t at = 0;
	__typeof__(f->list) other = {f->older.items, 0, f->older.capacity};
	__typeof__(f->older) known = {f->list.items, f->list.count, f->list.capacity};
	f->list = other;
	f->older = known;
	rewinddir(f->proc);
	for (pid_t last = 0; (e = readdir(f->proc));) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		if (pid > last) {
			list_one(f, pid, e->d_ino, &at);
			last = pid;
		}
	}
}

/* Whether a process or thread was started since the last time. */
static bool has_more(struct program_finder *f)
{
	char text[128];
	ssize_t n = f->loadavg < 0 ? 0 : pread(f->loadavg, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	const char *last = strrchr(text, ' ');
	if (!last)
		return true;
	bool same = !strncmp(last, f->last, sizeof f->last - 1);
	snprintf(f->last, sizeof f->last, "%s", last);
	return !same;
}

static uint64_t cpu_ns(void)
{
	struct timespec t = {0};
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

bool program_finder_look(struct program_finder *f, uint64_t now)
{
	if (!f->proc || now < f->next_ns)
		return false;
	uint64_t begun = cpu_ns();
	if (has_more(f) || now >= f->whole_ns) {
		list_all(f);
		f->whole_ns = now + WHOLE_EVERY_NS;
	}
	look_at_some(f, now);
	uint64_t took = cpu_ns() - begun;
	f->next_ns = now + (took * REST > SECOND_NS ? took * REST : SECOND_NS);
	return true;
}

struct program *program_finder_get(struct program_finder *f, pid_t pid, uint64_t began)
{
	size_t low = 0, high = f->list.count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (f->list.items[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	struct program *p = low < f->list.count ? &f->list.items[low] : NULL;
	return p && p->pid == pid && p->began == began ? p : NULL;
}
