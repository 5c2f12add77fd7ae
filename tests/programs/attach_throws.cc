/* Eight threads in a tight loop of new, delete, malloc and free. Now and then one throws through a few frames that
 * hold blocks, and asks for more than there is: operator new must throw bad_alloc, its nothrow form must give a
 * null pointer. attach_throws FILE */
#include "attach_life.h"

#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static NOINLINE void throws(unsigned depth, unsigned seed)
{
	std::string held(100 + depth, static_cast<char>('a' + seed % 26));
	keep(held.data());
	if (depth == 0)
		throw std::runtime_error(held);
	throws(depth - 1, seed);
	must(false, "an exception did not come through");
}

static NOINLINE void fails(void)
{
	bool thrown = false;
	try {
		keep(operator new(opaque(SIZE_MAX / 4)));
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	must(thrown, "new of too much did not throw");
	must(operator new(opaque(SIZE_MAX / 4), std::nothrow) == nullptr,
	     "nothrow new gave something");
}

static void work(unsigned seed)
{
	for (unsigned i = seed; life_goes_on(); i++) {
		life_work(i);
		unsigned *numbers = new unsigned[1 + i % 50];
		block_fill(numbers, sizeof *numbers, i);
		block_check(numbers, sizeof *numbers, i);
		delete[] numbers;
		if (i % 16 == 0)
			try {
				throws(5, i);
				must(false, "nothing was thrown");
			} catch (const std::runtime_error &e) {
				must(e.what()[0] == static_cast<char>('a' + i % 26) &&
					     strlen(e.what()) == 100,
				     "the exception is not the one that was thrown");
			}
		if (i % 64 == 0)
			fails();
		life_step();
	}
}

int main(int, char **argv)
{
	life_open(argv[1]);
	std::vector<std::thread> threads;
	for (unsigned i = 0; i < 8; i++)
		threads.emplace_back(work, i * 1000);
	life_ready();
	for (auto &t : threads)
		t.join();
	say("right\n");
	return 0;
}
