/* The handler puts zeroed memory of our own over the whole mapping and returns: the
 * load that failed is done again and reads 0. The list of mappings is an array of
 * atomics, because a handler may take no lock; any other SIGBUS is as deadly as ever.
 *
 * The handler is installed with every mapping, so no caller can forget it, and a library that puts its own
 * in between is overruled. */
#include "hosted/map_guard.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

enum { CLAIMED = 1 }; /* an entry that is being filled in: no mapping begins there */
static _Atomic uintptr_t guarded[MAP_GUARD_MOST];
static _Atomic size_t guarded_bytes[MAP_GUARD_MOST];
static _Atomic uint32_t used; /* entries that were ever in use */

static void on_bus_error(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	uint32_t high = atomic_load(&used);
	(void)context;
	for (uint32_t i = 0; i < high; i++) {
		uintptr_t base = atomic_load(&guarded[i]);
		size_t bytes = atomic_load(&guarded_bytes[i]);
		if (base > CLAIMED && at >= base && at - base < bytes &&
		    mmap((void *)base, bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
			 0) != MAP_FAILED)
			return;
	}
	signal(sig, SIG_DFL); /* and the instruction again */
}

void map_guard_this_thread(void)
{
	sigset_t bus;
	sigemptyset(&bus);
	sigaddset(&bus, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}

static void install(void)
{
	struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, NULL);
}

bool map_guard_add(void *base, size_t bytes)
{
	install();
	map_guard_this_thread();
	for (uint32_t i = 0; i < MAP_GUARD_MOST; i++) {
		uintptr_t none = 0;
		if (!atomic_compare_exchange_strong(&guarded[i], &none, CLAIMED))
			continue;
		atomic_store(&guarded_bytes[i], bytes);
		atomic_store(&guarded[i], (uintptr_t)base);
		uint32_t high = atomic_load(&used);
		while (high <= i && !atomic_compare_exchange_weak(&used, &high, i + 1))
			;
		return true;
	}
	return false;
}

void map_guard_remove(void *base)
{
	uint32_t high = atomic_load(&used);
	for (uint32_t i = 0; i < high; i++) {
		uintptr_t this = (uintptr_t)base;
		if (atomic_compare_exchange_strong(&guarded[i], &this, 0))
			return;
	}
}
