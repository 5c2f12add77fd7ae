/* What putting in and taking out both need: whose near page is in a process, and a few
 * facts about processes and threads. */
#include "attach/placement.h"

#include "attach/near_page.h"
#include "attach/target_maps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NEAR_MOST = 1 << 20 };

/* A small file of /proc as text; "": it is not there. */
static void read_text(char *text, size_t size, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
}

int32_t placement_number(pid_t pid, pid_t tid)
{
	char path[64], text[4096];
	snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
	read_text(text, sizeof text, path);
	char *line = strstr(text, "\nNSpid:");
	if (!line)
		return tid;
	line[1 + strcspn(line + 1, "\n")] = 0;
	const char *last = strrchr(line, '\t');
	return last ? (int32_t)strtol(last, NULL, 10) : tid;
}

bool placement_is_sandboxed(pid_t pid)
{
	char path[300], text[4096];
	struct dirent *e;
	bool sandboxed = false;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *all = opendir(path);
	while (all && !sandboxed && (e = readdir(all))) {
		snprintf(path, sizeof path, "/proc/%d/task/%s/status", pid, e->d_name);
		read_text(text, sizeof text, path);
		const char *line = strstr(text, "\nSeccomp:");
		sandboxed = line && strtol(line + sizeof "\nSeccomp:" - 1, NULL, 10) > 0;
	}
	if (all)
		closedir(all);
	return sandboxed;
}

uint64_t placement_began(pid_t pid)
{
	enum { BEHIND_NAME = 3, START_TIME = 22 };
	char path[64], text[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	read_text(text, sizeof text, path);
	const char *at = strrchr(text, ')');
	if (at && at[1] && (at[2] == 'Z' || at[2] == 'X'))
		return 0; /* it has ended; nobody has asked for its status yet */
	for (int field = BEHIND_NAME; at && field <= START_TIME; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static pid_t guardian_of(const struct near_header *h)
{
	pid_t pid = (pid_t)h->own[OWN_GUARDIAN];
	return pid > 0 && placement_began(pid) == h->own[OWN_GUARDIAN_ID] ? pid : 0;
}

uint64_t placement_find(pid_t pid, uint64_t after, pid_t *guardian)
{
	struct target_maps maps;
	struct heft_error ignored;
	struct near_header head;
	char path[64];
	uint64_t found = 0;
	*guardian = 0;
	snprintf(path, sizeof path, "/proc/%d/mem", pid);
	int mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return 0;
	if (!target_maps_read(&maps, pid, &ignored)) {
		for (size_t i = 0; i < maps.count && !found; i++) {
			const struct target_mapping *m = &maps.items[i];
			if (m->start <= after || !m->execute || m->write || *m->name ||
			    pread(mem, &head, sizeof head, (off_t)m->start) != sizeof head ||
			    !near_page_is((const uint8_t *)&head, sizeof head))
				continue;
			found = m->start;
			*guardian = guardian_of(&head);
		}
		target_maps_fini(&maps);
	}
	close(mem);
	return found;
}
