/* Which file the recording of a running program is being written to. */
#ifndef HEFT_RECORD_RECORDING_OF_H
#define HEFT_RECORD_RECORDING_OF_H

#include "hosted/error.h"

#include <stddef.h>
#include <stdint.h>

/* The recorder is the nearest ancestor of the process that has a recording open for writing.
 * HEFT_ENOTFOUND: no such process, or nobody records it. */
int recording_of_process(int32_t pid, char *path, size_t size, struct heft_error *err);

#endif
