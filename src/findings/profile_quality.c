/* profile-quality says what makes the numbers or names of this profile less trustworthy, and what to do
 * about it.
 *
 * Nothing is wrong with the program, so each cause is a note with the advice that fits it. Only where the answer
 * itself is in doubt does it become a finding, because then no other finding can be trusted: a part of the
 * events is missing, or of a large part of the heap nobody knows who allocated it. Names and stacks are judged
 * by how many bytes at the peak and how many allocations they concern: a frame without a name in a site of 40
 * bytes is not worth a note. */
#include "findings/diagnosis.h"

#include "findings/site_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Smaller shares of the peak and of all allocations mislead nobody. */
#define QUALITY_LEAST_STACK_SHARE 0.02
#define QUALITY_LEAST_NAME_SHARE 0.1
/* Frees of blocks whose allocation was not seen. A few are normal if the recording began after the
 * program. */
#define QUALITY_LEAST_UNKNOWN_FREES 0.01
/* The answer is in doubt if this share of the events is missing: sums are wrong by as much, and blocks whose
 * free is missing look like a leak. If a quarter is missing, even the peak may be at another time. */
#define QUALITY_DOUBT_DROPPED 0.05
#define QUALITY_HIGH_DROPPED 0.25
/* ... or if nobody knows who allocated so much of the heap. */
#define QUALITY_DOUBT_LOST 0.25
/* A hundred samples give a total that is right to 20 %. A thousand give a total that is right to 6 %, and
 * its largest sites right to 20 %. The least rate is the smallest that --sample takes. */
#define QUALITY_LEAST_SAMPLES 100
#define QUALITY_SAMPLES 1000
#define QUALITY_LEAST_RATE 1024
enum { MODULES_NAMED = 4 };
#define ABOUT "profile-quality"

/* How much a flaw of stacks concerns */
struct doubt {
	uint64_t bytes, calls; /* at the peak; allocations and reallocations */
};

enum flaw { FLAW_LOST, FLAW_GUESSED, FLAW_TRUNCATED, FLAW_NAMELESS, FLAWS };

struct quality {
	struct doubt of[FLAWS];
	/* The same by the module that is the cause; the last entry is code without one (generated). */
	struct doubt *modules[FLAWS];
	bool v8, go;     /* guessed or cut stacks end in V8's builtins, in Go's runtime */
	uint32_t *flags; /* by node: the flaws of its frame and of all its callers */
};

static void add_doubt(struct doubt *d, const struct profile_site *s)
{
	d->bytes += s->peak_bytes;
	d->calls += s->allocations + s->reallocations;
}

/* Adds a site to a flaw, whose cause is the code at `node`. */
static void add_flaw(const struct profile *p, struct quality *q, enum flaw flaw, uint32_t node,
		     const struct profile_site *s)
{
	uint32_t module = node < p->stacks.node_count ? profile_node_frame(p, node)->module
						      : PROFILE_NONE;
	add_doubt(&q->of[flaw], s);
	add_doubt(&q->modules[flaw]
			     [module < p->stacks.module_count ? module : p->stacks.module_count],
		  s);
}

/* The innermost node of this stack that has the flag itself. */
static uint32_t flagged_node(const struct profile *p, uint32_t node, uint32_t flag)
{
	while (node < p->stacks.node_count && !(p->stacks.nodes[node].flags & flag))
		node = p->stacks.nodes[node].parent;
	return node;
}

/* Runtimes whose code nobody can build with unwind tables, or that change stacks. */
static void look_for_runtime(const struct profile *p, struct quality *q, uint32_t node)
{
	if (node >= p->stacks.node_count)
		return;
	const struct profile_frame *f = profile_node_frame(p, node);
	q->v8 |= strncmp(f->function, "Builtins_", 9) == 0;
	q->go |= (f->module < p->stacks.module_count && p->stacks.modules[f->module].go) ||
		 strncmp(f->function, "runtime.", 8) == 0 ||
		 strncmp(f->function, "_cgo_", 5) == 0 || strncmp(f->function, "x_cgo_", 6) == 0;
}

static void look_at_site(const struct diagnosis *d, uint32_t site, struct quality *q)
{
	const struct profile *p = d->p;
	const struct profile_site *s = &p->sites[site];
	if (s->node >= p->stacks.node_count) {
		add_flaw(p, q, FLAW_LOST, PROFILE_NONE, s);
		return;
	}
	uint32_t flags = q->flags[s->node];
	if (flags & PROFILE_GUESSED) {
		uint32_t node = flagged_node(p, s->node, PROFILE_GUESSED);
		add_flaw(p, q, FLAW_GUESSED, node, s);
		look_for_runtime(p, q, node);
	}
	if (flags & PROFILE_TRUNCATED) {
		uint32_t node = flagged_node(p, s->node, PROFILE_TRUNCATED);
		add_flaw(p, q, FLAW_TRUNCATED, node, s);
		look_for_runtime(p, q, node);
	}
	if (flags & PROFILE_LOST)
		add_flaw(p, q, FLAW_LOST, s->node, s);
	/* People look at the name of the first user frame. A stack without one is inside a runtime
	 * library; its names do not matter. */
	uint32_t node = profile_first_user_node(p, s->node);
	if (profile_node_frame(p, node)->user && node_is_nameless(p, node))
		add_flaw(p, q, FLAW_NAMELESS, node, s);
}

static double share_of_heap(const struct profile *p, const struct doubt *d)
{
	return share_of(d->bytes, p->totals.peak_bytes);
}

static double share_of_calls(const struct profile *p, const struct doubt *d)
{
	return share_of(d->calls, p->totals.allocations + p->totals.reallocations);
}

/* The larger of its shares of the peak and of the allocations. */
static double share_of_either(const struct profile *p, const struct doubt *d)
{
	double heap = share_of_heap(p, d), calls = share_of_calls(p, d);
	return heap > calls ? heap : calls;
}

/* Writes "12.3 % of the heap comes", or "of allocations come" if only that share is large, or both if the
 * second is larger. The larger share, which is the evidence, is always in the sentence. */
static struct phrase phrase_doubt(const struct profile *p, const struct doubt *d, double least,
				  bool *heap_alone)
{
	struct phrase w;
	double heap = share_of_heap(p, d), calls = share_of_calls(p, d);
	*heap_alone = heap >= least && heap >= calls;
	if (*heap_alone)
		snprintf(w.text, sizeof w.text, "%.40s of the heap comes",
			 words_percent(heap).text);
	else if (heap >= least)
		snprintf(w.text, sizeof w.text, "%.40s of the heap and %.40s of allocations come",
			 words_percent(heap).text, words_percent(calls).text);
	else
		snprintf(w.text, sizeof w.text, "%.40s of allocations come",
			 words_percent(calls).text);
	return w;
}

/* A sampling rate that would give enough samples; 0: there are enough. */
static uint64_t better_rate(const struct profile *p)
{
	uint64_t rate = p->run.rate_bytes, allocated = p->totals.allocated_bytes;
	if (p->estimates.total_spread.samples >= QUALITY_LEAST_SAMPLES)
		return 0;
	/* Without any sample it is likely less than the distance between two. */
	if (!allocated)
		allocated = rate;
	while (rate / 2 >= QUALITY_LEAST_RATE && allocated / rate < QUALITY_SAMPLES)
		rate /= 2;
	return rate < p->run.rate_bytes ? rate : 0;
}

/* Writes a size as --sample takes it. */
static struct phrase size_option(uint64_t bytes)
{
	struct phrase w;
	bool mega = bytes >= 1 << 20;
	snprintf(w.text, sizeof w.text, "%llu%s", (unsigned long long)(bytes >> (mega ? 20 : 10)),
		 mega ? "M" : "k");
	return w;
}

/* The module that a flaw concerns most; PROFILE_NONE: code without a module. */
static uint32_t worst_module(const struct profile *p, const struct doubt *modules)
{
	uint32_t worst = PROFILE_NONE;
	double most = 0;
	for (uint32_t i = 0; i <= p->stacks.module_count; i++) {
		double share = share_of_heap(p, &modules[i]) + share_of_calls(p, &modules[i]);
		if (share > most) {
			most = share;
			worst = i;
		}
	}
	return worst < p->stacks.module_count ? worst : PROFILE_NONE;
}

/* Names the modules with the most bytes at frames without names. It forgets their numbers. */
static const char *const *name_modules(struct diagnosis *d, struct doubt *modules, uint32_t *count)
{
	const char **texts = name_pool_alloc(d->pool, MODULES_NAMED * sizeof *texts);
	*count = 0;
	while (texts && *count < MODULES_NAMED) {
		uint32_t worst = worst_module(d->p, modules);
		if (worst == PROFILE_NONE)
			break;
		modules[worst] = (struct doubt){0, 0};
		texts[(*count)++] = profile_module_name(d->p, worst);
	}
	return texts;
}

/* ---- the notes, one for each cause */

static struct draft begin_note(const char *text, const char *advice)
{
	struct draft f = draft_begin(FINDING_PROFILE_QUALITY, PROFILE_NONE, 0);
	f.finding.summary = text;
	f.finding.advice = advice;
	return f;
}

static int note_dropped(struct diagnosis *d, double share)
{
	const struct profile *p = d->p;
	bool sampled = p->estimates.errors != NULL;
	uint64_t n = p->totals.dropped;
	struct draft f = begin_note(
		diagnosis_text(d, "%s (%s of all) %s missing",
			       sampled ? words_many(n, "sample", "samples").text
				       : words_many(n, "event", "events").text,
			       words_percent(share).text, n == 1 ? "is" : "are"),
		sampled ? "Sample less often (a larger --sample), so that all samples fit."
			: "Give the recorder a core of its own or a faster disk, and record "
			  "again.");
	draft_count(&f, "dropped", n);
	draft_share(&f, "dropped_share", share);
	return draft_add_note(d, &f, ABOUT, true);
}

static int note_samples(struct diagnosis *d, uint64_t better)
{
	uint64_t samples = d->p->estimates.total_spread.samples;
	struct draft f = begin_note(
		samples ? diagnosis_text(d, "all numbers come from %s",
					 words_many(samples, "sample", "samples").text)
			: "no sample was taken, so nothing is known of this program's memory",
		diagnosis_text(d, "Sample more often: --sample=%s.", size_option(better).text));
	draft_count(&f, "samples", samples);
	return draft_add_note(d, &f, ABOUT, false);
}

static int note_unknown_frees(struct diagnosis *d, double share)
{
	struct draft f = begin_note(
		diagnosis_text(d,
			       "%s of all frees are of blocks that were made before or beside the "
			       "recording",
			       words_percent(share).text),
		"To see these blocks, record from the program's start.");
	draft_share(&f, "unknown_free_share", share);
	return draft_add_note(d, &f, ABOUT, false);
}

/* A flaw of stacks, if it concerns enough. */
static int note_stacks(struct diagnosis *d, struct quality *q, enum flaw flaw, const char *what,
		       const char *evidence, const char *advice)
{
	const struct profile *p = d->p;
	if (share_of_either(p, &q->of[flaw]) < QUALITY_LEAST_STACK_SHARE)
		return 0;
	bool heap;
	struct phrase part = phrase_doubt(p, &q->of[flaw], QUALITY_LEAST_STACK_SHARE, &heap);
	struct draft f = begin_note(diagnosis_text(d, "%s from stacks %s", part.text, what),
				    advice);
	draft_share(&f, evidence, share_of_either(p, &q->of[flaw]));
	return draft_add_note(d, &f, ABOUT, false);
}

/* Whether a perf map named functions of JavaScript (trace_stacks.c). */
static bool has_javascript(const struct profile *p)
{
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		if (strncmp(p->stacks.frames[i].function, "JS:", 3) == 0)
			return true;
	return false;
}

/* What would help where frames are guessed or callers are missing: that depends on the code which has no
 * unwind tables. */
static const char *unwinding_advice(struct diagnosis *d, struct quality *q, enum flaw flaw)
{
	uint32_t module = worst_module(d->p, q->modules[flaw]);
	if (module == PROFILE_NONE)
		return "Generated code has no unwind tables. The bytes are right; only callers "
		       "outside "
		       "of it may be missing or wrong.";
	const char *name = profile_module_name(d->p, module);
	if (q->go)
		return "Go calls C code on a stack of its own, and heft follows that for Go 1.18 "
		       "to "
		       "1.26. Here Go's callers are missing. The bytes are right.";
	if (q->v8)
		return diagnosis_text(d,
				      "V8's builtins in %s have no unwind tables, in any build. "
				      "The bytes are right; "
				      "only callers outside of them may be wrong.%s",
				      name,
				      has_javascript(d->p) ? ""
							   : " Its options --perf-basic-prof and "
							     "--interpreted-frames-native-stack "
							     "name JavaScript functions.");
	return diagnosis_text(d, "Build %s with unwind tables (-fasynchronous-unwind-tables).",
			      name);
}

/* Whether a note says that the file was replaced since the recording, or is gone (trace_stacks.c). */
static bool is_gone(const struct profile *p, const char *path)
{
	size_t length = strlen(path);
	for (uint32_t i = 0; i < p->note_count; i++) {
		const char *text = p->notes[i].text;
		if (strncmp(text, path, length) == 0 &&
		    (strncmp(text + length, " was replaced", 13) == 0 ||
		     strncmp(text + length, " is gone", 8) == 0))
			return true;
	}
	return false;
}

/* What gives names to functions of this module. */
static const char *naming_advice(struct diagnosis *d, uint32_t module)
{
	static const char *const system[] = {"/usr/bin/", "/usr/sbin/", "/usr/lib",
					     "/lib",      "/bin/",      "/sbin/"};
	const struct profile *p = d->p;
	if (module == PROFILE_NONE)
		return "They are in generated code. A runtime can name it in a perf map: node "
		       "--perf-basic-prof, python3 -X perf, java with a perf agent.";
	const char *path = p->stacks.modules[module].path, *name = profile_module_name(p, module);
	if (is_gone(p, path))
		return diagnosis_text(d, "Read the recording where %s of that build is.", name);
	if (p->stacks.modules[module].go)
		return diagnosis_text(d, "Build %s without -ldflags=-s.", name);
	for (size_t i = 0; i < sizeof system / sizeof *system; i++)
		if (strncmp(path, system[i], strlen(system[i])) == 0)
			return diagnosis_text(
				d,
				"Install the debug symbols of %s (a -dbgsym package), or "
				"set DEBUGINFOD_URLS.",
				name);
	return diagnosis_text(d, "Build %s with -g, or keep its symbols.", name);
}

static int note_nameless(struct diagnosis *d, struct quality *q)
{
	const struct profile *p = d->p;
	const struct doubt *doubt = &q->of[FLAW_NAMELESS];
	if (share_of_either(p, doubt) < QUALITY_LEAST_NAME_SHARE)
		return 0;
	bool heap;
	struct phrase part = phrase_doubt(p, doubt, QUALITY_LEAST_NAME_SHARE, &heap);
	uint32_t worst = worst_module(p, q->modules[FLAW_NAMELESS]), count;
	const char *const *modules = name_modules(d, q->modules[FLAW_NAMELESS], &count);
	const char *advice = naming_advice(d, worst);
	if (!modules)
		return HEFT_ENOMEM;
	struct draft f = begin_note(diagnosis_text(d, "%s from functions without names%s%s%s",
						   part.text, count ? ", most of " : "",
						   !count ? ""
						   : heap ? "it in "
							  : "them in ",
						   count ? modules[0] : ""),
				    advice);
	draft_share(&f, "nameless_share", share_of_either(p, doubt));
	draft_texts(&f, "nameless_modules", modules, count);
	return draft_add_note(d, &f, ABOUT, false);
}

/* ---- the finding, if the answer is in doubt */

static int add_finding(struct diagnosis *d, struct quality *q, double dropped)
{
	const struct profile *p = d->p;
	double lost = share_of_heap(p, &q->of[FLAW_LOST]);
	struct rule r = rule_begin(
		"So much of this profile is missing that its numbers may be wrong.");
	bool events = rule_at_least(&r, "missing share of all events", UNIT_SHARE, dropped,
				    QUALITY_DOUBT_DROPPED);
	bool stacks = rule_at_least(&r, "share of the heap whose call stacks are lost", UNIT_SHARE,
				    lost, QUALITY_DOUBT_LOST);
	if (!events && !stacks)
		return 0;
	struct draft f = draft_begin(FINDING_PROFILE_QUALITY, PROFILE_NONE,
				     events ? p->totals.peak_bytes : q->of[FLAW_LOST].bytes);
	draft_rule(&f, &r);
	f.finding.severity = dropped >= QUALITY_HIGH_DROPPED ? FINDING_HIGH : FINDING_MEDIUM;
	const char *what = p->estimates.errors ? "samples" : "events";
	f.finding.summary =
		events ? diagnosis_text(
				 d,
				 "the numbers of this profile are in doubt: %s of all %s are "
				 "missing",
				 words_percent(dropped).text, what)
		       : diagnosis_text(
				 d,
				 "the sites of this profile are in doubt: the stacks of %s of "
				 "the heap are lost",
				 words_percent(lost).text);
	f.finding.advice =
		!events ? "Record a shorter part of the run, so that all stacks fit."
		: p->estimates.errors
			? "Sample less often (a larger --sample), so that all of them fit."
			: "Give the recorder a core of its own or a faster disk, and record "
			  "again.";
	draft_count(&f, "dropped", p->totals.dropped);
	draft_share(&f, "dropped_share", dropped);
	draft_share(&f, "lost_share", share_of_either(p, &q->of[FLAW_LOST]));
	if (p->estimates.errors)
		draft_count(&f, "samples", p->estimates.total_spread.samples);
	return draft_add(d, &f);
}

static int add_all(struct diagnosis *d, struct quality *q)
{
	const struct profile *p = d->p;
	const struct profile_totals *t = &p->totals;
	/* A sampled profile lacks samples, not events. */
	uint64_t events = t->dropped + (p->estimates.errors
						? p->estimates.total_spread.samples
						: t->allocations + t->reallocations + t->frees);
	double dropped = share_of(t->dropped, events);
	double unknown = share_of(t->unknown_frees, t->frees + t->unknown_frees);
	uint64_t better = p->estimates.errors ? better_rate(p) : 0;
	int rc = add_finding(d, q, dropped);
	if (rc == 0 && t->dropped && dropped < QUALITY_DOUBT_DROPPED)
		rc = note_dropped(d, dropped);
	if (rc == 0 && better)
		rc = note_samples(d, better);
	if (rc == 0 && unknown >= QUALITY_LEAST_UNKNOWN_FREES)
		rc = note_unknown_frees(d, unknown);
	if (rc == 0 && share_of_heap(p, &q->of[FLAW_LOST]) < QUALITY_DOUBT_LOST)
		rc = note_stacks(d, q, FLAW_LOST, "whose inner frames are lost", "lost_share",
				 "Record a shorter part of the run, so that all stacks fit.");
	if (rc == 0)
		rc = note_stacks(d, q, FLAW_GUESSED, "that were partly guessed", "guessed_share",
				 unwinding_advice(d, q, FLAW_GUESSED));
	if (rc == 0)
		rc = note_stacks(d, q, FLAW_TRUNCATED, "whose outer frames are missing",
				 "truncated_share", unwinding_advice(d, q, FLAW_TRUNCATED));
	if (rc == 0)
		rc = note_nameless(d, q);
	return rc;
}

int diagnose_profile_quality(struct diagnosis *d)
{
	const struct profile *p = d->p;
	struct quality q = {0};
	size_t modules = (size_t)p->stacks.module_count + 1;
	struct doubt *by_module = calloc(FLAWS * modules, sizeof *by_module);
	q.flags = calloc((size_t)p->stacks.node_count + 1, sizeof *q.flags);
	int rc = by_module && q.flags ? 0 : HEFT_ENOMEM;
	for (int i = 0; i < FLAWS && rc == 0; i++)
		q.modules[i] = by_module + (size_t)i * modules;
	for (uint32_t i = 0; i < p->stacks.node_count && rc == 0; i++) {
		uint32_t parent = p->stacks.nodes[i].parent;
		q.flags[i] = p->stacks.nodes[i].flags | (parent < i ? q.flags[parent] : 0);
	}
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++)
		look_at_site(d, i, &q);
	if (rc == 0)
		rc = add_all(d, &q);
	free(by_module);
	free(q.flags);
	return rc;
}
