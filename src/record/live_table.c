/* Growing the live table. It doubles at 60 % and never shrinks: a program that
 * once had ten million blocks will have them again. */
#include "record/live_table.h"

#include "hosted/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { START_BITS = 10 };

static struct live_block *new_slots(unsigned bits)
{
	void *p = mmap(NULL, sizeof(struct live_block) << bits, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (bits >= 16) /* 2 MiB and more: random access wants huge pages */
		madvise(p, sizeof(struct live_block) << bits, MADV_HUGEPAGE);
	return p;
}

int live_table_init(struct live_table *t)
{
	t->count = 0;
	t->bits = START_BITS;
	t->slots = new_slots(t->bits);
	return t->slots ? 0 : HEFT_ENOMEM;
}

void live_table_fini(struct live_table *t)
{
	if (t->slots)
		munmap(t->slots, sizeof(struct live_block) << t->bits);
	memset(t, 0, sizeof *t);
}

int live_table_reserve(struct live_table *t, uint64_t more)
{
	unsigned bits = t->bits;
	while ((t->count + more) * 5 > (1ull << bits) * 3)
		bits++;
	if (bits == t->bits)
		return 0;
	struct live_table bigger = {.bits = bits, .slots = new_slots(bits)};
	if (!bigger.slots)
		return HEFT_ENOMEM;
	for (uint64_t i = 0; i < 1ull << t->bits; i++)
		if (t->slots[i].addr)
			live_table_add(&bigger, &t->slots[i]);
	live_table_fini(t);
	*t = bigger;
	return 0;
}
