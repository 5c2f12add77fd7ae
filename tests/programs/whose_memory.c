/* Memory that the books of a recording close on, or not: whose_memory WAY [COUNT]. Exits with all that it holds.
 *
 *   malloc  COUNT blocks of 1,000 bytes, as everybody makes them
 *   handle  the same, by the address of malloc in the C library's own handle: no hook sees them
 *   map     24 MiB that it has mapped itself
 *   part    the same, beside 40 MiB from malloc
 *   freed   40 MiB of small blocks of which most are freed; then it goes on for a second
 *
 * Each has 1 MiB from malloc besides. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { BLOCK = 1000, MIB = 1 << 20, SMALL = 40 };

static void *fill(void *p, size_t size)
{
	if (!p)
		exit(2);
	return memset(p, 1, size);
}

static __attribute__((noinline)) void *map_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : fill(p, size);
}

static void make_blocks(void *(*get)(size_t), size_t count)
{
	void **kept = calloc(count + 1, sizeof *kept);
	for (size_t i = 0; i < count; i++)
		kept[i] = fill(get(BLOCK), BLOCK);
}

static void free_most(void)
{
	size_t count = (size_t)40 * MIB / (SMALL + 8);
	void **kept = calloc(count + 1, sizeof *kept);
	for (size_t i = 0; i < count; i++)
		kept[i] = fill(malloc(SMALL), SMALL);
	for (size_t i = 0; i < count; i++)
		if (i % 50)
			free(kept[i]);
	for (int i = 0; i < 100; i++) {
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
		free(malloc(10));
	}
}

static void *(*find_malloc(void))(size_t)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	void *found = libc ? dlsym(libc, "malloc") : NULL;
	void *(*get)(size_t) = malloc;
	if (!found)
		exit(2);
	memcpy(&get, &found, sizeof get);
	return get;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "malloc";
	size_t count = argc > 2 ? strtoul(argv[2], NULL, 10) : 2000;
	char *own = fill(malloc(MIB), MIB), *mapped = own;
	if (!strcmp(way, "handle"))
		make_blocks(find_malloc(), count);
	else if (!strcmp(way, "malloc"))
		make_blocks(malloc, count);
	else if (!strcmp(way, "freed"))
		free_most();
	else if (!strcmp(way, "map") || !strcmp(way, "part"))
		mapped = map_memory((size_t)24 * MIB);
	if (!strcmp(way, "part"))
		make_blocks(malloc, 40 * MIB / BLOCK);
	return own[5] != 1 || mapped[5] != 1;
}
