/* From the time stamp counter to nanoseconds since the start of a recording. */
#ifndef HEFT_SESSION_TSC_CLOCK_H
#define HEFT_SESSION_TSC_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct tsc_clock {
	uint64_t tsc0, ns0; /* the start: the same moment by both clocks */
	uint64_t mult;      /* ns per cycle << 32 */
	bool measured;      /* mult does not change any more */
};

/* The recording starts now. */
void tsc_clock_start(struct tsc_clock *c);
/* Measures the rate; for every round. */
void tsc_clock_measure(struct tsc_clock *c);

/* How long so many cycles last. */
static inline uint64_t tsc_clock_ns(const struct tsc_clock *c, uint64_t cycles)
{
	return (uint64_t)((unsigned __int128)cycles * c->mult >> 32);
}

/* The time of a stamp; 0 before the start. */
static inline uint64_t tsc_clock_time(const struct tsc_clock *c, uint64_t tsc)
{
	return tsc > c->tsc0 ? tsc_clock_ns(c, tsc - c->tsc0) : 0;
}

#endif
