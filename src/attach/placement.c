/* What putting in and taking out both need: whose near page is in a process, and a few
 * facts about processes and threads. */
#include "attach/placement.h"

#include "attach/near_page.h"
#include "attach/target_maps.h"
#include "hosted/proc_text.h"
#include "session/process_start.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NEAR_MOST = 1 << 20 };

int32_t placement_number(pid_t pid, pid_t tid)
{
	char text[4096];
	proc_text(text, sizeof text, "/proc/%d/task/%d/status", pid, tid);
	long number = proc_status_last(text, "NSpid");
	return number < 0 ? tid : (int32_t)number;
}

bool placement_is_sandboxed(pid_t pid)
{
	char path[64], text[4096];
	struct dirent *e;
	bool sandboxed = false;
	snprintf(path, sizeof path, "/proc/%d/task", pid);
	DIR *all = opendir(path);
	while (all && !sandboxed && (e = readdir(all))) {
		proc_text(text, sizeof text, "/proc/%d/task/%s/status", pid, e->d_name);
		sandboxed = proc_status_last(text, "Seccomp") > 0;
	}
	if (all)
		closedir(all);
	return sandboxed;
}

static pid_t guardian_of(const struct near_header *h)
{
	pid_t pid = (pid_t)h->own[OWN_GUARDIAN];
	return pid > 0 && process_start_ticks(pid) == h->own[OWN_GUARDIAN_ID] ? pid : 0;
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
			    !near_page_is((const uint8_t *)&head, sizeof head) ||
			    head.own[OWN_MAIN])
				continue;
			found = m->start;
			*guardian = guardian_of(&head);
		}
		target_maps_fini(&maps);
	}
	close(mem);
	return found;
}
