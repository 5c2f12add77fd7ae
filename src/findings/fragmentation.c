/* fragmentation: free memory that cannot go back to the system, because each of its pages has a live byte. The finding
 * names the sites whose survivors keep those pages: the free bytes of a page are divided among its blocks by size.
 *
 * Pages without a live byte are no fragmentation. The allocator could give them back, and heft says how much of them
 * malloc_trim would. It is known when the program ended; a program that frees everything before has none. */
#include "findings/look_places.h"

#include "findings/site_names.h"

#include <stdlib.h>

#define FRAGMENTS_LEAST_BYTES (1u << 20)
#define FRAGMENTS_LEAST_SHARE 0.25 /* of the resident heap */
/* A site that keeps less is one of many. */
#define FRAGMENTS_LEAST_PLACE_SHARE 0.05
enum { FRAGMENTS_PLACES = 4 };

static uint64_t pinned_by(const struct profile_look *l)
{
	return l->pinned_bytes;
}

static int add_parts(struct diagnosis *d, struct draft *f, const struct look_place *list,
		     uint32_t count, uint64_t pinned)
{
	struct evidence_part *parts = name_pool_alloc(d->pool, FRAGMENTS_PLACES * sizeof *parts);
	uint32_t used = 0;
	if (!parts)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < count && used < FRAGMENTS_PLACES; i++) {
		uint32_t node = d->named[list[i].site], frame = d->p->stacks.nodes[node].frame;
		double share = share_of(list[i].look.pinned_bytes, pinned);
		if (share < FRAGMENTS_LEAST_PLACE_SHARE)
			break;
		parts[used++] = (struct evidence_part){
			.function = d->p->stacks.frames[frame].function,
			.where = diagnosis_keep(d, phrase_where(d->p, frame)),
			.bytes = list[i].look.pinned_bytes,
			.share = share,
			.site = list[i].site};
	}
	draft_parts(f, "places", parts, used);
	return 0;
}

static int report(struct diagnosis *d, const struct look_place *list, uint32_t count)
{
	const struct profile *p = d->p;
	const struct profile_heap *h = &p->heap;
	double share = share_of(h->pinned_bytes, h->heap_bytes);
	struct rule r = rule_begin("Much of the heap is free, but in pages that live blocks keep.");
	if (!count ||
	    !rule_at_least(&r, "free bytes in pages with live blocks", UNIT_BYTES,
			   (double)h->pinned_bytes, FRAGMENTS_LEAST_BYTES) ||
	    !rule_at_least(&r, "these, compared with the resident heap", UNIT_SHARE, share,
			   FRAGMENTS_LEAST_SHARE))
		return 0;
	uint32_t name = d->named[list[0].site];
	double most = share_of(list[0].look.pinned_bytes, h->pinned_bytes);
	struct draft f = draft_begin(FINDING_FRAGMENTATION, list[0].site, h->pinned_bytes);
	draft_rule(&f, &r);
	f.finding.severity = severity_of(d, h->pinned_bytes);
	f.finding.summary = diagnosis_text(
		d,
		"%s of the heap's %s, %s, are free but cannot go back: live blocks are in each "
		"page of them, %s of it kept by blocks from %s",
		words_exact_size(h->pinned_bytes).text, words_exact_size(h->heap_bytes).text,
		words_percent(share).text, words_percent(most).text, phrase_place(p, name).text);
	f.finding.advice = diagnosis_text(
		d,
		"Keep what lives long apart from what comes and goes: make the survivors first, "
		"or in an arena of their own, or move them together once the others are gone. "
		"malloc_trim would give back %s.",
		words_size(h->trim_bytes).text);
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_bytes(&f, "pinned_bytes", h->pinned_bytes);
	draft_bytes(&f, "heap_bytes", h->heap_bytes);
	draft_share(&f, "share", share);
	draft_bytes(&f, "releasable_bytes", h->releasable_bytes);
	draft_bytes(&f, "trim_bytes", h->trim_bytes);
	int rc = add_parts(d, &f, list, count, h->pinned_bytes);
	return rc ? rc : draft_add(d, &f);
}

int diagnose_fragmentation(struct diagnosis *d)
{
	struct look_place *list = NULL;
	uint32_t count = 0;
	if (!(d->p->run.has & PROFILE_HAS_PINNED))
		return 0;
	int rc = look_places(d, pinned_by, &list, &count);
	if (rc == 0)
		rc = report(d, list, count);
	free(list);
	return rc;
}
