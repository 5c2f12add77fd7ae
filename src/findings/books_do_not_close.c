/* books-do-not-close: a ledger has memory that the recording cannot account for. Either blocks are in use that were never
 * recorded, though heft was there from the start: somebody calls the allocator past heft. Or pages are resident that no
 * rule of the ledger claims: heft is wrong.
 *
 * Both are about the profile as much as about the program, but not notes: what stands in the report is too little, and
 * the sites that are missing may be the ones that matter. Where events were dropped the reason is known, and
 * profile-quality says it.
 *
 * The ledger says which blocks should have been recorded (LEDGER_MISSED): not those of a process that was attached to, or that
 * was forked, since it has blocks from before. */
#include "findings/diagnosis.h"

#include "hosted/ledger_words.h"
#include "profile/profile_ledgers.h"

#include <stdlib.h>
#include <string.h>

/* Of the heap in use, by glibc's own account. A few blocks are always being made while a ledger is taken. */
#define BOOKS_LEAST_HEAP_SHARE 0.01
/* Of the resident memory. Other allocators tell less about themselves than glibc. */
#define BOOKS_LEAST_SHARE 0.01
#define BOOKS_LEAST_SHARE_OTHERS 0.02
#define BOOKS_LEAST_BYTES (256u << 10)

/* What one ledger does not account for */
struct gap {
	const struct ledger *ledger;
	uint64_t missed_bytes, missed_blocks;
	uint64_t heap_bytes; /* in use, with these */
	uint64_t unexplained_bytes;
};

static uint64_t bytes_of(const struct gap *g)
{
	return g->missed_bytes + g->unexplained_bytes;
}

static struct gap gap_of(const struct ledger *l)
{
	struct gap g = {.ledger = l};
	for (size_t i = 0; i < l->count; i++) {
		const struct ledger_line *line = &l->items[i];
		uint64_t bytes = line->bytes.resident;
		switch (line->kind) {
		case LEDGER_REQUESTED:
		case LEDGER_LARGE_MAPPINGS:
		case LEDGER_ROUNDING: g.heap_bytes += bytes; break;
		case LEDGER_UNEXPLAINED: g.unexplained_bytes += bytes; break;
		case LEDGER_IN_USE:
			g.heap_bytes += bytes;
			if (!strcmp(line->name, LEDGER_MISSED)) {
				g.missed_bytes += bytes;
				g.missed_blocks += line->blocks;
			}
			break;
		default: break;
		}
	}
	return g;
}

static const char *summary(struct diagnosis *d, const struct gap *g, bool missed)
{
	const char *when = ledger_moment_words(g->ledger->moment);
	if (!missed)
		return diagnosis_text(
			d, "%s of the resident memory, %s of it %s, are on no line of the ledger",
			words_size(g->unexplained_bytes).text,
			words_percent(share_of(g->unexplained_bytes, g->ledger->rss_bytes)).text,
			when);
	return diagnosis_text(
		d,
		"%s of the heap, %s of what was in use %s, are in %s that heft did not see being "
		"allocated",
		words_size(g->missed_bytes).text,
		words_percent(share_of(g->missed_bytes, g->heap_bytes)).text, when,
		words_many(g->missed_blocks, "block", "blocks").text);
}

static const char *advice(const struct diagnosis *d, bool missed)
{
	if (!missed)
		return "heft map FILE shows all lines. This is a mistake of heft's: please report "
		       "it, with "
		       "what heft map --json FILE prints.";
	if (d->whole->run.way && !strcmp(d->whole->run.way, "entry"))
		return "Something allocates through functions that heft does not hook. heft doctor "
		       "CMD says which it "
		       "sees; --alloc-fn=NAME:KIND adds others.";
	return "Something calls the allocator past heft: by an address from dlsym on the C "
	       "library's own "
	       "handle, by an internal name, or in a namespace of its own (dlmopen). heft run "
	       "--via=entry hooks "
	       "the functions where they begin, and sees such calls.";
}

static int report_gap(struct diagnosis *d, const struct gap *g)
{
	const struct profile *p = d->whole;
	struct rule r = rule_begin("The ledger has memory that the recording does not account "
				   "for.");
	bool missed = rule_at_least(&r, "blocks in use that heft did not see being allocated",
				    UNIT_BYTES, (double)g->missed_bytes, BOOKS_LEAST_BYTES) &&
		      rule_at_least(&r, "these, compared with the heap in use", UNIT_SHARE,
				    share_of(g->missed_bytes, g->heap_bytes),
				    BOOKS_LEAST_HEAP_SHARE);
	if (!missed) {
		r.count = 0;
		if (!rule_at_least(&r, "resident memory on no line of the ledger", UNIT_BYTES,
				   (double)g->unexplained_bytes, BOOKS_LEAST_BYTES) ||
		    !rule_at_least(&r, "this, compared with all resident memory", UNIT_SHARE,
				   share_of(g->unexplained_bytes, g->ledger->rss_bytes),
				   ledger_is_of_glibc(g->ledger) ? BOOKS_LEAST_SHARE
								 : BOOKS_LEAST_SHARE_OTHERS))
			return 0;
	}
	uint64_t bytes = missed ? g->missed_bytes : g->unexplained_bytes;
	uint32_t process = p->process_count > 1 ? profile_ledger_process(p, g->ledger)
						: PROFILE_NONE;
	struct draft f = draft_begin(FINDING_BOOKS_DO_NOT_CLOSE, PROFILE_NONE, bytes);
	draft_rule(&f, &r);
	f.finding.severity = severity_of(d, bytes);
	f.finding.summary = summary(d, g, missed);
	if (process != PROFILE_NONE)
		f.finding.summary = diagnosis_in_process(d, p, process, f.finding.summary);
	f.finding.advice = advice(d, missed);
	draft_text(&f, "moment", ledger_moment_name(g->ledger->moment));
	draft_time(&f, "time_ns", (double)g->ledger->time_ns);
	draft_bytes(&f, "rss_bytes", g->ledger->rss_bytes);
	draft_bytes(&f, "unexplained_bytes", g->unexplained_bytes);
	draft_bytes(&f, "heap_in_use_bytes", g->heap_bytes);
	draft_bytes(&f, "missed_bytes", g->missed_bytes);
	draft_count(&f, "missed_blocks", g->missed_blocks);
	draft_share(&f, "share",
		    missed ? share_of(g->missed_bytes, g->heap_bytes)
			   : share_of(g->unexplained_bytes, g->ledger->rss_bytes));
	if (process != PROFILE_NONE)
		draft_count(&f, "pid", (uint64_t)g->ledger->pid);
	return draft_add(d, &f);
}

/* By process, then the greatest gap first, then the earliest. */
static int compare_gaps(const void *a, const void *b)
{
	const struct gap *x = a, *y = b;
	if (x->ledger->pid != y->ledger->pid)
		return x->ledger->pid < y->ledger->pid ? -1 : 1;
	if (bytes_of(x) != bytes_of(y))
		return bytes_of(x) > bytes_of(y) ? -1 : 1;
	return (x->ledger > y->ledger) - (x->ledger < y->ledger);
}

int diagnose_books_do_not_close(struct diagnosis *d)
{
	const struct profile *p = d->whole;
	if (p->totals.dropped || !p->ledger_count)
		return 0;
	struct gap *gaps = malloc(p->ledger_count * sizeof *gaps);
	uint32_t count = 0;
	int rc = gaps ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->ledger_count && rc == 0; i++) {
		gaps[count] = gap_of(&p->ledgers[i]);
		count += bytes_of(&gaps[count]) >= BOOKS_LEAST_BYTES;
	}
	if (count)
		qsort(gaps, count, sizeof *gaps, compare_gaps);
	for (uint32_t i = 0; i < count && rc == 0; i++)
		if (!i || gaps[i].ledger->pid != gaps[i - 1].ledger->pid)
			rc = report_gap(d, &gaps[i]);
	free(gaps);
	return rc;
}
