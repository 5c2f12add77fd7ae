/* The files of a process that sees others than we do: it is in a container, or a chroot. */
#ifndef HEFT_SESSION_PROCESS_ROOT_H
#define HEFT_SESSION_PROCESS_ROOT_H

#include <stdbool.h>
#include <sys/types.h>

/* Whether the process and we have the same of these: "ns/mnt", "ns/user", "root/.". False if that cannot be seen. */
bool process_shares(pid_t pid, const char *what);
/* Its root as a descriptor, which outlives the process. -1: it sees what we see, or it is gone. */
int process_root_open(pid_t pid);
/* Opens a file there for reading, without waiting. Links lead where they lead the process, never out of its root.
 * -1: there is none. */
int process_root_file(int root, const char *path);

#endif
