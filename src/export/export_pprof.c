/* pprof: what `go tool pprof`, Parca and Pyroscope read. profile.proto has the fields.
 *
 * Written by hand instead of through a protobuf library: two wire types and five small messages,
 * each made in one buffer and then streamed into gzip. A library would want the whole profile as a
 * tree of its own structs first, and a code generator at build time.
 *
 * What readers demand, and where they differ:
 * - Ids of mappings, locations and functions are 1, 2, 3 ... (Parca refuses gaps).
 * - The first mapping is the program: google/pprof names the profile after it.
 * - Addresses are those of the module's file. A mapping from 0 to ~0 at offset 0 says so.
 * - The last sample type is what a viewer shows unless default_sample_type names another, so it
 *   is always named.
 * - A duration makes it a difference of two snapshots to Parca: only that has one.
 * - A function whose system_name is its name is taken for mangled, and google/pprof cuts parameters
 *   and template arguments off: names here are as in the report, and system_name is not there.
 * - drop_frames is applied as the file is opened (pprof_drop.c).
 * - Mappings without functions are symbolised by the reader: that is what raw is for.
 *
 * alloc_objects counts reallocations too (the format knows no others); alloc_space is heft's
 * allocated bytes, so that it agrees with the report. A site is a stack and the function called:
 * where that is not malloc, a label `via` keeps it. Go's numeric label `bytes` (the size of one
 * object) is left out: a site's blocks may differ in size, and the model has sums. */
#include "export/export_formats.h"

#include "export/export_names.h"
#include "export/export_places.h"
#include "export/packed_stream.h"
#include "export/pprof_drop.h"
#include "hosted/vector.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Field numbers, as in profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING_TABLE,
	PROFILE_DROP_FRAMES,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS,
	PROFILE_PERIOD_TYPE = 11,
	PROFILE_PERIOD,
	PROFILE_COMMENT,
	PROFILE_DEFAULT_SAMPLE_TYPE,
	TYPE_TYPE = 1,
	TYPE_UNIT,
	SAMPLE_LOCATION_ID = 1,
	SAMPLE_VALUE,
	SAMPLE_LABEL,
	LABEL_KEY = 1,
	LABEL_STR,
	LABEL_NUM,
	LABEL_NUM_UNIT,
	MAPPING_ID = 1,
	MAPPING_LIMIT = 3,
	MAPPING_FILENAME = 5,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILENAMES,
	MAPPING_HAS_LINE_NUMBERS,
	MAPPING_HAS_INLINE_FRAMES,
	LOCATION_ID = 1,
	LOCATION_MAPPING_ID,
	LOCATION_ADDRESS,
	LOCATION_LINE,
	LINE_FUNCTION_ID = 1,
	LINE_LINE,
	FUNCTION_ID = 1,
	FUNCTION_NAME,
	FUNCTION_FILENAME = 4,
};

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };

/* The values of a sample begin with Go's four in Go's order; the others that have a type follow. */
static const enum measure_id of_go[] = {MEASURE_ALLOCATIONS, MEASURE_ALLOCATED_BYTES,
					MEASURE_LIVE_BLOCKS, MEASURE_LIVE_BYTES};
enum { OF_GO = sizeof of_go / sizeof *of_go };

struct message {
	uint8_t *data;
	size_t length, capacity;
};

struct pprof {
	const struct profile *p;
	const struct export_options *o;
	const struct profile_delta *delta; /* p has its stacks; NULL: p has the numbers */
	struct packed_stream *out;
	struct export_places places;
	struct string_table strings;
	struct pair_index functions; /* name and file, in the string table */
	uint32_t *mapping;           /* by module: id, 0: none */
	uint32_t *mapped;            /* modules by id - 1 */
	uint32_t mapping_count;
	const char *program; /* if it is in no stack: a mapping all the same, the first one */
	uint32_t unknown;    /* id of the location that stands for unknown stacks; 0: none needed */
	enum measure_id columns[MEASURE_COUNT]; /* of a sample */
	int column_count;
	struct message message, inner; /* being made */
	bool no_memory;
};

/* ---- protocol buffers */

static void put_raw(struct pprof *x, struct message *m, const void *data, size_t length)
{
	if (!array_reserve(m->data, m->length, m->capacity, length)) {
		x->no_memory = true;
		return;
	}
	if (length)
		memcpy(m->data + m->length, data, length);
	m->length += length;
}

static size_t varint(uint8_t bytes[10], uint64_t n)
{
	size_t length = 0;
	for (; n >= 0x80; n >>= 7)
		bytes[length++] = (uint8_t)(n | 0x80);
	bytes[length++] = (uint8_t)n;
	return length;
}

static void put_varint(struct pprof *x, struct message *m, uint64_t n)
{
	uint8_t bytes[10];
	put_raw(x, m, bytes, varint(bytes, n));
}

/* A field of 0 is left out: readers take a missing field for 0. */
static void put_number(struct pprof *x, struct message *m, uint32_t field, uint64_t n)
{
	if (!n)
		return;
	put_varint(x, m, field << 3 | WIRE_VARINT);
	put_varint(x, m, n);
}

/* Ends the inner message: it becomes a field of the message. */
static void put_inner(struct pprof *x, uint32_t field)
{
	put_varint(x, &x->message, field << 3 | WIRE_BYTES);
	put_varint(x, &x->message, x->inner.length);
	put_raw(x, &x->message, x->inner.data, x->inner.length);
	x->inner.length = 0;
}

/* Fields of the profile itself go out at once. */
static void write_bytes(struct pprof *x, uint32_t field, const void *data, size_t length)
{
	uint8_t head[20];
	size_t n = varint(head, field << 3 | WIRE_BYTES);
	n += varint(head + n, length);
	packed_write(x->out, head, n);
	packed_write(x->out, data, length);
}

static void write_message(struct pprof *x, uint32_t field)
{
	write_bytes(x, field, x->message.data, x->message.length);
	x->message.length = 0;
}

static void write_number(struct pprof *x, uint32_t field, uint64_t n)
{
	uint8_t bytes[20];
	if (!n)
		return;
	size_t length = varint(bytes, field << 3 | WIRE_VARINT);
	length += varint(bytes + length, n);
	packed_write(x->out, bytes, length);
}

static uint32_t string(struct pprof *x, const char *s)
{
	uint32_t number = 0;
	if (string_table_find(&x->strings, s, &number) < 0)
		x->no_memory = true;
	return number;
}

/* ---- parts */

static void write_type(struct pprof *x, uint32_t field, const char *type, const char *unit)
{
	put_number(x, &x->message, TYPE_TYPE, string(x, type));
	put_number(x, &x->message, TYPE_UNIT, string(x, unit));
	write_message(x, field);
}

static const char *unit_of(enum measure_id id)
{
	return measures[id].unit == MEASURE_IS_TIME ? "nanoseconds" : measure_unit_name(id);
}

/* A value of a sample, as the bits of a signed number. */
static uint64_t value_of(const struct pprof *x, uint32_t site, enum measure_id id)
{
	if (x->delta)
		return (uint64_t)profile_change_of(&x->delta->changes[site], id);
	const struct profile_site *s = &x->p->sites[site];
	uint64_t n = measure_of_stack(s, id);
	if (id == MEASURE_ALLOCATIONS) /* a reallocation is one to Go */
		n += s->reallocations;
	return n > INT64_MAX ? INT64_MAX : n;
}

static void put_labels(struct pprof *x, const struct profile_label_set *set)
{
	for (uint32_t i = 0; i < set->count; i++) {
		const struct profile_label *l = &set->labels[i];
		put_number(x, &x->inner, LABEL_KEY, string(x, l->key));
		if (l->text)
			put_number(x, &x->inner, LABEL_STR, string(x, l->text));
		else
			put_number(x, &x->inner, LABEL_NUM, (uint64_t)l->number);
		if (!l->text && l->unit)
			put_number(x, &x->inner, LABEL_NUM_UNIT, string(x, l->unit));
		put_inner(x, SAMPLE_LABEL);
	}
}

static void write_sample(struct pprof *x, uint32_t site)
{
	const struct profile_site *s = &x->p->sites[site];
	bool any = false;
	for (int i = 0; i < x->column_count; i++)
		any = any || value_of(x, site, x->columns[i]);
	if (!any)
		return;
	if (s->node == PROFILE_NONE) {
		if (!x->unknown)
			x->unknown = x->places.used + 1;
		put_varint(x, &x->inner, x->unknown);
	}
	for (uint32_t node = s->node; node != PROFILE_NONE; node = x->places.caller[node])
		put_varint(x, &x->inner, x->places.number[x->places.place[node]]);
	put_inner(x, SAMPLE_LOCATION_ID);
	for (int i = 0; i < x->column_count; i++)
		put_varint(x, &x->inner, value_of(x, site, x->columns[i]));
	put_inner(x, SAMPLE_VALUE);
	/* "unknown" if a recorded stack lost its inner end; a format that never has it says so once. */
	if (s->via != PROFILE_VIA_MALLOC &&
	    (s->via < PROFILE_VIA_COUNT || strcmp(x->p->run.format, "heft") == 0)) {
		put_number(x, &x->inner, LABEL_KEY, string(x, "via"));
		put_number(x, &x->inner, LABEL_STR, string(x, profile_via_name(s->via)));
		put_inner(x, SAMPLE_LABEL);
	}
	if (s->labels < x->p->label_set_count) /* of a pprof file that was read */
		put_labels(x, &x->p->label_sets[s->labels]);
	write_message(x, PROFILE_SAMPLE);
}

static void add_mapping(struct pprof *x, uint32_t module)
{
	if (module == PROFILE_NONE || x->mapping[module])
		return;
	x->mapped[x->mapping_count++] = module;
	x->mapping[module] = x->mapping_count + (x->program != NULL);
}

static void write_mapping(struct pprof *x, uint32_t id, const char *path, const char *build_id)
{
	put_number(x, &x->message, MAPPING_ID, id);
	put_number(x, &x->message, MAPPING_LIMIT, UINT64_MAX);
	put_number(x, &x->message, MAPPING_FILENAME, string(x, path));
	put_number(x, &x->message, MAPPING_BUILD_ID, string(x, build_id));
	put_number(x, &x->message, MAPPING_HAS_FUNCTIONS, !x->o->raw);
	put_number(x, &x->message, MAPPING_HAS_FILENAMES, !x->o->raw);
	put_number(x, &x->message, MAPPING_HAS_LINE_NUMBERS, !x->o->raw);
	put_number(x, &x->message, MAPPING_HAS_INLINE_FRAMES, !x->o->raw);
	write_message(x, PROFILE_MAPPING);
}

static void write_mappings(struct pprof *x)
{
	static const char digits[] = "0123456789abcdef";
	if (x->program)
		write_mapping(x, 1, x->program, NULL);
	for (uint32_t k = 0; k < x->mapping_count; k++) {
		const struct profile_module *m = &x->p->stacks.modules[x->mapped[k]];
		char id[2 * 64 + 1];
		uint32_t length = m->build_id_len < 64 ? m->build_id_len : 64;
		for (uint32_t i = 0; i < length; i++) {
			id[2 * i] = digits[m->build_id[i] >> 4];
			id[2 * i + 1] = digits[m->build_id[i] & 15];
		}
		id[2 * length] = 0;
		write_mapping(x, x->mapping[x->mapped[k]], m->path, id);
	}
}

static void put_line(struct pprof *x, const char *function, const char *file, uint32_t line)
{
	uint32_t number = 0;
	if (pair_index_find(&x->functions, string(x, function), string(x, file), &number) < 0)
		x->no_memory = true;
	put_number(x, &x->inner, LINE_FUNCTION_ID, (uint64_t)number + 1);
	put_number(x, &x->inner, LINE_LINE, line);
	put_inner(x, LOCATION_LINE);
}

static void write_location(struct pprof *x, uint32_t place)
{
	const struct export_places *l = &x->places;
	const struct profile_frame *frames = x->p->stacks.frames;
	const struct profile_frame *outer =
		&frames[l->index.pairs[export_place_outermost(l, place)].a];
	put_number(x, &x->message, LOCATION_ID, l->number[place]);
	if (outer->module != PROFILE_NONE)
		put_number(x, &x->message, LOCATION_MAPPING_ID, x->mapping[outer->module]);
	put_number(x, &x->message, LOCATION_ADDRESS, l->address[place]);
	/* No reader can name an address without a module: it keeps its name. */
	if (!x->o->raw || outer->module == PROFILE_NONE || !l->address[place])
		for (uint32_t i = place; i != PROFILE_NONE; i = l->index.pairs[i].b) {
			const struct profile_frame *f = &frames[l->index.pairs[i].a];
			put_line(x, f->function, f->file, f->line);
		}
	write_message(x, PROFILE_LOCATION);
}

static void write_function(struct pprof *x, uint32_t number)
{
	const struct pair *f = &x->functions.pairs[number];
	put_number(x, &x->message, FUNCTION_ID, (uint64_t)number + 1);
	put_number(x, &x->message, FUNCTION_NAME, f->a);
	put_number(x, &x->message, FUNCTION_FILENAME, f->b);
	write_message(x, PROFILE_FUNCTION);
}

static void write_comment(struct pprof *x, const char *about, const char *text)
{
	char *line = NULL;
	if (asprintf(&line, "%s%s", about, text) < 0) {
		x->no_memory = true;
		return;
	}
	write_number(x, PROFILE_COMMENT, string(x, line));
	free(line);
}

static void write_about(struct pprof *x)
{
	const struct profile *p = x->p;
	/* When the snapshot was taken: at the end of the recording. It has to be there. */
	int64_t time_ns = (int64_t)time(NULL) * 1000000000;
	if (p->run.start_unix_ns > 0 &&
	    p->run.duration_ns < (uint64_t)(INT64_MAX - p->run.start_unix_ns))
		time_ns = p->run.start_unix_ns + (int64_t)p->run.duration_ns;
	write_number(x, PROFILE_TIME_NANOS, (uint64_t)time_ns);
	write_number(x, PROFILE_DURATION_NANOS, x->delta ? x->delta->time_ns : 0);
	write_type(x, PROFILE_PERIOD_TYPE, "space", "bytes");
	write_number(x, PROFILE_PERIOD, p->run.rate_bytes ? p->run.rate_bytes : 1);
	/* A reader that names raw addresses may name them otherwise. */
	if (!x->o->full && !x->o->raw) {
		char *drop = pprof_drop_frames(p);
		if (!drop)
			x->no_memory = true;
		else
			write_number(x, PROFILE_DROP_FRAMES, string(x, drop));
		free(drop);
	}
	enum measure_id shown = x->column_count ? x->columns[x->column_count - 1]
						: MEASURE_PEAK_BYTES;
	for (int i = 0; i < x->column_count; i++)
		if (x->columns[i] == x->o->measure)
			shown = x->o->measure;
	write_number(x, PROFILE_DEFAULT_SAMPLE_TYPE, string(x, measures[shown].pprof));
	char *command = export_command(p);
	write_comment(x, "heft ", HEFT_VERSION);
	/* A missing label `via` means malloc, unless the input did not have it. */
	for (uint32_t i = 0; i < p->site_count && strcmp(p->run.format, "heft") != 0; i++)
		if (p->sites[i].via >= PROFILE_VIA_COUNT) {
			write_comment(x, "read from ", p->run.format);
			break;
		}
	if (!command)
		x->no_memory = true;
	else if (*command)
		write_comment(x, "command: ", command);
	free(command);
	if (p->chosen.words)
		write_comment(x, "only: ", p->chosen.words);
	if (p->unseen)
		write_comment(x, "warning: ", p->unseen);
}

static void add_column(struct pprof *x, enum measure_id id)
{
	const struct measure *m = &measures[id];
	/* Lifetimes only if they are asked for: no reader expects them. */
	for (int i = 0; i < x->column_count; i++)
		if (x->columns[i] == id)
			return;
	if (!m->pprof || !measure_known(x->p, id) ||
	    (id == MEASURE_LIFETIME && x->o->measure != MEASURE_LIFETIME) ||
	    (id == MEASURE_ALLOCATIONS && x->p->run.has & PROFILE_LACKS_BLOCKS) ||
	    /* What one process left at its exit is what is in use at the end. */
	    ((id == MEASURE_LEFT_BYTES || id == MEASURE_LEFT_BLOCKS) &&
	     (!profile_is_of_several(x->p) || x->delta)))
		return;
	x->columns[x->column_count++] = id;
	write_type(x, PROFILE_SAMPLE_TYPE, m->pprof, unit_of(id));
}

static void write_all(struct pprof *x)
{
	const struct profile *p = x->p;
	for (int i = 0; i < OF_GO; i++)
		add_column(x, of_go[i]);
	for (enum measure_id id = 0; id < MEASURE_COUNT; id++) {
		if (measures[id].blocks != MEASURE_COUNT) /* objects before space, as Go has them */
			add_column(x, measures[id].blocks);
		add_column(x, id);
	}
	for (uint32_t i = 0; i < p->site_count; i++)
		write_sample(x, i);
	uint32_t program = export_main_module(p);
	if (program == PROFILE_NONE && p->process_count && p->processes[0].exe &&
	    *p->processes[0].exe)
		x->program = p->processes[0].exe;
	add_mapping(x, program);
	for (uint32_t i = 0; i < x->places.used; i++) {
		uint32_t outer = export_place_outermost(&x->places, x->places.in_order[i]);
		add_mapping(x, p->stacks.frames[x->places.index.pairs[outer].a].module);
	}
	write_mappings(x);
	for (uint32_t i = 0; i < x->places.used; i++)
		write_location(x, x->places.in_order[i]);
	if (x->unknown) {
		put_number(x, &x->message, LOCATION_ID, x->unknown);
		put_line(x, EXPORT_UNKNOWN_STACK, NULL, 0);
		write_message(x, PROFILE_LOCATION);
	}
	for (uint32_t i = 0; i < x->functions.count; i++)
		write_function(x, i);
	write_about(x);
	for (uint32_t i = 0; i < x->strings.count; i++)
		write_bytes(x, PROFILE_STRING_TABLE, x->strings.strings[i],
			    strlen(x->strings.strings[i]));
}

static int write_pprof(FILE *out, const struct profile *p, const struct profile_delta *delta,
		       const struct export_options *o, struct heft_error *err)
{
	struct pprof x = {.p = p, .o = o, .delta = delta, .no_memory = true};
	x.out = malloc(sizeof *x.out);
	x.mapping = calloc((size_t)p->stacks.module_count + 1, sizeof *x.mapping);
	x.mapped = calloc((size_t)p->stacks.module_count + 1, sizeof *x.mapped);
	if (x.out && x.mapping && x.mapped && string_table_init(&x.strings) == 0 &&
	    export_places_init(&x.places, p) == 0 && packed_open(x.out, out, PACKED_GZIP) == 0) {
		x.no_memory = false;
		write_all(&x);
		if (packed_close(x.out) == HEFT_ENOMEM)
			x.no_memory = true;
	}
	free(x.out);
	free(x.mapping);
	free(x.mapped);
	free(x.message.data);
	free(x.inner.data);
	pair_index_fini(&x.functions);
	string_table_fini(&x.strings);
	export_places_fini(&x.places);
	return x.no_memory ? heft_fail(err, HEFT_ENOMEM, "not enough memory to write pprof") : 0;
}

int export_pprof(FILE *out, const struct profile *p, const struct export_options *o,
		 struct heft_error *err)
{
	return write_pprof(out, p, NULL, o, err);
}

int export_pprof_delta(FILE *out, const struct profile_delta *d, enum measure_id measure,
		       struct heft_error *err)
{
	const struct export_options o = {.measure = measure};
	return write_pprof(out, profile_delta_view(d), d, &o, err);
}
