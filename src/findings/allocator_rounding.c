/* allocator-rounding: what the allocator adds to many small blocks.
 *
 * The usable size of every block is measured, so rounding (usable minus requested, of what was live
 * at the peak) is a fact. glibc's malloc also keeps 8 bytes before each block, which no usable size
 * shows: they are added where the recording shows that it was glibc's malloc. Blocks of one
 * function are one finding, whatever line or caller they come from. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"

#include <string.h>

/* In larger blocks the overhead is a small part, with any allocator. */
#define ROUNDING_LARGEST_MEAN 512
#define ROUNDING_LEAST_BLOCKS 1000
/* The overhead's share of what the blocks take. glibc gives multiples of 16 and keeps 8 bytes: blocks of
 * random sizes around 50 bytes lose a quarter. */
#define ROUNDING_LEAST_SHARE 0.25
#define ROUNDING_LEAST_BYTES (64u << 10)
#define ROUNDING_LEAST_PEAK_SHARE 0.02
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

static int add_finding(struct diagnosis *d, const struct rounded *r, uint64_t header)
{
	const struct profile *p = d->p;
	uint64_t headers = header * r->blocks, lost = r->slack + headers, taken = r->bytes + lost;
	double share = share_of(lost, taken);
	struct rule rule = rule_begin("The allocator takes much more for many small blocks than "
				      "they hold.");
	if (!loses_much(&rule, r, header) ||
	    !rule_at_least(&rule, "blocks at the peak", UNIT_COUNT, (double)r->blocks,
			   ROUNDING_LEAST_BLOCKS) ||
	    !rule_at_least(&rule, "bytes of rounding and headers", UNIT_BYTES, (double)lost,
			   ROUNDING_LEAST_BYTES) ||
	    !rule_at_least(&rule, "rounding and headers, compared with the peak heap", UNIT_SHARE,
			   share_of(lost, p->totals.peak_bytes), ROUNDING_LEAST_PEAK_SHARE))
		return 0;
	uint32_t name = d->named[r->site];
	double mean = (double)r->bytes / (double)r->blocks;
	double each = (double)taken / (double)r->blocks;
	struct draft f = draft_begin(FINDING_ALLOCATOR_ROUNDING, r->site, lost);
	draft_rule(&f, &rule);
	f.finding.severity = severity_of(d, lost);
	f.finding.summary = diagnosis_text(
		d,
		"%s blocks from %s hold %.1f bytes on average and take %.1f each in the allocator: "
		"%s %s, %s of what they take",
		words_count(r->blocks).text, phrase_place(p, name).text, mean, each,
		header ? "rounding and block headers cost" : "rounding costs",
		words_exact_size(lost).text, words_percent(share).text);
	f.finding.advice = diagnosis_text(
		d, "Put the small blocks of one owner into one larger block (one buffer and "
		   "offsets, an "
		   "arena, a pool), or keep short ones inside the object that points to them.");
	draft_text(&f, "function", p->stacks.frames[p->stacks.nodes[name].frame].function);
	draft_count(&f, "blocks", r->blocks);
	draft_bytes(&f, "requested_bytes", r->bytes);
	draft_bytes(&f, "rounding_bytes", r->slack);
	draft_bytes(&f, "header_bytes", headers);
	draft_bytes(&f, "lost_bytes", lost);
	draft_share(&f, "share", share);
	return draft_add(d, &f);
}

int diagnose_allocator_rounding(struct diagnosis *d)
{
	const struct profile *p = d->p;
	if (!p->totals.peak_slack_bytes) /* usable sizes were not measured */
		return 0;
	uint64_t header = is_glibc_malloc(p) ? GLIBC_HEADER_BYTES : 0;
	const uint32_t *sites = d->by_function;
	uint32_t count = d->by_function_count;
	int rc = 0;
	for (uint32_t i = 0, next; i < count && rc == 0; i = next) {
		struct rounded r = {.site = sites[i]};
		uint64_t most = 0;
		for (next = i; next < count && named_alike(p, d->named, sites[i], sites[next]);
		     next++) {
			const struct profile_site *s = &p->sites[sites[next]];
			struct rounded own = {.blocks = s->peak_blocks,
					      .bytes = s->peak_bytes,
					      .slack = s->peak_slack_bytes};
			struct rule unused = rule_begin(NULL);
			/* A function may make small and large blocks. Only sites that lose much count. */
			if (!loses_much(&unused, &own, header))
				continue;
			r.blocks += s->peak_blocks;
			r.bytes += s->peak_bytes;
			r.slack += s->peak_slack_bytes;
			if (s->peak_slack_bytes > most) {
				most = s->peak_slack_bytes;
				r.site = sites[next];
			}
		}
		rc = add_finding(d, &r, header);
	}
	return rc;
}
