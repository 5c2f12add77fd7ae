/* What of a call stack survives a rebuild: the names of functions and modules, without addresses,
 * folders and line numbers. One set of keys serves several profiles, so that equal stacks have equal
 * ids. */
#ifndef HEFT_PROFILE_STACK_KEY_H
#define HEFT_PROFILE_STACK_KEY_H

#include "profile/profile.h"

/* Ids of paths, the same number for the same path whatever profile it came from; 0: empty. */
struct stack_key {
	uint32_t whole; /* every function once, outermost first; recursion is cut out */
	uint32_t user;  /* the same for user frames alone */
	uint32_t lines; /* as whole, but lines count too */
};

struct stack_keys;
struct stack_keys *stack_keys_new(void); /* NULL: no memory */
void stack_keys_free(struct stack_keys *k);

/* Fills keys[0..p->node_count). `side` (0 or 1) says whose functions these are. 0 or HEFT_ENOMEM. */
int stack_keys_add(struct stack_keys *k, const struct profile *p, unsigned side,
		   struct stack_key *keys);
/* For each node: its user path without functions that the other side has nowhere and whose caller is in
 * the same module. That is what would be left of the stack if they had been inlined. Add both sides
 * before. */
int stack_keys_without(struct stack_keys *k, const struct profile *p, unsigned side,
		       uint32_t *paths);
/* The innermost function of a path, as keys have it: without what changes with a rebuild. Returns the path of its caller;
 * 0: nobody called it. */
struct stack_key_name {
	const char *function; /* not ended by a NUL; length 0: its name is not known */
	size_t length;
	const char *module; /* "": the program itself */
};
uint32_t stack_keys_caller(const struct stack_keys *k, uint32_t path, struct stack_key_name *name);
/* The order in which two paths of the same `whole` stand in the source, outermost call first. */
int stack_keys_compare_lines(const struct stack_keys *k, uint32_t a, uint32_t b);

#endif
