/* Reads .dynsym from a program's memory (target_dynsym.h), for modules whose file is gone: a server that runs on after
 * its libraries were upgraded, watched by an ordinary user.
 *
 * The dynamic section names the tables. glibc has made its addresses absolute there, musl and the kernel's vDSO have
 * not: an address inside the module's span is taken for absolute. No entry tells how many symbols there are; the hash
 * tables do. All of it is the program's to write: every table must lie inside the module's span and below a bound,
 * every name must end inside its table, and a chain of hashes may have no end: memory that was never written has none. */
#include "attach/target_dynsym.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum {
	MOST_DYNAMIC = 4096,  /* entries; libraries have 30 */
	MOST_CHAIN = 1 << 16, /* symbols of one bucket; libraries have 20 */
	CHAIN_PIECE = 512,    /* hashes that are read at a time: of one page */
};
/* Of one table: ten million symbols. The span of a module is what its headers claim, so it is no bound. */
#define MOST_TABLE (UINT64_C(256) << 20)

struct tables {
	const struct target_image *im;
	const struct target_memory *memory;
	uint64_t low, high; /* the module's span at run time */
	uint64_t symbols, strings, string_bytes, hash, gnu_hash, versions;
};

static bool read_in(const struct tables *t, uint64_t at, void *to, uint64_t bytes)
{
	return at >= t->low && at <= t->high && bytes <= t->high - at &&
	       t->memory->read(t->memory->context, at, to, (size_t)bytes);
}

/* Memory of ours with a copy; NULL: it is not all there. */
static void *copy_of(const struct tables *t, uint64_t at, uint64_t bytes)
{
	if (at < t->low || at > t->high || bytes > t->high - at || bytes > MOST_TABLE)
		return NULL;
	void *copy = malloc((size_t)bytes + 1);
	if (copy && !read_in(t, at, copy, bytes)) {
		free(copy);
		return NULL;
	}
	return copy;
}

static uint64_t absolute(const struct tables *t, uint64_t address)
{
	return address >= t->low && address < t->high ? address : address + t->im->bias;
}

static bool find_tables(struct tables *t)
{
	const struct target_image *im = t->im;
	uint64_t count = im->dynamic_bytes / sizeof(Elf64_Dyn);
	t->low = UINT64_MAX;
	for (uint32_t i = 0; i < im->segment_count; i++) {
		uint64_t from = im->bias + im->segments[i].address;
		uint64_t to = from + im->segments[i].bytes;
		if (to < from)
			return false;
		t->low = from < t->low ? from : t->low;
		t->high = to > t->high ? to : t->high;
	}
	if (count > MOST_DYNAMIC)
		count = MOST_DYNAMIC;
	for (uint64_t i = 0; i < count; i++) {
		Elf64_Dyn d;
		if (!read_in(t, im->bias + im->dynamic + i * sizeof d, &d, sizeof d) ||
		    d.d_tag == DT_NULL)
			break;
		switch (d.d_tag) {
		case DT_SYMTAB: t->symbols = absolute(t, d.d_un.d_ptr); break;
		case DT_STRTAB: t->strings = absolute(t, d.d_un.d_ptr); break;
		case DT_STRSZ: t->string_bytes = d.d_un.d_val; break;
		case DT_HASH: t->hash = absolute(t, d.d_un.d_ptr); break;
		case DT_GNU_HASH: t->gnu_hash = absolute(t, d.d_un.d_ptr); break;
		case DT_VERSYM: t->versions = absolute(t, d.d_un.d_ptr); break;
		case DT_SYMENT:
			if (d.d_un.d_val != sizeof(Elf64_Sym))
				return false;
			break;
		default: break;
		}
	}
	return t->symbols && t->strings && (t->hash || t->gnu_hash);
}

/* How many hashes there are if the chain that the one of this number is in is the last chain; 0: it has no end. */
static uint64_t end_of_chain(const struct tables *t, uint64_t chain_at, uint64_t number)
{
	uint32_t hashes[CHAIN_PIECE];
	for (const uint64_t most = number + MOST_CHAIN; number < most;) {
		uint64_t at = chain_at + number * sizeof *hashes;
		uint64_t count = CHAIN_PIECE - at / sizeof *hashes % CHAIN_PIECE;
		if (at < t->high && (t->high - at) / sizeof *hashes < count)
			count = (t->high - at) / sizeof *hashes;
		if (!count || !read_in(t, at, hashes, count * sizeof *hashes))
			return 0;
		for (uint64_t i = 0; i < count; i++, number++)
			if (hashes[i] & 1)
				return number + 1;
	}
	return 0;
}

/* The chain of the last bucket ends with the last symbol. */
static uint64_t count_by_gnu_hash(const struct tables *t)
{
	uint32_t head[4], last = 0; /* buckets, first symbol, words of the filter, shift */
	if (!read_in(t, t->gnu_hash, head, sizeof head))
		return 0;
	uint64_t buckets_at = t->gnu_hash + sizeof head + (uint64_t)head[2] * 8;
	uint64_t chain_at = buckets_at + (uint64_t)head[0] * 4;
	uint32_t *buckets = copy_of(t, buckets_at, (uint64_t)head[0] * 4);
	for (uint32_t i = 0; buckets && i < head[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	free(buckets);
	if (!last || last < head[1])
		return head[1]; /* none is exported */
	uint64_t hashes = end_of_chain(t, chain_at, last - head[1]);
	return hashes ? head[1] + hashes : 0;
}

/* As the loader looks a name up, but for the filter: one bucket, and its chain. */
enum target_defines target_dynsym_defines(const struct target_image *im,
					  const struct target_memory *memory, const char *name)
{
	struct tables t = {.im = im, .memory = memory};
	uint32_t head[4], at, wanted = 5381, hash = 0;
	const size_t bytes = strlen(name) + 1;
	char found[64];
	if (!find_tables(&t) || !t.gnu_hash || !read_in(&t, t.gnu_hash, head, sizeof head) ||
	    !head[0] || bytes > sizeof found)
		return TARGET_DEFINES_UNKNOWN;
	for (const char *c = name; *c; c++)
		wanted = wanted * 33 + (uint8_t)*c;
	const uint64_t buckets_at = t.gnu_hash + sizeof head + (uint64_t)head[2] * 8;
	const uint64_t chain_at = buckets_at + (uint64_t)head[0] * 4;
	if (!read_in(&t, buckets_at + (uint64_t)(wanted % head[0]) * 4, &at, sizeof at))
		return TARGET_DEFINES_UNKNOWN;
	if (!at)
		return TARGET_DEFINES_NOT;
	for (unsigned i = 0; !(hash & 1) && at >= head[1]; at++, i++) {
		Elf64_Sym s;
		if (i == MOST_CHAIN ||
		    !read_in(&t, chain_at + (uint64_t)(at - head[1]) * 4, &hash, sizeof hash))
			return TARGET_DEFINES_UNKNOWN;
		if ((hash | 1) != (wanted | 1))
			continue;
		if (read_in(&t, t.symbols + (uint64_t)at * sizeof s, &s, sizeof s) &&
		    s.st_shndx != SHN_UNDEF && s.st_name < t.string_bytes &&
		    read_in(&t, t.strings + s.st_name, found, bytes) && !memcmp(found, name, bytes))
			return TARGET_DEFINES;
	}
	return hash & 1 ? TARGET_DEFINES_NOT : TARGET_DEFINES_UNKNOWN;
}

static uint64_t count_symbols(const struct tables *t)
{
	uint32_t head[2]; /* buckets, symbols */
	if (t->hash)
		return read_in(t, t->hash, head, sizeof head) ? head[1] : 0;
	return count_by_gnu_hash(t);
}

bool target_dynsym_each(const struct target_image *im, const struct target_memory *memory,
			void (*see)(void *context, const struct image_symbol *symbol),
			void *context)
{
	struct tables t = {.im = im, .memory = memory};
	if (!find_tables(&t))
		return false;
	uint64_t count = count_symbols(&t);
	Elf64_Sym *symbols = copy_of(&t, t.symbols, count * sizeof *symbols);
	char *strings = copy_of(&t, t.strings, t.string_bytes);
	uint16_t *versions = t.versions ? copy_of(&t, t.versions, count * sizeof *versions) : NULL;
	bool good = count && symbols && strings;
	if (good)
		strings[t.string_bytes] = 0;
	for (uint64_t i = 0; good && i < count; i++) {
		const Elf64_Sym *s = &symbols[i];
		if (s->st_name >= t.string_bytes)
			continue;
		const struct image_symbol symbol = {
			.name = strings + s->st_name,
			.value = s->st_value,
			.bytes = s->st_size,
			.type = ELF64_ST_TYPE(s->st_info),
			.bind = ELF64_ST_BIND(s->st_info),
			.defined = s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS,
			.exported = true,
			.old_version = versions && (versions[i] & 0x8000),
		};
		see(context, &symbol);
	}
	free(symbols);
	free(strings);
	free(versions);
	return good;
}
