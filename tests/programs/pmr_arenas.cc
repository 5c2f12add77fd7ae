// Objects in arenas of the standard library: 24 MiB in a monotonic resource whose memory comes from a resource that maps
// it, and 4 MiB in a pool over malloc. Prints a line and waits for the end of its input.
#include <cstdio>
#include <cstring>
#include <list>
#include <memory_resource>
#include <vector>

#include <sys/mman.h>

namespace
{
class mapped_resource : public std::pmr::memory_resource
{
	void *do_allocate(std::size_t bytes, std::size_t) override
	{
		void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		return p == MAP_FAILED ? throw std::bad_alloc() : p;
	}
	void do_deallocate(void *p, std::size_t bytes, std::size_t) override
	{
		munmap(p, bytes);
	}
	bool do_is_equal(const memory_resource &other) const noexcept override
	{
		return this == &other;
	}
};
} // namespace

int main()
{
	mapped_resource mapped;
	std::pmr::monotonic_buffer_resource arena(1 << 20, &mapped);
	std::pmr::unsynchronized_pool_resource pool;
	std::pmr::list<int> list(&pool);
	for (int i = 0; i < 24 * 1024; i++)
		std::memset(arena.allocate(1024), 1, 1024);
	for (int i = 0; i < 4 * 1024 * 1024 / 24; i++)
		list.push_back(i);
	std::puts("x");
	std::fflush(stdout);
	return std::getchar() == 'x' ? 1 : 0;
}
