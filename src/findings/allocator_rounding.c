/* allocator-rounding: what the allocator adds to many small blocks.
 *
 * The usable size of every block is measured, so rounding (usable minus requested, of what was live
 * at the peak) is a fact. glibc's malloc also keeps 8 bytes before each block, which no usable size
 * shows: they are added where the recording shows that it was glibc's malloc. Blocks of one
 * function are one finding, whatever line or caller they come from, and so are those of neighbours
 * (neighbours.h). */
#include "findings/neighbours.h"

#include "findings/site_names.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

/* In larger blocks the overhead is a small part, with any allocator. */
#define ROUNDING_LARGEST_MEAN 512
#define ROUNDING_LEAST_BLOCKS 1000
/* The overhead's share of what the blocks take. glibc gives multiples of 16 and keeps 8 bytes: blocks of
 * random sizes around 50 bytes lose a quarter. */
#define ROUNDING_LEAST_SHARE 0.25
#define ROUNDING_LEAST_BYTES (64u << 10)
#define ROUNDING_LEAST_PEAK_SHARE 0.02
/* A function that loses less does not matter beside its neighbours either. */
#define ROUNDING_LEAST_PLACE (8u << 10)
/* glibc: the size field in front of every block (malloc.c, "minimum overhead per allocated chunk"). */
#define GLIBC_HEADER_BYTES 8

/* glibc is among the modules, and no allocator that would replace its malloc. */
static bool is_glibc_malloc(const struct profile *p)
{
	static const char *const others[] = {"jemalloc", "mimalloc", "tcmalloc", "hoard",
					     "snmalloc", "rpmalloc", "scudo",    "libasan",
					     "musl",     "libtsan"};
	bool glibc = false;
	for (uint32_t i = 0; i < p->stacks.module_count; i++) {
		const char *name = profile_module_name(p, i);
		for (size_t k = 0; k < sizeof others / sizeof *others; k++)
			if (strstr(name, others[k]))
				return false;
		glibc |= strncmp(name, "libc.so", 7) == 0 || strncmp(name, "libc-2", 6) == 0;
	}
	return glibc;
}

struct rounded {
	uint32_t site;
	uint64_t blocks, bytes, slack;
};

/* The two conditions that hold for every site of a finding, and so for all of them together. */
static bool loses_much(struct rule *r, const struct rounded *of, uint64_t header)
{
	uint64_t lost = of->slack + header * of->blocks;
	return of->blocks &&
	       rule_at_most(r, "bytes in a block on average", UNIT_BYTES,
			    (double)of->bytes / (double)of->blocks, ROUNDING_LARGEST_MEAN) &&
	       rule_at_least(r, "share of rounding and headers in what the blocks take", UNIT_SHARE,
			     share_of(lost, of->bytes + lost), ROUNDING_LEAST_SHARE);
}

static uint64_t lost_by(const struct rounded *r, uint64_t header)
{
	return r->slack + header * r->blocks;
}

static bool is_reported(const struct profile *p, struct rule *rule, const struct rounded *r,
			uint64_t header)
{
	uint64_t lost = lost_by(r, header);
	return loses_much(rule, r, header) &&
	       rule_at_least(rule, "blocks at the peak", UNIT_COUNT, (double)r->blocks,
			     ROUNDING_LEAST_BLOCKS) &&
	       rule_at_least(rule, "bytes of rounding and headers", UNIT_BYTES, (double)lost,
			     ROUNDING_LEAST_BYTES) &&
	       rule_at_least(rule, "rounding and headers, compared with the peak heap", UNIT_SHARE,
			     share_of(lost, p->totals.peak_bytes), ROUNDING_LEAST_PEAK_SHARE);
}

/* Reports the functions of this leader's group, if they lose enough together. */
static int report_group(struct diagnosis *d, const struct spot *spots, uint32_t count,
			uint32_t leader, const struct rounded *list, uint64_t header)
{
	const struct profile *p = d->p;
	struct rounded r = {.site = spots[leader].site};
	for (uint32_t i = leader; i < count; i++) {
		if (spots[i].leader != leader)
			continue;
		r.blocks += list[spots[i].index].blocks;
		r.bytes += list[spots[i].index].bytes;
		r.slack += list[spots[i].index].slack;
	}
	uint64_t headers = header * r.blocks, lost = lost_by(&r, header), taken = r.bytes + lost;
	double share = share_of(lost, taken);
	struct rule rule = rule_begin("The allocator takes much more for many small blocks than "
				      "they hold.");
	if (!is_reported(p, &rule, &r, header))
		return 0;
	uint32_t name = d->named[r.site];
	double mean = (double)r.bytes / (double)r.blocks;
	double each = (double)taken / (double)r.blocks;
	struct draft f = draft_begin(FINDING_ALLOCATOR_ROUNDING, r.site, lost);
	draft_rule(&f, &rule);
	f.finding.severity = severity_of(d, lost);
	const char *places = spots_places(d, spots, count, leader);
	f.no_memory |= !places;
	f.finding.summary = diagnosis_text(
		d,
		"%s blocks from %s hold %.1f bytes on average and take %.1f each in the allocator: "
		"%s %s, %s of what they take",
		words_count(r.blocks).text, places ? places : "", mean, each,
		header ? "rounding and block headers cost" : "rounding costs",
		words_exact_size(lost).text, words_percent(share).text);
	f.finding.advice =
		"Put the small blocks of one owner into one larger block (one buffer and "
		"offsets, an arena, a pool), or keep short ones inside the object that "
		"points to them.";
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_count(&f, "blocks", r.blocks);
	draft_bytes(&f, "requested_bytes", r.bytes);
	draft_bytes(&f, "rounding_bytes", r.slack);
	draft_bytes(&f, "header_bytes", headers);
	draft_bytes(&f, "lost_bytes", lost);
	draft_share(&f, "share", share);
	spots_evidence(d, &f, spots, count, leader, lost);
	return draft_add(d, &f);
}

/* Adds up the sites of the function that begins at `first` of d->by_function; returns where the next one begins. */
static uint32_t add_up_function(const struct diagnosis *d, uint32_t first, uint64_t header,
				struct rounded *r)
{
	const struct profile *p = d->p;
	const uint32_t *sites = d->by_function;
	uint64_t most = 0;
	uint32_t next = first;
	*r = (struct rounded){.site = sites[first]};
	for (; next < d->by_function_count && named_alike(p, d->named, sites[first], sites[next]);
	     next++) {
		const struct profile_site *s = &p->sites[sites[next]];
		struct rounded own = {.blocks = s->peak_blocks,
				      .bytes = s->peak_bytes,
				      .slack = s->peak_slack_bytes};
		struct rule unused = rule_begin(NULL);
		/* A function may make small and large blocks. Only sites that lose much count. */
		if (!loses_much(&unused, &own, header))
			continue;
		r->blocks += own.blocks;
		r->bytes += own.bytes;
		r->slack += own.slack;
		if (own.slack > most) {
			most = own.slack;
			r->site = sites[next];
		}
	}
	return next;
}

int diagnose_allocator_rounding(struct diagnosis *d)
{
	const struct profile *p = d->p;
	if (!p->totals.peak_slack_bytes) /* usable sizes were not measured */
		return 0;
	uint64_t header = is_glibc_malloc(p) ? GLIBC_HEADER_BYTES : 0;
	struct rounded *list = NULL;
	struct spot *spots = NULL;
	uint32_t count = 0, capacity = 0, spot_capacity = 0;
	int rc = 0;
	for (uint32_t i = 0; i < d->by_function_count && rc == 0;) {
		struct rounded r;
		i = add_up_function(d, i, header, &r);
		uint64_t lost = lost_by(&r, header);
		if (lost < ROUNDING_LEAST_PLACE)
			continue;
		if (!array_reserve(list, count, capacity, 1) ||
		    !array_reserve(spots, count, spot_capacity, 1)) {
			rc = HEFT_ENOMEM;
			break;
		}
		struct rule unused = rule_begin(NULL);
		list[count] = r;
		spots[count] = (struct spot){.site = r.site,
					     .rank = lost,
					     .bytes = lost,
					     .alone = is_reported(p, &unused, &r, header),
					     .index = count};
		count++;
	}
	if (rc == 0)
		spots_group(d, spots, count);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (spots[i].leader == i)
			rc = report_group(d, spots, count, i, list, header);
	free(list);
	free(spots);
	return rc;
}
