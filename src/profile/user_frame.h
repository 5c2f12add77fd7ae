/* Which frames are the user's own, and which belong to the machinery under every program. */
#ifndef HEFT_PROFILE_USER_FRAME_H
#define HEFT_PROFILE_USER_FRAME_H

#include <stdbool.h>

/* libc, the dynamic linker, an allocator, a C++ or Rust runtime library, heft itself. */
bool user_frame_module_is_runtime(const char *path);
/* Runtime code that is compiled into the program (templates, Rust's std, operator new), and
 * well-known wrappers around malloc. */
bool user_frame_is_runtime(const char *function, const char *file);

#endif
