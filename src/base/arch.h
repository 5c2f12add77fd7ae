/* The few instructions that differ between processors.
 *
 * Plain rdtsc may execute before loads that come before it in the program (so stamps of
 * two threads may be the wrong way round; that was measured). rdtscp waits for those
 * loads. Later stores become visible only after either has executed. */
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
static inline void arch_pause(void)
{
	__asm__ volatile("pause");
}
/* Where the call before a return address leads, if its distance stands in its bytes; 0: it does not. */
enum { ARCH_CALL_BYTES = 5 };
static inline uint64_t arch_call_target(const uint8_t call[ARCH_CALL_BYTES],
					uint64_t return_address)
{
	int32_t distance;
	__builtin_memcpy(&distance, call + 1, sizeof distance);
	return call[0] == 0xe8 ? return_address + (uint64_t)(int64_t)distance : 0;
}
#else
#error "no time stamp counter known for this architecture"
#endif

#endif
