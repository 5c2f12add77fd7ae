/* The live view of a program's heap: what it shows (rows), how that reads (lines of text), what keys
 * do to it (state), and the terminal it is drawn on (screen). Only the last knows of a terminal: all
 * else works on a profile and gives text, which `heft top --once` prints and tests read. */
#ifndef HEFT_TOP_TOP_H
#define HEFT_TOP_TOP_H

#include "findings/finding.h"
#include "profile/profile.h"

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

/* ---- what was live at some time, to tell what has changed since (top_sample.c) */

struct top_site_sample {
	uint64_t key; /* of the stack, the same in every profile of one recording */
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
	const char *filter; /* NULL or "": none. An extended expression, or else plain text */
	const struct top_sample *before; /* a while ago, for rates; NULL: from the history */
	const struct top_sample *mark;   /* NULL: none. Growth is counted from here */
	/* What was live at earlier refreshes, where the recording has no history; NULL: not known. */
	const struct top_point *points;
	size_t point_count;
};

enum { TOP_TREND = 8 };

struct top_row {
	uint64_t key;
	uint32_t site;  /* the largest one */
	uint32_t sites; /* how many it stands for */
	uint32_t name;  /* frame (or module, of TOP_MODULES) that names it; PROFILE_NONE: unknown */
	uint64_t live_bytes, live_blocks, peak_bytes, allocated_bytes;
	uint64_t error_bytes; /* of live_bytes, 95 %; 0: exact */
	bool has_growth;
	double growth; /* bytes a second, or bytes since the mark */
	uint64_t age_ns;
	bool has_age;
	int age_trend; /* -1, 0, 1 */
	bool has_trend;
	uint64_t trend[TOP_TREND]; /* live bytes over the whole run */
};

struct top_rows {
	struct top_row *rows; /* sorted */
	uint32_t count;
	double growth; /* of everything */
	bool has_growth;
};
/* 0 or HEFT_ENOMEM. */
int top_rows_new(struct top_rows *out, const struct profile *p, const struct top_view *v);
void top_rows_free(struct top_rows *r);
/* Puts rows into the order of these keys; those with others stay in order, after them. */
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
/* Bytes of the line's text that are not plain */
struct top_span {
	uint16_t from, to;
	enum top_style style;
};
struct top_line {
	char *text;   /* harmless; at most the width asked for */
	uint64_t key; /* of the row; 0: none */
	struct top_span spans[8];
	unsigned span_count;
	bool stack; /* belongs to the expanded row before */
};
struct top_lines {
	struct top_line *lines;
	size_t count, capacity;
};
int top_lines_add(struct top_lines *l, const struct top_line *line); /* 0 or HEFT_ENOMEM */
void top_lines_free(struct top_lines *l);

/* What the text has to fit, and what it says besides the profile */
struct top_look {
	size_t width;
	bool utf8;
	const char *state;  /* "running", "ended: exit status 0" ... */
	const char *thread; /* NULL: all */
	uint64_t expanded;  /* key of the row whose stack is shown; 0: none */
	uint32_t first;     /* row */
	size_t limit;       /* so many rows */
};
enum { TOP_HEAD_LINES = 4 }; /* title, numbers, graphs, first finding */
/* All append. 0 or HEFT_ENOMEM. */
int top_frame_head(struct top_lines *out, const struct profile *p, const struct findings *f,
		   const struct top_rows *rows, const struct top_view *v,
		   const struct top_look *look);
int top_frame_columns(struct top_lines *out, const struct profile *p, const struct top_view *v,
		      const struct top_look *look);
int top_frame_rows(struct top_lines *out, const struct profile *p, const struct top_rows *rows,
		   const struct top_view *v, const struct top_look *look);
/* One line of foreign text, made harmless and cut to the width. */
int top_frame_text(struct top_lines *out, const char *text, enum top_style style,
		   const struct top_look *look);
/* How a recording ended, or that it goes on. */
void top_end_words(char *text, size_t size, const struct profile *p);

/* The whole of it as plain text: `heft top --once`. 0 or HEFT_ENOMEM. */
int top_print(FILE *out, const struct profile *p, const struct findings *f,
	      const struct top_view *v, const struct top_look *look);

/* ---- keys (top_state.c) */

/* Characters are themselves */
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
	TOP_KILL,   /* the program, and go on */
	TOP_DETACH, /* quit, leaving the program alone */
	TOP_SNAPSHOT,
	TOP_SELECT, /* load again: the thread has changed */
	TOP_OUTPUT, /* bring the program's output */
};

struct top_state;
struct top_state_options {
	bool utf8;
	bool own_program; /* it was started for this view */
	enum top_sort sort;
	const char *web; /* what `heft view` is given; NULL: the process */
};
struct top_state *top_state_new(const struct top_state_options *o); /* NULL: no memory */
void top_state_free(struct top_state *s);
/* Shows these from now on and owns them; f may be NULL. 0 or HEFT_ENOMEM. */
int top_state_update(struct top_state *s, struct profile *p, struct findings *f);
enum top_action top_state_key(struct top_state *s, int key);
bool top_state_paused(const struct top_state *s);
const char *top_state_thread(const struct top_state *s); /* NULL: all */
void top_state_forget_thread(struct top_state *s);       /* there is none of that name */
/* A word for the bottom line, until the next key. */
void top_state_say(struct top_state *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The program has ended ("exit status 0"), or no longer runs as far as anybody knows. */
void top_state_ended(struct top_state *s, const char *words);
/* How old the newest data are; said once that is more than a refresh or two. */
void top_state_age(struct top_state *s, uint64_t age_ns);
void top_state_output(struct top_state *s, char *text); /* takes it: the program's last lines */
bool top_state_shows_output(const struct top_state *s);
/* The screen: exactly `height` lines. *cursor is the one to highlight, or SIZE_MAX. */
int top_state_draw(struct top_state *s, size_t width, size_t height, struct top_lines *out,
		   size_t *cursor);

/* ---- the terminal (top_screen.c) */

struct top_screen;
/* HEFT_EREFUSED with the reason: no terminal that could show it, or built without ncurses. */
int top_screen_open(struct top_screen **out, bool color, struct heft_error *err);
void top_screen_close(struct top_screen *s);
void top_screen_size(struct top_screen *s, size_t *width, size_t *height);
void top_screen_draw(struct top_screen *s, const struct top_lines *lines, size_t cursor);
/* Waits for a key at most so long; -1: none came. */
int top_screen_key(struct top_screen *s, int timeout_ms);

/* ---- all of it, live (top_live.c) */

/* Where data come from and what else can be done; called from one thread each */
struct top_source {
	void *ctx;
	/* Once, when the screen is there; NULL: nothing to be started. */
	int (*start)(void *ctx, struct heft_error *err);
	/* Called in a thread of its own. 1: nothing new (unless `again`), or nothing to show yet;
	 * HEFT_ENOTFOUND: no such thread (NULL: all of them); f may stay NULL. */
	int (*load)(void *ctx, const char *thread, bool again, struct profile **p,
		    struct findings **f, struct heft_error *err);
	/* All below from the caller's thread. True once the program has ended, with words for it. */
	bool (*ended)(void *ctx, char *words, size_t size);
	int (*snapshot)(void *ctx, char *path, size_t size, struct heft_error *err);
	void (*kill)(void *ctx);
	char *(*output)(void *ctx); /* its last lines, for free(); NULL: it goes elsewhere */
};
enum top_result { TOP_RESULT_QUIT, TOP_RESULT_DETACHED };
/* Until the user quits: TOP_RESULT_*, or a negative code. */
int top_live(const struct top_source *source, const struct top_state_options *options, bool color,
	     struct heft_error *err);

#endif
