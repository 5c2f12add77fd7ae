/* The module log: it says which object a pc belongs to. An object is logged when a
 * stack node with a pc in it is created, so symbols never depend on /proc of a process
 * that may be gone. _dl_find_object takes no lock, so this is safe inside malloc,
 * inside dlopen, and in signal handlers.
 *
 * An entry holds for nodes from its `first_node` on: a library that is loaded later at
 * the same address has a later entry. An object with gaps between its segments has
 * an entry for each segment that a pc was seen in: other objects may lie in the gaps. */
#include "capture/object.h"
#include "capture/redirect.h"
#include "capture/settings.h"

#include <link.h>
#include <string.h>

static struct heft_module *find(struct heft_process *p, uint64_t pc, uint32_t generation)
{
	uint32_t n = atomic_load_explicit(&p->module_count, memory_order_acquire);
	if (n > HEFT_MODULES)
		n = HEFT_MODULES;
	static _Atomic uint32_t last; /* most stacks stay in one object for a while */
	uint32_t guess = atomic_load_explicit(&last, memory_order_relaxed);
	if (guess < n && atomic_load_explicit(&p->modules[guess].ready, memory_order_acquire) &&
	    pc - p->modules[guess].start < p->modules[guess].end - p->modules[guess].start &&
	    p->modules[guess].generation == generation)
		return &p->modules[guess];
	for (uint32_t i = n; i-- > 0;) {
		struct heft_module *m = &p->modules[i];
		if (atomic_load_explicit(&m->ready, memory_order_acquire) &&
		    pc - m->start < m->end - m->start) {
			atomic_store_explicit(&last, i, memory_order_relaxed);
			return m;
		}
	}
	return NULL;
}

struct wire_module *heft_log_begin(struct wire_session *s, uint32_t bytes)
{
	struct wire_header *h = s->header;
	uint32_t at = atomic_load(&h->log_used);
	while (at <= WIRE_LOG_BYTES && bytes <= WIRE_LOG_BYTES - at && !(at & 7) &&
	       !sys_populate(s->log + at, bytes)) {
		struct wire_module *w = (struct wire_module *)(s->log + at);
		uint32_t there = 0;
		if (atomic_compare_exchange_strong(&w->bytes, &there,
						   bytes | WIRE_LOG_UNFINISHED)) {
			atomic_compare_exchange_strong(&h->log_used, &at, at + bytes);
			return w;
		}
		/* Another thread's entry is there: move the hint past it. */
		uint32_t next = at + (there & ~7u);
		if (next == at)
			break; /* somebody wrote over our pages */
		if (atomic_compare_exchange_strong(&h->log_used, &at, next))
			at = next;
	}
	return NULL;
}

void heft_log_end(struct wire_module *w)
{
	uint32_t bytes = atomic_load_explicit(&w->bytes, memory_order_relaxed);
	atomic_store_explicit(&w->bytes, bytes & ~WIRE_LOG_UNFINISHED, memory_order_release);
}

void heft_module_announce(uint64_t pc, char *work)
{
	struct heft_process *p = heft_process;
	uint32_t generation = atomic_load_explicit(&heft_generation, memory_order_relaxed);
	/* Within a generation nothing is unloaded: what was known still holds. */
	struct heft_module *m = find(p, pc, generation);
	if (LIKELY(m && m->generation == generation))
		return;
	struct heft_object o;
	if (heft_object_at(pc, &o) || !o.map)
		return; /* code of no object: JIT; or our own, which a handler interrupted */
	heft_redirect_late(&o, work);
	uintptr_t start = o.start, end = o.end;

	/* The program gave this path to dlopen: it starts at the current directory. */
	static const char empty[1];
	const char *path = o.map->l_name ? o.map->l_name : empty;
	char *cwd = work;
	size_t cwd_bytes = 0;
	if (!path[0])
		path = heft_settings.exe;
	else if (path[0] != '/' && strchr(path, '/') && cwd) {
		long n = sys_getcwd(cwd, HEFT_WORK_BYTES - 1);
		if (n > 1) {
			cwd_bytes = (size_t)n;
			cwd[n - 1] = '/';
		}
	}
	size_t path_bytes = strnlen(path, 4096);
	uint32_t id_bytes = 0;
	const uint8_t *id = heft_object_build_id(&o, &id_bytes);
	/* After a dlclose most objects are what they were: compare before logging it again. */
	uint64_t identity = heft_mix(o.map->l_addr, end);
	for (size_t i = 0; i < path_bytes; i++)
		identity = heft_mix(identity, (uint8_t)path[i]);
	for (uint32_t i = 0; i < id_bytes; i++)
		identity = heft_mix(identity, id[i]);
	if (m && m->identity == identity && m->start == start && m->end == end) {
		m->map = o.map;
		m->generation = generation;
		return;
	}
	uint32_t bytes = (uint32_t)((sizeof(struct wire_module) + cwd_bytes + path_bytes +
				     id_bytes + 7) &
				    ~7ul);
	struct wire_module *w = heft_log_begin(&p->session, bytes);
	if (w) {
		w->kind = WIRE_LOG_MODULE;
		w->first_node = atomic_load(&p->session.header->node_count);
		w->start = start;
		w->end = end;
		w->bias = o.map->l_addr;
		w->path_bytes = (uint16_t)(cwd_bytes + path_bytes);
		w->build_id_bytes = (uint16_t)id_bytes;
		if (cwd_bytes)
			memcpy(w->data, cwd, cwd_bytes);
		memcpy(w->data + cwd_bytes, path, path_bytes);
		if (id_bytes)
			memcpy(w->data + cwd_bytes + path_bytes, id, id_bytes);
		heft_log_end(w);
	}
	/* Never over an older entry: a reader could see half of each, which together would cover what lies
	 * between, and that would never be announced. */
	if (atomic_load_explicit(&p->module_count, memory_order_relaxed) >= HEFT_MODULES)
		return;
	uint32_t slot = atomic_fetch_add(&p->module_count, 1);
	if (slot < HEFT_MODULES) {
		struct heft_module *place = &p->modules[slot];
		place->start = start;
		place->end = end;
		place->map = o.map;
		place->identity = identity;
		place->generation = generation;
		atomic_store_explicit(&place->ready, 1, memory_order_release);
	}
}
