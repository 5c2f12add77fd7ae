/* Reads /proc/PID/maps (target_maps.h). The kernel writes the file, but the process chooses its names: a name may
 * have spaces, end in " (deleted)", or begin with "[". Newlines in it are written as \012, so that a line is a line;
 * they are turned back here, because the name is used to open the file.
 *
 * The kernel gives a page of text at a time, and the process may map and unmap in between. Lines that do not ascend
 * are left out, so the list is in order whatever was read. */
#include "attach/target_maps.h"

#include "hosted/error.h"
#include "hosted/sorted.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More lines than a kernel allows by default (65530) and than a large program raises that to. */
enum { MOST_MAPPINGS = 1 << 22 };

void target_maps_fini(struct target_maps *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->items[i].name);
	vector_free(m);
}

/* \012 is the only thing that the kernel escapes. */
static void unescape(char *name)
{
	char *to = name;
	for (const char *p = name; *p; p++) {
		if (strncmp(p, "\\012", 4) == 0) {
			*to++ = '\n';
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = 0;
}

static bool parse_line(char *line, struct target_mapping *m)
{
	static const char gone[] = " (deleted)";
	char rights[5] = "";
	int name_at = 0;
	memset(m, 0, sizeof *m);
	if (sscanf(line,
		   "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %" SCNx32 ":%" SCNx32 " %" SCNu64 "%n",
		   &m->start, &m->end, rights, &m->offset, &m->device_major, &m->device_minor,
		   &m->inode, &name_at) < 7 ||
	    m->start >= m->end || strlen(rights) != 4)
		return false;
	m->read = rights[0] == 'r';
	m->write = rights[1] == 'w';
	m->execute = rights[2] == 'x';
	m->shared = rights[3] == 's';
	char *name = line + name_at;
	name += strspn(name, " ");
	size_t length = strlen(name), tail = sizeof gone - 1;
	if (m->inode && length > tail && strcmp(name + length - tail, gone) == 0) {
		m->deleted = true;
		name[length - tail] = 0;
	}
	unescape(name);
	m->name = name;
	return true;
}

int target_maps_parse(struct target_maps *m, char *text, struct heft_error *err)
{
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		struct target_mapping mapping;
		if (!*line || !parse_line(line, &mapping))
			continue;
		if (m->count && mapping.start < m->items[m->count - 1].end)
			continue;
		if (m->count == MOST_MAPPINGS)
			return heft_fail(err, HEFT_EREFUSED, "the program has over %d mappings",
					 MOST_MAPPINGS);
		mapping.name = strdup(mapping.name);
		if (!mapping.name || !vector_push(m, mapping)) {
			free(mapping.name);
			return heft_fail(err, HEFT_ENOMEM, "no memory for the program's mappings");
		}
	}
	return 0;
}

int target_maps_read(struct target_maps *m, pid_t pid, struct heft_error *err)
{
	char path[64];
	VECTOR(char) text = {0};
	int rc = 0;
	memset(m, 0, sizeof *m);
	snprintf(path, sizeof path, "/proc/%d/maps", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT
			       ? heft_fail(err, HEFT_ENOTFOUND, "there is no process %d", pid)
			       : heft_fail_errno(err, "cannot read %s", path);
	for (;;) {
		if (!vector_reserve(&text, 65536)) {
			rc = heft_fail(err, HEFT_ENOMEM, "no memory for the program's mappings");
			goto out;
		}
		ssize_t got = read(fd, text.items + text.count, 65535);
		if (got < 0) {
			rc = errno == ESRCH
				     ? heft_fail(err, HEFT_ENOTFOUND, "process %d has ended", pid)
				     : heft_fail_errno(err, "cannot read %s", path);
			goto out;
		}
		if (got == 0)
			break;
		text.count += (size_t)got;
	}
	text.items[text.count] = 0;
	rc = target_maps_parse(m, text.items, err);
out:
	if (rc < 0)
		target_maps_fini(m);
	vector_free(&text);
	close(fd);
	return rc;
}

const struct target_mapping *target_maps_find(const struct target_maps *m, uint64_t address)
{
	size_t i = count_before(k, m->count, m->items[k].end <= address);
	return i < m->count && m->items[i].start <= address ? &m->items[i] : NULL;
}
