/* Which pages of a process are in memory: read while it stands still. */
#ifndef HEFT_LEDGER_LEDGER_PAGES_H
#define HEFT_LEDGER_LEDGER_PAGES_H

#include "hosted/ledger.h"

#include <sys/types.h>

struct heft_error;

enum { LEDGER_PAGE = 4096 };
enum ledger_page_flags {
	LEDGER_IN_MEMORY = 1, /* and counted as resident: the kernel's page of zeros is not */
	LEDGER_OF_FILE = 2,   /* or of shared memory; else anonymous: the process's own */
	LEDGER_SWAPPED = 4,
	LEDGER_HUGE = 8,
};

/* Pages of one sort that follow each other */
struct ledger_run {
	uint64_t start, end;
	uint32_t flags;
};

/* In order of address. */
struct ledger_pages {
	VECTOR_MEMBERS(struct ledger_run);
	size_t cursor; /* where ledger_pages_measure was last */
	int fd;        /* /proc/PID/pagemap */
	pid_t pid;
};

enum ledger_pages_way {
	LEDGER_BEST_WAY,
	LEDGER_PAGEMAP, /* as on kernels before 6.7 */
};

/* Opens what the reading needs, before the process stands still. */
int ledger_pages_open(struct ledger_pages *p, pid_t pid, struct heft_error *err);
/* maps_text: /proc/PID/maps of this moment. Asks the kernel for all pages in one go (PAGEMAP_SCAN, Linux 6.7); where
 * it cannot, looks at every page of every mapping. scan_room: for tests: how many runs are asked for at a time; 0: many. */
int ledger_pages_read(struct ledger_pages *p, const char *maps_text, enum ledger_pages_way way,
		      size_t scan_room, struct heft_error *err);
/* Takes away pages of mappings that are not resident by the kernel's own count (hugetlbfs). Returns their bytes. */
uint64_t ledger_pages_drop(struct ledger_pages *p, uint64_t start, uint64_t end);
void ledger_pages_fini(struct ledger_pages *p);

/* Adds what [start, end) has; `mapped` grows by its length. Fast if places ascend. */
void ledger_pages_measure(struct ledger_pages *p, uint64_t start, uint64_t end,
			  struct ledger_bytes *sum);
/* Whether all of it is in pages of the process's own that are in memory. False also if heft would have to look at more than
 * one run of pages. Fast if places ascend. */
bool ledger_pages_are_own(struct ledger_pages *p, uint64_t start, uint64_t end);
/* Whether the page at an address is in memory. */
bool ledger_pages_have(struct ledger_pages *p, uint64_t at);
/* The first address from `at` on in a page that has one of these flags; UINT64_MAX: there is none. Programs reserve terabytes
 * that they never touch: who goes through a mapping asks for what is there. Fast if places ascend. */
uint64_t ledger_pages_next(struct ledger_pages *p, uint64_t at, uint32_t flags);

#endif
