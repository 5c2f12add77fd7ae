/* Inside src/import: what jemalloc's and gperftools' text have in common: stacks of addresses, four
 * numbers for each, and the mappings of the process after them. */
#ifndef HEFT_IMPORT_STACK_LINES_H
#define HEFT_IMPORT_STACK_LINES_H

#include "import/address_maps.h"
#include "import/import_source.h"

struct stack_counts {
	uint64_t live_blocks, live_bytes, blocks, bytes; /* the latter since the start */
};

struct stack_line {
	uint32_t node; /* in the tree */
	struct stack_counts counts;
};

struct stack_lines {
	struct address_tree tree;
	struct address_maps maps;
	VECTOR(struct stack_line) lines;
	VECTOR(uint64_t) pcs; /* of the line at hand */
};

void stack_lines_fini(struct stack_lines *l);
/* "n: b [N: B]"; false: it is not that. */
bool stack_lines_counts(const char **at, struct stack_counts *counts);
/* " 0x1 0x2 ..." innermost first, to the end of the line: return addresses. Unless `all`, the first
 * one is where the program was. */
int stack_lines_addresses(struct stack_lines *l, struct import_source *in, const char *line,
			  const char *at, bool all, uint32_t *node, struct heft_error *err);
int stack_lines_add(struct stack_lines *l, uint32_t node, const struct stack_counts *counts);
/* Reads the lines after "MAPPED_LIBRARIES:" to the end of the file. */
int stack_lines_maps(struct stack_lines *l, struct profile *p, struct import_source *in,
		     struct heft_error *err);
/* Symbolises, makes the sites, finishes the profile. */
int stack_lines_finish(struct stack_lines *l, struct profile *p, const struct import_source *in);

#endif
