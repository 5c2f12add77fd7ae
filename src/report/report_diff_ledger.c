/* `heft diff`: which line of the resident memory has grown (profile/ledger_diff.h). Text shows one moment, the peak
 * unless --at asks for the end; JSON has all that both sides have. What counts as noise is as for other measures: a
 * share of the larger one. Ledgers are of processes, so there is nothing to compare of chosen stacks, or of instants at
 * which none was taken. */
#include "report/report_diff_ledger.h"

#include "hosted/ledger_words.h"
#include "hosted/name_words.h"
#include "profile/ledger_diff.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_SHOWN = 10, COLUMNS = 12, LINE_INDENT = 3 * COLUMNS + 2, LEAST_NAME = 30 };

static bool is_asked(const struct report_diff_options *o)
{
	return !o->focus && !o->ignore && !o->at_time;
}

static double threshold_of(const struct ledger_diff *d, const struct report_diff_options *o)
{
	const struct profile_threshold t = profile_threshold_for(&o->threshold, o->sort,
								 MEASURE_RSS_BYTES);
	uint64_t most = d->old->rss_bytes > d->new->rss_bytes ? d->old->rss_bytes
							      : d->new->rss_bytes;
	return t.absolute ? t.value : t.share * (double)most;
}

static struct words signed_words(int64_t change)
{
	uint64_t n = change < 0 ? 0 - (uint64_t)change : (uint64_t)change;
	struct words w = words_bytes(n), with_sign;
	if (!n)
		return w;
	snprintf(with_sign.text, sizeof with_sign.text, "%c%.36s", change < 0 ? '-' : '+', w.text);
	return with_sign;
}

/* The moments in the order of what readers compare; 0, HEFT_ENOTFOUND or HEFT_ENOMEM. */
static int first_moment(struct ledger_diff *l, const struct profile_diff *d,
			const struct report_diff_options *o)
{
	static const enum ledger_moment order[] = {LEDGER_PEAK, LEDGER_EXIT, LEDGER_REQUEST,
						   LEDGER_INTERVAL};
	bool end = o->at && strcmp(o->at, "peak") != 0;
	int rc = HEFT_ENOTFOUND;
	for (size_t i = end; i < sizeof order / sizeof *order && rc == HEFT_ENOTFOUND; i++)
		rc = ledger_diff_init(l, d->old, d->new, order[i]);
	return rc;
}

static void print_side(FILE *out, const struct ledger_line *line)
{
	fprintf(out, "%*s", COLUMNS, line ? words_bytes(line->bytes.resident).text : "-");
}

static void print_line(FILE *out, const struct ledger_change *c,
		       const struct report_diff_options *o)
{
	const struct ledger_line *line = c->new ? c->new : c->old;
	const struct ledger_section *section = &ledger_sections[ledger_section_of(line->kind)];
	const struct ledger_line plain = {.kind = line->kind, .name = line->name};
	char text[LEDGER_BEHIND];
	const char *behind = ledger_line_behind(&plain, text); /* without how many blocks */
	size_t width = o->width && o->width < WORDS_PROSE ? o->width : WORDS_PROSE;
	words_style(out, o->color, c->change > 0 ? STYLE_WARN : STYLE_BOLD);
	fprintf(out, "%*s", COLUMNS, signed_words(c->change).text);
	words_style(out, o->color, STYLE_PLAIN);
	print_side(out, c->old);
	print_side(out, c->new);
	size_t used = LINE_INDENT + strlen(section->title) + 2 + strlen(behind);
	fprintf(out, "  %s: ", section->title);
	words_print_fit(out, ledger_line_name(line),
			used + LEAST_NAME < width ? width - used : LEAST_NAME);
	fprintf(out, "%s\n", behind);
}

static void print_lines(FILE *out, const struct ledger_diff *l, const struct report_diff_options *o,
			double threshold)
{
	size_t shown = 0;
	int64_t below = 0;
	fprintf(out, "%*s%*s%*s  line\n", COLUMNS, "change", COLUMNS, "old", COLUMNS, "new");
	while (shown < l->count && shown < LINES_SHOWN &&
	       (double)llabs(l->items[shown].change) > threshold)
		print_line(out, &l->items[shown++], o);
	for (size_t i = shown; i < l->count; i++)
		below += l->items[i].change;
	if (shown < l->count)
		fprintf(out, "%*s%*s  %s\n", COLUMNS, signed_words(below).text, 2 * COLUMNS, "",
			words_many(l->count - shown, "other line", "other lines").text);
}

static int print_ledgers(FILE *out, const struct ledger_diff *l,
			 const struct report_diff_options *o, bool *changed)
{
	double threshold = threshold_of(l, o);
	int64_t change = (int64_t)l->new->rss_bytes - (int64_t)l->old->rss_bytes;
	*changed = ledger_diff_is_beyond(l, threshold);
	putc('\n', out);
	words_style(out, o->color, STYLE_BOLD);
	fprintf(out, "Resident memory %s: ", ledger_moment_words(l->new->moment));
	words_style(out, o->color, STYLE_PLAIN);
	fprintf(out, "%s before, %s now", words_bytes(l->old->rss_bytes).text,
		words_bytes(l->new->rss_bytes).text);
	if (!*changed) {
		fprintf(out, "; no line differs by more than %s\n",
			words_bytes((uint64_t)threshold).text);
		return 0;
	}
	fprintf(out, " (%s)\n", signed_words(change).text);
	print_lines(out, l, o, threshold);
	return 0;
}

int report_diff_ledger_text(FILE *out, const struct profile_diff *d,
			    const struct report_diff_options *o, bool *changed)
{
	struct ledger_diff l;
	*changed = false;
	int rc = is_asked(o) ? first_moment(&l, d, o) : HEFT_ENOTFOUND;
	if (rc)
		return rc == HEFT_ENOTFOUND ? 0 : rc;
	rc = print_ledgers(out, &l, o, changed);
	ledger_diff_fini(&l);
	return rc;
}

/* ---- JSON */

static void write_side(struct json_writer *w, const char *key, const struct ledger *l)
{
	json_write_key(w, key);
	json_write_object(w);
	json_write_key_int(w, "pid", l->pid);
	json_write_key_uint(w, "time_ns", l->time_ns);
	json_write_key(w, "share_of_peak");
	json_write_real(w, l->share_of_peak);
	json_write_key_uint(w, "rss_bytes", l->rss_bytes);
	json_write_object_end(w);
}

static void write_line(struct json_writer *w, const struct ledger_change *c)
{
	const struct ledger_line *line = c->new ? c->new : c->old;
	json_write_object(w);
	json_write_key_string(w, "kind", ledger_kind_name(line->kind));
	json_write_key_string(w, "name", line->name);
	if (c->old)
		json_write_key_uint(w, "old_bytes", c->old->bytes.resident);
	if (c->new)
		json_write_key_uint(w, "new_bytes", c->new->bytes.resident);
	json_write_key_int(w, "change_bytes", c->change);
	json_write_object_end(w);
}

static void write_ledgers(struct json_writer *w, const struct ledger_diff *l,
			  const struct report_diff_options *o)
{
	double threshold = threshold_of(l, o);
	json_write_newline(w);
	json_write_object(w);
	json_write_key_string(w, "moment", ledger_moment_name(l->new->moment));
	write_side(w, "old", l->old);
	write_side(w, "new", l->new);
	json_write_key_int(w, "change_bytes",
			   (int64_t)l->new->rss_bytes - (int64_t)l->old->rss_bytes);
	json_write_key_uint(w, "threshold_bytes", (uint64_t)threshold);
	json_write_key_bool(w, "changed", ledger_diff_is_beyond(l, threshold));
	json_write_key(w, "lines");
	json_write_array(w);
	for (size_t i = 0; i < l->count; i++)
		write_line(w, &l->items[i]);
	json_write_array_end(w);
	json_write_object_end(w);
}

int report_diff_ledger_json(struct json_writer *w, const struct profile_diff *d,
			    const struct report_diff_options *o)
{
	int rc = 0;
	json_write_key(w, "ledgers");
	json_write_array(w);
	for (int moment = LEDGER_PEAK; moment <= LEDGER_INTERVAL && is_asked(o) && !rc; moment++) {
		struct ledger_diff l;
		rc = ledger_diff_init(&l, d->old, d->new, (enum ledger_moment)moment);
		if (rc == HEFT_ENOTFOUND) {
			rc = 0;
			continue;
		}
		if (rc)
			break;
		write_ledgers(w, &l, o);
		ledger_diff_fini(&l);
	}
	json_write_array_end(w);
	json_write_newline(w);
	return rc;
}
