/* Names as people write them. libiberty knows C++, both Rust manglings and D; we
 * ask for parameters (overloads must stay apart) but not for return types, so
 * that `ns::f(int)` reads like its declaration, and Rust's hash goes.
 *
 * A mangled name is hostile: libiberty's own recursion limit stays on, and
 * names longer than any compiler makes are not tried. */
#include "symbol/symbol_sources.h"

#include <libiberty/demangle.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_MANGLED = 16 * 1024, LONGEST_NAME = 64 * 1024 };

/* gcc splits and specialises functions into clones: f.constprop.0, f.part.1.cold are still f. */
static size_t without_clone(const char *name, size_t length)
{
	static const char *const marks[] = {".constprop.", ".isra.", ".part.", ".cold",
					    ".lto_priv."};
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		const char *at = strstr(name, marks[i]);
		if (at && at > name && (size_t)(at - name) < length)
			length = (size_t)(at - name);
	}
	return length;
}

/* Rust's older mangling looks like C++ but ends with a hash: 17h, 16 digits, E. */
static bool has_rust_hash(const char *name, size_t length)
{
	for (const char *at = name; (at = strstr(at, "17h")); at++)
		if ((size_t)(at - name) + 20 <= length && at[19] == 'E')
			return true;
	return false;
}

const char *symbol_demangle(struct name_pool *pool, const char *name)
{
	size_t length = strlen(name);
	const char *version = length > 1 ? strchr(name + 1, '@') : NULL;
	if (version) { /* a symbol version: open@@GLIBC_2.2.5 */
		name = name_pool_add_n(pool, name, (size_t)(version - name));
		if (!name)
			return NULL;
		length = strlen(name);
	}
	/* Everything mangled begins with _Z or _R; macho-like __Z too; D's with _D and the length
	 * of a name. The rest is taken as it is: libiberty would also try Ada, and mistake C names
	 * for it. */
	bool is_d = name[0] == '_' && name[1] == 'D' &&
		    ((name[2] >= '1' && name[2] <= '9') || strcmp(name, "_Dmain") == 0);
	bool mangled =
		is_d || (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == '_'));
	if (length > LONGEST_NAME)
		length = LONGEST_NAME;
	if (!mangled)
		length = without_clone(name, length);
	if (!mangled || length > LONGEST_MANGLED)
		return name_pool_add_n(pool, name, length);

	const int options = DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP;
	char *plain = NULL;
	if (is_d)
		plain = cplus_demangle(name, options | DMGL_DLANG);
	else if (name[1] == 'R')
		plain = cplus_demangle(name, options | DMGL_RUST);
	else if (has_rust_hash(name, length))
		plain = cplus_demangle(name, options | DMGL_AUTO);
	else
		plain = cplus_demangle(name, options | DMGL_GNU_V3);
	if (!plain)
		return name_pool_add_n(pool, name, length);
	size_t plain_length = strnlen(plain, LONGEST_NAME);
	const char *clone = strstr(plain, " [clone ");
	if (clone)
		plain_length = (size_t)(clone - plain);
	const char *kept = name_pool_add_n(pool, plain, plain_length);
	free(plain);
	return kept;
}

void name_cache_init(struct name_cache *c, struct name_pool *pool)
{
	memset(c, 0, sizeof *c);
	c->pool = pool;
}

void name_cache_fini(struct name_cache *c)
{
	free(c->table);
	memset(c, 0, sizeof *c);
}

static size_t slot_of(const struct name_cache *c, const char *mangled)
{
	uint64_t h = (uint64_t)(uintptr_t)mangled * 0x9e3779b97f4a7c15u;
	size_t at = (size_t)(h >> 32) & c->mask;
	while (c->table[at].mangled && c->table[at].mangled != mangled)
		at = (at + 1) & c->mask;
	return at;
}

static bool grow(struct name_cache *c)
{
	struct name_cache bigger = *c;
	bigger.mask = c->table ? c->mask * 2 + 1 : 127;
	bigger.table = calloc(bigger.mask + 1, sizeof *bigger.table);
	if (!bigger.table)
		return false;
	for (size_t i = 0; c->table && i <= c->mask; i++)
		if (c->table[i].mangled)
			bigger.table[slot_of(&bigger, c->table[i].mangled)] = c->table[i];
	free(c->table);
	*c = bigger;
	return true;
}

const char *name_cache_get(struct name_cache *c, const char *mangled)
{
	if ((!c->table || c->used * 2 >= c->mask) && !grow(c))
		return NULL;
	size_t at = slot_of(c, mangled);
	if (!c->table[at].mangled) {
		const char *name = symbol_demangle(c->pool, mangled);
		if (!name)
			return NULL;
		c->table[at].mangled = mangled;
		c->table[at].name = name;
		c->used++;
	}
	return c->table[at].name;
}
