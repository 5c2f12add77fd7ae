/* Files that people keep: read whole, and replaced whole. */
#ifndef HEFT_HOSTED_TEXT_FILE_H
#define HEFT_HOSTED_TEXT_FILE_H

#include "hosted/error.h"

#include <stddef.h>

/* Reads a file of at most `most` bytes; `what` names what it should be ("a budget"). *text is for free(). HEFT_ENOTFOUND: it
 * is not there. */
int text_file_read(const char *path, const char *what, size_t most, char **text, size_t *size,
		   struct heft_error *err);
/* Writes beside and renames: whatever happens, the file is the old or the new one, whole. What is no file (a pipe, a
 * terminal) is written to. */
int text_file_replace(const char *path, const char *text, size_t size, struct heft_error *err);

#endif
