// The C++ ways to allocate and to free, for sampled recordings: 40,000 bytes and more each, which a
// rate of 1 KiB never misses. What is left in the end: 30 arrays, 20 objects, 10 aligned ones, and
// one vector of 1,000,000 bytes that has grown to it.
#include "program.h"

#include <memory>
#include <new>
#include <vector>

struct plain {
	char bytes[40000];
};
struct alignas(256) aligned {
	char bytes[40192];
};

NOINLINE static char *keep_array()
{
	return new char[50000];
}
NOINLINE static plain *keep_object()
{
	return new plain;
}
NOINLINE static aligned *keep_aligned()
{
	return new aligned;
}

NOINLINE static void grow(std::vector<char> &v)
{
	for (size_t n = 50000; n <= 1000000; n += 50000) {
		v.reserve(n);
		keep(v.data());
	}
}

int main()
{
	static std::vector<char> vector;

	for (int i = 0; i < 60; i++) {
		char *p = keep_array();
		keep(p);
		if (i % 2)
			delete[] p;
	}
	for (int i = 0; i < 60; i++) {
		plain *p = keep_object();
		keep(p);
		if (i % 3)
			delete p;
	}
	for (int i = 0; i < 60; i++) {
		aligned *p = keep_aligned();
		keep(p);
		must(reinterpret_cast<uintptr_t>(p) % 256 == 0, "alignment");
		if (i % 6)
			delete p;
	}
	for (int i = 0; i < 50; i++)
		keep(std::make_unique<plain>().get());
	grow(vector);
	try {
		throw std::vector<char>(60000);
	} catch (const std::vector<char> &v) {
		keep(v.data());
	}
	_exit(7);
}
