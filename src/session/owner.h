/* Whose session file this is: the process that has it mapped. */
#ifndef HEFT_SESSION_OWNER_H
#define HEFT_SESSION_OWNER_H

#include "hosted/error.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The pid, as seen from here, of the process that has the file mapped: `likely`, or, if that one has
 * not (in a container the process knows itself by another number), whoever has. 0: nobody. */
pid_t owner_of_file(const struct stat *file, pid_t likely);
/* The pid, as seen from here, of the process in another pid namespace that has the file mapped and knows itself by the
 * number `named`; 0: none. Those of the file's user are looked at first: others may have made many of that number. */
pid_t owner_in_namespace(const struct stat *file, pid_t named);
/* Whether this process, which is not ours, has it mapped. */
bool owner_has_mapped(pid_t pid, const struct stat *file);
/* Whether we may see what the process has mapped. */
bool owner_is_readable(pid_t pid);
/* Whether any process has the file open or mapped, one that cannot be seen from here included. Not to
 * be asked of a file that we have mapped ourselves. SIGIO must be blocked or ignored. */
enum owner_use { OWNER_IN_USE, OWNER_NOT_IN_USE, OWNER_USE_UNKNOWN };
enum owner_use owner_file_use(int dirfd, const char *name);
/* Another process than `pid` and us that has it mapped, which then serves it; 0: none, or not ours to see. */
pid_t owner_reader_of_file(const struct stat *file, pid_t pid);
/* The session file that a process has mapped, by a path that can be opened from here. HEFT_ENOTFOUND:
 * none. HEFT_EREFUSED: it is recorded exactly, or not ours to see. The message says what to do. */
int owner_file(pid_t pid, char *path, size_t size, struct heft_error *err);
/* The folder of such a path, as a descriptor (O_PATH): below the process's root, links lead as they lead the
 * process. -1: there is none. */
int owner_open_folder(pid_t pid, const char *path);
/* Whether the process has mapped the very file that we have mapped at this address. A path alone proves
 * nothing. */
bool owner_maps_same(pid_t pid, const void *ours);
/* How a process that is not our child ended, from its pidfd, as from waitpid. false: not known (before
 * Linux 6.15, or its parent has not asked yet and it is not ours to see). */
bool owner_exit_status(int pidfd, pid_t pid, int *status);

#endif
