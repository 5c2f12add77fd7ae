/* The document "sizes": blocks by requested size, and what rounding them up costs. */
#include "pages/view_documents.h"

#include "hosted/json_writer.h"

static void write_size(struct json_writer *w, const struct profile_size *s)
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
	json_write_key_uint(w, "liveBlocks", s->live_blocks);
	json_write_key_uint(w, "liveBytes", s->live_bytes);
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
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key(&w, "rows");
	json_write_array(&w);
	for (uint32_t i = 0; i < part->p->size_count; i++)
		write_size(&w, &part->p->sizes[i]);
	json_write_array_end(&w);
	json_write_object_end(&w);
	view_part_drop(part);
	return 0;
}
