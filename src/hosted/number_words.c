/* Writes counts with separators, and sizes in the unit that fits, without digits that say nothing.
 * 1023.95 KiB would become "1024.0 KiB", so it takes the next unit.
 *
 * Invariant: every number fits NUMBER_WORDS; the word of a unit is cut if it does not fit. */
#include "hosted/number_words.h"

#include <inttypes.h>
#include <stdio.h>

void number_count(char text[NUMBER_WORDS], uint64_t n)
{
	char digits[24];
	int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
	size_t used = 0;
	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			text[used++] = ',';
		text[used++] = digits[i];
	}
	text[used] = 0;
}

void number_bytes(char text[NUMBER_WORDS], uint64_t bytes, const char *byte, const char *several)
{
	static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = (double)bytes;
	unsigned unit = 0;
	while (value >= 1023.95 && unit < 6) {
		value /= 1024;
		unit++;
	}
	if (unit)
		snprintf(text, NUMBER_WORDS, "%.1f %s", value, units[unit]);
	else
		snprintf(text, NUMBER_WORDS, "%" PRIu64 " %s", bytes, bytes == 1 ? byte : several);
}

static void number_time(char text[NUMBER_WORDS], double ns)
{
	if (ns < 999.5)
		snprintf(text, NUMBER_WORDS, "%.0f ns", ns > 0 ? ns : 0);
	else if (ns < 999.5e3)
		snprintf(text, NUMBER_WORDS, "%.3g us", ns / 1e3);
	else if (ns < 999.5e6)
		snprintf(text, NUMBER_WORDS, "%.3g ms", ns / 1e6);
	else if (ns < 100e9)
		snprintf(text, NUMBER_WORDS, "%.2f s", ns / 1e9);
	else if (ns < 7200e9)
		snprintf(text, NUMBER_WORDS, "%.0f s", ns / 1e9);
	else
		snprintf(text, NUMBER_WORDS, "%.1f h", ns / 3600e9);
}

struct words words_count(uint64_t n)
{
	struct words w;
	number_count(w.text, n);
	return w;
}

struct words words_many(uint64_t n, const char *one, const char *many)
{
	struct words w;
	snprintf(w.text, sizeof w.text, "%.26s %.12s", words_count(n).text, n == 1 ? one : many);
	return w;
}

struct words words_bytes(uint64_t bytes)
{
	struct words w;
	number_bytes(w.text, bytes, "B", "B");
	return w;
}

struct words words_size(uint64_t bytes)
{
	return bytes < 1024 ? words_many(bytes, "byte", "bytes") : words_bytes(bytes);
}

struct words words_duration(uint64_t ns)
{
	return words_time((double)ns);
}

struct words words_time(double ns)
{
	struct words w;
	number_time(w.text, ns);
	return w;
}

struct words words_percent(double share)
{
	struct words w;
	snprintf(w.text, sizeof w.text, "%.1f %%",
		 share > 1e6  ? 1e8
		 : share >= 0 ? 100 * share
			      : 0);
	return w;
}

size_t number_steps(uint64_t part, uint64_t whole, size_t steps)
{
	if (!part || !whole)
		return 0;
	double share = part < whole ? (double)part / (double)whole : 1;
	size_t n = (size_t)(share * (double)steps + 0.5);
	return n ? n : 1;
}

const char *number_level(uint64_t part, uint64_t whole, bool utf8)
{
	static const char *const blocks[] = {" ",
					     "\xe2\x96\x81",
					     "\xe2\x96\x82",
					     "\xe2\x96\x83",
					     "\xe2\x96\x84",
					     "\xe2\x96\x85",
					     "\xe2\x96\x86",
					     "\xe2\x96\x87",
					     "\xe2\x96\x88"};
	static const char *const marks[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
	size_t n = number_steps(part, whole, 8);
	return utf8 ? blocks[n] : marks[n];
}
