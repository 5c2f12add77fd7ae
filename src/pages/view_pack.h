/* gzip in memory, for answers and one-file reports. */
#ifndef HEFT_PAGES_VIEW_PACK_H
#define HEFT_PAGES_VIEW_PACK_H

#include <stddef.h>

/* level 1 (quick) to 9 (small). *packed is the caller's to free(). 0 or HEFT_ENOMEM. */
int view_pack(const void *data, size_t bytes, int level, char **packed, size_t *packed_bytes);
/* What is packed is ours, and its size is known. */
int view_unpack(const void *packed, size_t packed_bytes, char *data, size_t bytes);
/* base64 of it, with a NUL at its end; NULL: no memory. */
char *view_base64(const void *data, size_t bytes, size_t *length);

#endif
