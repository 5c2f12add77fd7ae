/* Reads the dynamic section of a loaded object without the loader: no lock, no
 * memory. The loader has read the same tables before, so they are sound; we check
 * all the same that they lie inside the object.
 *
 * The loader adds the load address to most pointers of a dynamic section, in place,
 * unless that section is read-only (the vdso's). So a pointer that leads into the
 * object is used as it is, and any other with the load address added. */
#include "capture/linkage.h"

#include <link.h>
#include <string.h>

static const void *table(const struct heft_object *o, uint64_t pointer, uint64_t bytes)
{
	if (heft_object_holds(o, pointer, bytes))
		return (const void *)pointer;
	pointer += o->segments.bias;
	return heft_object_holds(o, pointer, bytes) ? (const void *)pointer : NULL;
}

static struct heft_relocations relocations(const struct heft_object *o, uint64_t pointer,
					   uint64_t bytes)
{
	struct heft_relocations r = {.list = bytes ? table(o, pointer, bytes) : NULL};
	r.count = r.list ? bytes / sizeof(Elf64_Rela) : 0;
	return r;
}

int heft_linkage_of(const struct heft_object *o, struct heft_linkage *l)
{
	uint64_t rela = 0, rela_bytes = 0, relative = 0, calls = 0, call_bytes = 0;
	uint64_t kind_of_calls = DT_RELA;
	memset(l, 0, sizeof *l);
	for (const Elf64_Dyn *d = o->map->l_ld; d && d->d_tag != DT_NULL; d++) {
		uint64_t v = d->d_un.d_val;
		switch (d->d_tag) {
		case DT_SYMTAB: l->symbols = table(o, v, sizeof(Elf64_Sym)); break;
		case DT_STRTAB: l->strings = table(o, v, 1); break;
		case DT_VERSYM: l->versions = table(o, v, 2); break;
		case DT_GNU_HASH: l->gnu_hash = table(o, v, 16); break;
		case DT_HASH: l->sysv_hash = table(o, v, 8); break;
		case DT_RELA: rela = v; break;
		case DT_RELASZ: rela_bytes = v; break;
		case DT_RELACOUNT: relative = v; break;
		case DT_JMPREL: calls = v; break;
		case DT_PLTRELSZ: call_bytes = v; break;
		case DT_PLTREL: kind_of_calls = v; break;
		}
	}
	if (!l->symbols || !l->strings)
		return -1;
	l->plain = relocations(o, rela, rela_bytes);
	relative = relative < l->plain.count ? relative : l->plain.count;
	l->plain.list += relative; /* they come first */
	l->plain.count -= relative;
	if (kind_of_calls == DT_RELA)
		l->calls = relocations(o, calls, call_bytes);
	return 0;
}

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t h = 5381;
	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

static uint32_t sysv_hash_of(const char *name)
{
	uint32_t h = 0;
	for (; *name; name++) {
		h = (h << 4) + (uint8_t)*name;
		h = (h ^ (h >> 24 & 0xf0)) & 0x0fffffff;
	}
	return h;
}

static int defines(const struct heft_linkage *l, uint32_t i, const char *name)
{
	const Elf64_Sym *s = &l->symbols[i];
	enum { HIDDEN_VERSION = 0x8000 };
	return s->st_shndx != SHN_UNDEF && s->st_value && ELF64_ST_BIND(s->st_info) != STB_LOCAL &&
	       !(l->versions && l->versions[i] & HIDDEN_VERSION) &&
	       !strcmp(l->strings + s->st_name, name);
}

/* nbuckets, first symbol, words of the bloom filter, its shift; filter, buckets, chains */
static const Elf64_Sym *find_gnu(const struct heft_linkage *l, const char *name)
{
	const uint32_t *t = l->gnu_hash, hash = gnu_hash_of(name);
	const uint64_t *bloom = (const uint64_t *)(t + 4);
	uint64_t both = 1ull << hash % 64 | 1ull << (hash >> t[3]) % 64;
	if (!t[0] || !t[2] || (bloom[hash / 64 % t[2]] & both) != both)
		return NULL;
	const uint32_t *buckets = (const uint32_t *)(bloom + t[2]), *chains = buckets + t[0];
	uint32_t i = buckets[hash % t[0]];
	if (i < t[1])
		return NULL;
	for (;; i++) {
		uint32_t h = chains[i - t[1]];
		if ((h | 1) == (hash | 1) && defines(l, i, name))
			return &l->symbols[i];
		if (h & 1)
			return NULL;
	}
}

/* nbuckets, nchains; buckets, chains */
static const Elf64_Sym *find_sysv(const struct heft_linkage *l, const char *name)
{
	const uint32_t *t = l->sysv_hash;
	if (!t[0])
		return NULL;
	uint32_t i = t[2 + sysv_hash_of(name) % t[0]];
	for (uint32_t steps = 0; i && i < t[1] && steps < t[1]; steps++) {
		if (defines(l, i, name))
			return &l->symbols[i];
		i = t[2 + t[0] + i];
	}
	return NULL;
}

const Elf64_Sym *heft_linkage_definition(const struct heft_linkage *l, const char *name)
{
	return l->gnu_hash ? find_gnu(l, name) : l->sysv_hash ? find_sysv(l, name) : NULL;
}

uintptr_t heft_defined_at(const struct heft_object *o, const char *name)
{
	struct heft_linkage l;
	const Elf64_Sym *s = heft_linkage_of(o, &l) ? NULL : heft_linkage_definition(&l, name);
	return s ? o->segments.bias + s->st_value : 0;
}
