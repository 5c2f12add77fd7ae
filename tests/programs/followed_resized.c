/* Blocks that the program follows (heft_mark_block) and resizes.
 *
 *     followed_resized           20 blocks reach "one". Then 10 are resized where they are, 5 cannot be resized, 3 are moved,
 *                                and 2 are freed by realloc. The other 18 reach "two" and are freed
 *     followed_resized threads   a thread has 20,000 blocks reach "mine", moves them and frees them. Another one takes the
 *                                places that they leave for 20,000 blocks of its own, which reach "yours" and are freed
 */
#define _GNU_SOURCE
#include <heft.h>

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 20000, SIZE = 2000 };

static void *volatile behind[3];

static void *taken(size_t size)
{
	void *p = malloc(size);
	if (!p)
		exit(3);
	heft_mark_block(p, "one");
	return p;
}

static void gone(void *p)
{
	heft_mark_block(p, "two");
	free(p);
}

static void resize(void)
{
	for (int i = 0; i < 10; i++) {
		void *p = taken(100000), *volatile was = p;
		if ((p = realloc(p, 100001)) != was)
			exit(4);
		gone(p);
	}
	for (int i = 0; i < 5; i++) {
		void *p = taken(64);
		if (realloc(p, PTRDIFF_MAX - 4096))
			exit(5);
		gone(p);
	}
	for (int i = 0; i < 3; i++) {
		void *p = taken(3000), *volatile was = p;
		behind[i] = malloc(3000); /* where it would grow */
		if ((p = realloc(p, 30000)) == was)
			exit(6);
		gone(p);
	}
	for (int i = 0; i < 2; i++)
		if (realloc(taken(64), 0))
			exit(7);
}

static void *move(void *unused)
{
	for (int i = 0; i < BLOCKS; i++) {
		void *p = malloc(SIZE);
		heft_mark_block(p, "mine");
		p = realloc(p, 2 * SIZE);
		free(p);
	}
	return unused;
}

static void *take_places(void *unused)
{
	for (int i = 0; i < BLOCKS; i++) {
		void *p = malloc(SIZE);
		heft_mark_block(p, "yours");
		free(p);
	}
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t a, b;
	if (argc < 2 || strcmp(argv[1], "threads") != 0) {
		resize();
		return 0;
	}
	mallopt(M_ARENA_MAX, 1); /* what one thread frees the other one takes at once */
	if (pthread_create(&a, NULL, move, NULL) || pthread_create(&b, NULL, take_places, NULL))
		return 3;
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	return 0;
}
