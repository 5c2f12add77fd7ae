/* Finds the allocators that a program has beside malloc (target_allocator.h): in its own
 * file, and in libraries. Any module may have one, so all symbols of all of them are
 * looked at, by the names in base/own_functions.h.
 *
 * A name alone proves little. An allocator is known if a module has functions of it that
 * give blocks and functions that take them. malloc and free themselves count as another
 * allocator only where the module keeps them to itself: what it exports is called by
 * nobody if another module comes first.
 *
 * The operators of C++ count where the module has an allocator: tcmalloc brings its own, which
 * do not call malloc. If they do call it, that is no harm: the outermost call counts. An
 * operator that throws needs its sibling that does not (own_hooks.c); a program that
 * replaces only the throwing one calls some malloc in it, and that is seen. */
#include "attach/target_allocator.h"

#include "attach/attach.h"
#include "base/own_functions.h"
#include "hosted/error.h"
#include "wire/via.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum family {
	FAMILY_JEMALLOC,
	FAMILY_MIMALLOC,
	FAMILY_TCMALLOC,
	FAMILY_SNMALLOC,
	FAMILY_RPMALLOC,
	FAMILY_TBB,
	FAMILY_PLAIN,
	FAMILY_NAMED, /* by the user */
	FAMILIES,     /* those above are allocators by themselves */
	FAMILY_OPERATORS,
	FAMILY_MORE_PLAIN,
};

static const char *const family_names[FAMILIES] = {
	[FAMILY_JEMALLOC] = "jemalloc", [FAMILY_MIMALLOC] = "mimalloc",
	[FAMILY_TCMALLOC] = "tcmalloc", [FAMILY_SNMALLOC] = "snmalloc",
	[FAMILY_RPMALLOC] = "rpmalloc", [FAMILY_TBB] = "TBB's allocator",
	[FAMILY_PLAIN] = "malloc",      [FAMILY_NAMED] = "--alloc-fn",
};

struct row {
	const char *name, *twin;
	uint8_t family, hook, size, count, old;
	uint8_t via; /* of those that have no number by their place */
};

#define FAMILY_ROW(family, name, hook, size, count, old, twin)                                     \
	{name, twin, FAMILY_##family, WIRE_BLOB_OWN_##hook, size, count, old, WIRE_VIA_FREE},
#define VIA_ROW(family, via, name, hook, size, count, old, twin)                                   \
	{name, twin, family, WIRE_BLOB_OWN_##hook, size, count, old, WIRE_VIA_##via},
#define OPERATOR_ROW(via, ...) VIA_ROW(FAMILY_OPERATORS, via, __VA_ARGS__)
#define PLAIN_ROW(via, ...) VIA_ROW(FAMILY_PLAIN, via, __VA_ARGS__)
#define MORE_PLAIN_ROW(via, ...) VIA_ROW(FAMILY_MORE_PLAIN, via, __VA_ARGS__)
/* The operators come before the other names that tcmalloc has for them. */
static const struct row rows[] = {HEFT_OWN_ALLOCATING(FAMILY_ROW) HEFT_OWN_FREEING(FAMILY_ROW)
					  HEFT_OWN_OPERATORS(OPERATOR_ROW) HEFT_OWN_PLAIN(PLAIN_ROW)
						  HEFT_OWN_MORE_PLAIN(MORE_PLAIN_ROW)};
enum { ROWS = sizeof rows / sizeof *rows };

/* size_t usable(void *block) */
static const struct usable {
	const char *name;
	uint8_t family;
} usables[] = {
	{"_rjem_malloc_usable_size", FAMILY_JEMALLOC}, {"je_malloc_usable_size", FAMILY_JEMALLOC},
	{"mi_usable_size", FAMILY_MIMALLOC},           {"mi_malloc_usable_size", FAMILY_MIMALLOC},
	{"tc_malloc_size", FAMILY_TCMALLOC},           {"sn_malloc_usable_size", FAMILY_SNMALLOC},
	{"rpmalloc_usable_size", FAMILY_RPMALLOC},     {"scalable_msize", FAMILY_TBB},
	{"malloc_usable_size", FAMILY_PLAIN},          {"malloc_usable_size", FAMILY_JEMALLOC},
};
enum { USABLES = sizeof usables / sizeof *usables, NAMES = ROWS + USABLES };

struct search {
	struct target_allocator *a;
	const struct target_modules *m;
	const struct target_named *named;
	size_t named_count;
	bool *named_found;
	/* Rows, usables, named: the names, and what one module has of them */
	const char **names;
	struct target_function *functions;
	size_t count;
};

static uint16_t via_of(size_t row)
{
	return (uint16_t)(row < HEFT_OWN_VIA_COUNT ? WIRE_VIA_OWN + row : rows[row].via);
}

/* ---- one module */

static bool is_of_system(const struct search *s, size_t module)
{
	return target_is_called(&s->m->items[module], "libc.") ||
	       target_is_called(&s->m->items[module], "ld-");
}

/* The families of the allocators that a module has: a bit for each. */
static unsigned families_of(const struct search *s, size_t module)
{
	unsigned takes = 0, gives = 0;
	bool libc = is_of_system(s, module);
	for (size_t i = 0; i < ROWS; i++) {
		const struct target_function *f = &s->functions[i];
		if (rows[i].family >= FAMILIES || !(f->address || f->refused))
			continue;
		/* Names that only the loader gives a meaning to: not here, not if they are exported. */
		if (rows[i].family == FAMILY_PLAIN &&
		    (libc || f->exported || module == s->a->module))
			continue;
		*(rows[i].hook == WIRE_BLOB_OWN_FREE ? &gives : &takes) |= 1u << rows[i].family;
	}
	return takes & gives;
}

static size_t allocator_of(struct search *s, size_t module, unsigned family)
{
	struct target_allocator *a = s->a;
	for (size_t i = 1; i < a->own_count; i++)
		if (a->own[i].module == module && a->own[i].name == family_names[family])
			return i;
	if (a->own_count == WIRE_BLOB_ALLOCATORS)
		return a->own_count - 1;
	struct target_own *own = &a->own[a->own_count];
	*own = (struct target_own){.module = module, .name = family_names[family]};
	for (size_t i = 0; i < USABLES && !own->usable; i++)
		if (usables[i].family == family)
			own->usable = s->functions[ROWS + i].address;
	return a->own_count++;
}

/* Of a function that was found by its name: the entry to hook. */
static struct target_entry entry_of(const struct search *s, size_t module, size_t row,
				    const struct target_function *f, size_t allocator)
{
	const struct row *r = &rows[row];
	struct target_entry e = {
		.function = *f,
		.module = module,
		.wire = {.usable = s->a->own[allocator].usable,
			 .hook = r->hook,
			 .via = via_of(row),
			 .size = r->size,
			 .count = r->count,
			 .old = r->old,
			 .allocator = (uint8_t)allocator},
	};
	if (f->refused)
		snprintf(e.refused, sizeof e.refused, "it %s", f->refused);
	return e;
}

static const struct target_function *find(const struct search *s, const char *name)
{
	for (size_t i = 0; i < ROWS; i++)
		if (!strcmp(rows[i].name, name))
			return &s->functions[i];
	return NULL;
}

static void add(struct search *s, size_t module, size_t row, size_t allocator)
{
	const struct row *r = &rows[row];
	const struct target_function *f = &s->functions[row];
	const struct target_function *twin = *r->twin ? find(s, r->twin) : NULL;
	struct target_entry e = entry_of(s, module, row, f, allocator);
	e.twin = twin ? twin->address : 0;
	if (!f->address && !f->refused)
		return;
	if (*r->twin && !e.twin) {
		/* An operator without a sibling is the program's own, and calls what is seen anyway. */
		if (r->family == FAMILY_OPERATORS)
			return;
		snprintf(e.refused, sizeof e.refused, "the file has no %s, which does not throw",
			 r->twin);
	}
	if (f->refused) /* says more than that it has no twin */
		snprintf(e.refused, sizeof e.refused, "it %s", f->refused);
	snprintf(e.name, sizeof e.name, "%s", r->name);
	target_allocator_add(s->a, &e);
}

/* ---- a jemalloc under a prefix of somebody's own (--with-jemalloc-prefix) */

enum { PREFIX_BYTES = 32, PREFIXED_BYTES = 64, PREFIXED_MOST = 24 };

/* It has the functions that one without a prefix has, and `via` has their names without it. */
static bool is_of_jemalloc(const struct row *r)
{
	return r->family == FAMILY_PLAIN || r->family == FAMILY_MORE_PLAIN ||
	       (r->family == FAMILY_JEMALLOC && r->name[0] != '_' && strncmp(r->name, "je_", 3));
}

static bool add_prefixed(struct search *s, size_t module, size_t *allocator)
{
	char prefix[PREFIX_BYTES], text[PREFIXED_MOST][PREFIXED_BYTES];
	const char *names[PREFIXED_MOST];
	struct target_function found[PREFIXED_MOST];
	size_t which[PREFIXED_MOST], count = 1;
	bool takes = false, gives = false;
	struct heft_error ignored;
	if (!target_prefix(s->m, module, "mallctlbymib", prefix, sizeof prefix))
		return false;
	snprintf(text[0], sizeof text[0], "%smalloc_usable_size", prefix);
	for (size_t i = 0; i < ROWS && count < PREFIXED_MOST; i++)
		if (is_of_jemalloc(&rows[i])) {
			snprintf(text[count], sizeof text[0], "%s%s", prefix, rows[i].name);
			which[count++] = i;
		}
	for (size_t i = 0; i < count; i++)
		names[i] = text[i];
	if (target_functions(s->m, module, names, found, count, &ignored))
		return false;
	for (size_t i = 1; i < count; i++)
		if (found[i].address)
			*(rows[which[i]].hook == WIRE_BLOB_OWN_FREE ? &gives : &takes) = true;
	if (!takes || !gives)
		return false;
	*allocator = allocator_of(s, module, FAMILY_JEMALLOC);
	s->a->own[*allocator].usable = found[0].address;
	for (size_t i = 1; i < count; i++) {
		struct target_entry e = entry_of(s, module, which[i], &found[i], *allocator);
		snprintf(e.name, sizeof e.name, "%s", names[i]);
		if (found[i].address || found[i].refused)
			target_allocator_add(s->a, &e);
	}
	return true;
}

static void add_named(struct search *s, size_t module)
{
	for (size_t i = 0; i < s->named_count; i++) {
		const struct target_named *n = &s->named[i];
		const struct target_function *f = &s->functions[NAMES + i];
		if (s->named_found[i] || !f->address)
			continue;
		size_t allocator = allocator_of(s, module, FAMILY_NAMED);
		struct target_entry e = {.function = *f,
					 .module = module,
					 .wire = {.hook = n->hook,
						  .via = n->via,
						  .size = n->size,
						  .count = n->count,
						  .old = n->old,
						  .allocator = (uint8_t)allocator}};
		snprintf(e.name, sizeof e.name, "%s", n->name);
		target_allocator_add(s->a, &e);
		s->named_found[i] = true;
	}
}

static void search_module(struct search *s, size_t module)
{
	struct heft_error ignored;
	if (target_functions(s->m, module, s->names, s->functions, s->count, &ignored))
		return;
	/* What somebody has named is what they say, whatever its name means elsewhere. */
	add_named(s, module);
	unsigned families = families_of(s, module);
	size_t allocator = 0; /* of the operators */
	bool prefixed = !(families & 1u << FAMILY_JEMALLOC) && !is_of_system(s, module) &&
			add_prefixed(s, module, &allocator);
	if (!families && !prefixed && module != s->a->module)
		return;
	for (unsigned i = 0; i < FAMILIES && !allocator && module != s->a->module; i++)
		if (families & 1u << i)
			allocator = allocator_of(s, module, i);
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].family == FAMILY_OPERATORS ||
		    (rows[i].family == FAMILY_MORE_PLAIN && module == s->a->module))
			add(s, module, i, allocator);
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].family < FAMILIES && families & 1u << rows[i].family)
			add(s, module, i, allocator_of(s, module, rows[i].family));
}

/* ---- all modules */

static int check_named(const struct search *s, struct heft_error *err)
{
	for (size_t i = 0; i < s->named_count; i++)
		if (!s->named_found[i])
			return heft_fail(err, HEFT_EREFUSED,
					 "process %d has no function %s that heft can find: it is "
					 "not there, or its file is stripped",
					 s->m->pid, s->named[i].name);
	return 0;
}

bool attach_knows_allocator(const char *allocator)
{
	for (unsigned i = 0; i < FAMILY_PLAIN; i++)
		if (!strcmp(family_names[i], allocator))
			return true;
	return false;
}

int target_own_find(struct target_allocator *a, const struct target_modules *m,
		    const struct target_named *named, size_t named_count, struct heft_error *err)
{
	struct search s = {.a = a,
			   .m = m,
			   .named = named,
			   .named_count = named_count,
			   .count = NAMES + named_count};
	int rc = 0;
	s.names = calloc(s.count, sizeof *s.names);
	s.functions = calloc(s.count, sizeof *s.functions);
	s.named_found = calloc(named_count + 1, sizeof *s.named_found);
	if (!s.names || !s.functions || !s.named_found) {
		rc = heft_fail(err, HEFT_ENOMEM, "out of memory");
		goto out;
	}
	for (size_t i = 0; i < ROWS; i++)
		s.names[i] = rows[i].name;
	for (size_t i = 0; i < USABLES; i++)
		s.names[ROWS + i] = usables[i].name;
	for (size_t i = 0; i < named_count; i++)
		s.names[NAMES + i] = named[i].name;
	for (size_t i = 0; i < m->count; i++)
		search_module(&s, i);
	rc = check_named(&s, err);
out:
	free(s.names);
	free(s.functions);
	free(s.named_found);
	return rc;
}
