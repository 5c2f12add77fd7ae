/* The one way in for every verb that takes a FILE. The recording stays open from the first question
 * (how long did it run?) to the last (what was live at 3 s?), so its tables are read once. */
#include "cli/input_file.h"

#include "cli/cli.h"
#include "import/import.h"
#include "record/recording_of.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

/* A number that is no file may be meant as a process: says what can be done with that. Returns rc. */
static int with_hint(const char *path, int rc, struct heft_error *err)
{
	char recording[PATH_MAX];
	struct heft_error why;
	pid_t pid;
	size_t used = strlen(err->message);
	if (rc != HEFT_EIO || err->sys_errno != ENOENT || cli_parse_pid(path, &pid) < 0 ||
	    (kill(pid, 0) && errno == ESRCH))
		return rc;
	if (recording_of(pid, recording, sizeof recording, &why) == 0)
		snprintf(err->message + used, sizeof err->message - used,
			 "\nprocess %s is recorded in %s", path, recording);
	else
		snprintf(err->message + used, sizeof err->message - used,
			 "\n'heft attach %s' records the process of that number", path);
	return rc;
}

int input_file_open(struct input_file *in, const char *path, struct heft_error *err)
{
	*in = (struct input_file){.path = path};
	return with_hint(path, profile_open_recording(&in->reader, path, err), err);
}

int input_file_load(const struct input_file *in, const struct profile_selection *sel,
		    struct profile **out, struct heft_error *err)
{
	return in->reader ? profile_from_trace(out, in->reader, sel, err)
			  : with_hint(in->path, import_profile(out, in->path, sel, err), err);
}

void input_file_close(struct input_file *in)
{
	trace_reader_close(in->reader);
	in->reader = NULL;
}

int input_file_profile(const char *path, const struct profile_selection *sel, struct profile **out,
		       struct heft_error *err)
{
	struct input_file in;
	*out = NULL;
	int rc = input_file_open(&in, path, err);
	if (rc == 0)
		rc = input_file_load(&in, sel, out, err);
	input_file_close(&in);
	return rc;
}
