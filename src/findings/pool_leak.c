/* pool-leak: objects of one of the program's own allocators (heft_pool_alloc) that nobody gives back, in a pool that still
 * lives when its process ends. Among malloc's blocks they cannot be seen: the pool's chunks are live anyway.
 *
 * An arena keeps everything until it goes, and a table that is filled at the start keeps it for good. Neither is a leak. So
 * it must be seen that the pool's other objects come and go, more of them than are left here, and that those which are left
 * were made all the time: in nearly every eighth of the life of their process. A cache keeps the newest, a table the
 * oldest. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"

#include <stdlib.h>

#define POOL_LEAK_LEAST_OBJECTS 100
#define POOL_LEAK_LEAST_BYTES 1024
/* Of what the pool handed out elsewhere, or here and was given back */
#define POOL_LEAK_LEAST_GIVEN_BACK 0.9
/* An eighth counts if it has this part of its even share. One may be missing: start-up, or the end of the work. */
#define POOL_LEAK_EVEN 0.25
#define POOL_LEAK_LEAST_PARTS (PROFILE_POOL_PARTS - 1)

/* In how many parts of the time the objects that are left were made. */
static uint32_t parts_of(const struct profile_pool_site *s)
{
	const double even = (double)s->left_objects / PROFILE_POOL_PARTS;
	uint32_t parts = 0;
	for (int i = 0; i < PROFILE_POOL_PARTS; i++)
		parts += s->left_parts[i] && (double)s->left_parts[i] >= POOL_LEAK_EVEN * even;
	return parts;
}

static bool stays(const struct profile_pool_site *s)
{
	return s->left_objects >= POOL_LEAK_LEAST_OBJECTS && parts_of(s) >= POOL_LEAK_LEAST_PARTS;
}

/* "arena_alloc (arena.c:3), called by load_row (row.c:12),", in the pool of texts. */
static const char *place_words(struct diagnosis *d, uint32_t node)
{
	const struct profile *p = d->p;
	uint32_t user = node == PROFILE_NONE ? node : profile_first_user_node(p, node);
	uint32_t caller = user == PROFILE_NONE ? user : user_caller(p, user);
	if (caller == PROFILE_NONE)
		return diagnosis_keep(d, phrase_place(p, user));
	return diagnosis_text(d, "%s, called by %s,", phrase_place(p, user).text,
			      phrase_place(p, caller).text);
}

static const char *function_of(const struct profile *p, uint32_t node)
{
	return node < p->stacks.node_count ? profile_node_frame(p, node)->function : "unknown";
}

/* others: objects of the pool that are not left at a place like this one. */
static int report_site(struct diagnosis *d, const struct profile_pool *pool,
		       const struct profile_pool_site *s, uint64_t others)
{
	const struct profile *p = d->p;
	double given = share_of(pool->freed, others);
	struct rule r = rule_begin("Objects of a pool are taken all the time and never given "
				   "back, while the pool's other objects come and go, and the "
				   "pool still lived when its process ended.");
	if (!rule_at_least(&r, "objects that are left", UNIT_COUNT, (double)s->left_objects,
			   POOL_LEAK_LEAST_OBJECTS) ||
	    !rule_at_least(&r, "their bytes", UNIT_BYTES, (double)s->left_bytes,
			   POOL_LEAK_LEAST_BYTES) ||
	    !rule_at_least(&r, "eighths of the time in which they were made", UNIT_COUNT,
			   parts_of(s), POOL_LEAK_LEAST_PARTS) ||
	    !rule_at_least(&r, "objects of the pool that were given back", UNIT_COUNT,
			   (double)pool->freed, (double)s->left_objects) ||
	    !rule_at_least(&r, "given back of the pool's other objects", UNIT_SHARE, given,
			   POOL_LEAK_LEAST_GIVEN_BACK))
		return 0;
	struct draft f = draft_begin(FINDING_POOL_LEAK, PROFILE_NONE, s->left_bytes);
	const char *where = place_words(d, s->node);
	uint32_t user = s->node == PROFILE_NONE ? s->node : profile_first_user_node(p, s->node);
	draft_rule(&f, &r);
	f.finding.severity = severity_of(d, s->left_bytes);
	f.finding.summary =
		where ? diagnosis_text(
				d,
				"pool \"%.60s\": %s of %s taken at %s were not given back, %s in "
				"all, though %s of the pool's other objects were",
				pool->name, words_count(s->left_objects).text,
				words_many(s->objects, "object", "objects").text, where,
				words_exact_size(s->left_bytes).text, words_percent(given).text)
		      : NULL;
	f.finding.advice = "Give each object back to the pool where its owner ends, or destroy "
			   "the pool when nothing in it is needed any more. If the program is "
			   "meant to keep these objects until it ends, nothing is wrong.";
	draft_text(&f, "pool", pool->name);
	draft_text(&f, "function", function_of(p, user));
	draft_text(&f, "caller_function",
		   function_of(p, user == PROFILE_NONE ? user : user_caller(p, user)));
	draft_count(&f, "objects", s->objects);
	draft_count(&f, "given_back", s->freed);
	draft_count(&f, "left_objects", s->left_objects);
	draft_bytes(&f, "left_bytes", s->left_bytes);
	draft_share(&f, "others_given_back_share", given);
	return draft_add(d, &f);
}

int diagnose_pool_leak(struct diagnosis *d)
{
	const struct profile_remarks *r = &d->p->remarks;
	uint32_t reported = 0;
	int rc = 0;
	for (uint32_t i = 0; i < r->pool_count && rc == 0; i++) {
		const struct profile_pool *pool = &r->pools[i];
		uint64_t others = pool->objects;
		for (uint32_t k = 0; k < pool->sites; k++)
			if (stays(&r->pool_sites[pool->first + k]))
				others -= r->pool_sites[pool->first + k].left_objects;
		for (uint32_t k = 0; k < pool->sites && reported < FINDINGS_OF_A_KIND && rc == 0;
		     k++) {
			uint32_t before = findings_count(d->out);
			rc = report_site(d, pool, &r->pool_sites[pool->first + k], others);
			reported += findings_count(d->out) > before;
		}
	}
	return rc;
}
