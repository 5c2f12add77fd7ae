/* Reading and writing a number of bytes, however many calls that takes. */
#ifndef HEFT_HOSTED_WHOLE_IO_H
#define HEFT_HOSTED_WHOLE_IO_H

#include <stdbool.h>
#include <stddef.h>

/* Returns how many bytes were read: fewer than `size` at the end of the file, or after an error. */
size_t read_whole(int fd, void *to, size_t size);
/* False: not everything could be written, and errno says why. */
bool write_whole(int fd, const void *bytes, size_t size);

#endif
