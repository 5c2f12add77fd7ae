/* From the recording's addresses to the model's stacks.
 *
 * A recording of a large program has several hundred thousand nodes but only some
 * ten thousand distinct places (module, address) in code. So places are collected
 * first, sorted by module and address, and all places of a module are looked up at
 * once. A return address stands for the call before it, so the byte before it is looked
 * up; the address of an interrupted instruction (a signal) is exact.
 *
 * Places in no module are code that the program made itself; a perf map may name it.
 *
 * Where the table of stacks was full, a node marks that what its caller called is not known
 * (TRACE_FRAME_LOST). It is no place in code: the caller's frame stands for it.
 *
 * Invariant: a caller's index is smaller than its callee's (checked: the recording
 * is input), so one pass builds the merged tree. */
#include "profile/trace_stacks.h"

#include "hosted/compare.h"
#include "hosted/hash_index.h"
#include "hosted/vector.h"
#include "symbol/perf_map.h"
#include "symbol/symbol.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MAPS = 64 };

struct place {
	uint64_t address;
	uint32_t module; /* of the profile */
	uint32_t first;  /* in frame_ids, innermost first */
	uint32_t count;
};

struct places {
	struct place *items;
	uint32_t count, capacity;
	struct hash_index index; /* by module and address */
	uint32_t *frame_ids;
	uint32_t frame_id_count, frame_id_capacity;
};

static int add_place(struct places *ps, uint32_t module, uint64_t address, uint32_t *id)
{
	uint32_t hash = hash_number(address ^ (uint64_t)module << 40), at = hash;
	while ((*id = hash_index_step(&ps->index, hash, &at)) != HASH_NONE)
		if (ps->items[*id].module == module && ps->items[*id].address == address)
			return 0;
	if (!array_reserve(ps->items, ps->count, ps->capacity, 1) ||
	    hash_index_add_at(&ps->index, hash, at, ps->count) < 0)
		return HEFT_ENOMEM;
	ps->items[ps->count] = (struct place){.address = address, .module = module};
	*id = ps->count++;
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = *(const struct place *const *)a,
			   *y = *(const struct place *const *)b;
	return compare_numbers(x->module, y->module) ?: compare_numbers(x->address, y->address);
}

static int add_frame_id(struct places *ps, uint32_t id)
{
	if (!array_reserve(ps->frame_ids, ps->frame_id_count, ps->frame_id_capacity, 1))
		return HEFT_ENOMEM;
	ps->frame_ids[ps->frame_id_count++] = id;
	return 0;
}

/* "cc1plus+0x1f3a": what is left when no name is known. If it is known where the function begins,
 * that: then all places of the function have one name. */
static const char *place_name(struct profile *p, const struct place *place, uint64_t start)
{
	char name[512];
	int n = snprintf(name, sizeof name, "%.400s+0x%" PRIx64,
			 profile_module_name(p, place->module), start ? start : place->address);
	return n < 0 ? NULL : name_pool_add_n(p->names, name, (size_t)n);
}

static int keep_place(struct profile *p, struct places *ps, struct place *place,
		      const struct symbol_query *q)
{
	uint32_t count = q && q->frame_count ? q->frame_count : 1;
	place->first = ps->frame_id_count;
	place->count = count;
	for (uint32_t i = 0; i < count; i++) {
		struct profile_frame frame = {.module = place->module, .address = place->address};
		uint32_t id;
		if (q && q->frame_count) {
			frame.function = q->frames[i].function;
			frame.file = q->frames[i].file;
			frame.line = q->frames[i].line;
			frame.inlined = q->frames[i].inlined;
		}
		if (!frame.function) {
			frame.function = place_name(p, place, q ? q->function_start : 0);
			frame.code_bytes = q ? q->function_bytes : 0;
		}
		if (!frame.function)
			return HEFT_ENOMEM;
		if (profile_add_frame(p, &frame, &id) < 0 || add_frame_id(ps, id) < 0)
			return HEFT_ENOMEM;
	}
	return 0;
}

static int note_state(struct profile *p, uint32_t module, enum symbol_state state)
{
	const char *path = p->stacks.modules[module].path;
	switch (state) {
	case SYMBOL_REPLACED:
		return profile_add_note(p, PROFILE_NOTE_INFO, 0,
					"%s was replaced since the recording: heft shows "
					"addresses instead of its names",
					path);
	case SYMBOL_MISSING:
		return profile_add_note(
			p, PROFILE_NOTE_INFO, 0,
			"%s is gone or cannot be read: heft shows addresses instead of names",
			path);
	case SYMBOL_NOT_ELF:
	case SYMBOL_NOT_A_FILE:
	case SYMBOL_USABLE: break;
	}
	return 0;
}

/* What the places of a recording are named from. */
struct name_sources {
	struct symbol_session *session;
	const struct profile_selection *sel;
	struct perf_map **maps;
	uint32_t map_count;
};

/* Places that are none in code */
static int name_place(struct profile *p, struct places *ps, struct place **order, uint32_t count,
		      const char *name)
{
	struct symbol_frame frame = {.function = name_pool_add(p->names, name)};
	const struct symbol_query q = {.frames = &frame, .frame_count = 1};
	int rc = frame.function ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = keep_place(p, ps, order[i], &q);
	return rc;
}

/* order[0..count) are the places of one module, by address. */
static int symbolise_module(struct profile *p, struct places *ps, struct place **order,
			    uint32_t count, const struct name_sources *from)
{
	struct profile_module *pm = &p->stacks.modules[order[0]->module];
	struct symbol_module_id id = {pm->path, pm->build_id, pm->build_id_len};
	struct symbol_outcome outcome;
	if (strcmp(pm->path, TRACE_OLDER_MODULE) == 0) {
		p->run.older_listed = true;
		return name_place(p, ps, order, count, PROFILE_OLDER_PLACE);
	}
	if (strcmp(pm->path, TRACE_BREAK_MODULE) == 0)
		return name_place(p, ps, order, count, "the heap of malloc (brk)");
	struct symbol_query *queries = calloc(count, sizeof *queries);
	if (!queries)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		queries[i].address = order[i]->address;
	int rc = symbol_session_lookup(from->session, &id, from->sel->top_only && pm->runtime,
				       queries, count, &outcome);
	if (rc == 0) {
		pm->no_debug = outcome.state == SYMBOL_USABLE && outcome.debug == SYMBOL_DEBUG_NONE;
		pm->debug_lacking = outcome.lacking;
		rc = note_state(p, order[0]->module, outcome.state);
	}
	for (uint32_t i = 0; i < count && rc == 0; i++)
		rc = keep_place(p, ps, order[i], &queries[i]);
	free(queries);
	return rc;
}

/* Python (-X perf) says "py::qualified.name:file". */
static int split_python(struct profile *p, struct symbol_frame *frame)
{
	const char *file = frame->function && strncmp(frame->function, "py::", 4) == 0
				   ? strchr(frame->function + 4, ':')
				   : NULL;
	if (!file || !file[1])
		return 0;
	frame->file = name_pool_add(p->names, file + 1);
	frame->function = name_pool_add_n(p->names, frame->function,
					  (size_t)(file - frame->function));
	return frame->file && frame->function ? 0 : HEFT_ENOMEM;
}

/* Takes ":NUMBER" from the end of the text; 0: there is none. */
static uint32_t take_number(const char *text, size_t *length)
{
	size_t at = *length;
	while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9')
		at--;
	if (at == *length || *length - at > 9 || at < 2 || text[at - 1] != ':')
		return 0;
	*length = at - 1;
	return (uint32_t)strtoul(text + at, NULL, 10);
}

/* V8 (--perf-basic-prof) says "JS:*name file:line:column", where the star is one of several marks of who compiled
 * it; older ones say "LazyCompile:". Becomes the function "JS:name". */
static int split_javascript(struct profile *p, struct symbol_frame *frame)
{
	static const char *const kinds[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
	const char *name = NULL, *file = NULL;
	for (size_t i = 0; frame->function && i < sizeof kinds / sizeof *kinds; i++)
		if (strncmp(frame->function, kinds[i], strlen(kinds[i])) == 0)
			name = frame->function + strlen(kinds[i]);
	if (!name || !strchr("~^+*", *name) || !*name)
		return 0;
	size_t length = strlen(++name);
	/* Names and files may both have spaces: a file begins with a word that no name has. */
	static const char *const starts[] = {" /", " node:", " file:"};
	for (size_t i = 0; i < sizeof starts / sizeof *starts && !file; i++)
		file = strstr(name, starts[i]);
	if (!file)
		file = strrchr(name, ' ');
	if (!file || !take_number(name, &length))
		return 0;
	frame->line = take_number(name, &length);
	if (!frame->line || name + length <= file + 1)
		return 0;
	char *function;
	int chars = file > name ? (int)(file - name) : (int)strlen("(anonymous)");
	if (asprintf(&function, "JS:%.*s", chars, file > name ? name : "(anonymous)") < 0)
		return HEFT_ENOMEM;
	frame->file = name_pool_add_n(p->names, file + 1, (size_t)(name + length - file - 1));
	frame->function = name_pool_add(p->names, function);
	free(function);
	return frame->file && frame->function ? 0 : HEFT_ENOMEM;
}

/* Code of no module: what a compiler inside the program said of it. A recording of several
 * processes does not tell whose it was: a name is taken only if no map says otherwise. */
static int symbolise_unknown(struct profile *p, struct places *ps, struct place **order,
			     uint32_t count, const struct name_sources *from)
{
	int rc = 0;
	for (uint32_t i = 0; i < count && rc == 0; i++) {
		const char *name = NULL, *other;
		bool same = true;
		for (uint32_t k = 0; k < from->map_count && rc == 0; k++) {
			rc = perf_map_name(from->maps[k], p->names, order[i]->address, &other);
			same &= !name || !other || name == other;
			name = other ? other : name;
		}
		struct symbol_frame frame = {.function = name};
		const struct symbol_query q = {.frames = &frame, .frame_count = 1};
		if (rc == 0)
			rc = split_python(p, &frame);
		if (rc == 0)
			rc = split_javascript(p, &frame);
		if (rc == 0)
			rc = keep_place(p, ps, order[i], name && same ? &q : NULL);
	}
	return rc;
}

/* The perf maps of the recorded processes, where there are any. */
static int open_maps(const struct trace_contents *c, struct name_sources *from)
{
	from->maps = calloc((size_t)c->process_count + 1, sizeof *from->maps);
	if (!from->maps)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->process_count && from->map_count < MOST_MAPS; i++) {
		int64_t start = c->meta.start_unix_ns;
		if (c->processes[i].start_ns < INT64_MAX - (uint64_t)(start > 0 ? start : 0))
			start += (int64_t)c->processes[i].start_ns;
		struct perf_map *map = perf_map_open(c->processes[i].pid, start);
		if (map)
			from->maps[from->map_count++] = map;
	}
	return 0;
}

static int symbolise(struct profile *p, struct places *ps, const struct trace_contents *c,
		     const struct profile_selection *sel)
{
	struct name_sources from = {.sel = sel};
	struct symbol_options options;
	struct place **order = NULL;
	int rc = symbol_options_from_environment(&options, p->names);
	if (!ps->count || rc < 0)
		return rc;
	options.progress = sel->progress;
	options.progress_ctx = sel->progress_ctx;
	if (!sel->ask_servers)
		options.server_urls = NULL;
	from.session = symbol_session_new(p->names, &options);
	order = malloc((size_t)ps->count * sizeof *order);
	if (!order || !from.session) {
		rc = HEFT_ENOMEM;
		goto out;
	}
	for (uint32_t i = 0; i < ps->count; i++)
		order[i] = &ps->items[i];
	qsort(order, ps->count, sizeof *order, compare_places);
	/* Runtime libraries last: what a slow server takes from the time is theirs to lose. */
	for (int runtime = 0; runtime < 2; runtime++)
		for (uint32_t i = 0, next; i < ps->count && rc == 0; i = next) {
			uint32_t module = order[i]->module;
			for (next = i + 1; next < ps->count && order[next]->module == module;)
				next++;
			if (module != PROFILE_NONE && p->stacks.modules[module].runtime == runtime)
				rc = symbolise_module(p, ps, order + i, next - i, &from);
			else if (module == PROFILE_NONE && runtime && !(rc = open_maps(c, &from)))
				rc = symbolise_unknown(p, ps, order + i, next - i, &from);
		}
out:
	for (uint32_t i = 0; i < from.map_count; i++)
		perf_map_close(from.maps[i]);
	free(from.maps);
	free(order);
	symbol_session_free(from.session);
	return rc;
}

static uint32_t flags_of(uint32_t trace_flags, bool outermost)
{
	uint32_t flags = 0;
	if (trace_flags & TRACE_FRAME_GUESS)
		flags |= PROFILE_GUESSED;
	if ((trace_flags & TRACE_FRAME_TRUNCATED) && outermost)
		flags |= PROFILE_TRUNCATED;
	return flags;
}

static bool is_lost(const struct trace_node *n)
{
	return (n->flags & TRACE_FRAME_LOST) && n->offset == 0;
}

/* The node and call of a stack whose inner frames are lost: its innermost frame that is known, under
 * a node of its own, since the same function may also allocate itself. */
static int add_lost(struct profile *p, uint32_t *node, uint32_t *call)
{
	if (*node == PROFILE_NONE)
		return 0;
	struct profile_node n = p->stacks.nodes[*node];
	int rc = profile_add_node(p, n.parent, n.frame, n.flags | PROFILE_LOST, node);
	if (rc < 0 || *call == PROFILE_NONE)
		return rc;
	struct profile_call last = p->stacks.calls[*call];
	return profile_add_call(p, last.caller, *node, last.address, call);
}

int trace_stacks_load(struct profile *p, const struct trace_contents *c, const uint32_t *modules,
		      const bool *wanted, const struct profile_selection *sel, uint32_t *nodes,
		      uint32_t *calls)
{
	struct places ps = {0};
	uint32_t wanted_count = 0;
	int rc = 0;

	/* nodes[] first holds the place of each node. */
	for (uint32_t i = 0; i < c->node_count && rc == 0; i++) {
		const struct trace_node *n = &c->nodes[i];
		nodes[i] = calls[i] = PROFILE_NONE;
		if (!wanted[i] || is_lost(n))
			continue;
		uint32_t module = n->module < c->module_count ? modules[n->module] : PROFILE_NONE;
		bool exact = (n->flags & TRACE_FRAME_EXACT_PC) || n->offset == 0;
		rc = add_place(&ps, module, n->offset - !exact, &nodes[i]);
		wanted_count++;
	}
	if (rc == 0)
		rc = symbolise(p, &ps, c, sel);
	if (rc == 0)
		rc = profile_expect_nodes(p, wanted_count);
	for (uint32_t i = 0; i < c->node_count && rc == 0; i++) {
		if (!wanted[i])
			continue;
		const struct trace_node *n = &c->nodes[i];
		uint32_t at = n->parent < i ? nodes[n->parent] : PROFILE_NONE;
		calls[i] = n->parent < i ? calls[n->parent] : PROFILE_NONE;
		if (is_lost(n)) {
			rc = add_lost(p, &at, &calls[i]);
			nodes[i] = at;
			continue;
		}
		const struct place *place = &ps.items[nodes[i]];
		for (uint32_t k = place->count; k-- > 0 && rc == 0;)
			rc = profile_add_node(p, at, ps.frame_ids[place->first + k],
					      flags_of(n->flags, k == place->count - 1), &at);
		nodes[i] = at;
		if (rc == 0 && at != PROFILE_NONE && !p->stacks.nodes[at].address)
			p->stacks.nodes[at].address = place->address;
		if (rc == 0)
			rc = profile_add_call(p, calls[i], at, place->address, &calls[i]);
	}
	free(ps.items);
	hash_index_fini(&ps.index);
	free(ps.frame_ids);
	return rc;
}
