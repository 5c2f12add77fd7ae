/* The session directory: where profiled processes leave their files. */
#ifndef HEFT_RECORD_SESSION_DIR_H
#define HEFT_RECORD_SESSION_DIR_H

#include "hosted/error.h"

#include <stdbool.h>

struct session_dir {
	char path[256];
	int fd;
	int inotify; /* readable when a file has been made */
};

/* Makes one, on a memory file system with room for some processes. */
int session_dir_make(struct session_dir *d, struct heft_error *err);
/* Removes it and what is left in it. */
void session_dir_remove(struct session_dir *d);

#endif
