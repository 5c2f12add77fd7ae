/* Names sites: by the first user frame, as everywhere. A wrapper around malloc is no user frame
 * (profile/wrapper_frames.c). Also finds what functions and stacks have in common. */
#include "findings/site_names.h"

#include "hosted/compare.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

uint32_t user_caller(const struct profile *p, uint32_t node)
{
	for (uint32_t n = p->stacks.nodes[node].parent; n != PROFILE_NONE;
	     n = p->stacks.nodes[n].parent)
		if (p->stacks.frames[p->stacks.nodes[n].frame].user)
			return n;
	return PROFILE_NONE;
}

bool node_is_nameless(const struct profile *p, uint32_t node)
{
	if (node >= p->stacks.node_count)
		return true;
	const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[node].frame];
	return !f->file && strstr(f->function, "+0x") != NULL;
}

uint32_t *site_names_new(const struct profile *p)
{
	uint32_t *named = malloc(((size_t)p->site_count + 1) * sizeof *named);
	for (uint32_t i = 0; named && i < p->site_count; i++) {
		uint32_t node = p->sites[i].node;
		named[i] = node < p->stacks.node_count ? profile_first_user_node(p, node)
						       : PROFILE_NONE;
	}
	return named;
}

/* Whether a function only takes something down: a destructor, Rust's drop, or a C function that says so at
 * the end of its name. */
static bool takes_down(const char *function)
{
	static const char *const inside[] = {"::~", "drop_in_place", "drop_slow", "drop_glue"};
	static const char *const endings[] = {"free",    "destroy",  "delete",  "dispose",
					      "release", "unref",    "dealloc", "::drop",
					      "deinit",  "destruct", "cleanup"};
	for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
		if (strstr(function, inside[i]))
			return true;
	/* Parameters and template arguments are no part of the name. */
	size_t length = strcspn(function, "(<");
	if (function[0] == '<' || function[0] == '(') /* "<app::Job as Drop>::drop" */
		length = strlen(function);
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		size_t n = strlen(endings[i]);
		if (length >= n && strncasecmp(function + length - n, endings[i], n) == 0)
			return true;
	}
	return function[0] == '~';
}

uint32_t release_name(const struct profile *p, uint32_t node)
{
	if (node >= p->stacks.node_count)
		return PROFILE_NONE;
	uint32_t named = profile_first_user_node(p, node);
	for (uint32_t at = named; at != PROFILE_NONE; at = user_caller(p, at))
		if (!takes_down(p->stacks.frames[p->stacks.nodes[at].frame].function))
			return at;
	return named;
}

bool same_function(const struct profile *p, uint32_t frame, uint32_t other)
{
	const struct profile_frame *a = &p->stacks.frames[frame], *b = &p->stacks.frames[other];
	return frame == other || (a->module == b->module && strcmp(a->function, b->function) == 0);
}

static uint32_t depth_of(const struct profile *p, uint32_t node)
{
	uint32_t depth = 0;
	for (; node != PROFILE_NONE; node = p->stacks.nodes[node].parent)
		depth++;
	return depth;
}

uint32_t common_user_node(const struct profile *p, uint32_t a, uint32_t b)
{
	uint32_t da = depth_of(p, a), db = depth_of(p, b);
	for (; da > db; da--)
		a = p->stacks.nodes[a].parent;
	for (; db > da; db--)
		b = p->stacks.nodes[b].parent;
	/* From equal depth, go outward until both are one node; remember where they parted. */
	uint32_t parted_a = PROFILE_NONE, parted_b = PROFILE_NONE;
	while (a != b) {
		parted_a = a;
		parted_b = b;
		a = p->stacks.nodes[a].parent;
		b = p->stacks.nodes[b].parent;
	}
	if (parted_a != PROFILE_NONE &&
	    same_function(p, p->stacks.nodes[parted_a].frame, p->stacks.nodes[parted_b].frame))
		a = parted_a;
	while (a != PROFILE_NONE && !p->stacks.frames[p->stacks.nodes[a].frame].user)
		a = p->stacks.nodes[a].parent;
	return a;
}

struct function_key {
	const char *function;
	uint32_t module, site;
};

static int by_function(const void *a, const void *b)
{
	const struct function_key *x = a, *y = b;
	return strcmp(x->function, y->function) ?: compare_numbers(x->module, y->module)
		       ?: compare_numbers(x->site, y->site);
}

uint32_t *sites_by_function(const struct profile *p, const uint32_t *named, uint32_t *count)
{
	struct function_key *keys = malloc(((size_t)p->site_count + 1) * sizeof *keys);
	uint32_t *sites = malloc(((size_t)p->site_count + 1) * sizeof *sites);
	*count = 0;
	if (!keys || !sites) {
		free(keys);
		free(sites);
		return NULL;
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		if (named[i] == PROFILE_NONE)
			continue;
		const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[named[i]].frame];
		keys[(*count)++] = (struct function_key){f->function, f->module, i};
	}
	if (*count)
		qsort(keys, *count, sizeof *keys, by_function);
	for (uint32_t i = 0; i < *count; i++)
		sites[i] = keys[i].site;
	free(keys);
	return sites;
}

bool named_alike(const struct profile *p, const uint32_t *named, uint32_t site, uint32_t other)
{
	return same_function(p, p->stacks.nodes[named[site]].frame,
			     p->stacks.nodes[named[other]].frame);
}
