/* Rules for frames come from three places: heft itself, the user's file, and the file named on the command
 * line. Later rules win. The user's file is $XDG_CONFIG_HOME/heft/frames or ~/.config/heft/frames. It need
 * not exist or be readable (after a change of user, HOME is often another user's); a file that was named
 * must be. */
#include "cli/cli.h"

#include "profile/user_frame.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The path of the user's file; false: the environment names none. */
static bool user_file(char *path, size_t size)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	int n = -1;
	/* The XDG specification says to ignore a relative path. */
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
