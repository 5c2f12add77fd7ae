/* `heft diff --json`, schema 1 (heft-diff(1) documents it). Numbers of both sides are as recorded;
 * only "change" is divided by what --per asked for. All stacks are written, the unchanged ones too,
 * unless a limit is given: the differences add up to those of the totals. */
#include "report/report_diff.h"
#include "report/report_diff_ledger.h"

#include "model_json/model_json.h"
#include "model_json/model_json_stack.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* The name under which a comparison has it: of lifetimes only the mean is compared. */
static const char *key_of(enum measure_id id)
{
	return id == MEASURE_LIFETIME ? "lifetime_ns" : measures[id].name;
}

static void write_number(struct json_writer *w, const char *key, double value)
{
	json_write_key(w, key);
	if (fabs(value) < 9e15 && value == (double)(int64_t)value)
		fprintf(w->out, "%" PRId64, (int64_t)value);
	else
		fprintf(w->out, "%.9g", value);
	w->comma = true;
}

/* What looks at heaps told is not compared: each is of one moment of one process. */
static bool is_in_diffs(const struct profile *p, enum measure_id i)
{
	const uint32_t looks = ~(uint32_t)(PROFILE_HAS_ALL | PROFILE_HAS_MAPPED);
	return measures[i].site && !measures[i].minus && measures[i].totals &&
	       !(measures[i].needs & looks) &&
	       (!(measures[i].needs & PROFILE_HAS_MAPPED) || measure_known(p, i));
}

static void write_side(struct json_writer *w, const struct profile *p,
		       const struct profile_diff_side *s)
{
	json_write_object(w);
	json_write_key_uint(w, "sites", s->sites);
	if (s->site != PROFILE_NONE)
		json_write_key_uint(w, "site", p->sites[s->site].id);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++)
		if (is_in_diffs(p, i))
			json_write_key_uint(w, measures[i].name, measure_of_site(&s->sums, i));
	json_write_key_uint(w, "lifetime_ns", (uint64_t)s->lifetime_ns);
	for (enum measure_id i = 0; p->estimates.errors && i < MEASURE_COUNT; i++)
		if (measures[i].errors) {
			char key[64];
			snprintf(key, sizeof key, "%s_error95", measures[i].name);
			write_number(w, key, round(profile_diff_side_error95(s, i)));
		}
	json_write_object_end(w);
}

static void write_run(struct json_writer *w, const char *key, const struct profile *p,
		      const char *path, const struct profile_diff_side *total, double per)
{
	json_write_key(w, key);
	json_write_object(w);
	json_write_key_string(w, "file", path);
	model_json_command(w, NULL, p->run.argv, p->run.argc, NULL);
	json_write_key_uint(w, "duration_ns", p->run.duration_ns);
	json_write_key_bool(w, "complete", p->run.complete);
	write_number(w, "per", per);
	json_write_key(w, "totals");
	write_side(w, p, total);
	json_write_object_end(w);
	json_write_newline(w);
}

static void write_measures(struct json_writer *w, const struct profile_diff *d,
			   const struct report_diff_options *o)
{
	json_write_key(w, "measures");
	json_write_object(w);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		struct profile_threshold t = profile_threshold_for(&o->threshold, o->sort, i);
		struct profile_diff_summary s;
		if (!profile_diff_has(d, i))
			continue;
		profile_diff_summarise(d, i, &t, &s);
		json_write_key(w, key_of(i));
		json_write_object(w);
		write_number(w, "old", s.old);
		write_number(w, "new", s.new);
		write_number(w, "change", s.new - s.old);
		write_number(w, "threshold", s.threshold);
		json_write_key_bool(w, "changed", s.changed);
		if (profile_diff_is_estimate(d)) {
			write_number(w, "change_error95", s.error95);
			json_write_key_bool(w, "significant", fabs(s.new - s.old) > s.error95);
		}
		write_number(w, "largest", s.largest);
		json_write_key(w, "stacks");
		json_write_object(w);
		for (unsigned k = 0; k < PROFILE_CHANGES; k++)
			json_write_key_uint(w, profile_change_name((enum profile_change)k),
					    s.counts[k]);
		json_write_object_end(w);
		json_write_object_end(w);
		json_write_newline(w);
	}
	json_write_object_end(w);
}

/* Says of estimates whether the change in what was asked for is more than their errors explain. */
static void write_significance(struct json_writer *w, const struct profile_diff *d,
			       const struct profile_diff_entry *e, enum measure_id sort)
{
	json_write_key(w, "change_error95");
	json_write_object(w);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++)
		if (profile_diff_has(d, i))
			write_number(w, key_of(i), profile_diff_error95(d, e, i));
	json_write_object_end(w);
	json_write_key_bool(w, "significant",
			    fabs(profile_diff_change(d, e, sort)) >
				    profile_diff_error95(d, e, sort));
}

static void write_entry(struct json_writer *w, const struct profile_diff *d,
			const struct profile_diff_entry *e, enum profile_change kind,
			enum measure_id sort, const struct json_stacks stacks[2])
{
	static const char *const matched[] = {
		[PROFILE_MATCHED_STACK] = "stack",
		[PROFILE_MATCHED_USER] = "user",
		[PROFILE_MATCHED_INLINED] = "inlined",
	};
	bool both = e->old.sites && e->new.sites;
	const struct profile *p = e->new.sites ? d->new : d->old;
	const struct profile_diff_side *shown = e->new.sites ? &e->new : &e->old;
	json_write_object(w);
	json_write_key_string(w, "kind", profile_change_name(kind));
	if (both)
		json_write_key_string(w, "matched", matched[e->matched]);
	json_write_key(w, "change");
	json_write_object(w);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++)
		if (measure_is_compared(i))
			write_number(w, key_of(i), profile_diff_change(d, e, i));
	json_write_object_end(w);
	if (profile_diff_is_estimate(d))
		write_significance(w, d, e, sort);
	json_write_key(w, "old");
	write_side(w, d->old, &e->old);
	json_write_key(w, "new");
	write_side(w, d->new, &e->new);
	json_write_key_string(w, "via", profile_via_name(p->sites[shown->site].via));
	json_stacks_write(&stacks[e->new.sites > 0], w, "stack", "stack_",
			  p->sites[shown->site].node, p->sites[shown->site].call);
	if (both)
		json_stacks_write(&stacks[0], w, "old_stack", "old_stack_",
				  d->old->sites[e->old.site].node, d->old->sites[e->old.site].call);
	json_write_object_end(w);
	json_write_newline(w);
}

int report_diff_json(FILE *out, const struct profile_diff *d, const struct report_diff_options *o)
{
	static const char *const units[] = {
		[PROFILE_PER_RUN] = "run",
		[PROFILE_PER_SECOND] = "second",
		[PROFILE_PER_OPERATIONS] = "operation",
	};
	struct json_writer w;
	struct profile_diff_summary s;
	struct json_stacks stacks[2] = {0}; /* old, new */
	uint32_t *order = profile_diff_sorted(d, o->sort);
	int rc = order ? json_stacks_init(&stacks[0], d->old, o->full, false) : HEFT_ENOMEM;
	if (rc == 0)
		rc = json_stacks_init(&stacks[1], d->new, o->full, false);
	if (rc < 0)
		goto out;
	profile_diff_summarise(d, o->sort, &o->threshold, &s);
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_uint(&w, "schema", 1);
	json_write_key_string(&w, "heft", HEFT_VERSION);
	json_write_key_string(&w, "sort", measures[o->sort].option);
	json_write_key_string(&w, "per", units[d->per.unit]);
	json_write_key_bool(&w, "changed", s.changed);
	if (o->at)
		json_write_key_string(&w, "at", o->at);
	if (o->at && o->has_times) {
		json_write_key_uint(&w, "old_at_ns", o->old_ns);
		json_write_key_uint(&w, "new_at_ns", o->new_ns);
	}
	if (o->focus)
		json_write_key_string(&w, "focus", o->focus);
	if (o->ignore)
		json_write_key_string(&w, "ignore", o->ignore);
	json_write_newline(&w);
	write_run(&w, "old", d->old, o->old_path, &d->old_total, d->per.old);
	write_run(&w, "new", d->new, o->new_path, &d->new_total, d->per.new);
	write_measures(&w, d, o);
	rc = report_diff_ledger_json(&w, d, o);
	json_write_key(&w, "changes");
	json_write_array(&w);
	json_write_newline(&w);
	for (uint32_t i = 0; i < d->count && i < o->limit; i++) {
		const struct profile_diff_entry *e = &d->entries[order[i]];
		write_entry(&w, d, e, profile_diff_classify(d, e, o->sort, s.threshold), o->sort,
			    stacks);
	}
	json_write_array_end(&w);
	json_write_object_end(&w);
	json_write_newline(&w);
out:
	json_stacks_fini(&stacks[0]);
	json_stacks_fini(&stacks[1]);
	free(order);
	return rc;
}
