/* heft.h for C++17 and later: regions that end by themselves, and memory resources of std::pmr whose objects heft
 * knows. As heft.h: nothing to link, and a program runs unchanged without heft. Nothing here throws or allocates.
 *
 *     heft::region parsing(heft::thread);
 *     parse(text);
 *     HEFT_EXPECT_LE(parsing, allocations, 3);
 *
 * docs/bindings.md has examples. */
#ifndef HEFT_HPP
#define HEFT_HPP

#include <heft.h>

#include <cstddef>
#include <memory_resource>
#include <optional>

namespace heft
{

using stats = ::heft_stats;
using scope = ::heft_scope;
inline constexpr scope process = HEFT_PROCESS;
inline constexpr scope thread = HEFT_THREAD;

/* Since the program's start; empty where nobody counts. */
inline std::optional<stats> stats_of(scope of = process) noexcept
{
	stats s{};
	return heft_stats_get(of, &s) == 0 ? std::optional<stats>(s) : std::nullopt;
}

/* What is allocated between its construction and its destruction, or end(). It can be given to HEFT_EXPECT_LE and
 * HEFT_EXPECT_EQ as it is. A region of a thread belongs to the thread that constructs it. */
class region
{
public:
	explicit region(scope of = process, const char *name = nullptr) noexcept
	    : open_(heft_region_begin_named(&region_, of, name) == 0)
	{
	}
	~region()
	{
		if (open_)
			heft_region_end(&region_, nullptr);
	}
	region(const region &) = delete;
	region &operator=(const region &) = delete;

	/* Since it began; empty where nobody counts. */
	std::optional<stats> change() const noexcept
	{
		stats s{};
		return heft_region_change(&region_, &s) == 0 ? std::optional<stats>(s)
							     : std::nullopt;
	}
	/* Ends it now. The second time it is empty. */
	std::optional<stats> end() noexcept
	{
		stats s{};
		bool counted = open_ && heft_region_end(&region_, &s) == 0;
		open_ = false;
		return counted ? std::optional<stats>(s) : std::nullopt;
	}
	operator const ::heft_region *() const noexcept
	{
		return &region_;
	}
	operator bool() const = delete; /* the pointer's, which is never null */

private:
	::heft_region region_;
	bool open_;
};

/* A memory resource before another one, which heft shows as a pool by its name: with the objects that are asked for
 * here, not with the chunks that the other one takes.
 *
 *     std::pmr::monotonic_buffer_resource arena;
 *     heft::pool_resource words("words", &arena);
 *     std::pmr::vector<std::pmr::string> list(&words);
 *
 * The other one must live longer. So must the name, unless it is a literal. */
class pool_resource : public std::pmr::memory_resource
{
public:
	explicit pool_resource(const char *name, std::pmr::memory_resource *upstream =
							 std::pmr::get_default_resource()) noexcept
	    : name_(name), upstream_(upstream)
	{
		heft_pool_create(this, name_);
	}
	~pool_resource() override
	{
		heft_pool_destroy(this);
	}
	pool_resource(const pool_resource &) = delete;
	pool_resource &operator=(const pool_resource &) = delete;

	/* To be called when the other one has given back all its memory at once: after its release(). */
	void released() noexcept
	{
		heft_pool_destroy(this);
		heft_pool_create(this, name_);
	}
	std::pmr::memory_resource *upstream() const noexcept
	{
		return upstream_;
	}

private:
	void *do_allocate(std::size_t bytes, std::size_t alignment) override
	{
		void *block = upstream_->allocate(bytes, alignment);
		heft_pool_alloc(this, block, bytes);
		return block;
	}
	void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override
	{
		heft_pool_free(this, block);
		upstream_->deallocate(block, bytes, alignment);
	}
	bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
	{
		return this == &other;
	}

	const char *name_;
	std::pmr::memory_resource *upstream_;
};

} // namespace heft

#endif
