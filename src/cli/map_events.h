/* The calls of a recorded program that mapped memory, one by one: heft map --events. */
#ifndef HEFT_CLI_MAP_EVENTS_H
#define HEFT_CLI_MAP_EVENTS_H

#include "hosted/json_writer.h"
#include "hosted/ledger.h"
#include "trace/trace.h"

#include <stdio.h>

struct map_events_options {
	size_t limit; /* calls that are shown; SIZE_MAX: all */
	size_t width; /* of a line; 0: 100 */
	bool has_pid;
	int32_t pid; /* only calls of this process */
};

/* A line for each call. */
int map_events_text(FILE *out, struct trace_reader *r, const struct map_events_options *o,
		    struct heft_error *err);
/* Names lines of the ledgers of this recording by who mapped the memory, and gives them numbers of "sites". */
int map_events_name_lines(struct ledger *ledgers, size_t count, struct trace_reader *r,
			  struct heft_error *err);
/* "mappings": [], "sites": [] of those calls. */
int map_events_json(struct json_writer *w, struct trace_reader *r,
		    const struct map_events_options *o, struct heft_error *err);

#endif
