/* Fuzzes the reader of sampled processes' session files. An input is pieces of such a file (fuzz_pieces.h).
 * Whatever the file says, the indexes in what was read of it are inside their tables. */
#include "agent/sampled_reading.h"

#include "fuzz_pieces.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check(const struct trace_contents *c)
{
	bool good = c->samples_count == 1 && c->process_count == 1;
	for (uint32_t i = 0; i < c->node_count; i++)
		good = good && (c->nodes[i].parent == TRACE_NONE || c->nodes[i].parent < i) &&
		       (c->nodes[i].module == TRACE_NONE || c->nodes[i].module < c->module_count);
	for (uint32_t i = 0; i < c->site_count; i++)
		good = good && c->sites[i].via < TRACE_VIA_COUNT &&
		       (c->sites[i].node == TRACE_NONE || c->sites[i].node < c->node_count);
	for (uint32_t i = 0; i < c->samples->live_count; i++)
		good = good && c->samples->live[i].site < c->site_count;
	for (uint32_t i = 0; i < c->samples->sum_count; i++)
		good = good && c->samples->sums[i].site < c->site_count;
	for (uint32_t i = 0; i < c->module_count; i++)
		good = good && strlen(c->modules[i].path) <= UINT16_MAX;
	if (!good)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct sampled_known known = {.facts = {.pid = 1, .exe = "/bin/x"}, .start_tsc = 1};
	struct sampled_reading r;
	struct heft_error err;
	int fd = memfd_create("session", MFD_CLOEXEC);
	fuzz_fill(fd, WIRE_SAMPLED, data, size);
	if (sampled_read(&r, fd, &known, &err) == 0) {
		check(&r.contents);
		sampled_reading_fini(&r);
	}
	close(fd);
	return 0;
}

#include "fuzz_corpus.h"
