/* Reads the tables of a pprof profile: strings, mappings, functions, locations. They may come in any order
 * and refer to each other by id.
 *
 * Bounds: MAX_TABLE entries of a table, all indices checked. */
#include "import/pprof_file.h"

#include "symbol/symbol.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TABLE = 1 << 24 };

/* Which wire types the fields of the top message have: 1 << wire. */
static const uint8_t top_fields[] = {
	[1] = 4, [2] = 4,  [3] = 4,  [4] = 4,  [5] = 4,      [6] = 4,  [7] = 1,  [8] = 1,
	[9] = 1, [10] = 1, [11] = 4, [12] = 1, [13] = 1 | 4, [14] = 1, [15] = 1,
};

bool pprof_is_top_field(const struct protobuf_field *field)
{
	return field->number < sizeof top_fields && (top_fields[field->number] & 1 << field->wire);
}

int pprof_bad(struct pprof_file *f, const uint8_t *at, const char *what)
{
	return import_fail(f->in, (uint64_t)(at - f->data), "expected %s", what);
}

static int too_many(struct pprof_file *f, const uint8_t *at)
{
	return pprof_bad(f, at, "fewer entries in a table of the profile");
}

/* Appends an entry, which stands at `where`. 0, HEFT_ENOMEM, or HEFT_EFORMAT if there are too many. */
#define table_push(f, table, where, ...)                                                           \
	((table)->count == MAX_TABLE       ? too_many(f, where)                                    \
	 : vector_push(table, __VA_ARGS__) ? 0                                                     \
					   : HEFT_ENOMEM)

/* The first of two entries with the same id counts. */
static int add_id(struct pprof_ids *ids, uint64_t id)
{
	uint32_t number = (uint32_t)ids->list.count;
	bool known = pprof_find(ids, id) != PROFILE_NONE;
	if (!vector_push(&ids->list, id) ||
	    (!known && hash_index_add(&ids->index, hash_number(id), number) < 0))
		return HEFT_ENOMEM;
	return 0;
}

/* Producers number their entries from 1 in order, so that is tried first. */
uint32_t pprof_find(const struct pprof_ids *ids, uint64_t id)
{
	if (id && id <= ids->list.count && ids->list.items[id - 1] == id)
		return (uint32_t)id - 1;
	uint32_t hash = hash_number(id), i;
	for (uint32_t at = hash; (i = hash_index_step(&ids->index, hash, &at)) != HASH_NONE;)
		if (ids->list.items[i] == id)
			return i;
	return PROFILE_NONE;
}

const char *pprof_string_at(struct pprof_file *f, uint64_t index)
{
	if (index >= f->strings.count)
		return name_pool_add_n(f->p->names, "", 0);
	struct pprof_string *s = &f->strings.items[index];
	const char *text = (const char *)f->data + s->offset;
	if (!s->name)
		s->name = name_pool_add_n(f->p->names, text, strnlen(text, s->length));
	return s->name;
}

const char *pprof_plain_at(struct pprof_file *f, uint64_t index)
{
	const char *name = pprof_string_at(f, index);
	if (!name || index >= f->strings.count)
		return name;
	struct pprof_string *s = &f->strings.items[index];
	if (!s->plain)
		s->plain = symbol_demangle(f->p->names, name);
	return s->plain;
}

bool pprof_string_is(const struct pprof_file *f, uint64_t index, const char *text)
{
	if (index >= f->strings.count)
		return false;
	struct pprof_string s = f->strings.items[index];
	return s.length == strlen(text) && !memcmp(f->data + s.offset, text, s.length);
}

int pprof_read_numbers(struct pprof_file *f, struct protobuf_scan s, uint64_t *values,
		       uint32_t count, const char *what)
{
	struct protobuf_field field;
	int rc;
	while ((rc = protobuf_next(&s, &field)) == 1)
		if (field.number < count && field.wire == 0)
			values[field.number] = field.value;
	return rc < 0 ? pprof_bad(f, s.at, what) : 0;
}

static int read_location(struct pprof_file *f, struct protobuf_scan s)
{
	struct pprof_location l = {.first_line = (uint32_t)f->lines.count, .module = PROFILE_NONE};
	struct protobuf_field field;
	const uint8_t *start = s.at;
	uint64_t id = 0;
	int rc;
	while ((rc = protobuf_next(&s, &field)) == 1) {
		if (field.number == 1 && field.wire == 0)
			id = field.value;
		else if (field.number == 2 && field.wire == 0)
			l.mapping = field.value;
		else if (field.number == 3 && field.wire == 0)
			l.address = field.value;
		else if (field.number == 4 && field.wire == 2) {
			uint64_t v[3] = {0};
			rc = pprof_read_numbers(f, field.bytes, v, 3, "a line of a location");
			if (rc == 0)
				rc = table_push(f, &f->lines, start,
						(struct pprof_line){v[1], v[2]});
			if (rc < 0)
				return rc;
			l.line_count++;
		}
	}
	if (rc < 0)
		return pprof_bad(f, s.at, "a location");
	rc = table_push(f, &f->locations, start, l);
	return rc == 0 ? add_id(&f->location_ids, id) : rc;
}

static int read_table_entry(struct pprof_file *f, const struct protobuf_field *field)
{
	uint64_t v[8] = {0};
	struct protobuf_scan bytes = field->bytes;
	int rc;
	switch (field->number) {
	case 1:
	case 11:
		rc = pprof_read_numbers(f, bytes, v, 3, "a value type");
		if (rc < 0)
			return rc;
		if (field->number == 11) {
			f->period_type.type = v[1];
			f->period_type.unit = v[2];
			return 0;
		}
		if (f->type_count == PPROF_MAX_TYPES)
			return pprof_bad(f, bytes.at, "fewer sample types");
		f->types[f->type_count].type = v[1];
		f->types[f->type_count++].unit = v[2];
		return 0;
	case 3:
		rc = pprof_read_numbers(f, bytes, v, 7, "a mapping");
		if (rc == 0)
			rc = table_push(f, &f->mappings, bytes.at,
					(struct pprof_mapping){.start = v[2],
							       .limit = v[3],
							       .offset = v[4],
							       .file = v[5],
							       .build_id = v[6]});
		return rc == 0 ? add_id(&f->mapping_ids, v[1]) : rc;
	case 4: return read_location(f, bytes);
	case 5:
		rc = pprof_read_numbers(f, bytes, v, 5, "a function");
		if (rc == 0)
			rc = table_push(f, &f->functions, bytes.at,
					(struct pprof_function){v[2], v[3], v[4]});
		return rc == 0 ? add_id(&f->function_ids, v[1]) : rc;
	case 6:
		return table_push(
			f, &f->strings, bytes.at,
			(struct pprof_string){.offset = (uint32_t)(bytes.at - f->data),
					      .length = (uint32_t)(bytes.end - bytes.at)});
	default: return 0;
	}
}

int pprof_tables_read(struct pprof_file *f)
{
	struct protobuf_scan s = {f->data, f->data + f->length};
	struct protobuf_field field;
	int rc;
	while ((rc = protobuf_next(&s, &field)) == 1) {
		if (field.number >= sizeof top_fields)
			continue;
		if (!pprof_is_top_field(&field))
			return pprof_bad(f, s.at, "a field of a pprof profile");
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
		return pprof_bad(f, s.at, "a field of a pprof profile, or the file was cut");
	return 0;
}

static void free_ids(struct pprof_ids *ids)
{
	vector_free(&ids->list);
	hash_index_fini(&ids->index);
}

void pprof_tables_free(struct pprof_file *f)
{
	vector_free(&f->strings);
	vector_free(&f->functions);
	vector_free(&f->locations);
	vector_free(&f->lines);
	vector_free(&f->mappings);
	free_ids(&f->function_ids);
	free_ids(&f->location_ids);
	free_ids(&f->mapping_ids);
}
