/* How severe a finding is: by its share of the peak heap, with floors below which nothing is severe.
 *
 * A share alone is not enough. All of a small heap is little memory: the 100 KiB of ls are half of its heap,
 * and nobody should be sent after them. So a high finding also needs 1 MiB and a twentieth of the process's
 * resident memory, a medium one a quarter of a MiB and a hundredth. Growth without end is high at any share of
 * the heap, but the floors hold for it too: it becomes medium, not low, because it does not stay small.
 *
 * Advice needs somebody who can follow it. A place inside an interpreter (bash, perl, python) is how that
 * interpreter stores what a script asks for: rounding, slack and temporaries there are low, and if the
 * function has no name either, there is nothing to say. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"
#include "hosted/program_name.h"

#include <ctype.h>
#include <string.h>

/* By the bytes' share of the whole peak */
#define SEVERITY_HIGH_SHARE 0.25
/* Never high, never medium below these */
#define SEVERITY_HIGH_BYTES (1u << 20)
#define SEVERITY_HIGH_RSS_SHARE 0.05
#define SEVERITY_MEDIUM_BYTES (256u << 10)
#define SEVERITY_MEDIUM_RSS_SHARE 0.01

enum finding_severity severity_of(const struct diagnosis *d, uint64_t bytes)
{
	double share = share_of(bytes, d->whole->totals.peak_bytes);
	return share >= SEVERITY_HIGH_SHARE     ? FINDING_HIGH
	       : share >= SEVERITY_MEDIUM_SHARE ? FINDING_MEDIUM
						: FINDING_LOW;
}

/* ---- interpreters */

/* Names of the files that hold an interpreter; digits, points and what follows them do not count. */
static const char *const interpreters[] = {
	"bash",      "dash",    "sh",      "zsh",     "ksh",    "perl",  "libperl", "python",
	"libpython", "ruby",    "irb",     "libruby", "lua",    "luac",  "luajit",  "liblua",
	"node",      "libnode", "php",     "libphp",  "tclsh",  "guile", "mawk",    "gawk",
	"libguile",  "libjvm",  "Rscript", "libR",    "octave", "ghc",   "erl",     "beam.smp",
};

bool module_is_interpreter(const struct profile *p, uint32_t module)
{
	if (module >= p->stacks.module_count)
		return false;
	const char *name = profile_module_name(p, module);
	for (size_t i = 0; i < sizeof interpreters / sizeof *interpreters; i++) {
		size_t length = strlen(interpreters[i]);
		if (strncmp(name, interpreters[i], length) != 0)
			continue;
		char next = name[length];
		if (!next || isdigit((unsigned char)next) || next == '-' ||
		    (next == '.' && (isdigit((unsigned char)name[length + 1]) ||
				     strncmp(name + length, ".so", 3) == 0)))
			return true;
	}
	return false;
}

/* Findings that say how memory is stored; the others say that there is too much of it. */
static bool is_about_storing(enum finding_kind kind)
{
	return kind == FINDING_GROWTH_SLACK || kind == FINDING_ALLOCATOR_ROUNDING ||
	       kind == FINDING_TEMPORARY_CHURN || kind == FINDING_FRAGMENTATION ||
	       kind == FINDING_DUPLICATE_CONTENT;
}

bool finding_is_advice(const struct diagnosis *d, const struct finding *f)
{
	if (f->site >= d->p->site_count ||
	    !(is_about_storing(f->kind) || f->kind == FINDING_PER_INSTANCE_COST ||
	      f->kind == FINDING_LEAK_UNREACHABLE))
		return true;
	uint32_t node = d->named[f->site];
	return !node_is_nameless(d->p, node) || node >= d->p->stacks.node_count ||
	       !module_is_interpreter(d->p,
				      d->p->stacks.frames[d->p->stacks.nodes[node].frame].module);
}

/* ---- floors */

static bool reaches(const struct diagnosis *d, uint64_t bytes, uint64_t least, double rss_share)
{
	uint64_t rss = d->whole->totals.peak_rss_bytes; /* 0: not known */
	return bytes >= least && (!rss || share_of(bytes, rss) >= rss_share);
}

/* Why a place makes a finding low whatever its size; NULL: it does not. */
static const char *reason_of_place(const struct diagnosis *d, const struct finding *f)
{
	if (f->site >= d->p->site_count || !is_about_storing(f->kind))
		return NULL;
	uint32_t node = d->named[f->site];
	if (node_is_nameless(d->p, node))
		return "the function has no name, so that nobody can follow the advice yet";
	if (module_is_interpreter(d->p, d->p->stacks.frames[d->p->stacks.nodes[node].frame].module))
		return "it is inside an interpreter, which its scripts cannot change";
	return NULL;
}

void finding_weigh(struct diagnosis *d, struct draft *draft)
{
	struct finding *f = &draft->finding;
	const struct profile_totals *t = &d->whole->totals;
	enum finding_severity wanted = f->severity;
	bool endless = wanted == FINDING_HIGH && (f->kind == FINDING_GROWING_SITE ||
						  severity_of(d, f->bytes) != FINDING_HIGH);
	const char *place = reason_of_place(d, f), *but = "";
	/* Temporaries cost time: their severity is not one of bytes. */
	bool of_bytes = f->kind != FINDING_TEMPORARY_CHURN;
	if (of_bytes && f->severity == FINDING_HIGH &&
	    !reaches(d, f->bytes, SEVERITY_HIGH_BYTES, SEVERITY_HIGH_RSS_SHARE)) {
		f->severity = FINDING_MEDIUM;
		but = "; less than 1 MiB, or than 5 % of the peak RSS, is never high";
	}
	if (of_bytes && f->severity == FINDING_MEDIUM && !endless &&
	    !reaches(d, f->bytes, SEVERITY_MEDIUM_BYTES, SEVERITY_MEDIUM_RSS_SHARE)) {
		f->severity = FINDING_LOW;
		but = "; less than 256 KiB, or than 1 % of the peak RSS, is always low";
	}
	if (place && f->severity > FINDING_LOW) {
		f->severity = FINDING_LOW;
		but = diagnosis_text(d, "; %s", place);
	}
	if (!of_bytes)
		f->severity_reason = diagnosis_text(d, "It costs time, not memory%s.",
						    but ? but : "");
	else if (endless)
		f->severity_reason = diagnosis_text(d, "Growth without end is high%s.",
						    but ? but : "");
	else if (f->kind == FINDING_GROWING_SITE && wanted < severity_of(d, f->bytes))
		f->severity_reason = diagnosis_text(
			d,
			"Growth is at most medium if it slows down, if all of it is freed in the "
			"end, if the program was done within a minute, or if it may be a store "
			"that is being filled%s.",
			but ? but : "");
	else if (f->kind == FINDING_COPIED_RECORDS && wanted < severity_of(d, f->bytes))
		f->severity_reason = "No function that makes them has a name that says so: only "
				     "their lengths are the same.";
	else if (f->kind == FINDING_GROWTH_SLACK && wanted < severity_of(d, f->bytes))
		f->severity_reason = diagnosis_text(
			d, "Only some of the arrays were measured, and it may be less%s.",
			but ? but : "");
	else
		f->severity_reason = diagnosis_text(
			d, "%s is %s of the peak heap: high from 25 %%, medium from 5 %%%s.",
			words_size(f->bytes).text,
			words_percent(share_of(f->bytes, t->peak_bytes)).text, but ? but : "");
	draft->no_memory |= !f->severity_reason || !but;
}
