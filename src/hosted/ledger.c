/* The lines of a ledger (ledger.h). There are few of them, some hundred in the largest programs: a line is found by
 * looking at all. */
#include "hosted/ledger.h"

#include "hosted/error.h"

#include <string.h>

const char *ledger_kind_name(enum ledger_kind kind)
{
	static const char *const names[LEDGER_KINDS] = {
		[LEDGER_REQUESTED] = "requested",
		[LEDGER_IN_USE] = "in_use",
		[LEDGER_ROUNDING] = "rounding",
		[LEDGER_HEADERS] = "headers",
		[LEDGER_HELD_FREE] = "held_free",
		[LEDGER_LARGE_MAPPINGS] = "large_mappings",
		[LEDGER_ALLOCATOR] = "allocator",
		[LEDGER_MODULES_PRIVATE] = "modules_private",
		[LEDGER_MODULES_SHARED] = "modules_shared",
		[LEDGER_BSS] = "bss",
		[LEDGER_STACKS] = "stacks",
		[LEDGER_FILES] = "files",
		[LEDGER_SHARED_MEMORY] = "shared_memory",
		[LEDGER_ANONYMOUS] = "anonymous",
		[LEDGER_HEFT] = "heft",
		[LEDGER_UNEXPLAINED] = "unexplained",
	};
	return kind < LEDGER_KINDS ? names[kind] : "unexplained";
}

const char *ledger_moment_name(enum ledger_moment moment)
{
	static const char *const names[] = {"peak", "exit", "request", "interval"};
	return names[moment <= LEDGER_INTERVAL ? moment : LEDGER_REQUEST];
}

int ledger_add(struct ledger *l, enum ledger_kind kind, const char *name,
	       const struct ledger_bytes *bytes, struct heft_error *err)
{
	return ledger_add_mapped(l, kind, name, 0, bytes, err);
}

int ledger_add_mapped(struct ledger *l, enum ledger_kind kind, const char *name, uint32_t site,
		      const struct ledger_bytes *bytes, struct heft_error *err)
{
	struct ledger_line *line = NULL;
	for (size_t i = 0; i < l->count && !line; i++)
		if (l->items[i].kind == kind && (!site || l->items[i].site == site) &&
		    !strcmp(l->items[i].name, name))
			line = &l->items[i];
	if (!line) {
		char *copy = strdup(name);
		line = copy ? vector_add(l) : NULL;
		if (!line) {
			free(copy);
			return heft_fail(err, HEFT_ENOMEM, "no memory for the lines of a ledger");
		}
		line->kind = kind;
		line->name = copy;
		line->site = site;
	}
	ledger_bytes_add(&line->bytes, bytes);
	return 0;
}

bool ledger_is_of_glibc(const struct ledger *l)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->items[i].kind == LEDGER_HEADERS || l->items[i].kind == LEDGER_LARGE_MAPPINGS)
			return true;
	return false;
}

void ledger_join(struct ledger *l)
{
	size_t count = 0;
	for (size_t i = 0; i < l->count; i++) {
		struct ledger_line *line = &l->items[i], *same = NULL;
		for (size_t k = 0; k < count && !same; k++)
			if (l->items[k].kind == line->kind && !strcmp(l->items[k].name, line->name))
				same = &l->items[k];
		if (!same) {
			l->items[count++] = *line;
			continue;
		}
		ledger_bytes_add(&same->bytes, &line->bytes);
		same->blocks += line->blocks;
		free(line->name);
		free(line->maker);
	}
	l->count = count;
}

struct ledger_bytes ledger_sum(const struct ledger *l)
{
	struct ledger_bytes sum = {0};
	for (size_t i = 0; i < l->count; i++)
		ledger_bytes_add(&sum, &l->items[i].bytes);
	return sum;
}

int ledger_copy(struct ledger *to, const struct ledger *from)
{
	bool fine = true;
	*to = *from;
	to->items = NULL;
	to->count = to->capacity = 0;
	for (size_t i = 0; i < from->count && fine; i++) {
		struct ledger_line line = from->items[i];
		line.name = strdup(line.name);
		line.maker = line.maker ? strdup(line.maker) : NULL;
		fine = line.name && !line.maker == !from->items[i].maker && vector_push(to, line);
		if (!fine) {
			free(line.name);
			free(line.maker);
		}
	}
	if (!fine)
		ledger_fini(to);
	return fine ? 0 : HEFT_ENOMEM;
}

const struct ledger *ledger_largest(const struct ledger *ledgers, size_t count)
{
	const struct ledger *largest = NULL;
	for (size_t i = 0; i < count; i++)
		if (!largest || ledgers[i].rss_bytes >= largest->rss_bytes)
			largest = &ledgers[i];
	return largest;
}

static int by_kind_and_size(const void *a, const void *b)
{
	const struct ledger_line *x = a, *y = b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->bytes.resident != y->bytes.resident)
		return x->bytes.resident > y->bytes.resident ? -1 : 1;
	return strcmp(x->name, y->name);
}

void ledger_sort(struct ledger *l)
{
	if (l->count)
		qsort(l->items, l->count, sizeof *l->items, by_kind_and_size);
}

void ledger_fini(struct ledger *l)
{
	for (size_t i = 0; i < l->count; i++) {
		free(l->items[i].name);
		free(l->items[i].maker);
	}
	vector_free(l);
}
