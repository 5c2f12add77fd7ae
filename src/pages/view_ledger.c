/* The document "ledger": where the resident memory of processes was, at the moments at which somebody looked. Its
 * objects are those of heft map --json, with the words that heft map prints for a line.
 *
 * A recording may have a ledger every millisecond, with hundreds of lines each. A picture cannot show more than some
 * hundred of them, so every n-th stands for the others, and the largest one is always there. Of a ledger's lines the
 * largest are shown, and of each kind the others together.
 *
 * Invariant: the lines of a ledger sum to its resident memory, whatever was left out. */
#include "pages/view_documents.h"

#include "hosted/ledger_words.h"
#include "hosted/number_words.h"
#include "model_json/model_json_ledger.h"
#include "profile/profile_ledgers.h"

#include <stdlib.h>

enum { MOST_LEDGERS = 100, LEAST_LEDGERS = 4, MOST_LINES = 200, LEAST_LINES = 12 };

struct pruning {
	uint32_t ledgers; /* at most so many */
	size_t lines;     /* of each */
};

static uint32_t between(uint32_t low, uint32_t value, uint32_t high)
{
	return value < low ? low : value > high ? high : value;
}

/* entries: lines in all; 0: as many as there are */
static struct pruning pruning_for(uint32_t count, uint32_t entries)
{
	struct pruning most = {MOST_LEDGERS, MOST_LINES};
	if (entries) {
		most.ledgers = between(LEAST_LEDGERS, entries / 20, MOST_LEDGERS);
		uint32_t shown = between(1, count, most.ledgers);
		most.lines = between(LEAST_LINES, entries / shown, MOST_LINES);
	}
	return most;
}

static void write_line(struct json_writer *w, const struct ledger_line *line)
{
	char words[LEDGER_LINE_WORDS + LEDGER_BEHIND], name[LEDGER_LINE_WORDS], text[LEDGER_BEHIND];
	snprintf(words, sizeof words, "%s%s", ledger_line_words(line, name),
		 ledger_line_behind(line, text));
	json_write_object(w);
	model_json_ledger_line(w, line);
	json_write_key_string(w, "words", words);
	json_write_object_end(w);
}

/* The small lines of one kind */
struct rest {
	struct ledger_line sum;
	uint64_t count;
};

static int write_lines(struct json_writer *w, const struct ledger *l, size_t most)
{
	struct rest rest[LEDGER_KINDS] = {0};
	const struct ledger_line **lines = malloc((l->count + 1) * sizeof *lines);
	if (!lines)
		return HEFT_ENOMEM;
	for (size_t i = 0; i < l->count; i++)
		lines[i] = &l->items[i];
	qsort(lines, l->count, sizeof *lines, ledger_line_by_size);
	json_write_key(w, "lines");
	json_write_array(w);
	for (size_t i = 0; i < l->count; i++) {
		const struct ledger_line *line = lines[i];
		struct rest *r = &rest[line->kind < LEDGER_KINDS ? line->kind : LEDGER_UNEXPLAINED];
		if (i < most) {
			write_line(w, line);
			continue;
		}
		ledger_bytes_add(&r->sum.bytes, &line->bytes);
		r->sum.blocks += line->blocks;
		r->count++;
	}
	for (unsigned k = 0; k < LEDGER_KINDS; k++)
		if (rest[k].count) {
			char name[sizeof(struct words) + 8];
			snprintf(name, sizeof name, "%s more", words_count(rest[k].count).text);
			rest[k].sum.kind = (enum ledger_kind)k;
			rest[k].sum.name = name;
			write_line(w, &rest[k].sum);
		}
	json_write_array_end(w);
	free(lines);
	return 0;
}

static void write_sections(struct json_writer *w)
{
	json_write_key(w, "sections");
	json_write_array(w);
	for (size_t i = 0; i < LEDGER_SECTIONS; i++) {
		json_write_object(w);
		json_write_key_string(w, "title", ledger_sections[i].title);
		json_write_key(w, "kinds");
		json_write_array(w);
		for (unsigned k = ledger_sections[i].first; k <= ledger_sections[i].last; k++) {
			json_write_object(w);
			json_write_key_string(w, "kind", ledger_kind_name((enum ledger_kind)k));
			json_write_key_string(w, "title", ledger_kind_title((enum ledger_kind)k));
			json_write_object_end(w);
		}
		json_write_array_end(w);
		json_write_object_end(w);
	}
	json_write_array_end(w);
}

static int write_ledgers(struct json_writer *w, const struct profile *p, uint32_t entries)
{
	const struct pruning most = pruning_for(p->ledger_count, entries);
	const struct ledger *largest = ledger_largest(p->ledgers, p->ledger_count);
	uint32_t step = (p->ledger_count + most.ledgers - 1) / most.ledgers, left_out = 0;
	int rc = 0;
	json_write_key(w, "ledgers");
	json_write_array(w);
	for (uint32_t i = 0; i < p->ledger_count && rc == 0; i++) {
		const struct ledger *l = &p->ledgers[i];
		/* The last one is among those that are shown. */
		if ((p->ledger_count - 1 - i) % step && l != largest) {
			left_out++;
			continue;
		}
		uint32_t process = profile_ledger_process(p, l);
		json_write_newline(w);
		json_write_object(w);
		model_json_ledger(w, l);
		if (process != PROFILE_NONE)
			json_write_key_uint(w, "process", p->processes[process].number);
		json_write_key_string(w, "words", ledger_moment_words(l->moment));
		rc = write_lines(w, l, most.lines);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	json_write_key_uint(w, "left_out", left_out);
	return rc;
}

int view_ledger(FILE *out, struct view_recording *r, const struct view_query *q,
		struct heft_error *err)
{
	const struct view_part *part = NULL;
	struct json_writer w;
	int rc = view_recording_processes(r, q, &part, err);
	if (rc < 0)
		return rc;
	json_write_init(&w, out);
	json_write_object(&w);
	write_sections(&w);
	rc = write_ledgers(&w, part->p, q->limits.entries);
	json_write_object_end(&w);
	view_part_drop(part);
	return rc < 0 ? heft_fail(err, rc, "not enough memory for the ledgers") : 0;
}
