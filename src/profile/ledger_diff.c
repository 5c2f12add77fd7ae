/* Compares ledgers (ledger_diff.h). A line is the same on both sides if its kind and its name are; of a module the
 * file's name counts, because a program that was built again often stands elsewhere, and of memory that a call has
 * mapped the function and the file, because that call may stand in another line of it. Both lists are sorted and merged,
 * so that a hostile recording with many lines costs no more than sorting them. */
#include "profile/ledger_diff.h"

#include "hosted/error.h"
#include "hosted/ledger_words.h"

#include <math.h>
#include <string.h>

/* How much of "mapped by pool_grow (arena.cc:12)" stays the same when the file changes. */
static size_t lasting_length(const struct ledger_line *line, const char *name)
{
	size_t length = strlen(name);
	const char *colon = strrchr(name, ':');
	if (line->kind != LEDGER_ANONYMOUS || !colon || !length || name[length - 1] != ')' ||
	    strspn(colon + 1, "0123456789") != length - 2 - (size_t)(colon - name))
		return length;
	return (size_t)(colon - name);
}

static int by_identity(const struct ledger_line *x, const struct ledger_line *y)
{
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	const char *a = ledger_line_name(x), *b = ledger_line_name(y);
	size_t p = lasting_length(x, a), q = lasting_length(y, b);
	int order = memcmp(a, b, p < q ? p : q);
	return order ? order : (p > q) - (p < q);
}

static int by_name(const void *a, const void *b)
{
	const struct ledger_line *x = *(const struct ledger_line *const *)a;
	const struct ledger_line *y = *(const struct ledger_line *const *)b;
	int order = by_identity(x, y);
	return order ? order : strcmp(x->name, y->name);
}

static const struct ledger_line **sorted(const struct ledger *l)
{
	const struct ledger_line **lines = malloc((l->count + 1) * sizeof *lines);
	for (size_t i = 0; lines && i < l->count; i++)
		lines[i] = &l->items[i];
	if (lines)
		qsort(lines, l->count, sizeof *lines, by_name);
	return lines;
}

static uint64_t distance(int64_t change)
{
	return change < 0 ? 0 - (uint64_t)change : (uint64_t)change;
}

static int by_change(const void *a, const void *b)
{
	const struct ledger_change *x = a, *y = b;
	uint64_t p = distance(x->change), q = distance(y->change);
	if (p != q)
		return p > q ? -1 : 1;
	return by_identity(x->new ? x->new : x->old, y->new ? y->new : y->old);
}

static int merge(struct ledger_diff *d, const struct ledger_line **old,
		 const struct ledger_line **new)
{
	size_t i = 0, k = 0;
	while (i < d->old->count || k < d->new->count) {
		int order = i == d->old->count   ? 1
			    : k == d->new->count ? -1
						 : by_identity(old[i], new[k]);
		struct ledger_change c = {order <= 0 ? old[i] : NULL, order >= 0 ? new[k] : NULL,
					  0};
		/* Below 2^48 each (trace/ledger_block.c) */
		c.change = (int64_t)(c.new ? c.new->bytes.resident : 0) -
			   (int64_t)(c.old ? c.old->bytes.resident : 0);
		if (!vector_push(d, c))
			return HEFT_ENOMEM;
		i += order <= 0;
		k += order >= 0;
	}
	if (d->count)
		qsort(d->items, d->count, sizeof *d->items, by_change);
	return 0;
}

static const struct ledger *largest_at(const struct profile *p, enum ledger_moment moment)
{
	const struct ledger *largest = NULL;
	for (uint32_t i = 0; i < p->ledger_count; i++)
		if (p->ledgers[i].moment == moment &&
		    (!largest || p->ledgers[i].rss_bytes >= largest->rss_bytes))
			largest = &p->ledgers[i];
	return largest;
}

int ledger_diff_init(struct ledger_diff *d, const struct profile *old, const struct profile *new,
		     enum ledger_moment moment)
{
	*d = (struct ledger_diff){.old = largest_at(old, moment), .new = largest_at(new, moment)};
	if (!d->old || !d->new)
		return HEFT_ENOTFOUND;
	const struct ledger_line **a = sorted(d->old), **b = sorted(d->new);
	int rc = a && b ? merge(d, a, b) : HEFT_ENOMEM;
	free(a);
	free(b);
	if (rc)
		ledger_diff_fini(d);
	return rc;
}

void ledger_diff_fini(struct ledger_diff *d)
{
	vector_free(d);
}

bool ledger_diff_is_beyond(const struct ledger_diff *d, double threshold)
{
	double change = (double)d->new->rss_bytes - (double)d->old->rss_bytes;
	return fabs(change) > threshold ||
	       (d->count && (double)distance(d->items[0].change) > threshold);
}
