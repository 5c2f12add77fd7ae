/* What the inside needs from around it: the C library and the loader.
 *
 * The inside is built twice. libheft-preload.so calls them. The blob, which heft
 * attach puts into a running program, is linked to nothing (HEFT_BLOB): the
 * outside has looked up what it needs and has written it down (wire/blob.h).
 * Everything else is the same source. */
#ifndef HEFT_CAPTURE_AROUND_H
#define HEFT_CAPTURE_AROUND_H

#include "base/sys.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>

#ifdef HEFT_BLOB

int heft_find_object(void *address, struct dl_find_object *found);
uint64_t heft_auxiliary(uint64_t type);
void *heft_stack_end(void);
int32_t heft_around_tid(void);
void heft_around_mapped(void *at, size_t bytes);
void heft_around_unmapped(const void *at);

#else

extern void *__libc_stack_end;
unsigned long getauxval(unsigned long type);

/* Takes no lock. 0, or -1: no object has the address. */
static inline int heft_find_object(void *address, struct dl_find_object *found)
{
	return _dl_find_object(address, found);
}

/* An entry of the auxiliary vector (AT_PHDR, say); 0: it has none */
static inline uint64_t heft_auxiliary(uint64_t type)
{
	int saved = errno;
	uint64_t value = getauxval(type);
	errno = saved;
	return value;
}

/* The end of the stack of the thread that the program began with */
static inline void *heft_stack_end(void)
{
	return __libc_stack_end;
}

/* The calling thread's number; 0 or less: nobody tells */
static inline int32_t heft_around_tid(void)
{
	return sys_gettid();
}

/* The inside has mapped memory for itself, or is about to unmap it. Only the blob must know all of it: it is
 * taken out of the program again. */
static inline void heft_around_mapped(void *at, size_t bytes)
{
	(void)at, (void)bytes;
}
static inline void heft_around_unmapped(const void *at)
{
	(void)at;
}

#endif

#endif
