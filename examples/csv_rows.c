/* A CSV of one megabyte that takes several in memory: every row is an array of fields that doubles
 * as it grows, every field a string of its own. Where the rest goes is what heft shows: slack in
 * the arrays, and rounding of many small strings.
 *
 *     csv_rows FILE
 */
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

static void *grow(void *array, size_t *capacity, size_t element_size)
{
	*capacity = *capacity ? *capacity * 2 : 4;
	array = realloc(array, *capacity * element_size);
	if (!array) {
		perror("csv_rows");
		exit(1);
	}
	return array;
}

static struct text make_field(const char *from, size_t length)
{
	struct text t = {malloc(length ? length : 1), length, length};

	if (!t.data) {
		perror("csv_rows");
		exit(1);
	}
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

static int read_sheet(struct sheet *s, const char *path)
{
	FILE *f = fopen(path, "r");
	char *line = NULL;
	size_t size = 0;
	ssize_t length;

	if (!f)
		return -1;
	while ((length = getline(&line, &size, f)) > 0) {
		if (line[length - 1] == '\n')
			length--;
		struct row r = split_row(line, (size_t)length);

		if (!s->header.fields)
			s->header = r;
		else
			add_row(s, r);
	}
	free(line);
	fclose(f);
	return 0;
}

int main(int argc, char **argv)
{
	static struct sheet sheet;
	size_t bytes = 0;

	if (argc != 2) {
		fprintf(stderr, "usage: csv_rows FILE\n");
		return 2;
	}
	if (read_sheet(&sheet, argv[1]) != 0) {
		perror(argv[1]);
		return 1;
	}
	for (size_t i = 0; i < sheet.count; i++)
		for (size_t k = 0; k < sheet.rows[i].count; k++)
			bytes += sheet.rows[i].fields[k].length;
	printf("%zu rows of %zu columns, %zu bytes of text\n", sheet.count, sheet.header.count, bytes);
	return 0;
}
