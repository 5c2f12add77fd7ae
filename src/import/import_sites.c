/* The common end of every importer (import_sites.h).
 *
 * Tools differ in where a stack begins: jemalloc shows its own profiling code,
 * DHAT shows the malloc of Valgrind, others show the caller. heft's sites begin with the
 * caller of the allocation function, which itself is `via`, so that sites of two
 * formats can be compared. The outermost allocation function of the innermost run
 * of allocator frames is the one that was called: "operator new" over "malloc". */
#include "import/import_sites.h"

#include "hosted/vector.h"
#include "profile/user_frame.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	uint32_t via;
} functions[] = {
	{"malloc", PROFILE_VIA_MALLOC},
	{"calloc", PROFILE_VIA_CALLOC},
	{"realloc", PROFILE_VIA_REALLOC},
	{"posix_memalign", PROFILE_VIA_POSIX_MEMALIGN},
	{"aligned_alloc", PROFILE_VIA_ALIGNED_ALLOC},
	{"memalign", PROFILE_VIA_MEMALIGN},
	{"valloc", PROFILE_VIA_VALLOC},
	{"pvalloc", PROFILE_VIA_PVALLOC},
	{"reallocarray", PROFILE_VIA_REALLOCARRAY},
	/* C++'s, in the forms of demanglers with and without parameters, and tcmalloc's own names */
	{"operator new", PROFILE_VIA_NEW},
	{"operator new[]", PROFILE_VIA_NEW_ARRAY},
	{"new", PROFILE_VIA_NEW},
	{"newarray", PROFILE_VIA_NEW_ARRAY},
	{"mallocx", PROFILE_VIA_MALLOC},
	{"rallocx", PROFILE_VIA_REALLOC},
	/* the allocators' insides, where they are linked into the program */
	{"prof_backtrace", PROFILE_VIA_UNKNOWN},
	{"prof_backtrace_impl", PROFILE_VIA_UNKNOWN},
	{"prof_alloc_prep", PROFILE_VIA_UNKNOWN},
	{"prof_tctx_create", PROFILE_VIA_UNKNOWN},
	{"malloc_default", PROFILE_VIA_MALLOC},
	{"imalloc", PROFILE_VIA_UNKNOWN},
	{"imalloc_body", PROFILE_VIA_UNKNOWN},
	{"irallocx_prof", PROFILE_VIA_UNKNOWN},
	{"irallocx_prof_sample", PROFILE_VIA_UNKNOWN},
	{"do_rallocx", PROFILE_VIA_REALLOC},
	{"DoSampledAllocation", PROFILE_VIA_UNKNOWN},
	{"do_malloc", PROFILE_VIA_UNKNOWN},
	{"do_memalign", PROFILE_VIA_UNKNOWN},
};

/* Prefixes that the same functions may have */
static const char *const prefixes[] = {
	"_rjem_je_",      "_rjem_", "je_", "jet_",  "__libc_",
	"__interceptor_", "tc_",    "mi_", "rtld_", "",
};

/* Libraries that hold only an allocator or its profiler */
static const char *const allocator_modules[] = {
	"libjemalloc", "libtcmalloc",   "libmimalloc",
	"vgpreload_",  "libheaptrack_", "libheft-preload",
};

/* The longest of the names above, with prefix; and frames of the allocator on one stack: a program's own
 * recursion through a function of such a name may be endless. */
enum { LONGEST_FUNCTION = 64, MOST_FRAMES = 64 };

static bool allocation_function(const char *function, uint32_t *via)
{
	size_t length = 0; /* without parameters and symbol versions */
	while (function[length] && function[length] != '(' && function[length] != '@')
		if (++length > LONGEST_FUNCTION)
			return false;
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		size_t skip = strlen(prefixes[i]);
		if (strncmp(function, prefixes[i], skip) || length <= skip)
			continue;
		for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
			if (strlen(functions[k].name) == length - skip &&
			    !strncmp(functions[k].name, function + skip, length - skip)) {
				*via = functions[k].via;
				/* A bare "new" is somebody's function; "tc_new" is not. */
				return skip || (strcmp(functions[k].name, "new") &&
						strcmp(functions[k].name, "newarray"));
			}
	}
	return false;
}

static bool allocator_module(const struct profile *p, uint32_t module)
{
	const char *name = module == PROFILE_NONE ? "" : profile_module_name(p, module);
	for (size_t i = 0; i < sizeof allocator_modules / sizeof *allocator_modules; i++)
		if (!strncmp(name, allocator_modules[i], strlen(allocator_modules[i])))
			return true;
	return false;
}

/* Whether a frame is the allocator's, worked out once a frame. */
static bool is_allocator(struct profile *p, struct profile_frame *f, uint32_t *via)
{
	*via = PROFILE_VIA_UNKNOWN;
	if (!f->allocates) {
		bool of_allocator = allocation_function(f->function, via) ||
				    allocator_module(p, f->module);
		f->allocates = of_allocator ? (uint8_t)(2 + *via) : 1;
	}
	if (f->allocates == 1)
		return false;
	*via = f->allocates - 2u;
	return true;
}

/* The caller of the allocation function: skips the allocator's own innermost frames. *via becomes the
 * function that was called (PROFILE_VIA_UNKNOWN: the stack does not say). A stack that has only such
 * frames stays as it is. */
static uint32_t caller_node(struct profile *p, uint32_t node, uint32_t *via)
{
	uint32_t at = node, called = PROFILE_VIA_UNKNOWN, one;
	for (int i = 0; i < MOST_FRAMES && at != PROFILE_NONE;
	     i++, at = p->stacks.nodes[at].parent) {
		if (!is_allocator(p, &p->stacks.frames[p->stacks.nodes[at].frame], &one))
			break;
		if (one != PROFILE_VIA_UNKNOWN)
			called = one;
	}
	if (at == PROFILE_NONE) {
		*via = PROFILE_VIA_UNKNOWN;
		return node;
	}
	*via = called;
	return at;
}

int import_add_node(struct profile *p, uint32_t parent, uint32_t frame, uint32_t *node)
{
	enum { MAX_NODES = 1 << 26 };
	if (p->stacks.node_count >= MAX_NODES)
		return HEFT_EFORMAT;
	return profile_add_node(p, parent, frame, 0, node);
}

int import_add_site(struct profile *p, uint32_t node, uint32_t labels, uint32_t *site)
{
	uint32_t via;
	node = caller_node(p, node, &via);
	return import_add_site_via(p, node, via, labels, site);
}

int import_add_site_via(struct profile *p, uint32_t node, uint32_t via, uint32_t labels,
			uint32_t *site)
{
	/* What heft's own exporters write for a site without a stack. */
	if (node != PROFILE_NONE && p->stacks.nodes[node].parent == PROFILE_NONE &&
	    !strcmp(p->stacks.frames[p->stacks.nodes[node].frame].function, "[stack unknown]"))
		node = PROFILE_NONE;
	int rc = profile_add_labelled_site(p, node, via, labels, site);
	if (rc == 0)
		p->sites[*site].merged++;
	return rc;
}

void import_keep_call(struct profile *p, uint32_t site, uint32_t node, uint32_t call)
{
	struct profile_site *s = &p->sites[site];
	bool inlined;
	if (s->call != PROFILE_NONE || call == PROFILE_NONE || s->node == PROFILE_NONE)
		return;
	/* Skips the frames of the allocator, which are no part of the site. */
	for (; node != s->node; node = p->stacks.nodes[node].parent) {
		if (node == PROFILE_NONE)
			return;
		profile_frame_address(p, node, &call, &inlined);
	}
	s->call = call;
}

const char *import_place_name(struct profile *p, uint32_t module, uint64_t address)
{
	char name[512];
	snprintf(name, sizeof name, "%.400s+0x%" PRIx64, profile_module_name(p, module), address);
	return name_pool_add(p->names, name);
}

int import_add_stack(struct profile *p, uint32_t node, uint32_t call,
		     const struct import_measures *measures)
{
	uint32_t site;
	int rc = import_add_site(p, node, PROFILE_NONE, &site);
	if (rc < 0)
		return rc;
	import_keep_call(p, site, node, call);
	import_add_measures(&p->sites[site], measures);
	return 0;
}

void import_add_measures(struct profile_site *s, const struct import_measures *m)
{
	if (m->allocations)
		s->lifetime.mean_ns = import_rounded(
			((double)s->lifetime.mean_ns * (double)s->allocations +
			 m->lifetime_sum_ns) /
			((double)s->allocations + (double)m->allocations));
	if (m->lifetime_max_ns > s->lifetime.max_ns)
		s->lifetime.max_ns = m->lifetime_max_ns;
	import_add(&s->allocations, m->allocations);
	import_add(&s->allocated_bytes, m->allocated_bytes);
	import_add(&s->frees, m->frees);
	import_add(&s->temporary, m->temporary);
	import_add(&s->live_blocks, m->live_blocks);
	import_add(&s->live_bytes, m->live_bytes);
	import_add(&s->peak_blocks, m->peak_blocks);
	import_add(&s->peak_bytes, m->peak_bytes);
	import_add(&s->own_peak_bytes, m->own_peak_bytes);
}

void import_add(uint64_t *sum, uint64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = UINT64_MAX;
}

uint64_t import_rounded(double v)
{
	return v >= 18446744073709549568.0 ? UINT64_MAX : v > 0 ? (uint64_t)(v + 0.5) : 0;
}

void import_unbias(uint64_t rate, uint64_t *blocks, uint64_t *bytes)
{
	if (rate <= 1 || !*blocks || !*bytes)
		return;
	/* A block of S bytes is sampled with probability 1 - exp(-S / rate). */
	double mean = (double)*bytes / (double)*blocks;
	double scale = -1.0 / expm1(-mean / (double)rate);
	*blocks = import_rounded((double)*blocks * scale);
	*bytes = import_rounded((double)*bytes * scale);
}

static int add_process(struct profile *p, const char *exe)
{
	uint32_t id;
	struct profile_process process = {.pid = p->run.pid,
					  .exe = exe           ? exe
						 : p->run.argc ? p->run.argv[0]
							       : name_pool_add(p->names, ""),
					  .argv = p->run.argv,
					  .argc = p->run.argc,
					  .end_ns = p->run.duration_ns,
					  .end = p->run.end,
					  .totals = p->totals};
	if (!exe && !p->run.argc && !p->run.pid &&
	    !p->thread_count) /* threads belong to a process */
		return 0;
	return process.exe ? profile_add_process(p, &process, &id) : HEFT_ENOMEM;
}

int import_finish(struct profile *p, const char *exe)
{
	struct profile_totals *t = &p->totals;
	for (uint32_t i = 0; i < p->site_count; i++) {
		struct profile_site *s = &p->sites[i];
		s->left_bytes = s->live_bytes; /* these formats are of one process */
		s->left_blocks = s->live_blocks;
		import_add(&t->allocations, s->allocations);
		import_add(&t->reallocations, s->reallocations);
		import_add(&t->frees, s->frees);
		import_add(&t->allocated_bytes, s->allocated_bytes);
		import_add(&t->reallocated_bytes, s->reallocated_bytes);
		import_add(&t->peak_bytes, s->peak_bytes);
		import_add(&t->peak_blocks, s->peak_blocks);
		import_add(&t->live_bytes, s->live_bytes);
		import_add(&t->live_blocks, s->live_blocks);
		import_add(&t->temporary, s->temporary);
	}
	t->left_bytes = t->live_bytes;
	t->left_blocks = t->live_blocks;
	t->threads = p->thread_count;
	p->chosen.to_ns = p->run.duration_ns;
	profile_finish_sites(p);
	user_frame_find_machinery(p);
	profile_link_behaviour(p);
	p->chosen.process_totals = true;
	return add_process(p, exe);
}

int import_set_command(struct profile *p, const char *command, size_t length)
{
	VECTOR(const char *) words = {0};
	const char *end = command + length;
	bool ok = true;
	for (const char *at = command; at < end && ok;) {
		const char *word = at;
		while (at < end && *at != ' ')
			at++;
		const char *name = name_pool_add_n(p->names, word, (size_t)(at - word));
		ok = name && vector_push(&words, name);
		while (at < end && *at == ' ')
			at++;
	}
	size_t bytes = words.count * sizeof *words.items;
	p->run.argv = ok ? name_pool_alloc(p->names, bytes + sizeof *words.items) : NULL;
	if (p->run.argv && bytes)
		memcpy(p->run.argv, words.items, bytes);
	p->run.argc = p->run.argv ? (uint32_t)words.count : 0;
	vector_free(&words);
	return p->run.argv ? 0 : HEFT_ENOMEM;
}
