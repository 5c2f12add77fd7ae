/* Separate debug files: where distributions put what they strip. By build id
 * under /usr/lib/debug/.build-id, then by the name in .gnu_debuglink beside the
 * module, in its .debug folder and under /usr/lib/debug.
 *
 * elfutils' own finder is not used because it ends by asking a debuginfod
 * server whenever the environment names one; nothing here goes to the network.
 *
 * Invariant: a debug file is used only if it belongs to the module: the same
 * build id or, for a module without one, the checksum of .gnu_debuglink. */
#include "symbol/symbol_sources.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define DEBUG_ROOT "/usr/lib/debug"

int debug_file_open_regular(const char *path)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -1;
}

bool debug_file_build_id_is(Elf *elf, const uint8_t *id, size_t length)
{
	const void *own = NULL;
	ssize_t own_length = dwelf_elf_gnu_build_id(elf, &own);
	if (own_length <= 0)
		return length == 0;
	return (size_t)own_length == length && memcmp(own, id, length) == 0;
}

static bool checksum_is(int fd, uint32_t expected)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || st.st_size <= 0)
		return false;
	void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;
	uLong sum = crc32_z(crc32_z(0, NULL, 0), map, (size_t)st.st_size);
	munmap(map, (size_t)st.st_size);
	return (uint32_t)sum == expected;
}

static Elf *try_path(const char *path, const uint8_t *id, size_t id_length,
		     const uint32_t *checksum, int *fd)
{
	int file = debug_file_open_regular(path);
	if (file < 0)
		return NULL;
	Elf *elf = elf_begin(file, ELF_C_READ_MMAP, NULL);
	if (elf && elf_kind(elf) == ELF_K_ELF) {
		bool ours = id_length ? debug_file_build_id_is(elf, id, id_length)
				      : checksum && checksum_is(file, *checksum);
		if (ours) {
			*fd = file;
			return elf;
		}
	}
	elf_end(elf);
	close(file);
	return NULL;
}

Elf *debug_file_find(Elf *stripped, const char *path, int *fd)
{
	char name[PATH_MAX];
	const void *id = NULL;
	ssize_t id_length = dwelf_elf_gnu_build_id(stripped, &id);
	size_t length = id_length > 0 ? (size_t)id_length : 0;
	if (length >= 2 && length <= 64) {
		const uint8_t *bytes = id;
		int used = snprintf(name, sizeof name, DEBUG_ROOT "/.build-id/%02x/", bytes[0]);
		for (size_t i = 1; i < length; i++)
			used += snprintf(name + used, sizeof name - (size_t)used, "%02x", bytes[i]);
		snprintf(name + used, sizeof name - (size_t)used, ".debug");
		Elf *elf = try_path(name, id, length, NULL, fd);
		if (elf)
			return elf;
	}

	GElf_Word word = 0;
	const char *link = dwelf_elf_gnu_debuglink(stripped, &word);
	if (!link || !*link || strchr(link, '/'))
		return NULL;
	uint32_t checksum = word;
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path) : 0;
	static const char *const places[][2] = {{"", ""}, {"", "/.debug"}, {DEBUG_ROOT, ""}};
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		int n = snprintf(name, sizeof name, "%s%.*s%s/%s", places[i][0], folder, path,
				 places[i][1], link);
		if (n < 0 || (size_t)n >= sizeof name || strcmp(name, path) == 0)
			continue;
		Elf *elf = try_path(name, id, length, &checksum, fd);
		if (elf)
			return elf;
	}
	return NULL;
}
