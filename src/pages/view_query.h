/* What a request of the page asks for: which part of a recording, and what of it. Parsed strictly:
 * a value that is not understood is an error, not a default. */
#ifndef HEFT_PAGES_VIEW_QUERY_H
#define HEFT_PAGES_VIEW_QUERY_H

#include "hosted/error.h"
#include "model_json/model_json.h"

#include <stdbool.h>
#include <stdint.h>

enum view_mode { VIEW_LIVE, VIEW_GREW, VIEW_ALLOCATED, VIEW_CHURN };
enum view_at { VIEW_AT_PEAK, VIEW_AT_END, VIEW_AT_TIME };
/* What the roots of a tree are, where there are several */
enum view_processes {
	VIEW_PROCESSES_MERGED, /* processes, many of one program together */
	VIEW_PROCESSES_EACH,
	VIEW_PROCESSES_NONE, /* functions */
};
enum view_sort {
	VIEW_BY_VALUE,
	VIEW_BY_PEAK,
	VIEW_BY_LIVE,
	VIEW_BY_ALLOCATED,
	VIEW_BY_COUNT,
	VIEW_BY_TEMPORARY,
	VIEW_BY_LIFETIME,
};

enum {
	VIEW_TREE_NODES = 20000, /* what a tree has unless the request says otherwise */
	VIEW_TREE_MOST = 200000,
	VIEW_ROWS = 200,
	VIEW_ROWS_MOST = 10000,
	VIEW_SLOTS = 400,
};

struct view_query {
	/* the selection */
	enum view_mode mode;
	enum view_at at;
	uint64_t at_ns;
	bool has_from, has_to, has_pid, has_process;
	uint64_t from_ns, to_ns;
	int32_t pid;
	uint32_t process;                    /* its number in the recording */
	bool count;                          /* blocks and calls instead of bytes */
	const char *program;                 /* NULL: all */
	const char *thread, *focus, *ignore; /* likewise */
	uint64_t within_ns;
	/* of single documents */
	bool invert;
	enum view_processes processes; /* of a tree */
	uint32_t limit, rows, slots, site;
	const char *root, *search, *function, *module, *file; /* NULL: not given */
	enum view_sort sort;
	struct model_json_limits
		limits; /* of names, and of lists that are otherwise whole (threads) */
};

/* Where the values stand: the parameters of a request, or nothing. */
struct view_parameters {
	const void *ctx;
	const char *(*get)(const void *ctx, const char *name); /* NULL: not there */
};

/* What is asked for when nothing is said. */
void view_query_init(struct view_query *q);
/* Strings are borrowed from the parameters. `prefix` stands before the names of the selection's
 * parameters ("a." of a comparison); without it a bare name counts too. HEFT_EUSAGE. */
int view_query_parse(struct view_query *q, const struct view_parameters *from, const char *prefix,
		     struct heft_error *err);

#endif
