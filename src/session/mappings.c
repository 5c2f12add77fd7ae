/* Reading /proc/PID/maps. Whoever owns the process decides how many lines that has (65,530 as a rule) and how long their
 * paths are (4 KiB, and four times that with escapes): 128 MB took 1.7 s. Since Linux 6.11 the kernel can be asked for
 * one mapping after another, without paths, and passes over those that are of no interest. On older kernels the text is
 * read. Who must not wait asks a looker (src/agent/looker.c). */
#include "session/mappings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* include/uapi/linux/fs.h, which is newer than the headers of many systems. */
struct mapping_query {
	uint64_t size, flags, address;
	uint64_t start, end, rights, page_size, offset, inode;
	uint32_t major, minor, name_size, build_id_size;
	uint64_t name, build_id;
};
#define QUERY _IOWR('f', 17, struct mapping_query)
#define SHARED 0x08
#define AT_OR_BEHIND 0x10
#define OF_A_FILE 0x20

FILE *mappings_open(pid_t pid)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	return fopen(path, "re");
}

bool mappings_line(FILE *f, char *line, size_t size)
{
	int c = 0;
	if (!fgets(line, (int)size, f))
		return false;
	size_t length = strlen(line);
	if (length && line[length - 1] == '\n')
		line[length - 1] = 0;
	else
		while (c != '\n' && c != EOF)
			c = getc_unlocked(f);
	return true;
}

bool mappings_parse(const char *line, struct mapping *m)
{
	char rights[5];
	m->path = 0;
	return sscanf(line, "%*x-%*x %4s %*x %x:%x %lu %n", rights, &m->major, &m->minor, &m->inode,
		      &m->path) == 4 &&
	       rights[3] == 's' && m->path;
}

enum mappings_answer mappings_look_in_text(FILE *f, const struct stat *file)
{
	char line[4200];
	struct mapping m;
	enum mappings_answer answer = MAPPINGS_NONE;
	while (answer != MAPPINGS_HAVE && mappings_line(f, line, sizeof line))
		answer = mappings_parse(line, &m) && m.inode == file->st_ino &&
					 makedev(m.major, m.minor) == file->st_dev
				 ? MAPPINGS_HAVE
				 : MAPPINGS_LACK;
	return answer;
}

/* False: this kernel does not have it. */
static bool ask(int fd, const struct stat *file, enum mappings_answer *answer)
{
	struct mapping_query q = {.size = sizeof q, .flags = SHARED | AT_OR_BEHIND | OF_A_FILE};
	*answer = MAPPINGS_LACK;
	while (!ioctl(fd, QUERY, &q)) {
		if (q.inode == file->st_ino && makedev(q.major, q.minor) == file->st_dev) {
			*answer = MAPPINGS_HAVE;
			return true;
		}
		if (q.end <= q.address)
			return false; /* it would not end */
		q = (struct mapping_query){.size = sizeof q, .flags = q.flags, .address = q.end};
	}
	if (errno == ESRCH)
		*answer = MAPPINGS_NONE;
	return errno == ENOENT || errno == ESRCH;
}

/* Whether it has anything mapped. One on its way out has not, and that must not be taken for another program. */
static enum mappings_answer any(FILE *f)
{
	errno = 0;
	if (getc(f) != EOF)
		return MAPPINGS_LACK;
	return errno ? MAPPINGS_HIDDEN : MAPPINGS_NONE;
}

enum mappings_answer mappings_look(pid_t pid, const struct stat *file)
{
	FILE *f = mappings_open(pid);
	enum mappings_answer answer;
	if (!f)
		return errno == EACCES || errno == EPERM ? MAPPINGS_HIDDEN : MAPPINGS_NONE;
	if (!ask(fileno(f), file, &answer))
		answer = mappings_look_in_text(f, file);
	if (answer == MAPPINGS_LACK || answer == MAPPINGS_NONE) {
		rewind(f);
		answer = any(f);
	}
	fclose(f);
	return answer;
}
