/* Which function to name. "allocate" makes 5,000 messages helps nobody if every block of the
 * program comes from there; what people look for is the function that wanted the block.
 *
 * The table of user_frame.c knows the wrappers of well-known libraries. A program's own one is
 * told by three things together: its name says what it does, it allocates on one line, and it is
 * called from more than one place. Each alone would skip functions that people do want to see: a
 * constructor called from two places, or alloc_table that only init calls. */
#include "findings/site_names.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Wrappers around wrappers: more than three are not seen in practice. */
enum { WRAPPER_LEVELS = 3 };

uint32_t user_caller(const struct profile *p, uint32_t node)
{
	for (uint32_t n = p->nodes[node].parent; n != PROFILE_NONE; n = p->nodes[n].parent)
		if (p->frames[p->nodes[n].frame].user)
			return n;
	return PROFILE_NONE;
}

bool node_is_nameless(const struct profile *p, uint32_t node)
{
	if (node >= p->node_count)
		return true;
	const struct profile_frame *f = &p->frames[p->nodes[node].frame];
	return !f->file && strstr(f->function, "+0x") != NULL;
}

static bool sounds_like_wrapper(const char *function)
{
	static const char *const words[] = {"alloc",   "grow",   "resize",
					    "reserve", "strdup", "memdup"};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strcasestr(function, words[i]))
			return true;
	return false;
}

uint32_t *site_names_new(const struct profile *p)
{
	uint32_t *named = malloc(((size_t)p->site_count + 1) * sizeof *named);
	uint32_t *caller = malloc(((size_t)p->frame_count + 1) * sizeof *caller);
	bool *several = calloc((size_t)p->frame_count + 1, sizeof *several);
	if (!named || !caller || !several) {
		free(named);
		free(caller);
		free(several);
		return NULL;
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t node = p->sites[i].node;
		named[i] = node < p->node_count ? profile_first_user_node(p, node) : PROFILE_NONE;
	}
	for (int level = 0; level < WRAPPER_LEVELS; level++) {
		bool any = false;
		memset(caller, 0xff, ((size_t)p->frame_count + 1) * sizeof *caller);
		memset(several, 0, p->frame_count);
		for (uint32_t i = 0; i < p->site_count; i++) {
			uint32_t up =
				named[i] == PROFILE_NONE ? PROFILE_NONE : user_caller(p, named[i]);
			if (up == PROFILE_NONE)
				continue;
			uint32_t frame = p->nodes[named[i]].frame, from = p->nodes[up].frame;
			if (caller[frame] == PROFILE_NONE)
				caller[frame] = from;
			else if (caller[frame] != from)
				several[frame] = true;
		}
		for (uint32_t i = 0; i < p->frame_count; i++)
			any |= several[i] =
				several[i] && sounds_like_wrapper(p->frames[i].function);
		for (uint32_t i = 0; i < p->site_count && any; i++) {
			if (named[i] == PROFILE_NONE || !several[p->nodes[named[i]].frame])
				continue;
			uint32_t up = user_caller(p, named[i]);
			if (up != PROFILE_NONE)
				named[i] = up;
		}
		if (!any)
			break;
	}
	free(caller);
	free(several);
	return named;
}

uint32_t release_name(const struct profile *p, uint32_t node)
{
	if (node >= p->node_count)
		return PROFILE_NONE;
	uint32_t named = profile_first_user_node(p, node);
	const char *function = p->frames[p->nodes[named].frame].function;
	size_t length = strlen(function);
	bool frees = length >= 4 && strcasecmp(function + length - 4, "free") == 0;
	uint32_t up = frees ? user_caller(p, named) : PROFILE_NONE;
	return up == PROFILE_NONE ? named : up;
}

bool same_function(const struct profile *p, uint32_t frame, uint32_t other)
{
	const struct profile_frame *a = &p->frames[frame], *b = &p->frames[other];
	return frame == other || (a->module == b->module && strcmp(a->function, b->function) == 0);
}

static uint32_t depth_of(const struct profile *p, uint32_t node)
{
	uint32_t depth = 0;
	for (; node != PROFILE_NONE; node = p->nodes[node].parent)
		depth++;
	return depth;
}

uint32_t common_user_node(const struct profile *p, uint32_t a, uint32_t b)
{
	uint32_t da = depth_of(p, a), db = depth_of(p, b);
	for (; da > db; da--)
		a = p->nodes[a].parent;
	for (; db > da; db--)
		b = p->nodes[b].parent;
	/* At equal depth: go out until both are one node, remembering where they parted. */
	uint32_t parted_a = PROFILE_NONE, parted_b = PROFILE_NONE;
	while (a != b) {
		parted_a = a;
		parted_b = b;
		a = p->nodes[a].parent;
		b = p->nodes[b].parent;
	}
	if (parted_a != PROFILE_NONE &&
	    same_function(p, p->nodes[parted_a].frame, p->nodes[parted_b].frame))
		a = parted_a;
	while (a != PROFILE_NONE && !p->frames[p->nodes[a].frame].user)
		a = p->nodes[a].parent;
	return a;
}

struct function_key {
	const char *function;
	uint32_t module, site;
};

static int by_function(const void *a, const void *b)
{
	const struct function_key *x = a, *y = b;
	int order = strcmp(x->function, y->function);
	if (!order)
		order = x->module < y->module ? -1 : x->module > y->module;
	if (!order)
		order = x->site < y->site ? -1 : x->site > y->site;
	return order;
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
		const struct profile_frame *f = &p->frames[p->nodes[named[i]].frame];
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
	return same_function(p, p->nodes[named[site]].frame, p->nodes[named[other]].frame);
}
