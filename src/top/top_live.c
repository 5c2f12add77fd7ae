/* The view while the program runs. One thread loads profiles, the caller's thread draws and takes keys, so
 * that a key has its effect at once however long loading takes.
 *
 * A longer recording takes longer to load. So the loader rests nine times as long as its last load took of
 * CPU time, and begins at most one load a second: the view takes at most a tenth of one CPU. It says how
 * old its data are if they are older than usual.
 *
 * Invariants: the loader's fields are touched with the lock held; only the loader calls source->load, only
 * the caller's thread calls the source's other functions. */
#include "top/top.h"

#include "hosted/monotonic.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEY_WAIT_MS = 100, REST_FACTOR = 9 };
#define REFRESH_NS 1000000000u
#define REDRAW_NS 500000000u /* ages and output change by themselves */

struct loader {
	const struct top_source *source;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop, paused;
	bool again;            /* load now, whether there is news or not */
	char thread_name[128]; /* "": all */
	/* what was loaded and not yet taken */
	struct profile *fresh;
	struct findings *fresh_findings;
	bool fresh_failed;
	struct heft_error error;
	int code;
};

static void rest(struct loader *l, uint64_t ns)
{
	struct timespec until;
	uint64_t end = monotonic_ns() + ns;
	until.tv_sec = (time_t)(end / 1000000000u);
	until.tv_nsec = (long)(end % 1000000000u);
	while (!l->stop && !l->again && monotonic_ns() < end)
		pthread_cond_timedwait(&l->wake, &l->lock, &until);
	while (!l->stop && !l->again && l->paused)
		pthread_cond_wait(&l->wake, &l->lock);
}

static void *load_again_and_again(void *ctx)
{
	struct loader *l = ctx;
	char name[sizeof l->thread_name];
	pthread_mutex_lock(&l->lock);
	while (!l->stop) {
		struct profile *p = NULL;
		struct findings *f = NULL;
		struct heft_error err = {0};
		bool again = l->again;
		l->again = false;
		strcpy(name, l->thread_name);
		pthread_mutex_unlock(&l->lock);
		uint64_t begin = monotonic_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		int rc = l->source->load(l->source->ctx, name[0] ? name : NULL, again, &p, &f,
					 &err);
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		uint64_t took = monotonic_ns() - begin;
		pthread_mutex_lock(&l->lock);
		if (strcmp(name, l->thread_name) != 0) { /* another thread was chosen meanwhile */
			findings_free(f);
			profile_free(p);
		} else if (rc == 0) {
			findings_free(l->fresh_findings);
			profile_free(l->fresh);
			l->fresh = p;
			l->fresh_findings = f;
		} else if (rc < 0) {
			l->fresh_failed = true;
			l->error = err;
			l->code = rc;
		}
		uint64_t pause = cpu * REST_FACTOR;
		rest(l, pause + took > REFRESH_NS ? pause : REFRESH_NS - took);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

static int loader_begin(struct loader *l, struct heft_error *err)
{
	pthread_condattr_t attributes;
	sigset_t all, before;
	pthread_mutex_init(&l->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&l->wake, &attributes);
	pthread_condattr_destroy(&attributes);
	sigfillset(&all); /* signals are for the thread that draws */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&l->thread, NULL, load_again_and_again, l);
	int rc = errno ? heft_fail_errno(err, "cannot start a thread") : 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static void loader_end(struct loader *l)
{
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
	pthread_join(l->thread, NULL);
	findings_free(l->fresh_findings);
	profile_free(l->fresh);
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->lock);
}

static void loader_ask(struct loader *l, const struct top_state *s, bool again)
{
	const char *thread = top_state_thread(s);
	pthread_mutex_lock(&l->lock);
	l->paused = top_state_paused(s);
	strncpy(l->thread_name, thread ? thread : "", sizeof l->thread_name - 1);
	l->again |= again;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&l->lock);
}

/* ---- the caller's thread */

static volatile sig_atomic_t end_signal;

static void on_end_signal(int signal)
{
	end_signal = signal;
}

static const int end_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { END_SIGNALS = sizeof end_signals / sizeof *end_signals };

static void watch_signals(struct sigaction before[END_SIGNALS])
{
	struct sigaction action = {.sa_handler = on_end_signal};
	end_signal = 0;
	for (int i = 0; i < END_SIGNALS; i++)
		sigaction(end_signals[i], &action, &before[i]);
}

static void unwatch_signals(const struct sigaction before[END_SIGNALS])
{
	for (int i = 0; i < END_SIGNALS; i++)
		sigaction(end_signals[i], &before[i], NULL);
}

struct live {
	const struct top_source *source;
	struct loader loader;
	struct top_state *state;
	struct top_screen *screen;
	/* The machine's clock when the newest data were recorded; 0: unknown. */
	uint64_t data_time_ns;
	bool ended;
	size_t width, height; /* when it was last drawn */
	uint64_t drawn_ns;
};

/* Takes what the loader has: 0: nothing, 1: something new, negative: nothing can be shown. */
static int take_fresh(struct live *v, struct heft_error *err)
{
	struct loader *l = &v->loader;
	pthread_mutex_lock(&l->lock);
	struct profile *p = l->fresh;
	struct findings *f = l->fresh_findings;
	bool failed = l->fresh_failed;
	int code = l->code;
	struct heft_error error = l->error;
	l->fresh = NULL;
	l->fresh_findings = NULL;
	l->fresh_failed = false;
	pthread_mutex_unlock(&l->lock);
	if (p) {
		char words[100];
		v->data_time_ns = p->run.start_unix_ns > 0 && !p->run.complete
					  ? (uint64_t)p->run.start_unix_ns + p->run.duration_ns
					  : 0;
		if (p->run.complete) {
			top_end_words(words, sizeof words, p);
			top_state_ended(v->state, words);
		}
		int rc = top_state_update(v->state, p, f);
		return rc < 0 ? rc : 1;
	}
	if (failed && code == HEFT_ENOTFOUND && top_state_thread(v->state)) {
		top_state_forget_thread(v->state);
		loader_ask(l, v->state, true);
	} else if (failed && code == HEFT_EREFUSED && top_state_thread(v->state)) {
		top_state_forget_thread(v->state);
		top_state_say(v->state, "%.*s", (int)strcspn(error.message, "\n"), error.message);
		loader_ask(l, v->state, true);
	} else if (failed) {
		*err = error;
		return code;
	}
	return failed;
}

/* True: the program has just ended. */
static bool check_end(struct live *v)
{
	char words[100];
	if (v->ended || !v->source->ended || !v->source->ended(v->source->ctx, words, sizeof words))
		return false;
	v->ended = true;
	top_state_ended(v->state, words);
	loader_ask(&v->loader, v->state, true); /* for the program's last events */
	return true;
}

/* Draws the screen, unless nothing can have changed. */
static int draw(struct live *v, bool changed)
{
	struct top_lines lines = {0};
	size_t width, height, cursor;
	top_screen_size(v->screen, &width, &height);
	if (!changed && width == v->width && height == v->height &&
	    monotonic_ns() - v->drawn_ns < REDRAW_NS)
		return 0;
	v->width = width;
	v->height = height;
	v->drawn_ns = monotonic_ns();
	uint64_t now = clock_ns(CLOCK_REALTIME);
	top_state_age(v->state,
		      v->data_time_ns && now > v->data_time_ns ? now - v->data_time_ns : 0);
	if (top_state_shows_output(v->state) && v->source->output)
		top_state_output(v->state, v->source->output(v->source->ctx));
	int rc = top_state_draw(v->state, width, height, &lines, &cursor);
	if (rc == 0)
		top_screen_draw(v->screen, &lines, cursor);
	top_lines_free(&lines);
	return rc;
}

static void snapshot(struct live *v)
{
	char path[4096];
	struct heft_error err = {0};
	if (!v->source->snapshot)
		top_state_say(v->state, "there is nothing to take a snapshot of");
	else if (v->source->snapshot(v->source->ctx, path, sizeof path, &err) < 0)
		top_state_say(v->state, "%.*s", (int)strcspn(err.message, "\n"), err.message);
	else
		top_state_say(v->state, "written: %s", path);
}

static void look_at_memory(struct live *v)
{
	struct heft_error err = {0};
	char *text = v->source->ledger ? v->source->ledger(v->source->ctx, v->width, &err) : NULL;
	if (!text)
		top_state_say(v->state, "%.*s", (int)strcspn(err.message, "\n"),
			      err.message[0] ? err.message : "there is no process to look at");
	top_state_ledger(v->state, text);
}

/* TOP_GO_ON, TOP_QUIT or TOP_DETACH. */
static enum top_action act(struct live *v, int key)
{
	bool paused = top_state_paused(v->state);
	enum top_action action = top_state_key(v->state, key);
	if (top_state_paused(v->state) != paused)
		loader_ask(&v->loader, v->state, paused);
	switch (action) {
	case TOP_SNAPSHOT: snapshot(v); break;
	case TOP_LEDGER: look_at_memory(v); break;
	case TOP_SELECT: loader_ask(&v->loader, v->state, true); break;
	case TOP_KILL:
		if (v->source->kill)
			v->source->kill(v->source->ctx);
		top_state_say(v->state, "asked it to end (SIGTERM); k again: SIGKILL");
		break;
	case TOP_QUIT:
	case TOP_DETACH: return action;
	case TOP_GO_ON:
	case TOP_OUTPUT: break;
	}
	return TOP_GO_ON;
}

static int loop(struct live *v, struct heft_error *err)
{
	for (int key = -1;;) {
		int rc = take_fresh(v, err);
		bool ended = check_end(v);
		if (rc >= 0)
			rc = draw(v, rc || ended || key >= 0);
		if (rc < 0)
			return rc;
		enum top_action action = TOP_GO_ON;
		key = top_screen_key(v->screen, KEY_WAIT_MS);
		if (end_signal == SIGINT) {
			end_signal = 0;
			key = 3;
		}
		if (end_signal == SIGTERM && v->source->kill && !v->ended)
			v->source->kill(v->source->ctx); /* `heft run` passes it on too */
		if (end_signal) /* SIGHUP, the terminal is gone, does not end the program */
			return end_signal == SIGTERM ? TOP_RESULT_QUIT : TOP_RESULT_DETACHED;
		if (key >= 0)
			action = act(v, key);
		if (action == TOP_QUIT)
			return TOP_RESULT_QUIT;
		if (action == TOP_DETACH)
			return TOP_RESULT_DETACHED;
	}
}

int top_live(const struct top_source *source, const struct top_state_options *options, bool color,
	     struct heft_error *err)
{
	struct live v = {.source = source, .loader.source = source};
	struct sigaction before[END_SIGNALS];
	int rc = top_screen_open(&v.screen, color, err);
	if (rc < 0)
		return rc;
	v.state = top_state_new(options);
	rc = v.state ? 0 : HEFT_ENOMEM;
	if (rc == 0 && source->start)
		rc = source->start(source->ctx, err);
	if (rc == 0)
		rc = loader_begin(&v.loader, err);
	if (rc == 0) {
		watch_signals(before);
		rc = loop(&v, err);
		loader_end(&v.loader);
		unwatch_signals(before);
	}
	top_screen_close(v.screen);
	top_state_free(v.state);
	if (rc == HEFT_ENOMEM && !err->message[0])
		heft_fail(err, rc, "not enough memory for the view");
	return rc;
}
