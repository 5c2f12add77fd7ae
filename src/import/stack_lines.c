/* Text profiles of addresses (stack_lines.h). The mappings come last in the file, so stacks
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
	memset(l, 0, sizeof *l);
}

bool stack_lines_counts(const char **at, struct stack_counts *c)
{
	const char *s = *at;
	scan_blanks(&s);
	if (!scan_decimal(&s, &c->live_blocks) || !scan_one(&s, ':'))
		return false;
	scan_blanks(&s);
	if (!scan_decimal(&s, &c->live_bytes))
		return false;
	scan_blanks(&s);
	if (!scan_one(&s, '['))
		return false;
	scan_blanks(&s);
	if (!scan_decimal(&s, &c->blocks) || !scan_one(&s, ':'))
		return false;
	scan_blanks(&s);
	if (!scan_decimal(&s, &c->bytes))
		return false;
	scan_blanks(&s);
	if (!scan_one(&s, ']'))
		return false;
	*at = s;
	return true;
}

int stack_lines_addresses(struct stack_lines *l, struct import_source *in, const char *line,
			  const char *at, bool all, uint32_t *node, struct heft_error *err)
{
	l->pcs.count = 0;
	for (;;) {
		uint64_t pc;
		scan_blanks(&at);
		if (*at == 0 || *at == '\r')
			break;
		if (!(scan_one(&at, '0') && scan_one(&at, 'x') && scan_hex(&at, &pc)))
			return import_fail(in, import_source_offset(in, at), err,
					   "expected an address of a stack (0x...)");
		if (!vector_push(&l->pcs, pc))
			return HEFT_ENOMEM;
	}
	*node = PROFILE_NONE;
	for (size_t i = l->pcs.count; i-- > 0;) {
		uint64_t pc = l->pcs.items[i];
		pc -= pc && (i || all);
		int rc = address_tree_add(&l->tree, *node, pc, node);
		if (rc == HEFT_EFORMAT)
			return import_fail(in, import_source_offset(in, line), err,
					   "expected fewer different stacks");
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

int stack_lines_maps(struct stack_lines *l, struct profile *p, struct import_source *in,
		     struct heft_error *err)
{
	char *line;
	size_t length;
	int rc;
	while ((rc = import_source_line(in, &line, &length, err)) == 1) {
		rc = address_maps_add_line(&l->maps, p, line, length);
		if (rc == HEFT_EFORMAT)
			return import_fail(in, import_source_offset(in, line), err,
					   "expected fewer mappings");
		if (rc < 0)
			return rc;
	}
	return rc;
}

int stack_lines_finish(struct stack_lines *l, struct profile *p, const struct import_source *in)
{
	uint32_t *nodes = NULL, *calls = NULL;
	int rc = address_tree_load(&l->tree, &l->maps, p, in->selection, &nodes, &calls);
	for (size_t i = 0; i < l->lines.count && rc == 0; i++) {
		const struct stack_line *line = &l->lines.items[i];
		uint32_t id;
		uint32_t node = line->node == PROFILE_NONE ? PROFILE_NONE : nodes[line->node];
		rc = import_add_site(p, node, PROFILE_NONE, &id);
		if (rc < 0)
			break;
		if (node != PROFILE_NONE)
			import_keep_call(p, id, node, calls[line->node]);
		struct profile_site *s = &p->sites[id];
		import_add(&s->live_blocks, line->counts.live_blocks);
		import_add(&s->live_bytes, line->counts.live_bytes);
		import_add(&s->allocations, line->counts.blocks);
		import_add(&s->allocated_bytes, line->counts.bytes);
	}
	free(nodes);
	free(calls);
	return rc == 0 ? import_finish(p, l->maps.program) : rc;
}
