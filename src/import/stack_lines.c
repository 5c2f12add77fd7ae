/* Reads text profiles of addresses (stack_lines.h). The mappings come last in the file, so stacks
 * are kept as a tree of addresses until then; equal stacks share their nodes. */
#include "import/stack_lines.h"

#include "import/import_sites.h"
#include "import/text_scan.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_STACKS = 1 << 26 };

void stack_lines_fini(struct stack_lines *l)
{
	address_tree_fini(&l->tree);
	address_maps_fini(&l->maps);
	vector_free(&l->lines);
	vector_free(&l->pcs);
}

int stack_lines_next(struct stack_lines *l, char **line, const char **at)
{
	size_t length;
	int rc;
	while ((rc = import_source_line(l->in, line, &length)) == 1) {
		*at = *line;
		scan_blanks(at);
		if (**at)
			return strcmp(*at, "MAPPED_LIBRARIES:") != 0;
	}
	return rc < 0 ? rc
		      : import_expected(l->in, l->in->end, "'MAPPED_LIBRARIES:': the file was cut");
}

/* "n: b" and the blanks around it */
static bool scan_pair(const char **at, uint64_t *blocks, uint64_t *bytes)
{
	scan_blanks(at);
	if (!scan_decimal(at, blocks) || !scan_one(at, ':'))
		return false;
	scan_blanks(at);
	if (!scan_decimal(at, bytes))
		return false;
	scan_blanks(at);
	return true;
}

bool stack_lines_counts(const char **at, struct stack_counts *c)
{
	return scan_pair(at, &c->live_blocks, &c->live_bytes) && scan_one(at, '[') &&
	       scan_pair(at, &c->blocks, &c->bytes) && scan_one(at, ']');
}

int stack_lines_addresses(struct stack_lines *l, const char *line, const char *at, bool all,
			  uint32_t *node)
{
	l->pcs.count = 0;
	for (;;) {
		uint64_t pc;
		scan_blanks(&at);
		if (*at == 0 || *at == '\r')
			break;
		if (!(scan_one(&at, '0') && scan_one(&at, 'x') && scan_hex(&at, &pc)))
			return import_expected(l->in, at, "an address of a stack (0x...)");
		if (!vector_push(&l->pcs, pc))
			return HEFT_ENOMEM;
	}
	*node = PROFILE_NONE;
	for (size_t i = l->pcs.count; i-- > 0;) {
		uint64_t pc = l->pcs.items[i];
		pc -= pc && (i || all);
		int rc = address_tree_add(&l->tree, *node, pc, node);
		if (rc == HEFT_EFORMAT)
			return import_expected(l->in, line, "fewer different stacks");
		if (rc < 0)
			return rc;
	}
	return 0;
}

int stack_lines_add(struct stack_lines *l, uint32_t node, const struct stack_counts *counts)
{
	if (l->lines.count >= MAX_STACKS ||
	    !vector_push(&l->lines, (struct stack_line){node, *counts}))
		return HEFT_ENOMEM;
	return 0;
}

int stack_lines_maps(struct stack_lines *l)
{
	char *line;
	size_t length;
	int rc;
	while ((rc = import_source_line(l->in, &line, &length)) == 1) {
		rc = address_maps_add_line(&l->maps, l->p, line, length);
		if (rc == HEFT_EFORMAT)
			return import_expected(l->in, line, "fewer mappings");
		if (rc < 0)
			return rc;
	}
	return rc;
}

int stack_lines_finish(struct stack_lines *l)
{
	uint32_t *nodes = NULL, *calls = NULL;
	int rc = address_tree_load(&l->tree, &l->maps, l->p, l->in->selection, &nodes, &calls);
	for (size_t i = 0; i < l->lines.count && rc == 0; i++) {
		const struct stack_line *line = &l->lines.items[i];
		bool known = line->node != PROFILE_NONE;
		rc = import_add_stack(l->p, known ? nodes[line->node] : PROFILE_NONE,
				      known ? calls[line->node] : PROFILE_NONE,
				      &(struct import_measures){
					      .live_blocks = line->counts.live_blocks,
					      .live_bytes = line->counts.live_bytes,
					      .allocations = line->counts.blocks,
					      .allocated_bytes = line->counts.bytes,
				      });
	}
	free(nodes);
	free(calls);
	return rc == 0 ? import_finish(l->p, l->maps.program) : rc;
}
