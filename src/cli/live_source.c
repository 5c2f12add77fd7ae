/* Makes profiles of the processes of a process_set. The profile of a sampled process is a snapshot of its
 * session file. The profile of a process that is recorded exactly comes from the recording, up to its last
 * complete block, which is at most a second old.
 *
 * Everything here runs in the server's threads, beside the loop of the recorder or agent. It holds a
 * process while it reads it, and reads only fields that the loop never changes, or changes under their
 * lock. */
#include "cli/live_source.h"

#include "agent/sampled.h"
#include "agent/sampled_profile.h"
#include "cli/cli.h"
#include "hosted/monotonic.h"
#include "pprof/profile_forms.h"
#include "profile/profile_from_trace.h"
#include "session/process_memory.h"

#include <stdlib.h>
#include <string.h>

static int no_such_process(struct heft_error *err)
{
	return heft_fail(err, HEFT_ENOTFOUND, "this process is gone");
}

static uint64_t age_ns(const struct process *p, const struct trace_process *f)
{
	if (f->end != TRACE_END_RUNNING)
		return f->end_ns > f->start_ns ? f->end_ns - f->start_ns : 0;
	uint64_t now = monotonic_ns(), start = p->view.session.header->start_mono_ns;
	return now > start ? now - start : 0;
}

/* Copies as many arguments as there is room for, one after another, each with its NUL. */
static void copy_command(const struct trace_process *f, struct source_process *out)
{
	size_t at = 0;
	for (uint32_t i = 0; i < f->argc; i++) {
		size_t n = strlen(f->argv[i]) + 1;
		if (at + n > sizeof out->command)
			break;
		memcpy(out->command + at, f->argv[i], n);
		at += n;
	}
	out->command_bytes = (uint32_t)at;
}

static void describe_sight(struct process *p, const struct sampled_sums *sums,
			   struct source_process *out)
{
	struct trace_anonymous memory;
	process_look_for_allocator(p, out->age_ns);
	enum process_sight sight = process_sight(p, sums, out->unseen, sizeof out->unseen);
	out->partly = sight != PROCESS_SEEN;
	out->blind = sight == PROCESS_BLIND;
	if (process_anonymous(p, &memory))
		out->anonymous_peak_bytes = memory.peak_bytes;
}

static void describe_samples(struct process *p, const struct sampled_sums *sums,
			     struct source_process *out)
{
	struct wire_header *h = p->view.session.header;
	out->on = atomic_load(&h->sampling.on) != 0;
	out->automatic = atomic_load(&h->sampling.automatic) != 0;
	out->rate_bytes = atomic_load(&h->sampling.rate_bytes);
	out->samples = sums->samples;
	out->live_samples = sums->live_samples;
	out->dropped = atomic_load(&h->dropped);
	out->live_bytes = sums->live_bytes;
	out->live_objects = sums->live_objects;
	out->allocated_bytes = sums->allocated_bytes;
	out->allocated_objects = sums->allocated_objects;
	pthread_mutex_lock(&p->samples.lock);
	out->peak_bytes = p->samples.peak.bytes;
	out->cost_share = p->samples.cost.share;
	pthread_mutex_unlock(&p->samples.lock);
}

static void describe_exact(const struct process_shown *shown, struct source_process *out)
{
	out->on = true;
	out->allocated_bytes = out->allocated_objects = -1; /* the recording has them */
	out->live_bytes = (double)shown->live_bytes;
	out->live_objects = (double)shown->live_blocks;
	out->peak_bytes = (double)shown->peak_bytes;
	out->cost_share = -1;
}

static void describe_process(struct process *p, struct source_process *out)
{
	struct sampled_sums sums;
	memset(out, 0, sizeof *out);
	pthread_mutex_lock(&p->entry.lock);
	const struct trace_process facts = p->entry.facts;
	const struct process_shown shown = p->entry.shown;
	out->rss_bytes = p->entry.rss.bytes;
	out->memory_limit_bytes = p->entry.limit_bytes;
	pthread_mutex_unlock(&p->entry.lock);
	out->key = p->place.key;
	out->pid = p->pid;
	out->uid = p->view.file.uid;
	out->sampled = p->view.sampled;
	snprintf(out->exe, sizeof out->exe, "%s", facts.exe);
	copy_command(&facts, out);
	if (p->view.sampled) {
		sampled_see_peak(p);
		sampled_sums(p, &sums);
		describe_samples(p, &sums, out);
	} else
		describe_exact(&shown, out);
	out->running = facts.end == TRACE_END_RUNNING;
	if (!out->running)
		out->rss_bytes = 0;
	out->age_ns = age_ns(p, &facts);
	process_end_words(&facts, out->ended, sizeof out->ended);
	describe_sight(p, p->view.sampled ? &sums : NULL, out);
}

static bool is_running(struct process *p)
{
	pthread_mutex_lock(&p->entry.lock);
	bool running = p->entry.facts.end == TRACE_END_RUNNING;
	pthread_mutex_unlock(&p->entry.lock);
	return running;
}

static int list(void *ctx, struct source_entry **out, uint32_t *count, struct heft_error *err)
{
	struct live_source *s = ctx;
	struct process **held;
	if (process_set_hold_all(s->set, &held, count))
		return heft_fail(err, HEFT_ENOMEM, "out of memory");
	*out = calloc(*count + 1u, sizeof **out);
	for (uint32_t i = 0; i < *count; i++) {
		if (*out)
			(*out)[i] = (struct source_entry){held[i]->place.key, held[i]->pid,
							  is_running(held[i]),
							  held[i]->view.file.uid};
		process_set_release(s->set, held[i]);
	}
	free(held);
	return *out ? 0 : heft_fail(err, HEFT_ENOMEM, "out of memory");
}

static int describe(void *ctx, uint64_t key, struct source_process *out, struct heft_error *err)
{
	struct live_source *s = ctx;
	struct process *p = process_set_hold(s->set, key);
	if (!p)
		return no_such_process(err);
	describe_process(p, out);
	process_set_release(s->set, p);
	return 0;
}

static int from_recording(const struct live_source *s, const struct process *p,
			  struct profile **out, struct heft_error *err)
{
	pthread_mutex_lock(&s->set->lock);
	bool several = s->set->count > 1;
	pthread_mutex_unlock(&s->set->lock);
	const struct profile_selection selection = {
		.has_pid = several, .pid = p->pid, .apart = true};
	return profile_from_recording(out, s->recording, &selection, err);
}

static int make_profile(const struct live_source *s, struct process *p, struct profile **out,
			struct heft_error *err)
{
	const struct profile_selection selection = {.numbers_only = true, .apart = true};
	struct heft_error ignored;
	int rc = p->view.sampled ? sampled_profile(out, p, &selection, err)
				 : from_recording(s, p, out, err);
	if (!rc)
		cli_apply_frame_rules(*out, NULL, &ignored); /* reports refuse a bad rule file */
	return rc;
}

static int take(void *ctx, uint64_t key, void **profile, struct heft_error *err)
{
	struct live_source *s = ctx;
	struct process *p = process_set_hold(s->set, key);
	if (!p)
		return no_such_process(err);
	int rc = make_profile(s, p, (struct profile **)profile, err);
	process_set_release(s->set, p);
	return rc;
}

static int render(void *ctx, void *profile, const struct source_wish *wish, char **bytes,
		  size_t *length, struct heft_error *err)
{
	(void)ctx;
	return profile_render(profile, wish, bytes, length, err);
}

static void drop(void *ctx, void *profile)
{
	(void)ctx;
	profile_free(profile);
}

static void switch_sampling(struct process *p, const struct source_control *c)
{
	bool on = c->set_on ? c->on : atomic_load(&p->view.session.header->sampling.on) != 0;
	if (!c->automatic || c->set_rate) /* automatic: it begins with this rate */
		sampled_control(p, on, c->set_rate ? c->rate_bytes : 0);
	if (c->automatic)
		sampled_control_automatic(p);
}

static int control(void *ctx, uint64_t key, const struct source_control *c, struct heft_error *err)
{
	struct live_source *s = ctx;
	int rc = 0;
	if (c->set_rate &&
	    (c->rate_bytes < SAMPLED_RATE_LEAST || c->rate_bytes > SAMPLED_RATE_MOST))
		return heft_fail(err, HEFT_EUSAGE, "a rate is from 1k to 1G");
	struct process *p = process_set_hold(s->set, key);
	if (!p)
		return no_such_process(err);
	if (!is_running(p))
		rc = heft_fail(err, HEFT_EREFUSED, "process %d has ended", p->pid);
	else if (!p->view.sampled)
		rc = heft_fail(err, HEFT_EREFUSED,
			       "process %d is recorded exactly, which cannot be switched\n"
			       "heft run --sample samples it.",
			       p->pid);
	else
		switch_sampling(p, c);
	process_set_release(s->set, p);
	return rc;
}

struct source live_source(struct live_source *s)
{
	return (struct source){.ctx = s,
			       .list = list,
			       .describe = describe,
			       .take = take,
			       .render = render,
			       .drop = drop,
			       .control = control};
}

int live_source_answer(void *ctx, struct process *p, char **bytes, size_t *length)
{
	struct profile *profile_of_now;
	struct heft_error err = {0};
	struct source_process about;
	describe_process(p, &about);
	if (about.blind) /* no profile is better than an empty one */
		return HEFT_EREFUSED;
	int rc = make_profile(ctx, p, &profile_of_now, &err);
	if (rc)
		return rc;
	const struct source_wish wish = {.form = SOURCE_HEAP};
	rc = profile_render(profile_of_now, &wish, bytes, length, &err);
	profile_free(profile_of_now);
	return rc;
}
