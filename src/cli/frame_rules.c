/* Which rules for frames hold: the built-in ones, then the user's file, then the one named on the
 * command line, so that each can un-fold what those before it fold. The user's file is
 * $XDG_CONFIG_HOME/heft/frames or ~/.config/heft/frames, and need not be there for us (HOME is often
 * still another user's after a change of user); one that was named must. */
#include "cli/cli.h"

#include "profile/user_frame.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Where the user's file is; false: nowhere. */
static bool user_file(char *path, size_t size)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = -1;
	/* A relative one is to be ignored, says the XDG specification. */
	if (config && config[0] == '/')
		n = snprintf(path, size, "%s/heft/frames", config);
	else if (home && home[0] == '/')
		n = snprintf(path, size, "%s/.config/heft/frames", home);
	return n > 0 && (size_t)n < size;
}

int cli_apply_frame_rules(struct profile *p, const char *file, struct heft_error *err)
{
	char path[PATH_MAX];
	struct frame_rules *rules;
	int rc = frame_rules_new(&rules);
	if (rc < 0)
		return heft_fail(err, rc, "not enough memory for the rules for frames");
	if (user_file(path, sizeof path)) {
		rc = frame_rules_add_file(rules, path, err);
		if (rc == HEFT_ENOTFOUND || (rc == HEFT_EIO && err->sys_errno == EACCES)) {
			*err = (struct heft_error){0};
			rc = 0;
		}
	}
	if (rc == 0 && file)
		rc = frame_rules_add_file(rules, file, err);
	if (rc == 0)
		frame_rules_apply(rules, p);
	frame_rules_free(rules);
	return rc;
}
