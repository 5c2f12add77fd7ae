/* The table of formats, and how a file is written.
 *
 * A new format is one file with one function and its line in the table here. A format knows the model
 * and the stream it writes to, nothing else. (json is the report's own: it is in src/cli/export.c,
 * because this folder does not know the report.)
 *
 * A file is written under another name beside its place and renamed when all of it is in the file
 * system: readers see the old file, or nothing, or the whole new one. Without force the rename itself
 * refuses an existing file, so that two exports at once cannot overwrite each other. */
#include "export/export.h"

#include "export/export_formats.h"
#include "profile/folded_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct exporter exporters[] = {
	{"pprof", "for go tool pprof, Parca, Pyroscope", "pb.gz", true, export_pprof, true,
	 EXPORT_APART, true},
	{"dhat", "for Valgrind's dh_view.html", "dhat.json", false, export_dhat, false,
	 EXPORT_CALLS, true},
	{"massif", "for ms_print, massif-visualizer", "massif", false, export_massif, false,
	 EXPORT_MERGED, false},
	{"heaptrack", "for heaptrack_print, heaptrack_gui", "heaptrack.zst", false,
	 export_heaptrack, false, EXPORT_APART, false},
	{"folded", "FlameGraph's input: a line a stack", "folded", false, export_folded, false,
	 EXPORT_MERGED, true},
	{"flamegraph", "a picture: SVG with search and zoom", "svg", false, export_flamegraph,
	 false, EXPORT_MERGED, true},
	{"speedscope", "for speedscope.app", "speedscope.json", false, export_speedscope, false,
	 EXPORT_MERGED, true},
	{"csv", "a table: every site with every measure", "csv", false, export_csv, false,
	 EXPORT_MERGED, false},
	{.name = NULL},
};

const struct exporter *exporter_find(const char *name)
{
	for (const struct exporter *x = exporters; x->name; x++)
		if (strcmp(x->name, name) == 0)
			return x;
	return NULL;
}

static int refuse_existing(const char *path, struct heft_error *err)
{
	return heft_fail(err, HEFT_EREFUSED,
			 "%s exists already\n--force overwrites it; -o names another file", path);
}

int export_path_check(const struct exporter *x, const char *path, bool force,
		      struct heft_error *err)
{
	struct stat st;
	if (strcmp(path, "-") == 0 || stat(path, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return heft_fail(err, HEFT_EREFUSED, "%s is a directory\n-o names a file", path);
	if (S_ISREG(st.st_mode))
		return force ? 0 : refuse_existing(path, err);
	if (x->binary && S_ISCHR(st.st_mode)) {
		int fd = open(path, O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
		bool terminal = fd >= 0 && isatty(fd);
		if (fd >= 0)
			close(fd);
		if (terminal)
			return heft_fail(err, HEFT_EREFUSED,
					 "%s is a terminal, and %s is a binary format\n"
					 "-o - writes it to standard output all the same",
					 path, x->name);
	}
	return 0;
}

int exporter_write(const struct exporter *x, FILE *out, const struct profile *p,
		   const struct export_options *o, struct heft_error *err)
{
	struct folded_profile folded = {0};
	int rc = x->folds && !o->full ? folded_profile_init(&folded, p, o->invert) : 0;
	if (rc < 0)
		return heft_fail(err, rc, "not enough memory to fold the stacks");
	rc = x->write(out, folded.view ? folded.view : p, o, err);
	folded_profile_fini(&folded);
	return rc;
}

/* Writes to the stream and flushes it. */
static int write_whole(FILE *out, const struct exporter *x, const char *name,
		       const struct profile *p, const struct export_options *o,
		       struct heft_error *err)
{
	int rc = exporter_write(x, out, p, o, err);
	if (rc < 0)
		return rc;
	errno = 0;
	if (fflush(out) != 0 || ferror(out)) {
		if (!errno) /* it failed earlier, and the stream does not remember with what */
			errno = EIO;
		return heft_fail_errno(err, "cannot write %s", name);
	}
	return 0;
}

static int write_as_it_is(const struct exporter *x, const char *path, const struct profile *p,
			  const struct export_options *o, struct heft_error *err)
{
	FILE *out = fopen(path, "we");
	if (!out)
		return heft_fail_errno(err, "cannot open %s", path);
	int rc = write_whole(out, x, path, p, o, err);
	if (fclose(out) != 0 && rc == 0)
		rc = heft_fail_errno(err, "cannot write %s", path);
	return rc;
}

static int move_into_place(const char *beside, const char *path, bool force, struct heft_error *err)
{
	int rc = force ? rename(beside, path)
		       : renameat2(AT_FDCWD, beside, AT_FDCWD, path, RENAME_NOREPLACE);
	if (rc < 0 && !force && errno == EINVAL) { /* a file system without it */
		rc = link(beside, path);
		if (rc == 0)
			unlink(beside);
	}
	if (rc == 0)
		return 0;
	return errno == EEXIST ? refuse_existing(path, err)
			       : heft_fail_errno(err, "cannot write %s", path);
}

static FILE *open_beside(const char *path, char *beside, size_t size, struct heft_error *err)
{
	int n = snprintf(beside, size, "%s.XXXXXX", path);
	if (n < 0 || (size_t)n >= size) {
		heft_fail(err, HEFT_EREFUSED, "the file name is too long: %.100s...", path);
		return NULL;
	}
	int fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0) {
		heft_fail_errno(err, "cannot make a file beside %s", path);
		return NULL;
	}
	mode_t mask = umask(0);
	umask(mask);
	fchmod(fd, 0666 & ~mask); /* mkostemp's is for its owner only */
	FILE *out = fdopen(fd, "w");
	if (!out) {
		heft_fail_errno(err, "cannot write %s", path);
		close(fd);
		unlink(beside);
	}
	return out;
}

int export_to_path(const struct exporter *x, const char *path, bool force, const struct profile *p,
		   const struct export_options *o, struct heft_error *err)
{
	char beside[PATH_MAX], target[PATH_MAX];
	struct stat st;
	struct export_options named = *o;
	if (strcmp(path, "-") == 0)
		return write_whole(stdout, x, "standard output", p, o, err);
	named.name = path;
	o = &named;
	int rc = export_path_check(x, path, force, err);
	if (rc < 0)
		return rc;
	if (stat(path, &st) == 0) {
		if (!S_ISREG(st.st_mode))
			return write_as_it_is(x, path, p, o, err);
		if (realpath(path, target)) /* a link stays one */
			path = target;
	}
	FILE *out = open_beside(path, beside, sizeof beside, err);
	if (!out)
		return err ? err->code : HEFT_EIO;
	rc = write_whole(out, x, path, p, o, err);
	if (fclose(out) != 0 && rc == 0)
		rc = heft_fail_errno(err, "cannot write %s", path);
	if (rc == 0)
		rc = move_into_place(beside, path, force, err);
	if (rc < 0)
		unlink(beside);
	return rc;
}
