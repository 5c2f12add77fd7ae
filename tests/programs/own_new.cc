// A program that replaces operator new, and keeps 100 blocks of 4,000 bytes. Where they come from is its argument:
//
//   map     pieces of 64 KiB that it maps
//   break   pieces of 64 KiB that it takes from the break
//   malloc  malloc
//   table   malloc, beside a table of 1 MiB that it has mapped
//   tail    malloc, called by a jump; before that it has mapped a piece of 64 KiB for itself
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 64 << 10, TABLE = 1 << 20, BLOCKS = 100, BYTES = 4000 };

static const char *from = "";
static char *at, *end;
static void **table;
static void *kept[BLOCKS];

static bool is(const char *what)
{
	return strcmp(from, what) == 0;
}

__attribute__((noinline)) static void *map(size_t bytes)
{
	void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		abort();
	return p;
}

__attribute__((noinline)) static void *piece(size_t size)
{
	if ((size_t)(end - at) < size) {
		at = (char *)(is("break") ? sbrk(PIECE) : map(PIECE));
		end = at + PIECE;
	}
	at += size;
	return at - size;
}

__attribute__((noinline)) void *operator new(size_t size)
{
	if (is("map") || is("break"))
		return piece((size + 15) & ~(size_t)15);
	if (!is("malloc") && !table)
		table = (void **)map(is("table") ? TABLE : PIECE);
	if (is("tail"))
		return malloc(size);
	void *p = malloc(size);
	if (table)
		table[0] = p;
	return p;
}

void operator delete(void *) noexcept
{
}

void operator delete(void *, size_t) noexcept
{
}

int main(int argc, char **argv)
{
	from = argc > 1 ? argv[1] : "malloc";
	for (auto &block : kept) {
		block = operator new(BYTES);
		memset(block, 1, BYTES);
	}
	return kept[0] == kept[1];
}
