/* Writes and reads calls that map memory. Most are as the one before but for time and address, so a block of
 * them compresses well. */
#include "trace/mappings_block.h"

#define BYTES_MOST ((UINT64_C(1) << 57) - 1)

void mappings_put(struct byte_buffer *b, struct mappings_base *base, const struct trace_mapping *m)
{
	buffer_put(b, (uint64_t)m->call | (uint64_t)m->origin << 4);
	buffer_put(b, m->thread);
	buffer_put(b, zigzag((int64_t)(m->time_ns - base->time_ns)));
	buffer_put(b, m->time_ns - m->began_ns);
	buffer_put(b, m->site);
	buffer_put(b, zigzag((int64_t)(m->address - base->address)));
	buffer_put(b, m->bytes);
	buffer_put(b, m->detail);
	if (m->call == TRACE_MAP_MREMAP) {
		buffer_put(b, zigzag((int64_t)(m->old_address - m->address)));
		buffer_put(b, m->old_bytes);
	}
	base->time_ns = m->time_ns;
	base->address = m->address;
}

const char *mappings_get(struct byte_cursor *c, struct mappings_base *base, struct trace_mapping *m,
			 uint32_t site_limit, uint32_t thread_limit)
{
	*m = (struct trace_mapping){0};
	uint64_t kind = cursor_get_max(c, 0xff);
	uint64_t thread = cursor_get(c);
	m->time_ns = base->time_ns + (uint64_t)unzigzag(cursor_get(c));
	m->began_ns = m->time_ns - cursor_get(c);
	uint64_t site = cursor_get(c);
	m->address = base->address + (uint64_t)unzigzag(cursor_get(c));
	m->bytes = cursor_get_max(c, BYTES_MOST);
	m->detail = (uint32_t)cursor_get_max(c, TRACE_MAP_DETAIL_MOST);
	m->call = kind & 0xf;
	m->origin = (uint8_t)(kind >> 4);
	if (m->call == TRACE_MAP_MREMAP) {
		m->old_address = m->address + (uint64_t)unzigzag(cursor_get(c));
		m->old_bytes = cursor_get_max(c, BYTES_MOST);
	}
	if (c->bad || m->address > BYTES_MOST || m->old_address > BYTES_MOST ||
	    m->began_ns > m->time_ns)
		return "a complete call";
	if (m->call >= TRACE_MAP_CALLS || m->origin >= TRACE_MAP_ORIGINS)
		return "a known call";
	if (site >= site_limit || thread >= thread_limit)
		return "a call of a thread and a site that have been defined";
	m->site = (uint32_t)site;
	m->thread = (uint32_t)thread;
	base->time_ns = m->time_ns;
	base->address = m->address;
	return NULL;
}
