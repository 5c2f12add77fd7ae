/* What a program had allocated before, in words (older_blocks.h). */
#include "attach/older_blocks.h"

#include "hosted/number_words.h"

#include <stdarg.h>
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

struct line {
	char *text;
	size_t size, used;
};

static void put(struct line *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct line *l, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int n = vsnprintf(l->text + l->used, l->size - l->used, fmt, ap);
	va_end(ap);
	size_t left = l->size - 1 - l->used;
	l->used += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
}

void older_details(const struct older_totals *t, char *text, size_t size)
{
	enum { ARENAS_SHOWN = 4 };
	struct line l = {text, size, 0};
	const char *between = "by size: ";
	text[0] = 0;
	for (unsigned i = 0; i < OLDER_CLASSES; i++) {
		const struct older_sum *c = &t->classes[i];
		bool last = i + 1 == OLDER_CLASSES;
		if (!c->blocks)
			continue;
		put(&l, "%s%s %s: %s in %s", between, last ? "over" : "up to",
		    words_bytes(UINT64_C(32) << (last ? i - 1 : i)).text,
		    words_bytes(c->bytes).text, words_count(c->blocks).text);
		between = ", ";
	}
	between = "; by arena: ";
	for (unsigned i = 0; t->arena_count > 1 && i < t->arena_count && i < ARENAS_SHOWN; i++) {
		const struct older_arena *a = &t->arenas[i];
		put(&l, "%s%s in %s (of %s)", between, words_bytes(a->used.bytes).text,
		    words_count(a->used.blocks).text, words_bytes(a->system_bytes).text);
		between = ", ";
	}
	if (t->arena_count > ARENAS_SHOWN)
		put(&l, ", and in %s",
		    words_many(t->arena_count - ARENAS_SHOWN, "other", "others").text);
}
