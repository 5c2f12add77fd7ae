/* Loads a library with RTLD_DEEPBIND and exchanges blocks with it, so many times:
 *   PATH ROUNDS exchange   what the plugin allocates the host frees, and the other way round
 *   PATH ROUNDS apart      each frees its own (the plugin's allocator may be another)
 *   PATH ROUNDS many       10,000 blocks of 1,000 bytes from the plugin; half are freed
 *   PATH ROUNDS race       as exchange, while other threads allocate
 * Prints where the plugin was loaded from, relative to nothing: its file name. */
#define _GNU_SOURCE
#include "program.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>

static void *library;
static _Atomic int stop;

static void *symbol(const char *name)
{
	return dlsym(library, name);
}

NOINLINE static void exchange(void)
{
	void *(*alloc)(size_t) = (void *(*)(size_t))symbol("plugin_alloc");
	void *(*through)(size_t) = (void *(*)(size_t))symbol("plugin_through");
	void *(*resize)(void *, size_t) = (void *(*)(void *, size_t))symbol("plugin_resize");
	void *(*block)(void) = (void *(*)(void))symbol("plugin_block");
	void (*release)(void *) = (void (*)(void *))symbol("plugin_free");
	void *p;

	for (int i = 0; i < 10; i++)
		free(alloc(1111));
	alloc(1112); /* stays */
	for (int i = 0; i < 7 && through; i++)
		free(through(2222));
	for (int i = 0; i < 5; i++) {
		p = malloc(opaque(3333)); /* @host.given */
		keep(p);
		release(p);
	}
	if (resize) {
		p = malloc(opaque(100)); /* @host.grown */
		release(resize(p, 4444));
	}
	if (block)
		release(block());
}

NOINLINE static void apart(void)
{
	void *(*alloc)(size_t) = (void *(*)(size_t))symbol("plugin_alloc");
	void (*release)(void *) = (void (*)(void *))symbol("plugin_free");
	for (int i = 0; i < 10; i++) {
		release(alloc(1111));
		free(malloc(opaque(3333))); /* @host.apart */
	}
}

NOINLINE static void many(void)
{
	void *(*alloc)(size_t) = (void *(*)(size_t))symbol("plugin_alloc");
	void (*release)(void *) = (void (*)(void *))symbol("plugin_free");
	for (int i = 0; i < 10000; i++) {
		void *p = alloc(1000);
		if (i & 1)
			release(p);
	}
	for (int i = 0; i < 10000; i++) {
		void *p = malloc(opaque(1000)); /* @host.many */
		keep(p);
		release(p);
	}
}

static void *busy(void *unused)
{
	while (!stop) {
		void *p = malloc(opaque(777)); /* @host.busy */
		keep(p);
		free(p);
	}
	return unused;
}

int main(int argc, char **argv)
{
	struct link_map *map;
	pthread_t threads[3];

	must(argc == 4, "usage: deepbind_host PATH ROUNDS exchange|apart|many|race");
	for (int i = 0; i < 3 && argv[3][0] == 'r'; i++)
		pthread_create(&threads[i], NULL, busy, NULL);
	for (int rounds = atoi(argv[2]); rounds > 0; rounds--) {
		library = dlopen(argv[1], RTLD_LAZY | RTLD_DEEPBIND);
		if (!library) {
			say(dlerror());
			return 3;
		}
		if (rounds == 1 && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
			say(strrchr(map->l_name, '/') + 1);
		switch (argv[3][0]) {
		case 'a': apart(); break;
		case 'm': many(); break;
		default: exchange();
		}
		if (rounds > 1)
			dlclose(library);
	}
	stop = 1;
	for (int i = 0; i < 3 && argv[3][0] == 'r'; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
