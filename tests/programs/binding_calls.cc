/* Calls everything in heft.hpp once, for tests of the bindings. Prints what comes of it. */
#include <heft.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory_resource>
#include <string>

static void print(const char *what, const std::optional<heft::stats> &s)
{
	if (!s)
		std::printf("%s -\n", what);
	else
		std::printf("%s %d %d %d %d %d %d %d %d\n", what, (int)s->allocations,
			    (int)s->reallocations, (int)s->frees, (int)s->allocated_bytes,
			    (int)s->freed_bytes, (int)s->live_bytes, (int)s->live_blocks,
			    (int)s->peak_bytes);
}

static void say_failure(const char *message)
{
	std::printf("%s\n", std::strrchr(message, '/') + 1);
}

static void use_regions()
{
	heft::region whole;
	{
		heft::region part(heft::thread, "part");
		print("change", part.change());
	}
	print("end", whole.end());
	print("end", whole.end());
	heft_on_failure(say_failure);
	heft::region judged(heft::process, "judged");
	std::printf("expected %d\n", HEFT_EXPECT_LE(judged, peak_bytes, 8));
	std::printf("expected %d\n", HEFT_EXPECT_LE(judged, peak_bytes, 7)); // @le
	std::printf("expected %d\n", HEFT_EXPECT_EQ(judged, live_bytes, -6));
	std::printf("expected %d\n", HEFT_EXPECT_EQ(judged, live_blocks, 0)); // @eq
}

static void use_pools()
{
	std::pmr::monotonic_buffer_resource arena;
	heft::pool_resource words("words", &arena), others("others", &words);
	void *block = words.allocate(30, 16);
	words.deallocate(block, 30, 16);
	{
		std::pmr::string text("longer than what a string has in itself", &others);
	}
	arena.release();
	words.released();
	std::printf("equal %d %d\n", words == words, words == others);
	std::printf("upstream %d\n", words.upstream() == &arena);
}

int main()
{
	std::printf("running %d\n", heft_running());
	print("stats", heft::stats_of());
	print("stats", heft::stats_of(heft::thread));
	use_regions();
	heft_mark("here");
	heft_mark_block("block", "sent");
	heft_event("retry", 5);
	use_pools();
	return 0;
}
