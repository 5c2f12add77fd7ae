/* Writes and reads remarks. One table says what each kind has; both directions follow it. */
#include "trace/remarks_block.h"

#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>

enum {
	NAME = 1,
	SITE = 2,
	POOL = 4,    /* a is a pool */
	ADDRESS = 8, /* the address of a block or an object: b with POOL, else a */
	NUMBER = 16, /* a */
	SECOND = 32, /* b */
	THIRD = 64,  /* c */
	BIRTH = 128, /* born_at */
};
static const uint8_t has[TRACE_REMARK_KINDS] = {
	[TRACE_REMARK_MARK] = NAME,
	[TRACE_REMARK_REGION_BEGIN] = NAME | NUMBER | SECOND,
	[TRACE_REMARK_REGION_END] = NAME | NUMBER | SECOND,
	[TRACE_REMARK_STAGE] = NAME | SITE | ADDRESS | SECOND | THIRD | BIRTH,
	[TRACE_REMARK_STAGE_END] = ADDRESS,
	[TRACE_REMARK_EVENT] = NAME | SITE | NUMBER,
	[TRACE_REMARK_POOL_CREATE] = NAME | POOL,
	[TRACE_REMARK_POOL_ALLOC] = SITE | POOL | ADDRESS | THIRD,
	[TRACE_REMARK_POOL_FREE] = POOL | ADDRESS,
	[TRACE_REMARK_POOL_DESTROY] = POOL,
	[TRACE_REMARK_STOP] = 0,
	[TRACE_REMARK_START] = 0,
};
enum { NEW_NAME = TRACE_REMARK_KINDS };

void remark_names_fini(struct remark_names *n)
{
	name_pool_free(n->pool);
	free(n->texts);
	*n = (struct remark_names){0};
}

void remarks_put_name(struct byte_buffer *b, const char *text)
{
	buffer_put(b, NEW_NAME);
	buffer_put_string(b, text);
}

static void put_relative(struct byte_buffer *b, uint64_t *base, uint64_t value)
{
	buffer_put(b, zigzag((int64_t)(value - *base)));
	*base = value;
}

static uint64_t get_relative(struct byte_cursor *c, uint64_t *base)
{
	*base += (uint64_t)unzigzag(cursor_get(c));
	return *base;
}

void remarks_put(struct byte_buffer *b, struct remarks_base *base, const struct trace_remark *m)
{
	const uint8_t fields = has[m->kind];
	buffer_put(b, m->kind);
	buffer_put(b, m->thread);
	put_relative(b, &base->time_ns, m->time_ns);
	if (fields & NAME)
		buffer_put(b, m->name);
	if (fields & SITE)
		buffer_put(b, m->site);
	if (fields & POOL)
		put_relative(b, &base->pool, m->a);
	if (fields & ADDRESS)
		put_relative(b, &base->address, fields & POOL ? m->b : m->a);
	if (fields & NUMBER)
		buffer_put(b, m->a);
	if (fields & SECOND)
		buffer_put(b, m->b);
	if (fields & THIRD)
		buffer_put(b, m->c);
	if (fields & BIRTH)
		buffer_put(b, m->born_at);
}

static const char *get_name(struct byte_cursor *c, struct remark_names *n)
{
	size_t length;
	const uint8_t *text = cursor_get_bytes(c, &length);
	if (c->bad || length > TRACE_REMARK_NAME_BYTES || memchr(text, 0, length))
		return "a name of at most 255 bytes";
	if (n->count == TRACE_REMARK_NAMES)
		return "fewer names";
	if (!n->pool)
		n->pool = name_pool_new();
	const char *kept = n->pool ? name_pool_add_n(n->pool, (const char *)text, length) : NULL;
	if (!kept || !array_reserve(n->texts, n->count, n->capacity, 1))
		return "more memory";
	n->texts[n->count++] = kept;
	return NULL;
}

const char *remarks_get(struct byte_cursor *c, struct remarks_base *base,
			struct remark_names *names, struct trace_remark *m, uint32_t site_limit,
			uint32_t thread_limit, bool *end)
{
	uint64_t kind, name = 0, site = 0, born_at = 0;
	*m = (struct trace_remark){.text = ""};
	*end = true;
	do {
		if (!cursor_left(c))
			return NULL;
		kind = cursor_get_max(c, NEW_NAME);
		const char *expected = !c->bad && kind == NEW_NAME ? get_name(c, names) : NULL;
		if (expected)
			return expected;
	} while (!c->bad && kind == NEW_NAME);
	if (c->bad)
		return "a known kind of remark";
	const uint8_t fields = has[kind];
	const uint64_t thread = cursor_get(c);
	m->kind = (uint8_t)kind;
	m->time_ns = get_relative(c, &base->time_ns);
	if (fields & NAME)
		name = cursor_get(c);
	if (fields & SITE)
		site = cursor_get(c);
	if (fields & POOL)
		m->a = get_relative(c, &base->pool);
	if (fields & ADDRESS)
		*(fields & POOL ? &m->b : &m->a) = get_relative(c, &base->address);
	if (fields & NUMBER)
		m->a = cursor_get(c);
	if (fields & SECOND)
		m->b = cursor_get(c);
	if (fields & THIRD)
		m->c = cursor_get(c);
	if (fields & BIRTH)
		born_at = cursor_get(c);
	if (c->bad)
		return "a complete remark";
	if ((fields & SITE && site >= site_limit) || born_at > site_limit || thread >= thread_limit)
		return "a remark of a thread and a site that have been defined";
	if (name > names->count)
		return "a remark with a name that has been defined";
	m->thread = (uint32_t)thread;
	m->site = (uint32_t)site;
	m->born_at = (uint32_t)born_at;
	m->name = (uint32_t)name;
	if (name)
		m->text = names->texts[name - 1];
	*end = false;
	return NULL;
}
