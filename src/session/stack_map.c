/* Stack nodes become sites (see stack_map.h). Everything that is read from the session
 * file is checked: a parent comes before its child, so chains end; lengths stay
 * inside the log. A node that is not there ends the recording of its process, and of
 * no other. */
#include "session/stack_map.h"

#include "hosted/vector.h"
#include "wire/via.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)WIRE_VIA_MALLOC == TRACE_VIA_MALLOC && (int)WIRE_VIA_COUNT == TRACE_VIA_COUNT &&
		       (int)WIRE_VIA_PVALLOC == TRACE_VIA_PVALLOC &&
		       (int)WIRE_VIA_NEW_ARRAY == TRACE_VIA_NEW_ARRAY &&
		       (int)WIRE_VIA_OWN == TRACE_VIA_OWN,
	       "the numbers of the recording are those of the wire");

/* Each thread writes one entry at a time, so no more can be unfinished. */
enum { UNFINISHED_MOST = WIRE_STREAMS };

void stack_map_fini(struct stack_map *m)
{
	for (uint32_t i = 0; i < m->module_count; i++) {
		free((void *)m->modules[i].path);
		free((void *)m->modules[i].build_id);
	}
	free(m->modules);
	free(m->nodes);
	free(m->sites);
	for (uint32_t i = 0; i < m->name_count; i++)
		free(m->names[i]);
	free(m->names);
	hash_index_fini(&m->node_ids);
	hash_index_fini(&m->site_ids);
}

void stack_map_write(struct stack_map *m, struct trace_writer *w)
{
	for (; m->written.modules < m->module_count; m->written.modules++)
		trace_writer_module(w, &m->modules[m->written.modules]);
	if (m->written.nodes < m->node_count)
		trace_writer_nodes(w, m->nodes + m->written.nodes,
				   m->node_count - m->written.nodes);
	if (m->written.sites < m->site_count)
		trace_writer_sites(w, m->sites + m->written.sites,
				   m->site_count - m->written.sites);
	m->written.nodes = m->node_count;
	m->written.sites = m->site_count;
}

void process_stacks_fini(struct process_stacks *p)
{
	free(p->node_of);
	free(p->site_of);
	free(p->modules);
	for (uint32_t i = 0; i < p->exec_count; i++)
		free(p->execs[i].path);
	free(p->execs);
	free(p->unfinished);
	free(p->name_of);
	memset(p, 0, sizeof *p);
}

/* ---- modules */

static int module_id(struct stack_map *m, const char *path, size_t path_bytes, const uint8_t *id,
		     uint32_t id_bytes, uint32_t *result)
{
	for (uint32_t i = 0; i < m->module_count; i++) {
		const struct trace_module *k = &m->modules[i];
		if (k->build_id_len == id_bytes && strlen(k->path) == path_bytes &&
		    !memcmp(k->path, path, path_bytes) &&
		    (!id_bytes || !memcmp(k->build_id, id, id_bytes))) {
			*result = i;
			return 0;
		}
	}
	if (!array_reserve(m->modules, m->module_count, m->module_capacity, 1))
		return HEFT_ENOMEM;
	char *p = strndup(path, path_bytes);
	uint8_t *b = malloc(id_bytes + 1);
	if (!p || !b) {
		free(p);
		free(b);
		return HEFT_ENOMEM;
	}
	memcpy(b, id, id_bytes);
	m->modules[m->module_count] = (struct trace_module){p, b, id_bytes};
	*result = m->module_count++;
	return 0;
}

/* Names are few: a search is enough. */
static int take_name(struct stack_map *m, struct process_stacks *p, uint64_t number,
		     const char *text, size_t length)
{
	char name[TRACE_REMARK_NAME_BYTES + 1] = {0};
	uint32_t i = 0;
	if (!number || number > WIRE_NAMES || length > TRACE_REMARK_NAME_BYTES)
		return HEFT_EFORMAT;
	memcpy(name, text, length);
	while (i < m->name_count && strcmp(m->names[i], name) != 0)
		i++;
	if (!p->name_of && !(p->name_of = calloc(WIRE_NAMES, sizeof *p->name_of)))
		return HEFT_ENOMEM;
	if (i == TRACE_REMARK_NAMES)
		return 0;
	if (i == m->name_count) {
		if (!array_reserve(m->names, m->name_count, m->name_capacity, 1) ||
		    !(m->names[i] = strdup(name)))
			return HEFT_ENOMEM;
		m->name_count++;
	}
	p->name_of[number - 1] = i + 1;
	return 0;
}

/* Takes the entry at `at`, which is finished and has so many bytes. */
static int take_entry(struct stack_map *m, struct process_stacks *p, uint32_t at, uint32_t bytes)
{
	const struct wire_module *e = (const struct wire_module *)(p->session->log + at);
	struct wire_module w;
	memcpy(&w, e, sizeof w); /* once: it may change under us */
	if (sizeof w + w.path_bytes + (size_t)w.build_id_bytes > bytes || w.build_id_bytes > 64)
		return HEFT_EFORMAT;
	const char *text = (const char *)(e + 1);
	if (w.kind == WIRE_LOG_MODULE) {
		struct process_module pm = {w.start, w.end, w.bias, w.first_node, 0};
		char path[UINT16_MAX + 1];
		uint8_t id[64];
		memcpy(path, text, w.path_bytes);
		path[w.path_bytes] = 0;
		memcpy(id, text + w.path_bytes, w.build_id_bytes);
		int rc = module_id(m, path, strlen(path), id, w.build_id_bytes, &pm.module);
		if (rc)
			return rc;
		if (!array_reserve(p->modules, p->module_count, p->module_capacity, 1))
			return HEFT_ENOMEM;
		p->modules[p->module_count++] = pm;
		return 0;
	}
	if (w.kind == WIRE_LOG_NAME)
		return take_name(m, p, w.start, text, w.path_bytes);
	if (w.kind != WIRE_LOG_EXEC && w.kind != WIRE_LOG_EXEC_FAILED)
		return HEFT_EFORMAT;
	if (!array_reserve(p->execs, p->exec_count, p->exec_capacity, 1))
		return HEFT_ENOMEM;
	char *path = strndup(text, w.path_bytes);
	if (!path)
		return HEFT_ENOMEM;
	p->execs[p->exec_count++] = (struct exec_note){(int32_t)w.start, w.end, path,
						       w.kind == WIRE_LOG_EXEC_FAILED};
	return 0;
}

static uint32_t entry_bytes(const struct process_stacks *p, uint32_t at)
{
	struct wire_module *e = (struct wire_module *)(p->session->log + at);
	return atomic_load_explicit(&e->bytes, memory_order_acquire);
}

/* The length of an entry, or 0 if it cannot be one. */
static uint32_t entry_length(uint32_t at, uint32_t bytes)
{
	bytes &= ~WIRE_LOG_UNFINISHED;
	return bytes > WIRE_LOG_BYTES - at || bytes & 7 ? 0 : bytes;
}

/* Takes the entries that were still being written when the log was read. */
static int read_unfinished(struct stack_map *m, struct process_stacks *p)
{
	uint32_t left = 0;
	int rc = 0;
	for (uint32_t i = 0; i < p->unfinished_count; i++) {
		uint32_t at = p->unfinished[i], bytes = entry_bytes(p, at);
		if (bytes & WIRE_LOG_UNFINISHED)
			p->unfinished[left++] = at;
		else if (!rc)
			rc = entry_length(at, bytes) ? take_entry(m, p, at, bytes) : HEFT_EFORMAT;
	}
	p->unfinished_count = left;
	return rc;
}

int process_stacks_read_log(struct stack_map *m, struct process_stacks *p)
{
	int rc = read_unfinished(m, p);
	while (!rc && WIRE_LOG_BYTES - p->log_read >= sizeof(struct wire_module)) {
		uint32_t at = p->log_read, bytes = entry_bytes(p, at),
			 length = entry_length(at, bytes);
		if (!bytes)
			break;
		if (!length)
			return HEFT_EFORMAT;
		p->log_read += length;
		if (!(bytes & WIRE_LOG_UNFINISHED))
			rc = take_entry(m, p, at, bytes);
		else if (p->unfinished_count == UNFINISHED_MOST)
			rc = HEFT_EFORMAT;
		else if (!array_reserve(p->unfinished, p->unfinished_count, p->unfinished_capacity,
					1))
			rc = HEFT_ENOMEM;
		else
			p->unfinished[p->unfinished_count++] = at;
	}
	return rc;
}

/* ---- nodes and sites */

static int add_node(struct stack_map *m, const struct trace_node *n, uint32_t *id)
{
	uint64_t key = hash_mix(hash_mix(hash_mix(0, n->parent), n->offset),
				(uint64_t)n->module << 8 | n->flags);
	uint32_t hash = hash_number(key);
	for (uint32_t at = hash, i; (i = hash_index_step(&m->node_ids, hash, &at)) != HASH_NONE;) {
		const struct trace_node *k = &m->nodes[i];
		if (k->parent == n->parent && k->offset == n->offset && k->module == n->module &&
		    k->flags == n->flags) {
			*id = i;
			return 0;
		}
	}
	if (!array_reserve(m->nodes, m->node_count, m->node_capacity, 1) ||
	    hash_index_add(&m->node_ids, hash, m->node_count))
		return HEFT_ENOMEM;
	m->nodes[m->node_count] = *n;
	*id = m->node_count++;
	return 0;
}

static int add_site(struct stack_map *m, const struct trace_site *s, uint32_t *id)
{
	uint32_t hash = hash_pair(s->node, s->via);
	for (uint32_t at = hash, i; (i = hash_index_step(&m->site_ids, hash, &at)) != HASH_NONE;)
		if (m->sites[i].node == s->node && m->sites[i].via == s->via) {
			*id = i;
			return 0;
		}
	if (!array_reserve(m->sites, m->site_count, m->site_capacity, 1) ||
	    hash_index_add(&m->site_ids, hash, m->site_count))
		return HEFT_ENOMEM;
	m->sites[m->site_count] = *s;
	*id = m->site_count++;
	return 0;
}

int stack_map_named_site(struct stack_map *m, const char *name, uint32_t *site)
{
	struct trace_node node = {.parent = TRACE_NONE};
	struct trace_site s = {.via = TRACE_VIA_MALLOC};
	int rc = module_id(m, name, strlen(name), (const uint8_t *)"", 0, &node.module);
	if (!rc)
		rc = add_node(m, &node, &s.node);
	return rc ? rc : add_site(m, &s, site);
}

static int grow_known(struct process_stacks *p, uint32_t id)
{
	uint32_t n = p->known ? p->known : 1024;
	while (n <= id)
		n *= 2;
	if (n > WIRE_NODES)
		n = WIRE_NODES;
	if (n == p->known)
		return 0;
	uint32_t *nodes = realloc(p->node_of, n * sizeof *nodes);
	if (nodes)
		p->node_of = nodes;
	uint32_t *sites = realloc(p->site_of, n * sizeof *sites);
	if (sites)
		p->site_of = sites;
	if (!nodes || !sites)
		return HEFT_ENOMEM;
	memset(nodes + p->known, 0, (n - p->known) * sizeof *nodes);
	memset(sites + p->known, 0, (n - p->known) * sizeof *sites);
	p->known = n;
	return 0;
}

static uint32_t convert_flags(uint64_t wire)
{
	uint64_t f = wire >> WIRE_FLAG_SHIFT;
	return (f & WIRE_NODE_GUESS ? TRACE_FRAME_GUESS : 0u) |
	       (f & WIRE_NODE_TRUNCATED ? TRACE_FRAME_TRUNCATED : 0u) |
	       (f & WIRE_NODE_EXACT ? TRACE_FRAME_EXACT_PC : 0u);
}

static struct trace_node locate(const struct process_stacks *p, uint64_t pc_flags, uint32_t id)
{
	uint64_t pc = pc_flags & WIRE_PC_MASK;
	uint64_t code = pc_flags >> WIRE_FLAG_SHIFT & WIRE_NODE_EXACT ? pc : pc - 1;
	for (uint32_t i = p->module_count; i-- > 0;) {
		const struct process_module *m = &p->modules[i];
		if (m->first_node <= id && code >= m->start && code < m->end)
			return (struct trace_node){.module = m->module, .offset = pc - m->bias};
	}
	return (struct trace_node){.module = TRACE_NONE, .offset = pc};
}

/* Reads node `id` of the session; HEFT_EFORMAT: there is none. */
static int read_node(const struct process_stacks *p, uint32_t id, uint64_t *pc_flags,
		     uint32_t *parent)
{
	struct wire_node *n = &p->session->nodes[id];
	*pc_flags = atomic_load_explicit(&n->pc_flags, memory_order_acquire);
	*parent = n->parent;
	if (!(*pc_flags >> WIRE_FLAG_SHIFT & WIRE_NODE_PRESENT) || n->check != ~*parent ||
	    *parent >= id)
		return HEFT_EFORMAT;
	return 0;
}

/* The recording's node for process node `id`; root (0) gives TRACE_NONE. */
static int resolve_node(struct stack_map *m, struct process_stacks *p, uint32_t id,
			uint32_t *result)
{
	/* Walks up to the first known ancestor, then down again and adds nodes. It remembers the last STACK
	 * nodes of the way up, which are the first ones of the way down. A longer way is walked several
	 * times, so that no memory is needed. */
	enum { STACK = 512 };
	uint32_t todo[STACK], n = 0, at = id;
	uint64_t pc_flags;
	uint32_t parent;
	for (;;) {
		while (at && !(p->node_of[at])) {
			if (read_node(p, at, &pc_flags, &parent))
				return HEFT_EFORMAT;
			todo[n++ % STACK] = at;
			at = parent;
		}
		uint32_t have = n < STACK ? n : STACK;
		for (uint32_t i = 0; i < have; i++) {
			uint32_t here = todo[(n - 1 - i) % STACK];
			if (read_node(p, here, &pc_flags, &parent))
				return HEFT_EFORMAT;
			if (pc_flags >> WIRE_FLAG_SHIFT & WIRE_NODE_VIA)
				return HEFT_EFORMAT;
			struct trace_node node = locate(p, pc_flags, here);
			node.parent = parent ? p->node_of[parent] - 1 : TRACE_NONE;
			node.flags = convert_flags(pc_flags);
			uint32_t global;
			int rc = add_node(m, &node, &global);
			if (rc)
				return rc;
			p->node_of[here] = global + 1;
		}
		if (!id || p->node_of[id])
			break;
		n = 0;
		at = id;
	}
	*result = id ? p->node_of[id] - 1 : TRACE_NONE;
	return 0;
}

int stack_map_site_slow(struct stack_map *m, struct process_stacks *p, uint32_t id, uint32_t *site)
{
	if (id >= WIRE_NODES || (id >= p->known && grow_known(p, id)))
		return HEFT_EFORMAT;
	if (p->site_of[id]) {
		*site = p->site_of[id] - 1;
		return 0;
	}
	/* The thread that made the node had seen the entry of its module finished. */
	int rc = process_stacks_read_log(m, p);
	if (rc)
		return rc;
	struct trace_site s = {TRACE_NONE, TRACE_VIA_MALLOC};
	uint64_t pc_flags = 0;
	uint32_t parent = 0;
	if (id && read_node(p, id, &pc_flags, &parent))
		return HEFT_EFORMAT;
	if (pc_flags >> WIRE_FLAG_SHIFT & WIRE_NODE_VIA) {
		uint64_t via = pc_flags & WIRE_PC_MASK;
		if (via >= TRACE_VIA_COUNT)
			return HEFT_EFORMAT;
		s.via = (uint32_t)via;
		rc = resolve_node(m, p, parent, &s.node);
	} else {
		/* The table was full: an ancestor stands for the stack that could not be stored. */
		struct trace_node lost = {.module = TRACE_NONE, .flags = TRACE_FRAME_LOST};
		rc = resolve_node(m, p, id, &lost.parent);
		if (!rc)
			rc = add_node(m, &lost, &s.node);
	}
	if (!rc)
		rc = add_site(m, &s, site);
	if (!rc)
		p->site_of[id] = *site + 1;
	return rc;
}
