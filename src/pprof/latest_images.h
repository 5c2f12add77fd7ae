/* Inside src/pprof: several images of a process have one pid (after an exec, or when a pid is used again). A pid means
 * the latest of them: this says which ones are not meant. */
#ifndef HEFT_PPROF_LATEST_IMAGES_H
#define HEFT_PPROF_LATEST_IMAGES_H

#include "pprof/source.h"

/* Whether the later one of two images of a pid is meant in place of the earlier one. What another user's session file
 * claims to be comes after a process that runs, or was there first. */
static inline bool latest_image_is(bool later_runs, uint32_t later_uid, bool earlier_runs,
				   uint32_t earlier_uid)
{
	return later_uid == earlier_uid ? later_runs >= earlier_runs : later_runs > earlier_runs;
}

/* For each of them, in order of their start: whether another one with the same pid is meant in its place; by_program:
 * with the same pid and program. The caller's to free(). NULL: no memory. */
bool *latest_images_replaced(const struct source_process *list, uint32_t count, bool by_program);

#endif
