// One case for each form of C++ new and delete: plain, array, nothrow, sized,
// aligned, and a class's own. argv[1] names the case; expected numbers are in
// tests/integration/test_counts.py.
#include "program.h"

#include <new>

namespace
{
struct alignas(64) Wide {
	char bytes[128];
};
struct Destructible { // an array of these stores its length: 8 bytes more
	char bytes[24];
	~Destructible()
	{
		keep(this);
	}
};
} // namespace

extern "C" {
NOINLINE void case_new()
{
	char *a = new char; // @new.a
	long *b = new long; // @new.b
	keep(a);
	keep(b);
	delete a;
}

NOINLINE void case_new_array()
{
	char *a = new char[1000];               // @new_array.a
	Destructible *b = new Destructible[10]; // @new_array.b
	keep(a);
	keep(b);
	delete[] b;
	delete[] a;
}

NOINLINE void case_nothrow()
{
	void *c = operator new(opaque(PTRDIFF_MAX), std::nothrow); // throws and catches inside
	must(c == nullptr, "nothrow new of too much");
	char *a = new (std::nothrow) char[7000]; // @nothrow.a
	long *b = new (std::nothrow) long;       // @nothrow.b
	keep(a);
	keep(b);
	operator delete[](a, std::nothrow);
	operator delete(b, std::nothrow);
}

NOINLINE void case_sized()
{
	void *a = operator new(300);   // @sized.a
	void *b = operator new[](400); // @sized.b
	keep(a);
	keep(b);
	operator delete(a, static_cast<std::size_t>(300));
	operator delete[](b, static_cast<std::size_t>(400));
}

NOINLINE void case_aligned()
{
	Wide *a = new Wide;                                 // @aligned.a
	Wide *b = new Wide[3];                              // @aligned.b
	void *c = operator new(256, std::align_val_t(256)); // @aligned.c
	must((reinterpret_cast<uintptr_t>(a) & 63) == 0, "aligned new");
	must((reinterpret_cast<uintptr_t>(c) & 255) == 0, "aligned new 256");
	keep(a);
	keep(b);
	delete a;
	delete[] b;
	operator delete(c, static_cast<std::size_t>(256), std::align_val_t(256));
}

NOINLINE void case_aligned_nothrow()
{
	void *a = operator new(512, std::align_val_t(128), std::nothrow);   // @aligned_nothrow.a
	void *b = operator new[](640, std::align_val_t(128), std::nothrow); // @aligned_nothrow.b
	keep(a);
	keep(b);
	operator delete(a, std::align_val_t(128), std::nothrow);
	operator delete[](b, std::align_val_t(128));
}

NOINLINE void case_throwing()
{
	bool caught = false;
	void *a = operator new(33); // @throwing.a
	keep(a);
	try {
		keep(operator new(opaque(PTRDIFF_MAX)));
	} catch (const std::bad_alloc &) {
		caught = true;
	}
	must(caught, "bad_alloc");
	operator delete(a);
}

// After the throw has left operator new, allocations come from deeper frames than the one it left.
NOINLINE void deeper(int depth)
{
	volatile char room[64] = {static_cast<char>(depth)};
	if (depth > 0) {
		deeper(depth - 1);
		keep(room);
		return;
	}
	char *p = new char[2000]; // @throwing_deep.a
	keep(p);
	delete[] p;
}

NOINLINE bool catches()
{
	try {
		keep(operator new(opaque(PTRDIFF_MAX)));
	} catch (const std::bad_alloc &) {
		return true;
	}
	return false;
}

NOINLINE void case_throwing_deep()
{
	for (int i = 0; i < 10; i++) {
		must(catches(), "bad_alloc");
		deeper(5);
	}
}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)();
	} cases[] = {
		{"new", case_new},           {"new_array", case_new_array},
		{"nothrow", case_nothrow},   {"sized", case_sized},
		{"aligned", case_aligned},   {"aligned_nothrow", case_aligned_nothrow},
		{"throwing", case_throwing}, {"throwing_deep", case_throwing_deep},
	};

	must(argc == 2, "usage: each_new CASE");
	for (const auto &c : cases) {
		if (!strcmp(argv[1], c.name)) {
			c.run();
			say("done\n");
			return 0;
		}
	}
	must(0, "no such case");
	return 1;
}
