/* Writes and reads the numbers of a record by a list of its fields (record_fields.h). */
#include "trace/record_fields.h"

static uint64_t stored(const void *member, unsigned type)
{
	uint64_t u64;
	uint32_t u32;
	switch (type) {
	case FIELD_UINT32: memcpy(&u32, member, sizeof u32); return u32;
	case FIELD_INT32: memcpy(&u32, member, sizeof u32); return zigzag((int32_t)u32);
	case FIELD_BOOL: return *(const bool *)member;
	default: memcpy(&u64, member, sizeof u64); return u64;
	}
}

void fields_put(struct byte_buffer *b, const void *record, const struct record_field *fields,
		size_t count)
{
	for (size_t i = 0; i < count; i++)
		buffer_put(b, stored((const char *)record + fields[i].offset, fields[i].type));
}

static void load(struct byte_cursor *c, void *member, unsigned type)
{
	uint64_t value = cursor_get(c);
	int64_t number = type == FIELD_INT32 ? unzigzag(value) : 0;
	uint32_t u32 = type == FIELD_INT32 ? (uint32_t)number : (uint32_t)value;
	double real;
	switch (type) {
	case FIELD_UINT32:
	case FIELD_INT32:
		c->bad |= type == FIELD_INT32 ? number != (int32_t)number : value != u32;
		memcpy(member, &u32, sizeof u32);
		break;
	case FIELD_BOOL: *(bool *)member = value != 0; break;
	case FIELD_DOUBLE:
		memcpy(&real, &value, sizeof real);
		c->bad |= !(real >= 0 && real < 1e38);
		value = c->bad ? 0 : value;
		__attribute__((fallthrough));
	default: memcpy(member, &value, sizeof value); break;
	}
}

void fields_get(struct byte_cursor *c, void *record, const struct record_field *fields,
		size_t count)
{
	for (size_t i = 0; i < count; i++)
		load(c, (char *)record + fields[i].offset, fields[i].type);
}
