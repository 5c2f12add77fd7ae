/* A profile into rows: sites, or what several of them have in common, with what changed.
 *
 * Growth is what is live now minus what was: since the mark if there is one, else a second, since an
 * earlier sample. Without one (the first frame, or the only one) the recording's own history tells,
 * for the sites that were ever large. A filter asks every frame once and passes the answer down the
 * tree of stacks.
 *
 * Invariant: a row's numbers are the sums over its sites; every site that passes the filter and ever
 * had a block is in one row. */
#include "top/top.h"

#include "top/top_key.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#define RATE_SPAN_NS 5000000000u /* shorter ones jump, longer ones lag behind */
#define RATE_LEAST_NS 100000000u /* what was made in less tells nothing of a second */
/* A step in the median lifetime that is no step of the histogram's buckets. */
#define AGE_STEP 1.2

static const char *const sort_names[] = {
	[TOP_BY_LIVE] = "live", [TOP_BY_GREW] = "grew", [TOP_BY_BLOCKS] = "blocks",
	[TOP_BY_AGE] = "age",   [TOP_BY_PEAK] = "peak", [TOP_BY_ALLOCATED] = "allocated",
};

int top_sort_parse(const char *name, enum top_sort *sort)
{
	for (unsigned i = 0; i < TOP_SORTS; i++)
		if (strcmp(sort_names[i], name) == 0) {
			*sort = (enum top_sort)i;
			return 0;
		}
	return HEFT_EUSAGE;
}

const char *top_sort_name(enum top_sort sort)
{
	return sort_names[sort];
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
	bool is_expression; /* else it is looked for as it stands */
};

static bool matches(const struct matcher *m, const char *text)
{
	if (!text)
		return false;
	if (m->is_expression)
		return regexec(&m->expression, text, 0, NULL, 0) == 0;
	return strcasestr(text, m->text) != NULL;
}

/* By site whether it is shown. NULL: no memory. */
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
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
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
 * number: the last slot may be older than what the program did at its end. False: the history tells no
 * rate; it may be too short, or of more than what is selected. */
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

static const struct top_sample *since(const struct profile *p, const struct top_view *v)
{
	if (v->mark)
		return v->mark;
	return recent(p, v);
}

static void take_age(struct top_row *row, const struct profile *p, const struct grouped *g,
		     const uint64_t *keys, const struct top_view *v)
{
	if (!(p->run.has & PROFILE_HAS_LIFETIMES))
		return;
	if (row->sites == 1)
		row->age_ns = p->sites[g->site].lifetime.p50_ns;
	else if (p->behaviour.lifetimes) {
		uint64_t buckets[PROFILE_LIFE_BUCKETS] = {0};
		for (uint32_t i = 0; i < row->sites; i++)
			for (int b = 0; b < PROFILE_LIFE_BUCKETS; b++)
				buckets[b] += p->behaviour.lifetimes[g[i].site][b];
		row->age_ns = median_of(buckets);
	}
	row->has_age = row->age_ns > 0;
	const struct top_site_sample *then = row->sites == 1 && v->before
						     ? top_sample_find(v->before, keys[g->site])
						     : NULL;
	if (then && then->age_ns && row->has_age) {
		double ratio = (double)row->age_ns / (double)then->age_ns;
		row->age_trend = ratio > AGE_STEP ? 1 : ratio < 1 / AGE_STEP ? -1 : 0;
	}
}

static void fill_row(struct top_row *row, const struct profile *p, const struct top_view *v,
		     const struct grouped *g, uint32_t count, const uint64_t *keys)
{
	const struct top_sample *from = since(p, v);
	double then = 0, square_error = 0;
	*row = (struct top_row){.key = g->key, .site = g->site, .sites = count};
	for (uint32_t i = 0; i < count; i++) {
		const struct profile_site *s = &p->sites[g[i].site];
		row->live_bytes += s->live_bytes;
		row->live_blocks += s->live_blocks;
		row->peak_bytes += s->peak_bytes;
		row->allocated_bytes += s->allocated_bytes;
		if (s->live_bytes > p->sites[row->site].live_bytes)
			row->site = g[i].site;
		if (p->estimates.errors) {
			double e = (double)p->estimates.errors[g[i].site].live_bytes;
			square_error += e * e;
		}
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
	take_age(row, p, g, keys, v);
	if (!from)
		return;
	row->has_growth = true;
	row->growth = (double)row->live_bytes - then;
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

static double measure(const struct top_row *r, enum top_sort sort)
{
	switch (sort) {
	case TOP_BY_GREW: return r->has_growth ? r->growth : 0;
	case TOP_BY_BLOCKS: return (double)r->live_blocks;
	case TOP_BY_AGE: return r->has_age ? (double)r->age_ns : 0;
	case TOP_BY_PEAK: return (double)r->peak_bytes;
	case TOP_BY_ALLOCATED: return (double)r->allocated_bytes;
	case TOP_BY_LIVE:
	case TOP_SORTS: break;
	}
	return (double)r->live_bytes;
}

static int compare_rows(const void *a, const void *b, void *ctx)
{
	const struct top_row *x = a, *y = b;
	enum top_sort sort = *(const enum top_sort *)ctx;
	double first = measure(x, sort), second = measure(y, sort);
	if (first != second)
		return first > second ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site; /* by peak */
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

struct place {
	uint64_t key;
	uint32_t at;
};

static int by_place_key(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	return x->key < y->key ? -1 : x->key > y->key;
}

int top_rows_reorder(struct top_rows *r, const uint64_t *keys, uint32_t count)
{
	struct place *now = malloc(((size_t)r->count + 1) * sizeof *now);
	struct top_row *rows = malloc(((size_t)r->count + 1) * sizeof *rows);
	bool *taken = calloc((size_t)r->count + 1, 1);
	uint32_t used = 0;
	int rc = now && rows && taken ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < r->count; i++)
		now[i] = (struct place){r->rows[i].key, i};
	if (rc == 0 && r->count)
		qsort(now, r->count, sizeof *now, by_place_key);
	for (uint32_t i = 0; rc == 0 && i < count; i++) {
		struct place wanted = {.key = keys[i]};
		struct place *found = bsearch(&wanted, now, r->count, sizeof *now, by_place_key);
		if (!found || taken[found->at])
			continue;
		taken[found->at] = true;
		rows[used++] = r->rows[found->at];
	}
	for (uint32_t i = 0; rc == 0 && i < r->count; i++)
		if (!taken[i])
			rows[used++] = r->rows[i];
	if (rc == 0)
		memcpy(r->rows, rows, r->count * sizeof *rows);
	free(now);
	free(rows);
	free(taken);
	return rc;
}
