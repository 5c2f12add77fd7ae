/* The blob's hooks of functions that execute programs: blob_exec.c. */
#ifndef HEFT_CAPTURE_BLOB_EXEC_H
#define HEFT_CAPTURE_BLOB_EXEC_H

#include "capture/inside.h"

struct wire_blob_entry;
HIDDEN int heft_blob_execve(const char *path, char *const *argv, char *const *env, long unused,
			    long unused_too, const struct wire_blob_entry *entry);
HIDDEN int heft_blob_execveat(long folder, const char *path, char *const *argv, char *const *env,
			      long flags, const struct wire_blob_entry *entry);
HIDDEN int heft_blob_fexecve(long fd, char *const *argv, char *const *env, long unused,
			     long unused_too, const struct wire_blob_entry *entry);

#endif
