/* REMARKS blocks: what programs said, as a file has it (docs/trace-format.md). */
#ifndef HEFT_TRACE_REMARKS_BLOCK_H
#define HEFT_TRACE_REMARKS_BLOCK_H

#include "hosted/name_pool.h"
#include "tally/remark.h"
#include "trace/byte_buffer.h"

/* What a remark is written relative to: the one before it in the block; zero at its start */
struct remarks_base {
	uint64_t time_ns, pool, address;
};

/* The names that were read so far: a block uses those of the blocks before it. Begins zeroed. */
struct remark_names {
	struct name_pool *pool;
	const char **texts; /* name n is texts[n - 1] */
	uint32_t count, capacity;
};
void remark_names_fini(struct remark_names *n);

void remarks_put(struct byte_buffer *b, struct remarks_base *base, const struct trace_remark *m);
/* Gives the next number to a name. */
void remarks_put_name(struct byte_buffer *b, const char *text);
/* Reads the next remark, and the names before it. NULL, or what was expected. *end: there was none. */
const char *remarks_get(struct byte_cursor *c, struct remarks_base *base,
			struct remark_names *names, struct trace_remark *m, uint32_t site_limit,
			uint32_t thread_limit, bool *end);

#endif
