// Records that are kept twice, by copy constructors; and moved ones. argv[1] is the mode. A string of record i
// has 17 to 56 letters, so that it is on the heap.
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

static const unsigned RECORDS = 5000;

struct Record {
	std::string name, city;
	std::vector<int> marks;
};

NOINLINE static std::string word(unsigned i, unsigned k)
{
	return std::string(17 + (i * 7 + k * 13) % 40, 'a');
}

NOINLINE static std::vector<std::string> load_words()
{
	std::vector<std::string> words;
	words.reserve(RECORDS);
	for (unsigned i = 0; i < RECORDS; i++)
		words.push_back(word(i, 1));
	return words;
}

NOINLINE static std::vector<Record> load_records()
{
	std::vector<Record> records;
	records.reserve(RECORDS);
	for (unsigned i = 0; i < RECORDS; i++)
		records.push_back(Record{word(i, 1), word(i, 2), std::vector<int>(1 + i % 9)});
	return records;
}

NOINLINE static std::map<unsigned, std::string> load_map()
{
	std::map<unsigned, std::string> map;
	for (unsigned i = 0; i < RECORDS; i++)
		map[i * 7919 % 100003] = word(i, 3);
	return map;
}

NOINLINE static size_t keep_words()
{
	std::vector<std::string> words = load_words(), copies = words;
	return words.size() + copies.size();
}

// The array of the copies grows: the peak comes before the last one is copied.
NOINLINE static size_t keep_records()
{
	std::vector<Record> records = load_records(), copies;
	for (const Record &r : records)
		copies.push_back(r);
	return records.size() + copies.size();
}

NOINLINE static size_t keep_map()
{
	std::map<unsigned, std::string> map = load_map(), copy = map;
	return map.size() + copy.size();
}

// The originals are copies, too: push_back copies a record that is gone after that.
NOINLINE static std::vector<Record> load_and_push()
{
	std::vector<Record> records;
	for (unsigned i = 0; i < RECORDS; i++) {
		Record r{word(i, 1), word(i, 2), std::vector<int>(1 + i % 9)};
		records.push_back(r);
	}
	return records;
}

NOINLINE static size_t keep_pushed()
{
	std::vector<Record> records = load_and_push();
	std::vector<Record> copies(records);
	return records.size() + copies.size();
}

// What is put together has room for more, a copy of it has not.
NOINLINE static std::vector<std::string> join_words()
{
	std::vector<std::string> words;
	words.reserve(RECORDS);
	for (unsigned i = 0; i < RECORDS; i++) {
		std::string s = word(i, 1);
		s += word(i, 2);
		words.push_back(std::move(s));
	}
	return words;
}

NOINLINE static size_t keep_joined()
{
	std::vector<std::string> words = join_words(), copies = words;
	return words.size() + copies.size();
}

// What is assigned to an empty string has room for 30 letters at least.
NOINLINE static size_t keep_assigned()
{
	std::vector<Record> records = load_records();
	std::map<unsigned, Record> copies;
	for (unsigned i = 0; i < RECORDS; i++)
		copies[i] = records[i];
	return records.size() + copies.size();
}

NOINLINE static size_t move_records()
{
	std::vector<Record> records = load_records(), moved;
	for (Record &r : records)
		moved.push_back(std::move(r));
	return moved.size();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	size_t kept = !strcmp(mode, "vector")     ? keep_words()
		      : !strcmp(mode, "records")  ? keep_records()
		      : !strcmp(mode, "map")      ? keep_map()
		      : !strcmp(mode, "pushed")   ? keep_pushed()
		      : !strcmp(mode, "joined")   ? keep_joined()
		      : !strcmp(mode, "assigned") ? keep_assigned()
		      : !strcmp(mode, "moved")    ? move_records()
						  : 0;
	printf("%zu\n", kept);
	return kept ? 0 : 1;
}
