/* Takes a ledger (ledger_take.h): what can be prepared is prepared while the program runs; it stands still while its
 * mappings, its pages and its threads are read; all else is done when it runs again.
 *
 * Pages are decided about one by one, not by mappings: the kernel merges neighbours, so that a mapping may have a
 * library's .bss, large blocks and a program's own memory at once. Rules claim pages in turns, and the first
 * claim wins: what has a name, .bss, glibc's heap, heaps of interpreters, stacks, the rest. Every page that was counted is
 * in exactly one line, so the lines add up whatever the rules find. */
#include "ledger/ledger_take.h"

#include "hosted/error.h"
#include "hosted/proc_text.h"
#include "hosted/sorted.h"
#include "ledger/ledger_parts.h"
#include "ledger/ledger_view.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A thread that sleeps needs a processor to say where it is. Its stack is found without that. */
#define LATE_LIMIT_NS 300000ull
#define BETWEEN_TRIES_NS 100000000L
enum { TRIES = 3, STATUS_BYTES = 8192 };

bool ledger_claim(struct ledger_taking *t, uint64_t start, uint64_t end, enum ledger_kind kind,
		  const char *name)
{
	const struct ledger_span span = {.start = start, .end = end, .kind = kind, .name = name};
	return ledger_spans_add(&t->wanted[t->turn], &span);
}

bool ledger_claim_anonymous(struct ledger_taking *t, uint64_t start, uint64_t end,
			    enum ledger_kind kind, const char *name)
{
	const struct target_maps *maps = &t->maps;
	bool fine = true;
	if (start >= end)
		return true;
	for (size_t i = count_before(k, maps->count, maps->items[k].end <= start);
	     i < maps->count && maps->items[i].start < end && fine; i++) {
		const struct target_mapping *m = &maps->items[i];
		if (!m->inode && !m->shared && !ledger_is_reserved(m) &&
		    (!m->name[0] || !strcmp(m->name, "[heap]")))
			fine = ledger_claim(t, m->start > start ? m->start : start,
					    m->end < end ? m->end : end, kind, name);
	}
	return fine;
}

bool ledger_read(struct ledger_taking *t, uint64_t at, void *to, size_t bytes)
{
	return target_modules_memory(&t->modules, at, to, bytes);
}

bool ledger_is_plain(const struct target_mapping *m)
{
	if (!m->write || m->shared)
		return false;
	return m->inode ? !strcmp(m->name, "/dev/zero")
			: !m->name[0] || !strncmp(m->name, "[anon: glibc:", 13);
}

bool ledger_is_reserved(const struct target_mapping *m)
{
	return !m->read && !m->write && !m->execute;
}

/* ---- the pause */

static int read_maps_text(struct ledger_taking *t, struct heft_error *err)
{
	char path[64];
	int rc = 0;
	t->maps_text.count = 0;
	snprintf(path, sizeof path, "/proc/%d/maps", t->pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return heft_fail_errno(err, "cannot read %s", path);
	for (ssize_t got = 1; got > 0 && !rc;) {
		if (!vector_reserve(&t->maps_text, 65536))
			rc = heft_fail(err, HEFT_ENOMEM, "no memory for the program's mappings");
		else if ((got = read(fd, t->maps_text.items + t->maps_text.count, 65535)) > 0)
			t->maps_text.count += (size_t)got;
		else if (got < 0)
			rc = heft_fail_errno(err, "cannot read %s", path);
	}
	if (!rc)
		t->maps_text.items[t->maps_text.count] = 0;
	close(fd);
	return rc;
}

static int read_threads(struct ledger_taking *t, struct heft_error *err)
{
	const struct stop_thread *list;
	size_t count;
	stop_wait_late(t->stop, LATE_LIMIT_NS);
	bool fine = stop_threads(t->stop, &list, &count) == 0;
	t->threads.count = 0;
	for (size_t i = 0; i < count && fine; i++)
		fine = vector_push(&t->threads, list[i]);
	return fine ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for the program's threads");
}

static bool read_view(struct ledger_view *view, uint64_t at, void *to, size_t bytes)
{
	return ledger_read(view->taking, at, to, bytes);
}

static void look(struct ledger_taking *t)
{
	struct ledger_view view = {.request = t->request,
				   .blocks = &t->blocks,
				   .maps = &t->maps,
				   .modules = &t->modules,
				   .pages = &t->pages,
				   .threads = t->threads.items,
				   .thread_count = t->threads.count,
				   .read = read_view,
				   .taking = t};
	t->look->while_stopped(t->look->ctx, &view);
}

static int read_stopped(struct ledger_taking *t, struct heft_error *err)
{
	int rc = t->request ? t->request->begin(t->request->ctx, &t->blocks, err) : 0;
	if (!rc && t->look && t->request)
		rc = ledger_recorded_list(t, err);
	if (!rc)
		rc = read_maps_text(t, err);
	if (!rc)
		rc = ledger_pages_read(&t->pages, t->maps_text.items, LEDGER_BEST_WAY, 0, err);
	ledger_show_life(t);
	if (!rc)
		rc = read_threads(t, err);
	if (!rc)
		ledger_heap_read_still(t);
	ledger_show_life(t);
	if (!rc && t->look)
		rc = target_maps_parse(&t->maps, t->maps_text.items, err);
	/* Who looks wants to know whose each page is. */
	if (!rc && t->look)
		rc = ledger_claims_make(t, true, err);
	if (!rc && t->look)
		rc = ledger_claims_settle(t, err);
	if (!rc && t->look)
		look(t);
	return rc;
}

static int read_in_pause(struct ledger_taking *t, struct ledger *l, struct heft_error *err)
{
	const unsigned tries = t->request && t->request->at_once ? 1 : TRIES;
	int rc = HEFT_EBUSY;
	for (unsigned i = 0; i < tries && rc == HEFT_EBUSY; i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = BETWEEN_TRIES_NS}, NULL);
		rc = stop_all(t->stop, STOP_LIMIT_NS, err);
	}
	if (rc)
		return rc;
	rc = read_stopped(t, err);
	int resumed = stop_resume(t->stop, rc ? NULL : err);
	l->pause_ns = stop_pause_ns(t->stop);
	/* It may have been killed meanwhile; what was read is still true. */
	return rc ? rc : resumed == HEFT_ENOTFOUND ? 0 : resumed;
}

/* ---- what stands beside the lines */

static uint64_t status_bytes(const char *status, const char *field)
{
	const char *line = proc_status_line(status, field);
	return line ? strtoull(line, NULL, 10) * 1024 : 0;
}

uint64_t ledger_age_ns(pid_t pid)
{
	char text[1024];
	struct timespec now;
	proc_text(text, sizeof text, "/proc/%d/stat", pid);
	const char *field = proc_stat_field(text, STAT_START_TIME);
	if (!field || clock_gettime(CLOCK_BOOTTIME, &now))
		return 0;
	uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t began = strtoull(field, NULL, 10) * (UINT64_C(1000000000) / ticks);
	uint64_t at = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
	return at > began ? at - began : 0;
}

/* Pages of hugetlbfs are in memory, but the kernel does not count them as resident. smaps marks their mappings. */
static uint64_t drop_hugetlb(struct ledger_taking *t)
{
	char path[64], line[4096 + 256];
	uint64_t start = 0, end = 0, dropped = 0;
	snprintf(path, sizeof path, "/proc/%d/smaps", t->pid);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f)) {
		uint64_t from, to;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &from, &to) == 2) {
			start = from;
			end = to;
		} else if (!strncmp(line, "VmFlags:", 8) && strstr(line, " ht")) {
			dropped += ledger_pages_drop(&t->pages, start, end);
		}
	}
	if (f)
		fclose(f);
	return dropped;
}

static void read_beside(struct ledger_taking *t, struct ledger *l)
{
	char status[STATUS_BYTES];
	proc_text(status, sizeof status, "/proc/%d/status", t->pid);
	l->page_table_bytes = status_bytes(status, "VmPTE");
	l->peak_rss_bytes = status_bytes(status, "VmHWM");
	if (status_bytes(status, "HugetlbPages"))
		l->hugetlb_bytes = drop_hugetlb(t);
	for (size_t i = 0; i < t->maps.count; i++)
		if (ledger_is_reserved(&t->maps.items[i]))
			l->reserved_bytes += t->maps.items[i].end - t->maps.items[i].start;
	for (size_t i = 0; i < t->pages.count; i++) {
		const struct ledger_run *r = &t->pages.items[i];
		uint64_t bytes = r->flags & LEDGER_IN_MEMORY ? r->end - r->start : 0;
		l->rss_bytes += bytes;
		if (r->flags & LEDGER_HUGE)
			l->huge_bytes += bytes;
	}
	/* The kernel renews its maximum only now and then. */
	if (l->peak_rss_bytes < l->rss_bytes)
		l->peak_rss_bytes = l->rss_bytes;
	l->share_of_peak = l->peak_rss_bytes ? (double)l->rss_bytes / (double)l->peak_rss_bytes : 1;
}

/* ---- all of it */

static int take(struct ledger_taking *t, struct ledger *l, struct heft_error *err)
{
	l->pid = t->pid;
	l->moment = t->request ? t->request->moment : LEDGER_REQUEST;
	int rc = stop_open(&t->stop, t->pid, err);
	if (!rc) {
		stop_be_brief(t->stop, t->request ? t->request->step : NULL,
			      t->request ? t->request->ctx : NULL);
		rc = target_modules_read(&t->modules, t->pid, err);
	}
	if (rc) {
		t->modules.memory_fd = -1;
		return rc;
	}
	rc = ledger_pages_open(&t->pages, t->pid, err);
	if (rc)
		return rc;
	ledger_heap_open(t);
	rc = read_in_pause(t, l, err);
	if (rc)
		return rc;
	if (t->request && !t->request->waits)
		t->request->release(t->request->ctx);
	l->time_ns = ledger_age_ns(t->pid);
	if (!t->look)
		rc = target_maps_parse(&t->maps, t->maps_text.items, err);
	if (rc)
		return rc;
	read_beside(t, l);
	if (!t->look)
		rc = ledger_claims_make(t, true, err);
	if (t->request && t->request->waits)
		t->request->release(t->request->ctx);
	if (!rc && !t->look)
		rc = ledger_claims_settle(t, err);
	if (!rc)
		rc = ledger_lines_make(t, l, err);
	if (!rc)
		ledger_sort(l);
	return rc;
}

struct task {
	struct ledger *ledger;
	pid_t pid;
	const struct ledger_request *request;
	const struct ledger_look *look;
	struct heft_error *err;
};

static int run_task(void *ctx)
{
	struct task *task = ctx;
	struct ledger_taking t = {.pid = task->pid,
				  .request = task->request,
				  .look = task->look,
				  .pages.fd = -1,
				  .modules.memory_fd = -1};
	t.names = name_pool_new();
	int rc = t.names ? take(&t, task->ledger, task->err)
			 : heft_fail(task->err, HEFT_ENOMEM, "no memory for a ledger");
	older_close(t.heap);
	target_modules_fini(&t.modules);
	stop_close(t.stop);
	ledger_pages_fini(&t.pages);
	target_maps_fini(&t.maps);
	vector_free(&t.maps_text);
	vector_free(&t.threads);
	vector_free(&t.blocks.mapped);
	vector_free(&t.blocks);
	vector_free(&t.large);
	vector_free(&t.taken);
	for (size_t i = 0; i < LEDGER_TURNS; i++)
		vector_free(&t.wanted[i]);
	free(t.thread_pointers);
	name_pool_free(t.names);
	return rc;
}

static int run(struct task *task)
{
	memset(task->ledger, 0, sizeof *task->ledger);
	int rc = stop_run(run_task, task, task->err);
	if (rc)
		ledger_fini(task->ledger);
	return rc;
}

int ledger_take(struct ledger *l, pid_t pid, const struct ledger_look *look, struct heft_error *err)
{
	struct task task = {.ledger = l, .pid = pid, .look = look, .err = err};
	return run(&task);
}

int ledger_take_recorded(struct ledger *l, const struct ledger_request *request,
			 const struct ledger_look *look, struct heft_error *err)
{
	struct task task = {l, request->pid, request, look, err};
	return run(&task);
}
