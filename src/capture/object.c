/* What can be known of a loaded object without the loader's lock.
 *
 * _dl_find_object takes none. But if the segments of a program have gaps between them,
 * the range that it gives is only one segment; build id and unwind tables are in
 * others. And if the range is the whole object, its gaps are closed pages. So we find
 * the program headers, and read memory only inside the segments that they name.
 *
 * The kernel gives us the program's headers (AT_PHDR). A library's follow its ELF
 * header, which lies at the beginning of its range or where its addresses begin. We
 * believe headers that lie in one of the segments they describe and that name the dynamic
 * section which the loader uses. Nothing of libraries is kept between calls: after a dlclose that
 * nobody saw, the same address may be another library's. */
#include "capture/object.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

enum { PAGE = 4096, BUILD_ID_MOST = 64, HEADERS_MOST = 64 };

/* Whether these are the headers of the object with this link map: they lie (at `place`) in its segments and name
 * its dynamic section. (The section alone is not enough: many objects have it at the same place.) */
static int are_of(const struct heft_segments *s, uintptr_t place, const struct link_map *map)
{
	const Elf64_Phdr *dynamic = heft_segment_of_type(s, PT_DYNAMIC);
	return dynamic && s->bias + dynamic->p_vaddr == (uintptr_t)map->l_ld &&
	       heft_segment_end(s, place);
}

/* A copy, made at start: a program may close the page that they are in. */
static int programs_own(const struct link_map *map, struct heft_segments *s)
{
	static Elf64_Phdr copy[HEADERS_MOST];
	static _Atomic uintptr_t place;
	static _Atomic uint32_t count;
	uintptr_t at = atomic_load_explicit(&place, memory_order_acquire);
	if (!at) {
		at = heft_auxiliary(AT_PHDR);
		uint64_t n = heft_auxiliary(AT_PHNUM);
		if (!at || n > HEADERS_MOST)
			return 0;
		memcpy(copy, (const void *)at, n * sizeof *copy);
		atomic_store_explicit(&count, (uint32_t)n, memory_order_relaxed);
		atomic_store_explicit(&place, at, memory_order_release);
	}
	s->headers = copy;
	s->count = atomic_load_explicit(&count, memory_order_relaxed);
	return are_of(s, at, map);
}

/* Where a sandbox does not let us ask, pages are as the loader left them. */
static int is_readable(uintptr_t at, uint64_t bytes)
{
	if (!sys_may(SYS_DO_SIGPROCMASK))
		return 1;
	for (uintptr_t page = at & ~(uintptr_t)(PAGE - 1); page < at + bytes; page += PAGE)
		if (!sys_readable((void *)page))
			return 0;
	return 1;
}

/* The object goes on up to `end` after its header. */
static int follow_header(uintptr_t header, uintptr_t end, const struct link_map *map,
			 struct heft_segments *s)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)header;
	if (header & (PAGE - 1) || end - header < sizeof *eh || !is_readable(header, sizeof *eh) ||
	    memcmp(eh->e_ident, ELFMAG, SELFMAG) || eh->e_phentsize != sizeof(Elf64_Phdr) ||
	    eh->e_phoff & 7 || eh->e_phoff > end - header)
		return 0;
	uint64_t bytes = (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr);
	if (bytes > end - header - eh->e_phoff)
		return 0;
	if (!is_readable(header + eh->e_phoff, bytes))
		return 0;
	s->headers = (const Elf64_Phdr *)(header + eh->e_phoff);
	s->count = eh->e_phnum;
	return are_of(s, (uintptr_t)s->headers, map);
}

int heft_object_at(uintptr_t address, struct heft_object *o)
{
	struct dl_find_object found;
	if (heft_own_object(address, o))
		return 0;
	if (heft_find_object((void *)address, &found))
		return -1;
	const struct link_map *map = found.dlfo_link_map;
	o->map = map;
	o->start = (uintptr_t)found.dlfo_map_start;
	o->end = (uintptr_t)found.dlfo_map_end;
	o->eh_frame_hdr = (uintptr_t)found.dlfo_eh_frame;
	o->unwind = NULL;
	o->unwind_count = 0;
	o->segments.bias = map->l_addr;
	if (programs_own(map, &o->segments) || follow_header(o->start, o->end, map, &o->segments))
		return 0;
	if (!heft_find_object((void *)map->l_addr, &found) && found.dlfo_link_map == map &&
	    follow_header(map->l_addr, (uintptr_t)found.dlfo_map_end, map, &o->segments))
		return 0;
	o->segments.headers = NULL;
	o->segments.count = 0;
	return 0;
}

int heft_object_holds(const struct heft_object *o, uintptr_t at, uint64_t bytes)
{
	uintptr_t end = heft_segment_end(&o->segments, at);
	return end && bytes <= end - at;
}

const uint8_t *heft_object_build_id(const struct heft_object *o, uint32_t *length)
{
	for (unsigned i = 0; i < o->segments.count; i++) {
		const Elf64_Phdr *ph = &o->segments.headers[i];
		uintptr_t at = o->segments.bias + ph->p_vaddr;
		if (ph->p_type != PT_NOTE || !heft_object_holds(o, at, ph->p_memsz) ||
		    !is_readable(at, ph->p_memsz))
			continue;
		uint64_t left = ph->p_memsz, align = ph->p_align == 8 ? 7 : 3;
		while (left >= sizeof(Elf64_Nhdr)) {
			const Elf64_Nhdr *n = (const Elf64_Nhdr *)at;
			uint64_t data = (sizeof *n + n->n_namesz + align) & ~align;
			uint64_t next = (data + n->n_descsz + align) & ~align;
			if (data > left || n->n_descsz > left - data)
				break;
			if (n->n_type == NT_GNU_BUILD_ID && n->n_namesz == 4 &&
			    n->n_descsz <= BUILD_ID_MOST && !memcmp(n + 1, "GNU", 4)) {
				*length = n->n_descsz;
				return (const uint8_t *)at + data;
			}
			if (next >= left)
				break;
			at += next;
			left -= next;
		}
	}
	return NULL;
}
