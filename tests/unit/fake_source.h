/* Processes and profiles that are made up, for tests of what is served: every number is known.
 *
 * Snapshot n (from 1) of any process:
 *   main > grow    n blocks, 100 n bytes live;            10 n blocks, 1000 n bytes allocated
 *   main > shrink  3 blocks, 5000 - 10 n bytes live;      3 blocks, 5000 bytes allocated
 *   main > "<script>..." (a hostile name)  1 block, 7 bytes, live
 *   stack unknown  1 block, 3 bytes allocated, freed */
#ifndef HEFT_TESTS_FAKE_SOURCE_H
#define HEFT_TESTS_FAKE_SOURCE_H

#include "pprof/profile_forms.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HOSTILE_NAME "<script>alert(1)</script>\"\\\n\033[31m&\xff"

struct fake_source {
	struct source_process processes[8];
	uint32_t count;
	atomic_int snapshots; /* made so far */
	atomic_int described; /* processes, so far */
	uint32_t slow_ms;     /* for each */
	bool fails;
	uint64_t silent_key; /* nobody can describe this one */
	pthread_mutex_t lock;
};

static inline struct source_process *fake_process(struct fake_source *f, int32_t pid,
						  const char *exe, bool running)
{
	struct source_process *p = &f->processes[f->count++];
	*p = (struct source_process){
		.key = f->count,
		.pid = pid,
		.running = running,
		.sampled = true,
		.on = true,
		.rate_bytes = 524288,
		.samples = 1000,
		.live_samples = 100,
		.dropped = 2,
		.live_bytes = 123456.5,
		.live_objects = 789,
		.allocated_bytes = 1e15,
		.allocated_objects = 5e9,
		.peak_bytes = 200000,
		.rss_bytes = 4096000,
		.cost_share = -1,
	};
	snprintf(p->exe, sizeof p->exe, "%s", exe);
	/* program, "-x", "a b" */
	size_t length = strlen(p->exe) + 1;
	memcpy(p->command, p->exe, length);
	memcpy(p->command + length, "-x\0a b", 7);
	p->command_bytes = (uint32_t)length + 7;
	if (!running)
		snprintf(p->ended, sizeof p->ended, "killed by SIGKILL");
	return p;
}

static inline uint32_t fake_node(struct profile *p, uint32_t parent, const char *function,
				 uint32_t line, uint64_t address, bool inlined)
{
	struct profile_frame f = {
		.function = name_pool_add(p->names, function),
		.file = name_pool_add(p->names, "/src/a.c"),
		.line = line,
		.module = 0,
		.address = address,
		.inlined = inlined,
	};
	uint32_t frame = 0, node = 0;
	if (profile_add_frame(p, &f, &frame) < 0 ||
	    profile_add_node(p, parent, frame, 0, &node) < 0)
		abort();
	return node;
}

static inline struct profile_site *fake_site(struct profile *p, uint32_t node, uint64_t live,
					     uint64_t live_bytes, uint64_t made,
					     uint64_t made_bytes)
{
	uint32_t id;
	if (profile_add_site(p, node, PROFILE_VIA_MALLOC, &id) < 0)
		abort();
	struct profile_site *s = &p->sites[id];
	s->live_blocks = live;
	s->live_bytes = live_bytes;
	s->allocations = made;
	s->allocated_bytes = made_bytes;
	return s;
}

static inline struct profile *fake_profile(uint64_t n, int32_t pid)
{
	static char *argv[] = {(char *)"/x/prog", (char *)"-x"};
	struct profile *p = profile_new();
	uint32_t module;
	if (!p || profile_add_module(p, "/x/prog", (const uint8_t *)"\xab\xcd", 2, &module) < 0)
		abort();
	p->run.format = "heft";
	p->run.has = PROFILE_HAS_LIVE | PROFILE_HAS_ALLOCATED;
	p->run.rate_bytes = 524288;
	p->run.pid = pid;
	p->run.argv = profile_copy_strings(p, argv, 2);
	p->run.argc = 2;
	p->run.start_unix_ns = (int64_t)time(NULL) * 1000000000 - 5000000000;
	p->run.duration_ns = 5000000000;
	uint32_t main_ = fake_node(p, PROFILE_NONE, "main", 10, 0x1010, false);
	uint32_t outer = fake_node(p, main_, "outer", 30, 0x1030, false);
	fake_site(p, fake_node(p, outer, "grow", 20, 0x1030, true), n, 100 * n, 10 * n, 1000 * n);
	fake_site(p, fake_node(p, main_, "shrink", 40, 0x1040, false), 3, 5000 - 10 * n, 3, 5000);
	fake_site(p, fake_node(p, main_, HOSTILE_NAME, 50, 0x1050, false), 1, 7, 1, 7);
	fake_site(p, PROFILE_NONE, 0, 0, 1, 3);
	profile_finish_sites(p);
	return p;
}

static inline int fake_list(void *ctx, struct source_entry **list, uint32_t *count,
			    struct heft_error *err)
{
	struct fake_source *f = ctx;
	(void)err;
	*list = malloc((f->count + 1) * sizeof **list);
	pthread_mutex_lock(&f->lock);
	*count = f->count;
	for (uint32_t i = 0; i < f->count; i++) {
		const struct source_process *p = &f->processes[i];
		(*list)[i] = (struct source_entry){p->key, p->pid, p->running, p->uid};
	}
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static inline int fake_describe(void *ctx, uint64_t key, struct source_process *p,
				struct heft_error *err)
{
	struct fake_source *f = ctx;
	f->described++;
	if (key < 1 || key > f->count)
		return heft_fail(err, HEFT_ENOTFOUND, "no such process any more");
	if (key == f->silent_key)
		return heft_fail(err, HEFT_EBUSY, "nobody can tell now");
	pthread_mutex_lock(&f->lock);
	*p = f->processes[key - 1];
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static inline int fake_take(void *ctx, uint64_t key, void **p, struct heft_error *err)
{
	struct fake_source *f = ctx;
	int n = 1 + atomic_fetch_add(&f->snapshots, 1);
	if (f->slow_ms)
		usleep(f->slow_ms * 1000);
	if (f->fails)
		return heft_fail(err, HEFT_EIO, "the table cannot be read");
	if (key < 1 || key > f->count)
		return heft_fail(err, HEFT_ENOTFOUND, "no such process any more");
	*p = fake_profile((uint64_t)n, f->processes[key - 1].pid);
	return 0;
}

static inline int fake_render(void *ctx, void *profile, const struct source_wish *wish,
			      char **bytes, size_t *length, struct heft_error *err)
{
	(void)ctx;
	return profile_render(profile, wish, bytes, length, err);
}

static inline void fake_drop(void *ctx, void *profile)
{
	(void)ctx;
	profile_free(profile);
}

static inline int fake_control(void *ctx, uint64_t key, const struct source_control *c,
			       struct heft_error *err)
{
	struct fake_source *f = ctx;
	if (c->set_rate && c->rate_bytes < 1024)
		return heft_fail(err, HEFT_EUSAGE, "a rate below 1k is refused");
	pthread_mutex_lock(&f->lock);
	struct source_process *p = &f->processes[key - 1];
	if (c->set_on)
		p->on = c->on;
	if (c->set_rate)
		p->rate_bytes = c->rate_bytes;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

static inline struct source fake_source_of(struct fake_source *f)
{
	pthread_mutex_init(&f->lock, NULL);
	return (struct source){f,           fake_list, fake_describe, fake_take,
			       fake_render, fake_drop, fake_control,  NULL};
}

#endif
