/* Draws lines on the terminal and reads keys, through ncurses. No other file uses ncurses; built without
 * it, this file only says so.
 *
 * Lines are written as cells (mvadd_wchnstr), which neither wrap nor interpret anything, so a line cannot
 * write outside its own line. Characters without a width are left out. The terminal is opened by its
 * device, because standard output may belong to the program.
 *
 * Invariant: after top_screen_close, or a refused open, the terminal is as it was. */
#include "top/top.h"

#ifdef HEFT_NCURSES

#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

enum { CELLS = 1024, ESCAPE_MS = 50 };

struct top_screen {
	FILE *in, *out;
	SCREEN *screen;
	bool color;
	cchar_t cells[CELLS];
};

enum { PAIR_WARN = 1, PAIR_GROWS, PAIR_SHRINKS };

static void begin_colors(struct top_screen *s, bool color)
{
	s->color = color && has_colors() && start_color() == OK;
	if (!s->color)
		return;
	use_default_colors();
	init_pair(PAIR_WARN, COLOR_YELLOW, -1);
	init_pair(PAIR_GROWS, COLOR_RED, -1);
	init_pair(PAIR_SHRINKS, COLOR_GREEN, -1);
}

int top_screen_open(struct top_screen **out, bool color, struct heft_error *err)
{
	const char *term = getenv("TERM");
	struct top_screen *s = calloc(1, sizeof *s);
	*out = NULL;
	if (!s)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	setlocale(LC_CTYPE, ""); /* ncurses asks it how characters are written */
	use_env(FALSE);          /* ask the terminal for its size, not LINES and COLUMNS */
	s->in = fopen("/dev/tty", "re");
	s->out = fopen("/dev/tty", "we");
	if (s->in && s->out && term && *term && strcmp(term, "dumb") != 0)
		s->screen = newterm(NULL, s->out, s->in);
	if (s->screen && !tigetstr("cup")) { /* it cannot place anything */
		endwin();
		delscreen(s->screen);
		s->screen = NULL;
	}
	if (!s->screen) {
		if (s->in)
			fclose(s->in);
		if (s->out)
			fclose(s->out);
		free(s);
		return heft_fail(err, HEFT_EREFUSED,
				 "this terminal (TERM=%.60s) cannot show a live view\n"
				 "heft top --once prints it as plain text",
				 term && *term ? term : "");
	}
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
	begin_colors(s, color);
	*out = s;
	return 0;
}

void top_screen_close(struct top_screen *s)
{
	if (!s)
		return;
	endwin();
	delscreen(s->screen);
	fclose(s->in);
	fclose(s->out);
	free(s);
}

void top_screen_size(struct top_screen *s, size_t *width, size_t *height)
{
	struct winsize now;
	/* Ask each time: ncurses' own handler misses a change while it is not reading. */
	if (ioctl(fileno(s->out), TIOCGWINSZ, &now) == 0 && now.ws_row && now.ws_col &&
	    (now.ws_row != LINES || now.ws_col != COLS))
		resizeterm(now.ws_row, now.ws_col);
	*width = COLS > 0 ? (size_t)COLS : 1;
	*height = LINES > 0 ? (size_t)LINES : 1;
}

static attr_t attributes(const struct top_screen *s, enum top_style style, short *pair)
{
	*pair = 0;
	switch (style) {
	case TOP_TITLE: return A_BOLD;
	case TOP_DIM: return A_DIM;
	case TOP_WARN: *pair = s->color ? PAIR_WARN : 0; return A_BOLD;
	case TOP_GROWS: *pair = s->color ? PAIR_GROWS : 0; return A_NORMAL;
	case TOP_SHRINKS: *pair = s->color ? PAIR_SHRINKS : 0; return A_NORMAL;
	case TOP_HEAD: return A_REVERSE;
	case TOP_PLAIN: break;
	}
	return A_NORMAL;
}

static enum top_style style_at(const struct top_line *line, size_t at)
{
	for (unsigned i = 0; i < line->span_count; i++)
		if (at >= line->spans[i].from && at < line->spans[i].to)
			return line->spans[i].style;
	return TOP_PLAIN;
}

static void draw_line(struct top_screen *s, int y, const struct top_line *line, bool cursor)
{
	mbstate_t state = {0};
	size_t length = strlen(line->text);
	int columns = 0, count = 0, space = COLS < CELLS - 1 ? COLS : CELLS - 1;
	for (size_t at = 0; at < length;) {
		wchar_t c;
		short pair;
		size_t n = mbrtowc(&c, line->text + at, length - at, &state);
		if (n == 0 || n > 4) { /* not in this locale: a mark */
			c = L'?';
			n = 1;
			state = (mbstate_t){0};
		}
		attr_t attribute = attributes(s, style_at(line, at), &pair);
		int width = wcwidth(c);
		at += n;
		if (width <= 0)
			continue;
		if (columns + width > space)
			break;
		if (cursor)
			attribute |= A_REVERSE;
		setcchar(&s->cells[count++], (wchar_t[]){c, 0}, attribute, pair, NULL);
		columns += width;
	}
	move(y, 0);
	clrtoeol();
	if (count)
		mvadd_wchnstr(y, 0, s->cells, count);
	if (cursor && columns < space)
		mvchgat(y, columns, -1, A_REVERSE, 0, NULL);
}

void top_screen_draw(struct top_screen *s, const struct top_lines *lines, size_t cursor)
{
	for (size_t i = 0; i < (size_t)LINES; i++) {
		static const struct top_line empty = {.text = (char *)""};
		draw_line(s, (int)i, i < lines->count ? &lines->lines[i] : &empty, i == cursor);
	}
	refresh();
}

int top_screen_key(struct top_screen *s, int timeout_ms)
{
	wint_t c;
	(void)s;
	timeout(timeout_ms);
	switch (get_wch(&c)) {
	case OK:
		return c == '\r' || c == '\n'  ? TOP_KEY_ENTER
		       : c == 27               ? TOP_KEY_ESCAPE
		       : c == 127 || c == '\b' ? TOP_KEY_BACKSPACE
					       : (int)c;
	case KEY_CODE_YES: break;
	default: return -1;
	}
	switch (c) {
	case KEY_UP: return TOP_KEY_UP;
	case KEY_DOWN: return TOP_KEY_DOWN;
	case KEY_PPAGE: return TOP_KEY_PAGE_UP;
	case KEY_NPAGE: return TOP_KEY_PAGE_DOWN;
	case KEY_HOME: return TOP_KEY_HOME;
	case KEY_END: return TOP_KEY_END;
	case KEY_ENTER: return TOP_KEY_ENTER;
	case KEY_BACKSPACE: return TOP_KEY_BACKSPACE;
	default: return -1;
	}
}

#else

int top_screen_open(struct top_screen **out, bool color, struct heft_error *err)
{
	(void)color;
	*out = NULL;
	return heft_fail(err, HEFT_EREFUSED,
			 "this heft was built without ncurses: there is no live view\n"
			 "heft top --once prints it as plain text");
}

void top_screen_close(struct top_screen *s)
{
	(void)s;
}

void top_screen_size(struct top_screen *s, size_t *width, size_t *height)
{
	(void)s;
	*width = *height = 1;
}

void top_screen_draw(struct top_screen *s, const struct top_lines *lines, size_t cursor)
{
	(void)s;
	(void)lines;
	(void)cursor;
}

int top_screen_key(struct top_screen *s, int timeout_ms)
{
	(void)s;
	(void)timeout_ms;
	return -1;
}

#endif
