/* pprof (profile.proto) of any producer.
 *
 * The message is read twice where it stands: once for the tables (strings, mappings,
 * functions, locations, which may come in any order), once for the samples. Which number
 * of a sample is which is told by the sample types' names, as producers agree on them;
 * values are estimates already and are not scaled again. A location with lines has its
 * names; one without is symbolised here by its mapping.
 *
 * Labels make a site of their own, except Go's "bytes" (the size of one object): it would
 * split every stack by sizes, and the two numbers it is derived from are there.
 *
 * Bounds: MAX_FILE bytes of message, MAX_TABLE entries of a table, all indices checked. */
#include "import/import_formats.h"
#include "import/address_maps.h"
#include "import/import_sites.h"
#include "import/protobuf_scan.h"
#include "import/import_source.h"
#include "symbol/symbol.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_FILE = 512 << 20,
	MAX_TABLE = 1 << 24,
	MAX_TYPES = 64,
	MAX_LABELS = 256,
	MAX_DEPTH = 1 << 16,
};

enum measure {
	LIVE_BYTES,
	LIVE_BLOCKS,
	BYTES,
	BLOCKS,
	PEAK_BYTES,
	PEAK_BLOCKS,
	OWN_PEAK_BYTES,
	TEMPORARY,
	LIFETIME_NS, /* sum */
	MEASURES
};

/* By the names that producers give them; '-' counts as '_'. */
static const struct {
	const char *name;
	enum measure measure;
} type_names[] = {
	{"inuse_space", LIVE_BYTES},
	{"inuse_objects", LIVE_BLOCKS}, /* Go and its followers */
	{"alloc_space", BYTES},
	{"alloc_objects", BLOCKS},
	{"space", LIVE_BYTES},
	{"objects", LIVE_BLOCKS}, /* tcmalloc, converted heap text */
	{"live_space", LIVE_BYTES},
	{"live_objects", LIVE_BLOCKS},
	{"heap_live_size", LIVE_BYTES},
	{"heap_live_samples", LIVE_BLOCKS}, /* Datadog */
	{"alloc_size", BYTES},
	{"alloc_samples", BLOCKS},
	{"peak_space", PEAK_BYTES},
	{"peak_objects", PEAK_BLOCKS}, /* heft, tcmalloc's peakheap */
	{"own_peak_space", OWN_PEAK_BYTES},
	{"temporary_objects", TEMPORARY},
	{"lifetime", LIFETIME_NS},
};

struct span {
	uint32_t offset, length;
};

struct pprof_function {
	uint64_t id;
	uint64_t name, system_name, file;
};

struct pprof_line {
	uint64_t function;
	uint64_t line;
};

struct pprof_location {
	uint64_t id, mapping, address;
	uint32_t first_line, line_count;
	uint32_t first_frame, frame_count; /* in frame_ids */
	uint32_t module;
};

struct pprof_mapping {
	uint64_t id;
	uint64_t start, limit, offset, file, build_id;
	struct address_range range;
};

struct table {
	void *items;
	uint32_t count, capacity;
	size_t element;
	uint32_t *slots; /* by id: index + 1 */
	uint32_t mask;
};

struct pprof_file {
	struct profile *p;
	struct import_source *in;
	struct heft_error *err;
	const uint8_t *data;
	size_t length;
	struct table strings, functions, locations, mappings, lines;
	struct address_maps maps;
	uint32_t *frame_ids;
	struct {
		uint64_t type, unit;
	} types[MAX_TYPES], period_type;
	uint32_t type_count;
	int measure_of[MAX_TYPES]; /* -1: of no interest */
	int64_t time_ns, duration_ns, period;
	bool heft, vias_unknown; /* made by heft; of a file that does not tell `via` */
	/* the sample at hand */
	uint64_t ids[MAX_DEPTH];
	uint32_t id_count;
	int64_t values[MAX_TYPES];
	uint32_t value_count;
	struct profile_label labels[MAX_LABELS];
	uint32_t label_count;
	uint32_t via; /* PROFILE_VIA_UNKNOWN: not said */
};

/* Which wire types the fields of the top message have: 1 << wire. */
static const uint8_t top_fields[] = {
	[1] = 4, [2] = 4,  [3] = 4,  [4] = 4,  [5] = 4,      [6] = 4,  [7] = 1,  [8] = 1,
	[9] = 1, [10] = 1, [11] = 4, [12] = 1, [13] = 1 | 4, [14] = 1, [15] = 1,
};

bool import_pprof_recognise(const uint8_t *head, size_t length)
{
	struct protobuf_scan s = {head, head + length};
	struct protobuf_field f;
	bool whole = length < IMPORT_HEAD_BYTES;
	uint32_t seen = 0;
	int rc;
	for (;;) {
		const uint8_t *at = s.at;
		rc = protobuf_next(&s, &f);
		if (rc == 0)
			return seen & (1 << 1 | 1 << 2);
		if (rc < 0) {
			/* The last one may go on beyond the head: its tag must do. */
			uint64_t tag;
			struct protobuf_scan rest = {at, s.end};
			if (whole || !protobuf_varint(&rest, &tag))
				return false;
			f.number = (uint32_t)(tag >> 3);
			f.wire = (uint32_t)(tag & 7);
			return tag < 128 && f.number < sizeof top_fields && f.number &&
			       (top_fields[f.number] & 1 << f.wire) &&
			       (seen & (1 << 1 | 1 << 2) || (f.number == 2 && at == head));
		}
		if (f.number >= sizeof top_fields || !(top_fields[f.number] & 1 << f.wire))
			return false;
		seen |= 1u << f.number;
	}
}

static int bad(struct pprof_file *f, const uint8_t *at, const char *what)
{
	return import_fail(f->in, (uint64_t)(at - f->data), f->err, "expected %s", what);
}

static int push(struct pprof_file *f, struct table *t, const void *item, const uint8_t *at)
{
	if (t->count == t->capacity) {
		uint32_t capacity = t->capacity ? t->capacity * 2 : 256;
		if (capacity > MAX_TABLE)
			return bad(f, at, "fewer entries in a table of the profile");
		void *items = realloc(t->items, (size_t)capacity * t->element);
		if (!items)
			return HEFT_ENOMEM;
		t->items = items;
		t->capacity = capacity;
	}
	memcpy((char *)t->items + (size_t)t->count * t->element, item, t->element);
	t->count++;
	return 0;
}

/* Entries of a table begin with their id. */
static uint64_t id_of(const struct table *t, uint32_t index)
{
	uint64_t id;
	memcpy(&id, (const char *)t->items + (size_t)index * t->element, sizeof id);
	return id;
}

static uint32_t slot_of(const struct table *t, uint64_t id)
{
	uint32_t at = (uint32_t)((id * 0x9e3779b97f4a7c15u) >> 32) & t->mask;
	while (t->slots[at] && id_of(t, t->slots[at] - 1) != id)
		at = (at + 1) & t->mask;
	return at;
}

static int index_table(struct table *t)
{
	uint32_t mask = 15;
	while (mask < t->count * 2)
		mask = mask * 2 + 1;
	t->slots = calloc((size_t)mask + 1, sizeof *t->slots);
	if (!t->slots)
		return HEFT_ENOMEM;
	t->mask = mask;
	for (uint32_t i = 0; i < t->count; i++)
		t->slots[slot_of(t, id_of(t, i))] = i + 1;
	return 0;
}

/* NULL: there is none. Producers number from 1 in order, so that is tried first. */
static void *find(const struct table *t, uint64_t id)
{
	uint32_t index;
	if (id && id <= t->count && id_of(t, (uint32_t)id - 1) == id) {
		index = (uint32_t)id;
	} else {
		index = t->slots[slot_of(t, id)];
		if (!index)
			return NULL;
	}
	return (char *)t->items + (size_t)(index - 1) * t->element;
}

/* A string of the table, in the profile's names; NULL: no memory. One that is not there is "". */
static const char *string_at(struct pprof_file *f, uint64_t index)
{
	if (index >= f->strings.count)
		return name_pool_add_n(f->p->names, "", 0);
	struct span s = ((struct span *)f->strings.items)[index];
	const char *text = (const char *)f->data + s.offset;
	return name_pool_add_n(f->p->names, text, strnlen(text, s.length));
}

static bool string_is(const struct pprof_file *f, uint64_t index, const char *text)
{
	if (index >= f->strings.count)
		return false;
	struct span s = ((struct span *)f->strings.items)[index];
	return s.length == strlen(text) && !memcmp(f->data + s.offset, text, s.length);
}

/* Field values of a message by number, for messages of plain numbers. */
static int read_numbers(struct pprof_file *f, struct protobuf_scan s, uint64_t *values,
			uint32_t count, const char *what)
{
	struct protobuf_field field;
	int rc;
	while ((rc = protobuf_next(&s, &field)) == 1)
		if (field.number < count && field.wire == 0)
			values[field.number] = field.value;
	return rc < 0 ? bad(f, s.at, what) : 0;
}

static int read_location(struct pprof_file *f, struct protobuf_scan s)
{
	struct pprof_location l = {.first_line = f->lines.count, .module = PROFILE_NONE};
	struct protobuf_field field;
	const uint8_t *start = s.at;
	int rc;
	while ((rc = protobuf_next(&s, &field)) == 1) {
		if (field.number == 1 && field.wire == 0)
			l.id = field.value;
		else if (field.number == 2 && field.wire == 0)
			l.mapping = field.value;
		else if (field.number == 3 && field.wire == 0)
			l.address = field.value;
		else if (field.number == 4 && field.wire == 2) {
			uint64_t v[3] = {0};
			rc = read_numbers(f, field.bytes, v, 3, "a line of a location");
			struct pprof_line line = {v[1], v[2]};
			if (rc == 0)
				rc = push(f, &f->lines, &line, start);
			if (rc < 0)
				return rc;
			l.line_count++;
		}
	}
	return rc < 0 ? bad(f, s.at, "a location") : push(f, &f->locations, &l, start);
}

static int read_table_entry(struct pprof_file *f, const struct protobuf_field *field)
{
	uint64_t v[8] = {0};
	struct protobuf_scan bytes = field->bytes;
	int rc;
	switch (field->number) {
	case 1:
	case 11:
		rc = read_numbers(f, bytes, v, 3, "a value type");
		if (rc < 0)
			return rc;
		if (field->number == 11) {
			f->period_type.type = v[1];
			f->period_type.unit = v[2];
			return 0;
		}
		if (f->type_count == MAX_TYPES)
			return bad(f, bytes.at, "fewer sample types");
		f->types[f->type_count].type = v[1];
		f->types[f->type_count++].unit = v[2];
		return 0;
	case 3:
		rc = read_numbers(f, bytes, v, 7, "a mapping");
		struct pprof_mapping m = {.id = v[1],
					  .start = v[2],
					  .limit = v[3],
					  .offset = v[4],
					  .file = v[5],
					  .build_id = v[6]};
		return rc < 0 ? rc : push(f, &f->mappings, &m, bytes.at);
	case 4:
		return read_location(f, bytes);
	case 5:
		rc = read_numbers(f, bytes, v, 5, "a function");
		struct pprof_function fn = {v[1], v[2], v[3], v[4]};
		return rc < 0 ? rc : push(f, &f->functions, &fn, bytes.at);
	case 6: {
		struct span s = {(uint32_t)(bytes.at - f->data), (uint32_t)(bytes.end - bytes.at)};
		return push(f, &f->strings, &s, bytes.at);
	}
	default:
		return 0;
	}
}

static int read_tables(struct pprof_file *f)
{
	struct protobuf_scan s = {f->data, f->data + f->length};
	struct protobuf_field field;
	int rc;
	while ((rc = protobuf_next(&s, &field)) == 1) {
		if (field.number >= sizeof top_fields)
			continue;
		if (!(top_fields[field.number] & 1 << field.wire))
			return bad(f, s.at, "a field of a pprof profile");
		if (field.wire == 2 && field.number != 2)
			rc = read_table_entry(f, &field);
		else if (field.number == 9)
			f->time_ns = (int64_t)field.value;
		else if (field.number == 10)
			f->duration_ns = (int64_t)field.value;
		else if (field.number == 12)
			f->period = (int64_t)field.value;
		if (rc < 0)
			return rc;
	}
	if (rc < 0)
		return bad(f, s.at, "a field of a pprof profile, or the file was cut");
	rc = index_table(&f->functions);
	if (rc == 0)
		rc = index_table(&f->locations);
	return rc == 0 ? index_table(&f->mappings) : rc;
}

static bool unit_fits(const struct pprof_file *f, uint64_t unit, enum measure measure)
{
	bool bytes = measure == LIVE_BYTES || measure == BYTES || measure == PEAK_BYTES ||
		     measure == OWN_PEAK_BYTES;
	if (measure == LIFETIME_NS)
		return string_is(f, unit, "nanoseconds");
	if (bytes)
		return string_is(f, unit, "bytes") || string_is(f, unit, "byte");
	return string_is(f, unit, "count") || string_is(f, unit, "objects") ||
	       string_is(f, unit, "") || string_is(f, unit, "samples");
}

static int measure_of(struct pprof_file *f, uint32_t type)
{
	char name[64];
	const char *given = string_at(f, f->types[type].type);
	if (!given || strlen(given) >= sizeof name)
		return -1;
	strcpy(name, given);
	for (char *c = name; *c; c++)
		if (*c == '-')
			*c = '_';
	for (size_t i = 0; i < sizeof type_names / sizeof *type_names; i++)
		if (!strcmp(type_names[i].name, name) &&
		    unit_fits(f, f->types[type].unit, type_names[i].measure))
			return (int)type_names[i].measure;
	return -1;
}

static int choose_types(struct pprof_file *f)
{
	char words[400] = "";
	uint32_t seen = 0;
	for (uint32_t i = 0; i < f->type_count; i++) {
		int m = f->measure_of[i] = measure_of(f, i);
		if (m >= 0 && (seen & 1u << m))
			f->measure_of[i] = -1; /* the first one counts */
		else if (m >= 0)
			seen |= 1u << m;
		const char *type = string_at(f, f->types[i].type);
		const char *unit = string_at(f, f->types[i].unit);
		if (!type || !unit)
			return HEFT_ENOMEM;
		size_t used = strlen(words);
		snprintf(words + used, sizeof words - used, "%s%.60s/%.20s", i ? ", " : "", type,
			 unit);
	}
	if (!seen)
		return import_fail(f->in, 0, f->err,
				   "expected a heap profile with a sample type such as "
				   "inuse_space/bytes; this has %s",
				   f->type_count ? words : "none");
	f->p->has = 0;
	if (seen & (1u << LIVE_BYTES | 1u << LIVE_BLOCKS))
		f->p->has |= PROFILE_HAS_LIVE;
	if (!(seen & (1u << LIVE_BLOCKS | 1u << PEAK_BLOCKS | 1u << BLOCKS)))
		f->p->has |= PROFILE_LACKS_BLOCKS;
	if (seen & (1u << BYTES | 1u << BLOCKS))
		f->p->has |= PROFILE_HAS_ALLOCATED;
	if (seen & (1u << PEAK_BYTES | 1u << PEAK_BLOCKS))
		f->p->has |= PROFILE_HAS_PEAK;
	if (seen & 1u << OWN_PEAK_BYTES)
		f->p->has |= PROFILE_HAS_OWN_PEAK;
	if (seen & 1u << TEMPORARY)
		f->p->has |= PROFILE_HAS_TEMPORARY;
	if ((seen & 1u << LIFETIME_NS) && (seen & 1u << BLOCKS))
		f->p->has |= PROFILE_HAS_MEAN_LIFETIME;
	return 0;
}

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Mappings as ranges of run-time addresses. */
static int prepare_mappings(struct pprof_file *f)
{
	struct pprof_mapping *m = f->mappings.items;
	for (uint32_t i = 0; i < f->mappings.count; i++, m++) {
		struct address_range *r = &m->range;
		const char *id = string_at(f, m->build_id);
		r->path = string_at(f, m->file);
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
			int high = digit(id[k]), low = digit(id[k + 1]);
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
				return bad(f, f->data, "fewer mappings");
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

static int place_location(struct pprof_file *f, struct pprof_location *l)
{
	struct pprof_mapping *m = l->mapping ? find(&f->mappings, l->mapping) : NULL;
	if (m && m->range.path[0])
		return address_range_find(&f->maps, f->p, &m->range, l->address, &l->module,
					  &l->address);
	return m ? 0 : address_maps_find(&f->maps, f->p, l->address, &l->module, &l->address);
}

/* Frames of a location that has names: lines are innermost first. */
static int name_location(struct pprof_file *f, struct pprof_location *l, uint32_t *at)
{
	const struct pprof_line *lines =
		l->line_count ? (const struct pprof_line *)f->lines.items + l->first_line : NULL;
	l->first_frame = *at;
	for (uint32_t i = 0; i < l->line_count; i++) {
		const struct pprof_function *fn = find(&f->functions, lines[i].function);
		struct profile_frame frame = {.module = l->module, .address = l->address};
		if (!fn)
			continue;
		frame.function = string_at(f, fn->name);
		if (frame.function && !*frame.function)
			frame.function = string_at(f, fn->system_name);
		if (frame.function)
			frame.function = symbol_demangle(f->p->names, frame.function);
		frame.file = string_at(f, fn->file);
		if (!frame.function || !frame.file)
			return HEFT_ENOMEM;
		if (!*frame.file)
			frame.file = NULL;
		if (!*frame.function && !(frame.function = name_pool_add(f->p->names, "[unknown]")))
			return HEFT_ENOMEM;
		frame.line = lines[i].line <= INT32_MAX ? (uint32_t)lines[i].line : 0;
		frame.inlined = i + 1 < l->line_count;
		if (profile_add_frame(f->p, &frame, &f->frame_ids[*at]) < 0)
			return HEFT_ENOMEM;
		++*at;
	}
	l->frame_count = *at - l->first_frame;
	return 0;
}

/* Names for the locations that came without, all at once. */
static int symbolise_locations(struct pprof_file *f, uint32_t used)
{
	struct pprof_location *l = f->locations.items;
	uint32_t count = 0, *ids = NULL;
	struct address_node *nodes = malloc(((size_t)f->locations.count + 1) * sizeof *nodes);
	struct address_frames *frames = malloc(((size_t)f->locations.count + 1) * sizeof *frames);
	int rc = nodes && frames ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; i < f->locations.count && rc == 0; i++)
		if (!l[i].frame_count)
			nodes[count++] =
				(struct address_node){PROFILE_NONE, l[i].module, l[i].address};
	if (rc == 0 && count)
		rc = address_frames_load(f->p, nodes, count, f->in->selection, frames, &ids);
	if (rc == 0 && count) {
		uint32_t total = frames[count - 1].first + frames[count - 1].count;
		uint32_t *bigger =
			realloc(f->frame_ids, ((size_t)used + total + 1) * sizeof *bigger);
		rc = bigger ? 0 : HEFT_ENOMEM;
		if (bigger) {
			f->frame_ids = bigger;
			memcpy(bigger + used, ids, total * sizeof *ids);
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

static int load_locations(struct pprof_file *f)
{
	struct pprof_location *l = f->locations.items;
	uint32_t used = 0;
	int rc = prepare_mappings(f);
	f->frame_ids = malloc(((size_t)f->lines.count + 1) * sizeof *f->frame_ids);
	if (rc == 0 && !f->frame_ids)
		rc = HEFT_ENOMEM;
	for (uint32_t i = 0; i < f->locations.count && rc == 0; i++) {
		rc = place_location(f, &l[i]);
		if (rc == 0)
			rc = name_location(f, &l[i], &used);
	}
	return rc == 0 ? symbolise_locations(f, used) : rc;
}

static bool keep_id(void *ctx, uint64_t value)
{
	struct pprof_file *f = ctx;
	if (f->id_count == MAX_DEPTH)
		return false;
	f->ids[f->id_count++] = value;
	return true;
}

static bool keep_value(void *ctx, uint64_t value)
{
	struct pprof_file *f = ctx;
	if (f->value_count < MAX_TYPES)
		f->values[f->value_count] = (int64_t)value;
	f->value_count++;
	return true;
}

static int read_label(struct pprof_file *f, struct protobuf_scan s)
{
	uint64_t v[5] = {0};
	int rc = read_numbers(f, s, v, 5, "a label");
	if (rc < 0)
		return rc;
	if (string_is(f, v[1], "bytes") && !v[2])
		return 0;
	if (string_is(f, v[1], "via")) /* heft's own: the allocation function */
		for (uint32_t via = 0; via <= PROFILE_VIA_UNKNOWN; via++)
			if (string_is(f, v[2], profile_via_name(via))) {
				f->via = via;
				return 0;
			}
	if (f->label_count == MAX_LABELS)
		return bad(f, s.at, "fewer labels of a sample");
	struct profile_label *l = &f->labels[f->label_count++];
	*l = (struct profile_label){.key = string_at(f, v[1]), .number = (int64_t)v[3]};
	if (v[2])
		l->text = string_at(f, v[2]);
	else if (v[4])
		l->unit = string_at(f, v[4]);
	return l->key && (!v[2] || l->text) && (v[2] || !v[4] || l->unit) ? 0 : HEFT_ENOMEM;
}

/* The addresses of the sample at hand, if it is the first of its site. */
static int keep_calls(struct pprof_file *f, uint32_t site)
{
	uint32_t node = PROFILE_NONE, call = PROFILE_NONE;
	int rc = 0;
	if (!f->p->keep_calls || f->p->sites[site].call != PROFILE_NONE)
		return 0;
	for (uint32_t i = f->id_count; i-- > 0 && rc == 0;) {
		const struct pprof_location *l = find(&f->locations, f->ids[i]);
		for (uint32_t k = l->frame_count; k-- > 0 && rc == 0;) /* they are all there */
			rc = profile_add_node(f->p, node, f->frame_ids[l->first_frame + k], 0,
					      &node);
		if (rc == 0 && l->frame_count)
			rc = profile_add_call(f->p, call, node, l->address, &call);
	}
	if (rc == 0)
		import_keep_call(f->p, site, node, call);
	return rc;
}

/* The sample at hand, into its site. */
static int add_sample(struct pprof_file *f, const uint8_t *at)
{
	struct profile *p = f->p;
	uint32_t node = PROFILE_NONE, labels = PROFILE_NONE, id;
	uint64_t n[MEASURES] = {0}, any = 0;
	if (f->value_count != f->type_count)
		return bad(f, at, "one value for each sample type");
	for (uint32_t i = 0; i < f->type_count; i++) {
		if (f->measure_of[i] < 0)
			continue;
		if (f->values[i] < 0)
			return bad(f, at,
				   "no negative values: this is a difference of two profiles");
		n[f->measure_of[i]] = (uint64_t)f->values[i];
		any |= (uint64_t)f->values[i];
	}
	if (!any)
		return 0;
	for (uint32_t i = f->id_count; i-- > 0;) {
		const struct pprof_location *l = find(&f->locations, f->ids[i]);
		if (!l)
			return bad(f, at, "locations that are in the profile");
		for (uint32_t k = l->frame_count; k-- > 0;) {
			int rc = import_add_node(f->p, node, f->frame_ids[l->first_frame + k],
						 &node);
			if (rc < 0)
				return rc;
		}
	}
	if (f->label_count && profile_add_label_set(f->p, f->labels, f->label_count, &labels) < 0)
		return HEFT_ENOMEM;
	int rc = f->via == PROFILE_VIA_UNKNOWN ? import_add_site(p, node, labels, &id)
					       : import_add_site_via(p, node, f->via, labels, &id);
	if (rc == 0)
		rc = keep_calls(f, id);
	if (rc < 0)
		return rc;
	struct profile_site *s = &p->sites[id];
	if (n[BLOCKS])
		s->lifetime.mean_ns =
			import_rounded(((double)s->lifetime.mean_ns * (double)s->allocations +
					(double)n[LIFETIME_NS]) /
				       ((double)s->allocations + (double)n[BLOCKS]));
	import_add(&s->live_bytes, n[LIVE_BYTES]);
	import_add(&s->live_blocks, n[LIVE_BLOCKS]);
	import_add(&s->allocated_bytes, n[BYTES]);
	import_add(&s->allocations, n[BLOCKS]);
	import_add(&s->peak_bytes, n[PEAK_BYTES]);
	import_add(&s->peak_blocks, n[PEAK_BLOCKS]);
	import_add(&s->own_peak_bytes, n[OWN_PEAK_BYTES]);
	import_add(&s->temporary, n[TEMPORARY]);
	return 0;
}

static int read_samples(struct pprof_file *f)
{
	struct protobuf_scan s = {f->data, f->data + f->length};
	struct protobuf_field top, field;
	while (protobuf_next(&s, &top) == 1) {
		if (top.number != 2 || top.wire != 2)
			continue;
		struct protobuf_scan sample = top.bytes;
		int rc;
		f->id_count = f->value_count = f->label_count = 0;
		f->via = f->heft && !f->vias_unknown ? PROFILE_VIA_MALLOC : PROFILE_VIA_UNKNOWN;
		while ((rc = protobuf_next(&sample, &field)) == 1) {
			bool ok = true;
			if (field.number == 1)
				ok = protobuf_numbers(&field, keep_id, f);
			else if (field.number == 2)
				ok = protobuf_numbers(&field, keep_value, f);
			else if (field.number == 3 && field.wire == 2 &&
				 (rc = read_label(f, field.bytes)) < 0)
				return rc;
			if (!ok)
				return bad(f, top.bytes.at, "a sample of numbers, not this deep");
		}
		if (rc < 0)
			return bad(f, sample.at, "a sample");
		rc = add_sample(f, top.bytes.at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* heft leaves its version and the command in comments. */
static bool read_comment(void *ctx, uint64_t index)
{
	static const char heft[] = "heft ", other[] = "read from ", command[] = "command: ";
	struct pprof_file *f = ctx;
	if (index >= f->strings.count)
		return true;
	struct span s = ((struct span *)f->strings.items)[index];
	const char *text = (const char *)f->data + s.offset;
	if (s.length > strlen(heft) && !memcmp(text, heft, strlen(heft)))
		f->heft = true;
	else if (s.length > strlen(other) && !memcmp(text, other, strlen(other)))
		f->vias_unknown = true; /* heft passed on what does not tell */
	else if (f->heft && s.length > strlen(command) && !memcmp(text, command, strlen(command)))
		return import_set_command(f->p, text + strlen(command),
					  s.length - strlen(command)) == 0;
	return true;
}

static int read_comments(struct pprof_file *f)
{
	struct protobuf_scan s = {f->data, f->data + f->length};
	struct protobuf_field field;
	while (protobuf_next(&s, &field) == 1)
		if (field.number == 13 && !protobuf_numbers(&field, read_comment, f))
			return bad(f, field.bytes.at ? field.bytes.at : f->data, "comments");
	return 0;
}

static void describe(struct pprof_file *f)
{
	struct profile *p = f->p;
	p->start_unix_ns = f->time_ns;
	if (f->duration_ns > 0) {
		p->duration_ns = (uint64_t)f->duration_ns;
		p->has |= PROFILE_HAS_TIMES;
	}
	if (f->period > 1 && string_is(f, f->period_type.type, "space") &&
	    string_is(f, f->period_type.unit, "bytes"))
		p->rate_bytes = (uint64_t)f->period;
}

static void fini(struct pprof_file *f)
{
	struct table *tables[] = {&f->strings, &f->functions, &f->locations, &f->mappings,
				  &f->lines};
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		free(tables[i]->items);
		free(tables[i]->slots);
	}
	address_maps_fini(&f->maps);
	free(f->frame_ids);
}

int import_pprof_load(struct profile *p, struct import_source *in, struct heft_error *err)
{
	uint8_t *data = NULL;
	struct pprof_file *f = calloc(1, sizeof *f);
	if (!f)
		return HEFT_ENOMEM;
	f->p = p;
	f->in = in;
	f->err = err;
	f->strings.element = sizeof(struct span);
	f->functions.element = sizeof(struct pprof_function);
	f->locations.element = sizeof(struct pprof_location);
	f->mappings.element = sizeof(struct pprof_mapping);
	f->lines.element = sizeof(struct pprof_line);
	int rc = import_source_rest(in, MAX_FILE, &data, &f->length, err);
	f->data = data;
	if (rc == 0)
		rc = read_tables(f);
	if (rc == 0)
		rc = choose_types(f);
	if (rc == 0)
		rc = read_comments(f);
	if (rc == 0)
		rc = load_locations(f);
	if (rc == 0)
		rc = read_samples(f);
	if (rc == 0) {
		const struct pprof_mapping *first = f->mappings.items;
		bool named = f->mappings.count && first->range.path[0];
		describe(f);
		rc = import_finish(p, named ? first->range.path : NULL);
	}
	fini(f);
	free(f);
	free(data);
	return rc;
}
