/* Which process a request is about, and answers that say why there is no profile.
 *
 * Whose process: all functions here begin with the list of the processes that the sender of the request may
 * see (list_visible). So another user's process is not found, not counted and not named.
 *
 * Which process: /debug/pprof/PID/heap, or ?pid=PID; without either the one that runs. The form with the
 * path is what `go tool pprof` needs where there are several, since it asks for symbols beside the profile
 * and drops the query. */
#include "pprof/pprof_target.h"

#include "hosted/monotonic.h"
#include "hosted/program_name.h"
#include "pprof/latest_images.h"
#include "pprof/pprof_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void pprof_refuse(struct http_answer *a, unsigned status, const char *text)
{
	http_answer_header(a, "X-Go-Pprof", "1"); /* go tool pprof then shows the text */
	http_answer_text(a, status, "%s\n", text);
}

void pprof_refuse_with(struct http_answer *a, const struct heft_error *err)
{
	unsigned status = 500;
	if (err->code == HEFT_ENOTFOUND)
		status = 404;
	else if (err->code == HEFT_EUSAGE)
		status = 400;
	else if (err->code == HEFT_EREFUSED)
		status = 409;
	else if (err->code == HEFT_EBUSY)
		status = 503;
	pprof_refuse(a, status, *err->message ? err->message : "heft could not do this");
}

void pprof_refuse_method(struct http_answer *a, const char *allow)
{
	http_answer_header(a, "Allow", allow);
	http_answer_text(a, 405, "this path takes %s only\n", allow);
}

bool pprof_page_open(struct pprof_page *p, struct http_answer *a)
{
	p->text = NULL;
	p->out = open_memstream(&p->text, &p->length);
	if (!p->out)
		pprof_refuse(a, 500, "not enough memory");
	return p->out != NULL;
}

void pprof_page_answer(struct pprof_page *p, struct http_answer *a, unsigned status,
		       const char *type)
{
	if (fclose(p->out) == 0) {
		http_answer_body(a, status, type, p->text, p->length);
		return;
	}
	free(p->text);
	pprof_refuse(a, 500, "not enough memory");
}

bool pprof_parse_digits(const char *text, size_t length, int32_t *number)
{
	int64_t n = 0;
	for (size_t i = 0; i < length; i++) {
		if (text[i] < '0' || text[i] > '9' || n > INT32_MAX)
			return false;
		n = n * 10 + (text[i] - '0');
	}
	*number = (int32_t)n;
	return length && n <= INT32_MAX;
}

bool pprof_parse_target(const struct http_request *q, struct pprof_target *t, struct http_answer *a)
{
	const char *slash = strchr(q->rest, '/'), *pid = http_query(q, "pid");
	size_t length = slash ? (size_t)(slash - q->rest) : strlen(q->rest);
	*t = (struct pprof_target){.name = q->rest, .viewer = q->viewer};
	t->named = pprof_parse_digits(q->rest, length, &t->pid);
	if (t->named) {
		t->name = slash ? slash + 1 : "";
	} else if (pid && !(t->named = pprof_parse_digits(pid, strlen(pid), &t->pid))) {
		pprof_refuse(a, 400, "invalid value for \"pid\" - must be a number");
		return false;
	}
	return true;
}

void pprof_write_program(FILE *out, const struct source_process *p)
{
	char words[sizeof p->exe + PROGRAM_NAME + 2];
	pprof_write_name(out, program_words(words, sizeof words, p->exe, p->command));
}

static bool is_visible(const struct http_viewer *viewer, uint32_t uid)
{
	return viewer->sees == HTTP_SEES_ALL ||
	       (viewer->sees == HTTP_SEES_UID && viewer->uid == uid);
}

/* HEFT_ENOTFOUND also if it is another's meanwhile. */
static int describe_visible(const struct source *s, const struct pprof_target *t, uint64_t key,
			    struct source_process *p, struct heft_error *err)
{
	int rc = s->describe(s->ctx, key, p, err);
	if (rc == 0 && !is_visible(&t->viewer, p->uid))
		return heft_fail(err, HEFT_ENOTFOUND, "this process is gone");
	return rc;
}

static bool list_visible(const struct source *s, const struct pprof_target *t,
			 struct source_entry **list, uint32_t *count, struct http_answer *a)
{
	struct heft_error err = {0};
	uint32_t all = 0;
	*count = 0;
	if (s->list(s->ctx, list, &all, &err) < 0) {
		pprof_refuse_with(a, &err);
		return false;
	}
	for (uint32_t i = 0; i < all; i++)
		if (is_visible(&t->viewer, (*list)[i].uid))
			(*list)[(*count)++] = (*list)[i];
	return true;
}

/* How long the processes of each user took to describe, in one request: who answers slowly is left out, so that the others
 * are served. */
struct patience {
	struct {
		uint32_t uid;
		uint64_t spent_ns;
	} users[64];
	uint32_t count;
};
#define PATIENCE_NS 3000000000ull

static bool is_over(const struct patience *p, uint32_t uid)
{
	for (uint32_t i = 0; i < p->count; i++)
		if (p->users[i].uid == uid)
			return p->users[i].spent_ns > PATIENCE_NS;
	return false;
}

static void add_time(struct patience *p, uint32_t uid, uint64_t ns)
{
	uint32_t i = 0;
	while (i < p->count && p->users[i].uid != uid)
		i++;
	if (i == sizeof p->users / sizeof *p->users)
		return;
	if (i == p->count)
		p->users[p->count++].uid = uid;
	p->users[i].spent_ns += ns;
}

bool pprof_describe_all(const struct source *s, const struct pprof_target *t,
			struct pprof_list *list, struct http_answer *a)
{
	struct source_entry *entries = NULL;
	struct heft_error ignored;
	uint32_t found = 0;
	*list = (struct pprof_list){0};
	if (!list_visible(s, t, &entries, &found, a))
		return false;
	list->processes = calloc((size_t)found + 1, sizeof *list->processes);
	struct patience patience = {0};
	for (uint32_t i = 0; list->processes && i < found; i++) {
		if (t->named && entries[i].pid != t->pid)
			continue;
		struct source_process *p = &list->processes[list->count];
		uint64_t begun = monotonic_ns();
		int rc = is_over(&patience, entries[i].uid)
				 ? HEFT_EBUSY
				 : describe_visible(s, t, entries[i].key, p, &ignored);
		list->count += rc == 0; /* others are gone by now */
		list->silent += rc == HEFT_EBUSY;
		add_time(&patience, entries[i].uid, monotonic_ns() - begun);
	}
	free(entries);
	if (!list->processes)
		pprof_refuse(a, 500, "not enough memory");
	return list->processes != NULL;
}

static void write_choice(FILE *out, const struct pprof_target *t, const struct source_process *p,
			 bool replaced)
{
	if (replaced) /* its pid leads to another one */
		return;
	fprintf(out, "  /debug/pprof/%" PRId32 "/%s  ", p->pid, t->name);
	pprof_write_program(out, p);
	fputs(p->running ? "\n" : "  (ended)\n", out);
}

/* Running ones first, then the ended ones, the latest first. */
static void refuse_several(const struct source *s, const struct pprof_target *t,
			   struct http_answer *a)
{
	struct pprof_list list;
	struct pprof_page p;
	if (!pprof_describe_all(s, t, &list, a))
		return;
	if (!pprof_page_open(&p, a)) {
		free(list.processes);
		return;
	}
	bool *replaced = latest_images_replaced(list.processes, list.count, false);
	fputs("several processes are profiled here; name one:\n", p.out);
	for (uint32_t i = 0; i < list.count; i++)
		if (list.processes[i].running)
			write_choice(p.out, t, &list.processes[i], replaced && replaced[i]);
	for (uint32_t i = list.count; i-- > 0;)
		if (!list.processes[i].running)
			write_choice(p.out, t, &list.processes[i], replaced && replaced[i]);
	free(replaced);
	free(list.processes);
	http_answer_header(a, "X-Go-Pprof", "1");
	pprof_page_answer(&p, a, 409, "text/plain; charset=utf-8");
}

/* The latest image of the pid asked for; without one, of the only pid that runs or, if none runs, the
 * only one that did. NULL: the answer says why. */
static const struct source_entry *choose(const struct source *s, const struct source_entry *list,
					 uint32_t count, const struct pprof_target *t,
					 struct http_answer *a)
{
	const struct source_entry *found = NULL;
	for (uint32_t i = 0; i < count; i++) {
		bool fits = !t->named || list[i].pid == t->pid;
		bool later = !found || latest_image_is(list[i].running, list[i].uid, found->running,
						       found->uid);
		if (fits && later)
			found = &list[i];
	}
	if (!found && t->named)
		http_answer_text(a, 404,
				 "no process %" PRId32
				 " is profiled here; /debug/pprof/ lists them\n",
				 t->pid);
	else if (!found)
		http_answer_text(a, 404, "no process is being profiled\n");
	if (!found)
		http_answer_header(a, "X-Go-Pprof", "1");
	for (uint32_t i = 0; found && !t->named && i < count; i++)
		if (list[i].pid != found->pid && list[i].running == found->running) {
			refuse_several(s, t, a);
			return NULL;
		}
	return found;
}

bool pprof_find_process(const struct source *s, const struct pprof_target *t,
			struct source_process *out, struct http_answer *a)
{
	struct source_entry *list = NULL;
	uint32_t count = 0;
	struct heft_error err = {0};
	if (!list_visible(s, t, &list, &count, a))
		return false;
	const struct source_entry *found = choose(s, list, count, t, a);
	int rc = found ? describe_visible(s, t, found->key, out, &err) : 0;
	bool chosen = found && rc == 0;
	free(list);
	if (rc < 0)
		pprof_refuse_with(a, &err);
	return chosen;
}
