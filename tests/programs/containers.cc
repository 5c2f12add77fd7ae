// C++ as it is written: containers, strings, lambdas, templates and an anonymous namespace, for the
// names that they give to frames. Some of it stays, some goes; nothing here is counted by hand.
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace
{
struct Row {
	std::vector<std::string> fields;
	std::unique_ptr<int[]> numbers;
};

template <typename Key> std::map<Key, Row> *make_table(int rows, const std::function<Key(int)> &key)
{
	auto *table = new std::map<Key, Row>;
	for (int i = 0; i < rows; i++) {
		Row &row = (*table)[key(i)];
		for (int k = 0; k < 4; k++)
			row.fields.push_back(std::string(20 + i % 50, 'x'));
		row.numbers = std::make_unique<int[]>(16);
	}
	return table;
}
} // namespace

int main()
{
	auto *kept = make_table<std::string>(200,
					     [](int i) { return std::to_string(i) + " is a key"; });
	for (int i = 0; i < 20; i++)
		delete make_table<int>(50, [i](int k) { return i * k; });
	return kept->size() == 200 ? 0 : 1;
}
