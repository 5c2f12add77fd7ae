/* What a process that is recorded exactly gets when it asks something of its recording (include/heft.h): the call sites
 * behind an expectation that does not hold, or a copy. Both come from the recording's file, which is still being
 * written. */
#define HEFT_INSIDE
#include "cli/exact_answers.h"

#include "cli/cli.h"
#include "heft.h"
#include "hosted/number_words.h"
#include "profile/measure.h"
#include "profile/profile_from_trace.h"
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SITES_SHOWN = 5 };
#define COPY_MOST (1ull << 31)

static int copy_of(const char *path, char **bytes, size_t *length)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) || (uint64_t)st.st_size > COPY_MOST)
		goto failed;
	*bytes = malloc((size_t)st.st_size + 1);
	for (*length = 0; *bytes && *length < (size_t)st.st_size;) {
		ssize_t n = read(fd, *bytes + *length, (size_t)st.st_size - *length);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		*length += (size_t)n;
	}
	close(fd);
	return *bytes ? 0 : HEFT_ENOMEM;
failed:
	if (fd >= 0)
		close(fd);
	return HEFT_EIO;
}

/* What the sites are ordered by, for a field of struct heft_stats. Frees have no sites of their own: what was allocated
 * may say more. */
static enum measure_id measure_of_field(uint32_t field)
{
	static const enum measure_id of[] = {
		[offsetof(struct heft_stats, allocations) / 8] = MEASURE_ALLOCATIONS,
		[offsetof(struct heft_stats, reallocations) / 8] = MEASURE_REALLOCATIONS,
		[offsetof(struct heft_stats, frees) / 8] = MEASURE_ALLOCATIONS,
		[offsetof(struct heft_stats, allocated_bytes) / 8] = MEASURE_ALLOCATED_BYTES,
		[offsetof(struct heft_stats, freed_bytes) / 8] = MEASURE_ALLOCATED_BYTES,
		[offsetof(struct heft_stats, live_bytes) / 8] = MEASURE_GREW_BYTES,
		[offsetof(struct heft_stats, live_blocks) / 8] = MEASURE_GREW_BLOCKS,
		[offsetof(struct heft_stats, peak_bytes) / 8] = MEASURE_PEAK_BYTES,
	};
	return field < sizeof of / sizeof *of ? of[field] : MEASURE_ALLOCATIONS;
}

/* What sites had at the peak beyond what they had when the region began. */
static void take_off_start(struct profile *p)
{
	for (uint32_t i = 0; i < p->site_count; i++) {
		struct profile_site *s = &p->sites[i];
		s->peak_bytes -= s->start_bytes < s->peak_bytes ? s->start_bytes : s->peak_bytes;
	}
}

int exact_answer(void *ctx, const struct recorder_question *q, char **bytes, size_t *length)
{
	const struct live_source *s = ctx;
	char tid[16];
	struct heft_error err = {0};
	struct profile *p;
	if (q->wants_copy)
		return copy_of(s->recording, bytes, length);
	snprintf(tid, sizeof tid, "%d", q->tid);
	const struct profile_selection selection = {.has_pid = true,
						    .pid = q->pid,
						    .thread = q->tid ? tid : NULL,
						    .has_window = q->to_ns > q->from_ns,
						    .from_ns = q->from_ns,
						    .to_ns = q->to_ns};
	int rc = profile_from_recording(&p, s->recording, &selection, &err);
	if (rc)
		return rc;
	FILE *out = open_memstream(bytes, length);
	if (out) {
		cli_apply_frame_rules(p, NULL, &err);
		take_off_start(p);
		rc = report_top_sites(out, p, measure_of_field(q->field), SITES_SHOWN);
		if (fclose(out))
			rc = HEFT_ENOMEM;
	} else
		rc = HEFT_ENOMEM;
	profile_free(p);
	return rc;
}
