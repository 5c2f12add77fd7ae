/* Allocations by size: how many there are of each class, their bytes, and what the allocator adds
 * to round them up.
 *
 * The profile has exact sizes up to 1024 bytes and narrow classes above. The table groups them by powers
 * of two, which fits on a screen (9-16, 17-32 ... 513-1024 B, 1-2 KiB, 2-4 KiB ...: exact sizes end at a
 * power of two, classes begin at one). Below it are the most frequent single sizes, because a program
 * that makes a million blocks of 48 bytes has one type to look at. */
#include "report/report_parts.h"

#include "hosted/compare.h"
#include "report/report_words.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	POWERS = 65,
	SMALLEST_POWER = 3,
	EXACT = 1024,
	FREQUENT = 8,
	LABEL = 17,
	CELL = 11,
	WIDE = LABEL + 4 * (CELL + 1) + 2 * 9
};

/* Which power of two a size belongs to: the last one of its line. */
static unsigned power_of(uint64_t low_bytes)
{
	unsigned power = SMALLEST_POWER;
	if (!low_bytes)
		return 0; /* malloc(0) has its own line */
	if (low_bytes <= EXACT)
		while (low_bytes > (uint64_t)1 << power)
			power++;
	else
		power = 64 - (unsigned)__builtin_clzll(low_bytes);
	return power;
}

static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

static void print_range(FILE *out, unsigned power)
{
	char text[80];
	if (!power) {
		snprintf(text, sizeof text, "0 B");
	} else if (power <= 10) {
		snprintf(text, sizeof text, "%u-%u B",
			 power == SMALLEST_POWER ? 1 : (1u << (power - 1)) + 1, 1u << power);
	} else {
		unsigned unit = (power - 1) / 10, low = 1u << (power - 1) % 10;
		if (low < 512)
			snprintf(text, sizeof text, "%u-%u %s", low, 2 * low, units[unit]);
		else
			snprintf(text, sizeof text, "%u %s-1 %s", low, units[unit],
				 units[unit + 1]);
	}
	fprintf(out, "%*s", LABEL, text);
}

static void add(struct profile_size *sum, const struct profile_size *s)
{
	sum->allocations += s->allocations;
	sum->allocated_bytes += s->allocated_bytes;
	sum->slack_bytes += s->slack_bytes;
	sum->peak_blocks += s->peak_blocks;
	sum->peak_bytes += s->peak_bytes;
	sum->peak_slack_bytes += s->peak_slack_bytes;
}

static bool is_empty(const struct profile_size *s)
{
	return !s->allocations && !s->peak_blocks;
}

/* To the byte, as long as the column has room; then in the unit that gives its ends exactly, from the
 * first to where the next class begins, as in the table above. */
static void print_class(FILE *out, const struct profile_size *s)
{
	char text[80];
	uint64_t low = s->low_bytes, next = s->high_bytes + 1;
	if (s->low_bytes == s->high_bytes)
		snprintf(text, sizeof text, "%s", words_exact_bytes(s->low_bytes).text);
	else
		snprintf(text, sizeof text, "%s-%s", words_count(s->low_bytes).text,
			 words_exact_bytes(s->high_bytes).text);
	for (unsigned unit = 1; unit < sizeof units / sizeof *units && strlen(text) > LABEL &&
				low % 1024 == 0 && next % 1024 == 0 && next > low;
	     unit++) {
		low /= 1024;
		next /= 1024;
		snprintf(text, sizeof text, "%.30s-%.30s %s", words_count(low).text,
			 words_count(next).text, units[unit]);
	}
	fprintf(out, "%*s", LABEL, text);
}

/* Whether there is room for what was live at the peak. */
static bool has_peak(const struct report_options *o)
{
	return report_width(o) >= WIDE;
}

static void print_head(FILE *out, const struct report_options *o, const char *first)
{
	words_style(out, o->color, STYLE_BOLD);
	fprintf(out, "%*s %*s %8s %*s %*s", LABEL, first, CELL, "allocations", "share", CELL,
		"allocated", CELL, "rounding");
	if (has_peak(o))
		fprintf(out, " %8s %*s", "", CELL, "at the peak");
	words_style(out, o->color, STYLE_PLAIN);
	putc('\n', out);
}

/* The rest of a line whose label is printed. most: of the longest bar; 0: none. */
static void print_size(FILE *out, const struct profile_size *s, const struct profile_size *all,
		       uint64_t most, const struct report_options *o)
{
	size_t used = WIDE + 2, width = report_width(o);
	fprintf(out, " %*s %8s %*s %*s %8s", CELL, words_count(s->allocations).text,
		s == all ? "" : words_share(s->allocations, all->allocations).text, CELL,
		words_bytes(s->allocated_bytes).text, CELL, words_bytes(s->slack_bytes).text,
		words_share(s->slack_bytes, s->allocated_bytes).text);
	if (has_peak(o))
		fprintf(out, " %*s", CELL, words_bytes(s->peak_bytes).text);
	if (most && s->allocations && width >= used + 4) {
		fputs("  ", out);
		words_print_bar(out, s->allocations, most, width - used < 20 ? width - used : 20,
				o->utf8);
	}
	putc('\n', out);
}

static int most_first(const void *a, const void *b)
{
	const struct profile_size *x = *(const struct profile_size *const *)a;
	const struct profile_size *y = *(const struct profile_size *const *)b;
	return compare_numbers(y->allocations, x->allocations)
		       ?: compare_numbers(x->low_bytes, y->low_bytes);
}

static int print_frequent(FILE *out, const struct profile *p, const struct profile_size *all,
			  const struct report_options *o)
{
	const struct profile_size **order = malloc(((size_t)p->behaviour.size_count + 1) *
						   sizeof *order);
	uint32_t count = 0;
	if (!order)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < p->behaviour.size_count; i++)
		if (p->behaviour.sizes[i].allocations)
			order[count++] = &p->behaviour.sizes[i];
	if (count)
		qsort(order, count, sizeof *order, most_first);
	putc('\n', out);
	print_head(out, o, "most frequent");
	for (uint32_t i = 0; i < count && i < FREQUENT; i++) {
		print_class(out, order[i]);
		print_size(out, order[i], all, order[0]->allocations, o);
	}
	free(order);
	return 0;
}

int report_sizes(FILE *out, const struct profile *p, const struct report_options *o)
{
	struct profile_size powers[POWERS], all = {0};
	uint64_t most = 0;
	char what[120];
	memset(powers, 0, sizeof powers);
	for (uint32_t i = 0; i < p->behaviour.size_count; i++) {
		const struct profile_size *s = &p->behaviour.sizes[i];
		if (is_empty(s))
			continue;
		add(&powers[power_of(s->low_bytes)], s);
		add(&all, s);
	}
	for (unsigned i = 0; i < POWERS; i++)
		if (powers[i].allocations > most)
			most = powers[i].allocations;
	snprintf(what, sizeof what, "%s allocated or resized, by size",
		 words_blocks(all.allocations).text);
	report_print_title(out, p, o, what);
	report_print_span(out, p, o);
	report_print_selection(out, o);
	report_print_warnings(out, p, o);
	if (is_empty(&all)) {
		fputs(p->totals.allocations ? "  The sizes are not known.\n"
					    : "  No allocations.\n",
		      out);
		report_print_next(out, o, "", "the report");
		return 0;
	}
	putc('\n', out);
	print_head(out, o, "requested");
	for (unsigned i = 0; i < POWERS; i++)
		if (!is_empty(&powers[i])) {
			print_range(out, i);
			print_size(out, &powers[i], &all, most, o);
		}
	fprintf(out, "%*s", LABEL, "all");
	print_size(out, &all, &all, 0, o);
	fputs("  ", out);
	words_print_wrapped(out,
			    "rounding: usable minus requested bytes, and that as a share of the "
			    "requested bytes",
			    2, report_width(o));
	putc('\n', out);
	int rc = print_frequent(out, p, &all, o);
	if (rc == 0)
		report_print_next(out, o, "--sort count", "who allocates most of these blocks");
	return rc;
}
