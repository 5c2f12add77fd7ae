/* Names and places in JSON. Some compilers make names of ten thousand characters, and a page full of them
 * would be larger than the recording. A reader recognises a name by its two ends, so its middle goes.
 *
 * Invariant: the same name is always cut the same way, so a cut name can be asked for again. */
#include "model_json/model_json.h"

#include <string.h>

/* The start of the character that the byte at `at` belongs to. */
static size_t character_start(const char *name, size_t at)
{
	for (int i = 0; i < 3 && at > 0 && ((unsigned char)name[at] & 0xc0) == 0x80; i++)
		at--;
	return at;
}

const char *model_json_cut(const struct model_json_limits *l, const char *name,
			   struct model_json_name *space)
{
	if (!name)
		return "";
	/* The limit is far above most names, so strnlen mostly reads a few bytes. */
	if (!l || !l->name_bytes || strnlen(name, l->name_bytes + 1u) <= l->name_bytes)
		return name;
	size_t length = strlen(name), half = (l->name_bytes - 3u) / 2;
	size_t head = character_start(name, half);
	size_t tail = character_start(name, length - half);
	memcpy(space->text, name, head);
	memcpy(space->text + head, "...", 3);
	memcpy(space->text + head + 3, name + tail, length - tail + 1);
	return space->text;
}

void model_json_key_name(struct json_writer *w, const struct model_json_limits *l, const char *key,
			 const char *name)
{
	struct model_json_name space;
	json_write_key_string(w, key, model_json_cut(l, name, &space));
}

void model_json_place(struct json_writer *w, const struct model_json_limits *l,
		      const struct profile *p, const struct profile_frame *f)
{
	static const struct profile_frame unknown = {.function = "[stack unknown]",
						     .module = PROFILE_NONE};
	const char *module = "";
	f = f ? f : &unknown;
	if (f->module != PROFILE_NONE && f->module < p->stacks.module_count)
		module = l && l->short_modules ? profile_module_name(p, f->module)
					       : p->stacks.modules[f->module].path;
	model_json_key_name(w, l, "function", f->function);
	model_json_key_name(w, l, "file", f->file);
	json_write_key_uint(w, "line", f->line);
	model_json_key_name(w, l, "module", module);
}
