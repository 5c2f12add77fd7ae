/* The name of a file that a command's numbers go to. */
#ifndef HEFT_RECORD_OUTPUT_NAME_H
#define HEFT_RECORD_OUTPUT_NAME_H

#include <stddef.h>
#include <sys/types.h>

/* %e: the executable's file name, %p: its pid, %t: the time, %%: %. */
void output_name(const char *pattern, const char *exe, pid_t pid, char *out, size_t size);

#endif
