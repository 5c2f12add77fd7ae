/* Fuzzes what is made of a recording: the model in all its selections (windows, processes, what is mapped, marks, stages, pools,
 * ledgers, looks at the heap), its findings, every report and every format that it is exported to. The reader below it
 * has a target of its own (trace_reader), whose corpus this one shares.
 *
 * The input is mended first (fuzz_mended.h). Whatever the file says, indices are in range, callers come before callees, and
 * the sites' sums are the totals (modulo 2^64). Without libFuzzer: runs over the files and folders given, and over damaged copies of
 * each. */
#include "export/export.h"
#include "findings/finding.h"
#include "profile/profile_from_trace.h"
#include "report/report.h"
#include "report/report_diff.h"
#include "report/report_ledger.h"

#include "fuzz_mended.h"

#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "not so: %s\n", #condition);                               \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct profile *p)
{
	uint64_t live = 0, allocations = 0;
	for (uint32_t i = 0; i < p->stacks.frame_count; i++)
		MUST(p->stacks.frames[i].module == PROFILE_NONE ||
		     p->stacks.frames[i].module < p->stacks.module_count);
	for (uint32_t i = 0; i < p->stacks.node_count; i++) {
		MUST(p->stacks.nodes[i].parent == PROFILE_NONE || p->stacks.nodes[i].parent < i);
		MUST(p->stacks.nodes[i].frame < p->stacks.frame_count);
	}
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct profile_site *s = &p->sites[i];
		MUST(s->node == PROFILE_NONE || s->node < p->stacks.node_count);
		MUST(s->via <= PROFILE_VIA_UNKNOWN);
		live += s->live_bytes; /* more may be freed than there was: then it is below zero */
		allocations += s->allocations;
	}
	MUST(live == p->totals.live_bytes && allocations == p->totals.allocations);
}

static void report(FILE *out, const struct profile *p)
{
	struct findings *findings = NULL;
	findings_new(&findings, p);
	struct report_options o = {.path = "a.heft",
				   .sort = MEASURE_PEAK_BYTES,
				   .limit = REPORT_ALL,
				   .processes = 20,
				   .findings = findings,
				   .all_findings = true,
				   .threads = true,
				   .sizes = true,
				   .lifetimes = true};
	report_text(out, p, &o);
	report_json(out, p, &o);
	report_tree(out, p, &o);
	report_threads(out, p, &o);
	report_sizes(out, p, &o);
	report_lifetimes(out, p, &o);
	o.compact = o.full = true;
	report_json(out, p, &o);
	report_run_summary(out, p, findings, "a.heft", 0, false);
	for (o.explain = 1; findings && o.explain <= findings_count(findings); o.explain++)
		report_explain(out, p, &o);
	findings_free(findings);
}

static void compare(FILE *out, const struct profile *old, const struct profile *new)
{
	struct profile_diff *d = NULL;
	struct heft_error err;
	const struct report_diff_options o = {.old_path = "a",
					      .new_path = "b",
					      .sort = MEASURE_PEAK_BYTES,
					      .limit = REPORT_ALL,
					      .threshold = {.share = PROFILE_NOISE}};
	if (profile_diff_new(&d, old, new, NULL, &err) == 0) {
		report_diff_text(out, d, &o);
		report_diff_json(out, d, &o);
	}
	profile_diff_free(d);
}

/* A page of heft view is made of the whole program's documents, and has its own target. */
static void export_all(FILE *out, const struct profile *p)
{
	struct heft_error err;
	for (const struct exporter *x = exporters; x->name; x++) {
		const struct export_options o = {.measure = MEASURE_PEAK_BYTES, .name = "a"};
		if (strcmp(x->name, "html"))
			exporter_write(x, out, p, &o, &err);
	}
}

static void load(FILE *out, struct trace_reader *r, const struct profile_selection *s,
		 const struct profile *whole)
{
	struct profile *p = NULL;
	struct heft_error err;
	if (profile_from_trace(&p, r, s, &err) == 0) {
		check(p);
		report(out, p);
		if (whole)
			compare(out, whole, p);
		else
			export_all(out, p);
	}
	profile_free(p);
}

static void use(FILE *out, struct trace_reader *r)
{
	struct profile_selection all = {.judge_events = UINT64_MAX,
					.process_totals = true,
					.history = true,
					.sizes = true,
					.keep = true};
	struct profile *p = NULL;
	struct heft_error err;
	uint64_t mark_ns;
	if (profile_from_trace(&p, r, &all, &err))
		return;
	check(p);
	report(out, p);
	export_all(out, p);
	report_ledger_csv(out, p->ledgers, p->ledger_count);
	for (size_t i = 0; i < p->ledger_count; i++) {
		const struct report_ledger_options o = {.limit = SIZE_MAX, .recorded = true};
		report_ledger_text(out, &p->ledgers[i], &o);
	}
	trace_mark_time(r, &all, "a#2", &mark_ns, &err);
	struct profile_selection part = {.part_of = p, .has_window = true, .to_ns = 6000};
	load(out, r, &part, p);
	part.from_ns = part.to_ns;
	part.by_process = true;
	load(out, r, &part, p);
	const struct trace_contents *c = trace_reader_contents(r);
	struct profile_selection one = {.mapped = true, .map_events = true, .calls = true};
	load(out, r, &one, NULL);
	if (c->process_count) {
		one.mapped = one.map_events = false;
		one.has_pid = one.own_time = one.history = true;
		one.pid = c->processes[c->process_count - 1].pid;
		load(out, r, &one, p);
	}
	profile_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *out;
	char path[64];
	struct heft_error err;
	struct trace_reader *r;
	if (size < TRACE_FILE_HEADER_BYTES || size > 1 << 16)
		return 0;
	if (!out) { /* names of modules are looked up, but not kept, and not asked for elsewhere */
		out = fopen("/dev/null", "w");
		setenv("XDG_CACHE_HOME", "/proc/none", 1);
		unsetenv("DEBUGINFOD_URLS");
	}
	int fd = fuzz_mended_file(data, size, path);
	if (trace_reader_open(&r, path, &err) == 0) {
		use(out, r);
		trace_reader_close(r);
	}
	close(fd);
	return 0;
}

#ifndef HEFT_LIBFUZZER
#define FUZZ_OWN_DAMAGE

/* Fewer than others have: each is loaded five times and written in a dozen formats. */
static void fuzz_damage(uint8_t *bytes, size_t size)
{
	uint64_t rng = 11;
	for (int i = 0; i < 60; i++) {
		size_t at[3];
		uint8_t was[3];
		for (int k = 0; k < 3; k++) {
			rng = rng * 6364136223846793005ull + 1442695040888963407ull;
			at[k] = TRACE_FILE_HEADER_BYTES +
				(rng >> 33) % (size - TRACE_FILE_HEADER_BYTES);
			was[k] = bytes[at[k]];
			bytes[at[k]] ^= (uint8_t)(rng >> 20 | 1);
		}
		LLVMFuzzerTestOneInput(bytes, size);
		for (int k = 3; k-- > 0;)
			bytes[at[k]] = was[k];
	}
}
#endif

#include "fuzz_corpus.h"
