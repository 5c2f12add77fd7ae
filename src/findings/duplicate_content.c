/* duplicate-content: many live blocks of one function hold the same bytes as others. One of them would do, if nobody
 * writes to them: strings that are interned, records that are shared.
 *
 * That blocks are equal when the program ends does not say that they are never written to, so the finding needs a large
 * share of what the function has, and the advice says what to look at. Blocks that hold nothing but zeros are not
 * counted: they are empty, not equal. */
#include "findings/look_places.h"

#include "findings/site_names.h"

#include <stdlib.h>

#define DUPLICATE_LEAST_BYTES (128u << 10)
#define DUPLICATE_LEAST_BLOCKS 16
#define DUPLICATE_LEAST_SHARE 0.5       /* of the function's live bytes */
#define DUPLICATE_LEAST_HEAP_SHARE 0.02 /* of all live bytes */

static uint64_t equal_in(const struct profile_look *l)
{
	return l->duplicate_bytes;
}

static int report_place(struct diagnosis *d, const struct look_place *place)
{
	const struct profile *p = d->p;
	const struct profile_look *l = &place->look;
	double share = share_of(l->duplicate_bytes, place->bytes);
	struct rule r = rule_begin("Most live blocks of a function are equal to others, byte by "
				   "byte.");
	if (!rule_at_least(&r, "blocks that are equal to another one", UNIT_COUNT,
			   (double)l->duplicate_blocks, DUPLICATE_LEAST_BLOCKS) ||
	    !rule_at_least(&r, "resident bytes of these", UNIT_BYTES, (double)l->duplicate_bytes,
			   DUPLICATE_LEAST_BYTES) ||
	    !rule_at_least(&r, "share of the function's live bytes", UNIT_SHARE, share,
			   DUPLICATE_LEAST_SHARE) ||
	    !rule_at_least(&r, "compared with all that was live", UNIT_SHARE,
			   share_of(l->duplicate_bytes, p->totals.left_bytes),
			   DUPLICATE_LEAST_HEAP_SHARE))
		return 0;
	uint32_t name = d->named[place->site];
	struct draft f = draft_begin(FINDING_DUPLICATE_CONTENT, place->site, l->duplicate_bytes);
	draft_rule(&f, &r);
	f.finding.severity = severity_of(d, l->duplicate_bytes);
	f.finding.summary = diagnosis_text(
		d,
		"%s of %s from %s hold the same bytes as another one: %s could be shared, %s of "
		"what they take",
		words_count(l->duplicate_blocks).text,
		words_many(place->blocks, "block", "blocks").text, phrase_place(p, name).text,
		words_exact_size(l->duplicate_bytes).text, words_percent(share).text);
	f.finding.advice = "If these blocks are not written to any more, keep one of each content "
			   "and share it: intern strings, count references, or load them once.";
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_count(&f, "blocks", place->blocks);
	draft_count(&f, "duplicate_blocks", l->duplicate_blocks);
	draft_bytes(&f, "duplicate_bytes", l->duplicate_bytes);
	draft_bytes(&f, "zero_bytes", l->zero_bytes);
	draft_share(&f, "share", share);
	return draft_add(d, &f);
}

int diagnose_duplicate_content(struct diagnosis *d)
{
	struct look_place *list = NULL;
	uint32_t count = 0;
	if (!(d->p->run.has & PROFILE_HAS_EQUAL))
		return 0;
	int rc = look_places(d, equal_in, &list, &count);
	for (uint32_t i = 0; i < count && i < FINDINGS_OF_A_KIND && rc == 0; i++)
		rc = report_place(d, &list[i]);
	free(list);
	return rc;
}
