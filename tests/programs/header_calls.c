/* Calls everything in heft.h once, in what C and C++ have in common. Prints the answers in one line: with heft_stand_in.c in
 * heft's place they are other ones than without. With -DLIBRARY it has no main. */
#include <heft.h>

#include <stdio.h>

static void say_nothing(const char *message)
{
	(void)message;
}

#ifdef __cplusplus
extern "C" {
#endif
int header_calls(void);
#ifdef __cplusplus
}
#endif

int header_calls(void)
{
	struct heft_stats s;
	struct heft_region r;
	int block, done = 0;
	heft_on_failure(say_nothing);
	done += heft_stats_get(HEFT_PROCESS, &s) + heft_stats_get(HEFT_THREAD, &s);
	done += heft_region_begin(&r, HEFT_THREAD) + heft_region_change(&r, &s);
	done += heft_region_end(&r, NULL);
	done += heft_region_begin_named(&r, HEFT_PROCESS, "named");
	printf("%d %d %d ", done, HEFT_EXPECT_LE(&r, peak_bytes, 8u),
	       HEFT_EXPECT_EQ(&r, live_bytes, 0));
	(void)heft_expect_or(&r, offsetof(struct heft_stats, frees), HEFT_AT_MOST, 0, "frees",
			     __FILE__, __LINE__, say_nothing);
	heft_mark("mark");
	heft_mark_block("block", "stage");
	heft_event("event", 1);
	heft_pool_create(&block, "pool");
	heft_pool_alloc(&block, &block, sizeof block);
	heft_pool_free(&block, &block);
	heft_pool_destroy(&block);
	printf("%d %d %d %d\n", heft_running(), heft_start() + heft_stop() + heft_dump("/dev/null"),
	       heft_sampling_active(), heft_pprof_dump(-1));
	return 0;
}

#ifndef LIBRARY
int main(void)
{
	return header_calls();
}
#endif
