/* Functions are found by their names and not by their numbers, since two profiles that are compared
 * have numbers of their own. Modules of one name in different folders are one for the same reason: two
 * builds of a program differ in their folders. */
#include "profile/call_functions.h"

#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

void call_functions_fini(struct call_functions *f)
{
	free(f->items);
	hash_index_fini(&f->index);
	*f = (struct call_functions){0};
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* The function, made if it is not there. 0 or HEFT_ENOMEM. */
static int find_function(struct call_functions *f, const struct call_function *wanted, uint32_t *id)
{
	uint32_t hash = hash_bytes(wanted->function, strlen(wanted->function)) ^
			hash_number(hash_bytes(wanted->module, strlen(wanted->module)));
	uint32_t at = hash;
	while ((*id = hash_index_step(&f->index, hash, &at)) != HASH_NONE)
		if (same_text(f->items[*id].function, wanted->function) &&
		    same_text(f->items[*id].module, wanted->module))
			return 0;
	if (!array_reserve(f->items, f->count, f->capacity, 1) ||
	    hash_index_add_at(&f->index, hash, at, f->count) < 0)
		return HEFT_ENOMEM;
	f->items[f->count] = *wanted;
	*id = f->count++;
	return 0;
}

static struct call_function function_of(const struct profile *p, uint32_t frame, uint64_t weight)
{
	const struct profile_frame *x = &p->stacks.frames[frame];
	return (struct call_function){
		.function = x->function,
		.module = x->module < p->stacks.module_count ? profile_module_name(p, x->module)
							     : "",
		.p = p,
		.frame = frame,
		.weight = weight,
	};
}

/* A profile also has frames that no stack with a value has: those of stacks that free, for one. */
static void note_frame(struct call_function *x, const struct profile_frame *f)
{
	if (!x->seen) {
		x->file = f->file;
		x->line = f->line;
		x->inlined = x->seen = true;
	}
	if (!same_text(x->file, f->file))
		x->file = NULL;
	if (x->line != f->line || !x->file)
		x->line = 0;
	x->inlined &= f->inlined;
}

static int add_function(struct call_functions *f, const struct profile *p, uint32_t frame,
			uint64_t weight, uint32_t *id)
{
	struct call_function wanted = function_of(p, frame, weight);
	if (find_function(f, &wanted, id) < 0)
		return HEFT_ENOMEM;
	struct call_function *x = &f->items[*id];
	if (weight > x->weight) {
		x->p = p;
		x->frame = frame;
		x->weight = weight;
	}
	if (weight)
		note_frame(x, &p->stacks.frames[frame]);
	return 0;
}

/* What stands on stacks with each frame; recursion counts more than once. */
static uint64_t *frame_weights(const struct profile *p, const uint64_t *values)
{
	uint64_t *nodes = calloc((size_t)p->stacks.node_count + 1, sizeof *nodes);
	uint64_t *frames = calloc((size_t)p->stacks.frame_count + 1, sizeof *frames);
	if (!nodes || !frames) {
		free(nodes);
		free(frames);
		return NULL;
	}
	for (uint32_t i = 0; i < p->site_count; i++)
		if (p->sites[i].node != PROFILE_NONE)
			nodes[p->sites[i].node] += values[i];
	for (uint32_t i = p->stacks.node_count; i-- > 0;) {
		const struct profile_node *n = &p->stacks.nodes[i];
		frames[n->frame] += nodes[i];
		if (n->parent != PROFILE_NONE)
			nodes[n->parent] += nodes[i];
	}
	free(nodes);
	return frames;
}

int call_functions_add(struct call_functions *f, const struct profile *p, const uint64_t *values,
		       uint32_t **ids)
{
	uint64_t *weights = frame_weights(p, values);
	*ids = malloc(((size_t)p->stacks.frame_count + 1) * sizeof **ids);
	int rc = weights && *ids ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.frame_count && rc == 0; i++)
		rc = add_function(f, p, i, weights[i], &(*ids)[i]);
	free(weights);
	if (rc < 0) {
		free(*ids);
		*ids = NULL;
	}
	return rc;
}

int call_functions_add_places(struct call_functions *f, const struct profile *p, uint32_t **ids)
{
	uint32_t count = p->stacks.frame_count;
	*ids = malloc(((size_t)count + 1) * sizeof **ids);
	if (!*ids || !array_reserve(f->items, f->count, f->capacity, count))
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		(*ids)[i] = f->count;
		f->items[f->count++] = function_of(p, i, 0);
	}
	return 0;
}

int call_functions_add_process(struct call_functions *f, const struct profile_label_set *process,
			       uint32_t *id)
{
	static const char no_module[] = "\n"; /* that no function is in */
	struct call_function wanted = {
		.function = profile_find_label(process, PROFILE_LABEL_PROCESS)->text,
		.module = no_module,
		.frame = PROFILE_NONE,
		.process = process,
	};
	return find_function(f, &wanted, id);
}
