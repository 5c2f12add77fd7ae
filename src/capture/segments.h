/* Which memory of a loaded object may be read: the segments that its program headers
 * name. There may be gaps between segments (a program linked with a large
 * max-page-size, or a page that belongs to no segment). A gap may hold nothing, a
 * closed page or another mapping. */
#ifndef HEFT_CAPTURE_SEGMENTS_H
#define HEFT_CAPTURE_SEGMENTS_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

struct heft_segments {
	const Elf64_Phdr *headers; /* NULL: not known */
	unsigned count;
	uintptr_t bias; /* run-time address - ELF address */
};

/* The end of the readable segment that holds `at`; 0: no segment does. */
static inline uintptr_t heft_segment_end(const struct heft_segments *s, uintptr_t at)
{
	for (unsigned i = 0; i < s->count; i++) {
		const Elf64_Phdr *ph = &s->headers[i];
		uintptr_t start = s->bias + ph->p_vaddr;
		if (ph->p_type == PT_LOAD && ph->p_flags & PF_R && at - start < ph->p_memsz)
			return start + ph->p_memsz;
	}
	return 0;
}

/* The first header of this type; NULL: there is none. */
static inline const Elf64_Phdr *heft_segment_of_type(const struct heft_segments *s, uint32_t type)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->headers[i].p_type == type)
			return &s->headers[i];
	return NULL;
}

#endif
