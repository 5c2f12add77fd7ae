/* Whose session file this is: the process that has it mapped. */
#ifndef HEFT_RECORD_OWNER_H
#define HEFT_RECORD_OWNER_H

#include "hosted/error.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The pid, as seen from here, of the process that has the file mapped: `likely`, or, if that one has
 * not (in a container the process knows itself by another number), whoever has. 0: nobody. */
pid_t owner_of_file(const struct stat *file, pid_t likely);
/* The session file that a process has mapped. HEFT_ENOTFOUND: none, or it is not ours to see. */
int owner_file(pid_t pid, char *path, size_t size, struct heft_error *err);
/* How a process that is not our child ended, from its pidfd, as from waitpid. false: not known (before
 * Linux 6.15, or its parent has not asked yet). */
bool owner_exit_status(int pidfd, int *status);

#endif
