/* Building and freeing the model (profile.h says what it is).
 *
 * Hash tables that hold only indices find frames, nodes and sites again. Two stacks
 * that read the same find the same node: that merges them. Frames compare strings by
 * pointer, because every string is in the pool.
 *
 * Invariant: a node's parent is a smaller index, so one pass from 0 up sees
 * every caller before its callees. */
#include "profile/profile.h"

#include "hosted/compare.h"
#include "hosted/hash_index.h"
#include "hosted/ledger.h"
#include "hosted/vector.h"
#include "profile/user_frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct profile_index {
	struct hash_index modules, frames, nodes, sites, label_sets;
	uint32_t module_capacity, frame_capacity, node_capacity, site_capacity;
	uint32_t thread_capacity, process_capacity, note_capacity, label_set_capacity;
	uint32_t call_capacity;
};

struct profile *profile_new(void)
{
	struct profile *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->run.format = "heft";
	p->run.has = PROFILE_HAS_ALL;
	p->names = name_pool_new();
	p->index = calloc(1, sizeof *p->index);
	if (!p->names || !p->index) {
		profile_free(p);
		return NULL;
	}
	p->run.complete = true;
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;
	if (p->index) {
		hash_index_fini(&p->index->modules);
		hash_index_fini(&p->index->frames);
		hash_index_fini(&p->index->nodes);
		hash_index_fini(&p->index->sites);
		hash_index_fini(&p->index->label_sets);
		free(p->index);
	}
	if (!p->stacks.lender) {
		free(p->stacks.modules);
		free(p->stacks.frames);
		free(p->stacks.nodes);
	}
	free(p->stacks.calls);
	free(p->recorded.nodes);
	free(p->recorded.sites);
	free(p->run.rss);
	free(p->sites);
	free(p->label_sets);
	free(p->threads);
	free(p->processes);
	free(p->notes);
	profile_remarks_fini(&p->remarks);
	for (uint32_t i = 0; i < p->ledger_count; i++)
		ledger_fini(&p->ledgers[i]);
	free(p->ledgers);
	free(p->behaviour.lifetimes);
	free(p->estimates.errors);
	free(p->estimates.spreads);
	free(p->estimates.live_births.list);
	free(p->estimates.peak_births.list);
	free(p->estimates.ages);
	free(p->behaviour.handovers);
	free(p->behaviour.handover_threads);
	free(p->behaviour.waits);
	free(p->behaviour.wait_threads);
	free(p->behaviour.releases);
	free(p->behaviour.growths);
	for (uint32_t i = 0; i < p->behaviour.history.row_count; i++) {
		free(p->behaviour.history.rows[i].bytes);
		free(p->behaviour.history.rows[i].blocks);
	}
	free(p->behaviour.history.rows);
	free(p->behaviour.history.bytes);
	free(p->behaviour.history.blocks);
	free(p->behaviour.history.events);
	free(p->behaviour.sizes);
	free(p->behaviour.firsts);
	for (uint32_t i = 0; i < p->judged_count; i++)
		profile_free(p->judged[i].p);
	free(p->judged);
	name_pool_free(p->names);
	free(p);
}

/* RESERVE(p, p, sites, site): whether there is space for one more in a list of the profile or its part. */
#define RESERVE(p, part, array, name)                                                              \
	array_reserve((part)->array, (part)->name##_count, (p)->index->name##_capacity, 1)

static uint32_t mix(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	return hash_number(hash_mix(hash_mix(hash_mix(0, a), b), c) ^ d);
}

static uint32_t hash_frame(const struct profile_frame *f)
{
	return mix((uintptr_t)f->function, (uintptr_t)f->file, f->line, f->module);
}

/* The same for a profile that keeps frames of different addresses apart. */
static uint32_t hash_apart_frame(const struct profile_frame *f)
{
	return mix(hash_frame(f), f->address, f->inlined, 4);
}

static uint32_t hash_node(const struct profile_node *n)
{
	return mix(n->parent, n->frame, n->flags & PROFILE_LOST, 1);
}

static uint32_t hash_site(const struct profile_site *s)
{
	return mix(s->node, s->via, s->labels, 2);
}

/* A module is found by its path alone, if it is the first of that path, and by path and build id. */
static uint32_t hash_module(const char *path, const uint8_t *build_id, uint32_t length)
{
	return mix((uintptr_t)path, length ? hash_bytes(build_id, length) : 0, length, 3);
}

bool profile_find_module(const struct profile *p, const char *path, const uint8_t *build_id,
			 uint32_t length, uint32_t *id)
{
	uint32_t hash = hash_module(path, build_id, length), at = hash;
	while ((*id = hash_index_step(&p->index->modules, hash, &at)) != HASH_NONE) {
		const struct profile_module *m = &p->stacks.modules[*id];
		if (m->path == path && (!length || (m->build_id_len == length &&
						    !memcmp(m->build_id, build_id, length))))
			return true;
	}
	*id = PROFILE_NONE;
	return false;
}

int profile_add_module(struct profile *p, const char *path, const uint8_t *build_id,
		       uint32_t length, uint32_t *id)
{
	if (!RESERVE(p, &p->stacks, modules, module))
		return HEFT_ENOMEM;
	struct profile_module *m = &p->stacks.modules[p->stacks.module_count];
	memset(m, 0, sizeof *m);
	m->path = name_pool_add(p->names, path ? path : "");
	if (!m->path)
		return HEFT_ENOMEM;
	if (length) {
		uint8_t *copy = name_pool_alloc(p->names, length);
		if (!copy)
			return HEFT_ENOMEM;
		memcpy(copy, build_id, length);
		m->build_id = copy;
		m->build_id_len = length;
	}
	m->runtime = user_frame_module_is_runtime(m->path);
	uint32_t first, number = p->stacks.module_count, hash = hash_module(m->path, NULL, 0);
	if ((!profile_find_module(p, m->path, NULL, 0, &first) &&
	     hash_index_add(&p->index->modules, hash, number) < 0) ||
	    (length && !profile_find_module(p, m->path, m->build_id, length, &first) &&
	     hash_index_add(&p->index->modules, hash_module(m->path, m->build_id, length), number) <
		     0))
		return HEFT_ENOMEM;
	*id = p->stacks.module_count++;
	return 0;
}

int profile_add_frame(struct profile *p, const struct profile_frame *frame, uint32_t *id)
{
	struct hash_index *t = &p->index->frames;
	uint32_t hash = p->chosen.apart ? hash_apart_frame(frame) : hash_frame(frame), at = hash;
	while ((*id = hash_index_step(t, hash, &at)) != HASH_NONE) {
		const struct profile_frame *f = &p->stacks.frames[*id];
		if (f->function == frame->function && f->file == frame->file &&
		    f->line == frame->line && f->module == frame->module &&
		    (!p->chosen.apart ||
		     (f->address == frame->address && f->inlined == frame->inlined)))
			return 0;
	}
	if (!RESERVE(p, &p->stacks, frames, frame) ||
	    hash_index_add_at(t, hash, at, p->stacks.frame_count) < 0)
		return HEFT_ENOMEM;
	struct profile_frame *f = &p->stacks.frames[p->stacks.frame_count];
	*f = *frame;
	user_frame_decide(f, f->module != PROFILE_NONE && p->stacks.modules[f->module].runtime);
	*id = p->stacks.frame_count++;
	return 0;
}

int profile_add_node(struct profile *p, uint32_t parent, uint32_t frame, uint32_t flags,
		     uint32_t *id)
{
	struct hash_index *t = &p->index->nodes;
	struct profile_node key = {.parent = parent, .frame = frame, .flags = flags};
	uint32_t hash = hash_node(&key), at = hash;
	while ((*id = hash_index_step(t, hash, &at)) != HASH_NONE) {
		struct profile_node *n = &p->stacks.nodes[*id];
		if (n->parent == parent && n->frame == frame &&
		    !((n->flags ^ flags) & PROFILE_LOST)) {
			n->flags |= flags;
			return 0;
		}
	}
	if (!RESERVE(p, &p->stacks, nodes, node) ||
	    hash_index_add_at(t, hash, at, p->stacks.node_count) < 0)
		return HEFT_ENOMEM;
	p->stacks.nodes[p->stacks.node_count] = key;
	*id = p->stacks.node_count++;
	return 0;
}

int profile_add_call(struct profile *p, uint32_t caller, uint32_t node, uint64_t address,
		     uint32_t *id)
{
	*id = PROFILE_NONE;
	if (!p->chosen.keep_calls)
		return 0;
	if (!RESERVE(p, &p->stacks, calls, call))
		return HEFT_ENOMEM;
	p->stacks.calls[p->stacks.call_count] = (struct profile_call){caller, node, address};
	*id = p->stacks.call_count++;
	return 0;
}

void profile_forget_nodes(struct profile *p, uint32_t first)
{
	if (first >= p->stacks.node_count)
		return;
	p->stacks.node_count = first;
	hash_index_clear(&p->index->nodes);
	for (uint32_t i = 0; i < first; i++) /* there is memory for more than these */
		hash_index_add(&p->index->nodes, hash_node(&p->stacks.nodes[i]), i);
}

int profile_expect_nodes(struct profile *p, uint32_t count)
{
	return array_reserve(p->stacks.nodes, p->stacks.node_count, p->index->node_capacity, count)
		       ? hash_index_reserve(&p->index->nodes, count)
		       : HEFT_ENOMEM;
}

int profile_add_site(struct profile *p, uint32_t node, uint32_t via, uint32_t *id)
{
	return profile_add_labelled_site(p, node, via, PROFILE_NONE, id);
}

int profile_add_labelled_site(struct profile *p, uint32_t node, uint32_t via, uint32_t labels,
			      uint32_t *id)
{
	struct hash_index *t = &p->index->sites;
	struct profile_site key = {
		.added = p->site_count,
		.node = node,
		.via = via,
		.labels = labels,
		.handover = PROFILE_NONE,
		.waits = PROFILE_NONE,
		.growth = PROFILE_NONE,
		.history = PROFILE_NONE,
		.call = PROFILE_NONE,
	};
	uint32_t hash = hash_site(&key), at = hash;
	while ((*id = hash_index_step(t, hash, &at)) != HASH_NONE) {
		const struct profile_site *s = &p->sites[*id];
		if (s->node == node && s->via == via && s->labels == labels)
			return 0;
	}
	if (!RESERVE(p, p, sites, site) || hash_index_add_at(t, hash, at, p->site_count) < 0)
		return HEFT_ENOMEM;
	p->sites[p->site_count] = key;
	*id = p->site_count++;
	return 0;
}

static int compare_labels(const void *a, const void *b)
{
	const struct profile_label *x = a, *y = b;
	return strcmp(x->key, y->key)
		       ?: strcmp(x->text ? x->text : "", y->text ? y->text : "")
		       ?: (x->number > y->number) - (x->number < y->number)
		       ?: strcmp(x->unit ? x->unit : "", y->unit ? y->unit : "");
}

/* Writes the set once for people and once with every part delimited by its length. */
static int name_label_set(struct profile *p, struct profile_label_set *set,
			  const struct profile_label *labels, uint32_t count)
{
	char *words = NULL, *identity = NULL;
	size_t words_length = 0, identity_length = 0;
	FILE *w = open_memstream(&words, &words_length);
	FILE *i = open_memstream(&identity, &identity_length);
	int rc = w && i ? 0 : HEFT_ENOMEM;
	for (uint32_t k = 0; k < count && rc == 0; k++) {
		const struct profile_label *l = &labels[k];
		const char *value = l->text ? l->text : l->unit ? l->unit : "";
		fprintf(i, "%zu:%s%c%zu:%s%lld;", strlen(l->key), l->key, l->text ? 't' : 'n',
			strlen(value), value, l->text ? 0ll : (long long)l->number);
		fprintf(w, "%s%s=", k ? ", " : "", l->key);
		if (l->text)
			fputs(l->text, w);
		else
			fprintf(w, "%lld%s%s", (long long)l->number, *value ? " " : "", value);
	}
	if (w && fclose(w))
		rc = HEFT_ENOMEM;
	if (i && fclose(i))
		rc = HEFT_ENOMEM;
	if (rc == 0) {
		set->words = name_pool_add_n(p->names, words, words_length);
		set->identity = name_pool_add_n(p->names, identity, identity_length);
		rc = set->words && set->identity ? 0 : HEFT_ENOMEM;
	}
	free(words);
	free(identity);
	return rc;
}

const struct profile_label *profile_find_label(const struct profile_label_set *set, const char *key)
{
	for (uint32_t i = 0; i < set->count; i++)
		if (strcmp(set->labels[i].key, key) == 0)
			return &set->labels[i];
	return NULL;
}

int profile_add_label_set(struct profile *p, struct profile_label *labels, uint32_t count,
			  uint32_t *id)
{
	struct hash_index *t = &p->index->label_sets;
	struct profile_label_set set = {.count = count};
	qsort(labels, count, sizeof *labels, compare_labels);
	if (name_label_set(p, &set, labels, count) < 0)
		return HEFT_ENOMEM;
	uint32_t hash = hash_pointer(set.identity), at = hash;
	while ((*id = hash_index_step(t, hash, &at)) != HASH_NONE)
		if (p->label_sets[*id].identity == set.identity)
			return 0;
	struct profile_label *copy = name_pool_alloc(p->names, count * sizeof *copy);
	if (!copy || !RESERVE(p, p, label_sets, label_set) ||
	    hash_index_add_at(t, hash, at, p->label_set_count) < 0)
		return HEFT_ENOMEM;
	memcpy(copy, labels, count * sizeof *copy);
	set.labels = copy;
	p->label_sets[p->label_set_count] = set;
	*id = p->label_set_count++;
	return 0;
}

int profile_add_process(struct profile *p, const struct profile_process *process, uint32_t *id)
{
	if (!RESERVE(p, p, processes, process))
		return HEFT_ENOMEM;
	p->processes[p->process_count] = *process;
	*id = p->process_count++;
	return 0;
}

int profile_add_thread(struct profile *p, const struct profile_thread *thread)
{
	if (!RESERVE(p, p, threads, thread))
		return HEFT_ENOMEM;
	p->threads[p->thread_count++] = *thread;
	return 0;
}

int profile_add_note(struct profile *p, enum profile_note_kind kind, uint64_t time_ns,
		     const char *fmt, ...)
{
	char text[2048];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (!RESERVE(p, p, notes, note))
		return HEFT_ENOMEM;
	const char *kept = name_pool_add(p->names, text);
	if (!kept)
		return HEFT_ENOMEM;
	p->notes[p->note_count++] = (struct profile_note){
		.kind = kind, .time_ns = time_ns, .text = kept, .count = 1};
	return 0;
}

const char **profile_copy_strings(struct profile *p, char *const *strings, uint32_t count)
{
	const char **copy = name_pool_alloc(p->names, ((size_t)count + 1) * sizeof *copy);
	for (uint32_t i = 0; copy && i < count; i++) {
		copy[i] = name_pool_add(p->names, strings[i] ? strings[i] : "");
		if (!copy[i])
			return NULL;
	}
	return copy;
}

/* Equal sites keep the order of the recording, so that reports repeat. */
static int by_peak(const void *a, const void *b)
{
	const struct profile_site *x = a, *y = b;
	return compare_numbers(y->peak_bytes, x->peak_bytes)
		       ?: compare_numbers(y->own_peak_bytes, x->own_peak_bytes)
		       ?: compare_numbers(y->allocated_bytes, x->allocated_bytes)
		       ?: compare_numbers(y->allocations, x->allocations)
		       ?: compare_numbers(x->node, y->node) ?: compare_numbers(x->via, y->via)
		       ?: compare_numbers(x->labels, y->labels);
}

static int by_live(const void *a, const void *b)
{
	const struct profile_site *x = a, *y = b;
	return compare_numbers(y->live_bytes, x->live_bytes) ?: by_peak(a, b);
}

void profile_finish_sites(struct profile *p)
{
	if (p->site_count)
		qsort(p->sites, p->site_count, sizeof *p->sites,
		      p->run.has & PROFILE_HAS_PEAK ? by_peak : by_live);
	for (uint32_t i = 0; i < p->site_count; i++)
		p->sites[i].id = i + 1;
	/* Sites have moved: the index no longer holds. */
	hash_index_fini(&p->index->sites);
}

const char *profile_via_name(uint32_t via)
{
	static const char *const names[PROFILE_VIA_COUNT] = {
		[PROFILE_VIA_MALLOC] = "malloc",
		[PROFILE_VIA_CALLOC] = "calloc",
		[PROFILE_VIA_REALLOC] = "realloc",
		[PROFILE_VIA_POSIX_MEMALIGN] = "posix_memalign",
		[PROFILE_VIA_ALIGNED_ALLOC] = "aligned_alloc",
		[PROFILE_VIA_MEMALIGN] = "memalign",
		[PROFILE_VIA_VALLOC] = "valloc",
		[PROFILE_VIA_PVALLOC] = "pvalloc",
		[PROFILE_VIA_REALLOCARRAY] = "reallocarray",
		[PROFILE_VIA_NEW] = "operator new",
		[PROFILE_VIA_NEW_ARRAY] = "operator new[]",
		[PROFILE_VIA_FREE] = "free",
#define OWN_NAME(family, name, hook, size, count, old, twin) name,
		HEFT_OWN_ALLOCATING(OWN_NAME)
#undef OWN_NAME
			[PROFILE_VIA_MAPS] = "mmap",
		"munmap",
		"mremap",
		"brk",
		"madvise",
		"shmat",
		"shmdt",
	};
	return via < PROFILE_VIA_COUNT ? names[via] : "unknown";
}

struct how_ended profile_how_ended(const struct profile *p)
{
	static const enum end_kind kinds[] = {
		[PROFILE_END_RUNNING] = END_RUNNING,   [PROFILE_END_EXIT] = END_EXIT,
		[PROFILE_END_SIGNAL] = END_SIGNAL,     [PROFILE_END_EXEC] = END_EXEC,
		[PROFILE_END_DETACHED] = END_DETACHED, [PROFILE_END_UNKNOWN] = END_UNKNOWN,
	};
	struct how_ended end = {kinds[p->run.end], p->run.exit_status, p->run.signal,
				p->run.memory_limit_bytes, p->run.limit_is_cgroup};
	if (end.kind == END_RUNNING && !p->run.complete)
		end.kind = END_CUT;
	if (end.kind == END_SIGNAL && p->run.oom_killed)
		end.kind = END_OOM;
	return end;
}

const char *profile_module_name(const struct profile *p, uint32_t module)
{
	if (module >= p->stacks.module_count || !p->stacks.modules[module].path[0])
		return "[unknown]";
	const char *slash = strrchr(p->stacks.modules[module].path, '/');
	return slash && slash[1] ? slash + 1 : p->stacks.modules[module].path;
}

uint32_t profile_first_user_node(const struct profile *p, uint32_t node)
{
	uint32_t plumbing = PROFILE_NONE, wrapper = PROFILE_NONE;
	if (node < p->stacks.node_count && p->stacks.nodes[node].user)
		return p->stacks.nodes[node].user - 1;
	for (uint32_t n = node; n != PROFILE_NONE; n = p->stacks.nodes[n].parent) {
		const struct profile_frame *f = profile_node_frame(p, n);
		if (f->user)
			return n;
		if (f->wrapper)
			wrapper = n;
		/* An interpreter's function says less than what it runs, which has no module. */
		if (f->plumbing && (plumbing == PROFILE_NONE ||
				    (f->module == PROFILE_NONE &&
				     profile_node_frame(p, plumbing)->module != PROFILE_NONE)))
			plumbing = n;
	}
	return plumbing != PROFILE_NONE ? plumbing : wrapper != PROFILE_NONE ? wrapper : node;
}

/* What is known of a stack without a user frame */
struct machinery {
	uint32_t plumbing, nameless, wrapper; /* innermost; innermost without a module; outermost */
};

void profile_find_user_nodes(struct profile *p)
{
	uint32_t count = p->stacks.node_count;
	struct profile_node *nodes = p->stacks.nodes;
	struct machinery *known = malloc(((size_t)count + 1) * sizeof *known);
	bool *has_user = malloc((size_t)count + 1);
	for (uint32_t i = 0; i < count; i++) {
		nodes[i].user = 0;
		if (!known || !has_user)
			continue;
		const struct profile_frame *f = profile_node_frame(p, i);
		uint32_t parent = nodes[i].parent; /* a smaller index, or none */
		bool outer = parent < i;
		struct machinery m = outer ? known[parent]
					   : (struct machinery){PROFILE_NONE, PROFILE_NONE,
								PROFILE_NONE};
		if (f->plumbing)
			m.plumbing = i;
		if (f->plumbing && f->module == PROFILE_NONE)
			m.nameless = i;
		if (f->wrapper && m.wrapper == PROFILE_NONE)
			m.wrapper = i;
		known[i] = m;
		has_user[i] = f->user || (outer && has_user[parent]);
		nodes[i].user = 1 + (f->user                      ? i
				     : has_user[i]                ? nodes[parent].user - 1
				     : m.nameless != PROFILE_NONE ? m.nameless
				     : m.plumbing != PROFILE_NONE ? m.plumbing
				     : m.wrapper != PROFILE_NONE  ? m.wrapper
								  : i);
	}
	free(known);
	free(has_user);
}

uint64_t profile_frame_address(const struct profile *p, uint32_t node, uint32_t *call,
			       bool *inlined)
{
	const struct profile_frame *f = profile_node_frame(p, node);
	*inlined = f->inlined;
	if (*call >= p->stacks.call_count)
		return f->address;
	uint32_t caller = p->stacks.calls[*call].caller;
	if (caller < p->stacks.call_count && p->stacks.calls[caller].node == node) {
		*call = caller;
		caller = p->stacks.calls[caller].caller;
	}
	*inlined = p->stacks.nodes[node].parent !=
		   (caller < p->stacks.call_count ? p->stacks.calls[caller].node : PROFILE_NONE);
	return p->stacks.calls[*call].address;
}
