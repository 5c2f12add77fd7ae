/* Fuzzes the search for an allocator that a program brings itself: lines of /proc/PID/maps, whose names the program chooses,
 * the file that is mapped, and the file with its symbols. The input is flags, the lengths of the first two (2 and 4 bytes),
 * then the three. What is said about a file are words with an end, and shorter room gives the same words, cut. */
#include "session/own_allocator.h"

#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGEST = 64 << 10, LIBRARY = 1, SEEN = 2 };

struct input {
	unsigned flags;
	const uint8_t *lines, *file, *debug;
	size_t lines_size, file_size, debug_size;
};

static void check_facts(const struct elf_facts *f)
{
	if (!memchr(f->interpreter, 0, sizeof f->interpreter) ||
	    !memchr(f->malloc_name, 0, sizeof f->malloc_name) ||
	    !memchr(f->conf_name, 0, sizeof f->conf_name) ||
	    f->build_id_bytes > sizeof f->build_id || f->own_new.count > ELF_NEW_FUNCTIONS ||
	    f->own_malloc > ELF_MALLOC_LIKELY)
		abort();
	for (uint32_t i = 0; i < f->own_new.count; i++)
		if (f->own_new.functions[i].low >= f->own_new.functions[i].high)
			abort();
}

static void say(const char *path, const struct elf_facts *facts, bool library)
{
	static const size_t sizes[] = {1, 40, 200, 500, 900, OWN_ALLOCATOR_TEXT};
	static char whole[16 << 10];
	own_allocator_words(path, facts, library, whole, sizeof whole);
	if (!memchr(whole, 0, sizeof whole) || !*whole != !facts->own_malloc)
		abort();
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		char *text = malloc(sizes[i]); /* so that one byte too far is noticed */
		if (!text)
			abort();
		own_allocator_words(path, facts, library, text, sizes[i]);
		if (!memchr(text, 0, sizes[i]) || strncmp(whole, text, strlen(text)) != 0)
			abort();
		free(text);
	}
}

static void read_lines(const struct input *in, const struct elf_facts *facts)
{
	char *line = NULL;
	size_t room = 0;
	FILE *maps = in->lines_size ? fmemopen((void *)in->lines, in->lines_size, "r") : NULL;
	while (maps && getline(&line, &room, maps) > 0) {
		struct own_allocator_mapped m;
		if (!own_allocator_line(line, &m))
			continue;
		if (m.path[0] != '/' || !memchr(m.path, 0, sizeof m.path) || strchr(m.path, '\n') ||
		    !m.inode)
			abort();
		say(m.path, facts, in->flags & LIBRARY);
	}
	free(line);
	if (maps)
		fclose(maps);
}

static void read_program(const struct input *in)
{
	const struct wire_hooked hooked = {.inode = 7};
	const struct own_allocator_seen seen = {&hooked, in->flags & SEEN ? 1 : 0};
	struct own_allocator own;
	struct elf_facts facts;
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, in->file, in->file_size) != (ssize_t)in->file_size)
		abort();
	own_allocator_of_file(fd, &facts);
	check_facts(&facts);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (!own_allocator_of_program(path, seen, &own) || !memchr(own.text, 0, sizeof own.text) ||
	    !*own.text != !own.how || own.library)
		abort();
	bool hidden = (in->flags & SEEN) && facts.own_malloc == ELF_MALLOC_NEEDED;
	if (own.how != (hidden ? ELF_MALLOC_SHARED : facts.own_malloc))
		abort();
	if (in->debug_size)
		elf_facts_add_debug(in->debug, in->debug_size, &facts);
	check_facts(&facts);
	say(path, &facts, in->flags & LIBRARY);
	read_lines(in, &facts);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { HEAD = 7 };
	uint16_t lines;
	uint32_t file;
	if (size < HEAD || size > LARGEST)
		return 0;
	struct input in = {.flags = data[0], .lines = data + HEAD};
	memcpy(&lines, data + 1, sizeof lines);
	memcpy(&file, data + 3, sizeof file);
	size -= HEAD;
	in.lines_size = lines < size ? lines : size;
	in.file = in.lines + in.lines_size;
	size -= in.lines_size;
	in.file_size = file < size ? file : size;
	in.debug = in.file + in.file_size;
	in.debug_size = size - in.file_size;
	read_program(&in);
	return 0;
}

#include "fuzz_corpus.h"
