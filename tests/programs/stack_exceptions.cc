// Exceptions thrown through allocating frames: what allocates afterwards must not
// show frames that the throw has taken away. Also prints what it caught, so that
// the same program serves as a test of transparency.
#include "program.h"

#include <iostream>
#include <stdexcept>
#include <string>

struct Guard {
	char *block;
	Guard() : block(new char[801])
	{
		keep(block);
	}
	~Guard()
	{
		delete[] block;
	}
};

extern "C" {
NOINLINE void throw_leaf(int n)
{
	char *p = new char[802]; // @exceptions.leaf
	keep(p);
	delete[] p;
	throw std::runtime_error(std::string("number ") + std::to_string(n));
}

NOINLINE void throw_guarded(int n, int depth)
{
	Guard guard;
	keep(&guard);
	if (depth == 0)
		throw_leaf(n);
	else
		throw_guarded(n, depth - 1); // @exceptions.deeper
	keep(&guard);
}

NOINLINE void after_catch()
{
	char *p = new char[803]; // @exceptions.after
	keep(p);
	delete[] p;
}

NOINLINE bool catcher(int n)
{
	bool caught = false;
	try {
		throw_guarded(n, n % 8);
	} catch (const std::runtime_error &e) {
		caught = std::string(e.what()) == "number " + std::to_string(n);
	}
	after_catch();
	return caught;
}
}

int main(int argc, char **)
{
	int caught = 0;
	for (int i = 0; i < 400; i++)
		caught += catcher(i);
	std::cout << "caught " << caught << std::endl;
	std::cerr << "on the other stream\n";
	if (argc > 1)
		throw std::logic_error("nobody catches this");
	return caught == 400 ? 3 : 1;
}
