/* Compares every call stack that the library captures with libunwind's. Linked
 * with the library's own sources (built with HEFT_STACK_CHECK) into a stand-in
 * for libheft-preload.so; libunwind is in no other build.
 *
 * Counts go into a file per process in $HEFT_CHECK_DIR, mapped shared, so that
 * they survive any end of the program; the first few differences are written
 * beside it. */
#define UNW_LOCAL_ONLY
#include "capture/main_frame.h"

#include <fcntl.h>
#include <libunwind.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct counts {
	uint64_t captures, equal, guessed, truncated, longer, shorter, different, frames;
};
static struct counts *counts;
static int owner, text_fd = -1;
static _Atomic int told;

static void open_counts(void)
{
	const char *dir = getenv("HEFT_CHECK_DIR");
	char path[512];
	owner = getpid();
	static struct counts nowhere;
	counts = &nowhere;
	if (!dir)
		return;
	snprintf(path, sizeof path, "%s/%d.%llx.counts", dir, owner,
		 (unsigned long long)arch_stamp());
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, sizeof *counts))
		return;
	void *p = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (p != MAP_FAILED)
		counts = p;
	snprintf(path, sizeof path, "%s/%d.text", dir, owner);
	text_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	atomic_store(&told, 0);
}

static void tell(const char *what, const struct heft_frame *f, uint32_t depth, const unw_word_t *u,
		 uint32_t n)
{
	if (text_fd < 0 || atomic_fetch_add(&told, 1) >= 5)
		return;
	char line[200];
	int len = snprintf(line, sizeof line, "%s: heft %u frames, libunwind %u\n", what, depth, n);
	uint32_t most = depth > n ? depth : n;
	if (write(text_fd, line, (size_t)len) < 0)
		return;
	for (uint32_t i = 0; i < most && i < 60; i++) {
		uint64_t a = i < depth ? f[depth - 1 - i].pc : 0, b = i < n ? u[i] : 0;
		len = snprintf(line, sizeof line, "  %2u %s %012llx (flags %x sp %llx) %012llx\n",
			       i, a == b ? " " : "*", (unsigned long long)a,
			       i < depth ? f[depth - 1 - i].flags : 0u,
			       (unsigned long long)(i < depth ? f[depth - 1 - i].sp : 0),
			       (unsigned long long)b);
		if (write(text_fd, line, (size_t)len) < 0)
			return;
	}
	int maps = open("/proc/self/maps", O_RDONLY);
	char buf[4096];
	for (ssize_t got; (got = read(maps, buf, sizeof buf)) > 0;)
		if (write(text_fd, buf, (size_t)got) < 0)
			break;
	close(maps);
}

enum { MOST = 4096 };

void heft_stack_check(const struct heft_frame *frames, uint32_t depth, struct heft_entry e)
{
	/* Not in the thread's own storage: programs have threads with hardly any room for it. */
	static __thread unw_word_t *pcs;
	if (!pcs) {
		void *p = mmap(NULL, MOST * sizeof *pcs, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			return;
		pcs = p;
	}
	if (owner != getpid()) {
		open_counts();
		unw_set_caching_policy(unw_local_addr_space, UNW_CACHE_PER_THREAD);
	}
	__atomic_fetch_add(&counts->captures, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&counts->frames, depth, __ATOMIC_RELAXED);
	unw_context_t uc;
	unw_cursor_t c;
	unw_getcontext(&uc);
	unw_init_local(&c, &uc);
	uint32_t n = 0;
	bool found = false;
	do {
		unw_word_t ip, sp;
		unw_get_reg(&c, UNW_REG_IP, &ip);
		unw_get_reg(&c, UNW_REG_SP, &sp);
		if (!found && sp == e.sp && ip == e.pc)
			found = true;
		if (found && ip && !heft_is_main_frame(ip))
			pcs[n++] = ip;
	} while (n < MOST && unw_step(&c) > 0);
	uint32_t same = 0;
	while (same < n && same < depth && pcs[same] == frames[depth - 1 - same].pc)
		same++;
	bool guess = false, cut = false;
	for (uint32_t i = 0; i < depth; i++) {
		guess |= (frames[i].flags & WIRE_NODE_GUESS) != 0;
		cut |= (frames[i].flags & WIRE_NODE_TRUNCATED) != 0;
	}
	/* In code without tables (V8's builtins in node) libunwind guesses too, and goes on through an
	 * address where nothing is. heft's stack ends there, and says so. */
	bool nowhere = same == depth && cut && same < n &&
		       !sys_readable((void *)(pcs[same] & ~7ull));
	if (same == depth && (same == n || n == MOST || nowhere))
		__atomic_fetch_add(&counts->equal, 1, __ATOMIC_RELAXED);
	else if (guess) {
		__atomic_fetch_add(&counts->guessed, 1, __ATOMIC_RELAXED);
		tell("guessed", frames, depth, pcs, n);
	} else if (cut) {
		__atomic_fetch_add(&counts->truncated, 1, __ATOMIC_RELAXED);
		tell("truncated", frames, depth, pcs, n);
	} else if (same == n || n == MOST) {
		__atomic_fetch_add(&counts->longer, 1, __ATOMIC_RELAXED);
		tell("longer", frames, depth, pcs, n);
	} else if (same == depth) {
		__atomic_fetch_add(&counts->shorter, 1, __ATOMIC_RELAXED);
		tell("shorter", frames, depth, pcs, n);
	} else {
		__atomic_fetch_add(&counts->different, 1, __ATOMIC_RELAXED);
		tell("different", frames, depth, pcs, n);
	}
}
