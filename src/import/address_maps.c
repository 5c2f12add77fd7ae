/* Run-time addresses into modules (address_maps.h).
 *
 * A module enters the profile only when an address falls into it, and only then is its
 * file opened: for its build id, where the input has none, and for its segments. If the
 * file is gone, or is another one than the input names by build id, the slide is taken
 * from the mapping alone: right for nearly all libraries, and it only shows as the
 * number after "module+".
 *
 * Bounds: a hostile list of mappings or of stacks ends at MAX_RANGES and MAX_NODES. */
#include "import/address_maps.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RANGES = 1 << 16, MAX_NODES = 1 << 27 };

void address_maps_fini(struct address_maps *m)
{
	free(m->ranges);
	vector_free(&m->layouts);
	memset(m, 0, sizeof *m);
}

void address_maps_clear(struct address_maps *m)
{
	m->count = m->last = 0;
	m->sorted = true;
}

int address_maps_add(struct address_maps *m, const struct address_range *range)
{
	if (range->start >= range->end)
		return 0;
	if (m->count == MAX_RANGES)
		return HEFT_EFORMAT;
	if (!array_reserve(m->ranges, m->count, m->capacity, 1))
		return HEFT_ENOMEM;
	m->ranges[m->count] = *range;
	m->ranges[m->count].ready = false;
	m->count++;
	m->sorted = false;
	return 0;
}

static const char *hex(const char *s, const char *end, uint64_t *value)
{
	uint64_t v = 0;
	const char *at = s;
	for (; at < end && at - s < 16; at++) {
		char c = *at;
		unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
				 : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
							: 16;
		if (digit == 16)
			break;
		v = v << 4 | digit;
	}
	*value = v;
	return at == s ? NULL : at;
}

/* "55d0c0a000-55d0c0b000 r-xp 00001000 fe:00 1234    /path with blanks" */
int address_maps_add_line(struct address_maps *m, struct profile *p, const char *line,
			  size_t length)
{
	const char *end = line + length, *at;
	struct address_range r = {0};
	while (line < end && *line == ' ')
		line++;
	at = hex(line, end, &r.start);
	if (!at || at == end || *at++ != '-' || !(at = hex(at, end, &r.end)))
		return 0;
	if (end - at < 6 || at[0] != ' ' || at[5] != ' ')
		return 0;
	bool code = at[3] == 'x';
	at = hex(at + 6, end, &r.offset);
	for (int field = 0; at && field < 2; field++) { /* device, inode */
		while (at < end && *at == ' ')
			at++;
		while (at < end && *at != ' ')
			at++;
	}
	while (at && at < end && *at == ' ')
		at++;
	if (!at || at == end)
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

/* Module of the profile for a path (and build id, if the input has one), added when first asked for;
 * without a build id of its own the file's is taken. */
static int module_of(struct address_maps *m, struct profile *p, const char *path,
		     const uint8_t *build_id, uint32_t build_id_len, uint32_t *module)
{
	struct elf_layout layout = {0};
	for (uint32_t i = 0; i < p->stacks.module_count; i++) {
		const struct profile_module *pm = &p->stacks.modules[i];
		if (pm->path == path &&
		    (!build_id_len || (build_id_len == pm->build_id_len &&
				       !memcmp(build_id, pm->build_id, build_id_len)))) {
			*module = i;
			return 0;
		}
	}
	bool readable = path[0] == '/' && elf_layout_read(path, &layout);
	if (readable && build_id_len &&
	    (layout.build_id_len != build_id_len ||
	     memcmp(layout.build_id, build_id, build_id_len)))
		readable = false; /* another file by now */
	if (!build_id_len && readable) {
		build_id = layout.build_id;
		build_id_len = layout.build_id_len;
	}
	if (profile_add_module(p, path, build_id, build_id_len, module) < 0)
		return HEFT_ENOMEM;
	while (m->layouts.count <= *module)
		if (!vector_add(&m->layouts))
			return HEFT_ENOMEM;
	m->layouts.items[*module] = (struct module_layout){layout, readable};
	return 0;
}

static int prepare(struct address_maps *m, struct profile *p, struct address_range *r)
{
	int rc = module_of(m, p, r->path, r->build_id, r->build_id_len, &r->module);
	if (rc < 0)
		return rc;
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
	if (!m->sorted) {
		if (m->count)
			qsort(m->ranges, m->count, sizeof *m->ranges, compare_ranges);
		m->sorted = true;
		m->last = 0;
	}
	if (m->last < m->count && pc >= m->ranges[m->last].start && pc < m->ranges[m->last].end)
		return &m->ranges[m->last];
	uint32_t low = 0, high = m->count;
	while (low < high) { /* the last one that begins at or before pc */
		uint32_t middle = low + (high - low) / 2;
		if (m->ranges[middle].start <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || pc >= m->ranges[low - 1].end)
		return NULL;
	m->last = low - 1;
	return &m->ranges[m->last];
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
	*module = PROFILE_NONE;
	*address = pc;
	return r ? address_range_find(m, p, r, pc, module, address) : 0;
}

void address_tree_fini(struct address_tree *t)
{
	free(t->nodes);
	hash_index_fini(&t->index);
	memset(t, 0, sizeof *t);
}

int address_tree_add(struct address_tree *t, uint32_t parent, uint64_t pc, uint32_t *id)
{
	uint32_t hash = hash_number(hash_mix(hash_mix(0, parent), pc));
	for (uint32_t at = hash; (*id = hash_index_step(&t->index, hash, &at)) != HASH_NONE;)
		if (t->nodes[*id].parent == parent && t->nodes[*id].address == pc)
			return 0;
	if (t->count == MAX_NODES)
		return HEFT_EFORMAT;
	if (!array_reserve(t->nodes, t->count, t->capacity, 1) ||
	    hash_index_add(&t->index, hash, t->count) < 0)
		return HEFT_ENOMEM;
	t->nodes[t->count] = (struct address_node){parent, PROFILE_NONE, pc};
	*id = t->count++;
	return 0;
}

int address_tree_load(struct address_tree *t, struct address_maps *m, struct profile *p,
		      const struct profile_selection *sel, uint32_t **nodes, uint32_t **calls)
{
	hash_index_fini(&t->index); /* nothing is added any more */
	*nodes = malloc(((size_t)t->count + 1) * sizeof **nodes);
	*calls = malloc(((size_t)t->count + 1) * sizeof **calls);
	int rc = *nodes && *calls ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < t->count && rc == 0; i++)
		rc = address_maps_find(m, p, t->nodes[i].address, &t->nodes[i].module,
				       &t->nodes[i].address);
	return rc == 0 ? address_stacks_load(p, t->nodes, t->count, sel, *nodes, *calls) : rc;
}
