/* Allocations worked out by hand, for files that other tools write: NUMBER is 100 or what is given.
 *
 *   leak     5000 bytes once in main's thread, 70000 once in the worker's; never freed
 *   hold     NUMBER blocks of 1000 bytes; drop frees all but a fifth of them
 *   churn    2 * NUMBER blocks of 100 bytes in main's thread, NUMBER in the worker's; freed at once
 *   main     10 bytes by malloc, grown to 4000 by realloc; never freed
 *   table    30 * 8 bytes by calloc; never freed
 *
 * The most is live when all of hold is, before drop. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *held[100000];
static char *volatile kept;

__attribute__((noinline)) static void leak(size_t size)
{
	kept = malloc(size);
	memset(kept, 1, size);
}

__attribute__((noinline)) static void churn(int count)
{
	for (int i = 0; i < count; i++) {
		char *volatile p = malloc(100);
		p[0] = 1;
		free(p);
	}
}

__attribute__((noinline)) static void hold(int count)
{
	for (int i = 0; i < count; i++)
		held[i] = malloc(1000);
}

__attribute__((noinline)) static void drop(int count)
{
	for (int i = 0; i < count; i++)
		free(held[i]);
}

__attribute__((noinline)) static void table(void)
{
	kept = calloc(30, 8);
	kept[0] = 1;
}

static void *work(void *count)
{
	churn(*(int *)count);
	leak(70000);
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 100;
	pthread_t thread;
	leak(5000);
	table();
	hold(count);
	drop(count / 5 * 4);
	churn(2 * count);
	pthread_create(&thread, NULL, work, &count);
	pthread_join(thread, NULL);
	char *grown = malloc(10);
	grown = realloc(grown, 4000);
	kept = grown;
	return kept == NULL;
}
