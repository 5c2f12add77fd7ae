/* Small cases of leaks and of what looks like one: leak_cases CASE [hold]. With hold it says "held" then, and goes on
 * when its input ends. Built for heft, and with -fsanitize=leak, so that
 * the two verdicts can be compared (tests/integration/test_leaks.py has what each case loses, worked out by hand).
 *
 * Each case runs in a frame of its own; afterwards that part of the stack is overwritten, so that nothing is found in
 * what a returned call has left. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
	struct node *next, *other;
	char text[48];
};

static void *volatile kept, *volatile kept_too;
static volatile uintptr_t hidden;
static char packed[64] __attribute__((used, aligned(16)));
static _Thread_local void *volatile of_thread;
static pthread_key_t key;

/* What a compiler cannot see through */
static void *make(size_t bytes)
{
	void *p = malloc(bytes);
	if (p)
		memset(p, 'x', bytes);
	__asm__ volatile("" : "+r"(p));
	return p;
}
static struct node *make_node(struct node *next)
{
	struct node *n = make(sizeof *n);
	n->next = next;
	n->other = NULL;
	return n;
}
static struct node *make_list(int count)
{
	struct node *list = NULL;
	for (int i = 0; i < count; i++)
		list = make_node(list);
	return list;
}

static void simple(void)
{
	make(100);
}
static void many(void)
{
	for (int i = 0; i < 1000; i++)
		make(24);
}
static void global(void)
{
	kept = make(100);
}
static void interior(void)
{
	kept = (char *)make(100) + 50;
}
static void past_end(void)
{
	kept = (char *)make(96) + 96;
	kept_too = make(4000);
}
static void overwritten(void)
{
	kept = make(100);
	kept = make(200);
}
static void list_lost(void)
{
	make_list(10);
}
static void list_kept(void)
{
	kept = make_list(10);
}
/* It is larger than what the program's break moves at once: heft knows where the break has been. */
static void list_long(void)
{
	struct long_node {
		struct long_node *next;
		char text[1016];
	} *list = NULL;
	for (int i = 0; i < 400; i++) {
		struct long_node *n = make(sizeof *n);
		n->next = list;
		list = n;
	}
	list->next = NULL;
	kept = list;
}
static void list_middle(void)
{
	struct node *list = make_list(10);
	kept = list;
	list->next->next = NULL; /* eight nodes behind it */
}
static void tree(void)
{
	struct node *root = make_node(make_list(1));
	root->other = make_node(NULL);
	root->next->next = make_node(NULL);
	root->next->other = make_node(NULL);
	root->other->next = make_node(NULL);
	root->other->other = make_node(NULL);
}
static void ring(void)
{
	struct node *last = make_node(NULL);
	last->next = make_node(make_node(last));
}
static void itself(void)
{
	struct node *n = make_node(NULL);
	n->next = n;
}
static void array(void)
{
	void **list = make(100 * sizeof *list);
	for (int i = 0; i < 100; i++)
		list[i] = make(40);
}
static void unaligned(void)
{
	void *p = make(100);
	memcpy(packed + 3, &p, sizeof p);
}
static void half_aligned(void)
{
	void *p = make(100);
	memcpy(packed + 4, &p, sizeof p);
}
static void encoded(void)
{
	hidden = (uintptr_t)make(100) ^ 0x5555555555555555;
}
static void high_tag(void)
{
	hidden = (uintptr_t)make(100) | (uintptr_t)0xab << 56;
}
static void low_tag(void)
{
	hidden = (uintptr_t)make(100) | 1;
}
static void thread_local_kept(void)
{
	of_thread = make(100);
}
static void *set_own(void *unused)
{
	of_thread = make(100);
	return unused;
}
static void thread_local_gone(void)
{
	pthread_t t;
	pthread_create(&t, NULL, set_own, NULL);
	pthread_join(t, NULL);
}
static void specific(void)
{
	pthread_key_create(&key, NULL);
	pthread_setspecific(key, make(100));
}
static int ready[2];
static void *hold(void *unused)
{
	void *volatile own = make(100);
	if (write(ready[1], "", 1) == 1)
		pause();
	(void)own;
	return unused;
}
static void on_stack_of_thread(void)
{
	pthread_t t;
	char byte;
	if (pipe(ready))
		return;
	pthread_create(&t, NULL, hold, NULL);
	if (read(ready[0], &byte, 1) != 1)
		abort();
}
static void in_own_mapping(void)
{
	void **page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	page[5] = make(100);
}
static void resized(void)
{
	void *p = make(100);
	p = realloc(p, 5000);
	__asm__ volatile("" : "+r"(p));
}
static void cleared(void)
{
	void *p = calloc(10, 50);
	__asm__ volatile("" : "+r"(p));
}
static void aligned(void)
{
	void *p = NULL;
	if (posix_memalign(&p, 256, 300))
		abort();
	memset(p, 1, 300);
}
static void text(void)
{
	char *p = strdup("a string that nobody frees");
	__asm__ volatile("" : "+r"(p));
}
static void line(void)
{
	char *buffer = NULL;
	size_t size = 0;
	FILE *f = fmemopen((char[]){"first\nsecond\n"}, 13, "r");
	if (getline(&buffer, &size, f) < 0)
		abort();
	fclose(f);
}
static void large(void)
{
	make(1 << 20);
}
static void large_leads(void)
{
	void **list = make(1 << 20);
	kept = list;
	list[100000] = make(100);
}
static void freed(void)
{
	struct node *list = make_list(10);
	while (list) {
		struct node *next = list->next;
		free(list);
		list = next;
	}
}
/* The pointer is in memory that was freed. */
static void in_freed(void)
{
	void **outer = make(256);
	outer[20] = make(100);
	free(outer);
}
/* glibc's lists lead to the chunk behind a block, and so to its last bytes: a free chunk, and the top. */
static void before_free(void)
{
	make(1032);
	void *then = make(2048);
	kept = make(64);
	free(then);
	make(3000);
}
static void environment(void)
{
	putenv(strdup("HEFT_LEAK_CASE=1"));
}
static void from_main(void)
{
}
static void nothing(void)
{
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"simple", simple},
	{"many", many},
	{"global", global},
	{"interior", interior},
	{"past_end", past_end},
	{"overwritten", overwritten},
	{"list_lost", list_lost},
	{"list_kept", list_kept},
	{"list_middle", list_middle},
	{"tree", tree},
	{"ring", ring},
	{"itself", itself},
	{"array", array},
	{"unaligned", unaligned},
	{"half_aligned", half_aligned},
	{"encoded", encoded},
	{"high_tag", high_tag},
	{"low_tag", low_tag},
	{"thread_local_kept", thread_local_kept},
	{"thread_local_gone", thread_local_gone},
	{"specific", specific},
	{"on_stack_of_thread", on_stack_of_thread},
	{"in_own_mapping", in_own_mapping},
	{"resized", resized},
	{"cleared", cleared},
	{"aligned", aligned},
	{"text", text},
	{"line", line},
	{"large", large},
	{"large_leads", large_leads},
	{"freed", freed},
	{"in_freed", in_freed},
	{"before_free", before_free},
	{"environment", environment},
	{"from_main", from_main},
	{"list_long", list_long},
	{"nothing", nothing},
};

static __attribute__((noinline)) void overwrite_stack(void)
{
#ifdef __x86_64__ /* the loader saves these on the stack when it looks a function up */
	__asm__ volatile("pxor %%xmm0, %%xmm0; pxor %%xmm1, %%xmm1; pxor %%xmm2, %%xmm2; pxor "
			 "%%xmm3, %%xmm3" ::
				 : "xmm0", "xmm1", "xmm2", "xmm3");
#endif
	volatile char bytes[32768];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = 0;
}

static __attribute__((noinline)) void wait_for_end(void)
{
	char byte;
	if (write(1, "held\n", 5) == 5)
		while (read(0, &byte, 1) == 1)
			;
}

static __attribute__((noinline)) void run(const char *name)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (!strcmp(cases[i].name, name))
			cases[i].run();
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
			puts(cases[i].name);
		return 0;
	}
	run(argv[1]);
	overwrite_stack();
	if (!strcmp(argv[1], "from_main")) {
		void *volatile local = make(100);
		if (argc > 2)
			wait_for_end();
		exit(!local);
	}
	if (argc > 2)
		wait_for_end();
	return 0;
}
