/* Allocators that programs and libraries link in, told by the names of their functions and by the
 * words that a copy of them carries. */
#ifndef HEFT_SESSION_ALLOCATOR_NAMES_H
#define HEFT_SESSION_ALLOCATOR_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one symbol gives away. */
enum allocator_part {
	ALLOCATOR_TAKES = 1, /* a function that allocates */
	ALLOCATOR_GIVES = 2, /* one that frees */
	ALLOCATOR_DUMPS = 4, /* it can write a heap profile itself */
	ALLOCATOR_MARK = 8,  /* a name that nobody else has */
};

/* What is known of one file after all its symbols were seen. */
struct allocator_names {
	const char *allocator; /* NULL: none */
	char entry[48];        /* the function that shows it, as the file has it */
	bool dumps;
	/* by allocator, while symbols are seen */
	struct allocator_seen {
		unsigned parts, rank; /* rank: how good `entry` is; 0: there is none */
		char entry[48];
	} seen[16];
};

/* A function of that name is defined (or, for a call of a shared library's, needed). */
void allocator_names_see(struct allocator_names *n, const char *name, size_t length);
/* After the last one. called: these are functions of others that the file calls, and asking a shared
 * allocator for its numbers is no allocation. */
void allocator_names_end(struct allocator_names *n, bool called);

/* The allocator whose words are in these bytes, and whether it can write heap profiles; NULL: none. */
const char *allocator_by_words(const uint8_t *data, size_t size, bool *dumps);
/* jemalloc reads options from a variable whose name has its prefix: the one in these bytes, as
 * "_RJEM_MALLOC_CONF"; false: none. */
bool allocator_conf_name(const uint8_t *data, size_t size, char *name, size_t name_size);

#endif
