/* The names for pprof's drop_frames: with them hidden, `go tool pprof -top` begins with the user's
 * functions and not with what they called to allocate.
 *
 * How pprof reads the field (google/pprof, profile/prune.go), as soon as it opens the file:
 * - it compares whole names, cut at the first parenthesis that is not of "(anonymous namespace)" or
 *   "operator()", and without a leading dot;
 * - going from the root, it drops the first frame that matches *and everything it called*.
 * So a name may be in the list only if no stack of this profile has a user frame beneath it: that frame
 * would vanish, and nobody would see who allocated. A fixed list of names cannot know that (a user's
 * own class may have such a name), so each profile gets a list of its own:
 *
 * 1. a name that is a user frame, or has one beneath it in some stack, is no candidate;
 * 2. each stack adds its outermost candidate beneath the innermost user frame: what it called goes
 *    with it.
 *
 * Nodes come after their callers, so both are one pass over nodes, however deep stacks are. Sites come
 * largest first: if the list becomes too long, small ones are left out. */
#include "export/pprof_drop.h"

#include "export/export_places.h"
#include "hosted/hash_index.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_LIST = 64 << 10 }; /* bytes; readers compile it and match every function */

struct drop {
	const struct profile *p;
	struct string_table names; /* as pprof compares them; the first one is "" */
	uint32_t *name;            /* by frame */
	bool *keep;                /* by name: no candidate */
	bool *taken;               /* by name */
	char *list;
	size_t used;
};

/* The length of what pprof compares, from *name on. */
static size_t simple_name(const char **name)
{
	static const char *const reserved[] = {"(anonymous namespace)", "operator()"};
	if (**name == '.')
		++*name;
	for (const char *at = *name; *at;) {
		size_t skip = 0;
		for (size_t i = 0; i < sizeof reserved / sizeof *reserved && !skip; i++)
			if (*at == *reserved[i] &&
			    strncmp(at, reserved[i], strlen(reserved[i])) == 0)
				skip = strlen(reserved[i]);
		if (!skip && *at == '(')
			return (size_t)(at - *name);
		at += skip ? skip : 1;
	}
	return strlen(*name);
}

static int find_name(struct drop *d, const char *function, uint32_t *found)
{
	size_t length = simple_name(&function);
	char *name = strndup(function, length);
	int rc = name ? string_table_find(&d->names, name, found) : HEFT_ENOMEM;
	free(name);
	return rc;
}

/* A name is read once, however many frames have it: names of one profile are the same if their pointers are. */
static int find_names(struct drop *d)
{
	const struct profile_frame *frames = d->p->stacks.frames;
	struct hash_index seen = {0};
	int rc = 0;
	for (uint32_t i = 0; i < d->p->stacks.frame_count && rc == 0; i++) {
		uint32_t hash = hash_number((uintptr_t)frames[i].function), at = hash, same;
		while ((same = hash_index_step(&seen, hash, &at)) != HASH_NONE &&
		       frames[same].function != frames[i].function)
			;
		if (same != HASH_NONE) {
			d->name[i] = d->name[same];
			continue;
		}
		rc = find_name(d, frames[i].function, &d->name[i]);
		if (rc == 0)
			rc = hash_index_add_at(&seen, hash, at, i);
	}
	hash_index_fini(&seen);
	return rc;
}

/* Marks the names that have to stay. */
static int keep_names(struct drop *d)
{
	const struct profile *p = d->p;
	/* by node: in some site's stack, with a user frame at or beneath it */
	bool *above = calloc((size_t)p->stacks.node_count + 1, sizeof *above);
	if (!above)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t n = p->sites[i].node;
		while (n != PROFILE_NONE && !profile_node_frame(p, n)->user)
			n = p->stacks.nodes[n].parent;
		for (; n != PROFILE_NONE && !above[n]; n = p->stacks.nodes[n].parent) {
			above[n] = true;
			d->keep[d->name[p->stacks.nodes[n].frame]] = true;
		}
	}
	free(above);
	return 0;
}

/* Adds a name to the list, if it fits. */
static void take(struct drop *d, uint32_t name)
{
	const char *text = d->names.strings[name];
	if (d->taken[name] || 2 * strlen(text) + 2 > LONGEST_LIST - d->used)
		return;
	d->taken[name] = true;
	if (d->used)
		d->list[d->used++] = '|';
	for (; *text; text++) {
		if (strchr("\\.+*?()|[]{}^$", *text))
			d->list[d->used++] = '\\';
		d->list[d->used++] = *text;
	}
}

static int take_names(struct drop *d)
{
	const struct profile *p = d->p;
	enum { NO_USER = UINT32_MAX, USER = 0 }; /* 0 is the name "", which is no candidate */
	/* by node: the outermost candidate of the frames beneath the innermost user frame */
	uint32_t *outermost = malloc(((size_t)p->stacks.node_count + 1) * sizeof *outermost);
	if (!outermost)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->stacks.node_count; i++) {
		const struct profile_node *n = &p->stacks.nodes[i];
		uint32_t name = d->name[n->frame];
		outermost[i] = n->parent == PROFILE_NONE ? (uint32_t)NO_USER : outermost[n->parent];
		if (p->stacks.frames[n->frame].user)
			outermost[i] = USER;
		else if (outermost[i] == USER && !d->keep[name])
			outermost[i] = name;
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t node = p->sites[i].node;
		if (node != PROFILE_NONE && outermost[node] != (uint32_t)NO_USER &&
		    outermost[node] != USER)
			take(d, outermost[node]);
	}
	free(outermost);
	return 0;
}

char *pprof_drop_frames(const struct profile *p)
{
	struct drop d = {.p = p};
	int rc = string_table_init(&d.names);
	d.name = calloc((size_t)p->stacks.frame_count + 1, sizeof *d.name);
	d.list = malloc(LONGEST_LIST + 1);
	if (rc == 0 && (!d.name || !d.list))
		rc = HEFT_ENOMEM;
	if (rc == 0)
		rc = find_names(&d);
	if (rc == 0) {
		d.keep = calloc(d.names.count, sizeof *d.keep);
		d.taken = calloc(d.names.count, sizeof *d.taken);
		rc = d.keep && d.taken ? keep_names(&d) : HEFT_ENOMEM;
	}
	if (rc == 0)
		rc = take_names(&d);
	if (rc == 0)
		d.list[d.used] = 0;
	string_table_fini(&d.names);
	free(d.name);
	free(d.keep);
	free(d.taken);
	if (rc < 0) {
		free(d.list);
		return NULL;
	}
	return d.list;
}
