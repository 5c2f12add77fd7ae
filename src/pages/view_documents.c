/* The list of documents by the names that stand in addresses, and the document "recordings", which is of
 * all that are open. */
#include "pages/view_documents.h"

#include <string.h>

const struct view_document_entry view_document_list[] = {
	{"summary", view_summary},     {"timeline", view_timeline},   {"tree", view_tree},
	{"sandwich", view_sandwich},   {"sites", view_sites},         {"site", view_site},
	{"functions", view_functions}, {"files", view_files},         {"source", view_source},
	{"sizes", view_sizes},         {"lifetimes", view_lifetimes}, {"threads", view_threads},
	{"ledger", view_ledger},       {"remarks", view_remarks},     {NULL, NULL},
};

view_document *view_document_find(const char *name)
{
	for (const struct view_document_entry *e = view_document_list; e->name; e++)
		if (strcmp(e->name, name) == 0)
			return e->write;
	return NULL;
}

void view_recordings(FILE *out, struct view_recording *const *recordings, uint32_t count, bool live)
{
	struct json_writer w;
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_string(&w, "heft", HEFT_VERSION);
	json_write_key(&w, "recordings");
	json_write_array(&w);
	for (uint32_t i = 0; i < count; i++) {
		const struct view_part *part;
		view_recording_whole(recordings[i], &part, NULL);
		json_write_object(&w);
		json_write_key_string(&w, "id", view_recording_id(recordings[i]));
		json_write_key_string(&w, "name", view_recording_name(recordings[i]));
		json_write_key_string(&w, "format", part->p->run.format);
		json_write_key_bool(&w, "live", live && part->live);
		json_write_object_end(&w);
		view_part_drop(part);
	}
	json_write_array_end(&w);
	json_write_object_end(&w);
}
