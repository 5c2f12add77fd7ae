/* Numbers as people read them, and names that cannot do harm.
 *
 * Names come from the profiled program: a function, thread or file name may hold
 * escape sequences for the terminal, direction marks that reorder a line, or bytes
 * that are no text at all. Everything that is not plainly printable is shown as
 * \xNN. Cuts are always marked. */
#include "report/report_words.h"

#include "hosted/utf8.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_FUNCTION = 120, LONGEST_FILE = 60, LONGEST_FOLDER = 512 };

struct words words_bytes(uint64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	struct words w;
	double value = (double)bytes;
	unsigned unit = 0;
	while (value >= 1023.95 && unit < 6) {
		value /= 1024;
		unit++;
	}
	if (unit)
		snprintf(w.text, sizeof w.text, "%.1f %s", value, units[unit]);
	else
		snprintf(w.text, sizeof w.text, "%" PRIu64 " B", bytes);
	return w;
}

struct words words_count(uint64_t n)
{
	struct words w;
	char digits[24];
	int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
	size_t used = 0;
	for (int i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			w.text[used++] = ',';
		w.text[used++] = digits[i];
	}
	w.text[used] = 0;
	return w;
}

struct words words_blocks(uint64_t n)
{
	struct words w = words_count(n);
	strcat(w.text, n == 1 ? " block" : " blocks"); /* 26 + 7 at most */
	return w;
}

struct words words_duration(uint64_t ns)
{
	struct words w;
	double value = (double)ns;
	if (ns < 1000)
		snprintf(w.text, sizeof w.text, "%" PRIu64 " ns", ns);
	else if (value < 999.5e3)
		snprintf(w.text, sizeof w.text, "%.3g us", value / 1e3);
	else if (value < 999.5e6)
		snprintf(w.text, sizeof w.text, "%.3g ms", value / 1e6);
	else if (value < 100e9)
		snprintf(w.text, sizeof w.text, "%.2f s", value / 1e9);
	else if (value < 7200e9)
		snprintf(w.text, sizeof w.text, "%.0f s", value / 1e9);
	else
		snprintf(w.text, sizeof w.text, "%.1f h", value / 3600e9);
	return w;
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
		snprintf(w.text, sizeof w.text, "%.0f/s", rate);
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

/* C1 controls and the marks that change the direction of what follows. */
static bool is_trouble(const unsigned char *s, size_t length)
{
	if (length == 2)
		return s[0] == 0xc2 && s[1] < 0xa0;
	if (length == 3 && s[0] == 0xe2 && s[1] == 0x80)
		return s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae);
	return length == 3 && s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9;
}

void words_print(FILE *out, const char *name, size_t max)
{
	const unsigned char *s = (const unsigned char *)name;
	for (size_t columns = 0; *s; columns++) {
		if (columns >= max) {
			fputs("...", out);
			return;
		}
		size_t length = *s >= 0x20 && *s < 0x7f ? 1 : utf8_sequence_length(s);
		if (!length || (length > 1 && is_trouble(s, length))) {
			if (!length)
				length = 1;
			for (size_t i = 0; i < length; i++)
				fprintf(out, "\\x%02x", s[i]);
			columns += 4 * length - 1;
		} else {
			fwrite(s, 1, length, out);
		}
		s += length;
	}
}

/* Length of the operator's sign after "operator", as far as it holds brackets. */
static size_t operator_sign(const char *s)
{
	static const char *const signs[] = {
		"<<=", ">>=", "<=>", "->*", "<<", ">>", "<=", ">=", "->", "()", "[]", "<", ">"};
	for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
		if (strncmp(s, signs[i], strlen(signs[i])) == 0)
			return strlen(signs[i]);
	return 0;
}

void words_print_short(FILE *out, const char *function, size_t max)
{
	static const char word[] = "operator", nameless[] = "(anonymous namespace)";
	char text[512];
	size_t used = 0;
	unsigned depth = 0;
	const char *s = function;
	while (*s && used + 32 < sizeof text) {
		size_t take = 1;
		bool opens = *s == '<' || *s == '(';
		bool closes = *s == '>' || *s == ')';
		if (strncmp(s, word, sizeof word - 1) == 0) {
			take = sizeof word - 1;
			take += operator_sign(s + take);
			opens = closes = false;
		} else if (strncmp(s, nameless, sizeof nameless - 1) == 0) {
			take = sizeof nameless - 1;
			opens = closes = false;
		} else if (closes && s > function && s[-1] == '-') {
			closes = false; /* -> in an expression */
		}
		if (closes && depth && --depth == 0) {
			if (s[-1] != '(' && s[-1] != '<') {
				text[used++] = '.';
				text[used++] = '.';
			}
			text[used++] = *s;
		} else if (depth == 0) {
			memcpy(text + used, s, take);
			used += take;
		}
		depth += opens;
		s += take;
	}
	text[used] = 0;
	words_print(out, depth || *s ? function : text, max); /* brackets that do not match */
}

static void print_path(FILE *out, const char *path)
{
	/* People mostly stand in the project they measure. */
	char here[LONGEST_FOLDER];
	size_t folder = getcwd(here, sizeof here) ? strlen(here) : 0;
	if (folder > 1 && strncmp(path, here, folder) == 0 && path[folder] == '/')
		path += folder + 1;
	size_t length = strlen(path);
	if (length > LONGEST_FILE) {
		const char *from = strchr(path + length - LONGEST_FILE, '/');
		if (!from) /* one long name: its end says most */
			from = path + length - LONGEST_FILE;
		fputs("...", out);
		path = from;
	}
	words_print(out, path, 2 * LONGEST_FILE);
}

void words_print_place(FILE *out, const struct profile *p, uint32_t frame)
{
	const struct profile_frame *f = &p->frames[frame];
	words_print(out, f->function, LONGEST_FUNCTION);
	if (f->file) {
		fputs(" at ", out);
		print_path(out, f->file);
		if (f->line)
			fprintf(out, ":%" PRIu32, f->line);
	} else if (f->module < p->module_count && !strstr(f->function, "+0x")) {
		fputs(" in ", out);
		words_print(out, profile_module_name(p, f->module), LONGEST_FILE);
	}
}

void words_print_frame(FILE *out, const struct profile *p, uint32_t node)
{
	if (node >= p->node_count) {
		fputs("[stack unknown]", out);
		return;
	}
	words_print_place(out, p, p->nodes[node].frame);
	if (p->nodes[node].flags & PROFILE_GUESSED)
		fputs(" [guessed]", out);
	if (p->nodes[node].flags & PROFILE_LOST)
		fputs(" [inner frames missing]", out);
}

void words_print_command(FILE *out, const char *const *argv, uint32_t argc, size_t max)
{
	size_t used = 0;
	for (uint32_t i = 0; i < argc && used <= max; i++) { /* beyond max the cut is marked */
		if (i && used == max) {
			fputs(" ...", out);
			return;
		}
		if (i) {
			putc(' ', out);
			used++;
		}
		words_print(out, argv[i], max - used);
		used += strlen(argv[i]);
	}
}

void words_print_shell(FILE *out, const char *path)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_-+=./,:@%^";
	if (path[0] && strspn(path, plain) == strlen(path)) {
		fputs(path, out);
		return;
	}
	putc('\'', out);
	for (const char *s = path; *s;) {
		size_t length = strcspn(s, "'");
		char part[256];
		if (length >= sizeof part)
			length = sizeof part - 1;
		memcpy(part, s, length);
		part[length] = 0;
		words_print(out, part, SIZE_MAX);
		s += length;
		if (*s == '\'') {
			fputs("'\\''", out);
			s++;
		}
	}
	putc('\'', out);
}

void words_style(FILE *out, bool color, enum style style)
{
	static const char *const codes[] = {
		[STYLE_PLAIN] = "\033[0m",
		[STYLE_BOLD] = "\033[1m",
		[STYLE_DIM] = "\033[2m",
		[STYLE_WARN] = "\033[1;33m",
	};
	if (color)
		fputs(codes[style], out);
}

void words_print_end(FILE *out, const struct profile *p)
{
	switch (p->end) {
	case PROFILE_END_EXIT:
		fprintf(out, "exit status %" PRId32, p->exit_status);
		break;
	case PROFILE_END_SIGNAL: {
		const char *name = sigabbrev_np(p->signal);
		fprintf(out, "killed by signal %" PRId32 "%s%s%s", p->signal, name ? " (SIG" : "",
			name ? name : "", name ? ")" : "");
		break;
	}
	case PROFILE_END_EXEC:
		fputs("became another program", out);
		break;
	case PROFILE_END_DETACHED:
		fputs("went on after the recording ended", out);
		break;
	case PROFILE_END_UNKNOWN:
		fputs("ended, status unknown", out);
		break;
	case PROFILE_END_RUNNING:
		fputs(p->complete ? "still running when the recording ended"
				  : "the recording has no end",
		      out);
		break;
	}
}
