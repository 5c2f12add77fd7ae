/* Which images of processes are replaced by later ones. Each is looked up by its pid once, so that thousands of ended
 * programs cost no more than a pass over them. */
#include "pprof/latest_images.h"

#include "hosted/hash_index.h"

#include <stdlib.h>
#include <string.h>

static bool is_same(const struct source_process *a, const struct source_process *b, bool by_program)
{
	return a->pid == b->pid && (!by_program || strcmp(a->exe, b->exe) == 0);
}

static uint32_t hash_of(const struct source_process *p, bool by_program)
{
	return hash_pair((uint32_t)p->pid, by_program ? hash_bytes(p->exe, strlen(p->exe)) : 0);
}

bool *latest_images_replaced(const struct source_process *list, uint32_t count, bool by_program)
{
	bool *replaced = calloc(count + 1u, sizeof *replaced);
	uint32_t *latest = calloc(count + 1u, sizeof *latest); /* by the first of the same */
	struct hash_index seen = {0};
	int rc = replaced && latest ? 0 : HEFT_ENOMEM;
	for (uint32_t i = 0; !rc && i < count; i++) {
		const struct source_process *p = &list[i];
		uint32_t hash = hash_of(p, by_program), at = hash, k;
		while ((k = hash_index_step(&seen, hash, &at)) != HASH_NONE &&
		       !is_same(&list[k], p, by_program))
			;
		if (k == HASH_NONE) {
			latest[i] = i;
			rc = hash_index_add_at(&seen, hash, at, i);
			continue;
		}
		const struct source_process *so_far = &list[latest[k]];
		bool later = latest_image_is(p->running, p->uid, so_far->running, so_far->uid);
		replaced[later ? latest[k] : i] = true;
		latest[k] = later ? i : latest[k];
	}
	hash_index_fini(&seen);
	free(latest);
	if (!rc)
		return replaced;
	free(replaced);
	return NULL;
}
