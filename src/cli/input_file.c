/* The one way in for every verb that takes a FILE. The recording stays open from the first question
 * (how long did it run?) to the last (what was live at 3 s?), so its tables are read once. */
#include "cli/input_file.h"

#include "import/import.h"

int input_file_open(struct input_file *in, const char *path, struct heft_error *err)
{
	*in = (struct input_file){.path = path};
	return profile_open_recording(&in->reader, path, err);
}

int input_file_load(const struct input_file *in, const struct profile_selection *sel,
		    struct profile **out, struct heft_error *err)
{
	return in->reader ? profile_from_trace(out, in->reader, sel, err)
			  : import_profile(out, in->path, sel, err);
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
