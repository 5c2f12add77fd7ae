/* Stacks in JSON. A report of half a million sites has twenty million frames of a few hundred kinds,
 * so each kind is spelt once, and its text is copied from then on.
 *
 * A deep stack is folded and cut (profile/stack_fold.h). Frames that are listed are those of the stack,
 * none is made up. What they stand for is said beside the stack, by position in the list:
 *
 *   "depth": 60012                                    frames of the recorded stack
 *   "omitted": 60000                                  of them, those that are not listed
 *   "recursion": [{"at": 2, "frames": 3, "times": 9}] entries 2, 3 and 4 come nine times in turn
 *   "cut": {"at": 200, "frames": 5000}                so many are missing before entry 200
 *
 * Entries of a recursion that begins inside another one count for each time of the outer one.
 *
 * Addresses are those of one recorded stack (profile.calls); where stacks are lists of numbers, they
 * stand in a list beside them. */
#include "model_json/model_json_stack.h"

#include "model_json/model_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By hand: there are as many as frames. */
static void write_address(struct json_writer *w, uint64_t address, bool inlined)
{
	static const char digits[] = "0123456789abcdef";
	char text[64], hex[16];
	size_t length = 0, at = 0;
	do
		hex[length++] = digits[address & 15];
	while (address >>= 4);
	memcpy(text, "\"address\":\"0x", 13);
	for (at = 13; length;)
		text[at++] = hex[--length];
	at += (size_t)snprintf(text + at, sizeof text - at, "\",\"inlined\":%s",
			       inlined ? "true" : "false");
	json_write_members(w, text, at);
}

int json_stacks_init(struct json_stacks *s, const struct profile *p, bool full, bool compact)
{
	*s = (struct json_stacks){.p = p, .compact = compact};
	size_t length = 0;
	FILE *out = open_memstream(&s->text, &length);
	s->starts = malloc(((size_t)p->stacks.frame_count + 1) * sizeof *s->starts);
	if (!out || !s->starts ||
	    stack_fold_init(&s->fold, p, full ? STACK_WHOLE : STACK_LIST, NULL) < 0) {
		if (out)
			fclose(out);
		goto no_memory;
	}
	for (uint32_t i = 0; i <= p->stacks.frame_count; i++) {
		struct json_writer w;
		s->starts[i] = (size_t)ftell(out);
		json_write_init(&w, out);
		if (i < p->stacks.frame_count)
			model_json_place(&w, NULL, p, &p->stacks.frames[i]);
	}
	if (fclose(out) == 0)
		return 0;
no_memory:
	json_stacks_fini(s);
	return HEFT_ENOMEM;
}

void json_stacks_fini(struct json_stacks *s)
{
	stack_fold_fini(&s->fold);
	free(s->text);
	free(s->starts);
	*s = (struct json_stacks){0};
}

static void write_flags(struct json_writer *w, uint32_t flags)
{
	if (flags & PROFILE_GUESSED)
		json_write_key_bool(w, "guessed", true);
	if (flags & PROFILE_TRUNCATED)
		json_write_key_bool(w, "truncated", true);
	if (flags & PROFILE_LOST)
		json_write_key_bool(w, "lost", true);
}

static void write_node(const struct json_stacks *s, struct json_writer *w, uint32_t node,
		       uint64_t address, bool inlined)
{
	if (s->compact) {
		json_write_uint(w, node == PROFILE_NONE ? s->p->stacks.frame_count
							: s->p->stacks.nodes[node].frame);
		return;
	}
	json_write_object(w);
	/* A site without a stack still has one frame that says so: readers may take stack[0]. */
	if (node == PROFILE_NONE) {
		model_json_place(w, NULL, s->p, NULL);
		write_address(w, 0, false);
	} else {
		uint32_t frame = s->p->stacks.nodes[node].frame;
		json_write_members(w, s->text + s->starts[frame],
				   s->starts[frame + 1] - s->starts[frame]);
		write_address(w, address, inlined);
		write_flags(w, s->p->stacks.nodes[node].flags);
	}
	json_write_object_end(w);
}

static void write_key(struct json_writer *w, const char *prefix, const char *name)
{
	char key[32];
	snprintf(key, sizeof key, "%s%s", prefix, name);
	json_write_key(w, key);
}

static void write_left_out(const struct json_stacks *s, struct json_writer *w, const char *prefix,
			   uint32_t node)
{
	struct stack_walk walk;
	struct stack_entry e;
	uint64_t listed = 0, at = 0, cut_at = 0, cut = 0;
	write_key(w, prefix, "depth");
	json_write_uint(w, stack_fold_depth(&s->fold, node));
	for (stack_walk_begin(&walk, &s->fold, node); stack_walk_next(&walk, &e);)
		listed++;
	write_key(w, prefix, "omitted");
	json_write_uint(w, stack_fold_depth(&s->fold, node) - listed);
	write_key(w, prefix, "recursion");
	json_write_array(w);
	for (stack_walk_begin(&walk, &s->fold, node); stack_walk_next(&walk, &e); at++) {
		if (e.cut) {
			cut_at = at + 1;
			cut = e.cut;
		}
		if (e.times < 2)
			continue;
		json_write_object(w);
		json_write_key_uint(w, "at", at);
		json_write_key_uint(w, "frames", e.cycle);
		json_write_key_uint(w, "times", e.times);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	if (!cut)
		return;
	write_key(w, prefix, "cut");
	json_write_object(w);
	json_write_key_uint(w, "at", cut_at);
	json_write_key_uint(w, "frames", cut);
	json_write_object_end(w);
}

/* The address of `node` on the recorded stack, and whether it is inlined there. *from: the caller of the
 * one before. */
static uint64_t address_at(const struct profile *p, uint32_t *from, uint32_t node, uint32_t *call,
			   bool *inlined)
{
	/* Beyond frames that are not listed a frame's own address must do: a walk through 60,000 of them for
	 * each of as many sites takes longer than anything else. */
	if (node != *from)
		*call = PROFILE_NONE;
	if (*call == PROFILE_NONE) {
		const struct profile_frame *f = &p->stacks.frames[p->stacks.nodes[node].frame];
		*inlined = f->inlined;
		return f->address;
	}
	*from = p->stacks.nodes[node].parent;
	return profile_frame_address(p, node, call, inlined);
}

/* Numbers of frames do not tell where in a function a call was. */
static void write_addresses(const struct json_stacks *s, struct json_writer *w, const char *prefix,
			    uint32_t node, uint32_t call)
{
	struct stack_walk walk;
	struct stack_entry e;
	uint32_t from = node;
	bool inlined;
	write_key(w, prefix, "addresses");
	json_write_array(w);
	for (stack_walk_begin(&walk, &s->fold, node); stack_walk_next(&walk, &e);) {
		char text[24];
		snprintf(text, sizeof text, "0x%" PRIx64,
			 address_at(s->p, &from, e.node, &call, &inlined));
		json_write_string(w, text);
	}
	json_write_array_end(w);
}

uint32_t json_stacks_write(const struct json_stacks *s, struct json_writer *w, const char *key,
			   const char *prefix, uint32_t node, uint32_t call)
{
	struct stack_walk walk;
	struct stack_entry e;
	uint32_t flags = 0, place = 0, user = 0, from = node, along = call;
	uint32_t wanted = profile_first_user_node(s->p, node);
	json_write_key(w, key);
	json_write_array(w);
	if (node == PROFILE_NONE)
		write_node(s, w, node, 0, false);
	for (stack_walk_begin(&walk, &s->fold, node); stack_walk_next(&walk, &e); place++) {
		bool inlined = false;
		uint64_t address = s->compact ? 0
					      : address_at(s->p, &from, e.node, &along, &inlined);
		write_node(s, w, e.node, address, inlined);
		flags |= s->p->stacks.nodes[e.node].flags;
		if (e.node == wanted)
			user = place;
	}
	json_write_array_end(w);
	if (s->compact && node != PROFILE_NONE)
		write_addresses(s, w, prefix, node, call);
	if (s->compact)
		write_flags(w, flags);
	if (stack_fold_applies(&s->fold, node))
		write_left_out(s, w, prefix, node);
	return user;
}

void json_stacks_write_table(const struct json_stacks *s, struct json_writer *w)
{
	struct json_stacks plain = *s;
	if (!s->compact)
		return;
	plain.compact = false;
	json_write_key(w, "frames");
	json_write_array(w);
	json_write_newline(w);
	for (uint32_t i = 0; i < s->p->stacks.frame_count; i++) {
		json_write_object(w);
		json_write_members(w, s->text + s->starts[i], s->starts[i + 1] - s->starts[i]);
		write_address(w, s->p->stacks.frames[i].address, s->p->stacks.frames[i].inlined);
		json_write_object_end(w);
		json_write_newline(w);
	}
	write_node(&plain, w, PROFILE_NONE, 0, false);
	json_write_array_end(w);
}
