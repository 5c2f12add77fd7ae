/* Inside src/import: what the texts of jemalloc and gperftools have in common: stacks of addresses, four
 * numbers for each, and the mappings of the process after them. */
#ifndef HEFT_IMPORT_STACK_LINES_H
#define HEFT_IMPORT_STACK_LINES_H

#include "import/address_maps.h"
#include "import/import_source.h"

struct stack_counts {
	uint64_t live_blocks, live_bytes, blocks, bytes; /* the last two since the start */
};

struct stack_line {
	uint32_t node; /* in the tree */
	struct stack_counts counts;
};

struct stack_lines {
	struct profile *p;
	struct import_source *in;
	struct address_tree tree;
	struct address_maps maps;
	VECTOR(struct stack_line) lines;
	VECTOR(uint64_t) pcs; /* of the current line */
};

void stack_lines_fini(struct stack_lines *l);
/* The next line that is not empty; *at is behind its blanks. 1, 0 at "MAPPED_LIBRARIES:", or a negative code:
 * also at the end of the file, because then it was cut. */
int stack_lines_next(struct stack_lines *l, char **line, const char **at);
/* "n: b [N: B]"; false: it is not that. */
bool stack_lines_counts(const char **at, struct stack_counts *counts);
/* " 0x1 0x2 ..." innermost first, to the end of the line: return addresses. Unless `all`, the first
 * one is where the program was. */
int stack_lines_addresses(struct stack_lines *l, const char *line, const char *at, bool all,
			  uint32_t *node);
int stack_lines_add(struct stack_lines *l, uint32_t node, const struct stack_counts *counts);
/* Reads the lines after "MAPPED_LIBRARIES:" to the end of the file. */
int stack_lines_maps(struct stack_lines *l);
/* Symbolises, makes the sites, finishes the profile. */
int stack_lines_finish(struct stack_lines *l);

#endif
