/* A list with a lock, and a count of holders for each process. The list is short
 * (processes, not events), so walking it is fast enough.
 *
 * Invariant: a process that was removed is not in the list. Whoever releases it last
 * frees it, or the removal itself if nobody holds it. */
#include "session/process_set.h"

#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { HEARTBEAT_MS = 100 };

void process_set_init(struct process_set *s)
{
	memset(s, 0, sizeof *s);
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->wake, NULL);
}

void process_set_fini(struct process_set *s)
{
	process_set_stop_heartbeat(s);
	for (uint32_t i = 0; i < s->count; i++)
		process_free(s->list[i]);
	free(s->list);
	pthread_cond_destroy(&s->wake);
	pthread_mutex_destroy(&s->lock);
	memset(s, 0, sizeof *s);
}

int process_set_add(struct process_set *s, struct process *p)
{
	return process_set_add_as(s, p, s->last_key + 1);
}

int process_set_add_as(struct process_set *s, struct process *p, uint64_t key)
{
	pthread_mutex_lock(&s->lock);
	int rc = array_reserve(s->list, s->count, s->capacity, 1) ? 0 : HEFT_ENOMEM;
	if (!rc) {
		p->place.key = s->last_key = key;
		s->list[s->count++] = p;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void process_set_remove(struct process_set *s, struct process *p)
{
	pthread_mutex_lock(&s->lock);
	uint32_t at = 0;
	while (at < s->count && s->list[at] != p)
		at++;
	if (at < s->count) {
		s->count--;
		memmove(s->list + at, s->list + at + 1, (s->count - at) * sizeof *s->list);
	}
	p->place.removed = true;
	bool unused = !p->place.holders;
	pthread_mutex_unlock(&s->lock);
	if (unused)
		process_free(p);
}

/* Nobody can begin to hold p while we have the lock. Who holds it later finds its rest. */
bool process_set_drop_samples(struct process_set *s, struct process *p)
{
	pthread_mutex_lock(&s->lock);
	bool unused = !p->place.holders;
	if (unused)
		process_drop_samples(p);
	pthread_mutex_unlock(&s->lock);
	return unused;
}

struct process *process_set_hold(struct process_set *s, uint64_t key)
{
	struct process *found = NULL;
	pthread_mutex_lock(&s->lock);
	for (uint32_t i = 0; i < s->count && !found; i++)
		if (s->list[i]->place.key == key)
			found = s->list[i];
	if (found)
		found->place.holders++;
	pthread_mutex_unlock(&s->lock);
	return found;
}

int process_set_hold_all(struct process_set *s, struct process ***list, uint32_t *count)
{
	pthread_mutex_lock(&s->lock);
	*count = s->count;
	*list = malloc((s->count + 1u) * sizeof **list);
	for (uint32_t i = 0; *list && i < s->count; i++) {
		(*list)[i] = s->list[i];
		s->list[i]->place.holders++;
	}
	pthread_mutex_unlock(&s->lock);
	return *list ? 0 : HEFT_ENOMEM;
}

void process_set_release(struct process_set *s, struct process *p)
{
	pthread_mutex_lock(&s->lock);
	bool unused = !--p->place.holders && p->place.removed;
	pthread_mutex_unlock(&s->lock);
	if (unused)
		process_free(p);
}

static void *beat(void *arg)
{
	struct process_set *s = arg;
	uint64_t seen = 0;
	pthread_mutex_lock(&s->lock);
	while (!s->stop) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += HEARTBEAT_MS * 1000000l;
		until.tv_sec += until.tv_nsec / 1000000000l;
		until.tv_nsec %= 1000000000l;
		pthread_cond_timedwait(&s->wake, &s->lock, &until);
		uint64_t steps = s->steps ? atomic_load(s->steps) : seen + 1;
		for (uint32_t i = 0; i < s->count && steps != seen; i++)
			atomic_fetch_add(&s->list[i]->view.session.header->progress, 1);
		seen = steps;
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

void process_set_start_heartbeat(struct process_set *s, _Atomic uint64_t *steps)
{
	s->stop = false;
	s->steps = steps;
	s->beating = !pthread_create(&s->heart, NULL, beat, s);
}

void process_set_stop_heartbeat(struct process_set *s)
{
	if (!s->beating)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->heart, NULL);
	s->beating = false;
}
