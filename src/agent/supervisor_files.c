/* Files for the worker of root's programs, which does not run as root: it cannot read a private executable, or one of
 * another mount namespace.
 *
 * A path is a claim of the program. So no path is ever opened here: the file is taken from the mappings of a running
 * process of that worker (/proc/PID/map_files), where the kernel keeps it open. Nothing is looked up, nothing can hang,
 * and what is found is what the process has mapped. A process may execute what it may not read: then neither may its
 * worker. */
#include "agent/supervisor.h"

#include "session/owner.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK_MOST = 256 }; /* processes whose mappings are looked at for one file */

/* The range that a line of /proc/PID/maps gives to this path, as map_files calls it; false: it is about another. maps
 * has zeros before low addresses, as a program at a fixed address has them, and map_files has none. */
static bool range_of(const char *line, const char *path, char range[40])
{
	unsigned long long low, high;
	int behind = 0;
	if (sscanf(line, "%llx-%llx %*4s %*x %*x:%*x %*u %n", &low, &high, &behind) != 2 || !behind)
		return false;
	snprintf(range, 40, "%llx-%llx", low, high);
	return strcmp(line + behind, path) == 0;
}

static int mapped_file(const struct supervised *c, const char *path)
{
	char name[80], line[LINK_TEXT + 128], range[40] = "";
	bool found = false;
	snprintf(name, sizeof name, "/proc/%d/maps", c->pid);
	FILE *maps = fopen(name, "re");
	while (maps && !found && fgets(line, sizeof line, maps)) {
		line[strcspn(line, "\n")] = 0;
		found = range_of(line, path, range);
	}
	if (maps)
		fclose(maps);
	if (!found)
		return -1;
	struct stat st;
	if (!identity_is_root(c->pid))
		return -1;
	snprintf(name, sizeof name, "/proc/%d/map_files/%s", c->pid, range);
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -1;
	/* Still root's, and still this process. */
	const struct stat own = {.st_dev = c->file.device, .st_ino = c->file.inode};
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && identity_is_root(c->pid) &&
	    owner_has_mapped(c->pid, &own))
		return fd;
	close(fd);
	return -1;
}

int supervisor_open_file(void *ctx, struct worker_seat *s, const char *path)
{
	struct supervisor *a = ctx;
	int fd = -1, looked = 0;
	if (!s->who.roots || path[0] != '/')
		return -1;
	for (uint32_t i = a->count; i-- > 0 && fd < 0 && looked < LOOK_MOST;) {
		const struct supervised *c = a->list[i];
		if (c->seat != s || !c->running)
			continue;
		fd = mapped_file(c, path);
		looked++;
	}
	return fd;
}
