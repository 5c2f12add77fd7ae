/* Reads which pages of a process are in memory (ledger_pages.h). The process stands still meanwhile.
 *
 * PAGEMAP_SCAN gives runs of pages and skips what is not there: 15 to 25 ms for a GiB of small pages, and a
 * reservation of 64 GiB costs nothing. Two things to know about it:
 * - walk_end may lie before the last run that it returned. The next call begins at whichever is further; otherwise
 *   pages count twice.
 * - The page of zeros, which the kernel maps where a program only reads, is in memory and not resident. Only this call
 *   tells an ordinary user which pages those are.
 *
 * Without it there is /proc/PID/pagemap, a word for each page. There, a page of zeros looks like one that is shared with
 * a forked child: anonymous, and not mapped exclusively. If a mapping has such pages, its "Rss" in smaps says how many
 * of them are resident; if some are and some are not, those that hold only zeros are not. */
#include "ledger/ledger_pages.h"

#include "hosted/error.h"
#include "hosted/sorted.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define USER_SPACE_END (UINT64_C(0x7ffffffff000))

/* As in linux/fs.h of Linux 6.7, which Debian 12 does not have yet */
struct scan_region {
	uint64_t start, end, categories;
};
struct scan_request {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_CALL _IOWR('f', 16, struct scan_request)
enum {
	SCAN_FILE = 1 << 2,
	SCAN_PRESENT = 1 << 3,
	SCAN_SWAPPED = 1 << 4,
	SCAN_ZERO = 1 << 5,
	SCAN_HUGE = 1 << 6,
	SCAN_ROOM = 32768, /* runs asked for at a time */
	WORDS = 8192,      /* of pagemap, at a time */
};
/* Looking at the words of a larger mapping would take too long. Where its pages are is then not known; how many
 * there are is. */
#define WORDS_SPAN_MOST (UINT64_C(16) << 30)
#define WORD_PRESENT (UINT64_C(1) << 63)
#define WORD_SWAPPED (UINT64_C(1) << 62)
#define WORD_FILE (UINT64_C(1) << 61)
#define WORD_EXCLUSIVE (UINT64_C(1) << 56)

int ledger_pages_open(struct ledger_pages *p, pid_t pid, struct heft_error *err)
{
	char path[64];
	memset(p, 0, sizeof *p);
	p->pid = pid;
	snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
	p->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (p->fd < 0)
		return errno == ENOENT ? heft_fail(err, HEFT_ENOTFOUND, "process %d has ended", pid)
				       : heft_fail_errno(err, "cannot read %s", path);
	return vector_reserve(p, 4096) ? 0 : heft_fail(err, HEFT_ENOMEM, "no memory for pages");
}

void ledger_pages_fini(struct ledger_pages *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	vector_free(p);
}

static bool add_run(struct ledger_pages *p, uint64_t start, uint64_t end, uint32_t flags)
{
	struct ledger_run *last = p->count ? &p->items[p->count - 1] : NULL;
	if (last && last->end == start && last->flags == flags) {
		last->end = end;
		return true;
	}
	return vector_push(p, (struct ledger_run){start, end, flags});
}

/* ---- PAGEMAP_SCAN */

static bool add_region(struct ledger_pages *p, const struct scan_region *r)
{
	uint64_t zero = SCAN_PRESENT | SCAN_ZERO;
	uint32_t flags = 0;
	if ((r->categories & zero) == SCAN_PRESENT)
		flags |= LEDGER_IN_MEMORY;
	if (r->categories & SCAN_SWAPPED)
		flags |= LEDGER_SWAPPED;
	if (!flags || r->start >= r->end)
		return true;
	if (r->categories & SCAN_FILE)
		flags |= LEDGER_OF_FILE;
	if (r->categories & SCAN_HUGE)
		flags |= LEDGER_HUGE;
	return add_run(p, r->start, r->end, flags);
}

/* 1: this kernel does not know the call. */
static int scan(struct ledger_pages *p, size_t room, struct heft_error *err)
{
	struct scan_region *regions = calloc(room, sizeof *regions);
	int rc = 0;
	if (!regions)
		return heft_fail(err, HEFT_ENOMEM, "no memory for pages");
	for (uint64_t from = 0; from < USER_SPACE_END && !rc;) {
		struct scan_request request = {
			.size = sizeof request,
			.start = from,
			.end = USER_SPACE_END,
			.vec = (uint64_t)(uintptr_t)regions,
			.vec_len = room,
			.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
			.return_mask = SCAN_PRESENT | SCAN_SWAPPED | SCAN_FILE | SCAN_ZERO |
				       SCAN_HUGE,
		};
		long found = ioctl(p->fd, SCAN_CALL, &request);
		if (found < 0 && errno == EINTR)
			continue;
		if (found < 0 && !from && (errno == ENOTTY || errno == EINVAL)) {
			rc = 1;
		} else if (found < 0) {
			rc = errno == ESRCH
				     ? heft_fail(err, HEFT_ENOTFOUND, "process %d has ended",
						 p->pid)
				     : heft_fail_errno(err, "cannot read the pages of process %d",
						       p->pid);
		} else {
			for (long i = 0; i < found && !rc; i++)
				if (!add_region(p, &regions[i]))
					rc = heft_fail(err, HEFT_ENOMEM, "no memory for pages");
			if ((size_t)found < room)
				break; /* it came to the end */
			from = regions[found - 1].end > request.walk_end ? regions[found - 1].end
									 : request.walk_end;
		}
	}
	free(regions);
	return rc;
}

/* ---- pagemap */

/* Pages of one mapping that may be of zeros */
struct doubtful {
	VECTOR_MEMBERS(uint64_t);
	uint64_t pages; /* of the mapping, in memory, with these */
	char *smaps;
};

static char *read_smaps(pid_t pid)
{
	char path[64];
	VECTOR(char) text = {0};
	ssize_t got = -1;
	snprintf(path, sizeof path, "/proc/%d/smaps", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && vector_reserve(&text, 65536) &&
	       (got = read(fd, text.items + text.count, 65535)) > 0)
		text.count += (size_t)got;
	if (fd >= 0)
		close(fd);
	if (got < 0)
		vector_free(&text);
	else
		text.items[text.count] = 0;
	return text.items;
}

/* "Rss" of the mapping that begins at an address; -1: it is not known. */
static int64_t smaps_rss(struct doubtful *d, pid_t pid, uint64_t start)
{
	char head[32];
	if (!d->smaps)
		d->smaps = read_smaps(pid);
	snprintf(head, sizeof head, "%08" PRIx64 "-", start);
	for (const char *line = d->smaps; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, head, strlen(head)))
			continue;
		const char *rss = strstr(line, "\nRss:");
		return rss ? strtoll(rss + 5, NULL, 10) * 1024 : -1;
	}
	return -1;
}

static bool holds_zeros(const struct ledger_pages *p, uint64_t at)
{
	static const uint8_t zeros[LEDGER_PAGE];
	uint8_t page[LEDGER_PAGE];
	struct iovec to = {page, sizeof page}, from = {(void *)(uintptr_t)at, sizeof page};
	return process_vm_readv(p->pid, &to, 1, &from, 1, 0) == sizeof page &&
	       !memcmp(page, zeros, sizeof page);
}

/* The mapping has been read: decides about its doubtful pages. Runs of a mapping are in order, so that those pages are
 * taken out of them from the back. */
static void judge_doubtful(struct ledger_pages *p, struct doubtful *d, uint64_t start)
{
	if (!d->count)
		return;
	int64_t rss = smaps_rss(d, p->pid, start);
	uint64_t resident = rss < 0 ? 0 : (uint64_t)rss / LEDGER_PAGE;
	uint64_t zero = rss < 0 || resident > d->pages ? 0 : d->pages - resident;
	for (size_t i = d->count; i-- > 0 && zero;)
		if (zero == i + 1 || holds_zeros(p, d->items[i])) {
			ledger_pages_drop(p, d->items[i], d->items[i] + LEDGER_PAGE);
			zero--;
		}
	d->count = 0;
}

static int read_words(struct ledger_pages *p, uint64_t start, uint64_t end, struct doubtful *d,
		      struct heft_error *err)
{
	uint64_t words[WORDS];
	d->pages = 0;
	for (uint64_t at = start; at < end;) {
		uint64_t left = (end - at) / LEDGER_PAGE;
		size_t wanted = (left < WORDS ? (size_t)left : WORDS) * sizeof *words;
		ssize_t got = pread(p->fd, words, wanted,
				    (off_t)(at / LEDGER_PAGE * sizeof *words));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return heft_fail_errno(err, "cannot read the pages of process %d", p->pid);
		for (size_t i = 0; i < (size_t)got / sizeof *words; i++, at += LEDGER_PAGE) {
			uint32_t flags = 0;
			if (words[i] & WORD_PRESENT)
				flags |= LEDGER_IN_MEMORY;
			else if (words[i] & WORD_SWAPPED)
				flags |= LEDGER_SWAPPED;
			else
				continue;
			if (words[i] & WORD_FILE)
				flags |= LEDGER_OF_FILE;
			bool doubtful = (flags & LEDGER_IN_MEMORY) &&
					!(words[i] & (WORD_FILE | WORD_EXCLUSIVE));
			d->pages += flags & LEDGER_IN_MEMORY;
			if (!add_run(p, at, at + LEDGER_PAGE, flags) ||
			    (doubtful && !vector_push(d, at)))
				return heft_fail(err, HEFT_ENOMEM, "no memory for pages");
		}
	}
	return 0;
}

static int look_at_words(struct ledger_pages *p, const char *maps_text, struct heft_error *err)
{
	struct doubtful d = {0};
	int rc = 0;
	for (const char *line = maps_text; line && *line && !rc; line = strchr(line, '\n')) {
		uint64_t start, end;
		line += *line == '\n';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) != 2 || start >= end ||
		    end > USER_SPACE_END)
			continue;
		if (end - start > WORDS_SPAN_MOST) {
			int64_t rss = smaps_rss(&d, p->pid, start);
			if (rss > 0 && !add_run(p, start, start + (uint64_t)rss, LEDGER_IN_MEMORY))
				rc = heft_fail(err, HEFT_ENOMEM, "no memory for pages");
			continue;
		}
		rc = read_words(p, start, end, &d, err);
		if (!rc)
			judge_doubtful(p, &d, start);
	}
	vector_free(&d);
	free(d.smaps);
	return rc;
}

int ledger_pages_read(struct ledger_pages *p, const char *maps_text, enum ledger_pages_way way,
		      size_t scan_room, struct heft_error *err)
{
	p->count = p->cursor = 0;
	int rc = way == LEDGER_PAGEMAP ? 1 : scan(p, scan_room ? scan_room : SCAN_ROOM, err);
	return rc == 1 ? look_at_words(p, maps_text, err) : rc;
}

/* ---- what was read */

/* The first run that ends behind an address. */
static size_t run_at(struct ledger_pages *p, uint64_t at)
{
	size_t i = p->cursor;
	if (i < p->count && p->items[i].end > at && (!i || p->items[i - 1].end <= at))
		return i;
	if (i + 1 < p->count && p->items[i].end <= at && p->items[i + 1].end > at)
		return p->cursor = i + 1;
	return p->cursor = count_before(k, p->count, p->items[k].end <= at);
}

uint64_t ledger_pages_drop(struct ledger_pages *p, uint64_t start, uint64_t end)
{
	uint64_t dropped = 0;
	for (size_t i = count_before(k, p->count, p->items[k].end <= start);
	     i < p->count && p->items[i].start < end;) {
		struct ledger_run *r = &p->items[i], before = *r, after = *r;
		before.end = start > r->start ? start : r->start;
		after.start = end < r->end ? end : r->end;
		dropped += after.start - before.end;
		bool left = before.start < before.end, right = after.start < after.end;
		if (left && right) {
			if (!vector_reserve(p, 1))
				return dropped; /* a page too many: no ledger is worth more */
			memmove(&p->items[i + 2], &p->items[i + 1],
				(p->count - i - 1) * sizeof *p->items);
			p->count++;
			p->items[i] = before;
			p->items[i + 1] = after;
			i += 2;
		} else if (left || right) {
			p->items[i++] = left ? before : after;
		} else {
			memmove(&p->items[i], &p->items[i + 1],
				(p->count - i - 1) * sizeof *p->items);
			p->count--;
		}
	}
	p->cursor = 0;
	return dropped;
}

void ledger_pages_measure(struct ledger_pages *p, uint64_t start, uint64_t end,
			  struct ledger_bytes *sum)
{
	if (start >= end)
		return;
	sum->mapped += end - start;
	for (size_t i = run_at(p, start); i < p->count && p->items[i].start < end; i++) {
		const struct ledger_run *r = &p->items[i];
		uint64_t from = r->start > start ? r->start : start;
		uint64_t bytes = (r->end < end ? r->end : end) - from;
		if (r->flags & LEDGER_SWAPPED)
			sum->swapped += bytes;
		if (!(r->flags & LEDGER_IN_MEMORY))
			continue;
		sum->resident += bytes;
		if (!(r->flags & LEDGER_OF_FILE))
			sum->own += bytes;
	}
}

bool ledger_pages_are_own(struct ledger_pages *p, uint64_t start, uint64_t end)
{
	const unsigned own = LEDGER_IN_MEMORY, others = LEDGER_SWAPPED | LEDGER_OF_FILE;
	size_t i = run_at(p, start);
	return i < p->count && p->items[i].start <= start && end <= p->items[i].end &&
	       (p->items[i].flags & (own | others)) == own;
}

bool ledger_pages_have(struct ledger_pages *p, uint64_t at)
{
	size_t i = run_at(p, at);
	return i < p->count && p->items[i].start <= at && (p->items[i].flags & LEDGER_IN_MEMORY);
}

uint64_t ledger_pages_next(struct ledger_pages *p, uint64_t at, uint32_t flags)
{
	size_t i = run_at(p, at);
	while (i < p->count && !(p->items[i].flags & flags))
		i++;
	if (i == p->count)
		return UINT64_MAX;
	return p->items[i].start > at ? p->items[i].start : at;
}
