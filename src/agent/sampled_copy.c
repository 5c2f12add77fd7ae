/* Reads a session file into memory of our own, with pread: a program that cuts its file makes a read short,
 * but raises no signal, and what was checked cannot change afterwards. The file is sparse. Its holes are not
 * read, so they get no memory; a copy is never longer than a session file.
 *
 * The program writes meanwhile. Samples and sums name stack nodes that were there before, so nodes and modules
 * are copied after the tables. A live sample counts if its address is the same before and after it was copied
 * (wire/samples.h). */
#include "agent/sampled_copy.h"

#include "wire/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

static int copy_bytes(struct sampled_copy *c, int fd, uint64_t from, uint64_t to)
{
	while (from < to) {
		ssize_t n = pread(fd, (char *)c->base + from, to - from, (off_t)from);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? HEFT_EIO : HEFT_EFORMAT; /* an error, or it was cut */
		from += (uint64_t)n;
	}
	return 0;
}

/* Copies [from, to) but for its holes. */
static int copy_range(struct sampled_copy *c, int fd, uint64_t from, uint64_t to)
{
	int rc = 0;
	while (from < to && rc == 0) {
		off_t data = lseek(fd, (off_t)from, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			return 0; /* holes up to the end */
		if (data < 0)     /* this file system does not know its holes */
			return copy_bytes(c, fd, from, to);
		if ((uint64_t)data >= to)
			return 0;
		off_t hole = lseek(fd, data, SEEK_HOLE);
		uint64_t end = hole > data && (uint64_t)hole < to ? (uint64_t)hole : to;
		rc = copy_bytes(c, fd, (uint64_t)data, end);
		from = end;
	}
	return rc;
}

/* Clears the addresses that are others now than when they were copied. */
static int drop_changed(struct sampled_copy *c, int fd, const struct wire_live_level *l,
			uint64_t *now)
{
	const uint64_t at = (uint64_t)((char *)l->addresses - (char *)c->base);
	const uint32_t count = 1u << l->bits, most = PIECE / sizeof *now;
	for (uint32_t i = 0; i < count; i += most) {
		uint32_t n = count - i < most ? count - i : most;
		ssize_t bytes = (ssize_t)(n * sizeof *now);
		if (pread(fd, now, (size_t)bytes, (off_t)(at + i * sizeof *now)) != bytes)
			return HEFT_EFORMAT;
		for (uint32_t k = 0; k < n; k++)
			if (atomic_load_explicit(&l->addresses[i + k], memory_order_relaxed) !=
			    now[k])
				atomic_store_explicit(&l->addresses[i + k], 0,
						      memory_order_relaxed);
	}
	return 0;
}

static int copy_tables(struct sampled_copy *c, int fd)
{
	const struct wire_sampling *s = &c->session.header->sampling;
	const uint32_t levels = atomic_load(&s->live_levels);
	uint64_t *now = malloc(PIECE);
	int rc = now ? copy_range(c, fd, WIRE_CHUNKS_OFFSET, WIRE_ANSWER_OFFSET) : HEFT_ENOMEM;
	for (unsigned k = 0; k < levels && k < WIRE_SAMPLE_LEVELS && rc == 0; k++) {
		struct wire_live_level l = wire_live_level(c->base, k);
		rc = drop_changed(c, fd, &l, now);
	}
	free(now);
	return rc;
}

static int copy_file(struct sampled_copy *c, int fd)
{
	const struct wire_header *h = c->session.header;
	struct stat st;
	int rc = copy_bytes(c, fd, 0, WIRE_HEADER_BYTES);
	if (rc == 0 && (atomic_load(&h->magic) != WIRE_MAGIC || h->version != WIRE_VERSION ||
			h->mode != WIRE_SAMPLED))
		rc = HEFT_EFORMAT;
	if (rc == 0)
		rc = copy_tables(c, fd);
	if (rc == 0)
		rc = copy_range(c, fd, WIRE_LOG_OFFSET, WIRE_CHUNKS_OFFSET);
	/* Behind its end a file that was cut has holes only. */
	if (rc == 0 && (fstat(fd, &st) || (uint64_t)st.st_size != WIRE_FILE_BYTES))
		rc = HEFT_EFORMAT;
	return rc;
}

int sampled_copy_open(struct sampled_copy *c, int fd, struct heft_error *err)
{
	c->base = mmap(NULL, WIRE_FILE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->base == MAP_FAILED)
		return heft_fail(err, HEFT_ENOMEM, "no memory for a copy of a session file");
	c->session = wire_session_at(c->base);
	int rc = copy_file(c, fd);
	if (rc == 0)
		return 0;
	sampled_copy_close(c);
	return rc == HEFT_EIO
		       ? heft_fail_errno(err, "cannot read a session file")
		       : heft_fail(err, rc, "%s",
				   rc == HEFT_ENOMEM ? "no memory for a copy of a session file"
						     : "the session file is damaged: it was cut "
						       "off or written over");
}

void sampled_copy_close(struct sampled_copy *c)
{
	munmap(c->base, WIRE_FILE_BYTES);
}
