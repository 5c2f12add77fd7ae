/* Names of places as the page's documents have them: frames, first user frames, cut where they are
 * longer than anybody reads. */
#ifndef HEFT_PAGES_VIEW_NAMES_H
#define HEFT_PAGES_VIEW_NAMES_H

#include "pages/view_query.h"

struct view_name {
	struct model_json_name name;
};
/* The name itself, or a copy in *room without its middle. NULL is "". */
static inline const char *view_cut(const struct view_query *q, const char *name,
				   struct view_name *room)
{
	return model_json_cut(&q->limits, name, &room->name);
}
/* A Frame; PROFILE_NONE: of a stack that is not known. */
void view_write_frame(struct json_writer *w, const struct view_query *q, const struct profile *p,
		      uint32_t frame);
/* A Frame that stands for a process, or several. */
void view_write_process(struct json_writer *w, const struct view_query *q,
			const struct profile_label_set *process);
/* The Place of the first user frame above the node. */
void view_write_place(struct json_writer *w, const struct view_query *q, const struct profile *p,
		      uint32_t node);
/* "key": the stack as Frames, innermost first. */
void view_write_stack(struct json_writer *w, const struct view_query *q, const struct profile *p,
		      const char *key, uint32_t node);
/* "key": names of the nearest functions of the user's own code that call the first user frame. */
void view_write_callers(struct json_writer *w, const struct view_query *q, const struct profile *p,
			const char *key, uint32_t node);
/* Whether what is searched for (in any case of letters) is in the frame's function, file or module.
 * Nothing searched for is in all. */
bool view_frame_found(const struct view_query *q, const struct profile *p, uint32_t frame);
/* The function of the first user frame above the node, never NULL. */
const char *view_user_function(const struct profile *p, uint32_t node);

#endif
