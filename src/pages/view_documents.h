/* The documents that the page is made of, each as web/src/api.ts describes it: one function a
 * document, writing JSON to a stream. Errors of the stream latch for the caller to check. */
#ifndef HEFT_PAGES_VIEW_DOCUMENTS_H
#define HEFT_PAGES_VIEW_DOCUMENTS_H

#include "pages/view_recording.h"

#include <stdio.h>

typedef int view_document(FILE *out, struct view_recording *r, const struct view_query *q,
			  struct heft_error *err);

view_document view_summary;   /* what it is, totals, findings */
view_document view_timeline;  /* live heap and RSS over time */
view_document view_tree;      /* the flame graph's */
view_document view_sandwich;  /* callers and callees of q->function */
view_document view_sites;     /* a table */
view_document view_site;      /* q->site in full */
view_document view_functions; /* a table */
view_document view_files;     /* a table */
view_document view_source;    /* q->file line by line */
view_document view_sizes;
view_document view_lifetimes;
view_document view_threads;
view_document view_ledger;
view_document view_remarks; /* what the program said */

struct view_document_entry {
	const char *name; /* behind /api/r/ID/ */
	view_document *write;
};
extern const struct view_document_entry view_document_list[]; /* ends with a NULL name */
view_document *view_document_find(const char *name);          /* NULL: there is none */

/* The document "recordings": what is open here. live: tells whether they grow; else none does. */
void view_recordings(FILE *out, struct view_recording *const *recordings, uint32_t count,
		     bool live);

/* What changed from one selection to another, of the same recording or not. */
int view_diff(FILE *out, struct view_recording *a, const struct view_query *qa,
	      struct view_recording *b, const struct view_query *qb, struct heft_error *err);

/* Calls each() with the source files of a selection whose text can be shown, by value; at most
 * q->rows of them. */
int view_files_each(struct view_recording *r, const struct view_query *q,
		    int (*each)(void *ctx, const char *path), void *ctx, struct heft_error *err);

/* From when to when the chosen processes ran; the whole run without a choice. */
void view_span(const struct view_part *part, uint64_t *start_ns, uint64_t *end_ns);

/* Left out of a one-file report, in words; NULL: nothing. Ends with NULL. */
int view_summary_pruned(FILE *out, struct view_recording *r, const struct view_query *q,
			const char *const *pruned, struct heft_error *err);

#endif
