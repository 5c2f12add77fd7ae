/* The document "remarks": what the program said while it was recorded (heft.h), of the chosen processes, in the window if
 * there is one. A program may say a million things: of long lists the page gets the beginning, and how many there are. */
#include "pages/view_documents.h"

enum { MOST_ENTRIES = 1000 };

int view_remarks(FILE *out, struct view_recording *r, const struct view_query *q,
		 struct heft_error *err)
{
	const bool window = q->mode != VIEW_LIVE && (q->has_from || q->has_to);
	const struct view_part *part = NULL;
	struct model_json_limits limits = q->limits;
	struct json_writer w;
	int rc = window ? view_recording_part(r, q, VIEW_NO_SIZES, &part, err)
			: view_recording_processes(r, q, &part, err);
	if (rc < 0)
		return rc;
	if (!limits.entries || limits.entries > MOST_ENTRIES)
		limits.entries = MOST_ENTRIES;
	json_write_init(&w, out);
	json_write_object(&w);
	model_json_remarks(&w, &limits, part->p);
	json_write_object_end(&w);
	view_part_drop(part);
	return 0;
}
