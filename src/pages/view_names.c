/* Frames and places in JSON. Some compilers make names of ten thousand characters;
 * a tree of them would be larger than the recording. The page shows both ends of a
 * name, so its middle goes, and the same name is always cut the same way: a cut name
 * can be asked for again. */
#include "pages/view_names.h"

#include "profile/stack_fold.h"

#include <inttypes.h>
#include <string.h>

static const char UNKNOWN[] = "[stack unknown]";

/* The start of the character that the byte at `at` belongs to. */
static size_t character_start(const char *name, size_t at)
{
	for (int i = 0; i < 3 && at > 0 && ((unsigned char)name[at] & 0xc0) == 0x80; i++)
		at--;
	return at;
}

const char *view_cut(const struct view_query *q, const char *name, struct view_name *room)
{
	if (!name)
		return "";
	/* Far below what names have most often, so mostly a short look is enough. */
	if (strnlen(name, q->name_bytes + 1u) <= q->name_bytes)
		return name;
	size_t length = strlen(name), half = (q->name_bytes - 3u) / 2;
	size_t head = character_start(name, half);
	size_t tail = character_start(name, length - half);
	memcpy(room->text, name, head);
	memcpy(room->text + head, "...", 3);
	memcpy(room->text + head + 3, name + tail, length - tail + 1);
	return room->text;
}

void view_write_name(struct json_writer *w, const struct view_query *q, const char *key,
		     const char *name)
{
	struct view_name room;
	json_write_key_string(w, key, view_cut(q, name, &room));
}

static void write_place_members(struct json_writer *w, const struct view_query *q,
				const struct profile *p, uint32_t frame)
{
	const struct profile_frame *f = frame == PROFILE_NONE ? NULL : &p->stacks.frames[frame];
	view_write_name(w, q, "function", f ? f->function : UNKNOWN);
	view_write_name(w, q, "file", f ? f->file : NULL);
	json_write_key_uint(w, "line", f ? f->line : 0);
	view_write_name(w, q, "module",
			f && f->module < p->stacks.module_count ? profile_module_name(p, f->module)
								: "");
}

void view_write_process(struct json_writer *w, const struct view_query *q,
			const struct profile_label_set *process)
{
	const struct profile_label *number = profile_find_label(process, "number");
	const struct profile_label *program = profile_find_label(process, "program");
	json_write_object(w);
	view_write_name(w, q, "function", profile_find_label(process, PROFILE_LABEL_PROCESS)->text);
	json_write_key_string(w, "file", "");
	json_write_key_uint(w, "line", 0);
	json_write_key_string(w, "module", "");
	json_write_key_bool(w, "user", true);
	json_write_key_bool(w, "inlined", false);
	json_write_key(w, "process");
	json_write_object(w);
	if (number)
		json_write_key_int(w, "number", number->number);
	if (program)
		json_write_key_string(w, "program", program->text);
	json_write_object_end(w);
	json_write_object_end(w);
}

void view_write_frame(struct json_writer *w, const struct view_query *q, const struct profile *p,
		      uint32_t frame)
{
	json_write_object(w);
	write_place_members(w, q, p, frame);
	json_write_key_bool(w, "user", frame != PROFILE_NONE && p->stacks.frames[frame].user);
	json_write_key_bool(w, "inlined", frame != PROFILE_NONE && p->stacks.frames[frame].inlined);
	json_write_object_end(w);
}

static void write_cut(struct json_writer *w, uint32_t frames)
{
	char text[48];
	snprintf(text, sizeof text, "[%" PRIu32 " frames cut]", frames);
	json_write_object(w);
	json_write_key_string(w, "function", text);
	json_write_key_string(w, "file", "");
	json_write_key_uint(w, "line", 0);
	json_write_key_string(w, "module", "");
	json_write_key_bool(w, "user", false);
	json_write_key_bool(w, "inlined", false);
	json_write_object_end(w);
}

static uint32_t user_frame_of(const struct profile *p, uint32_t node)
{
	node = node == PROFILE_NONE ? node : profile_first_user_node(p, node);
	return node == PROFILE_NONE ? node : p->stacks.nodes[node].frame;
}

void view_write_place(struct json_writer *w, const struct view_query *q, const struct profile *p,
		      uint32_t node)
{
	json_write_object(w);
	write_place_members(w, q, p, user_frame_of(p, node));
	json_write_object_end(w);
}

void view_write_stack(struct json_writer *w, const struct view_query *q, const struct profile *p,
		      const char *key, uint32_t node)
{
	json_write_key(w, key);
	json_write_array(w);
	if (node == PROFILE_NONE)
		view_write_frame(w, q, p, PROFILE_NONE);
	uint32_t depth = 0, at = 0;
	for (uint32_t n = node; n != PROFILE_NONE; n = p->stacks.nodes[n].parent)
		depth++;
	/* A page shows no 60,000 lines: the middle of a deep stack is cut. */
	uint32_t cut = depth > STACK_MOST ? depth - STACK_LONG_SIDE - STACK_SHORT_SIDE : 0;
	for (; node != PROFILE_NONE; node = p->stacks.nodes[node].parent, at++) {
		if (at >= STACK_LONG_SIDE && at < STACK_LONG_SIDE + cut) {
			if (at == STACK_LONG_SIDE)
				write_cut(w, cut);
			continue;
		}
		view_write_frame(w, q, p, p->stacks.nodes[node].frame);
	}
	json_write_array_end(w);
}

const char *view_user_function(const struct profile *p, uint32_t node)
{
	uint32_t frame = user_frame_of(p, node);
	return frame == PROFILE_NONE ? UNKNOWN : p->stacks.frames[frame].function;
}

bool view_frame_found(const struct view_query *q, const struct profile *p, uint32_t frame)
{
	const struct profile_frame *f = &p->stacks.frames[frame];
	return !q->search || strcasestr(f->function, q->search) ||
	       (f->file && strcasestr(f->file, q->search)) ||
	       (f->module < p->stacks.module_count &&
		strcasestr(profile_module_name(p, f->module), q->search));
}
