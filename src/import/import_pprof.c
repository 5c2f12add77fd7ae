/* Reads pprof (profile.proto) of any producer.
 *
 * The message is read twice where it stands: once for the tables (strings, mappings,
 * functions, locations, which may come in any order), once for the samples. The names of
 * the sample types, on which producers agree, say which number of a sample is which;
 * values are estimates already and are not scaled again.
 *
 * Labels make a site of their own, except Go's "bytes" (the size of one object): it would
 * split every stack by sizes, and the two numbers it is derived from are there.
 *
 * Bounds: MAX_FILE bytes of message; the tables have their own (pprof_tables.c). */
#include "import/import_formats.h"
#include "import/import_sites.h"
#include "import/pprof_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 512 << 20 };

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

/* The names that producers give them; '-' counts as '_'. */
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

/* What the profile has if a measure is there. */
static const uint32_t has_of[MEASURES] = {
	[LIVE_BYTES] = PROFILE_HAS_LIVE,           [LIVE_BLOCKS] = PROFILE_HAS_LIVE,
	[BYTES] = PROFILE_HAS_ALLOCATED,           [BLOCKS] = PROFILE_HAS_ALLOCATED,
	[PEAK_BYTES] = PROFILE_HAS_PEAK,           [PEAK_BLOCKS] = PROFILE_HAS_PEAK,
	[OWN_PEAK_BYTES] = PROFILE_HAS_OWN_PEAK,   [TEMPORARY] = PROFILE_HAS_TEMPORARY,
	[LIFETIME_NS] = PROFILE_HAS_MEAN_LIFETIME,
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
			/* The last one may go on beyond the head: only its tag is checked. */
			uint64_t tag;
			struct protobuf_scan rest = {at, s.end};
			if (whole || !protobuf_varint(&rest, &tag))
				return false;
			f.number = (uint32_t)(tag >> 3);
			f.wire = (uint32_t)(tag & 7);
			return tag < 128 && pprof_is_top_field(&f) &&
			       (seen & (1 << 1 | 1 << 2) || (f.number == 2 && at == head));
		}
		if (!pprof_is_top_field(&f))
			return false;
		seen |= 1u << f.number;
	}
}

static bool unit_fits(const struct pprof_file *f, uint64_t unit, enum measure measure)
{
	bool bytes = measure == LIVE_BYTES || measure == BYTES || measure == PEAK_BYTES ||
		     measure == OWN_PEAK_BYTES;
	if (measure == LIFETIME_NS)
		return pprof_string_is(f, unit, "nanoseconds");
	if (bytes)
		return pprof_string_is(f, unit, "bytes") || pprof_string_is(f, unit, "byte");
	return pprof_string_is(f, unit, "count") || pprof_string_is(f, unit, "objects") ||
	       pprof_string_is(f, unit, "") || pprof_string_is(f, unit, "samples");
}

static int measure_of(struct pprof_file *f, uint32_t type)
{
	char name[64];
	const char *given = pprof_string_at(f, f->types[type].type);
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
		const char *type = pprof_string_at(f, f->types[i].type);
		const char *unit = pprof_string_at(f, f->types[i].unit);
		if (!type || !unit)
			return HEFT_ENOMEM;
		size_t used = strlen(words);
		snprintf(words + used, sizeof words - used, "%s%.60s/%.20s", i ? ", " : "", type,
			 unit);
	}
	if (!seen)
		return import_fail(f->in, 0,
				   "expected a heap profile with a sample type such as "
				   "inuse_space/bytes; this has %s",
				   f->type_count ? words : "none");
	f->p->run.has = 0;
	for (int m = 0; m < MEASURES; m++)
		if (seen & 1u << m)
			f->p->run.has |= has_of[m];
	if (!(seen & (1u << LIVE_BLOCKS | 1u << PEAK_BLOCKS | 1u << BLOCKS)))
		f->p->run.has |= PROFILE_LACKS_BLOCKS;
	if (!(seen & 1u << BLOCKS)) /* a mean needs their number */
		f->p->run.has &= ~(uint32_t)PROFILE_HAS_MEAN_LIFETIME;
	return 0;
}

static bool keep_id(void *ctx, uint64_t value)
{
	struct pprof_file *f = ctx;
	if (f->sample.id_count == PPROF_MAX_DEPTH)
		return false;
	f->sample.ids[f->sample.id_count++] = value;
	return true;
}

static bool keep_value(void *ctx, uint64_t value)
{
	struct pprof_file *f = ctx;
	if (f->sample.value_count < PPROF_MAX_TYPES)
		f->sample.values[f->sample.value_count] = (int64_t)value;
	f->sample.value_count++;
	return true;
}

static uint64_t string_length(const struct pprof_file *f, uint64_t index)
{
	return index < f->strings.count ? f->strings.items[index].length : 0;
}

static int read_label(struct pprof_file *f, struct protobuf_scan s)
{
	uint64_t v[5] = {0};
	int rc = pprof_read_numbers(f, s, v, 5, "a label");
	if (rc < 0)
		return rc;
	if (pprof_string_is(f, v[1], "bytes") && !v[2])
		return 0;
	if (pprof_string_is(f, v[1], "via")) /* heft's own: the allocation function */
		for (uint32_t via = 0; via <= PROFILE_VIA_UNKNOWN; via++)
			if (pprof_string_is(f, v[2], profile_via_name(via))) {
				f->sample.via = via;
				return 0;
			}
	if (f->sample.label_count == PPROF_MAX_LABELS)
		return pprof_bad(f, s.at, "fewer labels of a sample");
	struct profile_label *l = &f->sample.labels[f->sample.label_count++];
	*l = (struct profile_label){.key = pprof_string_at(f, v[1]), .number = (int64_t)v[3]};
	if (v[2])
		l->text = pprof_string_at(f, v[2]);
	else if (v[4])
		l->unit = pprof_string_at(f, v[4]);
	f->label_bytes += string_length(f, v[1]) + string_length(f, v[2]) + string_length(f, v[4]);
	if (f->label_bytes > PPROF_LABEL_BYTES_A_BYTE * f->length + PPROF_LABEL_BYTES)
		return pprof_bad(f, s.at, "shorter labels for a file of this size");
	return l->key && (!v[2] || l->text) && (v[2] || !v[4] || l->unit) ? 0 : HEFT_ENOMEM;
}

static const struct pprof_location *location(const struct pprof_file *f, uint64_t id)
{
	uint32_t i = pprof_find(&f->location_ids, id);
	return i == PROFILE_NONE ? NULL : &f->locations.items[i];
}

/* Keeps the addresses of the current sample, if it is the first of its site. */
static int keep_calls(struct pprof_file *f, uint32_t site)
{
	uint32_t node = PROFILE_NONE, call = PROFILE_NONE;
	int rc = 0;
	if (!f->p->chosen.keep_calls || f->p->sites[site].call != PROFILE_NONE)
		return 0;
	for (uint32_t i = f->sample.id_count; i-- > 0 && rc == 0;) {
		const struct pprof_location *l = location(
			f, f->sample.ids[i]);                          /* add_sample found it */
		for (uint32_t k = l->frame_count; k-- > 0 && rc == 0;) /* they are all there */
			rc = profile_add_node(f->p, node, f->frame_ids.items[l->first_frame + k], 0,
					      &node);
		if (rc == 0 && l->frame_count)
			rc = profile_add_call(f->p, call, node, l->address, &call);
	}
	if (rc == 0)
		import_keep_call(f->p, site, node, call);
	return rc;
}

/* Adds the current sample to its site. */
static int add_sample(struct pprof_file *f, const uint8_t *at)
{
	struct profile *p = f->p;
	uint32_t node = PROFILE_NONE, labels = PROFILE_NONE, id;
	uint64_t n[MEASURES] = {0}, any = 0;
	if (f->sample.value_count != f->type_count)
		return pprof_bad(f, at, "one value for each sample type");
	for (uint32_t i = 0; i < f->type_count; i++) {
		if (f->measure_of[i] < 0)
			continue;
		if (f->sample.values[i] < 0)
			return pprof_bad(
				f, at, "no negative values: this is a difference of two profiles");
		n[f->measure_of[i]] = (uint64_t)f->sample.values[i];
		any |= (uint64_t)f->sample.values[i];
	}
	if (!any)
		return 0;
	for (uint32_t i = f->sample.id_count; i-- > 0;) {
		const struct pprof_location *l = location(f, f->sample.ids[i]);
		if (!l)
			return pprof_bad(f, at, "locations that are in the profile");
		f->frames_of_samples += l->frame_count;
		if (f->frames_of_samples > PPROF_FRAMES_A_BYTE * f->length + PPROF_FRAMES)
			return pprof_bad(f, at, "fewer frames for a file of this size");
		for (uint32_t k = l->frame_count; k-- > 0;) {
			int rc = import_add_node(f->p, node, f->frame_ids.items[l->first_frame + k],
						 &node);
			if (rc < 0)
				return rc;
		}
	}
	if (f->sample.label_count &&
	    profile_add_label_set(f->p, f->sample.labels, f->sample.label_count, &labels) < 0)
		return HEFT_ENOMEM;
	int rc = f->sample.via == PROFILE_VIA_UNKNOWN
			 ? import_add_site(p, node, labels, &id)
			 : import_add_site_via(p, node, f->sample.via, labels, &id);
	if (rc == 0)
		rc = keep_calls(f, id);
	if (rc < 0)
		return rc;
	import_add_measures(&p->sites[id], &(struct import_measures){
						   .allocations = n[BLOCKS],
						   .allocated_bytes = n[BYTES],
						   .temporary = n[TEMPORARY],
						   .live_blocks = n[LIVE_BLOCKS],
						   .live_bytes = n[LIVE_BYTES],
						   .peak_blocks = n[PEAK_BLOCKS],
						   .peak_bytes = n[PEAK_BYTES],
						   .own_peak_bytes = n[OWN_PEAK_BYTES],
						   .lifetime_sum_ns = (double)n[LIFETIME_NS],
					   });
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
		f->sample.id_count = f->sample.value_count = f->sample.label_count = 0;
		f->sample.via = f->heft && !f->vias_unknown ? PROFILE_VIA_MALLOC
							    : PROFILE_VIA_UNKNOWN;
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
				return pprof_bad(f, top.bytes.at,
						 "a sample of numbers, not this deep");
		}
		if (rc < 0)
			return pprof_bad(f, sample.at, "a sample");
		rc = add_sample(f, top.bytes.at);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* Whether the text begins with these words and goes on; it then moves behind them. */
static bool take_words(struct pprof_string *s, const uint8_t *data, const char *words)
{
	uint32_t length = (uint32_t)strlen(words);
	if (s->length <= length || memcmp(data + s->offset, words, length) != 0)
		return false;
	s->offset += length;
	s->length -= length;
	return true;
}

/* heft leaves its version and the command in comments. */
static bool read_comment(void *ctx, uint64_t index)
{
	struct pprof_file *f = ctx;
	if (index >= f->strings.count)
		return true;
	struct pprof_string s = f->strings.items[index];
	if (take_words(&s, f->data, "heft "))
		f->heft = true;
	else if (take_words(&s, f->data, "read from "))
		f->vias_unknown = true; /* heft converted a file that does not know it */
	else if (f->heft && take_words(&s, f->data, "command: "))
		return import_set_command(f->p, (const char *)f->data + s.offset, s.length) == 0;
	return true;
}

static int read_comments(struct pprof_file *f)
{
	struct protobuf_scan s = {f->data, f->data + f->length};
	struct protobuf_field field;
	while (protobuf_next(&s, &field) == 1)
		if (field.number == 13 && !protobuf_numbers(&field, read_comment, f))
			return pprof_bad(f, field.bytes.at ? field.bytes.at : f->data, "comments");
	return 0;
}

static void describe(struct pprof_file *f)
{
	struct profile *p = f->p;
	p->run.start_unix_ns = f->time_ns;
	if (f->duration_ns > 0) {
		p->run.duration_ns = (uint64_t)f->duration_ns;
		p->run.has |= PROFILE_HAS_TIMES;
	}
	if (f->period > 1 && pprof_string_is(f, f->period_type.type, "space") &&
	    pprof_string_is(f, f->period_type.unit, "bytes"))
		p->run.rate_bytes = (uint64_t)f->period;
}

int import_pprof_load(struct profile *p, struct import_source *in)
{
	uint8_t *data = NULL;
	struct pprof_file *f = calloc(1, sizeof *f);
	if (!f)
		return HEFT_ENOMEM;
	f->p = p;
	f->in = in;
	int rc = import_source_rest(in, MAX_FILE, &data, &f->length);
	f->data = data;
	if (rc == 0)
		rc = pprof_tables_read(f);
	if (rc == 0)
		rc = choose_types(f);
	if (rc == 0)
		rc = read_comments(f);
	if (rc == 0)
		rc = pprof_locations_load(f);
	if (rc == 0)
		rc = read_samples(f);
	if (rc == 0) {
		const struct pprof_mapping *first = f->mappings.items;
		bool named = f->mappings.count && first->range.path[0];
		describe(f);
		rc = import_finish(p, named ? first->range.path : NULL);
	}
	pprof_tables_free(f);
	address_maps_fini(&f->maps);
	vector_free(&f->frame_ids);
	free(f);
	free(data);
	return rc;
}
