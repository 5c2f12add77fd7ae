/* Sites in JSON: their numbers, how long their blocks live, who frees them, and blocks by size.
 *
 * Stacks are apart (model_json_stack.c), because a report writes millions of frames and a page few. */
#include "model_json/model_json.h"

static void write_labels(struct json_writer *w, const struct profile_label_set *set)
{
	json_write_key(w, "labels");
	json_write_object(w);
	for (uint32_t i = 0; i < set->count; i++)
		if (set->labels[i].text)
			json_write_key_string(w, set->labels[i].key, set->labels[i].text);
		else
			json_write_key_int(w, set->labels[i].key, set->labels[i].number);
	json_write_object_end(w);
}

void model_json_site(struct json_writer *w, const struct model_json_limits *l,
		     const struct profile *p, const struct profile_site *s, bool window)
{
	json_write_key_string(w, "via", profile_via_name(s->via));
	if (s->labels < p->label_set_count)
		write_labels(w, &p->label_sets[s->labels]);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		bool start = i == MEASURE_START_BYTES || i == MEASURE_START_BLOCKS;
		if (measures[i].site && !measures[i].minus &&
		    measures[i].kind != MEASURE_OF_BLOCKS && measure_known(p, i) &&
		    (!start || window) && model_json_wants(l, i))
			json_write_key_uint(w, measures[i].name, measure_of_site(s, i));
	}
	if (window)
		json_write_key_int(w, "grew_bytes", (int64_t)(s->live_bytes - s->start_bytes));
}

void model_json_lifetime(struct json_writer *w, const struct profile *p,
			 const struct profile_lifetime *life)
{
	if (!(p->run.has & PROFILE_HAS_MEAN_LIFETIME))
		return;
	json_write_key(w, "lifetime_ns");
	json_write_object(w);
	json_write_key_uint(w, "mean", life->mean_ns);
	if (p->run.has & PROFILE_HAS_LIFETIMES) {
		json_write_key_uint(w, "p50", life->p50_ns);
		json_write_key_uint(w, "p99", life->p99_ns);
		json_write_key_uint(w, "max", life->max_ns);
	}
	json_write_object_end(w);
}

void model_json_lifetime_log2(struct json_writer *w, const uint32_t *buckets)
{
	int count = PROFILE_LIFE_BUCKETS;
	while (count && !buckets[count - 1])
		count--;
	json_write_key(w, "lifetime_log2");
	json_write_array(w);
	for (int i = 0; i < count; i++)
		json_write_uint(w, buckets[i]);
	json_write_array_end(w);
}

void model_json_certainty(struct json_writer *w, const struct profile *p, uint32_t site)
{
	model_json_errors(w, &p->estimates.errors[site]);
	json_write_key_uint(w, "samples", p->estimates.spreads[site].samples);
	json_write_key_uint(w, "peak_samples", p->estimates.spreads[site].peak_samples);
	json_write_key_uint(w, "live_samples", p->estimates.spreads[site].live_samples);
	json_write_key_bool(w, "few_samples", measure_is_rough(p, site, MEASURE_ALLOCATED_BYTES));
	json_write_key_bool(w, "peak_few_samples", measure_is_rough(p, site, MEASURE_PEAK_BYTES));
	json_write_key_bool(w, "live_few_samples", measure_is_rough(p, site, MEASURE_LIVE_BYTES));
	if (!p->estimates.ages || !p->estimates.ages[site].count)
		return;
	const struct profile_age *a = &p->estimates.ages[site];
	json_write_key(w, "age_ns");
	json_write_object(w);
	json_write_key_uint(w, "min", a->min_ns);
	json_write_key_uint(w, "p50", a->p50_ns);
	json_write_key_uint(w, "p99", a->p99_ns);
	json_write_key_uint(w, "max", a->max_ns);
	json_write_object_end(w);
	json_write_key(w, "old_share");
	json_write_real(w, a->old_share);
}

static void write_thread(struct json_writer *w, const struct profile *p, uint32_t thread,
			 const char *tid, const char *name)
{
	bool listed = thread < p->thread_count;
	json_write_key_int(w, tid, listed ? p->threads[thread].tid : 0);
	json_write_key_string(w, name, listed ? p->threads[thread].name : "");
}

void model_json_handover(struct json_writer *w, const struct profile *p,
			 const struct profile_site *s, const struct profile_handover_threads *t)
{
	json_write_object(w);
	json_write_key_uint(w, "site", s->id);
	write_thread(w, p, t->from, "from_tid", "from_name");
	write_thread(w, p, t->to, "to_tid", "to_name");
	json_write_key_uint(w, "frees", t->frees);
	json_write_object_end(w);
}

void model_json_size(struct json_writer *w, const struct profile_size *s)
{
	json_write_object(w);
	json_write_key_uint(w, "low_bytes", s->low_bytes);
	json_write_key_uint(w, "high_bytes", s->high_bytes);
	json_write_key_uint(w, "allocations", s->allocations);
	json_write_key_uint(w, "allocated_bytes", s->allocated_bytes);
	json_write_key_uint(w, "slack_bytes", s->slack_bytes);
	json_write_key_uint(w, "peak_blocks", s->peak_blocks);
	json_write_key_uint(w, "peak_bytes", s->peak_bytes);
	json_write_key_uint(w, "peak_slack_bytes", s->peak_slack_bytes);
	json_write_key_uint(w, "live_blocks", s->live_blocks);
	json_write_key_uint(w, "live_bytes", s->live_bytes);
	json_write_object_end(w);
}
