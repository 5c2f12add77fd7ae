// Prints tcmalloc's own sample of the heap: what a server gives at /pprof/heap. The class is declared
// here as far as it is needed, so that the library's headers are not.
#include <cstdio>
#include <cstdlib>
#include <string>

class MallocExtension
{
public:
	static MallocExtension *instance();
	void GetHeapSample(std::string *out);
};

static void *volatile kept;

__attribute__((noinline)) static void hold(int count, size_t size)
{
	for (int i = 0; i < count; i++)
		kept = malloc(size);
}

int main()
{
	std::string out;
	hold(20000, 1000);
	hold(10, 1000000);
	MallocExtension::instance()->GetHeapSample(&out);
	fputs(out.c_str(), stdout);
	return 0;
}
