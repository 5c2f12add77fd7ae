/* Finds marks by their names, for windows that begin or end with them (--from mark:NAME).
 *
 * A name may end in '#' and digits itself: such a mark is taken before the second, third ... of a shorter name. */
#include "profile/profile_from_trace.h"

#include "hosted/vector.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_LISTED = 12 };

struct mark_name {
	const char *text; /* the reader's */
	uint64_t count;
};

struct search {
	const struct trace_contents *c;
	const struct profile_selection *sel;
	const char *name;
	size_t length;
	uint64_t nth, seen, time_ns;
	VECTOR(struct mark_name) names; /* the first few */
	bool more;
};

static bool is_selected(const struct search *s, uint32_t thread)
{
	uint32_t process = s->c->threads[thread].process;
	return process < s->c->process_count &&
	       (!s->sel->has_pid || s->c->processes[process].pid == s->sel->pid);
}

static int list_name(struct search *s, const char *text)
{
	for (size_t i = 0; i < s->names.count; i++)
		if (strcmp(s->names.items[i].text, text) == 0) {
			s->names.items[i].count++;
			return 0;
		}
	if (s->names.count == NAMES_LISTED) {
		s->more = true;
		return 0;
	}
	return vector_push(&s->names, (struct mark_name){text, 1}) ? 0 : HEFT_ENOMEM;
}

static int look(void *ctx, const struct trace_remark *m)
{
	struct search *s = ctx;
	if (m->kind != TRACE_REMARK_MARK || !is_selected(s, m->thread))
		return 0;
	if (strncmp(m->text, s->name, s->length) == 0 && !m->text[s->length] && ++s->seen == s->nth)
		s->time_ns = m->time_ns;
	return list_name(s, m->text);
}

/* The '#' before a number at the end of the text, and the number; NULL: there is none. */
static const char *number_at_end(const char *text, uint64_t *number)
{
	const char *hash = strrchr(text, '#');
	size_t digits = hash ? strspn(hash + 1, "0123456789") : 0;
	if (!digits || hash[1 + digits] || digits > 9)
		return NULL;
	*number = strtoull(hash + 1, NULL, 10);
	return *number ? hash : NULL;
}

/* Briefly, in one line. Whoever prints it makes it fit for a terminal, but leaves line breaks. */
static void put_name(FILE *out, const char *name)
{
	size_t length = strnlen(name, 60);
	while (length && ((unsigned char)name[length] & 0xc0) == 0x80)
		length--; /* no part of a character */
	if (!*name)
		fputs("(no name)", out);
	for (size_t i = 0; i < length; i++)
		putc(name[i] == '\n' ? ' ' : name[i], out);
}

static int not_found(const struct search *s, const char *text, struct heft_error *err)
{
	char *list = NULL;
	size_t size;
	FILE *out = open_memstream(&list, &size);
	if (!out)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < s->names.count; i++) {
		fputs(i ? ", " : "", out);
		put_name(out, s->names.items[i].text);
		if (s->names.items[i].count > 1)
			fprintf(out, " (%" PRIu64 " times)", s->names.items[i].count);
	}
	if (s->more)
		fputs(" and more", out);
	if (fclose(out) != 0)
		return HEFT_ENOMEM;
	int rc = s->names.count
			 ? heft_fail(
				   err, HEFT_ENOTFOUND,
				   "there is no mark '%.80s' in this recording\nits marks are: %s",
				   text, list)
			 : heft_fail(err, HEFT_ENOTFOUND,
				     "there is no mark '%.80s': this recording has no marks\n"
				     "a program makes them with heft_mark(\"NAME\") of heft.h",
				     text);
	free(list);
	return rc;
}

int trace_mark_time(struct trace_reader *r, const struct profile_selection *sel, const char *text,
		    uint64_t *time_ns, struct heft_error *err)
{
	const struct trace_contents *c = trace_reader_contents(r);
	struct search s = {.c = c, .sel = sel, .name = text, .length = strlen(text), .nth = 1};
	int rc = trace_reader_remarks(r, look, &s, err);
	const char *hash = number_at_end(text, &s.nth);
	if (rc == 0 && !s.seen && hash) {
		s.length = (size_t)(hash - text);
		s.names.count = 0;
		rc = trace_reader_remarks(r, look, &s, err);
	} else {
		s.nth = 1;
	}
	if (rc == 0 && s.seen < s.nth)
		rc = not_found(&s, text, err);
	else if (rc == HEFT_ENOMEM)
		rc = heft_fail(err, rc, "not enough memory to look for marks");
	vector_free(&s.names);
	*time_ns = s.time_ns - (c->meta.tick_ns ? s.time_ns % c->meta.tick_ns : 0);
	return rc;
}
