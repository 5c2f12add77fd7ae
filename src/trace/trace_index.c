/* The index of a recording: one entry a block, as differences to the one
 * before. Reading checks that offsets rise and lie within the file, so that
 * whoever follows them makes progress and reads what is there. */
#include "trace/trace_index.h"

#include "hosted/vector.h"

#include <stdlib.h>

static bool add(struct trace_index *x, const struct trace_index_entry *e)
{
	if (!array_reserve(x->entries, x->count, x->capacity, 1))
		return false;
	x->entries[x->count++] = *e;
	return true;
}

bool trace_index_add(struct trace_index *x, uint64_t offset, const struct trace_block_header *h)
{
	return add(x,
		   &(struct trace_index_entry){offset, h->first_ns, h->last_ns, h->count, h->type});
}

void trace_index_fini(struct trace_index *x)
{
	free(x->entries);
	memset(x, 0, sizeof *x);
}

void trace_index_put(struct byte_buffer *b, const struct trace_index *x)
{
	struct trace_index_entry last = {0};
	for (size_t i = 0; i < x->count; i++) {
		const struct trace_index_entry *e = &x->entries[i];
		buffer_put(b, e->type);
		buffer_put(b, e->offset - last.offset);
		buffer_put(b, zigzag((int64_t)(e->first_ns - last.first_ns)));
		buffer_put(b, e->last_ns - e->first_ns);
		buffer_put(b, e->count);
		last = *e;
	}
}

const char *trace_index_get(struct byte_cursor *c, struct trace_index *x, uint64_t count,
			    uint64_t limit)
{
	struct trace_index_entry e = {0};
	if (count > cursor_left(c) / 5)
		return "an index as long as its entries";
	for (uint64_t i = 0; i < count; i++) {
		e.type = (uint32_t)cursor_get_max(c, UINT8_MAX);
		uint64_t step = cursor_get(c);
		uint64_t rest = limit - e.offset;
		e.offset += step;
		e.first_ns += (uint64_t)unzigzag(cursor_get(c));
		e.last_ns = e.first_ns + cursor_get(c);
		e.count = cursor_get(c);
		if (c->bad || step == 0 || step >= rest || e.last_ns < e.first_ns)
			return "an index of blocks one after the other";
		if (!add(x, &e))
			return "enough memory for its entries";
	}
	return c->at == c->end ? NULL : "an index as long as its entries";
}
