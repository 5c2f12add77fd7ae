/* A CSV of one megabyte that takes several in memory: every row is an array of fields that doubles
 * as it grows, every field a string of its own. Where the rest goes is what heft shows: slack in
 * the arrays, and rounding of many small strings.
 *
 * With --packed the same sheet is two arrays: all text in one, where each field ends in the other.
 *
 *     csv_rows [--packed] FILE
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text {
	char *data;
	size_t length, capacity;
};

struct row {
	struct text *fields;
	size_t count, capacity;
};

struct sheet {
	struct row header;
	struct row *rows;
	size_t count, capacity;
};

struct packed_sheet {
	char *text;
	size_t length, text_capacity;
	uint32_t *ends; /* of the fields, row by row, the header first */
	size_t count, end_capacity;
	size_t columns;
};

static void *checked(void *p)
{
	if (!p) {
		perror("csv_rows");
		exit(1);
	}
	return p;
}

static void *grow(void *array, size_t *capacity, size_t element_size)
{
	*capacity = *capacity ? *capacity * 2 : 4;
	return checked(realloc(array, *capacity * element_size));
}

static struct text make_field(const char *from, size_t length)
{
	struct text t = {checked(malloc(length ? length : 1)), length, length};

	memcpy(t.data, from, length);
	return t;
}

static struct row split_row(const char *line, size_t length)
{
	struct row r = {0};
	const char *end = line + length;

	for (;;) {
		const char *comma = memchr(line, ',', (size_t)(end - line));
		const char *stop = comma ? comma : end;

		if (r.count == r.capacity)
			r.fields = grow(r.fields, &r.capacity, sizeof(*r.fields));
		r.fields[r.count++] = make_field(line, (size_t)(stop - line));
		if (!comma)
			return r;
		line = comma + 1;
	}
}

static void add_row(struct sheet *s, struct row r)
{
	if (s->count == s->capacity)
		s->rows = grow(s->rows, &s->capacity, sizeof(*s->rows));
	s->rows[s->count++] = r;
}

static void add_packed_row(struct packed_sheet *s, const char *line, size_t length)
{
	const char *end = line + length;

	for (;;) {
		const char *comma = memchr(line, ',', (size_t)(end - line));
		size_t size = (size_t)((comma ? comma : end) - line);

		while (s->length + size > s->text_capacity)
			s->text = grow(s->text, &s->text_capacity, 1);
		memcpy(s->text + s->length, line, size);
		s->length += size;
		if (s->count == s->end_capacity)
			s->ends = grow(s->ends, &s->end_capacity, sizeof(*s->ends));
		s->ends[s->count++] = (uint32_t)s->length;
		if (!comma)
			break;
		line = comma + 1;
	}
	if (!s->columns)
		s->columns = s->count;
}

/* No more rows will come: gives back what doubling took in advance. */
static void trim(struct packed_sheet *s)
{
	s->text = checked(realloc(s->text, s->length));
	s->ends = checked(realloc(s->ends, s->count * sizeof(*s->ends)));
}

static void read_lines(FILE *f, struct sheet *s, struct packed_sheet *packed)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t length;

	while ((length = getline(&line, &size, f)) > 0) {
		if (line[length - 1] == '\n')
			length--;
		if (packed) {
			add_packed_row(packed, line, (size_t)length);
			continue;
		}
		struct row r = split_row(line, (size_t)length);

		if (!s->header.fields)
			s->header = r;
		else
			add_row(s, r);
	}
	free(line);
}

int main(int argc, char **argv)
{
	static struct sheet sheet;
	static struct packed_sheet packed;
	int pack = argc == 3 && strcmp(argv[1], "--packed") == 0;
	size_t rows, columns, bytes = 0;

	if (argc != 2 + pack) {
		fprintf(stderr, "usage: csv_rows [--packed] FILE\n");
		return 2;
	}
	FILE *f = fopen(argv[1 + pack], "r");

	if (!f) {
		perror(argv[1 + pack]);
		return 1;
	}
	read_lines(f, &sheet, pack ? &packed : NULL);
	fclose(f);
	if (pack && packed.count) {
		trim(&packed);
		columns = packed.columns;
		rows = packed.count / columns - 1;
		bytes = packed.length - packed.ends[columns - 1];
	} else {
		columns = sheet.header.count;
		rows = sheet.count;
		for (size_t i = 0; i < rows; i++)
			for (size_t k = 0; k < sheet.rows[i].count; k++)
				bytes += sheet.rows[i].fields[k].length;
	}
	printf("%zu rows of %zu columns, %zu bytes of text\n", rows, columns, bytes);
	return 0;
}
