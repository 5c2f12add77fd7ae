/* Something for every view of the report: 100 blocks of 777 bytes through a pool of the program's
 * own, of which a thread called "taker" frees 40; a vector of 1000 ints; 64 KiB at the bottom of
 * fifty calls of even and odd in turn; and a function whose name is far too long. */
#include <cstdlib>
#include <pthread.h>
#include <vector>

#define NOINLINE __attribute__((noinline, noclone))

static void *blocks[100];
void *volatile kept;

NOINLINE void *pool_get(size_t size)
{
	void *p = malloc(size); /* @pool */
	__asm__ volatile("" ::: "memory");
	return p;
}

NOINLINE void fill()
{
	for (auto &block : blocks)
		block = pool_get(777); /* @fill */
	__asm__ volatile("" ::: "memory");
}

NOINLINE void bottom()
{
	kept = malloc(65536); /* @bottom */
	__asm__ volatile("" ::: "memory");
}

NOINLINE void odd(int depth);
NOINLINE void even(int depth)
{
	odd(depth - 1);
	__asm__ volatile("" ::: "memory");
}

NOINLINE void odd(int depth)
{
	if (depth < 2)
		bottom();
	else
		even(depth - 1);
	__asm__ volatile("" ::: "memory");
}

template <class T, int N> struct a_rather_long_name_of_a_class_template_that_goes_on_and_on_and_on {
	NOINLINE static void reserve_some_room_for_quite_a_few_things_in(std::vector<T> &v)
	{
		v.reserve(N); /* @reserve */
		__asm__ volatile("" ::: "memory");
	}
};

static void *take(void *)
{
	pthread_setname_np(pthread_self(), "taker");
	for (int i = 0; i < 40; i++)
		free(blocks[i]);
	return nullptr;
}

int main()
{
	std::vector<int> v;
	pthread_t thread;
	fill();
	even(50);
	a_rather_long_name_of_a_class_template_that_goes_on_and_on_and_on<
		int, 1000>::reserve_some_room_for_quite_a_few_things_in(v);
	pthread_create(&thread, nullptr, take, nullptr);
	pthread_join(thread, nullptr);
	return 0;
}
