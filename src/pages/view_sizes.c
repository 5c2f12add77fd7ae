/* The document "sizes": blocks by requested size, and what rounding them up costs. They are counted
 * over all call stacks, so a filter over functions does not change them; the document says so. */
#include "pages/view_documents.h"
#include "pages/view_measure.h"

/* left: what processes left at their exits stands for what is live. */
static void write_size(struct json_writer *w, const struct profile_size *s, bool left)
{
	struct profile_size shown = *s;
	if (left) {
		shown.live_bytes = s->left_bytes;
		shown.live_blocks = s->left_blocks;
	}
	model_json_size(w, &shown);
}

int view_sizes(FILE *out, struct view_recording *r, const struct view_query *q,
	       struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct json_writer w;
	int rc = view_recording_part(r, q, VIEW_SIZES, &part, err);
	if (rc < 0)
		return rc;
	/* At an instant processes have not left anything yet. */
	bool left = q->at != VIEW_AT_TIME && view_left_bytes(q, part->p) == MEASURE_LEFT_BYTES;
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_string(&w, "words",
			      q->focus || q->ignore
				      ? "Sizes count all call stacks: the filter does "
					"not apply here."
				      : "");
	json_write_key(&w, "rows");
	json_write_array(&w);
	for (uint32_t i = 0; i < part->p->behaviour.size_count; i++)
		write_size(&w, &part->p->behaviour.sizes[i], left);
	json_write_array_end(&w);
	json_write_object_end(&w);
	view_part_drop(part);
	return 0;
}
