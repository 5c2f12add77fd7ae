/* Fuzzes what the server of HTTP takes from a worker, which has read hostile bytes: the input is what the worker sends on
 * its channels, with the first byte odd as a description whose answer's head is right. Whatever it is, nothing waits
 * long, and pages and metrics that are made of it have the lines that they always have. Without libFuzzer: runs over the
 * files and folders given, and over damaged copies of each. */
#include "hosted/error.h"
#include "pprof/pprof_pages.h"
#include "pprof/source_channel.h"
#include "pprof/source_workers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LARGEST = 32 << 10, WORKER = 1, KEY = 1, CALLS = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* All that a worker will ever say is there before it is asked. */
static int said(const void *head, size_t head_bytes, const uint8_t *data, size_t size)
{
	int pair[2];
	const int room = 4 * LARGEST;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair))
		abort();
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
	if (send(pair[1], head, head_bytes, 0) != (ssize_t)head_bytes ||
	    send(pair[1], data, size, 0) != (ssize_t)size)
		abort();
	shutdown(pair[1], SHUT_WR);
	static int others[SOURCE_CHANNELS], next;
	if (others[next])
		close(others[next]); /* the other end was open until now: questions had room */
	others[next] = pair[1];
	next = (next + 1) % SOURCE_CHANNELS;
	return pair[0];
}

static void describe(const struct source *s)
{
	struct source_process *p = calloc(1, sizeof *p);
	struct heft_error err;
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);
	if (!p || !out)
		abort();
	if (s->describe(s->ctx, KEY, p, &err) == 0) {
		const struct pprof_list list = {p, 1, 0};
		const struct http_stats stats = {0};
		if (p->key != KEY || p->pid != 77 || p->uid != 42)
			abort(); /* whose process it is, the worker does not say */
		metrics_write(out, p, 1, &stats);
		fflush(out);
		for (const char *line = text; *line; line = strchr(line, '\n') + 1)
			if (strncmp(line, "heft_", 5) != 0 && strncmp(line, "# ", 2) != 0)
				abort();
		pprof_write_index(out, &list, "", NULL);
		fflush(out);
		for (const char *at = text; *at; at++)
			if ((unsigned char)*at < ' ' && *at != '\n')
				abort();
	}
	fclose(out);
	free(text);
	free(p);
}

static void take(const struct source *s, enum source_form form)
{
	const struct source_wish wish = {.form = form, .addresses = "0x1"};
	struct heft_error err;
	void *profile = NULL;
	char *bytes = NULL;
	size_t length = 0;
	int rc = SOURCE_LATER;
	for (int i = 0; i < CALLS && rc == SOURCE_LATER; i++)
		rc = s->take(s->ctx, KEY, &profile, &err);
	for (int i = 0; i < CALLS && rc == 0; i++) {
		rc = s->render(s->ctx, profile, &wish, &bytes, &length, &err);
		if (rc == 0 && bytes[length])
			abort();
		if (rc != SOURCE_LATER)
			break;
		rc = 0;
	}
	free(bytes);
	s->drop(s->ctx, profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct source_entry e = {.key = KEY, .pid = 77, .uid = 42, .running = true};
	const struct channel_answer right = {.bytes = sizeof(struct source_process)};
	uint8_t whole[sizeof(struct source_process)] = {0};
	int fds[SOURCE_CHANNELS];
	if (!size || size > LARGEST)
		return 0;
	signal(SIGPIPE, SIG_IGN);
	bool mended = data[0] & 1;
	size_t bytes = size - 1 < sizeof whole ? size - 1 : sizeof whole;
	memcpy(whole, data + 1, bytes);
	struct source_workers *workers = source_workers_new();
	if (!workers)
		abort();
	fds[0] = mended ? said(&right, sizeof right, whole, sizeof whole)
			: said(NULL, 0, data + 1, size - 1);
	for (int i = 1; i < SOURCE_CHANNELS; i++)
		fds[i] = said(NULL, 0, data + 1, size - 1);
	source_workers_begin(workers, WORKER, fds);
	source_workers_set(workers, &e, WORKER);
	struct source s = source_workers_source(workers);
	describe(&s);
	take(&s, (enum source_form)(data[0] / 2 % SOURCE_FORMS_ALL));
	take(&s, SOURCE_HEAP);
	source_workers_free(workers);
	return 0;
}

#ifndef HEFT_LIBFUZZER
#define FUZZ_OWN_MAIN
#endif
#include "fuzz_corpus.h"

#ifndef HEFT_LIBFUZZER
static void store(const char *folder, const char *name, char first, const void *bytes, size_t size)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE *f = fopen(path, "wb");
	if (!f || putc(first, f) == EOF || fwrite(bytes, 1, size, f) != size || fclose(f)) {
		perror(path);
		exit(1);
	}
}

/* --make FOLDER: the seeds. */
static void make(const char *folder)
{
	struct source_process p = {.exe = "/bin/a\"\n\033[31m",
				   .command = "a\0b",
				   .command_bytes = 4,
				   .ended = "exit status 0\n<b>",
				   .sampled = true,
				   .partly = true,
				   .live_bytes = 1e6,
				   .unseen = "line\nheft_x 1\n",
				   .cost_share = -1};
	store(folder, "process", 1, &p, sizeof p);
	struct {
		struct channel_answer taken, rendered;
		char bytes[8];
	} answers = {{.profile = 3}, {.bytes = 8}, "profile"};
	for (char form = 0; form < SOURCE_FORMS_ALL; form++) {
		char name[16];
		snprintf(name, sizeof name, "form%d", form);
		store(folder, name, (char)(form * 2), &answers, sizeof answers);
	}
	answers.taken.code = -1;
	memset(answers.taken.message, 'x', sizeof answers.taken.message);
	store(folder, "refused", 0, &answers, sizeof answers);
	answers.taken = (struct channel_answer){.bytes = UINT64_MAX};
	store(folder, "large", 0, &answers, sizeof answers);
}

int main(int argc, char **argv)
{
	unsigned files = 0;
	if (argc == 3 && !strcmp(argv[1], "--make")) {
		make(argv[2]);
		return 0;
	}
	for (int i = 1; i < argc; i++)
		files += fuzz_run(argv[i]);
	printf("%u files\n", files);
	return files == 0;
}
#endif
