// Every shape of function that stands between a program and malloc. "folded": its callers must head
// the sites. "stays": it makes something of its own, and people look for it.
//   grab               folded: a wrapper whose name says nothing; callers decide the sizes
//   grab_zeroed        folded: a wrapper of a wrapper
//   get_row            folded: inlined into its callers
//   Arena::alloc       folded, with its helper Arena::refill: a pool takes chunks of one size
//   node_new           stays: a constructor; called from many places, one size
//   wheel              stays: the same with a name that says nothing
//   record_of          stays: its sizes are the data's, not its callers'
//   reclaim            stays: called by a wrapper, and allocates by one (recursion)
//   shared_take        folded: the wrapper of another module, if the library is named
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#define OWN __attribute__((noinline, noclone))

static void *kept[4096];
static unsigned count;

template <class T> static T *keep(T *block)
{
	kept[count++ % 4096] = block;
	return block;
}

static unsigned calls;
extern "C" OWN void *reclaim();

// ---- wrappers

extern "C" OWN void *grab(size_t size)
{
	if (++calls == 20)
		reclaim();
	void *block = malloc(size);
	if (!block)
		abort();
	return block;
}

extern "C" OWN void *grab_zeroed(size_t size)
{
	void *block = grab(size + 16);
	memset(block, 0, size);
	return block;
}

static inline __attribute__((always_inline)) void *get_row(size_t size)
{
	void *block = malloc(size);
	if (!block)
		abort();
	return block;
}

extern "C" OWN void *reclaim()
{
	return keep(grab(72));
}

struct Arena {
	char *at = nullptr;
	size_t left = 0;

	OWN void refill()
	{
		at = static_cast<char *>(malloc(65536));
		left = 65536;
		keep(at);
	}
	OWN void *alloc(size_t size)
	{
		if (left < size)
			refill();
		left -= size;
		return at + left;
	}
};

// ---- functions that make something of their own

extern "C" OWN void *node_new(int kind)
{
	char *node = static_cast<char *>(malloc(56));
	node[0] = static_cast<char>(kind);
	return node;
}

extern "C" OWN void *wheel(int size)
{
	char *made = static_cast<char *>(malloc(88));
	made[0] = static_cast<char>(size);
	return made;
}

extern "C" OWN void *record_of(const char *text, int repeat)
{
	char *copy = static_cast<char *>(malloc(strlen(text) * static_cast<size_t>(repeat) + 1));
	strcpy(copy, text);
	return copy;
}

// ---- the program

static Arena arena;
static void *(*taker)(size_t);

extern "C" OWN void read_users()
{
	for (int i = 0; i < 10; i++) {
		keep(grab(120));
		keep(grab_zeroed(200));
		keep(get_row(240));
		keep(node_new(i));
		keep(wheel(i));
		keep(record_of("user", i + 3));
		if (taker)
			keep(taker(328));
		arena.alloc(9000);
	}
}

extern "C" OWN void read_orders()
{
	for (int i = 0; i < 12; i++) {
		keep(grab(136));
		keep(grab_zeroed(264));
		keep(get_row(480));
		keep(node_new(i));
		keep(wheel(i));
		keep(record_of("an order", i + 1));
		if (taker)
			keep(taker(656));
		arena.alloc(9000);
	}
}

extern "C" OWN void read_prices(int depth)
{
	// Recursion: the wrapper is called from every depth.
	keep(grab(152));
	keep(grab_zeroed(328));
	keep(get_row(960));
	keep(node_new(depth));
	keep(wheel(depth));
	keep(record_of("price", depth + 2));
	if (taker)
		keep(taker(1312));
	arena.alloc(9000);
	if (depth)
		read_prices(depth - 1);
	__asm__ volatile("" ::: "memory"); // no tail call
}

// [LIBRARY [TIMES]]
int main(int argc, char **argv)
{
	if (argc > 1) {
		void *library = dlopen(argv[1], RTLD_NOW);
		if (!library)
			return 1;
		void *symbol = dlsym(library, "shared_take");
		memcpy(&taker, &symbol, sizeof taker);
	}
	for (int i = argc > 2 ? atoi(argv[2]) : 1; i > 0; i--) {
		read_users();
		read_orders();
		read_prices(5);
	}
	printf("%u\n", count);
	return 0;
}
