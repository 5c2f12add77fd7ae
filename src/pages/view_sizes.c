/* The document "sizes": blocks by requested size, and what rounding them up costs. They are counted
 * over all call stacks, so a filter over functions does not change them; the document says so. */
#include "pages/view_documents.h"
#include "pages/view_measure.h"

#include "hosted/json_writer.h"

static void write_size(struct json_writer *w, const struct profile_size *s, bool left)
{
	json_write_object(w);
	json_write_key_uint(w, "low", s->low_bytes);
	json_write_key_uint(w, "high", s->high_bytes);
	json_write_key_uint(w, "allocations", s->allocations);
	json_write_key_uint(w, "allocatedBytes", s->allocated_bytes);
	json_write_key_uint(w, "slackBytes", s->slack_bytes);
	json_write_key_uint(w, "peakBlocks", s->peak_blocks);
	json_write_key_uint(w, "peakBytes", s->peak_bytes);
	json_write_key_uint(w, "peakSlackBytes", s->peak_slack_bytes);
	json_write_key_uint(w, "liveBlocks", left ? s->left_blocks : s->live_blocks);
	json_write_key_uint(w, "liveBytes", left ? s->left_bytes : s->live_bytes);
	json_write_object_end(w);
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
			      q->focus || q->ignore ? "Sizes are counted over all call stacks: the "
						      "filter does not apply to them."
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
