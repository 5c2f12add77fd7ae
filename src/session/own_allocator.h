/* Allocators that a program has beside malloc, in its executable or in a library of its own: found
 * in the files that it has mapped, and said in words. */
#ifndef HEFT_SESSION_OWN_ALLOCATOR_H
#define HEFT_SESSION_OWN_ALLOCATOR_H

#include "session/elf_facts.h"
#include "wire/session.h"

#include <stdbool.h>
#include <sys/types.h>

enum { OWN_ALLOCATOR_TEXT = 1400 };

/* Facts of an executable or library: its symbols, or those of the file where they are kept apart
 * (by build id). Other files give ELF_NOT_ELF. */
void own_allocator_of_file(int fd, struct elf_facts *facts);

/* What it is and what to do, one sentence a line; "" if it has none. */
void own_allocator_words(const char *path, const struct elf_facts *facts, bool library, char *text,
			 size_t size);

struct own_allocator {
	enum elf_own_malloc how; /* ELF_MALLOC_SHARED: none was found */
	bool library;            /* not the executable: other parts of the program may use malloc */
	struct elf_own_new own_new; /* of the executable */
	char text[OWN_ALLOCATOR_TEXT];
};

/* The files whose allocators heft sees although they are not behind its malloc: hooked by heft attach. */
struct own_allocator_seen {
	const struct wire_hooked *files;
	uint32_t count;
};

/* Looks at what a running process has mapped now. Files are looked at once, whoever has them mapped.
 * False: there is no such process any more, or it may not be looked at. */
bool own_allocator_of_process(pid_t pid, struct own_allocator_seen seen, struct own_allocator *out);
/* The same from the executable alone, for a process that is no longer there. */
bool own_allocator_of_program(const char *path, struct own_allocator_seen seen,
			      struct own_allocator *out);

/* A file that is mapped as code */
struct own_allocator_mapped {
	dev_t device;
	ino_t inode;
	char path[4096];
};
/* Of a line of /proc/PID/maps, which is changed. False: it is of no such file. */
bool own_allocator_line(char *line, struct own_allocator_mapped *m);

#endif
