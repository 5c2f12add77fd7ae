/* Makes the model of a heaptrack file: what heaptrack_lines.c read becomes frames, stacks and sites.
 * Only stacks that allocated something enter the profile. */
#include "import/import_formats.h"
#include "hosted/hex.h"
#include "import/heaptrack_file.h"
#include "import/import_sites.h"
#include "symbol/symbol.h"

#include <stdlib.h>
#include <string.h>

/* Equal lines compress very well, and a file is mostly equal lines. */
#define MAX_RATIO 20000
enum { LONGEST_NAME = 16 * 1024 }; /* as symbol_demangle's */

bool import_heaptrack_recognise(const uint8_t *head, size_t length)
{
	/* "v 10400 3": both numbers are hexadecimal; the second is missing in the oldest files. */
	size_t at = 2;
	if (length < 4 || head[0] != 'v' || head[1] != ' ')
		return false;
	while (at < length && at < 40 && (head[at] == ' ' || hex_digit((char)head[at]) >= 0))
		at++;
	return at > 2 && at < length && head[at] == '\n';
}

static const char *string_at(const struct heaptrack_file *f, uint32_t index)
{
	return index ? f->strings.items[index - 1] : NULL;
}

/* A name as people write it; NULL: no memory. */
static const char *plain_name(struct heaptrack_file *f, uint32_t index)
{
	const char *name = string_at(f, index), **plain = &f->plain[index - 1];
	/* heaptrack demangles C++ only. An @ does not begin a symbol version here. */
	if (!*plain && strchr(name, '@'))
		*plain = name_pool_add_n(f->p->names, name, strnlen(name, LONGEST_NAME));
	else if (!*plain)
		*plain = symbol_demangle(f->p->names, name);
	return *plain;
}

/* Adds the frames of an instruction under *node, the outermost first. *node becomes the innermost of them, and
 * *call their call. */
static int add_ip(struct heaptrack_file *f, const struct heaptrack_ip *ip, const uint32_t *modules,
		  uint32_t *node, uint32_t *call)
{
	const uint32_t *words = ip->frame_count ? f->words.items + ip->first : NULL;
	uint32_t count = ip->frame_count ? ip->frame_count : 1;
	f->frames_of_traces += count;
	if (f->frames_of_traces > HEAPTRACK_FRAMES_A_BYTE * f->in->made_bytes + HEAPTRACK_FRAMES)
		return import_expected(f->in, f->in->at, "fewer frames for a file of this size");
	for (uint32_t i = count; i-- > 0;) {
		struct profile_frame frame = {.address = ip->address, .inlined = i + 1 < count};
		frame.module = ip->module ? modules[ip->module - 1] : PROFILE_NONE;
		if (ip->frame_count) {
			if (words[3 * i] && !(frame.function = plain_name(f, words[3 * i])))
				return HEFT_ENOMEM;
			frame.file = string_at(f, words[3 * i + 1]);
			frame.line = frame.file ? words[3 * i + 2] : 0;
		}
		if (!frame.function)
			frame.function = import_place_name(f->p, frame.module, ip->address);
		uint32_t id;
		if (!frame.function || profile_add_frame(f->p, &frame, &id) < 0)
			return HEFT_ENOMEM;
		int rc = import_add_node(f->p, *node, id, node);
		if (rc < 0)
			return rc;
	}
	return profile_add_call(f->p, *call, *node, ip->address, call);
}

/* Adds the modules: those strings that instructions name as theirs. */
static int add_modules(struct heaptrack_file *f, uint32_t *modules)
{
	const struct heaptrack_ip *ips = f->ips.items;
	for (size_t i = 0; i < f->strings.count; i++)
		modules[i] = PROFILE_NONE;
	for (size_t i = 0; i < f->ips.count; i++) {
		uint32_t m = ips[i].module;
		if (m && modules[m - 1] == PROFILE_NONE &&
		    profile_add_module(f->p, string_at(f, m), NULL, 0, &modules[m - 1]) < 0)
			return HEFT_ENOMEM;
	}
	return 0;
}

/* nodes[i] and calls[i] become those of trace i + 1 in the profile, for traces that allocated something. */
static int load_named_nodes(struct heaptrack_file *f, uint32_t *nodes, uint32_t *calls)
{
	const struct heaptrack_trace *traces = f->traces.items;
	const struct heaptrack_ip *ips = f->ips.items;
	uint32_t *modules = malloc((f->strings.count + 1) * sizeof *modules);
	bool *wanted = calloc(f->traces.count + 1, sizeof *wanted);
	f->plain = calloc(f->strings.count + 1, sizeof *f->plain);
	int rc = modules && wanted && f->plain ? add_modules(f, modules) : HEFT_ENOMEM;
	for (size_t i = f->traces.count; i-- > 0 && rc == 0;) {
		wanted[i] |= f->sums.traces[i + 1].blocks > 0;
		if (wanted[i] && traces[i].parent)
			wanted[traces[i].parent - 1] = true;
	}
	for (size_t i = 0; i < f->traces.count && rc == 0; i++) {
		nodes[i] = traces[i].parent ? nodes[traces[i].parent - 1] : PROFILE_NONE;
		calls[i] = traces[i].parent ? calls[traces[i].parent - 1] : PROFILE_NONE;
		if (wanted[i] && traces[i].ip)
			rc = add_ip(f, &ips[traces[i].ip - 1], modules, &nodes[i], &calls[i]);
	}
	free(modules);
	free(wanted);
	return rc;
}

static int add_sites(struct heaptrack_file *f, const uint32_t *nodes, const uint32_t *calls)
{
	int rc = 0;
	for (uint32_t i = 0; i < f->sums.count && rc == 0; i++) {
		const struct heaptrack_sum *t = &f->sums.traces[i];
		if (!t->blocks)
			continue;
		uint32_t node = i ? nodes[i - 1] : PROFILE_NONE, site;
		const struct import_measures m = {
			.allocations = t->blocks,
			.allocated_bytes = t->bytes,
			.frees = t->blocks - t->live_blocks,
			.temporary = t->temporary,
			.live_blocks = t->live_blocks,
			.live_bytes = t->live_bytes,
			.peak_blocks = t->peak_blocks,
			.peak_bytes = t->peak_bytes,
			.own_peak_bytes = t->own_peak_bytes,
			.lifetime_max_ns = (uint64_t)t->longest_ms * 1000000,
			.lifetime_sum_ns = f->raw ? (double)t->lifetime_ms * 1e6 : 0,
		};
		rc = f->heft ? import_add_site_via(f->p, node, PROFILE_VIA_UNKNOWN, PROFILE_NONE,
						   &site)
			     : import_add_site(f->p, node, PROFILE_NONE, &site);
		if (rc < 0)
			break;
		import_keep_call(f->p, site, node, i ? calls[i - 1] : PROFILE_NONE);
		import_add_measures(&f->p->sites[site], &m);
	}
	return rc;
}

/* Blocks that are still live count as if they lived up to the end. */
static void end_lives(struct heaptrack_file *f)
{
	for (uint64_t i = 0; f->blocks.slots && i <= f->blocks.mask; i++)
		if (f->blocks.slots[i].address)
			heaptrack_sums_add_life(&f->sums, &f->blocks.slots[i]);
}

static int describe(struct heaptrack_file *f)
{
	struct profile *p = f->p;
	p->run.has = PROFILE_HAS_OWN_PEAK | PROFILE_HAS_PEAK | PROFILE_HAS_LIVE |
		     PROFILE_HAS_ALLOCATED | PROFILE_HAS_TIMES | PROFILE_HAS_TEMPORARY |
		     (f->raw ? PROFILE_HAS_MEAN_LIFETIME : 0u);
	p->run.events = f->events;
	p->run.duration_ns = (uint64_t)f->sums.now_ms * 1000000;
	p->totals.peak_time_ns = (uint64_t)f->sums.peak_ms * 1000000;
	p->totals.unknown_frees = f->unknown_frees;
	if (__builtin_mul_overflow(f->peak_pages, f->page_bytes, &p->totals.peak_rss_bytes))
		p->totals.peak_rss_bytes = 0;
	int rc = profile_add_note(
		p, PROFILE_NOTE_INFO, 0,
		f->raw ? "lifetimes are means, measured by heaptrack's clock of 10 ms"
		       : "an interpreted heaptrack file does not record single blocks, so it has "
			 "no lifetimes");
	if (rc == 0 && f->attached)
		rc = profile_add_note(
			p, PROFILE_NOTE_INFO, 0,
			"heaptrack was attached to a running program: earlier blocks are unknown");
	return rc;
}

int import_heaptrack_load(struct profile *p, struct import_source *in)
{
	struct heaptrack_file f = {.p = p, .in = in};
	uint32_t *nodes = NULL, *calls = NULL;
	in->max_ratio = MAX_RATIO;
	int rc = heaptrack_lines_read(&f);
	if (rc < 0)
		goto out;
	heaptrack_sums_finish(&f.sums);
	end_lives(&f);
	nodes = malloc(f.sums.count * sizeof *nodes);
	calls = malloc(f.sums.count * sizeof *calls);
	rc = !nodes || !calls ? HEFT_ENOMEM
	     : f.raw ? address_stacks_load(p, f.nodes.items, (uint32_t)f.nodes.count, in->selection,
					   nodes, calls)
		     : load_named_nodes(&f, nodes, calls);
	if (rc == 0)
		rc = add_sites(&f, nodes, calls);
	if (rc == 0)
		rc = describe(&f);
	if (rc == 0)
		rc = import_finish(p, f.exe);
out:
	free(nodes);
	free(calls);
	vector_free(&f.strings);
	free(f.plain);
	vector_free(&f.ips);
	vector_free(&f.words);
	vector_free(&f.traces);
	vector_free(&f.nodes);
	vector_free(&f.sizes);
	free(f.sums.traces);
	free(f.blocks.slots);
	address_maps_fini(&f.maps);
	return rc;
}
