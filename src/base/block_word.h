/* One block in one word: its site, requested size and slack.
 *
 *   site:24 | size:28 | slack:12, the site in the lowest bits
 *
 * The inside writes this word in its records (wire/record.h), the recorder keeps it
 * for every live block (record/live_blocks.h), and a brief event carries it on
 * (tally/batch.h). The recorder replaces the site, a stack node, by the site's number
 * in the recording and leaves the rest as it is. A slack of all ones means that the
 * slack is not known; only records of the inside use it. */
#ifndef HEFT_BASE_BLOCK_WORD_H
#define HEFT_BASE_BLOCK_WORD_H

#include <stdint.h>

enum { BLOCK_SITE_BITS = 24, BLOCK_SIZE_BITS = 28, BLOCK_SLACK_BITS = 12 };
#define BLOCK_SIZE_MAX ((1ull << BLOCK_SIZE_BITS) - 1)
#define BLOCK_SLACK_UNKNOWN ((1ull << BLOCK_SLACK_BITS) - 1)
#define BLOCK_SLACK_SHIFT (BLOCK_SITE_BITS + BLOCK_SIZE_BITS)

static inline uint64_t block_word(uint64_t site, uint64_t size, uint64_t slack)
{
	return site | size << BLOCK_SITE_BITS | slack << BLOCK_SLACK_SHIFT;
}
static inline uint32_t block_site(uint64_t word)
{
	return (uint32_t)word & ((1u << BLOCK_SITE_BITS) - 1);
}
static inline uint32_t block_size(uint64_t word)
{
	return (uint32_t)(word >> BLOCK_SITE_BITS) & ((1u << BLOCK_SIZE_BITS) - 1);
}
static inline uint32_t block_slack(uint64_t word)
{
	return (uint32_t)(word >> BLOCK_SLACK_SHIFT);
}

/* Whether these fit, with a slack that is known. */
static inline int block_fits(uint64_t site, uint64_t size, uint64_t slack)
{
	return site >> BLOCK_SITE_BITS == 0 && size <= BLOCK_SIZE_MAX &&
	       slack < BLOCK_SLACK_UNKNOWN;
}

#endif
