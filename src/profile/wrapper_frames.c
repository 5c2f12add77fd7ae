/* Wrappers around malloc that no rule knows (wrapper_frames.h). "grab() allocates 90 %" says nothing
 * if every block of the program comes from there; people look for who wanted the block.
 *
 * What tells a wrapper from a function that makes something of its own (node_new, parse_string):
 * - it stands right above the allocation function, or above another wrapper, and hardly ever above
 *   other functions that allocate;
 * - it allocates on one line or a few, and is called from several places;
 * - its callers decide the sizes: what one caller asks for is mostly the same each time, and what
 *   different callers ask for differs. A constructor's size is its own, a parser's varies with the
 *   data within one caller.
 * Its name is a hint, and decides how much of this is needed: of Arena::alloc two callers are
 * enough (a pool takes chunks of one size, whoever asks), node_alloc must have different sizes,
 * grab must show all of it, list_append is never folded. A function without a name tells nobody
 * anything, so for one many callers with different sizes are enough.
 *
 * Wrappers of wrappers come up in the next round, when those below them are folded. A helper that
 * only a wrapper calls (Arena::alloc > Arena::new_block) goes with it.
 *
 * One look at every node and site a round: a large profile must not feel it. */
#include "profile/wrapper_frames.h"

#include "hosted/hash_index.h"
#include "profile/wrapper_name.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROUNDS = 8,          /* wrappers on wrappers: more are not seen in practice */
	HELPERS = 4,         /* between a wrapper and the allocation */
	MOST_CALLERS = 256,  /* of a function that are looked at: enough to know */
	MOST_PLACES = 8,     /* on which a function allocates, that are told apart */
	CHUNK_BYTES = 4000,  /* a pool's piece is at least about a page */
	THIN_BYTES = 192,    /* code of a function that can do little */
	ROUGHEST = 4,        /* bytes that an estimated size may be off */
	LONGEST_WALK = 64,   /* frames outward: recursion may be endless */
	MOST_SIBLINGS = 256, /* wrappers that others are compared with */
	NOT_SEEN = -1,
	MANY = -2,
};

/* ---- functions */

struct function {
	const char *name;
	uint32_t module;
	uint32_t first, count; /* its sites in the list of a round */
	uint32_t deep;         /* sites of other functions above which it stands, near */
	int64_t only_caller;   /* a function; NOT_SEEN, or MANY */
	uint64_t code_bytes;   /* how large it is, if it has no name; 0: not known */
	uint8_t kind;          /* enum wrapper_name */
	bool wrapper, kept, runtime, judged;
	bool has_helpers; /* sites were passed on to it */
	bool changed;     /* it names other sites than when it was judged */
};

/* What a caller asked a function for. */
struct asked {
	double bytes, blocks;
	double looks; /* blocks that the sizes are known of: fewer if it is sampled */
	double sites;
};

struct finder {
	struct profile *p;
	uint32_t *of_frame; /* functions by frame */
	struct function *functions;
	uint32_t function_count;
	uint32_t *list;  /* sites, those of one function together */
	uint32_t *first; /* by site: its first user frame; */
	uint32_t *named; /* or the function's that has that for a helper */
	uint32_t *user;  /* by node: the nearest user frame outward */
	/* While one function is judged, of its callers: */
	uint32_t judging;    /* its number, different each time */
	uint32_t *seen;      /* by frame: the last one that it is a caller of */
	uint32_t *seen_fn;   /* by function: the same */
	struct asked *asked; /* by frame */
};

/* One number a function: strings are one a text in the profile's pool. */
static bool number_functions(struct finder *w)
{
	const struct profile *p = w->p;
	struct hash_index index = {0};
	bool fits = hash_index_reserve(&index, p->stacks.frame_count) == 0;
	for (uint32_t i = 0; i < p->stacks.frame_count && fits; i++) {
		const struct profile_frame *f = &p->stacks.frames[i];
		uint32_t hash = hash_number((uintptr_t)f->function ^ (uint64_t)f->module << 44);
		uint32_t at = hash, id;
		while ((id = hash_index_step(&index, hash, &at)) != HASH_NONE)
			if (w->functions[id].name == f->function &&
			    w->functions[id].module == f->module)
				break;
		if (id == HASH_NONE) {
			id = w->function_count++;
			w->functions[id] = (struct function){.name = f->function,
							     .module = f->module,
							     .code_bytes = f->code_bytes,
							     .only_caller = NOT_SEEN};
			hash_index_add_at(&index, hash, at, id);
		}
		w->of_frame[i] = id;
		w->functions[id].kept |= f->kept;
		w->functions[id].runtime |= !f->user;
	}
	hash_index_fini(&index);
	return fits;
}

static uint32_t function_at(const struct finder *w, uint32_t node)
{
	return w->of_frame[w->p->stacks.nodes[node].frame];
}

static uint8_t kind_of(const struct finder *w, uint32_t node)
{
	struct function *f = &w->functions[function_at(w, node)];
	if (!f->judged) {
		f->judged = true;
		f->kind = (uint8_t)wrapper_name_of(
			f->name, w->p->stacks.frames[w->p->stacks.nodes[node].frame].file != NULL);
	}
	return f->kind;
}

/* The user frame that called this function, beyond its own recursion; PROFILE_NONE: none near. */
static uint32_t caller_of(const struct finder *w, uint32_t node)
{
	const struct profile *p = w->p;
	uint32_t f = function_at(w, node);
	node = p->stacks.nodes[node].parent;
	for (int i = 0; i < LONGEST_WALK && node != PROFILE_NONE;
	     i++, node = p->stacks.nodes[node].parent)
		if (p->stacks.frames[p->stacks.nodes[node].frame].user && function_at(w, node) != f)
			return node;
	return PROFILE_NONE;
}

/* Counts, for each function, sites that it stands above of but does not name. With `past_helpers`,
 * those of helpers that only it calls do not count. */
static void look_above(struct finder *w, bool past_helpers)
{
	const struct profile *p = w->p;
	for (uint32_t i = 0; i < w->function_count; i++)
		w->functions[i].deep = 0;
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t node = w->first[i], of = node == PROFILE_NONE ? 0 : function_at(w, node);
		bool helpers = past_helpers;
		for (int k = 0; k < HELPERS - 1 && node != PROFILE_NONE; k++) {
			const struct function *f = &w->functions[function_at(w, node)];
			node = caller_of(w, node);
			if (node == PROFILE_NONE)
				break;
			uint32_t g = function_at(w, node);
			helpers = helpers && f->only_caller == (int64_t)g;
			if (g != of && !helpers)
				w->functions[g].deep++;
		}
	}
}

/* Puts sites of one function together, by the nodes in named[]. */
static void group_sites(struct finder *w)
{
	const struct profile *p = w->p;
	uint32_t at = 0;
	for (uint32_t i = 0; i < w->function_count; i++)
		w->functions[i].count = 0;
	for (uint32_t i = 0; i < p->site_count; i++)
		if (w->named[i] != PROFILE_NONE)
			w->functions[function_at(w, w->named[i])].count++;
	for (uint32_t i = 0; i < w->function_count; i++) {
		w->functions[i].first = at;
		at += w->functions[i].count;
		w->functions[i].count = 0;
	}
	for (uint32_t i = 0; i < p->site_count; i++)
		if (w->named[i] != PROFILE_NONE) {
			struct function *f = &w->functions[function_at(w, w->named[i])];
			w->list[f->first + f->count++] = i;
		}
}

/* ---- judging */

struct evidence {
	uint32_t caller_places, caller_functions, places;
	uint32_t beyond;   /* functions that call its callers, up to two: enough to be many */
	uint32_t sized;    /* callers whose sizes are known */
	uint32_t constant; /* of them, those that ask for one size */
	uint32_t even;     /* of those, sizes that structures have */
	uint32_t sizes;    /* different ones */
	double size;       /* if it is one */
};

/* Adds a site's bytes and blocks, as far as the profile tells. How many blocks the mean is of decides
 * what it says: one sample of a site that made thousands is still one. */
static void add_asked(struct asked *to, const struct profile *p, uint32_t site)
{
	const struct profile_site *s = &p->sites[site];
	double blocks, bytes;
	if (s->allocations && s->allocated_bytes) {
		bytes = (double)s->allocated_bytes;
		blocks = (double)s->allocations;
	} else if (s->reallocations) {
		bytes = (double)s->reallocated_bytes;
		blocks = (double)s->reallocations;
	} else if (s->peak_blocks) {
		bytes = (double)s->peak_bytes;
		blocks = (double)s->peak_blocks;
	} else {
		bytes = (double)s->live_bytes;
		blocks = (double)s->live_blocks;
	}
	/* A resized block's sizes are the program's data: never whole, never one size. */
	to->bytes += bytes + (s->reallocations ? 0.37 * blocks : 0);
	to->blocks += blocks;
	to->sites++;
	to->looks += p->estimates.spreads ? (double)p->estimates.spreads[site].samples : blocks;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static bool is_same_size(double a, double b)
{
	return fabs(a - b) <= 0.002 * fabs(a) + 0.01;
}

/* Where in the function it allocates: on which line, or at which address. */
static uint64_t place_of(const struct profile *p, uint32_t node)
{
	const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[node].frame];
	if (f->line)
		return (uint64_t)1 << 63 | f->line;
	return p->stacks.nodes[node].address;
}

static void gather(struct finder *w, uint32_t function, struct evidence *e)
{
	const struct profile *p = w->p;
	const struct function *f = &w->functions[function];
	uint32_t callers[MOST_CALLERS];
	uint64_t places[MOST_PLACES];
	double means[MOST_CALLERS];
	uint32_t beyond = PROFILE_NONE;
	*e = (struct evidence){0};
	w->judging++;
	for (uint32_t i = 0; i < f->count && e->caller_places < MOST_CALLERS; i++) {
		uint32_t site = w->list[f->first + i], node = w->named[site], k = 0;
		uint64_t place = place_of(p, node);
		while (k < e->places && places[k] != place)
			k++;
		if (k == e->places && k < MOST_PLACES)
			places[e->places++] = place;
		uint32_t caller = caller_of(w, node);
		if (caller == PROFILE_NONE)
			continue;
		uint32_t frame = p->stacks.nodes[caller].frame;
		if (w->seen_fn[w->of_frame[frame]] != w->judging) {
			w->seen_fn[w->of_frame[frame]] = w->judging;
			e->caller_functions++;
		}
		if (w->seen[frame] != w->judging) {
			w->seen[frame] = w->judging;
			w->asked[frame] = (struct asked){0};
			callers[e->caller_places++] = frame;
		}
		add_asked(&w->asked[frame], p, site);
		if (e->beyond < 2 && (caller = caller_of(w, caller)) != PROFILE_NONE) {
			e->beyond += !e->beyond || function_at(w, caller) != beyond;
			beyond = function_at(w, caller);
		}
	}
	for (uint32_t i = 0; i < e->caller_places; i++) {
		const struct asked *a = &w->asked[callers[i]];
		if (a->blocks <= 0)
			continue;
		double mean = a->bytes / a->blocks;
		/* Estimates are rounded to whole blocks and bytes, for each site. */
		double off = !p->run.rate_bytes
				     ? 0
				     : 0.001 * mean + sqrt(a->sites) * (mean + 1) / a->blocks;
		if (off > ROUGHEST)
			continue;
		bool whole = fabs(mean - round(mean)) < 0.001 + off;
		bool even = fabs(mean - 8 * round(mean / 8)) < 0.001 + off / 2;
		means[e->sized++] = mean;
		/* The size of a single block is always whole: then it must look like a structure's. */
		e->constant += whole && (a->looks > 1 || even);
		e->even += even;
	}
	if (!e->sized)
		return;
	qsort(means, e->sized, sizeof *means, by_size);
	e->sizes = 1;
	e->size = means[0];
	for (uint32_t i = 1; i < e->sized; i++)
		e->sizes += !is_same_size(means[i], means[i - 1]);
}

/* Callers decide the sizes: each has its own, most of them always the same. */
static bool sizes_are_callers(const struct evidence *e)
{
	return e->sizes >= 3 && 4 * e->constant >= 3 * e->sized && 2 * e->even >= e->sized;
}

static bool is_wrapper(const struct function *f, const struct evidence *e)
{
	bool one_size = e->sized > 1 && e->sizes == 1;
	switch ((enum wrapper_name)f->kind) {
	case WRAPPER_NAME_OPERATOR: return true;
	case WRAPPER_NAME_MALLOC:
		/* Called through a pointer, it has one caller but serves many. */
		return e->caller_places >= 2 || e->beyond >= 2;
	case WRAPPER_NAME_LIKELY:
		return e->caller_places >= 2 && e->places <= 4 && f->deep <= f->count &&
		       (!one_size || e->size >= CHUNK_BYTES);
	case WRAPPER_NAME_HINT:
		return e->caller_places >= 2 && e->places <= 2 && 2 * f->deep <= f->count &&
		       !one_size;
	case WRAPPER_NAME_NONE:
		if (e->caller_functions >= 6 && e->places <= 3 && 4 * f->deep <= f->count &&
		    2 * e->sizes >= e->sized)
			return true;
		/* Too small to do more than pass the size on. */
		if (f->code_bytes && f->code_bytes <= THIN_BYTES && e->caller_functions >= 2 &&
		    e->places <= 2 && !f->deep && e->sizes > 1)
			return true;
		/* fallthrough */
	case WRAPPER_NAME_PLAIN:
		/* Called from everywhere, it says as little as malloc does. */
		if (e->caller_functions >= 8 && e->places <= 1 && !f->deep &&
		    4 * e->sizes >= 3 * e->sized)
			return true;
		return e->caller_functions >= 3 && e->places <= 2 && 4 * f->deep <= f->count &&
		       sizes_are_callers(e);
	case WRAPPER_NAME_OBJECT: return false;
	}
	return false;
}

/* Could it ever be one? Saves most functions the closer look. */
static bool is_candidate(struct finder *w, struct function *f)
{
	if (!f->count || !f->changed || f->wrapper || f->kept || f->runtime)
		return false;
	f->changed = false;
	uint8_t kind = kind_of(w, w->named[w->list[f->first]]);
	return kind != WRAPPER_NAME_OBJECT && (f->count > 1 || kind == WRAPPER_NAME_OPERATOR);
}

/* Judges the functions that name sites, or those to which they were passed on. True: wrappers were
 * found. */
static bool judge(struct finder *w, bool past_helpers)
{
	bool any = false;
	for (uint32_t i = 0; i < w->function_count; i++) {
		struct function *f = &w->functions[i];
		struct evidence e;
		if ((past_helpers && !f->has_helpers) || !is_candidate(w, f))
			continue;
		gather(w, i, &e);
		any |= f->wrapper = is_wrapper(f, &e);
	}
	return any;
}

/* Names sites by the caller of functions that only one function calls, if that one's name says that
 * it allocates, which is what it has them for; or if neither has a name, and the helper is small. */
static void pass_helpers(struct finder *w)
{
	const struct profile *p = w->p;
	for (uint32_t i = 0; i < w->function_count; i++) {
		w->functions[i].only_caller = NOT_SEEN;
		w->functions[i].has_helpers = false;
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		if (w->named[i] == PROFILE_NONE)
			continue;
		uint32_t node = w->named[i];
		for (int k = 0; k < HELPERS && node != PROFILE_NONE; k++) {
			struct function *f = &w->functions[function_at(w, node)];
			node = caller_of(w, node);
			int64_t caller = node == PROFILE_NONE ? MANY
							      : (int64_t)function_at(w, node);
			f->only_caller = f->only_caller == NOT_SEEN || f->only_caller == caller
						 ? caller
						 : MANY;
		}
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t node = w->named[i];
		for (int k = 0; k < HELPERS && node != PROFILE_NONE; k++) {
			const struct function *f = &w->functions[function_at(w, node)];
			if (f->only_caller < 0 || f->kept)
				break;
			node = caller_of(w, node);
			struct function *g = &w->functions[f->only_caller];
			uint8_t kind = kind_of(w, node);
			bool thin = f->kind == WRAPPER_NAME_NONE && f->code_bytes &&
				    f->code_bytes <= THIN_BYTES;
			if (kind >= WRAPPER_NAME_LIKELY || (thin && kind == WRAPPER_NAME_NONE)) {
				w->named[i] = node;
				g->has_helpers = g->changed = true;
				break;
			}
		}
	}
}

/* After pass_helpers and judge: what lies between a wrapper and the allocation goes with it. */
static void fold_helpers(struct finder *w)
{
	const struct profile *p = w->p;
	for (uint32_t i = 0; i < p->site_count; i++) {
		if (w->named[i] == PROFILE_NONE ||
		    !w->functions[function_at(w, w->named[i])].wrapper)
			continue;
		for (uint32_t n = w->first[i]; n != PROFILE_NONE && n != w->named[i];
		     n = caller_of(w, n))
			w->functions[function_at(w, n)].wrapper = true;
	}
}

/* my_calloc with one caller, beside my_malloc that is known to be a wrapper. */
static bool judge_siblings(struct finder *w)
{
	uint32_t known[MOST_SIBLINGS], count = 0;
	bool any = false;
	for (uint32_t i = 0; i < w->function_count && count < MOST_SIBLINGS; i++)
		if (w->functions[i].wrapper && w->functions[i].kind >= WRAPPER_NAME_LIKELY)
			known[count++] = i;
	for (uint32_t i = 0; count && i < w->function_count; i++) {
		struct function *f = &w->functions[i];
		if (!f->count || f->wrapper || f->kept || f->runtime ||
		    f->kind != WRAPPER_NAME_MALLOC)
			continue;
		size_t stem = strcspn(f->name, "(<");
		while (stem && f->name[stem - 1] != '_' && f->name[stem - 1] != ':')
			stem--;
		for (uint32_t k = 0; k < count && stem > 1 && !f->wrapper; k++) {
			const struct function *g = &w->functions[known[k]];
			f->wrapper = g->module == f->module && strncmp(g->name, f->name, stem) == 0;
		}
		any |= f->wrapper;
	}
	return any;
}

static void fold(struct finder *w)
{
	struct profile *p = w->p;
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		if (p->stacks.frames[i].user && w->functions[w->of_frame[i]].wrapper) {
			p->stacks.frames[i].user = false;
			p->stacks.frames[i].wrapper = true;
		}
}

static void name_sites(struct finder *w)
{
	const struct profile *p = w->p;
	/* For all nodes at once: stacks may be as deep as there are sites. */
	for (uint32_t i = 0; i < p->stacks.node_count; i++) {
		const struct profile_node *n = &p->stacks.nodes[i];
		w->user[i] = p->stacks.frames[n->frame].user ? i
			     : n->parent < i                 ? w->user[n->parent]
							     : PROFILE_NONE;
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		uint32_t node = w->first[i] == PROFILE_NONE ? PROFILE_NONE : w->user[w->first[i]];
		if (node != w->first[i] && node != PROFILE_NONE)
			w->functions[function_at(w, node)].changed = true;
		w->first[i] = w->named[i] = node;
	}
	group_sites(w);
	look_above(w, false);
}

static void find(struct finder *w)
{
	const struct profile *p = w->p;
	for (uint32_t i = 0; i < p->site_count; i++)
		w->first[i] = p->sites[i].node < p->stacks.node_count ? p->sites[i].node
								      : PROFILE_NONE;
	for (uint32_t i = 0; i < w->function_count; i++)
		w->functions[i].changed = true;
	for (int round = 0; round < ROUNDS; round++) {
		name_sites(w);
		bool any = judge(w, false) || judge_siblings(w);
		if (!any) {
			pass_helpers(w);
			group_sites(w);
			look_above(w, true);
			any = judge(w, true);
			if (any)
				fold_helpers(w);
		}
		if (!any)
			return;
		fold(w);
	}
}

void wrapper_frames_find(struct profile *p)
{
	struct finder w = {.p = p};
	size_t frames = (size_t)p->stacks.frame_count + 1, sites = (size_t)p->site_count + 1;
	if (p->stacks.lender || !p->site_count)
		return;
	w.of_frame = malloc(frames * sizeof *w.of_frame);
	w.functions = malloc(frames * sizeof *w.functions);
	w.list = malloc(sites * sizeof *w.list);
	w.first = malloc(sites * sizeof *w.first);
	w.named = malloc(sites * sizeof *w.named);
	w.seen = calloc(frames, sizeof *w.seen);
	w.seen_fn = calloc(frames, sizeof *w.seen_fn);
	w.asked = malloc(frames * sizeof *w.asked);
	w.user = malloc(((size_t)p->stacks.node_count + 1) * sizeof *w.user);
	if (w.user && w.of_frame && w.functions && w.list && w.first && w.named && w.seen &&
	    w.seen_fn && w.asked && number_functions(&w))
		find(&w);
	free(w.of_frame);
	free(w.functions);
	free(w.list);
	free(w.first);
	free(w.named);
	free(w.seen);
	free(w.seen_fn);
	free(w.asked);
	free(w.user);
}
