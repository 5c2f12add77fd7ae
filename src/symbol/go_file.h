/* Whether a file was built by Go. */
#ifndef HEFT_SYMBOL_GO_FILE_H
#define HEFT_SYMBOL_GO_FILE_H

#include <stdbool.h>

/* Go's linker leaves a section with the versions of its modules, also in a stripped file. False: there is none,
 * or the file cannot be read. */
bool go_file_is(const char *path);

#endif
