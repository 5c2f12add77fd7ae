/* Brings src/record, which starts the command, and src/attach, which sets the hooks, together. */
#include "cli/entry_way.h"

#include "cli/cli.h"
#include "cli/record_verb.h"
#include "hosted/program_name.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct attach_options options_for(const struct entry_way *w, pid_t pid,
					 const char *session_dir)
{
	const struct recorder_options *from = w->options;
	return (struct attach_options){
		.pid = pid,
		.blob = w->blob,
		.session_dir = session_dir,
		.preload = from->follow ? from->preload : NULL,
		.sample_bytes = from->sample_bytes,
		.sample_automatic = from->sample_automatic,
		.follow = from->follow,
		.start_execs = from->plan->execs,
	};
}

static int hold(void *ctx, pid_t pid, const char *session_dir, pid_t *tracer,
		struct heft_error *err)
{
	struct entry_way *w = ctx;
	struct attach_options o = options_for(w, pid, session_dir);
	struct attach_report report;
	if (w->functions)
		o.functions = *w->functions;
	int rc = attach_begin(&w->attached, &o, &report, err);
	*tracer = report.guardian;
	return rc;
}

static int hook(void *ctx, struct heft_error *err)
{
	struct entry_way *w = ctx;
	struct attach_report report;
	int rc = attach_started(w->attached, &report, err);
	if (rc)
		return rc;
	record_verb_unseen(&report, w->unseen, sizeof w->unseen);
	w->recorder.unseen = w->unseen;
	return 0;
}

static void end(void *ctx)
{
	struct entry_way *w = ctx;
	struct attach_report ignored;
	struct heft_error none;
	if (w->attached)
		attach_end(w->attached, NULL, 0, &ignored, &none);
	w->attached = NULL;
}

/* ---- programs that processes of the command execute */

struct held {
	struct attached *attached;
	pid_t guardian;
	bool started;
};

static int holder_hold(void *ctx, pid_t pid, bool spawns, const char *session_dir,
		       struct held **out, pid_t *tracer, struct heft_error *err)
{
	const struct entry_way *w = ctx;
	struct attach_options o = options_for(w, pid, session_dir);
	struct attach_report report;
	struct held *h = calloc(1, sizeof *h);
	o.start_execs = 1;
	o.start_lets_go = true;
	o.start_spawns = spawns;
	if (!h)
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	int rc = attach_begin(&h->attached, &o, &report, err);
	h->guardian = *tracer = report.guardian;
	if (rc)
		free(h);
	else
		*out = h;
	return rc;
}

static void holder_go(struct held *h)
{
	attach_go(h->attached);
}

static void holder_cancel(struct held *h)
{
	attach_cancel(h->attached, h->guardian);
	free(h);
}

static enum recorder_held holder_look(struct held *h, pid_t *pid)
{
	struct attach_report report;
	struct heft_error none;
	struct pollfd f = {.fd = attached_fd(h->attached), .events = POLLIN};
	if (poll(&f, 1, 0) <= 0)
		return h->started ? RECORDER_HELD_HOOKED : RECORDER_HELD_STARTS;
	if (!h->started) {
		h->started = !attach_started(h->attached, &report, &none);
		*pid = report.pid;
		if (h->started)
			return RECORDER_HELD_HOOKED;
	}
	attach_forget(h->attached);
	free(h);
	return RECORDER_HELD_GONE;
}

static void holder_ended(struct held *h)
{
	attach_process_ended(h->attached);
}

static void holder_end(struct held *h)
{
	struct attach_report ignored;
	struct heft_error none;
	if (h->started)
		attach_end(h->attached, NULL, 0, &ignored, &none);
	else
		attach_forget(h->attached); /* once it is done, the guardian takes the hooks out */
	free(h);
}

int entry_way_init(struct entry_way *w, struct recorder_options *o, struct heft_error *err)
{
	*w = (struct entry_way){.options = o};
	w->holder = (struct recorder_holder){.ctx = w,
					     .hold = holder_hold,
					     .go = holder_go,
					     .cancel = holder_cancel,
					     .look = holder_look,
					     .process_ended = holder_ended,
					     .end = holder_end};
	w->recorder = (struct recorder_entry){.ctx = w, .hold = hold, .hook = hook, .end = end};
	int rc = cli_locate_blob(w->blob, sizeof w->blob, err);
	if (!rc && o->follow && o->plan->via != LAUNCH_VIA_PRELOAD)
		o->holder = &w->holder;
	if (o->plan->way != LAUNCH_ENTRY)
		return 0; /* only what it executes may need the blob */
	o->entry = &w->recorder;
	return rc;
}

void entry_way_words(const struct launch_plan *plan, char *text, size_t size)
{
	char program[PATH_MAX];
	program_words(program, sizeof program, plan->elf, NULL);
	if (plan->way == LAUNCH_PRELOAD)
		snprintf(text, size, "heft's library is preloaded into %s", program);
	else if (plan->why)
		snprintf(text, size, "%s %s: heft sets hooks at the entries of its malloc", program,
			 plan->why);
	else
		snprintf(text, size, "heft sets hooks at the entries of malloc in %s", program);
}

bool entry_way_give_up(struct recorder_options *o, struct launch_plan *plan, int rc, bool quiet,
		       const struct heft_error *err)
{
	struct launch_plan other;
	struct heft_error none;
	bool likely = plan->own_malloc == ELF_MALLOC_LIKELY; /* then the refusal says it all */
	if (rc != HEFT_EREFUSED || plan->way != LAUNCH_ENTRY || !plan->own_malloc_text[0] ||
	    plan->via != LAUNCH_VIA_AUTO ||
	    launch_inspect(o->argv[0], LAUNCH_VIA_PRELOAD, &other, &none))
		return false;
	*plan = other;
	o->entry = NULL;
	if (quiet)
		return true;
	cli_print_error(err);
	if (!likely)
		cli_say(plan->own_malloc_text);
	cli_say("heft preloads its library instead: it records what this program takes from "
		"malloc");
	return true;
}
