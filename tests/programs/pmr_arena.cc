// A memory resource that maps its memory itself, behind std::pmr: ten thousand pieces of 1,000 bytes, about 13 MiB of
// mappings, and one block of 3 MiB, so that its heap is worth a ledger.
#include <sys/mman.h>
#include <cstring>
#include <cstdlib>
#include <memory_resource>
struct arena : std::pmr::memory_resource {
	void *do_allocate(size_t n, size_t) override
	{
		return grow(n);
	}
	void do_deallocate(void *, size_t, size_t) override
	{
	}
	bool do_is_equal(const std::pmr::memory_resource &o) const noexcept override
	{
		return this == &o;
	}
	__attribute__((noinline)) void *grow(size_t n)
	{
		void *p = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);
		memset(p, 1, n);
		return p;
	}
};
int main()
{
	arena a;
	std::pmr::monotonic_buffer_resource pool(1 << 20, &a);
	for (int i = 0; i < 10000; i++)
		if (!pool.allocate(1000))
			return 1;
	void *volatile p = malloc(3 << 20);
	memset(p, 1, 3 << 20);
	return 0;
}
