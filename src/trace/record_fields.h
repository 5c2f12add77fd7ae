/* The numbers of a record, listed once for both directions: fields_put and fields_get go through the same list.
 *
 *	static const struct record_field fields[] = {FIELD(trace_process, pid), FIELD(trace_process, start_ns)};
 *	fields_put(buffer, process, fields, FIELD_COUNT(fields));
 *
 * Signed numbers are stored as zigzag, floating-point numbers by their bits. */
#ifndef HEFT_TRACE_RECORD_FIELDS_H
#define HEFT_TRACE_RECORD_FIELDS_H

#include "trace/byte_buffer.h"

enum field_type { FIELD_UINT64, FIELD_UINT32, FIELD_INT32, FIELD_BOOL, FIELD_DOUBLE };

struct record_field {
	uint16_t offset; /* in the record */
	uint8_t type;    /* enum field_type */
};

#define FIELD(record, member)                                                                      \
	{offsetof(struct record, member), _Generic(((struct record *)0)->member,                   \
		 uint64_t: FIELD_UINT64,                                                           \
		 uint32_t: FIELD_UINT32,                                                           \
		 int32_t: FIELD_INT32,                                                             \
		 bool: FIELD_BOOL,                                                                 \
		 double: FIELD_DOUBLE)}
#define FIELD_COUNT(fields) (sizeof(fields) / sizeof *(fields))

void fields_put(struct byte_buffer *b, const void *record, const struct record_field *fields,
		size_t count);
/* A number that its member cannot hold makes the cursor bad, and so does a floating-point number that is
 * negative, too large or no number. */
void fields_get(struct byte_cursor *c, void *record, const struct record_field *fields,
		size_t count);

#endif
