/*
 * A small recursive JSON parser that builds a tree from the heap and frees it again.
 *
 * The allocation pattern is what makes it a benchmark, and it is the usual one of such parsers:
 * a block per object member, a block per key and per string, arrays that grow by doubling with
 * realloc, call stacks that share their bottom and change at the top with every value. A profiler
 * which is fast only on an unchanged stack does not look fast here. The document is generated from
 * a fixed seed, so every run and every profiler sees the same calls. The parser trusts its own
 * document; it is no parser for anyone else's.
 */
#include "micro.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum json_kind { JSON_NULL, JSON_BOOLEAN, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
	enum json_kind kind;
	union {
		double number;
		char *string;
		struct {
			struct json_value *items;
			size_t count;
			size_t room;
		} array;
		struct json_member *members;
	} as;
};

struct json_member {
	struct json_member *next;
	char *key;
	struct json_value value;
};

struct json_input {
	const char *at;
	const char *end;
	long allocations;
};

static void out_of_memory(void)
{
	fputs("micro: out of memory\n", stderr);
	exit(1);
}

/* ---- the document ---- */

struct json_output {
	char *text;
	size_t length;
	size_t room;
	uint64_t seed;
};

static unsigned next_random(struct json_output *out, unsigned bound)
{
	out->seed = out->seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)(out->seed >> 33) % bound;
}

static void put_text(struct json_output *out, const char *text, size_t length)
{
	if (out->length + length + 1 > out->room) {
		out->room = (out->length + length + 1) * 2;
		out->text = realloc(out->text, out->room);
		if (!out->text)
			out_of_memory();
	}
	memcpy(out->text + out->length, text, length);
	out->length += length;
	out->text[out->length] = '\0';
}

static void put_string(struct json_output *out)
{
	char word[64];
	size_t length = 3 + next_random(out, 28);

	word[0] = '"';
	for (size_t i = 1; i <= length; i++)
		word[i] = (char)('a' + next_random(out, 26));
	word[length + 1] = '"';
	put_text(out, word, length + 2);
}

static void put_value(struct json_output *out, int depth)
{
	unsigned kind = next_random(out, 10);
	unsigned count = 2 + next_random(out, 6);
	char number[32];

	if (depth > 0 && kind < 3) {
		put_text(out, "{", 1);
		for (unsigned i = 0; i < count; i++) {
			if (i)
				put_text(out, ",", 1);
			put_string(out);
			put_text(out, ":", 1);
			put_value(out, depth - 1);
		}
		put_text(out, "}", 1);
	} else if (depth > 0 && kind < 5) {
		put_text(out, "[", 1);
		for (unsigned i = 0; i < count; i++) {
			if (i)
				put_text(out, ",", 1);
			put_value(out, depth - 1);
		}
		put_text(out, "]", 1);
	} else if (kind < 8) {
		put_string(out);
	} else if (kind < 9) {
		snprintf(number, sizeof(number), "%u.%u", next_random(out, 100000),
			 next_random(out, 100));
		put_text(out, number, strlen(number));
	} else {
		put_text(out, "true", 4);
	}
}

char *json_generate(size_t size_bytes, size_t *length)
{
	struct json_output out = {.seed = 20240229};

	put_text(&out, "[", 1);
	while (out.length < size_bytes) {
		if (out.length > 1)
			put_text(&out, ",", 1);
		put_text(&out, "{\"record\":", 10);
		put_value(&out, 7);
		put_text(&out, "}", 1);
	}
	put_text(&out, "]", 1);
	*length = out.length;
	return out.text;
}

/* ---- parsing ---- */

static NOINLINE void parse_value(struct json_input *in, struct json_value *value);

static char next_char(struct json_input *in)
{
	return in->at < in->end ? *in->at++ : '\0';
}

static NOINLINE char *parse_string(struct json_input *in)
{
	const char *start = in->at;
	size_t length;
	char *copy;

	while (in->at < in->end && *in->at != '"')
		in->at++;
	length = (size_t)(in->at - start);
	in->at++;
	in->allocations++;
	copy = malloc(length + 1);
	if (!copy)
		out_of_memory();
	memcpy(copy, start, length);
	copy[length] = '\0';
	return copy;
}

/* By hand, because strtod would be most of the time spent. */
static NOINLINE double parse_number(struct json_input *in)
{
	double number = 0;
	double scale = 1;
	bool fraction = false;

	for (; in->at < in->end && (isdigit((unsigned char)*in->at) || *in->at == '.'); in->at++) {
		if (*in->at == '.') {
			fraction = true;
			continue;
		}
		number = number * 10 + (*in->at - '0');
		if (fraction)
			scale *= 10;
	}
	return number / scale;
}

static NOINLINE void parse_array(struct json_input *in, struct json_value *value)
{
	value->kind = JSON_ARRAY;
	value->as.array.items = NULL;
	value->as.array.count = 0;
	value->as.array.room = 0;
	do {
		if (value->as.array.count == value->as.array.room) {
			size_t room = value->as.array.room ? value->as.array.room * 2 : 4;
			struct json_value *items = realloc(value->as.array.items,
							   room * sizeof(*items));

			if (!items)
				out_of_memory();
			in->allocations++;
			value->as.array.items = items;
			value->as.array.room = room;
		}
		parse_value(in, &value->as.array.items[value->as.array.count++]);
	} while (next_char(in) == ',');
}

static NOINLINE void parse_object(struct json_input *in, struct json_value *value)
{
	struct json_member **tail = &value->as.members;

	value->kind = JSON_OBJECT;
	value->as.members = NULL;
	do {
		struct json_member *member = malloc(sizeof(*member));

		if (!member)
			out_of_memory();
		in->allocations++;
		in->at++; /* the opening quote */
		member->key = parse_string(in);
		in->at++; /* the colon */
		member->next = NULL;
		*tail = member;
		tail = &member->next;
		parse_value(in, &member->value);
	} while (next_char(in) == ',');
}

static NOINLINE void parse_value(struct json_input *in, struct json_value *value)
{
	switch (*in->at) {
	case '{':
		in->at++;
		parse_object(in, value);
		break;
	case '[':
		in->at++;
		parse_array(in, value);
		break;
	case '"':
		in->at++;
		value->kind = JSON_STRING;
		value->as.string = parse_string(in);
		break;
	case 't':
		in->at += 4;
		value->kind = JSON_BOOLEAN;
		break;
	default:
		value->kind = JSON_NUMBER;
		value->as.number = parse_number(in);
		break;
	}
}

static NOINLINE void free_value(struct json_value *value)
{
	switch (value->kind) {
	case JSON_STRING: free(value->as.string); break;
	case JSON_ARRAY:
		for (size_t i = 0; i < value->as.array.count; i++)
			free_value(&value->as.array.items[i]);
		free(value->as.array.items);
		break;
	case JSON_OBJECT:
		for (struct json_member *member = value->as.members, *next; member; member = next) {
			next = member->next;
			free_value(&member->value);
			free(member->key);
			free(member);
		}
		break;
	default: break;
	}
}

void json_run(struct lane *lane)
{
	long allocations = 0;

	for (long i = 0; i < lane->iterations; i++) {
		struct json_input in = {.at = lane->text, .end = lane->text + lane->text_bytes};
		struct json_value root;

		parse_value(&in, &root);
		free_value(&root);
		allocations += in.allocations;
	}
	lane->operations = allocations;
}
