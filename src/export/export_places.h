/* Inside src/export: stacks as pprof and heaptrack have them. A place in the code is one entry that
 * also names what was inlined there; a stack is a row of places; strings are in a table. */
#ifndef HEFT_EXPORT_EXPORT_PLACES_H
#define HEFT_EXPORT_EXPORT_PLACES_H

#include "export/pair_index.h"
#include "profile/profile.h"

struct export_places {
	const struct profile *p;
	/* A place is pairs[i]: its innermost frame, and the place that this is inlined into
	 * (PROFILE_NONE: it is a function of its own). */
	struct pair_index index;
	uint32_t *number; /* by place: from 1 in the order of first use; 0: in no stack of a site */
	uint32_t *in_order; /* places by number - 1 */
	uint64_t *address;  /* by place: of the instruction */
	uint32_t used;
	uint32_t *place;  /* by node: what begins there */
	uint32_t *caller; /* by node: the node of the next place outwards, or PROFILE_NONE */
	bool *starts;     /* by node: a place of a site's stack begins here */
};

int export_places_init(struct export_places *x, const struct profile *p); /* 0 or HEFT_ENOMEM */
void export_places_fini(struct export_places *x);
/* The place of the function that a place physically is in, around what was inlined. */
uint32_t export_place_outermost(const struct export_places *x, uint32_t place);

/* The module that is the program itself, or PROFILE_NONE. */
uint32_t export_main_module(const struct profile *p);

/* Strings in the order of first use, made fit to show (name_words.h). */
struct string_table {
	char **strings; /* the first one is "" */
	uint32_t count, capacity;
	struct hash_index index;
	char *clean; /* being made */
	size_t clean_capacity;
};
int string_table_init(struct string_table *t); /* 0 or HEFT_ENOMEM */
void string_table_fini(struct string_table *t);
/* NULL is "". 0 or HEFT_ENOMEM. */
int string_table_find(struct string_table *t, const char *s, uint32_t *number);

/* Every argument after the other with spaces between; NULL: no memory, else free() it. */
char *export_command(const struct profile *p);

/* "0x401136: f (a.c:3)" or "0x401136: f (in /x/a)", as Valgrind writes it, with names that are not made
 * harmless. NULL: no memory, else free() it. */
char *export_valgrind_frame(const struct profile *p, const struct profile_frame *f);

/* Bytes allocated at a site as DHAT and heaptrack count: a realloc is an allocation of its new size. */
uint64_t export_foreign_bytes(const struct profile_site *site);

#endif
