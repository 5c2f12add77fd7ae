/* Makes the rows of a profile: a row is a site, or all sites of one function, file or module.
 *
 * Growth is what is live now minus what was live earlier: since the mark if there is one, else per second
 * since an earlier sample. Without a sample (in the first frame, or the only one) growth comes from the
 * recording's own history, which has the sites that were ever large. A filter tests every frame once; a
 * node of the tree of stacks passes if its frame or one of its callers does.
 *
 * Invariant: a row's numbers are the sums over its sites; every site that passes the filter and ever
 * had a block is in one row. */
#include "top/top.h"

#include "hosted/compare.h"
#include "hosted/hash_index.h"
#include "top/top_key.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define RATE_SPAN_NS 5000000000u /* rates over less time jump, rates over more lag behind */
#define RATE_LEAST_NS 100000000u /* a shorter time does not give a rate per second */
/* The median lifetime has changed if it did by this factor: steps between buckets are smaller. */
#define AGE_STEP 1.2

/* What the view sorts by: a measure of the model, and what the view calls it. */
static const struct {
	const char *name;
	enum measure_id measure;
} sorts[TOP_SORTS] = {
	[TOP_BY_LIVE] = {"live", MEASURE_LIVE_BYTES},
	[TOP_BY_GREW] = {"grew", MEASURE_COUNT}, /* from two samples, not from the profile */
	[TOP_BY_BLOCKS] = {"blocks", MEASURE_LIVE_BLOCKS},
	[TOP_BY_AGE] = {"age", MEASURE_LIFETIME_P50},
	[TOP_BY_PEAK] = {"peak", MEASURE_PEAK_BYTES},
	[TOP_BY_ALLOCATED] = {"allocated", MEASURE_ALLOCATED_BYTES},
};

int top_sort_parse(const char *name, enum top_sort *sort)
{
	for (unsigned i = 0; i < TOP_SORTS; i++)
		if (strcmp(sorts[i].name, name) == 0) {
			*sort = (enum top_sort)i;
			return 0;
		}
	return HEFT_EUSAGE;
}

const char *top_sort_name(enum top_sort sort)
{
	return sorts[sort].name;
}

const char *top_group_name(enum top_group group)
{
	static const char *const names[] = {
		[TOP_SITES] = "sites",
		[TOP_FUNCTIONS] = "functions",
		[TOP_FILES] = "files",
		[TOP_MODULES] = "modules",
	};
	return names[group];
}

/* ---- filter */

struct matcher {
	const char *text;
	regex_t expression;
	bool is_expression; /* else the text itself is searched for */
};

static bool matches(const struct matcher *m, const char *text)
{
	if (!text)
		return false;
	if (m->is_expression)
		return regexec(&m->expression, text, 0, NULL, 0) == 0;
	return strcasestr(text, m->text) != NULL;
}

/* Whether each site is shown. NULL: no memory. */
static bool *filter_sites(const struct profile *p, const char *filter)
{
	bool *sites = malloc((size_t)p->site_count + 1);
	bool *frames = calloc((size_t)p->stacks.frame_count + 1, 1);
	bool *nodes = calloc((size_t)p->stacks.node_count + 1, 1);
	if (!sites || !frames || !nodes) {
		free(sites);
		sites = NULL;
		goto out;
	}
	memset(sites, true, (size_t)p->site_count + 1);
	if (!filter || !*filter)
		goto out;
	struct matcher m = {.text = filter};
	m.is_expression = regcomp(&m.expression, filter, REG_EXTENDED | REG_ICASE | REG_NOSUB) == 0;
	for (uint32_t i = 0; i < p->stacks.frame_count; i++) {
		const struct profile_frame *f = &p->stacks.frames[i];
		frames[i] = matches(&m, f->function) || matches(&m, f->file) ||
			    (f->module < p->stacks.module_count &&
			     matches(&m, p->stacks.modules[f->module].path));
	}
	if (m.is_expression)
		regfree(&m.expression);
	for (uint32_t i = 0; i < p->stacks.node_count; i++) {
		uint32_t parent = p->stacks.nodes[i].parent;
		nodes[i] = frames[p->stacks.nodes[i].frame] || (parent < i && nodes[parent]);
	}
	for (uint32_t i = 0; i < p->site_count; i++)
		sites[i] = p->sites[i].node < p->stacks.node_count && nodes[p->sites[i].node];
out:
	free(frames);
	free(nodes);
	return sites;
}

/* ---- groups */

struct grouped {
	uint64_t key;
	uint32_t site;
};

static int by_key(const void *a, const void *b)
{
	const struct grouped *x = a, *y = b;
	return compare_numbers(x->key, y->key) ?: compare_numbers(x->site, y->site);
}

/* The frame that names a site. */
static uint32_t naming_frame(const struct profile *p, uint32_t site)
{
	uint32_t node = p->sites[site].node;
	return node < p->stacks.node_count ? p->stacks.nodes[profile_first_user_node(p, node)].frame
					   : PROFILE_NONE;
}

static uint64_t group_key(const struct profile *p, enum top_group group, uint32_t frame)
{
	const struct profile_frame *f = frame == PROFILE_NONE ? NULL : &p->stacks.frames[frame];
	const char *module = f && f->module < p->stacks.module_count
				     ? p->stacks.modules[f->module].path
				     : NULL;
	uint64_t key = top_key_number(TOP_KEY_BEGIN, group);
	if (f && group == TOP_FUNCTIONS)
		key = top_key_text(key, f->function);
	if (f && group == TOP_FILES && f->file)
		key = top_key_text(key, f->file);
	else
		key = top_key_text(key, module);
	return key ? key : 1;
}

/* ---- numbers */

static double a_second(double bytes, uint64_t span_ns)
{
	return bytes * 1e9 / (double)span_ns;
}

/* The moment in the history since which growth is counted. */
struct history_point {
	uint64_t time_ns;
	uint32_t slot; /* PROFILE_NONE: the beginning, when nothing was live */
};

/* The last slot that is RATE_SPAN_NS ago, or the beginning. What is live now is the profile's own
 * number: the program may have gone on after the last slot. False: there is no rate, because the history
 * is too short or covers more than what is selected. */
static bool history_point(const struct profile *p, struct history_point *at)
{
	const struct profile_history *h = &p->behaviour.history;
	uint64_t now = p->run.duration_ns;
	if (!h->slot_count || !h->slot_ns || !h->bytes || p->chosen.words || now < h->start_ns)
		return false;
	uint64_t slots = now - h->start_ns > RATE_SPAN_NS
				 ? (now - h->start_ns - RATE_SPAN_NS) / h->slot_ns
				 : 0;
	if (slots > h->slot_count)
		slots = h->slot_count;
	at->slot = slots ? (uint32_t)slots - 1 : PROFILE_NONE;
	at->time_ns = h->start_ns + slots * h->slot_ns;
	return now - at->time_ns >= RATE_LEAST_NS;
}

static double history_rate(const struct profile *p, const struct history_point *at,
			   const uint64_t *bytes, uint64_t now_bytes)
{
	double then = at->slot == PROFILE_NONE ? 0 : (double)bytes[at->slot];
	return a_second((double)now_bytes - then, p->run.duration_ns - at->time_ns);
}

static void add_history(struct top_row *row, const struct profile *p, uint32_t site, bool rate)
{
	const struct profile_history *h = &p->behaviour.history;
	uint32_t index = p->sites[site].history;
	if (index >= h->row_count || !h->slot_count || !h->slot_ns)
		return;
	const uint64_t *bytes = h->rows[index].bytes;
	row->has_trend = true;
	for (uint32_t i = 0; i < TOP_TREND; i++)
		row->trend[i] +=
			bytes[((uint64_t)(i + 1) * h->slot_count + TOP_TREND - 1) / TOP_TREND - 1];
	struct history_point at;
	if (rate && history_point(p, &at)) {
		row->has_growth = true;
		row->growth += history_rate(p, &at, bytes, p->sites[site].live_bytes);
	}
}

/* The middle of the bucket that holds the median. */
static uint64_t median_of(const uint64_t buckets[PROFILE_LIFE_BUCKETS])
{
	uint64_t all = 0, seen = 0;
	for (int i = 0; i < PROFILE_LIFE_BUCKETS; i++)
		all += buckets[i];
	for (int i = 0; i < PROFILE_LIFE_BUCKETS && all; i++) {
		seen += buckets[i];
		if (seen >= (all + 1) / 2)
			return i ? (uint64_t)3 << (i + 7) : 256;
	}
	return 0;
}

/* The earlier sample, if rates can be taken from it. */
static const struct top_sample *recent(const struct profile *p, const struct top_view *v)
{
	return v->before && v->before->time_ns < p->run.duration_ns &&
			       p->run.duration_ns - v->before->time_ns >= RATE_LEAST_NS
		       ? v->before
		       : NULL;
}

/* What growth is counted from; NULL: the history. */
static const struct top_sample *growth_start(const struct profile *p, const struct top_view *v)
{
	if (v->mark)
		return v->mark;
	return recent(p, v);
}

/* Medians do not add up: that of several sites comes from their histograms. */
static void set_age(struct top_row *row, const struct profile *p, const struct grouped *g,
		    const uint64_t *keys, const struct top_view *v)
{
	uint64_t *age_ns = &row->values[TOP_BY_AGE];
	if (!measure_known(p, MEASURE_LIFETIME_P50))
		*age_ns = 0;
	else if (row->sites > 1) {
		uint64_t buckets[PROFILE_LIFE_BUCKETS] = {0};
		for (uint32_t i = 0; i < row->sites; i++)
			for (int b = 0; b < PROFILE_LIFE_BUCKETS; b++)
				buckets[b] += p->behaviour.lifetimes
						      ? p->behaviour.lifetimes[g[i].site][b]
						      : 0;
		*age_ns = median_of(buckets);
	}
	const struct top_site_sample *then = row->sites == 1 && v->before
						     ? top_sample_find(v->before, keys[g->site])
						     : NULL;
	if (then && then->age_ns && *age_ns) {
		double ratio = (double)*age_ns / (double)then->age_ns;
		row->age_trend = ratio > AGE_STEP ? 1 : ratio < 1 / AGE_STEP ? -1 : 0;
	}
}

static void fill_row(struct top_row *row, const struct profile *p, const struct top_view *v,
		     const struct grouped *g, uint32_t count, const uint64_t *keys)
{
	const struct top_sample *from = growth_start(p, v);
	double then = 0, square_error = 0;
	*row = (struct top_row){.key = g->key, .site = g->site, .sites = count};
	for (uint32_t i = 0; i < count; i++) {
		const struct profile_site *s = &p->sites[g[i].site];
		double error = (double)measure_error95(p, g[i].site, MEASURE_LIVE_BYTES);
		for (int k = 0; k < TOP_SORTS; k++)
			if (sorts[k].measure != MEASURE_COUNT)
				row->values[k] += measure_of_site(s, sorts[k].measure);
		if (s->live_bytes > p->sites[row->site].live_bytes)
			row->site = g[i].site;
		square_error += error * error;
		const struct top_site_sample *old = from ? top_sample_find(from, keys[g[i].site])
							 : NULL;
		then += old ? (double)old->live_bytes : 0;
		add_history(row, p, g[i].site, !from);
	}
	row->error_bytes = (uint64_t)sqrt(square_error);
	row->name = naming_frame(p, row->site);
	if (v->group == TOP_MODULES)
		row->name = row->name == PROFILE_NONE ? PROFILE_NONE
						      : p->stacks.frames[row->name].module;
	set_age(row, p, g, keys, v);
	if (!from)
		return;
	row->has_growth = true;
	row->growth = (double)row->values[TOP_BY_LIVE] - then;
	if (!v->mark)
		row->growth = a_second(row->growth, p->run.duration_ns - from->time_ns);
}

static void total_growth(struct top_rows *r, const struct profile *p, const struct top_view *v)
{
	const struct top_sample *from = recent(p, v);
	struct history_point at;
	if (from) {
		r->has_growth = true;
		r->growth = a_second((double)p->totals.live_bytes - (double)from->live_bytes,
				     p->run.duration_ns - from->time_ns);
	} else if (history_point(p, &at)) {
		r->has_growth = true;
		r->growth = history_rate(p, &at, p->behaviour.history.bytes, p->totals.live_bytes);
	}
}

/* ---- order */

static double sort_value(const struct top_row *r, enum top_sort sort)
{
	return sort == TOP_BY_GREW ? r->growth : (double)r->values[sort];
}

static int compare_rows(const void *a, const void *b, void *ctx)
{
	const struct top_row *x = a, *y = b;
	enum top_sort sort = *(const enum top_sort *)ctx;
	double first = sort_value(x, sort), second = sort_value(y, sort);
	/* Equal rows keep the order of sites, which is by peak. */
	return (first < second) - (first > second) ?: compare_numbers(x->site, y->site);
}

int top_rows_new(struct top_rows *out, const struct profile *p, const struct top_view *v)
{
	uint64_t *keys = top_site_keys(p);
	bool *shown = filter_sites(p, v->filter);
	struct grouped *g = malloc(((size_t)p->site_count + 1) * sizeof *g);
	uint32_t count = 0;
	*out = (struct top_rows){.rows = malloc(((size_t)p->site_count + 1) * sizeof *out->rows)};
	int rc = keys && shown && g && out->rows ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < p->site_count; i++)
		if (shown[i])
			g[count++] = (struct grouped){
				v->group == TOP_SITES ? keys[i]
						      : group_key(p, v->group, naming_frame(p, i)),
				i};
	if (rc == 0 && count)
		qsort(g, count, sizeof *g, by_key);
	for (uint32_t i = 0, n; rc == 0 && i < count; i += n) {
		for (n = 1; i + n < count && g[i + n].key == g[i].key; n++)
			;
		fill_row(&out->rows[out->count++], p, v, g + i, n, keys);
	}
	if (rc == 0) {
		enum top_sort sort = v->sort;
		qsort_r(out->rows, out->count, sizeof *out->rows, compare_rows, &sort);
		total_growth(out, p, v);
	} else {
		top_rows_free(out);
	}
	free(keys);
	free(shown);
	free(g);
	return rc;
}

void top_rows_free(struct top_rows *r)
{
	free(r->rows);
	*r = (struct top_rows){0};
}

/* ---- keeping an order */

int top_rows_reorder(struct top_rows *r, const uint64_t *keys, uint32_t count)
{
	struct hash_index by_key = {0};
	struct top_row *rows = malloc(((size_t)r->count + 1) * sizeof *rows);
	bool *taken = calloc((size_t)r->count + 1, 1);
	uint32_t used = 0;
	int rc = rows && taken ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < r->count; i++)
		rc = hash_index_add(&by_key, hash_number(r->rows[i].key), i);
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		uint32_t hash = hash_number(keys[i]), at = hash, n;
		while ((n = hash_index_step(&by_key, hash, &at)) != HASH_NONE &&
		       r->rows[n].key != keys[i])
			;
		if (n == HASH_NONE || taken[n])
			continue;
		taken[n] = true;
		rows[used++] = r->rows[n];
	}
	for (uint32_t i = 0; rc == 0 && i < r->count; i++)
		if (!taken[i])
			rows[used++] = r->rows[i];
	if (rc == 0)
		memcpy(r->rows, rows, r->count * sizeof *rows);
	hash_index_fini(&by_key);
	free(rows);
	free(taken);
	return rc;
}
