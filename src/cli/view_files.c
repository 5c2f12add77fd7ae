/* Loads files for the page through the importers, which src/pages does not know. Stacks that differ only in
 * their labels become one, because the page does not show labels. */
#include "cli/view_files.h"

#include "cli/cli.h"
#include "import/import.h"

static int import_file(void *ctx, const char *path, const struct profile_selection *sel,
		       struct profile **out, struct heft_error *err)
{
	(void)ctx;
	int rc = import_profile(out, path, sel, err);
	if (rc == 0)
		profile_drop_labels(*out);
	return rc;
}

static int apply_rules(void *ctx, struct profile *p, struct heft_error *err)
{
	(void)ctx;
	return cli_apply_frame_rules(p, NULL, err);
}

const struct view_loader cli_view_loader = {NULL, import_file, apply_rules};
