/* Adds up the logs of call_log.c: prints the greatest sum of requested bytes that
 * all processes had live at one instant, what they left, and how many images there
 * were; then the bounds of what somebody else may have seen as the greatest sum who
 * stamps the same calls: it stamps an allocation some time after the log does, but
 * before the process's next call, and a free some time before, but after the call
 * before; and so it is with the end of a process, by exit or exec, and all that it has then. How long
 * that is, is up to the scheduler: the process may be stopped between
 * the two stamps, while another one makes thousands of calls. So one call of each
 * process may be seen differently at any instant, and no more. (Single threads.)
 *
 * A process's blocks are gone where it said that it leaves, or, if it called
 * exec, when the next image begins.
 *
 *   peak_of_logs DIRECTORY */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MADE = 1, FREED = 2, LEFT = 3, END = 4, BUCKETS = 1 << 20 };
struct entry {
	uint64_t tsc, kind, address, size;
};
struct event {
	uint64_t tsc, order, kind, address, size;
	uint32_t process;
};
struct block {
	struct block *next;
	uint64_t address, size;
	uint32_t process;
};

static struct event *events;
static size_t count, capacity;
static struct block *table[BUCKETS];
static uint64_t *live, all, peak;
static uint64_t low, high;
static uint32_t processes;

static void add(struct event e)
{
	if (count == capacity) {
		capacity = capacity ? capacity * 2 : 1 << 16;
		events = realloc(events, capacity * sizeof *events);
		if (!events)
			abort();
	}
	e.order = count;
	events[count++] = e;
}

static int by_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	if (x->tsc != y->tsc)
		return x->tsc < y->tsc ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static struct block **find(uint32_t process, uint64_t address)
{
	uint64_t hash = (address ^ (uint64_t)process << 50) * 0x9e3779b97f4a7c15ull;
	struct block **b = &table[hash >> 44];
	while (*b && ((*b)->address != address || (*b)->process != process))
		b = &(*b)->next;
	return b;
}

/* Returns how large it was. */
static uint64_t drop(uint32_t process, uint64_t address)
{
	struct block **at = find(process, address), *b = *at;
	if (!b) /* inherited over fork, or from before the log */
		return 0;
	uint64_t size = b->size;
	all -= b->size;
	live[process] -= b->size;
	*at = b->next;
	free(b);
	return size;
}

static void make(const struct event *e)
{
	drop(e->process, e->address);
	struct block **at = find(e->process, e->address);
	*at = calloc(1, sizeof **at);
	**at = (struct block){NULL, e->address, e->size, e->process};
	all += e->size;
	live[e->process] += e->size;
	if (all > peak)
		peak = all;
}

struct image {
	int pid;
	unsigned long long start;
	char name[64];
};

static int by_start(const void *a, const void *b)
{
	const struct image *x = a, *y = b;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* next: when the process became another program; 0: it did not. */
static void read_log(const char *directory, const char *name, uint64_t next)
{
	char path[1024];
	struct stat st;
	snprintf(path, sizeof path, "%s/%s", directory, name);
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		abort();
	const uint64_t *base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	const struct entry *entries = (const struct entry *)(base + 4);
	uint64_t last = 0, left = 0;
	for (uint64_t i = 0; i < base[0]; i++) {
		struct entry e = entries[i];
		add((struct event){e.tsc, 0, e.kind, e.address, e.size, processes});
		if (e.tsc > last)
			last = e.tsc;
		left |= e.kind == LEFT;
	}
	if (!left && next)
		last = next - 1;
	add((struct event){last + 1, 0, END, 0, 0, processes});
	processes++;
	munmap((void *)base, (size_t)st.st_size);
	close(fd);
}

/* Of one process: the calls before and after an instant */
struct under_way {
	const struct event *before_last, *last, *next;
	uint64_t live;
	uint64_t less, more; /* that somebody else may have seen */
};

static void see_under_way(struct under_way *u, uint64_t *less, uint64_t *more)
{
	*less -= u->less;
	*more -= u->more;
	u->less = u->more = 0;
	if (u->last && u->last->kind == MADE)
		u->less += u->last->size;
	if (u->next && u->next->kind == FREED)
		u->less += u->next->size;
	if (u->next && (u->next->kind == LEFT || u->next->kind == END))
		u->less = u->live;
	/* A realloc is both; until it is seen the old block is there. */
	if (u->last && u->last->kind == FREED)
		u->more += u->last->size;
	if (u->last && u->last->kind == MADE && u->before_last && u->before_last->kind == FREED &&
	    u->before_last->size > u->last->size)
		u->more += u->before_last->size - u->last->size;
	*less += u->less;
	*more += u->more;
}

/* sums, lives: of all processes and of its own after each event, whose sizes are known by now. */
static void bounds(const uint64_t *sums, const uint64_t *lives)
{
	struct under_way *of = calloc(processes + 1, sizeof *of);
	size_t *next = calloc(count + 1, sizeof *next),
	       *first = calloc(processes + 1, sizeof *first);
	uint64_t less = 0, more = 0;
	if (!of || !next || !first)
		abort();
	for (uint32_t i = 0; i <= processes; i++)
		first[i] = count;
	for (size_t i = count; i-- > 0;) {
		next[i] = first[events[i].process];
		first[events[i].process] = i;
	}
	for (size_t i = 0; i < count; i++) {
		struct under_way *u = &of[events[i].process];
		u->before_last = u->last;
		u->last = &events[i];
		u->live = lives[i];
		u->next = next[i] < count ? &events[next[i]] : NULL;
		see_under_way(u, &less, &more);
		if (sums[i] > less && sums[i] - less > low)
			low = sums[i] - less;
		if (sums[i] + more > high)
			high = sums[i] + more;
	}
	free(of);
	free(next);
	free(first);
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	struct dirent *d;
	uint64_t left = 0;
	if (!dir)
		return 2;
	static struct image images[65536];
	size_t n = 0;
	while ((d = readdir(dir)) && n < sizeof images / sizeof *images)
		if (sscanf(d->d_name, "%d.%llx", &images[n].pid, &images[n].start) == 2)
			snprintf(images[n++].name, sizeof images->name, "%s", d->d_name);
	qsort(images, n, sizeof *images, by_start);
	for (size_t i = 0; i < n; i++)
		read_log(argv[1], images[i].name,
			 i + 1 < n && images[i + 1].pid == images[i].pid ? images[i + 1].start : 0);
	live = calloc(processes + 1, sizeof *live);
	qsort(events, count, sizeof *events, by_time);
	uint64_t *sums = calloc(count + 1, sizeof *sums), *lives = calloc(count + 1, sizeof *lives);
	if (!live || !sums || !lives)
		abort();
	for (size_t i = 0; i < count; i++) {
		struct event *e = &events[i];
		if (e->kind == MADE)
			make(e);
		else if (e->kind == FREED)
			e->size = drop(e->process, e->address);
		else if (e->kind == END) {
			all -= live[e->process];
			left += live[e->process];
			live[e->process] = 0;
		}
		sums[i] = all;
		lives[i] = live[e->process];
	}
	bounds(sums, lives);
	printf("%llu %llu %u %llu %llu\n", (unsigned long long)peak, (unsigned long long)left,
	       processes, (unsigned long long)low, (unsigned long long)high);
	return 0;
}
