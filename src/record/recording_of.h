/* Which recording a running process is being written to. */
#ifndef HEFT_RECORD_RECORDING_OF_H
#define HEFT_RECORD_RECORDING_OF_H

#include "hosted/error.h"

#include <stddef.h>
#include <sys/types.h>

/* The recording that this very process writes. HEFT_ENOTFOUND: none; HEFT_EIO: its files may not be
 * seen. (No message is made.) */
int recording_written_by(pid_t pid, char *path, size_t size);

/* The recording of the process or of its nearest ancestor that writes one: the program that is
 * recorded, a child of it, and the recorder itself all lead there. HEFT_ENOTFOUND: no such process;
 * HEFT_EREFUSED: it is not being recorded. */
int recording_of(pid_t pid, char *path, size_t size, struct heft_error *err);

#endif
