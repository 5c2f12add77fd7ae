/* The link between a process and its session file is the mapping itself: a pid may
 * have been given to another process, and in a container it is another number. What
 * /proc says of mappings is true in both cases. */
#include "record/owner.h"

#include "wire/session.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

struct mapping {
	unsigned major, minor;
	unsigned long inode;
	int path; /* where it stands in the line */
};

/* A line of /proc/PID/maps that is a shared mapping. */
static bool read_mapping(const char *line, struct mapping *m)
{
	char rights[5];
	m->path = 0;
	return sscanf(line, "%*x-%*x %4s %*x %x:%x %lu %n", rights, &m->major, &m->minor, &m->inode,
		      &m->path) == 4 &&
	       rights[3] == 's' && m->path;
}

static FILE *open_maps(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	return fopen(path, "re");
}

static bool has_mapped(pid_t pid, const struct stat *file)
{
	char line[4200];
	struct mapping m;
	bool found = false;
	FILE *f = open_maps(pid);
	while (f && !found && fgets(line, sizeof line, f))
		found = read_mapping(line, &m) && m.inode == file->st_ino &&
			makedev(m.major, m.minor) == file->st_dev;
	if (f)
		fclose(f);
	return found;
}

pid_t owner_of_file(const struct stat *file, pid_t likely)
{
	pid_t found = 0;
	if (likely > 0 && has_mapped(likely, file))
		return likely;
	DIR *proc = opendir("/proc");
	struct dirent *e;
	while (proc && !found && (e = readdir(proc)))
		if (isdigit((unsigned char)e->d_name[0]) && has_mapped(atoi(e->d_name), file))
			found = atoi(e->d_name);
	if (proc)
		closedir(proc);
	return found;
}

/* Session files are named PID.STAMP in hex, and have a size of their own. */
static bool is_session_file(const char *path)
{
	struct stat st;
	const char *name = strrchr(path, '/');
	const char *dot = name ? strchr(name, '.') : NULL;
	return dot && strspn(name + 1, "0123456789abcdef") == (size_t)(dot - name - 1) &&
	       strspn(dot + 1, "0123456789abcdef") == strlen(dot + 1) && stat(path, &st) == 0 &&
	       S_ISREG(st.st_mode) && (uint64_t)st.st_size == WIRE_FILE_BYTES;
}

int owner_file(pid_t pid, char *path, size_t size, struct heft_error *err)
{
	char line[4200];
	struct mapping m;
	FILE *f = open_maps(pid);
	if (!f)
		return heft_fail_errno(err, "process %d", pid);
	while (fgets(line, sizeof line, f)) {
		line[strcspn(line, "\n")] = 0;
		if (!read_mapping(line, &m) || !is_session_file(line + m.path))
			continue;
		fclose(f);
		if (snprintf(path, size, "%s", line + m.path) < (int)size)
			return 0;
		return heft_fail(err, HEFT_ENOTFOUND, "process %d: its path is too long", pid);
	}
	fclose(f);
	return heft_fail(err, HEFT_ENOTFOUND, "process %d is not sampled by heft", pid);
}

/* include/uapi/linux/pidfd.h, which is newer than the headers of many systems. */
struct pidfd_facts {
	uint64_t mask, cgroup;
	uint32_t ids[11];
	int32_t exit_code;
};
#define FACTS_EXIT (1u << 3)
#define GET_FACTS _IOWR(0xff, 11, struct pidfd_facts)

bool owner_exit_status(int pidfd, int *status)
{
	struct pidfd_facts facts = {.mask = FACTS_EXIT};
	if (pidfd < 0 || ioctl(pidfd, GET_FACTS, &facts) || !(facts.mask & FACTS_EXIT))
		return false;
	*status = facts.exit_code;
	return true;
}
