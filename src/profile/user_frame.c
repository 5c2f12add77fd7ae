/* The table behind "first user frame". A report that says "std::string::_M_create
 * allocates 80 %" helps nobody: people look for the innermost line they can
 * change. The table is deliberately short; it names what is under every program,
 * not libraries that one could choose not to use.
 *
 * Prefixes are matched after demangling, so Rust's "<alloc::vec::Vec<T>
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

/* Thin wrappers that programs bring along around malloc: whole names. */
static const char *const allocator_wrappers[] = {
	"xmalloc",
	"xcalloc",
	"xrealloc",
	"xzalloc",
	"xstrdup",
	"xstrndup",
	"xmemdup",
	"xnmalloc",
	"xnrealloc",
	"x2realloc",
	"x2nrealloc",
	"xreallocarray",
	"ximalloc",
	"xmalloc_failed",
	"zmalloc",
	"zcalloc",
	"zrealloc",
	"ztrymalloc_usable",
	"zmalloc_usable",
	"g_malloc",
	"g_malloc0",
	"g_malloc_n",
	"g_malloc0_n",
	"g_realloc",
	"g_realloc_n",
	"g_try_malloc",
	"g_try_malloc0",
	"g_slice_alloc",
	"g_slice_alloc0",
	"g_strdup",
	"Perl_safesysmalloc",
	"Perl_safesyscalloc",
	"Perl_safesysrealloc",
	"_PyMem_RawMalloc",
	"_PyMem_RawCalloc",
	"_PyMem_RawRealloc",
	"PyMem_RawMalloc",
	"PyMem_Malloc",
	"PyMem_Calloc",
	"PyMem_Realloc",
	"PyObject_Malloc",
	"PyObject_Calloc",
	"PyObject_Realloc",
	"sqlite3MemMalloc",
	"sqlite3MemRealloc",
	"sqlite3Malloc",
	"sqlite3Realloc",
	"sqlite3_malloc",
	"sqlite3_malloc64",
	"CRYPTO_malloc",
	"CRYPTO_zalloc",
	"CRYPTO_realloc",
	"av_malloc",
	"av_mallocz",
	"av_realloc",
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

static bool is_one_of(const char *text, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(text, names[i]) == 0)
			return true;
	return false;
}

bool user_frame_is_runtime(const char *function, const char *file)
{
	if (function && is_one_of(function, allocator_wrappers, COUNT(allocator_wrappers)))
		return true;
	if (function && starts_with_one(function, runtime_functions, COUNT(runtime_functions)))
		return true;
	return file && starts_with_one(file, runtime_files, COUNT(runtime_files));
}
