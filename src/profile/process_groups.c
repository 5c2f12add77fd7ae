/* Grouping of processes (process_groups.h).
 *
 * Processes are of one program if their commands begin with the same name, whatever its folder. Sorting
 * finds them, so thousands of them cost little. The name of a group is what all its commands begin
 * with: "echo hello" for 200 equal ones, "cc1 -quiet" for those of a build.
 *
 * A process that became another program by exec is one process, but two entries of the profile
 * (process_images.h). A copy of its parent that only calls exec is left out of the lists.
 *
 * Invariants: every process is in one group; groups are in the order of their greatest peaks,
 * equal ones in the order of their first processes. */
#include "profile/process_groups.h"

#include "hosted/compare.h"
#include "hosted/name_words.h"
#include "profile/process_images.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *process_program(const struct profile_process *q)
{
	const char *name = q->argc && q->argv[0][0] ? q->argv[0] : q->exe ? q->exe : "";
	/* A title ("nginx: master process /usr/sbin/nginx -g ...") is no path: the file names it. */
	const char *blank = strchr(name, ' '), *first = strchr(name, '/');
	if (blank && (!first || blank < first) && q->exe && *q->exe)
		name = q->exe;
	const char *slash = strrchr(name, '/');
	if (slash && slash[1])
		name = slash + 1;
	return *name ? name : "?";
}

void process_print_command(FILE *out, const struct profile_process *q, uint32_t words, size_t max)
{
	enum { SHOWN = 64 }; /* more words do not fit any line */
	const char *argv[SHOWN] = {process_program(q)};
	uint32_t count = 1;
	for (; count < q->argc && count < words && count < SHOWN; count++)
		argv[count] = q->argv[count];
	words_print_command(out, argv, count, max);
}

char *process_group_name(const struct profile *p, const struct process_group *group, size_t max)
{
	const struct profile_process *q = &p->processes[group->greatest];
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	if (!out)
		return NULL;
	process_print_command(out, q, group->words, max);
	if (group->count == 1)
		fprintf(out, " (pid %" PRId32 ")", q->pid);
	else
		fprintf(out, " (%" PRIu32 " processes)", group->count);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

static int by_program(const void *a, const void *b, void *ctx)
{
	const struct profile *p = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	int order = strcmp(process_program(&p->processes[i]), process_program(&p->processes[k]));
	return order ? order : i < k ? -1 : i > k;
}

uint64_t process_run_ns(const struct profile *p, const struct profile_process *q)
{
	uint64_t end = q->end == PROFILE_END_RUNNING ? p->run.duration_ns : q->end_ns;
	return end > q->start_ns ? end - q->start_ns : 0;
}

/* Words that both begin with; the program counts as one whatever its folder. */
static uint32_t common_words(const struct profile_process *a, const struct profile_process *b,
			     uint32_t most)
{
	uint32_t n = 1;
	while (n < most && n < a->argc && n < b->argc && strcmp(a->argv[n], b->argv[n]) == 0)
		n++;
	return n;
}

static void add_image(struct process_group *g, const struct profile *p, uint32_t process)
{
	const struct profile_process *q = &p->processes[process],
				     *most = &p->processes[g->greatest];
	g->words = g->images ? common_words(most, q, g->words) : q->argc ? q->argc : 1;
	if (!g->images || q->totals.peak_bytes > most->totals.peak_bytes)
		g->greatest = process;
	g->images++;
	g->left_bytes += q->totals.left_bytes;
	g->left_blocks += q->totals.left_blocks;
	g->allocated_bytes += q->totals.allocated_bytes;
	g->run_ns += process_run_ns(p, q);
}

struct ranked {
	const struct profile *p;
	const struct process_group *list;
	const uint32_t *first; /* process of each group */
};

static int by_peak(const void *a, const void *b, void *ctx)
{
	const struct ranked *r = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	uint64_t x = r->p->processes[r->list[i].greatest].totals.peak_bytes;
	uint64_t y = r->p->processes[r->list[k].greatest].totals.peak_bytes;
	return compare_numbers(y, x) ?: compare_numbers(r->first[i], r->first[k]);
}

/* Puts the groups into order; order and first hold one number a group. */
static int rank_groups(struct process_groups *g, const struct profile *p, uint32_t *order,
		       const uint32_t *first)
{
	struct process_group *list = malloc(((size_t)g->count + 1) * sizeof *list);
	uint32_t *to = malloc(((size_t)g->count + 1) * sizeof *to);
	struct ranked ranked = {p, g->list, first};
	if (!list || !to) {
		free(list);
		free(to);
		return HEFT_ENOMEM;
	}
	for (uint32_t i = 0; i < g->count; i++)
		order[i] = i;
	if (g->count)
		qsort_r(order, g->count, sizeof *order, by_peak, &ranked);
	for (uint32_t i = 0; i < g->count; i++) {
		list[i] = g->list[order[i]];
		to[order[i]] = i;
	}
	for (uint32_t i = 0; i < p->process_count; i++)
		g->of[i] = to[g->of[i]];
	free(g->list);
	free(to);
	g->list = list;
	return 0;
}

/* A copy of its parent that allocated nothing before its exec is no program of its own. */
static bool is_passing(const struct profile_process *q, bool became)
{
	return became && !q->totals.allocations && !q->totals.peak_bytes;
}

/* How many of the list, which is in the order of programs, belong together with the first. */
static uint32_t count_alike(const struct profile *p, const uint32_t *list, uint32_t count)
{
	const char *program = process_program(&p->processes[list[0]]);
	uint32_t n = 1;
	while (n < count && strcmp(process_program(&p->processes[list[n]]), program) == 0)
		n++;
	return n < PROCESSES_ALIKE ? 1 : n;
}

int process_groups_init(struct process_groups *g, const struct profile *p,
			enum process_merging merging)
{
	size_t room = (size_t)p->process_count + 1;
	struct process_images x;
	int rc = process_images_init(&x, p);
	uint32_t *first = x.first, *order = malloc(room * sizeof *order);
	uint32_t *last = malloc(room * sizeof *last); /* image of a process, by its first one */
	uint32_t *heads = malloc(room * sizeof *heads), *counted = calloc(room, sizeof *counted);
	uint32_t count = 0;
	*g = (struct process_groups){.list = calloc(room, sizeof *g->list),
				     .of = malloc(room * sizeof *g->of)};
	if (rc == 0 && (!order || !last || !heads || !counted || !g->list || !g->of))
		rc = HEFT_ENOMEM;
	if (rc < 0)
		goto out;
	for (uint32_t i = 0; i < p->process_count; i++) {
		g->of[i] = 0; /* processes outside the window keep this; nobody asks for them */
		if (first[i] != PROFILE_NONE)
			last[first[i]] = i;
	}
	for (uint32_t i = 0; i < p->process_count; i++)
		if (first[i] != PROFILE_NONE && !is_passing(&p->processes[i], last[first[i]] != i))
			order[count++] = i;
	bool merge = merging == PROCESSES_AS_FIT && count > PROCESSES_APART;
	if (merge)
		qsort_r(order, count, sizeof *order, by_program, (void *)p);
	for (uint32_t i = 0, alike_end = 0; i < count; i++) {
		bool same = i < alike_end;
		if (!same && merge)
			alike_end = i + count_alike(p, order + i, count - i);
		if (!same)
			heads[g->count++] = order[i];
		struct process_group *group = &g->list[g->count - 1];
		g->of[order[i]] = g->count - 1;
		group->count += counted[first[order[i]]] != g->count;
		counted[first[order[i]]] = g->count;
		add_image(group, p, order[i]);
	}
	for (uint32_t i = p->process_count; i-- > 0;)
		if (first[i] != PROFILE_NONE && is_passing(&p->processes[i], last[first[i]] != i))
			g->of[i] = g->of[last[first[i]]];
	rc = rank_groups(g, p, order, heads);
out:
	process_images_fini(&x);
	free(order);
	free(last);
	free(heads);
	free(counted);
	if (rc < 0)
		process_groups_fini(g);
	return rc;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int process_groups_programs(const struct process_groups *g, const struct profile *p,
			    uint32_t *programs)
{
	const char **names = malloc(((size_t)g->count + 1) * sizeof *names);
	if (!names)
		return HEFT_ENOMEM;
	for (uint32_t i = 0; i < g->count; i++)
		names[i] = process_program(&p->processes[g->list[i].greatest]);
	qsort(names, g->count, sizeof *names, by_name);
	*programs = 0;
	for (uint32_t i = 0; i < g->count; i++)
		*programs += i == 0 || strcmp(names[i - 1], names[i]) != 0;
	free(names);
	return 0;
}

void process_groups_fini(struct process_groups *g)
{
	free(g->list);
	free(g->of);
	*g = (struct process_groups){0};
}

void process_span(const struct profile *p, uint64_t *start_ns, uint64_t *end_ns)
{
	uint64_t start = UINT64_MAX, end = 0;
	for (uint32_t i = 0; i < p->process_count; i++) {
		const struct profile_process *q = &p->processes[i];
		uint64_t own = q->end == PROFILE_END_RUNNING ? p->run.duration_ns : q->end_ns;
		start = q->start_ns < start ? q->start_ns : start;
		end = own > end ? own : end;
	}
	end = end < p->run.duration_ns ? end : p->run.duration_ns;
	bool known = start < end;
	*start_ns = known ? start : 0;
	*end_ns = known ? end : p->run.duration_ns;
}

static uint64_t after(uint64_t time_ns, uint64_t start_ns)
{
	return time_ns > start_ns ? time_ns - start_ns : 0;
}

/* The command of a child replaces the recorded one. */
static int take_command(struct profile *p, const struct profile_process *q)
{
	p->run.argv = q->argv;
	p->run.argc = q->argc;
	if (q->argc || !q->exe || !*q->exe)
		return 0;
	char *exe = strdup(q->exe);
	p->run.argv = exe ? profile_copy_strings(p, &exe, 1) : NULL;
	p->run.argc = p->run.argv ? 1 : 0;
	free(exe);
	return p->run.argv ? 0 : HEFT_ENOMEM;
}

int profile_take_own_time(struct profile *p)
{
	struct process_images x;
	uint64_t start, end;
	process_span(p, &start, &end);
	if (process_images_init(&x, p) < 0)
		return HEFT_ENOMEM;
	if (x.count == 1) {
		struct profile_process q = process_of_images(&x, p, 0);
		if (q.pid != p->run.pid && take_command(p, &q) < 0) {
			process_images_fini(&x);
			return HEFT_ENOMEM;
		}
		p->run.pid = q.pid;
		p->run.end = q.end == PROFILE_END_EXEC ? PROFILE_END_DETACHED : q.end;
		p->run.exit_status = q.exit_status;
		p->run.signal = q.signal;
		p->run.oom_killed = p->run.oom_killed && q.end == PROFILE_END_SIGNAL &&
				    end == p->run.duration_ns;
	}
	process_images_fini(&x);
	p->run.start_unix_ns += p->run.start_unix_ns ? (int64_t)start : 0;
	p->run.duration_ns = end - start;
	p->totals.peak_time_ns = after(p->totals.peak_time_ns, start);
	p->chosen.from_ns = after(p->chosen.from_ns, start);
	p->chosen.to_ns = after(p->chosen.to_ns, start);
	if (p->chosen.to_ns > p->run.duration_ns)
		p->chosen.to_ns = p->run.duration_ns;
	for (uint32_t i = 0; i < p->process_count; i++) {
		struct profile_process *q = &p->processes[i];
		q->start_ns = after(q->start_ns, start);
		q->end_ns = after(q->end_ns, start);
		q->totals.peak_time_ns = after(q->totals.peak_time_ns, start);
	}
	for (uint32_t i = 0; i < p->note_count; i++)
		p->notes[i].time_ns = after(p->notes[i].time_ns, start);
	for (uint32_t i = 0; i < p->run.rss_count; i++)
		p->run.rss[i].time_ns = after(p->run.rss[i].time_ns, start);
	profile_remarks_start_at(&p->remarks, start);
	return 0;
}
