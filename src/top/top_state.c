/* What the view shows now, and what keys do to it. Nothing in this file knows of a terminal.
 *
 * New data sort the rows again only while the cursor is on the first row. Elsewhere the order stays, so
 * that the row somebody looks at does not move away. `s` sorts again. The view keeps samples of its last
 * refreshes, so that a rate covers several seconds, not one.
 *
 * Invariants: `rows` is of `profile` under the present choices; cursor < rows.count, or 0. */
#include "top/top_state.h"

#include "hosted/utf8.h"
#include "top/top_numbers.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct top_state *top_state_new(const struct top_state_options *o)
{
	struct top_state *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->o = *o;
	s->view.sort = o->sort;
	s->view.filter = s->filter;
	s->view.points = s->points;
	return s;
}

static void forget_samples(struct top_state *s)
{
	for (unsigned i = 0; i < s->sample_count; i++)
		free(s->samples[i]);
	s->sample_count = 0;
	s->view.point_count = 0;
	s->view.before = NULL;
}

void top_state_free(struct top_state *s)
{
	if (!s)
		return;
	forget_samples(s);
	free(s->mark);
	top_rows_free(&s->rows);
	findings_free(s->findings);
	profile_free(s->profile);
	free(s->output);
	free(s->ledger);
	free(s);
}

bool top_state_paused(const struct top_state *s)
{
	return s->paused;
}

const char *top_state_thread(const struct top_state *s)
{
	return s->thread[0] ? s->thread : NULL;
}

void top_state_say(struct top_state *s, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(s->message, sizeof s->message, fmt, ap);
	va_end(ap);
}

/* Removes the message that was waiting for this. */
static void has_happened(struct top_state *s, enum awaited what)
{
	if (s->awaited != what)
		return;
	s->message[0] = 0;
	s->awaited = NOTHING;
}

void top_state_ended(struct top_state *s, const char *words)
{
	s->ended = true;
	snprintf(s->end_words, sizeof s->end_words, "%s", words);
	has_happened(s, END);
	if (s->prompt == PROMPT_QUIT)
		s->prompt = NO_PROMPT;
}

void top_state_age(struct top_state *s, uint64_t age_ns)
{
	s->age_ns = age_ns;
}

void top_state_output(struct top_state *s, char *text)
{
	free(s->output);
	s->output = text;
}

void top_state_ledger(struct top_state *s, char *text)
{
	free(s->ledger);
	s->ledger = text;
	s->overlay = text ? LEDGER : NO_OVERLAY;
}

bool top_state_shows_output(const struct top_state *s)
{
	return s->overlay == OUTPUT;
}

/* ---- rows */

/* Makes the rows again. With `keep_order` they keep their order and the cursor follows its row; else the
 * cursor keeps its place on the screen. */
static int renew_rows(struct top_state *s, bool keep_order)
{
	struct top_rows rows;
	uint64_t under = s->cursor < s->rows.count ? s->rows.rows[s->cursor].key : 0;
	if (!s->profile)
		return 0;
	int rc = top_rows_new(&rows, s->profile, &s->view);
	if (rc == 0 && keep_order && s->rows.count) {
		uint64_t *keys = malloc(s->rows.count * sizeof *keys);
		rc = keys ? 0 : HEFT_ENOMEM;
		for (uint32_t i = 0; rc == 0 && i < s->rows.count; i++)
			keys[i] = s->rows.rows[i].key;
		if (rc == 0)
			rc = top_rows_reorder(&rows, keys, s->rows.count);
		free(keys);
		if (rc < 0)
			top_rows_free(&rows);
	}
	if (rc < 0)
		return rc;
	top_rows_free(&s->rows);
	s->rows = rows;
	for (uint32_t i = 0; keep_order && i < rows.count; i++)
		if (rows.rows[i].key == under)
			s->cursor = i;
	if (s->cursor >= rows.count)
		s->cursor = rows.count ? rows.count - 1 : 0;
	return 0;
}

static void add_sample(struct top_state *s)
{
	struct top_sample *now = top_sample_new(s->profile);
	if (!now)
		return; /* rates are then over a longer time */
	if (s->sample_count && s->samples[s->sample_count - 1]->time_ns >= now->time_ns) {
		free(now);
		return;
	}
	if (s->sample_count == SAMPLES) {
		free(s->samples[0]);
		memmove(s->samples, s->samples + 1, (SAMPLES - 1) * sizeof *s->samples);
		s->sample_count--;
	}
	s->samples[s->sample_count++] = now;
}

/* When the array is full, every other point goes, so that the points still cover the whole time. */
static void add_point(struct top_state *s)
{
	size_t *count = &s->view.point_count;
	if (*count && s->points[*count - 1].time_ns >= s->profile->run.duration_ns)
		return;
	if (*count == POINTS) {
		*count = POINTS / 2;
		for (size_t i = 0; i < *count; i++)
			s->points[i] = s->points[2 * i + 1];
	}
	s->points[(*count)++] = (struct top_point){s->profile->run.duration_ns,
						   s->profile->totals.live_bytes};
}

int top_state_update(struct top_state *s, struct profile *p, struct findings *f)
{
	has_happened(s, DATA);
	findings_free(s->findings);
	profile_free(s->profile);
	s->profile = p;
	s->findings = f;
	/* The first profile has no sample before it: its rates come from the history. */
	s->view.before = s->sample_count ? s->samples[0] : NULL;
	int rc = renew_rows(s, s->cursor > 0);
	add_sample(s);
	add_point(s);
	s->view.before = s->sample_count > 1 ? s->samples[0] : NULL;
	return rc;
}

void top_state_forget_thread(struct top_state *s)
{
	top_state_say(s, "no thread '%s'", s->thread);
	s->thread[0] = 0;
}

/* ---- keys */

static void move_cursor(struct top_state *s, int64_t by)
{
	int64_t to = (int64_t)s->cursor + by, last = s->rows.count ? (int64_t)s->rows.count - 1 : 0;
	s->cursor = (uint32_t)(to < 0 ? 0 : to > last ? last : to);
}

static void toggle_mark(struct top_state *s)
{
	if (s->mark) {
		free(s->mark);
		s->mark = NULL;
		top_state_say(s, "mark removed");
	} else if (s->profile && (s->mark = top_sample_new(s->profile))) {
		char clock[TOP_NUMBER];
		top_clock(clock, s->mark->time_ns);
		top_state_say(s, "marked at %s: growth is counted from here; m removes it", clock);
	}
	s->view.mark = s->mark;
	renew_rows(s, true);
}

static void begin_prompt(struct top_state *s, enum prompt prompt, const char *text)
{
	s->prompt = prompt;
	snprintf(s->typed, sizeof s->typed, "%s", text);
}

/* Takes a key of a line that is being typed. True: the line is complete, or given up (*given_up). */
static bool type_key(struct top_state *s, int key, bool *given_up)
{
	size_t length = strlen(s->typed);
	char bytes[4];
	*given_up = key == TOP_KEY_ESCAPE;
	if (key == TOP_KEY_ENTER || *given_up)
		return true;
	if (key == TOP_KEY_BACKSPACE) {
		while (length && (s->typed[--length] & 0xc0) == 0x80)
			;
		s->typed[length] = 0;
	} else if (key >= ' ' && key < 0x110000 && key != 0x7f &&
		   !(key >= 0xd800 && key < 0xe000)) {
		size_t n = utf8_encode((uint32_t)key, bytes);
		if (length + n < sizeof s->typed) {
			memcpy(s->typed + length, bytes, n);
			s->typed[length + n] = 0;
		}
	}
	return false;
}

static enum top_action prompt_key(struct top_state *s, int key)
{
	bool given_up = false;
	if (s->prompt == PROMPT_QUIT) {
		s->prompt = NO_PROMPT;
		s->awaited = key == 'k' ? END : NOTHING;
		return key == 'k' ? TOP_KILL : key == 'd' ? TOP_DETACH : TOP_GO_ON;
	}
	bool done = type_key(s, key, &given_up);
	if (s->prompt == PROMPT_FILTER) { /* each key shows its effect, Escape takes it back */
		snprintf(s->filter, sizeof s->filter, "%s", given_up ? s->filter_before : s->typed);
		s->cursor = 0;
		renew_rows(s, false);
	}
	if (!done)
		return TOP_GO_ON;
	bool select = s->prompt == PROMPT_THREAD && !given_up && strcmp(s->thread, s->typed) != 0;
	if (s->prompt == PROMPT_THREAD)
		s->overlay = NO_OVERLAY;
	s->prompt = NO_PROMPT;
	if (!select)
		return TOP_GO_ON;
	snprintf(s->thread, sizeof s->thread, "%s", s->typed);
	forget_samples(s); /* they are of other threads */
	free(s->mark);
	s->view.mark = s->mark = NULL;
	top_state_say(s, s->thread[0] ? "reading what thread %s did ..." : "all threads ...",
		      s->thread);
	s->awaited = DATA;
	return TOP_SELECT;
}

static enum top_action quit_key(struct top_state *s)
{
	if (!s->o.own_program || s->ended)
		return TOP_QUIT;
	s->prompt = PROMPT_QUIT;
	return TOP_GO_ON;
}

static void sort_by(struct top_state *s, enum top_sort sort)
{
	s->view.sort = sort;
	s->cursor = 0;
	renew_rows(s, false);
	top_state_say(s, "sorted by %s", top_sort_name(sort));
}

static void expand_row(struct top_state *s)
{
	if (s->cursor >= s->rows.count)
		return;
	uint64_t key = s->rows.rows[s->cursor].key;
	s->expanded = s->expanded == key ? 0 : key;
}

enum top_action top_state_key(struct top_state *s, int key)
{
	int64_t page = s->page > 1 ? (int64_t)s->page - 1 : 1;
	s->message[0] = 0;
	s->awaited = NOTHING;
	if (s->prompt)
		return prompt_key(s, key);
	if (s->overlay && key != 'q' && key != 3) { /* any key goes back, and does nothing else */
		s->overlay = NO_OVERLAY;
		return TOP_GO_ON;
	}
	switch (key) {
	case 'q':
	case 3: /* Ctrl-C */ return quit_key(s);
	case 's': sort_by(s, (s->view.sort + 1) % TOP_SORTS); break;
	case 'g':
		s->view.group = (s->view.group + 1) % TOP_GROUPS;
		s->cursor = 0;
		s->expanded = 0;
		renew_rows(s, false);
		break;
	case 't':
		s->overlay = THREADS;
		begin_prompt(s, PROMPT_THREAD, s->thread);
		break;
	case '/':
		snprintf(s->filter_before, sizeof s->filter_before, "%s", s->filter);
		begin_prompt(s, PROMPT_FILTER, s->filter);
		break;
	case 'm': toggle_mark(s); break;
	case 'x': return TOP_SNAPSHOT;
	case ' ': s->paused = !s->paused; break;
	case 'w':
		if (s->o.web)
			top_state_say(s, "web page: heft view %s", s->o.web);
		else if (s->profile)
			top_state_say(s, "web page: heft view %" PRId32, s->profile->run.pid);
		break;
	case 'o':
		if (!s->o.own_program) {
			top_state_say(s, "heft top keeps the output only of heft top -- CMD");
			break;
		}
		s->overlay = OUTPUT;
		return TOP_OUTPUT;
	case 'l':
		if (s->ended)
			top_state_say(s, "it has ended: heft map shows the ledgers of a recording");
		return s->ended ? TOP_GO_ON : TOP_LEDGER;
	case '?':
	case 'h': s->overlay = HELP; break;
	case TOP_KEY_ENTER: expand_row(s); break;
	case TOP_KEY_ESCAPE: s->expanded = 0; break;
	case TOP_KEY_UP:
	case 'k': move_cursor(s, -1); break;
	case TOP_KEY_DOWN:
	case 'j': move_cursor(s, 1); break;
	case TOP_KEY_PAGE_UP: move_cursor(s, -page); break;
	case TOP_KEY_PAGE_DOWN: move_cursor(s, page); break;
	case TOP_KEY_HOME: s->cursor = 0; break;
	case TOP_KEY_END: move_cursor(s, (int64_t)s->rows.count); break;
	default: break;
	}
	return TOP_GO_ON;
}
