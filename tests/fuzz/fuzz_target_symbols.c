/* Fuzzes looking functions of a module up by name: in its file, in a file with its symbols, and in memory. The input is flags,
 * the length of the file (4 bytes), the file, and the other one, to which .gnu_debuglink can lead by the name "701". The
 * memory of the process is the file as well, so that headers are the same. What comes back is code of the module. */
#include "attach/target_modules.h"
#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGEST = 128 << 10, FILE_FD = 700, DEBUG_FD = 701, NO_FILE = 1 };

static const char *const names[] = {"malloc", "free",  "calloc",        "realloc", "f",
				    "_Znwm",  "xfree", "aligned_alloc", "a",       "je_malloc"};
enum { NAMES = sizeof names / sizeof *names };

/* The same number each time: paths name it. */
static void open_memory(int fd, const uint8_t *bytes, size_t size)
{
	int made = memfd_create("fuzz", MFD_CLOEXEC);
	if (made < 0 || write(made, bytes, size) != (ssize_t)size || dup2(made, fd) != fd)
		abort();
	close(made);
}

static bool read_memory(void *context, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(context, at, to, bytes);
}

static void check(const struct target_image *im, const struct target_function *f)
{
	if (f->refused && (f->address || f->bytes || f->room || f->exported))
		abort();
	if (f->refused || !f->room)
		return;
	const struct target_segment *code = target_image_code(im, f->address - im->bias);
	if (!code || f->room < f->bytes ||
	    f->room > code->bytes - (f->address - im->bias - code->address))
		abort();
}

static void look_up(const struct target_modules *m)
{
	struct target_function functions[NAMES];
	struct heft_error err;
	char prefix[32];
	uint64_t address, bytes;
	bool fine = target_functions(m, 0, names, functions, NAMES, &err) == 0;
	for (size_t i = 0; i < NAMES; i++) {
		const struct target_function *f = &functions[i];
		check(&m->items[0].image, f);
		int rc = target_symbol(m, 0, names[i], &address, &bytes, &err);
		if ((rc == 0) != (fine && f->address) || address != f->address ||
		    bytes != (f->address ? f->bytes : 0))
			abort();
		target_may_export(m, 0, names[i]);
	}
	if (target_prefix(m, 0, "alloc", prefix, sizeof prefix) &&
	    (!*prefix || strlen(prefix) >= sizeof prefix))
		abort();
	if (!target_is_stripped(m, 0) && !target_has_symbols(m, 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { HEAD = 5 };
	uint32_t bytes;
	if (size < HEAD || size > LARGEST)
		return 0;
	memcpy(&bytes, data + 1, sizeof bytes);
	bytes = bytes && bytes < size - HEAD ? bytes : (uint32_t)(size - HEAD);
	open_memory(FILE_FD, data + HEAD, bytes);
	open_memory(DEBUG_FD, data + HEAD + bytes, size - HEAD - bytes);
	char name[] = "/proc/self/fd/700", none[] = "/proc/self/fd/702";
	struct target_mapping mapping = {
		.end = (uint64_t)bytes + 4096,
		.name = data[0] & NO_FILE ? none : name,
		.inode = 1,
	};
	static struct target_module module;
	struct target_modules m = {.items = &module,
				   .count = 1,
				   .maps = {.items = &mapping, .count = 1},
				   .pid = getpid(),
				   .memory_fd = FILE_FD};
	const struct target_memory memory = {read_memory, &m};
	module = (struct target_module){.path = mapping.name};
	if (target_image_read(&module.image, &memory, 0))
		look_up(&m);
	close(FILE_FD);
	close(DEBUG_FD);
	return 0;
}

#include "fuzz_corpus.h"
