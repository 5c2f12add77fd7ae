/* Whether code elsewhere in a running program jumps into the bytes that are to be displaced. */
#ifndef HEFT_ATTACH_TARGET_BRANCHES_H
#define HEFT_ATTACH_TARGET_BRANCHES_H

#include "attach/relocate.h"
#include "attach/target_modules.h"

/* Sets `from` of each range that other code of its module leads into. Looks through all code of each module that has a
 * range; some 2 ns a byte, while the program runs. */
int target_branches_find(const struct target_modules *m, struct branch_range *ranges, size_t count,
			 struct heft_error *err);

#endif
