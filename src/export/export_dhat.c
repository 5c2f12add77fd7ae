/* DHAT: what Valgrind's dh_view.html opens.
 *
 * A point of the format is a site, its frames from the allocation function outwards. The viewer
 * refuses two points with the same frames ("repeated location"); sites differ in stack or in the
 * function called, and both are in the frames, so none can repeat. Frames are written once each,
 * by their index in the model, even if two read the same.
 *
 * Times are microseconds: sums of lifetimes in nanoseconds would pass 2^53, where the viewer's
 * numbers end. A realloc counts as DHAT counts it: one more block, its new size more bytes.
 *
 * DHAT's "at t-end" is what a process had not freed when it ended. For several processes that is what
 * each left at its exit; it was not there all at once, so it may be more than their maximum. With --at
 * it is what was live then. */
#include "export/export_formats.h"

#include "export/export_names.h"
#include "export/export_places.h"
#include "export/pair_index.h"
#include "hosted/vector.h"
#include "hosted/json_writer.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_LIVED_US = 500 /* as Valgrind's own and dhat-rs' files say */ };

struct dhat {
	const struct profile *p;
	struct json_writer json;
	/* A frame is in the table once for each of its addresses. The addresses of a site are of one
	 * recorded stack (profile_frame_address). */
	struct pair_index addresses; /* upper and lower half */
	struct pair_index frames;    /* frame, number of the address */
	VECTOR(uint32_t) index;      /* in the table, by number of the frame */
	bool no_memory;
	uint32_t via[PROFILE_VIA_COUNT], unknown;
	uint32_t next; /* index in the table */
	bool totals_are_live, ends, live_then;
};

/* The table is written after the points. 0 is the root: an index is never 0. */
static uint32_t frame_index(struct dhat *x, uint32_t frame, uint64_t address)
{
	uint32_t at, number;
	if (pair_index_find(&x->addresses, (uint32_t)(address >> 32), (uint32_t)address, &at) < 0 ||
	    pair_index_find(&x->frames, frame, at, &number) < 0)
		goto no_memory;
	if (number == x->index.count && !vector_push(&x->index, x->next++))
		goto no_memory;
	return x->index.items[number];
no_memory:
	x->no_memory = true;
	return 0;
}

/* The format demands the blocks of a point's own peak, which the model does not have. They are those of
 * the global peak or of the end if that was the own peak, else the bytes divided by the mean size. */
static uint64_t own_peak_blocks(const struct profile_site *s, uint64_t own_bytes, uint64_t bytes,
				uint64_t blocks)
{
	if (own_bytes == s->peak_bytes)
		return s->peak_blocks;
	if (own_bytes == s->live_bytes)
		return s->live_blocks;
	double n = bytes ? (double)own_bytes / (double)bytes * (double)blocks + 0.5 : 0;
	return n < 1 ? 1 : n < (double)blocks ? (uint64_t)n : blocks;
}

static void write_point(struct dhat *x, const struct profile_site *s)
{
	struct json_writer *j = &x->json;
	uint64_t bytes = export_foreign_bytes(s), blocks = s->allocations + s->reallocations;
	uint64_t own = s->own_peak_bytes;
	if (own < s->peak_bytes)
		own = s->peak_bytes;
	if (own < s->live_bytes)
		own = s->live_bytes;
	if (x->totals_are_live) {
		bytes = s->live_bytes;
		blocks = s->live_blocks;
	}
	json_write_newline(j);
	json_write_object(j);
	json_write_key_uint(j, "tb", bytes);
	json_write_key_uint(j, "tbk", blocks);
	if (x->ends) {
		if (x->p->run.has & PROFILE_HAS_LIFETIMES)
			json_write_key_uint(j, "tl", measure_of_stack(s, MEASURE_LIFETIME) / 1000);
		json_write_key_uint(j, "mb", own);
		json_write_key_uint(j, "mbk", own_peak_blocks(s, own, bytes, blocks));
		json_write_key_uint(j, "gb", s->peak_bytes);
		json_write_key_uint(j, "gbk", s->peak_blocks);
		json_write_key_uint(j, "eb", x->live_then ? s->live_bytes : s->left_bytes);
		json_write_key_uint(j, "ebk", x->live_then ? s->live_blocks : s->left_blocks);
	}
	json_write_key(j, "fs");
	json_write_array(j);
	uint32_t via = s->via < PROFILE_VIA_COUNT ? s->via : PROFILE_VIA_MALLOC;
	if (!x->via[via])
		x->via[via] = x->next++;
	json_write_uint(j, x->via[via]);
	if (s->node == PROFILE_NONE) {
		if (!x->unknown)
			x->unknown = x->next++;
		json_write_uint(j, x->unknown);
	}
	uint32_t call = s->call;
	for (uint32_t node = s->node; node != PROFILE_NONE;
	     node = x->p->stacks.nodes[node].parent) {
		bool inlined;
		uint64_t address = profile_frame_address(x->p, node, &call, &inlined);
		json_write_uint(j, frame_index(x, x->p->stacks.nodes[node].frame, address));
	}
	json_write_array_end(j);
	json_write_object_end(j);
}

/* In the order in which indices were given: frames, allocation functions and the unknown stack
 * share them. */
static int write_table(struct dhat *x)
{
	struct json_writer *j = &x->json;
	uint32_t frame = 0;
	json_write_array(j);
	json_write_string(j, "[root]");
	for (uint32_t index = 1; index < x->next; index++) {
		json_write_newline(j);
		const char *name = index == x->unknown ? EXPORT_UNKNOWN_STACK : NULL;
		for (uint32_t via = 0; via < PROFILE_VIA_COUNT; via++)
			if (x->via[via] == index)
				name = profile_via_name(via);
		if (name) {
			json_write_string(j, name);
			continue;
		}
		const struct pair *entry = &x->frames.pairs[frame++];
		const struct pair *address = &x->addresses.pairs[entry->b];
		struct profile_frame f = x->p->stacks.frames[entry->a];
		f.address = (uint64_t)address->a << 32 | address->b;
		char *text = export_valgrind_frame(x->p, &f);
		if (!text)
			return HEFT_ENOMEM;
		json_write_string(j, text);
		free(text);
	}
	json_write_array_end(j);
	return 0;
}

static int write_all(struct dhat *x)
{
	const struct profile *p = x->p;
	struct json_writer *j = &x->json;
	char *command = export_command(p);
	if (!command)
		return HEFT_ENOMEM;
	/* A file that has only what is live (jemalloc without accumulated counts) has no other totals;
	 * one without the peak or the end has no such columns. */
	x->totals_are_live = !(p->run.has & PROFILE_HAS_ALLOCATED);
	x->ends = !x->totals_are_live && p->run.has & PROFILE_HAS_PEAK &&
		  p->run.has & PROFILE_HAS_LIVE;
	json_write_object(j);
	json_write_key_uint(j, "dhatFileVersion", 2);
	json_write_key_string(j, "mode", x->totals_are_live ? "heap-live" : "heap");
	json_write_key_string(j, "verb", x->totals_are_live ? "Live" : "Allocated");
	json_write_key_bool(j, "bklt", x->ends);
	json_write_key_bool(j, "bkacc", false);
	json_write_newline(j);
	json_write_key_string(j, "tu", "\xc2\xb5s");
	json_write_key_string(j, "Mtu", "s");
	if (x->ends)
		json_write_key_uint(j, "tuth", SHORT_LIVED_US);
	json_write_key_string(j, "cmd", command);
	json_write_key_int(j, "pid", p->run.pid);
	json_write_key_uint(j, "te", p->run.duration_ns / 1000);
	if (x->ends)
		json_write_key_uint(j, "tg", p->totals.peak_time_ns / 1000);
	json_write_newline(j);
	json_write_key(j, "pps");
	json_write_array(j);
	for (uint32_t i = 0; i < p->site_count; i++)
		write_point(x, &p->sites[i]);
	json_write_array_end(j);
	json_write_newline(j);
	json_write_key(j, "ftbl");
	int rc = x->no_memory ? HEFT_ENOMEM : write_table(x);
	json_write_object_end(j);
	json_write_newline(j);
	free(command);
	return rc;
}

int export_dhat(FILE *out, const struct profile *p, const struct export_options *o,
		struct heft_error *err)
{
	struct dhat x = {.p = p, .next = 1, .live_then = o->live_then};
	json_write_init(&x.json, out);
	int rc = write_all(&x);
	pair_index_fini(&x.addresses);
	pair_index_fini(&x.frames);
	vector_free(&x.index);
	return rc < 0 ? heft_fail(err, rc, "not enough memory to write DHAT's format") : 0;
}
