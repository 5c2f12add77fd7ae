/* Keys of call stacks that survive a rebuild (stack_key.h).
 *
 * A path is a node of a tree that all profiles share: (caller's path, function, line). The nodes of a
 * profile come after their callers, so each is one step from its parent's path: the work is one look-up
 * a node, not one for every frame of every stack.
 *
 * - A function's name goes with its module's: the base name up to ".so", so that a library's version
 *   does not matter. The program itself has no module name: it may be called something else today.
 * - A function that is already in the path takes the place of its first occurrence, and what was
 *   between is cut: a recursion of any depth gives the same path.
 * - A function without a name is represented by its module, because addresses change with a rebuild.
 *   Such frames are cut only next to each other, because they may be different functions.
 *
 * Invariant: a path's caller has a smaller id; id 0 is the empty path. */
#include "profile/stack_key.h"

#include "hosted/compare.h"
#include "hosted/hash_index.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

enum {
	LONGEST_SEARCH =
		512, /* frames searched for an earlier occurrence: a hostile file's stacks are long */
	LONGEST_NAME = 2048,
};

struct path {
	uint32_t parent, name, line;
};

struct path_name {
	const char *text; /* in the pool */
	bool nameless;
	bool seen[2]; /* by side */
};

struct stack_keys {
	struct name_pool *pool;
	struct path *paths;
	struct path_name *names;
	uint32_t path_count, path_capacity, name_count, name_capacity;
	struct hash_index path_ids, name_ids;
};

struct stack_keys *stack_keys_new(void)
{
	struct stack_keys *k = calloc(1, sizeof *k);
	if (!k)
		return NULL;
	k->pool = name_pool_new();
	if (!k->pool || !array_reserve(k->paths, 0, k->path_capacity, 1)) {
		stack_keys_free(k);
		return NULL;
	}
	k->paths[k->path_count++] = (struct path){0}; /* the empty one, never in the table */
	return k;
}

void stack_keys_free(struct stack_keys *k)
{
	if (!k)
		return;
	free(k->paths);
	free(k->names);
	hash_index_fini(&k->path_ids);
	hash_index_fini(&k->name_ids);
	name_pool_free(k->pool);
	free(k);
}

static int find_path(struct stack_keys *k, uint32_t parent, uint32_t name, uint32_t line,
		     uint32_t *id)
{
	uint32_t hash = hash_number(hash_mix(hash_mix(0, (uint64_t)parent << 32 | name), line));
	uint32_t at = hash;
	while ((*id = hash_index_step(&k->path_ids, hash, &at)) != HASH_NONE) {
		const struct path *p = &k->paths[*id];
		if (p->parent == parent && p->name == name && p->line == line)
			return 0;
	}
	if (!array_reserve(k->paths, k->path_count, k->path_capacity, 1) ||
	    hash_index_add_at(&k->path_ids, hash, at, k->path_count) < 0)
		return HEFT_ENOMEM;
	*id = k->path_count++;
	k->paths[*id] = (struct path){parent, name, line};
	return 0;
}

/* The path one call further in. */
static int step(struct stack_keys *k, uint32_t path, uint32_t name, uint32_t line, uint32_t *id)
{
	unsigned limit = k->names[name].nameless ? 1 : LONGEST_SEARCH;
	uint32_t from = path;
	for (uint32_t at = path; at && limit; at = k->paths[at].parent, limit--)
		if (k->paths[at].name == name) {
			from = k->paths[at].parent;
			break;
		}
	return find_path(k, from, name, line, id);
}

/* ---- names */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash && slash[1] ? slash + 1 : path;
}

/* "libfoo.so.1.2.3" up to ".so"; "" for the program itself. */
static const char *module_part(const struct profile *p, uint32_t module, size_t *length)
{
	*length = 0;
	if (module >= p->stacks.module_count)
		return "";
	const char *path = p->stacks.modules[module].path;
	const char *program = p->process_count ? p->processes[0].exe
			      : p->run.argc    ? p->run.argv[0]
					       : NULL;
	const char *name = base_name(path), *end = strstr(name, ".so.");
	if (program && strcmp(base_name(program), name) == 0)
		return "";
	*length = end ? (size_t)(end + 3 - name) : strlen(name);
	return name;
}

/* Rust's legacy names end with a hash of the compiler's session: "::h0123456789abcdef". */
static size_t function_length(const char *function)
{
	enum { HASH = 19 };
	size_t length = strlen(function);
	if (length <= HASH || strncmp(function + length - HASH, "::h", 3) != 0 ||
	    strspn(function + length - 16, "0123456789abcdef") != 16)
		return length;
	return length - HASH;
}

static int name_of_frame(struct stack_keys *k, const struct profile *p,
			 const struct profile_frame *f, uint32_t *id)
{
	char text[LONGEST_NAME];
	size_t module_length, length = function_length(f->function);
	const char *module = module_part(p, f->module, &module_length);
	bool nameless = !f->file && strstr(f->function, "+0x");
	if (nameless)
		length = 0;
	if (module_length > LONGEST_NAME / 2)
		module_length = LONGEST_NAME / 2;
	if (length > LONGEST_NAME - module_length - 1)
		length = LONGEST_NAME - module_length - 1;
	memcpy(text, f->function, length);
	text[length] = '\n'; /* in no name: function and module cannot run into each other */
	memcpy(text + length + 1, module, module_length);
	const char *kept = name_pool_add_n(k->pool, text, length + 1 + module_length);
	if (!kept)
		return HEFT_ENOMEM;
	uint32_t hash = hash_pointer(kept), at = hash;
	while ((*id = hash_index_step(&k->name_ids, hash, &at)) != HASH_NONE)
		if (k->names[*id].text == kept)
			return 0;
	if (!array_reserve(k->names, k->name_count, k->name_capacity, 1) ||
	    hash_index_add_at(&k->name_ids, hash, at, k->name_count) < 0)
		return HEFT_ENOMEM;
	*id = k->name_count++;
	k->names[*id] = (struct path_name){.text = kept, .nameless = nameless};
	return 0;
}

/* Name ids by frame; free() it. NULL: no memory. */
static uint32_t *frame_names(struct stack_keys *k, const struct profile *p, unsigned side)
{
	uint32_t *names = malloc(((size_t)p->stacks.frame_count + 1) * sizeof *names);
	for (uint32_t i = 0; names && i < p->stacks.frame_count; i++) {
		if (name_of_frame(k, p, &p->stacks.frames[i], &names[i]) < 0) {
			free(names);
			return NULL;
		}
		k->names[names[i]].seen[side] = true;
	}
	return names;
}

/* Whether a function is a wrapper depends on what else the recording has; its key may not. */
static bool in_path(const struct profile_frame *f)
{
	return f->user || f->wrapper;
}

int stack_keys_add(struct stack_keys *k, const struct profile *p, unsigned side,
		   struct stack_key *keys)
{
	static const struct stack_key empty = {0, 0, 0};
	uint32_t *names = frame_names(k, p, side);
	int rc = names ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < p->stacks.node_count; i++) {
		const struct profile_node *n = &p->stacks.nodes[i];
		const struct profile_frame *f = &p->stacks.frames[n->frame];
		const struct stack_key *from = n->parent == PROFILE_NONE ? &empty
									 : &keys[n->parent];
		uint32_t name = names[n->frame];
		keys[i].user = from->user;
		rc = step(k, from->whole, name, 0, &keys[i].whole);
		if (rc == 0)
			rc = step(k, from->lines, name, f->line, &keys[i].lines);
		if (rc == 0 && in_path(f))
			rc = step(k, from->user, name, 0, &keys[i].user);
	}
	free(names);
	return rc;
}

int stack_keys_without(struct stack_keys *k, const struct profile *p, unsigned side,
		       uint32_t *paths)
{
	uint32_t *names = frame_names(k, p, side);
	int rc = names ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < p->stacks.node_count; i++) {
		const struct profile_node *n = &p->stacks.nodes[i];
		const struct profile_frame *f = &p->stacks.frames[n->frame];
		uint32_t from = n->parent == PROFILE_NONE ? 0 : paths[n->parent];
		bool known = k->names[names[n->frame]].seen[!side];
		bool inner = n->parent != PROFILE_NONE &&
			     profile_node_frame(p, n->parent)->module == f->module;
		paths[i] = from;
		if (in_path(f) && (known || !inner))
			rc = step(k, from, names[n->frame], 0, &paths[i]);
	}
	free(names);
	return rc;
}

uint32_t stack_keys_caller(const struct stack_keys *k, uint32_t path, struct stack_key_name *name)
{
	const char *text = k->names[k->paths[path].name].text;
	const char *end = strrchr(text, '\n');
	*name = (struct stack_key_name){text, (size_t)(end - text), end + 1};
	return k->paths[path].parent;
}

int stack_keys_compare_lines(const struct stack_keys *k, uint32_t a, uint32_t b)
{
	int order = 0;
	while (a != b && a && b) {
		const struct path *x = &k->paths[a], *y = &k->paths[b];
		order = compare_numbers(x->line, y->line) ?: order;
		a = x->parent;
		b = y->parent;
	}
	return order;
}
