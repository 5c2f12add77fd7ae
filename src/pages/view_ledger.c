/* The document "ledger": from requested bytes to resident memory. Recordings do not
 * hold all of its bands; what they do hold are the two ends and what rounding costs,
 * at the peak of each. The page shows these and says what is missing. */
#include "pages/view_documents.h"

#include "hosted/json_writer.h"

static void write_band(struct json_writer *w, const char *name, uint64_t bytes, const char *words)
{
	json_write_object(w);
	json_write_key_string(w, "name", name);
	json_write_key_uint(w, "bytes", bytes);
	json_write_key_string(w, "words", words);
	json_write_object_end(w);
}

int view_ledger(FILE *out, struct view_recording *r, const struct view_query *q,
		struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct json_writer w;
	int rc = view_recording_processes(r, q, &part, err);
	if (rc < 0)
		return rc;
	const struct profile *p = part->p;
	const struct profile_totals *t = &p->totals;
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_string(
		&w, "words",
		"This recording has no breakdown of resident memory. The memory between the heap "
		"and RSS is free memory that the allocator keeps, program files, stacks and "
		"mappings.");
	json_write_key(&w, "rows");
	json_write_array(&w);
	if (p->run.has & PROFILE_HAS_PEAK)
		write_band(&w, "requested", t->peak_bytes, "live at the peak of the heap");
	if (p->run.has & PROFILE_HAS_USABLE)
		write_band(&w, "rounding", t->peak_slack_bytes, "what the allocator added to that");
	json_write_array_end(&w);
	json_write_key_uint(&w, "rss_bytes", t->peak_rss_bytes);
	json_write_object_end(&w);
	view_part_drop(part);
	return 0;
}
