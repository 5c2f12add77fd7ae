/* Names of linked-in allocators. A program links only what it calls (the mimalloc crate:
 * mi_malloc_aligned, mi_realloc_aligned, mi_free), so any entry of an allocator counts. But short
 * names may be anybody's: an allocator is known only when both a function that allocates and one
 * that frees are there, or one name that nobody else has.
 *
 * The words are for stripped files: texts that only a copy of the allocator itself carries. They
 * are kept in two pieces here, so that heft does not carry them. */
#include "session/allocator_names.h"

#include <stdio.h>
#include <string.h>

enum match { WHOLE, BEGIN, END, INSIDE };

static const struct rule {
	const char *text;
	enum match match;
	unsigned part;
	unsigned allocator; /* in names[] */
} rules[] = {
#define JEMALLOC 0
	/* Whatever its prefix is (_rjem_, je_, none, one of the program's own). */
	{"mallctlbymib", END, ALLOCATOR_MARK, JEMALLOC},
	{"je_arena_malloc_hard", END, ALLOCATOR_MARK, JEMALLOC},
	{"je_tcache_alloc_small_hard", END, ALLOCATOR_MARK, JEMALLOC},
	{"je_malloc", END, ALLOCATOR_MARK | ALLOCATOR_TAKES, JEMALLOC},
	{"rjem_malloc", END, ALLOCATOR_MARK | ALLOCATOR_TAKES, JEMALLOC},
	{"mallocx", END, ALLOCATOR_TAKES, JEMALLOC},
	{"rallocx", END, ALLOCATOR_TAKES, JEMALLOC},
	{"je_calloc", END, ALLOCATOR_TAKES, JEMALLOC},
	{"rjem_calloc", END, ALLOCATOR_TAKES, JEMALLOC},
	{"dallocx", END, ALLOCATOR_GIVES, JEMALLOC}, /* and sdallocx */
	{"je_free", END, ALLOCATOR_GIVES, JEMALLOC},
	{"rjem_free", END, ALLOCATOR_GIVES, JEMALLOC},
	{"je_prof_dump_impl", END, ALLOCATOR_DUMPS, JEMALLOC},
	{"je_prof_mdump", END, ALLOCATOR_DUMPS, JEMALLOC},
#define MIMALLOC 1
	{"_mi_malloc_generic", WHOLE, ALLOCATOR_MARK, MIMALLOC},
	{"_mi_heap_malloc_zero", BEGIN, ALLOCATOR_MARK, MIMALLOC},
	{"mi_malloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_zalloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_calloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_realloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_rezalloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_heap_malloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_heap_zalloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_theap_malloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_new", WHOLE, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_new_nothrow", WHOLE, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_new_aligned", WHOLE, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_aligned_alloc", BEGIN, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_posix_memalign", WHOLE, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_memalign", WHOLE, ALLOCATOR_TAKES, MIMALLOC},
	{"mi_free", BEGIN, ALLOCATOR_GIVES, MIMALLOC},
	{"mi_cfree", WHOLE, ALLOCATOR_GIVES, MIMALLOC},
#define TCMALLOC 2
	{"TCMallocInternal", BEGIN, ALLOCATOR_MARK, TCMALLOC},
	{"_ZN8tcmalloc8PageHeap", BEGIN, ALLOCATOR_MARK, TCMALLOC},
	{"_ZN8tcmalloc11ThreadCache", BEGIN, ALLOCATOR_MARK, TCMALLOC},
	{"_ZN8tcmalloc15CentralFreeList", BEGIN, ALLOCATOR_MARK, TCMALLOC},
	{"_ZN8tcmalloc17tcmalloc_internal8PageHeap", BEGIN, ALLOCATOR_MARK, TCMALLOC},
	{"tc_malloc", WHOLE, ALLOCATOR_TAKES, TCMALLOC},
	{"tc_new", WHOLE, ALLOCATOR_TAKES, TCMALLOC},
	{"tc_newarray", WHOLE, ALLOCATOR_TAKES, TCMALLOC},
	{"tc_calloc", WHOLE, ALLOCATOR_TAKES, TCMALLOC},
	{"tc_realloc", WHOLE, ALLOCATOR_TAKES, TCMALLOC},
	{"tc_memalign", WHOLE, ALLOCATOR_TAKES, TCMALLOC},
	{"tc_free", WHOLE, ALLOCATOR_GIVES, TCMALLOC},
	{"tc_free_sized", WHOLE, ALLOCATOR_GIVES, TCMALLOC},
	{"tc_delete", WHOLE, ALLOCATOR_GIVES, TCMALLOC},
	{"tc_deletearray", WHOLE, ALLOCATOR_GIVES, TCMALLOC},
	{"HeapProfilerStart", WHOLE, ALLOCATOR_DUMPS, TCMALLOC},
#define SNMALLOC 3
	{"sn_rust_alloc", BEGIN, ALLOCATOR_MARK | ALLOCATOR_TAKES, SNMALLOC},
	{"sn_rust_dealloc", BEGIN, ALLOCATOR_MARK, SNMALLOC},
	{"sn_malloc", WHOLE, ALLOCATOR_TAKES, SNMALLOC},
	{"sn_calloc", WHOLE, ALLOCATOR_TAKES, SNMALLOC},
	{"sn_free", WHOLE, ALLOCATOR_GIVES, SNMALLOC},
	{"_ZN8snmalloc", BEGIN, ALLOCATOR_MARK, SNMALLOC},
#define RPMALLOC 4
	{"rpmalloc", WHOLE, ALLOCATOR_TAKES, RPMALLOC},
	{"rpcalloc", WHOLE, ALLOCATOR_TAKES, RPMALLOC},
	{"rprealloc", WHOLE, ALLOCATOR_TAKES, RPMALLOC},
	{"rpaligned_", BEGIN, ALLOCATOR_TAKES, RPMALLOC},
	{"rpmemalign", WHOLE, ALLOCATOR_TAKES, RPMALLOC},
	{"rpfree", WHOLE, ALLOCATOR_GIVES, RPMALLOC},
#define MOZJEMALLOC 5
	{"moz_arena_malloc", WHOLE, ALLOCATOR_MARK | ALLOCATOR_TAKES, MOZJEMALLOC},
#define SCUDO 6
	{"scudo_malloc", WHOLE, ALLOCATOR_MARK | ALLOCATOR_TAKES, SCUDO},
	{"scudo_allocate", WHOLE, ALLOCATOR_MARK | ALLOCATOR_TAKES, SCUDO},
	{"_ZN5scudo9Allocator", BEGIN, ALLOCATOR_MARK, SCUDO},
#define PARTITION 7
	{"_ZN15partition_alloc13PartitionRoot", BEGIN, ALLOCATOR_MARK, PARTITION},
#define BMALLOC 8
	{"_ZN7bmalloc", BEGIN, ALLOCATOR_MARK, BMALLOC},
	{"pas_try_allocate", BEGIN, ALLOCATOR_MARK, BMALLOC},
#define TBB 9
	{"scalable_malloc", WHOLE, ALLOCATOR_TAKES, TBB},
	{"scalable_aligned_malloc", WHOLE, ALLOCATOR_TAKES, TBB},
	{"scalable_realloc", WHOLE, ALLOCATOR_TAKES, TBB},
	{"scalable_free", WHOLE, ALLOCATOR_GIVES, TBB},
	{"scalable_aligned_free", WHOLE, ALLOCATOR_GIVES, TBB},
#define HOARD 10
	{"xxmalloc", WHOLE, ALLOCATOR_TAKES, HOARD},
	{"xxfree", WHOLE, ALLOCATOR_GIVES, HOARD},
#define DLMALLOC 11
	{"8dlmalloc8dlmalloc", INSIDE, ALLOCATOR_MARK, DLMALLOC}, /* the Rust crate */
};

static const char *const names[] = {
	[JEMALLOC] = "jemalloc",
	[MIMALLOC] = "mimalloc",
	[TCMALLOC] = "tcmalloc",
	[SNMALLOC] = "snmalloc",
	[RPMALLOC] = "rpmalloc",
	[MOZJEMALLOC] = "mozjemalloc",
	[SCUDO] = "scudo",
	[PARTITION] = "PartitionAlloc",
	[BMALLOC] = "bmalloc",
	[TBB] = "TBB's allocator",
	[HOARD] = "an allocator of Heap Layers",
	[DLMALLOC] = "dlmalloc",
};
_Static_assert(sizeof names / sizeof *names <= sizeof((struct allocator_names *)0)->seen /
						       sizeof *((struct allocator_names *)0)->seen,
	       "one each");

static bool matches(const struct rule *r, const char *name, size_t length)
{
	size_t n = strlen(r->text);
	if (n > length)
		return false;
	switch (r->match) {
	case WHOLE: return n == length && memcmp(name, r->text, n) == 0;
	case BEGIN: return memcmp(name, r->text, n) == 0;
	case END: return memcmp(name + length - n, r->text, n) == 0;
	case INSIDE: return memmem(name, length, r->text, n) != NULL;
	}
	return false;
}

/* How names end that END rules are about */
static bool may_end(const char *name, size_t length)
{
	static const char ends[][2] = {{'i', 'b'}, {'r', 'd'}, {'o', 'c'}, {'c', 'x'},
				       {'e', 'e'}, {'p', 'l'}, {'m', 'p'}};
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		if (!memcmp(name + length - 2, ends[i], 2))
			return true;
	return false;
}

/* How those of C++ begin that BEGIN rules are about, behind "_ZN"; and INSIDE rules */
static bool may_be_mangled(const char *name, size_t length)
{
	static const char begins[][2] = {
		{'8', 't'}, {'8', 's'}, {'5', 's'}, {'1', '5'}, {'7', 'b'}};
	static const char inside[] = "8dlmalloc8";
	for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
		if (name[2] == 'N' && !memcmp(name + 3, begins[i], 2))
			return true;
	return memmem(name, length, inside, sizeof inside - 1);
}

/* Nearly all symbols are told by a letter or two: programs have hundreds of thousands, and the recorder looks at them
 * while it records. A unit test holds every rule against this. */
static bool may_matter(const char *name, size_t length)
{
	static const char first[] = "mtTrsHxp";
	if (length < 6)
		return false;
	if (may_end(name, length))
		return true;
	if (name[0] != '_')
		return strchr(first, name[0]);
	if (name[1] == 'Z')
		return may_be_mangled(name, length);
	return name[1] == 'm' || name[1] == 'R' || name[1] == 'r' || name[1] == 'j';
}

void allocator_names_see(struct allocator_names *n, const char *name, size_t length)
{
	if (!may_matter(name, length))
		return;
	for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++) {
		const struct rule *r = &rules[i];
		struct allocator_seen *s = &n->seen[r->allocator];
		if (!matches(r, name, length))
			continue;
		s->parts |= r->part;
		/* The function people know: rules that come first, then as short as there is one. A
		 * mark that does not allocate will do. */
		unsigned rank = r->part & ALLOCATOR_TAKES  ? i + 1
				: r->part & ALLOCATOR_MARK ? i + 1000
							   : 0;
		bool better = !s->rank || rank < s->rank ||
			      (rank == s->rank && length < strlen(s->entry));
		if (rank && better && length < sizeof s->entry) {
			s->rank = rank;
			memcpy(s->entry, name, length);
			s->entry[length] = 0;
		}
	}
}

void allocator_names_end(struct allocator_names *n, bool called)
{
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		const struct allocator_seen *s = &n->seen[i];
		bool takes = s->parts & ALLOCATOR_TAKES, gives = s->parts & ALLOCATOR_GIVES,
		     mark = s->parts & ALLOCATOR_MARK;
		if (called ? !takes || !(gives || mark) : !mark && !(takes && gives))
			continue;
		/* tcmalloc answers to some of jemalloc's names. */
		if (n->allocator && i != TCMALLOC)
			continue;
		n->allocator = names[i];
		memcpy(n->entry, s->entry, sizeof n->entry);
		n->dumps = s->parts & ALLOCATOR_DUMPS;
	}
}

/* ---- words */

static const struct words {
	const char *before, *after; /* `after` begins with the colon that is looked for */
	const char *allocator;
} words[] = {
	{"<jemalloc>", ": ", "jemalloc"},
	{"mimalloc", ": error: ", "mimalloc"},
	{"tcmalloc", ": large alloc ", "tcmalloc"},
};

/* Looking for one letter that all of them have goes through megabytes in a millisecond. */
const char *allocator_by_words(const uint8_t *data, size_t size, bool *dumps)
{
	static const char profile[] =
		"heap_v2/%"; /* only in a jemalloc that was built to write some */
	const uint8_t *end = data + size, *at = data;
	for (; (at = memchr(at, ':', (size_t)(end - at))); at++)
		for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
			size_t before = strlen(words[i].before), after = strlen(words[i].after);
			if ((size_t)(at - data) >= before && (size_t)(end - at) >= after &&
			    at[-1] == (uint8_t)words[i].before[before - 1] &&
			    memcmp(at, words[i].after, after) == 0 &&
			    memcmp(at - before, words[i].before, before) == 0) {
				*dumps = i == 0 && memmem(data, size, profile, sizeof profile - 1);
				return words[i].allocator;
			}
		}
	return NULL;
}

bool allocator_conf_name(const uint8_t *data, size_t size, char *name, size_t name_size)
{
	static const char tail[] = "MALLOC_CONF"; /* with its NUL, and a NUL before the prefix */
	const uint8_t *end = data + size, *at = data;
	for (; (at = memmem(at, (size_t)(end - at), tail, sizeof tail)); at++) {
		const uint8_t *first = at;
		while (first > data && ((first[-1] >= 'A' && first[-1] <= 'Z') ||
					(first[-1] >= '0' && first[-1] <= '9') || first[-1] == '_'))
			first--;
		size_t length = (size_t)(at - first) + sizeof tail - 1;
		if (length + 1 > name_size || (first > data && first[-1] != 0))
			continue;
		memcpy(name, first, length + 1);
		return true;
	}
	return false;
}
