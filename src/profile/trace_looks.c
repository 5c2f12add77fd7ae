/* Looks at the heaps of processes (hosted/heap_look.h) into the model. A look is of one moment, the last of its process,
 * and of all its threads: a window or a thread of a recording has none. Of several looks at a process the last one
 * counts; for what was never touched the one that found most live bytes, since a program may have freed it all by its
 * exit. */
#include "profile/trace_looks.h"

#include <stdlib.h>

/* Ledgers find by themselves what was never touched. Who looks at leaks looks at more. */
static bool is_of_ledger(const struct heap_look *look)
{
	return look->parts == HEAP_TOUCHED && !look->note[0];
}

static bool is_last(const struct trace_contents *c, size_t look)
{
	if (is_of_ledger(&c->looks[look].look))
		return false;
	for (size_t i = look + 1; i < c->look_count; i++)
		if (c->looks[i].process == c->looks[look].process &&
		    !is_of_ledger(&c->looks[i].look))
			return false;
	return true;
}

static bool is_largest(const struct trace_contents *c, size_t look)
{
	uint64_t bytes = c->looks[look].look.bytes;
	if (!(c->looks[look].look.parts & HEAP_TOUCHED))
		return false;
	for (size_t i = 0; i < c->look_count; i++)
		if (i != look && c->looks[i].process == c->looks[look].process &&
		    (c->looks[i].look.parts & HEAP_TOUCHED) &&
		    (c->looks[i].look.bytes > bytes ||
		     (c->looks[i].look.bytes == bytes && i > look)))
			return false;
	return true;
}

/* What counts of a look */
struct choice {
	bool last, largest;
};

static struct choice choose(const struct load *l, size_t look)
{
	struct choice none = {false, false};
	if (l->sel->has_window || l->sel->thread ||
	    l->processes[l->c->looks[look].process] == PROFILE_NONE)
		return none;
	return (struct choice){is_last(l->c, look), is_largest(l->c, look)};
}

static void add_row(struct profile_look *to, const struct heap_site *row, struct choice of)
{
	if (of.largest && row->untouched_blocks) {
		to->untouched_bytes += row->untouched_bytes;
		to->untouched_blocks += row->untouched_blocks;
		to->untouched_of_bytes += row->bytes;
		to->untouched_of_blocks += row->blocks;
	}
	if (!of.last)
		return;
	to->unreachable_bytes += row->direct_bytes + row->indirect_bytes;
	to->unreachable_blocks += row->direct_blocks + row->indirect_blocks;
	to->indirect_bytes += row->indirect_bytes;
	to->indirect_blocks += row->indirect_blocks;
	to->held_bytes += row->held_bytes;
	to->held_blocks += row->held_blocks;
	to->duplicate_bytes += row->duplicate_bytes;
	to->duplicate_blocks += row->duplicate_blocks;
	to->zero_bytes += row->zero_bytes;
	to->zero_blocks += row->zero_blocks;
	to->pinned_bytes += row->pinned_bytes;
}

/* Sites of a split as the process of a look has them: by the recording's site, PROFILE_NONE where it has none. */
static void list_sites(const struct load *l, const uint32_t *final, uint32_t process,
		       uint32_t *by_recorded)
{
	const struct trace_split *s = l->split;
	uint32_t group = s->groups.count && l->processes[process] < l->p->process_count
				 ? s->groups.of[l->processes[process]]
				 : 0;
	for (uint32_t i = 0; i < l->c->site_count; i++)
		by_recorded[i] = PROFILE_NONE;
	for (uint32_t i = 0; i < s->count; i++)
		if (s->sites[i].group == group)
			by_recorded[s->sites[i].site] = final[i];
}

int trace_looks_sites(struct load *l, const uint32_t *final)
{
	uint32_t *by_recorded = NULL;
	for (size_t i = 0; i < l->c->look_count; i++) {
		const struct heap_look *look = &l->c->looks[i].look;
		const uint32_t *sites = final;
		struct choice of = choose(l, i);
		if (!of.last && !of.largest)
			continue;
		if (l->split) {
			if (!by_recorded)
				by_recorded = malloc(((size_t)l->c->site_count + 1) *
						     sizeof *by_recorded);
			if (!by_recorded)
				return HEFT_ENOMEM;
			list_sites(l, final, l->c->looks[i].process, by_recorded);
			sites = by_recorded;
		}
		for (size_t k = 0; k < look->count; k++) {
			uint32_t site = sites[look->items[k].site];
			if (site < l->p->site_count)
				add_row(&l->p->sites[site].look, &look->items[k], of);
		}
	}
	free(by_recorded);
	return 0;
}

int trace_looks_totals(struct load *l)
{
	struct profile_heap *h = &l->p->heap;
	uint64_t largest = 0, noted_ns = 0;
	for (size_t i = 0; i < l->c->look_count; i++) {
		const struct heap_look *look = &l->c->looks[i].look;
		struct choice of = choose(l, i);
		for (size_t k = 0; k < look->count && (of.last || of.largest); k++)
			add_row(&l->p->totals.look, &look->items[k], of);
		h->untouched_of_bytes += of.largest ? look->bytes : 0;
		h->parts |= of.largest ? HEAP_TOUCHED : 0;
		if (!of.last)
			continue;
		h->parts |= look->parts & ~(uint32_t)HEAP_TOUCHED;
		h->took_ns += look->took_ns;
		h->heap_bytes += look->heap_bytes;
		h->pinned_bytes += look->pinned_bytes;
		h->releasable_bytes += look->releasable_bytes;
		h->trim_bytes += look->trim_bytes;
		/* The note of the largest heap stands for all. */
		if (look->note[0] && (!h->note || look->bytes > largest)) {
			largest = look->bytes;
			h->note = name_pool_add(l->p->names, look->note);
			if (!h->note)
				return HEFT_ENOMEM;
			noted_ns = look->time_ns;
		}
	}
	if (h->parts & HEAP_REACHABLE)
		l->p->run.has |= PROFILE_HAS_REACHABLE;
	if (h->parts & HEAP_TOUCHED)
		l->p->run.has |= PROFILE_HAS_TOUCHED;
	if (h->parts & HEAP_EQUAL)
		l->p->run.has |= PROFILE_HAS_EQUAL;
	if (h->parts & HEAP_FRAGMENTED)
		l->p->run.has |= PROFILE_HAS_PINNED;
	return h->note ? profile_add_note(l->p, PROFILE_NOTE_INFO, noted_ns, "%s", h->note) : 0;
}

int trace_looks_processes(struct load *l)
{
	for (size_t i = 0; i < l->c->look_count; i++) {
		const struct trace_look *look = &l->c->looks[i];
		struct choice of = choose(l, i);
		if (!of.last && !of.largest)
			continue;
		struct profile_totals *t = &l->p->processes[l->processes[look->process]].totals;
		for (size_t k = 0; k < look->look.count; k++)
			add_row(&t->look, &look->look.items[k], of);
	}
	return 0;
}
