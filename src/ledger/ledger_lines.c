/* From what was read of a process to the lines of its ledger (ledger_parts.h): every rule makes its claims, every turn gets
 * its pages, and each span becomes a part of a line. */
#include "ledger/ledger_parts.h"

#include "hosted/error.h"
#include "hosted/sorted.h"

/* ---- claims */

/* Whoever waits for the recorder sees that something is done: each part may take a while on a busy machine. */
void ledger_show_life(const struct ledger_taking *t)
{
	if (t->request)
		t->request->step(t->request->ctx);
}

/* Some rules look into the memory of the process, which must not end before. */
int ledger_claims_make(struct ledger_taking *t, bool looking, struct heft_error *err)
{
	static const struct {
		int (*claim)(struct ledger_taking *, struct heft_error *);
		enum ledger_turn turn;
		bool looks;
	} rules[] = {
		{ledger_names_claim, LEDGER_TURN_NAMES, true},
		{ledger_own_claim, LEDGER_TURN_OWN, true},
		{ledger_heap_claim, LEDGER_TURN_HEAP, true},
		{ledger_runtimes_claim, LEDGER_TURN_RUNTIMES, true},
		{ledger_stacks_claim, LEDGER_TURN_STACKS, true},
		{ledger_recorded_claim, LEDGER_TURN_RECORDED, false},
		{ledger_mapped_claim, LEDGER_TURN_MAPPED, false},
		{ledger_rest_claim, LEDGER_TURN_REST, false},
	};
	int rc = 0;
	for (size_t i = 0; i < sizeof rules / sizeof *rules && !rc; i++) {
		t->turn = rules[i].turn;
		if (rules[i].looks == looking)
			rc = rules[i].claim(t, err);
		ledger_show_life(t);
	}
	return rc;
}

/* Those that need no look at the process any more; then every turn gets its pages. */
int ledger_claims_settle(struct ledger_taking *t, struct heft_error *err)
{
	int rc = ledger_claims_make(t, false, err);
	for (size_t i = 0; i < LEDGER_TURNS && !rc; i++)
		rc = ledger_spans_claim(&t->taken, &t->wanted[i], err);
	return rc;
}

/* ---- lines */

/* Memory of an allocator is one line, whoever called it: one call that mapped some of it stands for all. */
static int add_with_site(struct ledger_taking *t, const struct ledger_span *s,
			 const struct ledger_bytes *bytes, struct ledger *l, struct heft_error *err)
{
	if (s->site)
		return ledger_add_mapped(l, s->kind, s->name, s->site, bytes, err);
	int rc = ledger_add(l, s->kind, s->name, bytes, err);
	size_t i = count_before(k, t->blocks.mapped.count,
				t->blocks.mapped.items[k].end <= s->start);
	if (rc || i == t->blocks.mapped.count || t->blocks.mapped.items[i].start > s->start)
		return rc;
	for (size_t k = 0; k < l->count; k++)
		if (l->items[k].kind == s->kind && !strcmp(l->items[k].name, s->name) &&
		    !l->items[k].site)
			l->items[k].site = t->blocks.mapped.items[i].site + 1;
	return rc;
}

static int add_span(struct ledger_taking *t, const struct ledger_span *s, struct ledger *l,
		    struct heft_error *err)
{
	struct ledger_bytes all = {0};
	ledger_pages_measure(&t->pages, s->start, s->end, &all);
	if (s->kind == LEDGER_ALLOCATOR || s->site)
		return add_with_site(t, s, &all, l, err);
	if (!s->by_owner || !all.own)
		return ledger_add(l, s->kind, s->name, &all, err);
	struct ledger_bytes own = {.resident = all.own, .own = all.own, .swapped = all.swapped};
	own.mapped = own.resident + own.swapped;
	all.resident -= own.resident;
	all.mapped -= own.mapped;
	all.own = all.swapped = 0;
	int rc = ledger_add(l, LEDGER_MODULES_PRIVATE, s->name, &own, err);
	return rc || !all.mapped ? rc : ledger_add(l, s->kind, s->name, &all, err);
}

/* What is in memory and in no span: nothing, unless a rule is wrong. */
static int add_unclaimed(struct ledger_taking *t, struct ledger *l, struct heft_error *err)
{
	struct ledger_bytes left = {.resident = l->rss_bytes};
	uint64_t claimed = ledger_sum(l).resident;
	left.resident -= claimed < left.resident ? claimed : left.resident;
	(void)t;
	return left.resident ? ledger_add(l, LEDGER_UNEXPLAINED, "pages in no mapping", &left, err)
			     : 0;
}

int ledger_lines_make(struct ledger_taking *t, struct ledger *l, struct heft_error *err)
{
	struct ledger_bytes heap = {0}, others = {0};
	int rc = 0;
	for (size_t i = 0; i < t->taken.count && !rc; i++) {
		const struct ledger_span *s = &t->taken.items[i];
		if (s->name == ledger_heap_name)
			ledger_pages_measure(&t->pages, s->start, s->end, &heap);
		else if (s->name == ledger_pages_of_blocks)
			ledger_pages_measure(&t->pages, s->start, s->end, &others);
		else
			rc = add_span(t, s, l, err);
	}
	if (!rc)
		rc = t->request ? ledger_recorded_lines(t, &heap, &others, l, err)
				: ledger_heap_lines(t, &heap, l, err);
	return rc ? rc : add_unclaimed(t, l, err);
}
