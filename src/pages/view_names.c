/* Frames and places of the page. The page shows both ends of a long name, so its middle is cut
 * (model_json_place.c). A deep stack is cut as well: nobody reads 60,000 lines. */
#include "pages/view_names.h"

#include "profile/stack_fold.h"

#include <inttypes.h>
#include <string.h>

enum { CALLERS_SHOWN = 3 };

static const struct profile_frame *frame_of(const struct profile *p, uint32_t frame)
{
	return frame == PROFILE_NONE ? NULL : &p->stacks.frames[frame];
}

/* Members of a Frame. */
static void write_frame(struct json_writer *w, const struct view_query *q, const struct profile *p,
			const struct profile_frame *f)
{
	model_json_place(w, &q->limits, p, f);
	json_write_key_bool(w, "user", f && f->user);
	json_write_key_bool(w, "inlined", f && f->inlined);
}

void view_write_process(struct json_writer *w, const struct view_query *q,
			const struct profile_label_set *process)
{
	const struct profile_label *number = profile_find_label(process, "number");
	const struct profile_label *program = profile_find_label(process, "program");
	struct profile_frame named = {
		.function = profile_find_label(process, PROFILE_LABEL_PROCESS)->text,
		.module = PROFILE_NONE,
		.user = true,
	};
	json_write_object(w);
	write_frame(w, q, NULL, &named);
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
	write_frame(w, q, p, frame_of(p, frame));
	json_write_object_end(w);
}

static void write_cut(struct json_writer *w, const struct view_query *q, uint32_t frames)
{
	char text[48];
	struct profile_frame cut = {.function = text, .module = PROFILE_NONE};
	snprintf(text, sizeof text, "[%" PRIu32 " frames cut]", frames);
	json_write_object(w);
	write_frame(w, q, NULL, &cut);
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
	model_json_place(w, &q->limits, p, frame_of(p, user_frame_of(p, node)));
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
				write_cut(w, q, cut);
			continue;
		}
		view_write_frame(w, q, p, p->stacks.nodes[node].frame);
	}
	json_write_array_end(w);
}

const char *view_user_function(const struct profile *p, uint32_t node)
{
	uint32_t frame = user_frame_of(p, node);
	return frame == PROFILE_NONE ? "[stack unknown]" : p->stacks.frames[frame].function;
}

/* Frames of one function in a row are one caller, as a reader counts them. */
void view_write_callers(struct json_writer *w, const struct view_query *q, const struct profile *p,
			const char *key, uint32_t node)
{
	struct view_name room;
	uint32_t written = 0, looked_at = 0;
	node = node == PROFILE_NONE ? node : profile_first_user_node(p, node);
	const char *last = node == PROFILE_NONE ? NULL : view_user_function(p, node);
	json_write_key(w, key);
	json_write_array(w);
	for (; last && looked_at < STACK_MOST && written < CALLERS_SHOWN; looked_at++) {
		node = p->stacks.nodes[node].parent;
		if (node == PROFILE_NONE)
			break;
		const struct profile_frame *f = frame_of(p, p->stacks.nodes[node].frame);
		if (!f || !f->user || !strcmp(f->function, last))
			continue;
		last = f->function;
		json_write_string(w, view_cut(q, last, &room));
		written++;
	}
	json_write_array_end(w);
}

bool view_frame_found(const struct view_query *q, const struct profile *p, uint32_t frame)
{
	const struct profile_frame *f = &p->stacks.frames[frame];
	return !q->search || strcasestr(f->function, q->search) ||
	       (f->file && strcasestr(f->file, q->search)) ||
	       (f->module < p->stacks.module_count &&
		strcasestr(profile_module_name(p, f->module), q->search));
}
