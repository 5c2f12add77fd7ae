// Functions of the library with the user's own beneath them, and the same functions without: what a
// reader of pprof may hide and what it may not. Row's copy has no noexcept move beside it, so a growing
// vector copies.
#include "program.h"

#include <string.h>
#include <vector>

struct Row {
	char *text;
	Row() : text(nullptr)
	{
	}
	Row(const Row &other);
	~Row()
	{
		delete[] text;
	}
	Row &operator=(const Row &) = delete;
};

NOINLINE Row::Row(const Row &)
{
	text = new char[100];
	memset(text, 1, 100);
}

NOINLINE static void add_rows(int count)
{
	std::vector<Row> rows;
	Row row;
	for (int i = 0; i < count; i++)
		rows.push_back(row);
	keep(rows.data());
}

NOINLINE static void add_numbers(int count)
{
	std::vector<int> numbers;
	for (int i = 0; i < count; i++)
		numbers.push_back(i);
	keep(numbers.data());
}

int main()
{
	add_rows(64);
	add_numbers(64);
	return 0;
}
