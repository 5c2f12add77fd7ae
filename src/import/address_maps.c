/* Turns run-time addresses into modules (address_maps.h).
 *
 * A module enters the profile only when an address falls into it, and only then is its
 * file opened: for its build id, where the input has none, and for its segments. If the
 * file is gone, or is another one than the input names by build id, the slide is taken
 * from the mapping alone. That is right for nearly all libraries, and it only shows as the
 * number after "module+".
 *
 * Bounds: a hostile list of mappings or of stacks ends at MAX_RANGES and MAX_NODES. */
#include "import/address_maps.h"

#include "hosted/sorted.h"
#include "import/text_scan.h"

#include <stdlib.h>
#include <string.h>

/* IN_ORDER_AGAIN: a program adds its modules together, and all of them again after dlopen. */
enum { MAX_RANGES = 1 << 16, MAX_NODES = 1 << 27, IN_ORDER_AGAIN = 64 };

void address_maps_fini(struct address_maps *m)
{
	vector_free(&m->ranges);
	vector_free(&m->layouts);
	memset(m, 0, sizeof *m);
}

void address_maps_clear(struct address_maps *m)
{
	m->ranges.count = m->last = 0;
	m->sorted = true;
}

int address_maps_add(struct address_maps *m, const struct address_range *range)
{
	if (range->start >= range->end)
		return 0;
	if (m->ranges.count == MAX_RANGES)
		return HEFT_EFORMAT;
	if (!vector_push(&m->ranges, *range))
		return HEFT_ENOMEM;
	m->ranges.items[m->ranges.count - 1].ready = false;
	m->added++;
	m->sorted = false;
	return 0;
}

/* "55d0c0a000-55d0c0b000 r-xp 00001000 fe:00 1234    /path with blanks" */
int address_maps_add_line(struct address_maps *m, struct profile *p, const char *line,
			  size_t length)
{
	const char *end = line + length, *at = line;
	struct address_range r = {0};
	scan_blanks(&at);
	if (!scan_hex(&at, &r.start) || !scan_one(&at, '-') || !scan_hex(&at, &r.end))
		return 0;
	if (end - at < 6 || at[0] != ' ' || at[5] != ' ')
		return 0;
	bool code = at[3] == 'x';
	at += 6;
	if (!scan_hex(&at, &r.offset))
		return 0;
	for (int field = 0; field < 2; field++) { /* device, inode */
		scan_blanks(&at);
		at += strcspn(at, " ");
	}
	scan_blanks(&at);
	if (at == end)
		return 0;
	if (!code && (m->program || *at != '/'))
		return 0;
	r.path = name_pool_add_n(p->names, at, (size_t)(end - at));
	if (!r.path)
		return HEFT_ENOMEM;
	if (!m->program && *at == '/')
		m->program = r.path;
	return code ? address_maps_add(m, &r) : 0;
}

/* Finds the module of a range in the profile, or adds it. A range without a build id gets that of the
 * file. */
static int find_module(struct address_maps *m, struct profile *p, struct address_range *r)
{
	struct module_layout l = {0};
	const uint8_t *id = r->build_id;
	uint32_t length = r->build_id_len;
	if (profile_find_module(p, r->path, id, length, &r->module))
		return 0;
	l.readable = r->path[0] == '/' && elf_layout_read(r->path, &l.layout);
	if (l.readable && length &&
	    (l.layout.build_id_len != length || memcmp(l.layout.build_id, id, length)))
		l.readable = false; /* another file by now */
	if (!length && l.readable) {
		id = l.layout.build_id;
		length = l.layout.build_id_len;
	}
	if (profile_add_module(p, r->path, id, length, &r->module) < 0)
		return HEFT_ENOMEM;
	while (m->layouts.count <= r->module)
		if (!vector_add(&m->layouts))
			return HEFT_ENOMEM;
	m->layouts.items[r->module] = l;
	return 0;
}

static int prepare(struct address_maps *m, struct profile *p, struct address_range *r)
{
	if (find_module(m, p, r) < 0)
		return HEFT_ENOMEM;
	r->ready = true;
	if (r->biased)
		return 0;
	const struct module_layout *l = &m->layouts.items[r->module];
	if (l->readable && elf_layout_slide(&l->layout, r->start, r->end, r->offset, &r->slide))
		return 0;
	/* A program linked for fixed addresses runs low in memory, where nothing else is put. */
	r->slide = r->start < 0x40000000 ? 0 : r->start - r->offset;
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct address_range *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static struct address_range *find_range(struct address_maps *m, uint64_t pc)
{
	struct address_range *ranges = m->ranges.items;
	size_t count = m->ranges.count;
	if (!m->sorted) {
		m->in_order += count;
		if (count)
			qsort(ranges, count, sizeof *ranges, compare_ranges);
		m->sorted = true;
		m->last = 0;
	}
	if (m->last < count && pc >= ranges[m->last].start && pc < ranges[m->last].end)
		return &ranges[m->last];
	size_t after = count_before(i, count, ranges[i].start <= pc);
	if (after == 0 || pc >= ranges[after - 1].end)
		return NULL;
	m->last = after - 1;
	return &ranges[m->last];
}

int address_range_find(struct address_maps *m, struct profile *p, struct address_range *r,
		       uint64_t pc, uint32_t *module, uint64_t *address)
{
	if (!r->ready) {
		int rc = prepare(m, p, r);
		if (rc < 0)
			return rc;
	}
	*module = r->module;
	*address = pc - r->slide;
	return 0;
}

int address_maps_find(struct address_maps *m, struct profile *p, uint64_t pc, uint32_t *module,
		      uint64_t *address)
{
	struct address_range *r = find_range(m, pc);
	if (m->in_order > IN_ORDER_AGAIN * m->added + MAX_RANGES)
		return HEFT_EFORMAT;
	*module = PROFILE_NONE;
	*address = pc;
	return r ? address_range_find(m, p, r, pc, module, address) : 0;
}

void address_tree_fini(struct address_tree *t)
{
	vector_free(&t->nodes);
	hash_index_fini(&t->index);
	memset(t, 0, sizeof *t);
}

int address_tree_add(struct address_tree *t, uint32_t parent, uint64_t pc, uint32_t *id)
{
	uint32_t hash = hash_number(hash_mix(hash_mix(0, parent), pc));
	for (uint32_t at = hash; (*id = hash_index_step(&t->index, hash, &at)) != HASH_NONE;)
		if (t->nodes.items[*id].parent == parent && t->nodes.items[*id].address == pc)
			return 0;
	*id = (uint32_t)t->nodes.count;
	if (*id == MAX_NODES)
		return HEFT_EFORMAT;
	if (!vector_push(&t->nodes, (struct address_node){parent, PROFILE_NONE, pc}) ||
	    hash_index_add(&t->index, hash, *id) < 0)
		return HEFT_ENOMEM;
	return 0;
}

int address_tree_load(struct address_tree *t, struct address_maps *m, struct profile *p,
		      const struct profile_selection *sel, uint32_t **nodes, uint32_t **calls)
{
	hash_index_fini(&t->index); /* nothing is added any more */
	struct address_node *from = t->nodes.items;
	uint32_t count = (uint32_t)t->nodes.count;
	*nodes = malloc(((size_t)count + 1) * sizeof **nodes);
	*calls = malloc(((size_t)count + 1) * sizeof **calls);
	int rc = *nodes && *calls ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = address_maps_find(m, p, from[i].address, &from[i].module, &from[i].address);
	return rc == 0 ? address_stacks_load(p, from, count, sel, *nodes, *calls) : rc;
}
