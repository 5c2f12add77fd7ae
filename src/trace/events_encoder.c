/* The memory of an events encoder: a buffer for each column that holds the worst case, and what is known
 * of each site and thread.
 *
 * Invariants: a site that has not occurred in this block has words that equal none (all bits set); `used`
 * lists those that have, so that a new block resets only them. */
#include "trace/events_block.h"

#include "hosted/error.h"
#include "hosted/vector.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const uint8_t worst[COLUMN_COUNT] = COLUMN_WORST;

static size_t column_capacity(int column)
{
	return (size_t)worst[column] * (EVENTS_PER_BLOCK + 1) + PREFIX_SCRATCH;
}

void events_encoder_begin(struct events_encoder *e)
{
	for (int i = 0; i < COLUMN_COUNT; i++)
		e->at[i] = e->start[i];
	model_reset(&e->model);
	for (uint32_t i = 0; i < e->site_count; i++)
		memset(&e->sites[e->used[i]], 0xff, sizeof *e->sites);
	e->epoch++;
	e->site_count = 0;
	e->count = 0;
	e->tick_start = 0;
	e->switches = e->misses = e->resizes = 0;
	e->last_site = 0;
	e->fresh = CODE_NONE;
	e->thread = e->previous_thread = 0;
}

int events_encoder_init(struct events_encoder *e, unsigned tick_shift)
{
	memset(e, 0, offsetof(struct events_encoder, model));
	e->tick_shift = tick_shift;
	size_t total = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		total += column_capacity(i);
	/* Mostly never touched: pages that no event reaches are not resident. */
	e->buffer = mmap(NULL, total, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (e->buffer == MAP_FAILED) {
		e->buffer = NULL;
		return HEFT_ENOMEM;
	}
	uint8_t *p = e->buffer;
	for (int i = 0; i < COLUMN_COUNT; i++) {
		e->start[i] = p;
		p += column_capacity(i);
	}
	events_encoder_begin(e);
	return 0;
}

void events_encoder_fini(struct events_encoder *e)
{
	size_t total = 0;
	for (int i = 0; i < COLUMN_COUNT; i++)
		total += column_capacity(i);
	if (e->buffer)
		munmap(e->buffer, total);
	free(e->sites);
	free(e->used);
	free(e->threads);
	memset(e, 0, offsetof(struct events_encoder, model));
}

static int grow_sites(struct events_encoder *e, uint32_t need)
{
	size_t had = e->site_capacity * sizeof *e->sites;
	uint32_t bigger = e->site_capacity;
	if (!array_reserve(e->used, bigger, bigger, need - bigger))
		return HEFT_ENOMEM;
	size_t has = bigger * sizeof *e->sites;
	struct events_site *sites = aligned_alloc(sizeof *sites, has);
	if (!sites)
		return HEFT_ENOMEM;
	if (had)
		memcpy(sites, e->sites, had);
	memset((char *)sites + had, 0xff, has - had);
	free(e->sites);
	e->sites = sites;
	e->site_capacity = bigger;
	return 0;
}

static int grow_threads(struct events_encoder *e, uint32_t need)
{
	uint32_t had = e->thread_capacity;
	if (!array_reserve(e->threads, had, e->thread_capacity, need - had))
		return HEFT_ENOMEM;
	memset(e->threads + had, 0, (e->thread_capacity - had) * sizeof *e->threads);
	return 0;
}

int events_encoder_reserve(struct events_encoder *e, uint32_t sites, uint32_t threads)
{
	int rc = sites > e->site_capacity ? grow_sites(e, sites) : 0;
	return !rc && threads > e->thread_capacity ? grow_threads(e, threads) : rc;
}
