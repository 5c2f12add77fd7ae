/* leak-unreachable: blocks that nothing in the program leads to any more when it ends. Whoever wanted to free them could
 * not: the last pointer is gone. Blocks that are merely left at exit, with a pointer somewhere, are no leak.
 *
 * A block is named if it is lost directly: no other lost block leads to it. What is lost through it (the nodes of a list
 * whose head is lost) is said with it, since whoever frees the one can free the other.
 *
 * A few bytes that a library loses once are not worth a sentence; `heft report --sort unreachable` shows all. */
#include "findings/look_places.h"

#include "findings/site_names.h"

#include <stdlib.h>

#define LEAK_LEAST_BYTES 1024 /* lost directly, and through those */

static uint64_t lost_by(const struct profile_look *l)
{
	return l->unreachable_bytes - l->indirect_bytes + l->held_bytes;
}

static int report_place(struct diagnosis *d, const struct look_place *place)
{
	const struct profile *p = d->p;
	const struct profile_look *l = &place->look;
	uint64_t lost = lost_by(l), blocks = l->unreachable_blocks - l->indirect_blocks;
	uint64_t direct = l->unreachable_bytes - l->indirect_bytes;
	struct rule r = rule_begin("When the program ended, no pointer to these blocks was left "
				   "anywhere in its memory, so that nothing could free them.");
	/* Indirect ones are said with those that lead to them. */
	if (!blocks ||
	    !rule_at_least(&r, "blocks that no pointer leads to", UNIT_COUNT, (double)blocks, 1) ||
	    !rule_at_least(&r, "bytes of these, and of what is lost through them", UNIT_BYTES,
			   (double)lost, LEAK_LEAST_BYTES))
		return 0;
	uint32_t name = d->named[place->site];
	struct draft f = draft_begin(FINDING_LEAK_UNREACHABLE, place->site, lost);
	draft_rule(&f, &r);
	f.finding.severity = severity_of(d, lost);
	const char *through = l->held_blocks
				      ? diagnosis_text(
						d, ", and %s in %s that only %s",
						words_exact_size(l->held_bytes).text,
						words_many(l->held_blocks, "block", "blocks").text,
						blocks == 1 ? "it leads to" : "these lead to")
				      : "";
	f.no_memory |= !through;
	f.finding.summary = diagnosis_text(
		d, "%s from %s: when the program ended, nothing led to %s any more: %s are lost%s",
		words_many(blocks, "block", "blocks").text, phrase_place(p, name).text,
		blocks == 1 ? "it" : "them", words_exact_size(direct).text, through ? through : "");
	f.finding.advice =
		l->held_blocks
			? "Free them, and what they lead to, before the last pointer to them goes: "
			  "where it is overwritten, or where the object that held it is freed."
			: "Free them before the last pointer to them goes: where it is "
			  "overwritten, "
			  "or where the object that held it is freed. If something outside of the "
			  "program's memory keeps the pointer, --suppressions silences it.";
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_count(&f, "direct_blocks", blocks);
	draft_bytes(&f, "direct_bytes", direct);
	draft_count(&f, "indirect_blocks", l->held_blocks);
	draft_bytes(&f, "indirect_bytes", l->held_bytes);
	draft_share(&f, "share", share_of(lost, p->totals.left_bytes));
	return draft_add(d, &f);
}

int diagnose_leak_unreachable(struct diagnosis *d)
{
	struct look_place *list = NULL;
	uint32_t count = 0;
	if (!(d->p->run.has & PROFILE_HAS_REACHABLE))
		return 0;
	int rc = look_places(d, lost_by, &list, &count);
	for (uint32_t i = 0; i < count && i < FINDINGS_OF_A_KIND && rc == 0; i++)
		rc = report_place(d, &list[i]);
	free(list);
	return rc;
}
