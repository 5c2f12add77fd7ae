/* Makes and reads near pages (near_page.h).
 *
 *   header, entries | for each function: trampoline (jump through the slots), slots, copy | int3 | spare bytes
 *
 * The jump at a function's entry has 5 bytes and reaches 2 GiB; the blob with the hooks may lie anywhere. So the jump
 * leads to a trampoline nearby, and that to the hook through 8 bytes with its address; 8 more say which function it is. The whole is mapped readable
 * and executable, and written through /proc/PID/mem only.
 *
 * A page that is found in a program is the program's to write: all of it is checked before it is used. What it claims
 * can lead to no write elsewhere than in that program, and the one who restores old bytes first checks that the
 * jump to this page stands there. */
#include "attach/near_page.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>

enum {
	PAGE = 4096,
	TRAMPOLINE_BYTES = 16, /* a SLOT_JUMP, filled up */
	SLOT_BYTES = 16,       /* the hook's address, its argument */
	FUNCTION_BYTES = TRAMPOLINE_BYTES + SLOT_BYTES + RELOCATE_COPY_MOST,
	FILLER = 0xcc, /* int3 */
};
_Static_assert(FUNCTION_BYTES % 16 == 0, "trampolines and copies are aligned");

static const uint8_t magic[16] = "\x7fheft near page";

static size_t code_start(unsigned functions)
{
	size_t tables = sizeof(struct near_header) + functions * sizeof(struct near_entry);
	return (tables + 15) & ~(size_t)15;
}

size_t near_page_bytes(unsigned functions)
{
	if (!functions || functions > NEAR_PAGE_ENTRIES)
		return 0;
	size_t bytes = code_start(functions) + functions * (size_t)FUNCTION_BYTES + NEAR_PAGE_SPARE;
	return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

int near_page_init(struct near_page *p, uint64_t at, unsigned functions, struct heft_error *err)
{
	memset(p, 0, sizeof *p);
	p->size = near_page_bytes(functions);
	if (!p->size)
		return heft_fail(err, HEFT_EUSAGE, "a near page for %u functions", functions);
	p->bytes = aligned_alloc(PAGE, p->size);
	if (!p->bytes)
		return heft_fail(err, HEFT_ENOMEM, "no memory for a near page");
	p->at = at;
	p->most = functions;
	p->used = code_start(functions);
	memset(p->bytes, 0, p->used);
	memset(p->bytes + p->used, FILLER, p->size - p->used);
	struct near_header *h = near_page_header(p);
	memcpy(h->magic, magic, sizeof magic);
	h->version = NEAR_PAGE_VERSION;
	h->bytes = (uint32_t)p->size;
	h->at = at;
	h->entry_bytes = sizeof(struct near_entry);
	return 0;
}

void near_page_fini(struct near_page *p)
{
	free(p->bytes);
	memset(p, 0, sizeof *p);
}

struct near_header *near_page_header(const struct near_page *p)
{
	return (struct near_header *)(void *)p->bytes;
}

unsigned near_page_count(const struct near_page *p)
{
	return near_page_header(p)->count;
}

const struct near_entry *near_page_entry(const struct near_page *p, unsigned entry)
{
	return &near_page_header(p)->entries[entry];
}

static struct relocated relocated_of(const struct near_entry *e)
{
	struct relocated r = {
		.displaced = e->displaced, .copy_bytes = e->copy_bytes, .steps = e->steps};
	memcpy(r.from, e->from, sizeof r.from);
	memcpy(r.to, e->to, sizeof r.to);
	return r;
}

int near_page_add(struct near_page *p, const char *name, const uint8_t *code, size_t n, uint64_t at,
		  uint64_t function_bytes, uint64_t hook, uint64_t argument, struct heft_error *err)
{
	struct near_header *h = near_page_header(p);
	struct relocated r;
	uint8_t jump[JUMP_BYTES];
	for (unsigned i = 0; i < h->count; i++)
		if (h->entries[i].at == at)
			return (int)i;
	if (h->count == p->most)
		return heft_fail(err, HEFT_EUSAGE, "the near page has space for %u functions",
				 p->most);
	struct near_entry *e = &h->entries[h->count];
	memset(e, 0, sizeof *e);
	e->at = at;
	e->trampoline = (uint32_t)p->used;
	e->slot = e->trampoline + TRAMPOLINE_BYTES;
	e->copy = e->slot + SLOT_BYTES;
	int rc = relocate(&r, code, n, at, p->at + e->copy, function_bytes, err);
	if (rc < 0)
		return rc;
	if (!jump_write(jump, at, p->at + e->trampoline))
		return heft_fail(err, HEFT_EREFUSED,
				 "the near page at 0x%llx is too far from 0x%llx",
				 (unsigned long long)p->at, (unsigned long long)at);
	slot_jump_write(p->bytes + e->trampoline, p->at + e->trampoline, p->at + e->slot);
	memcpy(p->bytes + e->slot, &hook, sizeof hook);
	memcpy(p->bytes + e->slot + sizeof hook, &argument, sizeof argument);
	memcpy(p->bytes + e->copy, r.copy, r.copy_bytes);
	e->displaced = r.displaced;
	e->copy_bytes = r.copy_bytes;
	e->steps = r.steps;
	memcpy(e->from, r.from, sizeof r.from);
	memcpy(e->to, r.to, sizeof r.to);
	memcpy(e->old, code, r.displaced);
	strncpy(e->name, name, sizeof e->name - 1);
	p->used += FUNCTION_BYTES;
	return (int)h->count++;
}

uint64_t near_page_trampoline(const struct near_page *p, unsigned entry)
{
	return p->at + near_page_entry(p, entry)->trampoline;
}

uint64_t near_page_copy(const struct near_page *p, unsigned entry)
{
	return p->at + near_page_entry(p, entry)->copy;
}

uint64_t near_page_spare(const struct near_page *p)
{
	return p->at + p->size - NEAR_PAGE_SPARE;
}

void near_page_jump(const struct near_page *p, unsigned entry, uint8_t jump[JUMP_BYTES])
{
	jump_write(jump, near_page_entry(p, entry)->at, near_page_trampoline(p, entry));
}

uint64_t near_page_pc(const struct near_page *p, uint64_t pc)
{
	for (unsigned i = 0; i < near_page_count(p); i++) {
		const struct near_entry *e = near_page_entry(p, i);
		struct relocated r = relocated_of(e);
		uint64_t moved = relocated_pc(&r, e->at, p->at + e->copy, pc);
		if (moved)
			return moved;
	}
	return 0;
}

uint64_t near_page_back(const struct near_page *p, uint64_t pc)
{
	for (unsigned i = 0; i < near_page_count(p); i++) {
		const struct near_entry *e = near_page_entry(p, i);
		struct relocated r = relocated_of(e);
		uint64_t back = relocated_back(&r, e->at, p->at + e->copy, pc);
		/* It has read nothing but the address, and changed a register that no argument is in. */
		if (pc - (p->at + e->trampoline) < SLOT_JUMP_BYTES)
			back = e->at;
		if (back)
			return back;
	}
	return 0;
}

/* ---- one that was found */

bool near_page_is(const uint8_t *head, size_t bytes)
{
	return bytes >= sizeof(struct near_header) && memcmp(head, magic, sizeof magic) == 0;
}

static bool is_entry(const struct near_entry *e, uint64_t at, size_t start, size_t size)
{
	uint8_t jump[JUMP_BYTES];
	if (e->trampoline < start || e->trampoline > size - FUNCTION_BYTES ||
	    e->slot != e->trampoline + TRAMPOLINE_BYTES || e->copy != e->slot + SLOT_BYTES ||
	    e->displaced < JUMP_BYTES || e->displaced > RELOCATE_MOST || !e->copy_bytes ||
	    e->copy_bytes > RELOCATE_COPY_MOST || !e->steps || e->steps > RELOCATE_STEPS ||
	    !memchr(e->name, 0, sizeof e->name) || !jump_write(jump, e->at, at + e->trampoline))
		return false;
	for (unsigned i = 0; i < e->steps; i++)
		if (e->from[i] > e->displaced || e->to[i] >= e->copy_bytes)
			return false;
	return true;
}

int near_page_load(struct near_page *p, const uint8_t *bytes, size_t size, uint64_t at,
		   struct heft_error *err)
{
	struct near_header h;
	memset(p, 0, sizeof *p);
	if (!near_page_is(bytes, size))
		return heft_fail(err, HEFT_EFORMAT, "no near page is at 0x%llx",
				 (unsigned long long)at);
	memcpy(&h, bytes, sizeof h);
	if (h.version != NEAR_PAGE_VERSION || h.entry_bytes != sizeof(struct near_entry))
		return heft_fail(err, HEFT_EREFUSED,
				 "another version of heft has left its hooks in the program "
				 "(version %u, this one knows %u)",
				 h.version, NEAR_PAGE_VERSION);
	if (h.bytes != size || h.at != at || h.count > NEAR_PAGE_ENTRIES || size > UINT32_MAX ||
	    size < near_page_bytes(h.count ? h.count : 1))
		goto damaged;
	p->bytes = aligned_alloc(PAGE, (size + PAGE - 1) & ~(size_t)(PAGE - 1));
	if (!p->bytes)
		return heft_fail(err, HEFT_ENOMEM, "no memory for a near page");
	memcpy(p->bytes, bytes, size);
	p->size = size;
	p->at = at;
	p->most = h.count; /* nothing is added to it */
	p->used = size;
	for (unsigned i = 0; i < h.count; i++)
		if (!is_entry(near_page_entry(p, i), at, code_start(h.count), size))
			goto damaged;
	return 0;
damaged:
	near_page_fini(p);
	return heft_fail(err, HEFT_EFORMAT, "the near page at 0x%llx is damaged",
			 (unsigned long long)at);
}
