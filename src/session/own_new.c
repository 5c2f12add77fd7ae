/* Where a C++ program replaces operator new, and whether a call stack leads through it (own_new.h).
 *
 * Often it is on no stack although it was called: operator new ends with a jump to the function that does the work, and
 * so that one returns to who called operator new. Then the instruction before that place tells: it calls operator
 * new, by a distance that stands in the code. Code that calls it through a table is not recognised: that of shared libraries. */
#include "session/own_new.h"

#include "base/arch.h"
#include "session/own_allocator.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void own_new_open(struct own_new *n, const char *exe)
{
	struct own_allocator found;
	*n = (struct own_new){.fd = -1};
	if (!own_allocator_of_program(exe, (struct own_allocator_seen){0}, &found) ||
	    !found.own_new.count)
		return;
	n->at = found.own_new;
	n->fd = open(exe, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

void own_new_close(struct own_new *n)
{
	if (n->fd >= 0)
		close(n->fd);
	n->fd = -1;
}

/* Where the call before an address leads; 0: that does not stand in the code. */
static uint64_t called_before(const struct own_new *n, uint64_t address)
{
	uint8_t code[ARCH_CALL_BYTES];
	uint64_t at = address - ARCH_CALL_BYTES - n->at.code_address;
	if (n->fd < 0 || at >= n->at.code_bytes || n->at.code_bytes - at < sizeof code ||
	    pread(n->fd, code, sizeof code, (off_t)(n->at.code_offset + at)) != sizeof code)
		return 0;
	return arch_call_target(code, address);
}

bool own_new_is_at(const struct own_new *n, uint64_t return_address)
{
	uint64_t called = n->at.count ? called_before(n, return_address) : 0;
	for (uint32_t i = 0; i < n->at.count; i++) {
		const struct elf_range *f = &n->at.functions[i];
		/* The address is behind a call, and that may be the last instruction of the function. */
		if ((return_address > f->low && return_address <= f->high) || called == f->low)
			return true;
	}
	return false;
}

void own_new_words(const char *exe, char *text, size_t size)
{
	snprintf(text, size,
		 "%s replaces operator new by one that maps memory itself: what it gives out from "
		 "there is not recorded.\n"
		 "heft run --alloc-fn=_Znwm:malloc --alloc-fn=_ZdlPv:free records it, if that "
		 "operator new never throws.",
		 exe);
}
