/* Whether code elsewhere in a running program jumps into the bytes that are to be displaced. */
#ifndef HEFT_ATTACH_TARGET_BRANCHES_H
#define HEFT_ATTACH_TARGET_BRANCHES_H

#include "attach/near_page.h"
#include "attach/target_modules.h"

/* Looks through the code of each module that has a function of the page; some 2 ns a byte, while the program runs.
 * HEFT_EREFUSED: such a jump was found; the message says where. */
int target_branches_check(const struct target_modules *m, const struct near_page *page,
			  struct heft_error *err);

#endif
