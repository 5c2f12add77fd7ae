/* The model of a sampled process is made from what its session file holds, in memory: no recording is written
 * and read for it. Of a process that was saved the recording is all that is left, and somebody may have
 * removed or changed that. */
#include "agent/sampled_profile.h"

#include "agent/sampled_reading.h"

#include "hosted/passed_file.h"

#include <sys/stat.h>

static int from_saved(struct profile **out, const struct process *p,
		      const struct process_rest *rest, const struct profile_selection *sel,
		      struct heft_error *err)
{
	char path[PASSED_FILE_PATH];
	struct stat st;
	if (fstat(rest->fd, &st) || !st.st_nlink)
		return heft_fail(err, HEFT_ENOTFOUND,
				 "process %d has ended, and its recording %s is gone", p->pid,
				 rest->recording);
	passed_file_path(rest->fd, path);
	return profile_from_recording(out, path, sel, err);
}

int sampled_profile(struct profile **out, struct process *p, const struct profile_selection *sel,
		    struct heft_error *err)
{
	struct sampled_known known;
	struct sampled_reading r;
	const struct process_rest *rest = atomic_load(&p->samples.rest);
	if (rest)
		return from_saved(out, p, rest, sel, err);
	if (sampled_known_of(p, &known))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	int rc = sampled_read(&r, p->view.fd, &known, err);
	if (!rc) {
		rc = profile_from_samples(out, &r.contents, sel, err);
		sampled_reading_fini(&r);
	}
	sampled_known_fini(&known);
	return rc;
}
