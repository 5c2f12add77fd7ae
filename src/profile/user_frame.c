/* The table behind "first user frame". A report that says "std::string::_M_create
 * allocates 80 %" helps nobody: people look for the innermost line they can
 * change. The table is deliberately short; it names what is under every program,
 * not libraries that one could choose not to use.
 *
 * Functions are matched by prefix after demangling, so Rust's "<alloc::vec::Vec<T>
 * as ..." needs its own line beside "alloc::". */
#include "profile/user_frame.h"

#include <stddef.h>
#include <string.h>

/* What must follow the prefix: ".so", "-" (libc-2.31.so) or a version. */
static const char *const runtime_modules[] = {
	"libc.so",     "libc-",       "ld-linux",    "libpthread", "libm.so",    "libdl.so",
	"librt.so",    "libstdc++",   "libc++",      "libgcc_s",   "libsupc++",  "libheft-",
	"libjemalloc", "libmimalloc", "libtcmalloc", "libasan.so", "libtsan.so", "libubsan.so",
	"ld.so",       "libstd-",     "ld-musl",     "libc.musl",  "[vdso]",     "[heft]",
};

static const char *const runtime_functions[] = {
	"operator new",  "operator delete", "std::",         "__gnu_cxx::",    "__cxxabiv1::",
	"__cxa_",        "alloc::",         "core::",        "<alloc::",       "<core::",
	"<std::",        "hashbrown::",     "<hashbrown::",  "__rust_",        "__rdl_",
	"__rg_",         "__rustc",         "__libc_",       "_dl_",           "dl_main",
	"<T as alloc::", "<T as core::",    "<&T as core::", "__interceptor_", "_start",
};

static const char *const runtime_files[] = {
	"/usr/include/c++/", "/usr/lib/gcc/", "/rustc/", "/usr/lib/rustlib/", "/usr/src/rustc",
};

static bool starts_with_one(const char *text, const char *const *prefixes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

bool user_frame_module_is_runtime(const char *path)
{
	const char *slash = strrchr(path, '/');
	return starts_with_one(slash ? slash + 1 : path, runtime_modules, COUNT(runtime_modules));
}

bool user_frame_is_runtime(const char *function, const char *file)
{
	if (function && starts_with_one(function, runtime_functions, COUNT(runtime_functions)))
		return true;
	return file && starts_with_one(file, runtime_files, COUNT(runtime_files));
}
