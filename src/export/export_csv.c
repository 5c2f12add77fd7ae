/* Every site with every measure as CSV by RFC 4180: lines end in CRLF, a field with a comma, a quote or
 * a line break is quoted. The columns have the names of `heft report --json`; a number that the
 * profile does not have is an empty field, which no reader takes for 0. The stack is one field, as
 * folded stacks have it: root first, ";" between. In deep stacks "[recursion x9 of 3]" stands before
 * three frames that come nine times in turn, and "[500 frames cut]" where so many are missing. */
#include "export/export_formats.h"
#include "export/export_names.h"
#include "hosted/name_words.h"
#include "hosted/vector.h"
#include "profile/stack_fold.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The name of every frame, made harmless once: a stack is then a row of copies. */
struct csv_stacks {
	const struct profile *p;
	struct stack_fold fold;
	char *text;
	size_t *starts; /* by frame; one more at the end */
	struct stack_entry *entries;
	size_t capacity; /* of entries */
};

/* Writes a name of the program inside a quoted field. */
static void write_name(FILE *out, const char *name, char separator)
{
	char piece[WORDS_GLYPH];
	for (;;) {
		size_t n = words_plain(name, '"', separator);
		fwrite_unlocked(name, 1, n, out);
		name += n;
		if (!(n = words_glyph(&name, piece)))
			return;
		if (piece[0] == '"')
			putc_unlocked('"', out);
		if (separator && piece[0] == separator)
			piece[0] = ':';
		fwrite_unlocked(piece, 1, n, out);
	}
}

static int stacks_init(struct csv_stacks *x, const struct profile *p, bool full)
{
	size_t length = 0;
	*x = (struct csv_stacks){.p = p};
	FILE *out = open_memstream(&x->text, &length);
	x->starts = malloc(((size_t)p->stacks.frame_count + 1) * sizeof *x->starts);
	for (uint32_t i = 0; out && x->starts && i <= p->stacks.frame_count; i++) {
		x->starts[i] = (size_t)ftell(out);
		if (i < p->stacks.frame_count)
			write_name(out, p->stacks.frames[i].function, ';');
	}
	if (!out || fclose(out) != 0 || !x->starts)
		return HEFT_ENOMEM;
	return stack_fold_init(&x->fold, p, full ? STACK_WHOLE : STACK_LIST, NULL);
}

static void stacks_fini(struct csv_stacks *x)
{
	stack_fold_fini(&x->fold);
	free(x->text);
	free(x->starts);
	free(x->entries);
}

static void write_number(FILE *out, uint64_t n)
{
	char digits[20];
	size_t at = sizeof digits;
	do
		digits[--at] = (char)('0' + n % 10);
	while (n /= 10);
	while (at < sizeof digits)
		putc_unlocked(digits[at++], out);
}

static void write_text(FILE *out, const char *text)
{
	putc_unlocked(',', out);
	if (!text || !*text)
		return;
	putc_unlocked('"', out);
	write_name(out, text, 0);
	putc_unlocked('"', out);
}

static void write_frame(FILE *out, const struct profile *p, uint32_t node)
{
	const struct profile_frame *f = node == PROFILE_NONE ? NULL : profile_node_frame(p, node);
	write_text(out, f ? f->function : EXPORT_UNKNOWN_STACK);
	write_text(out, f ? f->file : NULL);
	putc_unlocked(',', out);
	if (f && f->line)
		write_number(out, f->line);
	write_text(out, f && f->module < p->stacks.module_count ? p->stacks.modules[f->module].path
								: NULL);
}

/* Before the outermost frame of those that repeat: how often, and how many they are. The outer one of
 * two recursions that begin with one frame is the longer one. */
static void write_recursions(FILE *out, const struct stack_entry *entries, size_t outermost)
{
	for (size_t back = STACK_MOST; back-- > 0;) {
		if (back > outermost)
			continue;
		const struct stack_entry *e = &entries[outermost - back];
		if (e->times < 2 || e->cycle != back + 1)
			continue;
		fprintf(out, "[recursion x%" PRIu32, e->times);
		if (e->cycle > 1)
			fprintf(out, " of %" PRIu32, e->cycle);
		fputs("];", out);
	}
}

static int write_stack(FILE *out, struct csv_stacks *x, uint32_t node)
{
	struct stack_walk w;
	struct stack_entry e;
	size_t depth = 0;
	bool marked = stack_fold_applies(&x->fold, node);
	for (stack_walk_begin(&w, &x->fold, node); stack_walk_next(&w, &e);) {
		if (!array_reserve(x->entries, depth, x->capacity, 1))
			return HEFT_ENOMEM;
		x->entries[depth++] = e;
	}
	fputs_unlocked(",\"", out);
	if (!depth)
		fputs_unlocked(EXPORT_UNKNOWN_STACK, out);
	for (size_t i = depth; i-- > 0;) {
		uint32_t frame = x->p->stacks.nodes[x->entries[i].node].frame;
		if (x->entries[i].cut)
			fprintf(out, "[%" PRIu32 " frames cut];", x->entries[i].cut);
		if (marked)
			write_recursions(out, x->entries, i);
		fwrite_unlocked(x->text + x->starts[frame], 1,
				x->starts[frame + 1] - x->starts[frame], out);
		if (i)
			putc_unlocked(';', out);
	}
	putc_unlocked('"', out);
	return 0;
}

/* Whether the table has the measure. Those of windows (the state at the start, growth) belong to
 * reports. */
static bool is_column(const struct profile *p, enum measure_id id)
{
	return measures[id].site && !measures[id].minus && id != MEASURE_START_BYTES &&
	       id != MEASURE_START_BLOCKS &&
	       (!(measures[id].needs & ~(uint32_t)PROFILE_HAS_ALL) || measure_known(p, id));
}

static void write_measures(FILE *out, const struct profile *p, const struct profile_site *s)
{
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++) {
		if (!is_column(p, i))
			continue;
		putc_unlocked(',', out);
		if (measure_known(p, i))
			write_number(out, measure_of_site(s, i));
	}
}

/* The errors of estimates. The table of an exact profile has no such columns. */
static void write_certainty(FILE *out, const struct profile *p, uint32_t site)
{
	const struct profile_spread *s = &p->estimates.spreads[site];
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++)
		if (measures[i].errors)
			fprintf(out, ",%" PRIu64, measure_error95(p, site, i));
	fprintf(out, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", s->samples,
		s->peak_samples, s->live_samples, s->left_samples);
	if (p->estimates.ages && p->estimates.ages[site].count)
		fprintf(out, "%" PRIu64, p->estimates.ages[site].p50_ns);
}

static void write_head(FILE *out, const struct profile *p)
{
	fputs("id,via,function,file,line,module,user_function,user_file,user_line,user_module,"
	      "stack",
	      out);
	for (enum measure_id i = 0; i < MEASURE_COUNT; i++)
		if (is_column(p, i))
			fprintf(out, ",%s", measures[i].name);
	for (enum measure_id i = 0; p->estimates.errors && i < MEASURE_COUNT; i++)
		if (measures[i].errors)
			fprintf(out, ",%s_error95", measures[i].name);
	fprintf(out, "%s\r\n",
		p->estimates.errors ? ",samples,peak_samples,live_samples,left_samples,age_p50_ns"
				    : "");
}

int export_csv(FILE *out, const struct profile *p, const struct export_options *o,
	       struct heft_error *err)
{
	uint32_t *order = measure_sort_sites(p, o->measure);
	struct csv_stacks stacks;
	int rc = stacks_init(&stacks, p, o->full);
	if (!order)
		rc = HEFT_ENOMEM;
	if (rc == 0)
		write_head(out, p);
	for (uint32_t i = 0; i < p->site_count && rc == 0; i++) {
		const struct profile_site *s = &p->sites[order[i]];
		write_number(out, s->id);
		write_text(out, profile_via_name(s->via));
		write_frame(out, p, s->node);
		write_frame(out, p, profile_first_user_node(p, s->node));
		rc = write_stack(out, &stacks, s->node);
		write_measures(out, p, s);
		if (p->estimates.errors)
			write_certainty(out, p, order[i]);
		fputs("\r\n", out);
	}
	if (rc < 0)
		heft_fail(err, rc, "not enough memory to write the table");
	stacks_fini(&stacks);
	free(order);
	return rc;
}
