/* A tree of calls (profile/call_tree.h) as a document, its small parts put together. */
#ifndef HEFT_PAGES_VIEW_CALLS_H
#define HEFT_PAGES_VIEW_CALLS_H

#include "hosted/json_writer.h"
#include "pages/view_query.h"
#include "profile/call_tree.h"

struct view_tree_shape {
	uint32_t limit;   /* nodes that are shown */
	const char *root; /* "3.0.12": which child of which child; NULL: everything */
	const char *unit;
	bool lifetimes; /* `other` is the mean lifetime */
	bool compared;  /* `other` is the change; with `before` */
	bool has_error;
	uint64_t error;
};
/* The Tree as a value, of a tree with details; `before`, if compared, follows it as another member.
 * HEFT_ENOTFOUND: no such root. */
int view_calls_write(const struct call_tree *t, struct json_writer *w, const struct view_query *q,
		     const struct view_tree_shape *shape, struct heft_error *err);

#endif
