/* Fuzzes the reader of exactly recorded processes' session files: streams, chunks of records, stack nodes and the
 * log of modules and threads, from the drain to the writer. An input is pieces of such a file, as in fuzz_session.c.
 * Whatever the file says, a recording comes out that can be read, or the file is found corrupt. */
#include "record/drain.h"

#include "fuzz_pieces.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3 };
#define LATEST (UINT64_C(1) << 62)
static char session_folder[] = "/tmp/heft-fuzz-XXXXXX";
static char session_name[32], recording[64];
static int folder_fd = -1;

static void remove_folder(void)
{
	unlinkat(folder_fd, session_name, 0);
	unlink(recording);
	rmdir(session_folder);
}

static void make_folder(void)
{
	if (folder_fd >= 0)
		return;
	snprintf(session_name, sizeof session_name, "%x.1", (unsigned)getpid());
	if (!mkdtemp(session_folder) ||
	    (folder_fd = open(session_folder, O_PATH | O_DIRECTORY)) < 0)
		abort();
	snprintf(recording, sizeof recording, "%s/r.heft", session_folder);
	atexit(remove_folder);
}

/* What was written must be a recording. */
static void read_back(void)
{
	struct trace_reader *r;
	struct heft_error err = {0};
	if (trace_reader_open(&r, recording, &err) < 0)
		abort();
	trace_reader_close(r);
}

static void record(struct process *p)
{
	struct trace_writer *w;
	struct drain d;
	const struct trace_meta meta = {.heft_version = "", .page_bytes = 4096, .tick_ns = 2048};
	struct heft_error err = {0};
	if (trace_writer_open(&w, recording, true, &meta, &err) < 0)
		abort();
	drain_init(&d, w);
	trace_writer_process(w, &p->entry.facts);
	/* Stamps are of the machine where the input was made: all are in the past here. */
	for (int i = 0; i < ROUNDS; i++) {
		drain_begin(&d);
		drain_round(&d, &p, 1, LATEST, LATEST);
	}
	p->end_tsc = LATEST;
	drain_process_end(&d, p);
	drain_flush(&d);
	uint64_t end_ns = drain_now_ns(&d);
	if (end_ns < d.last_ns)
		end_ns = d.last_ns;
	if (trace_writer_close(w, end_ns, &d.tally, &err) == 0)
		read_back();
	drain_fini(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct process *p;
	struct heft_error err = {0};
	make_folder();
	int fd = openat(folder_fd, session_name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	fuzz_fill(fd, WIRE_EXACT, data, size);
	close(fd);
	if (recorded_process_open(&p, folder_fd, session_name, &err) == 0) {
		record(p);
		process_free(p);
	}
	return 0;
}

#include "fuzz_corpus.h"
