// Objects, exceptions and a failing new in a program that heft gets into at its start. Prints as entry_tally.c does.
#include <cstdio>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static long made, bytes;

struct thing {
	char data[120];
};

__attribute__((noinline)) static thing *tally_new()
{
	made++;
	bytes += sizeof(thing);
	return new thing;
}

static thing *volatile early = tally_new();

__attribute__((noinline)) static void fail(int i)
{
	thing *t = tally_new();
	delete t;
	if (i % 3 == 0)
		throw std::runtime_error(
			"a text that is too long to be kept inside of the string itself");
}

int main()
{
	int caught = 0;
	std::thread([&] {
		for (int i = 0; i < 300; i++)
			try {
				fail(i);
			} catch (const std::exception &) {
				caught++;
			}
	}).join();
	try {
		volatile size_t too_many = static_cast<size_t>(1) << 46;
		char *p = new char[too_many];
		delete[] p;
	} catch (const std::bad_alloc &) {
		caught++;
	}
	delete early;
	std::printf("%ld 0 %ld 0\n", made, bytes);
	return caught == 101 ? 7 : 1;
}
