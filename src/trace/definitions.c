/* Writes and reads the records of the recording's tables (see definitions.h).
 *
 * Nodes and sites come in the thousands and in runs; they are stored as
 * differences to their neighbours within the block. A node's parent has a lower
 * id than the node itself: this is checked when reading, and makes every walk to
 * the root end.
 *
 * Input is hostile: counts are compared with the bytes left (every element takes
 * at least one) before memory is taken for them; strings lose nothing but embedded
 * zero bytes, at which they end. */
#include "trace/definitions.h"

#include "hosted/vector.h"
#include "trace/heap_block.h"
#include "trace/ledger_block.h"
#include "trace/record_fields.h"
#include "trace/trace_block.h"

#include <stdlib.h>
#include <string.h>

enum record {
	RECORD_MODULE = 1,
	RECORD_NODES,
	RECORD_SITES,
	RECORD_PROCESS,
	RECORD_PROCESS_END,
	RECORD_THREAD,
	RECORD_THREAD_NAME,
	RECORD_NOTE,
	RECORD_PROCESS_MEMORY, /* since version 3 */
};

static void *take_memory(struct definitions *d, size_t bytes)
{
	if (!d->names)
		d->names = name_pool_new();
	void *p = d->names ? name_pool_alloc(d->names, bytes) : NULL;
	d->no_memory |= !p;
	return p;
}

/* RESERVE(d, table, of, more): whether d->table now has space for `more` beyond d->of_count. */
#define RESERVE(d, table, of, more)                                                                \
	(array_reserve((d)->table, (d)->of##_count, (d)->of##_capacity, more) ||                   \
	 ((d)->no_memory = true, false))

void definitions_fini(struct definitions *d)
{
	free(d->modules);
	free(d->nodes);
	free(d->sites);
	free(d->threads);
	free(d->processes);
	free(d->rss);
	free(d->anonymous);
	free(d->notes);
	for (size_t i = 0; i < d->ledger_count; i++)
		ledger_fini(&d->ledgers[i]);
	free(d->ledgers);
	for (size_t i = 0; i < d->look_count; i++)
		heap_look_fini(&d->looks[i].look);
	free(d->looks);
	name_pool_free(d->names);
	memset(d, 0, sizeof *d);
}

static const char *get_string(struct definitions *d, struct byte_cursor *c)
{
	size_t n;
	const uint8_t *from = cursor_get_bytes(c, &n);
	char *s = take_memory(d, n + 1); /* zeroed: a NUL ends it */
	return s ? memcpy(s, from, n) : "";
}

static void put_argv(struct byte_buffer *b, char *const *argv, uint32_t argc)
{
	buffer_put(b, argc);
	for (uint32_t i = 0; i < argc; i++)
		buffer_put_string(b, argv[i]);
}

static char **get_argv(struct definitions *d, struct byte_cursor *c, uint32_t *argc)
{
	*argc = (uint32_t)cursor_get_max(c, cursor_left(c));
	char **argv = take_memory(d, ((size_t)*argc + 1) * sizeof *argv);
	if (!argv) {
		*argc = 0;
		return NULL;
	}
	for (uint32_t i = 0; i < *argc; i++)
		argv[i] = (char *)get_string(d, c);
	argv[*argc] = NULL;
	return argv;
}

/* TRACE_NONE becomes 0. */
static uint64_t put_id(uint32_t id)
{
	return (uint32_t)(id + 1);
}

static uint32_t get_id(struct byte_cursor *c, size_t limit)
{
	return (uint32_t)cursor_get_max(c, limit) - 1;
}

#define META(member) FIELD(trace_meta, member)
static const struct record_field meta_fields[] = {META(page_bytes), META(tick_ns)};
static const struct record_field meta_limit[] = {META(memory_limit_bytes), META(limit_is_cgroup)};
static const struct record_field meta_attached[] = {META(attached)};
static const struct record_field meta_way[] = {META(way)};
#define PROCESS(member) FIELD(trace_process, member)
static const struct record_field process_start[] = {PROCESS(pid), PROCESS(ppid), PROCESS(start_ns)};
static const struct record_field process_end[] = {
	PROCESS(end),           PROCESS(end_ns),          PROCESS(exit_status),
	PROCESS(signal),        PROCESS(dropped),         PROCESS(dropped_from_ns),
	PROCESS(unknown_frees), PROCESS(inherited_frees), PROCESS(lost_stacks),
	PROCESS(reentrant),     PROCESS(peak_bytes),      PROCESS(peak_blocks),
	PROCESS(peak_time_ns),
};
static const struct record_field process_limit[] = {PROCESS(memory_limit_bytes),
						    PROCESS(limit_is_cgroup)};
static const struct record_field process_memory[] = {PROCESS(peak_rss_bytes),
						     PROCESS(peak_anonymous_bytes)};
static const struct record_field thread_fields[] = {FIELD(trace_thread, process),
						    FIELD(trace_thread, tid)};
#define ANONYMOUS(member) FIELD(trace_anonymous, member)
static const struct record_field anonymous_fields[] = {
	ANONYMOUS(process),         ANONYMOUS(time_ns),        ANONYMOUS(peak_bytes),
	ANONYMOUS(inherited_bytes), ANONYMOUS(recorded_bytes), ANONYMOUS(recorded_blocks),
};
#define PUT(b, record, fields) fields_put(b, record, fields, FIELD_COUNT(fields))
#define GET(c, record, fields) fields_get(c, record, fields, FIELD_COUNT(fields))

void definitions_put_meta(struct byte_buffer *b, const struct trace_meta *m)
{
	buffer_put_string(b, m->heft_version);
	buffer_put(b, zigzag(m->start_unix_ns));
	put_argv(b, m->argv, m->argc);
	PUT(b, m, meta_fields);
	PUT(b, m, meta_limit);
	PUT(b, m, meta_attached);
	PUT(b, m, meta_way);
}

static const char *get_meta(struct definitions *d, struct byte_cursor *c)
{
	struct trace_meta *m = &d->meta;
	m->heft_version = get_string(d, c);
	m->start_unix_ns = unzigzag(cursor_get(c));
	m->argv = get_argv(d, c, &m->argc);
	GET(c, m, meta_fields);
	if (cursor_left(c))
		GET(c, m, meta_limit);
	if (cursor_left(c))
		GET(c, m, meta_attached);
	if (cursor_left(c))
		GET(c, m, meta_way);
	/* More may follow: a later minor revision's. */
	if (d->no_memory)
		return "enough memory for its strings";
	if (c->bad)
		return "a complete description of the recording";
	if (m->tick_ns == 0 || (m->tick_ns & (m->tick_ns - 1)) || m->tick_ns > 1ull << 30)
		return "a tick that is a power of two and at most 2^30 ns";
	return NULL;
}

void definitions_put_module(struct byte_buffer *b, const struct trace_module *m)
{
	buffer_put(b, RECORD_MODULE);
	buffer_put_string(b, m->path);
	buffer_put_bytes(b, m->build_id, m->build_id_len);
}

static const char *get_module(struct definitions *d, struct byte_cursor *c)
{
	struct trace_module m;
	size_t n;
	m.path = get_string(d, c);
	const uint8_t *id = cursor_get_bytes(c, &n);
	uint8_t *copy = take_memory(d, n);
	if (copy)
		memcpy(copy, id, n);
	m.build_id = copy;
	m.build_id_len = (uint32_t)n;
	if (c->bad)
		return "a complete module";
	if (copy && RESERVE(d, modules, module, 1))
		d->modules[d->module_count++] = m;
	return NULL;
}

void definitions_add_nodes(struct definitions_run *run, uint32_t first,
			   const struct trace_node *nodes, size_t count)
{
	struct byte_buffer *b = &run->elements;
	if (!buffer_reserve(b, count * 4 * PREFIX_MAX))
		return;
	uint8_t *p = b->data + b->len;
	for (size_t i = 0; i < count; i++) {
		const struct trace_node *n = &nodes[i];
		uint32_t id = first + (uint32_t)i;
		uint64_t up = n->parent == TRACE_NONE ? 0 : id - n->parent;
		p = prefix_put_56(p, up << 1 | (n->flags != 0));
		p = prefix_put_56(p, put_id(n->module));
		p = prefix_put(p, zigzag((int64_t)(n->offset - run->base)));
		if (n->flags)
			p = prefix_put_56(p, n->flags);
		run->base = n->offset;
	}
	b->len = (size_t)(p - b->data);
	run->count += count;
}

static const char *get_nodes(struct definitions *d, uint64_t *base, struct byte_cursor *c)
{
	uint64_t count = cursor_get_max(c, cursor_left(c) / 3);
	if (count >= TRACE_NONE - (uint64_t)d->node_count)
		return "fewer nodes";
	if (!RESERVE(d, nodes, node, count))
		return NULL;
	for (uint64_t i = 0; i < count; i++) {
		struct trace_node *n = &d->nodes[d->node_count];
		uint64_t up = cursor_get(c);
		unsigned has_flags = up & 1;
		up >>= 1;
		if (up > d->node_count)
			return "a node under an earlier one";
		n->parent = up ? d->node_count - (uint32_t)up : TRACE_NONE;
		n->module = get_id(c, d->module_count);
		n->offset = *base += (uint64_t)unzigzag(cursor_get(c));
		n->flags = has_flags ? (uint32_t)cursor_get_max(c, UINT32_MAX) : 0;
		if (c->bad)
			return "a node in a module that has been defined";
		d->node_count++;
	}
	return c->bad ? "a number of nodes" : NULL;
}

void definitions_add_sites(struct definitions_run *run, const struct trace_site *sites,
			   size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t node = put_id(sites[i].node);
		buffer_put(&run->elements, zigzag((int64_t)(node - run->base)));
		buffer_put(&run->elements, sites[i].via);
		run->base = node;
	}
	run->count += count;
}

static void put_run(struct byte_buffer *b, enum record kind, struct definitions_run *run)
{
	struct byte_buffer *from = &run->elements;
	if (from->failed)
		b->failed = true;
	if (run->count && buffer_reserve(b, from->len + 2 * (size_t)PREFIX_MAX)) {
		buffer_put(b, kind);
		buffer_put(b, run->count);
		memcpy(b->data + b->len, from->data, from->len);
		b->len += from->len;
	}
	from->len = 0;
	run->count = run->base = 0;
}

void definitions_put_runs(struct byte_buffer *b, struct definitions_run *nodes,
			  struct definitions_run *sites)
{
	put_run(b, RECORD_NODES, nodes);
	put_run(b, RECORD_SITES, sites);
}

static const char *get_sites(struct definitions *d, uint64_t *base, struct byte_cursor *c)
{
	uint64_t count = cursor_get_max(c, cursor_left(c) / 2);
	if (count >= TRACE_NONE - (uint64_t)d->site_count)
		return "fewer sites";
	if (!RESERVE(d, sites, site, count))
		return NULL;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t node = *base + (uint64_t)unzigzag(cursor_get(c));
		uint32_t via = (uint32_t)cursor_get_max(c, TRACE_VIA_COUNT - 1);
		if (c->bad || node > d->node_count)
			return "a site at a node that has been defined";
		*base = node;
		d->sites[d->site_count++] = (struct trace_site){(uint32_t)node - 1, via};
	}
	return c->bad ? "a number of sites" : NULL;
}

static void put_end(struct byte_buffer *b, const struct trace_process *p)
{
	PUT(b, p, process_end);
	if (p->end == TRACE_END_OOM)
		PUT(b, p, process_limit);
}

static void get_end(struct byte_cursor *c, struct trace_process *p)
{
	GET(c, p, process_end);
	if (p->end == TRACE_END_OOM)
		GET(c, p, process_limit);
	c->bad |= p->end > TRACE_END_OOM;
}

void definitions_put_process(struct byte_buffer *b, const struct trace_process *p)
{
	buffer_put(b, RECORD_PROCESS);
	PUT(b, p, process_start);
	buffer_put_string(b, p->exe);
	put_argv(b, p->argv, p->argc);
	put_end(b, p);
}

static const char *get_process(struct definitions *d, struct byte_cursor *c)
{
	struct trace_process p = {0};
	GET(c, &p, process_start);
	p.exe = get_string(d, c);
	p.argv = get_argv(d, c, &p.argc);
	get_end(c, &p);
	if (c->bad)
		return "a complete process";
	if (!d->no_memory && RESERVE(d, processes, process, 1))
		d->processes[d->process_count++] = p;
	return NULL;
}

void definitions_put_process_end(struct byte_buffer *b, uint32_t process,
				 const struct trace_process *p)
{
	buffer_put(b, RECORD_PROCESS_END);
	buffer_put(b, process);
	put_end(b, p);
	if (!p->peak_rss_bytes && !p->peak_anonymous_bytes)
		return;
	buffer_put(b, RECORD_PROCESS_MEMORY);
	buffer_put(b, process);
	PUT(b, p, process_memory);
}

static const char *get_process_memory(struct definitions *d, struct byte_cursor *c)
{
	uint64_t process = cursor_get(c);
	if (process >= d->process_count)
		return "the memory of a process that has been defined";
	GET(c, &d->processes[process], process_memory);
	return c->bad ? "complete memory of a process" : NULL;
}

static const char *get_process_end(struct definitions *d, struct byte_cursor *c)
{
	uint64_t process = cursor_get(c);
	if (process >= d->process_count)
		return "the end of a process that has been defined";
	get_end(c, &d->processes[process]);
	return c->bad ? "a complete end of a process" : NULL;
}

void definitions_put_thread(struct byte_buffer *b, const struct trace_thread *t)
{
	buffer_put(b, RECORD_THREAD);
	PUT(b, t, thread_fields);
	buffer_put_string(b, t->name);
}

static const char *get_thread(struct definitions *d, struct byte_cursor *c)
{
	struct trace_thread t;
	GET(c, &t, thread_fields);
	t.name = get_string(d, c);
	if (c->bad || t.process >= d->process_count)
		return "a thread of a process that has been defined";
	if (RESERVE(d, threads, thread, 1))
		d->threads[d->thread_count++] = t;
	return NULL;
}

void definitions_put_thread_name(struct byte_buffer *b, uint32_t thread, const char *name)
{
	buffer_put(b, RECORD_THREAD_NAME);
	buffer_put(b, thread);
	buffer_put_string(b, name);
}

static const char *get_thread_name(struct definitions *d, struct byte_cursor *c)
{
	uint64_t thread = cursor_get(c);
	const char *name = get_string(d, c);
	if (c->bad || thread >= d->thread_count)
		return "the name of a thread that has been defined";
	d->threads[thread].name = name;
	return NULL;
}

void definitions_put_note(struct byte_buffer *b, const struct trace_note *n)
{
	buffer_put(b, RECORD_NOTE);
	buffer_put(b, n->kind);
	buffer_put(b, put_id(n->process));
	buffer_put(b, n->time_ns);
	buffer_put_string(b, n->text);
}

static const char *get_note(struct definitions *d, struct byte_cursor *c)
{
	struct trace_note n;
	n.kind = (uint32_t)cursor_get_max(c, TRACE_NOTE_INFO);
	n.process = get_id(c, d->process_count);
	n.time_ns = cursor_get(c);
	n.text = get_string(d, c);
	if (c->bad)
		return "a complete note";
	if (RESERVE(d, notes, note, 1))
		d->notes[d->note_count++] = n;
	return NULL;
}

static const char *get_records(struct definitions *d, struct byte_cursor *c)
{
	uint64_t node_base = 0, site_base = 0;
	const char *wrong = NULL;
	while (!wrong && cursor_left(c)) {
		switch (cursor_get(c)) {
		case RECORD_MODULE: wrong = get_module(d, c); break;
		case RECORD_NODES: wrong = get_nodes(d, &node_base, c); break;
		case RECORD_SITES: wrong = get_sites(d, &site_base, c); break;
		case RECORD_PROCESS: wrong = get_process(d, c); break;
		case RECORD_PROCESS_END: wrong = get_process_end(d, c); break;
		case RECORD_PROCESS_MEMORY: wrong = get_process_memory(d, c); break;
		case RECORD_THREAD: wrong = get_thread(d, c); break;
		case RECORD_THREAD_NAME: wrong = get_thread_name(d, c); break;
		case RECORD_NOTE: wrong = get_note(d, c); break;
		default: wrong = "a known kind of definition";
		}
		if (d->no_memory)
			wrong = "enough memory for its definitions";
	}
	return wrong ? wrong : c->bad ? "complete definitions" : NULL;
}

void definitions_put_rss(struct byte_buffer *b, const struct trace_rss *samples, size_t count)
{
	uint64_t time_ns = 0;
	for (size_t i = 0; i < count; i++) {
		buffer_put(b, samples[i].process);
		buffer_put(b, zigzag((int64_t)(samples[i].time_ns - time_ns)));
		buffer_put(b, samples[i].rss_bytes);
		time_ns = samples[i].time_ns;
	}
}

static const char *get_rss(struct definitions *d, struct byte_cursor *c, uint64_t count)
{
	uint64_t time_ns = 0;
	if (count > cursor_left(c) / 3)
		return "as many samples as the block says";
	if (!RESERVE(d, rss, rss, count))
		return "enough memory for its samples";
	for (uint64_t i = 0; i < count; i++) {
		struct trace_rss *s = &d->rss[d->rss_count];
		uint64_t process = cursor_get(c);
		time_ns += (uint64_t)unzigzag(cursor_get(c));
		s->time_ns = time_ns;
		s->process = (uint32_t)process;
		s->rss_bytes = cursor_get(c);
		if (c->bad || process >= d->process_count)
			return "a sample of a process that has been defined";
		d->rss_count++;
	}
	return c->at == c->end ? NULL : "as many samples as the block says";
}

void definitions_put_anonymous(struct byte_buffer *b, const struct trace_anonymous *a)
{
	PUT(b, a, anonymous_fields);
}

static const char *get_anonymous(struct definitions *d, struct byte_cursor *c, uint64_t count)
{
	if (count > cursor_left(c) / 6)
		return "as many samples as the block says";
	if (!RESERVE(d, anonymous, anonymous, count))
		return "enough memory for its samples";
	for (uint64_t i = 0; i < count; i++) {
		struct trace_anonymous *a = &d->anonymous[d->anonymous_count];
		GET(c, a, anonymous_fields);
		if (c->bad || a->process >= d->process_count)
			return "a sample of a process that has been defined";
		d->anonymous_count++;
	}
	return c->at == c->end ? NULL : "as many samples as the block says";
}

static const char *get_ledger(struct definitions *d, struct byte_cursor *c)
{
	uint32_t process;
	if (!RESERVE(d, ledgers, ledger, 1))
		return "enough memory for its ledgers";
	struct ledger *l = &d->ledgers[d->ledger_count++];
	memset(l, 0, sizeof *l);
	const char *wrong = ledger_block_get(l, &process, c);
	if (wrong)
		return wrong;
	if (process >= d->process_count)
		return "a ledger of a process that has been defined";
	l->pid = d->processes[process].pid;
	l->process = process;
	return NULL;
}

static const char *get_look(struct definitions *d, struct byte_cursor *c)
{
	if (!RESERVE(d, looks, look, 1))
		return "enough memory for a look at a heap";
	struct trace_look *l = &d->looks[d->look_count++];
	memset(l, 0, sizeof *l);
	const char *wrong = heap_block_get(&l->look, &l->process, d->site_count, c);
	if (wrong)
		return wrong;
	if (l->process >= d->process_count)
		return "a look at a process that has been defined";
	l->look.pid = d->processes[l->process].pid;
	return NULL;
}

void definitions_compare_with_peaks(struct definitions *d)
{
	for (size_t i = 0; i < d->ledger_count; i++) {
		struct ledger *l = &d->ledgers[i];
		/* In a damaged file nobody may have defined it. */
		uint64_t peak = l->process < d->process_count ? d->processes[l->process].peak_bytes
							      : 0;
		if (l->live_bytes && l->live_bytes <= peak)
			l->share_of_peak = (double)l->live_bytes / (double)peak;
	}
}

const char *definitions_get_block(struct definitions *d, unsigned type, uint64_t count,
				  struct byte_cursor *c)
{
	switch (type) {
	case TRACE_BLOCK_META: return get_meta(d, c);
	case TRACE_BLOCK_DEFINITIONS: return get_records(d, c);
	case TRACE_BLOCK_RSS: return get_rss(d, c, count);
	case TRACE_BLOCK_ANONYMOUS: return get_anonymous(d, c, count);
	case TRACE_BLOCK_LEDGER: return get_ledger(d, c);
	case TRACE_BLOCK_HEAP: return get_look(d, c);
	default: return NULL;
	}
}
