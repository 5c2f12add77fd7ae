/* The loader's own list of modules in a running process (struct r_debug), and the auxiliary vector. */
#ifndef HEFT_ATTACH_TARGET_LINKS_H
#define HEFT_ATTACH_TARGET_LINKS_H

#include "attach/target_modules.h"

/* The number of the executable's module; -1: it is not known. */
ssize_t target_program(const struct target_modules *m);
/* Where the loader's struct r_debug is, as the program's DT_DEBUG says; 0: there is none (yet). */
uint64_t target_debug(const struct target_modules *m);
/* An entry of the auxiliary vector (AT_ENTRY, say); 0: it has none. */
uint64_t target_auxiliary(pid_t pid, uint64_t type);

#endif
