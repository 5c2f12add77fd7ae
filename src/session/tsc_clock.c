/* Measuring the time stamp counter against the monotonic clock: from the start of the
 * recording to now, anew in every round until that is long enough to be exact. */
#include "session/tsc_clock.h"

#include "base/arch.h"
#include "hosted/monotonic.h"

/* After this long the rate is known. */
#define MEASURE_NS 2000000000ull
/* A shorter time says nothing about the rate. */
#define LEAST_NS 100000

/* A stamp and a time of the same moment: the tightest of a few tries. */
static void read_both(uint64_t *tsc, uint64_t *ns)
{
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < 5; i++) {
		uint64_t a = arch_stamp_after(), n = monotonic_ns(), b = arch_stamp_after();
		if (b - a < best) {
			best = b - a;
			*tsc = a + (b - a) / 2;
			*ns = n;
		}
	}
}

void tsc_clock_start(struct tsc_clock *c)
{
	read_both(&c->tsc0, &c->ns0);
	c->mult = (uint64_t)(1.0 / 2.5 * 4294967296.0); /* a guess until it is measured */
	c->measured = false;
}

void tsc_clock_measure(struct tsc_clock *c)
{
	uint64_t tsc, ns;
	if (c->measured)
		return;
	read_both(&tsc, &ns);
	if (ns - c->ns0 < LEAST_NS || tsc <= c->tsc0)
		return;
	c->mult = (uint64_t)(((unsigned __int128)(ns - c->ns0) << 32) / (tsc - c->tsc0));
	c->measured = ns - c->ns0 > MEASURE_NS;
}
