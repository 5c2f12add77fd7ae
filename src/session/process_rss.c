/* The resident memory of a process. /proc has it while the process runs, and whoever waits for the process
 * gets the kernel's account of it. Both may be about other programs too: the account goes on over exec and
 * fork, and after an exec /proc has the next program. */
#include "session/process.h"

#include "base/arch.h"
#include "session/process_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int open_status(const struct process *p)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/status", p->seen_pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

void process_watch_rss(struct process *p)
{
	p->kernel.status_fd = open_status(p);
}

/* Who has thousands of processes does not keep their status open. */
static ssize_t read_status(const struct process *p, char *text, size_t size)
{
	bool kept = p->kernel.status_fd >= 0;
	int fd = kept ? p->kernel.status_fd : p->kernel.status_by_path ? open_status(p) : -1;
	ssize_t n = fd < 0 ? -1 : pread(fd, text, size, 0);
	if (!kept && fd >= 0)
		close(fd);
	return n;
}

/* About 50 ms. A process that said that it leaves and is still there after this is the parent of a vfork
 * child, or a program that heft cannot follow. */
#define LEAVING_CYCLES (150ull * 1000 * 1000)

/* The size on the line `name` of a status, in bytes; 0: there is no such line. */
static uint64_t status_bytes(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

/* What is mapped is not all touched, so a small amount is not subtracted from what is resident. */
static uint64_t beyond_usual(uint64_t bytes)
{
	const uint64_t usual = 1 << 20;
	return bytes > usual ? bytes - usual : 0;
}

static void raise_to(uint64_t *highest, uint64_t bytes)
{
	if (bytes > *highest)
		*highest = bytes;
}

void process_take_account(struct process *p, uint64_t maxrss_kib)
{
	/* The account goes on over exec, fork and vfork: as much as at the start may be the image's before. And
	 * it contains the accounts of the children that the process has waited for. */
	if (p->kernel.has_children || maxrss_kib <= p->kernel.start_maxrss_kib)
		return;
	pthread_mutex_lock(&p->entry.lock);
	raise_to(&p->entry.rss.highest_bytes, maxrss_kib * 1024);
	p->entry.rss.accounted = true;
	pthread_mutex_unlock(&p->entry.lock);
}

uint64_t process_peak_rss(const struct process *p)
{
	const struct trace_process *f = &p->entry.facts;
	uint64_t had = p->entry.rss.read_live_bytes, seen = p->entry.rss.highest_bytes;
	uint64_t grown = f->peak_bytes > had ? f->peak_bytes - had : 0;
	bool later = f->peak_time_ns > f->start_ns + p->entry.rss.read_ns;
	return !p->view.sampled && !p->entry.rss.accounted && later && grown > seen / 8 ? 0 : seen;
}

uint64_t process_read_rss(struct process *p, uint64_t time_ns, uint64_t live_bytes)
{
	char text[4096];
	ssize_t n = read_status(p, text, sizeof text - 1);
	if (n <= 0)
		return 0;
	text[n] = 0;
	/* A process that leaves may be another program by now whose file has not come. */
	const struct wire_header *h = p->view.session.header;
	uint64_t bytes = status_bytes(text, "\nVmRSS:");
	uint64_t leaving = process_leaving_tsc(p);
	if (!bytes || (leaving && arch_stamp() - leaving < LEAVING_CYCLES))
		return 0;
	/* The stack is not allocated, and heft's own memory inside is not the program's. */
	uint64_t anonymous = status_bytes(text, "\nRssAnon:");
	uint64_t others = beyond_usual(status_bytes(text, "\nVmStk:")) +
			  beyond_usual(p->view.corrupt ? 0 : atomic_load(&h->own_bytes));
	anonymous = anonymous > others ? anonymous - others : 0;
	pthread_mutex_lock(&p->entry.lock);
	p->entry.rss.bytes = bytes;
	p->entry.rss.read_ns = time_ns;
	p->entry.rss.read_live_bytes = live_bytes;
	if (bytes > p->entry.rss.peak_bytes) {
		p->entry.rss.peak_bytes = bytes;
		p->entry.rss.peak_ns = time_ns;
	}
	raise_to(&p->entry.rss.highest_bytes, status_bytes(text, "\nVmHWM:"));
	raise_to(&p->entry.rss.anonymous_bytes, anonymous);
	process_see_gaps(p);
	pthread_mutex_unlock(&p->entry.lock);
	return bytes;
}
