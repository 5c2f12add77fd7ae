/* Allocations under names that only demangling makes readable; 5151 bytes each. */
#include <cstddef>
#include <cstdlib>

namespace outer
{
template <class T> struct box {
	__attribute__((noinline)) T *make(std::size_t count) const;
};
template <class T> T *box<T>::make(std::size_t count) const
{
	return static_cast<T *>(std::malloc(count)); // @make
}
namespace
{
__attribute__((noinline)) void *unseen(int size)
{
	void *p = std::malloc(std::size_t(size)); // @unseen
	__asm__ volatile("" : "+r"(p));
	return p;
}
} // namespace
} // namespace outer

int main()
{
	outer::box<char> box;
	char *p = box.make(5151);
	__asm__ volatile("" : "+r"(p));
	void *q = outer::unseen(5151);
	std::free(p);
	std::free(q);
}
