/* The tables of a recording (modules, nodes, sites, processes, threads, notes)
 * as an interleaved log of records: what definitions blocks hold. Both
 * directions stand in definitions.c, record by record beside each other. */
#ifndef HEFT_TRACE_DEFINITIONS_H
#define HEFT_TRACE_DEFINITIONS_H

#include "hosted/name_pool.h"
#include "trace/byte_buffer.h"
#include "trace/trace.h"

/* Nodes or sites that wait for their block. They come one by one, and are written as one record. */
struct definitions_run {
	struct byte_buffer elements;
	uint64_t count;
	uint64_t base; /* what the next one is relative to; 0 at the start of a block */
};

void definitions_put_meta(struct byte_buffer *b, const struct trace_meta *m);
void definitions_put_module(struct byte_buffer *b, const struct trace_module *m);
/* first is the id of nodes[0]. */
void definitions_add_nodes(struct definitions_run *run, uint32_t first,
			   const struct trace_node *nodes, size_t count);
void definitions_add_sites(struct definitions_run *run, const struct trace_site *sites,
			   size_t count);
/* Writes what was added, and empties the runs. */
void definitions_put_runs(struct byte_buffer *b, struct definitions_run *nodes,
			  struct definitions_run *sites);
void definitions_put_process(struct byte_buffer *b, const struct trace_process *p);
void definitions_put_process_end(struct byte_buffer *b, uint32_t process,
				 const struct trace_process *p);
void definitions_put_thread(struct byte_buffer *b, const struct trace_thread *t);
void definitions_put_thread_name(struct byte_buffer *b, uint32_t thread, const char *name);
void definitions_put_note(struct byte_buffer *b, const struct trace_note *n);
void definitions_put_rss(struct byte_buffer *b, const struct trace_rss *samples, size_t count);
void definitions_put_anonymous(struct byte_buffer *b, const struct trace_anonymous *a);

/* The tables as read so far; all zero: none.
 * fields: each table is three: its items, their count and its capacity. */
struct definitions {
	struct trace_meta meta;
	struct trace_module *modules;
	struct trace_node *nodes;
	struct trace_site *sites;
	struct trace_thread *threads;
	struct trace_process *processes;
	struct trace_rss *rss;
	struct trace_anonymous *anonymous;
	struct trace_note *notes;
	struct ledger *ledgers;
	struct trace_look *looks;
	uint32_t module_count, node_count, site_count, thread_count, process_count;
	size_t rss_count, anonymous_count, note_count, ledger_count, look_count;
	uint32_t module_capacity, node_capacity, site_capacity, thread_capacity, process_capacity;
	size_t rss_capacity, anonymous_capacity, note_capacity, ledger_capacity, look_capacity;
	struct name_pool *names; /* NULL: no string was read yet */
	bool no_memory;
};

void definitions_fini(struct definitions *d);
/* Reads the whole payload of a block, if it is one of the tables. `count` is that of the block's header. NULL, or
 * what was expected. */
const char *definitions_get_block(struct definitions *d, unsigned type, uint64_t count,
				  struct byte_cursor *c);
/* When all are read: how near the peak of the whole run each ledger was. When it was taken nobody knew how high the heap
 * would rise. */
void definitions_compare_with_peaks(struct definitions *d);

#endif
