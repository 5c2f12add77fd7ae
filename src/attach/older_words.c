/* What a program had allocated before, in words (older_blocks.h). */
#include "attach/older_blocks.h"

#include "hosted/number_words.h"

#include <stdio.h>

void older_words(const struct older_totals *t, char *text, size_t size)
{
	uint64_t heap = t->used.bytes - t->mapped.bytes + t->unused.bytes + t->top_bytes;
	uint64_t unused = t->unused.bytes + t->top_bytes;
	const char *how = t->incomplete ? "at least " : t->exact ? "" : "about ";
	char mapped[80] = "";
	if (t->mapped.blocks)
		snprintf(mapped, sizeof mapped, " and %s",
			 words_many(t->mapped.blocks, "mapping", "mappings").text);
	snprintf(text, size, "before: %s%s in %s in %s%s (%.0f %% of the heap is free)", how,
		 words_size(t->used.bytes).text, words_many(t->used.blocks, "block", "blocks").text,
		 words_many(t->arena_count, "arena", "arenas").text, mapped,
		 heap ? 100.0 * (double)unused / (double)heap : 0.0);
}
