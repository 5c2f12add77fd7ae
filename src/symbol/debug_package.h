/* Which package has a module's debug information. */
#ifndef HEFT_SYMBOL_DEBUG_PACKAGE_H
#define HEFT_SYMBOL_DEBUG_PACKAGE_H

#include <stdbool.h>
#include <stddef.h>

/* Debian's name for the package with the debug information of an installed file; false: not known for
 * sure (another system, a file of no package or of several). */
bool debug_package_name(const char *path, char *name, size_t size);
/* The same for any file, with dpkg's folder given. */
bool debug_package_name_in(const char *dpkg, const char *path, char *name, size_t size);
/* Whether the file is part of the system, rather than something built here. */
bool debug_package_is_system(const char *path);

#endif
