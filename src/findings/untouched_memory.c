/* untouched-memory: blocks of which most pages were never written to. The kernel gives memory when it is first touched, so
 * these bytes are not resident: they cost nothing yet, but they count as heap, against limits of address space, and
 * become real as soon as somebody clears them (a memset, or an allocator whose calloc does).
 *
 * Known exactly, page by page, from the look that found most live bytes: near the peak, or when the program ended. Blocks
 * smaller than a page never show it. */
#include "findings/look_places.h"

#include "findings/site_names.h"

#include <stdlib.h>
#include <string.h>

#define UNTOUCHED_LEAST_BYTES (1u << 20)
#define UNTOUCHED_LEAST_SHARE 0.5      /* of the function's live bytes */
#define UNTOUCHED_LEAST_HEAP_SHARE 0.1 /* of all live bytes */
#define UNTOUCHED_FEW_BLOCKS 16        /* a buffer for the largest input, not one for each object */

static uint64_t untouched_by(const struct profile_look *l)
{
	return l->untouched_bytes;
}

static int report_place(struct diagnosis *d, const struct look_place *place)
{
	const struct profile *p = d->p;
	const struct profile_look *l = &place->look;
	const uint64_t bytes = l->untouched_of_bytes, blocks = l->untouched_of_blocks;
	const uint32_t name = d->named[place->site];
	const char *function = p->stacks.frames[p->stacks.nodes[name].frame].function;
	double share = share_of(l->untouched_bytes, bytes);
	/* They are of many places, which nobody knows. */
	if (p->run.older_listed && !strcmp(function, PROFILE_OLDER_PLACE))
		return 0;
	struct rule r = rule_begin("Most pages of these blocks were never written to.");
	if (!l->untouched_blocks ||
	    !rule_at_least(&r, "bytes that were never touched", UNIT_BYTES,
			   (double)l->untouched_bytes, UNTOUCHED_LEAST_BYTES) ||
	    !rule_at_least(&r, "untouched share of the function's live bytes", UNIT_SHARE, share,
			   UNTOUCHED_LEAST_SHARE) ||
	    !rule_at_least(&r, "untouched bytes, compared with all that was live", UNIT_SHARE,
			   share_of(l->untouched_bytes, p->heap.untouched_of_bytes),
			   UNTOUCHED_LEAST_HEAP_SHARE))
		return 0;
	uint64_t each = blocks ? bytes / blocks : 0;
	uint64_t used = blocks ? (bytes - l->untouched_bytes) / blocks : 0;
	struct draft f = draft_begin(FINDING_UNTOUCHED_MEMORY, place->site, l->untouched_bytes);
	draft_rule(&f, &r);
	/* It is not resident: never high. The buffers of a compressor do not grow with what the program keeps. */
	const enum finding_severity most = l->untouched_blocks < UNTOUCHED_FEW_BLOCKS
						   ? FINDING_LOW
						   : FINDING_MEDIUM;
	f.finding.severity = severity_of(d, l->untouched_bytes);
	if (f.finding.severity > most)
		f.finding.severity = most;
	f.finding.summary = diagnosis_text(
		d,
		"%s from %s: %s of %s, %s, were never touched: %s each were asked for, and %s "
		"used",
		words_many(blocks, "block", "blocks").text, phrase_place(p, name).text,
		words_exact_size(l->untouched_bytes).text, words_exact_size(bytes).text,
		words_percent(share).text, words_exact_size(each).text,
		words_exact_size(used).text);
	f.finding.advice =
		"Ask for what is needed and let it grow, or share one reserve. These bytes are not "
		"resident yet; whatever clears them (memset, or calloc of another allocator) makes "
		"them so.";
	draft_text(&f, "function", function);
	draft_count(&f, "blocks", blocks);
	draft_bytes(&f, "requested_bytes", bytes);
	draft_bytes(&f, "untouched_bytes", l->untouched_bytes);
	draft_count(&f, "untouched_blocks", l->untouched_blocks);
	draft_bytes(&f, "requested_bytes_each", each);
	draft_bytes(&f, "touched_bytes_each", used);
	draft_share(&f, "share", share);
	return draft_add(d, &f);
}

int diagnose_untouched_memory(struct diagnosis *d)
{
	struct look_place *list = NULL;
	uint32_t count = 0;
	if (!(d->p->run.has & PROFILE_HAS_TOUCHED))
		return 0;
	int rc = look_places(d, untouched_by, &list, &count);
	for (uint32_t i = 0; i < count && i < FINDINGS_OF_A_KIND && rc == 0; i++)
		rc = report_place(d, &list[i]);
	free(list);
	return rc;
}
