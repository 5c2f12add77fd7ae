/* A C++ library to be loaded with RTLD_DEEPBIND by a C program: the C++ runtime comes with it. */
#include "program.h"

#include <new>
#include <string>
#include <vector>

extern "C" void *plugin_alloc(size_t n);
extern "C" void plugin_free(void *p);

static std::vector<std::string> *made = new std::vector<std::string>(
	3, std::string(100, 'x')); // @cxx.begin

extern "C" NOINLINE void *plugin_alloc(size_t n)
{
	char *p = new char[n]; // @cxx.alloc
	keep(p);
	return p;
}

extern "C" NOINLINE void plugin_free(void *p)
{
	delete[] static_cast<char *>(p);
	delete made;
	made = nullptr;
}
