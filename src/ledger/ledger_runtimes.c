/* Heaps of interpreters and runtimes in a ledger: they map memory in large pieces and give it out themselves. They are
 * named where they can be told with certainty, by structures that stand in them. What cannot be told stays with who
 * made it.
 *
 * - Python (pymalloc): an arena is cut into pools of 16 KiB (before 3.10: 4 KiB). A pool begins with a header whose size
 *   class, offsets and pointers must fit each other.
 * - V8 (Node.js): chunks begin at multiples of 256 KiB, with their length and the bounds of their area.
 * - Java: ledger_java.c.
 * - Go: programs carry a note of their linker. If such a program has no libraries, all of its anonymous memory is the
 *   runtime's. With libraries (cgo), only what lies where Go up to 1.25 puts its heap is known to be. */
#include "ledger/ledger_parts.h"

#include "hosted/error.h"
#include "hosted/program_name.h"

#include <elf.h>

static bool has_module(const struct ledger_taking *t, const char *const *starts, size_t count)
{
	for (size_t i = 0; i < t->modules.count; i++)
		for (size_t k = 0; k < count; k++)
			if (!strncmp(path_file(t->modules.items[i].path), starts[k],
				     strlen(starts[k])))
				return true;
	return false;
}

/* The first multiple of `step` from one on whose page is in memory; UINT64_MAX: there is none. */
static uint64_t next_step(struct ledger_taking *t, uint64_t at, uint64_t step)
{
	uint64_t next;
	while ((next = ledger_pages_next(&t->pages, at, LEDGER_IN_MEMORY)) != at) {
		if (next > UINT64_MAX - step)
			return UINT64_MAX;
		at = (next + step - 1) & ~(step - 1);
	}
	return at;
}

/* ---- Python */

struct pool_header {
	uint32_t used, padding;
	uint64_t free_block, next, previous;
	uint32_t arena, size_class, next_offset, last_offset;
};

static bool is_pool(struct ledger_taking *t, uint64_t at, uint64_t bytes)
{
	enum { UNIT = 16, CLASSES = 32, HEAD = 48 };
	struct pool_header h;
	if (!ledger_read(t, at, &h, sizeof h))
		return false;
	uint64_t each = ((uint64_t)h.size_class + 1) * UNIT;
	return h.size_class < CLASSES && h.last_offset == bytes - each && h.next_offset >= HEAD &&
	       h.next_offset <= bytes && h.used <= (bytes - HEAD) / each && h.arena < 1 << 24 &&
	       (!h.free_block || (h.free_block > at && h.free_block < at + bytes)) &&
	       h.next % 8 == 0 && h.previous % 8 == 0;
}

static bool claim_pools(struct ledger_taking *t, uint64_t bytes, size_t *found)
{
	bool fine = true;
	for (size_t i = 0; i < t->maps.count && fine; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		if (!ledger_is_plain(m) || m->name[0])
			continue;
		for (uint64_t at = (m->start + bytes - 1) & ~(bytes - 1);
		     (at = next_step(t, at, bytes)) < m->end && bytes <= m->end - at && fine;
		     at += bytes)
			if (is_pool(t, at, bytes)) {
				fine = ledger_claim(t, at, at + bytes, LEDGER_ALLOCATOR,
						    "Python's objects (pymalloc's arenas)");
				++*found;
			}
	}
	return fine;
}

static bool claim_python(struct ledger_taking *t)
{
	static const char *const names[] = {"libpython3", "python3", "libpython2", "python2"};
	size_t found = 0;
	if (!has_module(t, names, sizeof names / sizeof *names))
		return true;
	bool fine = claim_pools(t, 16 << 10, &found);
	return fine && !found ? claim_pools(t, 4 << 10, &found) : fine;
}

/* ---- V8 */

struct v8_chunk {
	uint64_t bytes, flags, heap, area_start, area_end;
};

static bool claim_v8(struct ledger_taking *t)
{
	static const char *const names[] = {"node", "libnode.", "libv8", "chrome", "electron"};
	const uint64_t step = 256 << 10, most = UINT64_C(4) << 30;
	bool fine = true;
	if (!has_module(t, names, sizeof names / sizeof *names))
		return true;
	for (size_t i = 0; i < t->maps.count && fine; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		struct v8_chunk c;
		if (m->inode || m->shared || m->name[0] || ledger_is_reserved(m) ||
		    m->start % step || !ledger_pages_have(&t->pages, m->start))
			continue;
		/* Neighbours of the same rights are one mapping. */
		for (uint64_t at = m->start; (at = next_step(t, at, step)) < m->end && fine;
		     at += step)
			if (ledger_read(t, at, &c, sizeof c) && c.bytes >= LEDGER_PAGE &&
			    c.bytes <= most && c.heap && c.heap % 8 == 0 && c.area_start > at &&
			    c.area_start < at + 4 * LEDGER_PAGE && c.area_end > c.area_start &&
			    c.area_end <= at + c.bytes)
				fine = ledger_claim_anonymous(t, at, at + c.bytes, LEDGER_ALLOCATOR,
							      "V8's heap (JavaScript objects)");
	}
	return fine;
}

/* ---- Go */

static bool has_go_note(struct ledger_taking *t, const struct target_module *module)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	struct {
		Elf64_Nhdr head;
		char name[4];
	} note;
	memcpy(&eh, module->image.header, sizeof eh);
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		size_t at = eh.e_phoff + i * sizeof ph;
		if (at + sizeof ph > module->image.header_bytes)
			break;
		memcpy(&ph, module->image.header + at, sizeof ph);
		if (ph.p_type == PT_NOTE &&
		    ledger_read(t, module->image.bias + ph.p_vaddr, &note, sizeof note) &&
		    note.head.n_namesz == 4 && !memcmp(note.name, "Go", 3))
			return true;
	}
	return false;
}

static bool claim_go(struct ledger_taking *t)
{
	const uint64_t low = UINT64_C(0xc000000000), high = UINT64_C(0x100) << 32;
	const bool alone = t->modules.count == 1;
	bool go = false, fine = true;
	for (size_t i = 0; i < t->modules.count && !go; i++)
		go = has_go_note(t, &t->modules.items[i]);
	for (size_t i = 0; i < t->maps.count && fine && go; i++) {
		const struct target_mapping *m = &t->maps.items[i];
		if (ledger_is_plain(m) && (alone || (m->start >= low && m->end <= high)))
			fine = ledger_claim(t, m->start, m->end, LEDGER_ALLOCATOR,
					    "Go's heap, and its runtime's own");
	}
	return fine;
}

int ledger_runtimes_claim(struct ledger_taking *t, struct heft_error *err)
{
	return claim_python(t) && claim_v8(t) && claim_go(t) && ledger_java_claim(t)
		       ? 0
		       : heft_fail(err, HEFT_ENOMEM, "no memory for a ledger");
}
