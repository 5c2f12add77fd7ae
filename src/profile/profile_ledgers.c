/* Ledgers in the model (profile_ledgers.h). A measure is of one ledger, the one with most resident memory, so that the
 * parts of a process's resident memory are of one moment and add up. Several processes share pages, so their ledgers
 * are not added: the number of all is that of the largest. */
#include "profile/profile_ledgers.h"

#include "hosted/error.h"
#include "hosted/program_name.h"
#include "profile/user_frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

uint32_t profile_ledger_process(const struct profile *p, const struct ledger *l)
{
	uint32_t found = PROFILE_NONE;
	for (uint32_t i = 0; i < p->process_count; i++) {
		const struct profile_process *q = &p->processes[i];
		if (q->pid != l->pid)
			continue;
		bool began = q->start_ns <= l->time_ns;
		if (found == PROFILE_NONE || (began && q->start_ns >= p->processes[found].start_ns))
			found = i;
	}
	return found;
}

void profile_frame_words(char *text, size_t size, const struct profile_frame *f)
{
	if (f->file && f->line)
		snprintf(text, size, "%s (%s:%" PRIu32 ")", f->function, path_file(f->file),
			 f->line);
	else
		snprintf(text, size, "%s", f->function);
}

int profile_name_mapped(const struct profile *p, uint32_t node, struct ledger_line *line)
{
	char who[512], name[600];
	uint32_t user = node < p->stacks.node_count ? profile_first_user_node(p, node)
						    : PROFILE_NONE;
	if (user == PROFILE_NONE || line->maker)
		return 0;
	profile_frame_words(who, sizeof who, &p->stacks.frames[p->stacks.nodes[user].frame]);
	line->maker = strdup(who);
	if (!line->maker || line->kind != LEDGER_ANONYMOUS)
		return line->maker ? 0 : HEFT_ENOMEM;
	snprintf(name, sizeof name, "mapped by %s", who);
	char *copy = strdup(name);
	if (!copy)
		return HEFT_ENOMEM;
	free(line->name);
	line->name = copy;
	return 0;
}

int profile_name_ledgers(struct profile *p)
{
	int rc = 0;
	for (uint32_t i = 0; i < p->ledger_count; i++) {
		struct ledger *l = &p->ledgers[i];
		for (size_t k = 0; k < l->count; k++) {
			uint32_t node = l->items[k].site - 1;
			if (l->items[k].site && !rc)
				rc = profile_name_mapped(p, node, &l->items[k]);
			l->items[k].site = 0;
		}
		ledger_join(l);
		ledger_sort(l);
	}
	return rc;
}

static void add_line(struct profile_resident *r, const struct ledger_line *line)
{
	uint64_t bytes = line->bytes.resident;
	switch (line->kind) {
	case LEDGER_HELD_FREE: r->held_free_bytes += bytes; /* fallthrough */
	case LEDGER_REQUESTED:
	case LEDGER_IN_USE:
	case LEDGER_ROUNDING:
	case LEDGER_HEADERS:
	case LEDGER_LARGE_MAPPINGS: r->heap_bytes += bytes; break;
	case LEDGER_ALLOCATOR: r->allocator_bytes += bytes; break;
	case LEDGER_MODULES_PRIVATE:
	case LEDGER_MODULES_SHARED:
	case LEDGER_BSS: r->library_bytes += bytes; break;
	case LEDGER_STACKS: r->stack_bytes += bytes; break;
	case LEDGER_ANONYMOUS: r->anonymous_bytes += bytes; break;
	case LEDGER_UNEXPLAINED: r->unexplained_bytes += bytes; break;
	case LEDGER_FILES:
	case LEDGER_SHARED_MEMORY:
	case LEDGER_HEFT:
	case LEDGER_KINDS: break;
	}
}

static struct profile_resident resident_of(const struct ledger *l)
{
	struct profile_resident r = {.rss_bytes = l->rss_bytes};
	for (size_t i = 0; i < l->count; i++)
		add_line(&r, &l->items[i]);
	return r;
}

void profile_sum_ledgers(struct profile *p)
{
	for (uint32_t i = 0; i < p->ledger_count; i++) {
		const struct profile_resident r = resident_of(&p->ledgers[i]);
		uint32_t process = profile_ledger_process(p, &p->ledgers[i]);
		if (r.rss_bytes >= p->totals.resident.rss_bytes)
			p->totals.resident = r;
		if (process != PROFILE_NONE &&
		    r.rss_bytes >= p->processes[process].totals.resident.rss_bytes)
			p->processes[process].totals.resident = r;
	}
	if (p->ledger_count)
		p->run.has |= PROFILE_HAS_LEDGER;
}
