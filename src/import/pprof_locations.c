/* Makes frames of the model from the locations of a pprof profile. A location with lines has its names; all
 * others are symbolised at once, by their mappings. */
#include "import/pprof_file.h"

#include "hosted/hex.h"
#include "symbol/symbol.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Makes ranges of run-time addresses from the mappings. */
static int prepare_mappings(struct pprof_file *f)
{
	struct pprof_mapping *m = f->mappings.items;
	for (uint32_t i = 0; i < f->mappings.count; i++, m++) {
		struct address_range *r = &m->range;
		const char *id = pprof_string_at(f, m->build_id);
		r->path = pprof_string_at(f, m->file);
		if (!id || !r->path)
			return HEFT_ENOMEM;
		/* Some producers write the path as the program was called; a build id says whether
		 * what is there now is that program. */
		char whole[PATH_MAX];
		if (r->path[0] && r->path[0] != '/' && strchr(r->path, '/') && id[0] &&
		    realpath(r->path, whole) && !(r->path = name_pool_add(f->p->names, whole)))
			return HEFT_ENOMEM;
		r->start = m->start;
		r->end = m->limit ? m->limit : UINT64_MAX;
		r->offset = m->offset;
		/* "All of it from 0" says that addresses are the file's own. */
		r->biased = !m->start && !m->offset && (m->limit == UINT64_MAX || !m->limit);
		size_t length = strlen(id);
		uint8_t *bytes = name_pool_alloc(f->p->names, length / 2 + 1);
		if (!bytes)
			return HEFT_ENOMEM;
		for (size_t k = 0; k + 1 < length && length <= 128 && length % 2 == 0; k += 2) {
			int high = hex_digit(id[k]), low = hex_digit(id[k + 1]);
			if (high < 0 || low < 0) { /* Go's own build ids are no ELF build ids */
				r->build_id_len = 0;
				break;
			}
			bytes[k / 2] = (uint8_t)(high << 4 | low);
			r->build_id_len = (uint32_t)(k / 2 + 1);
		}
		r->build_id = r->build_id_len ? bytes : NULL;
		if (r->start < r->end && r->path[0]) {
			int rc = address_maps_add(&f->maps, r);
			if (rc == HEFT_EFORMAT)
				return pprof_bad(f, f->data, "fewer mappings");
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

static int place_location(struct pprof_file *f, struct pprof_location *l)
{
	uint32_t mapping = l->mapping ? pprof_find(&f->mapping_ids, l->mapping) : PROFILE_NONE;
	struct pprof_mapping *m = mapping == PROFILE_NONE ? NULL : &f->mappings.items[mapping];
	if (m && m->range.path[0])
		return address_range_find(&f->maps, f->p, &m->range, l->address, &l->module,
					  &l->address);
	return m ? 0 : address_maps_find(&f->maps, f->p, l->address, &l->module, &l->address);
}

/* Makes the frames of a location that has names: lines are innermost first. */
static int name_location(struct pprof_file *f, struct pprof_location *l)
{
	const struct pprof_line *lines = l->line_count ? f->lines.items + l->first_line : NULL;
	l->first_frame = (uint32_t)f->frame_ids.count;
	for (uint32_t i = 0; i < l->line_count; i++) {
		uint32_t function = pprof_find(&f->function_ids, lines[i].function), id;
		struct profile_frame frame = {.module = l->module, .address = l->address};
		if (function == PROFILE_NONE)
			continue;
		const struct pprof_function *fn = &f->functions.items[function];
		frame.function = pprof_plain_at(f, fn->name);
		if (frame.function && !*frame.function)
			frame.function = pprof_plain_at(f, fn->system_name);
		frame.file = pprof_string_at(f, fn->file);
		if (!frame.function || !frame.file)
			return HEFT_ENOMEM;
		if (!*frame.file)
			frame.file = NULL;
		if (!*frame.function && !(frame.function = name_pool_add(f->p->names, "[unknown]")))
			return HEFT_ENOMEM;
		frame.line = lines[i].line <= INT32_MAX ? (uint32_t)lines[i].line : 0;
		frame.inlined = i + 1 < l->line_count;
		if (profile_add_frame(f->p, &frame, &id) < 0 || !vector_push(&f->frame_ids, id))
			return HEFT_ENOMEM;
	}
	l->frame_count = (uint32_t)f->frame_ids.count - l->first_frame;
	return 0;
}

/* Finds names for the locations that came without, all at once. */
static int symbolise_locations(struct pprof_file *f)
{
	struct pprof_location *l = f->locations.items;
	uint32_t count = 0, *ids = NULL;
	struct address_node *nodes = malloc((f->locations.count + 1) * sizeof *nodes);
	struct address_frames *frames = malloc((f->locations.count + 1) * sizeof *frames);
	int rc = nodes && frames ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < f->locations.count && rc == 0; i++)
		if (!l[i].frame_count)
			nodes[count++] = (struct address_node){PROFILE_NONE, l[i].module,
							       l[i].address};
	if (rc == 0 && count)
		rc = address_frames_load(f->p, nodes, count, f->in->selection, frames, &ids);
	if (rc == 0 && count) {
		uint32_t total = frames[count - 1].first + frames[count - 1].count;
		uint32_t used = (uint32_t)f->frame_ids.count;
		if (!vector_reserve(&f->frame_ids, total)) {
			rc = HEFT_ENOMEM;
		} else if (total) {
			memcpy(f->frame_ids.items + used, ids, total * sizeof *ids);
			f->frame_ids.count += total;
		}
		count = 0;
		for (uint32_t i = 0; i < f->locations.count && rc == 0; i++)
			if (!l[i].frame_count) {
				l[i].first_frame = used + frames[count].first;
				l[i].frame_count = frames[count++].count;
			}
	}
	free(ids);
	free(nodes);
	free(frames);
	return rc;
}

int pprof_locations_load(struct pprof_file *f)
{
	struct pprof_location *l = f->locations.items;
	int rc = prepare_mappings(f);
	for (uint32_t i = 0; i < f->locations.count && rc == 0; i++) {
		rc = place_location(f, &l[i]);
		if (rc == 0)
			rc = name_location(f, &l[i]);
	}
	return rc == 0 ? symbolise_locations(f) : rc;
}
