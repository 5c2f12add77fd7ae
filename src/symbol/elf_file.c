/* Opens the files that names come from: modules, debug files, .dwo, .dwp, dwz. Whoever can be profiled
 * can name any path and change what is there, so:
 *
 *  - only regular files are opened, and opening never waits (FIFO, file under a lease). To open a device
 *    may do something (a watchdog begins to count), so what it is is known before;
 *  - the file is mapped, not read: debug files of gigabytes are common and a lookup touches little of
 *    them (opening one with 1 GB of strings took 0.5 s and 980 MB when it was read, and 0.1 ms and
 *    2 MB mapped). It is mapped privately, under the guard: what is cut meanwhile reads as zeros;
 *  - libelf gets the bytes, not the descriptor, so libdw cannot open other files that this one names;
 *  - sections that are packed too well are hidden before libelf or libdw can unpack them. Both
 *    unpack to the size that the section claims, and no further.
 *
 * Invariant: nothing is read from the file before its mapping is guarded. */
#include "symbol/elf_file.h"

#include "hosted/map_guard.h"
#include "symbol/symbol.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int (*open_for_us)(const char *path);
static int (*open_elsewhere)(const char *path);

void symbol_files_from(int (*open_file)(const char *path))
{
	open_for_us = open_file;
}

void symbol_files_elsewhere(int (*open_file)(const char *path))
{
	open_elsewhere = open_file;
}

/* Opens the file that the path leads to if it is a regular one. -1: errno says why. */
static int open_here(const char *path)
{
	struct stat st;
	char found[32];
	int file = open(path, O_PATH | O_CLOEXEC), fd = -1;
	if (file < 0)
		return -1;
	snprintf(found, sizeof found, "/proc/self/fd/%d", file);
	if (fstat(file, &st) == 0 && !S_ISREG(st.st_mode))
		errno = EINVAL;
	else
		fd = open(found, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT) /* /proc is not there */
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int error = errno;
	close(file);
	errno = error;
	return fd;
}

int elf_file_open_regular(const char *path)
{
	struct stat st;
	int fd = open_elsewhere ? open_elsewhere(path) : -1;
	if (fd < 0)
		fd = open_here(path);
	if (fd < 0 && open_for_us && (errno == EACCES || errno == ENOENT))
		fd = open_for_us(path);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -1;
}

void elf_file_hide(Elf_Scn *scn)
{
	GElf_Shdr shdr;
	/* The headers are in a private mapping, or in memory of ours. */
	if (!gelf_getshdr(scn, &shdr))
		return;
	shdr.sh_type = SHT_NOBITS;
	gelf_update_shdr(scn, &shdr);
}

/* What a packed section says that it becomes; false: it is not packed. */
static bool unpacked_bytes(Elf_Scn *scn, const GElf_Shdr *shdr, const char *name, uint64_t *bytes)
{
	GElf_Chdr chdr;
	bool old = name && strncmp(name, ".z", 2) == 0; /* older: named .zdebug_..., "ZLIB", size */
	if (shdr->sh_flags & SHF_COMPRESSED) {
		*bytes = UINT64_MAX; /* packed twice, or damaged */
		if (!old && gelf_getchdr(scn, &chdr))
			*bytes = chdr.ch_size;
		return true;
	}
	Elf_Data *data = old ? elf_rawdata(scn, NULL) : NULL;
	const uint8_t *head = data ? data->d_buf : NULL;
	if (!head || data->d_size < 12 || memcmp(head, "ZLIB", 4) != 0)
		return false;
	*bytes = 0;
	for (int i = 4; i < 12; i++)
		*bytes = *bytes << 8 | head[i];
	return true;
}

static void refuse_bombs(struct elf_file *f)
{
	size_t strings;
	uint64_t packed = 0, unpacked = 0;
	if (elf_getshdrstrndx(f->elf, &strings) != 0)
		return;
	for (Elf_Scn *scn = NULL; (scn = elf_nextscn(f->elf, scn));) {
		GElf_Shdr shdr;
		uint64_t bytes;
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type == SHT_NOBITS ||
		    !unpacked_bytes(scn, &shdr, elf_strptr(f->elf, strings, shdr.sh_name), &bytes))
			continue;
		/* Sections may lie over each other: together they take no more than the file. */
		packed += shdr.sh_size < f->size ? shdr.sh_size : f->size;
		if (packed > f->size)
			packed = f->size;
		uint64_t most = ELF_FILE_UNPACKED_FREE + ELF_FILE_UNPACKED_RATIO * packed;
		if (most > ELF_FILE_UNPACKED_MOST)
			most = ELF_FILE_UNPACKED_MOST;
		if (bytes <= most - unpacked) {
			unpacked += bytes;
			continue;
		}
		elf_file_hide(scn);
		if (bytes > UINT64_MAX - f->refused_bytes)
			bytes = UINT64_MAX - f->refused_bytes;
		f->refused_bytes += bytes;
	}
}

enum elf_file_state elf_file_open(struct elf_file *f, const char *path)
{
	memset(f, 0, sizeof *f);
	elf_version(EV_CURRENT);
	f->fd = elf_file_open_regular(path);
	if (f->fd < 0)
		return ELF_FILE_MISSING;
	f->opened = true;
	if (fstat(f->fd, &f->st) || f->st.st_size <= 0 || (uint64_t)f->st.st_size > SIZE_MAX / 2)
		goto not_elf;
	f->size = (size_t)f->st.st_size;
	f->map = mmap(NULL, f->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, f->fd, 0);
	if (f->map == MAP_FAILED)
		f->map = NULL;
	if (!f->map || !map_guard_add(f->map, f->size))
		goto not_elf;
	f->elf = elf_memory(f->map, f->size);
	if (!f->elf || elf_kind(f->elf) != ELF_K_ELF)
		goto not_elf;
	refuse_bombs(f);
	return ELF_FILE_OPEN;
not_elf:
	elf_file_close(f);
	return ELF_FILE_NOT_ELF;
}

bool elf_file_changed(const struct elf_file *f)
{
	struct stat now;
	if (!f->elf)
		return false;
	return fstat(f->fd, &now) || now.st_size != f->st.st_size ||
	       now.st_mtim.tv_sec != f->st.st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != f->st.st_mtim.tv_nsec;
}

void elf_file_close(struct elf_file *f)
{
	elf_end(f->elf);
	if (f->map) {
		map_guard_remove(f->map);
		munmap(f->map, f->size);
	}
	if (f->opened)
		close(f->fd);
	memset(f, 0, sizeof *f);
}
