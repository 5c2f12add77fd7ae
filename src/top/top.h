/* The live view of a program's heap: what it shows (rows), as text (lines), what keys do to it (state),
 * and the terminal it is drawn on (screen). Only the screen knows of a terminal: everything else takes a
 * profile and gives text, which `heft top --once` prints and tests read. */
#ifndef HEFT_TOP_TOP_H
#define HEFT_TOP_TOP_H

#include "findings/finding.h"
#include "profile/measure.h"

#include <stdio.h>

enum top_group { TOP_SITES, TOP_FUNCTIONS, TOP_FILES, TOP_MODULES, TOP_GROUPS };
enum top_sort {
	TOP_BY_LIVE,
	TOP_BY_GREW,   /* a second, or since the mark */
	TOP_BY_BLOCKS, /* live ones */
	TOP_BY_AGE,
	TOP_BY_PEAK,
	TOP_BY_ALLOCATED,
	TOP_SORTS
};
int top_sort_parse(const char *name, enum top_sort *sort); /* 0 or HEFT_EUSAGE */
const char *top_sort_name(enum top_sort sort);
const char *top_group_name(enum top_group group);

/* ---- what was live at some time, to see what has changed since (top_sample.c) */

struct top_site_sample {
	uint64_t key; /* of the site's stack, the same in every profile of one recording */
	uint64_t live_bytes, age_ns;
};
struct top_sample {
	uint64_t time_ns, live_bytes;
	uint32_t count;
	struct top_site_sample sites[]; /* by key */
};
/* The sites' keys, by site. NULL: no memory; free() it. */
uint64_t *top_site_keys(const struct profile *p);
struct top_sample *top_sample_new(const struct profile *p); /* NULL: no memory; free() it */
const struct top_site_sample *top_sample_find(const struct top_sample *s, uint64_t key);

/* ---- rows (top_rows.c) */

struct top_point {
	uint64_t time_ns, live_bytes;
};

/* What the user chose, and what the view remembers */
struct top_view {
	enum top_group group;
	enum top_sort sort;
	const char
		*filter; /* an extended regular expression, or else plain text; NULL or "": none */
	const struct top_sample *before; /* a while ago, for rates; NULL: from the history */
	const struct top_sample *mark;   /* growth is counted from here; NULL: no mark */
	/* What was live at earlier refreshes, if the recording has no history; NULL: not known. */
	const struct top_point *points;
	size_t point_count;
};

enum { TOP_TREND = 8 };

struct top_row {
	uint64_t key;
	uint32_t site;  /* the largest one */
	uint32_t sites; /* how many it stands for */
	uint32_t
		name; /* the frame (with TOP_MODULES the module) that names it; PROFILE_NONE: unknown */
	uint64_t values[TOP_SORTS]; /* the sums of its sites; by age: the median, 0: not known */
	uint64_t error_bytes;       /* 95 % error of the live bytes; 0: they are exact */
	bool has_growth;
	double growth; /* bytes a second, or bytes since the mark; 0 without has_growth */
	int age_trend; /* -1, 0, 1 */
	bool has_trend;
	uint64_t trend[TOP_TREND]; /* live bytes over the whole run */
};

struct top_rows {
	struct top_row *rows; /* sorted */
	uint32_t count;
	double growth; /* of all sites together */
	bool has_growth;
};
/* 0 or HEFT_ENOMEM. */
int top_rows_new(struct top_rows *out, const struct profile *p, const struct top_view *v);
void top_rows_free(struct top_rows *r);
/* Puts rows into the order of these keys. Rows with other keys follow in the order that they had. */
int top_rows_reorder(struct top_rows *r, const uint64_t *keys, uint32_t count);

/* ---- text (top_frame.c) */

enum top_style {
	TOP_PLAIN,
	TOP_TITLE,
	TOP_DIM,
	TOP_WARN,
	TOP_GROWS,
	TOP_SHRINKS,
	TOP_HEAD,
};
/* A part of a line's text, in bytes, that has a style */
struct top_span {
	uint16_t from, to;
	enum top_style style;
};
struct top_line {
	char *text;   /* printable characters only; at most as wide as was asked for */
	uint64_t key; /* of the line's row; 0: it has none */
	struct top_span spans[8];
	unsigned span_count;
	bool stack; /* a line of the stack of the row before it */
};
struct top_lines {
	struct top_line *lines;
	size_t count, capacity;
};
int top_lines_add(struct top_lines *l, const struct top_line *line); /* 0 or HEFT_ENOMEM */
void top_lines_free(struct top_lines *l);

/* How wide the text may be, and what it says besides the profile */
struct top_look {
	size_t width;
	bool utf8;
	const char *state;  /* "running", "ended: exit status 0" ... */
	const char *thread; /* NULL: all */
	uint64_t expanded;  /* key of the row whose stack is shown; 0: none */
	uint32_t first;     /* the first row to show */
	size_t limit;       /* how many rows to show at most */
};
/* These append lines. 0 or HEFT_ENOMEM. */
int top_frame_head(struct top_lines *out, const struct profile *p, const struct findings *f,
		   const struct top_rows *rows, const struct top_view *v,
		   const struct top_look *look);
int top_frame_columns(struct top_lines *out, const struct profile *p, const struct top_view *v,
		      const struct top_look *look);
int top_frame_rows(struct top_lines *out, const struct profile *p, const struct top_rows *rows,
		   const struct top_view *v, const struct top_look *look);
/* Appends one line of foreign text, made printable and cut to the width. */
int top_frame_text(struct top_lines *out, const char *text, enum top_style style,
		   const struct top_look *look);
/* Says how a recording ended, or that it goes on. */
void top_end_words(char *text, size_t size, const struct profile *p);

/* Prints the whole view as plain text, for `heft top --once`. 0 or HEFT_ENOMEM. */
int top_print(FILE *out, const struct profile *p, const struct findings *f,
	      const struct top_view *v, const struct top_look *look);

/* ---- keys (top_state.c) */

/* Keys that are no character; a character's key is its code point */
enum top_key {
	TOP_KEY_UP = 0x110000,
	TOP_KEY_DOWN,
	TOP_KEY_PAGE_UP,
	TOP_KEY_PAGE_DOWN,
	TOP_KEY_HOME,
	TOP_KEY_END,
	TOP_KEY_ENTER,
	TOP_KEY_ESCAPE,
	TOP_KEY_BACKSPACE,
};
/* What the caller has to do */
enum top_action {
	TOP_GO_ON,
	TOP_QUIT,
	TOP_KILL,   /* end the program, and go on */
	TOP_DETACH, /* quit, but let the program run */
	TOP_SNAPSHOT,
	TOP_SELECT, /* load again: another thread was chosen */
	TOP_OUTPUT, /* fetch the program's output */
	TOP_LEDGER, /* look where the process's memory is, now */
};

struct top_state;
struct top_state_options {
	bool utf8;
	bool own_program; /* the program was started for this view */
	enum top_sort sort;
	const char *web; /* the argument for `heft view`; NULL: the process */
};
struct top_state *top_state_new(const struct top_state_options *o); /* NULL: no memory */
void top_state_free(struct top_state *s);
/* Shows these from now on and owns them; f may be NULL. 0 or HEFT_ENOMEM. */
int top_state_update(struct top_state *s, struct profile *p, struct findings *f);
enum top_action top_state_key(struct top_state *s, int key);
bool top_state_paused(const struct top_state *s);
const char *top_state_thread(const struct top_state *s); /* NULL: all */
void top_state_forget_thread(struct top_state *s);       /* no thread has that name */
/* Shows a message in the bottom line until the next key. */
void top_state_say(struct top_state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The program has ended; `words` say how ("exit status 0"). */
void top_state_ended(struct top_state *s, const char *words);
/* How old the newest data are. The view says it if they are older than a refresh or two. */
void top_state_age(struct top_state *s, uint64_t age_ns);
void top_state_output(struct top_state *s, char *text); /* the program's last lines; takes them */
bool top_state_shows_output(const struct top_state *s);
/* Where the process's memory is, in lines of text; takes them. NULL: not known. */
void top_state_ledger(struct top_state *s, char *text);
/* Makes the lines of the screen, exactly `height`. *cursor is the one to highlight, or SIZE_MAX. */
int top_state_draw(struct top_state *s, size_t width, size_t height, struct top_lines *out,
		   size_t *cursor);

/* ---- the terminal (top_screen.c) */

struct top_screen;
/* HEFT_EREFUSED with the reason: the terminal cannot show the view, or heft was built without ncurses. */
int top_screen_open(struct top_screen **out, bool color, struct heft_error *err);
void top_screen_close(struct top_screen *s);
void top_screen_size(struct top_screen *s, size_t *width, size_t *height);
void top_screen_draw(struct top_screen *s, const struct top_lines *lines, size_t cursor);
/* Waits for a key, at most timeout_ms; -1: no key came. */
int top_screen_key(struct top_screen *s, int timeout_ms);

/* ---- all of it, live (top_live.c) */

/* Where the view gets its data from, and what it can ask for */
struct top_source {
	void *ctx;
	/* Called once, when the screen is open; NULL: there is nothing to start. */
	int (*start)(void *ctx, struct heft_error *err);
	/* Called in a thread of its own, for one thread of the program or for all (NULL). Returns 1 if
	 * there is nothing new and `again` is false, or nothing to show yet; HEFT_ENOTFOUND if there is
	 * no such thread. f may stay NULL. */
	int (*load)(void *ctx, const char *thread, bool again, struct profile **p,
		    struct findings **f, struct heft_error *err);
	/* The functions below are called in the caller's thread. */
	/* True once the program has ended; `words` say how. */
	bool (*ended)(void *ctx, char *words, size_t size);
	int (*snapshot)(void *ctx, char *path, size_t size, struct heft_error *err);
	void (*kill)(void *ctx);
	char *(*output)(
		void *ctx); /* its last lines, free() them; NULL: the output goes elsewhere */
	/* Where the resident memory of the process is now, in lines of text; free() them. NULL: not known; err says why. */
	char *(*ledger)(void *ctx, size_t width, struct heft_error *err);
};
enum top_result { TOP_RESULT_QUIT, TOP_RESULT_DETACHED };
/* Shows the view until the user quits. TOP_RESULT_*, or a negative code. */
int top_live(const struct top_source *source, const struct top_state_options *options, bool color,
	     struct heft_error *err);

#endif
