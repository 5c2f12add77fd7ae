/* The tables of a recording into the model: modules, facts of the run, processes, threads. Every index
 * is checked before it is used. */
#include "profile/trace_load.h"

#include <stdlib.h>
#include <string.h>

static int compare_modules(const void *a, const void *b)
{
	const struct trace_module *x = *(const struct trace_module *const *)a;
	const struct trace_module *y = *(const struct trace_module *const *)b;
	int order = strcmp(x->path ? x->path : "", y->path ? y->path : "");
	if (order)
		return order;
	if (x->build_id_len != y->build_id_len)
		return x->build_id_len < y->build_id_len ? -1 : 1;
	return x->build_id_len ? memcmp(x->build_id, y->build_id, x->build_id_len) : 0;
}

/* Each process records the modules it loads: the same file is one module of the profile. */
int trace_load_modules(struct load *l)
{
	const struct trace_contents *c = l->c;
	if (l->sel->part_of)
		return 0;
	const struct trace_module **order = malloc(((size_t)c->module_count + 1) * sizeof *order);
	int rc = 0;
	l->modules = calloc((size_t)c->module_count + 1, sizeof *l->modules);
	if (!order || !l->modules) {
		free(order);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < c->module_count; i++)
		order[i] = &c->modules[i];
	if (c->module_count)
		qsort(order, c->module_count, sizeof *order, compare_modules);
	uint32_t id = PROFILE_NONE;
	for (uint32_t i = 0; i < c->module_count && rc == 0; i++) {
		if (i == 0 || compare_modules(&order[i - 1], &order[i]) != 0)
			rc = profile_add_module(l->p, order[i]->path, order[i]->build_id,
						order[i]->build_id_len, &id);
		l->modules[order[i] - c->modules] = id;
	}
	free(order);
	return rc;
}

static enum profile_end end_of(uint32_t end)
{
	switch ((enum trace_end)end) {
	case TRACE_END_RUNNING: return PROFILE_END_RUNNING;
	case TRACE_END_EXIT: return PROFILE_END_EXIT;
	case TRACE_END_SIGNAL:
	case TRACE_END_OOM: return PROFILE_END_SIGNAL;
	case TRACE_END_EXEC: return PROFILE_END_EXEC;
	case TRACE_END_DETACHED: return PROFILE_END_DETACHED;
	case TRACE_END_UNKNOWN: break;
	}
	return PROFILE_END_UNKNOWN;
}

/* The image that the command ended as: it may have called exec. */
static const struct trace_process *last_image(const struct trace_contents *c)
{
	uint32_t at = 0;
	for (uint32_t i = 1; i < c->process_count; i++)
		if (c->processes[at].end == TRACE_END_EXEC &&
		    c->processes[i].pid == c->processes[at].pid)
			at = i;
	return &c->processes[at];
}

int trace_load_meta(struct load *l)
{
	const struct trace_contents *c = l->c;
	struct profile *p = l->p;
	p->run.heft_version = name_pool_add(p->names,
					    c->meta.heft_version ? c->meta.heft_version : "");
	p->run.argv = profile_copy_strings(p, c->meta.argv, c->meta.argc);
	if (!p->run.heft_version || !p->run.argv)
		return HEFT_ENOMEM;
	p->run.argc = c->meta.argc;
	p->run.start_unix_ns = c->meta.start_unix_ns;
	p->run.duration_ns = c->duration_ns;
	p->run.memory_limit_bytes = c->meta.memory_limit_bytes;
	p->run.limit_is_cgroup = c->meta.limit_is_cgroup;
	p->run.attached = c->meta.attached;
	p->run.way = c->meta.way == TRACE_WAY_PRELOAD ? "preload"
		     : c->meta.way == TRACE_WAY_ENTRY ? "entry"
						      : NULL;
	p->run.complete = c->complete;
	p->run.cut_offset = c->cut_offset;
	p->run.file_bytes = c->file_bytes;
	p->run.events = c->events;
	p->run.end = PROFILE_END_RUNNING;
	if (c->process_count) {
		const struct trace_process *last = last_image(c);
		p->run.pid = c->processes[0].pid;
		if (c->complete) {
			p->run.end = end_of(last->end);
			if (p->run.end == PROFILE_END_EXEC) /* what it became was not recorded */
				p->run.end = PROFILE_END_DETACHED;
			p->run.exit_status = last->exit_status;
			p->run.signal = last->signal;
			if (last->end == TRACE_END_OOM) {
				p->run.oom_killed = true;
				p->run.memory_limit_bytes = last->memory_limit_bytes;
				p->run.limit_is_cgroup = last->limit_is_cgroup;
			}
		}
	}
	return 0;
}

int trace_load_processes(struct load *l)
{
	const struct trace_contents *c = l->c;
	struct profile *p = l->p;
	bool *shown = calloc((size_t)c->process_count + 1, sizeof *shown);
	int rc = 0;
	l->processes = calloc((size_t)c->process_count + 1, sizeof *l->processes);
	if (!shown || !l->processes) {
		free(shown);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < c->process_count; i++)
		shown[i] = !l->sel->thread && trace_process_is_chosen(l, i);
	for (uint32_t i = 0; i < c->thread_count; i++)
		if (l->threads[i] && c->threads[i].process < c->process_count)
			shown[c->threads[i].process] = true;
	for (uint32_t i = 0; i < c->process_count && rc == 0; i++) {
		const struct trace_process *t = &c->processes[i];
		l->processes[i] = PROFILE_NONE;
		if (!shown[i])
			continue;
		struct profile_process pp = {
			.pid = t->pid,
			.ppid = t->ppid,
			.number = i,
			.argc = t->argc,
			.start_ns = t->start_ns,
			.end_ns = t->end_ns,
			.end = end_of(t->end),
			.exit_status = t->exit_status,
			.signal = t->signal,
			.begins_after = trace_process_begins_after(l, i),
			.is_outside = trace_process_is_outside(l, i),
		};
		pp.exe = name_pool_add(p->names, t->exe ? t->exe : "");
		pp.argv = profile_copy_strings(p, t->argv, t->argc);
		if (!pp.exe || !pp.argv) {
			rc = HEFT_ENOMEM;
			break;
		}
		pp.totals.peak_bytes = t->peak_bytes;
		pp.totals.peak_blocks = t->peak_blocks;
		pp.totals.peak_time_ns = t->peak_time_ns;
		pp.totals.dropped = t->dropped;
		pp.totals.unknown_frees = t->unknown_frees;
		/* A forked child of such a program has blocks from before the fork, and those are no
		 * better known. */
		pp.totals.older_frees = c->meta.attached ? t->inherited_frees : 0;
		rc = profile_add_process(p, &pp, &l->processes[i]);
	}
	free(shown);
	return rc;
}

int trace_load_threads(struct load *l)
{
	const struct trace_contents *c = l->c;
	l->thread_ids = malloc(((size_t)c->thread_count + 1) * sizeof *l->thread_ids);
	if (!l->thread_ids)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < c->thread_count; i++) {
		const struct trace_thread *t = &c->threads[i];
		l->thread_ids[i] = PROFILE_NONE;
		if (!l->threads[i] || t->process >= c->process_count)
			continue;
		struct profile_thread pt = {
			.pid = c->processes[t->process].pid,
			.tid = t->tid,
			.process = l->processes[t->process],
			.name = name_pool_add(l->p->names, t->name ? t->name : ""),
		};
		if (!pt.name)
			return HEFT_ENOMEM;
		if (i < l->tally->thread_count) {
			pt.allocations = l->tally->threads[i].allocations;
			pt.allocated_bytes = l->tally->threads[i].allocated_bytes;
			pt.reallocations = l->tally->threads[i].reallocations;
			pt.frees = l->tally->threads[i].frees;
		}
		l->thread_ids[i] = l->p->thread_count;
		if (profile_add_thread(l->p, &pt) < 0)
			return HEFT_ENOMEM;
		struct profile_totals *total = &l->p->processes[pt.process].totals;
		total->threads++;
		total->allocations += pt.allocations;
		total->allocated_bytes += pt.allocated_bytes;
		total->reallocations += pt.reallocations;
		total->frees += pt.frees;
	}
	return 0;
}
