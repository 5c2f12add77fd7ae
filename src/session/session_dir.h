/* The session directory: where profiled processes leave their files. */
#ifndef HEFT_SESSION_SESSION_DIR_H
#define HEFT_SESSION_SESSION_DIR_H

#include "hosted/error.h"

#include <stdbool.h>
#include <stdint.h>

struct session_dir {
	char path[256];
	int fd;
	bool hidden;  /* it is inside another one of ours, which nobody else can list */
	bool on_disk; /* not on a memory file system: every process takes longer to begin and end */
	int64_t changed_ns; /* the directory's own time when it was last looked through */
};

/* Makes one, on a memory file system with room for some processes. */
int session_dir_make(struct session_dir *d, struct heft_error *err);
/* Whether files may have come since the last call that said so. (inotify would tell at once, but
 * giving it up costs 20 ms at the end of every run.) */
bool session_dir_changed(struct session_dir *d);
/* Keeps a few files ready for processes that cannot make one (wire/session.h). */
void session_dir_spares(const struct session_dir *d);
/* Session files are called PID.STAMP, both in hex. False: this is no such name. */
bool session_file_name(const char *name, int32_t *pid, uint64_t *start_tsc);
/* Removes that file. */
void session_dir_drop(const struct session_dir *d, int32_t pid, uint64_t start_tsc);
/* Removes it and what is left in it. */
void session_dir_remove(struct session_dir *d);

/* Raises our limit of open files as far as it goes: a process has two or three of them. */
void session_allow_files(void);

#endif
