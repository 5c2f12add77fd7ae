/* Inlined frames are nodes of their own in the model; here they are folded into the frame around
 * them. Nodes come after their callers, so one pass over them in order is enough, whatever the
 * depth of the stacks. */
#include "export/export_places.h"

#include "hosted/name_words.h"
#include "hosted/vector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- places */

static void mark_used(struct export_places *x)
{
	const struct profile *p = x->p;
	for (uint32_t i = 0; i < p->site_count; i++)
		for (uint32_t node = p->sites[i].node; node != PROFILE_NONE && !x->starts[node];
		     node = x->caller[node]) {
			x->starts[node] = true;
			uint32_t place = x->place[node];
			if (!x->number[place]) {
				x->in_order[x->used++] = place;
				x->number[place] = x->used;
				x->address[place] =
					p->stacks.frames[x->index.pairs[place].a].address;
			}
		}
}

int export_places_init(struct export_places *x, const struct profile *p)
{
	size_t nodes = (size_t)p->stacks.node_count + 1;
	*x = (struct export_places){.p = p};
	x->place = malloc(nodes * sizeof *x->place);
	x->caller = malloc(nodes * sizeof *x->caller);
	x->starts = calloc(nodes, sizeof *x->starts);
	if (!x->place || !x->caller || !x->starts)
		goto no_memory;
	for (uint32_t i = 0; i < p->stacks.node_count; i++) {
		uint32_t parent = p->stacks.nodes[i].parent, outer = PROFILE_NONE;
		x->caller[i] = parent;
		if (profile_node_frame(p, i)->inlined && parent != PROFILE_NONE) {
			outer = x->place[parent];
			x->caller[i] = x->caller[parent];
		}
		if (pair_index_find(&x->index, p->stacks.nodes[i].frame, outer, &x->place[i]) < 0)
			goto no_memory;
	}
	x->number = calloc((size_t)x->index.count + 1, sizeof *x->number);
	x->in_order = malloc(((size_t)x->index.count + 1) * sizeof *x->in_order);
	x->address = calloc((size_t)x->index.count + 1, sizeof *x->address);
	if (!x->number || !x->in_order || !x->address)
		goto no_memory;
	mark_used(x);
	return 0;
no_memory:
	export_places_fini(x);
	return HEFT_ENOMEM;
}

void export_places_fini(struct export_places *x)
{
	pair_index_fini(&x->index);
	free(x->number);
	free(x->in_order);
	free(x->address);
	free(x->place);
	free(x->caller);
	free(x->starts);
	*x = (struct export_places){0};
}

uint32_t export_place_outermost(const struct export_places *x, uint32_t place)
{
	while (x->index.pairs[place].b != PROFILE_NONE)
		place = x->index.pairs[place].b;
	return place;
}

uint32_t export_main_module(const struct profile *p)
{
	const char *exe = p->process_count ? p->processes[0].exe : NULL;
	for (uint32_t i = 0; exe && i < p->stacks.module_count; i++)
		if (strcmp(p->stacks.modules[i].path, exe) == 0)
			return i;
	const char *name = p->run.argc ? strrchr(p->run.argv[0], '/') : NULL;
	name = name ? name + 1 : p->run.argc ? p->run.argv[0] : NULL;
	for (uint32_t i = 0; name && i < p->stacks.module_count; i++)
		if (strcmp(profile_module_name(p, i), name) == 0)
			return i;
	for (uint32_t i = 0; !exe && !name && i < p->stacks.module_count; i++)
		if (!p->stacks.modules[i].runtime && !strstr(p->stacks.modules[i].path, ".so"))
			return i;
	return PROFILE_NONE;
}

/* ---- strings */

static bool is_plain(const char *s)
{
	while (*s >= ' ' && *s < 0x7f)
		s++;
	return !*s;
}

/* Into t->clean; false: no memory. */
static bool make_clean(struct string_table *t, const char *s)
{
	size_t length = 0;
	for (;;) {
		if (!array_reserve(t->clean, length, t->clean_capacity, WORDS_GLYPH))
			return false;
		size_t n = words_glyph(&s, t->clean + length);
		if (!n)
			break;
		length += n;
	}
	t->clean[length] = 0;
	return true;
}

int string_table_find(struct string_table *t, const char *s, uint32_t *number)
{
	if (!s)
		s = "";
	if (!is_plain(s)) {
		if (!make_clean(t, s))
			return HEFT_ENOMEM;
		s = t->clean;
	}
	uint32_t hash = hash_bytes(s, strlen(s)), at = hash;
	while ((*number = hash_index_step(&t->index, hash, &at)) != HASH_NONE)
		if (strcmp(t->strings[*number], s) == 0)
			return 0;
	char *copy = strdup(s);
	if (!copy || !array_reserve(t->strings, t->count, t->capacity, 1) ||
	    hash_index_add_at(&t->index, hash, at, t->count) < 0) {
		free(copy);
		return HEFT_ENOMEM;
	}
	t->strings[t->count] = copy;
	*number = t->count++;
	return 0;
}

int string_table_init(struct string_table *t)
{
	uint32_t first;
	*t = (struct string_table){0};
	int rc = string_table_find(t, "", &first);
	if (rc < 0)
		string_table_fini(t);
	return rc;
}

void string_table_fini(struct string_table *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		free(t->strings[i]);
	free(t->strings);
	hash_index_fini(&t->index);
	free(t->clean);
	*t = (struct string_table){0};
}

char *export_command(const struct profile *p)
{
	size_t length = 1;
	for (uint32_t i = 0; i < p->run.argc; i++)
		length += strlen(p->run.argv[i]) + 1;
	char *command = malloc(length), *at = command;
	for (uint32_t i = 0; command && i < p->run.argc; i++) {
		if (i)
			*at++ = ' ';
		at = stpcpy(at, p->run.argv[i]);
	}
	if (command)
		*at = 0;
	return command;
}

/* ---- for several formats */

char *export_valgrind_frame(const struct profile *p, const struct profile_frame *f)
{
	char *text = NULL;
	const char *module = f->module != PROFILE_NONE ? p->stacks.modules[f->module].path : NULL;
	int rc;
	if (f->file && f->line)
		rc = asprintf(&text, "0x%" PRIX64 ": %s (%s:%" PRIu32 ")", f->address, f->function,
			      f->file, f->line);
	else if (f->file)
		rc = asprintf(&text, "0x%" PRIX64 ": %s (%s)", f->address, f->function, f->file);
	else if (module)
		rc = asprintf(&text, "0x%" PRIX64 ": %s (in %s)", f->address, f->function, module);
	else
		rc = asprintf(&text, "0x%" PRIX64 ": %s", f->address, f->function);
	return rc < 0 ? NULL : text;
}

/* Exact for a site that only allocates or only reallocates: one of the numbers is 0, or the growth of
 * the reallocations. If one call is both realloc(NULL) and realloc(block), the model has no sum of the
 * first alone, and this is the least that it can be. */
uint64_t export_foreign_bytes(const struct profile_site *site)
{
	return site->allocated_bytes > site->reallocated_bytes ? site->allocated_bytes
							       : site->reallocated_bytes;
}
