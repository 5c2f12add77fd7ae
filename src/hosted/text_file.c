/* Budgets, baselines and reports for test suites are read by people and by other programs, several tests may want one at a
 * time, and a disk may be full. So a file is never changed in place: the new text is written to a file of another name in
 * the same folder, which then takes the place of the old one. */
#include "hosted/text_file.h"

#include "hosted/whole_io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int text_file_read(const char *path, const char *what, size_t most, char **text, size_t *size,
		   struct heft_error *err)
{
	FILE *f = fopen(path, "re");
	*text = NULL;
	if (!f && errno == ENOENT)
		return heft_fail(err, HEFT_ENOTFOUND, "cannot read %s: %s", path, strerror(errno));
	if (!f)
		return heft_fail_errno(err, "cannot read %s", path);
	int rc = 0;
	char *buffer = malloc(most + 1);
	if (!buffer) {
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory to read %s", path);
		goto out;
	}
	*size = fread(buffer, 1, most + 1, f);
	if (ferror(f))
		rc = heft_fail_errno(err, "cannot read %s", path);
	else if (*size > most)
		rc = heft_fail_format(err, path, most, "expected %s, found more than %zu MiB", what,
				      most >> 20);
out:
	fclose(f);
	if (rc < 0)
		free(buffer);
	else
		*text = buffer;
	return rc;
}

static int write_through(const char *path, const char *text, size_t size, struct heft_error *err)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	bool whole = fd >= 0 && write_whole(fd, text, size);
	int rc = whole ? 0 : heft_fail_errno(err, "cannot write %s", path);
	if (fd >= 0 && close(fd) != 0 && rc == 0)
		rc = heft_fail_errno(err, "cannot write %s", path);
	return rc;
}

int text_file_replace(const char *path, const char *text, size_t size, struct heft_error *err)
{
	char real[PATH_MAX], beside[PATH_MAX + 8];
	struct stat st;
	mode_t mask = umask(0);
	umask(mask);
	bool exists = stat(path, &st) == 0;
	if (exists && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return write_through(path, text, size, err);
	/* Through a link the file it names is replaced, not the link. */
	if (!realpath(path, real))
		snprintf(real, sizeof real, "%s", path);
	mode_t mode = exists ? st.st_mode & 07777 : 0666 & ~mask;
	snprintf(beside, sizeof beside, "%s.XXXXXX", real);
	int fd = mkstemp(beside);
	if (fd < 0)
		return heft_fail_errno(err, "cannot write beside %s", real);
	int rc = 0;
	if (!write_whole(fd, text, size) || fchmod(fd, mode) != 0 || fsync(fd) != 0)
		rc = heft_fail_errno(err, "cannot write %s", beside);
	if (close(fd) != 0 && rc == 0)
		rc = heft_fail_errno(err, "cannot write %s", beside);
	if (rc == 0 && rename(beside, real) != 0)
		rc = heft_fail_errno(err, "cannot replace %s", real);
	if (rc < 0)
		unlink(beside);
	return rc;
}
