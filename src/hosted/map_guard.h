/* Files of others that are mapped here may be cut short at any time: touching what is no longer
 * there is a SIGBUS. Under the guard it reads as zeros. */
#ifndef HEFT_HOSTED_MAP_GUARD_H
#define HEFT_HOSTED_MAP_GUARD_H

#include <stdbool.h>
#include <stddef.h>

enum { MAP_GUARD_MOST = 16384 };

/* Guards a private or shared mapping until it is removed, and lets this thread receive the signal:
 * a thread that blocks SIGBUS is killed by it. False: more mappings than can be guarded. */
bool map_guard_add(void *base, size_t bytes);
void map_guard_remove(void *base);
/* For the other threads that read guarded mappings. */
void map_guard_this_thread(void);

#endif
