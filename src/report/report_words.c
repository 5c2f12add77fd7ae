/* Numbers as people read them: units that fit the size, commas between thousands, few digits. Bars and
 * colours are here too.
 *
 * Invariant: every number fits struct words, whatever it is. */
#include "report/report_words.h"

#include "profile/process_groups.h"
#include "profile/process_images.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

struct words words_growth(uint64_t from, uint64_t to)
{
	struct words w, size = words_bytes(from < to ? to - from : from - to);
	snprintf(w.text, sizeof w.text, "%s%.30s",
		 from < to   ? "+"
		 : from > to ? "-"
			     : "",
		 size.text);
	return w;
}

struct words words_exact_bytes(uint64_t bytes)
{
	struct words w = words_count(bytes);
	strcat(w.text, " B"); /* 26 + 2 at most */
	return w;
}

struct words words_blocks(uint64_t n)
{
	return words_many(n, "block", "blocks");
}

struct words words_processes(uint64_t n)
{
	return words_many(n, "process", "processes");
}

struct place_words words_threads(const struct profile *p)
{
	struct place_words w = {""};
	uint64_t threads = profile_count_threads(p);
	uint32_t processes = profile_count_processes(p);
	if (threads)
		snprintf(w.text, sizeof w.text, "%s thread%s%s%s", words_count(threads).text,
			 threads == 1 ? "" : "s", processes ? " in " : "",
			 processes ? words_processes(processes).text : "");
	else if (processes) /* samples name few threads, and an idle process has none */
		snprintf(w.text, sizeof w.text, "%s", words_processes(processes).text);
	return w;
}

struct words words_within(uint64_t error_bytes)
{
	struct words w;
	snprintf(w.text, sizeof w.text, " +- %.30s", words_bytes(error_bytes).text);
	return w;
}

struct words words_within_count(uint64_t error)
{
	struct words w;
	snprintf(w.text, sizeof w.text, " +- %.30s", words_count(error).text);
	return w;
}

struct words words_error(const struct profile *p, uint64_t error_bytes)
{
	return p->estimates.errors ? words_within(error_bytes) : (struct words){""};
}

struct words words_rate(uint64_t n, uint64_t ns)
{
	struct words w;
	double rate = ns ? (double)n * 1e9 / (double)ns : 0;
	if (rate >= 999.5e3)
		snprintf(w.text, sizeof w.text, "%.2f M/s", rate / 1e6);
	else if (rate >= 9999.5)
		snprintf(w.text, sizeof w.text, "%.0f k/s", rate / 1e3);
	else
		snprintf(w.text, sizeof w.text, "%.30s/s",
			 words_count((uint64_t)(rate + 0.5)).text);
	return w;
}

struct words words_share(uint64_t part, uint64_t of)
{
	struct words w;
	if (of)
		snprintf(w.text, sizeof w.text, "%.1f %%", 100 * (double)part / (double)of);
	else
		snprintf(w.text, sizeof w.text, "-");
	return w;
}

struct words words_value(uint64_t value, enum measure_id measure)
{
	switch (measures[measure].unit) {
	case MEASURE_IS_COUNT: return words_count(value);
	case MEASURE_IS_TIME: return words_duration(value);
	case MEASURE_IS_BYTES: break;
	}
	return words_bytes(value);
}

void words_style(FILE *out, bool color, enum style style)
{
	static const char *const codes[] = {
		[STYLE_PLAIN] = "\033[0m",   [STYLE_BOLD] = "\033[1m",
		[STYLE_DIM] = "\033[2m",     [STYLE_WARN] = "\033[1;33m",
		[STYLE_HIGH] = "\033[1;31m", [STYLE_MEDIUM] = "\033[1;33m",
		[STYLE_LOW] = "\033[1;36m",
	};
	if (color)
		fputs(codes[style], out);
}

void words_print_styled(FILE *out, bool color, enum style style, const char *fmt, ...)
{
	va_list args;
	words_style(out, color, style);
	va_start(args, fmt);
	vfprintf(out, fmt, args);
	va_end(args);
	words_style(out, color, STYLE_PLAIN);
}

void words_print_bar(FILE *out, uint64_t part, uint64_t whole, size_t columns, bool utf8)
{
	for (size_t n = number_steps(part, whole, columns); n; n--)
		fputs(utf8 ? "\xe2\x96\x88" : "#", out);
}

void words_print_level(FILE *out, uint64_t part, uint64_t whole, bool utf8)
{
	fputs(number_level(part, whole, utf8), out);
}
