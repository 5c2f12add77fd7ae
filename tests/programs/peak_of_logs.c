/* Adds up the logs of call_log.c: prints the greatest sum of requested bytes that
 * all processes had live at one instant, what they left, and how many images there
 * were. A process's blocks are gone where it said that it leaves, or, if it called
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

static void drop(uint32_t process, uint64_t address)
{
	struct block **at = find(process, address), *b = *at;
	if (!b) /* inherited over fork, or from before the log */
		return;
	all -= b->size;
	live[process] -= b->size;
	*at = b->next;
	free(b);
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
	for (size_t i = 0; i < count; i++) {
		const struct event *e = &events[i];
		if (e->kind == MADE)
			make(e);
		else if (e->kind == FREED)
			drop(e->process, e->address);
		else if (e->kind == END) {
			all -= live[e->process];
			left += live[e->process];
		}
	}
	printf("%llu %llu %u\n", (unsigned long long)peak, (unsigned long long)left, processes);
	return 0;
}
