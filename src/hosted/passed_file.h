/* Files that another process of heft has opened for us. Their path is that of the descriptor, so that whatever reads or
 * writes recordings by path can take them. */
#ifndef HEFT_HOSTED_PASSED_FILE_H
#define HEFT_HOSTED_PASSED_FILE_H

#include <sys/types.h>

enum { PASSED_FILE_PATH = 40 };
/* The path by which passed_file_open knows this descriptor. */
void passed_file_path(int fd, char path[PASSED_FILE_PATH]);
/* open(). If the path is that of a descriptor of ours, duplicates it: Linux would open the file once more, by our own
 * rights, and we may have none. */
int passed_file_open(const char *path, int flags, mode_t mode);

#endif
