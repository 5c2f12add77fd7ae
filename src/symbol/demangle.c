/* Demangles names. libiberty knows C++, both Rust manglings and D; we
 * ask for parameters (overloads must stay apart) but not for return types, so
 * that `ns::f(int)` reads like its declaration, and Rust's hash goes.
 *
 * Names in other tools' files may have been through a demangler of C++ that does not know Rust's older
 * mangling, which is built upon C++'s: the path is right, but what an identifier of C++ cannot hold is
 * still escaped, and the hash is its last part: "alloc::raw_vec::RawVec$LT$T$GT$::grow::h0123456789abcdef".
 * Only an escape or the hash shows that it is Rust.
 *
 * A mangled name is hostile: libiberty's own recursion limit stays on, and names longer than any compiler makes
 * are not tried. A part of a name may stand for an earlier part, so a name of 300 bytes can become one of
 * gigabytes: what comes out is taken piece by piece, and at LONGEST_NAME libiberty is left by a jump. (It takes no
 * memory on this way, but for an identifier in punycode.) */
#include "symbol/symbol_sources.h"

#include "hosted/hex.h"
#include "hosted/utf8.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_MANGLED = 16 * 1024, LONGEST_NAME = 16 * 1024 };
/* D's demangler cannot be left: each of its references may double the name. */
enum { LONGEST_D = 4096, MOST_D_REFERENCES = 10 };

/* gcc splits and specialises functions into clones: f.constprop.0, f.part.1.cold are still f. */
static size_t without_clone(const char *name, size_t length)
{
	static const char *const marks[] = {".constprop.", ".isra.",     ".part.",
					    ".cold",       ".lto_priv.", " [clone "};
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

/* The length of a name that was demangled as C++, without Rust's hash at its end. */
static size_t without_hash(const char *name, size_t length)
{
	enum { HASH = 19 /* "::h" and 16 digits */ };
	const char *suffix = strstr(name, ".llvm.");
	if (suffix && (size_t)(suffix - name) < length)
		length = (size_t)(suffix - name);
	if (length <= HASH)
		return length;
	const char *hash = name + length - HASH;
	return strncmp(hash, "::h", 3) == 0 && strspn(hash + 3, "0123456789abcdef") >= 16
		       ? length - HASH
		       : length;
}

/* Writes what the escape at *at stands for ("$LT$" is <), as UTF-8, and moves *at behind it. Returns the number of
 * bytes; 0: it is no escape. */
static size_t rust_escape(const char **at, const char *end, char out[4])
{
	static const struct {
		const char *name;
		char is;
	} escapes[] = {{"$SP$", '@'}, {"$BP$", '*'}, {"$RF$", '&'}, {"$LT$", '<'},
		       {"$GT$", '>'}, {"$LP$", '('}, {"$RP$", ')'}, {"$C$", ','}};
	for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
		size_t length = strlen(escapes[i].name);
		if ((size_t)(end - *at) >= length && strncmp(*at, escapes[i].name, length) == 0) {
			*at += length;
			out[0] = escapes[i].is;
			return 1;
		}
	}
	uint32_t letter = 0;
	size_t digits = end - *at > 2 && (*at)[0] == '$' && (*at)[1] == 'u'
				? strspn(*at + 2, "0123456789abcdef")
				: 0;
	if (!digits || digits > 6 || *at + 2 + digits >= end || (*at)[2 + digits] != '$')
		return 0;
	for (size_t i = 0; i < digits; i++)
		letter = letter << 4 | (uint32_t)hex_digit((*at)[2 + i]);
	if (letter < ' ' || letter == 0x7f || letter > 0x10ffff ||
	    (letter >= 0xd800 && letter < 0xe000))
		return 0;
	*at += digits + 3;
	return utf8_encode(letter, out);
}

/* Whether there is an escape that only Rust has: $C$ may also be a nested class of Java. */
static bool is_rust(const char *name, const char *end)
{
	char out[4];
	for (const char *at = name; (at = memchr(at, '$', (size_t)(end - at))); at++) {
		const char *moved = at;
		if (strncmp(at, "$LT$", 4) == 0 || (at[1] == 'u' && rust_escape(&moved, end, out)))
			return true;
	}
	return false;
}

/* Turns a Rust name that was demangled as C++ into the name as Rust has it; other names stay as they are. */
static const char *unescape_rust(struct name_pool *pool, const char *name, size_t length)
{
	size_t rest = without_hash(name, length), used = 0;
	const char *end = name + rest;
	if (rest == length && !is_rust(name, end))
		return name_pool_add_n(pool, name, length);
	char *plain = malloc(rest + 1); /* no escape is shorter than what it stands for */
	if (!plain)
		return NULL;
	for (const char *at = name; at < end;) {
		bool first = at == name || (at - name >= 2 && at[-1] == ':' && at[-2] == ':');
		size_t n = rust_escape(&at, end, plain + used);
		if (n) {
			used += n;
		} else if (first && *at == '_' && at + 1 < end && at[1] == '$') {
			at++; /* a part of a path may not begin with an escape */
		} else if (*at == '.' && at + 1 < end && at[1] == '.') {
			plain[used++] = ':';
			plain[used++] = ':';
			at += 2;
		} else {
			plain[used++] = *at++;
		}
	}
	const char *kept = name_pool_add_n(pool, plain, used);
	free(plain);
	return kept;
}

struct plain_name {
	jmp_buf too_long;
	char *text;
	size_t length;
};

static void add_piece(const char *piece, size_t length, void *opaque)
{
	struct plain_name *n = opaque;
	if (length > LONGEST_NAME - n->length)
		longjmp(n->too_long, 1);
	if (length) /* an empty piece may be NULL */
		memcpy(n->text + n->length, piece, length);
	n->length += length;
}

/* The name, to be freed; NULL: it is not mangled, or not understood, or too long. */
static char *demangle_bounded(const char *name, int options, bool rust, bool cxx)
{
	struct plain_name n = {.text = malloc(LONGEST_NAME + 1)};
	bool done = false;
	if (n.text && setjmp(n.too_long) == 0) {
		if (rust)
			done = rust_demangle_callback(name, options, add_piece, &n);
		if (!done && cxx) {
			n.length = 0;
			done = cplus_demangle_v3_callback(name, options, add_piece, &n);
		}
		if (done) {
			n.text[n.length] = 0;
			return n.text;
		}
	}
	free(n.text);
	return NULL;
}

static char *demangle_d(const char *name, size_t length, int options)
{
	unsigned references = 0;
	for (size_t i = 0; i < length; i++)
		references += name[i] == 'Q';
	return length <= LONGEST_D && references <= MOST_D_REFERENCES
		       ? cplus_demangle(name, options | DMGL_DLANG)
		       : NULL;
}

const char *symbol_demangle(struct name_pool *pool, const char *name)
{
	static const char internal[] = "__GI_"; /* glibc's names for its own use: __GI___clone3 */
	if (!strncmp(name, internal, sizeof internal - 1) && name[sizeof internal - 1])
		name += sizeof internal - 1;
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
	bool mangled = is_d ||
		       (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == '_'));
	if (length > LONGEST_NAME)
		length = LONGEST_NAME;
	if (!mangled)
		length = without_clone(name, length);
	if (!mangled)
		return unescape_rust(pool, name, length);
	if (length > LONGEST_MANGLED)
		return name_pool_add_n(pool, name, length);

	const int options = DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP;
	char *plain = NULL;
	if (is_d)
		plain = demangle_d(name, length, options);
	else if (name[1] == 'R')
		plain = demangle_bounded(name, options, true, false);
	else
		plain = demangle_bounded(name, options, has_rust_hash(name, length), true);
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
	vector_free(&c->names);
	hash_index_fini(&c->index);
	memset(c, 0, sizeof *c);
}

const char *name_cache_get(struct name_cache *c, const char *mangled)
{
	uint32_t hash = hash_pointer(mangled), i;
	for (uint32_t at = hash; (i = hash_index_step(&c->index, hash, &at)) != HASH_NONE;)
		if (c->names.items[i].mangled == mangled)
			return c->names.items[i].name;
	const char *name = symbol_demangle(c->pool, mangled);
	if (!name || hash_index_reserve(&c->index, 1) < 0 ||
	    !vector_push(&c->names, (struct name_cache_entry){mangled, name}))
		return NULL;
	hash_index_add(&c->index, hash, (uint32_t)c->names.count - 1);
	return name;
}
