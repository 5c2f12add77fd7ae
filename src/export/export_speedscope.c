/* speedscope's own file format, as its importer reads it (a JSON file with "$schema" and "shared").
 *
 * Every measure that the profile tells becomes one of speedscope's profiles, which its menu switches
 * between; the one that was asked for comes up first. At an instant there is only that one. Frames
 * are functions, as in a flame graph, with the line only where it is the same in all stacks: to
 * speedscope two lines are two functions. A stack is a sample, its measure the weight, root first,
 * greatest first: speedscope's time order is that order.
 *
 * JavaScript's numbers hold integers up to 2^53: sums of nanoseconds above that lose their last
 * digits in the viewer, bytes and counts never get there. */
#include "export/export_formats.h"
#include "export/export_names.h"

#include "hosted/json_writer.h"
#include "profile/call_tree.h"

#include <stdlib.h>
#include <string.h>

struct numbering {
	uint32_t *
		ids; /* of speedscope's frames, by function: the trees of one profile have the same; the
			  last is that of the unknown stack */
	uint32_t count;
};

static uint32_t *frame_id(const struct numbering *ids, const struct call_tree *t, uint32_t node)
{
	uint32_t function = t->nodes[node].function;
	return &ids->ids[function == PROFILE_NONE ? t->functions.count : function];
}

/* Writes the frames that the tree has and that were not written before. */
static void write_frames(struct json_writer *w, const struct call_tree *t, struct numbering *ids)
{
	for (uint32_t i = 1; i < t->count; i++) {
		uint32_t *id = frame_id(ids, t, i);
		if (*id != PROFILE_NONE)
			continue;
		*id = ids->count++;
		json_write_object(w);
		json_write_key_string(w, "name", call_tree_name(t, i));
		if (t->nodes[i].function != PROFILE_NONE) {
			const struct call_function *f = &t->functions.items[t->nodes[i].function];
			if (f->file)
				json_write_key_string(w, "file", f->file);
			if (f->line)
				json_write_key_uint(w, "line", f->line);
		}
		json_write_object_end(w);
		json_write_newline(w);
	}
}

static const char *measure_title(enum measure_id measure, const struct profile *p)
{
	switch (measure) {
	case MEASURE_PEAK_BYTES: return "live at the peak";
	case MEASURE_LIVE_BYTES:
		return p->chosen.words || profile_is_snapshot(p) ? "live" : "live at the end";
	case MEASURE_ALLOCATED_BYTES: return "allocated in all";
	case MEASURE_LIFETIME: return "sum of lifetimes";
	default: return measures[measure].state;
	}
}

static const char *unit_name(enum measure_id measure)
{
	const char *unit = measure_unit_name(measure);
	return strcmp(unit, "ns") == 0 ? "nanoseconds" : strcmp(unit, "count") == 0 ? "none" : unit;
}

static void write_profile(struct json_writer *w, const struct profile *p, const struct call_tree *t,
			  enum measure_id measure, const struct numbering *ids, uint32_t *path)
{
	json_write_object(w);
	json_write_key_string(w, "type", "sampled");
	json_write_key_string(w, "name", measure_title(measure, p));
	json_write_key_string(w, "unit", unit_name(measure));
	json_write_key_uint(w, "startValue", 0);
	json_write_key_uint(w, "endValue", t->nodes[0].total);
	json_write_key(w, "samples");
	json_write_array(w);
	for (uint32_t i = 1; i < t->count; i++) {
		size_t depth = 0;
		if (!t->nodes[i].self)
			continue;
		for (uint32_t n = i; n; n = t->nodes[n].parent)
			path[depth++] = *frame_id(ids, t, n);
		json_write_array(w);
		while (depth)
			json_write_uint(w, path[--depth]);
		json_write_array_end(w);
		json_write_newline(w);
	}
	json_write_array_end(w);
	json_write_key(w, "weights");
	json_write_array(w);
	for (uint32_t i = 1; i < t->count; i++)
		if (t->nodes[i].self)
			json_write_uint(w, t->nodes[i].self);
	json_write_array_end(w);
	json_write_object_end(w);
	json_write_newline(w);
}

/* The command in one string. */
static char *command_line(const struct profile *p)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	for (uint32_t i = 0; i < p->run.argc; i++)
		fprintf(out, "%s%s", i ? " " : "", p->run.argv[i]);
	return fclose(out) == 0 ? text : NULL;
}

static bool is_instant(const struct profile *p)
{
	return p->chosen.words && p->chosen.from_ns == p->chosen.to_ns;
}

static int choose(const struct profile *p, const struct export_options *o,
		  enum measure_id chosen[MEASURE_COUNT])
{
	int count = 0;
	for (enum measure_id m = 0; m < MEASURE_COUNT; m++) {
		bool useful = measure_is_compared(m) && m != MEASURE_LIFETIME && !is_instant(p) &&
			      (m != MEASURE_LEFT_BYTES || profile_is_of_several(p)) &&
			      measure_known(p, m);
		/* --at exit: what is live is what was left, and no number of the end. */
		bool taken = m == MEASURE_LIVE_BYTES && o->measure == MEASURE_LEFT_BYTES &&
			     o->live_then;
		if (m == o->measure || (useful && !taken))
			chosen[count++] = m;
	}
	return count;
}

int export_speedscope(FILE *out, const struct profile *p, const struct export_options *o,
		      struct heft_error *err)
{
	enum measure_id chosen[MEASURE_COUNT];
	struct call_tree trees[MEASURE_COUNT];
	int count = choose(p, o, chosen), made = 0, rc = 0;
	uint32_t most = 0;
	struct numbering ids = {0};
	uint32_t *path = NULL;
	char *command = command_line(p);
	struct json_writer w;
	for (; made < count && rc == 0; made++) {
		rc = call_tree_of(&trees[made], p, chosen[made], 0);
		if (rc == 0 && trees[made].count > most)
			most = trees[made].count;
	}
	made -= rc < 0; /* the last one failed and holds nothing */
	path = malloc(((size_t)most + 1) * sizeof *path);
	uint32_t functions = made ? trees[0].functions.count : 0;
	ids.ids = malloc(((size_t)functions + 1) * sizeof *ids.ids);
	if (rc < 0 || !ids.ids || !path || !command) {
		rc = heft_fail(err, HEFT_ENOMEM, "not enough memory to write the stacks");
		goto out;
	}
	for (uint32_t i = 0; i <= functions; i++)
		ids.ids[i] = PROFILE_NONE;
	json_write_init(&w, out);
	json_write_object(&w);
	json_write_key_string(&w, "$schema", "https://www.speedscope.app/file-format-schema.json");
	json_write_key_string(&w, "exporter", "heft@" HEFT_VERSION);
	json_write_key_string(&w, "name", o->title ? o->title : command);
	for (int i = 0; i < count; i++)
		if (chosen[i] == o->measure)
			json_write_key_uint(&w, "activeProfileIndex", (uint64_t)i);
	json_write_key(&w, "shared");
	json_write_object(&w);
	json_write_key(&w, "frames");
	json_write_array(&w);
	for (int i = 0; i < count; i++)
		write_frames(&w, &trees[i], &ids);
	json_write_array_end(&w);
	json_write_object_end(&w);
	json_write_key(&w, "profiles");
	json_write_array(&w);
	for (int i = 0; i < count; i++)
		write_profile(&w, p, &trees[i], chosen[i], &ids, path);
	json_write_array_end(&w);
	json_write_object_end(&w);
	json_write_newline(&w);
out:
	while (made > 0)
		call_tree_fini(&trees[--made]);
	free(command);
	free(path);
	free(ids.ids);
	return rc;
}
