/* The few instructions that differ between processors.
 *
 * A time stamp taken after an allocation must not be older than the allocation:
 * plain rdtsc may execute before the loads of the call before it (inversions
 * were measured between threads), rdtscp waits for them. Before a free plain
 * rdtsc is enough: later stores cannot become visible before it has executed. */
#ifndef HEFT_BASE_ARCH_H
#define HEFT_BASE_ARCH_H

#include <stdint.h>

#if defined(__x86_64__)
static inline uint64_t arch_stamp(void)
{
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}
static inline uint64_t arch_stamp_after(void)
{
	uint32_t lo, hi;
	__asm__ volatile("rdtscp" : "=a"(lo), "=d"(hi) : : "rcx", "memory");
	return (uint64_t)hi << 32 | lo;
}
static inline void *arch_thread_pointer(void)
{
	void *tp;
	__asm__("mov %%fs:0, %0" : "=r"(tp));
	return tp;
}
static inline void arch_pause(void) { __asm__ volatile("pause"); }
#else
#error "no time stamp counter known for this architecture"
#endif

#endif
