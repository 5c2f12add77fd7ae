/* The addresses of web/src/api.ts.
 *
 * A request names a recording by its place in a list and a document by its name in a
 * table: nothing in an address ever becomes part of a path. Answers are made in
 * memory, since a document that fails half-way must not look whole, and packed for
 * clients that unpack: a tree shrinks to a fifth.
 *
 * Errors are one line of text, as everywhere in heft; the status tells programs. */
#include "pages/routes_view.h"

#include "pages/view_documents.h"
#include "pages/view_html.h"
#include "pages/view_pack.h"
#include "pages/view_page.h"

#include "export/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACKED_FROM = 1400, PACK_LEVEL = 2 /* beyond it loopback is faster */ };
static const uint64_t NEWS_NS = 1000000000;

/* ---- answering */

static unsigned status_of(int code)
{
	switch (code) {
	case HEFT_EUSAGE: return 400;
	case HEFT_ENOTFOUND: return 404;
	case HEFT_EREFUSED: return 422;
	default: return 500;
	}
}

static void answer_error(struct http_answer *a, const struct heft_error *err, int code)
{
	http_answer_text(a, status_of(code), "%s\n", err->message);
}

/* Takes the body over. */
static void answer_packed(const struct http_request *q, struct http_answer *a, const char *type,
			  char *body, size_t bytes)
{
	char *packed = NULL;
	size_t packed_bytes;
	http_answer_header(a, "Vary", "Accept-Encoding");
	if (bytes >= PACKED_FROM && http_takes_gzip(q) &&
	    view_pack(body, bytes, PACK_LEVEL, &packed, &packed_bytes) == 0) {
		free(body);
		http_answer_header(a, "Content-Encoding", "gzip");
		http_answer_body(a, 200, type, packed, packed_bytes);
		return;
	}
	http_answer_body(a, 200, type, body, bytes);
}

/* An answer on its way: a stream into memory. */
struct draft {
	FILE *out;
	char *body;
	size_t bytes;
};

static int draft_open(struct draft *d, struct heft_error *err)
{
	*d = (struct draft){0};
	d->out = open_memstream(&d->body, &d->bytes);
	return d->out ? 0 : heft_fail(err, HEFT_ENOMEM, "not enough memory to answer");
}

/* Sends what was written, or what went wrong. */
static void draft_send(struct draft *d, int rc, const struct http_request *q, struct http_answer *a,
		       const char *type, struct heft_error *err)
{
	if (d->out && (ferror(d->out) | fclose(d->out)) && rc == 0)
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory to answer");
	if (rc == 0) {
		answer_packed(q, a, type, d->body, d->bytes);
		return;
	}
	free(d->body);
	answer_error(a, err, rc);
}

static const char *parameter(const void *ctx, const char *name)
{
	return http_query(ctx, name);
}

static int parse(struct view_query *query, const struct http_request *q, const char *prefix,
		 struct heft_error *err)
{
	struct view_parameters from = {q, parameter};
	return view_query_parse(query, &from, prefix, err);
}

/* ---- the page */

static void answer_page(void *ctx, const struct http_request *q, struct http_answer *a)
{
	(void)ctx;
	(void)q;
	http_answer_static(a, "text/html; charset=utf-8", view_page, view_page_size, true);
}

static void answer_icon(void *ctx, const struct http_request *q, struct http_answer *a)
{
	static const char icon[] =
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\">"
		"<path d=\"M1 15V9h3v6zm5 0V1h4v14zm6 0V6h3v9z\" fill=\"#3b6ea5\"/></svg>";
	(void)ctx;
	(void)q;
	http_answer_static(a, "image/svg+xml", icon, sizeof icon - 1, false);
}

const char *routes_view_headers(void)
{
	static char headers[1024];
	if (!headers[0])
		snprintf(headers, sizeof headers,
			 "Content-Security-Policy: %s\n"
			 "Referrer-Policy: no-referrer\n" /* the address has the token */
			 "Cross-Origin-Resource-Policy: same-origin\n"
			 "Cross-Origin-Opener-Policy: same-origin\n",
			 view_page_policy);
	return headers;
}

static void answer_recordings(void *ctx, const struct http_request *q, struct http_answer *a)
{
	struct routes_view *v = ctx;
	struct heft_error err;
	struct draft d;
	int rc = draft_open(&d, &err);
	if (rc == 0)
		view_recordings(d.out, v->recordings, v->count, true);
	draft_send(&d, rc, q, a, "application/json", &err);
}

/* ---- of one recording */

/* The recording that begins "ID/rest"; *rest is what follows. NULL: there is none. */
static struct view_recording *find_recording(const struct routes_view *v, const char *text,
					     const char **rest)
{
	for (uint32_t i = 0; i < v->count; i++) {
		const char *id = view_recording_id(v->recordings[i]);
		size_t length = strlen(id);
		if (strncmp(text, id, length) == 0 && (text[length] == '/' || !text[length])) {
			*rest = text[length] ? text + length + 1 : text + length;
			return v->recordings[i];
		}
	}
	return NULL;
}

static void answer_document(struct view_recording *r, view_document *write,
			    const struct http_request *q, struct http_answer *a)
{
	struct heft_error err = {0};
	struct view_query query;
	struct draft d = {0};
	int rc = parse(&query, q, NULL, &err);
	if (rc == 0)
		rc = draft_open(&d, &err);
	if (rc == 0)
		rc = write(d.out, r, &query, &err);
	draft_send(&d, rc, q, a, "application/json", &err);
}

/* ---- files to take away */

static int export_measure_of(const struct view_query *q, enum measure_id *measure,
			     struct heft_error *err)
{
	switch (q->mode) {
	case VIEW_LIVE:
		*measure = q->at == VIEW_AT_PEAK ? MEASURE_PEAK_BYTES : MEASURE_LIVE_BYTES;
		return 0;
	case VIEW_ALLOCATED:
		*measure = q->count ? MEASURE_ALLOCATIONS : MEASURE_ALLOCATED_BYTES;
		return 0;
	case VIEW_GREW:
	case VIEW_CHURN: break;
	}
	return heft_fail(err, HEFT_EREFUSED,
			 "other tools' formats hold what is live or what was allocated");
}

static int write_export(FILE *out, struct view_recording *r, const struct exporter *x,
			const struct view_query *q, struct heft_error *err)
{
	struct export_options options = {
		.focus = q->focus, .ignore = q->ignore, .invert = q->invert};
	static const enum view_extent extents[] = {[EXPORT_MERGED] = VIEW_NO_SIZES,
						   [EXPORT_CALLS] = VIEW_CALLS,
						   [EXPORT_APART] = VIEW_APART};
	const struct view_part *part = NULL;
	int rc = export_measure_of(q, &options.measure, err);
	if (rc == 0)
		rc = view_recording_part(r, q, extents[x->stacks], &part, err);
	if (rc == 0 && !measure_known(part->p, options.measure))
		rc = heft_fail(err, HEFT_EREFUSED, "this file does not record that number");
	if (rc == 0)
		rc = exporter_write(x, out, part->p, &options, err);
	view_part_drop(part);
	return rc;
}

/* The name without what could end a header's quotes. */
static void name_download(struct http_answer *a, const struct view_recording *r,
			  const char *extension)
{
	char header[200], name[120];
	snprintf(name, sizeof name, "%s", view_recording_name(r));
	for (char *c = name; *c; c++)
		if (*c < '!' || *c > '~' || strchr("\"\\/;", *c))
			*c = '_';
	snprintf(header, sizeof header, "attachment; filename=\"%s.%s\"", name, extension);
	http_answer_header(a, "Content-Disposition", header);
}

static void answer_export(struct view_recording *r, const struct http_request *q,
			  struct http_answer *a)
{
	const char *format = http_query(q, "format");
	const struct exporter *x = format ? exporter_find(format) : NULL;
	bool html = format && strcmp(format, "html") == 0;
	struct heft_error err = {0};
	struct view_query query;
	struct draft d = {0};
	int rc = parse(&query, q, NULL, &err);
	if (rc == 0 && !x && !html)
		rc = heft_fail(&err, HEFT_EUSAGE, "no such format");
	if (rc == 0)
		rc = draft_open(&d, &err);
	if (rc == 0)
		rc = html ? view_html(d.out, r, false, &err)
			  : write_export(d.out, r, x, &query, &err);
	if (rc == 0)
		name_download(a, r, html ? "html" : x->extension);
	draft_send(&d, rc, q, a, html ? "text/html; charset=utf-8" : "application/octet-stream",
		   &err);
}

/* ---- news */

struct listening {
	uint64_t duration_ns;
	bool begun;
};

/* Called once a second: says that the recording has grown, and once that it has ended. */
static void answer_events(struct view_recording *r, const struct http_request *q,
			  struct http_answer *a)
{
	struct listening *l = q->kept ? q->kept : calloc(1, sizeof *l);
	uint64_t duration;
	bool live;
	char data[60];
	if (!l) {
		http_answer_text(a, 500, "not enough memory to answer\n");
		return;
	}
	view_recording_refresh(r, &live, &duration);
	http_answer_events(a, NEWS_NS, l, free);
	snprintf(data, sizeof data, "{\"duration_ns\":%" PRIu64 "}", duration);
	if (l->begun && (duration != l->duration_ns || !live))
		http_event(a, "change", data);
	if (!live) {
		http_event(a, "end", data);
		http_events_end(a);
	}
	l->duration_ns = duration;
	l->begun = true;
}

static void answer_recording(void *ctx, const struct http_request *q, struct http_answer *a)
{
	const char *name = "";
	struct view_recording *r = find_recording(ctx, q->rest, &name);
	view_document *document = r ? view_document_find(name) : NULL;
	if (document)
		answer_document(r, document, q, a);
	else if (r && strcmp(name, "export") == 0)
		answer_export(r, q, a);
	else if (r && strcmp(name, "events") == 0)
		answer_events(r, q, a);
	else
		http_answer_text(a, 404, "%s\n", r ? "no such document" : "no such recording");
}

/* ---- comparing */

static struct view_recording *recording_of(const struct routes_view *v,
					   const struct http_request *q, const char *name)
{
	const char *id = http_query(q, name), *rest = "";
	struct view_recording *r = id ? find_recording(v, id, &rest) : NULL;
	return *rest ? NULL : r;
}

static void answer_diff(void *ctx, const struct http_request *q, struct http_answer *a)
{
	struct view_recording *old = recording_of(ctx, q, "a"), *new = recording_of(ctx, q, "b");
	struct view_query old_query, new_query;
	struct heft_error err = {0};
	struct draft d = {0};
	int rc = old && new ? 0
			    : heft_fail(&err, HEFT_ENOTFOUND,
					"a and b must be ids of recordings that are open");
	if (rc == 0)
		rc = parse(&old_query, q, "a.", &err);
	if (rc == 0)
		rc = parse(&new_query, q, "b.", &err);
	if (rc == 0)
		rc = draft_open(&d, &err);
	if (rc == 0)
		rc = view_diff(d.out, old, &old_query, new, &new_query, &err);
	draft_send(&d, rc, q, a, "application/json", &err);
}

void routes_view_init(struct routes_view *v, struct view_recording *const *recordings,
		      uint32_t count)
{
	*v = (struct routes_view){.recordings = recordings, .count = count};
	const struct http_route routes[] = {
		{"GET", "/", answer_page, v, false, true},
		{"GET", "/favicon.ico", answer_icon, v, true, true},
		{"GET", "/api/recordings", answer_recordings, v, false, false},
		{"GET", "/api/r/*", answer_recording, v, false, false},
		{"GET", "/api/diff", answer_diff, v, false, false},
	};
	_Static_assert(sizeof routes / sizeof *routes <= ROUTES_VIEW, "room for all");
	memcpy(v->routes, routes, sizeof routes);
}
