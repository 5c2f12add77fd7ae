/* The one-file report.
 *
 * Documents are written under the addresses that the page asks for (web/src/api.ts),
 * as one JSON object, gzipped, as base64: nothing in names can end the element it
 * stands in. They hold as much as fits below a megabyte: the limits of trees, tables
 * and names are those of the first level that fits, and the summary says what was left
 * out. Each of them is complete in itself: sums are of everything.
 *
 * Invariant: the file is smaller than VIEW_HTML_BYTES, or there is an error. */
#include "pages/view_html.h"

#include "pages/view_documents.h"
#include "pages/view_page.h"
#include "pages/view_pack.h"

#include "hosted/number_words.h"
#include "profile/process_groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct level {
	uint32_t nodes, rows, details, sources, name_bytes, most;
} levels[] = {
	/* trees, tables, sites in full, files, names, lists */
	{20000, 500, 200, 40, 600, 5000}, {14000, 400, 200, 30, 500, 4000},
	{10000, 300, 150, 25, 400, 3000}, {7000, 250, 150, 18, 350, 2500},
	{5000, 200, 100, 12, 300, 2000},  {3500, 200, 100, 9, 250, 1500},
	{2500, 200, 100, 6, 200, 1000},   {1700, 150, 80, 4, 180, 700},
	{1200, 150, 60, 3, 150, 500},     {600, 100, 30, 1, 100, 200},
	{300, 50, 10, 0, 80, 100},        {100, 20, 5, 0, 60, 50},
	{30, 10, 2, 0, 40, 20},
};
enum { LEVELS = sizeof levels / sizeof *levels, PRUNED_WORDS = 8 };

/* Selections that a file holds */
static const struct asked {
	const char *query;
	struct view_query part;
} selections[] = {
	{"", {.mode = VIEW_LIVE, .at = VIEW_AT_PEAK}},
	{"?at=end", {.mode = VIEW_LIVE, .at = VIEW_AT_END}},
	{"?mode=allocated", {.mode = VIEW_ALLOCATED}},
	{"?mode=allocated&metric=count", {.mode = VIEW_ALLOCATED, .count = true}},
	{"?mode=churn", {.mode = VIEW_CHURN, .within_ns = 1000000}},
};
enum { SELECTIONS = sizeof selections / sizeof *selections };

struct writing {
	struct view_recording *r;
	const struct level *level;
	bool source;
	FILE *out;
	bool comma;
	uint64_t pruned_nodes; /* of the greatest tree */
	uint32_t sites, sites_shown, details;
	uint32_t sources;
	uint32_t processes, processes_shown; /* that can be chosen */
	struct heft_error *err;
};

/* The limits of the level, of a selection. */
static struct view_query query_of(const struct writing *x, const struct view_query *part)
{
	struct view_query q;
	view_query_init(&q);
	if (part) {
		q.mode = part->mode;
		q.at = part->at;
		q.count = part->count;
	}
	q.limit = x->level->nodes;
	q.rows = x->level->rows;
	q.limits.name_bytes = x->level->name_bytes;
	q.limits.entries = x->level->most;
	return q;
}

static void write_address(struct writing *x, const char *name, const char *query)
{
	fprintf(x->out, "%s\"/api/r/1/%s%s\":", x->comma ? ",\n" : "", name, query);
	x->comma = true;
}

/* What the file does not tell is left out, and the page says that it lacks it. */
static int add(struct writing *x, const char *name, const char *query, view_document *write,
	       const struct view_query *q, const char **text)
{
	char *body = NULL;
	size_t bytes;
	FILE *out = open_memstream(&body, &bytes);
	int rc = out ? write(out, x->r, q, x->err) : HEFT_ENOMEM;
	if (out && (ferror(out) | fclose(out)) && rc == 0)
		rc = HEFT_ENOMEM;
	if (rc == 0) {
		write_address(x, name, query);
		fwrite(body, 1, bytes, x->out);
	}
	if (text && rc == 0)
		*text = body;
	else
		free(body);
	return rc == HEFT_EREFUSED || rc == HEFT_ENOTFOUND ? 0 : rc;
}

static uint64_t number_after(const char *text, const char *key)
{
	const char *at = text ? strstr(text, key) : NULL;
	return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static int add_trees(struct writing *x)
{
	int rc = 0;
	for (int i = 0; i < SELECTIONS && rc == 0; i++) {
		const char *text = NULL;
		struct view_query q = query_of(x, &selections[i].part);
		rc = add(x, "tree", selections[i].query, view_tree, &q, &text);
		uint64_t pruned = number_after(text, "\"pruned_nodes\":");
		if (pruned > x->pruned_nodes)
			x->pruned_nodes = pruned;
		free((char *)(uintptr_t)text);
	}
	return rc;
}

/* The ids that a table shows, into `shown`. */
static void note_ids(const char *text, bool *shown, uint32_t site_count)
{
	static const char key[] = "{\"id\":";
	for (const char *at = text; at && (at = strstr(at, key));) {
		unsigned long long id = strtoull(at + sizeof key - 1, NULL, 10);
		if (id && id <= site_count)
			shown[id] = true;
		at += sizeof key;
	}
}

static int add_tables(struct writing *x, bool *shown)
{
	int rc = 0;
	for (int i = 0; i < SELECTIONS && rc == 0; i++) {
		const char *text = NULL;
		struct view_query q = query_of(x, &selections[i].part);
		rc = add(x, "sites", selections[i].query, view_sites, &q, &text);
		note_ids(text, shown, x->sites);
		free((char *)(uintptr_t)text);
		if (rc == 0)
			rc = add(x, "functions", selections[i].query, view_functions, &q, NULL);
	}
	for (uint32_t i = 1; i <= x->sites; i++)
		x->sites_shown += shown[i];
	return rc;
}

/* Sites in full: the greatest by peak, and those that findings name. */
static int add_details(struct writing *x, const struct view_part *part, const bool *shown)
{
	bool *wanted = calloc((size_t)x->sites + 2, sizeof *wanted);
	uint32_t left = x->level->details;
	int rc = wanted ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; rc == 0 && part->findings && i < findings_count(part->findings); i++) {
		uint32_t site = findings_get(part->findings, i)->site;
		if (site < x->sites)
			wanted[site + 1] = true;
	}
	for (uint32_t id = 1; id <= x->sites && rc == 0; id++) {
		char query[40];
		struct view_query q = query_of(x, NULL);
		if (!wanted[id] && !(left && shown[id]))
			continue;
		left -= left > 0;
		q.site = id;
		snprintf(query, sizeof query, "?site=%" PRIu32, id);
		rc = add(x, "site", query, view_site, &q, NULL);
		x->details++;
	}
	free(wanted);
	return rc;
}

/* As encodeURIComponent does. */
static char *percent_encoded(const char *prefix, const char *text)
{
	char *out = malloc(strlen(prefix) + strlen(text) * 3 + 1), *at = out;
	if (!out)
		return NULL;
	at = stpcpy(at, prefix);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z') || strchr("-_.!~*'()", c);
		if (plain)
			*at++ = (char)c;
		else
			at += sprintf(at, "%%%02X", c);
	}
	*at = 0;
	return out;
}

static int add_source(void *ctx, const char *path)
{
	struct writing *x = ctx;
	struct view_query q = query_of(x, NULL);
	char *query = percent_encoded("?file=", path);
	if (!query)
		return HEFT_ENOMEM;
	q.file = path;
	int rc = add(x, "source", query, view_source, &q, NULL);
	x->sources++;
	free(query);
	return rc;
}

static int add_files(struct writing *x)
{
	struct view_query q = query_of(x, NULL);
	int rc = add(x, "files", "", view_files, &q, NULL);
	if (rc == 0 && x->source && x->level->sources) {
		q.rows = x->level->sources;
		rc = view_files_each(x->r, &q, add_source, x, x->err);
	}
	return rc;
}

/* ---- several processes: the greatest can be chosen, at the peak and at their exit */

static int add_process(struct writing *x, uint32_t number)
{
	static const struct {
		const char *name;
		view_document *write;
		bool exit; /* also of what it left */
	} documents[] = {{"summary", view_summary, false},
			 {"timeline", view_timeline, false},
			 {"threads", view_threads, false},
			 {"tree", view_tree, true},
			 {"sites", view_sites, true}};
	int rc = 0;
	for (size_t i = 0; i < sizeof documents / sizeof *documents; i++)
		for (int exit = 0; exit <= documents[i].exit && rc == 0; exit++) {
			char query[60];
			struct view_query q = query_of(x, NULL);
			q.at = exit ? VIEW_AT_END : VIEW_AT_PEAK;
			q.has_process = true;
			q.process = number;
			snprintf(query, sizeof query, "?%sprocess=%" PRIu32, exit ? "at=end&" : "",
				 number);
			rc = add(x, documents[i].name, query, documents[i].write, &q, NULL);
		}
	x->processes_shown++;
	return rc;
}

static int add_processes(struct writing *x, const struct profile *p)
{
	enum { MOST = 8, ROOMY_NODES = 2500, TIGHT_NODES = 600 };
	uint32_t most = x->level->nodes >= ROOMY_NODES   ? MOST
			: x->level->nodes >= TIGHT_NODES ? MOST / 4
							 : 0;
	struct process_groups g;
	int rc = process_groups_init(&g, p, PROCESSES_EACH);
	x->processes = rc == 0 && g.count > 1 ? g.count : 0;
	for (uint32_t i = 0; i < x->processes && i < most && rc == 0; i++)
		rc = add_process(x, p->processes[g.list[i].greatest].number);
	process_groups_fini(&g);
	return rc;
}

/* ---- what was left out */

static int write_summary(struct writing *x)
{
	char room[PRUNED_WORDS][200];
	const char *pruned[PRUNED_WORDS + 1] = {NULL};
	int n = 0;
	char a[NUMBER_WORDS], b[NUMBER_WORDS];
	if (x->pruned_nodes) {
		number_count(a, x->level->nodes);
		number_count(b, x->pruned_nodes + x->level->nodes);
		snprintf(room[n], sizeof room[n],
			 "tree nodes beyond the %s largest of up to %s (their sums are kept)", a,
			 b);
		n++;
	}
	if (x->sites_shown < x->sites || x->details < x->sites) {
		number_count(a, x->sites_shown);
		number_count(b, x->sites);
		snprintf(room[n], sizeof room[n], "table rows beyond the first %s of %s sites, ", a,
			 b);
		number_count(a, x->details);
		snprintf(room[n] + strlen(room[n]), sizeof room[n] - strlen(room[n]),
			 "and stacks beyond the first %s", a);
		n++;
	}
	if (x->processes_shown < x->processes) {
		number_count(a, x->processes_shown);
		number_count(b, x->processes);
		snprintf(room[n++], sizeof room[n],
			 "processes beyond the %s largest of %s, as selections of their own", a, b);
	}
	snprintf(room[n++], sizeof room[n],
		 "windows, instants, filters and comparisons (heft "
		 "view shows them)");
	if (!x->source)
		snprintf(room[n++], sizeof room[n],
			 "source lines (heft export --source adds them)");
	for (int i = 0; i < n; i++)
		pruned[i] = room[i];
	struct view_query q = query_of(x, NULL);
	write_address(x, "summary", "");
	return view_summary_pruned(x->out, x->r, &q, pruned, x->err);
}

/* Every document, the summary last: it says what the others left out. */
static int write_documents(struct writing *x, const struct view_part *part)
{
	static const struct {
		const char *name;
		view_document *write;
	} single[] = {{"timeline", view_timeline},   {"sizes", view_sizes},
		      {"lifetimes", view_lifetimes}, {"threads", view_threads},
		      {"ledger", view_ledger},       {"remarks", view_remarks}};
	x->sites = part->p->site_count;
	bool *shown = calloc((size_t)x->sites + 2, sizeof *shown);
	int rc = shown ? 0 : HEFT_ENOMEM;
	fputs("{", x->out);
	fputs("\"/api/recordings\":", x->out);
	x->comma = true;
	view_recordings(x->out, &x->r, 1, false);
	for (size_t i = 0; i < sizeof single / sizeof *single && rc == 0; i++) {
		struct view_query q = query_of(x, NULL);
		rc = add(x, single[i].name, "", single[i].write, &q, NULL);
	}
	if (rc == 0)
		rc = add_trees(x);
	if (rc == 0)
		rc = add_tables(x, shown);
	if (rc == 0)
		rc = add_details(x, part, shown);
	if (rc == 0)
		rc = add_files(x);
	if (rc == 0)
		rc = add_processes(x, part->p);
	if (rc == 0)
		rc = write_summary(x);
	fputs("}", x->out);
	free(shown);
	return rc;
}

/* The documents at one level, packed. */
static int pack_level(struct view_recording *r, const struct view_part *part, int level,
		      bool source, char **packed, size_t *bytes, struct heft_error *err)
{
	char *text = NULL;
	size_t length;
	struct writing x = {.r = r, .level = &levels[level], .source = source, .err = err};
	x.out = open_memstream(&text, &length);
	if (!x.out)
		return HEFT_ENOMEM;
	int rc = write_documents(&x, part);
	if ((ferror(x.out) | fclose(x.out)) && rc == 0)
		rc = HEFT_ENOMEM;
	if (rc == 0)
		rc = view_pack(text, length, 6, packed, bytes);
	free(text);
	return rc;
}

/* The first level that fits into `most` bytes. Levels that cannot fit by far are passed over. */
static int pack_documents(struct view_recording *r, bool source, size_t most, char **packed,
			  size_t *bytes, struct heft_error *err)
{
	const struct view_part *part = NULL;
	int rc = view_recording_whole(r, &part, err);
	*packed = NULL;
	for (int level = 0; rc == 0;) {
		free(*packed);
		*packed = NULL;
		rc = pack_level(r, part, level, source, packed, bytes, err);
		if (rc < 0 || *bytes <= most)
			break;
		double share = (double)most / (double)*bytes;
		int next = level + 1;
		while (next + 1 < LEVELS && levels[next].nodes > 1.3 * share * levels[level].nodes)
			next++;
		if (next >= LEVELS)
			rc = heft_fail(err, HEFT_EREFUSED,
				       "the report does not fit into %d bytes however much is left "
				       "out\nheft view shows the recording as it is",
				       VIEW_HTML_BYTES);
		level = next;
	}
	view_part_drop(part);
	return rc;
}

static int write_page(FILE *out, const char *page, const char *packed, size_t bytes)
{
	size_t length;
	const char *place = strstr(page, VIEW_PAGE_DATA);
	char *text = view_base64(packed, bytes, &length);
	if (!text || !place) {
		free(text);
		return HEFT_ENOMEM;
	}
	fwrite(page, 1, (size_t)(place - page), out);
	fputs("<script type=\"application/json\" id=\"heft-data\">", out);
	fwrite(text, 1, length, out);
	fputs("</script>", out);
	fputs(place + strlen(VIEW_PAGE_DATA), out);
	free(text);
	return 0;
}

int view_html(FILE *out, struct view_recording *r, bool source, struct heft_error *err)
{
	char *packed = NULL, *page = calloc(1, view_page_unpacked_size + 1);
	size_t bytes = 0, frame = view_page_unpacked_size + 100;
	int rc = page ? view_unpack(view_page, view_page_size, page, view_page_unpacked_size)
		      : HEFT_ENOMEM;
	if (err)
		err->message[0] = 0;
	if (rc == 0)
		rc = pack_documents(r, source, (VIEW_HTML_BYTES - frame) / 4 * 3 - 3, &packed,
				    &bytes, err);
	if (rc == 0)
		rc = write_page(out, page, packed, bytes);
	if (rc < 0 && err && !err->message[0])
		heft_fail(err, rc, "not enough memory to write the report");
	free(packed);
	free(page);
	return rc;
}
